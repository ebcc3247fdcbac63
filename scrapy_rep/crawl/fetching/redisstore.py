"""A store of robots.txt files on a Redis server. Processes on several machines can share the store."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from inspect import signature
from typing import TYPE_CHECKING, Any

from scrapy_rep.crawl.fetching.memory import MAX_SIZE
from scrapy_rep.crawl.fetching.store import Store
from scrapy_rep.exceptions import StoreError, StoreNotInstalled
from scrapy_rep.protocol.text import address_without_credentials

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from redis import Redis
    from redis.client import Pipeline


class RedisStore(Store):
    """Keeps fetched robots.txt files on the Redis server at *url*. The entry of an origin has the Redis key
    ``PREFIX:file:ORIGIN``, such as ``rep:file:https://example.com``. *prefix* is the first part of all keys.

    *url* is ``redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]``, ``rediss://...`` for TLS, or ``unix://PATH[?db=DB]``. The
    query of *url* may contain further options of the Redis client. A call waits at most *timeout* seconds for the
    connection, and then at most *timeout* seconds for the answer. The Redis server deletes an entry at the time *until*
    that was passed to :meth:`Store.put`.

    Raises StoreNotInstalled if the Redis client is not installed, and ValueError if *url* is invalid.
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
                "the package redis is not installed: install it with pip install 'scrapy-rep[redis]'",
            ) from error
        self._failures = (RedisError, OSError, ValueError)

    def get(self, key: str) -> bytes | None:
        return self.get_many([key])[key]

    def put(self, key: str, data: bytes, until: float) -> None:
        self.put_many({key: (data, until)})

    def get_many(self, keys: Collection[str]) -> dict[str, bytes | None]:
        commands = self._commands()
        for key in keys:
            # A valid entry is shorter than MAX_SIZE bytes. If another program has written a longer value, GETRANGE
            # returns only its first bytes. The cut value does no harm, since loads() rejects values of this length.
            commands.getrange(self._name(key), 0, MAX_SIZE)
        # GETRANGE returns empty data for a missing key.
        entries = (data or None for data in self._execute(commands))
        return dict(zip(keys, entries, strict=True))

    def put_many(self, entries: Mapping[str, tuple[bytes, float]]) -> None:
        commands = self._commands()
        for key, (data, until) in entries.items():
            # The expiry is sent as a duration instead of a time, so that the clocks of the Redis server and the crawler
            # need not agree. The duration is at least 1 ms, since Redis rejects a duration of 0.
            ttl_ms = max(math.ceil((until - time.time()) * 1000), 1)
            commands.set(self._name(key), data, px=ttl_ms)
        self._execute(commands)

    def close(self) -> None:
        with suppress(*self._failures):
            self._redis.close()

    def _name(self, key: str) -> str:
        return f"{self._prefix}:file:{key}"

    def _commands(self) -> Pipeline:
        """Return a Redis pipeline, which sends all of its commands in one round trip."""
        return self._redis.pipeline(transaction=False)

    def _execute(self, commands: Pipeline) -> list[Any]:
        try:
            return commands.execute()
        except self._failures as error:
            raise StoreError(self._where, error) from error


def without_handshake() -> dict[str, Any]:
    """Return keyword arguments for the Redis client that save round trips. With these arguments, the client does not
    send the commands HELLO and CLIENT SETINFO on each new connection.
    """
    from redis.connection import AbstractConnection  # noqa: PLC0415

    options = signature(AbstractConnection.__init__).parameters
    of_client = {"driver_info", "lib_name", "lib_version"} & options.keys()
    if "driver_info" in of_client:
        of_client = {"driver_info"}  # driver_info replaces lib_name and lib_version.
    return {"protocol": 2, **dict.fromkeys(of_client)}


def _client(url: str, timeout: float) -> Redis:
    # Imported here, because the package redis is an optional dependency.
    from redis import Redis  # noqa: PLC0415
    from redis.backoff import NoBackoff  # noqa: PLC0415
    from redis.exceptions import ConnectionError as Disconnected  # noqa: PLC0415
    from redis.retry import Retry  # noqa: PLC0415

    return Redis.from_url(
        url,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        # Retry once, without a delay, since a restart of the server closes idle connections. By default, the client
        # waits several seconds between attempts, which would delay the requests of the crawl.
        retry=Retry(NoBackoff(), 1, supported_errors=(Disconnected,)),
        **without_handshake(),
    )
