"""Tests of :class:`RedisStore`: expiry, faults of the server, addresses, and keys of other programs."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.crawl.fetching.memory import MAX_SIZE
from scrapy_rep.crawl.fetching.redisstore import RedisStore
from scrapy_rep.exceptions import StoreError
from tests.fetching.places import ORIGIN
from tests.fetching.redis_server import BINARY, RedisServer, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

pytestmark = pytest.mark.newest

DATA = b"data"
REDIS_KEY = f"rep:file:{ORIGIN}"


def put(store: RedisStore, data: bytes = DATA) -> None:
    store.put(ORIGIN, data, time.time() + 3600)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A server for one test, which may stop it or fill its memory."""
    if BINARY is None:
        pytest.skip("There is no redis-server on the PATH")
    with RedisServer() as server:
        yield server


@pytest.fixture
def client(server: RedisServer) -> Iterator[Redis]:
    with closing(server.client()) as client:
        yield client


@pytest.fixture
def store(server: RedisServer) -> Iterator[RedisStore]:
    """A store on the server. It contains DATA for ORIGIN."""
    with closing(RedisStore(server.url, timeout=1)) as store:
        put(store)
        yield store


def test_entries_expire_on_the_server(store: RedisStore, client: Redis) -> None:
    """The key of an entry has a time to live, so the server removes the entry by its own clock."""
    assert 3570 < client.pttl(REDIS_KEY) / 1000 <= 3600


# Faults of the server.


def test_the_store_works_again_when_its_server_is_back(
    server: RedisServer, store: RedisStore
) -> None:
    """While the server is down, each call raises StoreError. After the server has started again, the store works, but
    the server has lost the entries. A restart between two calls causes no error.
    """
    server.stop()
    for call in (
        lambda: store.get(ORIGIN),
        lambda: put(store),
    ):
        with pytest.raises(StoreError, match=r"^unix:///.*redis\.sock: "):
            call()
    server.start()
    assert store.get(ORIGIN) is None
    put(store)
    assert store.get(ORIGIN) == DATA
    server.stop()
    server.start()
    put(store)


def test_a_call_fails_after_the_time_out_if_the_server_does_not_answer(
    server: RedisServer, store: RedisStore
) -> None:
    with server.suspended():
        start = time.monotonic()
        with pytest.raises(StoreError, match="Timeout"):
            store.get(ORIGIN)
        assert time.monotonic() - start < 4, "the time-out is not the configured one"
    assert store.get(ORIGIN) == DATA


def test_a_full_server_can_still_be_read(client: Redis, store: RedisStore) -> None:
    """A write to a server without free memory raises StoreError."""
    client.config_set("maxmemory", 1)
    with pytest.raises(StoreError, match="maxmemory"):
        put(store, b"after")
    assert store.get(ORIGIN) == DATA


# Addresses, and keys of other programs.


def test_the_address_of_a_store_is_used_and_its_password_is_not_in_errors() -> None:
    """Host, port, database and password are taken from the address. Stores with different databases or key prefixes
    share no entries. The address in an error message has no password.
    """
    if BINARY is None:
        pytest.skip("There is no redis-server on the PATH")
    port = free_port()
    url = f"redis://:secret@127.0.0.1:{port}"
    with (
        closing(RedisStore(f"{url}/1?client_name=secret")) as first,
        closing(RedisStore(f"{url}/1?socket_timeout=20", "prefix")) as prefixed,
        closing(RedisStore(f"{url}/2")) as other_database,
    ):
        pattern = r"^redis://\*\*\*@127\.0\.0\.1:\d+/1: "
        with pytest.raises(StoreError, match=pattern) as raised:
            first.get(ORIGIN)
        assert "secret" not in str(raised.value)
        with RedisServer(port) as server, closing(server.client()) as client:
            client.config_set("requirepass", "secret")
            put(first)
            assert first.get(ORIGIN) == DATA
            assert prefixed.get(ORIGIN) is other_database.get(ORIGIN) is None


def test_values_of_other_programs_are_not_used_and_can_be_replaced(
    store: RedisStore, client: Redis
) -> None:
    """If a value in Redis is too long for an entry, the store reads only the maximum size of an entry plus one byte. If
    a value is not a string but, for example, a list, reading raises StoreError. The next write replaces the value.
    """
    client.set(REDIS_KEY, bytes(5 * MAX_SIZE))
    assert len(store.get(ORIGIN)) == MAX_SIZE + 1
    client.delete(REDIS_KEY)
    client.lpush(REDIS_KEY, "a list")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        store.get(ORIGIN)
    put(store)
    assert store.get(ORIGIN) == DATA
