"""The Redis store: its clock, and failures of the server."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from scrapy_rep.exceptions import StoreError
from scrapy_rep.stores.base import KEEP
from scrapy_rep.stores.redis import RedisStore
from tests.stores.places import DAY, ORIGIN, START, entry
from tests.stores.redis_server import BINARY, RedisServer, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

MAX_WAITS = 30


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
        store.put(ORIGIN, entry(), START + 3600)
        left = client.pttl(f"{prefix}:entry:{ORIGIN}") / 1000
        assert DAY + KEEP - 3600 - MAX_WAITS < left <= DAY + KEEP - 3600

    def test_of_a_lock(self, store: RedisStore, client: Redis, prefix: str) -> None:
        """The server removes a lock when its seconds are over, by the clock of the server."""
        with closing(client.pubsub()) as events:
            events.subscribe("__keyevent@0__:expired")
            assert events.get_message(timeout=MAX_WAITS)["type"] == "subscribe"
            assert store.lock(ORIGIN, "dead", 0.05, START)
            name = f"{prefix}:lock:{ORIGIN}".encode()
            # Locks of other tests may expire too. Without any event this raises, on
            # None.
            while events.get_message(timeout=MAX_WAITS)["data"] != name:
                pass
        assert store.lock(ORIGIN, "next", 30, START)
        assert 0 < client.pttl(name) <= 30_000

    def test_no_time_at_all(self, store: RedisStore) -> None:
        """A lock for less than a millisecond lasts a millisecond."""
        assert store.lock(ORIGIN, "one", 0.0001, START)
        assert store.lock(ORIGIN, "one", 0, START)


class TestServer:
    def test_stopped_and_started(self, own_server: RedisServer) -> None:
        """Without a server, each call raises StoreError. When the server is back, the
        store works again, though the entries are gone.
        """
        with closing(RedisStore(own_server.url)) as store:
            store.put(ORIGIN, entry(), START)
            assert store.lock(ORIGIN, "one", 30, START)
            own_server.stop()
            for call in (
                lambda: store.get(ORIGIN, START),
                lambda: store.put(ORIGIN, entry(), START),
                lambda: store.lock(ORIGIN, "one", 30, START),
                lambda: store.unlock(ORIGIN, "one"),
            ):
                with pytest.raises(StoreError, match=r"^unix:///.*redis\.sock: "):
                    call()
            own_server.start()
            assert store.get(ORIGIN, START) is None
            assert store.lock(ORIGIN, "other", 30, START)
            store.unlock(ORIGIN, "other")
            store.put(ORIGIN, entry(), START)
            assert store.get(ORIGIN, START) == entry()

    def test_restarted_between_calls(self, own_server: RedisServer) -> None:
        """A restart between calls has no effect on the store."""
        with closing(RedisStore(own_server.url)) as store:
            store.put(ORIGIN, entry(), START)
            assert store.lock(ORIGIN, "one", 30, START)
            own_server.stop()
            own_server.start()
            assert store.lock(ORIGIN, "one", 30, START)

    def test_it_says_nothing(self, own_server: RedisServer) -> None:
        """If the server does not answer, a call fails after the configured time-out."""
        with closing(RedisStore(own_server.url, timeout=1)) as store:
            store.put(ORIGIN, entry(), START)
            with own_server.suspended():
                start = time.monotonic()
                with pytest.raises(StoreError, match="Timeout"):
                    store.get(ORIGIN, START)
                assert time.monotonic() - start < 10
            assert store.get(ORIGIN, START) == entry()

    def test_no_memory(self, own_server: RedisServer) -> None:
        """A server without free memory causes a StoreError."""
        with (
            closing(own_server.client()) as client,
            closing(RedisStore(own_server.url)) as store,
        ):
            client.config_set("maxmemory", 1)
            with pytest.raises(StoreError, match="maxmemory"):
                store.put(ORIGIN, entry(), START)
            assert store.get(ORIGIN, START) is None

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
                one.put(ORIGIN, entry(), START)
                assert one.get(ORIGIN, START) == entry()
                assert two.get(ORIGIN, START) is None

    def test_secrets_stay_secret(self) -> None:
        """Error messages have the address without the password."""
        url = f"redis://me:secret@127.0.0.1:{free_port()}/1?client_name=secret"
        with (
            closing(RedisStore(url)) as store,
            pytest.raises(
                StoreError, match=r"^redis://\*\*\*@127\.0\.0\.1:\d+/1: "
            ) as raised,
        ):
            store.get(ORIGIN, START)
        assert "secret" not in str(raised.value)


class TestKeys:
    def test_prefixes_are_apart(
        self, redis_server: RedisServer, store: RedisStore
    ) -> None:
        """Crawls with different prefixes on one server share nothing."""
        store.put(ORIGIN, entry(), START)
        with closing(RedisStore(redis_server.url, uuid4().hex)) as other:
            assert other.get(ORIGIN, START) is None

    @pytest.mark.parametrize("value", [b"", b"rep\x01", b"7", b"{}"])
    def test_values_of_others(
        self, store: RedisStore, client: Redis, prefix: str, value: bytes
    ) -> None:
        """A value that is no entry is ignored."""
        client.set(f"{prefix}:entry:{ORIGIN}", value)
        assert store.get(ORIGIN, START) is None

    def test_kinds_of_others(
        self, store: RedisStore, client: Redis, prefix: str
    ) -> None:
        """A key of another Redis type causes a StoreError until it is replaced."""
        client.lpush(f"{prefix}:entry:{ORIGIN}", "a list")
        with pytest.raises(StoreError, match="WRONGTYPE"):
            store.get(ORIGIN, START)
        store.put(ORIGIN, entry(), START)
        assert store.get(ORIGIN, START) == entry()
