"""Decides whether a request to a host may be sent now."""

from __future__ import annotations

from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING

from scrapy.utils.misc import build_from_crawler

from scrapy_rep.compat.internals import is_closing
from scrapy_rep.fetching.cache import RobotsTxtCache
from scrapy_rep.fetching.fetcher import RobotsTxtFetcher
from scrapy_rep.fetching.identity import Identity
from scrapy_rep.fetching.request import Causes
from scrapy_rep.fetching.storeclient import StoreClient
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

    from scrapy_rep.fetching.cache import Known
    from scrapy_rep.frontier.backqueue import BackQueue
    from scrapy_rep.frontier.clock import Alarms
    from scrapy_rep.frontier.outcomes import DecisionReporter
    from scrapy_rep.protocol.access.overrides import Override
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robotstxt.pace import Pace
    from scrapy_rep.protocol.usage.tdmrep import TdmRep
    from scrapy_rep.settings import RepSettings

# The seconds between two checks whether the spider is closing.
_CLOSING_LOOK = 0.2

# The seconds for which a robots.txt that was stale when it came is used by the requests
# that waited for it.
_MIN_HOLDS = 1.0


class HostAccess:
    """Decides for all requests to a host: by its robots.txt, the delay and the window for
    visits in it, and ``REP_OVERRIDES``.

    The queues ask about hosts, the downloader middleware about requests.
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
        self._overrides = settings.overrides
        self._is_watching = False
        store_client = _store_client(crawler, settings)
        leases = Leases(
            store_client, shared=settings.shared_delay and store_client.is_shared
        )
        in_process = settings.shared_delay and not store_client.is_shared
        self.turns = Turns(crawler, alarms, leases, share_in_process=in_process)
        self.politeness = Politeness(crawler, alarms, self.turns, settings)
        self._fetcher = RobotsTxtFetcher(crawler, settings, self._turn_for_robotstxt)
        self.cache = RobotsTxtCache(
            crawler, self._fetcher, store_client, settings, alarms.clock.time,
            may_fetch=identity.may_fetch,
        )  # fmt: skip
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
        """Whether the rules for *queue* are known; otherwise it is parked until they are."""
        origin = queue.key.origin
        if origin is None or self.override(origin) is not None:
            return True
        if self.hosts.may_go(queue, origin) is not None:
            return True
        self._watch_for_closing()
        return False

    def may_go(self, queue: BackQueue) -> bool:
        """Whether a request of *queue* may be sent now; otherwise the queue is parked."""
        origin = queue.key.origin
        if origin is None:
            if not queue.key.is_service:
                return True
            served = self.turns.groups.of_site_served(*queue.key.delay_keys)
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
        """The terms for requests to *origin*; None where they are not known."""
        override = self.override(origin)
        if override is not None:
            if override.robots is None:
                return Terms(inf)
            return self.politeness.terms(self._identity.pace(override.robots), inf, inf)
        known = self.at_hand(origin)
        if known is None:
            return None
        now = self._alarms.clock.time()
        holds = max(known.entry.expires - now, _MIN_HOLDS)
        pace = self._identity.pace(known.robots)
        return self.politeness.terms(pace, holds, max(now - known.entry.fetched, 0.0))

    def override(self, origin: Origin) -> Override | None:
        """The override that counts in the place of the robots.txt of *origin*."""
        override = override_for(self._overrides, origin)
        return None if override is None or override.kind == "obey" else override

    def note_cause(self, queue: BackQueue, request: Request) -> None:
        """Remember the proxy of *request*, by which robots.txt may be fetched."""
        if queue.key.origin is not None:
            self.hosts.note_cause(queue.key.origin, request)

    def note_delay(self, queue: BackQueue, delay: float) -> None:
        """Another worker has found that the host of *queue* asks for a *delay* in seconds.
        It is kept before the request for robots.txt too.
        """
        if queue.key.origin is not None:
            self.turns.group_of(queue.key.delay_keys, queue.key.origin, delay, inf)

    def fetch_ahead(self, ready: int) -> None:
        """Fetch more robots.txt files, if few back queues are *ready*."""
        self.hosts.ready = ready
        self.hosts.begin_fetches()

    def _watch_for_closing(self) -> None:
        """Check from time to time whether the spider is closing, to end waiting requests
        and fetches: the spider waits for them.
        """
        if not self._is_watching:
            self._is_watching = True
            moment = self._alarms.clock.monotonic() + _CLOSING_LOOK
            self._alarms.at(moment, self._look_if_closing)

    def _look_if_closing(self) -> None:
        self._is_watching = False
        if not (
            self.hosts.has_waiters
            or self.turns.groups.have_waiters
            or self.politeness.has_waiters
        ):
            return
        if is_closing(self._crawler):
            self.close()
        self._watch_for_closing()

    def close(self) -> None:
        """The spider closes: end all waiting in the downloader."""
        # Turns first: a request that ends would give its turn to one that is about to end.
        self.turns.close()
        self.hosts.close()
        self.politeness.close()

    def log_waiting(self) -> None:
        """Log how many requests wait."""
        requests, hosts = map(
            sum, zip(self.hosts.waiting(), self.politeness.waiting(), strict=True)
        )
        if requests:
            log_waiting(self._crawler, requests, hosts)

    # For the middleware.

    def at_hand(self, origin: Origin) -> Known | None:
        """What is known of *origin*, if that is fresh and robots.txt is not unreachable."""
        known = self.cache.at_hand(origin)
        if known is None or known.state is State.UNREACHABLE:
            return None
        return known

    async def known(
        self, origin: Origin, request: Request, *, is_patient: bool
    ) -> Known:
        """What is known of *origin*, for *request*, once it is known. Only a request that
        *is patient* waits for a robots.txt that is unreachable. Raises SpiderClosing.
        """
        self._watch_for_closing()
        # What it waits for takes the turn of the host before it.
        self.turns.release(request)
        return await self.hosts.known(origin, request, is_patient=is_patient)

    async def tdmrep(self, known: Known, request: Request) -> TdmRep | None:
        """The tdmrep.json of an origin, for a *request* with a purpose that needs it, while
        those of the crawl do not. Raises SpiderClosing.
        """
        if self.cache.lacks_tdmrep(known):
            self.turns.release(request)
        return await self.cache.tdmrep(known, Causes(self.cache.cause_of(request)))

    async def turn(
        self, request: Request, origin: Origin, pace: Pace, *, fetched: float
    ) -> bool:
        """Wait until *request* may be sent. Return False where robots.txt has to be asked
        again after that. Raises SpiderClosing.
        """
        self._watch_for_closing()
        return await self.politeness.turn(request, origin, pace, fetched=fetched)

    async def turn_of_service(self, request: Request) -> None:
        """Wait until *request*, which is exempt, may be sent, where it is to a service that
        serves a site with a delay. Raises SpiderClosing.
        """
        if not self.turns.groups:
            return
        keys = delay_keys(self._crawler, request)
        served = self.turns.groups.of_site_served(*keys)
        if served is not None:
            self._watch_for_closing()
            await self.turns.wait(request, served)

    # For the fetcher.

    @asynccontextmanager
    async def _turn_for_robotstxt(
        self, request: Request, *, is_redirected: bool
    ) -> AsyncIterator[None]:
        """The turn of a request for robots.txt, which keeps the delay as any other does."""
        group = self.turns.find(request)
        if group is not None and not group.is_held_by_browser:
            await self.turns.wait(request, group, is_redirected=is_redirected)
        elif group is None:
            await self.turns.shared_delays.wait_for(host_of(request))
        try:
            yield
        finally:
            # If it was sent, its signal has ended the turn already.
            self.turns.release(request)


def _store_client(crawler: Crawler, settings: RepSettings) -> StoreClient:
    """A client of the store that ``REP_STORE`` chooses."""
    if not isinstance(settings.store, str):
        return StoreClient(crawler, build_from_crawler(settings.store, crawler))
    store = open_store(
        settings.store,
        max_entries=settings.store_max_entries,
        max_bytes=settings.store_max_bytes,
    )
    return StoreClient(crawler, store)
