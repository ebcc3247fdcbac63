"""An invalid setting stops the start with one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import forks
from tests.commands.rep import plain_environment
from tests.crawl.crawl import ADDON, BY_HAND, run_crawl
from tests.crawl.runner import MODE_SETTINGS

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.crawl.server import Site

pytestmark = pytest.mark.newest

BAD = [
    ("REP_DIALECT", "gogle", ("rfc9309", "google", "classic")),
    ("REP_DOWNLOAD_TIMEOUT", -1, ("number",)),
    ("REP_DOWNLOAD_TIMEOUT", "soon", ("number",)),
    ("REP_OVERRIDES", {"x": "ignor"}, ("obey", "ignore")),
    ("REP_RETRY_TIMES", -1, ("number",)),
    ("ROBOTSTXT_USER_AGENT", "Bot 1", ("letters",)),
]


@pytest.mark.parametrize(("name", "value", "allowed"), BAD)
def test_with_the_add_on(
    site: Site, name: str, value: object, allowed: tuple[str, ...]
) -> None:
    """The process fails before any request, and names the setting, its
    value and the valid values.
    """
    check(site, ADDON, name, value, allowed)


@pytest.mark.parametrize(("name", "value", "allowed"), BAD[:1])
def test_by_hand(
    site: Site, name: str, value: object, allowed: tuple[str, ...]
) -> None:
    """An invalid setting stops the start also without the add-on."""
    check(site, BY_HAND, name, value, allowed)


@pytest.mark.parametrize("mode", ["select", "reactorless"], indirect=True)
def test_in_other_modes(site: Site, mode: str) -> None:
    """An invalid setting stops the start in all modes of Scrapy."""
    name, value, allowed = BAD[0]
    check(site, ADDON, name, value, allowed, mode)


def check(  # noqa: PLR0917
    site: Site,
    enable: dict[str, object],
    name: str,
    value: object,
    allowed: tuple[str, ...],
    mode: str = "asyncio",
) -> None:
    host = site.add()
    result = run_crawl(
        [host.url("/public")], enable=enable, settings={name: value}, mode=mode
    )
    assert result.exit_code != 0
    assert host.hits == []
    bad = value
    if isinstance(value, dict):
        (key, bad), *_ = value.items()
        name = f"{name}[{key!r}]"
    sentences = [
        line
        for line in result.log.splitlines()
        if all(word in line for word in (f"{name} is {bad!r}", *allowed))
    ]
    assert sentences, result.log


COMMAND_LINES = {
    "asyncio": (),
    "select": ("-s", f"TWISTED_REACTOR={MODE_SETTINGS['select']['TWISTED_REACTOR']}"),
    "reactorless": ("-s", "TWISTED_REACTOR_ENABLED=False"),
}

SPIDER = """
import scrapy

class Spider(scrapy.Spider):
    name = "one"
    start_urls = ["data:,one"]
    custom_settings = {"USER_AGENT": "testbot", **ENABLED}

    def parse(self, response):
        pass
"""


def run_spider(
    folder: Path, mode: str, *arguments: str, enable: dict[str, object] = ADDON
) -> CompletedProcess[bytes]:
    """Run ``scrapy runspider``, which leaves errors at the start to its event loop."""
    spider = folder / "one.py"
    spider.write_text(SPIDER.replace("ENABLED", repr(enable)))
    command = ["scrapy", "runspider", str(spider), *COMMAND_LINES[mode], *arguments]
    return forks.run(command, cwd=folder, env=plain_environment())


@pytest.mark.parametrize("enable", [ADDON, BY_HAND], ids=["add-on", "by hand"])
def test_the_sentence_alone(
    every_mode: str, tmp_path: Path, enable: dict[str, object]
) -> None:
    """The sentence about an invalid setting is the last output, without a traceback."""
    wrong = ["-s", "REP_DIALECT=gogle"]
    done = run_spider(tmp_path, every_mode, *wrong, enable=enable)
    shown = (done.stdout + done.stderr).decode()
    *before, last = shown.strip().split("\n")
    assert "REP_DIALECT is 'gogle', but it must be 'rfc9309', 'google', " in last
    assert "gogle" not in "\n".join(before).replace("'REP_DIALECT': 'gogle'", "")
    assert "Traceback" not in shown
    assert "Unhandled" not in shown
    assert "never retrieved" not in shown


def test_a_ledger_that_can_not_be(every_mode: str, tmp_path: Path) -> None:
    """A REP_LEDGER where no file can be created stops the start with one sentence. An empty
    one means that there is no ledger.
    """
    place = tmp_path / "one.py" / "ledger.sqlite"
    done = run_spider(tmp_path, every_mode, "-s", f"REP_LEDGER={place}")
    shown = (done.stdout + done.stderr).decode()
    assert f"{place}: " in shown.strip().split("\n")[-1]
    assert "Traceback" not in shown
    done = run_spider(tmp_path, every_mode, "-s", "REP_LEDGER=")
    assert b"Spider closed (finished)" in done.stdout + done.stderr


def test_names_that_are_no_settings(tmp_path: Path) -> None:
    """Each unknown REP_ name causes one warning with the nearest known
    name, and the crawl goes on.
    """
    wrong = ["-s", "REP_CRAWL_DELAYS=1", "-s", "REP_XYZZY=1"]
    done = run_spider(tmp_path, "asyncio", *wrong)
    shown = (done.stdout + done.stderr).decode()
    nothing = "is not a setting of scrapy-rep and has no effect."
    meant = " Did you mean REP_CRAWL_DELAY?\n"
    assert shown.count(f"WARNING: REP_CRAWL_DELAYS {nothing}{meant}") == 1
    assert shown.count(f"WARNING: REP_XYZZY {nothing}\n") == 1
    assert "Spider closed (finished)" in shown


def test_good_values_start(site: Site) -> None:
    """Values at the limits are accepted, also as text."""
    host = site.add()
    settings = {
        "REP_DIALECT": "scrapy_rep.CLASSIC",
        "REP_DOWNLOAD_TIMEOUT": "0.5",
        "REP_OVERRIDES": '{"*.example.com": "ignore", "[::1]:8080": "obey"}',
        "REP_REQUEST_META_KEYS": "download_slot,session",
        "REP_RETRY_TIMES": 0,
        "ROBOTSTXT_USER_AGENT": ["one-bot", "Other_Bot"],
    }
    result = run_crawl([host.url("/public")], settings=settings)
    assert result.exit_code == 0
    assert host.pages == ["/public"]
