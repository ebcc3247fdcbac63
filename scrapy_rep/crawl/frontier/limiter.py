"""Limiters: each says how many requests that share something may be in flight, and when the next one may be
sent. This module has no Scrapy, no timers, no clock and no I/O; all times are seconds of a monotonic clock.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import OrderedDict, deque
    from typing import Any

    from scrapy_rep.protocol.origins import Origin

# An idle limiter is kept for at least this many seconds after the last pause of its host. If it were forgotten
# earlier, a host that keeps asking for pauses would begin with the shortest one again.
_BACK_OFF_REMEMBERED = 600.0

# It is also kept for at least this many seconds after the last answer of a host that has a crawl delay or a known address,
# or that answered 503.
_ANSWER_REMEMBERED = 30.0


class BackOff:
    """The back-off of a host after a 429, a 503 or a failed connection: first a pause, then one request at a
    time, then one more at a time after each success, until the host has its full concurrency again.
    """

    __slots__ = (
        "asked_until", "concurrency", "failed_until", "has_answered", "is_refusal_logged", "own_pause",
        "paused_at", "since", "unmeasured_pause",
    )  # fmt: skip

    def __init__(self, since: float) -> None:
        self.since = since
        """When the first pause since the last success began. ``REP_WAIT_TIMEOUT`` counts from here."""

        self.asked_until = -inf
        """When the pause ends that a 429, a 503 or a spider asked for."""

        self.failed_until = -inf
        """When the pause after a failed connection ends. If the crawler's own network turns out to have been
        the cause, this pause is cancelled."""

        self.own_pause = 0.0
        """The seconds of the last pause for which the host named no duration. The next such pause is twice as
        long."""

        self.concurrency = 1
        """How many requests to the host may be in flight after the pause."""

        self.paused_at = -inf
        """When the last pause began."""

        self.unmeasured_pause = 0.0
        """The seconds of the last pause while the ledger still waits for the first request after it; else 0."""

        self.has_answered = False
        """Whether a request has succeeded since the first pause."""

        self.is_refusal_logged = False
        """Whether the log has said that requests to the host are refused."""

    @property
    def until(self) -> float:
        """When the current pause ends, or the last one ended."""
        return max(self.asked_until, self.failed_until)


class Limiter:
    """Limits the requests that share a host name, a crawl delay, an address, a download slot of another name,
    or the network of the crawler.
    """

    delay = 0.0
    """The seconds from the end of one request to the start of the next; only a :class:`DelayLimiter` has any."""

    __slots__ = (
        "address", "alarm_at", "back_off", "concurrency", "concurrency_now", "crawl_delay", "ended_at",
        "had_503", "held_until", "is_queue_next", "key", "next_at", "parked", "planned", "ready", "refuses_until", "sent",
        "slot_due_at", "slot_free_at", "users", "waiters", "waiters_go_at",
    )  # fmt: skip

    def __init__(self, key: str, concurrency: float = inf) -> None:
        self.key = key
        self.concurrency = concurrency
        """How many requests may be in flight while the host is not backing off."""

        self.concurrency_now = concurrency
        """How many requests may be in flight now: less than :attr:`concurrency` during a back-off."""

        self.next_at = -inf
        """No request is sent before this time."""

        self.held_until = -inf
        """No request is sent before this time because another worker sends one."""

        self.slot_free_at = -inf
        """No request is planned before this time, because one still waits in Scrapy's download slot."""

        self.slot_due_at = -inf
        """When Scrapy's download slot of this name, which has a delay of its own, sends its next request."""

        self.planned = 0
        """The number of requests that are planned but not sent yet."""

        self.sent = 0
        """The number of requests on the network."""

        self.ended_at = -inf
        """When the last request that was sent has ended."""

        self.back_off: BackOff | None = None
        self.refuses_until = -inf
        """Requests are refused before this time, because the pauses of the host exceed ``REP_WAIT_TIMEOUT``."""

        self.had_503 = False
        """Whether the last answer was a 503."""

        self.crawl_delay: DelayLimiter | None = None
        """For a host with a crawl delay: the limiter of the requests that keep the delay."""

        self.address: Limiter | None = None
        """For a host: the limiter that all hosts on its IP address share; None if the address is not known, or
        ``REP_CONCURRENCY_PER_ADDRESS`` is not set."""

        # Waiting for this limiter:
        self.waiters: deque[Any] | None = None
        """The requests past the scheduler, in the order in which they go; None if there are none."""

        self.parked: OrderedDict[Any, None] | None = None
        """The queues of the scheduler, in the order in which they go; None if there are none."""

        self.is_queue_next = False
        """Whether a parked queue goes before the waiters, because a waiter went last."""

        self.waiters_go_at = inf
        """When the first waiter need no longer let a parked queue and the planned requests go first; ``inf`` if
        no waiter has let them go first since a request has ended."""

        self.ready: OrderedDict[Any, None] | None = None
        """For a download slot: its queues that are ready, in the order of their turns; None if none is."""

        self.users = 0
        """The number of queues that need this limiter."""

        self.alarm_at = inf
        """When :meth:`Limits.tick` reconciles this limiter; ``inf`` for never."""

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
        """Set how many requests may be in flight while the host is not backing off."""
        self.concurrency = concurrency
        self.concurrency_now = concurrency
        if self.back_off is not None:
            self.concurrency_now = min(concurrency, self.back_off.concurrency)

    def can_plan(self, now: float) -> bool:
        """Whether the scheduler may hand out a request."""
        return (
            now >= self.next_at
            and now >= self.slot_free_at
            and self.planned + self.sent < self.concurrency_now
            and (not self.waiters or self.is_queue_next)
        )

    def can_send(self, now: float) -> bool:
        """Whether a request may be sent."""
        return now >= self.next_at and self.sent < self.concurrency_now

    def is_quiet(self, now: float) -> bool:
        """Whether the limiter may be forgotten: no request is in flight or waits, and the last answer and the
        last pause are long enough ago.
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
    """Limits the requests to a host to one at a time, with its crawl delay between them."""

    __slots__ = ("delay", "delays", "waiting_since")

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.delay = 0.0
        self.delays: dict[Origin, float] = {}
        """The delay in seconds that each origin of the host asks for. The longest one is kept."""

        self.waiting_since: float | None = None
        """Since when requests wait while no request is in flight; None if none waits."""

    def set_delay(self, origin: Origin, delay: float) -> None:
        """Note that *origin* asks for *delay* seconds; 0 for no delay."""
        if delay:
            self.delays[origin] = delay
        else:
            self.delays.pop(origin, None)
        self.delay = max(self.delays.values(), default=0.0)
        self.set_concurrency(1 if self.delay else inf)
        if not self.delay:
            self.next_at = -inf
