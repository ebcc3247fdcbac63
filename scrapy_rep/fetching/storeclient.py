"""The client of a store. While the store fails, the crawl continues without it."""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy import signals
from scrapy.utils.asyncio import create_looping_call
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep import stats
from scrapy_rep.compat.versions import run_in_thread, sleep
from scrapy_rep.exceptions import SpiderClosing, StoreError
from scrapy_rep.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from scrapy_rep.protocol.access.results import Entry
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.stores.base import Store

logger = get_logger(__name__)

_T = TypeVar("_T")

# In seconds. A worker renews its lock before it expires; the lock of a dead worker expires.
_LOCK_HOLDS = 6.0
_LOCK_RENEWED_EVERY = 2.0

# The seconds between two checks whether another worker has fetched a robots.txt. The client
# polls, since not every kind of store can notify other processes.
_POLL_EVERY = 0.2

# The seconds for which the client does not call a store after a failure, so that not every
# request waits for another failure.
_PAUSE = 3.0

# The name of the lock for the turn at a host. No origin has such a name.
_PLACE = "place {}"


class StoreClient:
    """Calls a store, and replaces its errors by default values.

    The key *origin* of an entry is an Origin for its robots.txt, or the URL of another file.
    """

    def __init__(self, crawler: Crawler, store: Store) -> None:
        self._crawler = crawler
        self._store = store
        self._owner = uuid.uuid4().hex
        self._failed_at: float | None = None
        self._failed_to_write = False
        self._is_testing = False
        self._is_closed = False
        self._renewals: dict[Origin | str, Deferred[Any]] = {}
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    @property
    def is_shared(self) -> bool:
        """Whether other processes may use the store as well."""
        return self._store.blocking

    def get_from_memory(self, origin: Origin | str, now: float) -> Entry | None:
        """The entry of *origin*, if the store is in memory; None otherwise."""
        if self._store.blocking:
            return None
        return self._store.get(str(origin), now)

    async def get(self, origin: Origin | str) -> Entry | None:
        return await self._call(
            lambda: self._store.get(str(origin), time.time()), None, writes=False
        )

    async def put(self, origin: Origin | str, entry: Entry) -> None:
        await self._call(lambda: self._store.put(str(origin), entry, time.time()), None)

    async def entry_or_lock(
        self, origin: Origin | str, known: Entry | None
    ) -> Entry | None:
        """Wait for the lock of *origin*, or for another worker to fetch its file.

        Return the fresh entry, newer than *known*, that another worker has stored; or None
        if this worker holds the lock and must fetch the file. Raises SpiderClosing if the
        spider closes meanwhile.
        """
        while True:
            entry = await self.get(origin)
            if _is_newer(entry, known):
                return entry
            has_lock = await self._lock(origin)
            if self._is_closed:
                # The closed store is not called, so the lock was not really acquired.
                raise SpiderClosing(
                    f"The spider closes, so the file of {origin} is not fetched"
                )
            if has_lock:
                # Another worker may have stored the file before it released the lock.
                entry = await self.get(origin)
                if not _is_newer(entry, known):
                    return None
                await self.unlock(origin)
                return entry
            await sleep(_POLL_EVERY)

    async def unlock(self, origin: Origin | str) -> None:
        renewal = self._renewals.pop(origin, None)
        if renewal is not None:
            # A renewal that ends after the unlock would lock it again.
            await maybe_deferred_to_future(renewal)
        await self._call(lambda: self._store.unlock(str(origin), self._owner), None)

    async def reserve(self, host: str, place: str, seconds: float) -> bool:
        """Lock the turn at *host* for *seconds*; return whether *place*, its owner, has it."""
        return await self._lock_for(_PLACE.format(host), place, seconds)

    async def vacate(self, host: str, place: str, seconds: float) -> None:
        """Release the turn at *host*, which *place* holds, after *seconds*."""
        if seconds:
            await self.reserve(host, place, seconds)
        else:
            key = _PLACE.format(host)
            await self._call(lambda: self._store.unlock(key, place), None)

    @contextmanager
    def renewing(self, origin: Origin | str) -> Iterator[None]:
        """Renew the lock of *origin* as long as the context lasts."""

        def renew() -> None:
            # The function of a Scrapy looping call must not return a coroutine.
            before = self._renewals.get(origin)
            if before is None or before.called:
                renewal = deferred_from_coro(self._lock(origin))
                self._renewals[origin] = renewal.addErrback(lambda _: None)

        loop = create_looping_call(renew)
        loop.start(_LOCK_RENEWED_EVERY, now=False)
        try:
            yield
        finally:
            if loop.running:
                loop.stop()

    async def _lock(self, origin: Origin | str) -> bool:
        return await self._lock_for(str(origin), self._owner, _LOCK_HOLDS)

    async def _lock_for(self, name: str, owner: str, seconds: float) -> bool:
        # While the store fails, every worker fetches for itself.
        return await self._call(
            lambda: self._store.lock(name, owner, seconds, time.time()), True
        )

    async def _call(
        self, function: Callable[[], _T], otherwise: _T, *, writes: bool = True
    ) -> _T:
        """The result of a call of the store, or *otherwise* if the store fails."""
        if self._is_closed or self._is_paused():
            return otherwise
        # After a failure, a single call tests whether the store works again.
        self._is_testing = self._failed_at is not None
        try:
            if self._store.blocking:
                found, was_called = await run_in_thread(
                    self._call_on_thread, function, otherwise
                )
            else:
                found, was_called = function(), True
        except StoreError as error:
            if not self._is_closed:
                self._failed(error)
                self._failed_to_write |= writes
            return otherwise
        finally:
            self._is_testing = False
        # A store that is locked can be read, but not written.
        is_proof = was_called and (writes or not self._failed_to_write)
        if is_proof and self._failed_at is not None:
            self._failed_at = None
            self._failed_to_write = False
            logger.info(
                "The store of robots.txt files works again, and the crawl uses it again",
                extra={"spider": self._crawler.spider},
            )
        return found

    def _is_paused(self) -> bool:
        """Whether the store failed recently, or another call tests it now."""
        if self._failed_at is None:
            return False
        return self._is_testing or time.monotonic() < self._failed_at + _PAUSE

    def _call_on_thread(
        self, function: Callable[[], _T], otherwise: _T
    ) -> tuple[_T, bool]:
        """Call *function* on this thread, and return its result and True. If the store failed
        while the call waited for a thread, return *otherwise* and False instead.
        """
        has_failed = self._failed_at is not None and not self._is_testing
        return (otherwise, False) if has_failed else (function(), True)

    def _failed(self, error: StoreError) -> None:
        self._crawler.stats.inc_value(stats.STORE_ERRORS)
        if self._failed_at is None:
            logger.warning(
                "The store of robots.txt files fails: %(error)s. The crawl continues without "
                "it, and tries it again every few seconds",
                {"error": error},
                extra={"spider": self._crawler.spider},
            )
        self._failed_at = time.monotonic()

    def _spider_closed(self) -> None:
        # Cancelled fetches may still call unlock after this.
        self._is_closed = True
        self._store.close()


def _is_newer(entry: Entry | None, known: Entry | None) -> bool:
    if entry is None or not entry.is_fresh(time.time()):
        return False
    return known is None or entry.fetched > known.fetched
