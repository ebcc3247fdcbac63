"""The calls to the Redis server. In each call, a worker reports the requests that are done, and gets new requests.
The calls run on a separate thread, so that a slow server does not block the event loop.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from contextlib import suppress
from functools import partial
from importlib.resources import files
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from scrapy.settings import BaseSettings
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.misc import load_object
from scrapy_redis import connection
from twisted.internet.defer import Deferred

from scrapy_rep.base.compat import loop_caller
from scrapy_rep.crawl.fetching.redisstore import without_handshake

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_T = TypeVar("_T")

# The maximum number of seconds for which a call waits for a connection to the server, and then for each answer.
_TIMEOUT = 3.0

# Each stored request starts with its number, which has this many characters.
_NUMBER = 14

# The maximum number of new requests in one call. While the server executes a call, all other workers wait.
MAX_PUSHES = 1_000

_Reports = dict[str, list[Any]]

# The reports of a call in which a worker has nothing to report.
_NO_REPORTS: _Reports = {
    name: [] for name in ("done", "back", "unreadable", "released", "paused", "left")
}


class Push(NamedTuple):
    """A new request for the server."""

    host: str
    score: int
    """The position in the host's queue. The request with the lowest score is sent first."""

    is_last_first: bool
    """Whether this request is sent before older requests with the same score."""

    fingerprint: str
    """Empty if the server must keep the request even if it is a duplicate."""

    data: bytes
    request: Any = None
    """The request as an object, which is not sent to the server."""


class Taken(NamedTuple):
    """A request from the server. Either this worker took the request, or another worker could not read it, and this
    worker tries to read it.
    """

    host: str
    score: float
    number: str
    data: bytes

    @classmethod
    def from_lease(cls, lease: bytes) -> Taken:
        """Read *lease*, the text with which the server stores a request that a worker has."""
        host, score, item = lease.split(b"\n", 2)
        number, data = item[:_NUMBER].decode(), item[_NUMBER:]
        return cls(host.decode(errors="replace"), float(score), number, data)


class LeasedHost(NamedTuple):
    """A host that this worker owns from now on. The other fields are the host's back-off, as the last owner left it:
    see ``BackOff``. If *concurrency* is 0, there is no back-off.
    """

    host: str
    own_pause: float
    concurrency: int
    lasted: float


class PermitAnswer(NamedTuple):
    """The server's answer to a worker that requests a permit."""

    token: str
    wait: float
    """The seconds after which to request the permit again. 0 if the permit is granted."""

    paused: float
    """The seconds until the end of the host's pause. 0 if there is no pause."""


class Answer(NamedTuple):
    """The server's answer to a call. ``shared.lua`` describes the fields."""

    seen: Sequence[int]
    """The indexes of the new requests that are duplicates, which the server does not keep."""

    remaining: int
    """The number of requests that are not done. Requests that this worker tried to read, and could not, do not count.
    """

    set_aside: int
    """The number of requests that no worker could read so far."""

    has_lost: bool
    """Whether other workers may have taken this worker's hosts and requests, because this worker was silent for longer
    than its lease, or the server was restored from older data.
    """

    returned: int
    """The number of a dead worker's requests that are in the queue again."""

    strange: int
    """The number of requests under the queue's key that a queue class of scrapy-redis wrote. This worker cannot send
    them. Only the first answer contains the number; in later answers, it is 0."""

    permits: Sequence[PermitAnswer]
    on_server: dict[str, int]
    """By host, the number of requests that are still on the server. Contains the hosts that this worker has just got,
    the hosts of which the call wanted requests, and the hosts with new requests or a new pause.
    """

    hosts: Sequence[LeasedHost]
    pauses: dict[str, float]
    """By host, the seconds until the end of the host's pause. Contains the paused hosts that this worker has just got,
    and hosts of this worker whose pause another worker reported.
    """

    pages: dict[str, int]
    """By host, the number of pages done by all workers together. Contains only the hosts that this worker has just got,
    and the hosts of which the call reported pages.
    """

    requests: Sequence[Taken]
    """The requests that the server delivers to this worker."""

    unread: Sequence[tuple[Taken, str]]
    """Requests that other workers could not read. Each entry is the request and its place in the server's list of such
    requests.
    """


class QueueLost(Exception):
    """The queue that this worker uses no longer exists on the server."""


class Exchange:
    """Makes the calls of one worker, one after the other. It collects the worker's reports, and repeats them in each
    call until the server has answered. Calls are numbered, so that the server executes no report twice, and ignores
    calls that arrive too late.

    The server executes a call as a whole or not at all. Any new request may come from the callback of a request that is
    done. So a call reports requests as done only if the call contains all new requests. Otherwise, the server could
    delete a request before it has the requests that the callback yielded.
    """

    def __init__(self, client: Any, key: str, seen_key: str, lease: float) -> None:
        self._client = client
        self._script = client.register_script(_source())
        self._keys = [f"{{{key}}}", seen_key, key]
        self._lease = lease
        self.reports: _Reports = defaultdict(list)
        """The reports for the next call, by the names that the script ``shared.lua`` gives them."""

        self.unsent: list[Push] = []
        """The new requests that are not on the server yet, oldest first."""

        self._told: _Reports | None = None
        """What this worker reported to the server in the last call, kept until the server answers, so that a repeated
        call contains it again. None if the last call was answered."""

        self._sending = 0
        """The number of new requests in the last call."""

        self.is_uncertain = False
        """Whether the last call got no answer, but the server may have executed it."""

        self._forget_calls()

    def _forget_calls(self) -> None:
        self._worker = uuid.uuid4().hex
        self._mark = ""
        self._call = self._last_answer = 0

    @property
    def is_repeating(self) -> bool:
        """Whether the last call got no answer, so that the next call repeats its reports."""
        return self._told is not None

    def next_call(self, **wants: Any) -> Callable[[], Answer]:
        """Return the next call, as a function for another thread. If the last call got no answer, the next call repeats
        the reports of the last call. Otherwise, it sends the collected reports. *wants* contains further fields for the
        call, which ``shared.lua`` describes.

        The returned function returns the server's answer. It raises RedisError or OSError if the server fails, and
        QueueLost if the queue no longer exists.
        """
        if self._told is None:
            self._told, self.reports = self.reports, defaultdict(list)
            self._sending = min(len(self.unsent), MAX_PUSHES)
            if self._sending < len(self.unsent):
                self._report_done_later()
        self._call += 1
        pushes = self.unsent[: self._sending]
        order = {
            **_NO_REPORTS,
            **self._told,
            **wants,
            "mark": self._mark,
            "call": self._call,
            "last_answer": self._last_answer,
            "lease": self._lease,
            "new": [push[:4] for push in pushes],
        }
        args = [self._worker, json.dumps(order), *(push.data for push in pushes)]
        return partial(self._run, args)

    def _run(self, args: list[Any]) -> Answer:
        mark, *parts = self._script(self._keys, args)
        if not parts:
            raise QueueLost
        self._mark = mark.decode()
        return _answer(*parts)

    def _report_done_later(self) -> None:
        """Postpone the report of the finished requests to a later call. The next call cannot contain all new requests,
        and a finished request must not be reported before the requests that its callback has yielded.
        """
        self.reports["done"] += (self._told or {}).pop("done", [])

    def answered(self) -> list[Push]:
        """Record that the last call was answered. Return the new requests of that call."""
        pushes = self.unsent[: self._sending]
        del self.unsent[: self._sending]
        self._last_answer, self._told, self.is_uncertain = self._call, None, False
        return pushes

    def failed(self, error: Exception) -> bool:
        """Record that the last call failed with *error*. Return True if the next call should follow immediately.

        If the queue is lost, the reports of the failed call are dropped, and its new requests are kept. In most other
        cases, the next call repeats the reports and the new requests of the failed call.

        The exception is a call with new requests that fails because the server has no memory left, if no earlier
        attempt of the call may have been executed. The next call then follows immediately. It contains neither the new
        requests nor the reports of requests that are done, and repeats all other reports.
        """
        if isinstance(error, QueueLost):
            self._told, self.is_uncertain = None, False
            self._forget_calls()
        elif not is_full(error):
            # Maybe the server executed the call, or the answer arrived and could not be processed.
            self.is_uncertain = True
        elif not self.is_uncertain and self._sending:
            self._sending = 0
            self._report_done_later()
            return True
        return False

    def clear(self) -> None:
        """Delete the queue and its fingerprints, even if other workers use the queue. Raises RedisError or OSError if
        the server fails.
        """
        prefix, *others = self._keys
        # This key is deleted first: without it, no worker uses the other keys any more.
        self._client.unlink(f"{prefix}:state")
        for key in others:
            self._client.unlink(key)
        self.sweep()

    def sweep(self) -> None:
        """Delete the keys of earlier queues with this name. Raises RedisError or OSError if the server fails."""
        prefix = self._keys[0]
        escaped = "".join(f"\\{c}" if c in "*?[]\\" else c for c in prefix)
        keys = list(self._client.scan_iter(f"{escaped}:*", count=1_000))
        # The mark identifies the current queue. It is read after the keys are listed, so that the keys of a queue that
        # another worker starts meanwhile are not deleted. If that queue starts before the mark is read, its keys
        # contain the mark. If it starts after the mark is read, its keys are not in the list.
        mark = (self._client.hget(f"{prefix}:state", "mark") or b"").decode()
        used = f"{prefix}:state", f"{prefix}:{mark}:"
        for key in keys:
            if not key.decode(errors="replace").startswith(used):
                self._client.unlink(key)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _answer(parts: bytes, delivered: list[bytes], unread: list[bytes]) -> Answer:
    fields = json.loads(parts)
    fields["permits"] = [PermitAnswer(*permit) for permit in fields["permits"]]
    fields["hosts"] = [LeasedHost(*host) for host in fields["hosts"]]
    for name in ("on_server", "pauses", "pages"):
        fields[name] = dict(fields[name])
    leases = zip(unread[::2], unread[1::2], strict=True)
    return Answer(
        **fields,
        requests=[Taken.from_lease(lease) for lease in delivered],
        unread=[(Taken.from_lease(lease), place.decode()) for lease, place in leases],
    )


def is_full(error: BaseException) -> bool:
    """Whether *error* means that the server has no memory left. Then the server executed nothing of the call."""
    # The error code OOM is no reliable sign: Redis 6 puts it in the middle of the error message of a script, and
    # redis-py removes it from the message.
    return isinstance(error, RedisError) and "maxmemory" in str(error)


def _source() -> str:
    return (files(__package__) / "shared.lua").read_text(encoding="utf-8")


def connect(settings: BaseSettings) -> Any:
    """Return a Redis client that follows the settings of scrapy-redis. A call of the client fails after at most 3
    seconds without an answer. The client repeats no failed call, since the server may have executed it.
    """
    own_settings, params = BaseSettings(settings), settings.getdict("REDIS_PARAMS")
    params |= {
        "socket_timeout": _TIMEOUT,
        "socket_connect_timeout": _TIMEOUT,
        "decode_responses": False,
    }
    kind = load_object(params.get("redis_cls", Redis))
    # scrapy-redis also accepts a function that returns a client.
    if isinstance(kind, type) and issubclass(kind, Redis):
        params["retry"] = Retry(NoBackoff(), 0)
        params |= without_handshake()
    own_settings.set("REDIS_PARAMS", params, "cmdline")
    own_settings.set("REDIS_DECODE_RESPONSES", None, "cmdline")
    return connection.from_settings(own_settings)


class ServerThread:
    """A thread for calls to the server. It does not belong to a thread pool, since other components may occupy all
    threads of a pool for long.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Deferred[Any]] | None] = (
            SimpleQueue()
        )
        self._has_started = False

    async def call(self, function: Callable[[], _T]) -> _T:
        """Call *function* on the thread. Return its result, or raise its exception."""
        if not self._has_started:
            self._has_started = True
            target, name = partial(self._run, loop_caller()), "scrapy-rep-redis"
            # As a daemon thread, it cannot keep the process from ending, even if a call never returns.
            Thread(target=target, name=name, daemon=True).start()
        over: Deferred[_T] = Deferred()
        self._jobs.put((function, over))
        return await maybe_deferred_to_future(over)

    def stop(self) -> None:
        """End the thread after its queued calls. Return immediately."""
        self._jobs.put(None)

    def _run(self, call_in_loop: Callable[..., object]) -> None:
        while (job := self._jobs.get()) is not None:
            function, over = job
            try:
                end = partial(over.callback, function())
            except BaseException as error:  # noqa: BLE001  no exception may end the thread
                end = partial(over.errback, error)
            with suppress(RuntimeError):  # The event loop has already ended.
                call_in_loop(end)
