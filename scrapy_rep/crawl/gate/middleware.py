"""The downloader middleware that decides whether and when a request may be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import NotConfigured
from scrapy.http import Headers
from scrapy.responsetypes import responsetypes

from scrapy_rep.base import meta, stats
from scrapy_rep.base.browsers import is_for_browser
from scrapy_rep.base.requests import is_of_http
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.decisions import BACK_OFF, ROBOTS_TXT, DecisionReporter
from scrapy_rep.crawl.fetching.request import FetchMiddleware, RobotsTxtRequest
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.crawl.frontier.rules import Hosts
from scrapy_rep.crawl.gate.browsers import Browsers, register
from scrapy_rep.crawl.gate.dryrun import DryRun
from scrapy_rep.crawl.gate.judge import Judge
from scrapy_rep.exceptions import BackingOff
from scrapy_rep.protocol.access import results as access

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.crawl.decisions import Case
    from scrapy_rep.crawl.frontier.frontier import Trip
    from scrapy_rep.protocol.robotstxt.pace import Pace


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
        self._obeys_delays = settings.crawl_delay
        self._own = FetchMiddleware(crawler)
        self._frontier = frontier = Frontier.of(crawler)
        reporter = DecisionReporter.of(crawler)
        self._hosts = frontier.hosts = Hosts(crawler, frontier, settings, reporter)
        self._judge = Judge(crawler, settings, frontier, self._hosts, reporter)
        self._browsers = Browsers(crawler, frontier, self._judge)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RobotsTxtMiddleware | DryRun:
        return DryRun(crawler) if RepSettings.of(crawler).dry_run else cls(crawler)

    def process_request(
        self, request: Request
    ) -> Response | Coroutine[Any, Any, Response | None] | None:
        """Decide about *request*. Return a coroutine only if it must wait: for robots.txt, or for
        its turn, which a request from HostQueue has already.
        """
        if isinstance(request, RobotsTxtRequest):
            self._own.process_request(request)
            return None
        case = self._frontier.trip_of(request)
        if case.key.origin is None and not is_of_http(request):
            return None
        if is_for_browser(request):
            self._browsers.begin(request)
        if case.is_exempt:
            request.meta.setdefault(meta.EXEMPT_ORIGIN, str(case.origin))
        if not self._judge.look_up(case) or not self._frontier.has_turn(request):
            return self._wait(case)
        decision, pace = self._judge.judge(case)
        if decision is ROBOTS_TXT and (copy := self._copy(case)) is not None:
            return copy
        if pace is not None and pace.delay:
            assert case.origin is not None
            self._hosts.keep_pace(request, case.origin, pace, case.fetched)
        self._judge.allow(case, decision)
        return None

    async def _wait(self, case: Trip) -> Response | None:
        """Send the request of *case* when its robots.txt is known and it has its turn."""
        request = case.request
        # It does not tell this any more once it waits for its robots.txt.
        is_patient = self._frontier.is_patient(case)
        try:
            while True:
                if not self._judge.look_up(case):
                    self._frontier.warn_of_waiting(request)
                    case.known = await self._frontier.wait_for_rules(
                        case, is_patient=is_patient
                    )
                decision, pace = self._judge.judge(case)
                if decision is ROBOTS_TXT and (copy := self._copy(case)) is not None:
                    return copy
                # If it waits, what decides may have changed meanwhile.
                if not await self._take_turn(case, pace):
                    break
        except BackingOff as error:
            case.known, case.override, case.why = None, None, str(error)
            self._judge.refuse(case, BACK_OFF)
        self._judge.allow(case, decision)
        return None

    async def _take_turn(self, case: Trip, pace: Pace | None) -> bool:
        """Wait until the request of *case* may be sent. Return whether it has waited. Raises
        BackingOff or SpiderClosing.
        """
        request, frontier = case.request, self._frontier
        if pace is None:
            # A request to a service that fetches the pages of a host keeps to its delay.
            return await frontier.take_turn(case, obeys=case.key.is_service)
        if pace.delay:
            frontier.warn_of_waiting(request)
            assert case.origin is not None
            self._hosts.keep_pace(request, case.origin, pace, case.fetched)
        return await frontier.take_turn(case, obeys=self._obeys_delays)

    def process_response(
        self, request: Request, response: Response
    ) -> Response | Coroutine[Any, Any, Response]:
        # From a cache or another component. The places of a request with a response of its
        # own are free already.
        self._frontier.free(request)
        if isinstance(request, RobotsTxtRequest):
            return self._own.process_response(request, response)
        if is_for_browser(request):
            self._browsers.end(request, response)
        if response.url != request.url and self._browsers.has_moved(request, response):
            # It was already sent to the host, so it does not wait for its turn.
            return self._browsers.check_arrival(request, response)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        self._frontier.failed(request, exception)
        # The places of a request with a response are free already.
        self._frontier.free(request)
        self._own.process_exception(request, exception)
        if is_for_browser(request):
            self._browsers.end(request)

    def _copy(self, case: Case) -> Response | None:
        """Return the cached response to a spider's own request for a robots.txt; None if there
        is none, robots.txt is unreachable or was redirected, so that Scrapy downloads it, and
        notes in its meta where it was redirected.
        """
        assert case.known is not None
        request, result = case.request, case.known.entry.result
        is_unreachable = result.access is access.Access.UNREACHABLE
        if result.status is None or is_unreachable or result.redirects:
            return None
        self._judge.count_override(case.origin)
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
