"""The Redis store: its clock, faults of the server, and keys of others."""

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


# How long entries and locks stay.


def test_an_entry_expires(store: RedisStore, client: Redis, prefix: str) -> None:
    """The server removes an entry when it is out of use."""
    put(store)
    left = client.pttl(f"{prefix}:file:{ORIGIN}") / 1000
    assert 3600 - MAX_WAITS < left <= 3600


def test_a_lock_expires(store: RedisStore, client: Redis, prefix: str) -> None:
    """The server removes a lock when its seconds are over, by the clock of the server. A lock for
    less than a millisecond lasts a millisecond.
    """
    with closing(client.pubsub()) as events:
        events.subscribe("__keyevent@0__:expired")
        assert events.get_message(timeout=MAX_WAITS)["type"] == "subscribe"
        assert lock(store, ORIGIN, "dead", 0.0001)
        name = f"{prefix}:lock:{ORIGIN}".encode()
        # Locks of other tests may expire too. Without any event this raises, on
        # None.
        while events.get_message(timeout=MAX_WAITS)["data"] != name:
            pass
    assert lock(store, ORIGIN, "next", 30)
    assert 0 < client.pttl(name) <= 30_000


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


def test_on_a_port() -> None:
    """Host, port, database and password come from the URL; databases are separate."""
    if BINARY is None:
        pytest.skip("There is no redis-server on the PATH")
    port = free_port()
    with RedisServer(port) as server, closing(server.client()) as client:
        client.config_set("requirepass", "secret")
        url = f"redis://:secret@127.0.0.1:{port}"
        with (
            closing(RedisStore(f"{url}/1")) as one,
            closing(RedisStore(f"{url}/2?socket_timeout=20")) as two,
        ):
            put(one)
            assert read(one, ORIGIN) == DATA
            assert read(two, ORIGIN) is None


def test_secrets_stay_secret() -> None:
    """Error messages have the address without the password."""
    url = f"redis://me:secret@127.0.0.1:{free_port()}/1?client_name=secret"
    sentence = r"^redis://\*\*\*@127\.0\.0\.1:\d+/1: "
    with (
        closing(RedisStore(url)) as store,
        pytest.raises(StoreError, match=sentence) as raised,
    ):
        read(store, ORIGIN)
    assert "secret" not in str(raised.value)


def test_prefixes_are_apart(redis_server: RedisServer, store: RedisStore) -> None:
    """Crawls with different prefixes on one server share nothing."""
    put(store)
    with closing(RedisStore(redis_server.url, uuid4().hex)) as other:
        assert read(other, ORIGIN) is None


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
