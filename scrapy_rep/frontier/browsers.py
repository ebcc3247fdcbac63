"""Where a browser goes in the place of a crawl: to what a page has it ask for, and to where
it arrives.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy import Request, signals

from scrapy_rep import meta, stats
from scrapy_rep.compat.browsers import (
    PAGE_INIT_META,
    abort_setting,
    browser_handler,
    is_from_browser,
)
from scrapy_rep.exceptions import RobotsDenied, SpiderClosing
from scrapy_rep.fetching.identity import Identity, default_header
from scrapy_rep.frontier.hostkeys import is_of_http, origin_asked
from scrapy_rep.frontier.outcomes import (
    BAD_URL,
    BY_USER,
    ROBOTS_TXT,
    Case,
    DecisionReporter,
    Via,
)
from scrapy_rep.log import get_logger
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.request_target import have_same_target, is_robotstxt
from scrapy_rep.responses.purposes import Purposes

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.frontier.hostaccess import HostAccess
    from scrapy_rep.frontier.judge import Judge
    from scrapy_rep.protocol.origins import Origin

logger = get_logger(__name__)

ABORT_FORBIDDEN = "scrapy_rep.playwright.abort_forbidden"

WATCH_PAGE = "scrapy_rep.playwright.watch_page"

_OF_CRAWLS: WeakKeyDictionary[Crawler, Browsers | None] = WeakKeyDictionary()

_OF_REQUESTS: WeakKeyDictionary[Request, Browsers] = WeakKeyDictionary()


class Browsers:
    """Has a browser that downloads for a crawl keep to robots.txt.

    Only what the spider asks for passes the middlewares. A browser goes on from there: it
    follows redirects, runs scripts, loads images and frames.
    """

    def __init__(
        self,
        crawler: Crawler,
        access: HostAccess,
        reporter: DecisionReporter,
        judge: Judge,
    ) -> None:
        self._crawler = crawler
        self._access = access
        self._reporter = reporter
        self._judge = judge
        self._identity = Identity.of(crawler)
        self._purposes = Purposes.of(crawler)
        self._stopped: WeakKeyDictionary[Request, RobotsDenied] = WeakKeyDictionary()
        self.loop: asyncio.AbstractEventLoop | None = None
        """Where the crawl runs, once a browser is known to work for it."""

        self.is_asked = False
        """Whether it has been asked what a browser may fetch."""

        self._has_warned = False
        register(crawler, self)
        crawler.signals.connect(self._spider_opened, signals.spider_opened)

    def _spider_opened(self) -> None:
        """Say at the start that a browser fetches what it likes, where it does."""
        handler = browser_handler(self._crawler.settings)
        if handler is None or (
            handler[1] and abort_setting(self._crawler.settings) is not None
        ):
            return
        self._has_warned = True
        message = (
            "The browser of %(handler)s follows redirects and scripts, and fetches images "
            "and frames, whatever robots.txt says of them: it is asked only about the URLs "
            "of requests, and about the URL that a response comes from. "
        )
        message += (
            "Set PLAYWRIGHT_ABORT_REQUEST = %(ours)r."
            if handler[1]
            else "scrapy-rep can ask for scrapy-playwright alone."
        )
        logger.warning(
            message,
            {"handler": handler[0], "ours": ABORT_FORBIDDEN},
            extra={"spider": self._crawler.spider},
        )

    # What the spider asks for.

    def begin(self, request: Request) -> None:
        """A browser is about to download *request*, if that may be sent."""
        if self.loop is None:
            self.loop = asyncio.get_running_loop()
        if self.is_asked or _is_ours(abort_setting(self._crawler.settings)):
            _OF_REQUESTS[request] = self
            own = request.meta.get(PAGE_INIT_META)
            if own not in {None, WATCH_PAGE}:
                request.meta[meta.PAGE_INIT] = own
            request.meta[PAGE_INIT_META] = WATCH_PAGE

    def end(self, request: Request, response: Response | None = None) -> None:
        """The browser is done with *request*. Raises RobotsDenied where there is no
        response, or that of no site, because it was kept from where it was to go.
        """
        stopped = self._stopped.pop(request, None)
        if stopped is not None and (response is None or not is_of_http(response)):
            raise stopped
        if response is not None and is_from_browser(response):
            self._warn_of_own_predicate()

    def _warn_of_own_predicate(self) -> None:
        """Say, once, that nobody asks what the browser may fetch."""
        if self.is_asked or self._has_warned:
            return
        self._has_warned = True
        logger.warning(
            "PLAYWRIGHT_ABORT_REQUEST is %(value)r, which does not ask %(ours)s: the browser "
            "fetches what robots.txt forbids. Set it to that, or await that in it.",
            {"value": abort_setting(self._crawler.settings), "ours": ABORT_FORBIDDEN},
            extra={"spider": self._crawler.spider},
        )

    # Where it arrives.

    def has_moved(self, request: Request, response: Response) -> bool:
        """Whether *response* is from another URL than was asked for, although Scrapy has
        followed no redirect.
        """
        if response.url == request.url or not is_of_http(response):
            return False
        is_same_origin = origin_of(request.url) == origin_of(response.url)
        return not (is_same_origin and have_same_target(request.url, response.url))

    async def arrive(self, request: Request, response: Response) -> None:
        """Judge *response* by its own URL. Raises RobotsDenied."""
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
        where = origin_asked(arrived)
        via = Via("redirect", request.url)
        if _is_meant(request, where):
            self._reporter.allowed(Case(arrived, where, via=via), BY_USER)
            return
        try:
            await self._ask(arrived, where, via)
        except RobotsDenied:
            self._crawler.stats.inc_value(stats.ARRIVED)
            raise
        self._purposes.take_over(request, arrived)

    # What it asks for by itself.

    async def may_fetch(
        self, url: str, page: str, cause: Request | None = None, *, stops: bool = False
    ) -> bool:
        """Whether a browser may ask for *url*, which the page at *page* has it do.

        Waits for a robots.txt that is not known yet. *cause* is the request that the page
        was opened for; a refusal that *stops* it is what its errback gets.
        """
        self.is_asked = True
        header = default_header(self._crawler.settings, self._crawler.spider)
        request = Request(url, headers={"User-Agent": header})
        if not is_of_http(request):
            return True
        where = origin_asked(request)
        via = Via("browser", page)
        if cause is not None and _is_meant(cause, where):
            self._reporter.allowed(Case(request, where, via=via), BY_USER)
            return True
        try:
            await self._ask(request, where, via)
        except RobotsDenied as denied:
            self._crawler.stats.inc_value(stats.ABORTED)
            if cause is not None and stops:
                self._stopped[cause] = denied
            return False
        except SpiderClosing:
            return False
        except Exception:
            # What can't be decided is not fetched: nobody would see it.
            logger.exception(
                "Error while robots.txt was asked about %(url)s, which a browser wants to "
                "fetch: it is not fetched",
                {"url": url},
                extra={"spider": self._crawler.spider},
            )
            return False
        return True

    # Both.

    async def _ask(self, request: Request, where: Origin | None, via: Via) -> None:
        """Have *request* keep to the robots.txt of *where*. Raises RobotsDenied."""
        if where is None:
            self._judge.deny(Case(request, where, via=via), BAD_URL)
        override = self._access.override(where)
        entry = tdmrep = None
        if override is not None:
            robots = override.robots
        else:
            known = self._access.at_hand(where) or await self._access.known(
                where, request, is_patient=False
            )
            robots, entry, tdmrep = known.robots, known.entry, known.tdmrep
        case = Case(request, where, entry, override, via)
        decision = BY_USER if robots is None else ROBOTS_TXT
        if robots is not None and not is_robotstxt(request.url):
            decided, _ = self._judge.judge(robots, case, tdmrep)
            if decided is None:
                return
            decision = decided
        self._judge.count_override(where)
        self._reporter.allowed(case, decision)


def register(crawler: Crawler, browsers: Browsers | None) -> None:
    """Let others find what the browsers of *crawler* keep to; None where that is nothing."""
    _OF_CRAWLS[crawler] = browsers
    # A signal holds what it is connected to weakly.
    crawler.signals.connect(_leave, signals.spider_closed)


def _leave(spider: Spider) -> None:
    _OF_CRAWLS.pop(spider.crawler, None)


def open_crawls() -> list[Browsers | None]:
    """What the browsers of each crawl in this process keep to; None for each that does not
    obey robots.txt.
    """
    return list(_OF_CRAWLS.values())


def browsers_of(request: Request) -> Browsers | None:
    """What the browser keeps to that is to download *request*."""
    return _OF_REQUESTS.get(request)


def _is_ours(predicate: object) -> bool:
    if isinstance(predicate, str):
        return predicate == ABORT_FORBIDDEN
    module, name = (
        getattr(predicate, key, "") for key in ("__module__", "__qualname__")
    )
    return f"{module}.{name}" == ABORT_FORBIDDEN


def _is_meant(request: Request, where: Origin | None) -> bool:
    """Whether the spider wants *request* sent whatever robots.txt says, and meant *where*
    with it.
    """
    if not request.meta.get(meta.DONT_OBEY_ROBOTSTXT):
        return False
    meant = str(origin_asked(request)), request.meta.get(meta.EXEMPT_ORIGIN)
    return str(where) in meant
