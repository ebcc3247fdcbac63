"""How fast, and when: the values of ``Crawl-delay``, ``Request-rate``, ``Visit-time``.

None of them is in RFC 9309. ``Crawl-delay`` is a number of seconds; the other two come
from "An Extended Standard for Robot Exclusion" (1996): ``Request-rate: 1/5`` is a page in
five seconds (with ``s``, ``m``, ``h`` for the unit, and a window of time if one follows),
``Visit-time: 0600-0845`` is a window, in UTC.
"""

from __future__ import annotations

import re
from datetime import time
from typing import NamedTuple

# At most nine digits each: enough for any real value, and never too large a number.
_DELAY = re.compile(r"\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}", re.ASCII)
_RATE = re.compile(r"(\d{1,9})\s?/\s?(\d{1,9})\s?([smh]?)(?:\s+(\S+))?", re.ASCII)
_WINDOW = re.compile(r"(\d\d):?(\d\d)\s?-\s?(\d\d):?(\d\d)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


class RequestRate(NamedTuple):
    """At most *requests* in *seconds*; between *start* and *end* (UTC) if given."""

    requests: int
    seconds: int
    start: time | None
    end: time | None


class VisitTime(NamedTuple):
    """The window of the day, in UTC, in which visits are welcome."""

    start: time
    end: time


def crawl_delay(value: str) -> float | None:
    """The seconds of a ``Crawl-delay``, or None if it is no plain decimal number."""
    return float(value) if _DELAY.fullmatch(value) else None


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
