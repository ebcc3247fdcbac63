"""Tells the core which rules hosts have: from the cache of robots.txt files, or fetched."""

from __future__ import annotations

import asyncio
import logging
from math import inf
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.job import job_dir
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from scrapy_rep.base import stats
from scrapy_rep.base.compat import is_interactive, wake
from scrapy_rep.base.identity import Identity
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import bare_host, request_origin
from scrapy_rep.crawl.fetching.cache import RobotsTxtCache
from scrapy_rep.crawl.fetching.fetcher import MAX_ON_NETWORK, RobotsTxtFetcher
from scrapy_rep.crawl.fetching.request import FetchTemplates
from scrapy_rep.crawl.frontier.core import Phase
from scrapy_rep.crawl.frontier.frontier import BackQueue, WantedRules
from scrapy_rep.crawl.frontier.politeness import duration
from scrapy_rep.exceptions import BackingOff, SpiderClosing
from scrapy_rep.protocol.access.results import State, pause_asked

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from scrapy_rep.base.settings import RepSettings
    from scrapy_rep.crawl.decisions import DecisionReporter
    from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
    from scrapy_rep.crawl.frontier.backlog import HostKey
    from scrapy_rep.crawl.frontier.core import Host, Scope
    from scrapy_rep.crawl.frontier.frontier import Frontier
    from scrapy_rep.protocol.access.results import CacheEntry, SiteRules
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robots import RobotsTxt
    from scrapy_rep.protocol.robotstxt.pace import Pace

# The number of robots.txt files that are looked up or fetched at once.
_MAX_FETCHING = MAX_ON_NETWORK

# Those that wait for a place at a host do not count, or redirects could stop all others: with many
# hosts that redirect robots.txt to one with a delay. But no more of them may wait than this.
_MAX_HELD_BACK = 10_000

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

# The log says how long a host will take if its delay in seconds is longer than _LONG_DELAY and
# at least _MANY requests wait, after some seconds in which they may come.
_LONG_DELAY = 10
_MANY = 20
_LOG_AFTER = 3.0


class Hosts:
    """The rules of hosts: from ``REP_OVERRIDES``, the cache, or fetched, once for each host,
    however many requests wait for them.
    """

    def __init__(
        self,
        crawler: Crawler,
        frontier: Frontier,
        settings: RepSettings,
        reporter: DecisionReporter,
    ) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._frontier = frontier
        self._core = frontier.core
        self._clock = clock = frontier.clock
        self._settings = settings
        self._reporter = reporter
        self._identity = Identity.of(crawler)
        # In a dry run, the pages do not wait, so there might never be a place.
        waits = (
            ()
            if settings.dry_run
            else (self._take_turn, frontier.free, frontier.is_own_fault)
        )
        self.fetcher = RobotsTxtFetcher(crawler, settings, *waits)
        self.cache = RobotsTxtCache(crawler, self.fetcher, settings, reporter, clock)
        self._fetches: dict[Host, Deferred[None]] = {}
        self._max_fetching = _MAX_FETCHING
        at_once = crawler.settings.getint("CONCURRENT_REQUESTS")
        self._min_ready = max(_MIN_READY, 2 * at_once)
        self._soon: set[Host] = set()
        """Hosts whose fetch began a moment ago: they will be ready soon."""

        self._soon_until = -inf
        self._held_back = 0
        self._is_beginning = False
        # The crawl that is resumed may have sent a request to any host just before it ended.
        self._resumed_at = clock.monotonic() if job_dir(crawler.settings) else -inf
        self._download_delay = crawler.settings.getfloat("DOWNLOAD_DELAY")
        self._has_logged_delay = False
        self._delayed: set[int] = set()
        self._skipped: set[int] = set()

    @property
    def is_fetching(self) -> bool:
        return bool(self._fetches)

    # What is known.

    def cached(self, origin: Origin) -> SiteRules | None:
        """Return what is cached of *origin*; None if it is absent or stale. A robots.txt that is
        unreachable counts in a dry run only: otherwise, requests wait for it.
        """
        known = self.cache.cached(origin)
        if known is None or self._settings.dry_run:
            return known
        return None if known.state is State.UNREACHABLE else known

    def rules(self, origin: Origin) -> tuple[RobotsTxt | None, float]:
        """Return the rules for *origin*, and the seconds for which they hold. No rules hold until the
        override ends where it ignores robots.txt; and for 0 seconds where they are not known.
        """
        override = self.cache.override(origin)
        if override is not None:
            return override.robots, self._left(override.ends)
        known = self.cached(origin)
        if known is None:
            return None, 0.0
        return known.robots, self._left(known.entry.expires)

    def _left(self, until: float) -> float:
        """Return the seconds until a time at which rules end."""
        return max(until - self._clock.time(), _MIN_HOLDS)

    def look_up(self, host: Host) -> None:
        """Tell the core at once what is known of *host*."""
        override = self.cache.override(host.origin)
        if override is not None:
            self._open(host, override.robots, override.ends, fetched=-inf)
            return
        known = self.cache.cached(host.origin)
        if known is None:
            # It has expired by the wall clock, which goes on while a machine sleeps.
            host.retry_at = -inf
        elif host.known is None or known.entry != host.known.entry:
            self._tell(host, known)

    def _tell(self, host: Host, known: SiteRules) -> None:
        if known.state is State.UNREACHABLE:
            self._note_unreachable(host, known)
            return
        self._open(host, known.robots, known.entry.expires, known.entry.fetched)
        was_down, host.known, host.templates = host.known is not None, None, None
        if was_down:
            self._log_file(
                logging.INFO,
                "%(url)s is back after %(time)s (%(result)s): requests to this host continue",
                known,
                time=duration(self._clock.monotonic() - host.since),
            )

    def _open(
        self, host: Host, robots: RobotsTxt | None, until: float, fetched: float
    ) -> None:
        scope = self._core.scopes.get(bare_host(host.origin))
        holds, now = self._left(until), self._clock.monotonic()
        if robots is not None and scope is not None:
            pace = self._identity.pace(robots)
            if pace.delay or scope.delays:
                self._keep_pace(scope, host.origin, pace, fetched)
        self._core.known(host, now, now + holds)

    def _keep_pace(
        self, scope: Scope, origin: Origin, pace: Pace, fetched: float
    ) -> None:
        """Have *scope* keep to the delay of *origin*, by a robots.txt that was *fetched* at this
        time, unless the middleware refuses its requests for it.
        """
        now, delay = self._clock.monotonic(), self._settings.delay(pace)
        # *ago* is negative if a clock is wrong.
        ago = max(self._clock.time() - fetched, 0.0)
        since = max(now - ago, self._resumed_at)
        self._core.set_delay(scope, origin, delay, now, since=since)
        if delay and self.report_delay(origin, pace):
            self._log_first_delay(origin, delay)
            if delay > _LONG_DELAY:
                self._frontier.alarms.at(now + _LOG_AFTER, self._log_delay, scope)

    def report_delay(self, origin: Origin, pace: Pace) -> bool:
        """Report once that *origin* asks for a delay. Return whether that is new."""
        is_new = _is_new(origin, self._delayed)
        if is_new:
            self._crawler.stats.inc_value(stats.DELAYED_HOSTS)
            record = pace.record
            assert record is not None
            said = f"{record.field.capitalize()}: {record.value}"
            self._reporter.slowed("delay", said, origin, origin.robotstxt_url)
        return is_new

    def set_delay(self, key: HostKey, delay: float) -> None:
        """Set a *delay* in seconds that another worker has found for the host of *key*."""
        assert key.origin is not None
        scope, now = self._core.scope(key.host), self._clock.monotonic()
        self._core.set_delay(scope, key.origin, delay, now, since=-inf)

    def delay_of(self, robots: RobotsTxt) -> float:
        """Return the delay that the crawl keeps to by *robots*, in seconds."""
        return self._settings.delay(self._identity.pace(robots))

    # Fetches.

    def note_proxy(self, origin: Origin, request: Request) -> None:
        """Remember the proxy of a pushed request if robots.txt is not known: the fetch tries
        the proxies in turn.
        """
        host = self._core.hosts.get(origin)
        if host is not None and host.phase is not Phase.OPEN:
            self.add_template(host, request)

    def begin_fetches(self, ready: int) -> None:
        """Begin the wanted fetches: the urgent ones, and others if few queues are *ready*."""
        if self._is_beginning:
            return
        self._is_beginning = True
        if self._clock.monotonic() >= self._soon_until:
            self._soon.clear()
            self._soon_until = self._clock.monotonic() + _SOON
        try:
            while len(self._fetches) - self._held_back < self._max_fetching:
                is_needed = ready + len(self._soon) < self._min_ready
                host = self._core.next_wanted(is_needed=is_needed)
                if host is None:
                    return
                self._begin(host)
        finally:
            self._is_beginning = False

    def _begin(self, host: Host, stale: CacheEntry | None = None) -> None:
        # A separate task, so that cancelling one request does not fail the others.
        task = deferred_from_coro(self._fetch(host, stale))
        if host.is_fetching:
            self._fetches[host] = task
            self._soon.add(host)
            self._frontier.watch()
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
        if host is None or host.is_fetching:
            return
        self._core.begin_fetch(host)
        self.add_template(host, request)
        known = self.cache.cached(host.origin)
        self._begin(host, None if known is None else known.entry)

    def add_template(self, host: Host, request: Request) -> None:
        """Remember a request that needs robots.txt, if no other has its proxy."""
        if host.templates is None:
            host.templates = FetchTemplates()
        host.templates.add(request)

    async def _fetch(self, host: Host, stale: CacheEntry | None) -> None:
        if host.templates is None:
            # Created only now: for many wanted hosts, templates would take much memory.
            waiting = next(iter(host.waiting), None)
            request = None
            if isinstance(waiting, (BackQueue, WantedRules)):
                request = waiting.peek()
            self.add_template(host, request or Request(str(host.origin)))
        templates = host.templates
        known = None
        try:
            stale = stale if host.known is None else host.known.entry
            known = await self.cache.learn(host.origin, templates, stale=stale)
        except (SpiderClosing, CancelledError, asyncio.CancelledError):
            pass
        finally:
            # Also after an error, all waiting requests must continue.
            self._fetches.pop(host, None)
            self._soon.discard(host)
            self._fetched(host, known)

    def _fetched(self, host: Host, known: SiteRules | None) -> None:
        if known is None:
            self._core.unknown(host, self._clock.monotonic())
        else:
            self._tell(host, known)
        self._frontier.flush()
        wake(self._crawler)

    async def _take_turn(self, request: RobotsTxtRequest) -> None:
        """Wait for the places of a request for robots.txt, to which delays and pauses apply too."""
        if self._held_back >= _MAX_HELD_BACK:
            why = f"{self._held_back} others for robots.txt wait for hosts with a delay"
            raise BackingOff(why)
        self._held_back += 1
        try:
            trip = self._frontier.trip_of(request)
            is_redirected = request.fetch.is_redirected
            await self._frontier.take_turn(trip, is_redirected=is_redirected)
        finally:
            self._held_back -= 1

    # Unreachable.

    def _note_unreachable(self, host: Host, known: SiteRules) -> None:
        was_down = host.is_down
        was_refused = host.phase is Phase.REFUSED
        host.known, count = known, sum(map(len, host.waiting))
        result, clock = known.entry.result, self._clock
        retry = max(known.entry.expires - clock.time(), _MIN_RETRY)
        wait = self._settings.wait_max
        if result.is_dropped or is_interactive(self._crawler):
            wait = 0.0
        elif result.is_permanent:
            wait = min(wait, _ASKED_ONCE_MORE)
        self._core.unreachable(
            host,
            clock.monotonic(),
            clock.monotonic() + retry,
            wait=wait,
            is_asked=pause_asked(result.headers, known.entry.fetched) is not None,
        )
        if host.phase is Phase.DOWN and not was_down:
            message = (
                "%(url)s is unreachable (%(result)s): requests to this host wait for up to "
                "%(wait)s (%(count)d in the queue; REP_WAIT_MAX). robots.txt is fetched "
                "again in %(retry)s"
            )
        elif host.phase is Phase.REFUSED and not was_down:
            message = (
                "%(url)s is unreachable (%(result)s): requests to this host are refused "
                "(%(count)d in the queue). If more requests come, robots.txt is fetched again, "
                "in %(retry)s at the earliest"
            )
        elif host.phase is Phase.REFUSED and not was_refused:
            message = (
                "%(url)s is still unreachable (%(result)s) after %(time)s: requests to this "
                "host are refused (%(count)d in the queue). If more requests come, robots.txt is "
                "fetched again, in %(retry)s at the earliest"
            )
        else:
            return
        self._log_file(
            logging.WARNING,
            message,
            known,
            count=count,
            wait=duration(wait),
            retry=duration(host.retry_at - clock.monotonic()),
            time=duration(clock.monotonic() - host.since),
        )

    # Requests in the downloader.

    def cancel_if_alone(self, host: Host) -> None:
        """Cancel the fetch of *host* if nothing waits for it any more; nothing is recorded."""
        task = self._fetches.get(host)
        if task is not None and not host.waiting and host.phase is Phase.WANTED:
            if host.templates is not None:
                host.templates.clear()
            task.cancel()

    def keep_pace(
        self, request: Request, origin: Origin, pace: Pace, fetched: float
    ) -> None:
        """Have the host of *request* keep to the *pace* of *origin*, by a robots.txt that was
        *fetched* at this time.
        """
        if self._settings.crawl_delay:
            scope = self._frontier.scopes_of(self._frontier.key_of(request))[0]
            self._keep_pace(scope, origin, pace, fetched)

    def close(self) -> None:
        """Cancel all fetches."""
        for task in list(self._fetches.values()):
            task.cancel()

    # The log.

    def warn_of_delay(self, origin: Origin, delay: float) -> None:
        """Warn once that requests to *origin* are refused for its *delay*, in seconds."""
        if self._settings.dry_run or not _is_new(origin, self._skipped):
            return
        self._crawler.stats.inc_value(stats.SKIPPED_HOSTS)
        self._logger.warning(
            "%(origin)s is skipped: it asks for %(delay)g s between requests, more "
            "than REP_CRAWL_DELAY_MAX (%(most)g). Requests to it are refused; to "
            "crawl it, raise the setting, or add the host to REP_OVERRIDES",
            origin=origin,
            delay=delay,
            most=self._settings.crawl_delay_max,
        )

    def _log_first_delay(self, origin: Origin, delay: float) -> None:
        """Say of the first host that slows the crawl down that it does."""
        if self._has_logged_delay or delay <= self._download_delay:
            return
        self._has_logged_delay = True
        self._logger.info(
            "%(origin)s asks for %(delay)g s between requests: requests to it wait for that. Further "
            "hosts with a delay are named only if they hold up the crawl (REP_CRAWL_DELAY)",
            origin=origin,
            delay=delay,
        )

    def _log_delay(self, scope: Scope) -> None:
        waiting = (scope.parked or {}).values()
        count = sum(len(each) for tickets in waiting for each in tickets)
        if count >= _MANY and scope.delays:
            self._logger.info(
                "%(host)s asks for %(delay)g s between requests: the %(count)d requests that "
                "wait for it will take %(time)s",
                host=scope.key,
                delay=scope.delay,
                count=count,
                time=duration(count * scope.delay),
            )

    def _log_file(
        self, level: int, message: str, known: SiteRules, **values: object
    ) -> None:
        values |= {"url": known.origin.robotstxt_url, "result": known.entry.result}
        self._logger.log(level, message, **values)


def _is_new(origin: Origin, seen: set[int]) -> bool:
    """Add the hash of *origin* to *seen*, which saves memory. Return whether it is new."""
    number = hash(origin)
    is_new = number not in seen
    seen.add(number)
    return is_new
