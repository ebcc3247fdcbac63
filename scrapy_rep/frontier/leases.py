"""Leases of hosts: one worker at a time may send a request to a host with a delay."""

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

# The seconds, added to the delay, after which the lease of a dead worker expires. A live
# worker renews its lease more often.
_MARGIN = 5.0

# Added to each delay, in seconds: stores round times to milliseconds.
_TICK = 0.005

# The pause before the next attempt to acquire a lease that another worker has: a fraction
# of the delay, within these limits in seconds.
_PART_OF_DELAY = 1 / 8
_MIN_PAUSE = 0.05
_MAX_PAUSE = 2.0


class TurnLeases(Protocol):
    """The interface of leases, by which the workers of a crawl take turns at a host."""

    are_shared: bool
    """Whether there may be other workers."""

    def has_turn(self, request: Request) -> bool:
        """Whether *request* got the turn at its host when it was popped, and still has it."""

    async def acquire(self, host: str, delay: float) -> bool:
        """Try to get the turn at *host* until it is released. Return True on success."""

    def renew(self, host: str, delay: float) -> None:
        """Extend the lease of *host*, if this worker has it, for a slow request."""

    def release(self, host: str, delay: float) -> None:
        """Let another worker have the turn at *host* after *delay* seconds."""


def pause_of(delay: float) -> float:
    """Return the seconds to wait before the next attempt to acquire a lease."""
    return min(max(delay * _PART_OF_DELAY, _MIN_PAUSE), _MAX_PAUSE)


class Leases:
    """Leases of hosts, as locks in the store that the workers share.

    A worker acquires a lease in one atomic step, by the name of the host, which is the same
    for all workers. The lease expires one delay after its request is done. It also expires
    if its worker dies during the request, since only a live worker renews it. Leases depend
    neither on the clocks of the workers nor on the duration of requests.
    """

    def __init__(self, store_client: StoreClient, *, shared: bool) -> None:
        self._store_client = store_client
        self.are_shared = shared
        self._leases: dict[str, _Lease] = {}

    def has_turn(self, request: Request) -> bool:
        """Return False: only the queue in Redis gives the turn to a request as it pops it."""
        return False

    async def acquire(self, host: str, delay: float) -> bool:
        # A new name: under the old one, the last holder could acquire the lease too early.
        lease = _Lease(uuid.uuid4().hex)
        try:
            if not await self._store_client.reserve(host, lease.name, delay + _MARGIN):
                return False
        except Exception:
            logger.exception(
                "Error while acquiring the lease of %(host)s: this worker obeys the delay "
                "of the host without coordinating with other workers",
                {"host": host},
            )
        self._leases[host] = lease
        return True

    def renew(self, host: str, delay: float) -> None:
        lease = self._leases.get(host)
        if lease is not None and not lease.is_renewing:
            deferred_from_coro(self._renew(host, lease, delay + _MARGIN))

    def release(self, host: str, delay: float) -> None:
        lease = self._leases.pop(host, None)
        if lease is None:
            return
        lease.free_after = delay + _TICK if delay else 0.0
        if not lease.is_renewing:
            # Not awaited: the store client logs failures.
            deferred_from_coro(
                self._store_client.vacate(host, lease.name, lease.free_after)
            )

    async def _renew(self, host: str, lease: _Lease, seconds: float) -> None:
        lease.is_renewing = True
        await self._store_client.reserve(host, lease.name, seconds)
        lease.is_renewing = False
        if lease.free_after is not None:  # release() was called meanwhile.
            await self._store_client.vacate(host, lease.name, lease.free_after)


@dataclass(slots=True, eq=False)
class _Lease:
    """The lease of a host, for one request."""

    name: str
    is_renewing: bool = False
    """Whether a renewal is in flight."""

    free_after: float | None = None
    """The seconds from the end of the request to the end of the lease; None before."""
