"""What limits the requests of a crawl. No Scrapy, no timers, no clock, no I/O."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import OrderedDict, deque
    from typing import Any

    from scrapy_rep.protocol.origins import Origin

# For how many seconds after a pause the crawl remembers that a host has asked for it, and after an answer,
# when that came from a host with a delay, or that it was a 503, or its address.
_REMEMBERED = 600.0
_LAST_REMEMBERED = 30.0


class BackOff:
    """What a limiter remembers of the answers 429 and 503, and of failures of the network, until all of
    its concurrency is back: a pause, then one request, then one more with each success.
    """

    __slots__ = (
        "asked", "asked_at", "asked_until", "concurrency", "failed_until", "has_answered",
        "is_reported_as_long", "own_pause", "since",
    )  # fmt: skip

    def __init__(self, since: float) -> None:
        self.since = since
        """When the first pause since the last success began."""

        self.asked_until = -inf
        """The end of the pause that the host has asked for."""

        self.failed_until = -inf
        """The end of the pause after a failure of the network. It is forgotten when the network of the
        crawler is back."""

        self.own_pause = 0.0
        """The seconds of the last pause that the crawl chose itself. The next one is twice as long."""

        self.concurrency = 1
        """How many requests may be in flight after the pause."""

        self.asked_at = -inf
        """When the last pause began."""

        self.asked = 0.0
        """The seconds of the pause after which no request was sent yet, for the ledger; 0 for none."""

        self.has_answered = False
        """Whether a request has succeeded since the first pause."""

        self.is_reported_as_long = False
        """Whether the log has said that requests are refused for it."""

    @property
    def until(self) -> float:
        """The end of the current pause, or of the last one."""
        return max(self.asked_until, self.failed_until)


class Limiter:
    """What requests share: a host name, its crawl delay, its address, a download slot of another name, or
    the network of the crawler.
    """

    __slots__ = (
        "address", "alarm_at", "back_off", "concurrency", "crawl_delay", "delay", "delays", "ended_at",
        "had_503", "is_queue_next", "key", "limit", "line", "line_goes_at", "next_at", "parked",
        "planned", "ready", "refuses_until", "sent", "slot_due_at", "slot_free_at",
        "users", "waiting_since",
    )  # fmt: skip

    def __init__(self, key: str, concurrency: float = inf) -> None:
        self.key = key
        self.concurrency = concurrency
        """How many requests may be in flight, without a back-off."""

        self.limit = concurrency
        """How many requests may be in flight now."""

        self.next_at = -inf
        """No request is sent before."""

        self.slot_free_at = -inf
        """No request is planned before, since one waits in Scrapy's download slot of this name."""

        self.slot_due_at = -inf
        """When Scrapy's download slot of this name, by its own delay, sends the next request."""

        self.planned = 0
        """The requests that the scheduler has handed out, and that are not on the network yet."""

        self.sent = 0
        """The requests on the network."""

        self.ended_at = -inf
        """When the last request that was sent has ended."""

        self.back_off: BackOff | None = None
        self.refuses_until = -inf
        """Until then, requests are refused, since the host has asked for too long a pause."""

        self.had_503 = False
        """Whether the last answer was a 503."""

        self.crawl_delay: Limiter | None = None
        """Of a host that asks for a delay: the limiter of the requests that keep to it."""

        self.address: Limiter | None = None
        """Of a host: the limiter of all hosts on its address; None if that is not known, or not limited."""

        # Of the limiter of a delay:
        self.delay = 0.0
        """The seconds from the end of one request to the start of the next."""

        self.delays: dict[Origin, float] | None = None
        """What each origin of the host asks for. The longest counts."""

        self.waiting_since: float | None = None
        """Since when requests wait while none is in flight; None if they do not."""

        # What waits:
        self.line: deque[Any] | None = None
        self.parked: OrderedDict[Any, None] | None = None
        self.is_queue_next = False
        """Whether a waiter went last, so that a queue is next if one is parked."""

        self.line_goes_at = inf
        """When the first in line goes before a queue that is next, and before what is planned; ``inf`` if the
        line has not had to let them go first since the last request has ended."""

        self.ready: OrderedDict[Any, None] | None = None
        """The queues of this download slot that are ready, in the order of their turns."""

        self.users = 0
        """How many queues need this limiter."""

        self.alarm_at = inf
        """When the limiter is to be looked at; ``inf`` for never."""

    def __repr__(self) -> str:
        words = [f"{self.planned} planned, {self.sent} sent"]
        if self.limit < inf:
            words[0] += f" of {self.limit:g}"
        if self.delay:
            words.append(f"delay {self.delay:g}")
        if self.next_at > -inf:
            words.append(f"next at {self.next_at:g}")
        words.append(
            f"{len(self.line or ())} wait, {len(self.parked or ())} queues parked"
        )
        return f"<Limiter {self.key}: {'; '.join(words)}>"

    def set_concurrency(self, concurrency: float) -> None:
        """Set how many requests may be in flight without a back-off."""
        self.concurrency = concurrency
        self.limit = concurrency
        if self.back_off is not None:
            self.limit = min(concurrency, self.back_off.concurrency)

    def can_plan(self, now: float) -> bool:
        """Whether the scheduler may hand out a request."""
        return (
            now >= self.next_at
            and now >= self.slot_free_at
            and self.planned + self.sent < self.limit
            and (not self.line or self.is_queue_next)
        )

    def can_send(self, now: float) -> bool:
        """Whether a request may be sent."""
        return now >= self.next_at and self.sent < self.limit

    def is_quiet(self, now: float) -> bool:
        """Whether nothing is in flight or waits, and nothing needs to be remembered."""
        if self.planned or self.sent or self.line or self.parked or now < self.next_at:
            return False
        if self.crawl_delay is not None and not self.crawl_delay.is_quiet(now):
            return False
        needs_last = self.delay or self.had_503 or self.address is not None
        if needs_last and now < max(self.next_at, self.ended_at) + _LAST_REMEMBERED:
            return False
        return self.back_off is None or now >= self.back_off.until + _REMEMBERED
