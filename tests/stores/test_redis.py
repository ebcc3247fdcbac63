"""The Redis store: its clock, faults of the server, addresses, and keys of others."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from scrapy_rep.exceptions import StoreError
from scrapy_rep.stores.entries import MAX_SIZE
from scrapy_rep.stores.redis import RedisStore
from scrapy_rep.stores.testing import lock, read
from tests.stores.places import ORIGIN
from tests.stores.redis_server import BINARY, RedisServer, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

MAX_WAITS = 30
DATA = b"data"


def put(store: RedisStore, data: bytes = DATA) -> None:
    store.put(ORIGIN, data, time.time() + 3600, "writer")


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Redis]:
    with closing(redis_server.client()) as client:
        yield client


@pytest.fixture
def prefix() -> str:
    """A key prefix for each test."""
    return uuid4().hex


@pytest.fixture
def store(redis_server: RedisServer, prefix: str) -> Iterator[RedisStore]:
    with closing(RedisStore(redis_server.url, prefix)) as store:
        yield store


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A server that a test may stop or fill."""
    if BINARY is None:
        pytest.skip("There is no redis-server on the PATH")
    with RedisServer() as server:
        yield server


@pytest.fixture
def its_store(own_server: RedisServer) -> Iterator[RedisStore]:
    """A store on that server, with an entry."""
    with closing(RedisStore(own_server.url, timeout=1)) as store:
        put(store)
        yield store


def test_how_long_entries_and_locks_stay(
    store: RedisStore, client: Redis, prefix: str
) -> None:
    """The server removes an entry when it is out of use, and a lock when its seconds are over, by
    the clock of the server. A lock for less than a millisecond lasts a millisecond.
    """
    put(store)
    left = client.pttl(f"{prefix}:file:{ORIGIN}") / 1000
    assert 3600 - MAX_WAITS < left <= 3600
    assert lock(store, ORIGIN, "one", 30)
    assert 0 < client.pttl(f"{prefix}:lock:{ORIGIN}") <= 30_000
    assert lock(store, ORIGIN, "one", 0.0001)
    assert client.pttl(f"{prefix}:lock:{ORIGIN}") <= 1


# Faults of the server.


def test_stopped_and_started(own_server: RedisServer, its_store: RedisStore) -> None:
    """Without a server, each call raises StoreError. When the server is back, the store works
    again, though the entries are gone. A restart between two calls has no effect.
    """
    own_server.stop()
    for call in (
        lambda: read(its_store, ORIGIN),
        lambda: put(its_store),
        lambda: lock(its_store, ORIGIN, "one", 30),
        lambda: its_store.unlock(ORIGIN, "one"),
    ):
        with pytest.raises(StoreError, match=r"^unix:///.*redis\.sock: "):
            call()
    own_server.start()
    assert read(its_store, ORIGIN) is None
    put(its_store)
    assert read(its_store, ORIGIN) == DATA
    own_server.stop()
    own_server.start()
    assert lock(its_store, ORIGIN, "one", 30)


def test_no_answer(own_server: RedisServer, its_store: RedisStore) -> None:
    """If the server does not answer, a call fails after the configured time-out."""
    with own_server.suspended():
        start = time.monotonic()
        with pytest.raises(StoreError, match="Timeout"):
            read(its_store, ORIGIN)
        assert time.monotonic() - start < 10
    assert read(its_store, ORIGIN) == DATA


def test_no_memory(own_server: RedisServer, its_store: RedisStore) -> None:
    """A server without free memory causes a StoreError, but what it has can be read."""
    with closing(own_server.client()) as client:
        client.config_set("maxmemory", 1)
    with pytest.raises(StoreError, match="maxmemory"):
        put(its_store, b"after")
    with pytest.raises(StoreError, match="maxmemory"):
        lock(its_store, ORIGIN, "one", 30)
    assert read(its_store, ORIGIN) == DATA


# Its address, and keys of others.


def test_an_address_with_a_password() -> None:
    """Host, port, database and password come from the address. Crawls with different databases or
    prefixes share nothing. Error messages have the address without the password.
    """
    if BINARY is None:
        pytest.skip("There is no redis-server on the PATH")
    port = free_port()
    url = f"redis://:secret@127.0.0.1:{port}"
    with (
        closing(RedisStore(f"{url}/1?client_name=secret")) as one,
        closing(RedisStore(f"{url}/1?socket_timeout=20", "prefix")) as prefixed,
        closing(RedisStore(f"{url}/2")) as two,
    ):
        sentence = r"^redis://\*\*\*@127\.0\.0\.1:\d+/1: "
        with pytest.raises(StoreError, match=sentence) as raised:
            read(one, ORIGIN)
        assert "secret" not in str(raised.value)
        with RedisServer(port) as server, closing(server.client()) as client:
            client.config_set("requirepass", "secret")
            put(one)
            assert read(one, ORIGIN) == DATA
            assert read(prefixed, ORIGIN) is read(two, ORIGIN) is None


def test_values_of_others(store: RedisStore, client: Redis, prefix: str) -> None:
    """No more of a value is read than an entry may have. A key of another Redis type causes a
    StoreError until it is replaced.
    """
    name = f"{prefix}:file:{ORIGIN}"
    client.set(name, bytes(5 * MAX_SIZE))
    assert len(read(store, ORIGIN)) == MAX_SIZE + 1
    client.delete(name)
    client.lpush(name, "a list")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        read(store, ORIGIN)
    put(store)
    assert read(store, ORIGIN) == DATA
