"""Leases of hosts: one worker at a time may send requests to a host with a delay."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.log import get_logger

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_rep.fetching.storeclient import StoreClient

logger = get_logger(__name__)

# The seconds besides the delay after which the lease of a dead worker expires. A live
# worker renews it more often.
_HOLDS = 5.0

# In seconds. Stores measure time in milliseconds.
_TICK = 0.005

# The pause in seconds before asking again for a lease that another worker has: a part of
# the delay, so that little time is lost.
_PART_OF_DELAY = 1 / 8
_MIN_PAUSE = 0.05
_MAX_PAUSE = 2.0


class TurnLeases(Protocol):
    """The interface of leases, by which the workers of a crawl take turns at a host."""

    are_shared: bool
    """Whether there may be other workers."""

    def has_turn(self, request: Request) -> bool:
        """Whether *request* got the turn of its host when it was popped."""

    async def acquire(self, host: str, delay: float) -> bool:
        """Whether this worker has the turn at *host* now, until it is released."""

    def renew(self, host: str, delay: float) -> None:
        """Keep the turn, if this worker has it, for a request that takes long."""

    def release(self, host: str, delay: float) -> None:
        """Let another worker have the turn at *host* after *delay* seconds."""


def pause_of(delay: float) -> float:
    """The seconds before asking again for a turn that another worker has."""
    return min(max(delay * _PART_OF_DELAY, _MIN_PAUSE), _MAX_PAUSE)


class Leases:
    """Leases of hosts, kept as locks of the store that the workers share.

    A lease is acquired in one atomic step. It is for the name of a host, which is the same
    for all workers. It expires one delay after its request is done, or if its worker dies
    while the request is under way, since only a live worker renews it. Neither the clocks
    of the workers nor the duration of requests matter.
    """

    def __init__(self, store_client: StoreClient, *, shared: bool) -> None:
        self._store_client = store_client
        self.are_shared = shared
        self._leases: dict[str, _Lease] = {}

    def has_turn(self, request: Request) -> bool:
        """Queues in the memory of a worker do not take turns with other workers."""
        return False

    async def acquire(self, host: str, delay: float) -> bool:
        # A new name each time, so that the last holder has no advantage for the next lease.
        lease = _Lease(uuid.uuid4().hex)
        try:
            if not await self._store_client.reserve(host, lease.name, delay + _HOLDS):
                return False
        except Exception:
            logger.exception(
                "Error in acquiring the lease of %(host)s: this worker keeps its delay "
                "without regard to other workers",
                {"host": host},
            )
        self._leases[host] = lease
        return True

    def renew(self, host: str, delay: float) -> None:
        lease = self._leases.get(host)
        if lease is not None and not lease.is_renewed:
            deferred_from_coro(self._renew(host, lease, delay + _HOLDS))

    def release(self, host: str, delay: float) -> None:
        lease = self._leases.pop(host, None)
        if lease is None:
            return
        lease.free_after = delay + _TICK if delay else 0.0
        if not lease.is_renewed:
            # Nothing waits for it, and the store client logs failures.
            deferred_from_coro(
                self._store_client.vacate(host, lease.name, lease.free_after)
            )

    async def _renew(self, host: str, lease: _Lease, seconds: float) -> None:
        lease.is_renewed = True
        await self._store_client.reserve(host, lease.name, seconds)
        lease.is_renewed = False
        if lease.free_after is not None:  # The request was done meanwhile.
            await self._store_client.vacate(host, lease.name, lease.free_after)


@dataclass(slots=True, eq=False)
class _Lease:
    """The lease of a host, for one request."""

    name: str
    is_renewed: bool = False
    """Whether a renewal is under way."""

    free_after: float | None = None
    """The seconds after which it ends, once the request is done."""
