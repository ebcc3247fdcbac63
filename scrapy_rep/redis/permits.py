"""Permits for hosts that several workers crawl at the same time. The Redis server grants one permit for each request,
so that all workers together keep the host's delay, its pauses, and its maximum number of concurrent requests during a
back-off.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from scrapy.utils.defer import maybe_deferred_to_future

from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.crawl.frontier.limits import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy import Request

    from scrapy_rep.crawl.frontier.frontier import Frontier
    from scrapy_rep.crawl.frontier.limits import InFlight, Queue
    from scrapy_rep.redis.exchange import PermitAnswer
    from scrapy_rep.redis.hosts import Lease


# If a request must wait longer than this many seconds for its permit, it goes back to the scheduler and waits there. A
# request that cannot go back, such as a request for a robots.txt, waits in the downloader middleware instead.
_MAX_WAIT = 1.0


class Permit(Waiter):
    """A permit to send one request to a host to which several workers send requests.

    This worker asks the Redis server for the permit when the request has reached the wire, the downloader middleware
    nearest to the network. The request waits until the Redis server grants the permit. If the Redis server refuses the
    permit, it says after how many seconds this worker can ask again.
    """

    def __init__(
        self, request: Request, entry: InFlight, queue: Queue, *, may_return: bool
    ) -> None:
        super().__init__(entry)
        self.request = request
        self.queue = queue
        self.may_return = may_return
        """Whether the request goes back to the scheduler if it must wait for the permit longer than a second. A request
        that cannot go back waits in the downloader middleware."""

        self.asked: tuple[str, float, float] = self.terms
        """The value of :attr:`terms` when this worker last asked the server for this permit."""

        self.answer: PermitAnswer | None = None
        """The server's last answer. None before the first answer."""

        self.is_released = False

    @property
    def terms(self) -> tuple[str, float, float]:
        """What this worker tells the server when it asks for this permit: the host, the maximum number of requests in
        flight to the host, and the host's delay in seconds.

        If the host has a delay, the maximum is 1. If the host has no delay but is in back-off, the maximum is that of
        the back-off. If this worker knows of no delay and no back-off, both numbers are 0. This means that they are
        unknown, and the server applies the delay and the back-off that other workers reported.
        """
        host = self.queue.host
        delay = delay_of(self.queue)
        limit = 1 if delay else 0 if host.back_off is None else host.concurrency_now
        return host.key, limit, delay

    @property
    def is_valid(self) -> bool:
        """Whether the request may be sent with this permit. False if the permit was released. Also False if the host
        has become stricter since this worker asked for the permit: the maximum number of requests in flight is lower,
        or the delay is longer.
        """
        (_, limit, delay), (_, asked_limit, asked_delay) = self.terms, self.asked
        is_too_lax = bool(limit) and not 0 < asked_limit <= limit
        return not (self.is_released or is_too_lax or delay > asked_delay)


def delay_of(queue: Queue) -> float:
    """Return the delay, in seconds, between two requests of *queue*. If there is no delay, return 0."""
    limiter = queue.host.crawl_delay if queue.keeps_delay else None
    return 0.0 if limiter is None else limiter.delay


class SharedPermits:
    """The permits of this worker. Each permit allows this worker to send one request to a host, and is granted by the
    Redis server. A request needs a permit if other workers can also send requests to its host, if the host has a delay,
    or if the host is in back-off.
    """

    def __init__(
        self, frontier: Frontier, lease: Lease, call_server_soon: Callable[[], None]
    ) -> None:
        """*call_server_soon* is a function that schedules this worker's next call to the Redis server within a fraction
        of a second, for example to ask for a permit.
        """
        self._frontier = frontier
        self._lease = lease
        self._call_server_soon = call_server_soon
        self._new_token = count(1).__next__
        self.wanted: dict[str, Permit] = {}
        """The permits for which this worker asks the server in the next call. The keys are tokens, which identify the
        permits."""

        self.held: dict[str, Permit] = {}
        """The permits that the server granted, by token. A permit is removed after its request has ended, or after the
        permit was released because its request is not sent."""

    def is_needed(self, request: Request, entry: InFlight) -> bool:
        """Whether *request*, which is about to be sent, needs a permit and has no valid one. *entry* is the frontier's
        entry for the request. A permit becomes invalid if this worker's lease ends, if the Redis server is restored
        from older data, or if the host's delay or maximum number of requests in flight becomes stricter.
        """
        frontier = self._frontier
        queue = frontier.queues.of(request)
        host = queue.host
        if not queue.key.is_of_http:
            return False
        has_permit = any(
            permit.entry is entry and permit.is_valid for permit in self.held.values()
        )
        if has_permit and self._lease.is_valid:
            return False
        if (
            host is queue.slot
            and host.back_off is None
            and not delay_of(queue)
            and self._lease.owns(host.key)
        ):
            return request in self._lease.lost
        # If a page in a browser waits for this robots.txt, that page already holds the host's permit.
        return not (
            isinstance(request, RobotsTxtRequest)
            and frontier.is_awaited_by_browser(queue.robotstxt_limiters)
        )

    async def acquire(
        self, request: Request, entry: InFlight, *, may_return: bool
    ) -> bool:
        """Wait until the Redis server grants a permit (the permission to send *request*), and return True. Return False
        if *request* has to go back to the scheduler and wait there. False is returned only if *may_return* is True.
        Raises SpiderClosing if the spider closes.

        Return True without a permit in two cases:

        - *request* is for a robots.txt, and a browser has begun to load a page that can need this robots.txt. The page
          already has a permit for the host.
        - The host's pause is so long that *request* will be refused. The caller refuses it.

        See :class:`~scrapy_rep.crawl.frontier.frontier.Permits`.
        """
        frontier = self._frontier
        queue = frontier.queues.of(request)
        permit = Permit(request, entry, queue, may_return=may_return)
        host = queue.host
        while not permit.may_continue:
            if may_return and request in self._lease.lost:
                return False
            answer = await self._ask_for(permit)
            if answer is None:
                continue
            now = frontier.clock.monotonic()
            if answer.paused:
                frontier.resume_pause(host.key, answer.paused)
            if not answer.wait or frontier.refusal(entry):
                return True
            if may_return and answer.wait > _MAX_WAIT:
                delay = host.crawl_delay if delay_of(queue) else None
                frontier.limits.hold(delay or host, now + answer.wait, now)
                return False
            frontier.alarms.at(now + answer.wait, self._end_wait, permit)
            await self._wait(permit)
        # The frontier sets may_continue only for a request for robots.txt, while a browser loads a page that can need
        # this robots.txt. The page holds a permit for the host, so the request needs none of its own.
        return True

    async def _ask_for(self, permit: Permit) -> PermitAnswer | None:
        """Ask the Redis server for *permit*, and return the server's answer. Raises SpiderClosing if the spider closes.

        Return None if the request of *permit* no longer needs a permit, in two cases:

        - Another worker has perhaps taken the request, because the lease of this worker has ended. The scheduler of
          this worker drops the request, so that it is not sent twice.
        - The request is for a robots.txt, and a browser has begun to load a page that can need this robots.txt. The
          page keeps its permit until it has loaded. To avoid a deadlock, the robots.txt is fetched without a permit.
        """
        token = f"\t{self._new_token()}"
        permit.answer = None
        self.wanted[token] = permit
        self._call_server_soon()
        try:
            await self._wait(permit)
        finally:
            self.wanted.pop(token, None)
        return permit.answer

    async def _wait(self, permit: Permit) -> None:
        """Wait until :meth:`_end_wait` is called for *permit*, or until the frontier lets the request continue without
        a permit. Raises SpiderClosing if the spider closes.
        """
        over = self._frontier.wait(permit, permit.request)
        # flush() starts a regular check that ends this wait when the spider closes.
        self._frontier.flush()
        await maybe_deferred_to_future(over)

    def _end_wait(self, permit: Permit) -> None:
        self._frontier.limits.decided.append(permit)
        self._frontier.flush()

    def release(self, entry: InFlight) -> None:
        """Release the permit of *entry*, because its request is not sent. The server learns this in the next call, and
        does not start the host's delay.
        """
        for permit in self.held.values():
            permit.is_released |= permit.entry is entry
        self._call_server_soon()

    # The scheduler calls the following methods before and after each call to the server.

    def wants(self) -> list[tuple[Any, ...]]:
        """Return the permits for which this worker asks in its next call to the Redis server. Each permit is a tuple of
        the arguments of ``acquire`` in ``shared.lua``: token, host, maximum number of requests in flight, and delay in
        seconds.
        """
        for token, permit in list(self.wanted.items()):
            if permit.may_return and permit.request in self._lease.lost:
                # Another worker has perhaps taken the request, so this worker asks for no permit. _end_wait() lets the
                # request go back to the scheduler, which drops it.
                del self.wanted[token]
                self._end_wait(permit)
        for permit in self.wanted.values():
            permit.asked = permit.terms
        return [(token, *permit.asked) for token, permit in self.wanted.items()]

    def granted(
        self, answers: Sequence[PermitAnswer]
    ) -> Iterator[tuple[str, float, bool]]:
        """Pass each of the server's *answers* to the request that waits for it, and wake the request. An answer grants
        or refuses a permit, the permission to send the request. Granted permits are kept in :attr:`held`.

        If no request waits for an answer any more, yield ``(token, 0.0, False)``, where *token* identifies the permit.
        The caller sends this tuple to the server, which takes the permit back if it was granted.
        """
        for answer in answers:
            permit = self.wanted.pop(answer.token, None)
            if permit is None:
                yield answer.token, 0.0, False
                continue
            if not answer.wait:
                self.held[answer.token] = permit
            permit.answer = answer
            self._end_wait(permit)

    def ended(self) -> Iterator[tuple[str, float, bool]]:
        """Yield the granted permits that are no longer needed, and forget them. A permit is no longer needed when its
        request has ended, or when the permit was released because its request was not sent.

        Each permit is yielded as a tuple: its token, the number of seconds since its request ended (0 if the request
        was not sent), and whether the request was sent.
        """
        frontier = self._frontier
        for token, permit in list(self.held.items()):
            is_over = frontier.in_flight.get(permit.request) is not permit.entry
            if is_over or permit.is_released:
                del self.held[token]
                host = permit.queue.host
                ago = max(frontier.clock.monotonic() - host.ended_at, 0.0)
                is_sent = permit.entry.sent_at > float("-inf")
                was_sent = is_sent and not permit.is_released
                yield token, round(ago, 3) if was_sent else 0.0, was_sent
