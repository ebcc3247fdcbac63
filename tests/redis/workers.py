"""Workers that share a queue, on a Redis server whose clock only a test advances."""

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


class Shared:
    """A server, and its clock."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.certain: set[str] = set()
        """The names of requests that the server knows to be done."""

        self.now = 4_000_000_000.0  # Later than the real one, by which keys expire.
        self.client.set("now", self.now)

    def __enter__(self) -> Self:
        clock = "{ redis.call('GET', 'now'), 0 }"
        source = _SOURCE.replace("redis.call('TIME')", clock)
        self._patch = mock.patch.object(exchange, "_source", return_value=source)
        self._patch.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._patch.stop()

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.client.set("now", self.now)

    def worker(self) -> Worker:
        return Worker(self)

    @property
    def count(self) -> int:
        """How many requests are not done."""
        return int(self.client.hget(f"{{{KEY}}}:state", "count") or 0)

    def names(self, kind: str = "") -> list[str]:
        """Return the keys that begin with *kind*, without what all have in common."""
        mark = (self.client.hget(f"{{{KEY}}}:state", "mark") or b"").decode()
        prefix = f"{{{KEY}}}:{mark}:"
        names = [key.decode() for key in self.client.scan_iter(f"{prefix}{kind}*")]
        return sorted(name.removeprefix(prefix) for name in names)


def fake() -> Shared:
    """Return a server in this process."""
    return Shared(fakeredis.FakeRedis())


class Client:
    """A connection that can fail, before or after the server has executed a call."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.fails = ""
        """``"before"``, ``"after"``, ``"full"``, or empty."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def register_script(self, source: str) -> Script:
        """Return a script that is run on this connection."""
        return Script(self, source)  # type: ignore[arg-type]

    def evalsha(self, *args: Any) -> Any:
        return self._run(self._client.evalsha, *args)

    def _run(self, run: Any, *args: Any) -> Any:
        if self.fails == "full":
            # As Redis 6 says it, in the middle of the error of a script.
            raise ResponseError(
                "Error running script (call to f_1): @user_script:1: -OOM command not allowed when used memory > "
                "'maxmemory'."
            )
        if self.fails == "before":
            raise Disconnected
        result = run(*args)
        if self.fails == "after":
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
"""A worker that does not want anything."""


class Worker:
    """What the scheduler of a worker does with its exchange, without a crawl."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.client = Client(shared.client)
        self.exchange = exchange.Exchange(self.client, KEY, SEEN, LEASE)
        self.renewed_at = float("-inf")
        self.owned: set[str] = set()
        self.taken: dict[str, Taken] = {}
        self.on_server: dict[str, int] = {}
        self.held: set[str] = set()
        self.ending: dict[str, str] = {}
        """The numbers of the requests that are done, and their names."""

        self.last: Answer

    @property
    def reports(self) -> dict[str, list[Any]]:
        return self.exchange.reports

    @property
    def is_alive(self) -> bool:
        """Whether its lease has not ended."""
        return self.shared.now < self.renewed_at + LEASE

    def call(self, **wants: Any) -> Answer | None:
        """Tell what has happened, and get what it *wants*. Return None if the connection fails."""
        order: dict[str, Any] = {**NO_WANTS, **wants}
        if self.exchange.is_uncertain:
            order["has"] = [*self.owned, *self.taken, *self.held]
        now, run = self.shared.now, self.exchange.next_call(**order)
        told = self.exchange._told or {}
        try:
            answer = run()
        except Exception as error:
            self.exchange.failed(error)
            if isinstance(error, Disconnected):
                return None
            raise
        self.exchange.answered()
        self.renewed_at = now
        self.last = answer
        if answer.has_lost:
            self.forget()
        else:
            done = told.get("done", ())
            self.shared.certain |= {self.ending[number] for number, _ in done}
        self.owned.update(host.host for host in answer.hosts)
        self.on_server |= answer.on_server
        self.taken |= {taken.number: taken for taken in answer.requests}
        return answer

    def forget(self) -> None:
        self.owned.clear()
        self.taken.clear()
        self.on_server.clear()
        self.held.clear()
        self.exchange.reports.clear()

    def push(self, *names: str, host: str = "a", **how: Any) -> None:
        """Push a request with each name as its data, and as its fingerprint unless *how* has another one."""
        for name in names:
            fields = {
                "host": host,
                "score": 0,
                "is_last_first": False,
                "fingerprint": name,
                "data": name.encode(),
                **how,
            }
            self.exchange.unsent.append(exchange.Push(**fields))

    def take(self, room: int = 100, **wants: Any) -> list[str]:
        """Take free hosts, for *room* requests. Return the names of what has come."""
        before = set(self.taken)
        self.call(room=room, **wants)
        return [
            taken.data.decode()
            for number, taken in self.taken.items()
            if number not in before
        ]

    def more(self, host: str, count: int = 3) -> list[str]:
        return self.take(0, more=[(host, count)])

    def numbers(self, *names: str) -> Iterator[str]:
        """Yield the number of each request that it has with one of *names*."""
        for number, taken in self.taken.items():
            if taken.data.decode() in names:
                yield number

    def done(self, *names: str) -> None:
        for number in list(self.numbers(*names)):
            self.ending[number] = self.taken.pop(number).data.decode()
            self.reports["done"].append((number, ""))

    def give_back(self, *names: str) -> None:
        for number in list(self.numbers(*names)):
            del self.taken[number]
            self.reports["back"].append(number)

    def leave(
        self, host: str, next_in: float = 0.0, back_off: Sequence[float] = (0, 0, 0)
    ) -> None:
        """Give *host* back, with its requests."""
        self.owned.discard(host)
        self.reports["left"].append((host, next_in, *back_off))
        for number, taken in list(self.taken.items()):
            if taken.host == host:
                del self.taken[number]
                self.reports["back"].append(number)

    def ask(
        self, token: str, host: str = "a", limit: int = 1, delay: float = 0.0
    ) -> PermitAnswer:
        """Ask for the permit of a request."""
        answer = self.call(permits=[(token, host, limit, delay)])
        assert answer is not None
        [permit] = answer.permits
        if not permit.wait:
            self.held.add(token)
        return permit

    def end(self, token: str, ago: float = 0.0, *, was_sent: bool = True) -> None:
        self.held.discard(token)
        self.reports["released"].append((token, ago, was_sent))

    def retire(self, *, clears: bool = False) -> Answer | None:
        answer = self.call(retires=True, clears=clears)
        self.forget()
        return answer
