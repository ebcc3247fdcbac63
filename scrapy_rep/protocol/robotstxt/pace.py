"""How fast and when a crawler may visit a host: ``Crawl-delay``, ``Request-rate``,
``Visit-time``.

None of them is in RFC 9309. ``Crawl-delay`` is a number of seconds. The other two come from
"An Extended Standard for Robot Exclusion" (1996). ``Request-rate: 1/5`` allows a page in
five seconds; ``s``, ``m`` or ``h`` may give the unit, and a window of time may follow.
``Visit-time: 0600-0845`` is a window in UTC.

Crawlers ignore any other value: a negative number, ``inf``, ``1e3``, or ``1,5``, which may
be a fraction or a list.
"""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.protocol.robotstxt.decisions import Decision, Reason
from scrapy_rep.protocol.robotstxt.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy_rep.protocol.robotstxt.groups import OtherRecord

_DELAY = re.compile(
    r"(\d+(?:\.\d*)?|\.\d+)\s?(?:s|secs?|seconds?)?", re.ASCII | re.IGNORECASE
)

# The longest delay, in seconds. Longer ones are cut to this.
_MAX_DELAY = 1e9

# Nine digits are enough for any real value, and keep numbers small.
_RATE = re.compile(r"(\d{1,9})\s?/\s?(\d{1,9})\s?([smh]?)(?:\s+(\S+))?", re.ASCII)
_WINDOW = re.compile(r"(\d\d):?(\d\d)\s?-\s?(\d\d):?(\d\d)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


class RequestRate(NamedTuple):
    """At most *requests* in *seconds*, between *start* and *end* (UTC) if they are set."""

    requests: int
    seconds: int
    start: time | None
    end: time | None

    @property
    def delay(self) -> float:
        """The seconds between two requests."""
        return self.seconds / self.requests

    def holds(self, now: datetime) -> bool:
        """Whether the rate applies at the time *now* (UTC)."""
        if self.start is None or self.end is None:
            return True
        return _is_between(self.start, self.end, now.time())


class VisitTime(NamedTuple):
    """The daily window, in UTC, in which the host allows visits."""

    start: time
    end: time

    def opens_in(self, now: datetime) -> float:
        """Return the seconds from *now* (UTC) until the window opens; 0 if it is open."""
        if _is_between(self.start, self.end, now.time()):
            return 0.0
        opens = datetime.combine(now.date(), self.start, now.tzinfo)
        if opens <= now:
            opens += timedelta(days=1)
        return (opens - now).total_seconds()


class Demand(NamedTuple):
    """What a host demands of a crawl at one time. Both numbers are in seconds."""

    delay: float
    """The time between two requests."""

    opens_in: float
    """The time until the host is open for visits."""

    refusal: Reason | None
    """The reason to refuse requests, if the crawl does not accept this."""


NO_DEMAND = Demand(0.0, 0.0, None)


class Pace(NamedTuple):
    """The delays, rates and windows in the groups of a crawler."""

    crawl_delay: float | None
    """The largest ``Crawl-delay``, in seconds."""

    request_rates: tuple[RequestRate, ...]

    visit_time: VisitTime | None
    """The first ``Visit-time``."""

    records: tuple[OtherRecord, ...] = ()
    """The records of all these, in file order, including invalid ones."""

    @classmethod
    def of(cls, records: Iterable[OtherRecord]) -> Pace:
        found = tuple(records)
        values: dict[str, list[Any]] = {field: [] for field in READERS}
        for each in found:
            value = READERS[each.field](each.value)
            if value is not None:
                values[each.field].append(value)
        return cls(
            max(values["crawl-delay"], default=None),
            tuple(values["request-rate"]),
            next(iter(values["visit-time"]), None),
            found,
        )

    @property
    def changes(self) -> bool:
        """Whether the delay, or whether visits are allowed, depends on the time of day."""
        has_windows = any(rate.start is not None for rate in self.request_rates)
        return has_windows or self.visit_time is not None

    def delay(self, now: datetime) -> float:
        """Return the seconds between two requests at the time *now* (UTC); 0 for no delay."""
        rates = (rate.delay for rate in self.request_rates if rate.holds(now))
        return max(self.crawl_delay or 0.0, *rates, 0.0)

    def opens_in(self, now: datetime) -> float:
        """Return the seconds from *now* (UTC) until the visit window opens; 0 if it is open."""
        return self.visit_time.opens_in(now) if self.visit_time else 0.0

    def demand(self, now: datetime, *, delay_max: float, wait_max: float) -> Demand:
        """Return what a crawl that accepts a delay of *delay_max* seconds, and waits at most
        *wait_max* seconds until a host opens, keeps to at the time *now* (UTC).
        """
        delay, opens_in = self.delay(now), self.opens_in(now)
        refusal = None
        if delay > delay_max:
            refusal = Reason.CRAWL_DELAY
        elif opens_in > wait_max:
            refusal = Reason.VISIT_TIME
        return Demand(delay, opens_in, refusal)

    def refusal(self, reason: Reason, now: datetime, agent: str | None) -> Decision:
        """Return the decision that refuses a URL, which the rules allow, because of the pace.

        *reason* is ``CRAWL_DELAY`` or ``VISIT_TIME``: what asks at the time *now* (UTC) for more
        than the crawl accepts. The rule of the decision is the record that asks for it. *agent*
        is the product token, or ``*``, whose groups the crawler follows.
        """
        record = self.record_of(reason, now)
        rule = record and Rule(record.field, record.value, record.line)
        return Decision(False, rule, agent, reason)

    def record_of(self, reason: Reason, now: datetime) -> OtherRecord | None:
        """Return the record that asks for the delay at the time *now* (UTC), if *reason* is
        ``CRAWL_DELAY``, or for the visit window.
        """

        def asks(record: OtherRecord) -> bool:
            alone = Pace.of([record])
            if reason is Reason.CRAWL_DELAY:
                return alone.delay(now) == self.delay(now)
            return alone.visit_time is not None

        return next(filter(asks, self.records), None)


NO_PACE = Pace(None, (), None)


def crawl_delay(value: str) -> float | None:
    """Return the seconds of a ``Crawl-delay``, or None for an invalid value.

    The value is a decimal number; ``s``, ``sec`` or ``seconds`` may follow it.
    """
    match = _DELAY.fullmatch(value)
    return min(float(match[1]), _MAX_DELAY) if match else None


def request_rate(value: str) -> RequestRate | None:
    """Return the rate of a ``Request-rate``, or None for an invalid value."""
    match = _RATE.fullmatch(value.lower())
    if match is None:
        return None
    requests, per, unit, hours = match.groups()
    seconds = int(per) * _SECONDS[unit]
    if not int(requests) or not seconds:
        return None
    if hours is None:
        return RequestRate(int(requests), seconds, None, None)
    window = visit_time(hours)
    return window and RequestRate(int(requests), seconds, window.start, window.end)


def visit_time(value: str) -> VisitTime | None:
    """Return the window of a ``Visit-time``, or None for an invalid value."""
    match = _WINDOW.fullmatch(value)
    if match is None:
        return None
    hour, minute, end_hour, end_minute = map(int, match.groups())
    if max(hour, end_hour) > 23 or max(minute, end_minute) > 59:
        return None
    return VisitTime(time(hour, minute), time(end_hour, end_minute))


READERS: dict[str, Callable[[str], float | RequestRate | VisitTime | None]] = {
    "crawl-delay": crawl_delay,
    "request-rate": request_rate,
    "visit-time": visit_time,
}
"""The reader of the values of each field."""


def _is_between(start: time, end: time, now: time) -> bool:
    """Whether *now* is in a daily window.

    The window includes its last minute, and may extend over midnight. If it ends where it
    starts, it is the whole day.
    """
    last = end.replace(second=59, microsecond=999_999)
    if start < end:
        return start <= now <= last
    return now >= start or now <= last
