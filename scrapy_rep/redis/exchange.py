"""The calls of the Redis server. In each call, a worker tells what it has done, and gets new work. The calls run on
a thread of their own, so that a slow server does not block the event loop.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from contextlib import suppress
from functools import cache, partial
from importlib.resources import files
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError
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

# The maximum number of seconds for which the thread waits for a connection, and for an answer.
_TIMEOUT = 3.0

# The length of the number at the start of each stored request.
_NUMBER = 14

# The maximum number of new requests of one call: a longer one would keep the server from others.
MAX_PUSHES = 1_000

_Reports = dict[str, list[Any]]

# The argument of a call in which a worker neither reports nor requests anything. ``shared.lua`` describes it.
_NOTHING: dict[str, Any] = {
    **dict.fromkeys(
        ("done", "back", "unreadable", "pages", "released", "paused", "left"), ()
    ),
    **dict.fromkeys(("permits", "more", "readable"), ()),
    **dict.fromkeys(("room", "batch"), 0),
    "concurrency": 1,
    "last_aside": "0",
    "retires": False,
    "clears": False,
}


class Push(NamedTuple):
    """A new request for the server."""

    host: str
    score: int
    """The request with the lowest score is sent first."""

    is_last_first: bool
    """Whether this request is sent before those with the same score that are on the server already."""

    fingerprint: str
    """Empty if the request is no duplicate in any case."""

    data: bytes
    request: Any = None
    """The object, for the worker itself."""


class Taken(NamedTuple):
    """A request that a worker has from the server."""

    host: str
    score: float
    number: str
    data: bytes


class Delivery(NamedTuple):
    """The requests of a host that a worker gets."""

    host: str
    on_server: int
    """How many are on the server still."""

    requests: Sequence[Taken]


class LeasedHost(NamedTuple):
    """A host that this worker owns from now on, with the back-off that its last owner has left: see ``BackOff``."""

    host: str
    own_pause: float
    concurrency: int
    lasted: float


class PermitAnswer(NamedTuple):
    """The answer of the server to a worker that asks for a permit."""

    token: str
    wait: float
    """The seconds after which to ask again; 0 if the permit is granted."""

    paused: float
    """For how many seconds the host has asked for a pause."""


class Answer(NamedTuple):
    """The answer of the server to a call. ``shared.lua`` describes it."""

    seen: Sequence[int]
    """The indexes of the new requests that are not kept, since their fingerprints are known."""

    remaining: int
    """The requests that are not done, except those that this worker has tried, and could not read."""

    set_aside: int
    """How many requests no worker could read so far."""

    has_lost: bool
    """Whether other workers have what this one had: it was silent for longer than its lease."""

    returned: int
    """How many requests have come back from a dead worker."""

    strange: int
    """In the first answer: how many requests a queue of scrapy-redis itself has."""

    permits: Sequence[PermitAnswer]
    deliveries: Sequence[Delivery]
    hosts: Sequence[LeasedHost]
    pauses: dict[str, float]
    """The pauses that hosts of this worker have asked others for, in seconds from now on."""

    pages: dict[str, int]
    """How many pages all workers together have done, of hosts of which this worker does some."""

    unread: Sequence[tuple[bytes, str]]
    """The leases of requests that other workers could not read, and their places."""


class QueueLost(Exception):
    """The queue of this worker is gone from the server."""


class Exchange:
    """The calls of one worker, one after the other. It collects what the worker has to tell, and tells that until the
    server has answered. Each call has a number, so that the server executes none twice, and none too late.
    """

    def __init__(self, client: Any, key: str, seen_key: str, lease: float) -> None:
        self._client = client
        self._keys = [f"{{{key}}}", seen_key, key]
        self._lease = lease
        self.reports: _Reports = defaultdict(list)
        """What the next call tells, by the names that the script has for it."""

        self.unsent: list[Push] = []
        """The new requests that are not on the server yet, the oldest first."""

        self._told: _Reports | None = None
        """What the current call tells, until the server has answered."""

        self._sending = 0
        """How many new requests the current call has."""

        self.is_uncertain = False
        """Whether the server may have executed the last call, which was not answered."""

        self._forget_calls()

    def _forget_calls(self) -> None:
        self._worker = uuid.uuid4().hex
        self._mark = ""
        self._call = self._last_answer = 0

    @property
    def is_repeating(self) -> bool:
        """Whether the next call tells the same as the last one, which was not answered."""
        return self._told is not None

    def next_call(self, **wants: Any) -> Callable[[], Answer]:
        """Return the next call, as a function for another thread. The call tells what was collected, asks for what
        the worker *wants*, and returns the answer. It raises RedisError or OSError if the server fails, and
        QueueLost.
        """
        if self._told is None:
            self._told, self.reports = self.reports, defaultdict(list)
            self._sending = min(len(self.unsent), MAX_PUSHES)
        self._call += 1
        pushes = self.unsent[: self._sending]
        order = {
            **_NOTHING,
            **self._told,
            **wants,
            "mark": self._mark,
            "call": self._call,
            "last_answer": self._last_answer,
            "lease": self._lease,
            "new": [push[:4] for push in pushes],
        }
        args = [self._worker, json.dumps(order), *(push.data for push in pushes)]
        return partial(self._run, [len(self._keys), *self._keys, *args])

    def _run(self, args: list[Any]) -> Answer:
        mark, *parts = self._eval(args)
        if not parts:
            raise QueueLost
        self._mark = mark.decode()
        return _answer(*parts)

    def _eval(self, args: list[Any]) -> list[Any]:
        try:
            if self._call > 1:
                return list(self._client.evalsha(_digest(), *args))
        except NoScriptError:
            pass
        # One round trip, and the server knows the script from then on.
        return list(self._client.eval(_source(), *args))

    def answered(self) -> list[Push]:
        """Note that the last call was answered. Return the new requests that it had."""
        pushes = self.unsent[: self._sending]
        del self.unsent[: self._sending]
        self._last_answer, self._told, self.is_uncertain = self._call, None, False
        return pushes

    def failed(self, error: Exception) -> bool:
        """Note that the last call has failed with *error*. The next one tells the same, with two exceptions. A server
        without memory has executed nothing: return True if the next call can be made at once, without the new
        requests, to tell what frees memory. If the queue is lost, nothing is told of it.
        """
        if isinstance(error, QueueLost):
            self._told, self.is_uncertain = None, False
            self._forget_calls()
        elif not is_full(error):
            # After an error of our own, what the answer has brought may be lost here.
            self.is_uncertain = True
        elif not self.is_uncertain and self._sending:
            self._sending = 0
            return True
        return False

    def clear(self) -> None:
        """Delete the queue and its fingerprints. Workers that use it lose it. Raises RedisError or OSError."""
        prefix, *others = self._keys
        # Without this key, the others are those of an earlier queue, which no worker uses.
        self._client.unlink(f"{prefix}:state")
        for key in others:
            self._client.unlink(key)
        self.sweep()

    def sweep(self) -> None:
        """Delete the keys of earlier queues of this name."""
        prefix = self._keys[0]
        escaped = "".join(f"\\{c}" if c in "*?[]\\" else c for c in prefix)
        keys = list(self._client.scan_iter(f"{escaped}:*", count=1_000))
        # Only now: what a queue that is begun meanwhile has is of this mark, or not among these keys.
        mark = (self._client.hget(f"{prefix}:state", "mark") or b"").decode()
        used = f"{prefix}:state", f"{prefix}:{mark}:"
        for key in keys:
            if not key.decode(errors="replace").startswith(used):
                self._client.unlink(key)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _answer(parts: bytes, delivered: list[bytes], unread: list[bytes]) -> Answer:
    fields, items = json.loads(parts), iter(delivered)
    fields["deliveries"] = [
        Delivery(
            host, on_server, [_taken(host, score, next(items)) for score in scores]
        )
        for host, on_server, scores in fields["deliveries"]
    ]
    fields["permits"] = [PermitAnswer(*permit) for permit in fields["permits"]]
    fields["hosts"] = [LeasedHost(*host) for host in fields["hosts"]]
    fields["pauses"], fields["pages"] = dict(fields["pauses"]), dict(fields["pages"])
    leases = zip(unread[::2], unread[1::2], strict=True)
    return Answer(**fields, unread=[(lease, place.decode()) for lease, place in leases])


def _taken(host: str, score: str, item: bytes) -> Taken:
    return Taken(host, float(score), item[:_NUMBER].decode(), item[_NUMBER:])


def parts_of(lease: bytes) -> tuple[str, bytes]:
    """Return the host and the data of a request that was set aside, from its lease on the server."""
    host, _, item = lease.split(b"\n", 2)
    return host.decode(errors="replace"), item[_NUMBER:]


def is_full(error: BaseException) -> bool:
    """Whether *error* says that the server has no memory left. Then it has executed nothing of the call."""
    # The error code, OOM, is not used: Redis 6 has it in the middle of the message of a script's error, and redis-py
    # removes it from the message.
    return isinstance(error, RedisError) and "maxmemory" in str(error)


@cache
def _source() -> str:
    return (files(__package__) / "shared.lua").read_text(encoding="utf-8")


@cache
def _digest() -> str:
    from hashlib import sha1  # noqa: PLC0415

    return sha1(_source().encode(), usedforsecurity=False).hexdigest()


def connect(settings: BaseSettings) -> Any:
    """Return a client by the settings of scrapy-redis. It fails soon, and repeats no call: the server may have
    executed that already.
    """
    own_settings, params = BaseSettings(settings), settings.getdict("REDIS_PARAMS")
    params |= {
        "socket_timeout": _TIMEOUT,
        "socket_connect_timeout": _TIMEOUT,
        "decode_responses": False,
    }
    kind = load_object(params.get("redis_cls", Redis))
    # It may be a function that makes clients, too.
    if isinstance(kind, type) and issubclass(kind, Redis):
        params["retry"] = Retry(NoBackoff(), 0)
        params |= without_handshake()
    own_settings.set("REDIS_PARAMS", params, "cmdline")
    own_settings.set("REDIS_DECODE_RESPONSES", None, "cmdline")
    return connection.from_settings(own_settings)


class ServerThread:
    """A thread that calls the server. It is no thread of a pool, which other components may occupy for long."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Deferred[Any]] | None] = (
            SimpleQueue()
        )
        self._has_started = False

    async def call(self, function: Callable[[], _T]) -> _T:
        """Call *function* on the thread. Return what it returns, and raise what it raises."""
        if not self._has_started:
            self._has_started = True
            target, name = partial(self._run, loop_caller()), "scrapy-rep-redis"
            # A daemon: at its end, the process does not wait for a call that never returns.
            Thread(target=target, name=name, daemon=True).start()
        over: Deferred[_T] = Deferred()
        self._jobs.put((function, over))
        return await maybe_deferred_to_future(over)

    def stop(self) -> None:
        """Let the thread finish the calls that it has, and then end it."""
        self._jobs.put(None)

    def _run(self, call_in_loop: Callable[..., object]) -> None:
        while (job := self._jobs.get()) is not None:
            function, over = job
            try:
                end = partial(over.callback, function())
            except BaseException as error:  # noqa: BLE001  it must not end the thread
                end = partial(over.errback, error)
            with suppress(RuntimeError):  # The loop has ended.
                call_in_loop(end)
