"""The connection of a worker to the Redis server of its queue, which can fail."""

from __future__ import annotations

import logging
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError
from redis.retry import Retry

from scrapy_rep.frontier.frontier import Frontier
from scrapy_rep.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis.commands.core import Script
    from scrapy.crawler import Crawler

logger = get_logger(__name__)

# Seconds. Calls of a queue hold up the event loop, as all of scrapy-redis does.
_TIMEOUT = 3.0

# How long, in seconds, a server that does not answer is left alone.
_LEFT_ALONE = 2.0

# How much later than it was given up a call may run, in seconds. The clocks of two
# machines do not run alike.
_MARGIN = 1.0

_NEEDS = re.compile("-- Needs: (.*)")


class Link:
    """Runs scripts on the server, and says once when it fails and when it is back.

    There is one for each crawler. The client is a copy of that of scrapy-redis, which
    waits for longer than an event loop may stand still, and sends again what may have
    been done already.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._clock = Frontier.of(crawler).clock
        self._client: Any = None
        self._scripts: dict[str, Script] = {}
        self._offset: float | None = None
        self._failed_at: float | None = None
        self._has_warned = False
        self.has_lost_answer = False
        """Whether something may have been done of which no answer came."""

    def connect(self, server: Any) -> None:
        """Use the server that *server*, a client, is connected to."""
        if self._client is None:
            self._client = _impatient(server)

    @property
    def is_left_alone(self) -> bool:
        """Whether the server did not answer a short while ago."""
        if self._failed_at is None:
            return False
        return self._clock.monotonic() < self._failed_at + _LEFT_ALONE

    @property
    def is_failing(self) -> bool:
        """Whether the last call has failed."""
        return self._has_warned

    @property
    def deadline(self) -> int:
        """Until when, by the clock of the server in milliseconds, a call that is made now
        may run; 0 where that can't be told yet.
        """
        if self._offset is None:
            return 0
        seconds = self._clock.monotonic() + _TIMEOUT + _MARGIN
        return round(seconds * 1000 + self._offset)

    def note_time(self, now: int) -> None:
        """The server's clock, in milliseconds, has just shown *now*."""
        self._offset = now - self._clock.monotonic() * 1000

    def run(self, name: str, keys: Sequence[str], *args: str | bytes | float) -> Any:
        """What the script of that *name* returns; None where the server fails."""
        return self.call(self._script(name), keys, args)

    def call(self, function: Any, *args: Any) -> Any:
        """What *function*, a method of :attr:`client`, returns; None where it fails."""
        if self.is_left_alone:
            return None
        try:
            found = function(*args)
        except (RedisError, OSError) as error:
            self._failed(error)
            if _is_out_of_memory(error):
                return None
            self._failed_at = self._clock.monotonic()
            self.has_lost_answer = True
            return None
        self._failed_at = None
        return found

    @property
    def client(self) -> Any:
        return self._client

    def works(self) -> None:
        """All that was to be done has been done."""
        if self._has_warned:
            self._has_warned = False
            self._log(logging.INFO, "The queue in Redis works again")

    def _failed(self, error: Exception) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._log(
                logging.WARNING,
                "The queue in Redis fails (%(error)s): new requests wait in the memory of "
                "this worker, and the crawl goes on when the server is back",
                error=f"{type(error).__name__}: {error}",
            )

    def _log(self, level: int, message: str, **values: object) -> None:
        # An empty mapping is none, for a message without values.
        extra = {"spider": self._crawler.spider}
        logger.log(level, message, *([values] if values else []), extra=extra)

    def _script(self, name: str) -> Script:
        if name not in self._scripts:
            self._scripts[name] = self._client.register_script(source(name))
        return self._scripts[name]


@cache
def source(name: str) -> str:
    """The text of a script, after that of those that its first line names."""
    text = (files(__package__) / f"{name}.lua").read_text(encoding="utf-8")
    needs = _NEEDS.match(text)
    names = needs[1].split(", ") if needs else ()
    return "".join(map(source, names)) + text


def _is_out_of_memory(error: Exception) -> bool:
    """Whether the server lives, and has no room."""
    if isinstance(error, OutOfMemoryError):
        return True
    # Redis 6 has it in the middle of what it says of a script.
    return isinstance(error, ResponseError) and "-OOM " in str(error)


def _impatient(server: Any) -> Any:
    """A client of the same server that gives up soon, and tries nothing twice."""
    pool = getattr(server, "connection_pool", None)
    if not isinstance(server, Redis) or pool is None:
        return server  # A cluster, say, which has a client of its own for each server.
    options = {
        **pool.connection_kwargs,
        "socket_timeout": _TIMEOUT,
        "socket_connect_timeout": _TIMEOUT,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_timeout": False,
    }
    kind = type(pool)
    return Redis(
        connection_pool=kind(connection_class=pool.connection_class, **options)
    )
