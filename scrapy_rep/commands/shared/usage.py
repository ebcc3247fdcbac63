"""Shows whether a page may be used for each purpose, and the statements behind that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_rep.commands.shared.output import Painted
from scrapy_rep.protocol.request_target import forms
from scrapy_rep.protocol.usage.preferences import NOTHING_STATED
from scrapy_rep.protocol.usage.vocabulary import CATEGORIES

if TYPE_CHECKING:
    from scrapy_rep.commands.shared.output import Output
    from scrapy_rep.commands.shared.profile import Profile
    from scrapy_rep.protocol.robots import RobotsTxt
    from scrapy_rep.protocol.usage.preferences import UsagePreferences
    from scrapy_rep.protocol.usage.statements import UsageStatement

_OUTCOMES = {
    True: Painted("allowed", "green"),
    False: Painted("disallowed", "red"),
    None: Painted("unknown", "yellow"),
}


def robotstxt_usage(robots: RobotsTxt, url: str, profile: Profile) -> UsagePreferences:
    """Return what *robots* states about the use of a URL.

    A purpose with agents of its own in REP_AGENTS follows the groups of those agents.
    """
    found = NOTHING_STATED
    for each in forms(url, profile.rep.clients):
        for purpose in shown_purposes(profile):
            tokens = profile.rep.purpose_agents.get(purpose) or profile.agents
            found |= robots.usage(each, tokens).about([purpose])
    return found


def shown_purposes(profile: Profile) -> tuple[str, ...]:
    """Return the purposes of the crawl, or all purposes if it has none."""
    return profile.rep.purposes or tuple(CATEGORIES)


def usage_change(
    then: RobotsTxt, now: RobotsTxt, url: str, profile: Profile
) -> tuple[dict[str, Any], str] | None:
    """Return the purposes that two robots.txt files judge differently for a URL: as a JSON
    object, and in words on one line, with the statements behind them. None if there are none.
    """
    old = robotstxt_usage(then, url, profile)
    new = robotstxt_usage(now, url, profile)
    changed = [
        each for each in shown_purposes(profile) if old.get(each) != new.get(each)
    ]
    if not changed:
        return None
    record = {
        "old": {purpose: old.get(purpose) for purpose in changed},
        "new": {purpose: new.get(purpose) for purpose in changed},
    }
    words = [
        f"{purpose} was {_word(old, purpose)}, is now {_word(new, purpose)}"
        for purpose in changed
    ]
    return record, "; ".join(words)


def _word(preferences: UsagePreferences, purpose: str) -> str:
    word = _OUTCOMES[preferences.get(purpose)].text
    statement = preferences.because(purpose)
    return word if statement is None else f"{word} by {str(statement)[:200]}"


def is_denied(preferences: UsagePreferences, profile: Profile) -> bool:
    """Whether *preferences* forbid a purpose of the crawl."""
    unknown = profile.rep.usage_unknown
    return preferences.denial(profile.rep.purposes, unknown=unknown) is not None


def usage_record(preferences: UsagePreferences, profile: Profile) -> dict[str, Any]:
    """Return the preferences as a JSON object."""
    return {
        "purposes": {
            purpose: {
                "allowed": preferences.get(purpose),
                "because": _record(preferences.because(purpose)),
            }
            for purpose in shown_purposes(profile)
        },
        "statements": [_record(each) for each in preferences.statements],
        "licenses": list(preferences.licenses),
    }


def _record(statement: UsageStatement | None) -> dict[str, Any] | None:
    if statement is None:
        return None
    return {
        "source": str(statement.source),
        "signal": str(statement.signal),
        "agent": statement.agent,
        "position": statement.position,
        "text": statement.text,
        "category": statement.category or None,
        "value": statement.value,
        "images": statement.images,
        "overridden": statement.is_overridden,
    }


def show_usage(output: Output, preferences: UsagePreferences, profile: Profile) -> None:
    """Show each purpose with its statements, unless there are neither."""
    if not preferences and not profile.rep.purposes:
        return
    for purpose in shown_purposes(profile):
        outcome = _OUTCOMES[preferences.get(purpose)]
        output.line("  for ", Painted(purpose, "bold"), ": ", outcome)
        for each in preferences.statements:
            if each.category == purpose and each.value is not None:
                more = " (overridden)" if each.is_overridden else ""
                more += " (of its images)" if each.images else ""
                output.line("      ", str(each)[:300], more)
    for license_url in preferences.licenses:
        output.line("  licence or policy: ", license_url[:300])
