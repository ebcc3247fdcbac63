"""Permits for requests to hosts that several workers send to. The Redis server grants them, so that all workers
together keep the delay of such a host, its pauses, and its limit during a back-off.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep.base.compat import is_closing
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.exceptions import SpiderClosing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.crawl.frontier.frontier import Frontier
    from scrapy_rep.crawl.frontier.limits import InFlight, Queue
    from scrapy_rep.redis.exchange import PermitAnswer
    from scrapy_rep.redis.hosts import Lease


# A request that has to wait for longer than these seconds waits in the scheduler.
_LONG = 1.0


class Permit:
    """What a request at the wire needs before it is sent to a host that several workers send to."""

    def __init__(
        self, request: Request, entry: InFlight, queue: Queue, *, may_return: bool
    ) -> None:
        self.request = request
        self.entry = entry
        self.queue = queue
        self.may_return = may_return
        """Whether the request may return to the scheduler, and come to the wire again later."""

        self.asked: tuple[str, float, float] = self.terms
        """The terms with which the server was asked last."""

        self.is_released = False
        self.call: Deferred[PermitAnswer | None] | None = None
        """What waits for the answer of the server; None while nothing is to be asked."""

    @property
    def terms(self) -> tuple[str, float, float]:
        """The host, how many requests may be in flight to it, and its delay in seconds. The two numbers are 0 if
        this worker knows of no delay and no back-off: then only a pause keeps the request from being sent.
        """
        host = self.queue.host
        delay = delay_of(self.queue)
        limit = 1 if delay else 0 if host.back_off is None else host.concurrency_now
        return host.key, limit, delay

    @property
    def is_valid(self) -> bool:
        """Whether the request may be sent by it: it was not released, nor granted with laxer terms than those of now."""
        (_, limit, delay), (_, asked_limit, asked_delay) = self.terms, self.asked
        is_too_lax = bool(limit) and not 0 < asked_limit <= limit
        return not (self.is_released or is_too_lax or delay > asked_delay)


def delay_of(queue: Queue) -> float:
    """Return the seconds between two requests of *queue*."""
    limiter = queue.host.crawl_delay if queue.keeps_delay else None
    return 0.0 if limiter is None else limiter.delay


class SharedPermits:
    """The permits of one worker. A request needs one if its host may have another owner, has a delay, or has asked
    for a pause.
    """

    def __init__(
        self,
        crawler: Crawler,
        frontier: Frontier,
        lease: Lease,
        ask: Callable[[], None],
    ) -> None:
        """*ask* is called when the server is to be asked."""
        self._crawler = crawler
        self._frontier = frontier
        self._lease = lease
        self._ask = ask
        self._new_token = count(1).__next__
        self.wanted: dict[str, Permit] = {}
        """The permits that the server is asked for, by token."""

        self.held: dict[str, Permit] = {}
        """The permits that the server has granted, by token, until their requests are in flight no more."""

    def is_needed(self, request: Request, entry: InFlight) -> bool:
        """Whether *request*, which is about to be sent, needs a permit that it does not have. It may have lost one: a
        permit ends with the lease of this worker, a server that was restarted with older data does not know it, and
        a pause of the host ends it.
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
        # The page in a browser that waits for this robots.txt has the permit of the host.
        return not (
            isinstance(request, RobotsTxtRequest)
            and frontier.is_awaited_by_browser(queue.robotstxt_limiters)
        )

    async def acquire(
        self, request: Request, entry: InFlight, *, may_return: bool
    ) -> bool:
        """Wait for the permit of *request*: see :class:`~scrapy_rep.crawl.frontier.frontier.Permits`."""
        frontier = self._frontier
        queue = frontier.queues.of(request)
        permit = Permit(request, entry, queue, may_return=may_return)
        host = permit.queue.host
        while True:
            if may_return and request in self._lease.lost:
                return False
            answer = await self._answer(permit)
            if answer is None:
                return False
            now = frontier.clock.monotonic()
            if answer.paused:
                frontier.resume_pause(host.key, answer.paused)
            if not answer.wait or frontier.refusal(entry):
                return True
            if may_return and answer.wait > _LONG:
                delay = host.crawl_delay if delay_of(permit.queue) else None
                frontier.limits.hold(delay or host, now + answer.wait, now)
                return False
            later: Deferred[None] = Deferred()
            frontier.alarms.at(now + answer.wait, _fire, later)
            await maybe_deferred_to_future(later)

    def release(self, entry: InFlight) -> None:
        """Release the permit of *entry*, whose request is not sent after all. No delay begins."""
        for permit in self.held.values():
            permit.is_released |= permit.entry is entry
        self._ask()

    async def _answer(self, permit: Permit) -> PermitAnswer | None:
        """Ask the server for *permit*, and return its answer. Return None if the request is to return to the
        scheduler, because the spider closes or another worker has the request. Raises SpiderClosing if the spider
        closes and the request cannot return.
        """
        if self._frontier.alarms.is_stopped:
            raise SpiderClosing(f"The spider closed before {permit.request}")
        token = f"\t{self._new_token()}"
        permit.call = Deferred(lambda _: self._cancel(token))
        self.wanted[token] = permit
        self._ask()
        answer = await maybe_deferred_to_future(permit.call)
        if answer is None and not permit.may_return:
            self._frontier.interrupt(permit.request)
            raise SpiderClosing(f"The spider closed while {permit.request} waited")
        return answer

    def _cancel(self, token: str) -> None:
        self.wanted.pop(token, None)

    # For the exchange.

    def wants(self) -> list[tuple[Any, ...]]:
        """Return the permits to ask the server for, as the arguments of ``acquire`` in the script. A closing spider
        asks for none, as it does not wait for the answer. Requests that other workers have now get none.
        """
        closes = is_closing(self._crawler)
        for token, permit in list(self.wanted.items()):
            if closes or (permit.may_return and permit.request in self._lease.lost):
                del self.wanted[token]
                _fire(permit.call)
        for permit in self.wanted.values():
            permit.asked = permit.terms
        return [(token, *permit.asked) for token, permit in self.wanted.items()]

    def granted(
        self, answers: Sequence[PermitAnswer]
    ) -> Iterator[tuple[str, float, bool]]:
        """Wake the requests whose permits the server has answered. Yield the permits that nobody waits for any more,
        as :meth:`ended` does.
        """
        for answer in answers:
            permit = self.wanted.pop(answer.token, None)
            if permit is None:
                yield answer.token, 0.0, False
                continue
            if not answer.wait:
                self.held[answer.token] = permit
            _fire(permit.call, answer)

    def ended(self) -> Iterator[tuple[str, float, bool]]:
        """Yield the permits that are used or released: the token, how many seconds ago the request ended, and
        whether it was sent.
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


def _fire(call: Any, result: Any = None) -> None:
    if not call.called:
        call.callback(result)
