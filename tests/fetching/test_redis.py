"""The Redis store: its clock, faults of the server, addresses, and keys of others."""

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
FILE = f"rep:file:{ORIGIN}"


def put(store: RedisStore, data: bytes = DATA) -> None:
    store.put(ORIGIN, data, time.time() + 3600)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A server that a test may stop or fill."""
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
    """A store on that server, with an entry."""
    with closing(RedisStore(server.url, timeout=1)) as store:
        put(store)
        yield store


def test_the_server_removes_entries_by_its_own_clock(
    store: RedisStore, client: Redis
) -> None:
    """The server removes an entry when it is out of use, by the clock of the server."""
    assert 3570 < client.pttl(FILE) / 1000 <= 3600


# Faults of the server.


def test_the_store_works_again_when_its_server_is_back(
    server: RedisServer, store: RedisStore
) -> None:
    """Without a server, each call raises StoreError. When the server is back, the store works
    again, though the entries are gone. A restart between two calls has no effect.
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


def test_a_call_without_an_answer_fails_after_the_time_out(
    server: RedisServer, store: RedisStore
) -> None:
    """If the server does not answer, a call fails after the configured time-out."""
    with server.suspended():
        start = time.monotonic()
        with pytest.raises(StoreError, match="Timeout"):
            store.get(ORIGIN)
        assert time.monotonic() - start < 4, "it is not the client's default"
    assert store.get(ORIGIN) == DATA


def test_a_full_server_can_still_be_read(client: Redis, store: RedisStore) -> None:
    """A server without free memory causes a StoreError, but what it has can be read."""
    client.config_set("maxmemory", 1)
    with pytest.raises(StoreError, match="maxmemory"):
        put(store, b"after")
    assert store.get(ORIGIN) == DATA


# Its address, and keys of others.


def test_errors_have_the_address_without_its_password() -> None:
    """Host, port, database and password come from the address. Crawls with different databases or
    prefixes share nothing. Error messages have the address without the password.
    """
    if BINARY is None:
        pytest.skip("There is no redis-server on the PATH")
    port = free_port()
    url = f"redis://:secret@127.0.0.1:{port}"
    with (
        closing(RedisStore(f"{url}/1?client_name=secret")) as named,
        closing(RedisStore(f"{url}/1?socket_timeout=20", "prefix")) as prefixed,
        closing(RedisStore(f"{url}/2")) as two,
    ):
        sentence = r"^redis://\*\*\*@127\.0\.0\.1:\d+/1: "
        with pytest.raises(StoreError, match=sentence) as raised:
            named.get(ORIGIN)
        assert "secret" not in str(raised.value)
        with RedisServer(port) as server, closing(server.client()) as client:
            client.config_set("requirepass", "secret")
            put(named)
            assert named.get(ORIGIN) == DATA
            assert prefixed.get(ORIGIN) is two.get(ORIGIN) is None


def test_values_of_other_programs_are_refused_until_they_are_replaced(
    store: RedisStore, client: Redis
) -> None:
    """No more of a value is read than an entry may have. A key of another Redis type causes a
    StoreError until it is replaced.
    """
    client.set(FILE, bytes(5 * MAX_SIZE))
    assert len(store.get(ORIGIN)) == MAX_SIZE + 1
    client.delete(FILE)
    client.lpush(FILE, "a list")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        store.get(ORIGIN)
    put(store)
    assert store.get(ORIGIN) == DATA
