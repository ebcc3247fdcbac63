"""The delay and visiting hours that a robots.txt demands at a given time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.robotstxt.decisions import Reason

if TYPE_CHECKING:
    from datetime import datetime

    from scrapy_rep.protocol.robotstxt.pace import Pace
    from scrapy_rep.settings import RepSettings


class Demand(NamedTuple):
    """The delay and visiting hours of a host, as far as the settings obey them."""

    delay: float
    """The seconds between two requests."""

    opens: float
    """The seconds until the host is open for visits."""

    refusal: Reason | None
    """The reason to refuse requests, if they would wait longer than the settings allow."""


def demand(pace: Pace, settings: RepSettings, now: datetime) -> Demand:
    """Return what *pace* demands at the time *now* (UTC) of a crawl with *settings*."""
    delay = pace.delay(now) if settings.crawl_delay else 0.0
    opens = pace.opens_in(now) if settings.visit_time else 0.0
    refusal = None
    if delay > settings.crawl_delay_max:
        refusal = Reason.CRAWL_DELAY
    elif opens > settings.visit_time_wait:
        refusal = Reason.VISIT_TIME
    return Demand(delay, opens, refusal)


class Terms(NamedTuple):
    """The delay and visiting hours of a host that the workers of a crawl share. All values
    are in seconds.
    """

    holds: float
    """The time for which the terms are valid."""

    delay: float = 0.0
    """The time between two requests."""

    ago: float = 0.0
    """The time since the request for robots.txt."""

    opens: float = 0.0
    """The time until the host is open for visits."""
