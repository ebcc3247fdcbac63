"""Checks what a browser behind a download handler fetches: the URLs that a page requests,
and the URL that a response comes from.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy import Request, signals

from scrapy_rep.base import meta, stats
from scrapy_rep.base.browsers import (
    PAGE_INIT_META,
    abort_setting,
    browser_handler,
    is_from_browser,
)
from scrapy_rep.base.identity import default_header
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import is_of_http, request_origin
from scrapy_rep.crawl.decisions import Case, Via
from scrapy_rep.crawl.pages.usage import SiteUsage
from scrapy_rep.exceptions import RobotsDenied, SpiderClosing
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.request_target import have_same_target

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.crawl.frontier.frontier import Frontier
    from scrapy_rep.crawl.gate.judge import Judge

ABORT_FORBIDDEN = "scrapy_rep.playwright.abort_forbidden"

WATCH_PAGE = "scrapy_rep.playwright.watch_page"

_BY_CRAWLER: WeakKeyDictionary[Crawler, Browsers | None] = WeakKeyDictionary()

_BY_REQUEST: WeakKeyDictionary[Request, Browsers] = WeakKeyDictionary()


class Browsers:
    """Applies robots.txt to the browsers that download for a crawl.

    Only the requests of the spider pass through the middlewares. The browser sends more: it
    follows redirects, runs scripts, and loads images and frames.
    """

    def __init__(self, crawler: Crawler, frontier: Frontier, judge: Judge) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._frontier = frontier
        self._judge = judge
        self._usage = SiteUsage.of(crawler)
        self._denied: WeakKeyDictionary[Request, RobotsDenied] = WeakKeyDictionary()
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the crawl; None before the first request for a browser."""

        self._is_consulted = False  # Whether may_fetch() was ever called.
        self._has_warned = False
        register(crawler, self)
        crawler.signals.connect(self._spider_opened, signals.spider_opened)

    def _spider_opened(self) -> None:
        """Warn if no setting makes the browser of the download handler ask scrapy-rep."""
        handler = browser_handler(self._crawler.settings)
        if handler is None or (
            handler[1] and abort_setting(self._crawler.settings) is not None
        ):
            return
        self._has_warned = True
        message = (
            "The browser of %(handler)s may fetch URLs that robots.txt forbids: it follows "
            "redirects, runs scripts, and loads images and frames. scrapy-rep checks only "
            "the URL of each Scrapy request and the URL that its response comes from. "
        )
        message += (
            "To check the rest, set PLAYWRIGHT_ABORT_REQUEST = %(ours)r."
            if handler[1]
            else "It can check the rest only with scrapy-playwright."
        )
        self._logger.warning(message, handler=handler[0], ours=ABORT_FORBIDDEN)

    # Requests of the spider.

    def begin(self, request: Request) -> None:
        """Set ``watch_page`` for *request* of a browser, if ``abort_forbidden`` is used."""
        if self.loop is None:
            self.loop = asyncio.get_running_loop()
        if self._is_consulted or _is_ours(abort_setting(self._crawler.settings)):
            _BY_REQUEST[request] = self
            own = request.meta.get(PAGE_INIT_META)
            if own not in {None, WATCH_PAGE}:
                request.meta[meta.PAGE_INIT] = own
            request.meta[PAGE_INIT_META] = WATCH_PAGE

    def end(self, request: Request, response: Response | None = None) -> None:
        """Note that the browser is done with *request*. Raises RobotsDenied if robots.txt
        forbade the page, so that there is no response, or only an error page.
        """
        denied = self._denied.pop(request, None)
        if denied is not None and (response is None or not is_of_http(response)):
            raise denied
        if response is not None and is_from_browser(response):
            self._warn_of_own_predicate()

    def _warn_of_own_predicate(self) -> None:
        """Warn once if the user's own predicate does not call ``abort_forbidden``."""
        if self._is_consulted or self._has_warned:
            return
        self._has_warned = True
        self._logger.warning(
            "PLAYWRIGHT_ABORT_REQUEST is %(value)r, which does not await %(ours)s: the "
            "browser may fetch URLs that robots.txt forbids. Await that function in yours, "
            "or set it in its place.",
            value=abort_setting(self._crawler.settings),
            ours=ABORT_FORBIDDEN,
        )

    # The URL of a response.

    def has_moved(self, request: Request, response: Response) -> bool:
        """Whether the URLs of *request* and *response* differ in more than spelling: the
        download handler has followed a redirect that Scrapy has not seen.
        """
        if not is_of_http(response):
            return False
        is_same_origin = origin_of(request.url) == origin_of(response.url)
        return not (is_same_origin and have_same_target(request.url, response.url))

    async def check_arrival(self, request: Request, response: Response) -> Response:
        """Return *response* if robots.txt allows its URL. Raises RobotsDenied or SpiderClosing."""
        arrived = Request(
            response.url,
            headers=request.headers,
            callback=request.callback,
            meta={
                key: value
                for key, value in request.meta.items()
                if key not in {meta.DONT_OBEY_ROBOTSTXT, "redirect_urls"}
            },
        )
        try:
            await self._check(arrived, Via("redirect", request.url), request)
        except RobotsDenied:
            self._crawler.stats.inc_value(stats.ARRIVED)
            raise
        self._usage.take_over(request, arrived)
        return response

    # Requests of the browser.

    async def may_fetch(
        self, url: str, page: str, cause: Request | None = None, *, is_top: bool = False
    ) -> bool:
        """Return True if a browser may fetch *url* for the page at the URL *page*.

        Waits until robots.txt is known. *cause* is the spider's request for the page. If
        *url* is the page itself (*is_top*), the errback of *cause* gets the refusal.
        """
        self._is_consulted = True
        header = default_header(self._crawler.settings, self._crawler.spider)
        request = Request(url, headers={"User-Agent": header})
        if not is_of_http(request):
            return True
        try:
            await self._check(request, Via("browser", page), cause)
        except RobotsDenied as denied:
            self._crawler.stats.inc_value(stats.ABORTED)
            if cause is not None and is_top:
                self._denied[cause] = denied
            return False
        except SpiderClosing:
            return False
        except Exception:
            self._logger.exception(
                "Error while checking a browser's request for %(url)s against robots.txt: "
                "the request is aborted",
                url=url,
            )
            return False
        return True

    # Both checks.

    async def _check(self, request: Request, via: Via, cause: Request | None) -> None:
        """Apply the robots.txt of the origin of *request*, or the override for it, unless *cause*,
        the request of the spider, is exempt. Raises RobotsDenied or SpiderClosing.
        """
        is_exempt = cause is not None and _is_exempted_by(cause, request)
        case = Case(request, request_origin(request), via=via, is_exempt=is_exempt)
        if not self._judge.look_up(case):
            case.known = await self._frontier.wait_for_rules(case, is_patient=False)
        decision, _ = self._judge.judge(case)
        self._judge.allow(case, decision)


def register(crawler: Crawler, browsers: Browsers | None) -> None:
    """Add *crawler* to :func:`open_crawls`. *browsers* is None if it ignores robots.txt."""
    _BY_CRAWLER[crawler] = browsers
    # Signals keep only weak references to their receivers.
    crawler.signals.connect(_unregister, signals.spider_closed)


def _unregister(spider: Spider) -> None:
    _BY_CRAWLER.pop(spider.crawler, None)


def open_crawls() -> list[Browsers | None]:
    """Return the Browsers of each crawl in this process; None if it ignores robots.txt."""
    return list(_BY_CRAWLER.values())


def browsers_of(request: Request) -> Browsers | None:
    """Return the Browsers of the crawl that *request* belongs to, if it is for a browser."""
    return _BY_REQUEST.get(request)


def _is_ours(predicate: object) -> bool:
    if isinstance(predicate, str):
        return predicate == ABORT_FORBIDDEN
    name = getattr(predicate, "__qualname__", "")
    return f"{getattr(predicate, '__module__', '')}.{name}" == ABORT_FORBIDDEN


def _is_exempted_by(cause: Request, request: Request) -> bool:
    """Whether ``dont_obey_robotstxt`` of *cause* exempts the origin of *request*: it is that of
    *cause*, or was before a middleware replaced the URL of *cause* with that of a service.
    """
    if not cause.meta.get(meta.DONT_OBEY_ROBOTSTXT):
        return False
    exempt = str(request_origin(cause)), cause.meta.get(meta.EXEMPT_ORIGIN)
    return str(request_origin(request)) in exempt
