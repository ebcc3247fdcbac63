"""The robots.txt of each origin, and its tdmrep.json: in memory, then in a store, then from its
server."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from scrapy.utils.misc import build_from_crawler
from twisted.internet.defer import CancelledError, DeferredLock

from scrapy_rep import stats
from scrapy_rep.compat.internals import is_closing
from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.fetching.failures import in_words
from scrapy_rep.fetching.locks import held
from scrapy_rep.fetching.storeclient import StoreClient
from scrapy_rep.log import CrawlLog
from scrapy_rep.protocol.access.results import (
    Access,
    AccessResult,
    Entry,
    State,
    renew,
    robots_of,
)
from scrapy_rep.protocol.origins import Origin
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.usage.tdmrep import PATH, TdmRep
from scrapy_rep.protocol.usage.vocabulary import MINING
from scrapy_rep.stores import MEMORY, open_store
from scrapy_rep.stores.memory import Key, Memory, url_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.fetching.fetcher import RobotsOf, RobotsTxtFetcher
    from scrapy_rep.fetching.request import Causes
    from scrapy_rep.settings import RepSettings
    from scrapy_rep.stores.memory import File

# In seconds.
_JUST_NOW = 1.0


class Known(NamedTuple):
    """The parsed robots.txt of an origin, with its cache entry."""

    origin: Origin
    entry: Entry
    robots: RobotsTxt

    tdmrep: TdmRep | None = None
    """The tdmrep.json of the origin, if a purpose of the crawl needs it."""

    @property
    def state(self) -> State:
        """What the crawler follows until the next fetch."""
        return self.entry.state(self.robots.dialect)


class RobotsTxtCache:
    """The robots.txt of each origin, while it is fresh.

    If TDMRep has a label for a purpose of the crawl, an origin counts as known only when
    its tdmrep.json is known too. The cache fetches that file if *may_fetch* says that
    robots.txt allows it. *robots_of* finds what judges the requests for it, also after
    redirects; it calls :meth:`robots`. *delay_of* returns the seconds that a request waits after that
    for its robots.txt. *learned* reports a robots.txt with a request that waits for
    it, and whether it was fetched, not read from the store. *now* returns the seconds since the
    epoch, *monotonic* those of a clock that nobody sets.
    """

    def __init__(
        self,
        crawler: Crawler,
        fetcher: RobotsTxtFetcher,
        settings: RepSettings,
        *,
        now: Callable[[], float],
        monotonic: Callable[[], float],
        may_fetch: Callable[[RobotsTxt, str], bool],
        robots_of: RobotsOf,
        delay_of: Callable[[RobotsTxt], float],
        learned: Callable[[Known, Request, bool], Awaitable[None]],
    ) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._fetcher = fetcher
        self._settings = settings
        self._now = now
        self._monotonic = monotonic
        self._may_fetch = may_fetch
        self._robots_of = robots_of
        self._delay_of = delay_of
        self._learned = learned
        self._needs_tdmrep = not MINING.isdisjoint(settings.purposes)
        self._store, max_bytes = _opened(crawler, settings)
        self._memory = Memory(max_bytes, self._parse)
        self._locks: WeakValueDictionary[Key, DeferredLock] = WeakValueDictionary()

    def cached(self, origin: Origin) -> Known | None:
        """The files of *origin*, if they are in memory and fresh."""
        file = self._fresh(origin)
        if file is None:
            return None
        known = _known(origin, file)
        if not self._needs_tdmrep or known.state is State.UNREACHABLE:
            return known
        tdmrep = self._fresh(tdmrep_url(origin))
        if tdmrep is not None:
            return known._replace(tdmrep=tdmrep.of(TdmRep))
        return None if self._may_fetch(known.robots, tdmrep_url(origin)) else known

    async def learn(
        self, origin: Origin, causes: Causes, *, stale: Entry | None = None
    ) -> Known:
        """The files of *origin*, from the store or its server.

        *causes* are of the requests that wait for it. *stale* is an entry that must be fetched
        again even if it has not expired. Raises SpiderClosing or a cancellation, and stores
        nothing, if the spider closes meanwhile. After any other error robots.txt counts as
        unreachable.
        """
        file = await self._obtain(origin, causes, stale)
        known = _known(origin, file)
        if self._needs_tdmrep and known.state is not State.UNREACHABLE:
            known = known._replace(tdmrep=await self.tdmrep(known, causes))
            # robots.txt may have expired meanwhile, but the waiting requests still use it.
            file.arrived = self._now()
        return known

    async def robots(self, origin: Origin, causes: Causes) -> Known:
        """The robots.txt of *origin* alone, as :meth:`learn` returns it, or from memory."""
        file = self._fresh(origin) or await self._obtain(origin, causes)
        return _known(origin, file)

    def lacks_tdmrep(self, known: Known) -> bool:
        """Whether the tdmrep.json of an origin is not cached, and may be fetched."""
        url = tdmrep_url(known.origin)
        return self._fresh(url) is None and self._may_fetch(known.robots, url)

    async def tdmrep(self, known: Known, causes: Causes) -> TdmRep | None:
        """Return the tdmrep.json of an origin, and fetch it if necessary; None if robots.txt
        forbids that. Raises SpiderClosing or a cancellation if the spider closes meanwhile.
        """
        url = tdmrep_url(known.origin)
        if not self._may_fetch(known.robots, url):
            return None
        file = self._fresh(url) or await self._obtain(url, causes)
        return file.of(TdmRep)

    # One file.

    def _parse(self, key: Key, entry: Entry) -> RobotsTxt | TdmRep:
        if isinstance(key, Origin):
            return robots_of(entry, self._settings.dialect)
        # A server without the file does not implement the protocol (TDMRep, "TDM File on
        # the Origin Server"). While a server is unreachable, the last good copy applies.
        result = entry.result
        if result.access is Access.UNREACHABLE and entry.copy is not None:
            result = entry.copy
        return TdmRep.parse(
            result.body if result.access is Access.SUCCESSFUL else b"[]"
        )

    def _fresh(self, key: Key) -> File | None:
        """The file of *key*, if it is in memory and fresh, or has just arrived."""
        file, now = self._memory.get(key), self._now()
        if file is None:
            return None
        has_just_arrived = 0.0 <= now - file.arrived < _JUST_NOW
        return file if has_just_arrived or file.entry.is_fresh(now) else None

    async def _obtain(
        self, key: Key, causes: Causes, stale: Entry | None = None
    ) -> File:
        """The file of *key*, from the store or its server. Calls for the same file share one
        fetch, which is reported once.

        Raises SpiderClosing or a cancellation if the spider closes meanwhile, and a
        cancellation if no request waits any more. After any other error the file counts as
        unreachable.
        """
        before = self._memory.get(key)
        async with held(self._locks.setdefault(key, DeferredLock())):
            file = self._memory.get(key)
            if file is not None and (before is None or file.entry != before.entry):
                return file
            known = None if file is None else file.entry

            def serves(entry: Entry) -> bool:
                is_wrong = stale is not None and entry.fetched <= stale.fetched
                return entry.is_fresh(self._now()) and not is_wrong

            try:
                stored = None if self._store is None else await self._store.get(key)
                # In memory may be a later failure, which no store keeps.
                if stored and (known is None or stored.fetched > known.fetched):
                    known = stored
                if known is not None and serves(known):
                    found, is_new = self._keep(key, known), False
                else:
                    found, is_new = await self._fetch(key, causes, known), True
            except SpiderClosing:
                raise
            except (CancelledError, asyncio.CancelledError):
                if is_closing(self._crawler) or not causes:
                    raise
                # Another component cancelled the fetch. The waiting requests must continue.
                found, is_new = self._failed(key, "cancelled", known), True
            except Exception as exception:
                self._logger.exception(
                    "%(url)s counts as unreachable and will be fetched again later: an error "
                    "in this crawler, not of the site, interrupted its fetch",
                    url=url_of(key),
                )
                found, is_new = self._failed(key, in_words(exception), known), True
        if not isinstance(key, Origin):
            if is_new:
                self._report_tdmrep(key, found)
        elif found is not file:
            await self._learned(_known(key, found), causes[0], is_new)
        return found

    async def _fetch(self, key: Key, causes: Causes, known: Entry | None) -> File:
        """Fetch a file, and store it if a server has answered. A failure may be one of this crawler
        alone, and must not keep others from asking for themselves.
        """
        judge = None if isinstance(key, Origin) else self._robots_of
        result = await self._fetcher.fetch(url_of(key), causes, robots_of=judge)
        entry = self._renewed(key, result, known)
        if self._store is not None and result.is_of_server:
            self._store.put(key, entry)
        return self._keep(key, entry)

    def _failed(self, key: Key, error: str, known: Entry | None) -> File:
        """The file of *key* after an *error* that is not of its server."""
        result = AccessResult(url=url_of(key), status=None, error=error)
        return self._keep(key, self._renewed(key, result, known))

    def _renewed(self, key: Key, result: AccessResult, before: Entry | None) -> Entry:
        file, elapsed = self._memory.get(key), 0.0
        # Otherwise, another worker has just stored it.
        if file and before and file.entry.fetched == before.fetched:
            elapsed = self._monotonic() - file.learned
        dialect, bounds = self._settings.dialect, self._settings.bounds
        entry = renew(
            result,
            before,
            dialect=dialect,
            bounds=bounds,
            now=self._now(),
            elapsed=elapsed,
            jitter=random.random(),  # noqa: S311
        )
        is_robots = isinstance(key, Origin)
        if is_robots and entry.state(dialect) is State.UNREACHABLE:
            return entry  # Requests wait until it is back.
        # A file that ends before a request has its turn, after a delay, would be fetched again and
        # again, and the request would never be sent.
        holds = 0.0
        if result.access is Access.UNREACHABLE:
            holds = bounds.min_age
        elif (
            is_robots and entry.expires < entry.fetched + self._settings.crawl_delay_max
        ):
            robots = self._parse(key, entry)
            assert isinstance(robots, RobotsTxt)
            holds = self._delay_of(robots) + _JUST_NOW
        return replace(entry, expires=max(entry.expires, entry.fetched + holds))

    def _keep(self, key: Key, entry: Entry) -> File:
        file = self._memory.get(key)
        if file is None or file.entry.fetched != entry.fetched:
            file = self._memory.put(key, entry, self._monotonic())
        return file

    def _report_tdmrep(self, url: str, file: File) -> None:
        result = file.entry.result
        self._crawler.stats.inc_value(stats.TDMREP.format(access=result.access))
        is_read = file.of(TdmRep).is_valid or result.access is not Access.SUCCESSFUL
        self._logger.debug(
            "%(url)s is %(access)s (%(result)s)%(finding)s",
            url=url,
            access=result.access,
            result=result,
            finding="" if is_read else ", not an array of rules",
        )


def tdmrep_url(origin: Origin) -> str:
    """The URL of the tdmrep.json of *origin*."""
    return origin.url(PATH)


def _known(origin: Origin, file: File) -> Known:
    return Known(origin, file.entry, file.of(RobotsTxt))


def _opened(crawler: Crawler, settings: RepSettings) -> tuple[StoreClient | None, int]:
    """The client of the store that ``REP_STORE`` selects, and the bytes of memory for files."""
    if isinstance(settings.store, (str, Path)):
        store, max_bytes = open_store(settings.store)
    else:
        store = build_from_crawler(settings.store, crawler)
        max_bytes = MEMORY * 1_000_000
    return None if store is None else StoreClient(crawler, store), max_bytes
