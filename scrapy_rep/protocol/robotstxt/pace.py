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

# The longest delay, in seconds. Longer ones are cut to this.
_MAX_DELAY = 1e9

# Nine digits are enough for any real value, and keep numbers small.
_RATE = r"(?a)(\d{1,9})\s?/\s?(\d{1,9})\s?([smh]?)(?:\s+\d\d:?\d\d-\d\d:?\d\d)?"
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


class RequestRate(NamedTuple):
    """At most *requests* in *seconds*."""

    requests: int
    seconds: int

    @property
    def delay(self) -> float:
        """The seconds between two requests."""
        return self.seconds / self.requests


class Pace(NamedTuple):
    """The delay for which the groups of a crawler ask."""

    crawl_delay: float | None = None
    """The longest ``Crawl-delay``, in seconds."""

    request_rate: RequestRate | None = None
    """The slowest ``Request-rate``."""

    delay: float = 0.0
    """The longer one of the two delays, in seconds; 0 if there is none."""

    record: OtherRecord | None = None
    """The first record that asks for this delay."""

    @classmethod
    def of(cls, records: Iterable[OtherRecord]) -> "Pace":
        """Return the delay that *records* with a delay or rate ask for."""
        delays: list[float] = []
        rates: list[RequestRate] = []
        longest, asking = 0.0, None
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
                longest, asking = delay, record
        slowest = max(rates, key=lambda rate: rate.delay, default=None)
        return cls(max(delays, default=None), slowest, longest, asking)

    def refusal(self, agent: str | None) -> Decision:
        """Return the decision that refuses a URL because the delay is longer than the crawl accepts. The
        rule of the decision is the record that asks for the delay. *agent* is the product token, or
        ``*``, whose groups the crawler follows.
        """
        record = self.record
        rule = record and Rule(record.field, record.value, record.line)
        return Decision(False, rule, agent, Reason.CRAWL_DELAY)


NO_PACE = Pace()


def crawl_delay(value: str) -> float | None:
    """Return the seconds of a ``Crawl-delay``, or None for an invalid value.

    The value is a decimal number; ``s``, ``sec`` or ``seconds`` may follow it.
    """
    match = re.fullmatch(_DELAY, value)
    return min(float(match[1]), _MAX_DELAY) if match else None


def request_rate(value: str) -> RequestRate | None:
    """Return the rate of a ``Request-rate``, or None for an invalid value."""
    match = re.fullmatch(_RATE, value.lower())
    if match is None:
        return None
    requests, seconds = int(match[1]), int(match[2]) * _SECONDS[match[3]]
    return RequestRate(requests, seconds) if requests and seconds else None


READERS: dict[str, Callable[[str], float | RequestRate | None]] = {
    "crawl-delay": crawl_delay,
    "request-rate": request_rate,
}
"""The parser for the values of each field."""
