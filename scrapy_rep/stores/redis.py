"""A store on a Redis server, which processes on several machines can share."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from inspect import signature
from typing import TYPE_CHECKING, Any

from scrapy_rep.exceptions import StoreError, StoreNotInstalled
from scrapy_rep.protocol.display import address_without_credentials
from scrapy_rep.stores import Store
from scrapy_rep.stores.entries import MAX_SIZE

if TYPE_CHECKING:
    from redis import Redis

# The keys of a script are those of an entry and of its lock, and its first argument is the owner.
# It reads no more than an entry may have; an empty one is none.
_LOOK_UP = f"""
local data = redis.call('GETRANGE', KEYS[1], 0, {MAX_SIZE})
if data ~= '' and ARGV[3] == 'no' then return {{ data, 0 }} end
local owner = redis.call('GET', KEYS[2])
if owner and owner ~= ARGV[1] then return {{ data, 0 }} end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
return {{ data, 1 }}
"""
_UNLOCK = """
if redis.call('GET', KEYS[2]) == ARGV[1] then redis.call('DEL', KEYS[2]) end
"""
_PUT = "redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])" + _UNLOCK


class RedisStore(Store):
    """Keeps entries under ``PREFIX:file:KEY``, and locks under ``PREFIX:lock:KEY``.

    *url* is ``redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]``, ``rediss://...`` for TLS, or
    ``unix://PATH[?db=DB]``. The query may have other options of the client. A call waits at
    most *timeout* seconds for the connection, and at most *timeout* seconds for the answer.
    Entries and locks expire by the server's clock. Raises StoreNotInstalled if the client
    is not installed, and ValueError for an invalid URL.
    """

    def __init__(self, url: str, prefix: str = "rep", timeout: float = 2.0) -> None:
        self._where = address_without_credentials(url).partition("?")[0]
        self._prefix = prefix
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

    def look_up(
        self, key: str, owner: str, seconds: float, *, is_stale: bool = False
    ) -> tuple[bytes | None, bool]:
        life, word = _milliseconds(seconds), "yes" if is_stale else "no"
        data, has_lock = self._run(_LOOK_UP, key, owner, life, word)
        return data or None, has_lock == 1

    def put(self, key: str, data: bytes, until: float, owner: str) -> None:
        # By the difference, so that the clocks of server and crawler need not agree.
        self._run(_PUT, key, owner, data, _milliseconds(until - time.time()))

    def unlock(self, key: str, owner: str) -> None:
        self._run(_UNLOCK, key, owner)

    def close(self) -> None:
        with suppress(*self._failures):
            self._redis.close()

    def _run(self, script: str, key: str, *arguments: str | bytes | int) -> Any:
        """Run *script*, in one round trip."""
        keys = [f"{self._prefix}:{kind}:{key}" for kind in ("file", "lock")]
        try:
            # With its text, since it is short: by its digest, the first call takes three.
            return self._redis.eval(script, 2, *keys, *arguments)
        except self._failures as error:
            raise StoreError(self._where, error) from error


def without_handshake() -> dict[str, Any]:
    """Return options of the client for connections that send nothing when they are made: each
    command would take a round trip.
    """
    from redis.connection import AbstractConnection  # noqa: PLC0415

    options = signature(AbstractConnection.__init__).parameters
    of_client = {"driver_info", "lib_name", "lib_version"} & options.keys()
    if "driver_info" in of_client:
        of_client = {"driver_info"}  # The others are deprecated.
    return {"protocol": 2, **dict.fromkeys(of_client)}


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
        **without_handshake(),
    )


def _milliseconds(seconds: float) -> int:
    """*seconds* in milliseconds, at least 1, since the server refuses 0."""
    return max(math.ceil(seconds * 1000), 1)
