"""Hosts that were treated as having no robots.txt, by the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import sqlite3

ORIGINS = 20
"""How many hosts of a reason are named."""

# A host counts once, for the last reason that it gave: SQLite takes the columns from the
# row that has the maximum.
_HOSTS = """
CREATE TEMPORARY TABLE IF NOT EXISTS without AS
SELECT origin, status, error, requests.allowed, requests.refused FROM (
    SELECT origin, status, substr(error, 1, 200) AS error, max(fetched)
    FROM snapshot WHERE access = 'unavailable' GROUP BY origin
) AS last LEFT JOIN (
    SELECT origin AS of, sum(CASE WHEN verdict = 'allowed' THEN count END) AS allowed,
           sum(CASE WHEN verdict = 'refused' THEN count END) AS refused
    FROM tally WHERE reason = 'unavailable' GROUP BY origin
) AS requests ON requests.of = last.origin
"""

_REASONS = """
SELECT status, error, count(*) AS hosts, coalesce(sum(allowed), 0) AS allowed,
       coalesce(sum(refused), 0) AS refused
FROM without GROUP BY status, error ORDER BY hosts DESC, status, error LIMIT ?
"""

_ALL = "SELECT count(*) FROM without"

_ORIGINS = """
SELECT origin FROM without WHERE status IS ? AND error IS ? ORDER BY origin LIMIT ?
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why hosts were treated as having no robots.txt, and which."""

    status: int | None
    error: str | None

    hosts: int
    origins: tuple[str, ...]
    """Some of them."""

    allowed: int
    """Requests to them that were let through for that reason."""

    refused: int
    """Requests to them that were refused for it, as the dialect says of the status."""


class HostsWithout(NamedTuple):
    """The hosts that were treated as having no robots.txt."""

    reasons: tuple[Reason, ...]
    """Those of most hosts first."""

    hosts: int
    """How many hosts there are, for these and for other reasons."""


def hosts_without(database: sqlite3.Connection, limit: int) -> HostsWithout:
    """At most *limit* reasons, and how many hosts there are."""
    database.execute(_HOSTS)
    found = []
    for row in database.execute(_REASONS, (limit,)).fetchall():
        given = row["status"], row["error"], ORIGINS
        origins = tuple(origin for (origin,) in database.execute(_ORIGINS, given))
        found.append(Reason(**row, origins=origins))
    hosts: int = database.execute(_ALL).fetchone()[0]
    return HostsWithout(tuple(found), hosts)
