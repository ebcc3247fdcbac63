"""The gate: the downloader middleware that judges each request by robots.txt, before any other middleware can send
the request.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from scrapy import Request, signals
from scrapy.exceptions import CloseSpider, NotConfigured
from scrapy.http import Response, TextResponse
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.datatypes import LocalCache
from scrapy.utils.misc import load_object

from scrapy_rep.base import meta, stats
from scrapy_rep.base.browsers import ABORT_FORBIDDEN, abort_setting, browser_handler
from scrapy_rep.base.identity import Identity, default_field, default_header
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import is_exempt, is_of_http, request_origin
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.fetching.request import FetchMiddleware, RobotsTxtRequest
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.crawl.frontier.limits import InFlight, Judgement
from scrapy_rep.crawl.frontier.queues import QueueKey
from scrapy_rep.crawl.frontier.sites import FetchStage
from scrapy_rep.crawl.pages.usage import SiteUsage
from scrapy_rep.crawl.reporting import (
    BACK_OFF,
    BAD_URL,
    BUDGET,
    BY_USER,
    ROBOTS_TXT,
    UNREACHABLE,
    Check,
    DecisionReporter,
    Via,
)
from scrapy_rep.exceptions import RobotsDenied, SpiderClosing
from scrapy_rep.protocol.access.entries import State
from scrapy_rep.protocol.access.results import Access
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.request_target import (
    decide,
    have_same_target,
    is_allowed,
    is_robotstxt,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scrapy.crawler import Crawler

    from scrapy_rep.crawl.fetching.cache import RobotsTxtCache
    from scrapy_rep.crawl.frontier.sites import Site
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robotstxt.pace import Pace
    from scrapy_rep.protocol.robotstxt.rules import Decision

# The maximum number of remembered origins of requests that are exempt from robots.txt.
_MAX_EXEMPT_ORIGINS = 10_000

# The name of the Host header, as Scrapy stores it. The call _HOST.isdisjoint(headers) tells whether a request has the
# header. The call is ten times as fast as a look-up by name, which normalizes the name first.
_HOST = frozenset({b"Host"})

_DRY_RUN = "scrapy_rep.crawl.dryrun.DryRun"


class BrowserGate(Protocol):
    """Decides about the URLs that a browser fetches without a Scrapy request: redirects, scripts, images, frames."""

    async def refusal_of(
        self, url: str, cause: Request | None, page: str = ""
    ) -> Exception | None:
        """Wait until robots.txt is known. Return None if a browser may fetch *url* for the page at the URL *page*;
        otherwise, return the exception that says why not.

        *cause* is the spider's request for the page. If *cause* is exempt from robots.txt, each URL of the same origin
        is exempt too. The exception is RobotsDenied if robots.txt or an override forbids *url*, and SpiderClosing if
        the crawl ends. Any other exception is an unexpected error in the check, which has been logged.
        """
        ...


def gate_of(crawler: Crawler) -> RobotsTxtMiddleware | None:
    """Return the gate of *crawler*, whose engine must exist. Return None if the crawl ignores robots.txt or is a dry
    run, because it has no gate then.
    """
    return crawler.get_downloader_middleware(RobotsTxtMiddleware)


class Judge:
    """Decides whether robots.txt, or an override of the user, allows a request, and whether the crawl accepts the
    delay of its host. The gate and the dry run are its subclasses.
    """

    ORDER = 100
    """The order of Scrapy's own RobotsTxtMiddleware. Middlewares that send requests themselves have higher orders, so
    the gate judges each request before they get it."""

    _cache: RobotsTxtCache

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._settings = settings = RepSettings.of(crawler)
        self._frontier = Frontier.of(crawler)
        self._reporter = reporter = DecisionReporter.of(crawler)
        self._identity = Identity.of(crawler)
        self._usage = SiteUsage.of(crawler)
        self._is_dry_run = settings.dry_run
        self._has_overrides = bool(settings.overrides)
        self._reports_all = reporter.reports_all

    def look_up(self, check: Check) -> bool:
        """Find what decides about the request of *check*, either an override or fresh rules of robots.txt, and add it
        to *check*. Return True if the request can be judged now, and False if it has to wait for its robots.txt. Raises
        ValueError if the purposes in the meta of the request are invalid.
        """
        origin = check.origin
        if check.is_exempt or origin is None:
            return True
        if meta.PURPOSES in check.request.meta:
            self._usage.purposes_of(check.request)
        if self._has_overrides:
            check.override = self._cache.override(origin)
            if check.override is not None:
                return True
        site_rules = self._cache.cached(origin)
        if (
            site_rules is None
            or self._is_dry_run
            or site_rules.state is not State.UNREACHABLE
        ):
            check.rules = site_rules
        else:
            check.rules = None  # The request waits until robots.txt is reachable again.
        return check.rules is not None

    def judge(
        self, check: Check, tokens: tuple[str, ...]
    ) -> tuple[Decision | None, Pace | None]:
        """Judge the request of *check* for a crawler with the product *tokens*. Raises RobotsDenied if the request is
        forbidden, or if the delay of its host is longer than the settings accept.

        Return two values. The first is the decision that allows the request, or None if that decision is not to be
        reported. The second is the pace of the host, or None if no robots.txt decides about the request.
        """
        if check.is_exempt:
            return BY_USER, None
        if check.origin is None:
            self.refuse(check, BAD_URL)
        request, url, site_rules = check.request, check.request.url, check.rules
        robots = None if site_rules is None else site_rules.robots
        if check.override is not None:
            robots = check.override.robots
            if robots is None:
                return BY_USER, None
        elif is_robotstxt(url) and request.method == "GET":
            return ROBOTS_TXT, None
        if robots is None:
            self.refuse(check, UNREACHABLE)
        clients = self._settings.clients
        decision = None
        is_reported = self._reports_all or check.override or check.is_refused_by_scrapy
        if is_reported or not is_allowed(robots, url, tokens, clients):
            decision = decide(robots, url, tokens, clients)
            if not decision.allowed:
                self.refuse(check, decision)
        if robots.may_state_usage or (
            site_rules is not None and site_rules.tdmrep is not None
        ):
            self._usage.note(request, robots, site_rules, tokens)
        pace = robots.pace(tokens)
        if pace.delay and not self._settings.accepts(pace):
            self._frontier.politeness.warn_of_delay(check.origin, pace.delay)
            self.refuse(check, pace.refusal(robots.decide(url, tokens).agent))
        return decision, pace

    def refuse(self, check: Check, decision: Decision) -> NoReturn:
        """Report that the request of *check* is refused. Raises RobotsDenied."""
        self.count_override(check.origin)
        raise self._reporter.refused(check, decision)

    def allow(self, check: Check, decision: Decision | None) -> None:
        """Report that the request of *check* is sent, because *decision*, a result of :meth:`judge`, allows it. If
        *decision* is None, only count the override that allows the request, if there is one.
        """
        if self._has_overrides and not check.is_exempt:
            self.count_override(check.origin)
        if decision is not None:
            self._reporter.allowed(check, decision)

    def count_override(self, origin: Origin | None) -> None:
        """If an override applies to *origin*, count that the override has decided about a request."""
        if not self._has_overrides or origin is None:
            return
        override = self._cache.override_for(origin)
        if override is not None:
            self._reporter.override_used(override, origin)


class RobotsTxtMiddleware(Judge, BrowserGate):
    """The gate: refuses each request that the robots.txt of its origin forbids.

    It replaces Scrapy's own RobotsTxtMiddleware, and has the same order. The wire (:mod:`scrapy_rep.crawl.wire`)
    decides when an allowed request is sent.
    """

    def __init__(self, crawler: Crawler) -> None:
        if not RepSettings.of(crawler).obey:
            raise NotConfigured
        super().__init__(crawler)
        self._cache = self._frontier.make_rules().cache
        self._default_host = default_field(crawler.settings, "host") or ""
        self._exempt_origins: LocalCache[Origin, bool] = LocalCache(_MAX_EXEMPT_ORIGINS)
        """The origins of the latest requests that were exempt from robots.txt. Some components replace the URL of an
        exempt request by the URL of a service that fetches the page, and set the URL of the response to the URL of
        the page. The page is then recognized as exempt by its origin."""

        crawler.signals.connect(self._spider_idle, signals.spider_idle)
        crawler.signals.connect(self._spider_opened, signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RobotsTxtMiddleware | Judge:
        """Called by Scrapy. In a dry run, return a :class:`scrapy_rep.crawl.dryrun.DryRun`."""
        if not RepSettings.of(crawler).dry_run:
            return cls(crawler)
        dry_run: type[Judge] = load_object(_DRY_RUN)  # Other crawls need not import it.
        return dry_run(crawler)

    # Requests.

    def process_request(
        self, request: Request
    ) -> Response | Request | Coroutine[Any, Any, Response | Request | None] | None:
        """Called by Scrapy. Judge *request*. Raises RobotsDenied.

        Return None if *request* may be sent. If *request* is a spider's own request for a robots.txt that the crawl
        has cached, return the cached response. If the rules for *request* are not known, return *request*, which goes
        back to the scheduler; or, for a request that did not come from the scheduler, return a coroutine that waits
        for the rules.
        """
        if isinstance(request, RobotsTxtRequest):
            request.passed()
            return None
        frontier = self._frontier
        entry = frontier.in_flight.get(request) or frontier.enter(request)
        if not entry.queue.key.is_of_http:
            return None
        if entry.is_at_wire:
            return frontier.copy_for_second_download(request)
        check = self._check_of(request, entry)
        if check.is_exempt and check.origin is not None:
            self._exempt_origins[check.origin] = True
        return self._judge(check, entry)

    def _judge(
        self, check: Check, entry: InFlight
    ) -> Response | Request | Coroutine[Any, Any, Response | None] | None:
        """Judge the request of *check* at once if the rules for it are known. Return what :meth:`_judge_now` returns:
        None, or a cached robots.txt. Raises RobotsDenied.

        If the rules are not known, return the request, which goes back to the scheduler. For a request that cannot go
        back, such as a media download, return a coroutine that waits for the rules.
        """
        if self.look_up(check) or self._find_other_rules(check, entry):
            return self._judge_now(check, entry)
        check.why = self._frontier.refusal(entry)
        if check.why:
            self.refuse(check, BACK_OFF)
        site = entry.queue.site
        if entry.may_return and site is not None and site.origin == check.origin:
            site.expire()
            return self._frontier.return_to_scheduler(check.request, entry)
        return self._judge_when_known(check, entry)

    def _check_of(self, request: Request, entry: InFlight) -> Check:
        """Return a new check for *request*. It contains the origin, and whether *request* is exempt from robots.txt."""
        origin = entry.queue.key.origin
        if (
            origin is not None
            and not self._default_host
            and _HOST.isdisjoint(request.headers)
        ):
            # The request is not exempt: the key of an exempt request's queue has no origin.
            return Check(request, origin)
        check = Check(request, self._origin_of(request))
        check.is_exempt = is_exempt(request)
        return check

    def _origin_of(self, request: Request) -> Origin | None:
        """Return the origin of *request*. If a ``Host`` header, in *request* or in ``DEFAULT_REQUEST_HEADERS``, names
        another host than the URL, the origin contains both hosts.
        """
        origin, host = request_origin(request), self._default_host
        if not host or origin is None or "Host" in request.headers:
            return origin
        return origin.at_virtual_host(host)

    def _find_other_rules(
        self, check: Check, entry: InFlight, *, may_use_stale: bool = False
    ) -> bool:
        """Return True if the request of *check* can be judged now although there is no fresh robots.txt; False if it
        has to wait for robots.txt. It can be judged in three cases:

        1. robots.txt has been unreachable for too long. Then the request is refused.
        2. The last known rules apply to the request even if they are stale by now, because the request has waited for
           these rules (*may_use_stale*), or is the first request after the fetch of these rules. Then the rules are
           added to *check*.
        3. The request may be part of a running fetch of robots.txt. Then it needs no rules.
        """
        return (
            self._is_refused_by_outage(check)
            or ((may_use_stale or entry.may_use_stale) and self._find_stale(check))
            or self._is_for_fetch(check, entry)
        )

    def _is_refused_by_outage(self, check: Check) -> bool:
        """Whether requests to the origin of *check* are refused because its robots.txt has been unreachable for too
        long. If so, add the result of the failed fetch to *check*.
        """
        site = self._known_site(check)
        if site is None or not site.refuses(self._frontier.clock.monotonic()):
            return False
        assert site.outage is not None
        check.rules = site.outage.last_result
        return True

    def _find_stale(self, check: Check) -> bool:
        """Add to *check* the last known rules, which may be stale. Return False if there are none."""
        assert check.origin is not None
        check.rules = self._cache.latest(check.origin)
        return check.rules is not None

    def _is_for_fetch(self, check: Check, entry: InFlight) -> bool:
        """Whether the request of *check* may be part of a running fetch of robots.txt, because a component replaced the
        robots.txt request by this request. If this request waited for the rules, the fetch would wait for itself.
        """
        site = self._known_site(check)
        is_under_way = site is not None and site.fetch_stage is FetchStage.UNDER_WAY
        is_new = not entry.came_from_scheduler
        return is_under_way and is_new and is_robotstxt(check.request.url)

    def _known_site(self, check: Check) -> Site | None:
        """Return the site of the origin of *check*; None if the frontier has no such site yet."""
        assert check.origin is not None
        return self._frontier.limits.sites.get(check.origin)

    def _judge_now(self, check: Check, entry: InFlight) -> Response | None:
        """Judge the request of *check* by the rules in *check*. Return None if it may be sent. If it is a spider's own
        request for a robots.txt that the crawl has cached, return the cached response. Raises RobotsDenied.
        """
        tokens = self._identity.tokens(check.request)
        decision, pace = self.judge(check, tokens)
        # If check.via is set, a browser or a download handler sends the request, and not the wire. Then pauses and page
        # limits do not refuse the request.
        is_sent = check.via is not None
        if not is_sent:
            check.why = self._frontier.refusal(entry)
            if check.why:
                self.refuse(check, BACK_OFF)
        copy = (
            self._cached_response(check)
            if decision is ROBOTS_TXT and not is_sent
            else None
        )
        if copy is not None:
            return copy
        has_budget = self._frontier.budget is not None and not is_sent
        if has_budget and not self._frontier.admits_page(check.request, entry):
            check.why = self._frontier.why_no_page(check.request, entry)
            self.refuse(check, BUDGET)
        if pace is not None and pace.delay:
            assert check.origin is not None
            host = entry.queue.host
            self._frontier.politeness.keep_pace(host, check.origin, pace, check.rules)
        fresh_until = inf
        if check.override is not None:
            fresh_until = check.override.ends
        elif check.rules is not None:
            fresh_until = check.rules.entry.expires
        entry.judgement = Judgement(
            check.request.url, tokens, check.origin, fresh_until
        )
        if decision is not None or self._has_overrides:
            entry.report = check, decision
        return None

    async def _judge_when_known(self, check: Check, entry: InFlight) -> Response | None:
        """Wait until the rules for *check* are known, then judge its request as :meth:`_judge_now` does. If robots.txt
        is unreachable, the request is refused at once, with one exception: in a crawl without a scheduler of this
        package, a request for a page keeps waiting here, because it cannot wait in the scheduler.
        """
        assert check.origin is not None
        frontier, request = self._frontier, check.request
        now, site = frontier.clock.monotonic, self._site_of(check.origin, entry)
        waits = not frontier.has_scheduler and frontier.is_page(request, entry)
        is_known = False
        while not is_known:
            is_told = (waits or not site.is_unreachable(now())) and (
                await frontier.until_known(request, entry, site)
            )
            if not is_told or (site.is_unreachable(now()) and not waits):
                outage = site.outage
                check.rules = None if outage is None else outage.last_result
                break
            # New rules decide about the requests that waited for them, even if the rules are stale by now.
            is_known = self.look_up(check) or self._find_other_rules(
                check, entry, may_use_stale=True
            )
        return self._judge_now(check, entry)

    def _site_of(self, origin: Origin, entry: InFlight) -> Site:
        """Return the site of *origin*, which is the origin of the request of *entry*. This is the site of the request's
        queue, except if a ``Host`` header names another host than the URL.
        """
        frontier, queue = self._frontier, entry.queue
        if queue.site is not None and queue.site.origin == origin:
            return queue.site
        key = QueueKey(queue.key.slot, origin)
        if key not in frontier.limits.queues:
            frontier.queues.add(key)
        return frontier.limits.site(origin)

    # For the wire.

    def is_unchanged(self, request: Request, entry: InFlight) -> bool:
        """Whether *request* still has the URL, ``Host`` and ``User-Agent`` with which it was judged. If *request* was
        not judged, the result is True only for a scheme other than http and https, which the gate does not judge.
        """
        judgement = entry.judgement
        if judgement is None:
            return not entry.queue.key.is_of_http
        has_same_host = (
            judgement.origin is entry.queue.key.origin
            and _HOST.isdisjoint(request.headers)
        ) or request_origin(request) == judgement.origin
        return (
            has_same_host
            and request.url == judgement.url
            and self._identity.tokens(request) == judgement.tokens
        )

    async def judge_again(
        self, request: Request, entry: InFlight
    ) -> Response | Request | None:
        """Judge *request* again, because it has changed or its rules have become stale. Return what
        :meth:`process_request` returns. Raises RobotsDenied.
        """
        entry.queue = self._frontier.queues.of(request)
        # Scrapy has already added the default headers to the request, so a default ``Host`` header need not be looked
        # up in the settings.
        check = Check(request, request_origin(request))
        check.is_exempt = is_exempt(request)
        judged = self._judge(check, entry)
        return await judged if isinstance(judged, Awaitable) else judged

    def report(self, entry: InFlight) -> None:
        """Report the decision that allowed the request of *entry* to the ledger and the stats, unless that was done
        before. The wire calls this when the request is sent or has its response.
        """
        if entry.report is not None:
            report, entry.report = entry.report, None
            self.allow(*report)

    # Responses.

    def _cached_response(self, check: Check) -> Response | None:
        """Return the cached response to a spider's own request for a robots.txt. Return None if the request has to be
        downloaded, because the robots.txt is not cached, is unreachable, or was redirected. A redirected robots.txt
        has to be downloaded because only a download stores the redirects in the meta of the request.
        """
        if check.rules is None:
            return None
        request, result = check.request, check.rules.entry.result
        is_unreachable = result.access is Access.UNREACHABLE
        if result.status is None or is_unreachable or result.redirects:
            return None
        self.count_override(check.origin)
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
        """Close the crawl with the reason ``robots_denied`` if robots.txt forbade a start request and the crawl has
        not got a single page.
        """
        if self._reporter.is_start_refused and not self._frontier.has_page:
            raise CloseSpider("robots_denied")

    # Browsers behind download handlers.

    def _spider_opened(self) -> None:
        """Warn if a download handler uses a browser that does not ask the gate before it fetches URLs."""
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

    async def check_arrival(self, request: Request, response: Response) -> Response:
        """Return *response* if robots.txt allows its URL. That URL differs from the URL of *request*, because the
        download handler has followed a redirect. Raises RobotsDenied or SpiderClosing.
        """
        arrived = Request(
            response.url,
            headers=request.headers,
            callback=NO_CALLBACK,
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
        request = Request(url, headers={"User-Agent": header}, callback=NO_CALLBACK)
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
        """Judge *request*, which a browser or download handler sends without Scrapy. *via* states for the report why it
        is sent: because of a redirect, or because a page needs it. If the spider's request *cause*, which led to
        *request*, is exempt from robots.txt, *request* may be exempt too. Raises RobotsDenied or SpiderClosing.
        """
        entry = InFlight(self._frontier.queues.of(request))
        check = Check(request, request_origin(request))
        check.via = via
        check.is_exempt = cause is not None and self._exempts(cause, check.origin)
        judged = self._judge(check, entry)
        if isinstance(judged, Awaitable):
            await judged
        self.report(entry)

    def _exempts(self, cause: Request, origin: Origin | None) -> bool:
        """Whether the meta key ``dont_obey_robotstxt`` of *cause* exempts *origin*. The key exempts the origin of
        *cause*. It also exempts the origins of earlier exempt requests, because a component may have replaced the URL
        of *cause* by the URL of a service that fetches the page.
        """
        if not cause.meta.get(meta.DONT_OBEY_ROBOTSTXT):
            return False
        return origin == request_origin(cause) or origin in self._exempt_origins


class ArrivalMiddleware:
    """Judges each response whose URL differs from the URL of its request, before the spider gets it. Also decodes
    compressed robots.txt files.
    """

    ORDER = FetchMiddleware.ORDER

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._robotstxt = FetchMiddleware(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ArrivalMiddleware | FetchMiddleware:
        """Called by Scrapy. A dry run does not judge responses, and only decodes robots.txt files."""
        is_dry_run = RepSettings.of(crawler).dry_run
        return FetchMiddleware.from_crawler(crawler) if is_dry_run else cls(crawler)

    @cached_property
    def _gate(self) -> RobotsTxtMiddleware | None:
        return gate_of(self._crawler)

    def process_response(
        self, request: Request, response: Response
    ) -> Response | Coroutine[Any, Any, Response]:
        if isinstance(request, RobotsTxtRequest):
            return self._robotstxt.process_response(request, response)
        is_other = response.url != request.url
        if is_other and self._gate is not None and _has_moved(request, response):
            return self._gate.check_arrival(request, response)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        self._robotstxt.process_exception(request, exception)


def _has_moved(request: Request, response: Response) -> bool:
    """Whether the URLs of *request* and *response* differ in more than spelling. Then the download handler has followed
    a redirect itself.
    """
    if not is_of_http(response):
        return False
    is_same_origin = origin_of(request.url) == origin_of(response.url)
    return not (is_same_origin and have_same_target(request.url, response.url))
