"""Shortcuts to the usage preferences of headers and robots.txt files."""

from __future__ import annotations

from scrapy_rep import RFC9309, Dialect, RobotsTxt, UsagePreferences

# "-" as real.txt writes it: nothing is stated.
NOTHING = "-"


def robots_usage(
    body: str | bytes,
    path: str = "/",
    agents: str = "mybot",
    dialect: Dialect = RFC9309,
) -> UsagePreferences:
    octets = body.encode() if isinstance(body, str) else body
    return RobotsTxt.parse(octets, dialect).usage(f"https://example.com{path}", agents)


def header(*lines: str, name: str = "Content-Usage") -> UsagePreferences:
    return UsagePreferences.parse([(name, line.encode("latin-1")) for line in lines])


def stated(preferences: UsagePreferences) -> str:
    """Return what is stated, sorted, as in real.txt: "search=y train-ai=n", or "-"."""
    values = preferences.to_dict().items()
    words = [f"{name}={'ny'[value]}" for name, value in values if value is not None]
    return " ".join(sorted(words)) or NOTHING
