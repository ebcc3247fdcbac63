"""Checks again whether the requests that were let through were allowed.

A ledger has each robots.txt that decided, the agent whose group was followed, and the URL.
So the report does not have to trust the decisions of the crawl.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_rep.protocol.dialect import DIALECTS
from scrapy_rep.protocol.request_target import is_allowed
from scrapy_rep.protocol.robots import RobotsTxt

if TYPE_CHECKING:
    import sqlite3

EXAMPLES = 10

_CUT = "…"
"""The end of a URL that the ledger has cut."""

# In this order, each robots.txt is parsed once.
_LET_THROUGH = """
SELECT c.dialect, s.sha256, d.agent, d.url
FROM decision AS d
JOIN snapshot AS s ON s.id = d.snapshot
JOIN crawl AS c ON c.id = d.crawl
WHERE d.verdict = 'allowed' AND d.layer = 'robots.txt'
AND s.sha256 IS NOT NULL
ORDER BY s.sha256, c.dialect
"""


@dataclass(slots=True)
class Check:
    """The result of checking again the requests that a robots.txt let through."""

    checked: int = 0
    forbidden: int = 0

    unchecked: int = 0
    """Requests in a dialect of the user's own, or with a URL that the ledger has cut."""

    examples: tuple[str, ...] = ()
    """A few URLs that were let through and forbidden."""


def check(ledgers: list[sqlite3.Connection]) -> Check:
    """Check each request in *ledgers* that a robots.txt let through."""
    found = Check()
    for ledger in ledgers:
        _check(ledger, found)
    return found


def _check(ledger: sqlite3.Connection, found: Check) -> None:
    known: tuple[str, str] | None = None
    robots: RobotsTxt | None = None
    for name, sha256, agent, url in ledger.execute(_LET_THROUGH):
        if (name, sha256) != known:
            known = (name, sha256)
            robots = _robots(ledger, name, sha256)
        if robots is None or url.endswith(_CUT):
            found.unchecked += 1
            continue
        found.checked += 1
        if not is_allowed(robots, url, agent or "*"):
            found.forbidden += 1
            if len(found.examples) < EXAMPLES:
                found.examples += (url,)


def _robots(ledger: sqlite3.Connection, dialect: str, sha256: str) -> RobotsTxt | None:
    query = "SELECT body FROM body WHERE sha256 = ?"
    row = ledger.execute(query, (sha256,)).fetchone()
    if row is None or dialect not in DIALECTS:
        return None
    return RobotsTxt.parse(bytes(row[0]), DIALECTS[dialect])
