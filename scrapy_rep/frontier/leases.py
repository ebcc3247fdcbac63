"""Of the workers of one crawl, one at a time may ask a host that wants a delay."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Protocol

from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.log import get_logger

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_rep.fetching.storeclient import StoreClient

logger = get_logger(__name__)

# Seconds, in addition to the delay, after which the lease of a worker that has died is
# free for others. One that lives renews it more often.
_HOLDS = 5.0

# Seconds. The clocks of stores tick in milliseconds.
_TICK = 0.005

# In seconds: how soon one asks again for a lease that another worker has. A part of the
# delay, so that little of it is lost.
_PART_OF_DELAY = 1 / 8
_MIN_PAUSE = 0.05
_MAX_PAUSE = 2.0


class TurnLeases(Protocol):
    """What makes the workers of a crawl take turns at a host."""

    are_shared: bool
    """Whether there may be other workers."""

    def has_turn(self, request: Request) -> bool:
        """Whether *request* got the turn of its host when it was popped."""

    async def acquire(self, host: str, delay: float) -> bool:
        """Whether this worker has the turn at *host* now, until it is released."""

    def renew(self, host: str, delay: float) -> None:
        """Keep the turn, if there is one: the request takes its time."""

    def release(self, host: str, delay: float) -> None:
        """Let another worker have the turn at *host* after *delay* seconds."""


def pause_of(delay: float) -> float:
    """In how many seconds to ask again for a turn that another worker has."""
    return min(max(delay * _PART_OF_DELAY, _MIN_PAUSE), _MAX_PAUSE)


class Leases:
    """Leases of hosts, kept as locks of the store that the workers share.

    A lease is taken in one atomic step, and runs out by itself: while a request is on its
    way if its worker dies, since only one that lives renews it, and one delay after the
    request is done. It is for the name of a host, the same for all workers. What the
    clocks of the workers say does not matter, nor how long their requests take.
    """

    def __init__(self, store_client: StoreClient, *, shared: bool) -> None:
        self._store_client = store_client
        self.are_shared = shared
        """Whether there may be other workers."""

        self._leases: dict[str, _Lease] = {}

    def has_turn(self, request: Request) -> bool:
        """The queues in the memory of a worker take turns with it, not with others."""
        return False

    async def acquire(self, host: str, delay: float) -> bool:
        """Whether this worker has the lease of *host* now, until it is released."""
        # A name for each time: whoever has had a lease is no better placed for the next.
        lease = _Lease()
        try:
            if not await self._store_client.reserve(host, lease.name, delay + _HOLDS):
                return False
        except Exception:
            logger.exception(
                "Error while other workers were asked for the turn at %(host)s; its delay "
                "is kept by this worker alone",
                {"host": host},
            )
        self._leases[host] = lease
        return True

    def renew(self, host: str, delay: float) -> None:
        """Keep the lease, if there is one: the request takes its time."""
        lease = self._leases.get(host)
        if lease is not None and not lease.is_renewed:
            deferred_from_coro(self._renew(host, lease, delay + _HOLDS))

    def release(self, host: str, delay: float) -> None:
        """Let another worker have the lease of *host*, if this one does, after *delay*
        seconds.
        """
        lease = self._leases.pop(host, None)
        if lease is None:
            return
        lease.free_after = delay + _TICK if delay else 0.0
        if not lease.is_renewed:
            # Nothing waits for it, and a store that fails is said elsewhere.
            deferred_from_coro(
                self._store_client.vacate(host, lease.name, lease.free_after)
            )

    async def _renew(self, host: str, lease: _Lease, seconds: float) -> None:
        lease.is_renewed = True
        await self._store_client.reserve(host, lease.name, seconds)
        lease.is_renewed = False
        if lease.free_after is not None:  # The request was done meanwhile.
            await self._store_client.vacate(host, lease.name, lease.free_after)


class _Lease:
    """What a worker has of a host, for one request."""

    __slots__ = ("free_after", "is_renewed", "name")

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self.is_renewed = False
        """Whether the store is just being asked to keep it."""

        self.free_after: float | None = None
        """The seconds after which another may have it, once the request is done."""
