"""The scheduler of a worker: it owns hosts, whose requests it takes from the Redis server in batches."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from functools import partial
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
from scrapy_rep.crawl.frontier.scheduler import MemoryRequests, Scheduler
from scrapy_rep.redis.exchange import (
    MAX_PUSHES,
    Answer,
    Exchange,
    Push,
    QueueLost,
    ServerThread,
    Taken,
    connect,
    data_in,
    is_full,
)
from scrapy_rep.redis.hosts import (
    MAX_BATCH,
    OwnedHost,
    OwnedRequests,
    host_of,
    name_of,
    unit_of,
)
from scrapy_rep.redis.turns import SharedTurns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scrapy_rep.crawl.frontier.limiter import Limiter
    from scrapy_rep.crawl.frontier.limits import Queue

# The seconds between two calls: while there is something to tell, while requests are in flight or in their
# callbacks, and after a failure.
_SOON, _BUSY, _FAILED = 0.02, 0.05, 1.0

# In all other cases, the seconds between two calls double, up to one of these: while this worker owns
# hosts, while only other workers have requests, and while there are no requests.
_MOST_OWNER, _MOST_IDLE, _MOST_EMPTY = 0.2, 1.0, 5.0

# The part of its lease after which a worker renews it.
_PART_OF_LEASE = 1 / 4

# For how many calls of the server the requests here should last: more than one, since the robots.txt of a
# new host is to be fetched before its requests are sent.
_CALLS_AHEAD = 3

# The seconds after which a request in flight is replaced by the next one, as a guess; and how often it is replaced
# at most until the next requests are here.
_ROUND, _MAX_ROUNDS = 0.1, 20

# The requests that are taken of a new queue.
_BATCH = 16

# A host has enough requests ahead of need if the downloader has room for this many times as many requests.
_AHEAD = 1.5

# No more hosts are taken while so many requests are here: those of hosts that do not answer may wait for long.
_MAX_TAKEN = 20_000

# A host is given back if it has been empty for these seconds, or has to wait for longer than these.
_EMPTY_FOR, _FAR = 2.0, 30.0

# The greatest rank that an order of requests may have on the server, exactly.
_MAX_RANK = 2**40

# At its end, a worker calls a server that fails so often.
_TRIES_AT_END = 2


class SharedScheduler(Scheduler):
    """The scheduler of scrapy-redis, by the hosts that this worker owns.

    The add-on sets it in place of ``scrapy_redis.scheduler.Scheduler``, whose settings it has. New requests go to
    the Redis server, together with their fingerprints. A host belongs to one worker at a time, by a lease
    (``REP_QUEUE_LEASE``). That worker takes the requests of its hosts in batches, and runs rules, delays and
    pauses as the only worker of a crawl does. A request stays on the server until its callback has ended, so
    each worker may be killed at any moment.

    The event loop never waits for the server: one coroutine calls it again and again, on a thread, tells it what
    was done, and gets what comes next.
    """

    uses_jobdir = False

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._read_settings(crawler.settings)
        self._clock, self._alarms = self._frontier.clock, self._frontier.alarms
        self._lease = RepSettings.of(crawler).queue_lease
        self._dicts = RequestDicts(crawler)
        self._thread = ServerThread()

        # What this worker has.
        self._owned: dict[str, OwnedHost] = {}
        self._taken: dict[Request, Taken] = {}
        """The requests that are from the server, and wait here or are in progress."""

        self._pages: dict[Request, str] = {}
        """The hosts of the requests that count as pages and are not done."""

        self._popped: dict[Request, int] = {}
        """Those that were handed out, and how many were pushed before that."""

        self._popped_since = 0
        """How many were handed out since the last call."""

        self._lost: set[Request] = set()
        """Those that others have now, until their callbacks have ended."""

        # What is to be told.
        self._reports: defaultdict[str, list[Any]] = defaultdict(list)
        self._told: dict[str, list[Any]] | None = None
        """The reports of the last call, until the server has answered."""

        self._ended: list[tuple[str, int]] = []
        """The requests that are done, and how many are to be on the server before: their callbacks may have made
        these."""

        self._unsent: list[Push] = []
        self._pushed = self._sending = 0
        """How many requests were pushed so far, and how many of the unsent ones the current call has."""

        self._enqueued = 0
        """How many requests were kept, without duplicates, since that was counted."""

        self._seen_here: set[str] = set()
        """The fingerprints of the requests that cannot be written, and wait in memory."""

        # What is known of the queue.
        self._total = 1
        """The requests of all workers that are not done."""

        self._last_aside = "0"
        self._readable: list[str] = []
        """The places of requests that others could not read, and this worker can."""

        self._set_aside = 0

        # The calls.
        self._renewed_at, self._took = (-inf, -inf), 0.0
        """When the last call began that was answered, on both clocks, and how long that took."""

        self._next_at, self._pause = inf, _BUSY
        self._asleep: Deferred[None] | None = None
        self._calls: Deferred[None] | None = None
        """Done when there are no more calls but those at the end; None before the first answer."""

        self._last_request = self._clock.monotonic()
        self._has_begun = self._is_failing = self._is_closed = False
        self._has_unreadable = self._is_lost = False
        self._frontier.politeness.collect_pauses()
        if self._frontier.budget is not None:
            self._frontier.budget.store_with(self)
        self._turns = self._frontier.turns = SharedTurns(
            crawler, self._frontier, self._is_owned, self._lost, self._call_soon
        )
        crawler.signals.connect(self._spider_idle, signals.spider_idle)

    def _read_settings(self, settings: BaseSettings) -> None:
        """Read the settings of scrapy-redis. Raises TypeError if one cannot be used."""
        self._persists = settings.getbool("SCHEDULER_PERSIST")
        self._idle_seconds = settings.getint("SCHEDULER_IDLE_BEFORE_CLOSE")
        if self._idle_seconds < 0:
            raise TypeError("SCHEDULER_IDLE_BEFORE_CLOSE cannot be negative")
        serializer = settings.get("SCHEDULER_SERIALIZER") or "scrapy_redis.picklecompat"
        is_path = isinstance(serializer, str)
        self._serializer: Any = import_module(serializer) if is_path else serializer
        self._concurrency = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN") or 1

    def _made_dupefilter(self) -> BaseDupeFilter:
        """Return the filter of the project, if that has its own. The fingerprints of that of scrapy-redis go to the
        server with the requests, so that no request counts as seen that is in no queue.
        """
        kind = load_object(self._crawler.settings["DUPEFILTER_CLASS"])
        request_seen = getattr(kind, "request_seen", None)
        is_on_server = request_seen is RedisDupeFilter.request_seen
        self._has_own_filter = not (is_on_server or kind is RFPDupeFilter)
        if not self._has_own_filter:
            return BaseDupeFilter()
        if hasattr(kind, "from_spider"):
            return kind.from_spider(self._crawler.spider)  # type: ignore[no-any-return]
        made: BaseDupeFilter = build_from_crawler(kind, self._crawler)
        return made

    # Scrapy's interface.

    def __len__(self) -> int:
        """The number of requests that are not done, of all workers, as far as that is known."""
        return max(self._total, 0) + len(self._unsent)

    def has_pending_requests(self) -> bool:
        """Whether any request of any worker is not done."""
        is_missing = self._is_failing or bool(self._readable)
        return len(self) > 0 or self._count > 0 or is_missing

    def open(self, spider: Spider) -> Deferred[None]:
        """Called by Scrapy. The result comes with the first answer of the server, or fails as that does."""
        self._connect(spider)
        return deferred_from_coro(self._begin())

    def close(self, reason: str) -> Deferred[None] | None:
        """Called by Scrapy. Give all back that is not done."""
        if self._calls is None:
            return None
        self._is_closed = True
        self._end_sleep()
        return deferred_from_coro(self._end(self._calls))

    def enqueue_request(self, request: Request) -> bool:
        """Keep *request* for all workers. One that gate or wire have returned is the next one of its host. Return
        whether it is kept, as far as that is known: duplicates are found by the server.
        """
        frontier = self._frontier
        if frontier.take_returned(request):
            self._take_back(request)
            return True
        fingerprint = self._fingerprint(request)
        if fingerprint is None:
            return False
        queue = frontier.queue_of(request)
        try:
            data = self._serializer.dumps(self._dicts.to_dict(request))
            if isinstance(data, str):
                data = data.encode()
        except Exception as error:  # noqa: BLE001  a serialiser can raise any
            return self._keep_in_memory(queue, request, fingerprint, error)
        rank, is_last_first = self._order.of(request)
        rank = max(min(rank, _MAX_RANK), -_MAX_RANK)
        name = name_of(queue.key)
        self._push(Push(name, -rank, is_last_first, fingerprint, data, request))
        self._enqueued += 1
        self._call_soon()
        return True

    def next_request(self) -> Request | None:
        """Return a request that could be sent now; None if there is none at the moment."""
        if not self._has_begun:
            # Only now: no robots.txt may be fetched before the spider is open.
            self._has_begun = True
            self._call_soon()
        if not self._is_alive or len(self._unsent) >= MAX_PUSHES:
            return None
        request = super().next_request()
        if request is not None:
            self._last_request = self._clock.monotonic()
            self._call_soon(_BUSY)
        return request

    def _spider_idle(self) -> None:
        """Keep the spider open for ``SCHEDULER_IDLE_BEFORE_CLOSE`` seconds."""
        closes_at = self._last_request + self._idle_seconds
        if self._clock.monotonic() < closes_at:
            self._alarms.at(closes_at, wake, self._crawler)
            raise DontCloseSpider

    # New requests.

    def _fingerprint(self, request: Request) -> str | None:
        """Return the fingerprint of *request* for the server, empty if there it is no duplicate in any case; None if
        it is known to be one.
        """
        if request.dont_filter:
            return ""
        if self._has_own_filter:
            if not self._dupefilter.request_seen(request):
                return ""
            self._dupefilter.log(request, self._spider)
            return None
        fingerprint: str = self._fingerprinter.request_fingerprint(request)
        return None if fingerprint in self._seen_here else fingerprint

    def _push(self, push: Push) -> None:
        self._unsent.append(push)
        self._pushed += 1

    def _keep_in_memory(
        self, queue: Queue, request: Request, fingerprint: str, error: Exception
    ) -> bool:
        """Keep *request* in the memory of this worker, because it cannot be serialised for Redis. No other
        worker sees it.
        """
        if self._logs_unwritable:
            self._logs_unwritable = False
            self._logger.warning(
                "%(request)s cannot be written to Redis: %(error)s. It waits in the memory of this worker, and is "
                "lost if that ends before it is sent. This is logged once (SCHEDULER_DEBUG); the stat "
                "scheduler/unserializable counts such requests",
                request=request,
                error=error,
            )
        self._stats.inc_value("scheduler/unserializable")
        self._seen_here |= {fingerprint} - {""}
        self._put_in_memory(queue, request)
        return True

    def _put_in_memory(self, queue: Queue, request: Request) -> None:
        queue = self._unwritable(queue)
        self._push_to_memory(queue, request)
        self._count += 1
        self._frontier.fill(queue, request)

    def _drop(self, request: Request) -> None:
        """Do what scheduler and engine do with a duplicate, which the server has found."""
        self._fingerprinter.log(request, self._spider)
        self._enqueued -= 1
        self._crawler.signals.send_catch_log(
            signals.request_dropped, request=request, spider=self._crawler.spider
        )

    # The requests of this worker.

    def _is_owned(self, slot: Limiter) -> bool:
        return unit_of(slot.key) in self._owned and self._is_alive

    @property
    def _is_alive(self) -> bool:
        """Whether the lease of this worker is still valid. After its end, other workers may take its hosts
        and requests. Of two clocks, the one counts by which more time has passed: the monotonic clock may
        stop while the machine sleeps, and the system clock may be set back.
        """
        monotonic, time = self._renewed_at
        passed = max(self._clock.monotonic() - monotonic, self._clock.time() - time)
        return passed < self._lease

    def _note_popped(self, request: Request) -> None:
        self._popped[request] = self._pushed
        self._popped_since += 1

    def _take_back(self, request: Request) -> None:
        taken = self._taken.get(request)
        if taken is not None:
            self._popped.pop(request, None)
            self._put(request, taken, is_first=True)
            self._count_dequeued(OwnedRequests.medium, -1)
        elif request not in self._lost:  # Else another worker has it.
            self._put_in_memory(self._frontier.queue_of(request), request)
            self._count_dequeued(MemoryRequests.medium, -1)

    def _put(
        self, request: Request, taken: Taken, *, is_first: bool = False
    ) -> OwnedRequests:
        """Have *request* wait here until it may be sent."""
        queue = self._frontier.queue_of(request)
        if queue.requests is None:
            queue.requests = OwnedRequests(queue, self._note_popped)
        requests: OwnedRequests = queue.requests
        requests.put(request, taken, is_first=is_first)
        self._taken[request] = taken
        self._count += 1
        self._frontier.fill(queue, request)
        return requests

    def _read(self, data: bytes, host: str) -> Request | None:
        """Return the request in *data*; None if this worker cannot read it."""
        try:
            fields = self._serializer.loads(data)
            return request_from_dict(fields, spider=self._crawler.spider)
        except Exception as error:  # noqa: BLE001  a serialiser can raise any
            if not self._has_unreadable:
                self._has_unreadable = True
                self._logger.error(
                    "A request to %(host)s in the queue in Redis cannot be read: %(error)r. This worker does not "
                    "send it, and leaves it to others, whose spider may have its callback. This is logged once: "
                    "at its end, each worker logs how many no worker could read",
                    host=host,
                    error=error,
                )
            return None

    def _forget(self) -> list[Taken]:
        """Forget all that this worker has, and return its requests."""
        for queue in self._frontier.limits.queues.values():
            if isinstance(queue.requests, OwnedRequests):
                self._count -= len(queue.requests.take_all())
        requests = list(self._taken.values())
        self._owned.clear()
        self._taken.clear()
        self._popped.clear()
        self._pages.clear()
        self._turns.held.clear()
        self._reports.clear()
        self._ended.clear()
        return requests

    # What this worker tells.

    def _note_done(self) -> None:
        """Note which requests are done. Those that a closing spider did not send are not."""
        in_progress = requests_in_progress(self._crawler)
        self._lost.intersection_update(in_progress)
        for request in self._popped.keys() - in_progress:
            taken, pushed = self._taken.pop(request), self._popped.pop(request)
            page_of = self._pages.pop(request, "")
            if request in self._frontier.interrupted:
                self._reports["back"].append(taken.number)
            else:
                has_pushed = self._pushed > pushed
                self._ended.append((taken.number, self._pushed if has_pushed else 0))
                if page_of:
                    self._reports["pages"].append(page_of)

    def keep_page(self, request: Request, host: str, change: int) -> None:
        """Called by the budget of the crawl: see :class:`~scrapy_rep.crawl.frontier.budget.Keeper`. The server
        counts a page when it is done: what was in flight at a worker that has died is sent again.
        """
        if change > 0:
            self._pages[request] = host
        else:
            self._pages.pop(request, None)

    def _collect(self) -> None:
        """Collect what the next call tells, until the server has answered."""
        now, reports, politeness = (
            self._clock.monotonic(),
            self._reports,
            self._frontier.politeness,
        )
        on_server = self._pushed - len(self._unsent)
        reports["done"] += [
            number for number, pushed in self._ended if pushed <= on_server
        ]
        self._ended = [entry for entry in self._ended if entry[1] > on_server]
        reports["ended"] += self._turns.ended()
        pauses = politeness.take_new_pauses()
        reports["paused"] += [
            (host, max(until - now, 0.0)) for host, until in pauses.items()
        ]
        if self._enqueued:
            for stat in ("scheduler/enqueued/redis", "scheduler/enqueued"):
                self._stats.inc_value(stat, self._enqueued)
            self._enqueued = 0
        self._told, self._reports = dict(reports), defaultdict(list)
        self._sending = min(len(self._unsent), MAX_PUSHES)

    def _give_back_needless(self) -> None:
        """Give back the hosts that need not be here any more."""
        now = self._clock.monotonic()
        busy = {host_of(self._taken[request].queue) for request in self._popped}
        busy |= {
            unit_of(entry.queue.slot.key) for entry in self._frontier.in_flight.values()
        }
        for host in list(self._owned.values()):
            is_busy = host.key in busy
            if is_busy or host.count:
                host.needed_at = now
            is_needless = (
                self._pace(host)[0] > _FAR or now - host.needed_at > _EMPTY_FOR
            )
            if is_needless and not is_busy:
                self._give_back(host)

    def _give_back(self, host: OwnedHost) -> None:
        """Let others have *host*, and its requests that wait here."""
        limiter = self._frontier.limits.limiters.get(host.key)
        back_off = None if limiter is None else limiter.back_off
        kept_back_off: tuple[float, ...] = (0.0, 0, 0.0)
        if back_off is not None:
            lasted = self._clock.monotonic() - back_off.since
            kept_back_off = back_off.own_pause, back_off.concurrency, lasted
        next_in = max(self._pace(host)[0], 0.0)
        self._reports["left"].append((host.key, next_in, *kept_back_off))
        for requests in host.queues.values():
            for request in requests.take_all():
                self._count -= 1
                self._reports["back"].append(self._taken.pop(request).number)
        del self._owned[host.key]

    def _pace(self, host: OwnedHost) -> tuple[float, int]:
        """Return for how many seconds nothing may be sent to *host*, and how many requests may be in flight then."""
        limiter = self._frontier.limits.limiters.get(host.key)
        if limiter is None:
            return -inf, self._concurrency
        delay = limiter.crawl_delay or limiter
        wait = max(limiter.next_at, delay.next_at) - self._clock.monotonic()
        return wait, 1 if delay.delay else self._concurrency

    # What it wants.

    def _wants(self) -> dict[str, Any]:
        """Return what this worker asks for in its next call of the server: more requests of the hosts that it
        owns, and requests of new hosts.
        """
        now, supply = self._clock.monotonic(), 0.0
        more: list[tuple[str, int]] = []
        places = concurrent_requests(self._crawler)
        # How often all requests in flight are replaced until the requests are here that are wanted now.
        replaced = max(self._popped_since // places, round(self._took / _ROUND))
        rounds = min(1 + _CALLS_AHEAD * replaced, _MAX_ROUNDS)
        self._popped_since = 0
        for host in self._owned.values():
            more += host.wanted(_BATCH * rounds)
            wait, most = self._pace(host)
            if wait < 1 and host.is_usable(now):
                supply += min(host.count, most * rounds)
        room = _AHEAD * places * rounds
        room -= len(self._frontier.in_flight) + supply
        takes_none = (
            not self._has_begun
            or len(self._unsent) >= MAX_PUSHES
            or bool(self._frontier.closes_for)
            or is_closing(self._crawler)
        )
        has_room = not takes_none and len(self._taken) < _MAX_TAKEN
        return {
            "turns": self._turns.order(),
            "more": () if takes_none else more,
            "room": max(ceil(room), 0) if has_room else 0,
            "concurrency": self._concurrency * rounds,
            "batch": min(_BATCH * rounds, MAX_BATCH),
            "readable": self._readable,
            "last_aside": self._last_aside,
        }

    # Calls.

    def _connect(self, spider: Spider) -> None:
        self._spider = spider
        settings, names = self._crawler.settings, {"spider": spider.name}
        self._order.warn_of_classes(self._logger)
        key = settings.get("SCHEDULER_QUEUE_KEY") or defaults.SCHEDULER_QUEUE_KEY
        seen_key = (
            settings.get("SCHEDULER_DUPEFILTER_KEY")
            or defaults.SCHEDULER_DUPEFILTER_KEY
        )
        kind = load_object(settings["DUPEFILTER_CLASS"])
        self._fingerprinter: Any = (
            kind if hasattr(kind, "from_spider") else RedisDupeFilter
        ).from_spider(spider)
        self._key = str(key) % names
        self._exchange = Exchange(
            connect(settings), self._key, seen_key % names, self._lease
        )

    async def _begin(self) -> None:
        """Call the Redis server for the first time, then start the loop that makes all further calls. If the
        first call fails, its exception is raised, and the loop is not started.
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
        self._calls = deferred_from_coro(self._keep_calling())

    async def _keep_calling(self) -> None:
        while not self._is_closed:
            if self._clock.monotonic() < self._next_at:
                self._asleep = Deferred()
                await maybe_deferred_to_future(self._asleep)
            else:
                await self._call()

    def _call_soon(self, seconds: float = _SOON) -> None:
        """Call the server in so many *seconds*, or as soon as it has answered."""
        at = self._clock.monotonic() + seconds
        if at < self._next_at:
            self._next_at = at
            self._alarms.at(at, self._end_sleep)

    def _end_sleep(self) -> None:
        asleep, self._asleep = self._asleep, None
        if asleep is not None:
            asleep.callback(None)

    async def _call(self, **order: Any) -> Exception | None:
        """Tell the server what was done, and get what comes next. Return the error if that fails."""
        self._next_at = inf
        try:
            await self._exchange_with_server(order)
        except Exception as error:  # noqa: BLE001  whatever it is, the calls go on
            self._call_soon(self._failed(error))
            return error
        self._call_soon(self._next_in())
        return None

    async def _exchange_with_server(self, order: dict[str, Any]) -> None:
        if self._told is None:
            self._note_done()
            self._give_back_needless()
            self._collect()
        assert self._told is not None
        order = {**self._told, **self._wants(), **order}
        if self._exchange.is_uncertain:
            order["has"] = self._has()
        began = self._clock.monotonic(), self._clock.time()
        pushes = self._unsent[: self._sending]
        answer = await self._thread.call(partial(self._exchange.run, order, pushes))
        self._took, self._told = self._clock.monotonic() - began[0], None
        self._answered(answer, pushes, began)

    def _has(self) -> list[str]:
        """Return all that this worker has: what the server has besides, in an answer that did not arrive, returns."""
        ended = [number for number, _ in self._ended]
        numbers = [taken.number for taken in self._taken.values()]
        untold = self._reports["unreadable"]
        return [*numbers, *ended, *untold, *self._owned, *self._turns.held]

    def _next_in(self) -> float:
        """Return in how many seconds the next call is to be, after one that was answered."""
        is_waiting = self._turns.wishes or self._readable or any(self._reports.values())
        if self._is_failing and self._unsent:
            return _FAILED
        if self._unsent or self._ended or is_waiting:
            return _SOON
        if self._popped or self._frontier.in_flight or self._turns.held:
            self._pause = _BUSY
            return _BUSY
        most = _MOST_OWNER if self._owned else _MOST_IDLE
        if not self._total:
            most = _MOST_EMPTY
        seconds = min(self._pause, most)
        self._pause = min(2 * seconds, most)
        return min(seconds, self._lease * _PART_OF_LEASE)

    # Answers.

    def _answered(
        self, answer: Answer, pushes: Sequence[Push], began: tuple[float, float]
    ) -> None:
        was_stopped = not self._is_alive or len(self._unsent) >= MAX_PUSHES
        self._renewed_at = began
        del self._unsent[: len(pushes)]
        was_empty, self._readable = not self._total, []
        self._total, self._set_aside = answer.remaining, answer.set_aside
        if self._is_failing and (pushes or not self._unsent):
            self._is_failing = False
            self._logger.info("The queue in Redis works again")
        if self._calls is None:
            self._log_what_is_there(answer)
        if answer.returned:
            self._logger.warning(
                "A worker has not renewed its lease for REP_QUEUE_LEASE seconds: the %(count)d requests that it "
                "had taken are in the queue again, for any worker",
                count=answer.returned,
            )
        if answer.has_lost:
            self._note_lost()
        self._take(answer)
        for index in answer.seen:
            self._drop(pushes[index].request)
        if answer.deliveries:
            self._pause = _BUSY
        is_over = not (was_empty or self._total)
        if answer.deliveries or is_over or was_stopped:
            wake(self._crawler)

    def _take(self, answer: Answer) -> None:
        """Take what the server has given out."""
        frontier, now = self._frontier, self._clock.monotonic()
        self._reports["ended"] += self._turns.granted(answer.turns)
        for leased in answer.hosts:
            self._owned[leased.host] = OwnedHost(leased.host, now)
            if frontier.budget is not None:
                frontier.budget.resume({leased.host: leased.pages})
            if leased.concurrency:
                frontier.limits.resume_back_off(
                    frontier.limits.limiter(leased.host),
                    now,
                    concurrency=leased.concurrency,
                    own_pause=leased.own_pause,
                    since=now - leased.lasted,
                )
        for host, seconds in answer.pauses:
            frontier.resume_pause(host, seconds)
        for delivery in answer.deliveries:
            owner = self._owned.get(host_of(delivery.queue))
            for taken in delivery.requests:
                request = self._read(taken.data, host_of(delivery.queue))
                if request is None:
                    self._reports["unreadable"].append(taken.number)
                    continue
                requests = self._put(request, taken)
                if owner is not None:
                    owner.queues[delivery.queue] = requests
            if owner is not None:
                owner.on_server[delivery.queue] = delivery.on_server
        for lease, place in answer.unread:
            self._last_aside = place
            if self._read(data_in(lease), host_of(lease.decode(errors="replace"))):
                self._readable.append(place)

    def _log_what_is_there(self, answer: Answer) -> None:
        if answer.remaining:
            self._logger.info(
                "Resuming crawl (%(count)d requests scheduled)", count=answer.remaining
            )
        if answer.strange:
            self._logger.warning(
                "%(count)d requests in the queue %(key)s were written by another queue class. This crawl does not "
                "send them, and their URLs count as seen. To send them, first run the crawl with "
                'SCHEDULER_QUEUE_CLASS = "scrapy_redis.queue.PriorityQueue" until that queue is empty. To drop '
                "them, delete this key, and the key of the duplicate filter",
                count=answer.strange,
                key=self._key,
            )

    def _note_lost(self) -> None:
        """Forget what this worker had: others have it by now, or will have it."""
        # Not by an operator: that makes a new set, and what takes turns refers to this one.
        self._lost.update(self._popped)
        self._forget()
        self._logger.warning(
            "This worker was silent for longer than REP_QUEUE_LEASE (%(lease)g s), or Redis has older data: its "
            "requests are those of others now. %(count)d of them are in flight, and may be fetched twice",
            lease=self._lease,
            count=len(self._lost),
        )

    def _failed(self, error: Exception) -> float:
        """Note that a call has failed. Return in how many seconds the next one is to be."""
        if isinstance(error, QueueLost):
            self._queue_lost()
            return _SOON
        is_of_server = isinstance(error, (RedisError, OSError))
        # After an error of our own, the requests in the answer may be lost here. So the call counts as
        # uncertain, and the next one repeats its reports.
        self._exchange.is_uncertain |= not is_of_server
        if not self._is_failing:
            self._is_failing = True
            self._logger.warning(
                "The queue in Redis fails (%(error)s): this worker keeps new requests in memory, and takes "
                "requests again when the server works again",
                error=f"{type(error).__name__}: {error}",
                exc_info=None if is_of_server else error,
            )
        if self._sending and is_full(error) and not self._exchange.is_uncertain:
            self._sending = 0  # What frees memory is told at once.
            return _SOON
        return _FAILED

    def _queue_lost(self) -> None:
        """Push again what this worker has, since the queue is gone, and close the spider."""
        self._told = None
        for taken in self._forget():
            rank = round(max(taken.score, -_MAX_RANK))
            self._push(Push(taken.queue, rank, False, "", taken.data))
        if is_closing(self._crawler):
            if not (self._unsent or self._total):
                return  # The queue was empty when the spider began to close.
        else:
            self._frontier.stop("queue_lost")
        if self._is_lost:
            return
        self._is_lost = True
        self._logger.error(
            "The queue %(key)s in Redis is lost: the server has another one, or none (FLUSHALL, a restart without "
            "persistence?). The requests that waited there, and the fingerprints of all requests, are lost. The "
            "%(count)d requests that this worker had are in the queue again, and requests in flight end, so their "
            "pages may be fetched twice. The worker closes; start the crawl again to fetch what is missing",
            key=self._key,
            count=len(self._unsent),
        )

    # The end.

    async def _end(self, calls: Deferred[None]) -> None:
        """Send what the server does not have yet, and take leave; after a failure, without."""
        await maybe_deferred_to_future(calls)
        failures, has_left = 0, False
        while not has_left and failures < _TRIES_AT_END:
            self._note_done()
            retires = bool(failures) or not (self._unsent or self._ended)
            if retires:
                for host in list(self._owned.values()):
                    self._give_back(host)
            error = await self._call(
                retires=retires, clears=retires and not self._persists
            )
            failures += error is not None and not isinstance(error, QueueLost)
            has_left = retires and error is None
        self._log_what_is_left()
        with suppress(RedisError, OSError):
            if not self._persists and not self._unsent:
                await self._thread.call(self._exchange.sweep)
            await self._thread.call(self._exchange.close)
        self._thread.stop()

    def _log_what_is_left(self) -> None:
        if self._set_aside:
            self._logger.error(
                "%(count)d requests could be read by no worker so far, and were not sent. They stay in Redis "
                "(%(key)s), for a worker whose spider has their callbacks",
                count=self._set_aside,
                key=self._key,
            )
        if self._unsent:
            self._logger.error(
                "%(count)d requests are lost: they were only in the memory of this worker, which has ended before "
                "the queue in Redis worked again",
                count=len(self._unsent),
            )
