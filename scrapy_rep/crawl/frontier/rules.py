"""Finds out the rules of sites: from overrides, from the cache of robots.txt files, or by a fetch."""

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
from scrapy_rep.crawl.frontier.sites import Phase
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

# robots.txt is fetched ahead while fewer queues than this are ready, or fewer than twice
# CONCURRENT_REQUESTS if that is more.
_MIN_READY = 64

# The minimum in seconds before a retry, so that a wrong clock causes no busy loop.
_MIN_RETRY = 0.1

# The seconds after which a host without a server is asked once more, before its requests are refused.
_ASKED_ONCE_MORE = 10.0


class Rules:
    """The rules of sites: from ``REP_OVERRIDES``, the cache, or fetched, once for each site,
    however many requests wait for them.
    """

    def __init__(
        self,
        crawler: Crawler,
        limits: Limits,
        politeness: Politeness,
        clock: Clock,
        *,
        wait_for_room: Callable[[RobotsTxtRequest], Awaitable[None]],
        free: Callable[[RobotsTxtRequest], None],
        act: Callable[[], None],
    ) -> None:
        """*wait_for_room* waits until a request for robots.txt may be sent, and *free* lets its place go if it was
        not. *act* does what follows from a change of *limits*.
        """
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._limits = limits
        self._politeness = politeness
        self._clock = clock
        self._wait_for_room = wait_for_room
        self._act = act
        self._settings = settings = RepSettings.of(crawler)
        self._identity = Identity.of(crawler)
        self.fetcher = RobotsTxtFetcher(
            crawler, settings, self._wait, free, self._is_own_fault
        )
        self.cache = RobotsTxtCache(
            crawler, self.fetcher, settings, DecisionReporter.of(crawler), clock
        )
        self.fetches: dict[Site, Deferred[None]] = {}
        """The fetches that are under way."""

        self._at_once = concurrent_requests(crawler)
        """How many robots.txt files are fetched at once while no page could be sent."""

        self._min_ready = max(_MIN_READY, 2 * self._at_once)
        self._waiting = 0
        """How many requests for robots.txt wait for their turn."""

    # What is known.

    def tell(self, site: Site) -> None:
        """Tell the limits what is known of *site*, unless it is being found out."""
        if site.phase in {Phase.WANTED, Phase.DOWN}:
            return
        site_rules, outage = self.cache.cached(site.origin), site.outage
        if (
            site_rules
            and outage is not None
            and site_rules.entry == outage.last_result.entry
        ):
            return  # The limits know that.
        if not self._tell(site, site_rules) and outage is not None:
            # It has expired by the wall clock, which goes on while a machine sleeps.
            outage.retry_at = -inf

    def _tell(self, site: Site, site_rules: SiteRules | None) -> bool:
        """Tell the limits what decides for *site*, whose robots.txt is *site_rules*. Return False if nothing is
        known.
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
            # If an override decides, the robots.txt was fetched to find the network back.
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
        """Return the rules that decide for *origin*, and for how many seconds: those of an override, or
        what is *site_rules*; None while its requests must wait.
        """
        override = self.cache.override(origin)
        if override is not None:
            return override.robots, override.ends - self._clock.time()
        if site_rules is None or site_rules.state is State.UNREACHABLE:
            return None
        return site_rules.robots, site_rules.entry.expires - self._clock.time()

    # Fetches.

    def begin_fetches(self) -> None:
        """Begin the fetches that are wanted: the urgent ones, and others if few queues are ready. While some
        are, at most half of ``CONCURRENT_REQUESTS`` are for robots.txt.
        """
        limits = self._limits
        ready = limits.ready.count
        most = max(self._at_once // 2, 1) if ready else self._at_once
        while len(self.fetches) - self._waiting < most and not limits.network.is_gone:
            # The crawl would not note what a robots.txt says that comes while the spider closes.
            if not (limits.urgent or limits.wanted) or is_closing(self._crawler):
                return
            site = limits.next_wanted(is_needed=ready < self._min_ready)
            if site is None:
                return
            self._begin(site)

    def _begin(self, site: Site, stale: CacheEntry | None = None) -> None:
        # A separate task, so that cancelling one request does not fail the others.
        task = deferred_from_coro(self._fetch(site, stale))
        if site.is_fetching:
            self.fetches[site] = task
        # Ignore cancellation. Twisted logs other errors as unhandled.
        task.addErrback(Failure.trap, CancelledError, asyncio.CancelledError)

    def fetch_fewer(self) -> None:
        """Fetch half as many robots.txt files at once from now on."""
        self._at_once = max(self._at_once // 2, 1)

    def try_network(self, origin: Origin) -> bool:
        """Fetch the robots.txt of *origin*, even if it is known, to find out whether the network of the
        crawler is back. Return False if it is being fetched already.
        """
        site = self._limits.site(origin)
        if site.is_fetching:
            return False
        self._limits.begin_fetch(site)
        site_rules = self.cache.cached(origin)
        self._begin(site, None if site_rules is None else site_rules.entry)
        return True

    def add_template(self, site: Site, request: Request) -> None:
        """Let a fetch for *site* take over proxy and headers from *request*, which waits for it, if
        no other has its proxy.
        """
        if site.templates is None:
            site.templates = [request]
        else:
            add_template(site.templates, request)

    async def _fetch(self, site: Site, stale: CacheEntry | None) -> None:
        if site.templates is None:
            # Created only now: for many wanted sites, they would take much memory.
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
            # Also after an error, all waiting requests must continue.
            self.fetches.pop(site, None)
            site.is_fetching = False
            if not self._tell(site, site_rules):
                self._limits.no_result(site, self._clock.monotonic())
            self._act()

    async def _wait(self, request: RobotsTxtRequest) -> None:
        """Wait until *request* may be sent. While it waits, it does not count as a robots.txt that is being
        fetched. Otherwise, redirects to a few hosts with a long delay could stop all fetches.
        """
        self._waiting += 1
        try:
            self._act()  # Another one may be fetched in its place.
            await self._wait_for_room(request)
        finally:
            self._waiting -= 1

    def _is_own_fault(self, failure: FailureKind) -> bool:
        """Whether *failure* says nothing about the host: the machine had no more files or ports,
        or the network of the crawler itself is gone.
        """
        if failure in {FailureKind.NETWORK, FailureKind.NO_SERVER}:
            return self._limits.network.is_gone
        return failure is FailureKind.OWN

    # Unreachable.

    def _note_unreachable(self, site: Site, site_rules: SiteRules) -> None:
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
        # Else the log has this already.
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
        """Cancel the fetch of *site* if nothing waits for it any more; nothing is recorded."""
        task = self.fetches.get(site)
        if task is not None and not site.has_waiting and site.phase is Phase.WANTED:
            if site.templates is not None:
                # The fetch sees that no request waits any more.
                site.templates.clear()
                site.templates = None
            task.cancel()

    def close(self) -> None:
        """Cancel all fetches."""
        for task in list(self.fetches.values()):
            task.cancel()
