"""Calls the script ``shared.lua`` on the Redis server. In each call, a worker reports which of its requests are done,
and gets new requests. The calls run on a separate thread, so that a slow server does not block the event loop.
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

# The maximum number of seconds to wait for a connection to the server, and the maximum number of seconds to wait for
# each answer of the server.
_TIMEOUT = 3.0

# The length of a request's number, in characters. The number is the ID that the server gives to the request. The server
# stores the number and the serialised request as one string, and the number comes first.
_NUMBER_LENGTH = 14

# The maximum number of new requests that one call sends to the server. A larger call would take too long: while the
# server executes a call, all other workers wait.
MAX_PUSHES = 1_000

_Reports = dict[str, list[Any]]

# The reports of a worker that has nothing to report: an empty list for each kind of report.
_NO_REPORTS: _Reports = {
    name: [] for name in ("done", "back", "unreadable", "released", "paused", "left")
}


class Push(NamedTuple):
    """A new request, which a worker adds to the queue on the server. *data* is the serialised request."""

    host: str
    score: int
    """The position in the host's queue. The request with the lowest score is sent first."""

    is_last_first: bool
    """Whether this request is sent before older requests with the same score."""

    fingerprint: str
    """The fingerprint by which the server finds duplicates. Empty if the server must keep the request even if it is a
    duplicate."""

    data: bytes
    request: Any = None
    """The request as an object, which is not sent to the server. None if this worker has only the serialised request.
    """


class Taken(NamedTuple):
    """A request that the server sent to this worker. Usually, this worker took the request from the queue. In other
    cases, another worker could not deserialise the request, and this worker tries to deserialise it.

    *number* identifies the request on the server, and consists of hexadecimal digits. *data* is the serialised request.
    """

    host: str
    score: float
    number: str
    data: bytes

    @classmethod
    def from_lease(cls, lease: bytes) -> Taken:
        """Parse *lease*, the text that the server stores for a request that a worker has taken. The text has three
        parts, separated by line breaks: the host, the score, and the request. The third part begins with the number of
        the request (14 hexadecimal digits), and the rest is the serialised request.
        """
        host, score, item = lease.split(b"\n", 2)
        number, data = item[:_NUMBER_LENGTH].decode(), item[_NUMBER_LENGTH:]
        return cls(host.decode(errors="replace"), float(score), number, data)


class LeasedHost(NamedTuple):
    """A host that this worker owns from now on. The other fields describe the host's back-off, as the last owner left
    it. *own_pause* (in seconds) and *concurrency* are attributes of ``BackOff``. *lasted* is the number of seconds
    since the back-off began. If *concurrency* is 0, there is no back-off.
    """

    host: str
    own_pause: float
    concurrency: int
    lasted: float


class PermitAnswer(NamedTuple):
    """The Redis server's answer to a worker that has asked for a permit, the permission to send one request to a host.
    If the permit is granted, *wait* is 0. If it is refused, *wait* is the number of seconds after which the worker can
    ask again. *token* identifies the permit.
    """

    token: str
    wait: float
    """The number of seconds after which the worker can ask for the permit again; 0 if the permit is granted."""

    paused: float
    """The number of seconds until the end of the host's pause; 0 if the host has no pause. During a pause, each permit
    is refused. Without a pause, a permit can be refused because of the host's delay, for example."""


class Answer(NamedTuple):
    """The server's answer to one call of a worker. It gives hosts and requests to the worker, grants or refuses permits
    (the permission to send one request to a host), and contains the state of the queue.
    """

    seen: Sequence[int]
    """The indexes of the new requests that the server did not store, because they are duplicates. Index 0 is the first
    new request that the call sent to the server."""

    remaining: int
    """The number of all workers' requests that are not done. Requests that this worker has already tried to deserialise
    without success do not count.
    """

    set_aside: int
    """The number of requests that the server keeps apart from the queue (has set aside). A worker took each of them,
    but could not deserialise it, and no other worker has taken it since."""

    has_lost: bool
    """Whether other workers may have taken this worker's hosts and requests. There are two possible causes: this worker
    did not call the server for longer than its lease, or the server was restored from older data.
    """

    returned: int
    """The number of requests that the server put back into the queue during this call, because the worker that had
    taken them counts as dead."""

    strange: int
    """The number of requests under the queue's key that were written by a queue class of scrapy-redis. This worker
    cannot send them. Only the first answer contains the number; in later answers, it is 0."""

    permits: Sequence[PermitAnswer]
    """The server's answers about the permits for which this worker asked in its call."""

    on_server: dict[str, int]
    """Maps hosts to the number of their requests that no worker has taken from the server. If the server's previous
    answer was lost, contains all hosts that this worker owns. Otherwise, contains only these hosts:

    - hosts to which requests were added since the previous answer
    - hosts for which other workers have reported a pause since the previous answer
    - hosts for which this worker asked for more requests in its call
    - the hosts in :attr:`hosts`
    """

    hosts: Sequence[LeasedHost]
    """The hosts that this worker owns from this answer on."""

    pauses: dict[str, float]
    """Maps paused hosts to the number of seconds until the pause ends. Usually contains only pauses that are new to
    this worker: pauses that other workers have reported since the server's previous answer, and pauses of the hosts
    that this answer gives to the worker. If the previous answer was lost, contains the pauses of all hosts that this
    worker owns.
    """

    pages: dict[str, int]
    """Maps each host to the number of its pages that all workers together have fetched (see ``REP_PAGES_PER_HOST``).
    Contains only the hosts that this answer gives to the worker, and the hosts for which this worker reported finished
    pages in its call.
    """

    requests: Sequence[Taken]
    """The requests that this worker takes from the server with this answer."""

    unread: Sequence[tuple[Taken, str]]
    """Requests that a worker, usually another one, could not deserialise. This worker now tries to deserialise them.
    The server stores these requests outside the queue, each under a number. Each pair contains a request and its
    number, as text.
    """


class QueueLost(Exception):
    """The queue that this worker uses no longer exists on the server."""


class Exchange:
    """Makes the calls of one worker to the server, one after the other. Between two calls, it collects the worker's
    reports: what the server must know, such as the requests that are done. If the server does not answer a call, the
    next call repeats the reports. Calls are numbered, so that the server executes no report twice, and ignores calls
    that arrive too late.

    The server executes a call as a whole or not at all. When a call reports a request as done, the server deletes the
    request. By then, the requests that its callback has yielded must be on the server; otherwise, they would be lost if
    the worker died. The worker does not record which callback has yielded which request. So a call reports requests as
    done only if it contains all new requests that are not on the server yet.
    """

    def __init__(self, client: Any, key: str, seen_key: str, lease: float) -> None:
        self._client = client
        self._script = client.register_script(_source())
        self._keys = [f"{{{key}}}", seen_key, key]
        self._lease = lease
        self.reports: _Reports = defaultdict(list)
        """What this worker will report to the server in the next call. The keys are the kinds of reports. For example,
        the list under ``"done"`` contains the requests that are done. The end of ``shared.lua`` describes all kinds."""

        self.unsent: list[Push] = []
        """The new requests that are not on the server yet, oldest first."""

        self._told: _Reports | None = None
        """The reports of the last call, until the server answers that call. If no answer arrives, the next call repeats
        these reports. None if there is nothing to repeat."""

        self._sending = 0
        """How many requests from the start of :attr:`unsent` belong to the last call. If the call is repeated, they are
        sent again."""

        self.is_uncertain = False
        """Whether the server may have executed the last call, although no answer arrived."""

        self._forget_calls()

    def _forget_calls(self) -> None:
        self._worker = uuid.uuid4().hex
        self._mark = ""
        self._call = self._last_answer = 0

    @property
    def is_repeating(self) -> bool:
        """Whether the server has not answered the last call. In this case, the next call repeats the reports of the
        last call.
        """
        return self._told is not None

    def next_call(self, **wants: Any) -> Callable[[], Answer]:
        """Return a function that makes the next call to the server. The function blocks until the server answers, so it
        must run on another thread.

        If the server has not answered the last call, the next call repeats the reports and new requests of the last
        call. Otherwise, the next call contains the collected :attr:`reports`, and new requests from :attr:`unsent`.
        *wants* contains further fields for the call, which ``shared.lua`` describes.

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
        """Keep the reports of done requests for a later call, if the next call cannot contain all new requests. A
        request must not be reported as done before the server has the requests that its callback has yielded.
        """
        self.reports["done"] += (self._told or {}).pop("done", [])

    def answered(self) -> list[Push]:
        """Record that the server has answered the last call. Return the new requests that this call sent to the server,
        and remove them from :attr:`unsent`."""
        pushes = self.unsent[: self._sending]
        del self.unsent[: self._sending]
        self._last_answer, self._told, self.is_uncertain = self._call, None, False
        return pushes

    def failed(self, error: Exception) -> bool:
        """Record that the last call failed with *error*. Return whether the next call should follow immediately. There
        are three cases:

        - Usually, return False. The next call repeats the reports and the new requests of the failed call.
        - If the server's memory is full, return True. The next call contains only reports, which the server can still
          execute. The new requests are sent later.
        - If the queue no longer exists (*error* is QueueLost), return False. The next call repeats only the new
          requests, because the reports were about the lost queue.
        """
        if isinstance(error, QueueLost):
            self._told, self.is_uncertain = None, False
            self._forget_calls()
        elif not is_full(error):
            # It is unknown whether the server executed the call: perhaps only its answer was lost.
            self.is_uncertain = True
        elif not self.is_uncertain and self._sending:
            # The server's memory is full, and the server has executed no part of the call. The new requests and the
            # reports of done requests are kept for a later call. The next call repeats the other reports, such as
            # released permits. If is_uncertain were True, the next call would have to repeat everything, because the
            # server has perhaps executed an earlier attempt of the call.
            self._sending = 0
            self._report_done_later()
            return True
        return False

    def clear(self) -> None:
        """Delete the queue and its fingerprints, even if other workers use the queue. Raises RedisError or OSError if
        the server fails.
        """
        prefix, *others = self._keys
        # The state is deleted first. Workers that do not find it know that the queue is lost, and no longer use the
        # other keys.
        self._client.unlink(f"{prefix}:state")
        for key in others:
            self._client.unlink(key)
        self.sweep()

    def sweep(self) -> None:
        """Delete the keys in Redis that earlier queues left behind. An earlier queue is one that had the same name as
        this queue, and no longer exists. The keys of the present queue are kept. Raises RedisError or OSError if the
        server fails.
        """
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
        """Close the connection to the server."""
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
    """Whether *error* means that the server has no memory left. If so, the server has executed no part of the call."""
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
        """Let the thread end after the calls that are already queued. This method does not wait for the end of the
        thread.
        """
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
