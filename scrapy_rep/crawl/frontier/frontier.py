"""The frontier of a crawl: connects the core to Scrapy's scheduler and downloader."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from functools import cached_property
from math import inf
from numbers import Real
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.http.request import NO_CALLBACK
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred, fail

from scrapy_rep.base import meta
from scrapy_rep.base.browsers import is_for_browser, uses_playwright
from scrapy_rep.base.clock import Alarms, Clock
from scrapy_rep.base.compat import (
    DownloaderState,
    close_idle_connections,
    close_spider,
    concurrent_requests,
    download_slot,
    has_host_header,
    is_closing,
    requests_in_progress,
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
    is_exempt,
    is_of_http,
    request_origin,
    was_redirected,
)
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.fetching.fetcher import in_words, kind_of
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.crawl.frontier.backlog import HostKey, NoTerms, Terms
from scrapy_rep.crawl.frontier.core import (
    Core,
    Decided,
    Paused,
    Phase,
    Probe,
    Ticket,
    WaitReason,
    Wake,
    Where,
)
from scrapy_rep.crawl.frontier.hostrules import HostRules
from scrapy_rep.crawl.frontier.network import NetworkBack, NetworkGone
from scrapy_rep.crawl.frontier.politeness import ASKS_FOR_PAUSE, Politeness, duration
from scrapy_rep.crawl.reporting import BACK_OFF, Case, DecisionReporter
from scrapy_rep.exceptions import BackingOff, RobotsDenied, SpiderClosing
from scrapy_rep.protocol.access.results import Failure
from scrapy_rep.protocol.origins import origin, origin_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container

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

# The longest pause in seconds that a spider can ask for, as that of a ``Retry-After``.
_LONGEST = 2**31

# Where the authority of a URL may end, at the earliest: after "http://" and one character.
_AUTHORITY = 8

# The number of authorities whose keys are kept, and the length of the longest one. A ``data:`` URL is
# an authority as a whole.
_MAX_KEYS = 10_000
_MAX_AUTHORITY = 300

# The most hosts whose rules a queue of several workers wants at once, and at one time. Those that
# are unreachable do not count.
_MAX_WANTED = 256
_WANTED_AT_ONCE = 32


_NO_KEY = HostKey("", None)


class Trip(Case, Ticket):
    """A request on its way: from its queue, or from the first time that it is seen, until it has
    left the downloader. Whenever it has to wait, it is a ticket itself.
    """

    key: HostKey = _NO_KEY

    unreachable: SiteRules | None = None
    """What is known of its robots.txt, if that is unreachable and the request does not wait for it."""

    call: Deferred[bool]
    """Called when it has waited: when it may go, or is refused."""

    ticket: Ticket | None = None
    """That of its places, its own or that of its queue; None while it has none, or has lost them to
    others, since a component of the project holds it back."""

    since: float = -inf
    """When it has got them."""

    # While it has them.
    is_sent: bool = False
    """Whether it has passed all middlewares, and reached the downloader."""

    has_asked: bool = False
    """Whether its answer has asked for a pause."""

    has_acquired: bool = False
    """Whether the queue that workers share has given it the turn of its host, if it needed that."""

    def become_ticket(
        self, host: Host | None, scopes: tuple[Scope, ...], *, obeys: bool = True
    ) -> None:
        """Wait for the robots.txt of *host*, or for places of *scopes*, when it is added."""
        if isinstance(self.request, RobotsTxtRequest):
            self.is_for_robotstxt = True
            self.is_redirected = self.request.fetch.is_redirected
        Ticket.__init__(self, host, scopes, obeys=obeys)

    def peek(self) -> Request:
        """Return the request."""
        return self.request


class Frontier:
    """The requests of a crawl that wait or are in flight.

    The queues of the scheduler and the downloader middleware share one frontier. It owns the core,
    does what that says, and hands down to :attr:`politeness` and :attr:`rules` what they need of it.
    """

    def __init__(self, crawler: Crawler, clock: Clock | None = None) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._has_browser = uses_playwright(crawler.settings)
        self._at_once = concurrent_requests(crawler)
        settings = RepSettings.of(crawler)
        self.obeys_delays = settings.crawl_delay_obey
        self.clock = clock or Clock()
        self.alarms = Alarms(self.clock)
        self.core = Core(settings.wait_timeout)
        self._reporter = DecisionReporter.of(crawler)
        self._backlogs: list[Backlog] = []
        self._shared: Backlog | None = None
        """The queue that several workers share, if there is one."""

        self.politeness = Politeness(crawler, self.core, self.alarms, self._backlogs)
        self.rules: HostRules | None = None
        """The rules of hosts; None if the crawl ignores robots.txt."""

        self._until_turn: Callable[[Trip], Awaitable[object]] | None = None
        self.closed_unsent: set[Request] = set()
        """The requests that failed only because the spider closed, and those whose callbacks or items
        may have waited for one of these."""

        self.closes_for = ""
        """Why the crawl stops, and no queue may hand out a request any more; empty while it goes on."""

        self._keys: dict[str, HostKey] = {}
        """The usual keys, by scheme and authority."""

        self.trips: dict[Request, Trip] = {}
        """The requests that have their places, or have lost them to others."""

        self._waiting: dict[Trip, None] = {}
        """The requests that wait: in the downloader for their robots.txt or places, or in a queue
        elsewhere for the rules of their host."""

        self._being_stored = 0
        """For how many hosts of queues elsewhere the rules are known, but not stored yet."""

        self._alarm_at = inf
        self._check_at = -inf
        self._is_flushing = False
        self._has_sent = False
        """Whether any request has got its places since the last line about an idle crawl."""

        self._has_warned = False
        self._has_warned_of_no_pause = False
        self._was_exhausted = False
        self._has_started = False
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

    def obey(self, until_turn: Callable[[Trip], Awaitable[object]]) -> HostRules:
        """Obey robots.txt from now on: the middleware, which Scrapy makes before the scheduler, says
        so. *until_turn* waits until a request may be sent, by what robots.txt says then, and raises
        the error that refuses it.
        """
        self._until_turn = until_turn
        self.rules = HostRules(
            self._crawler,
            self.core,
            self.politeness,
            self.clock,
            take_turn=lambda request: self._until_own_turn(self.trip_of(request)),
            free=self.free,
            act=self.flush,
        )
        return self.rules

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
        is_usual = not (
            "redirect_urls" in own
            or (meta.DONT_OBEY_ROBOTSTXT in own and not _is_ours(request))
            or has_host_header(request)
        )
        known = self._keys.get(authority)
        # Scrapy notes the slot when it sends a request.
        if is_usual and known and own.get("download_slot", known.slot) == known.slot:
            return known
        key = self._own_key_of(request)
        is_usual = is_usual and "download_slot" not in own
        is_usual = is_usual and len(authority) <= _MAX_AUTHORITY
        if is_usual and self._downloader.has_slot_for_each_host:
            if len(self._keys) >= _MAX_KEYS:
                self._keys.clear()
            self._keys[authority] = key
        return key

    def _own_key_of(self, request: Request) -> HostKey:
        slot = download_slot(self._crawler, request)
        if self.rules is None or not is_of_http(request):
            return HostKey(slot, None)
        origin = request_origin(request)
        host = bare_host(origin) if origin is not None else ""
        is_scrapys = host in {slot, slot.rstrip("."), f"[{slot}]"}
        if is_scrapys or was_redirected(request, host):
            slot = host
        if is_exempt(request) and not _is_ours(request):
            return HostKey(slot, None, is_service=host != slot)
        return HostKey(slot, origin)

    def scopes_of(self, key: HostKey) -> tuple[Scope, ...]:
        """Return the scopes of requests with *key*, that of the download slot last."""
        slot = self.core.scope(key.slot)
        self._look_at_slot(slot)
        is_usual = key.origin is None or key.origin.host == key.slot
        if is_usual or key.host == key.slot:
            return (slot,)
        return self.core.scope(key.host), slot

    def host_of(self, key: HostKey) -> tuple[Host | None, bool]:
        """Return the host of requests with *key*, and whether they obey its delay."""
        if key.origin is None or self.rules is None:
            return None, key.is_service and self.obeys_delays
        override = self.rules.cache.override(key.origin)
        if override is not None and override.robots is None and override.ends == inf:
            # A queue without a host never waits for a robots.txt. An override that ends leaves
            # the host to its robots.txt, so its queues have a host from the beginning.
            return None, False
        return self.core.host(key.origin), self.obeys_delays

    def _look_at_slot(self, scope: Scope) -> None:
        """Tell the core what Scrapy's download slot of *scope* is like now."""
        downloader = self._downloader
        slot = downloader.slots.get(scope.key)
        if slot is not None and not slot.delay:
            scope.places, scope.slot_pause = slot.concurrency, 0.0
            scope.slot_free_at = -inf
            return
        is_new = slot is None and scope.key not in downloader.own_slots
        crawler, key = self._crawler, scope.key
        found = downloader.new_slot if is_new else slot_state(crawler, key)
        scope.places, scope.slot_pause, scope.slot_free_at = inf, 0.0, -inf
        if found is not None:
            scope.places = found.concurrency
            scope.slot_pause = found.delay * _PART_OF_DELAY
        if found is not None and found.is_queueing:
            # One request that waits in the slot is enough. The next request may follow a little
            # after that request was sent.
            soonest = self.clock.monotonic() + scope.slot_pause
            scope.slot_free_at = max(found.last_seen + found.delay, soonest)

    def keep_pace(self, trip: Trip, pace: Pace) -> None:
        """Have the host of *trip* keep to the *pace* that its robots.txt asks for, or the override."""
        assert trip.origin is not None
        assert self.rules is not None
        scope = self.core.scope(trip.key.host)
        known = trip.known or self.rules.cache.cached(trip.origin)
        self.politeness.keep_pace(scope, trip.origin, pace, known)

    # For the queues.

    def add(self, ticket: Ticket) -> None:
        """Note that *ticket*, a queue with requests or another, has something to send."""
        host, now = ticket.host, self.clock.monotonic()
        if host is not None and now >= host.expires and self.rules is not None:
            self.rules.tell(host)
        self.core.add(ticket, now)

    def next(self, ready: Ready) -> Ticket | None:
        """Return the next queue of *ready*: its request has its places, or the queue is at
        ``Where.REFUSED``, and has none. None if there is none, or if nothing more may be sent now.
        """
        if self._has_room():
            now = self.clock.monotonic()
            while (queue := ready.first()) is not None:
                self._look_at_slot(queue.scopes[-1])
                if self.core.go(queue, now):
                    return queue
        return None

    def end(self, queue: Ticket) -> None:
        """Note that *queue* is empty, or closed."""
        self.core.end(queue, self.clock.monotonic())

    def note_proxy(self, queue: Ticket, request: Request) -> None:
        """Note the proxy of *request*, which was pushed to *queue*, if its robots.txt is not known:
        the fetch tries the proxies in turn.
        """
        host = queue.host
        if self.rules and host is not None and host.phase is not Phase.OPEN:
            self.rules.add_template(host, request)

    def popped(self, queue: Ticket, key: HostKey, request: Request | None) -> None:
        """Note that *request*, for which *queue* has its places, goes to the downloader; None if
        there is none after all. If it is refused, it has no places: the middleware refuses it.
        """
        if queue.where is Where.REFUSED:
            return
        if request is None:
            self.core.free(queue, self.clock.monotonic(), sent=False)
            return
        trip = Trip(request, key.origin)
        trip.key, trip.is_from_queue = key, True
        self._take_places(trip, queue)

    def started(self, key: HostKey, request: Request, delay: float = 0.0) -> None:
        """Note that *request*, for which another queue has found places, goes to the downloader."""
        self._hear_of_delay(key, delay)
        trip = Trip(request, key.origin)
        trip.key, trip.is_from_queue = key, True
        self._take_any_places(trip)
        self.flush()

    def _has_room(self) -> bool:
        """Whether the downloader has room for another request from a queue."""
        # All requests in flight are active. If others are active too, what ended unseen may be
        # found later, by _check().
        if len(self.trips) > len(self._downloader.active):
            self._free_unseen()
        if self.closes_for or not self.core.network.is_up:
            return False
        return self.rules is None or self.rules.fetcher.leaves_room

    # Requests on their way.

    def trip_of(self, request: Request) -> Trip:
        """Return what is known of *request*, which is in the downloader, with its key of now."""
        trip = self.trips.get(request)
        if trip is None:
            trip = Trip(request, None)
        trip.key = key = self.key_of(request)
        trip.origin = key.origin
        if key.origin is None:
            trip.origin, trip.is_exempt = request_origin(request), is_exempt(request)
        return trip

    def _take_places(self, trip: Trip, ticket: Ticket) -> None:
        """Let *trip* have the places that *ticket* has taken."""
        now, has = self.clock.monotonic(), self.trips.get(trip.request)
        if has is not None and has.ticket is not None:
            # The same object may be sent twice: it has its places once.
            self.core.free(ticket, now, sent=False)
            return
        trip.ticket, trip.since = ticket, now
        trip.is_sent = trip.has_asked = trip.has_acquired = False
        self.trips[trip.request] = trip
        self._has_sent = True

    def _take_any_places(self, trip: Trip) -> None:
        """Let *trip* have its places, even if there are none."""
        ticket = Ticket(None, self.scopes_of(trip.key))
        self.core.take(ticket, self.clock.monotonic())
        self._take_places(trip, ticket)
        self.core.end(ticket, self.clock.monotonic())

    def free(self, request: Request) -> None:
        """Free the places of *request*, if it still has them: it was not sent, or its end was not
        seen. A delay begins only if it was sent.
        """
        trip = self.trips.pop(request, None)
        if trip is not None and trip.ticket is not None:
            self._free(trip, trip.ticket)
            self.flush()

    def _free(self, trip: Trip, ticket: Ticket) -> None:
        """Free the places of a trip, which are those of *ticket*."""
        trip.ticket = None
        was_sent = trip.is_sent
        self.core.free(ticket, self.clock.monotonic(), sent=was_sent)
        if self._shared is None:
            return
        if trip.has_acquired or (was_sent and _is_ours(trip.request)):
            scope = ticket.scopes[0]
            self._shared.release(trip.request, scope.key, scope.delay, sent=was_sent)

    # For a queue whose requests are elsewhere.

    def room(self) -> int:
        """Return how many requests the downloader can take now; none while the network of the
        crawler is gone, or once the crawl stops.
        """
        has_room = self._has_room()
        self.flush()
        return max(self._at_once - len(self._downloader.active), 0) if has_room else 0

    def room_for_rules(self) -> int:
        """Return for how many more hosts the rules can be wanted now: those of unreachable hosts,
        which are fetched again later, do not count.
        """
        wanted = self._being_stored + sum(
            not each.is_direct and (each.host is None or each.host.outage is None)
            for each in self._waiting
        )
        return max(min(_MAX_WANTED - wanted, _WANTED_AT_ONCE), 0)

    def want_rules(
        self,
        key: HostKey,
        first: Request,
        told: Callable[[Terms | NoTerms], None],
        delay: float = 0.0,
    ) -> None:
        """Find out the rules of the host of *key*, and tell them: see :class:`Turns`."""
        (host, _), rules, origin = self.host_of(key), self.rules, key.origin

        def tell(is_granted: bool | None) -> None:
            if not is_granted or origin is None:
                told(NoTerms.REFUSED if is_granted is False else NoTerms.UNKNOWN)
            elif rules is None:
                told(Terms(inf))
            else:
                self._tell_once_stored(rules, origin, told)

        self._hear_of_delay(key, delay)
        trip = Trip(first, key.origin)
        trip.is_direct = False
        trip.become_ticket(host, ())
        call = self._wait(trip)
        # It fails if the spider closes.
        call.addErrback(lambda _: None).addCallback(tell)
        self.alarms.at(self.clock.monotonic(), self.flush)

    def _tell_once_stored(
        self, rules: HostRules, origin: Origin, told: Callable[[Terms | NoTerms], None]
    ) -> None:
        """Tell what the robots.txt of *origin* says once the store has it: else other workers would
        fetch it, too.
        """
        terms = rules.terms(origin)  # They may end while they are being stored.
        self._being_stored += 1

        def stored(_: object) -> None:
            self._being_stored -= 1
            told(terms)

        rules.cache.stored.addBoth(stored)

    def _hear_of_delay(self, key: HostKey, delay: float) -> None:
        """Have the host of *key* keep to a *delay* that another worker has read: requests for its
        robots.txt wait for it too.
        """
        if delay and key.origin is not None:
            scope, now = self.core.scope(key.host), self.clock.monotonic()
            if delay > scope.delay:
                self.core.set_delay(scope, key.origin, delay, now, since=-inf)

    def paused_elsewhere(
        self, host: str, left: float, own: float, lasted: float
    ) -> None:
        """Note a pause that another worker, or an earlier run, was asked for."""
        core, now = self.core, self.clock.monotonic()
        if self.politeness.backs_off:
            scope, until, since = core.scope(host), now + left, now - lasted
            core.paused_elsewhere(scope, now, until=until, own=own, since=since)
            self.alarms.at(now, self.flush)

    # What ends, and what is due.

    def _free_unseen(self) -> None:
        """Free the places of requests whose end another component has hidden."""
        gone = self.trips.keys() - self._downloader.active
        if gone and self._waiting:
            # Of one object that is downloaded several times at once, Scrapy forgets all others
            # when the first one ends.
            gone -= {each.request for each in self._waiting}
        if gone:
            # In the order in which they were popped.
            for request, trip in list(self.trips.items()):
                # Those for robots.txt get their places before they are in the engine.
                if request in gone and not _is_ours(request):
                    del self.trips[request]
                    if trip.ticket is not None:
                        self._free(trip, trip.ticket)

    def flush(self) -> None:
        """Do what the core says, and what follows from it, until nothing more follows."""
        if self._is_flushing:
            return  # What was added is done by the call that runs.
        core, rules, self._is_flushing = self.core, self.rules, True
        try:
            while core.said or core.urgent or core.wanted:
                if core.said:
                    for said in core.drain():
                        self._act_on(said)
                if rules is not None and (core.urgent or core.wanted):
                    rules.begin_fetches()
                if not core.said:
                    break
        finally:
            self._is_flushing = False
        at = core.wake_at()
        if self.trips or self._waiting or (rules is not None and rules.fetches):
            at = min(at, self._check_at)
        if at < self._alarm_at:
            self._alarm_at = at
            self.alarms.at(at, self._on_alarm, at)

    def _act_on(self, said: Said) -> None:
        """Do one thing that the core says."""
        match said:
            case Decided(trip, is_granted):
                assert isinstance(trip, Trip)
                try:
                    is_over = not is_granted or self._gets_turn(trip)
                except Exception:  # noqa: BLE001  of a shared queue of the project
                    self._end(trip)
                    trip.call.errback()
                    return
                if is_over:
                    self._end(trip)
                    trip.call.callback(is_granted)
                else:
                    self.add(trip)
            case Wake():
                wake(self._crawler)
            case Paused(scope):
                self._withdraw(scope)
            case Probe(request):
                if self.rules is not None:
                    self.rules.probe(request)
            case NetworkGone(is_certain=False):
                self._withdraw()
            case NetworkGone():
                self._logger.warning(
                    "The network of the crawler is gone: the last requests to several hosts failed, "
                    "and none was answered. No requests are sent until a host answers; the "
                    "robots.txt of one is tried after 1, 2, 4, ... 30 s. Check the network, the "
                    "resolver and the proxy of this machine"
                )
            case NetworkBack(since, until, was_certain=True):
                self._logger.info(
                    "The network of the crawler is back after %(time)s: requests continue",
                    time=duration(until - since),
                )

    def _on_alarm(self, at: float) -> None:
        if at != self._alarm_at:
            return  # An earlier one has done this.
        now, self._alarm_at = self.clock.monotonic(), inf
        if now >= self._check_at:
            self._check_at = now + _CHECK_EVERY
            self._check()
        self.core.tick(now)
        self.flush()

    def _check(self) -> None:
        """Look for what Scrapy has no signal for."""
        if is_closing(self._crawler):
            self._close()
        else:
            self._give_way()
            self._free_unseen()

    def stop(self, reason: str) -> None:
        """Let no queue hand out another request, and close the spider with *reason*."""
        self.closes_for = reason
        self.alarms.at(self.clock.monotonic(), self._close_spider)

    def warn_of_no_pause(self, hosts: Iterable[str]) -> bool:
        """Whether the pauses that a spider asks for have no effect in this crawl. Warn of it once, for
        these *hosts*.
        """
        settings = RepSettings.of(self._crawler)
        # Before the engine exists, nothing has been made that could pause a host.
        has_engine = self._crawler.engine is not None
        if settings.dry_run:
            why = "a dry run (REP_DRY_RUN) pauses no host"
        elif not settings.backoff_max:
            why = "REP_BACKOFF_MAX is 0"
        elif has_engine and not self._backlogs and self._until_turn is None:
            why = (
                "neither the queue nor the downloader middleware of scrapy-rep is in use "
                '(ADDONS = {"scrapy_rep.Addon": 500} sets both)'
            )
        else:
            return False
        if not self._has_warned_of_no_pause:
            self._has_warned_of_no_pause = True
            self._logger.warning(
                "back_off() pauses nothing in this crawl, because %(why)s. Requests to %(hosts)s "
                "are sent as before",
                why=why,
                hosts=", ".join(hosts),
            )
        return True

    def _close_spider(self) -> None:
        # Before the engine has started, Scrapy would leave its connections open.
        if self._has_started:
            close_spider(self._crawler, self.closes_for)

    def _engine_started(self) -> None:
        self._has_started = True
        if self.closes_for:
            self.stop(self.closes_for)

    # For requests in the downloader.

    def take_turn(self, trip: Trip, *, obeys: bool = True) -> Deferred[None] | None:
        """Let the request of *trip* have its turn. Return None if it may be sent at once. Else it
        waits for what this returns. That fails with SpiderClosing, or with the error that refuses the
        request if its host has asked for too long a pause.
        """
        if trip in self._waiting:
            return self._wait_along(trip)
        request, core, ticket = trip.request, self.core, trip.ticket
        if ticket is not None:
            if self._shared is not None:
                self._shared.catch_up()
            if self._keeps_turn(trip, ticket):
                return None
            self.free(request)
            if self._shared is not None and not trip.has_acquired:
                # It has the turn from the queue.
                key = ticket.scopes[0].key
                self._shared.release(request, key, 0.0, sent=False)
        elif self._shared is not None and trip.is_from_queue:
            scope = self.core.scope(trip.key.host)
            if scope.back_off is not None and scope.back_off.asked_at > trip.since:
                # It has waited for its robots.txt since before the pause.
                self._shared.release(request, scope.key, 0.0, sent=False)
        scopes = self.scopes_of(trip.key)
        if (
            self._has_browser
            and _is_ours(request)
            and self._are_held_by_browser(scopes)
        ):
            # Its page may wait for this robots.txt.
            self._take_any_places(trip)
            return None
        trip.become_ticket(None, scopes, obeys=obeys)

        def go(is_granted: bool) -> None:
            if not is_granted:
                raise self._refused(trip)

        now, goes = self.clock.monotonic(), False
        if core.take_free(trip, now):
            try:
                goes = self._gets_turn(trip)
            except Exception:
                core.end(trip, now)
                raise
        if goes:
            core.end(trip, now)
        call = None if goes else self._wait(trip).addCallback(go)
        self.flush()
        return call

    async def _until_own_turn(self, trip: Trip, *, obeys: bool = True) -> None:
        """Wait until the request of *trip*, for a robots.txt, has its turn. Raises as
        :meth:`take_turn` fails.
        """
        wait = self.take_turn(trip, obeys=obeys)
        if wait is not None:
            await maybe_deferred_to_future(wait)

    def _keeps_turn(self, trip: Trip, ticket: Ticket) -> bool:
        """Whether no pause has begun since *trip* has got its places, which are those of *ticket*."""
        if self.core.network.gone_since is not None:
            return False
        now = self.clock.monotonic()
        for scope in ticket.scopes:
            found = scope.back_off
            if found is None:
                continue
            # After a pause there are fewer places.
            if found.until > now or found.asked_at > trip.since:
                return False
            is_full = scope.in_flight > found.places
            if is_full and self._has_uncounted(scope, trip):
                return False
        return True

    def _has_uncounted(self, scope: Scope, trip: Trip) -> bool:
        """Whether a request of *scope*, beside that of *trip*, is in flight and does not count for the
        queue that workers share: it is past it, and the host had neither a delay nor a pause.
        """
        return self._shared is not None and any(
            not (each.is_from_queue or each.has_acquired)
            for each in self.trips.values()
            if each is not trip
            and each.ticket is not None
            and scope in each.ticket.scopes
        )

    def _refused(self, trip: Trip) -> Exception:
        """Return the error that refuses the request of *trip* for a pause of its host."""
        why = self.politeness.why_refused(trip)
        if _is_ours(trip.request):
            return BackingOff(why)
        case = Case(trip.request, trip.origin or request_origin(trip.request))
        case.why = why
        return self._reporter.refused(case, BACK_OFF)

    def wait_for_rules(self, trip: Trip) -> Deferred[None]:
        """Have the request of *trip* wait for its robots.txt. Look that up again then, unless it is
        unreachable, and *trip* does not wait for it: then that is noted there.

        If this is cancelled and nothing else waits, so is the fetch. It fails with SpiderClosing if
        the spider closes meanwhile.
        """
        assert trip.origin is not None
        assert self.rules is not None
        if trip in self._waiting:
            return self._wait_along(trip)
        # The request for robots.txt needs the places first.
        self.free(trip.request)
        host = self.core.host(trip.origin)
        host.expires = -inf
        self.rules.add_template(host, trip.request)
        trip.is_patient = self._is_patient(trip)
        trip.become_ticket(host, ())

        def go(is_granted: bool) -> None:
            if not is_granted and host.outage is not None:
                trip.unreachable = host.outage.known

        call = self._wait(trip).addCallback(go)
        self.flush()
        return call

    def _wait(self, trip: Trip) -> Deferred[bool]:
        """Have *trip* wait until it may go (True), or is refused (False). It fails with SpiderClosing if
        the spider has closed: nothing would wake it.
        """
        if self.alarms.is_stopped:
            return fail(SpiderClosing(f"The spider closed before {trip.request}"))
        trip.call = Deferred(lambda _: self._cancel(trip))
        self._waiting[trip] = None
        if not (self._backlogs or self._has_warned):
            self._warn_of_waiting(trip)
        self.add(trip)
        return trip.call

    def _wait_along(self, trip: Trip) -> Deferred[None]:
        """Have another download of the same object wait until *trip* waits no more, in whatever way
        that ends. Then look again.
        """
        call: Deferred[None] = Deferred()

        def go_on(result: Any) -> Any:
            if not call.called:
                call.callback(None)
            return result

        trip.call.addBoth(go_on)
        return call

    def _cancel(self, trip: Trip) -> None:
        """Note that nobody waits for *trip* any more."""
        if trip not in self._waiting:
            return  # The spider closes.
        self._end(trip)
        if self.rules is not None and trip.host is not None:
            self.rules.cancel_if_alone(trip.host)

    def _end(self, trip: Trip) -> None:
        del self._waiting[trip]
        self.core.end(trip, self.clock.monotonic())

    def _is_patient(self, trip: Trip) -> bool:
        """Whether the request of *trip* may wait while robots.txt is unreachable.

        Requests from a scheduler may. Requests that a pipeline or a callback sends directly
        to the engine may not, nor those of a browser: the item or page that waits for them holds
        up the crawl.
        """
        if self._backlogs:
            return trip.is_from_queue
        return trip.via is None and trip.request.callback is not NO_CALLBACK

    def _gets_turn(self, trip: Trip) -> bool:
        """Let *trip*, which is granted, have the places that it has waited for, if there are any.
        Return whether it may be sent as far as the workers of a shared queue know: its host has asked
        none of them for a pause, and if it takes only one request at a time, no other worker sends one.
        If not, the places are free again, and it must wait again.
        """
        shared = self._shared
        if trip.scopes:
            self._take_places(trip, trip)
        if not trip.scopes or shared is None:
            return True
        scope, request = trip.scopes[0], trip.request
        # It may have waited since the last call to the server.
        shared.catch_up()
        if scope.back_off is not None and scope.back_off.until > self.clock.monotonic():
            self.free(request)
            return False
        has_delay = trip.obeys and scope.delays
        if not has_delay and scope.back_off is None:
            return True
        if shared.acquire(request, scope.key, self._behind(request)):
            trip.has_acquired = True
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
        behind = {each.request for each in self.trips.values() if each.ticket is None}
        if _is_ours(request):
            behind.update(each.request for each in self._waiting)
        return behind

    def _are_held_by_browser(self, scopes: tuple[Scope, ...]) -> bool:
        return any(
            trip.ticket is not None
            and is_for_browser(trip.request)
            and not set(scopes).isdisjoint(trip.ticket.scopes)
            for trip in self.trips.values()
        )

    def _reached_downloader(self, request: Request) -> None:
        if isinstance(request, RobotsTxtRequest):
            request.sent()
        trip = self.trips.get(request)
        if trip is None:
            return
        if trip.ticket is None:
            self._take_any_places(trip)
        if trip.ticket is not None and not trip.is_sent:
            trip.is_sent = True
            if self.politeness.measures:
                self.politeness.measure_sent(request, trip.ticket)
                self.politeness.measure_waiting(len(self._waiting))
            self.core.sent(trip.ticket, paced_until=self._paced_until(trip.ticket))

    def _paced_until(self, ticket: Ticket) -> float:
        """Return until when the delay of the project would hold back a request of *ticket*."""
        if not any(scope.delays for scope in ticket.scopes):
            return -inf
        slot = slot_state(self._crawler, ticket.scopes[-1].key)
        return -inf if slot is None else slot.last_seen + slot.delay

    def _give_way(self) -> None:
        """Free the places of requests that a component of the project holds back, if downloads
        wait for these places.
        """
        before = self.clock.monotonic() - _GIVES_WAY_AFTER
        for trip in list(self.trips.values()):
            if trip.ticket is None or trip.is_sent or trip.since > before:
                continue
            lanes = [one for each in trip.ticket.scopes for one in each.parked or ()]
            if any(ready is None and not redirected for ready, _, redirected in lanes):
                self._free(trip, trip.ticket)

    # Back-off.

    def _headers_received(self, headers: Headers, request: Request) -> None:
        """Keep a pause as soon as a host asks for it: the body may never end, or be too long."""
        status = status_received()
        if status in ASKS_FOR_PAUSE:
            self._answered(request, status, headers)
            self.flush()

    def _response_downloaded(self, response: Response, request: Request) -> None:
        """Note that *request* has got *response*, before its download slot sends the next one: a
        middleware would see it too late for a pause.
        """
        trip = self.trips.get(request)
        if trip is None or trip.ticket is None:
            return
        scope = trip.ticket.scopes[0]
        self.core.answered(scope.key, request, self.clock.monotonic())
        may_matter = scope.back_off is not None or scope.had_503
        if may_matter or response.status in ASKS_FOR_PAUSE:
            self._answered(request, response.status, response.headers)
        del self.trips[request]
        self._free(trip, trip.ticket)
        self.flush()

    def _answered(self, request: Request, status: int, headers: Headers) -> None:
        trip = self.trips.get(request)
        if trip is not None and trip.ticket is not None and not trip.has_asked:
            trip.has_asked = status in ASKS_FOR_PAUSE
            scope = trip.ticket.scopes[0]
            self.politeness.answered(status, headers, request, scope, trip.since)

    # The network of the crawler itself.

    def failed(self, request: Request, error: Exception) -> None:
        """Note that the download of *request* has failed, if it has its places."""
        trip = self.trips.get(request)
        if trip is None or trip.ticket is None or self.rules is None:
            return
        scope, refused = trip.ticket.scopes[0], response_refused(error)
        if refused is not None and refused[0] in ASKS_FOR_PAUSE:
            self._answered(request, *refused)
        now, kind = self.clock.monotonic(), kind_of(error)
        if kind is Failure.OWN:
            if self.core.network.exhausted(now):
                self._note_exhausted(self.rules, error)
        elif kind is Failure.NETWORK:
            if not isinstance(request, RobotsTxtRequest):
                # Scrapy repeats it at once, and only twice: an outage would cost it before the last
                # answers of other hosts are there.
                scope.wait_until(now + _AFTER_FAILURE, WaitReason.BACK_OFF)
            self.core.failed(scope.key, request, now)

    def _note_exhausted(self, rules: HostRules, error: Exception) -> None:
        close_idle_connections(self._crawler)
        rules.fetch_fewer()
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
        for trip in list(self.trips.values()):
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
            if self._until_turn is not None and not _is_ours(trip.request):
                # While it waits, its robots.txt may become stale.
                await self._until_turn(trip)
            else:
                await self._until_own_turn(trip, obeys=ticket.obeys)
        except (BackingOff, RobotsDenied, SpiderClosing) as error:
            go_on(error)
        else:
            self._reached_downloader(trip.request)
            go_on(None)

    # The end.

    def _close(self) -> None:
        """Cancel fetches, and fail the requests that wait in the downloader: a closing spider
        waits for its requests.
        """
        self.flush()
        waiting = list(self._waiting)
        for trip in waiting:
            self._end(trip)
            self.closed_unsent.add(trip.request)
        if any(not (each.is_from_queue or _is_ours(each.request)) for each in waiting):
            # Callbacks or pipelines wait for them. Their pages, among those that have left the
            # downloader, are not done.
            pages = set(requests_in_progress(self._crawler))
            self.closed_unsent |= pages - set(self._downloader.active)
        for trip in waiting:
            # Without asyncio, the end of one continues at once, and may cancel others.
            if not trip.call.called:
                why = f"The spider closed while {trip.request} waited"
                trip.call.errback(SpiderClosing(why))
        if self.rules is not None:
            self.rules.close()

    # The log.

    def _warn_of_waiting(self, trip: Trip) -> None:
        """Warn once that requests may wait in the downloader, if that of *trip* does so because
        the scheduler does not use HostQueue.
        """
        if trip.request.callback is NO_CALLBACK:
            return
        if trip.host is None and not any(scope.delays for scope in trip.scopes):
            return
        self._has_warned = True
        settings = self._crawler.settings
        name = "SCHEDULER"
        if settings.getpriority(name) == SETTINGS_PRIORITIES["default"]:
            name = "SCHEDULER_PRIORITY_QUEUE"
        if settings.getpriority(name) == SETTINGS_PRIORITIES["addon"]:
            return  # The add-on of this package names it.
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
        is_idle = is_up and not self._has_sent and not self.trips
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
        self._has_sent = False
        self.politeness.measure_waiting(len(self._waiting))
        self.alarms.at(self.clock.monotonic() + _LOG_EVERY, self._log_waiting)

    def _spider_opened(self) -> None:
        self.alarms.at(self.clock.monotonic() + _LOG_EVERY, self._log_waiting)

    def _spider_closed(self) -> None:
        self.alarms.stop()
        self._close()
        for request in list(self.trips):
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

    Where nothing can be paused, the first call logs a warning that says why, and all do nothing: in a
    crawl without the add-on, in a dry run, and if ``REP_BACKOFF_MAX`` is 0. Raises ValueError if
    *scopes* names no host, or if *delay* or *cap* is not a finite number that is 0 or greater: text
    and booleans are no numbers. More than 2**31 seconds count as 2**31.

    Provisional: the parameters are those of ``back_off`` in Scrapy's pull request 6931, which is not
    merged, and follow it.
    """
    delay, cap = _seconds("delay", delay), _seconds("cap", cap)
    frontier = Frontier.of(crawler)
    is_several = isinstance(scopes, Iterable) and not isinstance(scopes, (str, bytes))
    several = scopes if is_several else [scopes]
    keys = [_key_of(each, frontier.core.scopes) for each in several]
    if frontier.warn_of_no_pause(keys):
        return
    for scope in map(frontier.core.scope, keys):
        now, why = frontier.clock.monotonic(), "is paused by the spider"
        frontier.politeness.back_off(scope, delay, cap, now, why)
    frontier.flush()


def _seconds(name: str, value: Any) -> float | None:
    """Return *value*, the argument called *name*, as a number of seconds; None if it is None."""
    if value is None:
        return None
    is_number = isinstance(value, (Real, Decimal)) and not isinstance(value, bool)
    with suppress(ArithmeticError):  # A Decimal that is not a number.
        if is_number and 0 <= value < inf:
            return float(min(value, _LONGEST))
    raise ValueError(f"{name} must be a number of seconds, 0 or greater, not {value!r}")


def _key_of(text: Any, known: Container[str]) -> str:
    """Return the key of the scope that *text* names: one of the *known* keys, or a host."""
    site = None
    if isinstance(text, str):
        if text in known:
            return text
        is_address = text.count(":") > 1 and not text.startswith("[")
        if "://" in text:
            site = origin_of(text)
        else:
            site = origin("http", f"[{text}]" if is_address else text)
    if site is None:
        raise ValueError(f"scopes must be a host or a URL, not {text!r}")
    return bare_host(site)
