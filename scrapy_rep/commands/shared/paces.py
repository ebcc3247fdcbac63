"""How fast and when a host wants to be asked, and what a crawl makes of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from scrapy_rep.protocol.robotstxt.pace import Pace
    from scrapy_rep.settings import RepSettings


def refusals(pace: Pace, settings: RepSettings, now: datetime) -> Iterator[str]:
    """Why a crawl at the time *now* (UTC) would not ask for what the rules allow."""
    delay = pace.delay(now)
    if settings.crawl_delay and delay > settings.crawl_delay_max:
        yield (
            f"a crawl skips this host: it asks for {delay:g} s between requests, and "
            f"REP_CRAWL_DELAY_MAX is {settings.crawl_delay_max:g}"
        )
    closed = pace.opens_in(now)
    if settings.visit_time and closed > settings.visit_time_wait:
        yield (
            "a crawl refuses it now: the host wants no visits before "
            f"{now + timedelta(seconds=closed):%H:%M} UTC, and REP_VISIT_TIME_WAIT is "
            f"{settings.visit_time_wait:g} s"
        )
