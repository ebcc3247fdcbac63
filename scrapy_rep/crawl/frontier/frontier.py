"""The frontier of a crawl: what scheduler, gate and wire share, around the limits, which know no Scrapy."""

from __future__ import annotations

from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol
from weakref import WeakSet

from scrapy import signals
from scrapy.http.request import NO_CALLBACK
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred, fail

from scrapy_rep.base import meta, stats
from scrapy_rep.base.browsers import is_for_browser, uses_playwright
from scrapy_rep.base.clock import Alarms, Clock
from scrapy_rep.base.compat import (
    DownloaderState,
    close_spider,
    download_slot,
    is_closing,
    requests_in_progress,
    shared_component,
    wake,
    withdraw,
)
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import (
    bare_host,
    is_exempt,
    is_of_http,
    url_origin,
    was_redirected,
)
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.fetching.fetcher import NO_SERVER, in_words, kind_of
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.crawl.frontier.limits import InFlight, Limits, Queue, Waiter
from scrapy_rep.crawl.frontier.politeness import ASKS_FOR_PAUSE, Politeness, duration
from scrapy_rep.crawl.frontier.rules import Rules
from scrapy_rep.crawl.frontier.sites import Phase
from scrapy_rep.exceptions import BackingOff, SpiderClosing
from scrapy_rep.protocol.access.results import Failure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.crawl.frontier.budget import Budget
    from scrapy_rep.crawl.frontier.limiter import Limiter
    from scrapy_rep.crawl.frontier.sites import Site
    from scrapy_rep.protocol.origins import Origin

# While requests wait in the downloader, the seconds between two checks for what Scrapy has no signal:
# whether the spider is closing, and whether requests have ended unseen.
_CHECK_EVERY = 0.2

# The least seconds for which a request in the downloader waits for robots.txt before it is refused, if a
# component keeps that from ever ending.
_MIN_PATIENCE = 120.0

# The seconds between two log lines about what an idle crawl waits for. What was not needed for as long is
# forgotten.
_LOG_EVERY = 60.0

# The share of the delay of a download slot after which it is looked at again, if a request waits there.
_PART_OF_DELAY = 1 / 10

# The seconds for which nothing is sent after the machine had no more files, ports or memory.
_EXHAUSTED = 1.0

# Where the authority of a URL may end, at the earliest: after "http://" and one character.
_AUTHORITY = 8

# The number of authorities whose queues are kept.
_MAX_AUTHORITIES = 10_000


class QueueKey(NamedTuple):
    """What the requests of a queue have in common: an origin, in a download slot."""

    slot: str

    origin: Origin | None
    """None if no robots.txt applies: other scheme, ``dont_obey_robotstxt``, unreadable host."""

    is_service: bool = False
    """Whether these requests, to which no robots.txt applies, are in the download slot of
    another host: they are to a service that renders or fetches the pages of that host."""

    is_unwritable: bool = False
    """Whether these requests wait in memory although there is a JOBDIR, as they cannot be written."""

    is_of_http: bool = True


class Turns(Protocol):
    """Requests to a host that several processes send to: they agree on whose turn it is."""

    def is_needed(self, request: Request, entry: InFlight) -> bool:
        """Whether *request*, which is at the wire, needs its turn."""

    async def take(
        self, request: Request, entry: InFlight, *, may_return: bool
    ) -> bool:
        """Wait for the turn of *request*. Return False if it is to return to the scheduler, and to come again
        later, if it *may return*. The turn ends when *request* is in flight no more. Raises SpiderClosing.
        """

    def give_up(self, entry: InFlight) -> None:
        """End the turn of *entry*, whose request is not sent yet."""


class Withdrawn(Exception):
    """A request that waited in its download slot is not sent, since its host has asked for a pause."""


class Frontier:
    """The requests of a crawl that wait or are in flight.

    The scheduler plans them, the gate judges them, and the wire sends them; this is what they share. It owns
    the limits, does what follows from each change of them, and hands down to :attr:`politeness` and
    :attr:`rules` what they need of it.
    """

    def __init__(self, crawler: Crawler, clock: Clock | None = None) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._has_browser = uses_playwright(crawler.settings)
        settings = RepSettings.of(crawler)
        self._settings = settings
        self.clock = clock or Clock()
        self.alarms = Alarms(self.clock)
        self.limits = Limits(settings.wait_timeout)
        self.in_flight = self.limits.in_flight
        self.politeness = Politeness(crawler, self.limits, self.alarms)
        self.rules: Rules | None = None
        """The rules of sites; None if the crawl ignores robots.txt."""

        self.has_scheduler = False
        """Whether the crawl has the scheduler of this package, in which requests wait."""

        self.has_wire = False
        """Whether the crawl has the wire of this package, so that delays and pauses are kept."""

        self.budget = self._budget()
        """How many pages each host may have; None for no limit."""

        self.turns: Turns | None = None
        """Asked before a request is sent; None if this process is the only one."""

        self.returned: set[Request] = set()
        """The requests that gate or wire return to the scheduler, until that has them."""

        self.interrupted: set[Request] = set()
        """The requests that failed only because the spider closed, and those whose callbacks or items may
        have waited for one of these: they are not done."""

        self.closes_for = ""
        """Why the crawl stops, and no request is planned any more; empty while it goes on."""

        self._queues: dict[str, Queue] = {}
        """The usual queues, by scheme and authority."""

        self._repeated: WeakSet[Request] = WeakSet()
        """The requests of which one object was downloaded again while it was at the wire."""

        self._planned_robotstxt: dict[RobotsTxtRequest, InFlight] = {}
        """The requests for robots.txt that had their turn, and are not at the wire yet."""

        self._waiting: dict[Waiter, tuple[Request, float]] = {}
        """The requests that wait past the scheduler, and since when."""

        self._tried: Origin | None = None
        """The site whose robots.txt was chosen last to try whether the network is back."""

        self._alarm_at = inf
        self._check_at = 0.0
        self._is_flushing = False
        self.has_page = False
        """Whether any page has come."""

        self._has_sent = False
        """Whether any request that was sent has ended since the last line about an idle crawl."""

        self._has_warned_of_waiting = False
        self._was_exhausted = False
        self._has_started = False
        connect = crawler.signals.connect
        connect(self._engine_started, signals.engine_started)
        connect(self._spider_opened, signals.spider_opened)
        connect(self._spider_closed, signals.spider_closed)

    def _budget(self) -> Budget | None:
        if not self._settings.limits_pages:
            return None
        from scrapy_rep.crawl.frontier.budget import Budget  # noqa: PLC0415  few crawls need it

        return Budget(self._crawler, self.clock)

    @classmethod
    def of(cls, crawler: Crawler) -> Frontier:
        """Return the instance that the components of a crawl share."""
        return shared_component(crawler, cls)

    def obey(self) -> Rules:
        """Obey robots.txt from now on: the gate, which Scrapy makes before the scheduler, says so."""
        self.rules = Rules(
            self._crawler,
            self.limits,
            self.politeness,
            self.clock,
            wait_for_room=self._room_for_robotstxt,
            free=self._free,
            act=self.flush,
        )
        return self.rules

    # Queues, with their sites and limiters.

    @cached_property
    def _downloader(self) -> DownloaderState:
        return DownloaderState(self._crawler)

    def queue_of(self, request: Request) -> Queue:
        """Return the queue of *request*: that of its scheme and authority, which is found by these, unless
        the request has a download slot, an exemption or a redirect of its own.
        """
        url, own_meta = request.url, request.meta
        end = url.find("/", _AUTHORITY)
        authority = url if end < 0 else url[:end]
        is_usual = "redirect_urls" not in own_meta and (
            meta.DONT_OBEY_ROBOTSTXT not in own_meta or _is_for_robotstxt(request)
        )
        queue = self._queues.get(authority)
        # Scrapy notes the slot when it sends a request.
        if (
            is_usual
            and queue is not None
            and own_meta.get("download_slot", queue.key.slot) == queue.key.slot
        ):
            return queue
        key = self._key_of(request)
        queue = self.limits.queues.get(key)
        if queue is None:
            queue = self.add_queue(key)
        if (
            is_usual
            and key.is_of_http
            and "download_slot" not in own_meta
            and self._downloader.has_slot_for_each_host
        ):
            if len(self._queues) >= _MAX_AUTHORITIES:
                self._queues.clear()
            self._queues[authority] = queue
        return queue

    def _key_of(self, request: Request) -> QueueKey:
        slot = download_slot(self._crawler, request)
        if not is_of_http(request):
            return QueueKey(slot, None, is_of_http=False)
        if self.rules is None:
            return QueueKey(slot, None)
        origin = url_origin(request)
        host = bare_host(origin) if origin is not None else ""
        is_scrapys = host in {slot, slot.rstrip("."), f"[{slot}]"}
        if is_scrapys or was_redirected(request, host):
            slot = host
        if is_exempt(request) and not _is_for_robotstxt(request):
            return QueueKey(slot, None, is_service=host != slot)
        return QueueKey(slot, origin)

    def add_queue(self, key: QueueKey) -> Queue:
        """Add an empty queue with *key*."""
        limits = self.limits
        slot = limits.limiter(key.slot)
        host = slot if key.origin is None else limits.limiter(bare_host(key.origin))
        site, keeps_delay = None, key.is_service
        if key.origin is not None and not self._is_always_allowed(key.origin):
            site, keeps_delay = limits.site(key.origin), True
        queue = Queue(
            key,
            site,
            host,
            slot=slot,
            network=limits.network if key.is_of_http else None,
            keeps_delay=keeps_delay and self._settings.crawl_delay_obey,
        )
        limits.add(queue)
        return queue

    def _is_always_allowed(self, origin: Origin) -> bool:
        """Whether an override without an end allows everything at *origin*, so that its robots.txt is never
        needed.
        """
        override = self.rules.cache.override(origin) if self.rules else None
        return override is not None and override.robots is None and override.ends == inf

    def look_at_slot(self, slot: Limiter) -> None:
        """Note what Scrapy's download slot of this name is like now."""
        downloader = self._downloader
        state = downloader.slots.get(slot.key)
        if state is None and slot.key not in downloader.own_slots:
            state = downloader.new_slot
        # A later Scrapy may have other slots.
        concurrency = getattr(state, "concurrency", None)
        if concurrency is not None and not getattr(state, "delay", True):
            if slot.concurrency != concurrency:
                slot.set_concurrency(concurrency)
            slot.slot_due_at = slot.slot_free_at = -inf
            return
        slot_state = downloader.state(slot.key)
        slot.set_concurrency(slot_state.concurrency)
        slot.slot_due_at, slot.slot_free_at = (
            slot_state.last_seen + slot_state.delay,
            -inf,
        )
        if slot_state.is_queueing:
            # One request that waits in the slot is enough. The next request may follow a little
            # after that request was sent.
            soonest = self.clock.monotonic() + slot_state.delay * _PART_OF_DELAY
            slot.slot_free_at = max(slot.slot_due_at, soonest)

    # For the scheduler.

    def fill(self, queue: Queue, request: Request | None = None) -> None:
        """Note that *request* was pushed to *queue*, or that this has requests of an earlier run."""
        site = queue.site
        if queue.place is None:
            now = self.clock.monotonic()
            if site is not None and now >= site.expires and self.rules is not None:
                self.rules.tell(site)
            self.limits.filled(queue, now)
            self.flush(is_called_by_engine=True)
        if (
            request is not None
            and self.rules is not None
            and site is not None
            and site.phase is not Phase.OPEN
            and "proxy" in request.meta
        ):
            # The fetch of its robots.txt tries the proxies in turn.
            self.rules.add_template(site, request)

    def next_queue(self) -> Queue | None:
        """Return the queue from which the next request is to be taken; None if none may be sent now."""
        self._end_unseen()
        if self.closes_for:
            return None
        now, limits = self.clock.monotonic(), self.limits
        while (queue := limits.ready.first()) is not None:
            self.look_at_slot(queue.slot)
            if limits.may_plan(queue, now):
                return queue
        return None

    def plan(self, queue: Queue, request: Request | None) -> None:
        """Plan *request*, which was taken from *queue*, the next one; None if it could not be read."""
        now = self.clock.monotonic()
        entry = self.limits.plan(queue, now)
        if request is not None:
            self.in_flight[request] = entry
        else:
            self.limits.end(entry, now)

    def _end_unseen(self) -> None:
        """End the requests whose end another component has hidden."""
        active = self._downloader.active
        if active is None or len(self.in_flight) <= len(active):
            return
        in_progress = requests_in_progress(self._crawler)
        for request in self.in_flight.keys() - active:
            entry = self.in_flight[request]
            # A later Scrapy may have a request wait before the downloader has it.
            is_on_its_way = entry.judged is None and not entry.is_at_wire
            if is_on_its_way and request in in_progress:
                continue
            # Scrapy has forgotten an object that is downloaded again when the second download has ended.
            if request not in self._repeated:
                self.end(request, entry)

    # For the gate and the wire.

    def enter(self, request: Request) -> InFlight:
        """Return what is known of *request*, which passes the downloader: it may be new."""
        entry = self.in_flight.get(request)
        if entry is None:
            if isinstance(request, RobotsTxtRequest):
                entry = self._planned_robotstxt.pop(request, None)
            entry = entry or self._new_entry(request)
            self.in_flight[request] = entry
        return entry

    def _new_entry(self, request: Request) -> InFlight:
        is_for_robotstxt = _is_for_robotstxt(request)
        return InFlight(self.queue_of(request), is_for_robotstxt=is_for_robotstxt)

    def return_to_scheduler(self, request: Request, entry: InFlight) -> Request:
        """Return *request*, which the scheduler has handed out, for it to have that again."""
        del self.in_flight[request]
        if entry.page_of and self.budget is not None:
            self.budget.give_back(request, entry)
        self.returned.add(request)
        self.limits.end(entry, self.clock.monotonic())
        self.flush()
        return request

    def waits_in_scheduler(self, entry: InFlight) -> bool:
        """Whether the request of *entry*, which may not be sent now, is to be returned to the scheduler: it is
        from there, and waits for the end of a pause. For a delay or for room, it waits at the wire: this
        takes less long, and no other component has it a second time.
        """
        if not entry.is_of_scheduler or self.refusal(entry):
            return False
        queue, network = entry.queue, self.limits.network
        is_paused = self.clock.monotonic() < max(queue.host.next_at, queue.slot.next_at)
        return is_paused or network.is_gone

    async def until_known(self, request: Request, entry: InFlight, site: Site) -> bool:
        """Wait until the robots.txt of *site* is known, or known to be unreachable. Return False if it takes
        too long to find out. Raises SpiderClosing.
        """
        assert self.rules is not None
        now = self.clock.monotonic()
        # Its robots.txt may need the room.
        self.limits.unplan(entry, now)
        site.expire()
        self.rules.add_template(site, request)
        waiter = Waiter(entry)
        call = self._wait(waiter, request)
        self.limits.wait_for_rules(waiter, site, now)
        self.flush()
        await maybe_deferred_to_future(call)
        return waiter.is_granted

    def ask_again(self, site: Site) -> None:
        """Have the robots.txt of *site*, whose requests are refused since it is unreachable, fetched again, if it
        is time.
        """
        now = self.clock.monotonic()
        if site.outage is not None and now >= site.outage.retry_at:
            self.limits.want(site, now, is_urgent=True)
            self.flush()

    def refusal(self, entry: InFlight) -> str:
        """Return why the request of *entry* is refused for the back-off of its host; empty if it is not."""
        queue = entry.queue
        if queue.host.refuses_until == queue.slot.refuses_until == -inf:
            return ""  # The usual case.
        host = self.limits.refusing((queue.host, queue.slot), self.clock.monotonic())
        return "" if host is None else self.politeness.why_refused(host)

    def may_send(self, request: Request, entry: InFlight) -> bool:
        """Return whether *request* may be sent now. Then it counts as sent."""
        limits, now, queue = self.limits, self.clock.monotonic(), self.queue_of(request)
        if queue is not entry.queue:
            if entry.queue.key == queue.key._replace(is_unwritable=True):
                queue = entry.queue  # It waited in memory.
            else:
                # A component has changed it: its old queue would not wait for what it waits for.
                entry.queue, entry.is_of_scheduler = queue, False
        if not entry.is_planned:
            self.look_at_slot(queue.slot)
        if isinstance(request, RobotsTxtRequest):
            request.at_wire()
            if self.is_awaited_by_browser(queue.robotstxt_limiters):
                limits.send(entry, now)
        if not (entry.is_sent or limits.take(entry, now)):
            return False
        if self.politeness.measures:
            self.politeness.measure_sent(request, entry)
        return True

    async def until_sent(self, request: Request, entry: InFlight) -> None:
        """Wait until *request* may be sent. Raises SpiderClosing, or BackingOff if its host asks for too long
        a pause.
        """
        self.limits.unplan(entry, self.clock.monotonic())
        await self._until_granted(Waiter(entry), request)
        self.politeness.measure_sent(request, entry)

    def may_use_rules(self, entry: InFlight) -> bool:
        """Whether the request of *entry*, which is sent, may go by the rules by which it was judged: they are
        fresh, or hold for the next request of their site, which it is.
        """
        is_fresh = self.clock.time() < entry.judged_until
        return is_fresh or entry.may_use_stale or entry.queue.site is None

    def unsend(self, entry: InFlight) -> None:
        """Note that the request of *entry* has not come to the network after all."""
        self.limits.end(entry, self.clock.monotonic(), is_withdrawn=True)
        entry.sent_at = -inf

    def note_fetched(self, request: Request, entry: InFlight) -> None:
        """Count *request* as sent: another component has fetched it by itself."""
        self.limits.send(entry, self.clock.monotonic())
        self.politeness.measure_sent(request, entry)

    def answered(self, request: Request, response: Response, entry: InFlight) -> None:
        """Note that *request*, which was sent, was answered."""
        host, now = entry.queue.host, self.clock.monotonic()
        if self._settings.concurrency_per_address:
            self._note_address(request, response, entry, now)
        network = self.limits.network
        if network.failed_hosts or now >= network.noted_at:
            site = self._site_on_network(request, entry)
            since = None if site is None else network.answered(site, now, entry.sent_at)
            if since is not None:
                self._network_is_back(since, now)
        if self.politeness.measures and not isinstance(request, RobotsTxtRequest):
            self.politeness.measure_page(request, response)
        status = response.status
        if host.back_off is not None or host.had_503 or status in ASKS_FOR_PAUSE:
            self.politeness.answered(status, response.headers, request, entry)
            self._withdraw_paused(host)

    def _note_address(
        self, request: Request, response: Response, entry: InFlight, now: float
    ) -> None:
        """Note the address from which *response* has come: that of the first answer of its host, and of each of
        its robots.txt. That of a proxy, or of a service that fetches pages, says nothing.
        """
        host = entry.queue.host
        is_robotstxt = isinstance(request, RobotsTxtRequest)
        if not is_robotstxt and host.address is not None:
            return
        is_direct = not (entry.queue.key.is_service or request.meta.get("proxy"))
        if response.ip_address is not None and is_direct:
            most = self._settings.concurrency_per_address
            self.limits.set_address(host, str(response.ip_address), most, now)

    def admits_page(self, request: Request, entry: InFlight) -> bool:
        """Whether the budget of its host has room for *request*. Only pages count: what is for a pipeline does
        not.
        """
        if self.budget is None or not entry.queue.key.is_of_http:
            return True
        is_page = entry.is_of_scheduler or not (
            self.has_scheduler or request.callback is NO_CALLBACK
        )
        return not is_page or self.budget.admits(request, entry)

    def why_no_page(self, request: Request, entry: InFlight) -> str:
        """Return why *request* is refused for the budget of its host."""
        assert self.budget is not None
        return self.budget.why_refused(request, entry)

    def failed(self, request: Request, error: Exception, entry: InFlight) -> None:
        """Note that *request*, which was sent, has failed with *error*."""
        now, host = self.clock.monotonic(), entry.queue.host
        kind, network = kind_of(error), self.limits.network
        if kind is Failure.OWN:
            self.limits.pause_network(now + _EXHAUSTED, now)
            self._note_exhausted(error)
        if kind is not Failure.NETWORK:
            return
        if self.politeness.backs_off:
            why = f"has not answered ({in_words(error)})"
            self.politeness.back_off(
                host, None, None, entry.sent_at, why, has_failed=True
            )
        site = self._site_on_network(request, entry)
        if site is None:
            return
        is_refused = in_words(error) in NO_SERVER and not request.meta.get("proxy")
        if network.failed(host.key, site, now, has_server=not is_refused):
            self._withdraw(self.in_flight)
        elif isinstance(request, RobotsTxtRequest) and network.attempt_failed(
            site, now, entry.sent_at
        ):
            self._logger.warning(
                "The network of the crawler is gone: the last requests to several hosts failed, "
                "and none was answered. No requests are sent until a host answers; the "
                "robots.txt of one is tried after 1, 2, 4, ... 30 s. Check the network, the "
                "resolver and the proxy of this machine"
            )

    def withdrawn(self, request: Request, entry: InFlight) -> Request:
        """Return what the wire returns in place of the error that has taken *request* out of its download
        slot: it is not sent yet.
        """
        self.unsend(entry)
        if entry.is_of_scheduler:
            return self.return_to_scheduler(request, entry)
        self.end(request, entry)
        # It comes to the wire again: at once, or through a scheduler that knows it.
        return (
            request
            if isinstance(request, RobotsTxtRequest)
            else request.replace(dont_filter=True)
        )

    def _site_on_network(self, request: Request, entry: InFlight) -> Origin | None:
        """Return the origin of *request*, whose answer tells whether the network of the crawler works; None
        if it does not. A crawl that ignores robots.txt has none that could try the network.
        """
        key = entry.queue.key
        if self.rules is None or not key.is_of_http:
            return None
        return key.origin or url_origin(request)

    def end(self, request: Request, entry: InFlight) -> None:
        """Note that *request* is on its way no more."""
        self.in_flight.pop(request, None)
        if entry.page_of and entry.sent_at == -inf and self.budget is not None:
            self.budget.give_back(request, entry)
        self._has_sent |= entry.is_sent
        self.limits.end(entry, self.clock.monotonic())
        self.flush()

    def copy_for_second_download(self, request: Request) -> Request:
        """Return a copy of *request* that is to be downloaded in its place: the same object is downloaded for the
        second time, and is at the wire already. So each download counts by itself.
        """
        self._repeated.add(request)
        return (
            request.replace()
            if isinstance(request, RobotsTxtRequest)
            else request.replace(dont_filter=True)
        )

    # Waiting.

    def _wait(self, waiter: Waiter, request: Request) -> Deferred[None]:
        """Return what *waiter* waits for. It fails with SpiderClosing if the spider has closed: nothing would
        wake it.
        """
        if self.alarms.is_stopped:
            return fail(SpiderClosing(f"The spider closed before {request}"))
        if not (self.has_scheduler or self._has_warned_of_waiting):
            self._warn_of_waiting(request)
        waiter.call = Deferred(lambda _: self._cancel(waiter))
        self._waiting[waiter] = request, self.clock.monotonic()
        call: Deferred[None] = waiter.call
        return call

    async def _until_granted(self, waiter: Waiter, request: Request) -> None:
        """Wait until *waiter* has room in its limiters. Raises SpiderClosing, or BackingOff if it is refused."""
        call = self._wait(waiter, request)
        self.limits.wait(waiter, self.clock.monotonic())
        self.flush()
        await maybe_deferred_to_future(call)
        if not waiter.is_granted:
            why = self.refusal(waiter.entry) or "its host asked for a pause"
            raise BackingOff(why)

    def _cancel(self, waiter: Waiter) -> None:
        """Note that nobody waits for *waiter* any more."""
        if self._waiting.pop(waiter, None) is None:
            return
        now = self.clock.monotonic()
        self.limits.leave(waiter, now)
        self.limits.end(waiter.entry, now)
        if waiter.site is not None and self.rules is not None:
            self.rules.cancel_if_alone(waiter.site)

    # For requests for robots.txt.

    async def _room_for_robotstxt(self, request: RobotsTxtRequest) -> None:
        """Wait until *request* may be downloaded. Raises SpiderClosing, or BackingOff."""
        queue = self.queue_of(request)
        self.look_at_slot(queue.slot)
        if self.is_awaited_by_browser(queue.robotstxt_limiters):
            return
        entry = InFlight(queue, is_for_robotstxt=True)
        # Of those that wait while the network is gone, the one that was chosen to try it goes first.
        is_first = queue.site is not None and queue.site.origin == self._tried
        waiter = Waiter(entry, plans=True, is_first=is_first)
        self._planned_robotstxt[request] = (
            entry  # Now: it may be cancelled as its turn comes.
        )
        await self._until_granted(waiter, request)

    def _free(self, request: RobotsTxtRequest) -> None:
        """Let the place of *request* go, if it has one and has not come to the wire."""
        entry = self._planned_robotstxt.pop(request, None)
        if entry is not None:
            self.limits.end(entry, self.clock.monotonic())
            self.flush()

    def is_awaited_by_browser(self, limiters: tuple[Limiter, ...]) -> bool:
        """Whether a page in a browser has the room in *limiters* that a robots.txt needs, for which the page
        may wait.
        """
        return self._has_browser and any(
            entry.is_sent
            and is_for_browser(request)
            and not set(limiters).isdisjoint(entry.limiters)
            for request, entry in self.in_flight.items()
        )

    # Pauses, and the network of the crawler itself.

    def pause(self, key: str, delay: float | None, cap: float | None, why: str) -> None:
        """Pause the host or download slot *key* for *delay* seconds, or up to *cap* seconds. *why* is for the
        log.
        """
        host = self.limits.limiter(key)
        self.politeness.back_off(host, delay, cap, self.clock.monotonic(), why)
        self._withdraw_paused(host)
        self.flush()

    def resume_pause(self, key: str, seconds: float) -> None:
        """Note that the host *key* has asked another worker for a pause, of which so many *seconds* are left."""
        host, now = self.limits.limiter(key), self.clock.monotonic()
        self.limits.resume_pause(host, now, until=now + seconds)
        self._withdraw_paused(host)
        self.flush()

    def _withdraw_paused(self, host: Limiter) -> None:
        """Take the requests to *host* out of their download slots, where they wait to be sent, if it has
        asked for a pause.
        """
        if self.clock.monotonic() < host.next_at:
            self._withdraw(
                request
                for request, entry in self.in_flight.items()
                if host in entry.limiters
            )

    def _withdraw(self, requests: Iterable[Request]) -> None:
        """Take *requests* out of their download slots, if they wait there."""
        for request in list(requests):
            if request in self.in_flight and self.in_flight[request].is_sent:
                withdraw(self._crawler, request, Withdrawn())

    def _note_exhausted(self, error: Exception) -> None:
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

    def _network_is_back(self, since: float, now: float) -> None:
        if self.limits.network.is_certain:
            self._logger.info(
                "The network of the crawler is back after %(time)s: requests continue",
                time=duration(now - since),
            )
        self.limits.network_is_back(now, since)

    def _try_network(self, now: float) -> None:
        """Let a robots.txt tell whether the network is back, if it is time; or close the crawl if that has
        taken too long.
        """
        network, rules = self.limits.network, self.rules
        limiter = network.robotstxt
        if not network.is_gone or limiter.planned or limiter.sent:
            return
        if network.is_over(now):
            self._close_without_network()
            return
        if rules is None or now < limiter.next_at:
            return
        for site in network.sites_to_ask():
            host = self.limits.limiters.get(bare_host(site))
            delay = host.crawl_delay if host is not None else None
            limiters = (host, delay)
            if all(limiter is None or limiter.can_send(now) for limiter in limiters):
                self._tried = site
                if rules.try_network(site):
                    break

    def _close_without_network(self) -> None:
        queues = [queue for queue in self.limits.queues.values() if queue.count]
        pages = [
            waiter.entry.queue
            for waiter, (request, _) in self._waiting.items()
            if not isinstance(request, RobotsTxtRequest)
        ]
        requests = sum(queue.count for queue in queues) + len(pages)
        self._crawler.stats.set_value(stats.NOT_SENT, requests)
        self._logger.warning(
            "The network of the crawler is gone for longer than REP_WAIT_TIMEOUT (%(most)g s): the "
            "crawl ends. %(requests)d requests to %(hosts)d hosts were not sent%(job)s",
            most=self._settings.wait_timeout,
            requests=requests,
            hosts=len({queue.host for queue in queues + pages}),
            job="; with the same JOBDIR, the next run sends them"
            if self._crawler.settings["JOBDIR"]
            else "",
        )
        self.stop("network_gone")

    # What follows from each change.

    def flush(self, *, is_called_by_engine: bool = False) -> None:
        """Do what the limits say, and what follows from it, until nothing more follows. The engine need not
        be told of new requests if it calls, as it asks for them next.
        """
        if self._is_flushing:
            return  # What has been added is done by the call that runs.
        limits, rules, self._is_flushing = self.limits, self.rules, True
        try:
            while limits.decided or limits.urgent or limits.wanted:
                while limits.decided:
                    waiter = limits.decided.popleft()
                    # Without asyncio, the end of one continues at once, and may cancel others.
                    if self._waiting.pop(waiter, None) is not None:
                        waiter.call.callback(None)
                if rules is not None and not self.closes_for:
                    rules.begin_fetches()
                if not limits.decided:
                    break
        finally:
            self._is_flushing = False
        if limits.has_news:
            limits.has_news = False
            if not is_called_by_engine:
                wake(self._crawler)
        at = limits.alarms.first_at
        # While anything waits past the scheduler, `_check` looks whether the spider closes (Ctrl-C).
        is_watched = self._waiting or limits.network.gone_since is not None
        if is_watched or (rules is not None and rules.fetches):
            at = min(at, self._check_at)
        if at < self._alarm_at:
            self._alarm_at = at
            self.alarms.at(at, self._on_alarm, at)

    def _on_alarm(self, at: float) -> None:
        if at != self._alarm_at:
            return  # An earlier one has done this.
        now, self._alarm_at = self.clock.monotonic(), inf
        if now >= self._check_at:
            self._check_at = now + _CHECK_EVERY
            self._check(now)
        self._try_network(now)
        self.limits.tick(now)
        self.flush()

    def _check(self, now: float) -> None:
        """Look for what Scrapy has no signal for."""
        if is_closing(self._crawler):
            self._close()
            return
        self._end_unseen()
        patience = max(self._settings.wait_timeout, _MIN_PATIENCE)
        # A robots.txt that waits for its own turn keeps nobody waiting for ever.
        in_line = {waiter.entry.queue.site for waiter in self._waiting if waiter.plans}
        for waiter, (request, since) in list(self._waiting.items()):
            if waiter.site in in_line:
                self._waiting[waiter] = request, now
            elif waiter.site is not None and now - since > patience:
                self.limits.leave(waiter, now)
                self.limits.decided.append(waiter)

    # The end.

    def stop(self, reason: str) -> None:
        """Plan no other request, and close the spider with *reason*."""
        self.closes_for = reason
        self.alarms.at(self.clock.monotonic(), self._close_spider)

    def _close_spider(self) -> None:
        # Before the engine has started, Scrapy would leave its connections open.
        if self._has_started:
            close_spider(self._crawler, self.closes_for)

    def _engine_started(self) -> None:
        self._has_started = True
        if self.closes_for:
            self.stop(self.closes_for)

    def _close(self) -> None:
        """Cancel fetches, and fail the requests that wait in the downloader: a closing spider
        waits for its requests.
        """
        self.flush()
        waiting, self._waiting = self._waiting, {}
        requests = [request for request, _ in waiting.values()]
        self.interrupted.update(requests)
        if not all(map(_is_for_robotstxt, requests)):
            # Callbacks or pipelines wait for them. Their pages, among those that have left the
            # downloader, are not done.
            pages = set(requests_in_progress(self._crawler))
            self.interrupted |= pages - set(self._downloader.active or ())
        for waiter, (request, _) in waiting.items():
            self.limits.leave(waiter, self.clock.monotonic())
            # Without asyncio, the end of one continues at once, and may cancel others.
            if not waiter.call.called:
                why = f"The spider closed while {request} waited"
                waiter.call.errback(SpiderClosing(why))
        if self.rules is not None:
            self.rules.close()

    def _spider_opened(self) -> None:
        self.alarms.at(self.clock.monotonic() + _LOG_EVERY, self._on_minute)

    def _spider_closed(self) -> None:
        self.alarms.stop()
        self._close()
        self.politeness.report_slowdowns()

    # The log.

    def _warn_of_waiting(self, request: Request) -> None:
        """Warn once that requests wait in the downloader, since the crawl has another scheduler."""
        if request.callback is NO_CALLBACK:
            return
        self._has_warned_of_waiting = True
        settings = self._crawler.settings
        name, ours = "SCHEDULER", "scrapy_rep.Scheduler"
        if settings.getpriority(name) == SETTINGS_PRIORITIES["default"]:
            name = "SCHEDULER_PRIORITY_QUEUE"
        if settings.getpriority("SCHEDULER_QUEUE_CLASS") is not None:
            # Of scrapy-redis.
            name, ours = "SCHEDULER_QUEUE_CLASS", "scrapy_rep.redis.SharedScheduler"
        if settings.getpriority(name) == SETTINGS_PRIORITIES["addon"]:
            return  # The add-on of this package names it.
        self._logger.warning(
            "%(name)s is %(value)s, so requests that wait for robots.txt, or for the delay of their host, wait in "
            "the downloader. There they count towards CONCURRENT_REQUESTS, and slow down other hosts. Remove "
            'the setting: then the add-on sets SCHEDULER = "%(ours)s", which holds such requests back',
            name=name,
            ours=ours,
            value=settings[name],
        )

    def _on_minute(self) -> None:
        """Log what the crawl waits for, if it has nothing else to do, and forget what nothing needs."""
        now = self.clock.monotonic()
        self._log_waiting(now)
        if self.limits.sweep(now):
            self._queues.clear()
        self.alarms.at(now + _LOG_EVERY, self._on_minute)

    def _log_waiting(self, now: float) -> None:
        is_idle = not (self.limits.network.is_gone or self._has_sent or self.in_flight)
        requests, hosts, first = self.limits.waiting() if is_idle else (0, 0, None)
        if requests:
            seconds = 0.0 if first is None else first.next_at - now
            words = ""
            if first is not None and seconds > 0:
                reason = "delay" if first.delay else "back-off"
                key = first.key.removesuffix(" delay")
                words = f". The next is to {key}, in {duration(seconds)} ({reason})"
            self._logger.info(
                "Idle: %(requests)d requests to %(hosts)d hosts wait for robots.txt, "
                "a delay or a pause%(first)s",
                requests=requests,
                hosts=hosts,
                first=words,
            )
        self._has_sent = False

    @property
    def requests_waiting(self) -> int:
        """How many requests wait past the scheduler."""
        return len(self._waiting)


def _is_for_robotstxt(request: Request) -> bool:
    return isinstance(request, RobotsTxtRequest)
