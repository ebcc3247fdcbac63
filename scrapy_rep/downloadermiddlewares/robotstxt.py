"""The downloader middleware that decides whether and when a request may be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured
from scrapy.http import Headers
from scrapy.responsetypes import responsetypes

from scrapy_rep import meta, stats
from scrapy_rep.compat.browsers import is_for_browser
from scrapy_rep.downloadermiddlewares.dryrun import DryRun
from scrapy_rep.exceptions import BackingOff
from scrapy_rep.fetching.middleware import FetchMiddleware
from scrapy_rep.fetching.request import RobotsTxtRequest
from scrapy_rep.frontier.browsers import Browsers, register
from scrapy_rep.frontier.frontier import Frontier
from scrapy_rep.frontier.hostkeys import is_exempt, is_of_http, request_origin
from scrapy_rep.frontier.hosts import Hosts
from scrapy_rep.frontier.judge import Judge
from scrapy_rep.frontier.reporter import (
    BACK_OFF,
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
    from scrapy_rep.protocol.access.overrides import Override
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
        self._reporter = DecisionReporter.of(crawler)
        self._frontier = frontier = Frontier.of(crawler)
        self._hosts = frontier.hosts = Hosts(
            crawler, frontier, settings, self._reporter
        )
        self._judge = Judge(crawler, settings, frontier, self._hosts, self._reporter)
        self._browsers = Browsers(crawler, self._hosts, self._reporter, self._judge)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RobotsTxtMiddleware | DryRun:
        return DryRun(crawler) if RepSettings.of(crawler).dry_run else cls(crawler)

    async def process_request(self, request: Request) -> Response | None:
        if isinstance(request, RobotsTxtRequest):
            self._own.process_request(request)
            if request.fetch.is_judged:
                self._judge.judge_own(request)
            return None
        if not is_of_http(request):
            return None
        if is_for_browser(request):
            self._browsers.begin(request)
        origin = request_origin(request)
        try:
            if is_exempt(request):
                request.meta.setdefault(meta.EXEMPT_ORIGIN, str(origin))
                self._reporter.allowed(Case(request, origin), BY_USER)
                await self._frontier.place(request, obeys=self._is_for_service(request))
                return None
            if origin is None:
                self._judge.refuse(Case(request, origin), BAD_URL)
            # An override may end while the request waits for its turn.
            while (override := self._hosts.override(origin)) is not None:
                case = Case(request, origin, None, override)
                if await self._keep_to_override(override, case):
                    return None
            return await self._keep_to_robotstxt(origin, request)
        except BackingOff as error:
            case = Case(request, origin, why=str(error))
            self._judge.refuse(case, BACK_OFF)

    def _is_for_service(self, request: Request) -> bool:
        """Whether *request*, which is exempt from robots.txt, is to a service that fetches pages
        of the host whose download slot it is in: then it keeps to the delay of that host.
        """
        return self._frontier.key_of(request).is_service

    async def _keep_to_override(self, override: Override, case: Case) -> bool:
        """Apply *override* as :meth:`_keep_to` applies a robots.txt."""
        if override.robots is not None:
            return await self._keep_to(override.robots, case)
        if await self._frontier.place(case.request, obeys=False):
            return False
        self._judge.count_override(case.origin)
        self._reporter.allowed(case, BY_USER)
        return True

    async def _keep_to_robotstxt(
        self, origin: Origin, request: Request
    ) -> Response | None:
        """Apply the robots.txt of *origin* to *request*. If *request* is for that robots.txt,
        return a response from the cache.
        """
        is_patient = self._frontier.is_patient(request)
        while True:
            # It is nearly always cached, so there is nothing to await.
            known = self._hosts.cached(origin)
            if known is None:
                self._frontier.warn_of_waiting(request)
                known = await self._hosts.known(origin, request, is_patient=is_patient)
            case = Case(request, origin, known.entry)
            if is_robotstxt(request.url) and request.method == "GET":
                self._judge.count_override(origin)
                copy = self._copy(known, request)
                if copy is None and self._reporter.reports_allowed(case):
                    self._reporter.allowed(case, ROBOTS_TXT)
                return copy
            tdmrep = known.tdmrep
            if tdmrep is None and self._purposes.are_about_mining(request):
                tdmrep = await self._hosts.tdmrep(known, request)
            try:
                if await self._keep_to(known.robots, case, tdmrep):
                    return None
            finally:
                self._hosts.cache.update_weight(known)

    async def process_response(self, request: Request, response: Response) -> Response:
        # From a cache or another component. The places of a request with a response of its
        # own are free already.
        self._frontier.left(request)
        if isinstance(request, RobotsTxtRequest):
            return self._own.process_response(request, response)
        if is_for_browser(request):
            self._browsers.end(request, response)
        if self._browsers.has_moved(request, response):
            # It was already sent to the host, so it does not wait for its turn.
            await self._browsers.check_arrival(request, response)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        # The places of a request with a response are free already.
        self._frontier.left(request)
        self._own.process_exception(request, exception)
        if is_for_browser(request):
            self._browsers.end(request)

    async def _keep_to(
        self, robots: RobotsTxt, case: Case, tdmrep: TdmRep | None = None
    ) -> bool:
        """Refuse the request of *case*, or let it pass after it has waited for its places. Return
        False if it has waited: robots.txt may have changed meanwhile, so the caller must apply
        it again. Raises BackingOff.
        """
        decision, pace = self._judge.judge(robots, case, tdmrep)
        request, origin = case.request, case.origin
        assert origin is not None
        if pace.records:
            self._frontier.warn_of_waiting(request)
        fetched = float("-inf") if case.entry is None else case.entry.fetched
        if await self._hosts.place(request, origin, pace, fetched=fetched):
            return False
        self._judge.count_override(origin)
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
