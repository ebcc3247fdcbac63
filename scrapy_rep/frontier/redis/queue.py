"""The host queue for scrapy-redis, which all workers share."""

from __future__ import annotations

import uuid
from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import Request, signals
from scrapy.exceptions import DontCloseSpider
from scrapy_redis.queue import Base

from scrapy_rep.compat.internals import (
    active_requests,
    is_closing,
    is_scraper_full,
    requests_in_progress,
    slot_state,
    wake,
)
from scrapy_rep.compat.versions import shared_component
from scrapy_rep.frontier.frontier import Frontier
from scrapy_rep.frontier.hostkeys import host_of
from scrapy_rep.frontier.redis.dupefilter import take_fingerprint
from scrapy_rep.frontier.redis.learning import Learning, name_of
from scrapy_rep.frontier.redis.worker import AT_ONCE, NO_LIMITS, Limits, Link, Worker
from scrapy_rep.frontier.requests import KnownMethods
from scrapy_rep.log import get_logger
from scrapy_rep.settings import RepSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Spider
    from scrapy.crawler import Crawler

    from scrapy_rep.frontier.frontier import BackQueue
    from scrapy_rep.frontier.redis.dupefilter import DupeFilter
    from scrapy_rep.frontier.redis.worker import Popped

logger = get_logger(__name__)

# The seconds after which the end of a request is reported, and new requests are pushed, unless
# a pop does it before.
_REPORT_AFTER = 0.02

# A server that needs more seconds for a call is distant.
_NEAR = 0.02

# The seconds after which requests are given back that were handed out and not popped.
_GIVE_BACK_AFTER = 0.1

# The seconds after which an idle worker asks the server again. The server does not notify
# it when another worker pushes a request.
_ASK_EVERY = 0.5

# The seconds after which requests that were kept in memory are sent again.
_SEND_EVERY = 1.0

_MIN_READY = 64


class HostQueue(Base):
    """Keeps the requests of a crawl with several workers by host, on their Redis server.

    For ``SCHEDULER_QUEUE_CLASS`` of scrapy-redis. ``pop`` hands out the best request of a
    host that is ready, and makes the host wait for its delay, in one step on the server. So all
    workers together keep the delay of a host, and have at most
    ``CONCURRENT_REQUESTS_PER_DOMAIN`` requests to it in flight. A request stays on the server
    until its callback is done and the output is processed. If a worker sends no heartbeat for
    ``REP_QUEUE_LEASE`` seconds, other workers get its requests.

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
        self._frontier = Frontier.of(crawler)
        self._frontier.queues.append(self)
        self._clock, self._alarms = self._frontier.clock, self._frontier.alarms
        self._link = link = shared_component(crawler, Link)
        link.connect(server)
        self._prefix = f"{{{self.key}}}"
        obeys = self._frontier.hosts is not None
        self._worker = Worker(
            link,
            self._clock,
            self._prefix,
            settings.queue_lease,
            obeys=obeys,
            wait_max=settings.wait_max,
            on_paused=self._paused,
        )
        self._places = crawler.settings.getint("CONCURRENT_REQUESTS")
        self._enough = max(_MIN_READY, 2 * self._places)
        self._methods = KnownMethods(crawler)
        self._learning = Learning(self._frontier, self._worker, self, self._read)
        self._in_flight = InFlight(crawler, self._worker)
        self._handed_out: deque[Popped] = deque()
        """The requests that the server has handed out, and that are popped next."""

        self._handed_out_at = self._ask_at = float("-inf")
        self._rests_until = float("-inf")
        """When the event loop has had as much time since the last call to a distant server as
        that has blocked it: what ends meanwhile goes into one call."""

        self._most = 1
        self._wakes_at = float("inf")
        self._reports_at = float("inf")
        self._idle_seconds = 0.0
        self._last_request = self._clock.monotonic()
        self._learning.on_learned = self._in_flight.on_ended = self._report_soon
        self._frontier.leases = self._in_flight
        connect = crawler.signals.connect
        connect(self._left_downloader, signals.request_left_downloader)
        connect(self._spider_opened, signals.spider_opened)
        connect(self._spider_idle, signals.spider_idle)
        connect(self._spider_closed, signals.spider_closed)

    # For the scheduler.

    def __len__(self) -> int:
        """The number of requests that are not done, including those that workers have taken."""
        return self._worker.count_all()

    def push(self, request: Request, *, is_exempt: bool = False) -> None:
        """Add *request*. If it *is_exempt*, its robots.txt does not apply.

        If the server fails, the request is kept in memory until the server works again.
        Raises the error of the serialiser if that can't serialise the request.
        """
        key = self._frontier.key_of(request)
        if is_exempt:
            key = key._replace(origin=None)
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
            self._report_soon()

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
        self._frontier.settle()
        request = None
        if self._frontier.has_room:
            if not self._handed_out:
                self._ask_if_due()
            request = self._start_next()
        self._frontier.flush()
        return request

    def _ask_if_due(self) -> None:
        """Ask the server for requests, unless it has said that none is ready yet."""
        self._in_flight.settle()
        now = self._clock.monotonic()
        if now >= self._ask_at or self._worker.has_ended:
            if now >= self._rests_until:
                self._exchange(self._wanted(now))
            else:
                self._wake_at(self._rests_until)

    def _wanted(self, now: float) -> int:
        """The number of requests to ask for: as many as the downloader has room for; or twice as
        many as last time if none of those would have been given back, and half as many if not.
        """
        is_fast = now < self._handed_out_at + _GIVE_BACK_AFTER
        most = 2 * self._most if is_fast else self._most // 2
        self._most = min(max(most, 1), self._places)
        return max(self._room, self._most)

    @property
    def _room(self) -> int:
        """The number of requests for which the downloader has room."""
        if not self._frontier.has_room or is_scraper_full(self._crawler):
            return 0
        return max(self._places - len(active_requests(self._crawler)), 0)

    def _exchange(self, wanted: int) -> None:
        """Tell the server what has happened, and ask it for requests, and for hosts whose
        robots.txt to fetch.
        """
        self._reports_at = float("inf")
        self._beat()
        self._resync()
        now = began = self._clock.monotonic()
        quota = self._learning.quota(now) if wanted else 0
        limits = self._in_flight.limits if wanted else NO_LIMITS
        found, unknown = self._worker.exchange(
            limits, wanted=wanted, quota=max(quota, 0), enough=self._enough
        )
        now = self._clock.monotonic()
        took = now - began
        self._rests_until = now + took if took > _NEAR else now
        if wanted:
            self._learning.begin(unknown, quota, now)
        if found:
            self._handed_out.extend(found)
            self._handed_out_at = now
            self._alarms.at(now + _GIVE_BACK_AFTER, self._give_back)
        elif wanted:
            self._ask_later()
        if self._worker.unsent:
            self._report_soon(_SEND_EVERY)

    def _start_next(self) -> Request | None:
        """Start the next request that was handed out, if there is one that can be read."""
        self._beat()
        if not self._worker.is_alive:
            return None  # Another worker may have it.
        while self._handed_out:
            request = self._start(self._handed_out.popleft())
            if request is not None:
                return request
        return None

    def _give_back(self) -> None:
        """Let other workers have the requests for which there was no room."""
        left = self._handed_out_at + _GIVE_BACK_AFTER - self._clock.monotonic()
        if self._handed_out and left <= 0:
            for popped in self._handed_out:
                self._worker.back(popped.number)
            self._handed_out.clear()
            self._report_soon()

    def _paused(self, host: str, *times: float) -> None:
        """Note that a host has asked a worker for a pause."""
        self._frontier.pauses.paused_elsewhere(host, *times)
        for popped in [one for one in self._handed_out if one.host == host]:
            self._handed_out.remove(popped)
            self._worker.back(popped.number)

    def clear(self) -> None:
        """Remove all requests, and the state of all hosts."""
        escaped = "".join(f"\\{c}" if c in "*?[]\\" else c for c in self._prefix)
        for key in self.server.scan_iter(f"{escaped}:*", count=1_000):
            self.server.unlink(key)
        self._handed_out.clear()
        self._worker.forget_unsent()

    # For the frontier.

    def take(self, queue: BackQueue) -> Request | None:
        """Pop a request to refuse, of a host that was given up; None if there is none."""
        popped = self._learning.take(queue)
        if popped is None:
            return None
        self._report_soon()
        request = self._read(popped.data, is_taken=True)
        if request is None:
            self._worker.done(popped.number, self._worker.pushed)
        else:
            self._in_flight.add_refused(request, popped)
        return request

    def count_waiting(self) -> None:
        """Return None: only Redis knows how many requests wait."""

    def count_ready(self) -> int:
        """Return 0: the server counts the ready queues itself, in ``queue.lua``."""
        return 0

    # Requests of this worker.

    def _start(self, popped: Popped) -> Request | None:
        request = self._read(popped.data, is_taken=True)
        if request is None:
            self._worker.left(popped.number, popped.host, fetched=False)
            self._worker.done(popped.number, self._worker.pushed)
            # None tells the engine that there is no request, but there may be others.
            self._report_soon()
            return None
        key = self._frontier.key_of(request)
        self._in_flight.add(request, popped, key.slot)
        self._frontier.started(key, request)
        self._last_request = self._clock.monotonic()
        return request

    def _left_downloader(self, request: Request) -> None:
        if self._in_flight.on_left_downloader(request):
            self._report_soon()

    def _read(self, data: bytes, *, is_taken: bool = False) -> Request | None:
        try:
            found: Request = self._decode_request(data)
        except Exception:  # A serialiser can raise any error.
            if is_taken:
                logger.exception(
                    "Cannot decode a request, so it is removed from the queue in Redis, and "
                    "is not sent: %(data).200r",
                    {"data": data},
                    extra={"spider": self.spider},
                )
            return None
        return found

    # When to ask.

    def _ask_later(self) -> None:
        """Schedule the next pop, for when a host may be ready."""
        now = self._clock.monotonic()
        self._ask_at = now + min(self._worker.again, _ASK_EVERY)
        if self._learning.again_at > now:
            self._ask_at = min(self._ask_at, self._learning.again_at)
        self._wake_at(self._ask_at)

    def _wake_at(self, moment: float) -> None:
        if moment < self._wakes_at:
            self._wakes_at = moment
            self._alarms.at(moment, self._wake)

    def _wake(self) -> None:
        self._wakes_at = float("inf")
        if self._ask_at > self._clock.monotonic():
            self._wake_at(self._ask_at)
        wake(self._crawler)

    def _report_soon(self, seconds: float = _REPORT_AFTER) -> None:
        """Tell the server in *seconds* what has happened, unless a pop does so before."""
        moment = self._clock.monotonic() + seconds
        if moment < self._reports_at:
            self._reports_at = moment
            self._alarms.at(moment, self._report)

    def _report(self) -> None:
        if self._clock.monotonic() < self._reports_at:
            return  # A pop has reported it.
        self._reports_at = float("inf")
        self._in_flight.settle()
        if self._clock.monotonic() < self._rests_until:
            self._report_soon(self._rests_until - self._clock.monotonic())
        elif self._worker.has_reports:
            self._exchange(0 if self._handed_out else self._room)
            self._frontier.flush()
            wake(self._crawler)

    def _beat_on(self) -> None:
        """Send a heartbeat, and schedule the next."""
        self._resync()
        self._beat()
        self._alarms.at(
            self._clock.monotonic() + self._worker.beat_every, self._beat_on
        )

    def _beat(self) -> None:
        """Send a heartbeat if one is due, which also returns the requests of a dead worker."""
        if not self._worker.is_beat_due:
            return
        generation = self._worker.generation
        returned = self._worker.beat()
        if generation != self._worker.generation:
            self._handed_out.clear()  # Other workers have them.
        if returned:
            logger.warning(
                "A worker sent no heartbeat for REP_QUEUE_LEASE seconds: the %(count)d requests "
                "that it had taken are in the queue again, for any worker",
                {"count": returned},
                extra={"spider": self.spider},
            )

    def _resync(self) -> None:
        if self._link.has_lost_answer:
            numbers = [each.number for each in self._handed_out]
            self._worker.resync(
                [*self._in_flight.requests, *numbers, *self._learning.taken],
                [*self._in_flight.places, *numbers],
                self._learning.queues,
            )

    # The spider.

    def _spider_opened(self) -> None:
        self._beat_on()

    def _spider_idle(self) -> None:
        """Keep the spider open for ``SCHEDULER_IDLE_BEFORE_CLOSE`` seconds."""
        if self._clock.monotonic() < self._last_request + self._idle_seconds:
            raise DontCloseSpider

    def _spider_closed(self) -> None:
        self._in_flight.settle()
        self._resync()
        self._worker.report()
        self._worker.retire()
        if self._worker.unsent:
            logger.error(
                "%(count)d requests are lost: they were in the memory of this worker, and the "
                "queue in Redis had not worked again when the worker ended",
                {"count": self._worker.unsent},
                extra={"spider": self.spider},
            )
        self._link.close()


class Taken(NamedTuple):
    """A request that this worker has taken from the queue."""

    number: str
    host: str
    slot: str

    generation: int
    pushed: int
    last_pause: int
    """The values of the worker's counters when it took the request."""


class InFlight:
    """The requests that are in flight in this worker. A request is in flight until its
    callback has ended, and has a place at its host until it has left the downloader.

    Requests that did not come from a queue, for media and robots.txt, get their places at
    hosts here too.
    """

    def __init__(self, crawler: Crawler, worker: Worker) -> None:
        self._crawler = crawler
        self._frontier = Frontier.of(crawler)
        self._worker = worker
        self.on_ended: Callable[[], None] = lambda: None
        """Called when there is something to report."""

        self._taken: dict[Request, Taken] = {}
        self._places: dict[Request, Taken] = {}
        self._acquired: dict[str, str] = {}
        self._fetched: set[Request] = set()
        self._successes: dict[Request | str, int] = {}
        """The requests that have succeeded after a pause, or the hosts, for acquired places; and
        the number of that pause."""

    @property
    def requests(self) -> list[str]:
        """The numbers of the requests."""
        return [taken.number for taken in self._taken.values()]

    @property
    def places(self) -> list[str]:
        """The numbers of the places at hosts."""
        numbers = [taken.number for taken in self._places.values()]
        return [*numbers, *self._acquired.values()]

    def add(self, request: Request, popped: Popped, slot: str) -> None:
        worker = self._worker
        taken = Taken(
            popped.number,
            popped.host,
            slot,
            worker.generation,
            worker.pushed,
            worker.last_pause,
        )
        self._taken[request] = taken
        if popped.has_place:
            self._places[request] = taken

    def add_refused(self, request: Request, popped: Popped) -> None:
        """Add a request that needs no place: it ends with its errback."""
        self.add(request, popped._replace(has_place=False), "")
        self._fetched.add(request)

    # Turns at hosts.

    def has_turn(self, request: Request) -> bool:
        """Whether *request* got its turn from the Redis server, and still has it."""
        taken = self._places.get(request)
        return taken is not None and self._is_held(taken)

    def acquire(self, host: str) -> bool:
        """Try to get the place at *host* until it is released. Return True on success."""
        self.settle()
        if any(
            taken.host == host and self._is_held(taken)
            for taken in self._places.values()
        ):
            # The request with the place waits for its robots.txt anyway, and then for the
            # delay after that.
            return True
        number = uuid.uuid4().hex
        found = self._worker.acquire(number, host)
        if found:
            self._acquired[host] = number
        # While the server fails, this worker alone keeps the delay.
        return found is not False

    def release(self, host: str, delay: float, *, fetched: bool) -> None:
        """Let another worker send to *host*, after *delay* seconds if it was *fetched*."""
        number = self._acquired.pop(host, None)
        if number is not None:
            pause = self._successes.pop(host, 0)
            self._worker.left(number, host, fetched=fetched, pause=pause, delay=delay)
            self.on_ended()

    def give_up(self, request: Request) -> None:
        """Give the place of *request* back, if it has one: its host asked for a pause meanwhile."""
        if request in self._places:
            self._leave(request)
            self.on_ended()

    # Back-off.

    def back_off(self, host: str, pause: float, own: float) -> None:
        """Tell the other workers that *host* has asked for a pause."""
        self._worker.back_off(host, pause, own)

    def succeeded(self, request: Request) -> None:
        """Note that a host has answered *request* after a pause, without asking for another."""
        taken = self._places.get(request)
        if taken is not None:
            self._successes[request] = taken.last_pause
        else:
            self._successes[host_of(request)] = self._worker.last_pause

    def _is_held(self, taken: Taken) -> bool:
        """Whether this worker still has the request *taken*: as far as it knows, its lease has
        not expired since.
        """
        return self._worker.is_alive and taken.generation == self._worker.generation

    # The end of requests.

    def on_left_downloader(self, request: Request) -> bool:
        """Note that *request* was sent, or failed. Return whether it is from the queue."""
        if request not in self._taken:
            return False
        self._fetched.add(request)
        return True

    def settle(self) -> None:
        """Find out which requests have ended, for the next report to the Redis server."""
        active = active_requests(self._crawler)
        fetched = self._fetched
        for request in [
            one for one in self._places if one not in active or one in fetched
        ]:
            self._leave(request)
        in_progress = requests_in_progress(self._crawler)
        ended = [
            one
            for one in self._taken
            if one not in in_progress and one not in self._frontier.refusing.failing
        ]
        closing = bool(ended) and is_closing(self._crawler)
        for request in ended:
            if request in fetched or not closing:
                taken = self._taken.pop(request)
                self._worker.done(taken.number, taken.pushed)
            # Otherwise the closing spider may not have sent it, so it returns to the queue.
            fetched.discard(request)

    def _leave(self, request: Request) -> None:
        """Free the place of *request*."""
        taken = self._places.pop(request)
        _, gap = self._limits_of(taken.slot)
        own_gap = gap if gap != self.limits.gap else 0
        fetched = request in self._fetched
        self._worker.left(
            taken.number,
            taken.host,
            fetched=fetched,
            pause=self._successes.pop(request, 0),
            gap=own_gap,
        )

    @cached_property
    def limits(self) -> Limits:
        """The limits in the settings, as the engine's downloader has read them: the engine must
        exist."""
        slots = self._crawler.settings.getdict("DOWNLOAD_SLOTS")
        of_hosts = {slot: self._limits_of(slot) for slot in slots}
        return Limits(*self._limits_of(""), of_hosts)

    def _limits_of(self, slot: str) -> tuple[int, int]:
        """The concurrency of a download slot, and the milliseconds between its requests."""
        state = slot_state(self._crawler, slot)
        if state is None:
            return 1, 0
        return max(state.concurrency, 1), round(1000 * state.delay)
