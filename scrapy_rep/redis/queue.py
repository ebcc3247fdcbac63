"""The host queue for scrapy-redis, which all workers share."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError
from scrapy import Request, signals
from scrapy.exceptions import DontCloseSpider
from scrapy_redis.queue import Base

from scrapy_rep.base.compat import (
    active_requests,
    is_closing,
    is_scraper_full,
    shared_component,
    wake,
)
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.frontier.backlog import HostKey
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.crawl.frontier.requests import KnownMethods
from scrapy_rep.redis.dupefilter import take_fingerprint
from scrapy_rep.redis.leases import Leased
from scrapy_rep.redis.wanted import Wanted, name_of
from scrapy_rep.redis.worker import AT_ONCE, Link, Worker, leases_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Spider

    from scrapy_rep.redis.dupefilter import DupeFilter
    from scrapy_rep.redis.worker import Popped

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

_MIN_READY = 64

# What a request has in its meta if its scopes are not those of its queue.
_OWN_SLOT = frozenset({"download_slot", "redirect_urls"})


class HostQueue(Base):
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
        self._frontier = Frontier.of(crawler)
        self._frontier.queues.append(self)
        self._clock, self._alarms = self._frontier.clock, self._frontier.alarms
        self._link = link = shared_component(crawler, Link)
        link.connect(server)
        self._prefix = f"{{{self.key}}}"
        self._worker = Worker(
            link,
            self._clock,
            self._prefix,
            settings.queue_lease,
            obeys=self._frontier.hosts is not None,
            wait_max=settings.wait_max,
            on_paused=self._paused,
            has=self._has,
            on_lost=self._lost,
        )
        self._places = crawler.settings.getint("CONCURRENT_REQUESTS")
        self._enough = max(_MIN_READY, 2 * self._places)
        self._methods = KnownMethods(crawler)
        self._wanted = Wanted(self._frontier, self._worker, self, self._read)
        self._leased = Leased(crawler, self._worker)
        self._handed_out: deque[Popped] = deque()
        """The requests that the server has handed out, and that are popped next."""

        self._generation = 0
        """The generation of the worker in which the server has done that."""

        self._has_refused = False
        """Whether the last ones are refused."""

        self._has_unreadable = False
        """Whether the log has named a request that this worker cannot read."""

        self._keeps_for = _GIVE_BACK_AFTER
        self._kept_until = self._ask_at = self._called_at = float("-inf")
        """Until when those are kept; from when the server is asked for more; and the last call."""

        self._rests_until = float("-inf")
        """When the event loop has had as much time since the last call to a distant server as
        that has blocked it: what ends meanwhile goes into one call."""

        self._calls_at = float("inf")
        """When the next call is made, unless a pop makes one before."""

        self._idle_seconds = 0.0
        self._last_request = self._clock.monotonic()
        self._wanted.on_change = self._leased.on_change = self._call_soon
        self._frontier.leases = self._leased
        connect = crawler.signals.connect
        connect(self._left_downloader, signals.request_left_downloader)
        connect(self._spider_opened, signals.spider_opened)
        connect(self._spider_idle, signals.spider_idle)
        connect(self._spider_closed, signals.spider_closed)

    # For the scheduler.

    def __len__(self) -> int:
        """The number of requests that are not done, including those that workers have taken. At
        least 1 before the spider closes for a reason of its own.
        """
        return max(self._worker.count_all(), self._frontier.is_stopped)

    def push(self, request: Request) -> None:
        """Add *request*.

        If the server fails, the request is kept in memory until the server works again.
        Raises the error of the serialiser if that can't serialise the request.
        """
        key = self._frontier.key_of(request)
        data = self._encode_request(request)
        if isinstance(data, str):
            data = data.encode()
        found = take_fingerprint(request)
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
        return self.serializer.dumps(self._methods.to_dict(request))

    def _drop(self, request: Request, dupefilter: DupeFilter | None) -> None:
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
        frontier = self._frontier
        frontier.settle()
        if frontier.has_room and not frontier.is_stopped:
            self._give_back_old()
            if not self._handed_out and not self._take_refused():
                self._ask_if_due()
        # What continues now may report which requests have ended: one that is popped, but not
        # in the engine yet, would look as if it had.
        frontier.flush()
        may_start = frontier.has_room and not frontier.is_stopped
        return self._start_next() if may_start else None

    def _take_refused(self) -> bool:
        """Take some requests to refuse, if the last ones were to be sent. Return whether there are
        any.
        """
        found = () if self._has_refused else self._wanted.take_refused()
        self._has_refused = bool(found)
        self._hand_out(found)
        return self._has_refused

    def _hand_out(self, found: Sequence[Popped]) -> None:
        """Keep what the server has handed out, to be popped next."""
        if self._generation != self._worker.generation:
            # Other workers have got what it had handed out before.
            self._handed_out.clear()
            self._generation = self._worker.generation
        self._handed_out.extend(found)
        if found:
            self._kept_until = self._clock.monotonic() + self._keeps_for

    def _ask_if_due(self) -> None:
        """Ask the server for requests, unless it has said that none is ready yet."""
        self._leased.settle()
        now = self._clock.monotonic()
        if now >= self._ask_at or self._worker.has_ended:
            if now >= self._rests_until:
                self._exchange(max(self._room, 1))
            else:
                self._call_at(self._rests_until)

    @property
    def _room(self) -> int:
        """The number of requests to ask for: those for which the downloader has room, and as many
        as will leave it while they are kept, by what has left it since the last call.
        """
        if not self._frontier.has_room or is_scraper_full(self._crawler):
            return 0
        room = max(self._places - len(active_requests(self._crawler)), 0)
        since = max(self._clock.monotonic() - self._called_at, self._keeps_for / 2)
        room += round(self._worker.just_left * self._keeps_for / since)
        return min(max(room - len(self._handed_out), 0), _MOST_AT_ONCE * self._places)

    def _exchange(self, wanted: int) -> None:
        """Tell the server what has happened, and ask it for requests, and for hosts whose
        robots.txt to fetch.
        """
        order = {}
        if wanted:
            self._worker.limits = self._leased.limits
            quota = self._wanted.quota
            order = {"wanted": wanted, "quota": quota, "enough": self._enough}
        began = self._clock.monotonic()
        answer = self._worker.exchange(**order)
        now = self._clock.monotonic()
        took = now - began
        self._called_at, self._keeps_for = now, max(2 * took, _GIVE_BACK_AFTER)
        self._rests_until = now + took if took > _NEAR else now
        self._calls_at = float("inf")
        found = () if answer is None else answer.found
        self._hand_out(found)
        if answer is not None:
            self._wanted.begin(answer.wanted)
        if wanted and not found:
            self._ask_at = now + min(self._worker.again, _ASK_EVERY)
        self._schedule()

    def _start_next(self) -> Request | None:
        """Start the next request that was handed out, if there is one that can be read."""
        self._hand_out(())
        # Else other workers may have it.
        while self._handed_out and self._worker.is_alive:
            request = self._start(self._handed_out.popleft())
            if request is not None:
                return request
        return None

    def _paused(self, host: str, *times: float) -> None:
        """Note that a host has asked a worker for a pause."""
        self._frontier.pauses.paused_elsewhere(host, *times)
        self._give_back([one for one in self._handed_out if one.host == host])

    def _give_back_old(self) -> None:
        """Give back what was not popped in time. Its host may have asked for a pause since."""
        if self._handed_out and self._clock.monotonic() >= self._kept_until:
            self._give_back(list(self._handed_out))

    def _give_back(self, unused: list[Popped]) -> None:
        """Let other workers have requests that this one does not use."""
        for popped in unused:
            self._handed_out.remove(popped)
            self._worker.back(popped.number)

    def clear(self) -> None:
        """Remove all requests, and the state of all hosts. Other workers on an empty queue need not
        know: for them it stays the same one.
        """
        workers, mark = (f"{self._prefix}:{name}" for name in ("workers", "mark"))
        is_empty = self._worker.count_all() == 0
        kept = {workers, mark} if is_empty and self.server.zcard(workers) > 1 else set()
        escaped = "".join(f"\\{c}" if c in "*?[]\\" else c for c in self._prefix)
        for key in self.server.scan_iter(f"{escaped}:*", count=1_000):
            if (key if isinstance(key, str) else key.decode()) not in kept:
                self.server.unlink(key)
        self.server.unlink(self.key)  # Of a queue of scrapy-redis itself.
        self._handed_out.clear()
        self._worker.cleared()

    # For the frontier.

    def count_waiting(self) -> None:
        """Return None: only Redis knows how many requests wait."""

    def count_ready(self) -> int:
        """Return 0: the server counts the ready queues itself, in ``queue.lua``."""
        return 0

    # Requests of this worker.

    def _start(self, popped: Popped) -> Request | None:
        request = self._read(popped)
        if request is None:
            self._worker.unreadable(popped)
            # None tells the engine that there is no request, but there may be others.
            self._call_soon()
            return None
        key = HostKey(popped.host, None)
        if not _OWN_SLOT.isdisjoint(request.meta):
            key = self._frontier.key_of(request)
        self._leased.add(request, popped, key.slot)
        if popped.has_place:  # Otherwise the middleware refuses it.
            self._frontier.started(key, request)
        self._last_request = self._clock.monotonic()
        return request

    def _left_downloader(self, request: Request) -> None:
        if self._leased.on_left_downloader(request):
            self._call_soon()

    def _read(self, popped: Popped) -> Request | None:
        """Return the request in *popped*; None if this worker cannot read it."""
        try:
            found: Request = self._decode_request(popped.data)
        except Exception as error:  # noqa: BLE001  A serialiser can raise any error.
            if not self._has_unreadable:
                self._has_unreadable = True
                self._logger.error(
                    "A request to %(host)s in the queue in Redis cannot be read: %(error)r. This "
                    "worker does not send it, and leaves it to others, whose spider may have its "
                    "callback. This is logged once: at its end, each worker logs how many no "
                    "worker could read",
                    host=popped.host,
                    error=error,
                )
            return None
        return found

    def _lost(self) -> None:
        """Push again what this worker has, since the queue is gone, and close the spider."""
        self._leased.settle()
        held = [*self._leased.all_popped, *self._handed_out]
        self._handed_out.clear()
        for popped in held:
            self._worker.push(popped.queue, popped.score, popped.data)
        if is_closing(self._crawler):
            if not (held or self._worker.unsent or self._worker.last_count):
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

    def _has(self) -> list[str]:
        """What this worker has, for the server after a lost answer."""
        numbers = [each.number for each in self._handed_out]
        requests = [*self._leased.requests, *numbers]
        # The server ignores the places of requests that have none.
        places = [*self._leased.places, *numbers]
        return [*leases_of(requests, places), *self._wanted.queues]

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
        self._leased.settle()
        if now < self._rests_until:
            self._call_at(self._rests_until)
            return
        wanted = self._room if self._worker.has_reports else 0
        self._give_back_old()
        if self._worker.has_reports or now >= self._worker.renews_at:
            self._exchange(wanted)
            self._frontier.flush()
        self._schedule()
        if not (was_empty and self._is_empty):
            wake(self._crawler)

    def _schedule(self) -> None:
        """Schedule the next call."""
        now = self._clock.monotonic()
        self._call_at(max(self._worker.renews_at, now + _SEND_EVERY))
        if self._worker.has_reports:
            self._call_at(now + _SEND_EVERY)
        if self._handed_out:
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
        """Return how many requests a queue of scrapy-redis itself has under this key."""
        try:
            kind = self.server.type(self.key)
            text = kind if isinstance(kind, str) else kind.decode()
            count = {"zset": self.server.zcard, "list": self.server.llen}.get(text)
            return 0 if count is None else int(count(self.key))
        except RedisError:
            return 0  # The next call says that the server fails.

    def _spider_idle(self) -> None:
        """Keep the spider open for ``SCHEDULER_IDLE_BEFORE_CLOSE`` seconds."""
        closes_at = self._last_request + self._idle_seconds
        if self._clock.monotonic() < closes_at:
            self._alarms.at(closes_at, wake, self._crawler)
            raise DontCloseSpider

    def _spider_closed(self) -> None:
        self._leased.settle()
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
