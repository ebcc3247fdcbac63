"""Fetches robots.txt files and pages for a command, in a crawl of its own.

The crawl has the settings of the project, with its proxies and its User-Agent, but none of
its extensions, pipelines, feeds or queues.
"""

from __future__ import annotations

import signal
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess
from scrapy.exceptions import UsageError
from scrapy.http.request import NO_CALLBACK
from scrapy.settings import default_settings
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import DeferredList

from scrapy_rep import meta
from scrapy_rep.fetching.fetcher import RobotsTxtFetcher
from scrapy_rep.fetching.request import Causes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import Settings

    from scrapy_rep.protocol.access.results import AccessResult
    from scrapy_rep.settings import RepSettings

_T = TypeVar("_T")

_ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"

# What a crawl of the project does besides fetching is switched off.
_QUIET: dict[str, Any] = {
    "DUPEFILTER_CLASS": default_settings.DUPEFILTER_CLASS,
    "EXTENSIONS": {},
    "EXTENSIONS_BASE": {},
    "FEEDS": {},
    "ITEM_PIPELINES": {},
    # With it, results would become lines of the log.
    "LOG_STDOUT": False,
    "REP_LEDGER": None,
    "REP_STOP_DOWNLOAD": False,
    "SCHEDULER": default_settings.SCHEDULER,
    "SPIDER_MIDDLEWARES": {},
    "STATS_CLASS": default_settings.STATS_CLASS,
}


class Web:
    """Fetches through the engine of a crawl that is open."""

    def __init__(self, crawler: Crawler, settings: RepSettings) -> None:
        self._crawler = crawler
        self._fetcher = RobotsTxtFetcher(crawler, settings)

    async def robotstxts(self, urls: Iterable[str]) -> list[AccessResult]:
        """The results of fetching the robots.txt files at *urls*, side by side."""
        fetches = [
            deferred_from_coro(self._fetcher.fetch(url, Causes(Request(url))))
            for url in urls
        ]
        done = DeferredList(fetches, fireOnOneErrback=True, consumeErrors=True)
        return [result for _, result in await maybe_deferred_to_future(done)]

    async def page(self, url: str) -> Response:
        """The response to one request. Raises what the download raises."""
        request = Request(
            url,
            callback=NO_CALLBACK,
            dont_filter=True,
            meta={
                # The command has judged the URL by its robots.txt already.
                meta.DONT_OBEY_ROBOTSTXT: True,
                meta.DONT_OBEY_NOINDEX: True,
                # Reading what a page may be used for is not one of its uses.
                meta.PURPOSES: [],
                "allow_offsite": True,
                "dont_cache": True,
                "dont_redirect": True,
                "handle_httpstatus_all": True,
            },
        )
        assert self._crawler.engine is not None
        return await self._crawler.engine.download_async(request)


class _AskingSpider(Spider):
    name = "scrapy_rep"
    job: Callable[[Crawler], Awaitable[Any]]
    outcome: Future[Any]

    async def start(self) -> AsyncIterator[Any]:
        try:
            self.outcome.set_result(await self.job(self.crawler))
        except BaseException as error:  # noqa: BLE001  raised again by in_crawl()
            self.outcome.set_exception(error)
        return
        yield


def in_crawl(settings: Settings, job: Callable[[Crawler], Awaitable[_T]]) -> _T:
    """What *job* returns, or raises, run while a crawl with *settings* is open."""
    settings = settings.copy()
    settings.setdict(_QUIET, "cmdline")
    process: AsyncCrawlerProcess | CrawlerProcess
    # The choice that Scrapy makes for its own commands.
    wants_asyncio = settings["TWISTED_REACTOR"] == _ASYNCIO
    wants_none = not settings.getbool("TWISTED_REACTOR_ENABLED", True)
    if wants_none or (wants_asyncio and not settings.getbool("FORCE_CRAWLER_PROCESS")):
        process = AsyncCrawlerProcess(settings)
    else:
        process = CrawlerProcess(settings)
    outcome: Future[_T] = Future()
    process.crawl(_AskingSpider, job=job, outcome=outcome)
    with _interruptible():
        process.start(install_signal_handlers=False)
    if not outcome.done():
        raise UsageError("Scrapy could not start with these settings; see its log")
    return outcome.result()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the process at once, also while it waits for standard input.

    Scrapy's own handler would first wait for the requests in flight.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
