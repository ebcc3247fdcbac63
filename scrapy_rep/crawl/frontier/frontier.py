"""The frontier of a crawl: connects scheduler, gate and wire with the limits, which know nothing of Scrapy."""

from __future__ import annotations

from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from scrapy import signals
from scrapy.http.request import NO_CALLBACK
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred, fail

from scrapy_rep.base import stats
from scrapy_rep.base.browsers import is_for_browser, uses_playwright
from scrapy_rep.base.clock import Alarms, Clock
from scrapy_rep.base.compat import (
    DownloaderState,
    close_spider,
    is_closing,
    requests_in_progress,
    shared_component,
    wake,
    withdraw,
)
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import bare_host, hosts_of_redirects, url_origin
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.fetching.fetcher import NO_SERVER, in_words, kind_of
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.crawl.frontier.limits import InFlight, Limits, Queue, Stage, Waiter
from scrapy_rep.crawl.frontier.politeness import ASKS_FOR_PAUSE, Politeness, duration
from scrapy_rep.crawl.frontier.queues import Queues
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

# Scrapy sends no signal when the spider begins to close, or when a component hides the end of a request from the
# wire. While requests wait in the downloader, the frontier looks for both each time this many seconds have passed.
_CHECK_EVERY = 0.2

# If a component of the project keeps the fetch of robots.txt from ever ending, a request in the downloader is
# refused after REP_WAIT_TIMEOUT, but not sooner than after this many seconds.
_MIN_PATIENCE = 120.0

# The seconds between two log lines about an idle crawl. Limiters and sites that nothing needs are forgotten at
# the same time.
_LOG_EVERY = 60.0

# The seconds for which no request is sent after the machine had no more files, ports or memory.
_EXHAUSTED = 1.0


class Permits(Protocol):
    """Permits to send requests to a host that several workers send to, which keep its delay together."""

    def is_needed(self, request: Request, entry: InFlight) -> bool:
        """Whether *request*, which is at the wire, needs a permit that it does not have."""

    async def acquire(
        self, request: Request, entry: InFlight, *, may_return: bool
    ) -> bool:
        """Wait for the permit of *request*, which holds until *request* is in flight no more. Return False if
        *request* is to return to the scheduler, and to come again later; only if it *may return*. Raises
        SpiderClosing.
        """

    def release(self, entry: InFlight) -> None:
        """Release the permit of *entry*, whose request is not sent after all."""


class Withdrawn(Exception):
    """Raised for a request that the frontier takes out of its download slot, because its host asked for a pause or
    the network is gone. The request is not lost: the wire sends it back to where it waits.
    """


class Frontier:
    """The shared state of scheduler, gate and wire: all requests that wait or are in flight.

    The scheduler plans requests, the gate judges them, and the wire sends them. The frontier owns the
    :class:`Limits`, and acts on each of their changes: it wakes requests and the engine, and has robots.txt
    files fetched.
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
        self.queues = Queues(crawler, self.limits, self.clock)
        self.politeness = Politeness(crawler, self.limits, self.alarms)
        self.rules: Rules | None = None
        """The rules of sites; None if the crawl ignores robots.txt."""

        self.has_scheduler = False
        """Whether the crawl uses the scheduler of this package, so that requests wait there."""

        self.has_wire = False
        """Whether the crawl uses the wire of this package, so that delays and pauses are kept."""

        self.budget = self._budget()
        """Limits the pages of each host; None if no setting does."""

        self.permits: Permits | None = None
        """What a request needs before it is sent to a host of several workers; None if there is one process."""

        self._returned: set[Request] = set()
        """The requests that the gate or the wire has returned, until the scheduler has taken them back."""

        self.interrupted: set[Request] = set()
        """The requests that failed only because the spider closed, and the pages whose callbacks or items may
        have waited for them. With a ``JOBDIR``, the next run sends them again."""

        self.closes_for = ""
        """The reason for which the crawl is closing, so that no request is planned any more; empty while the
        crawl goes on."""

        self._repeated: WeakSet[Request] = WeakSet()
        """The requests that were downloaded a second time while the same object was still at the wire."""

        self._planned_robotstxt: dict[RobotsTxtRequest, InFlight] = {}
        """The requests for robots.txt that wait for room or have it, and have not reached the wire yet."""

        self._waiting: dict[Waiter, tuple[Request, float]] = {}
        """The requests that wait outside the scheduler, each with the time from which its wait counts."""

        self._tried: Origin | None = None
        """The site whose robots.txt was fetched last to find out whether the network is back."""

        self._alarm_at = inf
        self._check_at = 0.0
        self._is_flushing = False
        self.has_page = False
        """Whether the crawl has got any page."""

        self._has_sent = False
        """Whether any sent request has ended since the last log line about an idle crawl."""

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

    def make_rules(self) -> Rules:
        """Obey robots.txt from now on, and return the rules of sites. The gate calls this when it is created, which
        Scrapy does before it creates the scheduler.
        """
        self.rules = Rules(
            self._crawler,
            self.limits,
            self.politeness,
            self.clock,
            take_room=self._take_room,
            free_room=self._free_room,
            flush=self.flush,
        )
        self.queues.cache = self.rules.cache
        return self.rules

    @cached_property
    def _downloader(self) -> DownloaderState:
        return DownloaderState(self._crawler)

    # For the scheduler.

    def fill(self, queue: Queue, request: Request | None = None) -> None:
        """Note that *request* was pushed to *queue*; None if the queue has requests of an earlier run."""
        site = queue.site
        if queue.place is None:
            now = self.clock.monotonic()
            if site is not None and now >= site.expires and self.rules is not None:
                self.rules.tell_known(site)
            self.limits.filled(queue, now)
            self.flush(is_called_by_engine=True)
        if (
            request is not None
            and self.rules is not None
            and site is not None
            and site.phase is not Phase.OPEN
            and "proxy" in request.meta
        ):
            # The fetch of robots.txt uses the proxies of the requests that wait for it, one after another.
            self.rules.add_template(site, request)

    def next_queue(self) -> Queue | None:
        """Return the queue from which the scheduler takes its next request, which may be sent now, or which the
        gate will refuse; None if there is none.
        """
        self._end_unseen()
        if self.closes_for:
            return None
        now, limits = self.clock.monotonic(), self.limits
        while (queue := limits.ready.first()) is not None:
            self.queues.look_at_slot(queue.slot)
            if limits.may_plan(queue, now):
                return queue
        return None

    def plan(self, queue: Queue, request: Request | None) -> None:
        """Plan *request*, which was taken from *queue*, the queue that :meth:`next_queue` returned; None if it
        could not be read.
        """
        now = self.clock.monotonic()
        entry = self.limits.plan(queue, now)
        if request is not None:
            self.in_flight[request] = entry
        else:
            self.limits.end(entry, now)

    def _end_unseen(self) -> None:
        """End the requests that have ended although no middleware of this package has seen it."""
        active = self._downloader.active
        if active is None or len(self.in_flight) <= len(active):
            return
        in_progress = requests_in_progress(self._crawler)
        for request in self.in_flight.keys() - active:
            entry = self.in_flight[request]
            # In a later Scrapy, a planned request may wait before it comes to the downloader.
            is_on_its_way = entry.judgement is None and not entry.is_at_wire
            if is_on_its_way and request in in_progress:
                continue
            # If one object was downloaded twice, Scrapy has forgotten it as soon as one download has ended.
            if request not in self._repeated:
                self.end(request, entry)

    # For the gate and the wire.

    def enter(self, request: Request) -> InFlight:
        """Return the entry of *request*, which passes a middleware, and create it if there is none."""
        entry = self.in_flight.get(request)
        if entry is None:
            if isinstance(request, RobotsTxtRequest):
                entry = self._planned_robotstxt.pop(request, None)
            entry = entry or self._new_entry(request)
            self.in_flight[request] = entry
        return entry

    def _new_entry(self, request: Request) -> InFlight:
        is_for_robotstxt = _is_for_robotstxt(request)
        return InFlight(self.queues.of(request), is_for_robotstxt=is_for_robotstxt)

    def return_to_scheduler(self, request: Request, entry: InFlight) -> Request:
        """Take *request* out of flight, and return it for the middleware to return: Scrapy then gives it to the
        scheduler, which puts it back into its queue.
        """
        self._returned.add(request)
        self.end(request, entry)
        return request

    def take_returned(self, request: Request) -> bool:
        """Return whether *request*, which the scheduler gets, is one that the gate or the wire has returned. The
        scheduler has it from now on.
        """
        is_returned = request in self._returned
        self._returned.discard(request)
        return is_returned

    def waits_in_scheduler(self, entry: InFlight) -> bool:
        """Whether the request of *entry*, which may not be sent now, is to wait in the scheduler: it may return
        there, and waits for the end of a pause or for the network. For a delay or for room, it waits at the
        wire: that takes less long, and the other middlewares do not process it a second time.
        """
        may_wait_there = entry.may_return and not self.refusal(entry)
        return may_wait_there and (
            self._is_paused(entry) or self.limits.network.is_gone
        )

    def _is_paused(self, entry: InFlight) -> bool:
        """Whether the host or the download slot of the request of *entry* has a pause now."""
        queue = entry.queue
        return self.clock.monotonic() < max(queue.host.next_at, queue.slot.next_at)

    async def until_known(self, request: Request, entry: InFlight, site: Site) -> bool:
        """Have *request* wait until the robots.txt of *site* is known, or known to be unreachable. Return False if
        that takes too long. Raises SpiderClosing.
        """
        assert self.rules is not None
        now = self.clock.monotonic()
        # The request for robots.txt may need the room.
        self.limits.unplan(entry, now)
        site.expire()
        self.rules.add_template(site, request)
        waiter = Waiter(entry)
        call = self._wait(waiter, request)
        self.limits.wait_for_rules(waiter, site, now)
        self.flush()
        await maybe_deferred_to_future(call)
        return waiter.may_continue

    def ask_again(self, site: Site) -> None:
        """Have the robots.txt of *site* fetched again if a retry is due. The gate calls this when it refuses a request
        because that robots.txt is unreachable.
        """
        now = self.clock.monotonic()
        if site.outage is not None and now >= site.outage.retry_at:
            self.limits.want(site, now, is_urgent=True)
            self.flush()

    def refusal(self, entry: InFlight) -> str:
        """Return why the request of *entry* is refused, if the pauses of its host or download slot are too long;
        else an empty string.
        """
        queue = entry.queue
        if queue.host.refuses_until == queue.slot.refuses_until == -inf:
            return ""  # The usual case.
        limiter = queue.refusing_limiter(self.clock.monotonic())
        return "" if limiter is None else self.politeness.why_refused(limiter)

    def may_send(self, request: Request, entry: InFlight) -> bool:
        """Count *request* as sent if it may be sent now. Return whether it may."""
        limits, now, queue = (
            self.limits,
            self.clock.monotonic(),
            self.queues.of(request),
        )
        if queue is not entry.queue:
            if entry.queue.key == queue.key._replace(is_unwritable=True):
                queue = entry.queue  # It waited in memory.
            else:
                # A component has changed it: in its old queue, it would not wait for its limiters.
                entry.queue, entry.may_return = queue, False
        if "redirect_urls" in request.meta:
            self._leave_slot_of_redirect(request, queue)
        if entry.stage is not Stage.PLANNED:
            self.queues.look_at_slot(queue.slot)
        if isinstance(request, RobotsTxtRequest):
            request.at_wire()
            if self.is_awaited_by_browser(queue.robotstxt_limiters):
                limits.send(entry, now)
        if entry.stage is not Stage.SENT and not limits.try_send(entry, now):
            return False
        if self.politeness.measures:
            self.politeness.measure_sent(request, entry)
        return True

    def _leave_slot_of_redirect(self, request: Request, queue: Queue) -> None:
        """Have Scrapy send *request*, which was redirected from another host, in the slot of *queue*. Scrapy would
        keep it in the slot of the other host. There it would take room of which the limits do not know, so that
        a request of the other host would wait in the slot, and be sent when its host has just asked for a pause.
        """
        if request.meta.get("download_slot") in hosts_of_redirects(request):
            request.meta["download_slot"] = queue.key.slot

    async def until_sent(self, request: Request, entry: InFlight) -> bool:
        """Wait until *request* may be sent, and count it as sent. Return False if its host has asked for a pause
        between the moment in which it got its room and the moment in which it continues, so that it must not be
        sent. Raises SpiderClosing, or BackingOff if its host asks for too long a pause.
        """
        self.limits.unplan(entry, self.clock.monotonic())
        await self._until_granted(Waiter(entry), request)
        if self._is_paused(entry):
            return False
        self.politeness.measure_sent(request, entry)
        return True

    def may_use_rules(self, entry: InFlight) -> bool:
        """Whether the request of *entry* may go by the rules by which it was judged: they are fresh, or hold for
        this request although they are stale.
        """
        judgement = entry.judgement
        is_fresh = judgement is None or self.clock.time() < judgement.fresh_until
        return is_fresh or entry.may_use_stale or entry.queue.site is None

    def unsend(self, entry: InFlight) -> None:
        """Stop counting the request of *entry* as sent: it has not reached the network."""
        self.limits.end(entry, self.clock.monotonic(), is_withdrawn=True)
        entry.sent_at = -inf

    def note_fetched(self, request: Request, entry: InFlight) -> None:
        """Count *request* as sent, because another middleware has fetched it by itself."""
        self.limits.send(entry, self.clock.monotonic())
        self.politeness.measure_sent(request, entry)

    def answered(self, request: Request, response: Response, entry: InFlight) -> None:
        """Note what *response*, the answer to *request*, says about its host: address, pauses, network."""
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
        """Limit the host of *request* together with the other hosts at the IP address of *response*. Only the
        first answer of the host and each of its robots.txt files count. The address of a proxy, or of a service
        that fetches pages, is not that of the host.
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
        """Whether the budget of its host has room for *request*. Files for pipelines do not count."""
        if self.budget is None or not entry.queue.key.is_of_http:
            return True
        return not self.is_page(request, entry) or self.budget.admits(request, entry)

    def is_page(self, request: Request, entry: InFlight) -> bool:
        """Whether *request* is for a page, as opposed to a file for a pipeline or a component: it came from the
        scheduler. Without a scheduler that says so, its callback tells.
        """
        if self.has_scheduler:
            return entry.came_from_scheduler
        return request.callback is not NO_CALLBACK

    def why_no_page(self, request: Request, entry: InFlight) -> str:
        """Return the message for *request*, which the budget of its host refuses."""
        assert self.budget is not None
        return self.budget.why_refused(request, entry)

    def failed(self, request: Request, error: Exception, entry: InFlight) -> None:
        """Note what *error*, with which *request* has failed, says about its host, the network and the machine."""
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
            self._withdraw_paused(host)
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
        """Return what the wire returns for *request*, which :class:`Withdrawn` has taken out of its download slot:
        the request goes back to the scheduler, or it or a copy of it comes to the wire again.
        """
        self.unsend(entry)
        if entry.may_return:
            return self.return_to_scheduler(request, entry)
        self.end(request, entry)
        return (
            request
            if isinstance(request, RobotsTxtRequest)
            else request.replace(dont_filter=True)
        )

    def _site_on_network(self, request: Request, entry: InFlight) -> Origin | None:
        """Return the origin of *request*, if its answer or failure says whether the network of the crawler works;
        else None. The result is always None in a crawl that ignores robots.txt, which could not fetch
        a robots.txt to try the network.
        """
        key = entry.queue.key
        if self.rules is None or not key.is_of_http:
            return None
        return key.origin or url_origin(request)

    def end(self, request: Request, entry: InFlight) -> None:
        """End the way of *request* through the downloader, and free its room: its download has ended, or it was
        dropped, refused or returned before it was sent.
        """
        self.in_flight.pop(request, None)
        if entry.page_of and entry.sent_at == -inf and self.budget is not None:
            self.budget.give_back(request, entry)
        self._has_sent |= entry.stage is Stage.SENT
        self.limits.end(entry, self.clock.monotonic())
        self.flush()

    def copy_for_second_download(self, request: Request) -> Request:
        """Return a copy of *request* to be downloaded in its place, because a component downloads the same object
        a second time while the first download is at the wire. So each download counts by itself.
        """
        self._repeated.add(request)
        return (
            request.replace()
            if isinstance(request, RobotsTxtRequest)
            else request.replace(dont_filter=True)
        )

    # Waiting in the downloader.

    def _wait(self, waiter: Waiter, request: Request) -> Deferred[None]:
        """Return a Deferred that is called back when *waiter* is decided. If the spider has closed, it fails with
        SpiderClosing at once, because nothing would decide the waiter.
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
        """Wait until *waiter*, for *request*, has room. Raises SpiderClosing, or BackingOff if it is refused."""
        call = self._wait(waiter, request)
        self.limits.wait(waiter, self.clock.monotonic())
        self.flush()
        await maybe_deferred_to_future(call)
        if not waiter.may_continue:
            why = self.refusal(waiter.entry) or "its host asked for a pause"
            raise BackingOff(why)

    def _cancel(self, waiter: Waiter) -> None:
        """Forget *waiter*, whose Deferred was cancelled."""
        if self._waiting.pop(waiter, None) is None:
            return
        now = self.clock.monotonic()
        self.limits.leave(waiter, now)
        self.limits.end(waiter.entry, now)
        if waiter.site is not None and self.rules is not None:
            self.rules.cancel_if_alone(waiter.site)

    # For requests for robots.txt.

    async def _take_room(self, request: RobotsTxtRequest) -> None:
        """Wait until there is room for *request*, and plan it. Raises SpiderClosing, or BackingOff."""
        queue = self.queues.of(request)
        self.queues.look_at_slot(queue.slot)
        if self.is_awaited_by_browser(queue.robotstxt_limiters):
            return
        entry = InFlight(queue, is_for_robotstxt=True)
        # While the network is gone, many may wait: the site that was chosen to try the network goes first.
        is_first = queue.site is not None and queue.site.origin == self._tried
        waiter = Waiter(entry, counts_as_planned=True, is_first=is_first)
        # Before it waits: the fetch may be cancelled in the moment in which it gets its room.
        self._planned_robotstxt[request] = entry
        await self._until_granted(waiter, request)

    def _free_room(self, request: RobotsTxtRequest) -> None:
        """Free the room of *request*, if it has any and has not reached the wire."""
        entry = self._planned_robotstxt.pop(request, None)
        if entry is not None:
            self.limits.end(entry, self.clock.monotonic())
            self.flush()

    def is_awaited_by_browser(self, limiters: tuple[Limiter, ...]) -> bool:
        """Whether a page that a browser loads counts in any of *limiters*. A robots.txt must not wait until the page has
        ended: the page may wait for this robots.txt before it loads a script or an image, and neither would end.
        """
        return self._has_browser and any(
            entry.stage is Stage.SENT
            and is_for_browser(request)
            and not set(limiters).isdisjoint(entry.limiters)
            for request, entry in self.in_flight.items()
        )

    # Pauses, and the network of the crawler itself.

    def pause(self, key: str, delay: float | None, cap: float | None, why: str) -> None:
        """Pause the host or download slot *key* for *delay* seconds. If that is None, the pause doubles each time,
        up to *cap* seconds. *why* is for the log.
        """
        host = self.limits.limiter(key)
        self.politeness.back_off(host, delay, cap, self.clock.monotonic(), why)
        self._withdraw_paused(host)
        self.flush()

    def resume_pause(self, key: str, seconds: float) -> None:
        """Pause the host *key* for the *seconds* that are left of the pause for which it asked another worker."""
        host, now = self.limits.limiter(key), self.clock.monotonic()
        self.limits.resume_pause(host, now, until=now + seconds)
        self._withdraw_paused(host)
        self.flush()

    def _withdraw_paused(self, host: Limiter) -> None:
        """If *host* is paused, take its requests out of the download slots in which they wait to be sent."""
        if self.clock.monotonic() < host.next_at:
            self._withdraw(
                request
                for request, entry in self.in_flight.items()
                if host in entry.limiters
            )

    def _withdraw(self, requests: Iterable[Request]) -> None:
        """Take those of *requests* out of their download slots that wait there."""
        for request in list(requests):
            entry = self.in_flight.get(request)
            if entry is not None and entry.stage is Stage.SENT:
                withdraw(self._crawler, request, Withdrawn())

    def _note_exhausted(self, error: Exception) -> None:
        if self.rules is not None:
            self.rules.fetch_fewer()
        if not self._was_exhausted:
            self._was_exhausted = True
            self._logger.warning(
                "This machine has run out of file descriptors, ports or memory for connections (%(error)s). "
                "Requests resume in a second, and fewer robots.txt files are fetched at once. "
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
        """If the network is gone, fetch a robots.txt when it is time, to find out whether the network is back;
        close the crawl if that has taken too long.
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

    # Reactions to changes of the limits.

    def flush(self, *, is_called_by_engine: bool = False) -> None:
        """Act on the changes of the limits, until there are no more: wake the waiters that are decided, begin
        wanted fetches, wake the engine if a queue has become ready, and set the next alarm.

        With *is_called_by_engine*, the engine is not woken, because it asks for requests next.
        """
        if self._is_flushing:
            return  # The call that is running acts on it.
        limits, rules, self._is_flushing = self.limits, self.rules, True
        try:
            while limits.decided or limits.urgent or limits.wanted:
                while limits.decided:
                    waiter = limits.decided.popleft()
                    # Without asyncio, the call continues the request at once, which may cancel other waiters.
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
        # While requests wait in the downloader, `_check` looks for a closing spider (Ctrl-C).
        is_watched = self._waiting or limits.network.is_gone
        if is_watched or (rules is not None and rules.fetches):
            at = min(at, self._check_at)
        if at < self._alarm_at:
            self._alarm_at = at
            self.alarms.at(at, self._on_alarm, at)

    def _on_alarm(self, at: float) -> None:
        if at != self._alarm_at:
            return  # An earlier alarm has replaced this one.
        now, self._alarm_at = self.clock.monotonic(), inf
        if now >= self._check_at:
            self._check_at = now + _CHECK_EVERY
            self._check(now)
        self._try_network(now)
        self.limits.tick(now)
        self.flush()

    def _check(self, now: float) -> None:
        """Look for a closing spider, for requests that have ended unseen, and for requests that wait too long for
        robots.txt: Scrapy sends no signals for these.
        """
        if is_closing(self._crawler):
            self._close()
            return
        self._end_unseen()
        patience = max(self._settings.wait_timeout, _MIN_PATIENCE)
        # The time in which a request for robots.txt waits for its own room, or for the network, does not count.
        waits_for_room = {
            request.fetch.asked_url
            for request, _ in self._waiting.values()
            if isinstance(request, RobotsTxtRequest)
        }
        for waiter, (request, since) in list(self._waiting.items()):
            if waiter.site is None:
                continue
            is_waiting = waiter.site.origin.robotstxt_url in waits_for_room
            if is_waiting or self.limits.network.is_gone:
                self._waiting[waiter] = request, now
            elif now - since > patience:
                self.limits.leave(waiter, now)
                self.limits.decided.append(waiter)

    # The end.

    def stop(self, reason: str) -> None:
        """Close the spider with *reason*, and plan no request from now on."""
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
        """Cancel the fetches, and fail the requests that wait in the downloader: the spider closes only when they
        have ended.
        """
        self.flush()
        waiting, self._waiting = self._waiting, {}
        requests = [request for request, _ in waiting.values()]
        self.interrupted.update(requests)
        if not all(map(_is_for_robotstxt, requests)):
            # A callback or pipeline may wait for such a request. Its page has left the downloader, but is not
            # done, so the next run fetches all such pages again.
            pages = set(requests_in_progress(self._crawler))
            self.interrupted |= pages - set(self._downloader.active or ())
        for waiter, (request, _) in waiting.items():
            self.limits.leave(waiter, self.clock.monotonic())
            # Without asyncio, the call continues the request at once, which may cancel other waiters.
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
        """Warn once that *request* and others wait in the downloader, because the crawl has another scheduler."""
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
            return  # The add-on of this package has set it, so the user need not be warned.
        self._logger.warning(
            "%(name)s is %(value)s, so requests that wait for robots.txt, or for the delay of their host, wait in "
            "the downloader. There they count towards CONCURRENT_REQUESTS, and slow down other hosts. Remove "
            'the setting: then the add-on sets SCHEDULER = "%(ours)s", which holds such requests back',
            name=name,
            ours=ours,
            value=settings[name],
        )

    def _on_minute(self) -> None:
        """Log what an idle crawl waits for, and forget the limiters and sites that no request needs."""
        now = self.clock.monotonic()
        self._log_waiting(now)
        if self.limits.sweep(now):
            self.queues.forget_usual()
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
        """The number of requests that wait outside the scheduler."""
        return len(self._waiting)


def _is_for_robotstxt(request: Request) -> bool:
    return isinstance(request, RobotsTxtRequest)
