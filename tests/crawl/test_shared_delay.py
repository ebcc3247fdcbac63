"""The workers of a crawl keep the Crawl-delay of a host together."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer
from tests.crawl.crawl import run_crawl, start_crawl
from tests.crawl.test_politeness import DELAY, IMPATIENT, gaps, pages
from tests.crawl.test_stores import wait_until
from tests.crawl.test_workers import store  # noqa: F401  a fixture

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

WORKERS = 3


@pytest.mark.slow
def test_three_workers(site: Site, store: str) -> None:  # noqa: F811
    """Between any two requests to a host, from whichever workers, the Crawl-delay passes.
    If a worker is killed, the others go on.
    """
    host = site.add(DELAY.format(0.3))
    fast = site.add("User-agent: *\nDisallow: /private/\n", name="127.0.0.2")
    settings = {**IMPATIENT, "REP_STORE": store}
    crawls = [
        start_crawl(
            [*pages(host, 60 if worker == 0 else 5), *pages(fast, 10)],
            settings=settings,
        )
        for worker in range(WORKERS)
    ]
    ended = threading.Event()

    def seen() -> bool:
        ended.set() if crawls[0].process.poll() is not None else None
        return len(host.pages) >= 4 or ended.is_set()

    wait_until(seen)
    crawls[0].process.kill()
    assert crawls[0].wait() == -9
    at_kill = len(host.hits)
    results = [crawl.result() for crawl in crawls[1:]]
    for result in results:
        assert len(result.responses) == 15, result.log
    assert len(host.hits) > at_kill
    assert len(host.robots_hits) == 1
    assert min(gaps(host)) >= 0.3
    # After the kill, the other workers alone send more than ten requests.
    assert len(gaps(host)) >= 10
    assert len(fast.pages) == 10 * WORKERS


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"REP_SHARED_DELAY": False}])
def test_whether_it_is_shared(
    site: Site, settings: dict[str, bool], tmp_path: object
) -> None:
    """REP_SHARED_DELAY says whether workers on one store keep a delay together."""
    host = site.add(DELAY.format(0.4))
    settings = {**IMPATIENT, "REP_STORE": f"sqlite:///{tmp_path}/store", **settings}
    run_crawl([host.url("/first")], settings=settings)
    is_shared = "REP_SHARED_DELAY" not in settings
    if not is_shared:
        # The first page is answered when both workers have requested it.
        both = Answer(after=lambda: len(host.hits_on("/page/0")) == 2)
        host.answers["/page/0"] = both
    crawls = [start_crawl(pages(host, 3), settings=settings) for _ in range(2)]
    for crawl in crawls:
        assert len(crawl.result().responses) == 3
    assert (min(gaps(host)) >= 0.4) is is_shared


def test_a_store_that_is_gone(site: Site) -> None:
    """If the store can't be reached, each worker keeps the delay by itself."""
    host = site.add(DELAY.format(0.2))
    settings = {**IMPATIENT, "REP_STORE": "redis://127.0.0.1:1/0"}
    result = run_crawl(pages(host, 6), settings=settings)
    assert len(result.responses) == 6, result.log
    assert min(gaps(host)) >= 0.2
    assert result.stats["rep/store/errors"] > 0
