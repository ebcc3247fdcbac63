"""How fast and when a host may be visited: ``Crawl-delay``, ``Request-rate``,
``Visit-time``.

None of them is in RFC 9309. ``Crawl-delay`` is a number of seconds; the other two come
from "An Extended Standard for Robot Exclusion" (1996): ``Request-rate: 1/5`` is a page in
five seconds (with ``s``, ``m``, ``h`` for the unit, and a window of time if one follows),
``Visit-time: 0600-0845`` is a window, in UTC.

Any other value is ignored: a negative number, ``inf``, ``1e3``, or ``1,5``, which may be a
fraction or a list.
"""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.protocol.robotstxt.groups import Record

_DELAY = re.compile(
    r"(\d+(?:\.\d*)?|\.\d+)\s?(?:s|secs?|seconds?)?", re.ASCII | re.IGNORECASE
)

# In seconds: a longer delay is cut to this.
_MAX_DELAY = 1e9

# At most nine digits each: enough for any real value, and never too large a number.
_RATE = re.compile(r"(\d{1,9})\s?/\s?(\d{1,9})\s?([smh]?)(?:\s+(\S+))?", re.ASCII)
_WINDOW = re.compile(r"(\d\d):?(\d\d)\s?-\s?(\d\d):?(\d\d)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


class RequestRate(NamedTuple):
    """At most *requests* in *seconds*; between *start* and *end* (UTC) if given."""

    requests: int
    seconds: int
    start: time | None
    end: time | None

    @property
    def delay(self) -> float:
        """The seconds between two requests."""
        return self.seconds / self.requests

    def holds(self, now: datetime) -> bool:
        """Whether *now* (UTC) is in the window of this rate."""
        if self.start is None or self.end is None:
            return True
        return _is_between(self.start, self.end, now.time())


class VisitTime(NamedTuple):
    """The window of the day, in UTC, in which visits are welcome."""

    start: time
    end: time

    def opens_in(self, now: datetime) -> float:
        """The seconds from *now* (UTC) until it is open; 0 where it is."""
        if _is_between(self.start, self.end, now.time()):
            return 0.0
        opens = datetime.combine(now.date(), self.start, now.tzinfo)
        if opens <= now:
            opens += timedelta(days=1)
        return (opens - now).total_seconds()


class Pace(NamedTuple):
    """The delays, rates and windows that the groups of a crawler state."""

    crawl_delay: float | None
    """The largest ``Crawl-delay``, in seconds."""

    request_rates: tuple[RequestRate, ...]

    visit_time: VisitTime | None
    """The first ``Visit-time``."""

    records: tuple[Record, ...] = ()
    """The records that this was read from, in file order, unreadable ones included."""

    @classmethod
    def of(cls, records: Iterable[Record]) -> Pace:
        found = tuple(records)
        delays = [
            crawl_delay(each.value) for each in found if each.field == "crawl-delay"
        ]
        rates = [
            request_rate(each.value) for each in found if each.field == "request-rate"
        ]
        visits = [
            visit_time(each.value) for each in found if each.field == "visit-time"
        ]
        return cls(
            max((delay for delay in delays if delay is not None), default=None),
            tuple(filter(None, rates)),
            next(filter(None, visits), None),
            found,
        )

    @property
    def changes(self) -> bool:
        """Whether the delay or the windows depend on the time of day."""
        has_windows = any(rate.start is not None for rate in self.request_rates)
        return has_windows or self.visit_time is not None

    def delay(self, now: datetime) -> float:
        """The seconds between two requests at the time *now* (UTC); 0 where no delay is
        asked for.
        """
        rates = (rate.delay for rate in self.request_rates if rate.holds(now))
        return max(self.crawl_delay or 0.0, *rates, 0.0)

    def opens_in(self, now: datetime) -> float:
        """The seconds from *now* (UTC) until the window for visits opens; 0 where it is
        open."""
        return self.visit_time.opens_in(now) if self.visit_time else 0.0

    def record_of_delay(self, now: datetime) -> Record | None:
        """The first record that asks for the delay at the time *now*."""
        delay = self.delay(now)
        for record in self.records:
            if Pace.of([record]).delay(now) == delay:
                return record
        return None

    def record_of_visit_time(self) -> Record | None:
        """The record that states the window for visits."""
        for record in self.records:
            if record.field == "visit-time" and visit_time(record.value):
                return record
        return None


NO_PACE = Pace(None, (), None)


def crawl_delay(value: str) -> float | None:
    """The seconds of a ``Crawl-delay``: a decimal number, with or without ``s`` or
    ``seconds`` behind it. None for any other value.
    """
    match = _DELAY.fullmatch(value)
    return min(float(match[1]), _MAX_DELAY) if match else None


def request_rate(value: str) -> RequestRate | None:
    """The rate that a ``Request-rate`` states, or None if it states none."""
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
    """The window that a ``Visit-time`` states, or None if it states none."""
    match = _WINDOW.fullmatch(value)
    if match is None:
        return None
    hour, minute, end_hour, end_minute = map(int, match.groups())
    if max(hour, end_hour) > 23 or max(minute, end_minute) > 59:
        return None
    return VisitTime(time(hour, minute), time(end_hour, end_minute))


def _is_between(start: time, end: time, now: time) -> bool:
    """Whether *now* is in a window of the day: the minute that it ends with is a part of
    it, it may go over midnight, and one that ends where it starts is the whole day.
    """
    last = end.replace(second=59, microsecond=999_999)
    if start < end:
        return start <= now <= last
    return now >= start or now <= last
