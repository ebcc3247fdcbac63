"""Requests to a host that asks for a delay go one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import Request, signals
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep.compat.internals import active_requests, wake
from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.fetching.request import RobotsTxtRequest
from scrapy_rep.frontier.backqueue import BackQueue
from scrapy_rep.frontier.delays import (
    DelayGroup,
    DelayGroups,
    host_of_waiter,
    log_delay,
)
from scrapy_rep.frontier.hostkeys import host_of, keys_of, keys_of_queue
from scrapy_rep.frontier.leases import pause_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_rep.frontier.clock import Alarms
    from scrapy_rep.frontier.delays import Waiter
    from scrapy_rep.frontier.leases import Leases, TurnLeases
    from scrapy_rep.protocol.origins import Origin

# How often, in seconds, it is looked whether a request that has the turn is still there
# (another component may have dropped it), and its lease is renewed.
_WATCHED_EVERY = 2.0

# Seconds after which a queue that has the turn and is not popped from loses it to a
# request that is in the downloader already: that may be what the engine waits for.
_OVERDUE = 0.5

# Seconds after which it can be said how many requests wait for a host.
_TELL_AFTER = 3.0


class Turns:
    """Lets requests go when their turn has come.

    Scrapy's own delays (``DOWNLOAD_DELAY``, AutoThrottle, ``DOWNLOAD_SLOTS``) are waited
    for after that, and can only make it longer.
    """

    def __init__(self, crawler: Crawler, alarms: Alarms, leases: Leases) -> None:
        self._crawler = crawler
        self._clock = alarms.clock
        self._alarms = alarms
        self.leases: TurnLeases = leases
        self.groups = DelayGroups()
        self._holding: dict[Request, DelayGroup] = {}
        self.waited = 0.0
        """Seconds, added up over groups, in which requests waited for a delay to pass."""

    def group_of(
        self, keys: tuple[str, str], origin: Origin, delay: float, ago: float
    ) -> DelayGroup | None:
        """The group of the requests with *keys*, if they have one, now that *origin* asks
        for *delay* seconds, in a robots.txt that was fetched so many seconds *ago*.
        """
        if not delay and (not self.groups or self.groups.find(*keys) is None):
            return None
        if not self.groups:
            # Sent for each response, so not connected to before there is need.
            self._crawler.signals.connect(self._left, signals.request_left_downloader)
        group = self.groups.join(*keys)
        if not delay:
            group.delays.pop(origin, None)
        elif origin not in group.delays:
            # A robots.txt was a request too, of this worker or another. Once, since by
            # the clock that says when, it may lie in the future for long.
            group.last = max(group.last, self._clock.monotonic() - max(ago, 0.0))
            group.delays[origin] = delay
        else:
            group.delays[origin] = delay
        return group

    def find(self, request: Request) -> DelayGroup | None:
        """The group of a request, if it has one."""
        if not self.groups:
            return None
        return self.groups.find(*keys_of(self._crawler, request))

    def is_idle(self, group: DelayGroup) -> bool:
        """Whether nothing is lost if *group* is forgotten."""
        return not group.is_waited_for and group.is_free(self._clock.monotonic())

    # Requests in a queue.

    def admit(self, queue: BackQueue, group: DelayGroup) -> bool:
        """Whether it is the turn of *queue*, which is to be popped from now; else it is
        parked until it is.
        """
        if group.holder is queue:
            return True
        now = self._clock.monotonic()
        if self._is_at_once(group, now):
            group.holder, group.host = queue, queue.key.host
            return True
        group.queues.append(queue)
        self._wait(group, now)
        return False

    def popped(self, queue: BackQueue, request: Request) -> None:
        """*request* has left *queue*, and takes the turn of that, if it has it."""
        group = self.groups.find(*keys_of_queue(queue.key))
        if group is not None and group.holder is queue:
            self._take(group, request)

    def pass_on(self, queue: BackQueue) -> None:
        """*queue* is not popped from after all: it waits for something else."""
        group = self.groups.find(*keys_of_queue(queue.key)) if self.groups else None
        if group is not None and group.holder is queue:
            self._leave(group, fetched=False)

    # Requests that are in the downloader already.

    async def wait(
        self, request: Request, group: DelayGroup, *, is_stranger: bool = False
    ) -> None:
        """Wait for the turn of *request*. Raises SpiderClosing where the spider closes
        meanwhile.

        A *stranger* is a request for the robots.txt of another host.
        """
        if group.holder is request:
            return
        now, has_turn = self._clock.monotonic(), self.leases.has_turn
        while has_turn(request) and not group.is_free(now):
            # A request to the host went before it, nearly always for its robots.txt.
            await self._alarms.wait_until(max(group.free_at, now + _OVERDUE / 10))
            group, now = self.groups.current(group), self._clock.monotonic()
        if has_turn(request) or self._is_at_once(group, now):
            group.host = host_of(request)
            self._take(group, request)
            return
        call: Deferred[None] = Deferred()
        waiters = group.strangers if is_stranger else group.waiters
        waiters.append((request, call))
        if isinstance(group.holder, BackQueue):
            self._alarms.at(now + _OVERDUE, self._overdue, group, group.holder)
        self._wait(group, now)
        await maybe_deferred_to_future(call)

    def step_aside(self, request: Request) -> None:
        """*request* does not go after all: there is no need to wait after it."""
        group = self._held_by(request)
        if group is not None:
            self._leave(group, fetched=False)

    def close(self) -> None:
        """End the waiting of all requests that are in the downloader."""
        for group in self.groups.all():
            waiters = [*group.waiters, *group.strangers]
            group.waiters.clear()
            group.strangers.clear()
            for request, call in waiters:
                if not call.called:
                    call.errback(SpiderClosing(f"{request} has not had its turn"))

    # Whose turn it is.

    def _is_at_once(self, group: DelayGroup, now: float) -> bool:
        """Whether there is nothing to wait for, and nobody to ask."""
        is_free = group.is_free(now) and not group.is_waited_for
        return is_free and not self.leases.are_shared

    def _wait(self, group: DelayGroup, now: float) -> None:
        if group.waiting_since is None:
            group.waiting_since = now
        if not group.told:
            # A little later it can be said how many there are.
            self._alarms.at(now + _TELL_AFTER, log_delay, self._crawler, group)
        self._advance(group)

    def _advance(self, group: DelayGroup) -> None:
        """Give the turn to the next one, if it is free."""
        group = self.groups.current(group)
        if group.holder is not None or not group.is_waited_for:
            return
        now = self._clock.monotonic()
        if now < group.free_at:
            if group.alarm_at is None or group.alarm_at > group.free_at:
                group.alarm_at = group.free_at
                self._alarms.at(group.free_at, self._ring, group)
            return
        waiter = group.next()
        assert waiter is not None
        if not self.leases.are_shared:
            self._give(group, waiter)
            return
        mark = group.holder = object()
        deferred_from_coro(self._lease(group, waiter, mark))

    def _ring(self, group: DelayGroup) -> None:
        group.alarm_at = None
        self._advance(group)

    async def _lease(
        self, group: DelayGroup, waiter: BackQueue | Waiter, mark: object
    ) -> None:
        """Give the turn to *waiter* if no other worker has that of its host."""
        host = host_of_waiter(waiter)
        is_ours = await self.leases.acquire(host, group.delay)
        group = self.groups.current(group)
        is_free = group.holder is mark
        if is_free:
            group.holder = None
        if is_ours and is_free:
            self._give(group, waiter)
            return
        if is_ours:  # The group has become one with another whose turn is taken.
            self.leases.release(host, 0.0)
        else:
            pause = pause_of(group.delay)
            group.not_before = self._clock.monotonic() + pause
        group.put_back(waiter)
        self._advance(group)

    def _give(self, group: DelayGroup, waiter: BackQueue | Waiter) -> None:
        group.host = host_of_waiter(waiter)
        if isinstance(waiter, BackQueue):
            group.holder = waiter
            now = self._clock.monotonic()
            self._alarms.at(now + _WATCHED_EVERY, self._watch, group, waiter)
            if group.waiters or group.strangers:
                self._alarms.at(now + _OVERDUE, self._overdue, group, waiter)
            waiter.release()
            wake(self._crawler)
            return
        request, call = waiter
        if call.called:  # It was cancelled.
            self.leases.release(group.host, 0.0)
            self._advance(group)
            return
        self._take(group, request)
        call.callback(None)

    def _take(self, group: DelayGroup, request: Request) -> None:
        now = self._clock.monotonic()
        self.waited += group.take(request, now)
        self._holding[request] = group
        self._alarms.at(now + _WATCHED_EVERY, self._watch, group, request)

    def _overdue(self, group: DelayGroup, queue: BackQueue) -> None:
        group = self.groups.current(group)
        if group.holder is queue and (group.waiters or group.strangers):
            # It is among those that are ready; when it comes up it is parked here again.
            self._leave(group, fetched=False)

    def _watch(self, group: DelayGroup, holder: Request | BackQueue) -> None:
        group = self.groups.current(group)
        if group.holder is not holder:
            return
        # One for robots.txt has the turn before it is there, and always steps aside.
        if (
            isinstance(holder, Request)
            and not isinstance(holder, RobotsTxtRequest)
            and holder not in active_requests(self._crawler)
        ):
            self._leave(group, fetched=False)
            return
        # A lease must not run out while its request waits for an answer.
        self.leases.renew(group.host, group.delay)
        moment = self._clock.monotonic() + _WATCHED_EVERY
        self._alarms.at(moment, self._watch, group, holder)

    def _left(self, request: Request) -> None:
        """A request, of whatever kind, has been to a server, or tried."""
        held = self._held_by(request)
        if held is not None:
            self._leave(held, fetched=True)
        group = self.find(request)
        if group is not None and group is not held:
            # It had leave of its own, or was sent before the delay was known.
            group.last = self._clock.monotonic()

    def _held_by(self, request: Request) -> DelayGroup | None:
        """The group whose turn *request* had until now. By now it may not be the one that
        the request would wait in.
        """
        group = self._holding.pop(request, None)
        if group is None:
            return None
        group = self.groups.current(group)
        return group if group.holder is request else None

    def _leave(self, group: DelayGroup, *, fetched: bool) -> None:
        if isinstance(group.holder, Request):
            self._holding.pop(group.holder, None)
        group.leave(self._clock.monotonic(), fetched=fetched)
        self.leases.release(group.host, group.delay if fetched else 0.0)
        self._advance(group)
