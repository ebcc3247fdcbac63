"""The scheduler of a worker: it owns hosts, whose requests it takes from the Redis server in batches."""

from __future__ import annotations

from heapq import heappop, heappush
from importlib import import_module
from math import ceil, inf
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.exceptions import DontCloseSpider
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
    Failures,
    Push,
    QueueLost,
    ServerThread,
    Taken,
    connect,
    data_in,
    is_full,
)
from scrapy_rep.redis.turns import SharedTurns

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scrapy_rep.crawl.frontier.frontier import QueueKey
    from scrapy_rep.crawl.frontier.limiter import Limiter
    from scrapy_rep.crawl.frontier.limits import Queue

# The seconds between two calls: while there is something to tell, while requests are in progress, and while
# this worker is idle, with requests of others and without any. After a failure; and the part of its lease after which a worker renews it.
_SOON, _BUSY, _IDLE, _EMPTY, _FAILED, _PART_OF_LEASE = 0.02, 0.05, 0.2, 5.0, 1.0, 1 / 4

# For so many calls there are to be requests: a new host has its robots.txt looked up, too.
_CALLS_AHEAD = 3

# The seconds after which a request in flight is replaced by the next one, as a guess.
_ROUND = 0.1

# The requests that are taken of a new queue, and the most of any.
_BATCH, _MAX_BATCH = 16, 200

# A host has enough requests ahead of need if the downloader has room for this many times as many requests.
_AHEAD = 1.5

# A host whose robots.txt is not known after these seconds is not counted on.
_UNKNOWN_AFTER = 2.0

# A host is given back if it has been empty for these seconds, or has to wait for longer than these.
_EMPTY_FOR, _FAR = 2.0, 30.0

# The greatest rank that an order of requests may have on the server, exactly.
_MAX_RANK = 2**40


class SharedScheduler(Scheduler):
    """The scheduler of scrapy-redis, by the hosts that this worker owns.

    The add-on sets it in place of ``scrapy_redis.scheduler.Scheduler``, whose settings it has. New requests go to
    the Redis server, together with their fingerprints. A host belongs to one worker at a time, by a lease
    (``REP_QUEUE_LEASE``). That worker takes the requests of its hosts in batches, and runs rules, delays and
    pauses as the only worker of a crawl does. A request stays on the server until its callback has ended, so
    each worker may be killed at any moment.

    The event loop never waits for the server: an exchange of what was done for what comes next runs on a thread.
    """

    uses_jobdir = False

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._read_settings(crawler.settings)
        self._clock, self._alarms = self._frontier.clock, self._frontier.alarms
        self._lease = RepSettings.of(crawler).queue_lease
        self._dicts = RequestDicts(crawler)
        self._failures = Failures(self._logger)
        self._thread = ServerThread()

        # What this worker has.
        self._owned: dict[str, _OwnedHost] = {}
        self._popped: dict[Request, tuple[Taken, int]] = {}
        """The requests that were handed out, and how many were pushed before that."""

        self._popped_since = 0
        """How many were handed out since the last call."""

        self._lost: set[Request] = set()
        """Those that others have now, until their callbacks have ended."""

        # What is to be told.
        self._reports: dict[str, Any] = _no_reports()
        self._ended: list[tuple[str, int]] = []
        """The requests that are done, and how many are to be on the server before: their callbacks may have made
        these."""

        self._unsent: list[Push] = []
        self._pushed = 0
        self._told: dict[str, Any] = {}
        """What the current call tells."""

        self._told_ended: list[tuple[str, int]] = []
        self._sending = 0
        """How many of the unsent requests the current call has."""

        self._seen_here: set[str] = set()
        """The fingerprints of the requests that cannot be written, and wait in memory."""

        # What is known of the queue.
        self._total = 1
        """The requests of all workers that are not done."""

        self._last_aside = "0"
        self._readable: list[str] = []
        """The places of requests that others could not read, and this worker can."""

        self._set_aside = 0
        self._full_until = -inf
        """New requests are not sent before, since the server has no memory left."""

        self._renewed_at, self._took = -inf, 0.0
        self._last_request = self._clock.monotonic()
        self._has_begun = self._is_calling = self._is_hungry = False
        self._has_unreadable = self._is_lost = self._has_left = False
        self._tries_at_end = 2
        self._next_at = inf
        self._is_open = False
        self._opened: Deferred[None] = Deferred()
        self._closed: Deferred[None] | None = None
        self._frontier.politeness.new_pauses = {}
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
        is_missing = self._failures.is_failing or bool(self._readable)
        return len(self) > 0 or self._count > 0 or is_missing

    def open(self, spider: Spider) -> Deferred[None]:
        """Called by Scrapy. The result comes with the first answer of the server, or fails as that does."""
        self._spider = spider
        settings, names = self._crawler.settings, {"spider": spider.name}
        self._order.warn_of_classes(self._logger)
        self._key = (
            str(settings.get("SCHEDULER_QUEUE_KEY") or defaults.SCHEDULER_QUEUE_KEY)
            % names
        )
        seen_key = (
            settings.get("SCHEDULER_DUPEFILTER_KEY")
            or defaults.SCHEDULER_DUPEFILTER_KEY
        )
        kind = load_object(settings["DUPEFILTER_CLASS"])
        self._fingerprinter: Any = (
            kind if hasattr(kind, "from_spider") else RedisDupeFilter
        ).from_spider(spider)
        self._exchange = Exchange(
            connect(settings), self._key, seen_key % names, self._lease
        )
        self._thread.start()
        if settings.getbool("SCHEDULER_FLUSH_ON_START"):
            self._thread.run(self._exchange.clear, lambda _, error: None)
        self._call()
        return self._opened

    def enqueue_request(self, request: Request) -> bool:
        """Keep *request* for all workers. One that gate or wire have returned is the next one of its host. Return
        whether it is kept, as far as that is known: duplicates are found by the server.
        """
        frontier = self._frontier
        if request in frontier.returned:
            frontier.returned.discard(request)
            self._take_back(request)
            return True
        fingerprint = self._fingerprint(request)
        if fingerprint is None:
            return False
        queue = frontier.queue_of(request)
        try:
            data = self._serializer.dumps(self._dicts.to_dict(request))
        except Exception as error:  # noqa: BLE001  a serialiser can raise any
            return self._keep_in_memory(queue, request, fingerprint, error)
        if isinstance(data, str):
            data = data.encode()
        rank, is_last_first = self._order.of(request)
        rank = max(min(rank, _MAX_RANK), -_MAX_RANK)
        name = name_of(queue.key)
        self._unsent.append(
            Push(name, -rank, is_last_first, fingerprint, data, request)
        )
        self._pushed += 1
        self._stats.inc_value("scheduler/enqueued/redis")
        self._stats.inc_value("scheduler/enqueued")
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
        elif self._is_hungry:
            self._is_hungry = False
            self._call_soon()
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

    def _keep_in_memory(
        self, queue: Queue, request: Request, fingerprint: str, error: Exception
    ) -> bool:
        """Keep *request*, which cannot be written, for this worker alone."""
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
        queue = self._unwritable(queue)
        self._push_to_memory(queue, request)
        self._count += 1
        self._frontier.fill(queue, request)
        return True

    def _drop(self, request: Request) -> None:
        """Do what scheduler and engine do with a duplicate, which the server has found."""
        self._fingerprinter.log(request, self._spider)
        for stat in ("scheduler/enqueued/redis", "scheduler/enqueued"):
            self._stats.inc_value(stat, -1)
        self._crawler.signals.send_catch_log(
            signals.request_dropped, request=request, spider=self._crawler.spider
        )

    # The requests of this worker.

    def _is_owned(self, slot: Limiter) -> bool:
        return unit_of(slot.key) in self._owned and self._is_alive

    @property
    def _is_alive(self) -> bool:
        """Whether the lease of this worker has not ended: later, others may have what it had."""
        return self._clock.monotonic() < self._renewed_at + self._lease

    def popped(self, request: Request, taken: Taken) -> None:
        """Note that a request was handed out."""
        self._popped[request] = taken, self._pushed
        self._popped_since += 1

    def _take_back(self, request: Request) -> None:
        entry = self._popped.pop(request, None)
        if entry is not None:
            self._put(request, entry[0]._replace(score=-inf))
            self._count_dequeued(OwnedRequests.medium, -1)
        elif request not in self._lost:  # Else another worker has it.
            queue = self._unwritable(self._frontier.queue_of(request))
            self._push_to_memory(queue, request)
            self._count_dequeued(MemoryRequests.medium, -1)
            self._count += 1
            self._frontier.fill(queue, request)

    def _put(self, request: Request, taken: Taken) -> OwnedRequests:
        """Have *request* wait here until it may be sent."""
        queue = self._frontier.queue_of(request)
        if queue.requests is None:
            queue.requests = OwnedRequests(self, queue)
        queue.requests.put(request, taken)
        self._count += 1
        self._frontier.fill(queue, request)
        requests: OwnedRequests = queue.requests
        return requests

    def _waiting(self) -> Iterator[OwnedRequests]:
        """Return what waits here, that of hosts of others included."""
        for queue in self._frontier.limits.queues.values():
            if isinstance(queue.requests, OwnedRequests):
                yield queue.requests

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

    # What this worker tells.

    def _note_done(self) -> None:
        """Note which requests are done. Those that a closing spider did not send are not."""
        in_progress = requests_in_progress(self._crawler)
        self._lost.intersection_update(in_progress)
        for request in self._popped.keys() - in_progress:
            taken, pushed = self._popped.pop(request)
            if request in self._frontier.interrupted:
                self._reports["back"].append(taken.number)
            else:
                has_pushed = self._pushed > pushed
                self._ended.append((taken.number, self._pushed if has_pushed else 0))

    def _look_at(
        self, host: _OwnedHost, busy: Container[str], now: float
    ) -> tuple[bool, float]:
        """Return whether *host* need not be here any more, and when its next request may be sent. *busy* are the
        hosts that have requests in flight.
        """
        limiter = self._frontier.limits.limiters.get(host.key)
        delay = None if limiter is None else limiter.crawl_delay
        moments = [each.next_at for each in (limiter, delay) if each is not None]
        next_at = max(moments, default=-inf)
        is_busy = host.key in busy or bool(self._frontier.returned)
        if is_busy or host.count:
            host.empty_since = now
        is_needless = next_at - now > _FAR or now - host.empty_since > _EMPTY_FOR
        return is_needless and not is_busy, next_at

    def _most(self, host: _OwnedHost) -> int:
        """Return how many requests to *host* may be in flight."""
        limiter = self._frontier.limits.limiters.get(host.key)
        delay = None if limiter is None else limiter.crawl_delay
        return 1 if delay is not None and delay.delay else self._concurrency

    def _give_back(self, host: _OwnedHost, next_in: float) -> None:
        """Let others have *host*, and its requests that wait here."""
        limiter = self._frontier.limits.limiters.get(host.key)
        back_off = None if limiter is None else limiter.back_off
        now = self._clock.monotonic()
        own: tuple[float, float, float] = (0.0, 0, 0.0)
        if back_off is not None:
            own = back_off.own_pause, back_off.concurrency, now - back_off.since
        self._reports["left"].append((host.key, max(next_in, 0.0), *own))
        for requests in host.queues.values():
            numbers = [taken.number for taken in requests.take_all()]
            self._count -= len(numbers)
            self._reports["back"] += numbers
        del self._owned[host.key]

    # What it wants.

    def _wants(self) -> dict[str, Any]:
        """Give hosts back, and return what is wanted."""
        now, supply = self._clock.monotonic(), 0.0
        more: list[tuple[str, int]] = []
        places = concurrent_requests(self._crawler)
        # How often all requests in flight are replaced until the requests are here that are wanted now.
        rounds = 1 + _CALLS_AHEAD * max(
            self._popped_since // places, round(self._took / _ROUND)
        )
        self._popped_since = 0
        busy = {
            unit_of(entry.queue.slot.key) for entry in self._frontier.in_flight.values()
        }
        for host in list(self._owned.values()):
            is_left, next_at = self._look_at(host, busy, now)
            if is_left:
                self._give_back(host, next_at - now)
                continue
            more += host.wanted(_BATCH * rounds)
            if next_at - now < 1 and host.is_usable(now):
                supply += min(host.count, self._most(host) * rounds)
        room = _AHEAD * places * rounds
        room -= len(self._frontier.in_flight) + supply
        takes_none = (
            not self._has_begun
            or self._closed is not None
            or len(self._unsent) >= MAX_PUSHES
            or bool(self._frontier.closes_for)
            or is_closing(self._crawler)
        )
        return {
            "turns": self._turns.order(),
            "more": () if takes_none else more,
            "room": 0 if takes_none else max(ceil(room), 0),
            "concurrency": self._concurrency * rounds,
            "batch": _BATCH * rounds,
            "readable": self._readable,
            "last_aside": self._last_aside,
        }

    # Calls.

    def _call_soon(self, seconds: float = _SOON) -> None:
        """Call the server in so many *seconds*, or as soon as it has answered."""
        at = self._clock.monotonic() + seconds
        if at < self._next_at:
            self._next_at = at
            self._alarms.at(at, self._on_alarm)

    def _on_alarm(self) -> None:
        is_due = self._clock.monotonic() >= self._next_at
        if is_due and not self._is_calling and self._closed is None:
            self._call()

    def _call(self, **order: Any) -> None:
        """Tell the server what was done, and get what comes next."""
        self._is_calling, self._next_at = True, inf
        wants = self._wants()
        if self._exchange.is_uncertain:
            # The server may have done what the last call has told. What this worker does not know of returns.
            waiting = [
                taken.number for requests in self._waiting() for taken in requests
            ]
            popped = [taken.number for taken, _ in self._popped.values()]
            ended = [number for number, _ in self._ended]
            unreadable = self._reports["unreadable"]
            wants["has"] = [*waiting, *popped, *ended, *unreadable]
            wants["has"] += [*self._owned, *self._turns.held]
        else:
            self._collect()
        order = {**self._told, **wants, **order}
        pushes, began = self._unsent[: self._sending], self._clock.monotonic()

        def done(answer: Answer | None, error: Exception | None) -> None:
            self._is_calling = False
            if answer is not None:
                self._renewed_at, self._took = began, self._clock.monotonic() - began
                self._answered(answer, pushes)
            elif isinstance(error, QueueLost):
                self._queue_lost()
            else:
                assert error is not None
                self._failed(error)
            self._after_call(error)

        self._thread.run(lambda: self._exchange.run(order, pushes), done)

    def _collect(self) -> None:
        """Collect what the next call tells, until the server has it."""
        self._note_done()
        is_full = self._clock.monotonic() < self._full_until
        self._sending = 0 if is_full else min(len(self._unsent), MAX_PUSHES)
        on_server = self._pushed - len(self._unsent) + self._sending
        self._told_ended = [entry for entry in self._ended if entry[1] <= on_server]
        self._ended = [entry for entry in self._ended if entry[1] > on_server]
        self._reports["ended"] += self._turns.ended()
        politeness, now = self._frontier.politeness, self._clock.monotonic()
        pauses, politeness.new_pauses = politeness.new_pauses, {}
        self._reports["paused"] += [
            (host, max(until - now, 0.0)) for host, until in (pauses or {}).items()
        ]
        done = [number for number, _ in self._told_ended]
        self._told, self._reports = {**self._reports, "done": done}, _no_reports()

    def _after_call(self, error: Exception | None) -> None:
        """Plan the next call."""
        # An alarm during the call has done nothing.
        wanted_at, self._next_at = self._next_at, inf
        if not self._opened.called:
            if error is None or is_full(error):
                self._is_open = True
                self._opened.callback(None)
            else:
                self._opened.errback(error)
                return
        if self._closed is not None:
            self._go_on_closing(error)
            return
        if error is not None:
            self._call_soon(_FAILED if self._failures.is_failing else _SOON)
        elif (
            self._unsent
            or self._turns.wishes
            or self._readable
            or any(self._reports.values())
        ):
            self._call_soon()
        elif self._popped or self._turns.held or self._count:
            self._call_soon(_BUSY)
        else:
            self._call_soon(_IDLE if self._total else _EMPTY)
        latest = self._lease * _PART_OF_LEASE
        self._call_soon(min(latest, max(wanted_at - self._clock.monotonic(), 0.0)))

    # Answers.

    def _answered(self, answer: Answer, pushes: Sequence[Push]) -> None:
        del self._unsent[: len(pushes)]
        self._readable, was_empty = [], not self._total
        self._total, self._set_aside = answer.remaining, answer.set_aside
        if not self._unsent:
            self._failures.recovered()
        for index in answer.seen:
            self._drop(pushes[index].request)
        if not self._opened.called:
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
        self._is_hungry = bool(answer.deliveries)
        if answer.deliveries or not (was_empty or self._total):
            wake(self._crawler)

    def _take(self, answer: Answer) -> None:
        """Take what the server has given out."""
        frontier, now = self._frontier, self._clock.monotonic()
        self._reports["ended"] += self._turns.granted(answer.turns)
        for owned in answer.hosts:
            self._owned[owned.host] = _OwnedHost(owned.host, now)
            if owned.concurrency:
                frontier.limits.resume_back_off(
                    frontier.limits.limiter(owned.host),
                    now,
                    concurrency=owned.concurrency,
                    own_pause=owned.own_pause,
                    since=now - owned.lasted,
                )
        for host, seconds in answer.pauses:
            frontier.resume_pause(host, seconds)
        for delivery in answer.deliveries:
            requests = None
            for taken in delivery.requests:
                request = self._read(taken.data, host_of(delivery.queue))
                if request is None:
                    self._reports["unreadable"].append(taken.number)
                else:
                    requests = self._put(request, taken)
            owner = self._owned.get(host_of(delivery.queue))
            if owner is not None:
                owner.note(delivery.queue, requests, delivery.left)
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
                "%(count)d requests are in the queue %(key)s, which another queue class than scrapy-rep's has "
                "written. This crawl does not send them, and their URLs count as seen. To send them, let that "
                'queue run empty first, with SCHEDULER_QUEUE_CLASS = "scrapy_redis.queue.PriorityQueue"; to '
                "drop them, delete the key, and that of the duplicate filter",
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

    def _forget(self) -> list[Taken]:
        """Forget all that this worker has, and return its requests."""
        taken = [entry[0] for entry in self._popped.values()]
        for requests in self._waiting():
            waiting = requests.take_all()
            self._count -= len(waiting)
            taken += waiting
        self._owned.clear()
        self._popped.clear()
        self._turns.held.clear()
        self._reports, self._ended = _no_reports(), []
        return taken

    def _failed(self, error: Exception) -> None:
        if is_full(error) and not self._exchange.is_uncertain:
            # What frees memory is told at once, without the new requests.
            self._full_until = self._clock.monotonic() + _FAILED
            self._ended = self._told_ended + self._ended
            for name, reports in self._told.items():
                self._reports[name] = [*reports, *self._reports[name]]
            self._reports["done"] = []
        self._failures.failed(error)

    def _queue_lost(self) -> None:
        """Push again what this worker has, since the queue is gone, and close the spider."""
        for taken in self._forget():
            rank = round(max(taken.score, -_MAX_RANK))
            self._unsent.append(Push(taken.queue, rank, False, "", taken.data))
            self._pushed += 1
        if is_closing(self._crawler) or self._closed is not None:
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

    def close(self, reason: str) -> Deferred[None] | None:
        """Called by Scrapy. Give all back that is not done."""
        if not self._is_open:
            return None
        self._closed = Deferred()
        if not self._is_calling:
            self._go_on_closing(None)
        return self._closed

    def _go_on_closing(self, error: Exception | None) -> None:
        """Send what the server does not have yet, and take leave; after failures, without."""
        self._tries_at_end -= error is not None
        is_over = self._has_left and error is None
        if is_over or not self._tries_at_end:
            self._end()
        elif len(self._unsent) > MAX_PUSHES and error is None:
            self._call()
        else:
            for host in list(self._owned.values()):
                _, next_at = self._look_at(host, (), self._clock.monotonic())
                self._give_back(host, next_at - self._clock.monotonic())
            self._has_left = True
            self._call(retires=True, clears=not self._persists)

    def _end(self) -> None:
        assert self._closed is not None
        if self._set_aside:
            self._logger.error(
                "%(count)d requests could be read by no worker so far, and were not sent. They stay in Redis "
                "(%(key)s), for a worker whose spider has their callbacks",
                count=self._set_aside,
                key=self._key,
            )
        if self._unsent:
            self._logger.error(
                "%(count)d requests are lost: they were in the memory of this worker, and the queue in Redis had "
                "not worked again when the worker ended",
                count=len(self._unsent),
            )
        if not self._persists and not self._unsent:
            self._thread.run(self._exchange.sweep, lambda *_: None)
        self._thread.run(self._exchange.close, lambda *_: self._thread.stop())
        closed = self._closed
        self._thread.run(lambda: None, lambda *_: closed.callback(None))


class OwnedRequests:
    """The requests of a queue that this worker has taken from the server, in their order there."""

    medium = "redis"

    def __init__(self, scheduler: SharedScheduler, queue: Queue) -> None:
        self._scheduler = scheduler
        self._queue = queue
        self._heap: list[tuple[float, str, Request, Taken]] = []
        self.popped = 0
        """How many were popped since more was wanted."""

    def __iter__(self) -> Iterator[Taken]:
        return (entry[-1] for entry in self._heap)

    @property
    def count(self) -> int:
        """The number of requests."""
        return len(self._heap)

    @property
    def waits_for_rules(self) -> bool:
        """Whether the robots.txt is being fetched, or unreachable."""
        site = self._queue.site
        return site is not None and bool(
            site.is_wanted or site.is_fetching or site.outage
        )

    def put(self, request: Request, taken: Taken) -> None:
        """Add *request*, which was taken from the server."""
        heappush(self._heap, (taken.score, taken.number, request, taken))

    def pop(self) -> Request | None:
        """Remove and return the next request; None if there is none any more."""
        if not self._heap:
            return None
        *_, request, taken = heappop(self._heap)
        self.popped += 1
        self._scheduler.popped(request, taken)
        return request

    def peek(self) -> Request | None:
        """Return the next request; None if there is none."""
        return self._heap[0][2] if self._heap else None

    def take_all(self) -> list[Taken]:
        """Remove all requests, and return them."""
        taken = list(self)
        self._heap.clear()
        return taken


class _OwnedHost:
    """A host whose requests this worker alone sends."""

    def __init__(self, key: str, now: float) -> None:
        self.key = key
        self.since = self.empty_since = now
        self.queues: dict[str, OwnedRequests] = {}
        """Its requests that are here, by the queue on the server."""

        self.left: dict[str, int] = {}
        """How many requests of each queue are on the server still."""

    @property
    def count(self) -> int:
        """How many requests it has, as far as that is known."""
        here = sum(requests.count for requests in self.queues.values())
        return here + sum(self.left.values())

    def note(self, queue: str, requests: OwnedRequests | None, left: int) -> None:
        """Note that *requests* were taken from a *queue*."""
        if requests is not None:
            self.queues[queue] = requests
        self.left[queue] = left

    def wanted(self, batch: int) -> Iterator[tuple[str, int]]:
        """Return of which queues how many requests are wanted: a *batch*, and twice as many as were popped since."""
        for name, left in self.left.items():
            requests = self.queues.get(name)
            popped, here = (requests.popped, requests.count) if requests else (0, 0)
            most = min(batch + 2 * popped, _MAX_BATCH)
            if left and here <= most / 2:
                yield name, most - here
            if requests is not None:
                requests.popped = 0

    def is_usable(self, now: float) -> bool:
        """Whether its requests will be sent soon, as far as its robots.txt goes."""
        if now - self.since < _UNKNOWN_AFTER:
            return True
        return not all(requests.waits_for_rules for requests in self.queues.values())


def _no_reports() -> dict[str, Any]:
    names = ("done", "back", "unreadable", "ended", "paused", "left")
    return {name: [] for name in names}


def unit_of(slot: str) -> str:
    """Return the name on the server of the download slot *slot*: nearly always a host."""
    return " ".join(slot.split())


def name_of(key: QueueKey) -> str:
    """Return the name on the server of the queue with *key*."""
    kind = "service" if key.is_service else "" if key.is_of_http else "other"
    return f"{unit_of(key.slot)}\t{key.origin or ''}\t{kind}"


def host_of(queue: str) -> str:
    """Return the host, or the download slot, of a queue on the server."""
    return queue.partition("\t")[0]
