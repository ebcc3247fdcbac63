"""An outage of the crawler's own network, or of its machine, loses no page and is no host's fault.

``tests/simulation`` has outages of all hosts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.crawl import run_crawl, start_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = [pytest.mark.unmeasured, pytest.mark.slow]

FILES = 64
SETTINGS = {
    "CONCURRENT_REQUESTS": 16,
    "REP_WAIT_TIMEOUT": 60,
    "RETRY_ENABLED": True,
}
SOON = {
    "scrapy_rep.crawl.frontier.hostrules._ASKED_ONCE_MORE": 1.0,
    "scrapy_rep.crawl.frontier.network._FIRST_PROBE": 0.2,
    "scrapy_rep.crawl.frontier.network._LAST_PROBE": 0.2,
}


def test_a_proxy_that_is_down(site: Site, mode: str) -> None:
    """A dead proxy is no host's fault: no page is lost, and the log says that the network is gone and
    is back.
    """
    proxy = site.refusing()
    crawl = start_crawl(
        [
            {"url": f"http://h{n}.test/{page}", "meta": {"proxy": proxy.origin}}
            for n in range(8)
            for page in "12"
        ],
        mode=mode,
        settings=SETTINGS,
        constants=SOON,
    )
    crawl.until(lambda: "network of the crawler is gone" in crawl.log)
    site.listen(proxy)
    result = crawl.result()
    assert len(result.fetched()) == 16
    assert not result.errors
    assert len(result.lines("WARNING", "network")) == 1
    assert len(result.lines("INFO", "network of the crawler is back")) == 1


@pytest.mark.newest
def test_a_machine_with_few_files(site: Site) -> None:
    """With too few files for a connection to each host, each page is fetched all the same."""
    host = site.add("User-agent: *\nDisallow: /private\n")
    result = run_crawl(
        [f"http://f{n}.test:{host.port}/1" for n in range(2 * FILES)],
        settings=SETTINGS,
        names={"*.test": ["127.0.0.1"]},
        max_files=FILES,
    )
    assert not result.errors
    assert len(result.fetched()) == 2 * FILES
    assert len(result.lines("WARNING", "no more files")) == 1
