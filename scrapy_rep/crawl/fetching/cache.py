"""The robots.txt of each origin, and its tdmrep.json: in memory, then in a store, then from its
server."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from twisted.internet.defer import CancelledError, DeferredLock

from scrapy_rep.base import stats
from scrapy_rep.base.compat import held, is_closing
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.crawl.fetching.failures import in_words
from scrapy_rep.crawl.fetching.memory import Memory
from scrapy_rep.crawl.fetching.store import open_client
from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.protocol.access.results import (
    Access,
    AccessResult,
    CacheEntry,
    State,
    renew,
    robots_of,
    with_tdmrep,
)
from scrapy_rep.protocol.usage.sites import PATH, TdmRep
from scrapy_rep.protocol.usage.statements import MINING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.base.settings import RepSettings
    from scrapy_rep.crawl.fetching.fetcher import Check, RobotsTxtFetcher
    from scrapy_rep.crawl.fetching.memory import File, Parsed
    from scrapy_rep.crawl.fetching.request import FetchTemplates
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robots import RobotsTxt

# In seconds.
_JUST_NOW = 1.0


class SiteRules(NamedTuple):
    """What is known of an origin: its parsed files, with their cache entry."""

    origin: Origin
    entry: CacheEntry
    robots: RobotsTxt

    tdmrep: TdmRep | None = None
    """None if the crawl needs none, robots.txt forbids to fetch it, or it never could be fetched."""

    @property
    def state(self) -> State:
        """What the crawler follows until the next fetch."""
        return self.entry.state(self.robots.dialect)


class RobotsTxtCache:
    """What is known of each origin, while it is fresh: its robots.txt, and its tdmrep.json if
    TDMRep has a label for a purpose of the crawl. Both are fetched together, and one entry.

    *may_fetch* says whether a robots.txt allows this package a URL. *check* raises RobotsDenied if
    the robots.txt of its origin forbids one of the requests for a tdmrep.json, which may be redirected
    anywhere; it calls :meth:`robots`. *delay_of* returns the seconds that a request waits after that
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
        check: Check,
        delay_of: Callable[[RobotsTxt], float],
        learned: Callable[[SiteRules, Request, bool], Awaitable[None]],
    ) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._fetcher = fetcher
        self._settings = settings
        self._now = now
        self._monotonic = monotonic
        self._may_fetch = may_fetch
        self._check = check
        self._delay_of = delay_of
        self._learned = learned
        self._needs_tdmrep = not MINING.isdisjoint(settings.purposes)
        self._store, max_bytes = open_client(crawler, settings.store)
        self._memory = Memory(max_bytes, self._parse)
        self._locks: WeakValueDictionary[str, DeferredLock] = WeakValueDictionary()

    def cached(self, origin: Origin) -> SiteRules | None:
        """What is known of *origin*, if it is in memory and fresh."""
        file = self._fresh(origin)
        if file is None:
            return None
        known = _known(origin, file)
        return None if self._lacks_tdmrep(known) else known

    async def learn(
        self,
        origin: Origin,
        templates: FetchTemplates,
        *,
        stale: CacheEntry | None = None,
    ) -> SiteRules:
        """What is known of *origin*, from the store or its server.

        *templates* are of the requests that wait for it. *stale* is an entry that must be fetched
        again even if it has not expired. Raises SpiderClosing or a cancellation, and stores
        nothing, if the spider closes meanwhile. After any other error robots.txt counts as
        unreachable.
        """
        known = _known(origin, await self._obtain(origin, templates, stale))
        if self._lacks_tdmrep(known):
            known = await self._complete(known, templates)
        return known

    async def robots(self, origin: Origin, templates: FetchTemplates) -> SiteRules:
        """The robots.txt of *origin* alone, as :meth:`learn` returns it, or from memory. That is enough
        to judge a request of this package: sites could redirect their tdmrep.json in a circle.
        """
        file = self._fresh(origin) or await self._obtain(origin, templates)
        return _known(origin, file)

    # tdmrep.json.

    def _lacks_tdmrep(self, known: SiteRules) -> bool:
        """Whether the tdmrep.json of an origin has to be asked for."""
        if not self._needs_tdmrep or known.entry.has_tdmrep:
            return False
        if known.state is State.UNREACHABLE:
            return False
        return self._may_fetch(known.robots, tdmrep_url(known.origin))

    async def _complete(self, known: SiteRules, templates: FetchTemplates) -> SiteRules:
        """Ask for the tdmrep.json of an origin, and keep it with its robots.txt. Calls for the same
        origin share one fetch.
        """
        origin, url = known.origin, tdmrep_url(known.origin)
        async with held(self._locks.setdefault(url, DeferredLock())):
            file = self._memory.get(origin)
            if file is None or not file.entry.has_tdmrep:
                result = await self._result(url, templates, check=self._check)
                # robots.txt may have been fetched again meanwhile.
                file = self._memory.get(origin)
                before = known.entry if file is None else file.entry
                now = self._now()
                entry = with_tdmrep(before, result, now)
                # The requests that wait may have their turn only after another delay.
                holds = self._delay_of(known.robots) + _JUST_NOW
                entry = replace(entry, expires=max(entry.expires, now + holds))
                if result.is_of_server:
                    self._put(origin, entry)
                learned = self._monotonic() if file is None else file.learned
                file = self._memory.put(origin, entry, learned)
                self._report_tdmrep(result, file)
            # robots.txt may have expired meanwhile, but the waiting requests still use it.
            file.arrived = self._now()
        return _known(origin, file)

    # robots.txt.

    def _parse(self, entry: CacheEntry) -> Parsed:
        robots, result = robots_of(entry, self._settings.dialect), entry.tdmrep
        if not self._needs_tdmrep or result is None:
            return robots, None
        # A server without the file does not implement the protocol (TDMRep, "TDM File on
        # the Origin Server").
        is_read = result.access is Access.SUCCESSFUL
        return robots, TdmRep.parse(result.body if is_read else b"[]")

    def _fresh(self, origin: Origin) -> File | None:
        """The file of *origin*, if it is in memory and fresh, or has just arrived."""
        file, now = self._memory.get(origin), self._now()
        if file is None:
            return None
        has_just_arrived = 0.0 <= now - file.arrived < _JUST_NOW
        return file if has_just_arrived or file.entry.is_fresh(now) else None

    async def _obtain(
        self, origin: Origin, templates: FetchTemplates, stale: CacheEntry | None = None
    ) -> File:
        """The file of *origin*, from the store or its server. Calls for the same file share one
        fetch, which is reported once.

        Raises SpiderClosing or a cancellation if the spider closes meanwhile, and a
        cancellation if no request waits any more. After any other error the file counts as
        unreachable.
        """
        before = self._memory.get(origin)
        async with held(self._locks.setdefault(origin.robotstxt_url, DeferredLock())):
            file = self._memory.get(origin)
            if file is not None and (before is None or file.entry != before.entry):
                return file
            known = None if file is None else file.entry

            def serves(entry: CacheEntry) -> bool:
                is_wrong = stale is not None and entry.fetched <= stale.fetched
                return entry.is_fresh(self._now()) and not is_wrong

            stored = None if self._store is None else await self._store.get(origin)
            # In memory may be a later failure, which no store keeps.
            if stored and (known is None or stored.fetched > known.fetched):
                known = stored
            is_new = known is None or not serves(known)
            if known is None or is_new:
                found = await self._fetch(origin, templates, known)
            else:
                found = self._keep(origin, known)
        if found is not file:
            await self._learned(_known(origin, found), templates[0], is_new)
        return found

    async def _fetch(
        self, origin: Origin, templates: FetchTemplates, known: CacheEntry | None
    ) -> File:
        result = await self._result(origin.robotstxt_url, templates)
        entry = self._renewed(origin, result, known)
        self._put(origin, entry)
        return self._keep(origin, entry)

    def _put(self, origin: Origin, entry: CacheEntry) -> None:
        """Store *entry* if a server has answered. A failure may be one of this crawler alone, and must
        not keep others from asking for themselves.
        """
        if self._store is not None and entry.result.is_of_server:
            self._store.put(origin, entry)

    async def _result(
        self, url: str, templates: FetchTemplates, check: Check | None = None
    ) -> AccessResult:
        """The result of fetching a file. Raises SpiderClosing or a cancellation if the spider closes
        meanwhile, and a cancellation if no request waits any more.
        """
        try:
            return await self._fetcher.fetch(url, templates, check=check)
        except SpiderClosing:
            raise
        except (CancelledError, asyncio.CancelledError):
            if is_closing(self._crawler) or not templates:
                raise
            # Another component cancelled the fetch. The waiting requests must continue.
            error = "cancelled"
        except Exception as exception:
            self._logger.exception(
                "%(url)s counts as unreachable and will be fetched again later: an error "
                "in this crawler, not of the site, interrupted its fetch",
                url=url,
            )
            error = in_words(exception)
        return AccessResult(url=url, status=None, error=error)

    def _renewed(
        self, origin: Origin, result: AccessResult, before: CacheEntry | None
    ) -> CacheEntry:
        file, elapsed = self._memory.get(origin), 0.0
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
        if entry.state(dialect) is State.UNREACHABLE:
            return entry  # Requests wait until it is back.
        # A file that ends before a request has its turn, after a delay, would be fetched again and
        # again, and the request would never be sent.
        holds = 0.0
        if result.access is Access.UNREACHABLE:
            holds = bounds.min_age
        elif entry.expires < entry.fetched + self._settings.crawl_delay_max:
            holds = self._delay_of(robots_of(entry, dialect)) + _JUST_NOW
        return replace(entry, expires=max(entry.expires, entry.fetched + holds))

    def _keep(self, origin: Origin, entry: CacheEntry) -> File:
        file = self._memory.get(origin)
        if file is None or file.entry.fetched != entry.fetched:
            file = self._memory.put(origin, entry, self._monotonic())
        return file

    def _report_tdmrep(self, result: AccessResult, file: File) -> None:
        self._crawler.stats.inc_value(stats.TDMREP.format(access=result.access))
        is_broken = (
            result.access is Access.SUCCESSFUL
            and file.tdmrep is not None
            and not file.tdmrep.is_valid
        )
        self._logger.debug(
            "%(url)s is %(access)s (%(result)s)%(finding)s",
            url=result.url,
            access=result.access,
            result=result,
            finding=", not an array of rules" if is_broken else "",
        )


def tdmrep_url(origin: Origin) -> str:
    """The URL of the tdmrep.json of *origin*."""
    return origin.url(PATH)


def _known(origin: Origin, file: File) -> SiteRules:
    return SiteRules(origin, file.entry, file.robots, file.tdmrep)
