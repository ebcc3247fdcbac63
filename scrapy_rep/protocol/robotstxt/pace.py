"""The delays that robots.txt sets between requests: ``Crawl-delay`` and ``Request-rate``.

RFC 9309 defines neither. ``Crawl-delay`` is a number of seconds. ``Request-rate`` comes from "An
Extended Standard for Robot Exclusion" (1996): ``1/5`` allows one page in five seconds. A unit,
``s``, ``m`` or ``h``, may follow the number of seconds. A time of day may follow too; it is ignored,
so the rate applies all day.

All other values are ignored, such as a negative number, ``inf``, ``1e3``, or ``1,5``, which could
mean a fraction or a list.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from scrapy_rep.protocol.robotstxt.groups import OtherRecord
from scrapy_rep.protocol.robotstxt.rules import Decision, Reason, Rule

# _DELAY and _RATE are strings, not compiled patterns. Few files have delays, so Python compiles each expression at
# its first use.
_DELAY = r"(?ai)(\d+(?:\.\d*)?|\.\d+)\s?(?:s|secs?|seconds?)?"

# The maximum Crawl-delay, in seconds. A longer delay is reduced to this value.
_MAX_DELAY = 1e9

# Matches the value of a Request-rate, such as "1/5". Each number has at most nine digits, which are enough for any real
# value and keep the numbers small.
_RATE = r"(?a)(\d{1,9})\s?/\s?(\d{1,9})\s?([smh]?)(?:\s+\d\d:?\d\d-\d\d:?\d\d)?"
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


class RequestRate(NamedTuple):
    """A maximum rate: *requests* requests in *seconds* seconds."""

    requests: int
    seconds: int

    @property
    def delay(self) -> float:
        """The delay between two requests, in seconds."""
        return self.seconds / self.requests


class Pace(NamedTuple):
    """The delay between two requests that a robots.txt sets for a crawler. The delay comes from the groups that the
    crawler follows.
    """

    crawl_delay: float | None = None
    """The longest ``Crawl-delay``, in seconds, in the groups that the crawler follows. None if these groups have no
    valid ``Crawl-delay``."""

    request_rate: RequestRate | None = None
    """The slowest ``Request-rate`` in the groups that the crawler follows. None if these groups have no valid
    ``Request-rate``."""

    delay: float = 0.0
    """The delay between two requests, in seconds: the delay of :attr:`crawl_delay` or of :attr:`request_rate`,
    whichever is longer. 0 if these two fields are None."""

    record: OtherRecord | None = None
    """The first record that sets :attr:`delay`; None if the delay is 0."""

    @classmethod
    def of(cls, records: Iterable[OtherRecord]) -> "Pace":
        """Return the pace that the ``Crawl-delay`` and ``Request-rate`` lines in *records* set."""
        delays: list[float] = []
        rates: list[RequestRate] = []
        longest, longest_record = 0.0, None
        for record in records:
            value = READERS[record.field](record.value)
            if value is None:
                continue
            if isinstance(value, RequestRate):
                rates.append(value)
                delay = value.delay
            else:
                delays.append(value)
                delay = value
            if delay > longest:
                longest, longest_record = delay, record
        slowest = max(rates, key=lambda rate: rate.delay, default=None)
        return cls(max(delays, default=None), slowest, longest, longest_record)

    def refusal(self, agent: str | None) -> Decision:
        """Return a decision that refuses a URL because the delay is longer than the crawl accepts. The rule
        in the decision is the record that sets the delay. *agent* is the product token whose groups the
        crawler follows, or ``*``.
        """
        record = self.record
        rule = record and Rule(record.field, record.value, record.line)
        return Decision(False, rule, agent, Reason.CRAWL_DELAY)


NO_PACE = Pace()


def crawl_delay(value: str) -> float | None:
    """Return the delay, in seconds, in the *value* of a ``Crawl-delay`` line, or None if the value is invalid. A
    valid value is a decimal number, with or without a unit such as ``s``, ``sec`` or ``seconds``.
    """
    match = re.fullmatch(_DELAY, value)
    return min(float(match[1]), _MAX_DELAY) if match else None


def request_rate(value: str) -> RequestRate | None:
    """Return the rate in the *value* of a ``Request-rate`` line, or None if the value is invalid."""
    match = re.fullmatch(_RATE, value.lower())
    if match is None:
        return None
    requests, seconds = int(match[1]), int(match[2]) * _SECONDS[match[3]]
    return RequestRate(requests, seconds) if requests and seconds else None


READERS: dict[str, Callable[[str], float | RequestRate | None]] = {
    "crawl-delay": crawl_delay,
    "request-rate": request_rate,
}
"""The functions that parse the values of delay lines, by field."""
