"""The frontier of a crawl: the state that scheduler, gate and wire share.

Gate and wire are downloader middlewares. The gate judges requests by robots.txt. The wire, the middleware nearest to
the network, holds each request until it may be sent.

Scrapy calls scheduler, gate and wire, and these three call the frontier. The frontier asks :class:`Limits` when a
request may be sent. Limits is independent of Scrapy. A request passes these methods, in this order:

===============================  ==========================================================================
Scrapy calls                     what the frontier does
===============================  ==========================================================================
``Scheduler.enqueue_request``    :meth:`Frontier.enqueued` finds out whether the next request in the queue
                                 may be sent now, or what the queue has to wait for
``Scheduler.next_request``       :meth:`Frontier.next_queue` chooses a queue. :meth:`Frontier.plan` counts
                                 the request towards the limits of its host
gate, ``process_request``        :meth:`Frontier.enter` returns the state of the request. If the rules are
                                 not known, a request from the scheduler goes back to the scheduler
                                 (``return_to_scheduler``). Any other request waits (``until_known``)
wire, ``process_request``        :meth:`Frontier.may_send` counts the request as sent, if it may be sent
                                 now. If not, the request goes back to the scheduler
                                 (``return_to_scheduler``), or waits at the wire (``until_sent``)
wire, ``process_response``       :meth:`Frontier.answered` pauses the host, for example after a 429.
                                 :meth:`Frontier.end` stops counting the request as in flight
wire, ``process_exception``      :meth:`Frontier.failed` pauses the host after a failed connection.
                                 :meth:`Frontier.end` stops counting the request as in flight
===============================  ==========================================================================

Two examples:

- *An image on another host.* A media pipeline downloads the image without the scheduler. So the image waits at the gate
  until the robots.txt of its host is fetched (``until_known``). If robots.txt allows the image, the image waits at the
  wire until the delay and the limits of its host allow another request (``until_sent``). If robots.txt forbids the
  image, the gate refuses the image. If robots.txt is unreachable, the gate refuses the image at once, too: only
  requests for pages wait for an unreachable robots.txt (``REP_WAIT_TIMEOUT``).
- *A user presses Ctrl-C.* Scrapy begins to close the spider, and takes no more requests from the scheduler. Scrapy has
  no signal (``scrapy.signals``) for this event, so ``Frontier._check`` looks every 0.2 seconds whether the spider is
  closing. If it is, ``_check`` cancels the running fetches of robots.txt, and lets the requests that wait at gate and
  wire fail with SpiderClosing. With a ``JOBDIR``, the next run sends these requests, and all requests that wait in the
  scheduler.

For two more examples, a host that answers 429 and an unreachable robots.txt, see
:mod:`scrapy_rep.crawl.frontier.limits`.
"""

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

# The number of seconds between two calls of Frontier._check, which looks for events that Scrapy does not signal. An
# example is a spider that begins to close (Ctrl-C).
_CHECK_EVERY = 0.2

# A request in the downloader waits for the fetch of its robots.txt for at most this number of seconds, or for
# REP_WAIT_TIMEOUT if that is longer. Then the request is refused. Without a maximum, the request could wait forever if
# a component of the project keeps the fetch from ending.
_MIN_PATIENCE = 120.0

# The seconds between two log lines about an idle crawl. Unused limiters and sites are removed from memory at the same
# interval.
_LOG_EVERY = 60.0

# The number of seconds without requests after the machine has run out of file descriptors, ports or memory.
_EXHAUSTED = 1.0


class Permits(Protocol):
    """Issues permits in a crawl with several workers. A permit is the permission to send one request. Workers need
    permits for the hosts to which several workers may send requests, so that all workers together keep the delay of the
    host.
    """

    def is_needed(self, request: Request, entry: InFlight) -> bool:
        """Whether *request* has to get a permit before it may be sent. A permit allows this worker to send one request
        to a host that several workers share. The wire, the downloader middleware nearest to the network, calls this
        method for each request.
        """

    async def acquire(
        self, request: Request, entry: InFlight, *, may_return: bool
    ) -> bool:
        """Wait for a permit for *request*, and return True when *request* has it. A permit allows this worker to send
        one request to a host that several workers share. The permit ends when the download of *request* ends.

        Return True without a permit if *request* turns out to need none. For example, the host asks for too long a
        pause, so *request* will be refused. Return False if *request* has to go back to the scheduler and wait there.
        False is returned only if *may_return* is True. Raises SpiderClosing if the spider closes.
        """

    def release(self, entry: InFlight) -> None:
        """Give back the permit for the request of *entry* (the permission to send it), because the request was not
        sent.
        """


class Withdrawn(Exception):
    """The error with which the download of a request ends when the frontier takes the request out of its download slot.
    The frontier does so when the host asks for a pause, and when the crawler's own network is gone. The wire catches
    the error, and lets the request wait.
    """


class Frontier:
    """The state that scheduler, gate and wire share: all requests that wait or are in flight.

    The scheduler hands out requests. The gate, a downloader middleware, judges them by robots.txt. The wire, the
    downloader middleware nearest to the network, sends them. Each of these steps changes the :class:`Limits` of the
    frontier. After each change, :meth:`flush` wakes the waiting requests that may continue, begins fetches of
    robots.txt, and wakes the engine if the scheduler has a request for it.
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
        """Fetches robots.txt files for the sites; None if the crawl ignores robots.txt."""

        self.has_scheduler = False
        """Whether the crawl uses the scheduler of this package, so that requests wait there."""

        self.has_wire = False
        """Whether the crawl uses the wire of this package, the downloader middleware nearest to the network, which
        holds requests until they may be sent. Without the wire, the crawl keeps no delay and no pause."""

        self.budget = self._budget()
        """Limits the number of pages of each host; None if no setting defines such a limit."""

        self.permits: Permits | None = None
        """Issues permits to send requests to hosts that several workers share; None if the crawl runs in one
        process."""

        self._returned: set[Request] = set()
        """The requests that are on their way back to the scheduler. RobotsTxtMiddleware (the gate) or WireMiddleware
        (the wire) has sent them back, because they have to wait."""

        self.interrupted: set[Request] = set()
        """The requests that the next run with the same ``JOBDIR`` sends again, although they have ended in this run:

        - The requests that failed only because the spider closed.
        - The requests for pages whose callbacks or item pipelines were still running when a request failed in this way.
          A callback possibly waited for the failed request, for example for an image of the page."""

        self.closes_for = ""
        """The reason (``finish_reason``) if the frontier closes the crawl; otherwise empty. Once the reason is set, the
        scheduler hands out no more requests."""

        self._repeated: WeakSet[Request] = WeakSet()
        """The request objects that a component began to download a second time while their first download was still
        running."""

        self._robotstxt_before_wire: dict[RobotsTxtRequest, InFlight] = {}
        """The state of each request for robots.txt from the time when the request begins to wait for its limiters until
        it reaches the wire or its fetch ends."""

        self._waiting: dict[Waiter, tuple[Request, float]] = {}
        """The requests that wait outside the scheduler: requests for pages and files at the gate or the wire, and
        requests for a robots.txt before their downloads begin. Each value contains the request, and the time from which
        its wait is measured."""

        self._tried: Origin | None = None
        """The site whose robots.txt was requested last to find out whether the network is back."""

        self._alarm_at = inf
        self._check_at = 0.0
        self._is_flushing = False
        self.has_page = False
        """Whether the crawl has received any page."""

        self._has_download_ended = False
        """Whether any download has ended in the current minute. If not, and if nothing is in flight, the crawl is idle
        (:meth:`_log_waiting`)."""

        self._has_warned_of_waiting = False
        self._was_exhausted = False
        self._exhausted_until = -inf
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
        """Return the frontier that all components of *crawler* share."""
        return shared_component(crawler, cls)

    def make_rules(self) -> Rules:
        """Create the object that fetches the rules of sites (:attr:`rules`), and return it. From then on, the crawl
        obeys robots.txt. The gate, the downloader middleware that judges requests by robots.txt, calls this method when
        the gate is created.
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
        # Scrapy creates the scheduler after the downloader middlewares, so the cache is set before the first queue is
        # created.
        self.queues.cache = self.rules.cache
        return self.rules

    @cached_property
    def _downloader(self) -> DownloaderState:
        return DownloaderState(self._crawler)

    # Methods that the scheduler calls.

    def enqueued(self, queue: Queue, request: Request | None = None) -> None:
        """Find out whether the next request of *queue* may be sent now. The scheduler calls this method after it added
        *request* to *queue*. *request* is None if the requests of *queue* come from an earlier run.

        If the next request may be sent now, or has to be refused, *queue* becomes ready: :meth:`next_queue` can return
        it. Otherwise, *queue* waits for the rules of its site, or until its limiters allow another request. Nothing
        changes for a queue that is already ready or waiting.
        """
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
            # If the request for robots.txt fails through one proxy, it is repeated through the proxy of another waiting
            # request. So the proxy of *request* is recorded.
            self.rules.add_template(site, request)

    def next_queue(self) -> Queue | None:
        """Return the queue whose next request the scheduler should hand out. This request may be sent now, or will be
        refused by the gate, the downloader middleware that judges requests by robots.txt. Return None if there is no
        such queue, or if the frontier has stopped the crawl.
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
        """Count *request* in the limiters of *queue* as planned (handed out, but not sent yet), so that fewer other
        requests may be sent. The scheduler calls this method after it took *request* from *queue*, the result of
        :meth:`next_queue`.

        If the scheduler could not deserialise the stored request, *request* is None, and nothing is counted.
        """
        now = self.clock.monotonic()
        entry = self.limits.plan(queue, now)
        if request is not None:
            self.in_flight[request] = entry
        else:
            self.limits.end(entry, now)

    def _end_unseen(self, *, is_thorough: bool = False) -> None:
        """Forget the requests in flight that are no longer in the downloader. Usually there are none, because the wire
        (a downloader middleware of this package) calls :meth:`end` after each download. But the wire gets neither the
        response nor the error if another component does not pass it on.

        By default, do nothing unless more requests are in flight than the downloader contains. If *is_thorough* is
        True, always look for requests to forget.
        """
        # Comparing the two numbers is fast, but can overlook a request that should be forgotten. For example, one such
        # request is in ``in_flight``, and one media download that has not reached the gate is in the downloader, but
        # not yet in ``in_flight``. Then the numbers are equal.
        active = self._downloader.active
        is_usual = active is None or len(self.in_flight) <= len(active)
        if active is None or (is_usual and not is_thorough):
            return
        in_progress = requests_in_progress(self._crawler)
        for request in self.in_flight.keys() - active:
            entry = self.in_flight[request]
            # A future Scrapy (scrapy#6931) may let a request wait after the scheduler has handed it out and before it
            # enters the downloader. Such a request is still in progress, so its entry is kept.
            is_on_its_way = entry.judgement is None and not entry.is_at_wire
            if is_on_its_way and request in in_progress:
                continue
            # If a request object is downloaded twice at the same time, Scrapy removes it from ``active`` at the end of
            # the first download. The second download may still run.
            if request not in self._repeated:
                self.end(request, entry)

    # Methods called by the gate and the wire, the downloader middlewares of this package.

    def enter(self, request: Request) -> InFlight:
        """Return the state of *request*, and create the state if there is none. The gate and the wire, the downloader
        middlewares of this package, call this method when a request reaches them.
        """
        entry = self.in_flight.get(request)
        if entry is None:
            if isinstance(request, RobotsTxtRequest):
                entry = self._robotstxt_before_wire.pop(request, None)
            entry = entry or self._new_entry(request)
            self.in_flight[request] = entry
        return entry

    def _new_entry(self, request: Request) -> InFlight:
        is_for_robotstxt = isinstance(request, RobotsTxtRequest)
        return InFlight(self.queues.of(request), is_for_robotstxt=is_for_robotstxt)

    def return_to_scheduler(self, request: Request, entry: InFlight) -> Request:
        """Forget the entry of *request*, so that the limiters no longer count it, and return *request*. The calling
        middleware has to return this result to Scrapy. Then Scrapy passes *request* to the scheduler, which puts it
        back into its queue.
        """
        self._returned.add(request)
        self.end(request, entry)
        return request

    def take_returned(self, request: Request) -> bool:
        """Return whether the gate or the wire has sent *request* back to the scheduler (:meth:`return_to_scheduler`).
        Then forget that it was sent back, so a second call returns False. The scheduler calls this method once each
        time Scrapy passes a request to it.
        """
        is_returned = request in self._returned
        self._returned.discard(request)
        return is_returned

    def waits_in_scheduler(self, entry: InFlight) -> bool:
        """Whether the request of *entry*, which may not be sent now, should return to the scheduler and wait there. The
        result is True if all of these statements are true:

        - The host or download slot of the request is paused, or the crawler's own network is gone.
        - The request came from the scheduler, and no component has changed it since (:attr:`InFlight.may_return`).
        - The pauses do not exceed ``REP_WAIT_TIMEOUT``. If they do, the request is refused (:meth:`refusal`).

        The result is False if the request only has to wait for a crawl delay, or until fewer requests are in flight.
        """
        # For a short wait, the request stays in the downloader: a return to the scheduler would take longer, and the
        # other downloader middlewares would process the request a second time.
        may_wait_there = entry.may_return and not self.refusal(entry)
        return may_wait_there and (
            self._is_paused(entry) or self.limits.network.is_gone
        )

    def _is_paused(self, entry: InFlight) -> bool:
        """Whether the host or the download slot of *entry* is paused now."""
        queue = entry.queue
        return self.clock.monotonic() < max(queue.host.next_at, queue.slot.next_at)

    async def until_known(self, request: Request, entry: InFlight, site: Site) -> bool:
        """Wait until a fetch of the robots.txt of *site*, which *request* needs, has ended with any result: the rules
        are known, or robots.txt is unreachable. Then return True. Return False if this takes too long. Raises
        SpiderClosing if the spider closes meanwhile.
        """
        assert self.rules is not None
        now = self.clock.monotonic()
        # While *request* waits, its limiters do not count it. Otherwise, they could have no room for the request for
        # robots.txt, and neither request could be sent.
        self.limits.unplan(entry, now)
        site.expire()
        self.rules.add_template(site, request)
        waiter = Waiter(entry)
        call = self.wait(waiter, request)
        self.limits.wait_for_rules(waiter, site, now)
        self.flush()
        await maybe_deferred_to_future(call)
        return waiter.may_continue

    def refusal(self, entry: InFlight) -> str:
        """Return the reason for refusing the request of *entry*. It is refused if the pauses of its host or download
        slot exceed ``REP_WAIT_TIMEOUT``. Return an empty string if the request is not refused.
        """
        queue = entry.queue
        if queue.host.refuses_until == queue.slot.refuses_until == -inf:
            return ""  # The usual case.
        limiter = queue.refusing_limiter(self.clock.monotonic())
        return "" if limiter is None else self.politeness.why_refused(limiter)

    def may_send(self, request: Request, entry: InFlight) -> bool:
        """Return whether *request* may be sent now. If so, count it as sent."""
        limits, now = self.limits, self.clock.monotonic()
        queue = self.queues.of(request)
        if queue is not entry.queue:
            # A component has changed the request, so the limiters of another queue have to count it.
            entry.queue, entry.may_return = queue, False
        if "redirect_urls" in request.meta:
            self._leave_slot_of_redirect(request, queue)
        if entry.stage is not Stage.PLANNED:
            self.queues.look_at_slot(queue.slot)
        if isinstance(request, RobotsTxtRequest):
            request.at_wire()
            if self._passes_browser_page(entry):
                limits.send(entry, now)
        if entry.stage is not Stage.SENT and not limits.try_send(entry, now):
            return False
        if self.politeness.measures:
            self.politeness.measure_sent(request, entry)
        return True

    def _leave_slot_of_redirect(self, request: Request, queue: Queue) -> None:
        """Have Scrapy send *request*, which was redirected from another host, in the download slot of *queue*.

        By default, Scrapy sends a redirected request in the download slot of the host that redirected it. But the
        limits count the request in the slot of *queue*. If the slot of the redirecting host were full, the request
        would wait there, although the limits already count it as sent.
        """
        if request.meta.get("download_slot") in hosts_of_redirects(request):
            request.meta["download_slot"] = queue.key.slot

    async def until_sent(self, request: Request, entry: InFlight) -> bool:
        """Wait until *request* may be sent, count it as sent, and return True.

        Return False if the host of *request* asked for a pause after the wait had ended and before this coroutine
        continued. Then *request* is counted as sent, but must not be sent, so the caller has to call :meth:`unsend`.
        Raises SpiderClosing if the spider closes, and BackingOff if the host asks for too long a pause.
        """
        self.limits.unplan(entry, self.clock.monotonic())
        await self._until_granted(Waiter(entry), request)
        if self._is_paused(entry):
            return False
        self.politeness.measure_sent(request, entry)
        return True

    def may_use_rules(self, entry: InFlight) -> bool:
        """Whether the gate's decision to allow the request of *entry* still applies. It applies in three cases: the
        rules of robots.txt are still fresh, the request may use stale rules, or no robots.txt applies to the request.
        """
        judgement = entry.judgement
        is_fresh = judgement is None or self.clock.time() < judgement.fresh_until
        return is_fresh or entry.may_use_stale or entry.queue.site is None

    def unsend(self, entry: InFlight) -> None:
        """Stop counting the request of *entry* as sent, because it did not reach the network."""
        self.limits.end(entry, self.clock.monotonic(), is_withdrawn=True)
        entry.sent_at = -inf

    def note_fetched(self, request: Request, entry: InFlight) -> None:
        """Count *request* as sent. It did not pass the wire (the middleware that usually counts it), because another
        middleware fetched it.
        """
        self.limits.send(entry, self.clock.monotonic())
        self.politeness.measure_sent(request, entry)

    def answered(self, request: Request, response: Response, entry: InFlight) -> None:
        """Update the limits after *response*, the answer to *request*, has arrived. The response can show the IP
        address of the host, begin a pause of the host, count as a success after a pause, and show that the network of
        the crawler works.
        """
        host, now = entry.queue.host, self.clock.monotonic()
        if self._settings.concurrency_per_address:
            self._note_address(request, response, entry, now)
        network = self.limits.network
        if network.failed_hosts or now >= network.next_record_at:
            site = self._site_on_network(request, entry)
            since = None if site is None else network.answered(site, now, entry.sent_at)
            if since is not None:
                self._network_is_back(since, now)
        if self.politeness.measures and not isinstance(request, RobotsTxtRequest):
            self.politeness.measure_page(request, response)
        status = response.status
        is_backing_off = (
            host.back_off is not None or entry.queue.slot.back_off is not None
        )
        if is_backing_off or host.had_503 or status in ASKS_FOR_PAUSE:
            self.politeness.answered(status, response.headers, request, entry)
            self._withdraw_paused(host)

    def _note_address(
        self, request: Request, response: Response, entry: InFlight, now: float
    ) -> None:
        """Record the IP address from which the host of *request* sent *response*. All hosts at one IP address together
        have at most ``REP_CONCURRENCY_PER_ADDRESS`` requests in flight.

        The address is recorded at the first response of the host. It is updated at each response to a request for
        robots.txt. A response through a proxy, or through an API that fetches pages for crawlers, is ignored, because
        it does not show the address of the host.
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
        """Return whether the limit of pages per host (``REP_PAGES_PER_HOST``) allows *request*. If *request* is for a
        page and is allowed, count it. Other requests, such as those for the files of pipelines, are always allowed.
        """
        if self.budget is None or not entry.queue.key.is_of_http:
            return True
        return not self.is_page(request, entry) or self.budget.admits(request, entry)

    def is_page(self, request: Request, entry: InFlight) -> bool:
        """Whether *request* is for a page, and not for a file that a pipeline or another component downloads. If the
        crawl uses a scheduler of this package, only the requests from the scheduler are for pages. In other crawls, all
        requests are for pages, except those with the callback ``NO_CALLBACK``.
        """
        if self.has_scheduler:
            return entry.came_from_scheduler
        return request.callback is not NO_CALLBACK

    def why_no_page(self, request: Request, entry: InFlight) -> str:
        """Return the reason why *request* is refused, as text for a message: the maximum number of pages, which its
        host has reached, and the setting that contains this number.
        """
        assert self.budget is not None
        return self.budget.why_refused(request, entry)

    def failed(self, request: Request, error: Exception, entry: InFlight) -> None:
        """Update the limits after *request* failed with *error*. A failed connection can pause the host of *request*.
        All requests are paused if the network of the crawler turns out to be gone, or if the machine has run out of
        file descriptors, ports or memory.
        """
        now, host = self.clock.monotonic(), entry.queue.host
        kind, network = kind_of(error), self.limits.network
        if kind is Failure.OWN:
            self._note_exhausted(error, now)
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
                "and none was answered. Until a host answers, no pages are requested, and only one robots.txt at a "
                "time is requested, after pauses of 1, 2, 4, ... 30 s. Check the network, the resolver and the proxy "
                "of this machine"
            )

    def withdrawn(self, request: Request, entry: InFlight) -> Request:
        """Return the request that the wire should return to Scrapy after the download of *request* has ended with
        :class:`Withdrawn` (it was taken out of its download slot). *request* is no longer counted as sent. The result
        is one of these:

        - *request*, if it came from the scheduler and no component has changed it since. Scrapy passes it to the
          scheduler, which puts it back into its queue.
        - *request*, if it is for a robots.txt. Scrapy downloads it again.
        - Otherwise, a copy of *request* that passes the duplicate filter. Scrapy handles the copy like a new request.
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
        """Return the origin of *request*. Return None if the response to *request*, or its failure, must not be used to
        find out whether the crawler's own network works: the scheme is not http or https, the URL has no valid host, or
        the crawl ignores robots.txt.
        """
        # A crawl that ignores robots.txt could not find out when the network is back, because the network is tested
        # with requests for robots.txt.
        key = entry.queue.key
        if self.rules is None or not key.is_of_http:
            return None
        return key.origin or url_origin(request)

    def end(self, request: Request, entry: InFlight) -> None:
        """Forget the entry of *request*, so that the limiters no longer count the request. Gate and wire call this
        method when the download of *request* has ended. They also call it when *request* was dropped, refused or
        returned to the scheduler before it was sent.
        """
        self.in_flight.pop(request, None)
        if entry.page_of and entry.sent_at == -inf and self.budget is not None:
            self.budget.give_back(request, entry)
        self._has_download_ended |= entry.stage is Stage.SENT
        self.limits.end(entry, self.clock.monotonic())
        self.flush()

    def copy_for_second_download(self, request: Request) -> Request:
        """Return a copy of *request*, for a second download of *request* that begins before the first download has
        ended. The limits count each request object only once, so the second download needs another object. The calling
        middleware (the gate or the wire) returns the copy to Scrapy, which downloads the copy in place of *request*.
        """
        self._repeated.add(request)
        return (
            request.replace()
            if isinstance(request, RobotsTxtRequest)
            else request.replace(dont_filter=True)
        )

    # Waiting in the downloader.

    def wait(self, waiter: Waiter, request: Request) -> Deferred[None]:
        """Return a Deferred that fires when the wait of *request* is over. ``waiter.may_continue`` then says whether
        the request may continue. If the spider has closed, return a Deferred that has already failed with
        SpiderClosing, because nothing would end the wait.
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
        """Wait until all limiters of *request* allow it to be sent, and then count *request* in these limiters: as
        planned (not sent yet) if ``waiter.counts_as_planned`` is True, otherwise as sent. Raises SpiderClosing if the
        spider closes, and BackingOff if the pauses of the host or download slot exceed ``REP_WAIT_TIMEOUT``.

        :param waiter: a new waiter for *request*. Its ``counts_as_planned`` is True if *request* has not reached the
            wire yet
        """
        call = self.wait(waiter, request)
        self.limits.wait(waiter, self.clock.monotonic())
        self.flush()
        await maybe_deferred_to_future(call)
        if not waiter.may_continue:
            why = self.refusal(waiter.entry) or "its host asked for a pause"
            raise BackingOff(why)

    def _cancel(self, waiter: Waiter) -> None:
        """End the wait of *waiter*, because its Deferred was cancelled. If *waiter* waited for the fetch of a
        robots.txt, and no other request waits for this fetch, cancel the fetch.
        """
        if self._waiting.pop(waiter, None) is None:
            return
        now = self.clock.monotonic()
        self.limits.leave(waiter, now)
        self.limits.end(waiter.entry, now)
        if waiter.site is not None and self.rules is not None:
            self.rules.cancel_if_alone(waiter.site)

    # When a request for robots.txt may be sent.

    async def _take_room(self, request: RobotsTxtRequest) -> None:
        """Wait until the host's limits (concurrency, delays, pauses) allow *request*, a request for robots.txt, and
        then count *request* in the limiters of the host. They stop counting it when :meth:`end` or :meth:`_free_room`
        is called. Raises SpiderClosing if the spider closes, and BackingOff if the pauses of the host or download slot
        exceed ``REP_WAIT_TIMEOUT``.
        """
        queue = self.queues.of(request)
        self.queues.look_at_slot(queue.slot)
        entry = InFlight(queue, is_for_robotstxt=True)
        if self._passes_browser_page(entry):
            return  # may_send() will count the request.
        # While the network is gone, many robots.txt requests may wait. The request that finds out whether the network
        # is back goes before all others.
        is_first = queue.site is not None and queue.site.origin == self._tried
        waiter = Waiter(entry, counts_as_planned=True, is_first=is_first)
        # Recorded before the wait: the fetch may be cancelled just when the limiters have begun to count the request.
        # Then _free_room() needs the entry, so that the limiters stop counting it.
        self._robotstxt_before_wire[request] = entry
        await self._until_granted(waiter, request)

    def _free_room(self, request: RobotsTxtRequest) -> None:
        """Stop counting the robots.txt *request* in its limiters (free its room), if it has not reached the wire. Do
        nothing if it has reached the wire, or if the limiters never counted it.
        """
        entry = self._robotstxt_before_wire.pop(request, None)
        if entry is not None:
            self.limits.end(entry, self.clock.monotonic())
            self.flush()

    def _passes_browser_page(self, entry: InFlight) -> bool:
        """Whether the robots.txt request of *entry* may be sent even if its limiters are full, because a browser is
        loading a page of the same host and possibly needs this robots.txt to continue. The result is False while the
        host or download slot is paused. While the crawler's own network is gone, the result is also False until it is
        time to try a host again.
        """
        limiters = entry.queue.robotstxt_limiters
        now, network = self.clock.monotonic(), self.limits.network.robotstxt
        if self._is_paused(entry) or now < network.opens_for_waiter():
            return False
        return self.is_awaited_by_browser(limiters)

    def _admit_for_browser(self, now: float) -> None:
        """Let each waiting request for a robots.txt continue if a browser is loading a page from the same host: the
        page possibly waits for this robots.txt before it loads a script or an image. The request continues even if the
        host already has its maximum number of concurrent requests. Otherwise, there would be a deadlock: the page is
        one of these requests, and cannot end before the robots.txt is fetched. If the host is paused, the request keeps
        waiting.
        """
        for waiter, (request, _) in list(self._waiting.items()):
            # When a waiter leaves its limiter, another waiter can take its place. So admit() for one waiter can let
            # another waiter continue, which comes later in this loop.
            if waiter.may_continue or not isinstance(request, RobotsTxtRequest):
                continue
            if self._passes_browser_page(waiter.entry):
                self.limits.admit(waiter, now)

    def is_awaited_by_browser(self, limiters: tuple[Limiter, ...]) -> bool:
        """Whether a browser is loading a page that any of *limiters* counts as in flight. A robots.txt request must not
        wait until this page has loaded: the page may itself wait for the robots.txt before it loads a script or an
        image, so the two would wait for each other forever.
        """
        return self._has_browser and any(
            entry.stage is Stage.SENT
            and is_for_browser(request)
            and not set(limiters).isdisjoint(entry.limiters)
            for request, entry in self.in_flight.items()
        )

    # Pauses of hosts, and pauses of the whole crawl because this machine has no network or no free ports.

    def pause(self, key: str, delay: float | None, cap: float | None, why: str) -> None:
        """Pause the host or download slot *key* for *delay* seconds. If *delay* is None, the first pause lasts one
        second, and each further pause twice as long as the pause before it, up to *cap* seconds (None means
        ``REP_BACKOFF_MAX``). *why* is the cause in the log message, such as "is paused by the spider".
        """
        host = self.limits.limiter(key)
        self.politeness.back_off(host, delay, cap, self.clock.monotonic(), why)
        self._withdraw_paused(host)
        self.flush()

    def resume_pause(self, key: str, seconds: float) -> None:
        """Pause the host *key* for *seconds*: the remaining time of a pause that the host requested from another worker
        (process of the same crawl), for example with ``Retry-After``.
        """
        host, now = self.limits.limiter(key), self.clock.monotonic()
        self.limits.resume_pause(host, now, until=now + seconds)
        self._withdraw_paused(host)
        self.flush()

    def _withdraw_paused(self, host: Limiter) -> None:
        """If *host*, the limiter of a host or download slot, is paused, remove the requests that it counts from the
        download slots in which they still wait. So they are not sent during the pause. :meth:`withdrawn` describes what
        Scrapy does with them.
        """
        if self.clock.monotonic() < host.next_at:
            self._withdraw(
                request
                for request, entry in self.in_flight.items()
                if host in entry.limiters
            )

    def _withdraw(self, requests: Iterable[Request]) -> None:
        """Take those *requests* that still wait in a download slot out of the slot. Their downloads end with
        :class:`Withdrawn`.
        """
        for request in list(requests):
            entry = self.in_flight.get(request)
            if entry is not None and entry.stage is Stage.SENT:
                withdraw(self._crawler, request, Withdrawn())

    def _note_exhausted(self, error: Exception, now: float) -> None:
        """Send no requests for a second, because the machine has run out of file descriptors, ports or memory
        (*error*). Also halve the maximum number of robots.txt files that are fetched at once, for the rest of the
        crawl. If more requests fail in this way before the pause ends, extend the pause, but do not reduce the number
        again.
        """
        if now >= self._exhausted_until and self.rules is not None:
            self.rules.fetch_fewer()
        self._exhausted_until = now + _EXHAUSTED
        self.limits.pause_network(self._exhausted_until, now)
        if not self._was_exhausted:
            self._was_exhausted = True
            self._logger.warning(
                "This machine has run out of file descriptors, ports or memory for connections (%(error)s). "
                "Requests resume in a second, and fewer robots.txt files are fetched at once. "
                "Raise the limit of open files (ulimit -n), or lower CONCURRENT_REQUESTS",
                error=in_words(error),
            )

    def _network_is_back(self, since: float, now: float) -> None:
        if self.limits.network.is_confirmed:
            self._logger.info(
                "The network of the crawler is back after %(time)s: requests continue",
                time=duration(now - since),
            )
        self.limits.network_is_back(now, since)

    def _try_network(self, now: float) -> None:
        """Test the crawler's own network, if it is gone and the next attempt is due: begin to fetch a robots.txt, whose
        answer would show that the network is back. If the network has been gone for longer than ``REP_WAIT_TIMEOUT``,
        close the crawl instead.
        """
        network, rules = self.limits.network, self.rules
        limiter = network.robotstxt
        if not network.is_gone or self.closes_for:
            return
        if network.is_over(now):
            self._close_without_network()
            return
        is_trying = limiter.planned or limiter.sent or now < limiter.next_at
        if rules is None or is_trying:
            return
        for site in network.sites_to_ask():
            host = self.limits.limiters.get(bare_host(site))
            delay = host.crawl_delay if host is not None else None
            limiters = (host, delay)
            if all(
                limiter is None or now >= limiter.opens_for_planned()
                for limiter in limiters
            ):
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
            "The network of the crawler has been gone for longer than REP_WAIT_TIMEOUT (%(most)g s), so the crawl "
            "ends. %(requests)d requests to %(hosts)d hosts were not sent. Check the network, the resolver and the "
            "proxy of this machine, and start the crawl again%(job)s",
            most=self._settings.wait_timeout,
            requests=requests,
            hosts=len({queue.host for queue in queues + pages}),
            job=" with the same JOBDIR, which contains these requests"
            if self._crawler.settings["JOBDIR"]
            else "",
        )
        self.stop("network_gone")

    # Reactions to changes of the limits.

    def flush(self, *, is_called_by_engine: bool = False) -> None:
        """Act on the latest changes of the limits: wake the waiting requests that may continue or are refused, begin
        the fetches of robots.txt that are needed, wake the engine if the scheduler has become able to hand out a
        request, and set the next alarm.

        If *is_called_by_engine* is True, the engine is not woken, because it calls ``next_request`` anyway.
        """
        if self._is_flushing:
            return  # The outer call continues until there are no more changes.
        limits, rules, self._is_flushing = self.limits, self.rules, True
        try:
            while limits.decided or limits.urgent or limits.wanted:
                while limits.decided:
                    waiter = limits.decided.popleft()
                    # The waiter may have been cancelled meanwhile: without asyncio, callback() continues a waiting
                    # request at once, and that request may cancel other waiters.
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
        # While requests wait in the downloader, or robots.txt files are being fetched, the spider cannot close. So
        # _check() must run regularly: if the spider is closing (Ctrl-C), it ends these waits and fetches. While the
        # crawler's own network is gone, _on_alarm() must run regularly to test the network.
        is_watched = self._waiting or limits.network.gone_since is not None
        if is_watched or (rules is not None and rules.fetches):
            at = min(at, self._check_at)
        if at < self._alarm_at:
            self._alarm_at = at
            self.alarms.at(at, self._on_alarm, at)

    def _on_alarm(self, at: float) -> None:
        if at != self._alarm_at:
            return  # An alarm for an earlier time has replaced this alarm.
        now, self._alarm_at = self.clock.monotonic(), inf
        if now >= self._check_at:
            self._check_at = now + _CHECK_EVERY
            self._check(now)
        self._try_network(now)
        self.limits.tick(now)
        self.flush()

    def _check(self, now: float) -> None:
        """React to events for which Scrapy sends no signal:

        - The spider has begun to close (Ctrl-C). Then let all waiting requests fail with SpiderClosing, and do nothing
          else.
        - A download has ended, but another component kept the response or error from reaching WireMiddleware. Then stop
          counting the request as in flight.
        - A browser has begun to load a page, and possibly waits for the host's robots.txt before it loads a script or
          an image. Then let the request for this robots.txt continue (:meth:`_admit_for_browser`).
        - A request has waited too long for its robots.txt. Then let the gate refuse the request.
        """
        if is_closing(self._crawler):
            self._close()
            return
        self._end_unseen()
        if self._has_browser:
            # Called at each check, because nothing notifies the frontier when a browser begins to load a page. Nothing
            # notifies it of the end of a host's pause either, after which requests for robots.txt can be sent.
            self._admit_for_browser(now)
        patience = max(self._settings.wait_timeout, _MIN_PATIENCE)
        # A request waits for its robots.txt for at most ``patience`` seconds. At each check, the count of seconds
        # starts again at 0 if the request for the robots.txt itself waits for the limits of its host, or if the
        # crawler's own network is gone.
        waiting_urls = {
            request.fetch.asked_url
            for request, _ in self._waiting.values()
            if isinstance(request, RobotsTxtRequest)
        }
        for waiter, (request, since) in list(self._waiting.items()):
            if waiter.site is None:
                continue
            is_robotstxt_waiting = waiter.site.origin.robotstxt_url in waiting_urls
            if is_robotstxt_waiting or self.limits.network.is_gone:
                self._waiting[waiter] = request, now
            elif now - since > patience:
                self.limits.leave(waiter, now)
                self.limits.decided.append(waiter)

    # The end of the crawl.

    def stop(self, reason: str) -> None:
        """Close the spider with *reason* (``finish_reason``). From now on, the scheduler hands out no more requests."""
        self.closes_for = reason
        self.alarms.at(self.clock.monotonic(), self._close_spider)

    def _close_spider(self) -> None:
        # Before the engine has started, closing the spider would leave Scrapy's connections open. In this case,
        # _engine_started() closes the spider later.
        if self._has_started:
            close_spider(self._crawler, self.closes_for)

    def _engine_started(self) -> None:
        self._has_started = True
        if self.closes_for:
            self.stop(self.closes_for)

    def _close(self) -> None:
        """Cancel the fetches of robots.txt, and let the requests that wait in the downloader fail with SpiderClosing.
        Scrapy closes the spider only after these requests have ended.
        """
        self.flush()
        waiting, self._waiting = self._waiting, {}
        for request, _ in waiting.values():
            self.interrupt(request)
        for waiter, (request, _) in waiting.items():
            self.limits.leave(waiter, self.clock.monotonic())
            if waiter.may_continue:
                # An earlier leave() in this loop has let this waiter continue. Its request counts as sent, but will not
                # be sent.
                self.unsend(waiter.entry)
            # Without asyncio, errback() runs the callbacks of the waiting request at once. These may cancel other
            # waiters. So the Deferred of this waiter may already have ended, because of an earlier errback() in this
            # loop.
            if not waiter.call.called:
                why = f"The spider closed while {request} waited"
                waiter.call.errback(SpiderClosing(why))
        if self.rules is not None:
            self.rules.close()

    def interrupt(self, request: Request) -> None:
        """Record that *request* was not sent because the spider is closing, so that the next run sends it. Also record
        the page requests whose callbacks or item pipelines have not ended, because a callback or pipeline possibly
        waits for *request*. If *request* is for a robots.txt, only *request* is recorded.
        """
        self.interrupted.add(request)
        if not isinstance(request, RobotsTxtRequest):
            # *request* was possibly made by a callback or item pipeline that waits for the response. The page of this
            # callback or pipeline has left the downloader, but is still in progress. It is unknown which page this is,
            # so the next run fetches again all pages that are in progress.
            pages = set(requests_in_progress(self._crawler))
            self.interrupted |= pages - set(self._downloader.active or ())

    def _spider_opened(self) -> None:
        self.alarms.at(self.clock.monotonic() + _LOG_EVERY, self._on_minute)

    def _spider_closed(self) -> None:
        self.alarms.stop()
        self._close()
        self.politeness.report_slowdowns()

    # The log.

    def _warn_of_waiting(self, request: Request) -> None:
        """Warn, for the first request only, that requests such as *request* wait in the downloader. They wait there
        because the crawl does not use the scheduler of this package.
        """
        if request.callback is NO_CALLBACK:
            return
        self._has_warned_of_waiting = True
        settings = self._crawler.settings
        name, ours = "SCHEDULER", "scrapy_rep.Scheduler"
        if settings.getpriority(name) == SETTINGS_PRIORITIES["default"]:
            name = "SCHEDULER_PRIORITY_QUEUE"
        if settings.getpriority("SCHEDULER_QUEUE_CLASS") is not None:
            # SCHEDULER_QUEUE_CLASS is a setting of scrapy-redis.
            name, ours = "SCHEDULER_QUEUE_CLASS", "scrapy_rep.redis.SharedScheduler"
        if settings.getpriority(name) == SETTINGS_PRIORITIES["addon"]:
            return  # The add-on of this package has set it, so the user need not be warned.
        self._logger.warning(
            "%(name)s is %(value)s, so requests that wait for robots.txt, or for the delay of their host, wait in "
            "the downloader. There they count towards CONCURRENT_REQUESTS, and slow down other hosts. Remove "
            'the setting. Then the add-on sets SCHEDULER = "%(ours)s", in which such requests wait without counting '
            "towards CONCURRENT_REQUESTS",
            name=name,
            ours=ours,
            value=settings[name],
        )

    def _on_minute(self) -> None:
        """If the crawl is idle, log what it waits for. Remove unused limiters and sites from memory."""
        now = self.clock.monotonic()
        self._end_unseen(is_thorough=True)
        self._log_waiting(now)
        if self.limits.sweep(now):
            self.queues.clear_by_authority()
        self.alarms.at(now + _LOG_EVERY, self._on_minute)

    def _log_waiting(self, now: float) -> None:
        is_idle = not (
            self.limits.network.is_gone or self._has_download_ended or self.in_flight
        )
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
        self._has_download_ended = False

    @property
    def requests_waiting(self) -> int:
        """The number of requests that wait outside the scheduler. Requests for pages and files wait at the gate or the
        wire, the downloader middlewares of this package. Requests for a robots.txt wait before their downloads begin.
        """
        return len(self._waiting)
