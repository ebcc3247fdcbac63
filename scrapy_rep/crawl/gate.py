"""The gate: the downloader middleware that judges each request by robots.txt. It precedes the other middlewares, since
some of them download URLs themselves.
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

# The name of the Host header, as Scrapy stores it. _HOST.isdisjoint(headers) is True if a request does not have the
# header. This is ten times as fast as "Host" in headers, because that expression first normalizes the name.
_HOST = frozenset({b"Host"})

_DRY_RUN = "scrapy_rep.crawl.dryrun.DryRun"


class BrowserGate(Protocol):
    """Decides about the URLs that a browser fetches without a Scrapy request: redirects, scripts, images, frames."""

    async def refusal_of(
        self, url: str, cause: Request | None, page: str = ""
    ) -> Exception | None:
        """Wait until the robots.txt for *url* is known. Return None if a browser may fetch *url*. Otherwise, return the
        exception that says why not. It is RobotsDenied if robots.txt or an override forbids *url*, and SpiderClosing if
        the spider closes. Any other exception is an unexpected error in the check, which has been logged.

        :param url: the URL that the browser is about to fetch
        :param cause: the spider's request that opened the page in the browser; None if it is not known. If *cause* is
            exempt from robots.txt, URLs of the same origin are exempt too
        :param page: the URL of the page in the browser; empty if it is not known
        """
        ...


def gate_of(crawler: Crawler) -> RobotsTxtMiddleware | None:
    """Return the gate of *crawler*. Return None if the crawl has no gate, because it ignores robots.txt, it is a dry
    run, or the project has disabled the gate. The engine of *crawler* must exist.
    """
    return crawler.get_downloader_middleware(RobotsTxtMiddleware)


class Judge:
    """Decides whether a request is allowed. robots.txt, or an override in ``REP_OVERRIDES``, must allow the request,
    and the crawl must accept the crawl delay of its host (``REP_SKIP_DELAY_OVER``). The gate
    (:class:`RobotsTxtMiddleware`) and the dry run are subclasses of this class.
    """

    ORDER = 100
    """The order in ``DOWNLOADER_MIDDLEWARES``, the same as that of Scrapy's own RobotsTxtMiddleware. Middlewares that
    send requests themselves have higher orders. So the gate judges each request before such a middleware gets it."""

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
        """Look up the override for the request of *check* or, if there is none, the cached rules of its robots.txt. Set
        ``check.override`` or ``check.rules``.

        Return True if the request can be judged now. Return False if it has to wait for its robots.txt, because the
        cache has no fresh rules, or because robots.txt is unreachable. (A dry run does not wait for an unreachable
        robots.txt.) A request that is exempt from robots.txt, or whose URL is invalid, can always be judged. Raises
        ValueError if the request has invalid purposes in its meta.
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
        """Judge the request of *check* by the rules or the override in *check*, for a crawler with the product
        *tokens*. If the request is forbidden, or if the crawl delay of its host is too long, report the refusal, and
        raise RobotsDenied.

        Return two values:

        - The decision that allows the request. None if robots.txt allows the request, and the crawl does not report
          allowed requests (see :class:`DecisionReporter`).
        - The crawl delay and request rate of the host. None if no robots.txt was needed for the decision. For example,
          an override ignores the robots.txt of the host, or the request is itself for a robots.txt.
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
        """Report that *decision* refuses the request of *check*, and raise RobotsDenied."""
        self.count_override(check.origin)
        raise self._reporter.refused(check, decision)

    def allow(self, check: Check, decision: Decision | None) -> None:
        """Report that *decision*, a result of :meth:`judge`, allows the request of *check*. If *decision* is None,
        report nothing. In both cases, if an override applies to the request, count the request in the stat of the
        override.
        """
        if self._has_overrides and not check.is_exempt:
            self.count_override(check.origin)
        if decision is not None:
            self._reporter.allowed(check, decision)

    def count_override(self, origin: Origin | None) -> None:
        """If an override applies to *origin*, count a request in the stat ``rep/override/{kind}``. The first use of
        each override is also logged. Do nothing if *origin* is None.
        """
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
        """The origins of the latest requests that were exempt from robots.txt. Some components send an exempt request to
        the URL of a service that fetches the page, and then give the response the URL of the page. If the origin of
        this URL is in the cache, the response is treated as exempt."""

        crawler.signals.connect(self._spider_idle, signals.spider_idle)
        crawler.signals.connect(self._spider_opened, signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RobotsTxtMiddleware | Judge:
        """Called by Scrapy. In a dry run, return a :class:`scrapy_rep.crawl.dryrun.DryRun`."""
        if not RepSettings.of(crawler).dry_run:
            return cls(crawler)
        # The class is loaded by its path, so that only dry runs import its module.
        dry_run: type[Judge] = load_object(_DRY_RUN)
        return dry_run(crawler)

    # Requests.

    def process_request(
        self, request: Request
    ) -> Response | Request | Coroutine[Any, Any, Response | Request | None] | None:
        """Called by Scrapy. Judge *request*. Raises RobotsDenied if *request* is refused. Otherwise, return a value for
        Scrapy:

        - None if *request* may go on to the next middleware.
        - *request* itself if its robots.txt is not known yet. Scrapy then passes *request* back to the scheduler.
        - A coroutine that waits for robots.txt, if robots.txt is not known yet, and *request* did not come from the
          scheduler and so cannot go back to it. For example, a media download does not come from the scheduler.
        - The cached response if *request* is a spider's own request for a robots.txt that the crawl has cached.
        - A copy of *request* if a component downloads the same request object again while its first download is still
          running. Scrapy then downloads the copy in place of *request*.
        """
        if isinstance(request, RobotsTxtRequest):
            request.reached_middleware()
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
        """Judge the request of *check*, and return a value for Scrapy, as :meth:`process_request` does:

        - None if the request may be sent.
        - The cached response if the request is a spider's own request for a robots.txt that the crawl has cached.
        - The request itself if its robots.txt is not known yet. Scrapy then passes the request back to the scheduler.
        - A coroutine if robots.txt is not known yet, and the request cannot go back to the scheduler. For example, a
          media download cannot. The coroutine waits for robots.txt, and then judges the request.

        Raises RobotsDenied if the request is refused.
        """
        if self.look_up(check) or self._needs_no_fetch(check, entry):
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
        """Return a new :class:`Check` of *request*. It contains the origin of *request*, and whether the meta key
        ``dont_obey_robotstxt`` exempts *request* from robots.txt.
        """
        origin = entry.queue.key.origin
        if (
            origin is not None
            and not self._default_host
            and _HOST.isdisjoint(request.headers)
        ):
            # The request is not exempt, because the queue of an exempt request has no origin. The request has no Host
            # header, so its origin is the origin of its queue.
            return Check(request, origin)
        check = Check(request, self._origin_of(request))
        check.is_exempt = is_exempt(request)
        return check

    def _origin_of(self, request: Request) -> Origin | None:
        """Return the origin of *request*. If a ``Host`` header, in *request* or in ``DEFAULT_REQUEST_HEADERS``, names
        another host than the URL, this other host is the ``virtual_host`` of the origin.
        """
        origin, host = request_origin(request), self._default_host
        if not host or origin is None or "Host" in request.headers:
            return origin
        return origin.at_virtual_host(host)

    def _needs_no_fetch(
        self, check: Check, entry: InFlight, *, may_use_stale: bool = False
    ) -> bool:
        """Return True if the request of *check* can be judged without fresh rules, so that it need not wait for a fetch
        of robots.txt. Set ``check.rules`` to the rules to use, or leave it None if no rules are needed.

        :param may_use_stale: whether stale rules may be used, because the request has already waited for robots.txt
        """
        # 1. robots.txt has been unreachable for longer than REP_WAIT_TIMEOUT. The result of the failed fetch refuses
        #    the request.
        # 2. Rules that have become stale still apply to a request that waited for their fetch, and to the first request
        #    after this fetch. Otherwise, rules that become stale at once would be fetched again and again (see
        #    Site.holds_for_next).
        # 3. A request that may belong to the current fetch of robots.txt needs no rules, so check.rules stays None. If
        #    it waited for the fetch, the fetch would wait for itself.
        return (
            self._is_refused_by_outage(check)
            or ((may_use_stale or entry.may_use_stale) and self._find_stale(check))
            or self._is_for_fetch(check, entry)
        )

    def _is_refused_by_outage(self, check: Check) -> bool:
        """Return whether requests to the origin of *check* are refused because the origin's robots.txt has been
        unreachable for too long. If so, set ``check.rules`` to the result of the failed fetch.
        """
        site = self._known_site(check)
        if site is None or not site.refuses(self._frontier.clock.monotonic()):
            return False
        assert site.outage is not None
        check.rules = site.outage.last_result
        return True

    def _find_stale(self, check: Check) -> bool:
        """Set ``check.rules`` to the last known rules, even if they are stale. Return False if no rules are known."""
        assert check.origin is not None
        check.rules = self._cache.latest(check.origin)
        return check.rules is not None

    def _is_for_fetch(self, check: Check, entry: InFlight) -> bool:
        """Whether the request of *check* may be a replacement for this package's own robots.txt request, made by
        another component, such as a proxy middleware. A replacement must not wait for robots.txt, because the fetch of
        robots.txt would then wait for itself.

        A replacement cannot be recognized with certainty. So, while the robots.txt of an origin is being fetched, the
        result is True for every request, with any HTTP method, that asks for the robots.txt of this origin and did not
        come from the scheduler.
        """
        site = self._known_site(check)
        is_under_way = site is not None and site.fetch_stage is FetchStage.UNDER_WAY
        is_new = not entry.came_from_scheduler
        return is_under_way and is_new and is_robotstxt(check.request.url)

    def _known_site(self, check: Check) -> Site | None:
        """Return the site (the frontier's state of an origin) of the request of *check*; None if there is none yet."""
        assert check.origin is not None
        return self._frontier.limits.sites.get(check.origin)

    def _judge_now(self, check: Check, entry: InFlight) -> Response | None:
        """Judge the request of *check* by the rules in *check*. Return None if it may be sent. If it is a spider's own
        request for a robots.txt that the crawl has cached, return the cached response.

        Raises RobotsDenied if the rules forbid the request, if the pauses of its host are too long, or if its host has
        reached the maximum number of pages.
        """
        tokens = self._identity.tokens(check.request)
        decision, pace = self.judge(check, tokens)
        # If check.via is set, a browser or a download handler fetches the URL, and no Scrapy request for this URL
        # passes WireMiddleware. So pauses and page limits do not apply to the URL.
        bypasses_wire = check.via is not None
        if not bypasses_wire:
            check.why = self._frontier.refusal(entry)
            if check.why:
                self.refuse(check, BACK_OFF)
        copy = (
            self._cached_response(check)
            if decision is ROBOTS_TXT and not bypasses_wire
            else None
        )
        if copy is not None:
            return copy
        has_budget = self._frontier.budget is not None and not bypasses_wire
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
        """Wait until robots.txt is known, or is unreachable. Then judge the request of *check*, and return the result
        of :meth:`_judge_now`.

        Raises RobotsDenied if the request is refused, for example because robots.txt is unreachable or the wait takes
        too long. Raises SpiderClosing if the spider closes during the wait.
        """
        assert check.origin is not None
        frontier, request = self._frontier, check.request
        now, site = frontier.clock.monotonic, self._site_of(check.origin, entry)
        # If robots.txt is unreachable, most requests are refused at once. But in a crawl without a scheduler of this
        # package, requests for pages wait here for the next fetch of robots.txt, because they cannot wait in the
        # scheduler.
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
            is_known = self.look_up(check) or self._needs_no_fetch(
                check, entry, may_use_stale=True
            )
        return self._judge_now(check, entry)

    def _site_of(self, origin: Origin, entry: InFlight) -> Site:
        """Return the :class:`Site` of *origin*, the origin of the request of *entry*. If *origin* has no site, create
        one.

        Usually, the result is the site of the request's queue. If the ``Host`` header of the request names another host
        than its URL, the result is a different site, because *origin* depends on this header, but the queue does not.
        """
        frontier, queue = self._frontier, entry.queue
        if queue.site is not None and queue.site.origin == origin:
            return queue.site
        key = QueueKey(queue.key.slot, origin)
        if key not in frontier.limits.queues:
            # The new queue stays empty. It keeps the site in memory, because a site without a queue would be deleted.
            frontier.queues.add(key)
        return frontier.limits.site(origin)

    # Methods that the wire (WireMiddleware) calls.

    def is_unchanged(self, request: Request, entry: InFlight) -> bool:
        """Whether *request* still has the URL, the ``Host`` header and the product tokens in ``User-Agent`` with which
        this middleware judged it.

        If *request* was not judged yet, return False for an http or https URL, and True for a URL with another scheme,
        which needs no judgement.
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
        """Judge *request* again, because it has changed or its rules have become stale. Return None if *request* may be
        sent, *request* if it has to go back to the scheduler, and the cached response if it is a request for a
        robots.txt that the crawl has cached. Raises RobotsDenied if *request* is refused, and SpiderClosing if the
        spider closes during the call.
        """
        entry.queue = self._frontier.queues.of(request)
        # Scrapy has already added the default headers to the request, so a default ``Host`` header need not be looked
        # up in the settings.
        check = Check(request, request_origin(request))
        check.is_exempt = is_exempt(request)
        judged = self._judge(check, entry)
        return await judged if isinstance(judged, Awaitable) else judged

    def report(self, entry: InFlight) -> None:
        """Report to the ledger and the stats that the request of *entry* was allowed. Do nothing if this was already
        reported, or if the crawl does not report allowed requests.

        WireMiddleware calls this method when the request is sent. If the response comes from elsewhere, such as
        Scrapy's HTTP cache, WireMiddleware calls this method when the response arrives.
        """
        if entry.report is not None:
            report, entry.report = entry.report, None
            self.allow(*report)

    # Responses.

    def _cached_response(self, check: Check) -> Response | None:
        """Return the cached robots.txt as the response to the request of *check*, a spider's own request for this file.
        Return None if the request has to be downloaded, because the robots.txt is not cached, is unreachable, or was
        redirected. A redirected robots.txt has to be downloaded because only a download stores the redirects in the
        meta of the request.
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
        """Close the crawl with the reason ``robots_denied`` if robots.txt forbade a start request, and the crawl has
        received no page.
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
        """Return *response* if robots.txt allows its URL, which differs from the URL of *request* because the download
        handler has followed a redirect. Raises RobotsDenied if robots.txt forbids the URL, and SpiderClosing if the
        spider closes while this method waits for robots.txt.
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
        """Judge a URL that a browser or a download handler fetches itself. Wait for its robots.txt if necessary. Raises
        RobotsDenied if the URL is refused, and SpiderClosing if the spider closes during the wait.

        :param request: a request for the URL, which exists only to be judged
        :param via: how the browser or download handler reached the URL, for the report
        :param cause: the spider's request that led to the URL; None if it is not known. If the meta key
            ``dont_obey_robotstxt`` of *cause* exempts the origin of the URL (see :meth:`_is_exempt_with`), the URL is
            allowed
        """
        entry = InFlight(self._frontier.queues.of(request))
        check = Check(request, request_origin(request))
        check.via = via
        check.is_exempt = cause is not None and self._is_exempt_with(
            cause, check.origin
        )
        judged = self._judge(check, entry)
        if isinstance(judged, Awaitable):
            await judged
        self.report(entry)

    def _is_exempt_with(self, spider_request: Request, origin: Origin | None) -> bool:
        """Whether a URL of *origin* is exempt from robots.txt because of *spider_request*, for which a browser or a
        download handler fetches the URL. Two conditions must be met:

        - *spider_request* has the meta key ``dont_obey_robotstxt``.
        - *origin* is the origin of *spider_request*, or of another request with this key. The origins of such requests
          are remembered in ``_exempt_origins``.
        """
        if not spider_request.meta.get(meta.DONT_OBEY_ROBOTSTXT):
            return False
        # A component can have replaced the URL of spider_request by the URL of a service that fetches the page. The
        # origin that the spider requested is then only in _exempt_origins.
        return (
            origin == request_origin(spider_request) or origin in self._exempt_origins
        )


class ArrivalMiddleware:
    """If a download handler has followed a redirect itself, checks the URL of the response against robots.txt before
    the spider gets the response. Also decodes compressed robots.txt files.
    """

    ORDER = FetchMiddleware.ORDER

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._robotstxt = FetchMiddleware(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ArrivalMiddleware | FetchMiddleware:
        """Called by Scrapy. Return an ArrivalMiddleware or, in a dry run, a :class:`FetchMiddleware`. A FetchMiddleware
        handles requests for robots.txt, but does not check the URLs of responses.
        """
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
    """Return whether the download handler has followed a redirect itself, so that the http or https URLs of *request*
    and *response* differ. Two spellings of a URL, such as ``/~a`` and ``/%7Ea``, do not count as different.
    """
    if not is_of_http(response):
        return False
    is_same_origin = origin_of(request.url) == origin_of(response.url)
    return not (is_same_origin and have_same_target(request.url, response.url))
