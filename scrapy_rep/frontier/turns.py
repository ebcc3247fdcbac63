"""Turns: requests to a host with a delay are sent one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import Request, signals
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep.compat.internals import active_requests, wake
from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.fetching.request import RobotsTxtRequest
from scrapy_rep.frontier.backqueue import BackQueue
from scrapy_rep.frontier.delays import DelayGroup, DelayGroups, log_delay
from scrapy_rep.frontier.hostkeys import delay_keys, host_of
from scrapy_rep.frontier.leases import pause_of
from scrapy_rep.frontier.shareddelays import SharedDelays

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_rep.frontier.clock import Alarms
    from scrapy_rep.frontier.delays import Waiter
    from scrapy_rep.frontier.leases import Leases, TurnLeases
    from scrapy_rep.protocol.origins import Origin

# The seconds between two checks of the request that has the turn: another component may
# have dropped it. If it still exists, its lease is renewed.
_WATCHED_EVERY = 2.0

# The seconds after which a queue that has the turn, and from which no request was popped,
# loses the turn to a request in the downloader. The engine may wait for that request.
_OVERDUE = 0.5

# The seconds after which the number of requests that wait for a host is logged.
_LOG_AFTER = 3.0


class Turns:
    """Gives turns to requests: in each delay group, one request at a time has the turn.

    Scrapy's own delays (``DOWNLOAD_DELAY``, AutoThrottle, ``DOWNLOAD_SLOTS``) apply
    afterwards, and can only make a request wait longer.
    """

    def __init__(
        self,
        crawler: Crawler,
        alarms: Alarms,
        leases: Leases,
        *,
        share_in_process: bool,
    ) -> None:
        self._crawler = crawler
        self._clock = alarms.clock
        self._alarms = alarms
        self.leases: TurnLeases = leases
        self.shared_delays = SharedDelays(alarms, enabled=share_in_process)
        self.groups = DelayGroups()
        self._holding: dict[Request, DelayGroup] = {}

    def set_delay(
        self, keys: tuple[str, str], origin: Origin, delay: float, ago: float
    ) -> DelayGroup | None:
        """Set the delay of *origin* to *delay* seconds, by a robots.txt that was fetched
        *ago* seconds ago. Return the group of the requests with *keys* (a host and a slot),
        if they have one.
        """
        if delay and not self.groups:
            # Scrapy sends this signal for each response, so connect only when needed.
            connect = self._crawler.signals.connect
            connect(self._left_downloader, signals.request_left_downloader)
        # *ago* is negative if a clock is wrong.
        fetched_at = self._clock.monotonic() - max(ago, 0.0)
        return self.groups.set_delay(keys, origin, delay, fetched_at)

    def find(self, request: Request) -> DelayGroup | None:
        """Return the group of *request*, if it has one."""
        if not self.groups:
            return None
        return self.groups.find(*delay_keys(self._crawler, request))

    # Requests in a queue.

    def admit(self, queue: BackQueue, group: DelayGroup) -> bool:
        """Return True if *queue* has the turn and may be popped from. Otherwise park it until
        it gets the turn.
        """
        now = self._clock.monotonic()
        if group.holder is queue:
            if group.free_at <= now:
                return True
            # The group was merged with one that has a longer delay.
            self._leave(group, fetched=False)
        if self._can_take_now(group, now):
            self._hold(group, queue)
            return True
        group.queues.append(queue)
        self._wait(group, now)
        return False

    def popped(self, queue: BackQueue, request: Request) -> None:
        """Move the turn of *queue* to *request*, which was popped from it."""
        group = self._held_by(queue)
        if group is not None:
            self._take(group, request)

    # Requests that are in the downloader already.

    async def wait(
        self, request: Request, group: DelayGroup, *, is_redirected: bool = False
    ) -> None:
        """Wait for the turn of *request*. Raises SpiderClosing if the spider closes meanwhile.

        *is_redirected*: it is a robots.txt request that another host redirected here.
        """
        if group.holder is request:
            return
        now, has_turn = self._clock.monotonic(), self.leases.has_turn
        while has_turn(request) and not group.is_free(now):
            # Another request was sent first, nearly always the one for robots.txt.
            await self._alarms.wait_until(max(group.free_at, now + _OVERDUE / 10))
            group, now = self.groups.current(group), self._clock.monotonic()
        if has_turn(request) or self._can_take_now(group, now):
            group.host = group.name_of(host_of(request))
            self._take(group, request)
            return
        call: Deferred[None] = Deferred()
        waiters = group.redirected if is_redirected else group.waiters
        waiters.append((request, call))
        if isinstance(group.holder, BackQueue):
            self._alarms.at(now + _OVERDUE, self._overdue, group, group.holder)
        self._wait(group, now)
        await maybe_deferred_to_future(call)

    def close(self) -> None:
        """Fail all requests that wait in the downloader with SpiderClosing."""
        self.shared_delays.close()
        for group in self.groups.all():
            waiters = [*group.waiters, *group.redirected]
            group.waiters.clear()
            group.redirected.clear()
            for request, call in waiters:
                if not call.called:
                    call.errback(
                        SpiderClosing(f"The spider closed before the turn of {request}")
                    )

    # The holder of the turn.

    def release(self, holder: Request | BackQueue) -> None:
        """End the turn of *holder* without a delay, if *holder* still has the turn. The turn
        of a request that was sent has already ended with its download.
        """
        group = self._held_by(holder)
        if group is not None:
            self._leave(group, fetched=False)

    def _can_take_now(self, group: DelayGroup, now: float) -> bool:
        """Whether the turn is free, nothing waits for it, and no other worker can have it."""
        self.shared_delays.postpone(group)
        is_free = group.is_free(now) and not group.is_waited_for
        return is_free and not self.leases.are_shared

    def _wait(self, group: DelayGroup, now: float) -> None:
        if group.waiting_since is None:
            group.waiting_since = now
        if not group.is_logged:
            # Not at once: more requests may come, which the log line should count.
            self._alarms.at(now + _LOG_AFTER, log_delay, self._crawler, group)
        self._advance(group)

    def _advance(self, group: DelayGroup) -> None:
        """Give the turn to the next queue or request that waits, if the turn is free."""
        group = self.groups.current(group)
        if group.holder is not None or not group.is_waited_for:
            return
        now = self._clock.monotonic()
        self.shared_delays.postpone(group)
        if now < group.free_at:
            if not now < group.alarm_at <= group.free_at:
                group.alarm_at = group.free_at
                self._alarms.at(group.free_at, self._advance, group)
            return
        waiter = group.next()
        assert waiter is not None
        if not self.leases.are_shared:
            self._give(group, waiter)
            return
        placeholder = group.holder = object()
        deferred_from_coro(self._give_if_leased(group, waiter, placeholder))

    async def _give_if_leased(
        self, group: DelayGroup, waiter: BackQueue | Waiter, placeholder: object
    ) -> None:
        """Give the turn to *waiter* if this worker gets the lease of its host."""
        host = group.name_of(
            waiter.key.host if isinstance(waiter, BackQueue) else host_of(waiter[0])
        )
        is_ours = await self.leases.acquire(host, group.delay)
        group = self.groups.current(group)
        is_free = group.holder is placeholder
        if is_free:
            group.holder = None
        if is_ours and is_free:
            self._give(group, waiter)
            return
        if is_ours:  # The group was merged with another that has a holder.
            self.leases.release(host, 0.0)
        else:
            group.not_before = self._clock.monotonic() + pause_of(group.delay)
        group.put_back(waiter)
        self._advance(group)

    def _give(self, group: DelayGroup, waiter: BackQueue | Waiter) -> None:
        if isinstance(waiter, BackQueue):
            self._hold(group, waiter)
            now = self._clock.monotonic()
            self._alarms.at(now + _WATCHED_EVERY, self._watch, group, waiter)
            if group.has_waiters:
                self._alarms.at(now + _OVERDUE, self._overdue, group, waiter)
            waiter.release()
            wake(self._crawler)
            return
        request, call = waiter
        group.host = group.name_of(host_of(request))
        if call.called:  # It was cancelled.
            self.leases.release(group.host, 0.0)
            self._advance(group)
            return
        self._take(group, request)
        call.callback(None)

    def _hold(self, group: DelayGroup, queue: BackQueue) -> None:
        group.holder, group.host = queue, group.name_of(queue.key.host)
        self.shared_delays.take(group)

    def _take(self, group: DelayGroup, request: Request) -> None:
        now = self._clock.monotonic()
        group.take(request, now)
        self.shared_delays.take(group)
        self._holding[request] = group
        self._alarms.at(now + _WATCHED_EVERY, self._watch, group, request)

    def _overdue(self, group: DelayGroup, queue: BackQueue) -> None:
        group = self.groups.current(group)
        if group.holder is queue and group.has_waiters:
            # The queue is still ready; may_go() will park it again.
            self._leave(group, fetched=False)

    def _watch(self, group: DelayGroup, holder: Request | BackQueue) -> None:
        group = self.groups.current(group)
        if group.holder is not holder:
            return
        # A request for robots.txt gets the turn before it is in the engine, and its fetcher
        # always releases the turn.
        if (
            isinstance(holder, Request)
            and not isinstance(holder, RobotsTxtRequest)
            and holder not in active_requests(self._crawler)
        ):
            self._leave(group, fetched=False)
            return
        # The lease must not expire while its request is in flight.
        self.leases.renew(group.host, group.delay)
        moment = self._clock.monotonic() + _WATCHED_EVERY
        self._alarms.at(moment, self._watch, group, holder)

    def _left_downloader(self, request: Request) -> None:
        """End the turn of *request*, which was downloaded or has failed. Begin the delay."""
        held = self._held_by(request)
        if held is not None:
            self._leave(held, fetched=True)
        group = self.find(request)
        if group is not None and group is not held:
            # It was sent without a turn, for example before the delay was known.
            group.last = self._clock.monotonic()
            self.shared_delays.leave(group)

    def _held_by(self, holder: Request | BackQueue) -> DelayGroup | None:
        """Return the group whose turn *holder* has, if any. The caller must end or move that
        turn. The group may differ from that in which the request would wait now.
        """
        if isinstance(holder, Request):
            group = self._holding.pop(holder, None)
        else:
            group = self.groups.find(*holder.key.delay_keys) if self.groups else None
        if group is None:
            return None
        group = self.groups.current(group)
        return group if group.holder is holder else None

    def _leave(self, group: DelayGroup, *, fetched: bool) -> None:
        if isinstance(group.holder, Request):
            self._holding.pop(group.holder, None)
        group.leave(self._clock.monotonic(), fetched=fetched)
        self.shared_delays.leave(group)
        self.leases.release(group.host, group.delay if fetched else 0.0)
        self._advance(group)
