"""Whether content may be used for each purpose, and the statements behind that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.request_target import forms
from scrapy_rep.protocol.usage.preferences import NOTHING_STATED
from scrapy_rep.protocol.usage.statements import CATEGORIES

if TYPE_CHECKING:
    from scrapy_rep.protocol.robots import RobotsTxt
    from scrapy_rep.protocol.usage.preferences import UsagePreferences
    from scrapy_rep.protocol.usage.statements import UsageStatement
    from scrapy_rep.tools.profile import Profile

ROWS = (
    ("usage[purposes]", ("  for {name:bold}: {why}",)),
    "  licences and policies: {usage[licenses]}",
)
"""The text of the JSON object ``usage``."""

_OUTCOMES = {True: "allowed", False: "disallowed", None: "unknown"}


def robotstxt_usage(robots: RobotsTxt, url: str, profile: Profile) -> UsagePreferences:
    """Return what *robots* states about the use of a URL."""
    found = NOTHING_STATED
    for each in forms(url, profile.rep.clients):
        found |= robots.usage(each, profile.agents)
    return found


def _purposes(profile: Profile) -> tuple[str, ...]:
    """Return the purposes of the crawl, or all purposes if it has none."""
    return profile.rep.purposes or tuple(CATEGORIES)


def is_denied(preferences: UsagePreferences, profile: Profile) -> bool:
    """Whether *preferences* forbid a purpose of the crawl."""
    unknown = profile.rep.usage_unknown
    return preferences.denial(profile.rep.purposes, unknown=unknown) is not None


def usage_record(preferences: UsagePreferences, profile: Profile) -> dict[str, Any]:
    """Return the preferences as a JSON object. What is not known about a purpose is put into words
    only if the crawl has purposes.
    """
    is_asked = bool(profile.rep.purposes)
    return {
        "purposes": {
            purpose: {
                "allowed": preferences.get(purpose),
                "because": because and _record(because),
                "why": _why(preferences, purpose) if is_asked or because else "",
            }
            for purpose in _purposes(profile)
            for because in [preferences.because(purpose)]
        },
        "statements": [_record(each) for each in preferences.statements],
        "licenses": list(preferences.licenses),
        "denied": is_denied(preferences, profile),
    }


def _record(statement: UsageStatement) -> dict[str, Any]:
    return {**statement._asdict(), "why": str(statement)}


def usage_change(
    old: RobotsTxt, new: RobotsTxt, url: str, profile: Profile
) -> dict[str, Any] | None:
    """Return the purposes that two robots.txt files judge differently for a URL, as a JSON object
    with words for both. None if there are none.
    """
    before = robotstxt_usage(old, url, profile)
    after = robotstxt_usage(new, url, profile)
    changed = [
        each for each in _purposes(profile) if before.get(each) != after.get(each)
    ]
    if not changed:
        return None
    words = [
        f"{purpose} was {_why(before, purpose)}, is now {_why(after, purpose)}"
        for purpose in changed
    ]
    return {
        "old": {purpose: before.get(purpose) for purpose in changed},
        "new": {purpose: after.get(purpose) for purpose in changed},
        "why": "; ".join(words),
    }


def _why(preferences: UsagePreferences, purpose: str) -> str:
    word = _OUTCOMES[preferences.get(purpose)]
    statement = preferences.because(purpose)
    return word if statement is None else f"{word} by {str(statement)[:200]}"
