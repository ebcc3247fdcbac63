"""The downloader middleware that decides whether and when a request may be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured
from scrapy.http import Headers
from scrapy.responsetypes import responsetypes

from scrapy_rep import meta, stats
from scrapy_rep.compat.browsers import is_for_browser
from scrapy_rep.fetching.middleware import FetchMiddleware
from scrapy_rep.fetching.request import RobotsTxtRequest
from scrapy_rep.frontier.browsers import Browsers, register
from scrapy_rep.frontier.frontier import Frontier, is_exempt
from scrapy_rep.frontier.hostaccess import HostAccess
from scrapy_rep.frontier.hostkeys import is_of_http, request_origin
from scrapy_rep.frontier.judge import Judge
from scrapy_rep.frontier.reporter import (
    BAD_URL,
    BY_USER,
    ROBOTS_TXT,
    Case,
    DecisionReporter,
)
from scrapy_rep.protocol.access import results as access
from scrapy_rep.protocol.request_target import is_robotstxt
from scrapy_rep.responses.purposes import Purposes
from scrapy_rep.settings import RepSettings

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.fetching.cache import Known
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robots import RobotsTxt
    from scrapy_rep.protocol.usage.tdmrep import TdmRep


class RobotsTxtMiddleware:
    """Makes a crawl follow the robots.txt of each origin.

    It replaces Scrapy's own RobotsTxtMiddleware, at :attr:`ORDER`.
    """

    ORDER = 595
    """After UserAgentMiddleware (500), which sets the User-Agent; and between
    HttpCompressionMiddleware (590) and RedirectMiddleware (600), so that this middleware
    decodes the responses to its own requests itself."""

    def __init__(self, crawler: Crawler) -> None:
        settings = RepSettings.of(crawler)
        if not settings.obey:
            register(crawler, None)
            raise NotConfigured
        self._crawler = crawler
        self._own = FetchMiddleware(crawler)
        self._purposes = Purposes.of(crawler)
        self._reporter = DecisionReporter(crawler, settings)
        self._frontier = Frontier.of(crawler)
        self._access = self._frontier.access = HostAccess(
            crawler, self._frontier.alarms, settings, self._reporter
        )
        self._judge = Judge(crawler, settings, self._access, self._reporter)
        self._browsers = Browsers(crawler, self._access, self._reporter, self._judge)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RobotsTxtMiddleware:
        return cls(crawler)

    async def process_request(self, request: Request) -> Response | None:
        if isinstance(request, RobotsTxtRequest):
            self._own.process_request(request)
            if request.fetch.is_judged:
                self._judge_own(request)
            return None
        if not is_of_http(request):
            return None
        if is_for_browser(request):
            self._browsers.begin(request)
        origin = request_origin(request)
        if is_exempt(request):
            request.meta.setdefault(meta.EXEMPT_ORIGIN, str(origin))
            self._reporter.allowed(Case(request, origin), BY_USER)
            await self._access.wait_if_service(request)
            return None
        if origin is None:
            self._judge.refuse(Case(request, origin), BAD_URL)
        override = self._access.override(origin)
        if override is not None:
            case = Case(request, origin, None, override)
            if override.robots is not None:
                while not await self._keep_to(override.robots, case):
                    pass
            else:
                self._judge.count_override(origin)
                self._reporter.allowed(case, BY_USER)
            return None
        return await self._keep_to_robotstxt(origin, request)

    async def _keep_to_robotstxt(
        self, origin: Origin, request: Request
    ) -> Response | None:
        """Apply the robots.txt of *origin* to *request*. If *request* is for that robots.txt,
        return a response from the cache.
        """
        while True:
            # It is nearly always cached, so there is nothing to await.
            known = self._access.cached(origin) or await self._learn(origin, request)
            case = Case(request, origin, known.entry)
            if is_robotstxt(request.url) and request.method == "GET":
                self._judge.count_override(origin)
                copy = self._copy(known, request)
                if copy is None and self._reporter.reports_allowed(case):
                    self._reporter.allowed(case, ROBOTS_TXT)
                return copy
            tdmrep = known.tdmrep
            if tdmrep is None and self._purposes.are_about_mining(request):
                tdmrep = await self._access.tdmrep(known, request)
            try:
                if await self._keep_to(known.robots, case, tdmrep):
                    return None
            finally:
                self._access.cache.update_weight(known)

    async def _learn(self, origin: Origin, request: Request) -> Known:
        """Wait until the robots.txt of *origin* is known, and return it."""
        self._frontier.warn_of_waiting(request)
        is_patient = self._frontier.is_patient(request)
        return await self._access.known(origin, request, is_patient=is_patient)

    async def process_response(self, request: Request, response: Response) -> Response:
        # For a response from a cache: the turn of a request that was sent has ended already.
        self._access.turns.release(request)
        if isinstance(request, RobotsTxtRequest):
            return self._own.process_response(request, response)
        if is_for_browser(request):
            self._browsers.end(request, response)
        if self._browsers.has_moved(request, response):
            # It was already sent to the host, so it does not wait for its turn.
            await self._browsers.check_arrival(request, response)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        # For a dropped request: the turn of a request that was sent has ended already.
        self._access.turns.release(request)
        self._own.process_exception(request, exception)
        if is_for_browser(request):
            self._browsers.end(request)

    def _judge_own(self, request: RobotsTxtRequest) -> None:
        """Raise RobotsDenied if *request*, of this package for another file than robots.txt, is
        forbidden, as if it were of a spider.
        """
        origin = request_origin(request)
        assert origin is not None
        known, override = request.fetch.known, self._access.override(origin)
        robots = known.robots if known else override and override.robots
        if robots is not None:
            entry = known.entry if known else None
            self._judge.judge(robots, Case(request, origin, entry, override))
        self._judge.count_override(origin)

    async def _keep_to(
        self, robots: RobotsTxt, case: Case, tdmrep: TdmRep | None = None
    ) -> bool:
        """Refuse the request of *case*, or let it pass after it has waited for its turn. Return
        False if it waited for visiting hours: robots.txt may have changed meanwhile, so the
        caller must apply it again.
        """
        decision, pace = self._judge.judge(robots, case, tdmrep)
        if pace is not None:
            request, origin = case.request, case.origin
            assert origin is not None
            self._frontier.warn_of_waiting(request)
            fetched = float("-inf") if case.entry is None else case.entry.fetched
            if not await self._access.wait_for_turn(
                request, origin, pace, fetched=fetched
            ):
                return False
        self._judge.count_override(case.origin)
        if decision is not None:
            self._reporter.allowed(case, decision)
        return True

    def _copy(self, known: Known, request: Request) -> Response | None:
        """Return the cached response to a spider's own request for a robots.txt; None if there
        is none or robots.txt is unreachable, so that Scrapy downloads it.
        """
        result = known.entry.result
        if result.status is None or result.access is access.Access.UNREACHABLE:
            return None
        self._crawler.stats.inc_value(stats.FROM_COPY)
        content_type = dict(result.headers).get("content-type", "text/plain")
        headers = Headers({"Content-Type": content_type})
        response_class = responsetypes.from_args(
            headers=headers, url=request.url, body=result.body
        )
        return response_class(
            request.url,
            status=result.status,
            headers=headers,
            body=result.body,
            flags=[meta.COPIED_FLAG],
            request=request,
        )
