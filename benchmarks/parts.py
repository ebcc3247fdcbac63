"""The time that each component takes for a page of a crawl, measured alone.

Crawls differ from run to run by more than these times, so their sum says more about where
the time of a crawl goes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scrapy import Request, Spider
from scrapy.http import HtmlResponse
from scrapy.utils.reactor import install_reactor
from scrapy.utils.test import get_crawler

from benchmarks import crawl_site
from benchmarks.crawl import SETTINGS
from benchmarks.peers import OURS
from benchmarks.table import Row, timed
from benchmarks.timing import interleaved
from scrapy_rep.downloadermiddlewares.indexing import IndexingMiddleware
from scrapy_rep.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy_rep.protocol.access.results import AccessResult, Entry
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.spidermiddlewares.indexing import IndexingGateMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.crawler import Crawler

TIMES = 1_000
SITE = "http://127.0.0.1:8000"


def parts(_files: list[bytes], rounds: int) -> Iterator[Row]:
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    crawler = get_crawler(Spider, {**SETTINGS, "ROBOTSTXT_OBEY": True})
    indexing = IndexingMiddleware(crawler)
    gate = IndexingGateMiddleware(crawler)
    silent, speaking = (_response(number) for number in (0, 1))
    for response in (silent, speaking):
        indexing.process_response(response.request, response)
    output = [Request(f"{SITE}/page/3")] * 20 + [{"url": silent.url}]
    tasks: dict[str, Callable[[], object]] = {
        "a request, robots.txt cached": _asking(crawler),
        "a page of 20 KB, no statement": lambda: indexing.process_response(
            silent.request, silent
        ),
        "a page of 20 KB, three statements": lambda: indexing.process_response(
            speaking.request, speaking
        ),
        "20 links and an item of a page": lambda: list(
            gate.process_spider_output(speaking, output)
        ),
    }
    repeated = {what: _many_times(task) for what, task in tasks.items()}
    for what, times in interleaved(repeated, rounds).items():
        yield timed(f"part of a crawl: {what}", OURS, times, TIMES)


def _response(number: int) -> HtmlResponse:
    """Return a page as the downloader returns it."""
    body = crawl_site.page(number, 60)
    headers = {"User-Agent": SETTINGS["USER_AGENT"]}
    request = Request(f"{SITE}/page/{number}", headers=headers)
    headers = {"Content-Type": "text/html"}
    return HtmlResponse(request.url, headers=headers, body=body, request=request)


def _asking(crawler: Crawler) -> Callable[[], None]:
    """Return a task that asks whether a page with known rules may be fetched."""
    middleware = RobotsTxtMiddleware(crawler)
    where = origin_of(SITE)
    result = AccessResult(
        url=where.robotstxt_url, status=200, headers=(), body=crawl_site.ROBOTS
    )
    now = time.time()
    entry = Entry(result=result, fetched=now, expires=now + 86_400)
    middleware._access.cache._cache(where, entry)
    request = _response(2).request

    def ask() -> None:
        try:
            middleware.process_request(request).send(None)
        except StopIteration:
            return
        raise RuntimeError("It waits for robots.txt")

    return ask


def _many_times(task: Callable[[], object]) -> Callable[[], None]:
    def do() -> None:
        for _ in range(TIMES):
            task()

    return do
