"""An invalid setting stops the start, and the last line says what to do."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.crawl.ledger.reader import APPLICATION_ID, VERSION
from tests import forks
from tests.crawl.crawl import ADDON, BY_HAND
from tests.crawl.runner import MODE_SETTINGS
from tests.tools.rep import plain_environment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

SPIDER = """
import scrapy

class Spider(scrapy.Spider):
    name = "one"
    start_urls = ["URL"]
    custom_settings = {"USER_AGENT": "testbot", **ENABLED}

    def parse(self, response):
        pass
"""


def shown_by_spider(
    folder: Path, mode: str, *wrong: str, enable: object = ADDON, url: str = "data:,one"
) -> list[str]:
    """Run ``scrapy runspider``, which leaves errors at the start to its event loop, with the wrong
    settings. Return the lines that it prints.
    """
    spider = folder / "one.py"
    spider.write_text(SPIDER.replace("ENABLED", repr(enable)).replace("URL", url))
    mode_settings = [f"{name}={value}" for name, value in MODE_SETTINGS[mode].items()]
    options = [word for setting in (*mode_settings, *wrong) for word in ("-s", setting)]
    command = ["scrapy", "runspider", str(spider), *options]
    done = forks.run(command, cwd=folder, env=plain_environment())
    lines = (done.stdout + done.stderr).decode().strip().split("\n")
    assert bool(done.returncode) is (
        b"scrapy_rep.exceptions." in done.stdout + done.stderr
    )
    return lines


@pytest.mark.parametrize(
    ("enable", "setting", "last"),
    [
        (ADDON, "REP_DIALECT=gogle", "SettingError: REP_DIALECT is 'gogle', but it must"), (BY_HAND,
        "REP_DIALECT=gogle", "SettingError: REP_DIALECT is 'gogle', but it "), (ADDON, "REP_LEDGER=one.py/ledger",
        "SettingError: REP_LEDGER is 'one.py/ledger', but it must be the path of a ledger, or "),
    ],
    ids=["add-on", "by hand", "ledger"],
)  # fmt: skip
def test_an_invalid_setting_ends_the_process_and_the_last_line_names_it(  # noqa: PLR0917
    site: Site, mode: str, tmp_path: Path, enable: object, setting: str, last: str
) -> None:
    """An invalid setting, or a REP_LEDGER where no file can be created, ends the process before any
    request, and the last line names it, its value and what would be valid, or the reason.
    ``tests/base/test_settings.py`` has each setting.
    """
    host = site.add()
    url = host.url("/")
    lines = shown_by_spider(tmp_path, mode, setting, enable=enable, url=url)
    assert host.hits == []
    # Without a reactor and without the add-on, aiohttp says that Scrapy left its sessions open.
    while mode == "reactorless" and "session" in lines[-1]:
        del lines[-1]
    assert lines[-1].startswith(f"scrapy_rep.exceptions.{last}")


def test_a_ledger_of_another_version_stops_the_start(
    site: Site, tmp_path: Path
) -> None:
    """A crawl does not start on a ledger that another version wrote. The last line says what the file
    is and what to do, and nothing in it is touched.
    """
    host, path = site.add(), tmp_path / "old.ledger"
    with closing(sqlite3.connect(path)) as old:
        old.executescript(
            "CREATE TABLE decision (id INTEGER PRIMARY KEY);"
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION - 1}"
        )
    before = path.read_bytes()
    lines = shown_by_spider(
        tmp_path, "asyncio", "REP_LEDGER=old.ledger", url=host.url("/")
    )
    assert lines[-1] == (
        "scrapy_rep.exceptions.SettingError: REP_LEDGER is 'old.ledger', but it must be the path of a "
        "ledger, or of a new file: old.ledger: another version of scrapy-rep wrote the file (in "
        f"format {VERSION - 1}; this version needs format {VERSION}); use the other version, or a new file."
    )
    assert (host.hits, path.read_bytes()) == ([], before)
    assert {path.name for path in tmp_path.iterdir()} >= {"old.ledger", "one.py"}


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("REP_LEDGER=one.py", "path of a ledger, or of a new file: one.py: file is not a"),
        ("REP_LEDGER=a/b/c.sqlite", "path of a file in an existing folder; create FOLDER/a first."),
        ("REP_LEDGER=%(day)s", "a path, optionally with the placeholders %(name)s, %(pid)s, %(time)s."),
        ("REP_STORE=sqlite:///a/b/c/d.sqlite", "in an existing folder; create FOLDER/a first."),
        ("REP_OVERRIDES=example.com", """in JSON, as in -s 'REP_OVERRIDES={"example.com": "ignore"}'."""),
    ],
)  # fmt: skip
def test_a_path_that_cannot_be_used_stops_the_start(
    tmp_path: Path, setting: str, why: str
) -> None:
    """A path that cannot be used stops the crawl, and the last line names the setting, the value and
    the reason. No folder is made for it.
    """
    *_, last = shown_by_spider(tmp_path, "asyncio", setting)
    name, _, value = setting.partition("=")
    assert last.startswith(
        f"scrapy_rep.exceptions.SettingError: {name} is {value!r}, but "
    )
    assert why.replace("FOLDER", str(tmp_path)) in last
    assert not [
        path for path in tmp_path.iterdir() if path.is_dir() and path.name == "a"
    ]


@pytest.mark.parametrize(
    "setting",
    ["REP_LEDGER=kept/ledger.sqlite", "REP_STORE=sqlite:///kept/robots.sqlite"],
)
def test_the_last_folder_of_a_path_is_made(tmp_path: Path, setting: str) -> None:
    """If only the last folder of a path is missing, the crawl makes it, and says so."""
    name, folder = setting.partition("=")[0], tmp_path / "kept"
    shown = "\n".join(shown_by_spider(tmp_path, "asyncio", setting))
    assert f"INFO: {name}: created the folder {folder}, which did not exist" in shown
    assert folder.is_dir()
    assert "created the folder" not in "\n".join(
        shown_by_spider(tmp_path, "asyncio", setting)
    )


def test_the_addon_among_the_middlewares_stops_the_start(
    site: Site, tmp_path: Path
) -> None:
    """The add-on in DOWNLOADER_MIDDLEWARES stops the crawl, and the last line says where it belongs."""
    host = site.add()
    wrong = {"DOWNLOADER_MIDDLEWARES": {"scrapy_rep.Addon": 543}}
    *_, last = shown_by_spider(tmp_path, "asyncio", enable=wrong, url=host.url("/"))
    assert last == (
        "scrapy_rep.exceptions.SettingError: A key of DOWNLOADER_MIDDLEWARES is 'scrapy_rep.Addon', "
        "but it must be another class: an add-on belongs in ADDONS = {'scrapy_rep.Addon': 500}."
    )
    assert host.hits == []


def test_an_unknown_rep_name_causes_one_warning(mode: str, tmp_path: Path) -> None:
    """Each unknown REP_ name causes one warning with the nearest known name, and the crawl goes
    on. An empty REP_LEDGER means that there is none, and one warning says that its level has no
    effect then.
    """
    wrong = ["REP_CRAWL_DELAYS=1", "REP_XYZZY=1", "REP_LEDGER=", "REP_LEDGER_LEVEL=all"]
    shown = "\n".join(shown_by_spider(tmp_path, mode, *wrong))
    nothing = "is not a setting of scrapy-rep and has no effect."
    meant = " Did you mean REP_CRAWL_DELAY_OBEY?\n"
    assert shown.count(f"WARNING: REP_CRAWL_DELAYS {nothing}{meant}") == 1
    assert (
        shown.count(f"WARNING: REP_XYZZY {nothing} Correct its name, or remove it.\n")
        == 1
    )
    assert (
        shown.count("WARNING: REP_LEDGER_LEVEL has no effect, because REP_LEDGER") == 1
    )
    assert "Spider closed (finished)" in shown
