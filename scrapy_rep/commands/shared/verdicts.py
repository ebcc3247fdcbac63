"""Decisions about URLs and hosts, in words."""

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
    Reason.NO_RULE: "no rule of the group matches",
    Reason.NO_GROUP: "no group is for this agent or for everyone",
    Reason.ROBOTS_TXT: "it is robots.txt itself",
    Reason.UNAVAILABLE: "robots.txt is unavailable",
    Reason.UNREACHABLE: "robots.txt is unreachable",
    Reason.OVERRIDE: "the settings say so",
    Reason.BAD_URL: "the host or port can't be read",
    Reason.TOO_LONG: "the URL is too long for the number of rules with a *",
}


def verdict(decision: Decision) -> Painted:
    return (
        Painted("allowed", "green") if decision.allowed else Painted("denied ", "red")
    )


def why(decision: Decision) -> str:
    """The reason of a decision in words, on one line."""
    rule = decision.rule
    if rule is None:
        words = _REASONS[decision.reason]
    else:
        words = f"line {rule.line}, {rule.kind.capitalize()}: {rule.pattern}".rstrip()
    return f"{words} (as {decision.form})" if decision.form else words


def refusals(pace: Pace, settings: RepSettings, now: datetime) -> Iterator[str]:
    """Why a crawl at the time *now* (UTC) would not ask for what the rules allow."""
    delay, opens, reason = demand(pace, settings, now)
    if reason is Reason.CRAWL_DELAY:
        yield (
            f"a crawl skips this host: it asks for {in_seconds(delay)} between requests, "
            f"and REP_CRAWL_DELAY_MAX is {settings.crawl_delay_max:g}"
        )
    if opens > settings.visit_time_wait:
        yield (
            "a crawl refuses it now: the host wants no visits before "
            f"{now + timedelta(seconds=opens):%H:%M} UTC, and REP_VISIT_TIME_WAIT is "
            f"{in_seconds(settings.visit_time_wait)}"
        )


def in_seconds(seconds: float) -> str:
    """``1 second``, ``0.5 seconds``."""
    return f"{seconds:g} {'second' if seconds == 1 else 'seconds'}"
