"""Fixtures of the tests of the shared queue in Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fetching.redis_server import RedisServer
    from tests.redis.workers import Shared


@pytest.fixture
def server(redis_server: RedisServer) -> RedisServer:
    """An empty Redis server."""
    redis_server.client().flushall()
    return redis_server


@pytest.fixture
def shared(server: RedisServer) -> Iterator[Shared]:
    """A queue on a server whose clock only a test advances."""
    pytest.importorskip("scrapy_redis")
    from tests.redis.workers import Shared  # noqa: PLC0415  needs scrapy-redis

    with Shared(server.client()) as queue:
        yield queue
