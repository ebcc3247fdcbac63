"""Describes decisions about URLs and hosts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from scrapy_rep.commands.shared.output import Painted
from scrapy_rep.frontier.demands import demand
from scrapy_rep.protocol.robotstxt.decisions import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from scrapy_rep.protocol.robotstxt.decisions import Decision
    from scrapy_rep.protocol.robotstxt.pace import Pace
    from scrapy_rep.settings import RepSettings

_REASONS = {
    Reason.NO_RULE: "no rule matches",
    Reason.NO_GROUP: "there is no group for this agent or for everyone",
    Reason.ROBOTS_TXT: "robots.txt itself is always allowed",
    Reason.UNAVAILABLE: "robots.txt is unavailable",
    Reason.UNREACHABLE: "robots.txt is unreachable",
    Reason.OVERRIDE: "REP_OVERRIDES decides",
    Reason.BAD_URL: "the host or port of the URL can't be read",
    Reason.TOO_LONG: "the URL is too long to compare with so many rules with a *",
}


def verdict(decision: Decision) -> Painted:
    return (
        Painted("allowed", "green") if decision.allowed else Painted("denied ", "red")
    )


def why(decision: Decision) -> str:
    """Return the reason of a decision in words, on one line."""
    rule = decision.rule
    if rule is None:
        words = _REASONS[decision.reason]
    else:
        words = f"line {rule.line}, {rule.kind.capitalize()}: {rule.pattern}".rstrip()
    return f"{words} (as {decision.form})" if decision.form else words


def refusals(pace: Pace, settings: RepSettings, now: datetime) -> Iterator[str]:
    """Yield why a crawl would not request an allowed URL at the time *now* (UTC)."""
    delay, opens, reason = demand(pace, settings, now)
    if reason is Reason.CRAWL_DELAY:
        yield (
            f"a crawl skips this host: it asks for {in_seconds(delay)} between requests, "
            f"more than REP_CRAWL_DELAY_MAX ({settings.crawl_delay_max:g})"
        )
    if opens > settings.visit_time_wait:
        yield (
            "a crawl refuses this URL now: the host wants no visits before "
            f"{now + timedelta(seconds=opens):%H:%M} UTC, and a crawl waits at most "
            f"{in_seconds(settings.visit_time_wait)} (REP_VISIT_TIME_WAIT)"
        )


def in_seconds(seconds: float) -> str:
    """Format seconds as ``1 second`` or ``0.5 seconds``."""
    return f"{seconds:g} {'second' if seconds == 1 else 'seconds'}"
