"""Fetches of robots.txt: one for each host, however many requests wait for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from scrapy_rep.compat.internals import wake
from scrapy_rep.compat.versions import is_interactive
from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.frontier.hoststate import GivenUpHosts, Host, WantedHosts
from scrapy_rep.frontier.outages import Outage, log_begin, log_end, log_given_up
from scrapy_rep.protocol.access.results import State

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from scrapy_rep.fetching.cache import Known, RobotsTxtCache
    from scrapy_rep.frontier.backqueue import BackQueue
    from scrapy_rep.frontier.clock import Alarms
    from scrapy_rep.frontier.refusals import Refusals
    from scrapy_rep.frontier.reporter import DecisionReporter
    from scrapy_rep.protocol.origins import Origin

# The number of robots.txt files that are looked up or fetched at once. Most of these tasks
# wait for a store, another worker, or the turn at a host. The fetcher has a limit of its
# own for requests on the network.
_MAX_LEARNING = 1_000

# robots.txt is fetched ahead while fewer back queues than this are ready, or fewer than
# twice CONCURRENT_REQUESTS if that is more.
_MIN_READY = 64

# The minimum in seconds before a retry, so that a wrong clock causes no busy loop.
_MIN_RETRY = 0.1


class Hosts:
    """Holds the requests to a host until its robots.txt is known, and starts its fetch.

    All requests that need one robots.txt share one fetch.
    """

    def __init__(
        self,
        crawler: Crawler,
        alarms: Alarms,
        cache: RobotsTxtCache,
        refusals: Refusals,
        reporter: DecisionReporter,
        *,
        wait_seconds: float,
    ) -> None:
        self._crawler = crawler
        self._clock = alarms.clock
        self._alarms = alarms
        self._cache = cache
        self._reporter = reporter
        self._refusals = refusals
        self._wait_seconds = wait_seconds
        self._hosts: dict[Origin, Host] = {}
        self._wanted = WantedHosts()
        self._learning: dict[Host, Deferred[None]] = {}
        self._given_up = GivenUpHosts()
        self._waiting_requests = 0
        at_once = crawler.settings.getint("CONCURRENT_REQUESTS")
        self._min_ready = max(_MIN_READY, 2 * at_once)
        self.ready = 0
        """The number of ready back queues, as the queues last reported it."""

    # Requests in a queue.

    def may_go(self, queue: BackQueue, origin: Origin) -> Known | None:
        """Return the known robots.txt for *queue*. If it is not known, or unreachable, park
        the queue or refuse its requests, and return None.
        """
        known = self._cache.cached(origin)
        if known is not None and known.state is not State.UNREACHABLE:
            return known
        host = self._host(origin, known)
        outage = host.outage
        if outage is not None and outage.given_up:
            self._fetch_later(host, outage, queue.peek(), is_due=known is None)
            self._refusals.add(queue, outage)
            return None
        host.park(queue)
        if known is None:
            self._want(host)
        return None

    def note_cause(self, origin: Origin, request: Request) -> None:
        """Remember the proxy of a pushed request if robots.txt is not known: the fetch tries
        the proxies in turn.
        """
        host = self._hosts.get(origin)
        if host is None or not host.add_cause(self._cache.cause_of(request)):
            return
        if host.outage is not None and not host.is_learning:
            # Let the next fetch begin with the new proxy, which has not failed.
            assert host.causes is not None
            host.causes.rotate()

    def is_unreachable(self, origin: Origin) -> bool:
        """Whether the robots.txt of *origin* is unreachable."""
        host = self._hosts.get(origin)
        return host is not None and host.outage is not None

    def waiting(self) -> tuple[int, int]:
        """Return how many requests in queues wait for a robots.txt, and for how many hosts."""
        waiting = [host for host in self._hosts.values() if host.parked]
        return sum(host.queued for host in waiting), len(waiting)

    # Requests in the downloader.

    @property
    def has_waiters(self) -> bool:
        """Whether a request waits in the downloader, or a fetch is in flight."""
        return bool(self._learning or self._waiting_requests)

    async def known(
        self, origin: Origin, request: Request, *, is_patient: bool
    ) -> Known:
        """Wait until robots.txt for *request* is known, and return it.

        If robots.txt is unreachable, only a request that *is_patient* waits until it is
        back. If this is cancelled and nothing else waits, so is the fetch. Raises SpiderClosing
        if the spider closes meanwhile.
        """
        while True:
            known = self._cache.cached(origin)
            if known is not None and known.state is not State.UNREACHABLE:
                return known
            host = self._host(origin, known)
            outage = host.outage
            if outage is not None and (outage.given_up or not is_patient):
                self._fetch_later(host, outage, request, is_due=known is None)
                return outage.known
            # Before _want(), which may call _learned() before it returns.
            waiter = host.wait()
            self._waiting_requests += 1
            if known is None:
                self._want(host, request, is_urgent=True)
            try:
                await maybe_deferred_to_future(waiter)
            except (CancelledError, asyncio.CancelledError):
                self._leave(host, waiter)
                raise

    def close(self) -> None:
        """Cancel all fetches, and fail the requests that wait in the downloader."""
        for task in list(self._learning.values()):
            task.cancel()
        for host in list(self._hosts.values()):
            self._release_waiters(host, host.closing_error())

    def begin_fetches(self) -> None:
        """Begin the requested fetches: the urgent ones, and others if few hosts are ready."""
        is_needed = self.ready < self._min_ready
        while len(self._learning) < _MAX_LEARNING:
            host = self._wanted.next(is_needed=is_needed)
            if host is None:
                return
            host.is_learning = True
            # A separate task, so that cancelling one request does not fail the others.
            task = deferred_from_coro(self._learn(host))
            if host.is_learning:
                self._learning[host] = task
            # Ignore cancellation. Twisted logs other errors as unhandled.
            task.addErrback(Failure.trap, CancelledError, asyncio.CancelledError)

    def _want(
        self, host: Host, request: Request | None = None, *, is_urgent: bool = False
    ) -> None:
        """Request a fetch of robots.txt of *host*, for *request* if it is given."""
        if host.is_learning:
            return
        if request is not None:
            host.add_cause(self._cache.cause_of(request))
        self._wanted.add(host, is_urgent=is_urgent)
        self.begin_fetches()

    async def _learn(self, host: Host) -> None:
        if host.causes is None:
            # Created only now: for many wanted hosts, causes would take much memory.
            request = host.parked[0].peek() if host.parked else None
            host.add_cause(self._cache.cause_of(request or Request(str(host.origin))))
        causes = host.causes
        assert causes is not None
        known = None
        try:
            known, is_new = await self._cache.learn(host.origin, causes)
            await self._reporter.learned(known, causes.nth(0), is_new=is_new)
        except (SpiderClosing, CancelledError, asyncio.CancelledError):
            pass
        finally:
            # Also after an error, all waiting requests must continue.
            host.is_learning = False
            self._learning.pop(host, None)
            self._learned(host, known)

    def _learned(self, host: Host, known: Known | None) -> None:
        if known is None:
            self._release_waiters(host, host.closing_error())
        elif known.state is State.UNREACHABLE:
            if host.causes is not None:
                host.causes.rotate()
            self._note_outage(host, known)
            self._release_waiters(host)
        else:
            host.causes = None
            outage, host.outage = host.outage, None
            if outage is not None:
                outage.is_over, outage.known = True, known
                self._given_up.discard(host)
                log_end(self._crawler, outage, self._clock.monotonic())
            for queue in host.release_queues():
                queue.release()
            wake(self._crawler)
            self._release_waiters(host)
        self._forget(host)
        self.begin_fetches()

    def _leave(self, host: Host, waiter: Deferred[None]) -> None:
        """Forget *waiter*, which was cancelled, and *host* if nothing else needs it."""
        if waiter not in host.waiters:
            return
        host.waiters = [each for each in host.waiters if each is not waiter]
        self._waiting_requests -= 1
        if host.waiters or host.parked or host.outage:
            return
        host.is_wanted = False
        # Forgotten at once, since the next request needs a new fetch.
        del self._hosts[host.origin]
        task = self._learning.get(host)
        if task is not None and host.causes is not None:
            host.causes.clear()
            task.cancel()

    # Outages.

    def _note_outage(self, host: Host, known: Known) -> None:
        """Begin or update the outage of *host*, which this or another worker has found."""
        now = self._clock.monotonic()
        outage = host.outage
        if outage is not None and outage.known.entry is known.entry:
            return
        retry = max(known.entry.expires - self._clock.time(), _MIN_RETRY)
        if outage is None:
            wait = 0.0 if is_interactive(self._crawler) else self._wait_seconds
            outage = host.outage = Outage.begin(known, now, wait)
            log_begin(self._crawler, outage, host.queued, retry)
            if not outage.given_up:
                self._alarms.at(outage.until, self._give_up, host, outage)
        outage.known = known
        outage.retry_at = now + retry
        outage.is_needed = False
        if outage.given_up:
            self._refuse_parked(host, outage)
        else:
            self._alarms.at(min(outage.retry_at, outage.until), self._fetch_again, host)

    def _fetch_again(self, host: Host) -> None:
        """Fetch robots.txt again if requests need it."""
        outage = host.outage
        if outage is None or outage.retry_at > self._clock.monotonic():
            return
        if host.parked or host.waiters or outage.is_needed:
            self._want(host)

    def _fetch_later(
        self, host: Host, outage: Outage, request: Request | None, *, is_due: bool
    ) -> None:
        """Fetch robots.txt again for later requests: now if it *is_due*, else when it is due."""
        if is_due:
            self._want(host, request)
        elif not outage.is_needed:
            outage.is_needed = True
            self._alarms.at(outage.retry_at, self._fetch_again, host)

    def _give_up(self, host: Host, outage: Outage) -> None:
        if outage.is_over or host.outage is not outage:
            return
        outage.given_up = True
        log_given_up(self._crawler, outage, host.queued)
        self._refuse_parked(host, outage)
        self._release_waiters(host)

    def _refuse_parked(self, host: Host, outage: Outage) -> None:
        for queue in host.release_queues():
            self._refusals.add(queue, outage)
        forgotten = self._given_up.add(host)
        if forgotten is not None:
            self._forget(forgotten)

    def _host(self, origin: Origin, unreachable: Known | None) -> Host:
        """Return the state of a host whose robots.txt is not known, or is *unreachable*."""
        host = self._hosts.get(origin)
        if host is None:
            host = self._hosts[origin] = Host(origin)
        if unreachable is not None:
            self._note_outage(host, unreachable)
        return host

    def _forget(self, host: Host) -> None:
        if host.is_idle and self._hosts.get(host.origin) is host:
            del self._hosts[host.origin]

    def _release_waiters(self, host: Host, error: SpiderClosing | None = None) -> None:
        self._waiting_requests -= host.release_waiters(error)
