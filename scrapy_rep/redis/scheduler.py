"""The scheduler of a worker. The worker owns hosts, whose requests it takes from the Redis server in batches."""

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
    is_full,
    parts_of,
)
from scrapy_rep.redis.hosts import Lease, OwnedHost, OwnedRequests, name_of
from scrapy_rep.redis.permits import SharedPermits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler

    from scrapy_rep.crawl.frontier.limiter import Limiter
    from scrapy_rep.crawl.frontier.limits import Queue

# The seconds between two calls: while there is something to tell, while requests are in flight or in their
# callbacks, and after a failure.
_SOON, _BUSY, _FAILED = 0.02, 0.05, 1.0

# In all other cases, the seconds between two calls double, up to one of these numbers. The first one holds while any
# request of any worker is not done, since its callback may yield new ones; the second one, while the queue is empty.
_MOST_WAITING, _MOST_IDLE = 0.2, 1.0

# The part of its lease after which a worker renews it.
_PART_OF_LEASE = 1 / 4

# For how many calls of the server the requests of this worker should last: for more than one, since the robots.txt
# of a new host has to be fetched before its requests are sent.
_CALLS_AHEAD = 3

# A guess of the seconds after which a request in flight is replaced by the next one, and how often it is replaced at
# most until this worker has its next requests.
_ROUND, _MAX_ROUNDS = 0.1, 20

# How many requests of a host are taken at once: for each time that those in flight are replaced, and at most.
_BATCH, _MAX_BATCH = 16, 200

# The maximum number of requests of a host that a worker keeps while they cannot be sent, since their robots.txt is
# not known.
_MAX_WAITING = 2 * _MAX_BATCH

# A worker takes no more hosts if its requests that can be sent soon are this many times as many as the downloader has
# room for.
_AHEAD = 1.5

# A worker takes no more hosts while it has so many requests: those to hosts that do not answer may wait for long.
_MAX_TAKEN = 20_000

# A host is given back if it has been empty for these seconds, or has to wait for longer than these.
_EMPTY_FOR, _FAR = 2.0, 30.0

# The greatest rank of a request that the server keeps exactly, beside the rank of what was given back.
_MAX_RANK = 2**40

# How often a worker that ends calls a server that fails.
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
        self._clock, self._alarms = self._frontier.clock, self._frontier.alarms
        self._read_settings(crawler)
        self._dicts = RequestDicts(crawler)
        self._thread = ServerThread()

        # What this worker has.
        self._taken: dict[Request, Taken] = {}
        """The requests of the server that this worker has, until they are done or given back."""

        self._popped: dict[Request, int] = {}
        """Those of them that were handed out to Scrapy, and how many requests had been pushed before that."""

        self._popped_since = 0
        """How many requests were handed out since the last call of the server."""

        self._pages: dict[Request, str] = {}
        """The requests that count as pages of a host, and are not done: these hosts."""

        self._pushed = 0
        """How many requests this worker has pushed so far."""

        self._ended: list[tuple[str, str, int]] = []
        """The requests that are done, which the server does not know yet. Of each: its number; the host of which it was
        a page; and how many requests have to be on the server before, since its callback may have made them.
        """

        self._seen_here: set[str] = set()
        """The fingerprints of the requests that cannot be written to Redis. They wait in the memory of this worker."""

        # What is known of the queue.
        self._total = 1
        """How many requests of all workers are not done, by the last answer."""

        self._last_aside = "0"
        """The place of the last request that another worker has set aside, and that this worker has tried to read."""

        self._readable: list[str] = []
        """The places of such requests that this worker can read."""

        self._set_aside = 0
        """How many requests are set aside, by the last answer."""

        # The calls.
        self._took = 0.0
        """How many seconds the server took for its last answer."""

        self._next_at, self._pause = inf, _BUSY
        self._asleep: Deferred[None] | None = None
        self._calls: Deferred[None] | None = None
        """Done after the last regular call; None before the first answer."""

        self._last_request = self._clock.monotonic()
        self._has_begun = self._is_failing = self._is_closed = False
        self._has_unreadable = self._is_lost = False
        self._frontier.politeness.collect_pauses()
        if self._frontier.budget is not None:
            self._frontier.budget.store_with(self)
        self._permits = self._frontier.permits = SharedPermits(
            crawler, self._frontier, self._lease, self._call_soon
        )
        crawler.signals.connect(self._spider_idle, signals.spider_idle)

    def _read_settings(self, crawler: Crawler) -> None:
        """Read the settings of scrapy-redis. Raises TypeError if one cannot be used."""
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
        """Return the duplicate filter of the project, if that has its own, else one that filters nothing: then the
        server filters. It gets fingerprints and requests together, so that no request counts as seen that is in no
        queue.
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
            return BaseDupeFilter()
        made: BaseDupeFilter = (
            self._fingerprinter if has_spider else build_from_crawler(kind, crawler)
        )
        return made

    # Scrapy's interface.

    def __len__(self) -> int:
        """How many requests of all workers are not done, as far as this worker knows."""
        return max(self._total, 0) + len(self._exchange.unsent)

    def has_pending_requests(self) -> bool:
        """Whether any request of any worker is not done."""
        is_missing = self._is_failing or bool(self._readable)
        return len(self) > 0 or self._count > 0 or is_missing

    def open(self, spider: Spider) -> Deferred[None]:
        """Called by Scrapy. The Deferred fires with the first answer of the server, or fails as the first call does."""
        self._order.warn_of_classes(self._logger)
        return deferred_from_coro(self._begin())

    def close(self, reason: str) -> Deferred[None] | None:
        """Called by Scrapy. Give all requests back that are not done. The Deferred fires when the server has them."""
        if self._calls is None:
            return None
        self._is_closed = True
        self._end_sleep()
        return deferred_from_coro(self._end(self._calls))

    def enqueue_request(self, request: Request) -> bool:
        """Keep *request*, for any worker. A request that gate or wire have returned becomes the next one of its host
        here. Return False if it is known to be a duplicate. The server finds other duplicates later.
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
        self._push(Push(host, -rank, is_last_first, fingerprint, data, request))
        self._call_soon()
        return True

    def next_request(self) -> Request | None:
        """Return a request of an owned host that could be sent now; None if there is none at the moment."""
        if not self._has_begun:
            # Only now: no robots.txt may be fetched before the spider is open.
            self._has_begun = True
            self._call_soon()
        if not self._lease.is_valid or len(self._exchange.unsent) >= MAX_PUSHES:
            return None
        request = super().next_request()
        if request is not None:
            if request in self._taken:
                self._popped[request] = self._pushed
                self._popped_since += 1
            self._last_request = self._clock.monotonic()
            self._call_soon(_BUSY)
        return request

    def _spider_idle(self) -> None:
        """Keep the spider open until ``SCHEDULER_IDLE_BEFORE_CLOSE`` seconds after its last request."""
        closes_at = self._last_request + self._idle_seconds
        if self._clock.monotonic() < closes_at:
            self._alarms.at(closes_at, wake, self._crawler)
            raise DontCloseSpider

    # New requests.

    def _fingerprint(self, request: Request) -> str | None:
        """Return the fingerprint by which the server finds out whether *request* is a duplicate; empty if *request* is
        none in any case; None if it is known to be one.
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
        self._exchange.unsent.append(push)
        self._pushed += 1

    def _keep_in_memory(
        self, queue: Queue, request: Request, fingerprint: str, error: Exception
    ) -> None:
        """Keep *request* in the memory of this worker, since it cannot be written to Redis. No other worker gets
        it.
        """
        self._note_unwritable(request, error)
        self._seen_here |= {fingerprint} - {""}
        queue = self._unwritable(queue)
        self._push_to_memory(queue, request)
        self._filled(queue, request)

    def _filled(self, queue: Queue, request: Request) -> None:
        self._count += 1
        self._frontier.fill(queue, request)

    # The requests that this worker has.

    def _take_back(self, request: Request) -> None:
        """Let *request*, which was handed out and not sent, wait here again, as the next one of its queue; unless
        another worker has it by now.
        """
        if request in self._lease.lost:
            return
        queue = self._frontier.queues.of(request)
        if self._popped.pop(request, None) is None:
            queue = self._unwritable(queue)
        requests = self._requests_of(queue)
        requests.back(request)
        self._count_dequeued(requests.medium, -1)
        self._filled(queue, request)

    def _requests_of(self, queue: Queue) -> Any:
        """Return the requests of *queue* that wait here."""
        if queue.requests is None:
            is_here = queue.key.is_unwritable
            kind = MemoryRequests if is_here else OwnedRequests
            queue.requests = kind(self._order)
        return queue.requests

    def _read(self, data: bytes, host: str) -> Request | None:
        """Return the request in *data*; None if this worker cannot read it."""
        try:
            fields = self._serializer.loads(data)
            return request_from_dict(fields, spider=self._crawler.spider)
        except Exception as error:  # noqa: BLE001  a serialiser can raise any
            if not self._has_unreadable:
                self._has_unreadable = True
                self._logger.error(
                    "A request to %(host)s in the queue in Redis cannot be read: %(error)r. This worker leaves "
                    "it in the queue for a worker whose spider has its callback. Further such errors are not logged; "
                    "at its end, each worker logs the number of requests that no worker could read",
                    host=host,
                    error=error,
                )
            return None

    def _forget(self) -> list[Taken]:
        """Forget all that this worker has, and return its requests."""
        for queue in self._frontier.limits.queues.values():
            self._take_all(queue)
        requests = list(self._taken.values())
        self._lease.hosts.clear()
        self._taken.clear()
        self._popped.clear()
        self._pages.clear()
        self._permits.held.clear()
        self._exchange.reports.clear()
        self._ended.clear()
        return requests

    def _take_all(self, queue: Queue) -> list[Request]:
        """Remove the requests of *queue* that are from the server, and return them."""
        if not isinstance(queue.requests, OwnedRequests):
            return []
        requests = queue.requests.take_all()
        self._count -= len(requests)
        return requests

    # What this worker tells.

    def _note_done(self) -> None:
        """Have the server told which requests are done: their callbacks have ended, and what these have made is on the
        server. Requests that a closing spider did not send are given back.
        """
        reports = self._exchange.reports
        in_progress = requests_in_progress(self._crawler)
        self._lease.lost.intersection_update(in_progress)
        for request in self._popped.keys() - in_progress:
            taken, pushed = self._taken.pop(request), self._popped.pop(request)
            page_of = self._pages.pop(request, "")
            if request in self._frontier.interrupted:
                reports["back"].append(taken.number)
                continue
            made = self._pushed if self._pushed > pushed else 0
            self._ended.append((taken.number, page_of, made))
        on_server = self._pushed - len(self._exchange.unsent)
        for number, page_of, made in self._ended:
            if made <= on_server:
                reports["done"].append(number)
                reports["pages"] += [page_of] * bool(page_of)
        self._ended = [entry for entry in self._ended if entry[-1] > on_server]

    def keep_page(self, request: Request, host: str, change: int) -> None:
        """Called by the budget of the crawl: see :class:`~scrapy_rep.crawl.frontier.budget.Keeper`. The server counts
        *request* as a page of *host* when it is done: if this worker dies before, another one sends it again.
        """
        if change > 0:
            self._pages[request] = host
        else:
            self._pages.pop(request, None)

    def _note_pauses(self) -> None:
        """Have the server told which hosts have asked for a pause."""
        now, politeness = self._clock.monotonic(), self._frontier.politeness
        pauses = politeness.take_new_pauses()
        self._exchange.reports["paused"] += [
            (host, max(until - now, 0.0)) for host, until in pauses.items()
        ]

    def _give_back_needless(self) -> None:
        """Give back the hosts that have had no requests for a moment, or that may have none for long."""
        now, frontier = self._clock.monotonic(), self._frontier
        busy = {self._taken[request].host for request in self._popped}
        busy |= {name_of(entry.queue.slot.key) for entry in frontier.in_flight.values()}
        for host in list(self._lease.hosts.values()):
            if host.key in busy:
                host.needed_at = now
                continue
            if host.on_server or host.count:
                host.needed_at = now
            wait = _seconds_to_wait(frontier.limits.limiters.get(host.key), now)
            if wait > _FAR or now - host.needed_at > _EMPTY_FOR:
                self._give_back(host)

    def _give_back(self, host: OwnedHost) -> None:
        """Let other workers have *host*, with its requests that wait here, its delay and its back-off."""
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

    # What it wants.

    def _wants(self) -> dict[str, Any]:
        """Return what the next call asks the server for: permits, more requests of owned hosts, and new hosts for as
        many requests as this worker has room for.
        """
        places = concurrent_requests(self._crawler)
        # How often all requests in flight are replaced until this worker has what it asks for now.
        replaced = max(self._popped_since // places, round(self._took / _ROUND))
        rounds = min(1 + _CALLS_AHEAD * replaced, _MAX_ROUNDS)
        self._popped_since = 0
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
                room = _AHEAD * places * rounds - in_flight - supply
        return {
            "permits": self._permits.wants(),
            "more": more,
            "room": max(ceil(room), 0),
            "concurrency": self._concurrency * rounds,
            "batch": batch,
            "readable": self._readable,
            "last_aside": self._last_aside,
        }

    def _more_of_owned(
        self, batch: int, rounds: int
    ) -> tuple[list[tuple[str, int]], int]:
        """Return how many requests of which owned hosts this worker wants, to have a *batch* of each; and how many
        requests of all owned hosts could be sent soon, while those in flight are replaced *rounds* times.
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

    # Calls.

    async def _begin(self) -> None:
        """Call the Redis server for the first time, then start the loop that makes all further calls. If the first
        call fails, raise its exception, and do not start the loop.
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
        """Have the next call of the server made in *seconds* at the latest, unless a call takes longer than that."""
        at = self._clock.monotonic() + seconds
        if at < self._next_at:
            self._next_at = at
            self._alarms.at(at, self._end_sleep)

    def _end_sleep(self) -> None:
        asleep, self._asleep = self._asleep, None
        if asleep is not None:
            asleep.callback(None)

    async def _call(self, **order: Any) -> Exception | None:
        """Tell the server what was done, and take what it answers. *order* is what the order of this call has in
        addition. Return the error if the call fails.
        """
        self._next_at = inf
        try:
            await self._exchange_with_server(order)
        except Exception as error:  # noqa: BLE001  whatever it is, the calls go on
            self._call_soon(self._failed(error))
            return error
        self._call_soon(self._next_in())
        return None

    async def _exchange_with_server(self, order: dict[str, Any]) -> None:
        exchange = self._exchange
        if not exchange.is_repeating:
            exchange.reports["released"] += self._permits.ended()
            self._note_done()
            self._note_pauses()
            self._give_back_needless()
        order = {**self._wants(), **order}
        if exchange.is_uncertain:
            order["has"] = self._has()
        began = self._clock.monotonic(), self._clock.time()
        answer = await self._thread.call(exchange.next_call(**order))
        self._took = self._clock.monotonic() - began[0]
        self._answered(answer, exchange.answered(), began)

    def _has(self) -> list[str]:
        """Return the names of everything that this worker holds. Whatever else the server lists for this worker was in
        an answer that got lost, so the server puts it back into the queue.
        """
        ended = [number for number, *_ in self._ended]
        numbers = [taken.number for taken in self._taken.values()]
        reports = self._exchange.reports
        untold = reports["done"] + reports["back"] + reports["unreadable"]
        return [*numbers, *ended, *untold, *self._lease.hosts, *self._permits.held]

    def _next_in(self) -> float:
        """Return the seconds until the next call, after one that was answered."""
        exchange = self._exchange
        if self._is_failing and exchange.unsent:
            return _FAILED  # The server is full.
        if (
            exchange.unsent
            or self._ended
            or self._permits.wanted
            or self._readable
            or any(exchange.reports.values())
        ):
            return _SOON
        if self._popped or self._frontier.in_flight or self._permits.held:
            self._pause = _BUSY
        else:
            most = _MOST_WAITING if self._total or self._lease.hosts else _MOST_IDLE
            self._pause = min(2 * self._pause, most)
        return min(self._pause, self._lease.seconds * _PART_OF_LEASE)

    # Answers.

    def _answered(
        self, answer: Answer, pushes: Sequence[Push], began: tuple[float, float]
    ) -> None:
        """Process *answer*, the answer of the server to a call. *pushes* are the new requests that were sent in the
        call, and *began* is its start, by the monotonic and by the wall clock.
        """
        unsent = len(self._exchange.unsent)
        was_stopped = not self._lease.is_valid or len(pushes) + unsent >= MAX_PUSHES
        self._lease.renew(began)
        was_empty, self._readable = not self._total, []
        self._total, self._set_aside = answer.remaining, answer.set_aside
        if self._is_failing and (pushes or not unsent):
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
        if kept := len(pushes) - len(answer.seen):
            for stat in ("scheduler/enqueued/redis", "scheduler/enqueued"):
                self._stats.inc_value(stat, kept)
        if answer.deliveries:
            self._pause = _BUSY
        is_over = not (was_empty or self._total)
        has_news = answer.deliveries or is_over or was_stopped
        if has_news and self._has_begun:  # Else the spider is still opening.
            wake(self._crawler)

    def _take(self, answer: Answer) -> None:
        """Take over what the server gives this worker in *answer*: permits, hosts, pauses and requests."""
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
            # What all workers have done, and what this worker has in progress.
            counts = Counter(self._pages.values()) + Counter(answer.pages)
            counts.update(page_of for _, page_of, _ in self._ended)
            frontier.budget.resume({host: counts[host] for host in answer.pages})
        for host_name, seconds in answer.pauses.items():
            frontier.resume_pause(host_name, seconds)
        for delivery in answer.deliveries:
            owner = self._lease.hosts.get(delivery.host)
            if owner is not None:
                owner.on_server = delivery.on_server
            for taken in delivery.requests:
                request = self._read(taken.data, taken.host)
                if request is None:
                    self._exchange.reports["unreadable"].append(taken.number)
                    continue
                queue = frontier.queues.of(request)
                self._requests_of(queue).put(request, taken)
                self._taken[request] = taken
                if owner is not None:
                    owner.queues.add(queue)
                self._filled(queue, request)
        for lease, place in answer.unread:
            self._last_aside = place
            host_name, data = parts_of(lease)
            if self._read(data, host_name):
                self._readable.append(place)

    def _drop(self, request: Request) -> None:
        """Do with *request*, which the server has found to be a duplicate, what Scrapy does with one."""
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
                "%(count)d requests in the queue %(key)s were written by another queue class. This crawl does not "
                "send them, and their URLs count as seen. To send them, first run the crawl with "
                'SCHEDULER_QUEUE_CLASS = "scrapy_redis.queue.PriorityQueue" until that queue is empty. To drop '
                "them, delete this key, and the key of the duplicate filter",
                count=answer.strange,
                key=self._key,
            )

    # Failures.

    def _note_lost(self) -> None:
        """Forget what this worker had: other workers have it by now, or will have it."""
        self._lease.lost.update(self._popped)
        self._forget()
        self._logger.warning(
            "This worker did not reach Redis for longer than REP_QUEUE_LEASE (%(lease)g s), or Redis was restored from "
            "older data: other workers may have taken its requests. %(count)d of them are in flight, and may be "
            "fetched twice",
            lease=self._lease.seconds,
            count=len(self._lease.lost),
        )

    def _failed(self, error: Exception) -> float:
        """Note that a call has failed with *error*. Return the seconds until the next call."""
        is_full_now = self._exchange.failed(error)
        if isinstance(error, QueueLost):
            self._queue_lost()
            return _SOON
        if not self._is_failing:
            self._is_failing = True
            is_of_server = isinstance(error, (RedisError, OSError))
            self._logger.warning(
                "The queue in Redis fails (%(error)s): this worker keeps new requests in memory, and takes "
                "requests again when the server works again",
                error=f"{type(error).__name__}: {error}",
                exc_info=None if is_of_server else error,
            )
        return _SOON if is_full_now else _FAILED

    def _queue_lost(self) -> None:
        """Push all requests that this worker has to a new queue, since the old one is gone, and close the spider."""
        for taken in self._forget():
            rank = round(max(taken.score, -_MAX_RANK))
            self._push(Push(taken.host, rank, False, "", taken.data))
        if is_closing(self._crawler):
            if not (self._exchange.unsent or self._total):
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
            count=len(self._exchange.unsent),
        )

    # The end.

    async def _end(self, calls: Deferred[None]) -> None:
        """Tell the server what it does not know yet, and give all back; if the server fails, give all back at once."""
        await maybe_deferred_to_future(calls)
        failures, has_left = 0, False
        while not has_left and failures < _TRIES_AT_END:
            self._note_done()
            exchange = self._exchange
            is_behind = exchange.is_repeating or exchange.unsent or self._ended
            retires = bool(failures) or not is_behind
            if retires:
                for host in list(self._lease.hosts.values()):
                    self._give_back(host)
            error = await self._call(
                retires=retires, clears=retires and not self._persists
            )
            failures += error is not None and not isinstance(error, QueueLost)
            has_left = retires and error is None
        self._log_what_is_left()
        with suppress(RedisError, OSError):
            if not self._persists and not self._exchange.unsent:
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
        if self._exchange.unsent:
            self._logger.error(
                "%(count)d requests are lost: they were only in the memory of this worker, which has ended before "
                "the queue in Redis worked again",
                count=len(self._exchange.unsent),
            )


def _seconds_to_wait(limiter: Limiter | None, now: float) -> float:
    """Return for how many seconds nothing may be sent to the host of *limiter*."""
    if limiter is None:
        return -inf
    delay = limiter.crawl_delay or limiter
    return max(limiter.next_at, delay.next_at) - now
