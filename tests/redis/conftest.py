"""Fixtures for the tests of the shared queue in Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fetching.redis_server import RedisServer
    from tests.redis.workers import SharedQueue


@pytest.fixture
def server(redis_server: RedisServer) -> RedisServer:
    """An empty Redis server."""
    redis_server.client().flushall()
    return redis_server


@pytest.fixture
def queue(server: RedisServer) -> Iterator[SharedQueue]:
    """A queue on an empty Redis server. Its clock advances only when a test advances it."""
    pytest.importorskip("scrapy_redis")
    from tests.redis.workers import SharedQueue  # noqa: PLC0415  needs scrapy-redis

    with SharedQueue(server.client()) as queue:
        yield queue
