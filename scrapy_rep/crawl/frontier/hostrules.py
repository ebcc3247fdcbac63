"""Tells the core which rules hosts have: from overrides, from the cache of robots.txt files, or fetched."""

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
from scrapy_rep.base.requests import bare_host, request_origin
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.fetching.cache import RobotsTxtCache
from scrapy_rep.crawl.fetching.fetcher import MAX_ON_NETWORK, RobotsTxtFetcher
from scrapy_rep.crawl.fetching.request import add_template
from scrapy_rep.crawl.frontier.backlog import NoTerms, Terms
from scrapy_rep.crawl.frontier.core import Phase
from scrapy_rep.crawl.frontier.politeness import duration
from scrapy_rep.crawl.reporting import DecisionReporter
from scrapy_rep.exceptions import BackingOff, SpiderClosing
from scrapy_rep.protocol.access.results import Failure as FailureKind
from scrapy_rep.protocol.access.results import State, pause_asked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from scrapy_rep.base.clock import Clock
    from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
    from scrapy_rep.crawl.frontier.core import Core, Host
    from scrapy_rep.crawl.frontier.politeness import Politeness
    from scrapy_rep.protocol.access.results import CacheEntry, SiteRules
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robots import RobotsTxt

# The number of robots.txt files that are looked up or fetched at once.
_MAX_FETCHING = MAX_ON_NETWORK

# Those that wait for their turn at a host do not count, or some hosts could stop all others: many
# that redirect robots.txt to one with a delay. But no more of them may wait than this.
_MAX_WAITING = 10_000

# robots.txt is fetched ahead while fewer back queues than this are ready, or fewer than
# twice CONCURRENT_REQUESTS if that is more. A host counts as ready while its fetch is as new as
# this, in seconds: most servers have answered by then.
_MIN_READY = 64
_SOON = 1.0

# The minimum in seconds before a retry, so that a wrong clock causes no busy loop.
_MIN_RETRY = 0.1

# The seconds after which a host without a server is asked once more, before its requests are refused.
_ASKED_ONCE_MORE = 10.0

# The seconds for which the requests that waited for a robots.txt use it even if it was
# already stale when it arrived.
_MIN_HOLDS = 1.0


class HostRules:
    """The rules of hosts: from ``REP_OVERRIDES``, the cache, or fetched, once for each host,
    however many requests wait for them.
    """

    def __init__(
        self,
        crawler: Crawler,
        core: Core,
        politeness: Politeness,
        clock: Clock,
        *,
        take_turn: Callable[[RobotsTxtRequest], Awaitable[None]],
        free: Callable[[Request], None],
        act: Callable[[], None],
    ) -> None:
        """*take_turn* waits until a request for robots.txt may be sent, and *free* frees its places.
        *act* has the owner of the core do what that says.
        """
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._core = core
        self._politeness = politeness
        self._clock = clock
        self._take_turn = take_turn
        self._act = act
        self._settings = settings = RepSettings.of(crawler)
        self._identity = Identity.of(crawler)
        waits = self._wait, free, self._is_own_fault
        self.fetcher = RobotsTxtFetcher(crawler, settings, *waits)
        self.cache = RobotsTxtCache(
            crawler, self.fetcher, settings, DecisionReporter.of(crawler), clock
        )
        self.fetches: dict[Host, Deferred[None]] = {}
        """The fetches that are under way."""

        self._max_fetching = _MAX_FETCHING
        self._min_ready = max(_MIN_READY, 2 * concurrent_requests(crawler))
        self._soon: set[Host] = set()
        """Hosts whose fetch began a moment ago: they will be ready soon."""

        self._soon_until = -inf
        self._waiting = 0
        """How many requests for robots.txt wait for their turn."""

    # What is known.

    def terms(self, origin: Origin) -> Terms | NoTerms:
        """Return what the robots.txt of *origin* says, or the override for it."""
        deciding = self._deciding(origin, self.cache.cached(origin))
        if deciding is None:
            return NoTerms.UNKNOWN
        robots, holds = deciding
        pace = None if robots is None else self._identity.pace(robots)
        return Terms(holds, 0.0 if pace is None else self._settings.delay(pace))

    def _deciding(
        self, origin: Origin, known: SiteRules | None
    ) -> tuple[RobotsTxt | None, float] | None:
        """Return the rules that decide for *origin*, and for how many seconds: those of an override, or
        what is *known*; None while its requests must wait.
        """
        override = self.cache.override(origin)
        if override is not None:
            robots, until = override.robots, override.ends
        elif known is None or known.state is State.UNREACHABLE:
            return None
        else:
            robots, until = known.robots, known.entry.expires
        return robots, max(until - self._clock.time(), _MIN_HOLDS)

    def tell(self, host: Host) -> None:
        """Tell the core what is known of *host*, for which a ticket comes, unless it waits already."""
        if host.phase in {Phase.WANTED, Phase.DOWN}:
            return
        known, outage = self.cache.cached(host.origin), host.outage
        if known and outage is not None and known.entry == outage.known.entry:
            return  # The core knows that.
        if not self._tell(host, known) and outage is not None:
            # It has expired by the wall clock, which goes on while a machine sleeps.
            outage.retry_at = -inf

    def _tell(self, host: Host, known: SiteRules | None) -> bool:
        """Tell the core what decides for *host*, whose robots.txt is *known*. Return False if that
        is nothing yet.
        """
        deciding, outage = self._deciding(host.origin, known), host.outage
        if deciding is None:
            if known is not None:
                self._note_unreachable(host, known)
            return known is not None
        key = bare_host(host.origin)
        (robots, holds), now = deciding, self._clock.monotonic()
        if robots is not None:
            # If an override decides, the robots.txt was fetched to find the network back.
            pace = self._identity.pace(robots)
            scope = self._core.scopes.get(key)
            if scope is None and self._settings.delay(pace):
                # The only page may be refused, and nothing else would remember the delay.
                scope = self._core.scope(key)
            if scope is not None:
                self._politeness.keep_pace(scope, host.origin, pace, known)
        self._core.known(host, now, now + holds)
        if outage is not None and known is not None:
            self._logger.info(
                "%(url)s is back after %(time)s (%(result)s): requests to this host continue",
                url=host.origin.robotstxt_url,
                result=known.entry.result,
                time=duration(now - outage.since),
            )
        return True

    # Fetches.

    def begin_fetches(self) -> None:
        """Begin the wanted fetches: the urgent ones, and others if few queues are ready. Those of
        a queue elsewhere do not count: it wants only as many rules as it needs.
        """
        ready = 0
        for queues in self._core.queues:
            ready += queues.count
        if self._clock.monotonic() >= self._soon_until:
            self._soon.clear()
            self._soon_until = self._clock.monotonic() + _SOON
        while len(self.fetches) - self._waiting < self._max_fetching:
            is_needed = ready + len(self._soon) < self._min_ready
            if not is_needed and not self._core.urgent:
                return
            host = self._core.next_wanted(is_needed=is_needed)
            # The crawl would not note what a robots.txt says that comes while the spider closes.
            if host is None or is_closing(self._crawler):
                return
            self._begin(host)

    def _begin(self, host: Host, stale: CacheEntry | None = None) -> None:
        # A separate task, so that cancelling one request does not fail the others.
        task = deferred_from_coro(self._fetch(host, stale))
        if host.is_fetching:
            self.fetches[host] = task
            self._soon.add(host)
        # Ignore cancellation. Twisted logs other errors as unhandled.
        task.addErrback(Failure.trap, CancelledError, asyncio.CancelledError)

    def fetch_fewer(self) -> None:
        """Fetch half as many robots.txt files at once from now on."""
        self._max_fetching = max(self._max_fetching // 2, 1)

    def probe(self, request: Request) -> None:
        """Fetch the robots.txt of the host of *request*, even if it is known, to find out whether the
        network of the crawler is back.
        """
        origin = request_origin(request)
        host = None if origin is None else self._core.host(origin)
        if host is None or host.is_fetching or is_closing(self._crawler):
            return
        self._core.begin_fetch(host)
        self.add_template(host, request)
        known = self.cache.cached(host.origin)
        self._begin(host, None if known is None else known.entry)

    def add_template(self, host: Host, request: Request) -> None:
        """Let a fetch for *host* take over proxy and headers from *request*, which waits for it, if
        no other has its proxy.
        """
        if host.templates is None:
            host.templates = [request]
        else:
            add_template(host.templates, request)

    async def _fetch(self, host: Host, stale: CacheEntry | None) -> None:
        if host.templates is None:
            # Created only now: for many wanted hosts, they would take much memory.
            waiting = next(iter(host.waiting), None)
            request = None if waiting is None else waiting.peek()
            self.add_template(host, request or Request(str(host.origin)))
        templates = host.templates
        known = None
        try:
            stale = stale if host.outage is None else host.outage.known.entry
            known = await self.cache.learn(host.origin, templates, stale=stale)
        except (SpiderClosing, CancelledError, asyncio.CancelledError):
            pass
        finally:
            # Also after an error, all waiting requests must continue.
            self.fetches.pop(host, None)
            self._soon.discard(host)
            self._core.end_fetch(host)
            if not self._tell(host, known):
                self._core.unknown(host, self._clock.monotonic())
            self._act()

    async def _wait(self, request: RobotsTxtRequest) -> None:
        """Wait for the turn of a request for robots.txt, to which delays and pauses apply too."""
        if self._waiting >= _MAX_WAITING:
            why = f"{self._waiting} others for robots.txt wait for hosts with a delay"
            raise BackingOff(why)
        self._waiting += 1
        try:
            await self._take_turn(request)
        finally:
            self._waiting -= 1

    def _is_own_fault(self, failure: FailureKind) -> bool:
        """Whether *failure* says nothing about the host: the machine had no more files or ports,
        or the network of the crawler itself is gone.
        """
        if failure in {FailureKind.NETWORK, FailureKind.NO_SERVER}:
            return self._core.network.gone_since is not None
        return failure is FailureKind.OWN

    # Unreachable.

    def _note_unreachable(self, host: Host, known: SiteRules) -> None:
        before = host.phase
        counts = [(len(each), each.is_patient) for each in host.waiting]
        result, now = known.entry.result, self._clock.monotonic()
        retry = max(known.entry.expires - self._clock.time(), _MIN_RETRY)
        wait = self._settings.wait_timeout
        if result.failure is FailureKind.DROPPED or is_interactive(self._crawler):
            wait = 0.0
        elif result.failure is FailureKind.NO_SERVER:
            wait = min(wait, _ASKED_ONCE_MORE)
        self._core.unreachable(
            host,
            now,
            now + retry,
            wait=wait,
            is_asked=pause_asked(result.headers, known.entry.fetched) is not None,
            known=known,
        )
        # Else nothing waits for it any more, or the log has this already.
        if host.outage is not None and host.phase is not before:
            is_refused = host.phase is Phase.REFUSED
            # Those of media pipelines, for example, are refused at once.
            count = sum(size for size, waits in counts if waits or is_refused)
            waits = f"wait for up to {duration(wait)}"
            after = f" after {duration(now - host.outage.since)}"
            self._logger.warning(
                "%(url)s is%(still)s unreachable (%(result)s)%(after)s: requests to this host "
                "%(what)s (%(count)d so far; REP_WAIT_TIMEOUT). If requests still wait, or "
                "more come, robots.txt is fetched again, in %(retry)s at the earliest",
                url=host.origin.robotstxt_url,
                still=" still" if before is Phase.DOWN else "",
                result=result,
                after=after if before is Phase.DOWN else "",
                what="are refused" if is_refused else waits,
                count=count,
                retry=duration(host.outage.retry_at - now),
            )

    def cancel_if_alone(self, host: Host) -> None:
        """Cancel the fetch of *host* if nothing waits for it any more; nothing is recorded."""
        task = self.fetches.get(host)
        if task is not None and not host.waiting and host.phase is Phase.WANTED:
            if host.templates is not None:
                # The fetch sees that no request waits any more.
                host.templates.clear()
                host.templates = None
            task.cancel()

    def close(self) -> None:
        """Cancel all fetches."""
        for task in list(self.fetches.values()):
            task.cancel()
