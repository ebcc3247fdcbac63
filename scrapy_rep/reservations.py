"""Of the workers of one crawl, one at a time may ask a host that wants a delay."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from scrapy.utils.defer import deferred_from_coro

if TYPE_CHECKING:
    from scrapy_rep.keeper import Keeper

# Seconds, in addition to the delay, after which the place of a worker that has died is
# free for others. One that lives renews it more often.
_HOLDS = 5.0

# Seconds. The clocks of stores tick in milliseconds.
_TICK = 0.005

# In seconds: how soon one asks again for a place that another worker has. A part of the
# delay, so that little of it is lost.
_PART_OF_DELAY = 1 / 8
_PAUSE_AT_LEAST = 0.05
_PAUSE_AT_MOST = 2.0


class Reservations:
    """Places at hosts, kept as locks of the store that the workers share.

    A place is taken in one atomic step, and runs out by itself: while a request is on its
    way if its worker dies, since only one that lives renews it, and one delay after the
    request is done. It is that of a host, a name that all workers have for it. What the clocks of
    the workers say does not matter, nor how long their requests take to the host.
    """

    def __init__(self, keeper: Keeper, *, shared: bool) -> None:
        self._keeper = keeper
        self._shared = shared
        self._places: dict[str, _Place] = {}

    async def reserve(self, host: str, delay: float) -> bool:
        """Whether the place at *host* is this worker's, until it leaves."""
        if not self._shared or not delay:
            return True
        # A name for each time: whoever has had a place is no better placed for the next.
        place = self._places.setdefault(host, _Place())
        return await self._keeper.reserve(host, place.name, delay + _HOLDS)

    def renew(self, host: str, delay: float) -> None:
        """Keep the place, if there is one: the request takes its time."""
        place = self._places.get(host)
        if place is not None and not place.is_renewed:
            deferred_from_coro(self._renew(host, place, delay + _HOLDS))

    def has(self, host: str) -> bool:
        return host in self._places

    def leave(self, host: str, delay: float) -> None:
        """Let another have the place at *host* after *delay* seconds."""
        place = self._places.pop(host, None)
        if place is None:
            return
        place.free_after = delay + _TICK if delay else 0.0
        if not place.is_renewed:
            # Nothing waits for it, and a store that fails is said elsewhere.
            deferred_from_coro(self._keeper.vacate(host, place.name, place.free_after))

    async def _renew(self, host: str, place: _Place, seconds: float) -> None:
        place.is_renewed = True
        await self._keeper.reserve(host, place.name, seconds)
        place.is_renewed = False
        if place.free_after is not None:  # The request was done meanwhile.
            await self._keeper.vacate(host, place.name, place.free_after)

    def pause(self, delay: float) -> float:
        """In how many seconds to ask again."""
        return min(max(delay * _PART_OF_DELAY, _PAUSE_AT_LEAST), _PAUSE_AT_MOST)


class _Place:
    """What a worker has at a host, for one request."""

    __slots__ = ("free_after", "is_renewed", "name")

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self.is_renewed = False
        """Whether the store is just being asked to keep it."""

        self.free_after: float | None = None
        """The seconds after which another may have it, once the request is done."""
