"""The delays that robots.txt asks for: ``Crawl-delay`` and ``Request-rate``.

Neither is in RFC 9309. ``Crawl-delay`` is a number of seconds. ``Request-rate`` comes from "An
Extended Standard for Robot Exclusion" (1996): ``1/5`` allows a page in five seconds; ``s``,
``m`` or ``h`` may give the unit. A time of day may follow, and is ignored: the rate always holds.

Crawlers ignore any other value: a negative number, ``inf``, ``1e3``, or ``1,5``, which may
be a fraction or a list.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from scrapy_rep.protocol.robotstxt.groups import OtherRecord
from scrapy_rep.protocol.robotstxt.rules import Decision, Reason, Rule

# Python compiles these expressions at their first use, since few files have delays.
_DELAY = r"(?ai)(\d+(?:\.\d*)?|\.\d+)\s?(?:s|secs?|seconds?)?"

# The longest delay, in seconds. A longer value counts as this delay.
_MAX_DELAY = 1e9

# Nine digits are enough for any real value, and keep numbers small.
_RATE = r"(?a)(\d{1,9})\s?/\s?(\d{1,9})\s?([smh]?)(?:\s+\d\d:?\d\d-\d\d:?\d\d)?"
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


class RequestRate(NamedTuple):
    """A rate of at most so many *requests* in so many *seconds*."""

    requests: int
    seconds: int

    @property
    def delay(self) -> float:
        """The seconds between two requests."""
        return self.seconds / self.requests


class Pace(NamedTuple):
    """How long a crawler must wait between two requests, as its groups in robots.txt ask."""

    crawl_delay: float | None = None
    """The longest ``Crawl-delay``, in seconds."""

    request_rate: RequestRate | None = None
    """The slowest ``Request-rate``."""

    delay: float = 0.0
    """The delay between two requests in seconds: the longer of ``Crawl-delay`` and ``Request-rate``; 0
    if the groups have neither."""

    record: OtherRecord | None = None
    """The first record that asks for :attr:`delay`; None if it is 0."""

    @classmethod
    def of(cls, records: Iterable[OtherRecord]) -> "Pace":
        """Return the delay for which *records* ask: ``Crawl-delay`` and ``Request-rate`` lines."""
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
        """Return the decision that refuses a URL because the delay is longer than the crawl accepts. The
        rule of the decision is the record that asks for the delay. *agent* is the product token of
        the groups that the crawler follows, or ``*``.
        """
        record = self.record
        rule = record and Rule(record.field, record.value, record.line)
        return Decision(False, rule, agent, Reason.CRAWL_DELAY)


NO_PACE = Pace()


def crawl_delay(value: str) -> float | None:
    """Return the number of seconds that the value of a ``Crawl-delay`` states, or None for an invalid
    value. A value is a decimal number, with or without ``s``, ``sec`` or ``seconds`` after it.
    """
    match = re.fullmatch(_DELAY, value)
    return min(float(match[1]), _MAX_DELAY) if match else None


def request_rate(value: str) -> RequestRate | None:
    """Return the rate that the value of a ``Request-rate`` states, or None for an invalid value."""
    match = re.fullmatch(_RATE, value.lower())
    if match is None:
        return None
    requests, seconds = int(match[1]), int(match[2]) * _SECONDS[match[3]]
    return RequestRate(requests, seconds) if requests and seconds else None


READERS: dict[str, Callable[[str], float | RequestRate | None]] = {
    "crawl-delay": crawl_delay,
    "request-rate": request_rate,
}
"""For each field of a delay, the function that parses its value."""
