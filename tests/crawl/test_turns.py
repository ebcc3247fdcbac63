"""Tests that pages, which the scheduler sends, and files of media pipelines, which bypass the scheduler, take turns
at a host with a delay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request

from tests.crawl.crawl import run_crawl
from tests.crawl.pauses import check_fetched, pages
from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy.http import Response

    from tests.crawl.server import Site

pytestmark = pytest.mark.newest

FILES = 12


class AlbumSpider(PlanSpider):
    """Yields an item with many files for each start page, and then requests for more pages, all of the same host."""

    name = "album"

    def request(self, arguments: dict[str, Any]) -> Request:
        return super().request(arguments).replace(callback=self.album)

    def album(self, response: Response) -> Iterator[Any]:
        self.note_response(response)
        yield {"file_urls": [response.urljoin(f"/file/{n}") for n in range(FILES)]}
        for number in range(3):
            yield Request(response.urljoin(f"/more/{number}"), self.note_response)


def test_files_that_take_the_whole_concurrency_do_not_wait_for_a_page(
    site: Site, tmp_path: Path, mode: str
) -> None:
    """Files that wait for the delay of their host take all of CONCURRENT_REQUESTS, so that Scrapy asks the
    scheduler for no page. If the files waited for the turn of a page, the crawl would stand still.
    """
    host = site.add("User-agent: *\nCrawl-delay: 0.1\n")
    result = run_crawl(
        [host.url("/")],
        mode=mode,
        spider=f"{__name__}.AlbumSpider",
        settings={
            "CONCURRENT_REQUESTS": 2,
            "FILES_STORE": str(tmp_path),
            "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
            "REP_WAIT_TIMEOUT": 30,
        },
        timeout=30,
    )
    assert [len(item["files"]) for item in result.items] == [FILES]
    assert len(host.pages) == FILES + 4
    assert all(gap >= 0.1 for gap in host.gaps)


def test_pages_and_files_of_a_host_take_turns(site: Site, tmp_path: Path) -> None:
    """The concurrency of the crawl is not exhausted. The three pages are among the first eight requests after
    the start page, although there are twelve files.
    """
    host = site.add("User-agent: *\nCrawl-delay: 0.1\n")
    run_crawl(
        [host.url("/")],
        spider=f"{__name__}.AlbumSpider",
        settings={
            "FILES_STORE": str(tmp_path),
            "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
            "REP_WAIT_TIMEOUT": 30,
        },
        timeout=30,
    )
    kinds = [hit.path.split("/")[1] for hit in host.hits]
    assert kinds[2:10].count("more") == 3


def test_a_new_file_does_not_overtake_the_files_that_wait(
    site: Site, mode: str
) -> None:
    """The host gets one request at a time. A middleware downloads the second part of a file in the moment in which the
    first part has ended, when the host has room and it is the turn of a page. The files that were requested before the
    second part are sent before it.
    """
    host = site.add("User-agent: *\nDisallow: /private/\n")
    first = host.url("/first")
    urls = [first, *pages(host, 12)]
    # The first file may be sent at once. The first part of the other file waits for a turn.
    early, *others = pages(host, 4, "file")
    result = run_crawl(
        [{"url": url, "priority": -number} for number, url in enumerate(urls)],
        mode=mode,
        spider="tests.crawl.waiting_spiders.EveryWaySpider",
        settings={
            "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
            "DOWNLOADER_MIDDLEWARES": {"tests.crawl.component_spiders.FetchParts": 900},
        },
        more={first: [early, host.url("/part/0"), *others]},
        timeout=30,
    )
    assert result.errors == []
    check_fetched(host, *urls, early, *others, *pages(host, 5, "part"))
    paths = [hit.path for hit in host.hits]
    sent_before = paths[paths.index("/part/0") : paths.index("/part/1")]
    assert sum(path.startswith("/file/") for path in sent_before) == len(others)
