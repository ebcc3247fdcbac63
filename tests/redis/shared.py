"""A queue in Redis and its workers, with a clock that only the test advances.

The Lua scripts on the server read that clock too, and keys expire by it.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

pytest.importorskip("scrapy_redis")

from scrapy_rep.base.log import CrawlLog
from scrapy_rep.crawl.frontier.backlog import Terms
from scrapy_rep.redis import worker as worker_module
from scrapy_rep.redis.worker import Lease, Worker
from tests.frontier.fakes import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis
    from typing_extensions import Self

    from tests.fetching.redis_server import RedisServer

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
    elseif name == 'PEXPIREAT' then
        local ends = ...
        if ends > tonumber(redis.call('GET', '{_NOW}')) then
            return redis.call('HSET', '{_ENDS}', key, ends)
        end
        redis.call('HDEL', '{_ENDS}', key)
        return redis.call('DEL', key)
    elseif name == 'PERSIST' then
        return redis.call('HDEL', '{_ENDS}', key)
    elseif name == 'PTTL' then
        local ends = redis.call('HGET', '{_ENDS}', key)
        return ends and ends - redis.call('GET', '{_NOW}') or -1
    end
    if key == nil then return redis.call(name) end
    return redis.call(name, key, ...)
end
"""


# Sets the time of the test, and deletes the keys that have expired.
_SET_TIME = f"""
local now = ARGV[1]
redis.call('SET', '{_NOW}', now)
local ends = redis.call('HGETALL', '{_ENDS}')
for index = 1, #ends, 2 do
    local key = ends[index]
    if tonumber(ends[index + 1]) <= tonumber(now) or redis.call('EXISTS', key) == 0 then
        redis.call('DEL', key)
        redis.call('HDEL', '{_ENDS}', key)
    end
end
"""

# Returns each key, with what it holds if that is a text, a hash or a sorted set.
_READ_ALL = """
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
    local kind, value = redis.call('TYPE', key).ok, {}
    if kind == 'string' then value = redis.call('GET', key) end
    if kind == 'hash' then value = redis.call('HGETALL', key) end
    if kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end
    found[#found + 1] = { key, value }
end
return found
"""

_real_source = worker_module.source.__wrapped__  # The uncached function.


@cache
def _source() -> str:
    """Return the script, changed to read the clock of the test."""
    text = _real_source()
    assert text.count(_CALL) == 1
    return text.replace(_CALL, _CALL_BY_THE_CLOCK_OF_THE_TEST)


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
        self._redis.eval(_SET_TIME, 0, round(value * 1000))


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
        logger = CrawlLog(worker_module.__name__, SimpleNamespace(spider=None))
        connection = worker_module.Link(self.redis, self.clock, logger)
        self._patches.callback(connection.close)
        worker = Worker(connection, self.clock, PREFIX, lease, **how)
        # The server looks for dead workers in the order of names: make that predictable.
        worker._name = f"{next(self._numbers):032x}"
        if lives:
            worker.exchange()
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

    # The content of the server.

    def key(self, name: str) -> str:
        return f"{PREFIX}:{name}"

    def content(self) -> dict[str, Any]:
        """What the keys of the queue hold, in one step: texts, and dicts of hashes and of sorted
        sets, with the best member first.
        """
        found: dict[str, Any] = {}
        for key, value in self.redis.eval(_READ_ALL, 0):
            if isinstance(value, list):
                texts = [each.decode(errors="replace") for each in value]
                value = dict(zip(texts[::2], texts[1::2], strict=True))
            found[key.decode()] = value
        found.pop(_NOW)
        found.pop(_ENDS, None)
        assert all(key.startswith(f"{PREFIX}:") for key in found)
        return {key.removeprefix(f"{PREFIX}:"): found[key] for key in found}

    def count(self) -> int:
        return int(self.redis.hget(self.key("state"), "count") or 0)

    def ends_in(self, name: str) -> float | None:
        """Seconds until a key expires, or None if it never does."""
        ends = self.redis.hget(_ENDS, self.key(name))
        return None if ends is None else int(ends) / 1000 - self.clock.monotonic()


def state_of(content: dict[str, Any], host: str) -> dict[str, int]:
    """The state of a host, without the fields that are 0."""
    found = content.get(f"host:{host}", {}).items()
    values = {field: int(value) for field, value in found if "\t" not in field}
    return {field: value for field, value in values.items() if value}


def queues_in_line(content: dict[str, Any]) -> set[str]:
    """The queues that have a turn, of hosts that will be checked."""
    return {
        field
        for host in content.get("ready", {})
        for field, value in content.get(f"host:{host}", {}).items()
        if "\t" in field and not value.endswith(" 0")
    }


def push(
    worker: Worker, queue: str, *names: str, priority: int = 0, seen: bool = False
) -> None:
    """Push one request for each name."""
    for name in names:
        fingerprint = (SEEN, name) if seen else ("", "")
        worker.push(queue, -priority, name.encode(), fingerprint)
    worker.exchange()


def pop(worker: Worker, at_once: int = 1, gap: int = 0, **limits: Any) -> str | None:
    """Pop a request. Return its name, or None."""
    found = take(worker, at_once, gap, **limits)
    return None if found is None else found.data.decode()


def take(worker: Worker, at_once: int = 1, gap: int = 0, **limits: Any) -> Lease | None:
    """Pop a request. Return None if there is none."""
    found = take_some(worker, 1, at_once, gap, **limits)
    return found[0] if found else None


def take_some(
    worker: Worker, most: int, at_once: int = 1, gap: int = 0, **limits: Any
) -> list[Lease]:
    """Pop at most so many requests."""
    limits = {"limit": at_once, "gap": gap, "hosts": {}} | limits
    answer = worker.exchange(wanted=most, **limits)
    pop_buffer(worker)
    return [] if answer is None else list(answer.found)


def pop_buffer(worker: Worker) -> None:
    """Pop what was handed out, as a request that is its own number."""
    worker.popped.update((lease.number, lease) for lease in worker.buffer)
    worker.buffer.clear()


def pop_all(worker: Worker, at_once: int = 1, gap: int = 0) -> list[str]:
    """Pop until nothing is handed out, while no time passes. Return the names."""
    return list(iter(lambda: pop(worker, at_once, gap), None))


def end(worker: Worker, popped: Lease, *, pushed: int = 0, pause: int = 0) -> None:
    """End a request, with its callback. The server gets to know with the next call. *pause* is the
    last one that the worker knew, if the host has answered well since.
    """
    worker.popped.pop(popped.number, None)
    popped.is_sent, popped.succeeded_after, popped.pushed = True, pause, pushed
    worker.report_left(popped)
    worker.report_done(popped)


def renew(worker: Worker) -> int:
    """Renew the lease of *worker*. Return how many requests of a dead worker have come back."""
    answer = worker.exchange()
    return 0 if answer is None else answer.returned


def retire(worker: Worker) -> None:
    """End *worker*."""
    worker.exchange(retires=True)


def know(worker: Worker, queue: str, holds: float = HOUR, **terms: float) -> None:
    """Make the robots.txt of *queue* known."""
    worker.report_rules(queue, Terms(holds, **terms))
    worker.exchange()


def wanted(worker: Worker, quota: int = 32, enough: int = 100) -> list[str]:
    """Return the queues whose robots.txt *worker* is to fetch."""
    answer = worker.exchange(quota=quota, enough=enough)
    return [] if answer is None else [popped.queue for popped in answer.wanted]


def acquire(worker: Worker, number: str, host: str) -> bool:
    """Take the only place at *host*, for a request that is not from the queue."""
    answer = worker.exchange(acquire=(number, host))
    if answer is None or answer.acquired is None:
        return False
    worker.acquired[number] = answer.acquired
    return True


def release(
    worker: Worker, number: str, host: str, delay: float, *, fetched: bool
) -> None:
    """Free a place that was acquired."""
    worker.acquired.pop(number, None)
    worker.report_left(Lease(number, host, is_sent=fetched), delay=delay)
    worker.exchange()


def lose_all(worker: Worker) -> None:
    """Let *worker* find that the answers were lost that handed it what it has."""
    for each in (worker.popped, worker.acquired, worker.fetching):
        each.clear()
    worker._link.has_lost_answer = True
    worker.exchange()
    assert not worker._link.has_lost_answer
