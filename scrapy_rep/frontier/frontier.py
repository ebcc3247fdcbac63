"""The state that the queues of a crawl and the downloader middleware share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.http.request import NO_CALLBACK
from scrapy.settings import SETTINGS_PRIORITIES

from scrapy_rep import meta
from scrapy_rep.compat.internals import active_requests, download_slot, slot_state, wake
from scrapy_rep.compat.versions import shared_component
from scrapy_rep.frontier.backqueue import Slot
from scrapy_rep.frontier.clock import Alarms, Clock
from scrapy_rep.frontier.hostkeys import (
    HostKey,
    host_of,
    is_of_http,
    request_origin,
    was_redirected,
)
from scrapy_rep.log import get_logger
from scrapy_rep.protocol.origins import origin_of

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.frontier.backqueue import BackQueue, Owner
    from scrapy_rep.frontier.hostaccess import HostAccess

logger = get_logger(__name__)

# The seconds between two log lines about what an idle crawl waits for.
_LOG_EVERY = 60.0

# The minimum pause between two checks of a download slot, as a fraction of its delay.
_PART_OF_DELAY = 1 / 10


class Frontier:
    """The download slots of a crawl, and the requests that were popped and are not done.

    If the crawl obeys robots.txt, :attr:`access` decides whether a host is ready. The
    queues and the downloader middleware share one frontier.
    """

    def __init__(self, crawler: Crawler, clock: Clock | None = None) -> None:
        self._crawler = crawler
        self.clock = clock or Clock()
        self.alarms = Alarms(self.clock)
        self.access: HostAccess | None = None
        """Decides about hosts; None if the crawl ignores robots.txt."""

        self.queues: list[Owner] = []
        self._slots: dict[str, Slot] = {}
        self._under_way: dict[Request, Slot] = {}
        self._crowded: dict[Slot, None] = {}
        self._popped = 0
        self._has_warned = False
        crawler.signals.connect(self._spider_opened, signals.spider_opened)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    @classmethod
    def of(cls, crawler: Crawler) -> Frontier:
        """Return the instance that the components of a crawl share."""
        return shared_component(crawler, cls)

    # For the queues.

    def key_of(self, request: Request) -> HostKey:
        slot = download_slot(self._crawler, request)
        if self.access is None or not is_of_http(request):
            return HostKey(slot, None)
        if is_exempt(request):
            return HostKey(slot, None, is_service=host_of(request) != slot)
        origin = request_origin(request)
        if origin is not None and origin.host == slot:
            slot = origin.host  # Keep one string in memory, not two.
        if "redirect_urls" not in request.meta:
            return HostKey(slot, origin)
        return HostKey(slot, origin, was_redirected(request, host_of(request)))

    def slot(self, key: str) -> Slot:
        """Return the download slot with *key*, and count one more back queue in it."""
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = Slot(key)
        slot.queues += 1
        return slot

    def leave_slot(self, slot: Slot) -> None:
        """Count one back queue less in *slot*."""
        slot.queues -= 1
        self._forget(slot)

    def arrived(self, queue: BackQueue) -> None:
        """Make the new *queue* ready if robots.txt is known. Otherwise park it or refuse its
        requests, as :meth:`Hosts.may_go` does.
        """
        if self.access is None or self.access.is_known(queue):
            queue.release()

    def pushed(self, queue: BackQueue, request: Request) -> None:
        """Note the proxy of *request*, which was pushed into *queue*."""
        if self.access is not None and "proxy" in request.meta:
            self.access.note_cause(queue, request)

    def settle(self) -> None:
        """Find the requests that are done, and free their places in the slots."""
        gone = self._under_way and (
            self._under_way.keys() - active_requests(self._crawler)
        )
        if gone:
            # In the order in which they were popped.
            for request in [each for each in self._under_way if each in gone]:
                self._done(request)
        for slot in list(self._crowded):
            self._refill(slot)

    def _done(self, request: Request) -> None:
        slot = self._under_way.pop(request)
        slot.active -= 1
        for queue in self.queues:
            queue.slot_changed(slot)
        if self.access is not None:
            self.access.turns.release(request)
        self._refill(slot)
        self._forget(slot)

    @property
    def has_room(self) -> bool:
        """Whether the downloader has room for another request from a queue."""
        return self.access is None or self.access.leaves_room

    def may_go(self, queue: BackQueue) -> bool:
        """Return True if *queue* may be popped from now. Otherwise park it; after its release,
        the owner calls this again.
        """
        slot = queue.slot
        if not self._has_room(slot):
            slot.park(queue)
            self.pass_turn(queue)
            return False
        if self.access is not None and not self.access.may_go(queue):
            # The room in the slot is free for the next queue.
            self._refill(slot)
            return False
        return True

    def pass_turn(self, queue: BackQueue) -> None:
        """End the turn of *queue*, from which no request was popped."""
        if self.access is not None:
            self.access.turns.release(queue)

    def popped(self, queue: BackQueue, request: Request) -> None:
        """Note that *request* was popped from *queue* and goes to the downloader."""
        self.started(queue.slot, request)
        if self.access is not None:
            self.access.turns.popped(queue, request)

    def started(self, slot: Slot, request: Request) -> None:
        """Count *request* as active in *slot* until it is done."""
        # The same object may be in the queue twice.
        if request not in self._under_way:
            slot.active += 1
            self._under_way[request] = slot
        self._popped += 1
        for each in self.queues:
            each.slot_changed(slot)

    def fetch_ahead(self) -> None:
        """Fetch robots.txt of more hosts if few are ready. To be called after each pop."""
        if self.access is not None:
            self.access.fetch_ahead(sum(queue.count_ready() for queue in self.queues))

    # For the middleware.

    def is_patient(self, request: Request) -> bool:
        """Whether *request* may wait while robots.txt is unreachable.

        Requests from a scheduler may. Requests that a pipeline or a callback sends directly
        to the engine may not: the item or page that waits for them holds up the crawl.
        """
        if self.queues:
            return request in self._under_way
        return request.callback is not NO_CALLBACK

    def warn_of_waiting(self, request: Request) -> None:
        """Warn once that requests may wait in the downloader, if *request* does so because
        the scheduler does not use HostQueue.
        """
        if self.queues or self._has_warned or request.callback is NO_CALLBACK:
            return
        self._has_warned = True
        settings = self._crawler.settings
        name = "SCHEDULER"
        if settings.getpriority(name) == SETTINGS_PRIORITIES["default"]:
            name = "SCHEDULER_PRIORITY_QUEUE"
        logger.warning(
            "Requests that wait for a robots.txt or for the delay of their host take places "
            "of CONCURRENT_REQUESTS and slow down other hosts, because %(name)s is %(value)s. "
            "To make them wait in the queue, use Scrapy's scheduler with "
            'SCHEDULER_PRIORITY_QUEUE = "scrapy_rep.HostQueue".',
            {"name": name, "value": settings[name]},
            extra={"spider": self._crawler.spider},
        )

    # Slots.

    def _has_room(self, slot: Slot) -> bool:
        """Whether *slot* has room for another request; if not, it will be checked again."""
        state = slot_state(self._crawler, slot.key)
        if state is None:
            return True
        if state.delay and (state.is_queueing or slot.active > state.active):
            # One request that waits in the slot is enough. The next request may follow a
            # little after that request was sent.
            if not slot.is_alarmed:
                slot.is_alarmed = True
                soonest = self.clock.monotonic() + state.delay * _PART_OF_DELAY
                moment = max(state.last_seen + state.delay, soonest)
                self.alarms.at(moment, self._on_slot_alarm, slot)
            return False
        if slot.active >= state.concurrency:
            return False
        if state.active >= state.concurrency:
            # The slot is full of requests that were not popped from a queue. settle() must
            # check this slot, since nothing else notices their end.
            self._crowded[slot] = None
            return False
        return True

    def _on_slot_alarm(self, slot: Slot) -> None:
        slot.is_alarmed = False
        self._refill(slot)

    def _refill(self, slot: Slot) -> None:
        self._crowded.pop(slot, None)
        if not slot.is_waited_for or not self._has_room(slot):
            return
        slot.next_parked().release()
        wake(self._crawler)

    def _forget(self, slot: Slot) -> None:
        if not slot.queues and not slot.active:
            self._slots.pop(slot.key, None)

    # The log.

    def _spider_opened(self) -> None:
        if self.access is not None:
            self.alarms.at(self.clock.monotonic() + _LOG_EVERY, self._log_waiting)

    def _log_waiting(self) -> None:
        """Log what the crawl waits for, if it has nothing else to do."""
        if not self._popped and not self._under_way and self.access is not None:
            self.access.log_waiting()
        self._popped = 0
        self.alarms.at(self.clock.monotonic() + _LOG_EVERY, self._log_waiting)

    def _spider_closed(self) -> None:
        if self.access is not None:
            self.access.close()
        self.alarms.stop()


def is_exempt(request: Request) -> bool:
    """Whether ``dont_obey_robotstxt`` exempts *request* from robots.txt.

    Scrapy keeps the meta in a redirected request, but the exemption applies only to the
    origin that the spider requested.
    """
    if not request.meta.get(meta.DONT_OBEY_ROBOTSTXT):
        return False
    redirected_from = request.meta.get("redirect_urls", ())
    origin = origin_of(request.url)
    if origin is None:
        return not redirected_from
    return all(origin_of(url) == origin for url in redirected_from)
