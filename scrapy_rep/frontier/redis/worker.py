"""The calls of one worker to the queue that all workers share on a Redis server."""

from __future__ import annotations

import json
import logging
import uuid
from collections import deque
from functools import cache
from hashlib import sha1
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from redis import ConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, OutOfMemoryError, RedisError, ResponseError
from redis.retry import Retry

from scrapy_rep.frontier.frontier import Frontier
from scrapy_rep.log import get_logger
from scrapy_rep.stores.redis import without_handshake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scrapy.crawler import Crawler

    from scrapy_rep.frontier.clock import Clock
    from scrapy_rep.frontier.redis.learning import Terms

logger = get_logger(__name__)

# In seconds. Like all of scrapy-redis, calls of the queue block the event loop.
_TIMEOUT = 3.0

# The seconds for which the server is not called after it failed to answer.
_PAUSE = 2.0

# The seconds by which the deadline of a call is later than its timeout, since clocks of two
# machines can differ.
_MARGIN = 1.0

# Options that a pool of redis-py adds to its connections, which redirect them to another
# server during its maintenance, and make them wait longer meanwhile.
_OF_POOLS = (
    "maint_notifications_config",
    "maint_notifications_pool_handler",
    "oss_cluster_maint_notifications_handler",
)

# With this number of new requests, a call is made, unless the last one to a distant server has
# just ended. One call pushes at most the second number.
AT_ONCE = 100
_MOST = 500

# While more requests than this wait in memory for the server, none is popped, since its
# callback would make even more.
MAX_UNSENT = 1000

# For how many times as long as a call takes the number of requests that it returns is used.
_COUNT_HOLDS = 10

# The length of the number at the start of each stored request.
_NUMBER = 14

# The part of its lease after which a worker sends the next heartbeat.
_PART_OF_LEASE = 1 / 4

# In seconds. A robots.txt that holds longer, by a setting, is reported again after a day, so
# that the keys of hosts expire on the server.
_LONGEST = 86_400.0

# In seconds, about thirty years.
_FOREVER = 1e9


class Popped(NamedTuple):
    """A request that was popped."""

    number: str
    queue: str
    data: bytes
    has_place: bool = True
    """Whether it may be sent. If not, it is to be refused: its host asks for too long a pause."""

    @property
    def host(self) -> str:
        """The host or download slot to which the limits of the queue apply."""
        return self.queue.partition("\t")[0]


class Unknown(NamedTuple):
    """A queue whose robots.txt is not known."""

    queue: str

    delay: float
    """The crawl delay of other origins of its host, in seconds."""

    item: bytes
    """One of its requests, after its number."""

    @property
    def data(self) -> bytes:
        return self.item[_NUMBER:]


class Limits(NamedTuple):
    """The limits of a host without a crawl delay."""

    at_once: int
    """Requests in flight, of all workers."""

    gap: int
    """Milliseconds between the starts of two requests."""

    of_hosts: Mapping[str, tuple[int, int]] = {}
    """The different limits of some hosts."""


NO_LIMITS = Limits(1, 0)


class Link:
    """Runs the script on the Redis server, and logs when it fails and when it works again.

    Each crawler has one, with a connection of its own: the client of scrapy-redis would
    block the event loop for too long, and repeat calls that the server may have run already.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._clock = Frontier.of(crawler).clock
        self._client: Any = None
        self._is_loaded = False
        self._offset: float | None = None
        self._failed_at: float | None = None
        self.is_failing = False
        """Whether a call has failed, and :meth:`note_recovery` was not called since."""

        self.is_full = False
        """Whether the last call failed because the server has no memory left."""

        self.has_lost_answer = False
        """Whether the server may have run a call whose answer did not arrive."""

    def connect(self, client: Any) -> None:
        """Use the server of *client*, with a connection of its own unless that is a cluster."""
        if self._client is not None:
            return
        self._client = client
        if isinstance(client, Redis):
            pool = client.connection_pool
            options = {
                **{
                    k: v
                    for k, v in pool.connection_kwargs.items()
                    if k not in {*_OF_POOLS, "lib_name", "lib_version"}
                },
                "socket_timeout": _TIMEOUT,
                "socket_connect_timeout": _TIMEOUT,
                "retry": Retry(NoBackoff(), 0),
                "retry_on_timeout": False,
                "decode_responses": False,
                **without_handshake(),
            }
            own = ConnectionPool(connection_class=pool.connection_class, **options)
            self._client = Redis(connection_pool=own)

    def close(self) -> None:
        """Close the connection; a later call opens it again."""
        if isinstance(self._client, Redis):
            self._client.connection_pool.disconnect()

    @property
    def is_paused(self) -> bool:
        """Whether the server is not called now, because it failed to answer just before."""
        if self._failed_at is None:
            return False
        return self._clock.monotonic() < self._failed_at + _PAUSE

    @property
    def deadline(self) -> int:
        """The moment until which the server may run a call that is made now, in milliseconds
        by the server's clock; 0 if that clock is not known yet.
        """
        if self._offset is None:
            return 0
        seconds = self._clock.monotonic() + _TIMEOUT + _MARGIN
        return round(seconds * 1000 + self._offset)

    def note_time(self, now: int) -> None:
        """Note that the server's clock shows *now*, in milliseconds."""
        self._offset = now - self._clock.monotonic() * 1000

    def run(self, keys: Sequence[str], *args: str | bytes | float) -> Any:
        """Run the script, and return its result; None if the server fails."""
        self.is_full = False
        if self.is_paused:
            return None
        try:
            found = self._run(len(keys), *keys, *args)
        except (RedisError, OSError) as error:
            self._failed(error)
            if _is_out_of_memory(error):
                self.is_full = True
                return None
            self._failed_at = self._clock.monotonic()
            self.has_lost_answer = True
            return None
        self._failed_at = None
        return found

    def _run(self, *args: Any) -> Any:
        text, sha = source()
        if self._is_loaded:
            try:
                return self._client.evalsha(sha, *args)
            except NoScriptError:
                pass  # The server was restarted.
        found = self._client.eval(text, *args)
        self._is_loaded = True
        return found

    def note_recovery(self) -> None:
        """Note that the server works, and has taken all requests that waited for it."""
        if self.is_failing:
            self.is_failing = False
            self.log(logging.INFO, "The queue in Redis works again")

    def _failed(self, error: Exception) -> None:
        if not self.is_failing:
            self.is_failing = True
            self.log(
                logging.WARNING,
                "The queue in Redis fails (%(error)s): this worker keeps new requests in "
                "memory, and takes requests again when the server works again",
                error=f"{type(error).__name__}: {error}",
            )

    def log(self, level: int, message: str, **values: object) -> None:
        # An empty mapping must not be passed as the argument of a message without values.
        extra = {"spider": self._crawler.spider}
        logger.log(level, message, *([values] if values else []), extra=extra)


@cache
def source() -> tuple[str, str]:
    """Return the text of the script, and the digest by which the server knows it."""
    text = (files(__package__) / "queue.lua").read_text(encoding="utf-8")
    return text, sha1(text.encode(), usedforsecurity=False).hexdigest()


def _is_out_of_memory(error: Exception) -> bool:
    """Whether the server answered, but has no memory left."""
    if isinstance(error, OutOfMemoryError):
        return True
    # Redis 6 has the code in the middle of the error of a script.
    return isinstance(error, ResponseError) and "-OOM " in str(error)


class Worker:
    """Pops requests for one worker, and reports when they have ended.

    Reports go with the next call, to save round trips. If the crawl does not obey robots.txt
    (*obeys*), no queue waits for it.
    """

    def __init__(
        self,
        link: Link,
        clock: Clock,
        prefix: str,
        lease: float,
        *,
        obeys: bool = True,
        wait_max: float = _FOREVER,
        on_paused: Callable[[str, float, float, float], None] = lambda *_: None,
    ) -> None:
        """*on_paused* is called for each pause of a host that any worker has reported: with the
        name of the host, the seconds that are left, the last pause that was doubled, and for how
        long the host has asked for pauses. Requests that would wait longer than *wait_max* are
        handed out during a pause, to be refused.
        """
        self._link = link
        self._clock = clock
        self._prefix = prefix
        self._lease = round(lease * 1000)
        self._all_known = not obeys
        self.beat_every = lease * _PART_OF_LEASE
        """The seconds between two heartbeats."""

        self._last_beat = float("-inf")
        self.generation = 0
        """The number of times that the server has registered this worker: once at the start,
        and again after its lease had expired, and other workers got what it had."""

        self._name = uuid.uuid4().hex
        self._wait_max = round(min(wait_max, _FOREVER) * 1000)
        self._on_paused = on_paused
        self._pauses: dict[str, tuple[float, float]] = {}
        self.last_pause = 0
        """The number of the last pause that this worker knows."""

        self._left: list[list[str | int]] = []
        self._done: list[tuple[str, int]] = []
        self._back: list[str] = []
        self._known: list[list[str | int]] = []
        self._removed: list[list[str]] = []
        self._unsent: deque[tuple[Any, ...]] = deque()
        self._seen_key = ""
        self.pushed = 0
        """The number of requests that were pushed so far."""

        self._count = 0
        self._counted_until = float("-inf")
        self.again = 0.0
        """The seconds after which a host may be ready, according to the server."""

    # The ends of requests.

    def left(
        self,
        number: str,
        host: str,
        *,
        fetched: bool,
        pause: int = 0,
        gap: int = 0,
        delay: float = 0.0,
    ) -> None:
        """Report that a request has left the downloader. *fetched* is whether it was sent to
        its host. If the host, which had asked for a pause, did not ask again, *pause* is the value
        of :attr:`last_pause` when the worker got the request. *gap* is the delay of its download
        slot in milliseconds, if not the default, and *delay* that of the host in seconds, if the
        server may not know it.
        """
        fate = max(int(fetched), pause)
        self._left.append([number, host, fate, gap, round(delay * 1000)])

    def done(self, number: str, pushed: int = 0) -> None:
        """Report that the callback of a request has ended. *pushed* is the value of
        :attr:`pushed` when it was popped.

        The report waits until the server has all requests that were pushed since then, since
        the callback may have made them.
        """
        self._done.append((number, self.pushed if self.pushed > pushed else 0))

    @property
    def has_ended(self) -> bool:
        """Whether a request has ended, so that there may be room for another."""
        return bool(self._left or self._done)

    @property
    def has_reports(self) -> bool:
        """Whether there is something to report, or to push."""
        return bool(
            self._left
            or self._done
            or self._unsent
            or self._known
            or self._removed
            or self._back
        )

    @property
    def is_alive(self) -> bool:
        """Whether the lease of this worker has not expired."""
        return self._clock.monotonic() < self._last_beat + self._lease / 1000

    @property
    def is_beat_due(self) -> bool:
        """Whether it is time for a heartbeat."""
        return self._clock.monotonic() >= self._last_beat + self.beat_every

    @property
    def unsent(self) -> int:
        """The number of requests that the server has not taken yet."""
        return len(self._unsent)

    # Requests.

    def push(
        self,
        queue: str,
        score: int,
        data: bytes,
        seen: tuple[str, str] = ("", ""),
        *,
        on_seen: Callable[[], None] = lambda: None,
    ) -> None:
        """Collect a request for the next call. *seen* is the key of the set of fingerprints and
        its fingerprint. If the set has that already, the request is not added to the queue, and
        *on_seen* is called.
        """
        key, fingerprint = seen
        self._seen_key = key or self._seen_key
        self._unsent.append((queue, score, data, fingerprint, on_seen))
        self.pushed += 1

    def back(self, number: str) -> None:
        """Report that this worker does not use a request that was handed out."""
        self._back.append(number)

    def exchange(
        self,
        limits: Limits = NO_LIMITS,
        *,
        wanted: int = 0,
        quota: int = 0,
        enough: int = 0,
    ) -> tuple[list[Popped], list[Unknown]]:
        """Report and push what was collected. Return at most *wanted* requests, the best ones of
        hosts that are ready; and at most *quota* queues whose robots.txt this worker is to fetch,
        none if *enough* are ready.
        """
        self._report_pauses()
        # If there is no answer, the server is not asked again at once.
        self.again = float("inf")
        if len(self._unsent) >= MAX_UNSENT:
            wanted = 0
        order: dict[str, Any] = {
            "wanted": wanted,
            "quota": quota,
            "enough": enough,
            "places": limits.at_once,
            "gap": limits.gap,
            "hosts": limits.of_hosts,
            "all_known": self._all_known,
            "wait_max": self._wait_max,
        }
        found: list[Any] | None = []
        while found is not None and len(self._unsent) > _MOST:
            found = self._send({**order, "wanted": 0, "quota": 0}, _MOST)
        if found is not None:
            found = self._send(order, _MOST)
        if found is None and self._link.is_full and self._unsent:
            # It still accepts everything else, which frees memory.
            found = self._send(order, 0)
        if found is None:
            return [], []
        if not self._unsent:
            self._link.note_recovery()
        again, self.last_pause, pauses, popped, unknown = found
        for host, *times in pauses:
            self._on_paused(host.decode(), *(each / 1000 for each in times))
        if wanted:
            self.again = again / 1000
        each = iter(popped)
        return (
            [_popped(*one) for one in zip(each, each, each, strict=True)],
            [
                Unknown(queue.decode(), delay / 1000, item)
                for queue, delay, item in unknown
            ],
        )

    def _send(self, order: dict[str, Any], most: int) -> list[Any] | None:
        """Send all reports, and at most *most* of the collected requests. Return the rest of the
        answer; None if the server fails.
        """
        records = list(islice(self._unsent, most))
        taken = self.pushed - len(self._unsent) + len(records)
        order |= {
            "last_pause": self.last_pause,
            "known": self._known,
            "removed": self._removed,
            "left": self._left,
            "back": self._back,
            "done": [number for number, last in self._done if last <= taken],
        }
        words = [word for record in records for word in record[:4]]
        began = self._clock.monotonic()
        found = self._ask("exchange", json.dumps(order), *words)
        if found is None:
            return None
        seen, self._count, *rest = found
        self._note_count(began)
        for index in seen:
            records[index][-1]()
        for _ in records:
            self._unsent.popleft()
        for each in (self._known, self._removed, self._left, self._back):
            each.clear()
        self._done = [one for one in self._done if one[1] > taken]
        return rest

    def report(self) -> None:
        """Report and push what was collected."""
        for _ in range(2):  # The server may refuse the first call as late.
            self.exchange()
            if not self.has_reports:
                break

    def take(self, queue: str, count: int) -> tuple[list[Popped], int]:
        """Pop at most *count* requests of *queue*, to refuse them, even if its host is not ready.
        Return them and the number of those that are left, at least 1 if the server fails.
        """
        found = self._ask("take", queue, count)
        if found is None:
            return [], 1
        items, left = found
        return [_popped(queue.encode(), item, 0) for item in items], left

    def count_all(self) -> int:
        """The number of requests on the server that are not done, and of those that wait in
        the memory of this worker. If the server fails, the number of the last call, at least 1.
        """
        began = self._clock.monotonic()
        if self._count and began < self._counted_until:
            return self._count + self.unsent
        found = self._ask("count")
        if found is None:
            # Zero would end the crawl.
            return max(self._count + self.unsent, 1)
        [self._count] = found
        self._note_count(began)
        return self._count + self.unsent

    def _note_count(self, began: float) -> None:
        """Note that a call, which *began* then, has counted the requests. A number above zero only
        keeps the spider open, so a distant server is seldom asked for it alone.
        """
        now = self._clock.monotonic()
        self._counted_until = now + _COUNT_HOLDS * (now - began)

    def forget_unsent(self) -> None:
        """Forget the requests that the server has not taken: the queue was cleared."""
        self._unsent.clear()
        self._count = 0

    # Hosts.

    def learned(self, queue: str, terms: Terms | None) -> None:
        """Report that the robots.txt of *queue* is known or, without *terms*, must be fetched
        by another worker.
        """
        times = [round(min(each, _LONGEST) * 1000) for each in terms or ()]
        self._known.append([queue, *times])

    def remove(self, unknown: Unknown) -> None:
        """Report that the request of a queue cannot be read, and is to be removed."""
        self._removed.append([unknown.queue, unknown.item[:_NUMBER].decode()])

    def acquire(self, number: str, host: str) -> bool | None:
        """Take the only place at *host*. Return whether it was free; None if the server fails."""
        found = self._ask("acquire", number, host)
        if found is None:
            return None if self._link.is_failing else False
        return bool(found[0])

    def back_off(self, host: str, pause: float, own: float) -> None:
        """Report that *host* has asked for a pause of *pause* seconds. *own* is the last one that
        was doubled. If the server fails, it is reported later.
        """
        self._pauses[host] = self._clock.monotonic() + pause, own
        self._report_pauses()

    def _report_pauses(self) -> None:
        for host, (until, own) in list(self._pauses.items()):
            pause = max(until - self._clock.monotonic(), 0.0)
            times = [round(each * 1000) for each in (pause, own)]
            if self._ask("back_off", host, *times, self._wait_max) is None:
                return
            del self._pauses[host]

    # This worker.

    def beat(self, *, looks: bool = True) -> int:
        """Send a heartbeat. If it *looks* for a worker whose lease has expired, and finds one,
        the requests of that worker return to the queue. Return their number.
        """
        now = self._clock.monotonic()
        found = self._ask("beat", self._lease, int(looks))
        if found is None:
            return 0
        self._last_beat = now
        returned, is_new, is_recounted = found
        if is_recounted:
            self._link.log(
                logging.WARNING,
                "A counter of the queue in Redis was lost or garbled: the requests were counted "
                "again, and none of them is lost",
            )
        self.generation += is_new
        return int(returned)

    def resync(
        self, requests: Iterable[str], places: Iterable[str], queues: Iterable[str]
    ) -> None:
        """After a lost answer, report what this worker has: the numbers of its *requests* and
        of its *places* at hosts, and the *queues* whose robots.txt it fetches. The server
        returns everything else that it has recorded for this worker to the queue.
        """
        if not self._link.has_lost_answer or self._link.is_paused:
            return
        done = [number for number, _ in self._done]
        fields = [f"={number}" for number in (*requests, *done)]
        fields += [f"@{number}" for number in places]
        found = self._ask("resync", json.dumps(fields), json.dumps([*queues]))
        if found is not None:
            self._link.has_lost_answer = False

    def retire(self) -> None:
        """Return everything that this worker has to the queue."""
        self._ask("retire")

    def _ask(self, event: str, *args: str | bytes | float) -> list[Any] | None:
        """Tell the server of an *event*, and return its answers; None if the server fails, or
        refuses the call as late or because this worker is not registered. After a refusal, send a
        heartbeat.
        """
        keys = [self._prefix, self._seen_key or self._prefix]
        found = self._link.run(keys, event, self._name, self._link.deadline, *args)
        if found is None:
            return None
        is_refused, now, *rest = list[Any](found)
        self._link.note_time(now)
        if is_refused:
            self.beat(looks=False)
            return None
        return rest


def _popped(queue: bytes, item: bytes, has_place: int) -> Popped:
    number, data = item[:_NUMBER].decode(), item[_NUMBER:]
    return Popped(number, queue.decode(), data, has_place=bool(has_place))
