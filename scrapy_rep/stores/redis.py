"""A store on a Redis server, which processes on several machines can share."""

from __future__ import annotations

import math
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from scrapy_rep.exceptions import StoreError, StoreNotInstalled
from scrapy_rep.protocol.display import address_without_credentials
from scrapy_rep.stores.base import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

_LOCK = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return 1
end
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
"""

_UNLOCK = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('DEL', KEYS[1])
end
return 0
"""

# In milliseconds. The server refuses times beyond 64 bits.
_MAX_LIFE_MS = 100 * 365 * 24 * 3600 * 1000


class RedisStore(Store):
    """Keeps entries under ``PREFIX:entry:ORIGIN``, and locks under ``PREFIX:lock:ORIGIN``.

    *url* is ``redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]``, ``rediss://...`` for TLS, or
    ``unix://PATH[?db=DB]``. The query may have other options of the client. A call waits at
    most *timeout* seconds for the connection, and at most *timeout* seconds for the answer.
    Entries and locks expire by the server's clock. Raises StoreNotInstalled if the client
    is not installed, and ValueError for an invalid URL.
    """

    blocking = True

    def __init__(self, url: str, prefix: str = "rep", timeout: float = 2.0) -> None:
        self._where = address_without_credentials(url).partition("?")[0]
        self._prefix = prefix
        self._closed = False
        try:
            from redis.exceptions import RedisError  # noqa: PLC0415

            self._redis = _client(url, timeout)
        except ImportError as error:
            raise StoreNotInstalled(
                self._where,
                "it needs a package that is not installed: pip install"
                " 'scrapy-rep[redis]'",
            ) from error
        self._failures = (RedisError, OSError, ValueError)
        self._lock_script = self._redis.register_script(_LOCK)
        self._unlock_script = self._redis.register_script(_UNLOCK)

    def lock(self, origin: str, owner: str, seconds: float, now: float) -> bool:
        with self._errors():
            key, life = self._lock_key(origin), _milliseconds(seconds)
            return bool(self._lock_script([key], [owner, life]))

    def unlock(self, origin: str, owner: str) -> None:
        with self._errors():
            self._unlock_script([self._lock_key(origin)], [owner])

    def close(self) -> None:
        self._closed = True
        with suppress(*self._failures):
            self._redis.close()

    def read(self, origin: str) -> bytes | None:
        with self._errors():
            data = self._redis.get(self._entry_key(origin))
            return data if isinstance(data, bytes) else None

    def write(self, origin: str, data: bytes, until: float, now: float) -> None:
        with self._errors():
            life = _milliseconds(until - now)
            self._redis.set(self._entry_key(origin), data, px=life)

    def remove(self, origin: str) -> None:
        with self._errors():
            self._redis.delete(self._entry_key(origin))

    def _entry_key(self, origin: str) -> str:
        return f"{self._prefix}:entry:{origin}"

    def _lock_key(self, origin: str) -> str:
        return f"{self._prefix}:lock:{origin}"

    @contextmanager
    def _errors(self) -> Iterator[None]:
        if self._closed:
            raise StoreError(self._where, "it is closed")
        try:
            yield
        except self._failures as error:
            raise StoreError(self._where, error) from error


def _client(url: str, timeout: float) -> Redis:
    # Imported here, because the package is an extra.
    from redis import Redis  # noqa: PLC0415
    from redis.backoff import NoBackoff  # noqa: PLC0415
    from redis.exceptions import ConnectionError as Disconnected  # noqa: PLC0415
    from redis.retry import Retry  # noqa: PLC0415

    return Redis.from_url(
        url,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        # One immediate retry, for connections that a restart of the server has closed. By
        # default the client waits for seconds between attempts.
        retry=Retry(NoBackoff(), 1, supported_errors=(Disconnected,)),
    )


def _milliseconds(seconds: float) -> int:
    """*seconds* in milliseconds, at least 1, since the server refuses 0."""
    return max(math.ceil(min(seconds * 1000, _MAX_LIFE_MS)), 1)
