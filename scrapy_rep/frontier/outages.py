"""Outages: periods in which a robots.txt is unreachable, and their log messages."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from scrapy_rep.log import get_logger

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_rep.fetching.cache import Known

logger = get_logger(__name__)


@dataclass(slots=True, eq=False)
class Outage:
    """A period in which a robots.txt is unreachable.

    All times are seconds on the monotonic clock.
    """

    known: Known
    """The result of the last fetch."""

    since: float

    until: float
    """The time until which requests to the host wait; then they are refused."""

    given_up: bool
    """Whether requests to the host are refused at once."""

    retry_at: float = 0.0
    """The time from which robots.txt may be fetched again."""

    is_needed: bool = False
    """Whether a refused request has made the next fetch necessary."""

    is_over: bool = False

    @classmethod
    def begin(cls, known: Known, now: float, wait: float) -> Outage:
        """Return an outage in which requests wait for *wait* seconds."""
        given_up = known.entry.result.is_permanent or not wait
        return cls(known, now, now + wait, given_up)


def log_begin(crawler: Crawler, outage: Outage, count: int, retry: float) -> None:
    """Log that robots.txt is unreachable; it may be fetched again in *retry* seconds."""
    if outage.given_up:
        message = (
            "%(url)s is unreachable (%(result)s): requests to this host are refused "
            "(%(count)d in the queue). If more requests come, robots.txt is fetched again, "
            "in %(retry)s at the earliest"
        )
    else:
        message = (
            "%(url)s is unreachable (%(result)s): requests to this host wait for up to "
            "%(wait)s (%(count)d in the queue; REP_UNREACHABLE_WAIT). robots.txt is "
            "fetched again in %(retry)s"
        )
    _log(logging.WARNING, message, crawler, outage, count=count, retry=_duration(retry))


def log_given_up(crawler: Crawler, outage: Outage, count: int) -> None:
    """Log that robots.txt is still unreachable, and that requests no longer wait."""
    _log(
        logging.WARNING,
        "%(url)s is still unreachable (%(result)s) after %(wait)s: requests to this "
        "host are refused (%(count)d in the queue). If more requests come, robots.txt "
        "is fetched again",
        crawler,
        outage,
        count=count,
    )


def log_end(crawler: Crawler, outage: Outage, now: float) -> None:
    """Log that robots.txt is reachable again."""
    _log(
        logging.INFO,
        "%(url)s is back after %(time)s (%(result)s): requests to this host continue",
        crawler,
        outage,
        time=_duration(now - outage.since),
    )


def _log(
    level: int, message: str, crawler: Crawler, outage: Outage, **values: object
) -> None:
    values |= {
        "url": outage.known.origin.robotstxt_url,
        "result": outage.known.entry.result,
        "wait": _duration(outage.until - outage.since),
    }
    logger.log(level, message, values, extra={"spider": crawler.spider})


def log_waiting(crawler: Crawler, requests: int, hosts: int) -> None:
    """Log what an idle crawl waits for."""
    logger.info(
        "Nothing to do at the moment: %(requests)d requests wait for %(hosts)d hosts, for "
        "their robots.txt, delay or visiting hours",
        {"requests": requests, "hosts": hosts},
        extra={"spider": crawler.spider},
    )


def _duration(seconds: float) -> str:
    """Format a duration, as ``0:00:30`` or ``12 days, 0:00:00``."""
    return str(timedelta(seconds=round(max(seconds, 0.0))))
