"""The calls of one worker to the queue that all workers share."""

from __future__ import annotations

import json
import logging
import uuid
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy_rep.frontier.clock import Clock
    from scrapy_rep.frontier.redis.learning import Terms
    from scrapy_rep.frontier.redis.link import Link

# The number of queues that one call checks to find one whose host is ready. Those that are
# not ready are rescheduled, so that each is checked once.
_LOOKS = 32

# While more requests than this wait in memory for the server, none is popped, since its
# callback would make even more.
MAX_UNSENT = 1000

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

    of_hosts: str = ""
    """The different limits of some hosts, as JSON."""


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
        self._all_known = int(not obeys)
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

        self._left: list[str | int] = []
        self._done: list[tuple[str, int]] = []
        self._unsent: deque[tuple[Any, ...]] = deque()
        self.kept = 0
        """The number of pushed requests so far that were kept in memory first."""

        self._count = 0
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
    ) -> None:
        """Report that a request has left the downloader. *fetched* is whether it was sent to
        its host. If the host, which had asked for a pause, did not ask again, *pause* is the value
        of :attr:`last_pause` when the worker got the request. *gap* is the delay of its download slot in milliseconds, if not the default.
        """
        self._left += (number, host, max(int(fetched), pause), gap)

    def done(self, number: str, kept: int = 0) -> None:
        """Report that the callback of a request has ended. *kept* is the value of
        :attr:`kept` when it was popped.

        The report waits until the server has all requests that were pushed since then, since
        the callback may have made them.
        """
        self._done.append((number, self.kept if self.kept > kept else 0))

    @property
    def has_reports(self) -> bool:
        """Whether there is something to report or to push."""
        return bool(self._left or self._done or self._unsent)

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

    def push(self, *record: str | bytes | float) -> None:
        """Add a request to the queue, or keep it in memory if the server fails. *record* is
        the queue, score, data, key of the set of fingerprints, and fingerprint.
        """
        if self._unsent or not self._push(record):
            self._unsent.append(record)
            self.kept += 1

    def pop(self, limits: Limits, *, looks: int = _LOOKS) -> Popped | None:
        """Pop the best request of a host that is ready; None if there is none."""
        while self._unsent and self._push(self._unsent[0]):
            self._unsent.popleft()
        self._report_pauses()
        taken = self.kept - len(self._unsent)
        done = [number for number, last in self._done if last <= taken]
        is_crowded = len(self._unsent) >= MAX_UNSENT
        # If there is no answer, the server is not asked again at once.
        self.again = float("inf")
        found = self._ask(
            "pop",
            *(0 if is_crowded else looks, *limits, self._all_known),
            *(self._wait_max, self.last_pause),
            *(len(done), *done, *self._left),
        )
        if found is None:
            return None
        self._left.clear()
        self._done = [one for one in self._done if one[1] > taken]
        if not self._unsent:
            self._link.note_recovery()
        again, (self.last_pause, pauses), *handed_out = found
        for host, *times in pauses:
            self._on_paused(host.decode(), *(each / 1000 for each in times))
        if is_crowded:
            return None
        self.again = again / 1000
        if not handed_out:
            return None
        queue, item, *place = handed_out
        number, data = item[:_NUMBER].decode(), item[_NUMBER:]
        return Popped(number, queue.decode(), data, has_place=bool(place))

    def report(self) -> None:
        """Report which requests have ended, without popping another."""
        for _ in range(2):  # The server may refuse the first call as late.
            self.pop(Limits(1, 0), looks=0)
            if not self.has_reports:
                break

    def take(self, queue: str) -> tuple[Popped | None, int]:
        """Pop a request of *queue* even if its host is not ready, and return it with the
        number of those that are left; None if there is none."""
        found = self._ask("take", queue)
        if not found:
            return None, 0 if found == [] else 1
        number, data, left = found
        return Popped(number.decode(), queue, data), left

    def count_queue(self, queue: str) -> int:
        """The number of requests in *queue*; 0 if the server fails."""
        found = self._link.ask("ZCARD", f"{self._prefix}:queue:{queue}")
        return 0 if found is None else int(found)

    def count_all(self) -> int:
        """The number of requests on the server that are not done, and of those that wait in
        the memory of this worker. If the server fails, the number of the last call, at least 1.
        """
        found = self._link.run("count", [self._prefix])
        if found is None:
            # Zero would end the crawl.
            return max(self._count + self.unsent, 1)
        self._count = found
        return self._count + self.unsent

    # Hosts.

    def learn(self, quota: int, enough: int) -> list[Unknown]:
        """Return at most *quota* queues to fetch robots.txt for; none if *enough* are ready."""
        found = self._ask("learn", quota, enough, self._all_known)
        if found is None:
            return []
        return [
            Unknown(queue.decode(), delay / 1000, item)
            for queue, delay, item in found[0]
        ]

    def learned(
        self, queue: str, terms: Terms | None, *, unreadable: bytes = b""
    ) -> bool:
        """Report that the robots.txt of *queue* is known or, without *terms*, must be fetched
        by another worker. Remove the request that is *unreadable*, if any. Return whether the
        server has recorded it.
        """
        times = [round(min(each, _LONGEST) * 1000) for each in terms or ()]
        return self._run("learned", queue, unreadable, *times) is not None

    def acquire(self, number: str, host: str) -> bool | None:
        """Take the only place at *host*. Return whether it was free; None if the server fails."""
        found = self._ask("acquire", number, host)
        if found is None:
            return None if self._link.is_failing else False
        return bool(found[0])

    def release(
        self,
        number: str,
        host: str,
        delay: float,
        *,
        fetched: bool,
        pause: int = 0,
    ) -> None:
        """Free a place that was acquired. The arguments are those of :meth:`left`, and *delay* that
        of the host, in seconds.
        """
        fate = max(int(fetched), pause)
        self._run("release", number, host, fate, round(delay * 1000))

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
            keys = [self._prefix]
            if self._link.run("back_off", keys, host, *times, self._wait_max) is None:
                return
            del self._pauses[host]

    # This worker.

    def beat(self, *, looks: bool = True) -> int:
        """Send a heartbeat. If it *looks* for a worker whose lease has expired, and finds one,
        the requests of that worker return to the queue. Return their number.
        """
        now = self._clock.monotonic()
        found = self._run("beat", self._lease, int(looks))
        if found is None:
            return 0
        self._last_beat = now
        time, returned, is_new, is_recounted = found
        self._link.note_time(time)
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
        self._run("retire")

    def _push(self, record: tuple[Any, ...]) -> bool:
        queue, score, data, set_key, fingerprint = record
        keys = [self._prefix, set_key or self._prefix]
        args = (self._link.deadline, queue, score, data, fingerprint)
        found = self._link.run("push", keys, *args)
        return found is not None and found >= 0

    def _run(self, script: str, *args: str | bytes | float) -> Any:
        return self._link.run(script, [self._prefix], self._name, *args)

    def _ask(self, script: str, *args: str | bytes | float) -> list[Any] | None:
        """Run a script, and return its result; None if the server fails, or refuses the call as
        late or because this worker is not registered. After a refusal, send a heartbeat.
        """
        found = self._run(script, self._link.deadline, *args)
        if found is None:
            return None
        is_refused, now, *rest = list[Any](found)
        self._link.note_time(now)
        if is_refused:
            self.beat(looks=False)
            return None
        return rest
