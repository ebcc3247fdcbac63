"""Calls over one connection to a real Redis server: each is sent once, whatever fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from redis import Redis, RedisCluster
from redis.connection import Connection
from redis.exceptions import ConnectionError, ResponseError, TimeoutError  # noqa: A004

from scrapy_rep.frontier.redis.wire import Client, Script, Wire, calls_to, pack
from tests.frontier.fakes import FakeClock
from tests.stores.redis_server import BINARY, RedisServer, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.newest

ECHO = Script("return {KEYS[1], ARGV[1], ARGV[2], #ARGV}")
COUNT = Script("return redis.call('INCR', KEYS[1])")

needs_redis = pytest.mark.skipif(
    BINARY is None, reason="There is no redis-server on the PATH"
)

BYTES = bytes(range(256)) + b"\r\n$5\r\n"


class Line:
    """A wire to a server, and a way to break it."""

    def __init__(
        self, server: RedisServer, timeout: float = 30, db: int = 0, **options: Any
    ) -> None:
        self.server = server
        self.clock = FakeClock()
        self.client = Redis.from_url(url_of(server, db), **options)
        self.wire = calls_to(self.client, timeout, self.clock)
        assert type(self.wire) is Wire

    def cut(self) -> None:
        """Let the server close the connection."""
        admin = self.server.client()
        admin.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def url_of(server: RedisServer, db: int) -> str:
    assert server.url.endswith("?db=0")
    return f"{server.url[:-1]}{db}"


@pytest.fixture
def line(server: RedisServer) -> Iterator[Line]:
    found = Line(server)
    yield found
    found.wire.close()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"protocol": 2},
        {"protocol": 3},
        {"decode_responses": True},
        {"encoding": "latin-1"},
        {"health_check_interval": 1e-9},  # That is before each call.
        {"socket_read_size": 7},
    ],
)
def test_words_and_answers(server: RedisServer, options: dict[str, Any]) -> None:
    """Arguments go as bytes, or text as UTF-8, and answers are bytes, whatever the options
    of the scheduler's client.
    """
    wire = Line(server, **options).wire
    large = BYTES * 400
    assert wire.run(ECHO, ["ключ"], ["é", BYTES]) == ["ключ".encode(), "é".encode(), BYTES, 2]  # fmt: skip
    assert wire.run(ECHO, ["k"], ["", large]) == [b"k", b"", large, 2]
    assert wire.run(ECHO, ["k"], [-12, 0.25]) == [b"k", b"-12", b"0.25", 2]
    assert wire.ask("SET", "x", BYTES) == b"OK"
    assert wire.ask("GET", "x") == BYTES
    assert wire.ask("MGET", "nothing") == [None]
    wire.close()


@pytest.mark.parametrize(
    "command",
    [
        ("PING",),
        ("SET", "ключ", b"", 0, -1, 1.5, 1e22, 1_700_000_000_000),
        ("SET", BYTES, BYTES * 50),
    ],
)
def test_pack(command: tuple[Any, ...]) -> None:
    """Commands are encoded as redis-py encodes them."""
    assert pack(command) == b"".join(Connection().pack_command(*command))


def test_database_of_the_client(server: RedisServer) -> None:
    wire = Line(server, db=3).wire
    wire.ask("SET", "x", 1)
    assert Redis.from_url(url_of(server, 3)).get("x") == b"1"
    assert server.client().get("x") is None


def test_script_that_the_server_does_not_know(line: Line) -> None:
    """The server gets the text of a script at first and after it forgot it,
    and runs it once per call.
    """
    line.client.config_resetstat()
    for number in range(1, 5):
        if number == 3:
            line.client.script_flush()
        assert line.wire.run(COUNT, ["x"], []) == number
    stats = line.client.info("commandstats")
    assert stats["cmdstat_eval"]["calls"] == 2


def test_error_of_the_server(line: Line) -> None:
    """An error of the server is raised, and the next command gets its own answer."""
    line.wire.ask("SET", "x", "text")
    for _ in range(2):
        with pytest.raises(ResponseError, match="not an integer"):
            line.wire.run(COUNT, ["x"], [])
        with pytest.raises(ResponseError, match="wrong kind"):
            line.wire.ask("ZCARD", "x")
        assert line.wire.ask("GET", "x") == b"text"


def test_connection_that_is_closed(line: Line) -> None:
    """A call on a closed connection fails, and the next call opens a new connection."""
    assert line.wire.run(COUNT, ["x"], []) == 1
    line.cut()
    with pytest.raises(ConnectionError):
        line.wire.run(COUNT, ["x"], [])
    before = int(line.client.get("x"))
    assert line.wire.run(COUNT, ["x"], []) == before + 1


def test_connection_that_was_closed_while_nothing_was_asked(line: Line) -> None:
    """A connection that was closed while idle is noticed before the next
    command, so no call fails.
    """
    for _ in range(2):
        line.wire.run(COUNT, ["x"], [])
        line.cut()
        line.clock.advance(2)
    assert line.wire.run(COUNT, ["x"], []) == 3


def test_connection_that_is_open_after_a_pause(line: Line) -> None:
    """A connection that is still open after a pause is used again."""
    line.wire.ask("CLIENT", "SETNAME", "same")
    line.clock.advance(2)
    assert line.wire.ask("CLIENT", "GETNAME") == b"same"


@needs_redis
def test_server_that_is_gone() -> None:
    """Calls fail while the server is down, and work again when it is back."""
    with RedisServer(appendonly=True) as server:
        line = Line(server)
        line.wire.run(COUNT, ["x"], [])
        server.stop()
        for _ in range(3):
            line.clock.advance(2)
            with pytest.raises((ConnectionError, OSError)):
                line.wire.run(COUNT, ["x"], [])
        server.start()
        assert line.wire.run(COUNT, ["x"], []) == 2


def test_answer_that_comes_too_late(server: RedisServer) -> None:
    """A call that times out is not sent again, and the next call does
    not get its late answer.
    """
    line = Line(server, timeout=1)
    line.wire.run(COUNT, ["x"], [])
    with server.suspended(), pytest.raises(TimeoutError):
        line.wire.run(COUNT, ["x"], [])
    assert line.wire.run(ECHO, ["k"], ["a", "b"]) == [b"k", b"a", b"b", 2]
    assert int(line.client.get("x")) == 2


def test_options_that_wait_and_send_again(server: RedisServer) -> None:
    """Options of the client that set time-outs and retries have no effect on the wire."""
    line = Line(
        server,
        timeout=1,
        socket_timeout=100,
        retry_on_timeout=True,
        retry_on_error=[ConnectionError, TimeoutError],
    )
    line.wire.run(COUNT, ["x"], [])
    with server.suspended(), pytest.raises(TimeoutError):
        line.wire.run(COUNT, ["x"], [])
    assert line.wire.run(COUNT, ["x"], []) == 3


def test_client_of_another_kind(server: RedisServer) -> None:
    """A client of an unknown kind is used through its own execute_command."""

    class Other:
        execute_command = server.client().execute_command

    calls = calls_to(Other(), 1.0, FakeClock())
    assert type(calls) is Client
    assert [calls.run(COUNT, ["x"], []) for _ in range(3)] == [1, 2, 3]
    calls.close()


@needs_redis
def test_cluster() -> None:
    """With a Redis Cluster client, each script runs on the node that has its keys."""
    port = free_port()
    with RedisServer(port, cluster=True), RedisCluster("127.0.0.1", port) as client:
        calls = calls_to(client, 1.0, FakeClock())
        assert [calls.run(COUNT, [f"{{{n}}}"], []) for n in range(20)] == [1] * 20
        assert calls.run(ECHO, ["{a}:k"], ["é", BYTES])[2] == BYTES
        assert calls.ask("MGET", "{a}:none") == [None]
