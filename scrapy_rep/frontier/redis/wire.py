"""One connection to the Redis server of a queue, and scripts that are called over it."""

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

# After so many seconds without a call, it is looked whether the server has closed the
# connection meanwhile.
_SILENCE = 1.0

# What a pool of redis-py adds, so that its connections are led to another server and wait
# for longer while that goes on.
_OF_POOLS = (
    "maint_notifications_config",
    "maint_notifications_pool_handler",
    "oss_cluster_maint_notifications_handler",
)


class Script:
    """A Lua script, and what the server knows it by."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = sha1(text.encode(), usedforsecurity=False).hexdigest()


class Client:
    """Calls through a client, which finds the server of a key in a Redis Cluster."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def ask(self, *command: str | bytes | float) -> Any:
        """What the server answers to *command*. Raises its errors, and those of redis-py
        and of the operating system where no answer comes.
        """
        return self._client.execute_command(*command)

    def run(
        self, script: Script, keys: Sequence[str], args: Sequence[str | bytes | float]
    ) -> Any:
        """What *script* returns. The server gets its text where it does not know it."""
        try:
            return self.ask("EVALSHA", script.digest, len(keys), *keys, *args)
        except NoScriptError:
            return self.ask("EVAL", script.text, len(keys), *keys, *args)

    def close(self) -> None:
        """End what is open; a later call opens it again."""


class Wire(Client):
    """Calls over a connection of its own, each of which is sent once.

    A client of redis-py takes a connection out of a pool for each command, looks whether it
    is open, and is prepared to send again. That takes as long as the server does for what
    a queue asks of it. Here a connection that has failed is opened by the next call.

    Answers are bytes, also where those of the client are text.
    """

    def __init__(self, connection: Any, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._answered_at = float("inf")

    def ask(self, *command: str | bytes | float) -> Any:
        now = self._clock.monotonic()
        if now > self._answered_at + _SILENCE:
            self._drop_closed()
        self._answered_at = float("inf")  # Until it has.
        self._connection.send_packed_command([pack(command)])
        found = self._connection.read_response(
            disable_decoding=True, disconnect_on_error=True
        )
        self._answered_at = now
        return found

    def close(self) -> None:
        self._connection.disconnect()

    def _drop_closed(self) -> None:
        """Give up a connection that the server has closed: by a command that is sent over
        it, this would be known too late to send that again.
        """
        try:
            has_ended = self._connection.can_read(0)  # Nothing was asked.
        except (RedisError, OSError):
            has_ended = True
        if has_ended:
            self._connection.disconnect()


def calls_to(server: Any, timeout: float, clock: Clock) -> Client:
    """A way to call the server that *server*, a client, is connected to, which waits for at
    most *timeout* seconds where that is possible.
    """
    pool = getattr(server, "connection_pool", None)
    if not isinstance(server, Redis) or pool is None:
        return Client(server)
    options = {
        **{k: v for k, v in pool.connection_kwargs.items() if k not in _OF_POOLS},
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_timeout": False,
    }
    return Wire(pool.connection_class(**options), clock)


def pack(command: Sequence[str | bytes | float]) -> bytes:
    """A command as Redis reads it (RESP): the number of its words, and the length of each."""
    parts = [b"*%d\r\n" % len(command)]
    for word in command:
        data = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)
