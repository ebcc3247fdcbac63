"""Decides when a request to a host may be sent."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING

from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.misc import build_from_crawler
from twisted.internet.defer import CancelledError

from scrapy_rep.compat.internals import is_closing
from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.fetching.cache import RobotsTxtCache
from scrapy_rep.fetching.fetcher import RobotsTxtFetcher
from scrapy_rep.fetching.identity import Identity
from scrapy_rep.fetching.request import Causes
from scrapy_rep.fetching.storeclient import StoreClient
from scrapy_rep.fetching.tdmrep import url_of
from scrapy_rep.frontier.demands import Terms
from scrapy_rep.frontier.hostkeys import delay_keys, host_of
from scrapy_rep.frontier.hosts import Hosts
from scrapy_rep.frontier.leases import Leases
from scrapy_rep.frontier.outages import log_waiting
from scrapy_rep.frontier.politeness import Politeness
from scrapy_rep.frontier.refusals import Refusals
from scrapy_rep.frontier.turns import Turns
from scrapy_rep.protocol.access.overrides import override_for
from scrapy_rep.protocol.access.results import State
from scrapy_rep.stores import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from scrapy_rep.fetching.cache import Known
    from scrapy_rep.frontier.backqueue import BackQueue
    from scrapy_rep.frontier.clock import Alarms
    from scrapy_rep.frontier.reporter import DecisionReporter
    from scrapy_rep.protocol.access.overrides import Override
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robotstxt.pace import Pace
    from scrapy_rep.protocol.usage.tdmrep import TdmRep
    from scrapy_rep.settings import RepSettings

# The seconds between two checks whether the spider is closing.
_CHECK_CLOSING_EVERY = 0.2

# The seconds for which the requests that waited for a robots.txt use it even if it was
# already stale when it arrived.
_MIN_HOLDS = 1.0


class HostAccess:
    """Decides when the requests to a host may be sent: by its robots.txt with its delay and
    visiting hours, and by ``REP_OVERRIDES``.

    Queues call it for back queues, and the downloader middleware for single requests.
    """

    def __init__(
        self,
        crawler: Crawler,
        alarms: Alarms,
        settings: RepSettings,
        reporter: DecisionReporter,
    ) -> None:
        self._crawler = crawler
        self._alarms = alarms
        self._identity = identity = Identity.of(crawler)
        self._reporter = reporter
        self._overrides = settings.overrides
        self._is_watching = False
        self._tdmrep_fetches: set[Deferred[TdmRep | None]] = set()
        """Those for requests with a purpose of their own."""

        store_client = _store_client(crawler, settings)
        leases = Leases(
            store_client, shared=settings.shared_delay and store_client.is_shared
        )
        in_process = settings.shared_delay and not store_client.is_shared
        self.turns = Turns(crawler, alarms, leases, share_in_process=in_process)
        self.politeness = Politeness(crawler, alarms, self.turns, settings)
        self._fetcher = RobotsTxtFetcher(crawler, settings, self._turn_for_robotstxt)
        self.cache = RobotsTxtCache(
            crawler,
            self._fetcher,
            store_client,
            settings,
            now=alarms.clock.time,
            monotonic=alarms.clock.monotonic,
            may_fetch=identity.may_fetch,
            robots_of=self._robots_of,
        )
        self.hosts = Hosts(
            crawler,
            alarms,
            self.cache,
            Refusals(crawler, alarms, reporter),
            reporter,
            wait_seconds=settings.unreachable_wait,
        )

    # For queues.

    @property
    def leaves_room(self) -> bool:
        """Whether the downloader has room for a page."""
        return self._fetcher.leaves_room

    def is_known(self, queue: BackQueue) -> bool:
        """Return True if the rules for *queue* are known. Otherwise park it until they are, or
        refuse its requests: see :meth:`Hosts.may_go`.
        """
        origin = queue.key.origin
        if origin is None or self.override(origin) is not None:
            return True
        if self.hosts.may_go(queue, origin) is not None:
            return True
        self._watch_for_closing()
        return False

    def may_go(self, queue: BackQueue) -> bool:
        """Return True if a request of *queue* may be sent now. Otherwise park or refuse it."""
        origin = queue.key.origin
        if origin is None:
            if not queue.key.is_service:
                return True
            served = self.turns.groups.served_by(*queue.key.delay_keys)
            return served is None or self.turns.admit(queue, served)
        fetched = float("-inf")
        override = self.override(origin)
        if override is not None:
            if override.robots is None:
                return True
            robots = override.robots
        else:
            known = self.hosts.may_go(queue, origin)
            if known is None:
                self.turns.release(queue)
                self._watch_for_closing()
                return False
            robots, fetched = known.robots, known.entry.fetched
        pace = self._identity.pace(robots)
        if not self.politeness.may_delay(pace):
            return True
        return self.politeness.may_go(queue, origin, pace, fetched=fetched)

    def terms(self, origin: Origin) -> Terms | None:
        """Return the terms for requests to *origin*; None if they are not known."""
        override = self.override(origin)
        if override is not None:
            if override.robots is None:
                return Terms(inf)
            return self.politeness.terms(self._identity.pace(override.robots), inf, inf)
        known = self.cached(origin)
        if known is None:
            return None
        now = self._alarms.clock.time()
        holds = max(known.entry.expires - now, _MIN_HOLDS)
        pace = self._identity.pace(known.robots)
        return self.politeness.terms(pace, holds, max(now - known.entry.fetched, 0.0))

    def override(self, origin: Origin) -> Override | None:
        """Return the override that replaces the robots.txt of *origin*, if there is one."""
        override = override_for(self._overrides, origin)
        return None if override is None or override.kind == "obey" else override

    def note_cause(self, queue: BackQueue, request: Request) -> None:
        """Remember the proxy of *request*, for a fetch of robots.txt."""
        if queue.key.origin is not None:
            self.hosts.note_cause(queue.key.origin, request)

    def note_delay(self, queue: BackQueue, delay: float) -> None:
        """Set the *delay* in seconds that another worker has found for the host of *queue*.
        The request for robots.txt then waits for it too.
        """
        if queue.key.origin is not None:
            self.turns.set_delay(queue.key.delay_keys, queue.key.origin, delay, inf)

    def fetch_ahead(self, ready: int) -> None:
        """Fetch more robots.txt files if the number of *ready* back queues is low."""
        self.hosts.ready = ready
        self.hosts.begin_fetches()

    def _watch_for_closing(self) -> None:
        """Check regularly, as long as requests wait, whether the spider is closing. If so, end
        all waiting and fetches, because a closing spider waits for its requests.
        """
        if not self._is_watching:
            self._is_watching = True
            moment = self._alarms.clock.monotonic() + _CHECK_CLOSING_EVERY
            self._alarms.at(moment, self._check_closing)

    def _check_closing(self) -> None:
        self._is_watching = False
        if not (
            self._tdmrep_fetches
            or self.hosts.has_waiters
            or self.turns.groups.have_waiters
            or self.politeness.has_waiters
        ):
            return
        if is_closing(self._crawler):
            self.close()
        self._watch_for_closing()

    def close(self) -> None:
        """Cancel fetches, and fail requests that wait in the downloader with SpiderClosing."""
        # Turns first: otherwise a failing request would pass its turn to a waiting one.
        self.turns.close()
        self.hosts.close()
        for fetch in list(self._tdmrep_fetches):
            fetch.cancel()
        self.politeness.close()

    def log_waiting(self) -> None:
        """Log how many requests wait for how many hosts, if any do."""
        requests, hosts = map(
            sum, zip(self.hosts.waiting(), self.politeness.waiting(), strict=True)
        )
        if requests:
            log_waiting(self._crawler, requests, hosts)

    # For the middleware.

    def cached(self, origin: Origin) -> Known | None:
        """Return the cached robots.txt of *origin*; None if absent, stale or unreachable."""
        known = self.cache.cached(origin)
        if known is None or known.state is State.UNREACHABLE:
            return None
        return known

    async def known(
        self, origin: Origin, request: Request, *, is_patient: bool
    ) -> Known:
        """Wait until robots.txt of *origin* is known, and return it. Only a request that
        *is_patient* waits while robots.txt is unreachable. Raises SpiderClosing.
        """
        self._watch_for_closing()
        # The request for robots.txt needs the turn first.
        self.turns.release(request)
        return await self.hosts.known(origin, request, is_patient=is_patient)

    async def tdmrep(self, known: Known, request: Request) -> TdmRep | None:
        """Return tdmrep.json of the origin of *known*, for a *request* whose own purpose needs
        it. Fetch it if it is not cached; None if robots.txt forbids that. Raises SpiderClosing.
        """
        causes = Causes(self.cache.cause_of(request))
        if not self.cache.lacks_tdmrep(known):
            return await self.cache.tdmrep(known, causes)
        self.turns.release(request)
        self._watch_for_closing()
        fetch = deferred_from_coro(self.cache.tdmrep(known, causes))
        self._tdmrep_fetches.add(fetch)
        try:
            return await maybe_deferred_to_future(fetch)
        except (CancelledError, asyncio.CancelledError):
            if not is_closing(self._crawler):
                raise
            why = f"The spider closed before {url_of(known.origin)} was fetched"
            raise SpiderClosing(why) from None
        finally:
            self._tdmrep_fetches.discard(fetch)

    async def wait_for_turn(
        self, request: Request, origin: Origin, pace: Pace, *, fetched: float
    ) -> bool:
        """Wait until *request* may be sent. Return False if robots.txt may have changed
        meanwhile and must decide again. Raises SpiderClosing.
        """
        self._watch_for_closing()
        return await self.politeness.wait_for_turn(
            request, origin, pace, fetched=fetched
        )

    async def wait_if_service(self, request: Request) -> None:
        """Wait for the turn of *request*, which is exempt from robots.txt, if it is to a service
        that fetches pages of a host with a delay. Raises SpiderClosing.
        """
        if not self.turns.groups:
            return
        served = self.turns.groups.served_by(*delay_keys(self._crawler, request))
        if served is not None:
            self._watch_for_closing()
            await self.turns.wait(request, served)

    # For the fetcher.

    async def _robots_of(self, origin: Origin, causes: Causes) -> Known | None:
        """Return the robots.txt that judges a request of this package to *origin*; None if an
        override does. Its tdmrep.json is not needed: sites could redirect them in a circle.
        """
        if self.override(origin) is not None:
            return None
        known, is_new = await self.cache.robots(origin, causes)
        if is_new:
            await self._reporter.learned(known, causes.nth(0), is_new=True)
        return known

    @asynccontextmanager
    async def _turn_for_robotstxt(
        self, request: Request, *, is_redirected: bool
    ) -> AsyncIterator[None]:
        """Hold the turn during a request for robots.txt, to which the delay applies as well."""
        group = self.turns.find(request)
        # A request that is cancelled as its turn begins must end it, too.
        try:
            if group is not None and not group.is_held_by_browser:
                await self.turns.wait(request, group, is_redirected=is_redirected)
            elif group is None:
                await self.turns.shared_delays.wait_for(host_of(request))
            yield
        finally:
            # If it was sent, a signal handler of Turns has ended the turn already.
            self.turns.release(request)


def _store_client(crawler: Crawler, settings: RepSettings) -> StoreClient:
    """Return a client of the store that ``REP_STORE`` selects."""
    if not isinstance(settings.store, str):
        return StoreClient(crawler, build_from_crawler(settings.store, crawler))
    store = open_store(
        settings.store,
        max_entries=settings.store_max_entries,
        max_bytes=settings.store_max_bytes,
    )
    return StoreClient(crawler, store)
