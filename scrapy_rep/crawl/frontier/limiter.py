"""Limiters. A limiter limits the number of requests in flight to a host, or for another shared resource, and sets the
earliest time of the next request. This module uses no Scrapy, no timers, no clock and no I/O. All times are seconds of
a monotonic clock.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import OrderedDict, deque
    from typing import Any

    from scrapy_rep.protocol.origins import Origin

# The minimum time, in seconds, for which an idle limiter is kept after the last pause of its host. If a limiter were
# forgotten earlier, each pause of an overloaded host would be as short as the first one, instead of twice as long as
# the last one.
_BACK_OFF_REMEMBERED = 600.0

# The minimum time, in seconds, for which an idle limiter is kept after the last answer of its host, if it contains
# what a further request needs: the time of the answer, from which the crawl delay is measured; the IP address of the
# host; or the fact that the answer was a 503, because a second 503 in a row begins a pause.
_ANSWER_REMEMBERED = 30.0


class BackOff:
    """The back-off of a host after a 429, a 503 or a failed connection.

    The back-off begins with a pause, in which no request to the host is sent. The pause lasts for the duration in
    ``Retry-After``. Without this header, the first pause lasts 1 second, and further pauses 2, 4, ... seconds, up to
    ``REP_BACKOFF_MAX``. After the pause, one request at a time is sent. Each success raises the number of requests at a
    time (the concurrency) by one, and the back-off ends when the host has its full concurrency again.

    If a pause, or a series of pauses without a success in between, is longer than ``REP_WAIT_TIMEOUT``, requests to the
    host are refused until the pause is over.
    """

    __slots__ = (
        "asked_until", "concurrency", "failed_until", "has_answered", "is_refusal_logged", "own_pause",
        "paused_at", "since", "unmeasured_pause",
    )  # fmt: skip

    def __init__(self, since: float) -> None:
        self.since = since
        """The time when the first pause after the last success began. ``REP_WAIT_TIMEOUT`` is measured from this
        time."""

        self.asked_until = -inf
        """The end of the last pause that a 429, a 503 or a spider's call of ``back_off()`` caused; ``-inf`` if there
        was no such pause."""

        self.failed_until = -inf
        """The end of the last pause that a failed connection caused; ``-inf`` if there was no such pause. If the
        connection turns out to have failed because of the crawler's own network, the pause is cancelled."""

        self.own_pause = 0.0
        """The duration, in seconds, of the last pause as the crawler would choose it: 1, 2, 4, ... up to a maximum. If
        the host states a duration, the pause lasts for the stated duration, but this value still doubles with each
        pause. The value is 0 before the first pause and after a success."""

        self.concurrency = 1
        """The maximum number of requests to the host in flight after the pause: 1 at first, and one more after each
        success."""

        self.paused_at = -inf
        """The time when the last pause began; ``-inf`` before the first pause."""

        self.unmeasured_pause = 0.0
        """The intended duration, in seconds, of the last pause. When the first request after the pause is sent, the
        ledger records this value together with the actual duration, and the value becomes 0."""

        self.has_answered = False
        """Whether a request has succeeded since the first pause of this back-off."""

        self.is_refusal_logged = False
        """Whether the log already contains the warning that requests to the host are refused."""

    @property
    def until(self) -> float:
        """The time when the pause ends, or when the last pause ended."""
        return max(self.asked_until, self.failed_until)


class Limiter:
    """Limits the number of requests in flight at a time, and sets the earliest time of the next request. Each host,
    each IP address and each download slot that is not named after a host has a limiter. The crawler's own network has
    two: for pages, and for robots.txt. The crawl delay of a host has a limiter of its own, a :class:`DelayLimiter`.

    A limiter has *room* for a request if it allows the request to be sent now. It counts two groups of requests:

    - A *planned* request is not sent yet, but room is reserved for it. For example, the scheduler has handed it out.
    - A *sent* request was passed to Scrapy's download slot or download handler, and has not ended yet.
    """

    delay = 0.0
    """The pause, in seconds, from the end of one request to the start of the next. 0 in all limiters except
    a :class:`DelayLimiter`."""

    __slots__ = (
        "address", "alarm_at", "back_off", "concurrency", "concurrency_now", "crawl_delay", "ended_at",
        "had_503", "held_until", "is_queue_next", "key", "next_at", "overtaker", "parked", "planned", "ready",
        "refuses_until", "sent", "slot_due_at", "slot_free_at", "users", "waiters", "waiters_yield_until",
    )  # fmt: skip

    def __init__(self, key: str, concurrency: float = inf) -> None:
        self.key = key
        self.concurrency = concurrency
        """The maximum number of requests in flight while there is no back-off."""

        self.concurrency_now = concurrency
        """The maximum number of requests in flight now. During a back-off, it can be lower than
        :attr:`concurrency`."""

        self.next_at = -inf
        """No request is sent before this time."""

        self.held_until = -inf
        """This worker (process of the crawl) sends no request to the host before this time, because another worker
        sends requests to the host. ``-inf`` if this worker has never had to wait for another worker."""

        self.slot_free_at = -inf
        """For a download slot: the scheduler hands out no request for the slot before this time, because an earlier
        request still waits in Scrapy's download slot. ``-inf`` if no request waits in the slot."""

        self.slot_due_at = -inf
        """For a download slot with a delay of its own (Scrapy's ``DOWNLOAD_DELAY``): the earliest time when Scrapy
        sends the slot's next request. ``-inf`` for a slot without a delay."""

        self.planned = 0
        """The number of requests that already count towards the concurrency, but are not sent yet."""

        self.sent = 0
        """The number of requests that were sent and have not ended yet. Some of them may still wait in Scrapy's
        download slot."""

        self.ended_at = -inf
        """The time when the last download ended; ``-inf`` if none has ended yet."""

        self.back_off: BackOff | None = None
        """The current back-off of the host: a pause, and then a lower concurrency that rises with each success. The
        back-off ends when the concurrency has its normal value again. None if the host is not in a back-off."""

        self.refuses_until = -inf
        """Requests are refused until this time, because the pauses of the host exceed ``REP_WAIT_TIMEOUT``; ``-inf``
        if no requests are refused."""

        self.had_503 = False
        """Whether the last answer of the host was a 503."""

        self.crawl_delay: DelayLimiter | None = None
        """The limiter for the crawl delay of the host. None if the host has had no crawl delay so far, or if this
        limiter is not that of a host."""

        self.address: Limiter | None = None
        """The limiter that all hosts at the host's IP address share. None if the address is not known, if
        ``REP_CONCURRENCY_PER_ADDRESS`` is not set, or if this limiter is not that of a host."""

        self.waiters: deque[Any] | None = None
        """The requests outside the scheduler, such as media downloads, that wait for this limiter, the next one first;
        None if there are none."""

        self.parked: OrderedDict[Any, None] | None = None
        """The scheduler's queues that wait for this limiter, the next one first; None if there are none."""

        self.is_queue_next = False
        """The scheduler's queues that wait for this limiter (:attr:`parked`) and the requests that wait outside the
        scheduler (:attr:`waiters`) take turns. True if it is a queue's turn, because the last turn was a waiter's."""

        self.waiters_yield_until = inf
        """The time from which the first of :attr:`waiters` goes before the requests of the scheduler. When a waiter
        could be sent, but has to let the scheduler go first, :class:`Limits` sets this time to 0.2 seconds after that
        moment. ``inf`` if the time is not set."""

        self.overtaker: Any = None
        """The request in flight that overtook planned requests: it was one of :attr:`waiters`, and was allowed to
        continue although the limiter was full. None if there is none. Only one request at a time may overtake, because
        a planned request may be on the network without the limiter's knowledge, if a component such as Selenium's
        middleware downloads it. Each request that overtakes it exceeds the concurrency by one."""

        self.ready: OrderedDict[Any, None] | None = None
        """For a download slot: its ready queues (those whose next request the scheduler may hand out), the next one
        first; None if there are none."""

        self.users = 0
        """The number of queues that have this limiter as the limiter of their host or download slot."""

        self.alarm_at = inf
        """The time when :meth:`Limits.tick` next checks whether requests that wait for this limiter may continue;
        ``inf`` if no such check is needed."""

    def __repr__(self) -> str:
        words = [f"{self.planned} planned, {self.sent} sent"]
        if self.concurrency_now < inf:
            words[0] += f" of {self.concurrency_now:g}"
        if self.delay:
            words.append(f"delay {self.delay:g}")
        if self.next_at > -inf:
            words.append(f"next at {self.next_at:g}")
        words.append(
            f"{len(self.waiters or ())} wait, {len(self.parked or ())} queues parked"
        )
        return f"<Limiter {self.key}: {'; '.join(words)}>"

    def set_concurrency(self, concurrency: float) -> None:
        """Set the maximum number of requests in flight to *concurrency*. If the current back-off has a smaller maximum,
        that maximum applies until the back-off ends.
        """
        self.concurrency = concurrency
        self.concurrency_now = concurrency
        if self.back_off is not None:
            self.concurrency_now = min(concurrency, self.back_off.concurrency)

    @property
    def is_full(self) -> bool:
        """Whether the planned and the sent requests together reach the maximum number of requests in flight."""
        return self.planned + self.sent >= self.concurrency_now

    # Each of the methods opens_for_...() returns the time from which the limiter has room for a request of one kind. If
    # this time is in the past, the limiter has room now. The time is ``inf`` if it is not known, because another
    # request has to be sent or has to end first.

    def opens_for_planned(self) -> float:
        """Return the earliest time to send a planned request. A planned request already counts towards the concurrency,
        but is not sent yet: usually, the scheduler has handed it out. The time is ``inf`` if a sent request has to end
        first.
        """
        return self.next_at if self.sent < self.concurrency_now else inf

    def opens_for_newcomer(self) -> float:
        """Return the earliest time to send a new request that the limiter does not count yet, such as a media download.
        The time is ``inf`` in two cases:

        - Older requests outside the scheduler wait for the limiter. They go first.
        - The limiter is full: a request that it already counts has to end first.
        """
        return inf if self.waiters else self.opens_for_waiter()

    def opens_for_waiter(self) -> float:
        """Return the earliest time to send the first of :attr:`waiters`, the requests that wait outside the scheduler.

        If the limiter is full and all of its requests are sent, one of them has to end first, and the time is ``inf``.
        If the limiter is full, but some of its requests are only planned (not sent yet), the time is not before
        :attr:`waiters_yield_until`: until then, the planned requests go first. Afterwards, the waiter may overtake
        them, but only after the last request that did so has ended (:attr:`overtaker`).
        """
        if not self.is_full:
            return self.next_at
        if self.overtaker is not None:
            return inf
        return max(self.opens_for_planned(), self.waiters_yield_until)

    def opens_for_queue(self, now: float) -> float:
        """Return the time from which the scheduler may hand out another request. The time is ``inf`` in two cases:
        another request has to end first, or requests wait outside the scheduler and one of them has the next turn
        (:meth:`is_queue_turn` is False).
        """
        if self.is_full or (self.waiters and not self.is_queue_turn(now)):
            return inf
        return max(self.next_at, self.slot_free_at)

    def is_queue_turn(self, now: float) -> bool:
        """Whether a queue of the scheduler has the next turn. If False, the first of :attr:`waiters`, the requests that
        wait outside the scheduler, has the next turn. Queues and waiters take turns. If no queue uses its turn before
        :attr:`waiters_yield_until`, the turn passes to the first waiter.
        """
        return self.is_queue_next and now < self.waiters_yield_until

    def is_quiet(self, now: float) -> bool:
        """Whether the limiter may be deleted: no request is in flight, no request waits, and enough time has passed
        since the last answer and the last pause.
        """
        if (
            self.planned
            or self.sent
            or self.waiters
            or self.parked
            or now < self.next_at
        ):
            return False
        if self.crawl_delay is not None and not self.crawl_delay.is_quiet(now):
            return False
        needs_last = self.delay or self.had_503 or self.address is not None
        if needs_last and now < max(self.next_at, self.ended_at) + _ANSWER_REMEMBERED:
            return False
        return (
            self.back_off is None or now >= self.back_off.until + _BACK_OFF_REMEMBERED
        )


class DelayLimiter(Limiter):
    """Limits the requests to a host to one at a time, with the host's crawl delay between two requests."""

    __slots__ = ("delay", "delays", "waiting_since")

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.delay = 0.0
        self.delays: dict[Origin, float] = {}
        """The delay, in seconds, for which each origin of the host asks. The longest delay applies."""

        self.waiting_since: float | None = None
        """The time since which requests to the host have been waiting with none in flight. None if no request is
        waiting. When the next request is sent, the value becomes None again."""

    def set_delay(self, origin: Origin, delay: float) -> None:
        """Record that *origin* asks for a delay of *delay* seconds. 0 means that *origin* asks for no delay. If several
        origins of the host ask for a delay, the longest one applies.
        """
        if delay:
            self.delays[origin] = delay
        else:
            self.delays.pop(origin, None)
        self.delay = max(self.delays.values(), default=0.0)
        self.set_concurrency(1 if self.delay else inf)
        if not self.delay:
            self.next_at = -inf
