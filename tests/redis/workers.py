"""Workers that share a queue on a Redis server. No crawl runs: a test makes the calls of the workers to the server one
by one. The clock of the server advances only when a test advances it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import fakeredis
from redis.commands.core import Script
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import ResponseError

from scrapy_rep.redis import exchange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Self

    from scrapy_rep.redis.exchange import Answer, PermitAnswer, Taken

KEY = "spider:requests"
SEEN = "spider:dupefilter"
LEASE = 60.0

_SOURCE = exchange._source()


class SharedQueue:
    """The queue on a Redis server, and the server's clock as the script ``shared.lua`` sees it."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.done_on_server: set[str] = set()
        """The names of the requests that the server has recorded as done."""

        # In the year 2096. The script shared.lua uses this time to compute when a key expires, but Redis compares the
        # result with the real time. So no key expires during a test.
        self.now = 4_000_000_000.0
        self.client.set("now", self.now)

    def __enter__(self) -> Self:
        clock = "{ redis.call('GET', 'now'), 0 }"
        source = _SOURCE.replace("redis.call('TIME')", clock)
        self._patch = mock.patch.object(exchange, "_source", return_value=source)
        self._patch.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._patch.stop()

    def advance_clock(self, seconds: float) -> None:
        self.now += seconds
        self.client.set("now", self.now)

    def worker(self) -> Worker:
        """Return a new worker that uses this queue."""
        return Worker(self)

    @property
    def count(self) -> int:
        """The number of requests that are not done."""
        return int(self.client.hget(f"{{{KEY}}}:state", "count") or 0)

    def stored_keys(self) -> list[str]:
        """Return the keys of this queue on the server, without the prefix that all of them have."""
        mark = (self.client.hget(f"{{{KEY}}}:state", "mark") or b"").decode()
        prefix = f"{{{KEY}}}:{mark}:"
        keys = [key.decode() for key in self.client.scan_iter(f"{prefix}*")]
        return sorted(key.removeprefix(prefix) for key in keys)


def fake_queue() -> SharedQueue:
    """Return a queue on a fake Redis server in this process."""
    return SharedQueue(fakeredis.FakeRedis())


class FailingClient:
    """A Redis client that raises an exception when a worker runs the script ``shared.lua``, if :attr:`failure` is not
    empty.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self.failure = ""
        """``"before"`` if the connection fails before the server has executed a call, ``"after"`` if it fails
        afterwards, so that only the answer is lost, ``"full"`` if the server has no memory left. Empty if calls
        succeed.
        """

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def register_script(self, source: str) -> Script:
        """Return a script that runs on this client, so that its calls fail if :attr:`failure` is not empty."""
        return Script(self, source)  # type: ignore[arg-type]

    def evalsha(self, *args: Any) -> Any:
        if self.failure == "full":
            # Redis 6 puts the error code OOM in the middle of the error message of a script.
            raise ResponseError(
                "Error running script (call to f_1): @user_script:1: -OOM command not allowed when used memory > "
                "'maxmemory'."
            )
        if self.failure == "before":
            raise Disconnected
        result = self._client.evalsha(*args)
        if self.failure == "after":
            raise Disconnected
        return result


NO_WANTS: dict[str, Any] = {
    "permits": [],
    "more": [],
    "room": 0,
    "concurrency": 2,
    "batch": 3,
    "wait_timeout": 600,
    "readable": [],
    "last_aside": "0",
}
"""The fields of a call in which a worker asks for nothing: no hosts, no requests, and no permits to send a request. The
end of ``shared.lua`` describes each field.
"""


class Worker:
    """A worker without a crawl: a test makes the calls to the Redis server that the worker's scheduler would make. Each
    request is just a name, such as ``"1"``.
    """

    def __init__(self, queue: SharedQueue) -> None:
        self.queue = queue
        self.client = FailingClient(queue.client)
        self.exchange = exchange.Exchange(self.client, KEY, SEEN, LEASE)
        self.renewed_at = float("-inf")
        """When the lease was last renewed, on the server's clock."""

        self.owned: set[str] = set()
        """The hosts that this worker owns: no other worker gets their requests."""

        self.taken: dict[str, Taken] = {}
        """The requests that this worker has got from the server and has not finished. The key is the number that the
        server gave to the request.
        """

        self.on_server: dict[str, int] = {}
        """Maps each host that this worker owns to the number of its requests that are still on the server, as far as
        this worker knows.
        """

        self.permits: set[str] = set()
        """The tokens of the permits that this worker holds. Each permit allows one request to a host."""

        self.finished: dict[str, str] = {}
        """The names of the requests that this worker has finished. The key is the number that the server gave to the
        request.
        """

        self.last_answer: Answer

    @property
    def reports(self) -> dict[str, list[Any]]:
        """What this worker will report in its next call to the Redis server, by kind of report. For example, ``"done"``
        contains the requests that are done.
        """
        return self.exchange.reports

    @property
    def is_alive(self) -> bool:
        """Whether this worker's lease is still running."""
        return self.queue.now < self.renewed_at + LEASE

    def call(self, **wants: Any) -> Answer | None:
        """Make one call to the Redis server: send what this worker has to report, such as the requests that are done,
        and return the server's answer. Return None if the connection fails.

        *wants* is what the worker asks for: the fields of the call that differ from ``NO_WANTS``.
        """
        wants = {**NO_WANTS, **wants}
        if self.exchange.is_uncertain:
            wants["has"] = [*self.owned, *self.taken, *self.permits]
        now, run = self.queue.now, self.exchange.next_call(**wants)
        reports = self.exchange._told or {}
        try:
            answer = run()
        except Exception as error:
            self.exchange.failed(error)
            if isinstance(error, Disconnected):
                return None
            raise
        self.exchange.answered()
        self.renewed_at = now
        self.last_answer = answer
        if answer.has_lost:
            self.forget()
        else:
            done = reports.get("done", ())
            self.queue.done_on_server |= {self.finished[number] for number, _ in done}
        self.owned.update(host.host for host in answer.hosts)
        self.on_server |= answer.on_server
        self.taken |= {taken.number: taken for taken in answer.requests}
        return answer

    def forget(self) -> None:
        """Make this worker forget its hosts, requests, permits and reports. Nothing changes on the server."""
        self.owned.clear()
        self.taken.clear()
        self.on_server.clear()
        self.permits.clear()
        self.exchange.reports.clear()

    def push(self, *names: str, host: str = "a", **fields: Any) -> None:
        """Add a new request for each of *names* to the queue, with the next call to the server. The fingerprint of a
        request is its name, unless *fields*, the fields of the ``Push``, contain another fingerprint.
        """
        for name in names:
            defaults = {
                "host": host,
                "score": 0,
                "is_last_first": False,
                "fingerprint": name,
                "data": name.encode(),
            }
            self.exchange.unsent.append(exchange.Push(**{**defaults, **fields}))

    def take(self, room: int = 100, **wants: Any) -> list[str]:
        """Make one call that asks for requests, and return the names of the requests in the server's answer.

        The worker gets hosts that no worker owns, with about *room* requests in total. If *room* is 0, it gets no
        hosts. In any case, the answer can contain new requests of hosts that the worker owned already. *wants* are
        further fields of the call, as in :meth:`call`.
        """
        before = set(self.taken)
        self.call(room=room, **wants)
        return [
            taken.data.decode()
            for number, taken in self.taken.items()
            if number not in before
        ]

    def take_more(self, host: str, count: int = 3) -> list[str]:
        """Make one call that asks for up to *count* more requests of *host*, which this worker owns. Return the names
        of the requests in the answer.
        """
        return self.take(0, more=[(host, count)])

    def numbers_of(self, *names: str) -> Iterator[str]:
        """Yield the numbers that the server gave to the requests *names*. Requests that this worker has not got are
        skipped.
        """
        for number, taken in self.taken.items():
            if taken.data.decode() in names:
                yield number

    def finish(self, *names: str) -> None:
        """Finish the requests *names*. The next call reports to the server that they are done."""
        for number in list(self.numbers_of(*names)):
            self.finished[number] = self.taken.pop(number).data.decode()
            self.reports["done"].append((number, ""))

    def give_back(self, *names: str) -> None:
        """Give the requests *names* back with the next call to the server."""
        for number in list(self.numbers_of(*names)):
            del self.taken[number]
            self.reports["back"].append(number)

    def give_back_host(
        self, host: str, next_in: float = 0.0, back_off: Sequence[float] = (0, 0, 0)
    ) -> None:
        """Give *host* and its requests back with the next call to the server. No request may be sent to *host* for the
        next *next_in* seconds. *back_off* contains ``own_pause``, ``concurrency`` and ``lasted`` of a ``LeasedHost``.
        """
        self.owned.discard(host)
        self.reports["left"].append((host, next_in, *back_off))
        for number, taken in list(self.taken.items()):
            if taken.host == host:
                del self.taken[number]
                self.reports["back"].append(number)

    def request_permit(
        self, token: str, host: str = "a", limit: int = 1, delay: float = 0.0
    ) -> PermitAnswer:
        """Make one call that asks for a permit for a request to *host*, and return the server's answer. *limit* and
        *delay* are the arguments of ``acquire`` in ``shared.lua``.
        """
        answer = self.call(permits=[(token, host, limit, delay)])
        assert answer is not None
        [permit] = answer.permits
        if not permit.wait:
            self.permits.add(token)
        return permit

    def release_permit(
        self, token: str, seconds_ago: float = 0.0, *, was_sent: bool = True
    ) -> None:
        """Give the permit *token* back with the next call to the server. The request for which this worker got the
        permit ended *seconds_ago*, or was never sent if *was_sent* is False.
        """
        self.permits.discard(token)
        self.reports["released"].append((token, seconds_ago, was_sent))

    def retire(self, *, clears: bool = False) -> Answer | None:
        """End this worker, and return the server's answer to its last call. *clears* is False if the queue is kept, as
        with ``SCHEDULER_PERSIST = True``.
        """
        answer = self.call(retires=True, clears=clears)
        self.forget()
        return answer
