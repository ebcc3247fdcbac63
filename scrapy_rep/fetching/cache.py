"""The cache of robots.txt files, and of the tdmrep.json files that are fetched with them."""

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

    from scrapy_rep.fetching.fetcher import RobotsTxtFetcher
    from scrapy_rep.fetching.request import Causes
    from scrapy_rep.fetching.storeclient import StoreClient
    from scrapy_rep.settings import RepSettings


class Known(NamedTuple):
    """What is known of the robots.txt of an origin."""

    origin: Origin
    entry: Entry
    robots: RobotsTxt

    tdmrep: TdmRep | None = None
    """Its tdmrep.json, where a purpose needs it."""

    @property
    def state(self) -> State:
        """What a crawler keeps to of the robots.txt."""
        return self.entry.state(self.robots.dialect)


class RobotsTxtCache(FileCache[RobotsTxt]):
    """What is known of the robots.txt of each origin, while it is fresh.

    Where TDMRep has a label for a purpose of the crawl, an origin counts as known when its
    tdmrep.json is known too. That is fetched if robots.txt allows it, by *may_fetch*.
    """

    def __init__(
        self,
        crawler: Crawler,
        fetcher: RobotsTxtFetcher,
        store_client: StoreClient,
        settings: RepSettings,
        now: Callable[[], float],
        *,
        may_fetch: Callable[[RobotsTxt, str], bool],
    ) -> None:
        common = crawler, fetcher, store_client, settings, now
        super().__init__(*common)
        self._tdmrep = TdmRepCache(*common)
        self._needs_tdmrep = any(map(is_about_mining, settings.purposes))
        self._may_fetch = may_fetch

    def at_hand(self, origin: Origin) -> Known | None:
        """What is known of *origin* in memory, if it is fresh."""
        cached = self._cached(origin)
        if cached is None:
            return None
        known = Known(origin, cached.entry, cached.parsed)
        if not self._needs_tdmrep or known.state is State.UNREACHABLE:
            return known
        tdmrep = self._tdmrep.at_hand(origin)
        if tdmrep is None and self._may_fetch(known.robots, url_of(origin)):
            return None
        return known._replace(tdmrep=tdmrep)

    def update_weight(self, known: Known) -> None:
        """Update the memory that a robots.txt counts with.

        Rules are indexed when they are first used, and the index can take many times the
        memory of the text.
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
        """The part of *request* that is remembered until its robots.txt is fetched."""
        return cause_of(request, self._settings.request_meta_keys)

    async def learn(self, origin: Origin, causes: Causes) -> tuple[Known, bool]:
        """What is known of *origin*, from the store or its server, and whether it was just
        fetched.

        *causes* are requests that wait for it; see :meth:`cause_of`. Raises SpiderClosing, or a cancellation, where the
        spider closes meanwhile; then nothing is stored. After any other error robots.txt
        counts as unreachable.
        """
        cached, is_new = await self._obtain(origin, causes)
        known = Known(origin, cached.entry, cached.parsed)
        if self._needs_tdmrep and known.state is not State.UNREACHABLE:
            known = known._replace(tdmrep=await self.tdmrep(known, causes))
            # It may have expired meanwhile, and is still used for the requests that waited.
            self._put(origin, replace(cached, arrived=self._now()))
        return known, is_new

    def lacks_tdmrep(self, known: Known) -> bool:
        """Whether the tdmrep.json of an origin has yet to come."""
        if self._tdmrep.at_hand(known.origin) is not None:
            return False
        return self._may_fetch(known.robots, url_of(known.origin))

    async def tdmrep(self, known: Known, causes: Causes) -> TdmRep | None:
        """The tdmrep.json of an origin, once it is known; None where it must not be
        fetched. Raises SpiderClosing, or a cancellation.
        """
        if not self._may_fetch(known.robots, url_of(known.origin)):
            return None
        return await self._tdmrep.known(known.origin, causes)

    def _parse(self, entry: Entry) -> RobotsTxt:
        return robots_of(entry, self._settings.dialect)
