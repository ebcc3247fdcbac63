"""Describes decisions about URLs and hosts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from scrapy_rep.commands.shared.output import Painted
from scrapy_rep.frontier.demands import demand
from scrapy_rep.protocol.robotstxt.decisions import Decision, Reason
from scrapy_rep.protocol.robotstxt.rules import Rule

if TYPE_CHECKING:
    from datetime import datetime

    from scrapy_rep.commands.shared.profile import Profile
    from scrapy_rep.protocol.robots import RobotsTxt

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


def why(decision: Decision, more: str = "") -> str:
    """Return the reason of a decision in words, on one line, with the text of decide_at()."""
    rule = decision.rule
    if rule is None:
        words = _REASONS[decision.reason]
    else:
        words = f"line {rule.line}, {rule.kind.capitalize()}: {rule.pattern}".rstrip()
    if decision.form:
        words += f" (as {decision.form})"
    return f"{words}: {more}" if more else words


def decide_at(
    now: datetime, profile: Profile, robots: RobotsTxt, url: str
) -> tuple[Decision, str]:
    """Return what a crawl decides on *url* at the time *now* (UTC).

    A crawl also refuses what the rules allow, if *robots* asks for a longer delay than the
    settings accept, or for visiting hours that are too far away. The text names that setting;
    it is empty for any other decision.
    """
    decision = profile.decide(robots, url)
    pace = robots.pace(profile.agents)
    delay, opens, reason = demand(pace, profile.rep, now)
    if reason is None or not decision.allowed or decision.reason is Reason.ROBOTS_TXT:
        return decision, ""
    if reason is Reason.CRAWL_DELAY:
        record = pace.record_of_delay(now)
        words = (
            f"a crawl skips this host, since {in_seconds(delay)} between requests are more "
            f"than REP_CRAWL_DELAY_MAX ({profile.rep.crawl_delay_max:g})"
        )
    else:
        record = pace.record_of_visit_time()
        words = (
            "a crawl refuses this URL now, since the host opens at "
            f"{now + timedelta(seconds=opens):%H:%M} UTC, and a crawl waits at most "
            f"{in_seconds(profile.rep.visit_time_wait)} (REP_VISIT_TIME_WAIT)"
        )
    assert record is not None
    rule = Rule(record.field, record.value, record.line)
    return Decision(False, rule, decision.agent, reason), words


def in_seconds(seconds: float) -> str:
    """Format seconds as ``1 second`` or ``0.5 seconds``."""
    return f"{seconds:g} {'second' if seconds == 1 else 'seconds'}"
