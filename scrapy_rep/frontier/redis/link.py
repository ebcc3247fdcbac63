"""The connection of a worker to the Redis server of its queue, which can fail."""

from __future__ import annotations

import logging
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from redis.exceptions import OutOfMemoryError, RedisError, ResponseError

from scrapy_rep.frontier.frontier import Frontier
from scrapy_rep.frontier.redis.wire import Script, calls_to
from scrapy_rep.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy.crawler import Crawler

    from scrapy_rep.frontier.redis.wire import Client

logger = get_logger(__name__)

# Seconds. Calls of a queue hold up the event loop, as all of scrapy-redis does.
_TIMEOUT = 3.0

# The seconds for which a server that did not answer is not called.
_LEFT_ALONE = 2.0

# The seconds after its timeout within which a call may still run: the clocks of two
# machines do not run alike.
_MARGIN = 1.0

_NEEDS = re.compile("-- Needs: (.*)")


class Link:
    """Runs scripts on the server, and says once when it fails and when it is back.

    There is one for each crawler. It has a connection of its own: the client of
    scrapy-redis waits for longer than an event loop may stand still, and sends again what
    may have been done already.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._clock = Frontier.of(crawler).clock
        self._calls: Client | None = None
        self._scripts: dict[str, Script] = {}
        self._offset: float | None = None
        self._failed_at: float | None = None
        self.is_failing = False
        """Whether calls have failed, and not all that was to be done has been done since."""

        self.has_lost_answer = False
        """Whether the server may have done something whose answer did not arrive."""

    def connect(self, server: Any) -> None:
        """Use the server that *server*, a client, is connected to."""
        if self._calls is None:
            self._calls = calls_to(server, _TIMEOUT, self._clock)

    def close(self) -> None:
        """Close the connection; a later call opens it again."""
        if self._calls is not None:
            self._calls.close()

    @property
    def is_left_alone(self) -> bool:
        """Whether the server did not answer a short while ago."""
        if self._failed_at is None:
            return False
        return self._clock.monotonic() < self._failed_at + _LEFT_ALONE

    @property
    def deadline(self) -> int:
        """The moment, by the clock of the server in milliseconds, until which a call that is
        made now may run; 0 where that is not known yet.
        """
        if self._offset is None:
            return 0
        seconds = self._clock.monotonic() + _TIMEOUT + _MARGIN
        return round(seconds * 1000 + self._offset)

    def note_time(self, now: int) -> None:
        """The server's clock has just shown *now*, in milliseconds."""
        self._offset = now - self._clock.monotonic() * 1000

    def run(self, name: str, keys: Sequence[str], *args: str | bytes | float) -> Any:
        """What the script of that *name* returns; None where the server fails."""
        assert self._calls is not None
        return self._try(self._calls.run, self._script(name), keys, args)

    def ask(self, *command: str | bytes | float) -> Any:
        """What the server answers to *command*; None where it fails."""
        assert self._calls is not None
        return self._try(self._calls.ask, *command)

    def _try(self, call: Callable[..., Any], *args: Any) -> Any:
        if self.is_left_alone:
            return None
        try:
            found = call(*args)
        except (RedisError, OSError) as error:
            self._failed(error)
            if _is_out_of_memory(error):
                return None
            self._failed_at = self._clock.monotonic()
            self.has_lost_answer = True
            return None
        self._failed_at = None
        return found

    def works(self) -> None:
        """All that was to be done has been done."""
        if self.is_failing:
            self.is_failing = False
            self._log(logging.INFO, "The queue in Redis works again")

    def _failed(self, error: Exception) -> None:
        if not self.is_failing:
            self.is_failing = True
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
            self._scripts[name] = Script(source(name))
        return self._scripts[name]


@cache
def source(name: str) -> str:
    """The text of a script, after the texts of the scripts that its first line names."""
    text = (files(__package__) / f"{name}.lua").read_text(encoding="utf-8")
    needs = _NEEDS.match(text)
    names = needs[1].split(", ") if needs else ()
    return "".join(map(source, names)) + text


def _is_out_of_memory(error: Exception) -> bool:
    """Whether the server works, but has no memory left."""
    if isinstance(error, OutOfMemoryError):
        return True
    # Redis 6 has it in the middle of what it says of a script.
    return isinstance(error, ResponseError) and "-OOM " in str(error)
