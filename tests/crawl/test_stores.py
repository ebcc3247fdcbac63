"""Stores keep robots.txt files between crawls, and for several at a time. ``tests/fetching`` has what
becomes of a store that fails.
"""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import robots
from tests.crawl.crawl import run_crawl
from tests.crawl.own_store import FolderStore

if TYPE_CHECKING:
    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

RULES = "User-agent: *\nDisallow: /private/\n"


def urls(hosts: list[Host], name: str, count: int = 4) -> list[str]:
    """Return *count* allowed and *count* forbidden URLs of each host."""
    return [
        host.url(f"/{kind}/{name}-{number}")
        for number in range(count)
        for host in hosts
        for kind in ("public", "private")
    ]


def check_obeyed(asked: list[str], hosts: list[Host], result: CrawlResult) -> None:
    """Check that all allowed pages were fetched, and all forbidden ones refused."""
    assert result.exit_code == 0, result.log
    forbidden = [url for url in asked if "/private/" in url]
    assert result.fetched() == sorted(set(asked) - set(forbidden))
    errors = sorted((error["url"], error["error"]) for error in result.errors)
    assert errors == [(url, "RobotsDenied") for url in sorted(forbidden)]
    for host in hosts:
        assert not [page for page in host.pages if page.startswith("/private/")]
    assert "log_count/ERROR" not in result.stats, result.log


OWN_STORE = "tests.crawl.own_store.FolderStore"


@pytest.mark.parametrize("store", ["of the JOBDIR", "of the project"])
def test_a_second_run_fetches_no_robotstxt(
    site: Site, mode: str, store: str, tmp_path: Path
) -> None:
    """A second run with the same JOBDIR, or with a Store class of the project, fetches no
    robots.txt, and obeys the stored ones.
    """
    hosts = [site.add(RULES) for _ in range(5)]
    of_project = {"REP_STORE": OWN_STORE, "ROBOTSTXT_FOLDER": str(tmp_path / "kept")}
    # An address of a store could not have this name.
    jobdir = {"JOBDIR": str(tmp_path / "what?mb=1")}
    settings = jobdir if store == "of the JOBDIR" else of_project
    for run in ("first", "second"):
        asked = urls(hosts, run)
        result = run_crawl(asked, settings=settings, mode=mode)
        check_obeyed(asked, hosts, result)
        assert [len(host.robots_hits) for host in hosts] == [1] * 5
    assert result.stats["rep/robotstxt/from_store"] == 5
    assert "robotstxt/request_count" not in result.stats


def test_the_documented_store_class_is_the_tested_one() -> None:
    """The Store class of a project in the documentation is the one that is tested."""
    shown = (Path(__file__).parents[2] / "docs" / "stores.md").read_text()
    assert inspect.getsource(FolderStore) in shown


def test_a_store_that_never_returns_holds_nothing_up(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """A store that does not return neither holds the crawl up, nor the end of its process."""
    hosts = [site.add(RULES) for _ in range(3)]
    asked = urls(hosts, "page")
    result = run_crawl(
        asked,
        mode=mode,
        settings={
            "REP_STORE": "tests.crawl.own_store.StuckStore",
            "ROBOTSTXT_FOLDER": str(tmp_path),
        },
        constants={"scrapy_rep.crawl.fetching.store._CALL_TIMEOUT": 0.5},
    )
    check_obeyed(asked, hosts, result)
    [warning] = result.lines("WARNING", "fetching.store")
    assert "StuckStore: a call did not return within 0.5 seconds" in warning


WORKERS, HOSTS = 4, 36


def test_workers_that_share_a_store_fetch_each_robotstxt_once(
    site: Site, tmp_path: Path
) -> None:
    """Four workers fetch the robots.txt files that no other one has stored yet, and all obey them. The
    next crawl fetches none.
    """
    hosts = [site.add(robots(RULES, delay=0.2)) for _ in range(HOSTS)]
    asked = urls(hosts, "page", 1)
    store = f"sqlite:///{tmp_path / 'robotstxt.sqlite'}"
    settings = {"REP_STORE": store, "CONCURRENT_REQUESTS": 16}

    def work(_: int) -> CrawlResult:
        return run_crawl(asked, settings=settings)

    with ThreadPoolExecutor(WORKERS) as pool:
        results = [*pool.map(work, range(WORKERS))]
    fetched = [len(host.robots_hits) for host in hosts]
    assert max(fetched) <= WORKERS
    taken = sum(r.stats.get("rep/robotstxt/from_store", 0) for r in results)
    assert taken == WORKERS * HOSTS - sum(fetched)
    results.append(work(WORKERS))
    assert [len(host.robots_hits) for host in hosts] == fetched
    for result in results:
        check_obeyed(asked, hosts, result)
        assert "rep/store/errors" not in result.stats
    for host in hosts:
        assert host.pages == ["/public/page-0"] * (WORKERS + 1)
