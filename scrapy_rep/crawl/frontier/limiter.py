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

# The minimum time, in seconds, for which an idle limiter is kept after the last answer of its host, if the host has a
# crawl delay or a known IP address, or if the answer was a 503.
_ANSWER_REMEMBERED = 30.0


class BackOff:
    """The back-off of a host after a 429, a 503 or a failed connection.

    The back-off begins with a pause, in which no request to the host is sent. The pause lasts for the duration in
    ``Retry-After``; without this header, for 1, 2, 4, ... seconds, up to ``REP_BACKOFF_MAX``. After the pause, one
    request at a time is sent. Each success raises the concurrency by one, and the back-off ends when the host has
    its full concurrency again. If a pause, or a series of pauses without a success in between, is longer than
    ``REP_WAIT_TIMEOUT``, the gate refuses the requests to the host until the pause is over.
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
        """The end of the last pause that a 429, a 503 or a spider requested; ``-inf`` if there was none."""

        self.failed_until = -inf
        """The end of the last pause that a failed connection caused; ``-inf`` if there was none. The pause is cancelled
        if the connection turns out to have failed because of the crawler's own network."""

        self.own_pause = 0.0
        """The duration, in seconds, that the crawl chose for the last pause. A duration that the host states takes
        precedence. Each new pause doubles this value, and a success resets it to 0."""

        self.concurrency = 1
        """The maximum number of requests to the host in flight after the pause: 1 at first, and one more after each
        success."""

        self.paused_at = -inf
        """The time when the last pause began."""

        self.unmeasured_pause = 0.0
        """The duration, in seconds, of the last pause; 0 as soon as the ledger has recorded the first request after the
        pause."""

        self.has_answered = False
        """Whether a request has succeeded since the first pause of this back-off."""

        self.is_refusal_logged = False
        """Whether the log already contains the warning that requests to the host are refused."""

    @property
    def until(self) -> float:
        """The time when the pause ends, or when the last pause ended."""
        return max(self.asked_until, self.failed_until)


class Limiter:
    """Limits the requests that share one resource: a host name, a crawl delay, an IP address, a download slot whose
    name is not the host's, or the crawler's own network.

    A request is *planned* when the scheduler has handed it out or when room is reserved for it, and *sent* when it
    is on the network.
    """

    delay = 0.0
    """The pause, in seconds, from the end of one request to the start of the next. Always 0 except in a
    :class:`DelayLimiter`."""

    __slots__ = (
        "address", "alarm_at", "back_off", "concurrency", "concurrency_now", "crawl_delay", "ended_at",
        "had_503", "held_until", "is_queue_next", "key", "next_at", "parked", "planned", "ready", "refuses_until", "sent",
        "slot_due_at", "slot_free_at", "users", "waiters", "waiters_go_at",
    )  # fmt: skip

    def __init__(self, key: str, concurrency: float = inf) -> None:
        self.key = key
        self.concurrency = concurrency
        """The maximum number of requests in flight while there is no back-off."""

        self.concurrency_now = concurrency
        """The maximum number of requests in flight now. Lower than :attr:`concurrency` during a back-off."""

        self.next_at = -inf
        """No request is sent before this time."""

        self.held_until = -inf
        """This worker sends no request to the host before this time, because another worker is sending one. ``-inf`` if
        no other worker is."""

        self.slot_free_at = -inf
        """No request is planned before this time, because an earlier request still waits in Scrapy's download
        slot."""

        self.slot_due_at = -inf
        """For a download slot with a delay of its own (Scrapy's ``DOWNLOAD_DELAY``): the earliest time when Scrapy
        sends the slot's next request."""

        self.planned = 0
        """The number of requests that are planned but not sent yet."""

        self.sent = 0
        """The number of requests on the network."""

        self.ended_at = -inf
        """The time when the last download ended; ``-inf`` if none has ended yet."""

        self.back_off: BackOff | None = None
        """The back-off of the host; None if the host has its full concurrency."""

        self.refuses_until = -inf
        """Requests are refused before this time, because the pauses of the host exceed ``REP_WAIT_TIMEOUT``; ``-inf``
        if no requests are refused."""

        self.had_503 = False
        """Whether the last answer of the host was a 503."""

        self.crawl_delay: DelayLimiter | None = None
        """The limiter that keeps the host's crawl delay; None if the host has had no crawl delay so far, or if this is
        not the limiter of a host."""

        self.address: Limiter | None = None
        """The limiter that all hosts at the host's IP address share; None if the address is not known,
        ``REP_CONCURRENCY_PER_ADDRESS`` is not set, or this is not the limiter of a host."""

        self.waiters: deque[Any] | None = None
        """The requests outside the scheduler that wait for this limiter, the next one first; None if there are
        none."""

        self.parked: OrderedDict[Any, None] | None = None
        """The scheduler's queues that wait for this limiter, the next one first; None if there are none."""

        self.is_queue_next = False
        """Whether the next turn belongs to the first parked queue of the scheduler, and not to the first waiter
        (request outside the scheduler), because the last turn was a waiter's."""

        self.waiters_go_at = inf
        """Until this time, the first waiter (request outside the scheduler) lets a parked queue and the planned
        requests go first. ``inf`` if no waiter has let them go first since the last request ended."""

        self.ready: OrderedDict[Any, None] | None = None
        """For a download slot: its ready queues, in the order of their turns; None if there are none."""

        self.users = 0
        """The number of queues that need this limiter."""

        self.alarm_at = inf
        """The time when :meth:`Limits.tick` next lets the waiters and queues of this limiter continue as far as there
        is room; ``inf`` if no alarm is set."""

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
        """Set the maximum number of requests in flight. During a back-off, the lower limit of the back-off stays in
        force.
        """
        self.concurrency = concurrency
        self.concurrency_now = concurrency
        if self.back_off is not None:
            self.concurrency_now = min(concurrency, self.back_off.concurrency)

    # Each of the methods opens_for_...() returns the time from which the limiter has room for a request. There is room
    # now if this time is not later than now. The time is ``inf`` if another request has to end first, or has to be sent
    # first.

    def opens_for_planned(self) -> float:
        """Return the time from which a planned request may be sent; ``inf`` if another request has to end first."""
        return self.next_at if self.sent < self.concurrency_now else inf

    def opens_for_newcomer(self) -> float:
        """Return the time from which a request that is not planned, and has not waited yet, may be sent; ``inf`` if
        other requests must be sent or must end first.
        """
        return inf if self.waiters else self.opens_for_waiter()

    def opens_for_waiter(self) -> float:
        """Return the time from which the first of the requests that wait outside the scheduler may be sent. The time
        is ``inf`` if another request has to end first.

        If all remaining room is reserved for planned requests, the waiting request lets them go first until
        :attr:`waiters_go_at`. Afterwards, it may be sent before them. But only one request at a time takes reserved
        room, because a planned request may be on the network without a limiter's knowledge: a component such as
        Selenium's middleware may be downloading it.
        """
        in_flight = self.planned + self.sent
        if in_flight < self.concurrency_now:
            return self.next_at
        if in_flight > self.concurrency_now and self.sent:
            return inf
        return max(self.opens_for_planned(), self.waiters_go_at)

    def opens_for_queue(self, now: float) -> float:
        """Return the time from which the scheduler may plan another request; ``inf`` if other requests must be sent or
        must end first. While requests outside the scheduler wait, the scheduler may plan a request only if it is a
        queue's turn (:meth:`is_queue_turn`).
        """
        is_full = self.planned + self.sent >= self.concurrency_now
        if is_full or (self.waiters and not self.is_queue_turn(now)):
            return inf
        return max(self.next_at, self.slot_free_at)

    def is_queue_turn(self, now: float) -> bool:
        """Whether the next turn belongs to a queue of the scheduler, and not to the first request that waits outside
        the scheduler.
        """
        return self.is_queue_next and now < self.waiters_go_at

    def is_quiet(self, now: float) -> bool:
        """Whether the limiter may be forgotten, because no request is in flight or waits, and enough time has passed
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
        """The delay, in seconds, that each origin of the host requests. The longest delay applies."""

        self.waiting_since: float | None = None
        """The time when requests began to wait for the delay while no request to the host was in flight; None if no
        such wait is recorded."""

    def set_delay(self, origin: Origin, delay: float) -> None:
        """Set the delay, in seconds, that *origin* requests. 0 means that *origin* requests no delay."""
        if delay:
            self.delays[origin] = delay
        else:
            self.delays.pop(origin, None)
        self.delay = max(self.delays.values(), default=0.0)
        self.set_concurrency(1 if self.delay else inf)
        if not self.delay:
            self.next_at = -inf
