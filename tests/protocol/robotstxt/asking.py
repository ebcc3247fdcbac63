"""Shortcuts to decisions on a robots.txt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.robots import RobotsTxt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robotstxt.decisions import Decision


def ask(
    body: str | bytes,
    path: str,
    agents: str | Sequence[str] = "examplebot",
    dialect: Dialect = RFC9309,
) -> Decision:
    """Return the decision on ``path`` for a site with this robots.txt."""
    body = body.encode() if isinstance(body, str) else body
    url = path if "://" in path else f"https://www.example.com{path}"
    robots = RobotsTxt.parse(body, dialect)
    decision = robots.decide(url, agents)
    assert robots.is_allowed(url, agents) is decision.allowed
    return decision


def matches(
    pattern: str | bytes, path: str, dialect: Dialect = RFC9309, kind: str = "disallow"
) -> bool:
    """Return True if a rule with this pattern decides."""
    pattern = pattern.encode() if isinstance(pattern, str) else pattern
    body = b"User-agent: *\n" + kind.encode() + b": " + pattern
    return ask(body, path, dialect=dialect).line == 2
