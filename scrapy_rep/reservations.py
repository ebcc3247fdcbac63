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
        self._places: dict[str, str] = {}

    async def reserve(self, host: str, delay: float) -> bool:
        """Whether the place at *host* is this worker's, until it leaves."""
        if not self._shared or not delay:
            return True
        # A name for each time: whoever has had a place is no better placed for the next.
        place = self._places.setdefault(host, uuid.uuid4().hex)
        return await self._keeper.reserve(host, place, delay + _HOLDS)

    def renew(self, host: str, delay: float) -> None:
        """Keep the place, if there is one: the request takes its time."""
        place = self._places.get(host)
        if place is not None:
            deferred_from_coro(self._keeper.reserve(host, place, delay + _HOLDS))

    def has(self, host: str) -> bool:
        return host in self._places

    def leave(self, host: str, delay: float) -> None:
        """Let another have the place at *host* after *delay* seconds."""
        place = self._places.pop(host, None)
        if place is not None:
            # Nothing waits for it, and a store that fails is said elsewhere.
            after = delay + _TICK if delay else 0.0
            deferred_from_coro(self._keeper.vacate(host, place, after))

    def pause(self, delay: float) -> float:
        """In how many seconds to ask again."""
        return min(max(delay * _PART_OF_DELAY, _PAUSE_AT_LEAST), _PAUSE_AT_MOST)
