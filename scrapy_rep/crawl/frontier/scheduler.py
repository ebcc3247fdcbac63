"""The scheduler: keeps the requests of each host until they may be sent."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from scrapy.core.scheduler import BaseScheduler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_rep.base.log import CrawlLog
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.crawl.frontier.queues import RequestOrder

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.dupefilters import BaseDupeFilter
    from twisted.internet.defer import Deferred
    from typing_extensions import Self

    from scrapy_rep.crawl.frontier.jobs import JobStore
    from scrapy_rep.crawl.frontier.limits import Queue, Requests


class Scheduler(BaseScheduler):
    """Hands out a request only when it may be sent: its robots.txt is known, the delay of its host has passed, and its
    host and download slot have fewer requests in flight than their limits allow. Until then, the request waits in the
    scheduler. The add-on sets this class as Scrapy's setting ``SCHEDULER``.

    Each origin has a queue of its own. For example, a slow robots.txt of ``https://a.example`` does not delay the
    requests to ``http://a.example``. But all requests to the host ``a.example`` share a download slot and a delay. If
    the requests to an origin use several download slots, the origin has a queue for each slot.

    The download slot with the fewest requests in flight is next, and among equals the slot that has waited longest.
    Within a queue, the request with the highest priority is next. Among equals, ``SCHEDULER_MEMORY_QUEUE`` and
    ``SCHEDULER_DISK_QUEUE``, and their variants for start requests, decide whether the newest or the oldest is next.
    ``enqueue_request`` and ``next_request`` cost O(log requests of a queue).

    Without a ``JOBDIR``, requests wait in memory. With a ``JOBDIR``, they are in one SQLite file until their callbacks
    have ended, so the process may be killed at any moment. Only requests that cannot be pickled still wait in memory.
    As in Scrapy, these are sent before the requests of their queue that are in the file.
    """

    uses_jobdir = True
    """Whether requests are kept in the ``JOBDIR`` of the crawl, if it has one."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._stats = crawler.stats
        self._frontier = frontier = Frontier.of(crawler)
        frontier.has_scheduler = True
        settings = crawler.settings
        self._logs_unwritable = settings.getbool("SCHEDULER_DEBUG")
        self._order = RequestOrder(crawler, "MEMORY")
        self._count = 0
        self._resumed: list[Queue] = []
        """The queues of an earlier run. The first call of :meth:`next_request` passes them to the frontier."""

        self._job: JobStore | None = None
        """Reads and writes the ``JOBDIR``; None if the crawl has none."""

        self._seen: set[int] | None = None
        """The fingerprints of all seen requests. The scheduler stores them in the ``JOBDIR``. None if the duplicate
        filter keeps the fingerprints itself, as in a crawl without a ``JOBDIR``."""

        if settings["JOBDIR"] and self.uses_jobdir:
            from scrapy_rep.crawl.frontier.jobs import JobStore  # noqa: PLC0415  imports sqlite3

            order = RequestOrder(crawler, "DISK")
            self._job = JobStore(crawler, frontier, order, memory_order=self._order)
        self._dupefilter = self._made_dupefilter()

    def _made_dupefilter(self) -> BaseDupeFilter:
        """Create and return the duplicate filter of the project.

        If the crawl has a ``JOBDIR`` and uses Scrapy's own filter, the filter only logs duplicates. The scheduler
        stores the fingerprints itself, each in one transaction with its request. So even after a kill, no fingerprint
        is stored without its request.
        """
        crawler, settings = self._crawler, self._crawler.settings
        kind = load_object(settings["DUPEFILTER_CLASS"])
        if self._job is None or kind is not RFPDupeFilter:
            made: BaseDupeFilter = build_from_crawler(kind, crawler)
            return made
        self._seen = set()
        return RFPDupeFilter(
            debug=settings.getbool("DUPEFILTER_DEBUG"),
            fingerprinter=crawler.request_fingerprinter,
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by Scrapy."""
        return cls(crawler)

    # Scrapy's interface.

    def __len__(self) -> int:
        """The number of waiting requests."""
        return self._count

    def has_pending_requests(self) -> bool:
        """Whether any request waits."""
        return self._count > 0

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Called by Scrapy. Read the requests that an earlier run has left in the ``JOBDIR``, and open the duplicate
        filter.
        """
        self._order.warn_of_classes(self._logger)
        if self._job is not None:
            for key, requests in self._job.open(keeps_seen=self._seen is not None):
                queue = self._frontier.queues.add(key)
                queue.requests = requests
                self._count += requests.count
                self._resumed.append(queue)
            if self._seen is not None:
                self._seen = self._job.seen()
            if self._count:
                self._logger.info(
                    "Resuming crawl (%(count)d requests scheduled)", count=self._count
                )
        return self._dupefilter.open()

    def close(self, reason: str) -> Deferred[None] | None:
        """Called by Scrapy. Write the last changes to the ``JOBDIR``, and close the duplicate filter."""
        if self._job is not None:
            self._job.close()
        return self._dupefilter.close(reason)

    def enqueue_request(self, request: Request) -> bool:
        """Called by Scrapy. Add *request* to its queue, unless it is a duplicate. Return whether it was added.

        A request that the gate or the wire (this package's downloader middlewares) has returned to the scheduler is
        never treated as a duplicate. It is sent before the other requests of its queue.
        """
        if self._frontier.take_returned(request):
            self._take_back(request)
            return True
        if self._job is not None and not self._job.is_open:
            # The request cannot be stored. If the duplicate filter recorded it now, the next run would treat the
            # request as seen, although it is in no queue.
            return False
        fingerprint = None
        if not request.dont_filter:
            if self._seen is None:
                is_seen = self._dupefilter.request_seen(request)
            else:
                assert self._job is not None
                fingerprint = self._job.fingerprint(request)
                is_seen = fingerprint in self._seen
            if is_seen:
                assert self._crawler.spider is not None
                self._dupefilter.log(request, self._crawler.spider)
                return False
        if fingerprint is not None and self._seen is not None:
            self._seen.add(fingerprint)
        queue = self._frontier.queues.of(request)
        requests = self._requests_of(queue)
        error = requests.push(request)
        if error is not None:
            self._note_unwritable(request, error)
        elif fingerprint is not None and self._job is not None:
            self._job.add_seen(fingerprint)
        self._count += 1
        self._frontier.enqueued(queue, request)
        medium = requests.medium if error is None else "memory"
        self._stats.inc_value(f"scheduler/enqueued/{medium}")
        self._stats.inc_value("scheduler/enqueued")
        return True

    def next_request(self) -> Request | None:
        """Called by Scrapy. Return a request that may be sent now; None if there is none at the moment."""
        frontier = self._frontier
        if self._resumed:
            # The frontier gets these queues here and not in open(), because it fetches the robots.txt files that the
            # queues need, and must not fetch before the spider is open.
            resumed, self._resumed = self._resumed, []
            for queue in resumed:
                frontier.enqueued(queue)
        is_ready = self._job is None or self._job.is_ready()
        request = self._pop() if is_ready else None
        frontier.flush(is_called_by_engine=request is not None)
        if frontier.politeness.measures and frontier.politeness.wants_waiting:
            frontier.politeness.measure_waiting(self._count + frontier.requests_waiting)
        return request

    def _pop(self) -> Request | None:
        """Choose a request that may be sent now, take it out of its queue, and return it. From then on, the request
        counts towards the limits of its host. Return None if no request may be sent now.
        """
        frontier = self._frontier
        while (queue := frontier.next_queue()) is not None:
            requests = queue.requests
            before = requests.count
            request: Request | None = requests.pop()
            self._count -= before - requests.count
            if request is None:
                frontier.plan(queue, None)
                continue
            self._count_dequeued(requests.medium_of(request))
            if request in frontier.in_flight:
                # The spider has yielded the same request object twice.
                request = request.copy()
            frontier.plan(queue, request)
            return request
        return None

    # Queues.

    def _take_back(self, request: Request) -> None:
        """Put *request* back into its queue, because a downloader middleware of this package has returned it to the
        scheduler: it may not be sent yet.
        """
        # If a component has changed the request, its queue may be a new one, which has no storage for requests yet.
        queue = self._frontier.queues.of(request)
        requests = self._requests_of(queue)
        self._count_dequeued(requests.medium_of(request), -1)
        requests.back(request)
        self._count += 1
        self._frontier.enqueued(queue, request)

    def _requests_of(self, queue: Queue) -> Requests:
        """Return the storage of the requests of *queue*. Create the storage if there is none."""
        if queue.requests is None:
            job = self._job
            queue.requests = (
                MemoryRequests(self._order) if job is None else job.requests(queue.key)
            )
        requests: Requests = queue.requests
        return requests

    def _count_dequeued(self, medium: str, count: int = 1) -> None:
        """Add *count* to Scrapy's stats of dequeued requests. *count* is 1 for a request that is handed out, and -1
        for a request that is put back into its queue. *medium* is where the request waited, ``"memory"`` or ``"disk"``.
        """
        self._stats.inc_value(f"scheduler/dequeued/{medium}", count)
        self._stats.inc_value("scheduler/dequeued", count)

    def _note_unwritable(self, request: Request, error: Exception) -> None:
        """Count *request*, which cannot be serialised because of *error*, in the stat ``scheduler/unserializable``. If
        ``SCHEDULER_DEBUG`` is True, log the first such request.
        """
        if self._logs_unwritable:
            self._logs_unwritable = False
            self._logger.warning(
                "Unable to serialize request: %(request)s - reason: %(error)s. The request waits in memory, and "
                "is lost if the crawl ends before it is sent. This warning is logged because SCHEDULER_DEBUG is True. "
                "Further such requests are only counted, in the stat scheduler/unserializable",
                request=request,
                error=error,
            )
        self._stats.inc_value("scheduler/unserializable")


class MemoryRequests:
    """Stores the requests of a queue in memory. The protocol :class:`Requests` describes the methods."""

    __slots__ = ("_heap", "_order", "count")

    medium = "memory"

    def __init__(self, order: RequestOrder) -> None:
        self._order = order
        self._heap: list[tuple[float, int, Request]] = []
        self.count = 0
        """The number of requests."""

    def push(self, request: Request) -> None:
        """Add *request*."""
        self.count += 1
        heappush(self._heap, (*self._order.key(request), request))

    def pop(self) -> Request:
        """Remove and return the next request."""
        self.count -= 1
        return heappop(self._heap)[-1]

    def back(self, request: Request) -> None:
        """Put *request*, which was popped, back to the front of the queue, but behind requests that were put back
        earlier.
        """
        self.count += 1
        heappush(self._heap, (*self._order.key_at_front(), request))

    def peek(self) -> Request | None:
        """Return the next request; None if there is none."""
        return self._heap[0][-1] if self._heap else None

    def medium_of(self, request: Request) -> str:
        """Return ``"memory"``, the name that Scrapy's stats use for the place where *request* waits or has waited."""
        return self.medium
