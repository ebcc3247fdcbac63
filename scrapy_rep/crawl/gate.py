"""The downloader middleware that decides whether and when a request may be sent, and that of a dry
run, which judges each request and refuses none.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from scrapy import Request, signals
from scrapy.exceptions import CloseSpider, IgnoreRequest, NotConfigured
from scrapy.http import Response, TextResponse
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.datatypes import LocalCache
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import CancelledError, Deferred

from scrapy_rep.base import meta, stats
from scrapy_rep.base.browsers import ABORT_FORBIDDEN, abort_setting, browser_handler
from scrapy_rep.base.compat import connect_first, download_slot, slot_state
from scrapy_rep.base.identity import Identity, default_header
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import host_of, is_of_http, request_origin
from scrapy_rep.base.settings import RepSettings, ignores_robotstxt
from scrapy_rep.crawl.fetching.cache import RobotsTxtCache
from scrapy_rep.crawl.fetching.fetcher import RobotsTxtFetcher
from scrapy_rep.crawl.fetching.request import FetchMiddleware, RobotsTxtRequest
from scrapy_rep.crawl.frontier.frontier import Frontier, Trip
from scrapy_rep.crawl.frontier.politeness import duration
from scrapy_rep.crawl.pages.usage import SiteUsage
from scrapy_rep.crawl.reporting import (
    BAD_URL,
    BY_USER,
    IF_OBEYED,
    ROBOTS_TXT,
    Case,
    DecisionReporter,
    Via,
)
from scrapy_rep.exceptions import RobotsDenied, SpiderClosing
from scrapy_rep.protocol.access.results import Access, State
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.request_target import (
    decide,
    have_same_target,
    is_allowed,
    is_robotstxt,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import TypeAlias

    from scrapy.crawler import Crawler

    from scrapy_rep.protocol.access.results import SiteRules
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robotstxt.pace import Pace
    from scrapy_rep.protocol.robotstxt.rules import Decision

    Outcome: TypeAlias = Response | Decision | None
    """The response that a request needs no download for; else the decision that allows it, if that
    is to be reported."""

# The number of hosts that the log names at the end of a dry run.
_SLOWEST_NAMED = 5

# The most origins that are remembered as exempt from robots.txt.
_MAX_EXEMPT_ORIGINS = 10_000

_SCRAPYS_REFUSAL = "Forbidden by robots.txt"


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


class Judge:
    """Decides whether a request is allowed by a robots.txt, or by the user's override, and whether the
    delay of its host is acceptable.
    """

    _cache: RobotsTxtCache

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._settings = settings = RepSettings.of(crawler)
        self._own = FetchMiddleware(crawler)
        self._frontier = Frontier.of(crawler)
        self._reporter = reporter = DecisionReporter.of(crawler)
        self._identity = Identity.of(crawler)
        self._usage = SiteUsage.of(crawler)
        self._is_dry_run = settings.dry_run
        self._has_overrides = bool(settings.overrides)
        self._reports_all = reporter.reports_all

    def look_up(self, case: Case) -> bool:
        """Add to *case* what decides about its request, as far as that is known now. Return False
        if that is a robots.txt that must be fetched first. Raises ValueError if the purposes in the
        meta of the request are invalid.
        """
        origin = case.origin
        if case.is_exempt or origin is None:
            return True
        if meta.PURPOSES in case.request.meta:
            self._usage.purposes_of(case.request)
        if self._has_overrides:
            case.override = self._cache.override(origin)
            if case.override is not None:
                return True
        known = self._cache.cached(origin)
        if known is None or self._is_dry_run or known.state is not State.UNREACHABLE:
            case.known = known
        else:
            case.known = None  # Requests wait for it.
        return case.known is not None

    def judge(self, case: Case) -> tuple[Decision | None, Pace | None]:
        """Return the decision that allows the request of *case*, or None if it need not be
        reported; and the pace of its host, or None if no robots.txt decides.

        Raises RobotsDenied if the request is forbidden, or if the delay is longer than the settings
        allow.
        """
        if case.is_exempt:
            return BY_USER, None
        if case.origin is None:
            self.refuse(case, BAD_URL)
        request, url, known = case.request, case.request.url, case.known
        robots = None if known is None else known.robots
        if case.override is not None:
            robots = case.override.robots
            if robots is None:
                return BY_USER, None
        elif is_robotstxt(url) and request.method == "GET":
            return ROBOTS_TXT, None
        assert robots is not None
        tokens, clients = self._identity.tokens(request), self._settings.clients
        decision = None
        is_reported = self._reports_all or case.override or case.is_refused_by_scrapy
        if is_reported or not is_allowed(robots, url, tokens, clients):
            decision = decide(robots, url, tokens, clients)
            if not decision.allowed:
                self.refuse(case, decision)
        if robots.may_state_usage or (known is not None and known.tdmrep is not None):
            self._usage.note(request, robots, known)
        pace = robots.pace(tokens)
        if pace.delay and not self._settings.accepts(pace):
            self._frontier.politeness.warn_of_delay(case.origin, pace.delay)
            self.refuse(case, pace.refusal(robots.decide(url, tokens).agent))
        return decision, pace

    def refuse(self, case: Case, decision: Decision) -> NoReturn:
        """Report that the request of *case* is refused. Raises RobotsDenied."""
        self._frontier.free(case.request)
        self.count_override(case.origin)
        raise self._reporter.refused(case, decision)

    def allow(self, case: Case, decision: Decision | None) -> None:
        """Report that the request of *case* is sent. *decision* is what :meth:`judge` returned."""
        if self._has_overrides and not case.is_exempt:
            self.count_override(case.origin)
        if decision is not None:
            self._reporter.allowed(case, decision)

    def count_override(self, origin: Origin | None) -> None:
        """Count the override for *origin*, if there is one, as used for a decision."""
        if not self._has_overrides or origin is None:
            return
        override = self._cache.override_for(origin)
        if override is not None:
            self._reporter.override_used(override, origin)


class RobotsTxtMiddleware(Judge, BrowserGate):
    """Makes a crawl follow the robots.txt of each origin.

    It replaces Scrapy's own RobotsTxtMiddleware, at :attr:`ORDER`.
    """

    ORDER = 595
    """After UserAgentMiddleware (500), which sets the User-Agent; and between
    HttpCompressionMiddleware (590) and RedirectMiddleware (600), so that this middleware
    decodes the responses to its own requests itself."""

    def __init__(self, crawler: Crawler) -> None:
        if not RepSettings.of(crawler).obey:
            raise NotConfigured
        super().__init__(crawler)
        until_turn = lambda trip: self._until_turn(trip, self._advance(trip))
        self._cache = self._frontier.obey(until_turn).cache
        self._has_page = False
        """Whether any page was fetched."""

        self._exempt_origins: LocalCache[str, bool] = LocalCache(_MAX_EXEMPT_ORIGINS)
        """The origins of the last requests that were exempt from robots.txt. A component may replace
        the URL of a request by that of a service, and restore it in the response; the new request has
        nothing of the old one that is not the project's."""

        connect_first(crawler, self._spider_idle, signals.spider_idle)
        crawler.signals.connect(self._spider_opened, signals.spider_opened)

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
        trip = self._frontier.trip_of(request)
        if trip.key.origin is None and not is_of_http(request):
            return None
        if trip.is_exempt:
            self._exempt_origins[str(trip.origin)] = True
        found = self._advance(trip)
        if isinstance(found, Deferred):
            return self._wait(trip, found)
        if isinstance(found, Response):
            return found
        if found is not None or self._has_overrides:
            self.allow(trip, found)
        return None

    async def _wait(
        self, trip: Trip, found: Deferred[None] | Outcome
    ) -> Response | None:
        """Report that the request of *trip* is sent, once that is so, or return its response."""
        outcome = await self._until_turn(trip, found)
        if isinstance(outcome, Response):
            return outcome
        self.allow(trip, outcome)
        return None

    async def _until_turn(self, trip: Trip, found: Deferred[None] | Outcome) -> Outcome:
        """Wait until the request of *trip* may be sent; *found* is what :meth:`_advance` has returned.
        Raises RobotsDenied or SpiderClosing.
        """
        while isinstance(found, Deferred):
            # Meanwhile, what decides may change.
            await maybe_deferred_to_future(found)
            found = self._advance(trip)
        return found

    def _advance(self, trip: Trip) -> Deferred[None] | Outcome:
        """Judge the request of *trip* by what is known now, and let it have its turn. Or return what
        it has to wait for first: then call this again. Raises RobotsDenied.
        """
        frontier = self._frontier
        if trip.unreachable is not None:
            trip.known = trip.unreachable
        elif not self.look_up(trip):
            return frontier.wait_for_rules(trip)
        decision, pace = self.judge(trip)
        if trip.via is not None:
            return decision  # A browser sends it, or has sent it.
        if decision is ROBOTS_TXT and (copy := self._copy(trip)) is not None:
            return copy
        # A request to a service that fetches the pages of a host keeps to its delay.
        obeys = trip.key.is_service if pace is None else frontier.obeys_delays
        if pace is not None and pace.delay:
            frontier.keep_pace(trip, pace)
        return frontier.take_turn(trip, obeys=obeys) or decision

    def process_response(
        self, request: Request, response: Response
    ) -> Response | Coroutine[Any, Any, Response]:
        # From a cache or another component. The places of a request with a response of its
        # own are free already.
        if request in self._frontier.trips:
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
        is_unreachable = result.access is Access.UNREACHABLE
        if result.status is None or is_unreachable or result.redirects:
            return None
        self.count_override(case.origin)
        self._crawler.stats.inc_value(stats.FROM_COPY)
        content_type = dict(result.headers).get("content-type", "text/plain")
        return TextResponse(
            request.url,
            status=result.status,
            headers={"Content-Type": content_type},
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
        self._logger.warning(
            "The browser of %(handler)s may fetch URLs that robots.txt forbids: it follows "
            "redirects, runs scripts, and loads images and frames. scrapy-rep checks only "
            "the URL of each Scrapy request and the URL that its response comes from. It can "
            "check the rest only with scrapy-playwright, and PLAYWRIGHT_ABORT_REQUEST = %(ours)r",
            handler=handler[0],
            ours=ABORT_FORBIDDEN,
        )

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
        trip = Trip(request, request_origin(request))
        trip.via = via
        trip.is_exempt = cause is not None and self._is_exempted_by(cause, request)
        await self._wait(trip, self._advance(trip))

    def _is_exempted_by(self, cause: Request, request: Request) -> bool:
        """Whether ``dont_obey_robotstxt`` of *cause* exempts the origin of *request*: it is that of
        *cause*, or of another request that the spider has exempted, in case a component has replaced
        the URL of *cause* by that of a service.
        """
        if not cause.meta.get(meta.DONT_OBEY_ROBOTSTXT):
            return False
        origin = str(request_origin(request))
        return origin == str(request_origin(cause)) or origin in self._exempt_origins


def _has_moved(request: Request, response: Response) -> bool:
    """Whether the URLs of *request* and *response* differ in more than spelling: the
    download handler has followed a redirect that Scrapy has not seen.
    """
    if not is_of_http(response):
        return False
    is_same_origin = origin_of(request.url) == origin_of(response.url)
    return not (is_same_origin and have_same_target(request.url, response.url))


# Dry runs.


class DryRun(Judge):
    """Takes the place of RobotsTxtMiddleware in a dry run.

    It judges requests as that does, reports what would be refused, and lets everything pass. A
    request waits until its robots.txt is known or unreachable, as in stock Scrapy, and for nothing
    else.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._clock = self._frontier.clock
        # Its requests do not wait for a turn: pages do not, so that there might never be one.
        fetcher = RobotsTxtFetcher(crawler, self._settings)
        given = self._settings, self._reporter, self._clock
        self._cache = RobotsTxtCache(crawler, fetcher, *given)
        self._sent: Counter[str] = Counter()
        """The requests to each host that asks for a delay."""

        self._delays: dict[str, float] = {}
        """The longest delay of each of these hosts, in seconds."""

        self._began = self._clock.monotonic()
        crawler.signals.connect(self._spider_opened, signals.spider_opened)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    # Requests and responses.

    async def process_request(self, request: Request) -> None:
        if isinstance(request, RobotsTxtRequest):
            self._own.process_request(request)
        elif is_of_http(request) and not _is_scrapys_own(request):
            await self._judge_request(request)

    def process_response(self, request: Request, response: Response) -> Response:
        return self._own.process_response(request, response)

    async def process_exception(self, request: Request, exception: Exception) -> None:
        self._own.process_exception(request, exception)
        if isinstance(request, RobotsTxtRequest):
            return
        if isinstance(exception, IgnoreRequest) and str(exception) == _SCRAPYS_REFUSAL:
            # Scrapy's own middleware has refused it, so it has not come here. Nor has it
            # come to the middleware that sets the header by which it is judged.
            header = default_header(self._crawler.settings, self._crawler.spider)
            request.headers.setdefault("User-Agent", header)
            await self._judge_request(request, is_refused_by_scrapy=True)

    # Verdicts.

    async def _judge_request(
        self, request: Request, *, is_refused_by_scrapy: bool = False
    ) -> None:
        """Judge *request* when its robots.txt is known. Whatever goes wrong, it is sent, unless it
        *is_refused_by_scrapy*.
        """
        self._crawler.stats.inc_value(stats.DRY_RUN_REQUESTS)
        try:
            case = self._frontier.trip_of(request)
            case.is_refused_by_scrapy = is_refused_by_scrapy
            if not self.look_up(case):
                assert case.origin is not None
                case.known = await self._known(case.origin, request)
            decision, pace = self.judge(case)
            self.allow(case, decision)
        except CancelledError:
            raise
        except (RobotsDenied, SpiderClosing):
            return
        except Exception:
            self._logger.exception(
                "Error while judging %(request)s: the dry run does not count it",
                request=request,
            )
            return
        delay = 0.0 if pace is None else self._settings.delay(pace)
        if delay:
            assert pace is not None
            assert case.origin is not None
            self._frontier.politeness.report_delay(case.origin, pace)
            self._note_delay(request, delay)

    async def _known(self, origin: Origin, request: Request) -> SiteRules:
        """Return the files of *origin*, once they are known or unreachable."""
        # In a task of its own: if *request* is cancelled, others that wait go on.
        known: Deferred[SiteRules] = Deferred()
        learn = self._cache.learn(origin, [request])
        task = deferred_from_coro(learn)
        task.addCallbacks(known.callback, known.errback)
        return await maybe_deferred_to_future(known)

    def _note_delay(self, request: Request, delay: float) -> None:
        slot = slot_state(self._crawler, download_slot(self._crawler, request))
        host, delays = host_of(request), self._delays
        self._sent[host] += 1
        delays[host] = max(delays.get(host, 0.0), delay, slot.delay if slot else 0.0)
        seconds = round(self._sent[host] * delays[host], 3)
        self._crawler.stats.max_value(stats.DRY_RUN_SECONDS, seconds)

    # The crawl.

    def _spider_opened(self) -> None:
        self._began = self._clock.monotonic()
        if self._settings.obey:
            self._logger.info(
                "ROBOTSTXT_OBEY is True in this project: Scrapy's RobotsTxtMiddleware stays active, "
                "refuses as before, and fetches each robots.txt a second time. What it refuses is "
                "part of the numbers below"
            )
        elif ignores_robotstxt(self._crawler.settings):
            self._logger.info(
                "ROBOTSTXT_OBEY is False in this project: a real run would ignore robots.txt. This "
                "dry run shows what a real run with ROBOTSTXT_OBEY = True would refuse"
            )

    def _spider_closed(self) -> None:
        self._logger.at_end(
            logging.INFO,
            "This dry run has judged %(requests)s requests in %(elapsed)s. Pages behind requests "
            "and links that a real run would withhold count as well, so its numbers are "
            "upper limits",
            requests=f"{self._crawler.stats.get_value(stats.DRY_RUN_REQUESTS, 0):,}",
            elapsed=duration(self._clock.monotonic() - self._began),
        )
        times = {host: self._sent[host] * delay for host, delay in self._delays.items()}
        slowest = sorted(times.items(), key=lambda each: -each[1])
        ignores = ignores_robotstxt(self._crawler.settings)
        for host, seconds in slowest[:_SLOWEST_NAMED]:
            self._logger.at_end(
                logging.INFO,
                "A real run%(condition)s would take up to %(time)s for %(host)s: %(requests)s requests with a "
                "delay of %(delay)g s",
                condition=IF_OBEYED if ignores else "",
                host=host,
                time=duration(seconds),
                requests=f"{self._sent[host]:,}",
                delay=self._delays[host],
            )


def _is_scrapys_own(request: Request) -> bool:
    """Whether *request* is of Scrapy's own RobotsTxtMiddleware, for a robots.txt."""
    return (
        request.callback is NO_CALLBACK
        and is_robotstxt(request.url)
        and bool(request.meta.get(meta.DONT_OBEY_ROBOTSTXT))
    )
