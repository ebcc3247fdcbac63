"""The calls of one worker to the queue that all workers share on a Redis server."""

from __future__ import annotations

import json
import uuid
from collections import deque
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from redis import ConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from scrapy_rep.crawl.fetching.redisstore import without_handshake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scrapy_rep.base.clock import Clock
    from scrapy_rep.base.log import CrawlLog
    from scrapy_rep.crawl.frontier.backlog import Terms

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
# just ended.
AT_ONCE = 100

# One call pushes at most this number of new requests. While more wait in memory for the server,
# none is popped, since its callback would make even more.
MAX_UNSENT = 1000

# What a call says of pauses and of the number of requests holds for this time, in seconds, or for this
# multiple of the time that the call took, if that is longer: so a distant server is seldom asked for
# these alone.
_HOLDS = 0.02
_HOLDS_TIMES_CALL = 10

# The length of the number at the start of each stored request.
_NUMBER = 14

# The part of its lease after which a worker renews it at the latest.
_PART_OF_LEASE = 1 / 4

# In seconds. A robots.txt that holds longer, by a setting, is reported again after a day, so
# that the keys of hosts expire on the server.
_LONGEST = 86_400.0

# In seconds, about thirty years.
_FOREVER = 1e9


@dataclass(slots=True, eq=False)
class Lease:
    """A request that this worker has from the server, or only a place at a host."""

    number: str
    """That of the request; empty for a place alone, or if there is a newer lease of the request."""

    queue: str
    """The queue of the request, or the host."""

    has_place: bool = True
    """Whether it may be sent. If not, it has left the downloader, is to be refused, or was set
    aside."""

    data: bytes = b""

    delay: float = 0.0
    """The crawl delay of its host, in seconds."""

    score: bytes = b"0"

    tried: str = ""
    """The workers that could not read it, one name after the other."""

    last_pause: int = 0
    """The number of the last pause of any host that the worker knew when it got the lease."""

    pushed: int = 0
    """How many requests it had pushed when this one was popped."""

    is_expired: bool = False
    """Whether the lease had expired, and other workers may have got the request since."""

    slot: str = ""
    """The download slot of a request that was popped."""

    is_sent: bool = False
    succeeded_after: int = 0
    """The number of the host's last pause, if its request has succeeded after that."""

    @property
    def host(self) -> str:
        """The host or download slot to which the limits of the queue apply."""
        return self.queue.partition("\t")[0]


class Answer(NamedTuple):
    """What the server has answered to a call. Nothing, if it fails."""

    found: Sequence[Lease] = ()
    """Requests to send or to refuse."""

    wanted: Sequence[Lease] = ()
    """A request of each queue whose robots.txt this worker is to fetch."""

    acquired: Lease | None = None
    """The place that it has asked for."""

    returned: int = 0
    """How many requests have returned to the queue from a dead worker."""

    set_aside: int = 0
    """For a worker that ends, how many requests no worker could read so far."""


class Link:
    """Runs the script on the Redis server, and logs when it fails and when it works again."""

    def __init__(self, client: Any, clock: Clock, logger: CrawlLog) -> None:
        """Use the server of *client*, with a connection of its own unless that is a cluster: the
        client of scrapy-redis would block the event loop for too long, and repeat calls that the
        server may have run already.
        """
        self.logger = logger
        self._clock = clock
        self._on_connect: Callable[[Any], object] | None = None
        """What the project calls on a new connection, if it has set that."""

        self._client = self._with_connection_of_its_own(client)
        self._script = self._client.register_script(source())
        self._offset = 0.0
        """The milliseconds from the clock of this machine to that of the server."""

        self._paused_until = float("-inf")
        self.is_failing = False
        """Whether a call has failed, and :meth:`note_recovery` was not called since."""

        self.is_full = False
        """Whether the last call failed because the server has no memory left."""

        self.has_lost_answer = False
        """Whether the server may have run a call whose answer did not arrive, or may be another one than
        before, with older data."""

    def close(self) -> None:
        """Close the connection; a later call opens it again."""
        if isinstance(self._client, Redis):
            self._client.connection_pool.disconnect()

    def call(
        self,
        keys: Sequence[str],
        worker: str,
        order: Mapping[str, Any],
        words: Sequence[str | bytes | int],
    ) -> list[Any] | None:
        """Give the script an order, and return its answer; None if the server fails."""
        # The server refuses a call as late while its clock is not known, or if that was set.
        for _ in range(2):
            latest = self._clock.monotonic() + _TIMEOUT + _MARGIN
            deadline = round(latest * 1000 + self._offset)
            text = json.dumps({**order, "deadline": deadline})
            found = self._run(keys, [worker, text, *words])
            if found is None:
                break
            now, *rest = list[Any](found)
            self._offset = now - self._clock.monotonic() * 1000
            if rest:
                return rest
        return None

    def _run(self, keys: Sequence[str], args: Sequence[str | bytes | float]) -> Any:
        """Run the script, and return its result; None if the server fails."""
        self.is_full = False
        if self._clock.monotonic() < self._paused_until:
            return None
        try:
            found = self._script(keys, args)
        except (RedisError, OSError) as error:
            if not self.is_failing:
                self.is_failing = True
                self.logger.warning(
                    "The queue in Redis fails (%(error)s): this worker keeps new requests in "
                    "memory, and takes requests again when the server works again",
                    error=f"{type(error).__name__}: {error}",
                )
            # Redis 6 has its code in the middle of the error of a script, redis-py in no text.
            self.is_full = "maxmemory" in str(error)
            if not self.is_full:
                self._paused_until = self._clock.monotonic() + _PAUSE
                self.has_lost_answer = True
            return None
        return found

    def _with_connection_of_its_own(self, client: Any) -> Any:
        if not isinstance(client, Redis):
            return client
        pool = client.connection_pool
        self._on_connect = pool.connection_kwargs.get("redis_connect_func")
        names = pool.connection_kwargs.keys() - {*_OF_POOLS, "lib_name", "lib_version"}
        options = {name: pool.connection_kwargs[name] for name in names} | {
            "socket_timeout": _TIMEOUT,
            "socket_connect_timeout": _TIMEOUT,
            "retry": Retry(NoBackoff(), 0),
            "retry_on_timeout": False,
            "decode_responses": False,
            "redis_connect_func": self._connected,
            **without_handshake(),
        }
        own = ConnectionPool(connection_class=pool.connection_class, **options)
        return Redis(connection_pool=own)

    def _connected(self, connection: Any) -> None:
        """Called on a new connection. The client makes one without an error if it finds the last one
        closed.
        """
        if self._on_connect is None:
            connection.on_connect()
        else:
            self._on_connect(connection)
        self.has_lost_answer = True

    def note_recovery(self) -> None:
        """Note that the server works, and has taken all requests that waited for it."""
        if self.is_failing:
            self.is_failing = False
            self.logger.info("The queue in Redis works again")


@cache
def source() -> str:
    """Return the text of the script."""
    return (files(__package__) / "queue.lua").read_text(encoding="utf-8")


class Worker:
    """What one worker has done, which it reports to the server, and gets for it.

    Reports go with the next call, to save round trips.
    """

    def __init__(
        self,
        link: Link,
        clock: Clock,
        prefix: str,
        lease: float,
        *,
        wait_timeout: float = _FOREVER,
        on_paused: Callable[[str, float, float, float], None] = lambda *_: None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """*on_paused* is called for each pause of a host that any worker has reported: with the
        name of the host, the seconds that are left (less than 0 after the pause), the last pause
        that was doubled, and for how long the host has asked for pauses. Requests that would wait
        longer than *wait_timeout* are handed out during a pause, to be refused. *on_lost* is called if
        the queue is gone, or another one has taken its place: it pushes again what this worker has,
        and the worker gets nothing more.
        """
        self._link = link
        self._clock = clock
        self._prefix = self._seen_key = prefix
        self._lease = round(lease * 1000)
        self._wait_timeout = round(min(wait_timeout, _FOREVER) * 1000)
        self._on_paused = on_paused
        self._on_lost = on_lost
        self._name = uuid.uuid4().hex
        self._took = 0.0
        self.last_count = 0
        """The number of requests that were not done at the last call."""

        self.again = 0.0
        """The seconds after which a host may be ready, according to the server."""

        self.is_lost = False
        """Whether the queue is gone."""

        self._unsent: deque[tuple[Any, ...]] = deque()
        self.pushed = 0
        """The number of requests that were pushed so far."""

        # What this worker has.
        self.buffer: deque[Lease] = deque()
        """The requests that were handed out and not popped yet."""

        self.popped: dict[object, Lease] = {}
        """Those that were, until their callbacks have ended."""

        self.acquired: dict[object, Lease] = {}
        """The places of requests that did not come from the queue, or have lost theirs; without a
        number if a request uses that of another one."""

        self.fetching: dict[str, Lease] = {}
        """A request of each queue whose robots.txt it fetches, which it does not have."""

        self._done: list[tuple[str, int]] = []
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Know nothing of the queue on the server."""
        self._mark = ""
        self._renewed_at = float("-inf")
        self.last_pause = self._last_aside = 0
        for each in (self.buffer, self.popped, self._done):
            each.clear()
        self._reports = _no_reports()

    # What has happened.

    def report_left(self, lease: Lease, *, gap: int = 0, delay: float = 0.0) -> None:
        """Report that a request has left the downloader, and free its place. *gap* is the delay of its
        download slot in milliseconds, if not the default, and *delay* that of the host in seconds, if
        the server may not know it.
        """
        lease.has_place = False
        fate = max(int(lease.is_sent), lease.succeeded_after)
        left = [lease.number, lease.host, fate, gap, round(delay * 1000)]
        self._reports["left"].append(left)

    def report_done(self, lease: Lease) -> None:
        """Report that the callback of a request has ended.

        The report waits until the server has all requests that were pushed since it was popped, since
        the callback may have made them.
        """
        has_pushed = self.pushed > lease.pushed
        self._done.append((lease.number, self.pushed if has_pushed else 0))

    def give_back(self, host: str | None = None) -> None:
        """Let other workers have the requests that were handed out and not popped: those to *host*, or
        all.
        """
        for lease in list(self.buffer):
            if host in {None, lease.host}:
                self.buffer.remove(lease)
                self._give_back(lease)

    def report_unreadable(self, lease: Lease) -> None:
        """Report that this worker cannot read a request that was handed out: others may."""
        self._give_back(lease, lease.tried)

    def _give_back(self, lease: Lease, *tried: str) -> None:
        self._reports["back"].append([lease.number, *tried])

    def report_rules(self, queue: str, terms: Terms | None) -> None:
        """Report what the robots.txt of *queue* says; None if another worker must fetch it."""
        self.fetching.pop(queue, None)
        times = [round(min(each, _LONGEST) * 1000) for each in terms or ()]
        self._reports["rules"].append([queue, *times])

    def report_pause(self, host: str, pause: float, own: float) -> None:
        """Report at once that *host* has asked for a pause of *pause* seconds. *own* is the last
        one that was doubled.
        """
        times = (round(each * 1000) for each in (pause, own))
        self._reports["paused"].append([host, *times])
        self.exchange()

    def push(
        self,
        queue: str,
        score: int | bytes,
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

    @property
    def just_left(self) -> int:
        """The number of requests that have left the downloader since the last call."""
        return len(self._reports["left"])

    @property
    def has_ended(self) -> bool:
        """Whether a request has ended, so that there may be room for another."""
        return bool(self._done or self._reports["left"])

    @property
    def has_reports(self) -> bool:
        """Whether there is something to report, or to push."""
        return any((self._unsent, self._done, *self._reports.values()))

    @property
    def is_alive(self) -> bool:
        """Whether the lease of this worker has not expired."""
        return self._clock.monotonic() < self._renewed_at + self._lease / 1000

    @property
    def is_up_to_date(self) -> bool:
        """Whether the last call was just now."""
        age = self._clock.monotonic() - self._renewed_at
        return age < max(_HOLDS, _HOLDS_TIMES_CALL * self._took)

    @property
    def renews_at(self) -> float:
        """When the lease is renewed at the latest. Each call renews it."""
        return self._renewed_at + self._lease / 1000 * _PART_OF_LEASE

    @property
    def unsent(self) -> int:
        """The number of requests that the server has not taken yet."""
        return len(self._unsent)

    def count_all(self) -> int:
        """The number of requests on the server that are not done, and of those that wait in
        the memory of this worker. If the server fails, the number of the last call, at least 1.
        """
        if self.is_up_to_date or self.exchange() is not None:
            return self.last_count + self.unsent
        return max(self.last_count + self.unsent, 1)  # Zero would end the crawl.

    def cleared(self) -> None:
        """Note that the queue was cleared: the next call begins a new one, or joins it."""
        self._unsent.clear()
        self._begin_anew()

    # Calls.

    def exchange(self, **order: Any) -> Answer | None:
        """Renew the lease, report and push what was collected, and get what *order* asks for:

        - ``wanted``: at most so many requests, the best ones of hosts that are ready, which without a
          crawl delay take ``limit`` requests at once, and one each ``gap`` milliseconds, or what
          ``hosts`` says for some hosts;
        - ``quota``: at most so many queues whose robots.txt this worker is to fetch, none if
          ``enough`` are ready;
        - ``refuses``: some more of this queue, to refuse them, even if its host is not ready;
        - ``acquire``: the only place at a host, as a number and the name of the host;
        - ``retires``: whether all that this worker has returns to the queue, because it ends.

        Returns None if the server fails.
        """
        # If there is no answer, the server is not asked again at once.
        self.again = float("inf")
        if self.is_lost or len(self._unsent) >= MAX_UNSENT:
            order = {"retires": order.get("retires", False)}
        while len(self._unsent) > MAX_UNSENT:
            if self._send({}, MAX_UNSENT) is None:
                break
        answer = self._send(order, MAX_UNSENT)
        if answer is None and self._link.is_full and self._unsent:
            # It still accepts everything else, which frees memory.
            return self._send(order, 0)
        if answer is not None and not self._unsent:
            self._link.note_recovery()
        return answer

    def _send(self, order: Mapping[str, Any], most: int) -> Answer | None:
        """Send an order with all reports, and at most *most* of the collected requests."""
        records = list(islice(self._unsent, most))
        taken = self.pushed - len(self._unsent) + len(records)
        later = [one for one in self._done if one[1] > taken]
        now = self._clock.monotonic()
        whole = {
            **self._reports,
            "mark": self._mark,
            "lease": self._lease,
            "wanted": 0,
            "quota": 0,
            "wait_timeout": self._wait_timeout,
            "last_pause": self.last_pause,
            "last_aside": self._last_aside,
            "done": [number for number, last in self._done if last <= taken],
            **order,
        }
        if self._link.has_lost_answer:
            requests = [*self.buffer, *self.popped.values()]
            places = [*requests, *self.acquired.values()]
            fields = leases_of(
                [*(one.number for one in requests), *(number for number, _ in later)],
                [one.number for one in places if one.has_place],
                self.fetching,
            )
            whole["has"] = dict.fromkeys(fields, 1)
        words = [word for record in records for word in record[:4]]
        found = self._link.call(
            [self._prefix, self._seen_key], self._name, whole, words
        )
        if found is None:
            return None
        mark, *found = found
        if not found:
            self.is_lost = True
            self._on_lost()
            self._begin_anew()
            return self._send({"retires": order.get("retires", False)}, most)
        self._mark = mark.decode()
        self._renewed_at = now
        if "has" in whole:
            self._link.has_lost_answer = False
        self._took = self._clock.monotonic() - now
        self._done, self._reports = later, _no_reports()
        for _ in records:
            self._unsent.popleft()
        seen, *found = found
        for index in seen:
            records[index][-1]()
        return self._answer(found, order.get("acquire", ("", "")))

    def _answer(self, parts: Sequence[Any], place: tuple[str, str]) -> Answer:
        """Note what the server has answered. *place* is the one that was asked for, if any."""
        self.last_count, is_new, returned, has_place, again, *parts = parts
        self._last_aside, set_aside, self.last_pause, pauses, found, wanted = parts
        if is_new:
            # Other workers have got what it had handed out before.
            self.buffer.clear()
            for lease in self.popped.values():
                lease.is_expired = True
        self.again = again / 1000
        if returned:
            self._link.logger.warning(
                "A worker has not renewed its lease for REP_QUEUE_LEASE seconds: the %(count)d "
                "requests that it had taken are in the queue again, for any worker",
                count=returned,
            )
        for host, *times in pauses:
            name = host.decode(errors="replace")
            self._on_paused(name, *(each / 1000 for each in times))
            self.give_back(name)
        leases = [self._lease_of(*each) for each in found]
        numbers = {lease.number for lease in leases}
        for lease in self.popped.values():
            if lease.number in numbers:
                # This worker has got it again: the end of the first lease is not that of the new one.
                lease.number = ""
        self.buffer.extend(leases)
        fetches = [self._lease_of(*each) for each in wanted]
        for lease in fetches:
            self.fetching.setdefault(lease.queue, lease)
        acquired = Lease(*place, last_pause=self.last_pause) if has_place else None
        return Answer(leases, fetches, acquired, returned, set_aside)

    def _lease_of(
        self, found: bytes, delay: int, has_place: int = 0, tried: bytes = b""
    ) -> Lease:
        score, queue, item = found.split(b"\n", 2)
        return Lease(
            item[:_NUMBER].decode(),
            queue.decode(errors="replace"),
            bool(has_place),
            item[_NUMBER:],
            delay / 1000,
            score,
            tried.decode(),
            self.last_pause,
        )


def _no_reports() -> dict[str, list[list[Any]]]:
    return {"left": [], "back": [], "rules": [], "paused": []}


def leases_of(
    requests: Iterable[str], places: Iterable[str] = (), fetching: Iterable[str] = ()
) -> list[str]:
    """Return the fields of the leases of *requests* and of *places* at hosts, by their numbers,
    and of queues whose robots.txt is fetched.
    """
    return [
        *(f"={number}" for number in requests),
        *(f"@{number}" for number in places),
        *(f"~{queue}" for queue in fetching),
    ]
