"""The cache of robots.txt files and of the tdmrep.json files that are fetched with them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.fetching.files import FileCache
from scrapy_rep.fetching.request import cause_of
from scrapy_rep.fetching.tdmrep import TdmRepCache, url_of
from scrapy_rep.protocol.access.results import Entry, State, robots_of
from scrapy_rep.protocol.origins import Origin  # noqa: TC001  a field's type
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.usage.tdmrep import TdmRep  # noqa: TC001  a field's type
from scrapy_rep.protocol.usage.vocabulary import is_about_mining

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.fetching.fetcher import RobotsOf, RobotsTxtFetcher
    from scrapy_rep.fetching.request import Causes
    from scrapy_rep.fetching.storeclient import StoreClient
    from scrapy_rep.settings import RepSettings


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


class RobotsTxtCache(FileCache[RobotsTxt]):
    """The robots.txt of each origin, while it is fresh.

    If TDMRep has a label for a purpose of the crawl, an origin counts as known only when
    its tdmrep.json is known too. The cache fetches that file if *may_fetch* says that
    robots.txt allows it. *robots_of* finds what judges the requests for it, also after
    redirects; it calls :meth:`robots`.
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
        may_fetch: Callable[[RobotsTxt, str], bool],
        robots_of: RobotsOf,
    ) -> None:
        common = crawler, fetcher, store_client, settings
        super().__init__(*common, now=now, monotonic=monotonic)
        self._tdmrep = TdmRepCache(
            *common, now=now, monotonic=monotonic, robots_of=robots_of
        )
        self._may_fetch = may_fetch
        self._needs_tdmrep = any(map(is_about_mining, settings.purposes))

    def cached(self, origin: Origin) -> Known | None:
        """The files of *origin*, if they are in memory and fresh."""
        cached = self._cached(origin)
        if cached is None:
            return None
        known = Known(origin, cached.entry, cached.parsed)
        if not self._needs_tdmrep or known.state is State.UNREACHABLE:
            return known
        tdmrep = self._tdmrep.cached(origin)
        if tdmrep is None and self._may_fetch(known.robots, url_of(origin)):
            return None
        return known._replace(tdmrep=tdmrep)

    def update_weight(self, known: Known) -> None:
        """Update the size with which a robots.txt counts towards the memory limit.

        A robots.txt indexes its rules when they are first used, and the index can take many
        times the memory of the text.
        """
        cached = self._files.get(known.origin)
        weight = known.robots.weight
        if (
            cached is not None
            and cached.parsed is known.robots
            and cached.weight != weight
        ):
            self._put(known.origin, replace(cached, weight=weight))

    def cause_of(self, request: Request) -> Request:
        """The part of *request* that a request for its robots.txt takes over."""
        return cause_of(request, self._settings.request_meta_keys)

    async def learn(
        self, origin: Origin, causes: Causes, *, stale: Entry | None = None
    ) -> tuple[Known, bool]:
        """The files of *origin*, from the store or its server, and whether its robots.txt was
        just fetched.

        *causes* are the requests that wait for it, as :meth:`cause_of` makes them. *stale* is an
        entry that must be fetched again even if it has not expired. Raises SpiderClosing or a
        cancellation, and stores nothing, if the spider closes meanwhile.
        After any other error robots.txt counts as unreachable.
        """
        cached, is_new = await self._obtain(origin, causes, stale)
        known = Known(origin, cached.entry, cached.parsed)
        if self._needs_tdmrep and known.state is not State.UNREACHABLE:
            known = known._replace(tdmrep=await self.tdmrep(known, causes))
            # robots.txt may have expired meanwhile, but the waiting requests still use it.
            self._put(origin, replace(cached, arrived=self._now()))
        return known, is_new

    async def robots(self, origin: Origin, causes: Causes) -> tuple[Known, bool]:
        """The robots.txt of *origin* alone, as :meth:`learn` returns it, or from memory."""
        cached, is_new = self._cached(origin), False
        if cached is None:
            cached, is_new = await self._obtain(origin, causes)
        return Known(origin, cached.entry, cached.parsed), is_new

    def lacks_tdmrep(self, known: Known) -> bool:
        """Whether the tdmrep.json of an origin is not cached, and may be fetched."""
        if self._tdmrep.cached(known.origin) is not None:
            return False
        return self._may_fetch(known.robots, url_of(known.origin))

    async def tdmrep(self, known: Known, causes: Causes) -> TdmRep | None:
        """Return the tdmrep.json of an origin, and fetch it if necessary; None if robots.txt
        forbids that. Raises SpiderClosing or a cancellation if the spider closes meanwhile.
        """
        if not self._may_fetch(known.robots, url_of(known.origin)):
            return None
        return await self._tdmrep.known(known.origin, causes)

    def _parse(self, entry: Entry) -> RobotsTxt:
        return robots_of(entry, self._settings.dialect)
