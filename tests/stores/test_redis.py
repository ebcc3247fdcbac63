"""The Redis store: its clock, and failures of the server."""

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


def until() -> float:
    return time.time() + 3600


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


class TestLife:
    def test_of_an_entry(self, store: RedisStore, client: Redis, prefix: str) -> None:
        """The server removes an entry when it is out of use."""
        store.put(ORIGIN, DATA, time.time() + 3600, "writer")
        left = client.pttl(f"{prefix}:file:{ORIGIN}") / 1000
        assert 3600 - MAX_WAITS < left <= 3600

    def test_of_a_lock(self, store: RedisStore, client: Redis, prefix: str) -> None:
        """The server removes a lock when its seconds are over, by the clock of the server."""
        with closing(client.pubsub()) as events:
            events.subscribe("__keyevent@0__:expired")
            assert events.get_message(timeout=MAX_WAITS)["type"] == "subscribe"
            assert lock(store, ORIGIN, "dead", 0.05)
            name = f"{prefix}:lock:{ORIGIN}".encode()
            # Locks of other tests may expire too. Without any event this raises, on
            # None.
            while events.get_message(timeout=MAX_WAITS)["data"] != name:
                pass
        assert lock(store, ORIGIN, "next", 30)
        assert 0 < client.pttl(name) <= 30_000

    def test_no_time_at_all(self, store: RedisStore) -> None:
        """A lock for less than a millisecond lasts a millisecond."""
        assert lock(store, ORIGIN, "one", 0.0001)
        assert lock(store, ORIGIN, "one", 0)


class TestServer:
    def test_stopped_and_started(self, own_server: RedisServer) -> None:
        """Without a server, each call raises StoreError. When the server is back, the
        store works again, though the entries are gone.
        """
        with closing(RedisStore(own_server.url)) as store:
            store.put(ORIGIN, DATA, until(), "writer")
            assert lock(store, ORIGIN, "one", 30)
            own_server.stop()
            for call in (
                lambda: read(store, ORIGIN),
                lambda: store.put(ORIGIN, DATA, until(), "writer"),
                lambda: lock(store, ORIGIN, "one", 30),
                lambda: store.unlock(ORIGIN, "one"),
            ):
                with pytest.raises(StoreError, match=r"^unix:///.*redis\.sock: "):
                    call()
            own_server.start()
            assert read(store, ORIGIN) is None
            assert lock(store, ORIGIN, "other", 30)
            store.unlock(ORIGIN, "other")
            store.put(ORIGIN, DATA, until(), "writer")
            assert read(store, ORIGIN) == DATA

    def test_restarted_between_calls(self, own_server: RedisServer) -> None:
        """A restart between calls has no effect on the store."""
        with closing(RedisStore(own_server.url)) as store:
            store.put(ORIGIN, DATA, until(), "writer")
            assert lock(store, ORIGIN, "one", 30)
            own_server.stop()
            own_server.start()
            assert lock(store, ORIGIN, "one", 30)

    def test_it_says_nothing(self, own_server: RedisServer) -> None:
        """If the server does not answer, a call fails after the configured time-out."""
        with closing(RedisStore(own_server.url, timeout=1)) as store:
            store.put(ORIGIN, DATA, until(), "writer")
            with own_server.suspended():
                start = time.monotonic()
                with pytest.raises(StoreError, match="Timeout"):
                    read(store, ORIGIN)
                assert time.monotonic() - start < 10
            assert read(store, ORIGIN) == DATA

    def test_no_memory(self, own_server: RedisServer) -> None:
        """A server without free memory causes a StoreError, but what it has can be read."""
        with (
            closing(own_server.client()) as client,
            closing(RedisStore(own_server.url)) as store,
        ):
            store.put(ORIGIN, DATA, until(), "writer")
            client.config_set("maxmemory", 1)
            for call in (
                lambda: store.put(ORIGIN, b"after", until(), "writer"),
                lambda: lock(store, ORIGIN, "one", 30),
            ):
                with pytest.raises(StoreError, match="maxmemory"):
                    call()
            assert read(store, ORIGIN) == DATA

    def test_on_a_port(self) -> None:
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
                one.put(ORIGIN, DATA, until(), "writer")
                assert read(one, ORIGIN) == DATA
                assert read(two, ORIGIN) is None

    def test_secrets_stay_secret(self) -> None:
        """Error messages have the address without the password."""
        url = f"redis://me:secret@127.0.0.1:{free_port()}/1?client_name=secret"
        with (
            closing(RedisStore(url)) as store,
            pytest.raises(
                StoreError, match=r"^redis://\*\*\*@127\.0\.0\.1:\d+/1: "
            ) as raised,
        ):
            read(store, ORIGIN)
        assert "secret" not in str(raised.value)


class TestKeys:
    def test_prefixes_are_apart(
        self, redis_server: RedisServer, store: RedisStore
    ) -> None:
        """Crawls with different prefixes on one server share nothing."""
        store.put(ORIGIN, DATA, until(), "writer")
        with closing(RedisStore(redis_server.url, uuid4().hex)) as other:
            assert read(other, ORIGIN) is None

    def test_large_values_of_others(
        self, store: RedisStore, client: Redis, prefix: str
    ) -> None:
        """No more of a value is read than an entry may have."""
        client.set(f"{prefix}:file:{ORIGIN}", bytes(5 * MAX_SIZE))
        assert len(read(store, ORIGIN)) == MAX_SIZE + 1

    def test_kinds_of_others(
        self, store: RedisStore, client: Redis, prefix: str
    ) -> None:
        """A key of another Redis type causes a StoreError until it is replaced."""
        client.lpush(f"{prefix}:file:{ORIGIN}", "a list")
        with pytest.raises(StoreError, match="WRONGTYPE"):
            read(store, ORIGIN)
        store.put(ORIGIN, DATA, until(), "writer")
        assert read(store, ORIGIN) == DATA
