"""What is known of each robots.txt: in memory, in a store, or from its server."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING, NamedTuple

from twisted.internet.defer import CancelledError

from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.internals import is_closing
from scrapy_rep.protocol.access import AccessResult, Entry, renew, robots_of
from scrapy_rep.protocol.robotstxt import RobotsTxt  # noqa: TC001  a field's type
from scrapy_rep.stores.lru import LRU

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.fetching.causes import Causes
    from scrapy_rep.fetching.fetcher import RobotsTxtFetcher
    from scrapy_rep.keeper import Keeper
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.settings import RepSettings

logger = logging.getLogger(__name__)

# What is read and indexed already. More than that is in the store, as it was sent.
_MAX_IN_USE = 5_000
_MAX_BYTES_IN_USE = 64 * 1024 * 1024

# In seconds.
_JUST_NOW = 1.0


class Known(NamedTuple):
    """What is known of the robots.txt of an origin."""

    origin: Origin
    entry: Entry
    robots: RobotsTxt

    @property
    def is_out_of_reach(self) -> bool:
        """Whether nothing may be fetched because robots.txt is unreachable."""
        return self.entry.unreachable_since is not None and self.robots.denies_all


class RobotsTxtCache:
    """What is known of each origin, as long as that holds.

    *now* tells the seconds since the epoch.
    """

    def __init__(
        self,
        crawler: Crawler,
        fetcher: RobotsTxtFetcher,
        keeper: Keeper,
        settings: RepSettings,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._crawler = crawler
        self._fetcher = fetcher
        self._keeper = keeper
        self._settings = settings
        self._now = now
        self._in_use: LRU[tuple[Known, int]] = LRU(_MAX_IN_USE, _MAX_BYTES_IN_USE)

    def at_hand(self, origin: Origin) -> Known | None:
        """What is known of *origin* without a disk or a network, if it is fresh."""
        now = self._now()
        found = self._in_use.get(origin)
        if found is not None:
            known = found[0]
        else:
            entry = self._keeper.at_hand(origin, now)
            if entry is None:
                return None
            known = self._use(origin, entry)
        entry = known.entry
        # One that has run out as it came is good for those who have waited for it.
        has_just_come = 0.0 <= now - entry.fetched < _JUST_NOW
        return known if has_just_come or entry.is_fresh(now) else None

    def weigh(self, known: Known) -> None:
        """Take into account what was built from a robots.txt since it came.

        The rules are put in order when they are first asked about, which can take many
        times the memory of the text.
        """
        found = self._in_use.get(known.origin)
        weight = known.robots.weight
        if found is not None and found[0] is known and found[1] != weight:
            self._in_use.put(known.origin, (known, weight), weight)

    def cause_of(self, request: Request) -> Request:
        """What is to be remembered of *request* until its robots.txt is fetched."""
        return self._fetcher.cause_of(request)

    async def learn(
        self, origin: Origin, causes: Causes, *, anew: bool = False
    ) -> tuple[Known, bool]:
        """What is known of *origin* now, from the store or its server, and whether it has
        just been fetched.

        *causes* are requests that wait for it; see :meth:`cause_of`. With *anew* it is
        fetched although what is known holds. Raises SpiderClosing, or a cancellation, where the
        spider closes meanwhile; then nothing is stored. Whatever else raises on the way
        makes robots.txt unreachable.
        """
        try:
            entry, is_new = await self._learn(origin, causes, anew=anew)
            return self._use(origin, entry), is_new
        except SpiderClosing:
            raise
        except (CancelledError, asyncio.CancelledError):
            if is_closing(self._crawler):
                raise
            # Not by us: those who wait must not wait for ever.
            entry = self._renewed(origin, self._failed(origin, "cancelled"), None)
            return self._use(origin, entry), True
        except Exception as exception:
            logger.exception(
                "%(url)s counts as unreachable, since something went wrong inside of "
                "this crawler while it was fetched or stored",
                {"url": origin.robotstxt_url},
                extra={"spider": self._crawler.spider},
            )
            error = f"{type(exception).__name__}: {exception}"
            entry = self._renewed(origin, self._failed(origin, error), None)
            return self._use(origin, entry), True

    async def _learn(
        self, origin: Origin, causes: Causes, *, anew: bool
    ) -> tuple[Entry, bool]:
        kept = await self._keeper.get(origin)
        if kept is not None and kept.is_fresh(self._now()):
            return kept, False
        if not self._keeper.is_shared:
            # Nobody else can be fetching it: there is nothing to lock.
            result = await self._fetcher.fetch(origin.robotstxt_url, causes)
            entry = self._renewed(origin, result, kept)
            await self._keeper.put(origin, entry)
            return entry, True
        brought = await self._keeper.entry_or_lock(origin, kept)
        if brought is not None:
            return brought, False
        try:
            with self._keeper.renewing(origin):
                result = await self._fetcher.fetch(origin.robotstxt_url, causes)
            entry = self._renewed(origin, result, kept)
            await self._keeper.put(origin, entry)
        finally:
            await self._keeper.unlock(origin)
        return entry, True

    def _renewed(
        self, origin: Origin, result: AccessResult, kept: Entry | None
    ) -> Entry:
        if kept is None:
            in_use = self._in_use.get(origin)
            kept = in_use[0].entry if in_use else None
        return renew(
            result,
            kept,
            dialect=self._settings.dialect,
            bounds=self._settings.bounds,
            now=self._now(),
            jitter=random.random(),  # noqa: S311
        )

    def _use(self, origin: Origin, entry: Entry) -> Known:
        known = Known(origin, entry, robots_of(entry, self._settings.dialect))
        weight = known.robots.weight
        self._in_use.put(origin, (known, weight), weight)
        return known

    def _failed(self, origin: Origin, error: str) -> AccessResult:
        return AccessResult(url=origin.robotstxt_url, status=None, error=error)
