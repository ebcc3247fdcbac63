"""A queue in Redis and its workers, with a clock that only the test advances.

The Lua scripts on the server read that clock too, and keys expire by it.
"""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager
from functools import cache
from hashlib import sha1
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

pytest.importorskip("scrapy_redis")

from scrapy_rep.frontier.frontier import Frontier
from scrapy_rep.frontier.redis import worker as worker_module
from scrapy_rep.frontier.redis.learning import Terms
from scrapy_rep.frontier.redis.worker import Limits, Popped, Unknown, Worker
from tests.frontier.fakes import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis
    from typing_extensions import Self

    from tests.stores.redis_server import RedisServer

PREFIX = "{spider:requests}"
SEEN = "{spider:requests}:seen"
LEASE = 60.0

TIMEOUT = 60.0
"""Seconds, enough for a working server on a busy machine."""

LATE = TIMEOUT + 2
HOUR = 3600.0

PAGES = "a.example\thttp://a.example"
SECURE = "a.example\thttps://a.example"
EXEMPT = "a.example\t"
OTHER = "b.example\thttp://b.example"
"""Names of queues: three of one host, and one of another."""

# Keys of the tests: the time in milliseconds, and the moments at which keys expire.
_NOW, _ENDS = "test:now", "test:ends"

# Replaces the line of the script by which it calls commands.
_CALL = "local call = redis.call\n"
_CALL_BY_THE_CLOCK_OF_THE_TEST = f"""
local function call(name, key, ...)
    if name == 'TIME' then
        local found = tonumber(redis.call('GET', '{_NOW}'))
        return {{ math.floor(found / 1000), found % 1000 * 1000 }}
    elseif name == 'PEXPIRE' then
        if redis.call('EXISTS', key) == 0 then return 0 end
        local ends = redis.call('GET', '{_NOW}') + ...
        redis.call('HSET', '{_ENDS}', key, ends)
        return 1
    elseif name == 'PERSIST' then
        return redis.call('HDEL', '{_ENDS}', key)
    elseif name == 'PTTL' then
        if redis.call('EXISTS', key) == 0 then return -2 end
        local ends = redis.call('HGET', '{_ENDS}', key)
        return ends and ends - redis.call('GET', '{_NOW}') or -1
    elseif name == 'DEL' then
        redis.call('HDEL', '{_ENDS}', key, ...)
    end
    if key == nil then return redis.call(name) end
    return redis.call(name, key, ...)
end
"""


_real_source = worker_module.source.__wrapped__  # The uncached function.


@cache
def _source() -> tuple[str, str]:
    """Return the script, changed to read the clock of the test, and its digest."""
    text, _ = _real_source()
    assert text.count(_CALL) == 1
    text = text.replace(_CALL, _CALL_BY_THE_CLOCK_OF_THE_TEST)
    return text, sha1(text.encode()).hexdigest()


class ServerClock(FakeClock):
    """Shows the same time to the workers and to the scripts on the server."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.is_server_away = False
        super().__init__()

    @property
    def _now(self) -> float:
        return self._value

    @_now.setter
    def _now(self, value: float) -> None:
        self._value = value
        self.set_server(value)

    def set_server(self, value: float) -> None:
        if self.is_server_away:
            return
        now = round(value * 1000)
        self._redis.set(_NOW, now)
        for key, ends in self._redis.hgetall(_ENDS).items():
            if int(ends) <= now or not self._redis.exists(key):
                self._redis.delete(key)
                self._redis.hdel(_ENDS, key)


class Shared:
    """The shared queue, with methods to look into its keys."""

    def __init__(self, server: RedisServer, timeout: float = TIMEOUT) -> None:
        self.server = server
        self._timeout = timeout
        self._numbers = count()
        self.redis = server.client()
        self.clock = ServerClock(self.redis)
        self._patches = ExitStack()

    def __enter__(self) -> Self:
        self._patches.enter_context(mock.patch.object(worker_module, "source", _source))
        timeout = mock.patch.object(worker_module, "_TIMEOUT", self._timeout)
        self._patches.enter_context(timeout)
        self._patches.callback(self.redis.close)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._patches.close()

    def worker(self, lease: float = LEASE, *, lives: bool = True, **how: Any) -> Worker:
        crawler: Any = SimpleNamespace(spider=None)
        vars(crawler)["_scrapy_rep_components"] = {
            Frontier: SimpleNamespace(clock=self.clock)
        }
        connection = worker_module.Link(crawler)
        connection.connect(self.redis)
        self._patches.callback(connection.close)
        worker = Worker(connection, self.clock, PREFIX, lease, **how)
        # The server looks for dead workers in the order of names: make that predictable.
        worker._name = f"{next(self._numbers):032x}"
        if lives:
            worker.beat()
        return worker

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def advance_server(self, seconds: float) -> None:
        """Advance the clock of the server by *seconds*, but not those of the workers."""
        self.clock.set_server(self.clock.monotonic() + seconds)

    @contextmanager
    def without_server(self) -> Iterator[None]:
        """Let the server be away: its clock stands still, and is right again when it is back."""
        self.clock.is_server_away = True
        yield
        self.clock.is_server_away = False
        self.clock.set_server(self.clock.monotonic())

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Suspend the server. It executes the commands sent meanwhile when it resumes."""
        with self.without_server(), self.server.suspended():
            yield

    # The content of the server.

    def key(self, name: str) -> str:
        return f"{PREFIX}:{name}"

    def names(self) -> set[str]:
        """The names of all keys of the queue."""
        found = {key.decode() for key in self.redis.scan_iter()} - {_NOW, _ENDS}
        assert all(key.startswith(f"{PREFIX}:") for key in found)
        return {key.removeprefix(f"{PREFIX}:") for key in found}

    def count(self) -> int:
        keys = self.key("number"), self.key("ended")
        number, ended = (int(each or 0) for each in self.redis.mget(keys))
        return number - ended

    def ready(self) -> dict[str, float]:
        """Seconds until each ready queue is checked next."""
        return self._moments("ready")

    def unknown(self) -> dict[str, float]:
        return self._moments("wanted")

    def _moments(self, name: str) -> dict[str, float]:
        now = self.clock.monotonic()
        found = self.redis.zrange(self.key(name), 0, -1, withscores=True)
        return {queue.decode(): moment / 1000 - now for queue, moment in found}

    def host(self, name: str) -> dict[str, int]:
        """The state of a host, without the fields that are 0."""
        found = self.redis.hget(self.key(f"host:{name}"), "state") or b""
        [names] = re.findall("(?s)local FIELDS = {(.*?)\\n}", _real_source()[0])
        fields = re.findall(r"'(\w+)',", names)
        values = map(int, found.split())
        return {one: each for one, each in zip(fields, values, strict=False) if each}

    def ends_in(self, name: str) -> float | None:
        """Seconds until a key expires, or None if it never does."""
        ends = self.redis.hget(_ENDS, self.key(name))
        return None if ends is None else int(ends) / 1000 - self.clock.monotonic()


def push(
    worker: Worker, queue: str, *names: str, priority: int = 0, seen: bool = False
) -> None:
    """Push one request for each name."""
    for name in names:
        fingerprint = (SEEN, name) if seen else ("", "")
        worker.push(queue, -priority, name.encode(), fingerprint)
    worker.report()


def pop(worker: Worker, at_once: int = 1, gap: int = 0, **limits: Any) -> str | None:
    """Pop a request. Return its name, or None."""
    found = take(worker, at_once, gap, **limits)
    return None if found is None else found.data.decode()


def take(
    worker: Worker, at_once: int = 1, gap: int = 0, **limits: Any
) -> Popped | None:
    """Pop a request. Return None if there is none."""
    return take_one(worker, Limits(at_once, gap, **limits))


def take_one(worker: Worker, limits: Limits) -> Popped | None:
    found, _ = worker.exchange(limits, wanted=1)
    return next(iter(found), None)


def pop_all(worker: Worker, at_once: int = 1, gap: int = 0) -> list[str]:
    """Pop until nothing is handed out, while no time passes. Return the names."""
    return list(iter(lambda: pop(worker, at_once, gap), None))


def end(
    worker: Worker, popped: Popped, *, fetched: bool = True, pushed: int = 0, **how: Any
) -> None:
    """End a request, with its callback. The server learns it with the next call."""
    host = popped.queue.partition("\t")[0]
    worker.left(popped.number, host, fetched=fetched, **how)
    worker.done(popped.number, pushed)


def know(worker: Worker, queue: str, holds: float = HOUR, **terms: float) -> None:
    """Make the robots.txt of *queue* known."""
    learned(worker, queue, Terms(holds, **terms))


def learned(worker: Worker, queue: str, terms: Terms | None) -> None:
    """Report what *worker* has learned, and nothing else that it has collected."""
    worker.learned(queue, terms)
    worker.report()


def learn(worker: Worker, quota: int = 32, enough: int = 100) -> list[str]:
    """Return the queues whose robots.txt *worker* is to fetch."""
    return [unknown.queue for unknown in unknown_to(worker, quota, enough)]


def unknown_to(worker: Worker, quota: int = 32, enough: int = 100) -> list[Unknown]:
    _, found = worker.exchange(quota=quota, enough=enough)
    return found


def refuse(worker: Worker, queue: str) -> tuple[Popped | None, int]:
    """Take a request of *queue* to refuse it. Return it with the number of those left."""
    found, left = worker.take(queue, 1)
    return next(iter(found), None), left


def release(
    worker: Worker, number: str, host: str, delay: float, *, fetched: bool
) -> None:
    """Free a place that was acquired."""
    worker.left(number, host, fetched=fetched, delay=delay)
    worker.report()
