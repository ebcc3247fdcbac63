"""Calls commands and scripts over one connection to the Redis server of a queue."""

from __future__ import annotations

from hashlib import sha1
from typing import TYPE_CHECKING, Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError
from redis.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.frontier.clock import Clock

# The seconds without a call after which the next call checks whether the server has closed
# the connection.
_SILENCE = 1.0

# Options that a pool of redis-py adds to its connections, which redirect them to another
# server during its maintenance, and make them wait longer meanwhile.
_OF_POOLS = (
    "maint_notifications_config",
    "maint_notifications_pool_handler",
    "oss_cluster_maint_notifications_handler",
)


class Script:
    """A Lua script, and the digest by which the server knows it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = sha1(text.encode(), usedforsecurity=False).hexdigest()


class Client:
    """Calls through a client of redis-py, which may be one for a Redis Cluster."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def ask(self, *command: str | bytes | float) -> Any:
        """Send *command*, and return the answer. Raises RedisError for an error of the server,
        and RedisError or OSError if there is no answer.
        """
        return self._client.execute_command(*command)

    def run(
        self, script: Script, keys: Sequence[str], args: Sequence[str | bytes | float]
    ) -> Any:
        """Run *script*, and return its result. Sends its text only if necessary."""
        try:
            return self.ask("EVALSHA", script.digest, len(keys), *keys, *args)
        except NoScriptError:
            return self.ask("EVAL", script.text, len(keys), *keys, *args)

    def close(self) -> None:
        """Does nothing: the connections belong to the client of redis-py."""


class Wire(Client):
    """Calls over a connection of its own, and sends each call only once.

    A client of redis-py takes a connection from a pool for each command, checks it, and
    prepares a retry, which takes as long as the command itself. After a failure, the next
    call opens the connection again. Answers are bytes, even if the client decodes its own.
    """

    def __init__(self, connection: Any, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._answered_at = float("inf")

    def ask(self, *command: str | bytes | float) -> Any:
        now = self._clock.monotonic()
        if now > self._answered_at + _SILENCE:
            self._drop_closed()
        self._answered_at = float("inf")  # Stays if there is no answer.
        self._connection.send_packed_command([pack(command)])
        found = self._connection.read_response(
            disable_decoding=True, disconnect_on_error=True
        )
        self._answered_at = now
        return found

    def close(self) -> None:
        self._connection.disconnect()

    def _drop_closed(self) -> None:
        """Disconnect if the server has closed the connection. A command that is sent over a
        closed connection fails, and can't be repeated safely.
        """
        try:
            # Without a command there is no answer to read, only the end.
            has_ended = self._connection.can_read(0)
        except (RedisError, OSError):
            has_ended = True
        if has_ended:
            self._connection.disconnect()


def calls_to(client: Any, timeout: float, clock: Clock) -> Client:
    """Return an object for calls to the server of *client*. If *client* is a plain Redis client,
    the calls wait at most *timeout* seconds.
    """
    pool = getattr(client, "connection_pool", None)
    if not isinstance(client, Redis) or pool is None:
        return Client(client)
    options = {
        **{k: v for k, v in pool.connection_kwargs.items() if k not in _OF_POOLS},
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_timeout": False,
    }
    return Wire(pool.connection_class(**options), clock)


def pack(command: Sequence[str | bytes | float]) -> bytes:
    """Serialise a command in the Redis protocol (RESP)."""
    parts = [b"*%d\r\n" % len(command)]
    for word in command:
        data = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)
