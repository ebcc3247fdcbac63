"""Functions that return the usage preferences of a robots.txt and of header fields."""

from __future__ import annotations

from scrapy_rep import RFC9309, Dialect, RobotsTxt, UsagePreferences

# The result of stated() if no preference is stated. The expected results in real.txt, in this folder, use it too.
NOTHING = "-"


def robots_usage(
    body: str | bytes,
    path: str = "/",
    agents: str = "mybot",
    dialect: Dialect = RFC9309,
) -> UsagePreferences:
    """Return the preferences that a robots.txt with this body states for a path and a crawler."""
    octets = body.encode() if isinstance(body, str) else body
    return RobotsTxt.parse(octets, dialect).usage(f"https://example.com{path}", agents)


def header_usage(*lines: str, name: str = "Content-Usage") -> UsagePreferences:
    """Return the preferences of a header field that has one field line for each of *lines*."""
    return UsagePreferences.parse([(name, line.encode("latin-1")) for line in lines])


def stated(preferences: UsagePreferences) -> str:
    """Return the stated preferences, sorted, in the notation of real.txt: "search=y train-ai=n"; or
    "-" if there are none.
    """
    values = preferences.to_dict().items()
    words = [f"{name}={'ny'[value]}" for name, value in values if value is not None]
    return " ".join(sorted(words)) or NOTHING
