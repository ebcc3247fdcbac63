"""An invalid setting stops the start, and the last line says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import forks
from tests.commands.rep import plain_environment
from tests.crawl.crawl import ADDON, BY_HAND
from tests.crawl.runner import MODE_SETTINGS

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

WRONG = "REP_DIALECT is 'gogle', but it must be 'rfc9309', 'google', "


COMMAND_LINES = {
    "asyncio": (),
    "select": ("-s", f"TWISTED_REACTOR={MODE_SETTINGS['select']['TWISTED_REACTOR']}"),
    "reactorless": ("-s", "TWISTED_REACTOR_ENABLED=False"),
}

SPIDER = """
import scrapy

class Spider(scrapy.Spider):
    name = "one"
    start_urls = ["URL"]
    custom_settings = {"USER_AGENT": "testbot", **ENABLED}

    def parse(self, response):
        pass
"""


def run_spider(
    folder: Path,
    mode: str,
    *arguments: str,
    enable: dict[str, object] = ADDON,
    url: str = "data:,one",
) -> CompletedProcess[bytes]:
    """Run ``scrapy runspider``, which leaves errors at the start to its event loop."""
    spider = folder / "one.py"
    spider.write_text(SPIDER.replace("ENABLED", repr(enable)).replace("URL", url))
    command = ["scrapy", "runspider", str(spider), *COMMAND_LINES[mode], *arguments]
    return forks.run(command, cwd=folder, env=plain_environment())


def shown(done: CompletedProcess[bytes]) -> list[str]:
    """The lines that a process has printed."""
    return (done.stdout + done.stderr).decode().strip().split("\n")


@pytest.mark.parametrize("enable", [ADDON, BY_HAND], ids=["add-on", "by hand"])
def test_the_last_line(
    site: Site, mode: str, tmp_path: Path, enable: dict[str, object]
) -> None:
    """An invalid setting ends the process before any request, and the last line says what to do:
    it names the setting, its value and the valid values. ``tests/test_settings.py`` has each
    setting. Without a reactor
    and without the add-on, aiohttp then says that Scrapy has left its sessions open.
    """
    wrong = ["-s", "REP_DIALECT=gogle"]
    host = site.add()
    done = run_spider(tmp_path, mode, *wrong, enable=enable, url=host.url("/"))
    assert host.hits == []
    assert done.returncode
    lines = shown(done)
    if mode == "reactorless" and enable is BY_HAND:
        while "client_session: <" in lines[-1] or "Unclosed client" in lines[-1]:
            del lines[-1]
    assert lines[-1].startswith(f"scrapy_rep.exceptions.SettingError: {WRONG}")


def test_a_ledger_that_can_not_be(mode: str, tmp_path: Path) -> None:
    """A REP_LEDGER where no file can be created ends the process, and the last line names the
    path and the reason.
    """
    place = tmp_path / "one.py" / "ledger.sqlite"
    done = run_spider(tmp_path, mode, "-s", f"REP_LEDGER={place}")
    last = shown(done)[-1]
    assert last.startswith(f"scrapy_rep.exceptions.LedgerError: {place}: ")


def test_names_that_are_no_settings(mode: str, tmp_path: Path) -> None:
    """Each unknown REP_ name causes one warning with the nearest known name, and the crawl goes
    on. An empty REP_LEDGER means that there is none.
    """
    wrong = ["-s", "REP_CRAWL_DELAYS=1", "-s", "REP_XYZZY=1", "-s", "REP_LEDGER="]
    done = run_spider(tmp_path, mode, *wrong)
    shown = (done.stdout + done.stderr).decode()
    nothing = "is not a setting of scrapy-rep and has no effect."
    meant = " Did you mean REP_CRAWL_DELAY?\n"
    assert shown.count(f"WARNING: REP_CRAWL_DELAYS {nothing}{meant}") == 1
    assert shown.count(f"WARNING: REP_XYZZY {nothing}\n") == 1
    assert "Spider closed (finished)" in shown
