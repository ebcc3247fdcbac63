"""Keeps what is known of robots.txt files in a store, whatever becomes of the store."""

from __future__ import annotations

import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from scrapy import signals
from scrapy.utils.asyncio import create_looping_call
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep import stats
from scrapy_rep.compat.versions import run_in_thread, sleep
from scrapy_rep.exceptions import SpiderClosing, StoreError
from scrapy_rep.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from scrapy_rep.protocol.access.results import Entry
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.stores.base import Store

logger = get_logger(__name__)

_T = TypeVar("_T")
_P = ParamSpec("_P")

# In seconds. A worker that dies leaves its lock for so long, at most; one that lives
# renews it in time.
_LOCK_HOLDS = 6.0
_LOCK_RENEWED_EVERY = 2.0

# How often it is looked whether another worker has fetched what this one needs. There is
# nothing to await across processes and kinds of stores.
_LOOK_EVERY = 0.2

# How long a store that has failed is left alone, so that not each request waits for it to
# fail again.
_LEFT_ALONE = 3.0


# The name of a lock that is about no robots.txt; no origin looks like it.
_PLACE = "place {}"


class StoreClient:
    """A store that can fail: the crawl goes on without it, and with it when it is back.

    What is kept is the robots.txt of an *origin*; where that is a text, the file of that
    URL.
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
        """What is kept of *origin*, if that can be told without a disk or a network."""
        if self._store.blocking:
            return None
        return self._store.get(str(origin), now)

    async def get(self, origin: Origin | str) -> Entry | None:
        return await self._call(None, self._store.get, str(origin), time.time())

    async def put(self, origin: Origin | str, entry: Entry) -> None:
        await self._call(None, self._store.put, str(origin), entry, time.time())

    async def entry_or_lock(
        self, origin: Origin | str, known: Entry | None
    ) -> Entry | None:
        """A fresh entry, newer than the one *known*, that another worker has fetched in
        the meantime; or None, and the lock with it: then this one is to fetch it. Raises
        SpiderClosing where the spider has closed meanwhile.
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
                # Between the two questions another may have brought it.
                entry = await self.get(origin)
                if not _is_news(entry, known):
                    return None
                await self.unlock(origin)
                return entry
            await sleep(_LOOK_EVERY)

    async def unlock(self, origin: Origin | str) -> None:
        renewal = self._renewals.pop(origin, None)
        if renewal is not None:
            # One that is still under way would lock it again.
            await maybe_deferred_to_future(renewal)
        await self._call(None, self._store.unlock, str(origin), self._owner)

    async def reserve(self, host: str, place: str, seconds: float) -> bool:
        """Whether *place* is the one at *host* that is taken, for so many *seconds*."""
        key = _PLACE.format(host)
        now = time.time()
        return await self._call(True, self._store.lock, key, place, seconds, now)

    async def vacate(self, host: str, place: str, seconds: float) -> None:
        """Let others reserve *host* after so many *seconds*."""
        if seconds:
            await self.reserve(host, place, seconds)
        else:
            await self._call(None, self._store.unlock, _PLACE.format(host), place)

    def renewing(self, origin: Origin | str) -> Renewal:
        """Keep the lock while a fetch takes its time."""

        def renew() -> None:
            # Scrapy's loops wait for nothing, and want nothing to wait for.
            before = self._renewals.get(origin)
            if before is None or before.called:
                renewal = deferred_from_coro(self._lock(origin))
                self._renewals[origin] = renewal.addErrback(lambda _: None)

        return Renewal(renew)

    async def _lock(self, origin: Origin | str) -> bool:
        # Without a store there are no others to agree with.
        return await self._call(
            True, self._store.lock, str(origin), self._owner, _LOCK_HOLDS, time.time()
        )

    async def _call(
        self,
        otherwise: _T,
        function: Callable[_P, _T],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """What a call of the store returns; *otherwise* where the store fails."""
        if self._is_closed or self._is_left_alone():
            return otherwise
        is_write = function != self._store.get
        # Of a store that has failed, one call finds out whether it works again.
        self._is_tried = self._failed_at is not None
        try:
            if self._store.blocking:
                found, was_asked = await run_in_thread(
                    self._ask_store, otherwise, partial(function, *args, **kwargs)
                )
            else:
                found, was_asked = function(*args, **kwargs), True
        except StoreError as error:
            if not self._is_closed:
                self._failed(error)
                self._failed_to_write |= is_write
            return otherwise
        finally:
            self._is_tried = False
        # A store that is locked can be read, and not written.
        is_proof = was_asked and (is_write or not self._failed_to_write)
        if is_proof and self._failed_at is not None:
            self._failed_at = None
            self._failed_to_write = False
            logger.info(
                "The store of robots.txt files works again",
                extra={"spider": self._crawler.spider},
            )
        return found

    def _is_left_alone(self) -> bool:
        """Whether the store has failed a short while ago, or is being tried again."""
        if self._failed_at is None:
            return False
        return self._is_tried or time.monotonic() < self._failed_at + _LEFT_ALONE

    def _ask_store(self, otherwise: _T, function: Callable[[], _T]) -> tuple[_T, bool]:
        """What *function* returns, and True. Called on a thread, which there may not have
        been for a while: what has waited for one while the store failed is not asked.
        """
        has_failed = self._failed_at is not None and not self._is_tried
        return (otherwise, False) if has_failed else (function(), True)

    def _failed(self, error: StoreError) -> None:
        self._crawler.stats.inc_value(stats.STORE_ERRORS)
        if self._failed_at is None:
            logger.warning(
                "The store of robots.txt files fails, and the crawl goes on without it: "
                "%(error)s",
                {"error": error},
                extra={"spider": self._crawler.spider},
            )
        self._failed_at = time.monotonic()

    def _spider_closed(self) -> None:
        # What is under way still, and has been cancelled, may want to unlock.
        self._is_closed = True
        self._store.close()


class Renewal:
    """Calls something again and again while a block runs."""

    def __init__(self, renew: Callable[[], None]) -> None:
        self._loop = create_looping_call(renew)

    def __enter__(self) -> None:
        self._loop.start(_LOCK_RENEWED_EVERY, now=False)

    def __exit__(self, *exc_info: object) -> None:
        if self._loop.running:
            self._loop.stop()


def _is_news(entry: Entry | None, known: Entry | None) -> bool:
    if entry is None or not entry.is_fresh(time.time()):
        return False
    return known is None or entry.fetched > known.fetched
