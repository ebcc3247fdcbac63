"""The scheduler of a worker, in a crawl with several workers. The worker owns hosts, and takes their requests from the
Redis server in batches.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from importlib import import_module
from math import ceil, inf
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError
from scrapy import signals
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.request import request_from_dict
from scrapy_redis import defaults
from scrapy_redis.dupefilter import RFPDupeFilter as RedisDupeFilter
from twisted.internet.defer import Deferred

from scrapy_rep.base.compat import (
    concurrent_requests,
    is_closing,
    requests_in_progress,
    wake,
)
from scrapy_rep.base.requests import RequestDicts
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.frontier.scheduler import Scheduler
from scrapy_rep.redis.exchange import (
    MAX_PUSHES,
    Answer,
    Exchange,
    Push,
    QueueLost,
    ServerThread,
    Taken,
    connect,
    is_full,
)
from scrapy_rep.redis.hosts import Lease, OwnedHost, OwnedRequests, name_of
from scrapy_rep.redis.permits import SharedPermits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler

    from scrapy_rep.crawl.frontier.limiter import Limiter
    from scrapy_rep.crawl.frontier.limits import Queue

# The number of seconds between two calls to the server, in five cases. _SOON: this worker has something to report or to
# ask for. _BUSY: requests of this worker are in flight or in their callbacks. _WAITING: this worker owns hosts, or
# requests of other workers are not done yet, so that their callbacks may yield new requests. _IDLE: all requests of all
# workers are done. _FAILED: the last call failed.
_SOON, _BUSY, _WAITING, _IDLE, _FAILED = 0.02, 0.05, 0.2, 1.0, 1.0

# A worker renews its lease at the latest when this fraction of the lease's duration has passed.
_PART_OF_LEASE = 1 / 4

# A worker takes enough requests in advance to stay busy during this number of calls to the Redis server. The duration
# of one call is too short: before the requests of a new host can be sent, its robots.txt must be fetched, which can
# take longer than a call.
_CALLS_AHEAD = 3

# In one round, each request in flight ends, and another request is sent in its place. The first number is the assumed
# duration of a round in seconds. The second is the maximum number of rounds for which a worker takes requests in
# advance.
_ROUND, _MAX_ROUNDS = 0.1, 20

# How many requests to one host a worker takes from the server in one call: _BATCH requests for each round (see _ROUND)
# for which the worker needs requests, but at most _MAX_BATCH requests in total.
_BATCH, _MAX_BATCH = 16, 200

# The maximum number of a host's requests that a worker keeps while the host's robots.txt is unknown.
_MAX_WAITING = 2 * _MAX_BATCH

# A factor for the number of requests that a worker takes in advance. If the downloader can send 100 requests during the
# next _CALLS_AHEAD calls to the Redis server, the worker takes new hosts until it has 150 requests.
_AHEAD = 1.5

# A worker that has this many requests from the server takes no new hosts. Without this maximum, a worker could collect
# very many requests to hosts that do not answer.
_MAX_TAKEN = 20_000

# A worker gives a host back to the Redis server, so that other workers can take the host, in two cases: for _EMPTY_FOR
# seconds, no request to the host has been waiting or in progress; or the next request to the host must wait for more
# than _FAR seconds.
_EMPTY_FOR, _FAR = 2.0, 30.0

# The maximum rank of a request. Requests with a higher rank are sent earlier. The request's score on the server is the
# negative rank, because requests with a lower score are delivered earlier there. The server subtracts 2^50 from the
# score of a request that is given back. With ranks up to this maximum, all scores are integers that the server's
# floating-point numbers represent exactly.
_MAX_RANK = 2**40

# When a worker ends, it makes some last calls to the server. It stops after this many failed calls in a row.
_TRIES_AT_END = 2


class SharedScheduler(Scheduler):
    """A scheduler for several workers that share a request queue on a Redis server.

    The add-on replaces ``scrapy_redis.scheduler.Scheduler`` with this class, which follows the settings of
    scrapy-redis. New requests are sent to the Redis server, together with their fingerprints. Each host belongs to
    one worker at a time, by a lease (``REP_QUEUE_LEASE``). The owner takes the host's requests in batches, and
    applies rules, delays and pauses to the host in the same way as a crawl with one worker. The server keeps a
    request until the request's callback has ended, so no request is lost when a worker is killed.

    The event loop never waits for the server. A coroutine repeatedly calls the server on a thread. Each call reports
    the requests that are done, and brings new requests.
    """

    uses_jobdir = False

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._clock, self._alarms = self._frontier.clock, self._frontier.alarms
        self._read_settings(crawler)
        self._dicts = RequestDicts(crawler)
        self._thread = ServerThread()

        # The requests of this worker.
        self._taken: dict[Request, Taken] = {}
        """The requests that this worker took from the server, until they are done or given back."""

        self._popped: set[Request] = set()
        """The requests that this worker took from the server and handed out to Scrapy's engine, and that are not done
        yet."""

        self._popped_since_call = 0
        """How many requests this scheduler has handed out to Scrapy's engine since the start of the last call to the
        Redis server. Requests that were never on the Redis server do not count."""

        self._pages: dict[Request, str] = {}
        """The requests that are not done and count towards the maximum number of pages of a host
        (``REP_PAGES_PER_HOST``). The value is the host."""

        self._seen_here: set[str] = set()
        """The fingerprints of requests that cannot be serialised for Redis. Such requests wait in this worker's memory.
        """

        # The state of the queue on the server.
        self._total = 1
        """The number of all workers' requests that are not done, according to the server's last answer. It is 1 before
        the first answer, because the queue may contain requests."""

        self._last_tried_place = "0"
        """The place of a request, as a decimal number in a string. If a worker cannot deserialise a request, the Redis
        server keeps it apart from the queue, under an increasing number (its place). Then each other worker tries to
        deserialise it. This is the place of the last request that this worker has tried; ``"0"`` if there is none."""

        self._readable_places: list[str] = []
        """The requests that another worker could not deserialise, but this worker can. Each is represented by its
        place, the number under which the Redis server stores it. This worker takes the requests in its next call to the
        server."""

        self._set_aside = 0
        """The number of requests that the server has set aside, because no worker could deserialise them so far,
        according to the server's last answer."""

        # The calls to the server.
        self._call_seconds = 0.0
        """The duration of the last call that the Redis server answered, in seconds."""

        self._next_at = inf
        self._asleep: Deferred[None] | None = None
        self._end_of_calls: Deferred[None] | None = None
        """Fires when the loop that regularly calls the Redis server has ended, because the scheduler was closed. None
        if the loop has not started yet."""

        self._last_request = self._clock.monotonic()
        self._has_begun = self._is_failing = self._is_closed = False
        self._has_unreadable = self._is_lost = False
        self._frontier.politeness.collect_pauses()
        if self._frontier.budget is not None:
            self._frontier.budget.store_with(self)
        self._permits = self._frontier.permits = SharedPermits(
            self._frontier, self._lease, self._call_soon
        )
        crawler.signals.connect(self._spider_idle, signals.spider_idle)

    def _read_settings(self, crawler: Crawler) -> None:
        """Read the settings of scrapy-redis. Raises TypeError if SCHEDULER_IDLE_BEFORE_CLOSE is negative."""
        settings, names = crawler.settings, {"spider": self._spider.name}
        self._persists = settings.getbool("SCHEDULER_PERSIST")
        self._idle_seconds = settings.getint("SCHEDULER_IDLE_BEFORE_CLOSE")
        if self._idle_seconds < 0:
            raise TypeError("SCHEDULER_IDLE_BEFORE_CLOSE cannot be negative")
        serializer = settings.get("SCHEDULER_SERIALIZER") or "scrapy_redis.picklecompat"
        is_path = isinstance(serializer, str)
        self._serializer: Any = import_module(serializer) if is_path else serializer
        self._concurrency = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN") or 1
        key = settings.get("SCHEDULER_QUEUE_KEY") or defaults.SCHEDULER_QUEUE_KEY
        seen_key = (
            settings.get("SCHEDULER_DUPEFILTER_KEY")
            or defaults.SCHEDULER_DUPEFILTER_KEY
        )
        self._key = str(key) % names
        self._lease = Lease(self._clock, RepSettings.of(crawler).queue_lease)
        self._exchange = Exchange(
            connect(settings), self._key, seen_key % names, self._lease.seconds
        )

    def _made_dupefilter(self) -> BaseDupeFilter:
        """Return the project's own duplicate filter. If the project uses the filter of Scrapy or scrapy-redis, return a
        filter that drops nothing, because the Redis server finds the duplicates.
        """
        crawler = self._crawler
        assert crawler.spider is not None
        self._spider = crawler.spider
        kind = load_object(crawler.settings["DUPEFILTER_CLASS"])
        has_spider = hasattr(kind, "from_spider")
        self._fingerprinter: Any = (
            kind if has_spider else RedisDupeFilter
        ).from_spider(crawler.spider)
        request_seen = getattr(kind, "request_seen", None)
        is_on_server = request_seen is RedisDupeFilter.request_seen
        self._has_own_filter = not (is_on_server or kind is RFPDupeFilter)
        if not self._has_own_filter:
            # The Redis server stores a request and its fingerprint in one step. If the fingerprint were stored first,
            # as scrapy-redis does, the request would be lost if the worker died before it stored the request.
            return BaseDupeFilter()
        made: BaseDupeFilter = (
            self._fingerprinter if has_spider else build_from_crawler(kind, crawler)
        )
        return made

    # Scrapy's interface.

    def __len__(self) -> int:
        """Return the number of all workers' requests that are not done, as far as this worker knows."""
        return max(self._total, 0) + len(self._exchange.unsent)

    def has_pending_requests(self) -> bool:
        """Return whether any worker may still have requests that are not done. True while the server fails."""
        is_missing = self._is_failing or bool(self._readable_places)
        return len(self) > 0 or self._count > 0 or is_missing

    def open(self, spider: Spider) -> Deferred[None]:
        """Called by Scrapy when the spider opens. Make the first call to the Redis server. The Deferred fires when the
        server has answered, and fails if the call fails. If the server answers that its memory is full, the Deferred
        does not fail: the crawl starts, because taking requests from the server frees memory.
        """
        self._order.warn_of_classes(self._logger)
        return deferred_from_coro(self._begin())

    def close(self, reason: str) -> Deferred[None] | None:
        """Called by Scrapy. Give all requests that are not done back to the server. The Deferred fires after the server
        has stored them, or after this worker gave up because the server failed. Return None if the scheduler was never
        open.
        """
        if self._end_of_calls is None:
            return None
        self._is_closed = True
        self._end_sleep()
        return deferred_from_coro(self._end(self._end_of_calls))

    def enqueue_request(self, request: Request) -> bool:
        """Called by Scrapy. Add *request* to the queue, from which any worker can take it. Return False if this worker
        knows that *request* is a duplicate; otherwise, return True. The server finds other duplicates later.

        Two kinds of requests stay in this worker, and are sent before the other requests of their host: requests that
        cannot be serialised for Redis, and requests that came back from the gate or the wire (downloader middlewares of
        this package) without being sent.
        """
        frontier = self._frontier
        if frontier.take_returned(request):
            self._take_back(request)
            return True
        fingerprint = self._fingerprint(request)
        if fingerprint is None:
            return False
        queue = frontier.queues.of(request)
        try:
            data = self._serializer.dumps(self._dicts.to_dict(request))
            if isinstance(data, str):
                data = data.encode()
        except Exception as error:  # noqa: BLE001  a serialiser can raise any
            self._keep_in_memory(queue, request, fingerprint, error)
            return True
        rank, is_last_first = self._order.of(request)
        rank = max(min(rank, _MAX_RANK), -_MAX_RANK)
        host = name_of(queue.key.slot)
        push = Push(host, -rank, is_last_first, fingerprint, data, request)
        self._exchange.unsent.append(push)
        self._call_soon()
        return True

    def next_request(self) -> Request | None:
        """Called by Scrapy. Return a request of this worker that can be sent now; None if there is none."""
        if not self._has_begun:
            # The first call of this method shows that the spider is open. Only from now on does this worker take hosts
            # from the Redis server, because it then fetches their robots.txt files, for which the spider must be open.
            self._has_begun = True
            self._call_soon()
        if not self._lease.is_valid or len(self._exchange.unsent) >= MAX_PUSHES:
            return None
        request = super().next_request()
        if request is not None:
            if request in self._taken:
                self._popped.add(request)
                self._popped_since_call += 1
            self._last_request = self._clock.monotonic()
            self._call_soon(_BUSY)
        return request

    def _spider_idle(self) -> None:
        """Keep the spider open until ``SCHEDULER_IDLE_BEFORE_CLOSE`` seconds have passed since this scheduler last
        handed out a request.
        """
        closes_at = self._last_request + self._idle_seconds
        if self._clock.monotonic() < closes_at:
            self._alarms.at(closes_at, wake, self._crawler)
            raise DontCloseSpider

    # New requests.

    def _fingerprint(self, request: Request) -> str | None:
        """Return the fingerprint with which the server checks whether *request* is a duplicate. Return an empty string
        if the server must not check that, and None if *request* is known to be a duplicate.
        """
        if request.dont_filter:
            return ""
        if self._has_own_filter:
            if not self._dupefilter.request_seen(request):
                return ""
            self._dupefilter.log(request, self._spider)
            return None
        fingerprint = self._fingerprinter.request_fingerprint(request)
        is_binary = isinstance(fingerprint, bytes)
        text: str = fingerprint.hex() if is_binary else str(fingerprint)
        return None if text in self._seen_here else text

    def _keep_in_memory(
        self, queue: Queue, request: Request, fingerprint: str, error: Exception
    ) -> None:
        """Keep *request* in the memory of this worker, because it cannot be serialised for Redis: *error* is the
        reason. Only this worker can send *request*, and sends it before the other requests of *queue*.
        """
        self._note_unwritable(request, error)
        self._seen_here |= {fingerprint} - {""}
        self._requests_of(queue).back(request)
        self._count_enqueued("memory", 1)
        self._filled(queue, request)

    def _count_enqueued(self, medium: str, count: int) -> None:
        """Count *count* new requests in Scrapy's stats. *medium* says where they are stored, in ``"redis"`` or in
        ``"memory"`` (of this worker).
        """
        self._stats.inc_value(f"scheduler/enqueued/{medium}", count)
        self._stats.inc_value("scheduler/enqueued", count)

    def _filled(self, queue: Queue, request: Request) -> None:
        self._count += 1
        self._frontier.enqueued(queue, request)

    # The requests of this worker.

    def _take_back(self, request: Request) -> None:
        """Put *request*, which this scheduler handed out but which was not sent, back to the front of its queue in this
        worker. Drop *request* if another worker may have taken it.
        """
        if request not in self._lease.lost:
            self._popped.discard(request)
            super()._take_back(request)

    def _requests_of(self, queue: Queue) -> Any:
        """Return the container for the requests of *queue* that wait in this worker. Create the container if there is
        none.
        """
        if queue.requests is None:
            queue.requests = OwnedRequests(self._order, self._taken)
        return queue.requests

    def _read(self, taken: Taken) -> Request | None:
        """Deserialise and return the request in *taken*. Return None if this worker cannot deserialise it, and log the
        first such error.
        """
        try:
            fields = self._serializer.loads(taken.data)
            return request_from_dict(fields, spider=self._crawler.spider)
        except Exception as error:  # noqa: BLE001  a serialiser can raise any
            if not self._has_unreadable:
                self._has_unreadable = True
                self._logger.error(
                    "This worker cannot read a request to %(host)s in the Redis queue: %(error)r. The request stays in "
                    "Redis for a worker whose spider has the request's callback. Further such errors are not logged. "
                    "When a worker ends, it logs the number of requests that no worker could read",
                    host=taken.host,
                    error=error,
                )
            return None

    def _forget(self) -> list[Taken]:
        """Forget the hosts and requests of this worker, its permits to send requests, and everything that it would
        report to the server in the next call. Return the requests that this worker had taken from the server.
        """
        for queue in self._frontier.limits.queues.values():
            self._take_all(queue)
        requests = list(self._taken.values())
        self._lease.hosts.clear()
        self._taken.clear()
        self._popped.clear()
        self._pages.clear()
        self._permits.held.clear()
        self._exchange.reports.clear()
        return requests

    def _take_all(self, queue: Queue) -> list[Request]:
        """Remove and return the requests of *queue* that were taken from the server."""
        if queue.requests is None:
            return []
        requests: list[Request] = queue.requests.take_all()
        self._count -= len(requests)
        return requests

    # The reports of this worker.

    def _note_done(self) -> None:
        """Add each request that has ended to the reports of the next call to the Redis server. Usually, the request is
        reported as done. If the request was interrupted because the spider closes, it is given back to the Redis server
        instead, so that another worker can send it.
        """
        reports = self._exchange.reports
        in_progress = requests_in_progress(self._crawler)
        self._lease.lost.intersection_update(in_progress)
        in_memory = self._pages.keys() - self._popped
        for request in in_memory.difference(in_progress):
            # This request was never on the server, for example because it cannot be serialised. The report contains ""
            # in place of the number that the server gives to a request. The server has no request to delete, and only
            # counts one more fetched page of the host.
            reports["done"].append(("", self._pages.pop(request)))
        for request in self._popped.difference(in_progress):
            self._popped.remove(request)
            number, page_of = (
                self._taken.pop(request).number,
                self._pages.pop(request, ""),
            )
            if request in self._frontier.interrupted:
                reports["back"].append(number)
            else:
                reports["done"].append((number, page_of))

    def keep_page(self, request: Request, host: str, change: int) -> None:
        """Record that *request* counts as a page of *host* (*change* is 1), or no longer counts (*change* is -1). The
        crawl's page budget calls this. The server counts the page only when *request* is done. If this worker dies
        earlier, the page is not counted, and another worker sends *request* again.
        """
        if change > 0:
            self._pages[request] = host
        else:
            self._pages.pop(request, None)

    def _note_pauses(self) -> None:
        """Add the pauses that hosts have asked for since the last call to the Redis server to the data that the next
        call sends.
        """
        now, politeness = self._clock.monotonic(), self._frontier.politeness
        pauses = politeness.take_new_pauses()
        self._exchange.reports["paused"] += [
            (host, max(until - now, 0.0)) for host, until in pauses.items()
        ]

    def _give_back_needless(self) -> None:
        """Give back to the Redis server the hosts for which no request has been waiting in the last 2 seconds, and the
        hosts whose next request must wait longer than 30 seconds. Hosts with requests in progress are kept. If requests
        to a host are refused because of its long pause, this worker first refuses all of them, and then gives the host
        back.
        """
        now, frontier = self._clock.monotonic(), self._frontier
        busy = {self._taken[request].host for request in self._popped}
        busy |= {name_of(entry.queue.slot.key) for entry in frontier.in_flight.values()}
        for host in list(self._lease.hosts.values()):
            if host.key in busy:
                host.needed_at = now
                continue
            if host.on_server or host.count:
                host.needed_at = now
            limiter = frontier.limits.limiters.get(host.key)
            is_far = _seconds_to_wait(limiter, now) > _FAR
            is_refusing = limiter is not None and now < limiter.refuses_until
            is_empty = now - host.needed_at > _EMPTY_FOR
            if is_empty or (is_far and not is_refusing):
                self._give_back(host)

    def _give_back(self, host: OwnedHost) -> None:
        """Let the next call to the Redis server give *host* back, with its waiting requests, its delay and its
        back-off, so that another worker can own it.
        """
        now, reports = self._clock.monotonic(), self._exchange.reports
        limiter = self._frontier.limits.limiters.get(host.key)
        back_off = None if limiter is None else limiter.back_off
        kept_back_off: tuple[float, ...] = (0.0, 0, 0.0)
        if back_off is not None:
            lasted = now - back_off.since
            kept_back_off = back_off.own_pause, back_off.concurrency, lasted
        next_in = max(_seconds_to_wait(limiter, now), 0.0)
        reports["left"].append((host.key, next_in, *kept_back_off))
        for queue in host.queues:
            for request in self._take_all(queue):
                reports["back"].append(self._taken.pop(request).number)
        del self._lease.hosts[host.key]

    # What this worker asks the server for: requests, hosts, and permits to send requests.

    def _wants(self) -> dict[str, Any]:
        """Return what the next call asks the server for: permits to send requests, more requests to the hosts that this
        worker owns, and new hosts. The end of ``shared.lua`` describes the keys.
        """
        crawl_concurrency = concurrent_requests(self._crawler)
        # In one round, each request in flight ends, and another request is sent in its place (see _ROUND). The number
        # of rounds from one call to the next is estimated twice: from the number of requests sent since the start of
        # the last call, and from the duration of the last call. The higher estimate is used, so that this worker does
        # not run out of requests.
        rounds_per_call = max(
            self._popped_since_call // crawl_concurrency,
            round(self._call_seconds / _ROUND),
        )
        # Until the next _CALLS_AHEAD calls have ended, each request in flight is replaced about this many times. This
        # worker needs requests for all these rounds.
        rounds = min(1 + _CALLS_AHEAD * rounds_per_call, _MAX_ROUNDS)
        self._popped_since_call = 0
        takes_none = (
            not self._has_begun
            or len(self._exchange.unsent) >= MAX_PUSHES
            or bool(self._frontier.closes_for)
            or is_closing(self._crawler)
        )
        batch, room = 0, 0.0
        more: list[tuple[str, int]] = []
        if not takes_none:
            batch = min(_BATCH * rounds, _MAX_BATCH)
            more, supply = self._more_of_owned(batch, rounds)
            if len(self._taken) < _MAX_TAKEN:
                in_flight = len(self._frontier.in_flight)
                # About this many requests should come from hosts that no worker owns now.
                room = _AHEAD * crawl_concurrency * rounds - in_flight - supply
        return {
            "permits": self._permits.wants(),
            "more": more,
            "room": max(ceil(room), 0),
            "concurrency": self._concurrency * rounds,
            "batch": batch,
            "readable": self._readable_places,
            "last_aside": self._last_tried_place,
            "wait_timeout": self._frontier.limits.wait_timeout,
        }

    def _more_of_owned(
        self, batch: int, rounds: int
    ) -> tuple[list[tuple[str, int]], int]:
        """Return two results about the hosts that this worker owns: how many requests to take from the server for each
        host, and how many requests to all these hosts this worker can send in the next *rounds* rounds. In a round,
        each request in flight ends, and another request is sent in its place (see ``_ROUND``).

        The first result contains pairs of a host and a number of requests. The number is *batch* minus the number of
        requests that this worker already has for the host, without requests that wait for robots.txt (see
        :meth:`OwnedHost.count_usable`). For example, if *batch* is 16 and this worker has 6 requests, the number is 10.
        If this worker has more than ``batch / 2`` requests for a host, the host is left out.
        """
        now, more, supply = self._clock.monotonic(), [], 0
        for host in self._lease.hosts.values():
            usable = host.count_usable(now)
            if host.on_server and usable <= batch / 2 and host.count < _MAX_WAITING:
                more.append((host.key, batch - usable))
            limiter = self._frontier.limits.limiters.get(host.key)
            delay = None if limiter is None else limiter.crawl_delay
            if usable and _seconds_to_wait(limiter, now) < 1:
                most = 1 if delay is not None and delay.delay else self._concurrency
                supply += min(usable + host.on_server, most * rounds)
        return more, supply

    # The calls to the server.

    async def _begin(self) -> None:
        """Call the Redis server for the first time, then start the loop that makes all further calls. If the first call
        fails, raise its exception and do not start the loop. However, if the call fails because the server has no
        memory left, start the loop all the same.
        """
        try:
            if self._crawler.settings.getbool("SCHEDULER_FLUSH_ON_START"):
                await self._thread.call(self._exchange.clear)
            error = await self._call()
            if error is not None and not is_full(error):
                raise error
        except Exception:
            self._thread.stop()
            raise
        self._end_of_calls = deferred_from_coro(self._keep_calling())

    async def _keep_calling(self) -> None:
        while not self._is_closed:
            if self._clock.monotonic() < self._next_at:
                self._asleep = Deferred()
                await maybe_deferred_to_future(self._asleep)
            else:
                await self._call()

    def _call_soon(self, seconds: float = _SOON) -> None:
        """Schedule the next call to the server for *seconds* from now, unless a call is already scheduled for an
        earlier time. If a call is running, the next one starts only after the running call has ended.
        """
        at = self._clock.monotonic() + seconds
        if at < self._next_at:
            self._next_at = at
            self._alarms.at(at, self._end_sleep)

    def _end_sleep(self) -> None:
        asleep, self._asleep = self._asleep, None
        if asleep is not None:
            asleep.callback(None)

    async def _call(self, **fields: Any) -> Exception | None:
        """Call the Redis server: send what this worker has collected since the last call, such as new requests and the
        requests that are done, and process the answer. *fields* are further fields of the call, such as ``retires``
        (see the end of ``shared.lua``). Return the error if the call fails, and None if not.
        """
        self._next_at = inf
        try:
            await self._exchange_with_server(fields)
            self._call_soon(self._seconds_to_next_call())
        except Exception as error:  # noqa: BLE001  the calls go on after any error
            self._call_soon(self._failed(error))
            return error
        return None

    async def _exchange_with_server(self, fields: dict[str, Any]) -> None:
        exchange = self._exchange
        if not exchange.is_repeating:
            exchange.reports["released"] += self._permits.ended()
            self._note_done()
            self._note_pauses()
            self._give_back_needless()
        fields = {**self._wants(), **fields}
        if exchange.is_uncertain:
            fields["has"] = self._held_ids()
        began = self._clock.monotonic(), self._clock.time()
        answer = await self._thread.call(exchange.next_call(**fields))
        self._call_seconds = self._clock.monotonic() - began[0]
        self._answered(answer, exchange.answered(), began)

    def _held_ids(self) -> list[str]:
        """Return the IDs of the requests that this worker has taken from the Redis server, the names of the hosts that
        it owns, and the tokens of its permits (the server's permissions to send requests).

        The server compares the result with its own list. If a request, host or permit is only in the server's list, the
        answer that contained it was lost on the way to this worker. The server then takes the request, host or permit
        back.
        """
        reports = self._exchange.reports
        numbers = [taken.number for taken in self._taken.values()]
        numbers += [number for number, _ in reports["done"]]
        numbers += reports["back"] + reports["unreadable"]
        return [*numbers, *self._lease.hosts, *self._permits.held]

    def _seconds_to_next_call(self) -> float:
        """Return how many seconds this worker waits until the next call to the Redis server. Used after the server has
        answered a call.
        """
        exchange = self._exchange
        if self._is_failing and exchange.unsent:
            # The server answers, but it has no memory left for the new requests.
            return _FAILED
        if (
            exchange.unsent
            or self._permits.wanted
            or self._readable_places
            or any(exchange.reports.values())
        ):
            return _SOON
        if self._popped or self._frontier.in_flight or self._permits.held:
            seconds = _BUSY
        else:
            seconds = _WAITING if self._total or self._lease.hosts else _IDLE
        return min(seconds, self._lease.seconds * _PART_OF_LEASE)

    # The server's answers.

    def _answered(
        self, answer: Answer, pushes: Sequence[Push], began: tuple[float, float]
    ) -> None:
        """Process *answer*, the server's answer to a call. *pushes* are the new requests that the call sent to the
        server, and *began* is the start of the call, on the monotonic clock and on the system clock.
        """
        unsent = len(self._exchange.unsent)
        was_stopped = not self._lease.is_valid or len(pushes) + unsent >= MAX_PUSHES
        self._lease.renew(began)
        was_empty, self._readable_places = not self._total, []
        self._total, self._set_aside = answer.remaining, answer.set_aside
        if self._is_failing and (pushes or not unsent):
            self._is_failing = False
            self._logger.info(
                "The queue in Redis works again, and this worker sends its new requests there"
            )
        if self._end_of_calls is None:
            self._log_what_is_there(answer)
        if answer.returned:
            self._logger.warning(
                "Another worker did not renew its lease for REP_QUEUE_LEASE seconds, so it counts as dead. Its "
                "%(count)d unfinished requests are in the queue again, for all workers",
                count=answer.returned,
            )
        if answer.has_lost:
            self._note_lost()
        self._take(answer)
        for index in answer.seen:
            self._drop(pushes[index].request)
        if kept := len(pushes) - len(answer.seen):
            self._count_enqueued("redis", kept)
        is_over = not (was_empty or self._total)
        has_news = answer.requests or is_over or was_stopped
        # Before the engine has asked for the first request, the spider is still opening, so the engine must not be
        # woken.
        if has_news and self._has_begun:
            wake(self._crawler)

    def _take(self, answer: Answer) -> None:
        """Apply what *answer* contains to this worker. Resume the requests for which the server has granted or refused
        a permit (the permission to send the request). Record that this worker now owns the hosts in ``answer.hosts``,
        update page counts and pauses, and queue the requests that this worker takes from the server.
        """
        frontier, now = self._frontier, self._clock.monotonic()
        self._exchange.reports["released"] += self._permits.granted(answer.permits)
        for leased in answer.hosts:
            self._lease.hosts[leased.host] = OwnedHost(leased.host, now)
            if leased.concurrency:
                frontier.limits.resume_back_off(
                    frontier.limits.limiter(leased.host),
                    now,
                    concurrency=leased.concurrency,
                    own_pause=leased.own_pause,
                    since=now - leased.lasted,
                )
        if answer.pages and frontier.budget is not None:
            # Three kinds of pages count for a host: pages that the server knows to be done, pages that this worker has
            # in progress, and pages that this worker has done but not reported yet.
            counts = Counter(self._pages.values()) + Counter(answer.pages)
            counts.update(page_of for _, page_of in self._exchange.reports["done"])
            frontier.budget.resume({host: counts[host] for host in answer.pages})
        for host_name, seconds in answer.pauses.items():
            frontier.resume_pause(host_name, seconds)
        hosts = self._lease.hosts
        for host_name in answer.on_server.keys() & hosts.keys():
            hosts[host_name].on_server = answer.on_server[host_name]
        for taken in answer.requests:
            request = self._read(taken)
            if request is None:
                self._exchange.reports["unreadable"].append(taken.number)
                continue
            queue = frontier.queues.of(request)
            self._requests_of(queue).put(request, taken)
            self._taken[request] = taken
            if taken.host in hosts:
                hosts[taken.host].queues.add(queue)
            self._filled(queue, request)
        for taken, place in answer.unread:
            self._last_tried_place = place
            if self._read(taken):
                self._readable_places.append(place)

    def _drop(self, request: Request) -> None:
        """Log that the server did not store *request*, because it is a duplicate. Send the signal ``request_dropped``,
        as Scrapy does for duplicates.
        """
        self._fingerprinter.log(request, self._spider)
        self._crawler.signals.send_catch_log(
            signals.request_dropped, request=request, spider=self._spider
        )

    def _log_what_is_there(self, answer: Answer) -> None:
        if answer.remaining:
            self._logger.info(
                "Resuming crawl (%(count)d requests scheduled)", count=answer.remaining
            )
        if answer.strange:
            self._logger.warning(
                "%(count)d requests in the queue %(key)s were written by a queue class of scrapy-redis. This crawl does "
                "not send them, and their URLs count as seen. To send them, run the crawl with "
                'SCHEDULER_QUEUE_CLASS = "scrapy_redis.queue.PriorityQueue" until it has sent these requests. To drop '
                "them, delete two keys from Redis: %(key)s, which contains only these requests, and the key of the "
                "duplicate filter",
                count=answer.strange,
                key=self._key,
            )

    # Failures of the server.

    def _note_lost(self) -> None:
        """Forget the hosts and requests of this worker, because other workers may have taken them. This happens if the
        lease of this worker ended, or if Redis was restored from older data. Log a warning.
        """
        self._lease.lost.update(self._popped)
        self._forget()
        self._logger.warning(
            "This worker did not reach Redis for longer than REP_QUEUE_LEASE (%(lease)g s), or Redis was restored from "
            "older data. Other workers may have taken this worker's requests. %(count)d of these requests are in "
            "flight, and may be fetched twice. This worker continues with requests from the queue",
            lease=self._lease.seconds,
            count=len(self._lease.lost),
        )

    def _failed(self, error: Exception) -> float:
        """Log that a call to the Redis server failed with *error*. If the queue no longer exists, close the spider.
        Return how many seconds this worker waits until the next call.
        """
        is_full_now = self._exchange.failed(error)
        if isinstance(error, QueueLost):
            self._queue_lost()
            return _SOON
        if not self._is_failing:
            self._is_failing = True
            is_of_server = isinstance(error, (RedisError, OSError))
            self._logger.warning(
                "The queue in Redis fails (%(error)s). Until Redis works again, this worker keeps new requests in "
                "memory, and takes no requests from the queue. (If Redis is only out of memory, this worker continues "
                "to take requests, because this frees memory.) Check the Redis server, and the connection to it",
                error=f"{type(error).__name__}: {error}",
                exc_info=None if is_of_server else error,
            )
        return _SOON if is_full_now else _FAILED

    def _queue_lost(self) -> None:
        """Close the spider, because the crawl's queue no longer exists in Redis. The unfinished requests of this worker
        are sent to a new queue with the same key, so that a later run can continue with them. Log an error when this
        happens for the first time.
        """
        for taken in self._forget():
            rank = round(max(taken.score, -_MAX_RANK))
            push = Push(taken.host, rank, False, "", taken.data)
            self._exchange.unsent.append(push)
        if is_closing(self._crawler):
            if not (self._exchange.unsent or self._total):
                return  # The queue was empty when the spider began to close, so nothing is lost.
        else:
            self._frontier.stop("queue_lost")
        if self._is_lost:
            return
        self._is_lost = True
        self._logger.error(
            "The queue %(key)s in Redis is lost, perhaps because of FLUSHALL or a restart of Redis without "
            "persistence. All its waiting requests and the fingerprints of all seen requests are lost. This worker "
            "puts its %(count)d unfinished requests into a new queue with the same key, and closes. If "
            "SCHEDULER_PERSIST is False, these requests are lost, too, because a worker that closes deletes the "
            "queue. To fetch the lost pages, start the crawl again from its start URLs. Without the fingerprints, the "
            "crawl also fetches pages that were already fetched",
            key=self._key,
            count=len(self._exchange.unsent),
        )

    # The end of this worker.

    async def _end(self, end_of_calls: Deferred[None]) -> None:
        """End this worker's use of the Redis server, after the scheduler was closed. Wait for *end_of_calls*, which
        fires when the regular calls have ended.

        Then send all new requests and reports to the server, in as many calls as needed. At the end, make a last call,
        which gives the hosts and unfinished requests of this worker back to the server.

        A failed call is retried once. If the retry fails, give up. If the retry succeeds, skip all further calls except
        the last one, because the server is unreliable. New requests that do not fit into the last call are lost.
        """
        await maybe_deferred_to_future(end_of_calls)
        exchange = self._exchange
        failures, has_failed, retires, has_left = 0, False, False, False
        while not has_left and failures < _TRIES_AT_END:
            if not exchange.is_repeating:
                retires = has_failed or not exchange.unsent
                if retires:
                    for host in list(self._lease.hosts.values()):
                        self._give_back(host)
            error = await self._call(
                retires=retires, clears=retires and not self._persists
            )
            if error is None:
                failures, has_left = 0, retires
            elif not isinstance(error, QueueLost):
                failures, has_failed = failures + 1, True
        self._log_what_is_left()
        with suppress(RedisError, OSError):
            if not self._persists and not self._exchange.unsent:
                await self._thread.call(self._exchange.sweep)
            await self._thread.call(self._exchange.close)
        self._thread.stop()

    def _log_what_is_left(self) -> None:
        if self._set_aside:
            self._logger.error(
                "%(count)d requests were not sent, because no worker could read them so far. They stay in Redis "
                "(%(key)s). To send them, start a worker whose spider has their callbacks",
                count=self._set_aside,
                key=self._key,
            )
        if self._exchange.unsent:
            self._logger.error(
                "%(count)d requests are lost. They were only in the memory of this worker, which ended before the "
                "queue in Redis worked again",
                count=len(self._exchange.unsent),
            )


def _seconds_to_wait(limiter: Limiter | None, now: float) -> float:
    """Return the seconds until a request may be sent to the host of *limiter*; zero or less if a request may be sent
    now. If *limiter* is None, nothing delays the requests, and the result is ``-inf``.
    """
    if limiter is None:
        return -inf
    delay = limiter.crawl_delay or limiter
    return max(limiter.next_at, delay.next_at) - now
