"""What this worker has from the shared queue."""

from __future__ import annotations

import uuid
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scrapy import signals

from scrapy_rep.base.compat import (
    active_requests,
    is_closing,
    requests_in_progress,
    slot_state,
)
from scrapy_rep.crawl.frontier.backlog import Backlog
from scrapy_rep.redis.worker import Lease

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.redis.worker import Worker


class Leases(Backlog):
    """The requests that this worker has taken from the queue. It has one until its callback has
    ended, and its place at its host until it has left the downloader.

    Requests that did not come from a queue, for media and robots.txt, get their places at
    hosts here too. For the frontier, this is the queue.
    """

    is_shared = True

    def __init__(
        self,
        crawler: Crawler,
        worker: Worker,
        closed_unsent: Container[Request],
        on_change: Callable[[], None],
    ) -> None:
        """*closed_unsent* is that of :class:`Turns`; *on_change* is called when there is something to
        report.
        """
        self._crawler = crawler
        self._worker = worker
        self._closed_unsent = closed_unsent
        self._on_change = on_change

        left = signals.request_left_downloader
        crawler.signals.connect(self._left_downloader, left)

    def add(self, request: Request, lease: Lease, slot: str) -> None:
        """Note that *request* was popped, which goes to a download slot."""
        lease.slot, lease.pushed = slot, self._worker.pushed
        self._worker.popped[request] = lease

    # For the frontier.

    def count_waiting(self) -> None:
        """Return None: only Redis knows how many requests wait."""

    def paused(self, host: str, seconds: float, own: float) -> None:
        """Tell the other workers at once that *host* has asked for a pause."""
        self._worker.report_pause(host, seconds, own)

    def recovered(self, request: Request) -> None:
        """Note that a host has answered *request* after a pause, without asking for another."""
        own = self._worker.popped.get(request)
        has_place = own is not None and own.has_place
        lease = own if has_place else self._worker.acquired.get(request)
        if lease is not None:
            lease.succeeded_after = lease.last_pause

    def catch_up(self) -> None:
        """Learn of the pauses that hosts have asked other workers for, unless the last call was just
        now.
        """
        if not self._worker.is_up_to_date:
            self._worker.exchange()

    def has_turn(self, request: Request) -> bool:
        """Whether *request* got its place from the Redis server, and still has it."""
        lease = self._worker.popped.get(request)
        return lease is not None and self._is_held(lease)

    def acquire(self, request: Request, host: str, behind: Collection[Request]) -> bool:
        """Try to get the place at *host* for *request*, unless it has one from the queue, or one of
        the requests *behind* it has. Return True on success.
        """
        if self.has_turn(request):
            return True
        self.settle()
        if any(
            lease.host == host and self._is_held(lease) and other in behind
            for other, lease in self._worker.popped.items()
        ):
            known = self._worker.last_pause
            self._worker.acquired[request] = Lease("", host, last_pause=known)
            return True
        answer = self._worker.exchange(acquire=(uuid.uuid4().hex, host))
        if answer is None:
            return True  # While the server fails, this worker alone keeps the delay.
        if answer.acquired is not None:
            self._worker.acquired[request] = answer.acquired
        return answer.acquired is not None

    def release(self, request: Request, host: str, delay: float, *, sent: bool) -> None:
        """Free the place of *request*, if it has one. A robots.txt that was *sent* without one, or in the
        place of another request, begins the delay of the host too.
        """
        own = self._worker.popped.get(request)
        lease = self._worker.acquired.pop(request, own) or Lease(
            "", host, has_place=sent
        )
        if lease.has_place:
            lease.is_sent |= sent
            self._left(lease, 0.0 if lease is own else delay)
            self._on_change()

    def _is_held(self, lease: Lease) -> bool:
        """Whether this worker still has the place: as far as it knows, its lease has not expired
        since.
        """
        return lease.has_place and self._worker.is_alive and not lease.is_expired

    # The end of requests.

    def _left_downloader(self, request: Request) -> None:
        """Note that *request* was sent, or failed."""
        lease = self._worker.popped.get(request)
        if lease is not None:
            lease.is_sent = True
            self._on_change()

    def settle(self) -> None:
        """Find out which requests have ended, for the next report to the Redis server."""
        active = active_requests(self._crawler)
        in_progress = requests_in_progress(self._crawler)
        for request, lease in list(self._worker.popped.items()):
            if lease.has_place and (lease.is_sent or request not in active):
                self._left(lease)
            # A closing spider may not have sent it, or not what it needs: then it returns to the queue.
            is_unsent = not lease.is_sent and is_closing(self._crawler)
            is_undone = is_unsent or request in self._closed_unsent
            if request not in in_progress and not is_undone:
                del self._worker.popped[request]
                self._worker.report_done(lease)

    # Limits.

    def _left(self, lease: Lease, delay: float = 0.0) -> None:
        gap = self._limits_of(lease.slot)[1] if lease.slot else 0
        is_own = gap != self.limits["gap"]
        self._worker.report_left(lease, gap=gap if is_own else 0, delay=delay)

    @cached_property
    def limits(self) -> dict[str, Any]:
        """The limits in the settings, as an order has them, and as the engine's downloader has read
        them: the engine must exist.
        """
        slots = self._crawler.settings.getdict("DOWNLOAD_SLOTS")
        of_hosts = {slot: self._limits_of(slot) for slot in slots}
        limit, gap = self._limits_of("")
        return {"limit": limit, "gap": gap, "hosts": of_hosts}

    def _limits_of(self, slot: str) -> tuple[int, int]:
        """The concurrency of a download slot, and the milliseconds between its requests."""
        state = slot_state(self._crawler, slot)
        if state is None:
            return 1, 0
        return max(state.concurrency, 1), round(1000 * state.delay)
