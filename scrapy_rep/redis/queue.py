"""The host queue for scrapy-redis, which all workers share, and its duplicate filter."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from redis.exceptions import RedisError
from scrapy import Request, signals
from scrapy.exceptions import DontCloseSpider
from scrapy_redis.dupefilter import RFPDupeFilter
from scrapy_redis.queue import Base

from scrapy_rep.base.compat import (
    concurrent_requests,
    is_closing,
    is_scraper_full,
    wake,
)
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import RequestDicts
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.frontier.backlog import HostKey, NoTerms, Terms
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.protocol.origins import written_origin
from scrapy_rep.redis.leases import Leases
from scrapy_rep.redis.worker import AT_ONCE, Link, Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Spider

    from scrapy_rep.crawl.frontier.backlog import Turns
    from scrapy_rep.redis.worker import Lease

# The seconds after which the end of a request is reported, and new requests are pushed, unless
# a pop does it before.
_REPORT_AFTER = 0.02

# A server that needs more seconds for a call is distant.
_NEAR = 0.02

# The seconds after which requests are given back that were handed out and not popped. If the server
# is distant, twice as long as the call took.
_GIVE_BACK_AFTER = 0.1

# The most requests that are handed out at once: so many times CONCURRENT_REQUESTS.
_MOST_AT_ONCE = 2

# The seconds after which an idle worker asks the server again. The server does not notify
# it when another worker pushes a request. If the queue is empty, Scrapy's own heartbeat, every five
# seconds, is often enough.
_ASK_EVERY = 0.5

# The seconds after which requests that were kept in memory are sent again.
_SEND_EVERY = 1.0

# The seconds after which other workers may use a queue again whose clearing has stopped: its worker was
# killed.
_MAX_CLEARING = 60

_MIN_READY = 64

_fingerprints: WeakKeyDictionary[Request, tuple[RedisDupeFilter, str]] = (
    WeakKeyDictionary()
)


class RedisDupeFilter(RFPDupeFilter):
    """scrapy-redis' filter, for :class:`RedisHostQueue`.

    The queue writes the fingerprint of a request in the same step as the request. If a
    worker were killed between two steps, the request would count as seen but be in no queue.
    If the server fails, the queue keeps the request in memory, and looks for duplicates when
    the server is back.

    In a Redis Cluster, the keys of the filter and the queue must have the same hash tag:
    ``SCHEDULER_DUPEFILTER_KEY = "{%(spider)s:requests}:dupefilter"``, where the part in
    braces is ``SCHEDULER_QUEUE_KEY``.
    """

    def request_seen(self, request: Request) -> bool:
        """Return False: the queue looks for duplicates, a batch at a time, and drops them."""
        _fingerprints[request] = self, self.request_fingerprint(request)
        return False


class RedisHostQueue(Base):
    """Keeps the requests of a crawl with several workers by host, on their Redis server.

    For ``SCHEDULER_QUEUE_CLASS`` of scrapy-redis. ``pop`` hands out the best request of a
    host that is ready, and makes the host wait for its delay, in one step on the server. So all
    workers together keep the delay of a host, and have at most
    ``CONCURRENT_REQUESTS_PER_DOMAIN`` requests to it in flight. A request stays on the server
    until its callback is done and the output is processed. If a worker does not renew its lease
    for ``REP_QUEUE_LEASE`` seconds, other workers get its requests.

    A host is ready only when its robots.txt is known. One worker fetches it for all.

    All keys begin with the key of the queue as a hash tag, so that in a Redis Cluster they
    are on one server. The key of the duplicate filter must have the same hash tag.
    """

    def __init__(
        self, server: Any, spider: Spider, key: str, serializer: Any = None
    ) -> None:
        super().__init__(server, spider, key, serializer)
        crawler = spider.crawler
        assert crawler is not None
        settings = RepSettings.of(crawler)
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._frontier: Turns = Frontier.of(crawler)
        self._clock, self._alarms = self._frontier.clock, self._frontier.alarms
        self._link = link = Link(server, self._clock, self._logger)
        self._prefix = f"{{{self.key}}}"
        self._worker = Worker(
            link,
            self._clock,
            self._prefix,
            settings.queue_lease,
            wait_timeout=settings.wait_timeout,
            on_paused=self._frontier.paused_elsewhere,
            on_lost=self._lost,
        )
        self._places = concurrent_requests(crawler)
        self._enough = max(_MIN_READY, 2 * self._places)
        self._dicts = RequestDicts(crawler)
        self._leases = Leases(
            crawler, self._worker, self._frontier.closed_unsent, self._call_soon
        )
        self._frontier.attach(self._leases)
        self._refused: deque[Lease] = deque()
        """A request of each queue whose requests are refused: its robots.txt is unreachable for too
        long.
        """

        self._has_unreadable = False
        """Whether the log has named a request that this worker cannot read."""

        self._keeps_for = _GIVE_BACK_AFTER
        self._kept_until = self._ask_at = self._called_at = float("-inf")
        """Until when what was handed out is kept; from when the server is asked for more; and the last call."""

        self._rests_until = float("-inf")
        """When the event loop has had as much time since the last call to a distant server as
        that has blocked it: what ends meanwhile goes into one call."""

        self._calls_at = float("inf")
        """When the next call is made, unless a pop makes one before."""

        self._idle_seconds = 0.0
        self._last_request = self._clock.monotonic()
        connect = crawler.signals.connect
        connect(self._spider_opened, signals.spider_opened)
        connect(self._spider_idle, signals.spider_idle)
        connect(self._spider_closed, signals.spider_closed)

    # For the scheduler.

    def __len__(self) -> int:
        """The number of requests that are not done, including those that workers have taken. At
        least 1 before the spider closes for a reason of its own.
        """
        return max(self._worker.count_all(), self._worker.is_lost)

    def push(self, request: Request) -> None:
        """Add *request*.

        If the server fails, the request is kept in memory until the server works again.
        Raises the error of the serialiser if that can't serialise the request.
        """
        key = self._frontier.key_of(request)
        data = self._encode_request(request)
        if isinstance(data, str):
            data = data.encode()
        found = _fingerprints.pop(request, None)
        seen = ("", "") if found is None else (found[0].key, found[1])
        self._worker.push(
            name_of(key),
            -request.priority,
            data,
            seen,
            on_seen=lambda: self._drop(request, found and found[0]),
        )
        is_resting = self._clock.monotonic() < self._rests_until
        if self._worker.unsent >= AT_ONCE and not (is_resting or self._link.is_failing):
            self._exchange(0)
        else:
            self._call_soon()

    def _encode_request(self, request: Request) -> Any:
        return self.serializer.dumps(self._dicts.to_dict(request))

    def _drop(self, request: Request, dupefilter: RedisDupeFilter | None) -> None:
        """Do what the scheduler and the engine do with a duplicate."""
        if dupefilter is not None:
            dupefilter.log(request, self.spider)
        self._crawler.stats.inc_value("scheduler/enqueued/redis", -1)
        self._crawler.signals.send_catch_log(
            signals.request_dropped, request=request, spider=self.spider
        )

    def pop(self, timeout: float = 0) -> Request | None:
        """Pop the best request of a host that is ready; None if no host is. Does not block: the
        spider stays open for *timeout* seconds without a request.
        """
        self._idle_seconds = timeout
        room = self._frontier.room()
        if not room:
            return None
        self._give_back_old()
        if not self._worker.buffer:
            self._ask_if_due(room)
        return self._start_next()

    def _ask_if_due(self, room: int) -> None:
        """Ask the server for requests, unless it has said that none is ready yet."""
        self._leases.settle()
        now = self._clock.monotonic()
        if now >= self._ask_at or self._worker.has_ended or self._refused:
            if now >= self._rests_until:
                self._exchange(max(self._wanted(room), 1))
            else:
                self._call_at(self._rests_until)

    def _wanted(self, room: int) -> int:
        """The number of requests to ask for: those for which the downloader has *room*, and as many
        as will leave it while they are kept, by what has left it since the last call.
        """
        if is_scraper_full(self._crawler):
            return 0
        since = max(self._clock.monotonic() - self._called_at, self._keeps_for / 2)
        room += round(self._worker.just_left * self._keeps_for / since)
        return min(
            max(room - len(self._worker.buffer), 0), _MOST_AT_ONCE * self._places
        )

    def _exchange(self, wanted: int) -> None:
        """Tell the server what has happened, and ask it for requests, and for hosts whose
        robots.txt to fetch.
        """
        order: dict[str, Any] = {}
        if wanted:
            quota = self._frontier.room_for_rules()
            order = {"wanted": wanted, "quota": quota, "enough": self._enough}
            order |= self._leases.limits
            if self._refused:
                order["refuses"] = self._refused[0].queue
        began = self._clock.monotonic()
        answer = self._worker.exchange(**order)
        now = self._clock.monotonic()
        took = now - began
        self._called_at, self._keeps_for = now, max(2 * took, _GIVE_BACK_AFTER)
        self._rests_until = now + took if took > _NEAR else now
        self._calls_at = float("inf")
        found = () if answer is None else answer.found
        if found:
            self._kept_until = now + self._keeps_for
        if answer is not None:
            for lease in answer.wanted:
                # If it is fetched already, this worker was taken for dead meanwhile.
                if self._worker.fetching[lease.queue] is lease:
                    self._want_rules(lease, lease.delay)
            if "refuses" in order:
                self._took_refused(found)
        if wanted and not found:
            self._ask_at = now + min(self._worker.again, _ASK_EVERY)
        self._schedule()

    def _took_refused(self, found: Sequence[Lease]) -> None:
        """Note that *found* has requests of the first refused queue, or that it has no more."""
        refused = self._refused.popleft()
        if any(lease.queue == refused.queue for lease in found):
            self._want_rules(refused)
        else:
            del self._worker.fetching[refused.queue]

    def _start_next(self) -> Request | None:
        """Start the next request that was handed out, if there is one that can be read."""
        # Else other workers may have it.
        while self._worker.buffer and self._worker.is_alive:
            request = self._start(self._worker.buffer.popleft())
            if request is not None:
                return request
        return None

    def _give_back_old(self) -> None:
        """Give back what was not popped in time. Its host may have asked for a pause since."""
        if self._clock.monotonic() >= self._kept_until:
            self._worker.give_back()

    def clear(self) -> None:
        """Remove all requests, and the state of all hosts. An empty queue stays as it is for other
        workers, if there were any within a lease: the last one removes it.
        """
        server, state = self.server, f"{self._prefix}:state"
        server.unlink(self.key)  # Of a queue of scrapy-redis itself.
        has_others = server.zcard(f"{self._prefix}:workers") > 1
        if self._worker.count_all() or not has_others:
            # From now on, no call of a worker changes anything until the state is gone, too.
            closing = server.pipeline().hset(state, "mark", "")
            closing.expire(state, _MAX_CLEARING).execute()
            escaped = "".join(f"\\{c}" if c in "*?[]\\" else c for c in self._prefix)
            # If this worker is killed, the queues that are left can be counted by their hosts.
            for names in ("queue:*", "*"):
                for key in server.scan_iter(f"{escaped}:{names}", count=1_000):
                    if key not in {state, state.encode()}:
                        step = server.pipeline().unlink(key)
                        step.expire(state, _MAX_CLEARING).execute()
            server.unlink(state)
        self._worker.cleared()

    # The rules of hosts, for all workers.

    def _want_rules(self, lease: Lease, delay: float = 0.0) -> None:
        """Find out the robots.txt of the queue of *lease*, on behalf of its request."""
        key = _key_of(lease.queue)
        first = self._read(lease) or Request(str(key.origin))
        self._frontier.want_rules(key, first, partial(self._told, lease), delay)

    def _told(self, lease: Lease, terms: Terms | NoTerms) -> None:
        """Report the robots.txt of a queue, unless its requests are refused."""
        if terms is NoTerms.REFUSED:
            self._refused.append(lease)
        else:
            known = terms if isinstance(terms, Terms) else None
            self._worker.report_rules(lease.queue, known)
        self._call_soon()

    # Requests of this worker.

    def _start(self, lease: Lease) -> Request | None:
        request = self._read(lease)
        if request is None:
            self._worker.report_unreadable(lease)
            # None tells the engine that there is no request, but there may be others.
            self._call_soon()
            return None
        key = self._frontier.key_of(request)
        self._leases.add(request, lease, key.slot)
        if lease.has_place:  # Otherwise the middleware refuses it.
            self._frontier.started(key, request, lease.delay)
        self._last_request = self._clock.monotonic()
        return request

    def _read(self, lease: Lease) -> Request | None:
        """Return the request of *lease*; None if this worker cannot read it."""
        try:
            found: Request = self._decode_request(lease.data)
        except Exception as error:  # noqa: BLE001  A serialiser can raise any error.
            if not self._has_unreadable:
                self._has_unreadable = True
                self._logger.error(
                    "A request to %(host)s in the queue in Redis cannot be read: %(error)r. This "
                    "worker does not send it, and leaves it to others, whose spider may have its "
                    "callback. This is logged once: at its end, each worker logs how many no "
                    "worker could read",
                    host=lease.host,
                    error=error,
                )
            return None
        return found

    def _lost(self) -> None:
        """Push again what this worker has, since the queue is gone, and close the spider."""
        self._leases.settle()
        for lease in (*self._worker.buffer, *self._worker.popped.values()):
            self._worker.push(lease.queue, lease.score, lease.data)
        if is_closing(self._crawler):
            if not (self._worker.unsent or self._worker.last_count):
                return  # The queue was empty when the spider began to close.
        else:
            self._frontier.stop("queue_lost")
        self._logger.error(
            "The queue %(key)s in Redis is lost: the server has another one, or none (FLUSHALL, a "
            "restart without persistence?). The requests that waited there, and the fingerprints "
            "of all requests, are lost. The %(count)d requests that this worker had are in the "
            "queue again, and requests in flight end, so their pages may be fetched twice. The "
            "worker closes; start the crawl again to fetch what is missing",
            key=self.key,
            count=self._worker.unsent,
        )

    # When to call the server.

    @property
    def _is_empty(self) -> bool:
        """Whether no worker had a request at the last call, so the engine need not be woken."""
        return not self._worker.last_count and not self._link.is_failing

    def _call_soon(self) -> None:
        self._call_at(self._clock.monotonic() + _REPORT_AFTER)

    def _call_at(self, moment: float) -> None:
        if moment < self._calls_at:
            self._calls_at = moment
            self._alarms.at(moment, self._call)

    def _call(self) -> None:
        """Tell the server what has happened, if a pop has not done that, and wake the engine."""
        now = self._clock.monotonic()
        if now < self._calls_at:
            return  # A pop has made the call.
        was_empty = self._is_empty
        self._calls_at = float("inf")
        self._leases.settle()
        if now < self._rests_until:
            self._call_at(self._rests_until)
            return
        room = self._frontier.room()
        wanted = self._wanted(room) if room and self._worker.has_reports else 0
        self._give_back_old()
        if self._worker.has_reports or now >= self._worker.renews_at:
            self._exchange(wanted)
        self._schedule()
        if not (was_empty and self._is_empty):
            wake(self._crawler)

    def _schedule(self) -> None:
        """Schedule the next call."""
        now = self._clock.monotonic()
        self._call_at(max(self._worker.renews_at, now + _SEND_EVERY))
        if self._worker.has_reports:
            self._call_at(now + _SEND_EVERY)
        if self._worker.buffer:
            self._call_at(self._kept_until)
        if self._ask_at > now and not self._is_empty:
            self._call_at(self._ask_at)

    # The spider.

    def _spider_opened(self) -> None:
        self._schedule()  # From now on, its lease is renewed.
        count = self._count_strange()
        if count:
            self._logger.warning(
                "%(count)d requests are in the queue %(key)s, which another queue class than "
                "scrapy-rep's has written. This crawl does not send them, and their URLs count as "
                "seen. To send them, let that queue run empty first, with SCHEDULER_QUEUE_CLASS = "
                '"scrapy_redis.queue.PriorityQueue"; to drop them, delete the key, and that of '
                "the duplicate filter",
                count=count,
                key=self.key,
            )

    def _count_strange(self) -> int:
        """Return how many requests a queue of scrapy-redis itself has under this key, whichever kind."""
        for count in (self.server.zcard, self.server.llen):
            # One of another kind; or the server fails, as the next call says.
            with suppress(RedisError):
                return int(count(self.key))
        return 0

    def _spider_idle(self) -> None:
        """Keep the spider open for ``SCHEDULER_IDLE_BEFORE_CLOSE`` seconds."""
        closes_at = self._last_request + self._idle_seconds
        if self._clock.monotonic() < closes_at:
            self._alarms.at(closes_at, wake, self._crawler)
            raise DontCloseSpider

    def _spider_closed(self) -> None:
        self._leases.settle()
        answer = self._worker.exchange(retires=True)
        if answer is not None and answer.set_aside:
            self._logger.error(
                "%(count)d requests could be read by no worker so far, and were not sent. They stay "
                "in Redis (%(key)s), for a worker whose spider has their callbacks",
                count=answer.set_aside,
                key=f"{self._prefix}:aside",
            )
        if self._worker.unsent:
            self._logger.error(
                "%(count)d requests are lost: they were in the memory of this worker, and the "
                "queue in Redis had not worked again when the worker ended",
                count=self._worker.unsent,
            )
        self._link.close()


def name_of(key: HostKey) -> str:
    """The name on the Redis server of the queue of requests with *key*: a host, a tab, and an
    origin.

    Delays apply to a host. The name for requests without a robots.txt is their download
    slot and a tab: only the limit of the slot applies to them.
    """
    if key.origin is None:
        return " ".join(key.slot.split()) + "\t"
    return f"{key.host}\t{key.origin}"


def _key_of(name: str) -> HostKey:
    """Return the key of the robots.txt for the queue with this *name*."""
    host, _, origin = name.partition("\t")
    return HostKey(host, written_origin(origin))
