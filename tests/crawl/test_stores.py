"""Tests of stores, which keep robots.txt files from one crawl to the next, and share them between crawls that run
at the same time. ``tests/fetching`` tests stores that fail.
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


def check_obeyed(requested: list[str], hosts: list[Host], result: CrawlResult) -> None:
    """Check that all allowed URLs of *requested* were fetched, that all forbidden URLs were refused, and that the
    log has no error.
    """
    assert result.exit_code == 0, result.log
    forbidden = [url for url in requested if "/private/" in url]
    assert result.fetched() == sorted(set(requested) - set(forbidden))
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
    """The store is that of a JOBDIR, or a ``Store`` class of the project. The second run obeys the stored
    robots.txt files.
    """
    hosts = [site.add(RULES) for _ in range(5)]
    own_store = {"REP_STORE": OWN_STORE, "ROBOTSTXT_FOLDER": str(tmp_path / "kept")}
    # This name of a folder would be invalid in the URL of a store.
    jobdir = {"JOBDIR": str(tmp_path / "what?mb=1")}
    settings = jobdir if store == "of the JOBDIR" else own_store
    for run in ("first", "second"):
        requested = urls(hosts, run)
        result = run_crawl(requested, settings=settings, mode=mode)
        check_obeyed(requested, hosts, result)
        assert [len(host.robots_hits) for host in hosts] == [1] * 5
    assert result.stats["rep/robotstxt/from_store"] == 5
    assert "robotstxt/request_count" not in result.stats


def test_the_documented_store_class_is_the_tested_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "stores.md").read_text()
    assert inspect.getsource(FolderStore) in page


def test_a_store_that_never_returns_does_not_hold_up_the_crawl(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """The process ends as usual, although calls of the store do not return."""
    hosts = [site.add(RULES) for _ in range(3)]
    requested = urls(hosts, "page")
    result = run_crawl(
        requested,
        mode=mode,
        settings={
            "REP_STORE": "tests.crawl.own_store.StuckStore",
            "ROBOTSTXT_FOLDER": str(tmp_path),
        },
        constants={"scrapy_rep.crawl.fetching.store._CALL_TIMEOUT": 0.5},
    )
    check_obeyed(requested, hosts, result)
    [warning] = result.lines("WARNING", "fetching.store")
    assert "StuckStore: a call did not return within 0.5 seconds" in warning


WORKERS, HOSTS = 4, 36


def test_each_worker_with_a_shared_store_fetches_each_robotstxt_at_most_once(
    site: Site, tmp_path: Path
) -> None:
    """Each of four workers fetches the robots.txt files that no other worker has stored yet, and gets the
    others from the store. All workers obey the files. The next crawl fetches no robots.txt.
    """
    hosts = [site.add(robots(RULES, delay=0.2)) for _ in range(HOSTS)]
    requested = urls(hosts, "page", 1)
    store = f"sqlite:///{tmp_path / 'robotstxt.sqlite'}"
    settings = {"REP_STORE": store, "CONCURRENT_REQUESTS": 16}

    def work(_: int) -> CrawlResult:
        return run_crawl(requested, settings=settings)

    with ThreadPoolExecutor(WORKERS) as pool:
        results = [*pool.map(work, range(WORKERS))]
    fetch_counts = [len(host.robots_hits) for host in hosts]
    assert max(fetch_counts) <= WORKERS
    from_store = sum(
        result.stats.get("rep/robotstxt/from_store", 0) for result in results
    )
    assert from_store == WORKERS * HOSTS - sum(fetch_counts)
    results.append(work(WORKERS))
    assert [len(host.robots_hits) for host in hosts] == fetch_counts
    for result in results:
        check_obeyed(requested, hosts, result)
        assert "rep/store/errors" not in result.stats
    for host in hosts:
        assert host.pages == ["/public/page-0"] * (WORKERS + 1)
