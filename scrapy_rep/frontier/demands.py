"""The demands of a robots.txt on a crawler, at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.robotstxt.decisions import Reason

if TYPE_CHECKING:
    from datetime import datetime

    from scrapy_rep.protocol.robotstxt.pace import Pace
    from scrapy_rep.settings import RepSettings


class Demand(NamedTuple):
    """How fast and when a host may be asked, as far as the settings keep to that."""

    delay: float
    """Seconds between two requests."""

    opens: float
    """Seconds until the host is open for visits."""

    refusal: Reason | None
    """Why requests are refused rather than kept waiting, where that would take too long."""


def demand(pace: Pace, settings: RepSettings, now: datetime) -> Demand:
    """What *pace* asks of a crawl with these *settings* at the time *now* (UTC)."""
    delay = pace.delay(now) if settings.crawl_delay else 0.0
    opens = pace.opens_in(now) if settings.visit_time else 0.0
    refusal = None
    if delay > settings.crawl_delay_max:
        refusal = Reason.CRAWL_DELAY
    elif opens > settings.visit_time_wait:
        refusal = Reason.VISIT_TIME
    return Demand(delay, opens, refusal)


class Terms(NamedTuple):
    """What the workers of a crawl keep to at a host. All in seconds."""

    holds: float
    """For how long this is known."""

    delay: float = 0.0
    """Between two requests."""

    ago: float = 0.0
    """Since its robots.txt was asked for."""

    opens: float = 0.0
    """Until it is open for visits."""
