"""Shortcuts to the usage preferences of headers and robots.txt files."""

from __future__ import annotations

from scrapy_rep import RFC9309, Dialect, RobotsTxt, UsagePreferences

ORIGIN = "https://example.com"


def robots_usage(
    body: str | bytes,
    path: str = "/",
    agents: str = "mybot",
    dialect: Dialect = RFC9309,
) -> UsagePreferences:
    octets = body.encode() if isinstance(body, str) else body
    return RobotsTxt.parse(octets, dialect).usage(ORIGIN + path, agents)


def stated(preferences: UsagePreferences) -> dict[str, bool]:
    """Return the categories that have a value."""
    found = preferences.to_dict().items()
    return {category: value for category, value in found if value is not None}


def header(*lines: str, name: str = "Content-Usage") -> UsagePreferences:
    return UsagePreferences.parse([(name, line.encode("latin-1")) for line in lines])
