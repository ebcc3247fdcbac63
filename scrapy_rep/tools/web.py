"""Fetches robots.txt files and pages for a command, in a crawl of its own.

The crawl uses the settings of the project, such as proxies and User-Agent, but not its
extensions, pipelines, feeds and queues.
"""

from __future__ import annotations

import signal
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess
from scrapy.exceptions import UsageError
from scrapy.http.request import NO_CALLBACK
from scrapy.settings import default_settings
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import DeferredList

from scrapy_rep.base import meta
from scrapy_rep.crawl.fetching.fetcher import RobotsTxtFetcher
from scrapy_rep.crawl.fetching.request import FetchMiddleware, FetchTemplates

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.base.settings import RepSettings
    from scrapy_rep.protocol.access.results import AccessResult
    from scrapy_rep.tools.profile import Profile

_T = TypeVar("_T")

_ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"

# Switches off everything that a crawl of the project does besides fetching.
_QUIET: dict[str, Any] = {
    "DUPEFILTER_CLASS": default_settings.DUPEFILTER_CLASS,
    "EXTENSIONS": {},
    "EXTENSIONS_BASE": {},
    "FEEDS": {},
    "ITEM_PIPELINES": {},
    # It would send the results to the log.
    "LOG_STDOUT": False,
    "REP_LEDGER": None,
    "SCHEDULER": default_settings.SCHEDULER,
    "SPIDER_MIDDLEWARES": {},
    "STATS_CLASS": default_settings.STATS_CLASS,
}


class Web:
    """Fetches through the engine of an open crawl."""

    def __init__(self, crawler: Crawler, settings: RepSettings) -> None:
        self._crawler = crawler
        self._fetcher = RobotsTxtFetcher(crawler, settings)

    async def robotstxts(self, urls: Iterable[str]) -> list[AccessResult]:
        """Fetch the robots.txt files at *urls* concurrently."""
        fetches = [
            deferred_from_coro(self._fetcher.fetch(url, FetchTemplates(Request(url))))
            for url in urls
        ]
        done = DeferredList(fetches, fireOnOneErrback=True, consumeErrors=True)
        return [result for _, result in await maybe_deferred_to_future(done)]

    async def page(self, url: str) -> Response:
        """Fetch *url* without following redirects. Raises what the download raises."""
        request = Request(
            url,
            callback=NO_CALLBACK,
            dont_filter=True,
            meta={
                # The command has already checked the URL against robots.txt.
                meta.DONT_OBEY_ROBOTSTXT: True,
                meta.DONT_OBEY_NOINDEX: True,
                # The command reads usage preferences; it does not use the content.
                meta.PURPOSES: [],
                "allow_offsite": True,
                "dont_cache": True,
                "dont_redirect": True,
                "handle_httpstatus_all": True,
            },
        )
        assert self._crawler.engine is not None
        return await self._crawler.engine.download_async(request)


class _FetchingSpider(Spider):
    name = "scrapy_rep"
    job: Callable[[Web], Awaitable[Any]]
    rep: RepSettings
    outcome: Future[Any]

    async def start(self) -> AsyncIterator[Any]:
        try:
            self.outcome.set_result(await self.job(Web(self.crawler, self.rep)))
        except BaseException as error:  # noqa: BLE001  raised again by ask()
            self.outcome.set_exception(error)
        return
        yield


def ask(
    profile: Profile,
    job: Callable[[Web | None], Coroutine[None, None, _T]],
    *,
    offline: bool = False,
) -> _T:
    """Run *job* in a crawl, and return or raise what it does. If it needs none (*offline*), it
    must not suspend, and gets None in place of the web.
    """
    if offline:
        try:
            job(None).send(None)
        except StopIteration as stop:
            result: _T = stop.value
            return result
        raise AssertionError("the job waits for something")
    settings = profile.settings.copy()
    settings.setdict(_QUIET, "cmdline")
    name = "DOWNLOADER_MIDDLEWARES"
    own = {FetchMiddleware: FetchMiddleware.ORDER}
    settings.set(name, {**settings.getdict(name), **own}, "cmdline")
    process: AsyncCrawlerProcess | CrawlerProcess
    # Scrapy chooses in the same way for its own commands.
    wants_asyncio = settings["TWISTED_REACTOR"] == _ASYNCIO
    wants_none = not settings.getbool("TWISTED_REACTOR_ENABLED", True)
    if wants_none or (wants_asyncio and not settings.getbool("FORCE_CRAWLER_PROCESS")):
        process = AsyncCrawlerProcess(settings)
    else:
        process = CrawlerProcess(settings)
    outcome: Future[_T] = Future()
    process.crawl(_FetchingSpider, job=job, rep=profile.rep, outcome=outcome)
    # Ctrl-C ends the process at once, also while it waits for standard input. Scrapy's own handler
    # would first wait for the requests in flight.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    process.start(install_signal_handlers=False)
    if not outcome.done():
        raise UsageError("Scrapy could not start with these settings; see its log")
    return outcome.result()
