"""The frontier of a crawl: connects the core to Scrapy's scheduler and downloader."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from scrapy import signals
from scrapy.http.request import NO_CALLBACK
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import CancelledError, Deferred

from scrapy_rep.base import meta
from scrapy_rep.base.browsers import is_for_browser, uses_playwright
from scrapy_rep.base.clock import Alarms, Clock
from scrapy_rep.base.compat import (
    DownloaderState,
    close_idle_connections,
    close_spider,
    download_slot,
    has_host_header,
    is_closing,
    response_refused,
    shared_component,
    slot_state,
    status_received,
    wake,
    withdraw,
)
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import (
    bare_host,
    host_of,
    is_exempt,
    is_of_http,
    request_origin,
    was_redirected,
)
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.decisions import BACK_OFF, Case, DecisionReporter
from scrapy_rep.crawl.fetching.fetcher import in_words, kind_of
from scrapy_rep.crawl.fetching.request import FetchMiddleware, RobotsTxtRequest
from scrapy_rep.crawl.frontier.backlog import HostKey, NoTerms, Terms
from scrapy_rep.crawl.frontier.core import (
    Core,
    Granted,
    NetworkBack,
    NetworkGone,
    Outlet,
    Paused,
    Probe,
    Refused,
    Slot,
    Ticket,
    WaitReason,
    Wake,
    Where,
)
from scrapy_rep.crawl.frontier.politeness import ASKS_FOR_PAUSE, Politeness, duration
from scrapy_rep.crawl.frontier.rules import HostRules
from scrapy_rep.exceptions import BackingOff, RobotsDenied, SpiderClosing
from scrapy_rep.protocol.access.results import Failure
from scrapy_rep.protocol.origins import origin, origin_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Headers, Response

    from scrapy_rep.crawl.frontier.backlog import Backlog
    from scrapy_rep.crawl.frontier.core import Host, Ready, Said, Scope
    from scrapy_rep.protocol.access.results import SiteRules
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robotstxt.pace import Pace

# The seconds between two checks for what Scrapy has no signal: whether the spider is closing,
# and whether requests have ended unseen.
_CHECK_EVERY = 0.2

# After these seconds, a request that a component of the project holds back loses its places to
# downloads that wait for them: the component may wait for one of them itself.
_GIVES_WAY_AFTER = 1.0

# The seconds for which a host gets no page after one has failed at the level of the network.
_AFTER_FAILURE = 1.0

# The seconds between two log lines about what an idle crawl waits for.
_LOG_EVERY = 60.0

# The minimum pause between two checks of a download slot, as a fraction of its delay.
_PART_OF_DELAY = 1 / 10

# The pause before the next attempt to get the turn of a host that another worker has: a
# fraction of the delay, within these limits in seconds.
_PART_OF_DELAY_ELSEWHERE = 1 / 8
_MIN_PAUSE = 0.05
_MAX_PAUSE = 2.0

# Where the authority of a URL may end, at the earliest: after "http://" and one character.
_AUTHORITY = 8

# The number of authorities whose keys are kept.
_MAX_KEYS = 10_000

# The most hosts whose rules a queue of several workers wants at once, and at one time. Those that
# are unreachable do not count.
_MAX_WANTED = 256
_WANTED_AT_ONCE = 32


class Requests(Protocol):
    """The requests of one host that wait in a queue, wherever they are."""

    @property
    def count(self) -> int:
        """The number of requests."""
        ...

    def push(self, request: Request) -> None:
        """Add *request*. Raises ValueError if that is not possible."""
        ...

    def pop(self) -> Request | None:
        """Remove and return the best request; None if it cannot be read."""
        ...

    def peek(self) -> Request | None:
        """Return the request that :meth:`pop` would return."""
        ...


class BackQueue(Ticket):
    """The requests of one backlog to one host."""

    __slots__ = ("key", "requests")

    def __init__(
        self,
        frontier: Frontier,
        key: HostKey,
        outlet: Outlet,
        requests: Requests,
    ) -> None:
        host, obeys = frontier.host_of(key)
        super().__init__(outlet, host, frontier.scopes_of(key), obeys=obeys)
        self.key = key
        self.requests = requests

    def __len__(self) -> int:
        return self.requests.count

    def peek(self) -> Request | None:
        """Return the best request; None if the queue class cannot peek."""
        try:
            return self.requests.peek()
        except Exception:  # noqa: BLE001  pop() raises the error
            return None


class WantedRules(Ticket):
    """Waits for the rules of a host whose requests are elsewhere, and tells them once."""

    __slots__ = ("first", "key", "told")

    def __init__(
        self,
        outlet: Outlet,
        host: Host | None,
        key: HostKey,
        first: Request,
        told: Callable[[Terms | NoTerms], None],
    ) -> None:
        super().__init__(outlet, host, ())
        self.key = key
        self.first = first
        self.told = told

    def peek(self) -> Request:
        """Return a request that waits for the rules."""
        return self.first


class Waiter(Ticket):
    """A request that is in the downloader already."""

    __slots__ = ("call", "case", "is_for_robotstxt", "is_granted", "is_patient")

    def __init__(
        self,
        outlet: Outlet,
        host: Host | None,
        scopes: tuple[Scope, ...],
        case: Case,
        *,
        obeys: bool = True,
        is_patient: bool = True,
    ) -> None:
        """*case* is a Trip if it waits for places."""
        super().__init__(outlet, host, scopes, obeys=obeys)
        self.case = case
        self.is_patient = is_patient
        self.is_for_robotstxt = isinstance(case.request, RobotsTxtRequest)
        self.is_granted: bool | None = None
        """Whether it may go, or is refused; None while it waits."""

        self.call: Deferred[None] | None = None

    def wake(self) -> None:
        """Let the request continue, if it waits."""
        if self.call is not None and not self.call.called:
            self.call.callback(None)


_NO_KEY = HostKey("", None)


@dataclass(slots=True, eq=False)
class Trip(Case):
    """A request on its way: from its queue, or from the first time that it is seen, until it has
    left the downloader.
    """

    key: HostKey = _NO_KEY
    is_from_queue: bool = False

    ticket: Ticket | None = None
    """That of its places; None while it has none."""

    since: float = -inf
    """When it has got them."""

    # While it has them.
    is_sent: bool = False
    """Whether it has passed all middlewares, and reached the downloader."""

    has_asked: bool = False
    """Whether its answer has asked for a pause."""

    has_acquired: bool = False
    """Whether the queue that workers share has given it the turn of its host, if it needed that."""

    has_given_way: bool = False
    """Whether it has lost them since a component of the project holds it back."""


class Frontier:
    """The requests of a crawl that wait or are in flight.

    The queues of the scheduler and the downloader middleware share one frontier. It owns the core,
    does what that says, and hands down to :attr:`politeness` and :attr:`rules` what they need of it.
    """

    def __init__(self, crawler: Crawler, clock: Clock | None = None) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._has_browser = uses_playwright(crawler.settings)
        self._at_once = crawler.settings.getint("CONCURRENT_REQUESTS")
        settings = RepSettings.of(crawler)
        self._obeys_delays = settings.crawl_delay_obey
        self.clock = clock or Clock()
        self.alarms = Alarms(self.clock)
        self.core = Core(settings.wait_timeout)
        self._reporter = DecisionReporter.of(crawler)
        self.politeness = Politeness(
            crawler,
            self.core,
            self.alarms,
            paused=self._tell_of_pause,
            recovered=self._tell_of_recovery,
        )
        self.rules: HostRules | None = None
        """The rules of hosts; None if the crawl ignores robots.txt."""

        self._judge_again: Callable[[Trip], Awaitable[object]] | None = None

        self._backlogs: list[Backlog] = []
        self._shared: Backlog | None = None
        """The queue that several workers share, if there is one."""

        self._usual_slots: dict[float, Slot] = {}
        """Those without a delay, by the number of places."""

        self._wanted: dict[WantedRules, None] = {}
        self.closed_unsent: WeakSet[Request] = WeakSet()
        """The requests that failed only because the spider closed."""

        self.is_stopped = False
        """Whether no queue may hand out a request any more."""

        self._keys: dict[str, HostKey] = {}
        """The usual keys, by scheme and authority."""

        self._trips: dict[Request, Trip] = {}
        """Those that have their places, or have given way."""

        self._waiters: dict[Waiter, None] = {}
        self._alarm_at = inf
        self._is_watching = False
        self._will_flush = False
        self._popped = 0
        self._has_warned = False
        self._was_exhausted = False
        self._has_started = False
        self._closes_for = ""
        connect = crawler.signals.connect
        connect(self._reached_downloader, signals.request_reached_downloader)
        connect(self._headers_received, signals.headers_received)
        connect(self._response_downloaded, signals.response_downloaded)
        connect(self._engine_started, signals.engine_started)
        connect(self._spider_opened, signals.spider_opened)
        connect(self._spider_closed, signals.spider_closed)

    @classmethod
    def of(cls, crawler: Crawler) -> Frontier:
        """Return the instance that the components of a crawl share."""
        return shared_component(crawler, cls)

    def obey(self, judge_again: Callable[[Trip], Awaitable[object]]) -> None:
        """Obey robots.txt from now on: the middleware, which Scrapy makes before the scheduler, says
        so. *judge_again* waits until a request may be sent, by what robots.txt says then, and raises
        the error that refuses it.
        """
        self._judge_again = judge_again
        if self.rules is None:
            self.rules = HostRules(
                self._crawler,
                self.core,
                self.politeness,
                self.clock,
                take_turn=self._take_own_turn,
                free=self.free,
                act=self.flush,
            )

    @property
    def obeys(self) -> bool:
        """Whether the crawl obeys robots.txt."""
        return self.rules is not None

    def attach(self, backlog: Backlog) -> None:
        """Note that the scheduler has *backlog*."""
        self._backlogs.append(backlog)
        if backlog.is_shared:
            self._shared = backlog

    # Keys, scopes and hosts.

    @cached_property
    def _downloader(self) -> DownloaderState:
        return DownloaderState(self._crawler)

    def key_of(self, request: Request) -> HostKey:
        """Return the key of *request*: that of its scheme and authority, which is worked out once,
        unless the request has a slot, an exemption, a redirect or a ``Host`` header of its own.
        """
        url, own = request.url, request.meta
        end = url.find("/", _AUTHORITY)
        authority = url if end < 0 else url[:end]
        known = self._keys.get(authority)
        if (
            "redirect_urls" in own
            or (meta.DONT_OBEY_ROBOTSTXT in own and not _is_ours(request))
            or has_host_header(request)
        ):
            return self._own_key_of(request)
        # Scrapy notes the slot when it sends a request.
        if known is not None and own.get("download_slot", known.slot) == known.slot:
            return known
        key = self._own_key_of(request)
        if "download_slot" not in own and self._downloader.has_slot_for_each_host:
            if len(self._keys) >= _MAX_KEYS:
                self._keys.clear()
            self._keys[authority] = key
        return key

    def _own_key_of(self, request: Request) -> HostKey:
        slot = download_slot(self._crawler, request)
        if self.rules is None or not is_of_http(request):
            return HostKey(slot, None)
        if "redirect_urls" in request.meta:
            host = host_of(request)
            slot = host if was_redirected(request, host) else slot
        origin = request_origin(request)
        host = bare_host(origin) if origin is not None else ""
        # Scrapy's own choice of a slot.
        if host in {slot, slot.rstrip("."), f"[{slot}]"}:
            slot = host
        if not _is_ours(request) and is_exempt(request):
            return HostKey(slot, None, is_service=host != slot)
        return HostKey(slot, origin)

    def scopes_of(self, key: HostKey) -> tuple[Scope, ...]:
        """Return the scopes of requests with *key*, that of the download slot last."""
        slot = self.core.scope(key.slot)
        self._look_at_slot(slot)
        host = key.host
        if not host or host == key.slot:
            return (slot,)
        return self.core.scope(host), slot

    def host_of(self, key: HostKey) -> tuple[Host | None, bool]:
        """Return the host of requests with *key*, and whether they obey its delay."""
        if key.origin is None or self.rules is None:
            return None, key.is_service and self._obeys_delays
        override = self.rules.cache.override(key.origin)
        if override is not None and override.robots is None and override.ends == inf:
            # A queue without a host never waits for a robots.txt. An override that ends leaves
            # the host to its robots.txt, so its queues have a host from the beginning.
            return None, False
        return self.core.host(key.origin), self._obeys_delays

    def _look_at_slot(self, scope: Scope) -> None:
        """Tell the core what Scrapy's download slot of *scope* is like now."""
        downloader = self._downloader
        slot = downloader.slots.get(scope.key)
        if slot is not None and not slot.delay:
            places, found = slot.concurrency, None
        elif slot is None and scope.key not in downloader.own_slots:
            places, found = inf, downloader.new_slot
        else:
            places, found = inf, slot_state(self._crawler, scope.key)
        if found is not None and found.delay:
            # One request that waits in the slot is enough. The next request may follow a little
            # after that request was sent.
            pause, free_at = found.delay * _PART_OF_DELAY, -inf
            if found.is_queueing:
                soonest = self.clock.monotonic() + pause
                free_at = max(found.last_seen + found.delay, soonest)
            self.core.set_slot(scope, Slot(found.concurrency, pause, free_at))
            return
        places = places if found is None else found.concurrency
        if scope.slot.places != places or scope.slot.pause:
            usual = self._usual_slots.setdefault(places, Slot(places))
            self.core.set_slot(scope, usual)

    def _flush_soon(self) -> None:
        if not self._will_flush:
            self._will_flush = True
            self.alarms.at(self.clock.monotonic(), self.flush)

    def keep_pace(
        self, request: Request, origin: Origin, pace: Pace, fetched: float
    ) -> None:
        """Have the host of *request* keep to the *pace* of *origin*, by a robots.txt that was
        *fetched* at this time.
        """
        if self._obeys_delays:
            scope = self.scopes_of(self.key_of(request))[0]
            self.politeness.keep_pace(scope, origin, pace, fetched)

    # For the queues.

    @property
    def has_room(self) -> bool:
        """Whether the downloader has room for another request from a queue."""
        if not self.core.network.is_up:
            return False
        return self.rules is None or self.rules.fetcher.leaves_room

    def add(self, ticket: Ticket) -> None:
        """Note that *ticket*, a queue with requests or another, has something to send."""
        host, now = ticket.host, self.clock.monotonic()
        if host is not None and now >= host.expires and self.rules is not None:
            self.rules.tell(host)
        self.core.add(ticket, now)

    def refill(self, queue: BackQueue) -> None:
        """Note that *queue*, which was empty, has a request."""
        host, rules = queue.host, self.rules
        is_open = host is not None and self.clock.monotonic() < host.expires
        if host and rules and is_open and rules.cached(host.origin) is None:
            # It has expired by the wall clock, which goes on while a machine sleeps.
            self.core.expire(host)
        self.add(queue)

    def next(self, ready: Ready) -> BackQueue | None:
        """Return the next queue of *ready*: its request has its places, or the queue is at
        ``Where.REFUSED``, and has none. None if there is none, or if nothing more may be sent now.
        """
        self.settle()
        if self.is_stopped or not self.has_room:
            return None
        now = self.clock.monotonic()
        while (queue := ready.first()) is not None:
            self._look_at_slot(queue.scopes[-1])
            if self.core.go(queue, now):
                assert isinstance(queue, BackQueue)
                return queue
        return None

    def end(self, queue: BackQueue) -> None:
        """Note that *queue* is empty, or closed."""
        self.core.end(queue, self.clock.monotonic())

    def note_proxy(self, key: HostKey, request: Request) -> None:
        """Note the proxy of *request*, which was pushed, if it has one."""
        if "proxy" in request.meta and self.rules and key.origin is not None:
            self.rules.note_proxy(key.origin, request)

    def popped(self, queue: BackQueue, request: Request | None) -> None:
        """Note that *request*, for which *queue* has its places, goes to the downloader; None if
        there is none after all. If it is refused, it has no places: the middleware refuses it. If
        *queue* has more, it waits for its next turn.
        """
        now = self.clock.monotonic()
        if queue.where is not Where.REFUSED:
            if request is None:
                self.core.free(queue, now, sent=False)
            else:
                trip = self._trips.get(request)
                if trip is None:
                    key = queue.key
                    trip = Trip(request, key.origin, key=key, is_from_queue=True)
                self._take_places(trip, queue)
                self._popped += 1
                if not self._is_watching:
                    self.watch()
        if queue.requests.count:
            if queue.host is None or now < queue.host.expires:
                self.core.add(queue, now)
            else:
                self.add(queue)

    def started(self, key: HostKey, request: Request, delay: float = 0.0) -> None:
        """Note that *request*, for which another queue has found places, goes to the downloader."""
        self._hear_of_delay(key, delay)
        trip = self._trips.get(request)
        if trip is None:
            trip = Trip(request, key.origin, key=key, is_from_queue=True)
        self._take_any_places(trip)
        self._popped += 1
        self.watch()

    # Requests on their way.

    def trip_of(self, request: Request) -> Trip:
        """Return what is known of *request*, which is in the downloader, with its key of now."""
        trip = self._trips.get(request) or Trip(request, None)
        trip.key = key = self.key_of(request)
        trip.origin = key.origin
        if key.origin is None:
            trip.origin, trip.is_exempt = request_origin(request), is_exempt(request)
        return trip

    def _take_places(self, trip: Trip, ticket: Ticket) -> None:
        """Let *trip* have the places that *ticket* has taken."""
        now, has = self.clock.monotonic(), self._trips.get(trip.request)
        if has is not None and has.ticket is not None:
            # The same object may be sent twice: it has its places once.
            self.core.free(ticket, now, sent=False)
            return
        trip.ticket, trip.since = ticket, now
        trip.is_sent = trip.has_asked = trip.has_acquired = trip.has_given_way = False
        self._trips[trip.request] = trip

    def _take_any_places(self, trip: Trip) -> None:
        """Let *trip* have its places, even if there are none."""
        ticket = Ticket(self.core.direct, None, self.scopes_of(trip.key))
        self.core.take(ticket, self.clock.monotonic())
        self._take_places(trip, ticket)
        self.core.end(ticket, self.clock.monotonic())

    def free(self, request: Request) -> None:
        """Free the places of *request*, if it still has them: it was not sent, or its end was not
        seen. A delay begins only if it was sent.
        """
        trip = self._trips.pop(request, None)
        if trip is not None and trip.ticket is not None:
            self._free(trip, trip.ticket)
            self.flush()

    def _free(self, trip: Trip, ticket: Ticket) -> None:
        """Free the places of a trip, which are those of *ticket*."""
        trip.ticket = None
        was_sent = trip.is_sent
        self.core.free(ticket, self.clock.monotonic(), sent=was_sent)
        is_told = trip.has_acquired or (was_sent and _is_ours(trip.request))
        if is_told and self._shared is not None:
            scope = ticket.scopes[0]
            self._shared.release(trip.request, scope.key, scope.delay, sent=was_sent)

    # For a queue whose requests are elsewhere.

    def room(self) -> int:
        """Return how many requests the downloader can take now; none while the network of the
        crawler is gone, or once the crawl stops.
        """
        self.settle()
        self.flush()
        if self.is_stopped or not self.has_room:
            return 0
        active = len(self._downloader.active)
        return max(self._at_once - active, 0)

    def room_for_rules(self) -> int:
        """Return for how many more hosts the rules can be wanted now: those of unreachable hosts,
        which are fetched again later, do not count.
        """
        wanted = len(self._wanted)
        if wanted >= _MAX_WANTED:
            hosts = (ticket.host for ticket in self._wanted)
            wanted -= sum(host is not None and host.is_down for host in hosts)
        return max(min(_MAX_WANTED - wanted, _WANTED_AT_ONCE), 0)

    def want_rules(
        self,
        key: HostKey,
        first: Request,
        told: Callable[[Terms | NoTerms], None],
        delay: float = 0.0,
    ) -> None:
        """Find out the rules of the host of *key*, and tell them: see :class:`Turns`."""
        host, _ = self.host_of(key)
        ticket = WantedRules(self.core.elsewhere, host, key, first, told)
        self._wanted[ticket] = None
        self._hear_of_delay(key, delay)
        self.add(ticket)
        self.note_proxy(key, first)
        self._flush_soon()

    def _hear_of_delay(self, key: HostKey, delay: float) -> None:
        """Have the host of *key* keep to a *delay* that another worker has read: requests for its
        robots.txt wait for it too.
        """
        if delay and key.origin is not None:
            scope, now = self.core.scope(key.host), self.clock.monotonic()
            if delay > scope.delay:
                self.core.set_delay(scope, key.origin, delay, now, since=-inf)

    def _tell_rules(self, ticket: WantedRules, *, is_refused: bool) -> None:
        del self._wanted[ticket]
        self.core.end(ticket, self.clock.monotonic())
        terms = None if is_refused else self._terms(ticket.key)
        ticket.told(terms or (NoTerms.REFUSED if is_refused else NoTerms.UNKNOWN))

    def _terms(self, key: HostKey) -> Terms | None:
        if self.rules is None or key.origin is None:
            return None
        robots, holds = self.rules.rules(key.origin)
        if robots is None:
            return Terms(holds) if holds else None
        return Terms(holds, self.politeness.delay_of(robots))

    def paused_elsewhere(
        self, host: str, left: float, own: float, lasted: float
    ) -> None:
        """Note a pause that another worker, or an earlier run, was asked for."""
        self.politeness.paused_elsewhere(host, left, own, lasted)
        self._flush_soon()

    # What ends, and what is due.

    def settle(self) -> None:
        """Find the requests that have ended unseen, and what is due. :meth:`flush` does the rest."""
        # All requests in flight are active. If others are active too, what ended unseen may be
        # found later, by _check().
        if len(self._trips) > len(self._downloader.active):
            self._leave_unseen()
        now = self.clock.monotonic()
        if now >= self._alarm_at:
            self.core.tick(now)

    def _leave_unseen(self) -> None:
        """Free the places of requests whose end another component has hidden."""
        gone = self._trips.keys() - self._downloader.active
        if gone and self._waiters:
            # Of one object that is downloaded several times at once, Scrapy forgets all others
            # when the first one ends.
            gone -= {waiter.case.request for waiter in self._waiters}
        if gone:
            # In the order in which they were popped.
            for request, trip in list(self._trips.items()):
                # Those for robots.txt get their places before they are in the engine.
                if request in gone and not _is_ours(request):
                    del self._trips[request]
                    if trip.ticket is not None:
                        self._free(trip, trip.ticket)

    def flush(self) -> None:
        """Do what the core says, and what follows from it."""
        core, self._will_flush = self.core, False
        ended: list[Waiter] = []
        for each in core.drain():
            self._act_on(each, ended)
        at = core.wake_at()
        if at < self._alarm_at:
            self._alarm_at = at
            self.alarms.at(at, self._on_alarm, at)
        if self.rules is not None:
            if core.urgent or core.wanted:
                ready = 0
                for backlog in self._backlogs:
                    ready += backlog.count_ready()
                self.rules.begin_fetches(ready)
            if not self._is_watching and self.rules.fetches:
                self.watch()
        # Last, and not one inside another: without asyncio, each continues at once, and calls
        # this method again.
        for ticket in ended:
            ticket.wake()

    def _act_on(self, said: Said, ended: list[Waiter]) -> None:
        """Do one thing that the core says, and add to *ended* what need not wait any more."""
        match said:
            case Granted(WantedRules() as wanted) | Refused(WantedRules() as wanted):
                self._tell_rules(wanted, is_refused=isinstance(said, Refused))
            case Granted(ticket) | Refused(ticket):
                assert isinstance(ticket, Waiter)
                is_granted = isinstance(said, Granted)
                if is_granted and isinstance(ticket.case, Trip) and ticket.scopes:
                    self._take_places(ticket.case, ticket)
                self._end(ticket, is_granted=is_granted)
                ended.append(ticket)
            case Wake():
                wake(self._crawler)
            case Paused(scope):
                self._withdraw(scope)
            case Probe(request):
                if self.rules is not None:
                    self.rules.probe(request)
            case NetworkGone():
                self._note_network_gone(said)
            case NetworkBack(after, was_certain):
                if was_certain:
                    self._logger.info(
                        "The network of the crawler is back after %(time)s: requests continue",
                        time=duration(after),
                    )

    def _on_alarm(self, at: float) -> None:
        if at != self._alarm_at:
            return  # An earlier one has done this.
        self._alarm_at = inf
        self.core.tick(self.clock.monotonic())
        self.flush()
        wake(self._crawler)

    def stop(self, reason: str) -> None:
        """Let no queue hand out another request, and close the spider with *reason*."""
        self.is_stopped = True
        self._closes_for = reason
        self.alarms.at(self.clock.monotonic(), self._close_spider)

    def _close_spider(self) -> None:
        # Before the engine has started, Scrapy would leave its connections open.
        if self._has_started:
            close_spider(self._crawler, self._closes_for)

    # For requests in the downloader.

    def has_turn(self, request: Request) -> bool:
        """Whether *request* has its places, and may be sent at once."""
        if self._shared is not None:
            self._shared.catch_up(request)
        trip = self._trips.get(request)
        if trip is None or trip.ticket is None:
            return False
        if self.core.network.gone_since is not None:
            return False
        for scope in trip.ticket.scopes:
            if scope.back_off is not None:
                return not self.politeness.must_wait(trip.ticket, trip.since)
        return True

    async def take_turn(self, trip: Trip, *, obeys: bool = True) -> bool:
        """Wait until the request of *trip* may be sent. Return whether it has waited. Raises
        SpiderClosing, or BackingOff if its host has asked for too long a pause.
        """
        request = trip.request
        if self.has_turn(request):
            return False
        has = self._trips.get(request)
        if has is not None and has.ticket is not None:
            host = has.ticket.scopes[0].key
            self.free(request)
            if self._shared is not None:
                self._shared.release(request, host, 0.0, sent=False)
        core, has_waited = self.core, False
        outlet, scopes = core.direct, self.scopes_of(trip.key)
        if isinstance(request, RobotsTxtRequest) and request.fetch.is_redirected:
            outlet = core.redirected
        if isinstance(request, RobotsTxtRequest) and self._are_held_by_browser(scopes):
            # Its page may wait for this robots.txt.
            self._take_any_places(trip)
            return False
        while True:
            ticket = Waiter(outlet, None, scopes, trip, obeys=obeys)
            has_waited |= await self._wait(ticket)
            if not ticket.is_granted:
                raise BackingOff(self.politeness.why_refused(ticket))
            if self._acquire(trip, ticket):
                return has_waited

    async def wait_for_rules(self, case: Case, *, is_patient: bool) -> SiteRules:
        """Wait until the robots.txt for the request of *case* is known, and return it.

        If robots.txt is unreachable, only a request that *is_patient* waits until it is
        back. If this is cancelled and nothing else waits, so is the fetch. Raises SpiderClosing
        if the spider closes meanwhile.
        """
        assert case.origin is not None
        assert self.rules is not None
        # The request for robots.txt needs the places first.
        self.free(case.request)
        while True:
            known = self.rules.cached(case.origin)
            if known is not None:
                return known
            host = self.core.host(case.origin)
            self.core.expire(host)
            ticket = Waiter(self.core.direct, host, (), case, is_patient=is_patient)
            self.rules.add_template(host, case.request)
            try:
                await self._wait(ticket)
            except (CancelledError, asyncio.CancelledError):
                self.rules.cancel_if_alone(host)
                raise
            if not ticket.is_granted and host.outage is not None:
                found: SiteRules = host.outage.known
                return found

    async def _take_own_turn(self, request: Request) -> None:
        """Wait until *request*, for a robots.txt, may be sent. Raises as :meth:`take_turn` does."""
        await self.take_turn(self.trip_of(request))

    async def _wait(self, ticket: Waiter) -> bool:
        """Wait until *ticket* may go, or is refused. Return whether it has waited. Raises
        SpiderClosing if the spider closes meanwhile.
        """
        self._waiters[ticket] = None
        self.add(ticket)
        self.flush()
        if ticket.is_granted is not None:
            return False
        ticket.call = Deferred()
        self.watch()
        try:
            await maybe_deferred_to_future(ticket.call)
        except (CancelledError, asyncio.CancelledError):
            # It may have got its places, or have been refused, in this moment.
            self.flush()
            if ticket.is_granted:
                self.free(ticket.case.request)
            elif ticket.is_granted is None:
                self._end(ticket, is_granted=False)
            raise
        return True

    def is_patient(self, trip: Trip) -> bool:
        """Whether the request of *trip* may wait while robots.txt is unreachable.

        Requests from a scheduler may. Requests that a pipeline or a callback sends directly
        to the engine may not: the item or page that waits for them holds up the crawl.
        """
        if self._backlogs:
            return trip.is_from_queue
        return trip.request.callback is not NO_CALLBACK

    def _end(self, ticket: Waiter, *, is_granted: bool) -> None:
        ticket.is_granted = is_granted
        self._waiters.pop(ticket, None)
        self.core.end(ticket, self.clock.monotonic())

    def _acquire(self, trip: Trip, ticket: Waiter) -> bool:
        """Whether no other worker sends to the host of *trip*, which has its places. If not,
        free them for a while.
        """
        scope = ticket.scopes[0]
        is_alone = scope.delays or scope.back_off is not None
        if self._shared is None or not is_alone:
            return True
        request = trip.request
        if self._shared.acquire(request, scope.key, self._behind(request)):
            self._trips[request].has_acquired = True
            return True
        pause = min(max(scope.delay * _PART_OF_DELAY_ELSEWHERE, _MIN_PAUSE), _MAX_PAUSE)
        until = self.clock.monotonic() + pause
        scope.wait_until(until, WaitReason.OTHER_WORKER)
        self.free(request)
        return False

    def _behind(self, request: Request) -> set[Request]:
        """Return the requests that are not sent before *request* has ended, as far as is known:
        they wait for its robots.txt, or a component of the project holds them back.
        """
        behind = {each.request for each in self._trips.values() if each.has_given_way}
        if isinstance(request, RobotsTxtRequest):
            behind.update(waiter.case.request for waiter in self._waiters)
        return behind

    def _are_held_by_browser(self, scopes: tuple[Scope, ...]) -> bool:
        if not self._has_browser:
            return False
        return any(
            trip.ticket is not None
            and is_for_browser(trip.request)
            and not set(scopes).isdisjoint(trip.ticket.scopes)
            for trip in self._trips.values()
        )

    def _reached_downloader(self, request: Request) -> None:
        if isinstance(request, RobotsTxtRequest):
            FetchMiddleware.reached_downloader(request)
        trip = self._trips.get(request)
        if trip is not None:
            if trip.has_given_way:
                self._take_any_places(trip)
            self._note_sent(trip)

    def _note_sent(self, trip: Trip) -> None:
        if trip.ticket is not None and not trip.is_sent:
            trip.is_sent = True
            if self.politeness.measures:
                self.politeness.measure_sent(trip.request, trip.ticket)
                self.politeness.measure_waiting(self._backlogs, len(self._waiters))
            self.core.sent(trip.ticket)

    def _give_way(self) -> None:
        """Free the places of requests that a component of the project holds back, if downloads
        wait for these places.
        """
        before = self.clock.monotonic() - _GIVES_WAY_AFTER
        for trip in list(self._trips.values()):
            if trip.ticket is None or trip.is_sent or trip.since > before:
                continue
            lanes = [one for each in trip.ticket.scopes for one in each.parked or ()]
            if any(outlet is self.core.direct for outlet, _ in lanes):
                trip.has_given_way = True
                self._free(trip, trip.ticket)

    # Back-off.

    def _tell_of_pause(self, host: str, seconds: float, own: float) -> None:
        """Tell the queues that *host* has asked for a pause."""
        for backlog in self._backlogs:
            backlog.paused(host, seconds, own)

    def _tell_of_recovery(self, request: Request) -> None:
        """Tell other workers that a host has answered *request*, which was sent after a pause."""
        if self._shared is not None:
            self._shared.recovered(request)

    def _headers_received(self, headers: Headers, request: Request) -> None:
        """Keep a pause as soon as a host asks for it: the body may never end, or be too long."""
        trip = self._trips.get(request)
        if trip is None or trip.ticket is None:
            return
        status = status_received()
        if status in ASKS_FOR_PAUSE:
            self._answered(trip, trip.ticket.scopes[0], status, headers)
            self.flush()

    def _response_downloaded(self, response: Response, request: Request) -> None:
        trip = self._trips.get(request)
        if trip is None or trip.ticket is None:
            return
        scope = trip.ticket.scopes[0]
        self.core.answered(scope.key, request, self.clock.monotonic())
        if scope.back_off is not None or response.status in ASKS_FOR_PAUSE:
            self._answered(trip, scope, response.status, response.headers)
        self.free(request)

    def _answered(
        self, trip: Trip, scope: Scope, status: int, headers: Headers
    ) -> None:
        if trip.has_asked:
            return
        trip.has_asked = status in ASKS_FOR_PAUSE
        self.politeness.answered(status, headers, trip.request, scope, trip.since)

    def back_off(
        self, keys: Iterable[str], delay: float | None, cap: float | None
    ) -> None:
        """Pause the scopes of *keys*: see :func:`scrapy_rep.back_off`."""
        for key in keys:
            self.politeness.back_off(key, delay, cap)
        self.flush()

    # The network of the crawler itself.

    def failed(self, request: Request, error: Exception) -> None:
        """Note that the download of *request* has failed, if it has its places."""
        trip = self._trips.get(request)
        if trip is None or trip.ticket is None or self.rules is None:
            return
        scope, refused = trip.ticket.scopes[0], response_refused(error)
        if refused is not None and refused[0] in ASKS_FOR_PAUSE:
            self._answered(trip, scope, *refused)
        now, kind = self.clock.monotonic(), kind_of(error)
        if kind is Failure.OWN:
            if self.core.network.exhausted(now):
                self._note_exhausted(error)
        elif kind is Failure.NETWORK:
            if not isinstance(request, RobotsTxtRequest):
                # Scrapy repeats it at once, and only twice: an outage would cost it before the last
                # answers of other hosts are there.
                scope.wait_until(now + _AFTER_FAILURE, WaitReason.BACK_OFF)
            self.core.failed(scope.key, request, now)

    def _note_network_gone(self, said: NetworkGone) -> None:
        if not said.is_certain:
            self._withdraw()
            return
        self._logger.warning(
            "The network of the crawler is gone: the last requests to several hosts failed, "
            "and none was answered. No requests are sent until a host answers; the "
            "robots.txt of one is tried after 1, 2, 4, ... 30 s. Check the network, the "
            "resolver and the proxy of this machine"
        )

    def _note_exhausted(self, error: Exception) -> None:
        close_idle_connections(self._crawler)
        if self.rules is not None:
            self.rules.fetch_fewer()
        if not self._was_exhausted:
            self._was_exhausted = True
            self._logger.warning(
                "This machine has no more files, ports or memory for connections (%(error)s): "
                "requests continue in a second, and fewer robots.txt files are fetched at once. "
                "Raise the limit of open files (ulimit -n), or lower CONCURRENT_REQUESTS",
                error=in_words(error),
            )

    def _withdraw(self, scope: Scope | None = None) -> None:
        """Let the requests that wait in their download slots wait until the pause of *scope* is
        over, if they are to its hosts; without a scope, until the network is back.
        """
        for trip in list(self._trips.values()):
            ticket = trip.ticket
            if ticket is None or not trip.is_sent:
                continue
            if scope is None or scope in ticket.scopes:
                go_on = withdraw(self._crawler, trip.request)
                if go_on is not None:
                    deferred_from_coro(self._wait_again(trip, ticket, go_on))

    async def _wait_again(
        self, trip: Trip, ticket: Ticket, go_on: Callable[[Exception | None], None]
    ) -> None:
        try:
            if self._judge_again is None or _is_ours(trip.request):
                await self.take_turn(trip, obeys=ticket.obeys)
            else:
                # While it waits, its robots.txt may become stale.
                await self._judge_again(trip)
        except (RobotsDenied, SpiderClosing) as error:
            go_on(error)
        except BackingOff as error:
            is_own = _is_ours(trip.request)
            case = Case(trip.request, request_origin(trip.request), why=str(error))
            go_on(error if is_own else self._reporter.refused(case, BACK_OFF))
        else:
            self._note_sent(trip)
            go_on(None)

    # What Scrapy has no signal for.

    def watch(self) -> None:
        """Check regularly what Scrapy has no signal for, as long as requests are in flight, or wait
        in the downloader or for robots.txt.
        """
        if not self._is_watching:
            self._is_watching = True
            self.alarms.at(self.clock.monotonic() + _CHECK_EVERY, self._check)

    def _check(self) -> None:
        self._is_watching = False
        is_fetching = self.rules is not None and bool(self.rules.fetches)
        if self._waiters or is_fetching or self._trips:
            if is_closing(self._crawler):
                self._close()
            else:
                self._give_way()
                self._leave_unseen()
                self.core.tick(self.clock.monotonic())
                self.flush()
            self.watch()

    def _close(self) -> None:
        """Cancel fetches, and fail the requests that wait in the downloader: a closing spider
        waits for its requests.
        """
        self.flush()
        waiters = list(self._waiters)
        for ticket in waiters:
            self._end(ticket, is_granted=False)
        for ticket in waiters:
            request = ticket.case.request
            self.closed_unsent.add(request)
            if ticket.call is not None and not ticket.call.called:
                ticket.call.errback(
                    SpiderClosing(f"The spider closed while {request} waited")
                )
        if self.rules is not None:
            self.rules.close()

    # The log.

    def warn_of_waiting(self, request: Request) -> None:
        """Warn once that requests may wait in the downloader, if *request* does so because
        the scheduler does not use HostQueue.
        """
        if self._backlogs or self._has_warned or request.callback is NO_CALLBACK:
            return
        self._has_warned = True
        settings = self._crawler.settings
        name = "SCHEDULER"
        if settings.getpriority(name) == SETTINGS_PRIORITIES["default"]:
            name = "SCHEDULER_PRIORITY_QUEUE"
        self._logger.warning(
            'Use Scrapy\'s scheduler with SCHEDULER_PRIORITY_QUEUE = "scrapy_rep.HostQueue": '
            "because %(name)s is %(value)s, requests that wait for a robots.txt or for the delay "
            "of their host take places of CONCURRENT_REQUESTS and slow down other hosts",
            name=name,
            value=settings[name],
        )

    def _log_waiting(self) -> None:
        """Log what the crawl waits for, if it has nothing else to do."""
        is_up = self.core.network.gone_since is None
        is_idle = is_up and not self._popped and not self._trips
        requests, hosts, first = self.core.waiting() if is_idle else (0, 0, None)
        if requests:
            left = 0.0 if first is None else first.next_at - self.clock.monotonic()
            self._logger.info(
                "Idle: %(requests)d requests to %(hosts)d hosts wait for robots.txt, "
                "a delay or a pause%(first)s",
                requests=requests,
                hosts=hosts,
                first=f". The next is to {first.key}, in {duration(left)} "
                f"({first.reason.value})"
                if first is not None and left > 0
                else "",
            )
        self._popped = 0
        self.politeness.measure_waiting(self._backlogs, len(self._waiters))
        self.alarms.at(self.clock.monotonic() + _LOG_EVERY, self._log_waiting)

    def _engine_started(self) -> None:
        self._has_started = True
        if self.is_stopped:
            self.alarms.at(self.clock.monotonic(), self._close_spider)

    def _spider_opened(self) -> None:
        self.alarms.at(self.clock.monotonic() + _LOG_EVERY, self._log_waiting)

    def _spider_closed(self) -> None:
        self._close()
        self.alarms.stop()
        for request in list(self._trips):
            self.free(request)
        self.politeness.report_slowdowns()


def _is_ours(request: Request) -> bool:
    return isinstance(request, RobotsTxtRequest)


# For spiders.


def back_off(
    crawler: Crawler,
    scopes: str | Iterable[str],
    delay: float | None = None,
    cap: float | None = None,
) -> None:
    """Send no request in *scopes* for *delay* seconds, as after a 429 with ``Retry-After``.

    *scopes* is a URL, the name or address of a host (with or without port and brackets), the key of
    a download slot, or several of these. Without *delay*, the pause is 1 second, and twice as long
    each time until a request to the host succeeds; *cap* is the longest such pause in seconds
    (``REP_BACKOFF_MAX`` by default). A response whose status is not 429 or 503 counts as success,
    whatever its body says: for a page with status 200, state the *delay*.

    A longer pause of the host, and its crawl delay, are kept. After the pause, one request is in
    flight, and one more after each success. A *delay* longer than ``REP_WAIT_TIMEOUT`` has the
    requests of the host refused with the reason ``back-off``. Requests in flight are not stopped.

    Does nothing if ``REP_BACKOFF_MAX`` is 0, and in a dry run. Raises ValueError if *scopes*
    names no host, or if *delay* or *cap* is not a finite number that is 0 or greater.

    Provisional: the parameters are those of ``back_off`` in Scrapy's pull request 6931, which is not
    merged, and follow it.
    """
    for name, value in (("delay", delay), ("cap", cap)):
        if value is not None and not 0 <= value < inf:
            raise ValueError(
                f"{name} must be a number of seconds, 0 or greater, not {value!r}"
            )
    frontier, settings = Frontier.of(crawler), RepSettings.of(crawler)
    several = [scopes] if isinstance(scopes, str) or scopes is None else scopes
    keys = [_key_of(each, frontier.core.scopes) for each in several]
    if settings.backoff_max and not settings.dry_run:
        frontier.back_off(keys, delay, cap)


def _key_of(text: str | None, known: Container[str]) -> str:
    """Return the key of the scope that *text* names: one of the *known* keys, or a host."""
    if text in known:
        return str(text)
    if text and "://" in text:
        found = origin_of(text)
    else:
        text = text or ""
        is_address = text.count(":") > 1 and not text.startswith("[")
        found = origin("http", f"[{text}]" if is_address else text)
    if found is None:
        raise ValueError(f"scopes must be a host or a URL, not {text!r}")
    return bare_host(found)
