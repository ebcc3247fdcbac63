"""Crawls whose store and ledger are on a full disk, can't be written, or are damaged."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.answers import Answer
from tests.crawl.crawl import run_crawl
from tests.crawl.disks import fill, forbid, make_read_only, small_disk
from tests.crawl.server import PAGE
from tests.crawl.test_stores import check_obeyed, urls
from tests.fetching.redis_server import free_port

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

RULES = "User-agent: *\nDisallow: /private/\n"
POWERLESS = "tests.crawl.component_spiders.PowerlessSpider"
GARBAGE = b"User-agent: *\nDisallow:\n" * 4_000
FAULTS: dict[str, Callable[[Path], object]] = {
    "a full disk": fill,
    "a disk that is read only": make_read_only,
    "files that may not be written": forbid,
}


def crawl(hosts: list[Host], name: str, **settings: Any) -> CrawlResult:
    return run_crawl(urls(hosts, name), spider=POWERLESS, settings=settings)


@pytest.mark.parametrize("fault", [*FAULTS, "no folder", "no server"])
def test_a_crawl_obeys_robotstxt_if_its_store_fails_and_does_not_start_if_its_ledger_fails(
    site: Site, fault: str, tmp_path: Path
) -> None:
    """If the store fails, or cannot be opened, the crawl still obeys robots.txt. It fetches each
    robots.txt once, and logs one warning. Entries of an earlier crawl are read if possible. If the
    ledger can't be written at the start, the crawl does not start, and says why.
    """
    hosts = [site.add(RULES) for _ in range(3)]
    with small_disk(tmp_path / "disk", 512) as disk:
        folder = disk / "file" if fault == "no folder" else disk
        store = f"sqlite:///{folder / 'robotstxt.sqlite'}"
        if fault in FAULTS:
            crawl(hosts, "first", REP_STORE=store)
            FAULTS[fault](disk)
        elif fault == "no folder":
            folder.touch()
        else:
            store = f"redis://127.0.0.1:{free_port()}/0"
        new_hosts = [site.add(RULES) for _ in range(2)]
        result = crawl([*hosts, *new_hosts], "second", REP_STORE=store)
        check_obeyed(urls([*hosts, *new_hosts], "second"), [*hosts, *new_hosts], result)
        assert [len(host.robots_hits) for host in new_hosts] == [1] * 2
        assert result.stats["rep/store/errors"] > 0
        (line,) = result.lines("WARNING", "fetching.store")
        assert "store of robots.txt files failed" in line
        # On a full disk, a crawl goes on without its ledger: the disk may have space again later.
        if fault not in {"a full disk", "no server"}:
            host, path = site.add(RULES), folder / "ledger.sqlite"
            result = crawl([host], "page", REP_LEDGER=str(path))
            assert (result.exit_code, host.hits) == (1, [])
            assert "SettingError: REP_LEDGER is" in result.log
            assert str(path) in result.log


def has_rows(path: Path, table: str) -> bool:
    """Return whether *path* is a database with rows in *table*. A crawl can still be
    creating a database without rows, and would overwrite the garbage that the test writes.
    """
    try:
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=0)
        with closing(database):
            return bool(database.execute(f"SELECT 1 FROM {table}").fetchone())
    except sqlite3.Error:
        return False


def test_a_store_and_a_ledger_damaged_during_a_crawl_cause_a_warning_each(
    site: Site, tmp_path: Path
) -> None:
    """If the store and the ledger are damaged during a crawl, each of them causes a
    warning, and nothing forbidden is fetched.
    """
    files = [tmp_path / "robotstxt.sqlite", tmp_path / "ledger.sqlite"]
    hosts = [site.add(RULES) for _ in range(4)]

    def damage() -> bool:
        """Overwrite the store and the ledger with garbage, and return True.

        Before the first pages are fetched and each of the two files has rows, do nothing and return False.
        """
        is_first_step_done = all(len(host.pages) == 4 for host in hosts[1:3])
        has_all_rows = all(map(has_rows, files, ("entries", "decision")))
        if not is_first_step_done or not has_all_rows:
            return False
        for path in tmp_path.iterdir():
            path.write_bytes(GARBAGE)
        return True

    last_url = hosts[0].url("/public/page-0")
    hosts[0].answers["/public/page-0"] = Answer(PAGE, after=damage)
    first_urls = [*urls(hosts[1:3], "early"), last_url]
    second_urls = urls(hosts[1:], "late")
    settings = {"REP_STORE": f"sqlite:///{files[0]}", "REP_LEDGER": str(files[1])}
    settings["REP_LEDGER_LEVEL"] = "all"
    result = run_crawl(first_urls, then=second_urls, settings=settings)
    check_obeyed([*first_urls, *second_urls], hosts, result)
    assert len(result.lines("WARNING")) <= 3 + 1, result.log
    assert result.lines("WARNING", "ledger")
    assert result.lines("WARNING", "store of robots.txt files failed")
