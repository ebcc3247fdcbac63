"""A cache of one file per origin: in memory, then in a store, then from its server."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import CancelledError, DeferredLock

from scrapy_rep.compat.internals import is_closing
from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.fetching.failures import in_words
from scrapy_rep.log import get_logger
from scrapy_rep.protocol.access.results import AccessResult, Entry, renew
from scrapy_rep.stores.lru import LRU

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from scrapy.crawler import Crawler

    from scrapy_rep.fetching.fetcher import RobotsOf, RobotsTxtFetcher
    from scrapy_rep.fetching.request import Causes
    from scrapy_rep.fetching.storeclient import StoreClient
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.settings import RepSettings

    Key: TypeAlias = Origin | str

logger = get_logger(__name__)

# The limits for parsed files. The store keeps more of them, unparsed.
_MAX_FILES = 5_000
_MAX_BYTES = 64 * 1024 * 1024

# The number of unreachable files whose last fetch is remembered.
_MAX_UNREACHABLE = 20_000

# In seconds.
_JUST_NOW = 1.0


class Parsed(Protocol):
    """A parsed file."""

    @property
    def weight(self) -> int:
        """The approximate number of bytes that it takes in memory."""


_Parsed = TypeVar("_Parsed", bound=Parsed)


@dataclass(frozen=True, slots=True)
class CachedFile(Generic[_Parsed]):
    """A parsed file with its entry."""

    entry: Entry
    parsed: _Parsed

    arrived: float
    """When it arrived. The requests that waited use it even if it has expired by then."""

    weight: int
    """The number of bytes with which it counts towards the memory limit."""


class FileCache(ABC, Generic[_Parsed]):
    """One file per origin, while it is fresh.

    The *key* of a file is the Origin for a robots.txt, the URL for another file. *now* returns
    the seconds since the epoch, *monotonic* those of a clock that nobody sets. *robots_of* finds
    the robots.txt that judges each request for another file.
    """

    def __init__(
        self,
        crawler: Crawler,
        fetcher: RobotsTxtFetcher,
        store_client: StoreClient,
        settings: RepSettings,
        *,
        now: Callable[[], float],
        monotonic: Callable[[], float],
        robots_of: RobotsOf | None = None,
    ) -> None:
        self._crawler = crawler
        self._fetcher = fetcher
        self._store_client = store_client
        self._settings = settings
        self._now = now
        self._monotonic = monotonic
        self._robots_of = robots_of
        self._files: LRU[CachedFile[_Parsed]] = LRU(_MAX_FILES, _MAX_BYTES)
        # For each unreachable file: when it was last fetched, and the time of the monotonic
        # clock since which this process knows that.
        self._unreachable: LRU[tuple[float, float]] = LRU(
            _MAX_UNREACHABLE, _MAX_UNREACHABLE
        )
        self._locks: WeakValueDictionary[Key, DeferredLock] = WeakValueDictionary()

    @abstractmethod
    def _parse(self, entry: Entry) -> _Parsed:
        """Parse the file in *entry*."""

    def _cached(self, key: Key) -> CachedFile[_Parsed] | None:
        """The file of *key*, if it is in memory and fresh, or has just arrived."""
        now = self._now()
        cached = self._files.get(key)
        if cached is None:
            entry = self._store_client.get_from_memory(key, now)
            if entry is None:
                return None
            cached = self._cache(key, entry)
        has_just_arrived = 0.0 <= now - cached.arrived < _JUST_NOW
        return cached if has_just_arrived or cached.entry.is_fresh(now) else None

    async def _obtain(
        self, key: Key, causes: Causes, stale: Entry | None = None
    ) -> tuple[CachedFile[_Parsed], bool]:
        """The file of *key*, from the store or its server, and whether this call fetched it.
        Calls for the same file share one fetch.

        *causes* are the requests that wait for it. *stale* is an entry that must be fetched again
        even if it has not expired. Raises SpiderClosing or a cancellation if
        the spider closes meanwhile, and a cancellation if no request waits any more. After any
        other error the file counts as unreachable.
        """
        lock = self._locks.setdefault(key, DeferredLock())
        before = self._files.get(key)

        async def learn() -> tuple[CachedFile[_Parsed], bool]:
            shared = self._files.get(key)
            if shared is not None and (
                before is None or shared.entry is not before.entry
            ):
                return shared, False
            return await self._learn_or_fail(key, causes, stale)

        # Not acquire(): a call that is cancelled as it gets the lock would never release it.
        return await maybe_deferred_to_future(
            lock.run(lambda: deferred_from_coro(learn()))
        )

    async def _learn_or_fail(
        self, key: Key, causes: Causes, stale: Entry | None
    ) -> tuple[CachedFile[_Parsed], bool]:
        try:
            entry, is_new = await self._learn(key, causes, stale)
            return self._cache(key, entry), is_new
        except SpiderClosing:
            raise
        except (CancelledError, asyncio.CancelledError):
            if is_closing(self._crawler) or not causes:
                raise
            # Another component cancelled the fetch. The waiting requests must continue.
            error = "cancelled"
        except Exception as exception:
            logger.exception(
                "%(url)s counts as unreachable and will be fetched again later: an error in "
                "this crawler, not of the site, interrupted its fetch or storage",
                {"url": _url(key)},
                extra={"spider": self._crawler.spider},
            )
            error = in_words(exception)
        result = AccessResult(url=_url(key), status=None, error=error)
        return self._cache(key, self._renewed(key, result, None)), True

    async def _learn(
        self, key: Key, causes: Causes, stale: Entry | None
    ) -> tuple[Entry, bool]:
        stored = await self._store_client.get(key)
        is_stale = stored and stale and stored.fetched <= stale.fetched
        if stored is not None and stored.is_fresh(self._now()) and not is_stale:
            return stored, False
        if not self._store_client.is_shared:
            # No other process can be fetching it, so no lock is needed.
            return await self._fetch(key, causes, stored), True
        newer = await self._store_client.entry_or_lock(key, stored)
        if newer is not None:
            return newer, False
        try:
            with self._store_client.renewing(key):
                entry = await self._fetch(key, causes, stored)
        finally:
            await self._store_client.unlock(key)
        return entry, True

    async def _fetch(self, key: Key, causes: Causes, stored: Entry | None) -> Entry:
        """Fetch a file, and store it if its server has decided the result."""
        result = await self._fetcher.fetch(_url(key), causes, robots_of=self._robots_of)
        entry = self._renewed(key, result, stored)
        if not result.is_dropped:
            await self._store_client.put(key, entry)
        return entry

    def _renewed(self, key: Key, result: AccessResult, before: Entry | None) -> Entry:
        if before is None:
            cached = self._files.get(key)
            before = cached.entry if cached else None
        return renew(
            result,
            before,
            dialect=self._settings.dialect,
            bounds=self._settings.bounds,
            now=self._now(),
            elapsed=self._known_for(key, before),
            jitter=random.random(),  # noqa: S311
        )

    def _known_for(self, key: Key, entry: Entry | None) -> float:
        """The seconds for which this process has known that the file in *entry* is unreachable;
        0 if another worker stored *entry* just now, or the file was reachable.
        """
        fetched, since = self._unreachable.get(key) or (None, 0.0)
        if entry is None or entry.fetched != fetched:
            return 0.0
        return self._monotonic() - since

    def _cache(self, key: Key, entry: Entry) -> CachedFile[_Parsed]:
        is_unreachable = entry.unreachable_since is not None
        if is_unreachable and not self._known_for(key, entry):
            self._unreachable.put(key, (entry.fetched, self._monotonic()), 1)
        parsed = self._parse(entry)
        return self._put(key, CachedFile(entry, parsed, entry.fetched, parsed.weight))

    def _put(self, key: Key, cached: CachedFile[_Parsed]) -> CachedFile[_Parsed]:
        self._files.put(key, cached, cached.weight)
        return cached


def _url(key: Key) -> str:
    return key if isinstance(key, str) else key.robotstxt_url
