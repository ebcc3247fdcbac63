"""The client of a store. While the store fails, the crawl continues without it."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, TypeVar

from scrapy import signals
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import CancelledError, DeferredSemaphore

from scrapy_rep.base import stats
from scrapy_rep.base.compat import StillRuns, held, run_in_thread
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.crawl.fetching.entries import KEEP, dumps, loads
from scrapy_rep.exceptions import SpiderClosing, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Thread

    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from scrapy_rep.crawl.fetching.store import Store
    from scrapy_rep.protocol.access.results import Entry
    from scrapy_rep.protocol.origins import Origin

_T = TypeVar("_T")

# The seconds for which the client does not call a store after a failure, so that not every
# request waits for another failure.
_PAUSE = 3.0

# The seconds for which the client waits for a call of a store. The stores of this package need
# fewer, also where a disk or a network fails.
_MAX_CALL = 30.0

# The number of calls at the same time.
_MAX_THREADS = 32


class StoreClient:
    """Calls a store, and replaces its errors by default values."""

    def __init__(self, crawler: Crawler, store: Store) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._store = store
        self._failures = 0
        self._is_failing = False
        self._paused_until = -inf
        self._has_warned_of_entry = False
        self._is_closed = False
        self._threads = DeferredSemaphore(_MAX_THREADS)
        self._stuck: Thread | None = None
        self._writes: set[Deferred[None]] = set()
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    async def get(self, origin: Origin) -> Entry | None:
        """The entry of *origin*, if it has not expired too long ago to be of use. Raises SpiderClosing
        if the spider has closed meanwhile.
        """
        data = await self._call(
            partial(self._store.get, str(origin)), None, writes=False
        )
        if self._is_closed:
            why = f"The spider closes, so {origin.robotstxt_url} is not fetched"
            raise SpiderClosing(why)
        return None if data is None else self._read(origin, data)

    def put(self, origin: Origin, entry: Entry) -> None:
        """Store *entry*. Its users do not wait for that."""
        try:
            data = dumps(entry)
        except ValueError:
            return  # It is too long. Each worker fetches this file for itself.
        write = partial(self._store.put, str(origin), data, entry.expires + KEEP)
        begun = deferred_from_coro(self._call(write, None))
        self._writes.add(begun)
        begun.addBoth(lambda _: self._writes.discard(begun))

    def _read(self, origin: Origin, data: bytes) -> Entry | None:
        try:
            entry = loads(data, origin)
        except ValueError as error:
            self._warn_of_entry(origin, error)
            return None
        return entry if time.time() < entry.expires + KEEP else None

    async def _call(
        self, function: Callable[[], _T], otherwise: _T, *, writes: bool = True
    ) -> _T:
        """The result of a call of the store on a thread, or *otherwise* if the store fails."""
        if self._is_closed or time.monotonic() < self._paused_until:
            return otherwise
        # While a call does not return, others would take one thread after another.
        if self._stuck is not None and self._stuck.is_alive():
            return otherwise
        if self._is_failing:
            # This call tests whether the store works again. Others do not wait for it.
            self._paused_until = time.monotonic() + _PAUSE
        failures = self._failures

        def call() -> _T:
            # The store may have failed while this waited for a thread.
            if self._is_closed or self._failures != failures:
                raise _NotCalled
            return function()

        try:
            async with held(self._threads):
                found = await run_in_thread(call, at_most=_MAX_CALL)
        except _NotCalled:
            return otherwise
        except CancelledError:
            raise
        except StillRuns as error:
            self._stuck = error.thread
            self._failed(StoreError(type(self._store).__name__, error))
            return otherwise
        except Exception as error:  # noqa: BLE001  a store of one's own may raise anything
            self._failed(error)
            return otherwise
        self._paused_until = -inf
        # A store that is locked can be read, but not written.
        if self._is_failing and writes:
            self._is_failing = False
            self._logger.info(
                "The store of robots.txt files works again, and the crawl uses it again"
            )
        return found

    def _failed(self, error: Exception) -> None:
        if self._is_closed:
            return
        self._crawler.stats.inc_value(stats.STORE_ERRORS)
        if not self._is_failing:
            message = (
                "The store of robots.txt files fails: %(error)s. The crawl continues without "
                "it, and tries it again every few seconds"
            )
            if isinstance(error, StoreError):
                self._logger.warning(message, error=error)
            else:  # Of the store itself: its author needs the traceback.
                self._logger.exception(message, error=error)  # noqa: LOG004  called in a handler
        self._failures += 1
        self._is_failing = True
        self._paused_until = time.monotonic() + _PAUSE

    def _warn_of_entry(self, origin: Origin, error: ValueError) -> None:
        self._crawler.stats.inc_value(stats.STORE_ERRORS)
        if not self._has_warned_of_entry:
            self._has_warned_of_entry = True
            self._logger.warning(
                "The entry of %(url)s in the store of robots.txt files cannot be read "
                "(%(error)s). It counts as missing: the file is fetched, and replaces it. "
                "Check who else writes to the store. Later such entries are only counted "
                "(%(stat)s)",
                url=origin.robotstxt_url,
                error=error,
                stat=stats.STORE_ERRORS,
            )

    async def _spider_closed(self) -> None:
        """Close the store, when what is being written is written."""
        # Meanwhile, other fetches may end.
        while self._writes:
            await maybe_deferred_to_future(next(iter(self._writes)))
        self._is_closed = True
        with suppress(StillRuns):
            await run_in_thread(self._close, at_most=_MAX_CALL)

    def _close(self) -> None:
        with suppress(Exception):  # As above, a store may raise anything.
            self._store.close()


class _NotCalled(Exception):
    """The store was not called, since it failed just before."""
