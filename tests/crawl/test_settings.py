"""Tests of invalid settings: the crawl does not start, and the last line of the output says what to do."""

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


def run_spider(
    folder: Path,
    mode: str,
    *assignments: str,
    enable: object = ADDON,
    url: str = "data:,one",
) -> list[str]:
    """Run ``scrapy runspider`` in *folder* with *assignments*, such as ``REP_XYZZY=1``, on its command line.
    Return the lines of its output.

    *enable* is a dict of the settings that enable this package. *url* is the start URL of the spider.
    """
    spider = folder / "one.py"
    spider.write_text(SPIDER.replace("ENABLED", repr(enable)).replace("URL", url))
    mode_settings = [f"{name}={value}" for name, value in MODE_SETTINGS[mode].items()]
    options = [
        word for setting in (*mode_settings, *assignments) for word in ("-s", setting)
    ]
    # This command does not handle an error at the start of the crawl: its event loop reports it.
    command = ["scrapy", "runspider", str(spider), *options]
    completed = forks.run(command, cwd=folder, env=plain_environment())
    lines = (completed.stdout + completed.stderr).decode().strip().split("\n")
    assert bool(completed.returncode) is (
        b"scrapy_rep.exceptions." in completed.stdout + completed.stderr
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
    """An invalid setting, or a REP_LEDGER where no file can be created, ends the process before any request.
    The last line of the output names the setting and its value, and says which values are valid, or the reason.
    ``tests/base/test_settings.py`` tests each setting.
    """
    host = site.add()
    url = host.url("/")
    lines = run_spider(tmp_path, mode, setting, enable=enable, url=url)
    assert host.hits == []
    # Without a reactor and without the add-on, aiohttp says that Scrapy left its sessions open.
    while mode == "reactorless" and "session" in lines[-1]:
        del lines[-1]
    assert lines[-1].startswith(f"scrapy_rep.exceptions.{last}")


def test_a_ledger_of_another_version_prevents_the_start(
    site: Site, tmp_path: Path
) -> None:
    """If REP_LEDGER names a ledger of another version, the last line of the output says so, and what to do. The ledger
    is not changed.
    """
    host, path = site.add(), tmp_path / "old.ledger"
    with closing(sqlite3.connect(path)) as old:
        old.executescript(
            "CREATE TABLE decision (id INTEGER PRIMARY KEY);"
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION - 1}"
        )
    before = path.read_bytes()
    lines = run_spider(tmp_path, "asyncio", "REP_LEDGER=old.ledger", url=host.url("/"))
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
def test_an_unusable_path_prevents_the_start(
    tmp_path: Path, setting: str, why: str
) -> None:
    """The last line of the output names the setting, its value and the reason. No folder is created."""
    *_, last = run_spider(tmp_path, "asyncio", setting)
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
def test_the_last_folder_of_a_path_is_created(tmp_path: Path, setting: str) -> None:
    """If only the last folder of a path is missing, the crawl creates it, and logs that."""
    name, folder = setting.partition("=")[0], tmp_path / "kept"
    output = "\n".join(run_spider(tmp_path, "asyncio", setting))
    assert f"INFO: {name}: created the folder {folder}, which did not exist" in output
    assert folder.is_dir()
    assert "created the folder" not in "\n".join(
        run_spider(tmp_path, "asyncio", setting)
    )


def test_the_addon_in_downloader_middlewares_prevents_the_start(
    site: Site, tmp_path: Path
) -> None:
    """If the add-on is in DOWNLOADER_MIDDLEWARES, the last line of the output says that it belongs in ADDONS."""
    host = site.add()
    misplaced = {"DOWNLOADER_MIDDLEWARES": {"scrapy_rep.Addon": 543}}
    *_, last = run_spider(tmp_path, "asyncio", enable=misplaced, url=host.url("/"))
    assert last == (
        "scrapy_rep.exceptions.SettingError: A key of DOWNLOADER_MIDDLEWARES is 'scrapy_rep.Addon', "
        "but it must be another class: an add-on belongs in ADDONS = {'scrapy_rep.Addon': 500}."
    )
    assert host.hits == []


def test_an_unknown_rep_setting_causes_one_warning(mode: str, tmp_path: Path) -> None:
    """The warning has the nearest known name, if there is one, and the crawl goes on. With an empty
    REP_LEDGER, there is no ledger, and one warning says that REP_LEDGER_LEVEL has no effect.
    """
    settings = [
        "REP_CRAWL_DELAYS=1",
        "REP_XYZZY=1",
        "REP_LEDGER=",
        "REP_LEDGER_LEVEL=all",
    ]
    output = "\n".join(run_spider(tmp_path, mode, *settings))
    no_effect = "is not a setting of scrapy-rep and has no effect."
    suggestion = " Did you mean REP_CRAWL_DELAY_OBEY?\n"
    assert output.count(f"WARNING: REP_CRAWL_DELAYS {no_effect}{suggestion}") == 1
    assert (
        output.count(
            f"WARNING: REP_XYZZY {no_effect} Correct its name, or remove it.\n"
        )
        == 1
    )
    assert (
        output.count("WARNING: REP_LEDGER_LEVEL has no effect, because REP_LEDGER") == 1
    )
    assert "Spider closed (finished)" in output
