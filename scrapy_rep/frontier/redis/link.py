"""The connection of a worker to the Redis server of its queue."""

from __future__ import annotations

import logging
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from redis import ConnectionPool, Redis
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

# In seconds. Like all of scrapy-redis, calls of the queue block the event loop.
_TIMEOUT = 3.0

# The seconds for which the server is not called after it failed to answer.
_PAUSE = 2.0

# The seconds by which the deadline of a call is later than its timeout, since clocks of two
# machines can differ.
_MARGIN = 1.0

# Options that a pool of redis-py adds to its connections, which redirect them to another
# server during its maintenance, and make them wait longer meanwhile.
_OF_POOLS = (
    "maint_notifications_config",
    "maint_notifications_pool_handler",
    "oss_cluster_maint_notifications_handler",
)

_NEEDS = re.compile("-- Needs: (.*)")


class Link:
    """Runs scripts on the Redis server, and logs when it fails and when it works again.

    Each crawler has one, with a connection of its own: the client of scrapy-redis would
    block the event loop for too long, and repeat calls that the server may have run already.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._clock = Frontier.of(crawler).clock
        self._client: Any = None
        self._scripts: dict[str, Script] = {}
        self._offset: float | None = None
        self._failed_at: float | None = None
        self.is_failing = False
        """Whether a call has failed, and :meth:`note_recovery` was not called since."""

        self.is_full = False
        """Whether the last call failed because the server has no memory left."""

        self.has_lost_answer = False
        """Whether the server may have run a call whose answer did not arrive."""

    def connect(self, client: Any) -> None:
        """Use the server of *client*, with a connection of its own unless that is a cluster."""
        if self._client is not None:
            return
        self._client = client
        if isinstance(client, Redis):
            pool = client.connection_pool
            options = {
                **{
                    k: v
                    for k, v in pool.connection_kwargs.items()
                    if k not in _OF_POOLS
                },
                "socket_timeout": _TIMEOUT,
                "socket_connect_timeout": _TIMEOUT,
                "retry": Retry(NoBackoff(), 0),
                "retry_on_timeout": False,
                "decode_responses": False,
            }
            own = ConnectionPool(connection_class=pool.connection_class, **options)
            self._client = Redis(connection_pool=own)

    def close(self) -> None:
        """Close the connection; a later call opens it again."""
        if isinstance(self._client, Redis):
            self._client.connection_pool.disconnect()

    @property
    def is_paused(self) -> bool:
        """Whether the server is not called now, because it failed to answer just before."""
        if self._failed_at is None:
            return False
        return self._clock.monotonic() < self._failed_at + _PAUSE

    @property
    def deadline(self) -> int:
        """The moment until which the server may run a call that is made now, in milliseconds
        by the server's clock; 0 if that clock is not known yet.
        """
        if self._offset is None:
            return 0
        seconds = self._clock.monotonic() + _TIMEOUT + _MARGIN
        return round(seconds * 1000 + self._offset)

    def note_time(self, now: int) -> None:
        """Note that the server's clock shows *now*, in milliseconds."""
        self._offset = now - self._clock.monotonic() * 1000

    def run(self, name: str, keys: Sequence[str], *args: str | bytes | float) -> Any:
        """Run the script *name*, and return its result; None if the server fails."""
        self.is_full = False
        if self.is_paused:
            return None
        try:
            found = self._script(name)(keys, args)
        except (RedisError, OSError) as error:
            self._failed(error)
            if _is_out_of_memory(error):
                self.is_full = True
                return None
            self._failed_at = self._clock.monotonic()
            self.has_lost_answer = True
            return None
        self._failed_at = None
        return found

    def note_recovery(self) -> None:
        """Note that the server works, and has taken all requests that waited for it."""
        if self.is_failing:
            self.is_failing = False
            self.log(logging.INFO, "The queue in Redis works again")

    def _failed(self, error: Exception) -> None:
        if not self.is_failing:
            self.is_failing = True
            self.log(
                logging.WARNING,
                "The queue in Redis fails (%(error)s): this worker keeps new requests in "
                "memory, and takes requests again when the server works again",
                error=f"{type(error).__name__}: {error}",
            )

    def log(self, level: int, message: str, **values: object) -> None:
        # An empty mapping must not be passed as the argument of a message without values.
        extra = {"spider": self._crawler.spider}
        logger.log(level, message, *([values] if values else []), extra=extra)

    def _script(self, name: str) -> Script:
        if name not in self._scripts:
            self._scripts[name] = self._client.register_script(source(name))
        return self._scripts[name]


@cache
def source(name: str) -> str:
    """The text of the script *name*, preceded by the scripts that its first line names."""
    text = (files(__package__) / f"{name}.lua").read_text(encoding="utf-8")
    needs = _NEEDS.match(text)
    names = needs[1].split(", ") if needs else ()
    return "".join(map(source, names)) + text


def _is_out_of_memory(error: Exception) -> bool:
    """Whether the server answered, but has no memory left."""
    if isinstance(error, OutOfMemoryError):
        return True
    # Redis 6 has the code in the middle of the error of a script.
    return isinstance(error, ResponseError) and "-OOM " in str(error)
