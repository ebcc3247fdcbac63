"""Exchanges data between a worker and the Redis server. In each call, the worker reports what it has done,
and the server returns new work. The calls run on a thread of their own, so that a slow server does not block
the event loop.
"""

from __future__ import annotations

import json
import uuid
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

# How many seconds the thread waits for a connection, and for an answer.
_TIMEOUT = 3.0

# The length of the number at the start of each stored request.
_NUMBER = 14

# The most new requests of one call: a longer one would keep the server from others.
MAX_PUSHES = 1_000


class Push(NamedTuple):
    """A new request for the server."""

    queue: str
    score: int
    """The lowest one is next."""

    is_last_first: bool
    """Whether it is next of those with this score that are there already."""

    fingerprint: str
    """Empty if it is no duplicate in any case."""

    data: bytes
    request: Any = None
    """For the owner."""

    @property
    def words(self) -> list[Any]:
        """What the script gets."""
        return [self.queue, self.score, int(self.is_last_first), *self[3:5]]


class Taken(NamedTuple):
    """A request that a worker has from the server."""

    queue: str
    score: float
    number: str
    data: bytes


class Delivery(NamedTuple):
    """The requests of a queue that a worker gets."""

    queue: str
    on_server: int
    """How many are on the server still."""

    requests: Sequence[Taken]


class LeasedHost(NamedTuple):
    """A host that this worker owns now. It has the state of the back-off that the previous owner left behind
    (see ``BackOff``), and the number of pages of the host that are done.
    """

    host: str
    own_pause: float
    concurrency: int
    lasted: float
    pages: int


class Turn(NamedTuple):
    """The answer to the wish to send a request."""

    token: str
    wait: float
    """The seconds after which to ask again; 0 if it may be sent."""

    paused: float
    """For how many seconds the host has asked for a pause."""


class Answer(NamedTuple):
    """The answer of the server."""

    seen: Sequence[int]
    """The indexes of the new requests that are not kept, since their fingerprints are known."""

    remaining: int
    """The requests that are not done, but those that the worker has tried, and could not read."""

    has_lost: bool
    """Whether others have what the worker had: it was silent for longer than its lease."""

    returned: int
    """How many requests have come back from a dead worker."""

    turns: Sequence[Turn]
    deliveries: Sequence[Delivery]
    hosts: Sequence[LeasedHost]
    pauses: Sequence[tuple[str, float]]
    """The pauses that hosts of this worker have asked others for, in seconds from now on."""

    unread: Sequence[tuple[bytes, str]]
    """Requests that other workers could not read, and their places."""

    set_aside: int
    """How many requests no worker could read so far."""

    strange: int
    """In the first answer: how many requests a queue of scrapy-redis itself has."""


class QueueLost(Exception):
    """The queue of this worker is gone from the server."""


class Exchange:
    """The calls of one worker: numbers them, so that none is executed twice, and none too late."""

    def __init__(
        self, client: Any, key: str, seen_key: str, lease: float, worker: str = ""
    ) -> None:
        self._client = client
        self._key = key
        self._keys = [f"{{{key}}}", seen_key, key]
        self._lease = lease
        self._worker = worker or uuid.uuid4().hex
        self._mark = ""
        self._call = self._last_answer = 0
        self.is_uncertain = False
        """Whether the server may have executed the last call. Then the next one has the same reports."""

    def run(self, order: dict[str, Any], pushes: Sequence[Push]) -> Answer:
        """Give the server an order, as the script describes it, with new requests, and return the answer.

        Raises RedisError or OSError if the server fails, and QueueLost.
        """
        self._call += 1
        whole = {
            **_NOTHING,
            "mark": self._mark,
            "call": self._call,
            "last_answer": self._last_answer,
            "lease": self._lease,
            **order,
        }
        words = [word for push in pushes for word in push.words]
        try:
            mark, *rest = self._run([self._worker, json.dumps(whole), *words])
        except Exception as error:
            # A server without memory has executed nothing. After any other error, it may have executed the call.
            self.is_uncertain |= not is_full(error)
            raise
        self._last_answer, self.is_uncertain = self._call, False
        if not rest:
            self._mark, self._call, self._last_answer = "", 0, 0
            self._worker = uuid.uuid4().hex
            raise QueueLost
        self._mark = mark.decode()
        return _answer(rest)

    def _run(self, args: list[Any]) -> list[Any]:
        words = [len(self._keys), *self._keys, *args]
        try:
            if self._call > 1:
                return list(self._client.evalsha(_digest(), *words))
        except NoScriptError:
            pass
        # One round trip, and the server knows the script from then on.
        return list(self._client.eval(_source(), *words))

    def clear(self) -> None:
        """Delete the queue, and the fingerprints. Workers that use it lose it. Raises RedisError or OSError."""
        prefix, *others = self._keys
        # Without this key, the others are those of an earlier queue, which no worker uses.
        self._client.unlink(f"{prefix}:state")
        for key in others:
            self._client.unlink(key)
        self.sweep()

    def sweep(self) -> None:
        """Delete what is left of earlier queues with this key."""
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


_NOTHING: dict[str, Any] = {
    **dict.fromkeys(
        ("done", "back", "unreadable", "pages", "ended", "paused", "left"), ()
    ),
    **dict.fromkeys(("turns", "more", "readable"), ()),
    "room": 0,
    "concurrency": 1,
    "batch": 0,
    "last_aside": "0",
    "retires": False,
    "clears": False,
}


def _answer(parts: Sequence[Any]) -> Answer:
    seen, remaining, has_lost, returned, turns, *parts = parts
    deliveries, hosts, pauses, unread, *numbers = parts
    return Answer(
        seen,
        remaining,
        bool(has_lost),
        returned,
        [Turn(token.decode(), *map(float, times)) for token, *times in turns],
        [_delivery(*entry) for entry in deliveries],
        [
            LeasedHost(
                _text(host), float(own_pause), int(concurrency), float(lasted), int(pages)
            )
            for host, own_pause, concurrency, lasted, pages in hosts
        ],
        [(_text(host), float(seconds)) for host, seconds in pauses],
        [(item, place.decode()) for item, place in zip(*[iter(unread)] * 2, strict=True)],
        *numbers,
    )  # fmt: skip


def _delivery(queue: bytes, on_server: int, items: Sequence[bytes]) -> Delivery:
    name = _text(queue)
    pairs = zip(items[::2], items[1::2], strict=True)
    taken = [
        Taken(name, float(score), item[:_NUMBER].decode(), item[_NUMBER:])
        for item, score in pairs
    ]
    return Delivery(name, on_server, taken)


def data_in(lease: bytes) -> bytes:
    """Return the data of a request that was set aside."""
    return lease.split(b"\n", 2)[2][_NUMBER:]


def _text(name: bytes) -> str:
    return name.decode(errors="replace")


def is_full(error: BaseException) -> bool:
    """Whether the server has refused a call since it has no memory left. It has done nothing then."""
    # Redis 6 has its code in the middle of the error of a script, redis-py in no text.
    return isinstance(error, RedisError) and "maxmemory" in str(error)


@cache
def _source() -> str:
    return (files(__package__) / "shared.lua").read_text(encoding="utf-8")


@cache
def _digest() -> str:
    from hashlib import sha1  # noqa: PLC0415

    return sha1(_source().encode(), usedforsecurity=False).hexdigest()


def connect(settings: BaseSettings) -> Any:
    """Return a client by the settings of scrapy-redis, which fails soon, and tries nothing twice: a call that was
    repeated may have been executed already.
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
    """Runs functions that ask the server, one after the other, on one thread."""

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
        """End the thread after what it has to do."""
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
