"""A store on a Redis server, which processes on several machines can share."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

from scrapy_rep.crawl.fetching.entries import MAX_SIZE
from scrapy_rep.crawl.fetching.store import Store
from scrapy_rep.exceptions import StoreError, StoreNotInstalled
from scrapy_rep.protocol.display import address_without_credentials

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis import Redis


class RedisStore(Store):
    """Keeps entries under ``PREFIX:file:KEY``.

    *url* is ``redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]``, ``rediss://...`` for TLS, or
    ``unix://PATH[?db=DB]``. The query may have other options of the client. A call waits at
    most *timeout* seconds for the connection, and at most *timeout* seconds for the answer.
    Entries expire by the server's clock. Raises StoreNotInstalled if the client
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

    def get(self, key: str) -> bytes | None:
        # No more than an entry may have; an empty one is none.
        data: bytes = self._run(self._redis.getrange, key, 0, MAX_SIZE)
        return data or None

    def put(self, key: str, data: bytes, until: float) -> None:
        # By the difference, so that the clocks of server and crawler need not agree.
        life = max(math.ceil((until - time.time()) * 1000), 1)  # The server refuses 0.
        self._run(partial(self._redis.set, px=life), key, data)

    def close(self) -> None:
        with suppress(*self._failures):
            self._redis.close()

    def _run(self, command: Callable[..., Any], key: str, *arguments: object) -> Any:
        try:
            return command(f"{self._prefix}:file:{key}", *arguments)
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
