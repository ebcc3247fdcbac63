"""The downloader middleware that decides whether and when a request may be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from scrapy import Request, signals
from scrapy.exceptions import CloseSpider, NotConfigured
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

from scrapy_rep.base import meta, stats
from scrapy_rep.base.browsers import ABORT_FORBIDDEN, abort_setting, browser_handler
from scrapy_rep.base.compat import connect_first
from scrapy_rep.base.identity import default_header
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import is_of_http, request_origin
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.decisions import BACK_OFF, ROBOTS_TXT, Case, DecisionReporter, Via
from scrapy_rep.crawl.fetching.request import FetchMiddleware, RobotsTxtRequest
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.crawl.gate.judge import Judge
from scrapy_rep.crawl.pages.usage import SiteUsage
from scrapy_rep.exceptions import BackingOff, RobotsDenied, SpiderClosing
from scrapy_rep.protocol.access import results as access
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.request_target import have_same_target

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scrapy.crawler import Crawler

    from scrapy_rep.crawl.frontier.frontier import Trip
    from scrapy_rep.crawl.gate.dryrun import DryRun
    from scrapy_rep.protocol.robotstxt.pace import Pace
    from scrapy_rep.protocol.robotstxt.rules import Decision


class BrowserGate(Protocol):
    """Decides about what a browser fetches on its own: redirects, scripts, images, frames."""

    async def refusal_of(
        self, url: str, cause: Request | None, page: str = ""
    ) -> Exception | None:
        """Return why a browser must not fetch *url* for the page at the URL *page*; None if it may.
        Waits until robots.txt is known.

        *cause* is the spider's request for the page: what exempts that exempts its origin. The result
        is RobotsDenied if robots.txt or an override forbids the URL; SpiderClosing; or any other
        error, which has been logged.
        """
        ...


def gate_of(crawler: Crawler) -> BrowserGate | None:
    """Return the gate of *crawler*, when its engine exists; None if it lets everything pass: the
    crawl ignores robots.txt, or is a dry run.
    """
    return crawler.get_downloader_middleware(RobotsTxtMiddleware)


class RobotsTxtMiddleware(BrowserGate):
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
            raise NotConfigured
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._obeys_delays = settings.crawl_delay_obey
        self._own = FetchMiddleware(crawler)
        self._frontier = frontier = Frontier.of(crawler)
        frontier.obey(self._wait_for_turn)
        reporter = DecisionReporter.of(crawler)
        assert frontier.rules is not None
        self._judge = Judge(crawler, settings, frontier, frontier.rules, reporter)
        self._usage = SiteUsage.of(crawler)
        self._reporter = reporter
        self._has_page = False
        """Whether any page was fetched."""

        connect_first(crawler, self._spider_idle, signals.spider_idle)
        crawler.signals.connect(self._spider_opened, signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RobotsTxtMiddleware | DryRun:
        if not RepSettings.of(crawler).dry_run:
            return cls(crawler)
        from scrapy_rep.crawl.gate.dryrun import DryRun  # noqa: PLC0415

        return DryRun(crawler)

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
        if case.is_exempt:
            request.meta.setdefault(meta.EXEMPT_ORIGIN, str(case.origin))
        if not self._judge.look_up(case) or not self._frontier.has_turn(request):
            return self._wait(case)
        decision, pace = self._judge.judge(case)
        if decision is ROBOTS_TXT and (copy := self._copy(case)) is not None:
            return copy
        if pace is not None and pace.delay:
            assert case.origin is not None
            self._frontier.keep_pace(request, case.origin, pace, case.fetched)
        self._judge.allow(case, decision)
        return None

    async def _wait(self, case: Trip) -> Response | None:
        """Send the request of *case* when its robots.txt is known and it has its turn."""
        found = await self._wait_for_turn(case)
        if isinstance(found, Response):
            return found
        self._judge.allow(case, found)
        return None

    async def _wait_for_turn(self, case: Trip) -> Response | Decision | None:
        """Wait until the robots.txt of the request of *case* is known and it has its turn. Return
        the decision that allows it, if that is to be reported, or the response that it needs no
        download for. Raises RobotsDenied or SpiderClosing.
        """
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
        return decision

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
            self._frontier.keep_pace(request, case.origin, pace, case.fetched)
        return await frontier.take_turn(case, obeys=self._obeys_delays)

    def process_response(
        self, request: Request, response: Response
    ) -> Response | Coroutine[Any, Any, Response]:
        # From a cache or another component. The places of a request with a response of its
        # own are free already.
        self._frontier.free(request)
        if isinstance(request, RobotsTxtRequest):
            return self._own.process_response(request, response)
        self._has_page = True
        if response.url != request.url and _has_moved(request, response):
            return self._check_arrival(request, response)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        self._frontier.failed(request, exception)
        # The places of a request with a response are free already.
        self._frontier.free(request)
        self._own.process_exception(request, exception)

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

    def _spider_idle(self) -> None:
        """Close the crawl with a reason of its own if it has no page since robots.txt has refused
        its start requests.
        """
        if self._reporter.is_start_refused and not self._has_page:
            raise CloseSpider("robots_denied")

    # Browsers behind download handlers.

    def _spider_opened(self) -> None:
        """Warn if no setting makes the browser of the download handler ask scrapy-rep."""
        settings = self._crawler.settings
        handler = browser_handler(settings)
        if handler is None or (handler[1] and abort_setting(settings) is not None):
            return
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

    async def _check_arrival(self, request: Request, response: Response) -> Response:
        """Return *response*, which comes from another URL than that of *request*, if robots.txt
        allows that. It was sent to the host already, so it does not wait for its turn. Raises
        RobotsDenied or SpiderClosing.
        """
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

    async def refusal_of(
        self, url: str, cause: Request | None, page: str = ""
    ) -> Exception | None:
        header = default_header(self._crawler.settings, self._crawler.spider)
        request = Request(url, headers={"User-Agent": header})
        if not is_of_http(request):
            return None
        try:
            await self._check(request, Via("browser", page), cause)
        except RobotsDenied as denied:
            self._crawler.stats.inc_value(stats.ABORTED)
            return denied
        except SpiderClosing as closing:
            return closing
        except Exception as error:
            self._logger.exception(
                "Error while checking a browser's request for %(url)s against robots.txt: "
                "the request is aborted",
                url=url,
            )
            return error
        return None

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


def _has_moved(request: Request, response: Response) -> bool:
    """Whether the URLs of *request* and *response* differ in more than spelling: the
    download handler has followed a redirect that Scrapy has not seen.
    """
    if not is_of_http(response):
        return False
    is_same_origin = origin_of(request.url) == origin_of(response.url)
    return not (is_same_origin and have_same_target(request.url, response.url))


def _is_exempted_by(cause: Request, request: Request) -> bool:
    """Whether ``dont_obey_robotstxt`` of *cause* exempts the origin of *request*: it is that of
    *cause*, or was before a middleware replaced the URL of *cause* with that of a service.
    """
    if not cause.meta.get(meta.DONT_OBEY_ROBOTSTXT):
        return False
    exempt = str(request_origin(cause)), cause.meta.get(meta.EXEMPT_ORIGIN)
    return str(request_origin(request)) in exempt
