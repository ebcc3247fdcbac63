"""Finds the queue of each request, and determines the order of the requests in a queue. Requests share a queue if the
same robots.txt and the same limiters (of the host, the download slot, ...) apply to them.
"""

from __future__ import annotations

from functools import cached_property
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from queuelib.queue import FifoDiskQueue, FifoSQLiteQueue, LifoSQLiteQueue
from scrapy import squeues
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from scrapy_rep.base import meta
from scrapy_rep.base.compat import DownloaderState, download_slot
from scrapy_rep.base.requests import (
    bare_host,
    is_exempt,
    is_of_http,
    url_origin,
    was_redirected,
)
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.crawl.frontier.limits import Queue

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.base.clock import Clock
    from scrapy_rep.base.log import CrawlLog
    from scrapy_rep.crawl.fetching.cache import RobotsTxtCache
    from scrapy_rep.crawl.frontier.limiter import Limiter
    from scrapy_rep.crawl.frontier.limits import Limits
    from scrapy_rep.protocol.origins import Origin

# If a request waits in a download slot with a delay, the scheduler hands out no further request for the slot. The
# scheduler checks the slot again when Scrapy may send the waiting request, but not before this fraction of the delay
# has passed since the last check.
_PART_OF_DELAY = 1 / 10

# The smallest index at which the authority of a URL can end, which is after "http://" and one character.
_AUTHORITY = 8

# The maximum number of entries in Queues._by_authority.
_MAX_AUTHORITIES = 10_000


class QueueKey(NamedTuple):
    """Identifies a queue by the properties that all of its requests have in common."""

    slot: str

    origin: Origin | None
    """The origin whose robots.txt applies. None if no robots.txt applies: the scheme is not http or https, the URLs
    have no valid host, the requests have ``dont_obey_robotstxt``, or the crawl ignores robots.txt."""

    is_service: bool = False
    """Whether the requests go to a service that renders or fetches pages of another host. Such requests have
    ``dont_obey_robotstxt``, and use the download slot of the other host."""

    is_of_http: bool = True
    """Whether the scheme is http or https."""


class Queues:
    """Finds the queue of each request, and creates it if there is none (:meth:`of`). Each queue has several limiters
    and usually a site, the origin whose robots.txt applies to the requests. Missing limiters and sites are created.

    For each download slot, :meth:`look_at_slot` copies Scrapy's concurrency and delay to the limiter of the slot.
    """

    def __init__(self, crawler: Crawler, limits: Limits, clock: Clock) -> None:
        self._crawler = crawler
        self._limits = limits
        self._clock = clock
        self._settings = RepSettings.of(crawler)
        self.cache: RobotsTxtCache | None = None
        """The robots.txt files of all origins, and the overrides in ``REP_OVERRIDES`` that replace some of them. None
        if the crawl ignores robots.txt. In this case, no queue has a :class:`Site`, and no request waits for a
        robots.txt."""

        self._by_authority: dict[str, Queue] = {}
        """The queues of usual requests, by the scheme and authority of their URL. A usual request names no download
        slot, is not exempt from robots.txt, and was not redirected."""

    @cached_property
    def _downloader(self) -> DownloaderState:
        return DownloaderState(self._crawler)

    def of(self, request: Request) -> Queue:
        """Return the queue of *request*, and create it if there is none.

        A usual request names no download slot in its meta, is not exempt from robots.txt, and was not redirected. The
        queue of such a request depends only on the scheme and authority of its URL, and is found with one look-up.
        """
        url, own_meta = request.url, request.meta
        end = url.find("/", _AUTHORITY)
        authority = url if end < 0 else url[:end]
        is_usual = "redirect_urls" not in own_meta and (
            meta.DONT_OBEY_ROBOTSTXT not in own_meta
            or isinstance(request, RobotsTxtRequest)
        )
        queue = self._by_authority.get(authority)
        # The meta of a usual request may name the slot that the request would use anyway: Scrapy writes the key of the
        # slot to the meta of each request that it sends, and a retry has the same meta.
        if (
            is_usual
            and queue is not None
            and own_meta.get("download_slot", queue.key.slot) == queue.key.slot
        ):
            return queue
        key = self._key_of(request)
        queue = self._limits.queues.get(key)
        if queue is None:
            queue = self.add(key)
        if (
            is_usual
            and key.is_of_http
            and "download_slot" not in own_meta
            and self._downloader.has_slot_for_each_host
        ):
            if len(self._by_authority) >= _MAX_AUTHORITIES:
                self._by_authority.clear()
            self._by_authority[authority] = queue
        return queue

    def _key_of(self, request: Request) -> QueueKey:
        slot = download_slot(self._crawler, request)
        if not is_of_http(request):
            return QueueKey(slot, None, is_of_http=False)
        if self.cache is None:
            return QueueKey(slot, None)
        origin = url_origin(request)
        host = bare_host(origin) if origin is not None else ""
        is_scrapys = host in {slot, slot.rstrip("."), f"[{slot}]"}
        if is_scrapys or was_redirected(request, host):
            slot = host
        if is_exempt(request) and not isinstance(request, RobotsTxtRequest):
            return QueueKey(slot, None, is_service=host != slot)
        return QueueKey(slot, origin)

    def add(self, key: QueueKey) -> Queue:
        """Create an empty queue with *key*, add it to the limits, and return it."""
        limits = self._limits
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
        """Whether an override allows everything at *origin* until the end of the crawl, so that the robots.txt of
        *origin* is never needed.
        """
        override = None if self.cache is None else self.cache.override(origin)
        return override is not None and override.robots is None and override.ends == inf

    def look_at_slot(self, limiter: Limiter) -> None:
        """Copy the concurrency and the delay of a Scrapy download slot to *limiter*, the limiter of this slot."""
        downloader = self._downloader
        state = downloader.slots.get(limiter.key)
        if state is None and limiter.key not in downloader.own_slots:
            state = downloader.new_slot
        # In a later version of Scrapy, the slots may lack these attributes.
        concurrency = getattr(state, "concurrency", None)
        if concurrency is not None and not getattr(state, "delay", True):
            if limiter.concurrency != concurrency:
                limiter.set_concurrency(concurrency)
            limiter.slot_due_at = limiter.slot_free_at = -inf
            return
        slot_state = downloader.state(limiter.key)
        limiter.set_concurrency(slot_state.concurrency)
        limiter.slot_due_at, limiter.slot_free_at = (
            slot_state.last_seen + slot_state.delay,
            -inf,
        )
        if slot_state.is_queueing:
            # Another request would only wait in the slot, behind the request that already waits there.
            soonest = self._clock.monotonic() + slot_state.delay * _PART_OF_DELAY
            limiter.slot_free_at = max(limiter.slot_due_at, soonest)

    def clear_by_authority(self) -> None:
        """Empty the table in which :meth:`of` looks up queues by the authority of a URL. Call this method after queues
        were deleted, because the table can still contain them.
        """
        self._by_authority.clear()


class RequestOrder:
    """Determines the order of the requests in a queue: by priority, and among equals as the queue classes in Scrapy's
    settings would order them. These classes determine only the order, and store no requests.
    """

    def __init__(self, crawler: Crawler, medium: str) -> None:
        """*medium* is where the queues store their requests, as in the names of Scrapy's settings: ``"MEMORY"`` or
        ``"DISK"``.
        """
        settings = crawler.settings
        self._names = f"SCHEDULER_{medium}_QUEUE", f"SCHEDULER_START_{medium}_QUEUE"
        usual, of_start = (
            load_object(settings[name]) if settings[name] else None
            for name in self._names
        )
        self._has_start_class = of_start is not None
        self._classes = {usual, of_start} - {None}
        # Two booleans: whether the newest request is sent first among start requests, and among all other requests.
        self._is_last_first = not _is_fifo(of_start or usual), not _is_fifo(usual)
        self._next_number = count().__next__

    def of(self, request: Request) -> tuple[int, bool]:
        """Return two values: the rank of *request*, and whether the newest request of this rank is sent first. Requests
        with a higher rank are sent earlier.
        """
        is_start = self._has_start_class and request.meta.get("is_start_request", False)
        return 2 * request.priority + (not is_start), self._is_last_first[not is_start]

    def key(self, request: Request) -> tuple[float, int]:
        """Return the sort key of *request*, a new request, for the heap of its queue. The request with the lowest key
        is sent first.
        """
        rank, is_last_first = self.of(request)
        number = self._next_number()
        return -rank, -number if is_last_first else number

    def key_at_front(self) -> tuple[float, int]:
        """Return the sort key of a request that is put back into the heap of its queue. The request is sent before all
        other requests, except those that were put back earlier.
        """
        return -inf, self._next_number()

    def warn_of_classes(self, logger: CrawlLog) -> None:
        """Warn if Scrapy's settings name queue classes of other packages, because these have no effect."""
        for kind in self._classes:
            if kind.__module__ != squeues.__name__:
                logger.warning(
                    "%(kind)s is not used, because scrapy_rep.Scheduler has its own queues. To choose only the order "
                    "of requests (newest or oldest first), set %(names)s to queue classes of Scrapy. To use your own "
                    'class, set SCHEDULER = "scrapy.core.scheduler.Scheduler"; then requests that wait for robots.txt '
                    "or a delay wait in the downloader",
                    kind=global_object_name(kind),
                    names=" and ".join(self._names),
                )


def _is_fifo(kind: Any) -> bool:
    # LifoSQLiteQueue is a subclass of FifoSQLiteQueue, so is_lifo must be tested, too.
    is_lifo = issubclass(kind, LifoSQLiteQueue)
    of_disk = issubclass(kind, (FifoDiskQueue, FifoSQLiteQueue)) and not is_lifo
    return of_disk or issubclass(kind, squeues.FifoMemoryQueue)
