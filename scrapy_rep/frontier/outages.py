"""Outages: how long the requests of a host wait for a robots.txt that is unreachable, and
what the log says of it.
"""

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
    """The time from when a robots.txt was found to be unreachable until it is back.

    Moments are those of the monotonic clock, in seconds.
    """

    known: Known
    """What is known since the last fetch."""

    since: float

    until: float
    """When the requests of the host are given up."""

    given_up: bool
    """Whether requests of the host are refused at once."""

    ask_at: float = 0.0
    """When robots.txt is fetched again."""

    is_missed: bool = False
    """Whether requests have come since it was given up or last fetched."""

    is_over: bool = False

    @classmethod
    def begin(cls, known: Known, now: float, wait: float) -> Outage:
        """An outage whose requests wait for *wait* seconds."""
        given_up = known.entry.result.is_permanent or not wait
        return cls(known, now, now + wait, given_up)


def log_begin(crawler: Crawler, outage: Outage, count: int, retry: float) -> None:
    """Log that robots.txt is unreachable, and is fetched again in *retry* seconds."""
    if outage.given_up:
        message = (
            "%(url)s is unreachable (%(result)s): the requests of this host are "
            "refused (%(count)d are in the queue); robots.txt is asked for again in "
            "%(retry)s at the earliest, if there are requests then"
        )
    else:
        message = (
            "%(url)s is unreachable (%(result)s): the requests of this host wait for "
            "up to %(wait)s (%(count)d are in the queue; REP_UNREACHABLE_WAIT); it is "
            "asked for again in %(retry)s"
        )
    _log(logging.WARNING, message, crawler, outage, count=count, retry=_duration(retry))


def log_given_up(crawler: Crawler, outage: Outage, count: int) -> None:
    """Log that the requests of the host have waited in vain."""
    _log(
        logging.WARNING,
        "%(url)s is still unreachable (%(result)s) after %(wait)s: the requests of "
        "this host are refused (%(count)d are in the queue)",
        crawler,
        outage,
        count=count,
    )


def log_end(crawler: Crawler, outage: Outage, now: float) -> None:
    """Log that robots.txt is back."""
    _log(
        logging.INFO,
        "%(url)s is back after %(time)s (%(result)s): requests of this host go on",
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
    """Log what a crawl waits for that has nothing else to do."""
    logger.info(
        "Nothing to do at the moment: %(requests)d requests wait for %(hosts)d hosts whose "
        "robots.txt, delay or visiting hours have not come yet",
        {"requests": requests, "hosts": hosts},
        extra={"spider": crawler.spider},
    )


def _duration(seconds: float) -> str:
    """``0:00:30``, or ``12 days, 0:00:00``."""
    return str(timedelta(seconds=round(max(seconds, 0.0))))
