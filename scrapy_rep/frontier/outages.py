"""Outages: how long the requests of a host wait for a robots.txt that is unreachable, and
what the log says of it.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from scrapy_rep.log import get_logger

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_rep.fetching.cache import Known

logger = get_logger(__name__)


class Outage:
    """The time from when a robots.txt was found to be unreachable until it is back.

    Moments are those of the monotonic clock, in seconds.
    """

    __slots__ = (
        "ask_at",
        "given_up",
        "is_missed",
        "is_over",
        "known",
        "since",
        "until",
    )

    def __init__(self, known: Known, now: float, wait: float) -> None:
        self.known = known
        """What is known since the last fetch."""

        self.since = now
        self.until = now + wait
        """When the requests of the host are given up."""

        self.ask_at = now
        """When robots.txt is fetched again."""

        self.given_up = known.entry.result.is_permanent or not wait
        """Whether requests of the host are refused at once."""

        self.is_missed = False
        """Whether requests have come since it was given up or last fetched."""

        self.is_over = False


class OutageLog:
    """Logs the beginning of each outage, the moment when its requests are given up, and its
    end.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    def begins(self, outage: Outage, waiting: int, retry: float) -> None:
        values = {
            "url": outage.known.origin.robotstxt_url,
            "result": outage.known.entry.result,
            "count": waiting,
            "wait": _duration(outage.until - outage.since),
            "retry": _duration(retry),
        }
        if outage.given_up:
            self._log(
                logging.WARNING,
                "%(url)s is unreachable (%(result)s): the requests of this host are "
                "refused (%(count)d are in the queue); robots.txt is asked for again in "
                "%(retry)s at the earliest, if there are requests then",
                values,
            )
        else:
            self._log(
                logging.WARNING,
                "%(url)s is unreachable (%(result)s): the requests of this host wait for "
                "up to %(wait)s (%(count)d are in the queue; REP_UNREACHABLE_WAIT); it is "
                "asked for again in %(retry)s",
                values,
            )

    def given_up(self, outage: Outage, waiting: int) -> None:
        self._log(
            logging.WARNING,
            "%(url)s is still unreachable (%(result)s) after %(wait)s: the requests of "
            "this host are refused (%(count)d are in the queue)",
            {
                "url": outage.known.origin.robotstxt_url,
                "result": outage.known.entry.result,
                "wait": _duration(outage.until - outage.since),
                "count": waiting,
            },
        )

    def over(self, known: Known, outage: Outage, now: float) -> None:
        self._log(
            logging.INFO,
            "%(url)s is back after %(time)s (%(result)s): requests of this host go on",
            {
                "url": known.origin.robotstxt_url,
                "time": _duration(now - outage.since),
                "result": known.entry.result,
            },
        )

    def _log(self, level: int, message: str, values: dict[str, object]) -> None:
        logger.log(level, message, values, extra={"spider": self._crawler.spider})


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
