"""Turns at hosts for requests that no queue has handed out: of media, and for robots.txt."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy import Request

    from scrapy_rep.frontier.redis.custody import Custody
    from scrapy_rep.frontier.redis.worker import Worker


class QueueTurns:
    """The places at hosts that the queue gives to its own requests as well, in place of
    :class:`~scrapy_rep.frontier.leases.Leases`.
    """

    are_shared = True

    def __init__(self, worker: Worker, custody: Custody) -> None:
        self._worker = worker
        self._custody = custody
        self._numbers: dict[str, str] = {}

    def has_turn(self, request: Request) -> bool:
        """Whether *request* got the turn of its host when it was popped."""
        return self._custody.has_turn(request)

    @property
    def numbers(self) -> Collection[str]:
        """Those of the places that this worker has."""
        return self._numbers.values()

    async def acquire(self, host: str, delay: float) -> bool:
        """Whether *host* may be asked now."""
        if self._custody.has_place(host):
            # What has it can't go before its robots.txt is known, and then waits for the
            # delay after that.
            return True
        number = uuid.uuid4().hex
        found = self._worker.acquire(number, host)
        if found:
            self._numbers[host] = number
        # Where nobody can be asked, the delay is kept by this worker alone.
        return found is not False

    def renew(self, host: str, delay: float) -> None:
        """It holds for as long as this worker lives."""

    def release(self, host: str, delay: float) -> None:
        """Let *host* be asked by others after *delay* seconds."""
        number = self._numbers.pop(host, None)
        if number is not None:
            self._worker.release(number, host, delay)
