"""The client of a store, by which a crawl continues while the store fails."""

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

# In seconds. The lock of a dead worker expires after this time; a live one renews it
# before.
_LOCK_HOLDS = 6.0
_LOCK_RENEWED_EVERY = 2.0

# The seconds between two checks whether another worker has fetched what this one needs:
# nothing can be awaited across processes and all kinds of stores.
_LOOK_EVERY = 0.2

# The seconds for which a store is not called after a failure, so that not every request
# waits for another one.
_LEFT_ALONE = 3.0

# The name of a lock for the turn at a host, which equals no origin.
_PLACE = "place {}"


class StoreClient:
    """Calls a store. While it fails, the crawl continues without it.

    An entry is that of the robots.txt of an *origin*, or of the file at a URL.
    """

    def __init__(self, crawler: Crawler, store: Store) -> None:
        self._crawler = crawler
        self._store = store
        self._owner = uuid.uuid4().hex
        self._failed_at: float | None = None
        self._failed_to_write = False
        self._is_tried = False
        self._is_closed = False
        self._renewals: dict[Origin | str, Deferred[Any]] = {}
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    @property
    def is_shared(self) -> bool:
        """Whether other processes may use the store as well."""
        return self._store.blocking

    def at_hand(self, origin: Origin | str, now: float) -> Entry | None:
        """The entry of *origin*, if the store is in memory."""
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
        """Wait for the lock, or for another worker. Return a fresh entry, newer than
        *known*, that another worker has fetched meanwhile; or None with the lock held: then
        this worker fetches. Raises SpiderClosing where the spider has closed
        meanwhile.
        """
        while True:
            entry = await self.get(origin)
            if _is_news(entry, known):
                return entry
            has_lock = await self._lock(origin)
            if self._is_closed:
                # Without a store there are no others, but now there is no crawl either.
                raise SpiderClosing(f"The robots.txt of {origin} is not waited for")
            if has_lock:
                # Another worker may have stored it before the lock was free.
                entry = await self.get(origin)
                if not _is_news(entry, known):
                    return None
                await self.unlock(origin)
                return entry
            await sleep(_LOOK_EVERY)

    async def unlock(self, origin: Origin | str) -> None:
        renewal = self._renewals.pop(origin, None)
        if renewal is not None:
            # A renewal that is still under way would lock it again.
            await maybe_deferred_to_future(renewal)
        await self._call(lambda: self._store.unlock(str(origin), self._owner), None)

    async def reserve(self, host: str, place: str, seconds: float) -> bool:
        """Lock the turn at *host* for *seconds*, under the name *place*. Return whether
        that worked."""
        return await self._lock_for(_PLACE.format(host), place, seconds)

    async def vacate(self, host: str, place: str, seconds: float) -> None:
        """Let others lock the turn at *host* after *seconds*."""
        if seconds:
            await self.reserve(host, place, seconds)
        else:
            key = _PLACE.format(host)
            await self._call(lambda: self._store.unlock(key, place), None)

    @contextmanager
    def renewing(self, origin: Origin | str) -> Iterator[None]:
        """Renew the lock during a fetch."""

        def renew() -> None:
            # A looping call of Scrapy's must not return a coroutine.
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
        # Without a store there are no other workers to agree with.
        return await self._call(
            lambda: self._store.lock(name, owner, seconds, time.time()), True
        )

    async def _call(
        self,
        function: Callable[[], _T],
        otherwise: _T,
        *,
        writes: bool = True,
    ) -> _T:
        """The result of a call of the store, or *otherwise* where the store fails."""
        if self._is_closed or self._is_left_alone():
            return otherwise
        # After a failure, one call finds out whether the store works again.
        self._is_tried = self._failed_at is not None
        try:
            if self._store.blocking:
                found, was_asked = await run_in_thread(
                    self._ask_store, function, otherwise
                )
            else:
                found, was_asked = function(), True
        except StoreError as error:
            if not self._is_closed:
                self._failed(error)
                self._failed_to_write |= writes
            return otherwise
        finally:
            self._is_tried = False
        # A store that is locked can be read, and not written.
        is_proof = was_asked and (writes or not self._failed_to_write)
        if is_proof and self._failed_at is not None:
            self._failed_at = None
            self._failed_to_write = False
            logger.info(
                "The store of robots.txt files works again",
                extra={"spider": self._crawler.spider},
            )
        return found

    def _is_left_alone(self) -> bool:
        """Whether the store has failed recently, or is being tried again."""
        if self._failed_at is None:
            return False
        return self._is_tried or time.monotonic() < self._failed_at + _LEFT_ALONE

    def _ask_store(self, function: Callable[[], _T], otherwise: _T) -> tuple[_T, bool]:
        """The result of *function*, and True. Called on a thread. A call that had to wait
        for a thread until the store has failed is not made: *otherwise* and False.
        """
        has_failed = self._failed_at is not None and not self._is_tried
        return (otherwise, False) if has_failed else (function(), True)

    def _failed(self, error: StoreError) -> None:
        self._crawler.stats.inc_value(stats.STORE_ERRORS)
        if self._failed_at is None:
            logger.warning(
                "The store of robots.txt files fails; the crawl continues without it, and "
                "tries it again: %(error)s",
                {"error": error},
                extra={"spider": self._crawler.spider},
            )
        self._failed_at = time.monotonic()

    def _spider_closed(self) -> None:
        # Cancelled fetches may still call unlock.
        self._is_closed = True
        self._store.close()


def _is_news(entry: Entry | None, known: Entry | None) -> bool:
    if entry is None or not entry.is_fresh(time.time()):
        return False
    return known is None or entry.fetched > known.fetched
