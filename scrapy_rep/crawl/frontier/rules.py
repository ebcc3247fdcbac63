"""Finds out the rules of sites from overrides, from the cache of robots.txt files, or by a fetch."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from scrapy_rep.base.compat import concurrent_requests, is_closing, is_interactive
from scrapy_rep.base.identity import Identity
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import bare_host
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.fetching.cache import RobotsTxtCache
from scrapy_rep.crawl.fetching.fetcher import RobotsTxtFetcher
from scrapy_rep.crawl.fetching.request import add_template
from scrapy_rep.crawl.frontier.politeness import duration
from scrapy_rep.crawl.frontier.sites import FetchStage, Phase
from scrapy_rep.crawl.reporting import DecisionReporter
from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.protocol.access.entries import State
from scrapy_rep.protocol.access.freshness import pause_asked
from scrapy_rep.protocol.access.results import Failure as FailureKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from scrapy_rep.base.clock import Clock
    from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
    from scrapy_rep.crawl.frontier.limits import Limits
    from scrapy_rep.crawl.frontier.politeness import Politeness
    from scrapy_rep.crawl.frontier.sites import Site
    from scrapy_rep.protocol.access.entries import CacheEntry
    from scrapy_rep.protocol.access.site_rules import SiteRules
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robots import RobotsTxt

# robots.txt files are fetched ahead of need while fewer queues are ready than this number, or than twice
# CONCURRENT_REQUESTS if that is more.
_MIN_READY = 64

# The least seconds before a robots.txt is fetched again, so that a wrong clock causes no busy loop.
_MIN_RETRY = 0.1

# A host without a server is asked once more after this many seconds, before its requests are refused.
_ASKED_ONCE_MORE = 10.0


class Rules:
    """Finds out the rules of sites and tells the limits: from ``REP_OVERRIDES``, from the cache, or by one fetch
    of robots.txt for each site, however many requests wait for it.
    """

    def __init__(
        self,
        crawler: Crawler,
        limits: Limits,
        politeness: Politeness,
        clock: Clock,
        *,
        take_room: Callable[[RobotsTxtRequest], Awaitable[None]],
        free_room: Callable[[RobotsTxtRequest], None],
        flush: Callable[[], None],
    ) -> None:
        """The frontier hands in three of its methods: *take_room* waits until a request for robots.txt may be
        sent, *free_room* frees the room of one that was not sent, and *flush* acts on changes of *limits*.
        """
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._limits = limits
        self._politeness = politeness
        self._clock = clock
        self._take_room = take_room
        self._flush = flush
        self._settings = settings = RepSettings.of(crawler)
        self._identity = Identity.of(crawler)
        self.fetcher = RobotsTxtFetcher(
            crawler, settings, self._wait, free_room, self._is_own_fault
        )
        self.cache = RobotsTxtCache(
            crawler, self.fetcher, settings, DecisionReporter.of(crawler), clock
        )
        self.fetches: dict[Site, Deferred[None]] = {}
        """The fetches that are under way, by site."""

        self._at_once = concurrent_requests(crawler)
        """The most robots.txt files that are fetched at once, while no page could be sent instead."""

        self._min_ready = max(_MIN_READY, 2 * self._at_once)
        self._waiting = 0
        """The number of requests for robots.txt that wait for room."""

    # Known rules.

    def tell_known(self, site: Site) -> None:
        """Pass the rules of *site* to the limits, if an override or the cache has these rules already."""
        if site.phase in {Phase.AWAITED, Phase.DOWN}:
            return
        site_rules, outage = self.cache.cached(site.origin), site.outage
        if (
            site_rules
            and outage is not None
            and site_rules.entry == outage.last_result.entry
        ):
            return  # The limits know already that robots.txt is unreachable.
        if not self._tell_limits(site, site_rules) and outage is not None:
            # The cached result has expired by the wall clock, which goes on while a machine sleeps.
            outage.retry_at = -inf

    def _tell_limits(self, site: Site, site_rules: SiteRules | None) -> bool:
        """Tell the limits the rules of *site*, or that its robots.txt is unreachable. Return False if neither an
        override nor *site_rules*, its robots.txt, says so.
        """
        if site_rules and site_rules.state is not State.UNREACHABLE:
            self._limits.network.worked_before()
        decision, outage = self._deciding(site.origin, site_rules), site.outage
        if decision is None:
            if site_rules is not None:
                self._note_unreachable(site, site_rules)
            return site_rules is not None
        (robots, seconds), now = decision, self._clock.monotonic()
        if robots is not None:
            # With an override, there may be a robots.txt as well, which was fetched to try the network.
            pace = self._identity.pace(robots)
            host = self._limits.limiter(bare_host(site.origin))
            self._politeness.keep_pace(host, site.origin, pace, site_rules)
        self._limits.learned(site, now, now + seconds)
        if outage is not None and site_rules is not None:
            self._logger.info(
                "%(url)s is back after %(time)s (%(result)s): requests to this host continue",
                url=site.origin.robotstxt_url,
                result=site_rules.entry.result,
                time=duration(now - outage.since),
            )
        return True

    def _deciding(
        self, origin: Origin, site_rules: SiteRules | None
    ) -> tuple[RobotsTxt | None, float] | None:
        """Return the rules that decide for *origin*, and the seconds for which they are fresh: those of an
        override, or else of *site_rules*. Return None if its requests must wait.

        The rules are None if the override allows everything.
        """
        override = self.cache.override(origin)
        if override is not None:
            return override.robots, override.ends - self._clock.time()
        if site_rules is None or site_rules.state is State.UNREACHABLE:
            return None
        return site_rules.robots, site_rules.entry.expires - self._clock.time()

    # Fetches.

    def begin_fetches(self) -> None:
        """Begin the urgent fetches, and other wanted ones if few queues are ready. As long as any queue is ready,
        at most half of ``CONCURRENT_REQUESTS`` are for robots.txt.
        """
        limits = self._limits
        ready = limits.ready.count
        most = max(self._at_once // 2, 1) if ready else self._at_once
        while len(self.fetches) - self._waiting < most and not limits.network.is_gone:
            # A robots.txt that came while the spider closes would be lost.
            if not (limits.urgent or limits.wanted) or is_closing(self._crawler):
                return
            site = limits.next_wanted(is_needed=ready < self._min_ready)
            if site is None:
                return
            self._begin(site)

    def _begin(self, site: Site, stale: CacheEntry | None = None) -> None:
        # A task of its own, so that the cancellation of one request does not fail the others.
        task = deferred_from_coro(self._fetch(site, stale))
        if site.fetch_stage is FetchStage.UNDER_WAY:
            self.fetches[site] = task
        # A cancellation is no error. Other errors are left for Twisted to log.
        task.addErrback(Failure.trap, CancelledError, asyncio.CancelledError)

    def fetch_fewer(self) -> None:
        """Fetch half as many robots.txt files at once from now on."""
        self._at_once = max(self._at_once // 2, 1)

    def try_network(self, origin: Origin) -> bool:
        """Fetch the robots.txt of *origin*, even if it is fresh, to find out whether the network of the crawler
        is back. Return False if it is being fetched already.
        """
        site = self._limits.site(origin)
        if site.fetch_stage is FetchStage.UNDER_WAY:
            return False
        self._limits.begin_fetch(site)
        site_rules = self.cache.cached(origin)
        self._begin(site, None if site_rules is None else site_rules.entry)
        return True

    def add_template(self, site: Site, request: Request) -> None:
        """Let the fetch for *site* take over proxy and headers from *request*, which waits for the rules, unless
        another template has the same proxy.
        """
        if site.templates is None:
            site.templates = [request]
        else:
            add_template(site.templates, request)

    async def _fetch(self, site: Site, stale: CacheEntry | None) -> None:
        if site.templates is None:
            # Created only now, because a crawl can have many wanted sites.
            queue = next(iter(site.parked or ()), None)
            request = None if queue is None else queue.requests.peek()
            self.add_template(site, request or Request(str(site.origin)))
        assert site.templates is not None
        site_rules = None
        try:
            stale = stale if site.outage is None else site.outage.last_result.entry
            site_rules = await self.cache.learn(
                site.origin, site.templates, stale=stale
            )
        except (SpiderClosing, CancelledError, asyncio.CancelledError):
            pass
        finally:
            # After an error, too, all waiting requests must continue.
            self.fetches.pop(site, None)
            self._limits.end_fetch(site)
            if not self._tell_limits(site, site_rules):
                self._limits.no_result(site, self._clock.monotonic())
            self._flush()

    async def _wait(self, request: RobotsTxtRequest) -> None:
        """Wait until *request* may be sent. Meanwhile it does not count as a fetch: otherwise, redirects to a few
        hosts with a long delay could stop all fetches.
        """
        self._waiting += 1
        try:
            self._flush()  # Another robots.txt may be fetched meanwhile.
            await self._take_room(request)
        finally:
            self._waiting -= 1

    def _is_own_fault(self, failure: FailureKind) -> bool:
        """Whether *failure* says nothing about the host: the machine had no more files or ports,
        or the network of the crawler itself is gone.
        """
        if failure in {FailureKind.NETWORK, FailureKind.NO_SERVER}:
            return self._limits.network.is_gone
        return failure is FailureKind.OWN

    # Unreachable sites.

    def _note_unreachable(self, site: Site, site_rules: SiteRules) -> None:
        """Tell the limits that the robots.txt of *site* is unreachable, and warn the user if requests wait."""
        before = site.phase
        count = sum(queue.count for queue in site.parked or ()) + len(
            site.waiters or ()
        )
        result, now = site_rules.entry.result, self._clock.monotonic()
        retry = max(site_rules.entry.expires - self._clock.time(), _MIN_RETRY)
        wait = self._settings.wait_timeout
        if result.failure is FailureKind.DROPPED or is_interactive(self._crawler):
            wait = 0.0
        elif result.failure is FailureKind.NO_SERVER:
            wait = min(wait, _ASKED_ONCE_MORE)
        self._limits.unreachable(
            site,
            now,
            now + retry,
            wait=wait,
            is_asked=pause_asked(result.headers, site_rules.entry.fetched) is not None,
            result=site_rules,
        )
        outage = site.outage
        # Not again while the phase stays the same.
        if outage is not None and site.phase is not before and count:
            waits = f"wait for up to {duration(wait)}"
            after = f" after {duration(now - outage.since)}"
            self._logger.warning(
                "%(url)s is%(still)s unreachable (%(result)s)%(after)s: requests to this host "
                "%(what)s (%(count)d so far; REP_WAIT_TIMEOUT). If requests still wait, or "
                "more come, robots.txt is fetched again, in %(retry)s at the earliest",
                url=site.origin.robotstxt_url,
                still=" still" if before is Phase.DOWN else "",
                result=result,
                after=after if before is Phase.DOWN else "",
                what="are refused" if site.phase is Phase.REFUSED else waits,
                count=count,
                retry=duration(outage.retry_at - now),
            )

    def cancel_if_alone(self, site: Site) -> None:
        """Cancel the fetch for *site* if no request waits for it any more. It leaves no result."""
        task = self.fetches.get(site)
        if task is not None and not site.has_waiting and site.phase is Phase.AWAITED:
            if site.templates is not None:
                # Without templates, the fetch knows that no request waits for it.
                site.templates.clear()
                site.templates = None
            task.cancel()

    def close(self) -> None:
        """Cancel all fetches."""
        for task in list(self.fetches.values()):
            task.cancel()
