"""From an origin to what is known of its robots.txt, and one flight to fetch it."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING, NamedTuple

from scrapy.exceptions import IgnoreRequest
from scrapy.utils.asyncio import create_looping_call
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import CancelledError, Deferred, DeferredSemaphore

from scrapy_rep.internals import is_closing, room_in_downloader
from scrapy_rep.protocol.access import AccessResult, Entry, renew, robots_of
from scrapy_rep.protocol.robotstxt import RobotsTxt  # noqa: TC001  a field's type
from scrapy_rep.stores.lru import LRU

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from twisted.python.failure import Failure

    from scrapy_rep.fetcher import RobotsTxtFetcher
    from scrapy_rep.keeper import Keeper
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.settings import RepSettings

    Landed = Callable[[Origin, "Known", Request, bool], Awaitable[None]]

logger = logging.getLogger(__name__)

# How often, in seconds, it is looked whether the spider is closing, while robots.txt is on
# its way. The requests that wait here are among those that a closing spider waits for.
_CLOSING_LOOK = 0.2

# How many robots.txt files are asked for at once, at least; or twice as many as pages. The
# engine does not count those of hosts whose requests are held.
_FETCHED_AT_ONCE = 16

# What is read and indexed already. More than that is in the store, as it was sent.
_IN_USE_AT_MOST = 5_000
_BYTES_IN_USE_AT_MOST = 32 * 1024 * 1024


class Known(NamedTuple):
    """What is known of the robots.txt of an origin."""

    entry: Entry
    robots: RobotsTxt


class _Flight:
    """A robots.txt on its way, and who waits for it."""

    def __init__(self) -> None:
        self.waiters: list[Deferred[Known]] = []
        self.task: Deferred[None] | None = None


class RobotsTxtRegistry:
    """Keeps what is known of each origin, and fetches what is not, or has run out.

    *landed* is awaited with what each flight has brought, and whether that was fetched
    or came from the store, before those who wait get it;
    *settled* is called when they have.
    """

    def __init__(
        self,
        crawler: Crawler,
        fetcher: RobotsTxtFetcher,
        keeper: Keeper,
        settings: RepSettings,
        *,
        landed: Landed,
        settled: Callable[[Origin, Known], None],
    ) -> None:
        self._crawler = crawler
        self._fetcher = fetcher
        self._keeper = keeper
        self._settings = settings
        self._landed = landed
        self._settled = settled
        self._in_use: LRU[Known] = LRU(_IN_USE_AT_MOST, _BYTES_IN_USE_AT_MOST)
        self._flights: dict[Origin, _Flight] = {}
        at_once = 2 * crawler.settings.getint("CONCURRENT_REQUESTS")
        self._places = DeferredSemaphore(max(at_once, _FETCHED_AT_ONCE))
        self._closing_look = create_looping_call(self._land_if_closing)

    def at_hand(self, origin: Origin) -> Known | None:
        """What is known of *origin*, if it has not run out."""
        now = time.time()
        known = self._in_use.get(origin)
        if known is None:
            entry = self._keeper.at_hand(origin, now)
            if entry is None:
                return None
            known = self._use(origin, entry)
        return known if known.entry.is_fresh(now) else None

    def is_under_way(self, origin: Origin) -> bool:
        return origin in self._flights

    def take_off(self, origin: Origin, request: Request) -> None:
        """Fetch what *request* needs to know, unless that is under way already.

        On its own, not as a part of the request, which can be cancelled while others
        wait for the same.
        """
        if origin in self._flights:
            return
        flight = self._flights[origin] = _Flight()
        flight.task = deferred_from_coro(self._fly(origin, flight, request))
        flight.task.addErrback(self._log_failure)
        if self._flights and not self._closing_look.running:
            self._closing_look.start(_CLOSING_LOOK, now=False)

    async def wait(self, origin: Origin, request: Request) -> Known:
        """What is known of *origin*, once it is known.

        However many ask at once, it is fetched once, and each of them gets it. Raises
        IgnoreRequest where the spider closes meanwhile.
        """
        self.take_off(origin, request)
        flight = self._flights.get(origin)
        if flight is None:  # it has landed at once
            known = self.at_hand(origin)
            if known is not None:
                return known
            raise IgnoreRequest(f"{origin.robotstxt_url} can't be waited for")
        # A Deferred for each: one that many await gives its result to the first alone.
        waiter: Deferred[Known] = Deferred()
        flight.waiters.append(waiter)
        with room_in_downloader(self._crawler):
            return await maybe_deferred_to_future(waiter)

    async def _fly(self, origin: Origin, flight: _Flight, request: Request) -> None:
        known = None
        try:
            await maybe_deferred_to_future(self._places.acquire())
            try:
                # What is slow to come takes no place from pages.
                with room_in_downloader(self._crawler):
                    entry, is_new = await self._learn(origin, request)
            finally:
                self._places.release()
            known = self._use(origin, entry)
            await self._landed(origin, known, request, is_new)
        finally:
            # Also where the flight is cancelled: nobody must be left waiting.
            del self._flights[origin]
            if not self._flights and self._closing_look.running:
                self._closing_look.stop()
            self._free(origin, flight.waiters, known)
            if known is not None:
                self._settled(origin, known)

    def _free(
        self, origin: Origin, waiters: list[Deferred[Known]], known: Known | None
    ) -> None:
        for waiter in waiters:
            if waiter.called:  # it was cancelled
                continue
            if known is not None:
                waiter.callback(known)
            else:
                reason = f"{origin.robotstxt_url} is no longer waited for"
                waiter.errback(IgnoreRequest(reason))

    async def _learn(self, origin: Origin, request: Request) -> tuple[Entry, bool]:
        """What is known now, and whether that has just been fetched."""
        kept = await self._keeper.get(origin)
        if kept is not None and kept.is_fresh(time.time()):
            return kept, False
        brought = await self._keeper.entry_or_lock(origin, kept)
        if brought is not None:
            return brought, False
        try:
            with self._keeper.renewing(origin):
                result = await self._fetch(origin, request)
            in_use = self._in_use.get(origin)
            entry = renew(
                result,
                kept or (in_use.entry if in_use else None),
                dialect=self._settings.dialect,
                bounds=self._settings.bounds,
                now=time.time(),
                jitter=random.random(),  # noqa: S311
            )
            await self._keeper.put(origin, entry)
        finally:
            await self._keeper.unlock(origin)
        return entry, True

    def _use(self, origin: Origin, entry: Entry) -> Known:
        known = Known(entry, robots_of(entry, self._settings.dialect))
        self._in_use.put(origin, known, len(entry.result.body) + 1)
        return known

    async def _fetch(self, origin: Origin, request: Request) -> AccessResult:
        url = origin.robotstxt_url
        try:
            return await self._fetcher.fetch(url, request)
        except (CancelledError, asyncio.CancelledError):
            if is_closing(self._crawler):
                raise
            # Not by us: those who wait must not wait for ever.
            return AccessResult(url=url, status=None, error="cancelled")
        except Exception as exception:
            logger.exception(
                "Error while fetching %(url)s",
                {"url": url},
                extra={"spider": self._crawler.spider},
            )
            return AccessResult(url=url, status=None, error=str(exception))

    def _log_failure(self, failure: Failure) -> None:
        # Those who wait are free all the same; what broke must not go unseen.
        if failure.check(CancelledError, asyncio.CancelledError) is None:
            logger.error(
                "Error after fetching robots.txt",
                exc_info=(failure.type, failure.value, failure.getTracebackObject()),  # type: ignore[arg-type]
                extra={"spider": self._crawler.spider},
            )

    def _land_if_closing(self) -> None:
        if is_closing(self._crawler):
            for flight in list(self._flights.values()):
                if flight.task is not None:
                    flight.task.cancel()
