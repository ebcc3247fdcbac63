"""What tests of the queue in Redis need: one server for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.stores.redis_server import BINARY, RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.frontier.redis.shared import Shared


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One for all tests of this process; under xdist, each worker has its own."""
    if BINARY is None:
        pytest.skip("There is no redis-server on the PATH")
    with RedisServer() as server:
        yield server


@pytest.fixture
def server(redis_server: RedisServer) -> RedisServer:
    """A server with nothing on it."""
    redis_server.client().flushall()
    return redis_server


@pytest.fixture
def shared(server: RedisServer) -> Iterator[Shared]:
    """A queue on a server whose clock stands still until a test says so."""
    from tests.frontier.redis.shared import Shared  # noqa: PLC0415  needs scrapy-redis

    with Shared(server) as found:
        yield found
