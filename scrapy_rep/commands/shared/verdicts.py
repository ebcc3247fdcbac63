"""Decisions in words."""

from __future__ import annotations

from scrapy_rep.commands.shared.output import GREEN, RED, Painted
from scrapy_rep.protocol.robotstxt.decisions import Decision, Reason

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
    return Painted("allowed", GREEN) if decision.allowed else Painted("denied ", RED)


def why(decision: Decision) -> str:
    """The reason of a decision in words, on one line."""
    rule = decision.rule
    if rule is None:
        words = _REASONS[decision.reason]
    else:
        words = f"line {rule.line}, {rule.kind.capitalize()}: {rule.pattern}".rstrip()
    return f"{words} (as {decision.form})" if decision.form else words
