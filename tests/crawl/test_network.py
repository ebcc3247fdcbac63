"""An outage of the crawler's own network, or of its machine, loses no page and is no host's fault."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer
from tests.crawl.crawl import run_crawl, start_crawl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.crawl import RunningCrawl
    from tests.crawl.server import Hit, Site

pytestmark = [pytest.mark.unmeasured, pytest.mark.slow]

HOSTS = 40
PROBES = 4
FILES = 64
# A connection that is kept open would outlast the outage.
CLOSE = {"Connection": "close"}
SETTINGS = {
    "CONCURRENT_REQUESTS": 16,
    "DNSCACHE_ENABLED": False,
    "REP_WAIT_TIMEOUT": 60,
    "RETRY_ENABLED": True,
}
SOON = {
    "scrapy_rep.crawl.frontier.rules._ASKED_ONCE_MORE": 1.0,
    "scrapy_rep.crawl.frontier.network._FIRST_PROBE": 0.2,
    "scrapy_rep.crawl.frontier.network._LAST_PROBE": 0.2,
}


def urls(port: int) -> list[str]:
    return [f"http://h{n}.test:{port}/{page}" for n in range(HOSTS) for page in "12"]


class Outage:
    """The file that switches the names off, and what the crawl has done meanwhile."""

    def __init__(self, file: Path, address: str) -> None:
        self._file = file
        self._address = address
        self._pages = 0
        self.probes: list[list[float]] = []
        """The times of the lookups in each outage, after the log has said that the network is gone."""

    @property
    def lookups(self) -> list[float]:
        lines = self._file.with_suffix(".lookups").read_text(encoding="ascii")
        return [float(line) for line in lines.split()]

    def begin(self) -> None:
        self._file.write_text(self._address, encoding="ascii")

    def limit(self, hit: Hit) -> Answer:
        """Begin another outage in the middle of the crawl."""
        if hit.path == "/robots.txt":
            return Answer(status=404, headers=CLOSE)
        self._pages += 1
        if self._pages == HOSTS:
            self.begin()
        return Answer(b"<html></html>", headers={"Content-Type": "text/html", **CLOSE})

    def last(self, crawl: RunningCrawl, number: int) -> None:
        """Let the outage of this *number* last for some probes more than the crawl needs to see it."""
        crawl.until(lambda: crawl.log.count("network of the crawler is gone") >= number)
        seen = len(self.lookups)
        crawl.until(lambda: len(self.lookups) >= seen + PROBES)
        self.probes.append(self.lookups[seen:])
        self._file.unlink()
        crawl.until(lambda: crawl.log.count("network of the crawler is back") >= number)


def test_an_outage(site: Site, tmp_path: Path, mode: str) -> None:
    """The network is gone when the crawl begins, and again in the middle: each page is fetched, and
    meanwhile one request at a time is sent. The log says each time that it is gone and is back.
    """
    outage = Outage(tmp_path / "outage", "127.0.0.2")
    outage.begin()
    host = site.add()
    host.limit = outage.limit
    crawl = start_crawl(
        urls(host.port),
        mode=mode,
        settings=SETTINGS | {"JOBDIR": str(tmp_path / "job")},
        names={"*.test": ["127.0.0.1"]},
        outage=str(tmp_path / "outage"),
        constants=SOON,
    )
    for number in (1, 2):
        outage.last(crawl, number)
    result = crawl.result()
    assert not result.errors, result.log
    assert len(result.fetched()) == len(host.pages) == 2 * HOSTS
    assert len(result.lines("WARNING", "network")) == 2
    assert len(result.lines("INFO", "network")) == 2
    for probes in outage.probes:
        gaps = [later - sooner for sooner, later in pairwise(probes)]
        assert min(gaps) >= SOON["scrapy_rep.crawl.frontier.network._LAST_PROBE"]


def test_a_proxy_that_is_down(site: Site, mode: str) -> None:
    """A dead proxy is no host's fault either."""
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
    assert len(result.fetched()) == 2 * FILES
    assert not result.errors
    assert len(result.lines("WARNING", "no more files")) == 1
