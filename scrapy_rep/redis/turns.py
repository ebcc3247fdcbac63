"""Requests to a host that other workers send to as well: the server says whose turn it is."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep.base.compat import is_closing
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.exceptions import SpiderClosing

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.crawl.frontier.frontier import Frontier
    from scrapy_rep.crawl.frontier.limiter import Limiter
    from scrapy_rep.crawl.frontier.limits import InFlight, Queue
    from scrapy_rep.redis.exchange import Turn


# A request that has to wait for longer than these seconds waits in the scheduler.
_LONG = 1.0


class Wish:
    """A request that waits at the wire for its turn."""

    def __init__(
        self, request: Request, entry: InFlight, queue: Queue, *, may_return: bool
    ) -> None:
        self.request = request
        self.entry = entry
        self.queue = queue
        self.may_return = may_return
        """Whether it may return to the scheduler, and come again."""

        self.is_given_up = False
        self.call: Deferred[Turn | None] | None = None
        """What waits for the answer; None while nothing is to be asked."""

    @property
    def terms(self) -> tuple[str, float, float]:
        """The host, how many requests may be in flight to it, and its delay in seconds; 0 and 0 if only a pause
        keeps the request.
        """
        host = self.queue.host
        delay = delay_of(self.queue)
        limit = 1 if delay else 0 if host.back_off is None else host.concurrency_now
        return host.key, limit, delay


def delay_of(queue: Queue) -> float:
    """Return the seconds between two requests of *queue*."""
    limiter = queue.host.crawl_delay if queue.keeps_delay else None
    return 0.0 if limiter is None else limiter.delay


class SharedTurns:
    """Asks the server for the turns of requests to hosts that another worker may own, that have a delay, or that
    have asked for a pause.
    """

    def __init__(
        self,
        crawler: Crawler,
        frontier: Frontier,
        is_owned: Callable[[Limiter], bool],
        lost: Container[Request],
        ask: Callable[[], None],
    ) -> None:
        """*is_owned* is whether this worker alone sends to a download slot. *lost* are the requests that others have by
        now. *ask* is called when there is something to ask the server.
        """
        self._crawler = crawler
        self._frontier = frontier
        self._is_owned = is_owned
        self._lost = lost
        self._ask = ask
        self._new_token = count(1).__next__
        self.wishes: dict[str, Wish] = {}
        """The requests that wait for an answer, by token."""

        self.held: dict[str, Wish] = {}
        """Those that may be sent, until they are in flight no more."""

    def is_needed(self, request: Request, entry: InFlight) -> bool:
        """Whether *request*, which is at the wire, needs its turn."""
        frontier = self._frontier
        queue = frontier.queue_of(request)
        host = queue.host
        if entry.is_sent or not queue.key.is_of_http:
            return False
        if (
            host is queue.slot
            and host.back_off is None
            and not delay_of(queue)
            and self._is_owned(host)
        ):
            return request in self._lost
        # A page in a browser has the turn, and may wait for this.
        return not (
            isinstance(request, RobotsTxtRequest)
            and frontier.is_awaited_by_browser(queue.robotstxt_limiters)
        )

    async def take(
        self, request: Request, entry: InFlight, *, may_return: bool
    ) -> bool:
        """Wait for the turn of *request*, as the frontier says."""
        frontier = self._frontier
        queue = frontier.queue_of(request)
        wish = Wish(request, entry, queue, may_return=may_return)
        host = wish.queue.host
        while True:
            if may_return and request in self._lost:
                return False
            turn = await self._answer(wish)
            if turn is None:
                return False
            now = frontier.clock.monotonic()
            if turn.paused:
                frontier.resume_pause(host.key, turn.paused)
            if not turn.wait or frontier.refusal(entry):
                return True
            if may_return and turn.wait > _LONG:
                delay = host.crawl_delay if delay_of(wish.queue) else None
                frontier.limits.hold(delay or host, now + turn.wait, now)
                return False
            later: Deferred[None] = Deferred()
            frontier.alarms.at(now + turn.wait, _fire, later)
            await maybe_deferred_to_future(later)

    def give_up(self, entry: InFlight) -> None:
        """End the turn of *entry*, whose request is not sent yet."""
        for wish in self.held.values():
            wish.is_given_up |= wish.entry is entry
        self._ask()

    async def _answer(self, wish: Wish) -> Turn | None:
        """Ask the server. Return None if *wish* is to return to the scheduler, since the spider closes or another
        worker has the request. Raises SpiderClosing if it cannot.
        """
        if self._frontier.alarms.is_stopped:
            raise SpiderClosing(f"The spider closed before {wish.request}")
        token = f"\t{self._new_token()}"
        wish.call = Deferred(lambda _: self._cancel(token))
        self.wishes[token] = wish
        self._ask()
        turn = await maybe_deferred_to_future(wish.call)
        if turn is None and not wish.may_return:
            self._frontier.interrupted.add(wish.request)
            raise SpiderClosing(f"The spider closed while {wish.request} waited")
        return turn

    def _cancel(self, token: str) -> None:
        self.wishes.pop(token, None)

    # For the exchange.

    def order(self) -> list[tuple[Any, ...]]:
        """Return what to ask the server: nothing if the spider closes, since that would wait for the answer, and
        nothing for requests that others have by now.
        """
        closes = is_closing(self._crawler)
        for token, wish in list(self.wishes.items()):
            if closes or (wish.may_return and wish.request in self._lost):
                del self.wishes[token]
                _fire(wish.call)
        return [(token, *wish.terms) for token, wish in self.wishes.items()]

    def granted(self, turns: Sequence[Turn]) -> Iterator[tuple[str, float, bool]]:
        """Note what the server has answered. Yield the turns that nobody needs any more, as in :meth:`ended`."""
        for turn in turns:
            wish = self.wishes.pop(turn.token, None)
            if wish is None:
                yield turn.token, 0.0, False
                continue
            if not turn.wait:
                self.held[turn.token] = wish
            _fire(wish.call, turn)

    def ended(self) -> Iterator[tuple[str, float, bool]]:
        """Yield each turn that has ended: its token, how many seconds ago, and whether the request was sent."""
        frontier = self._frontier
        for token, wish in list(self.held.items()):
            is_over = frontier.in_flight.get(wish.request) is not wish.entry
            if is_over or wish.is_given_up:
                del self.held[token]
                host = wish.queue.host
                ago = max(frontier.clock.monotonic() - host.ended_at, 0.0)
                is_sent = wish.entry.sent_at > float("-inf")
                was_sent = is_sent and not wish.is_given_up
                yield token, round(ago, 3) if was_sent else 0.0, was_sent


def _fire(call: Any, result: Any = None) -> None:
    if not call.called:
        call.callback(result)
