"""The hosts that were treated as having no robots.txt, by reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import sqlite3

ORIGINS = 20
"""The most hosts to name for each reason."""

# Each host counts once, for its last reason: SQLite takes the other columns from the row
# with the maximum.
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
    """Requests to them that were refused, as the dialect demands for this status."""


class HostsWithout(NamedTuple):
    """The hosts that were treated as having no robots.txt."""

    reasons: tuple[Reason, ...]
    """The reasons of the most hosts come first."""

    hosts: int
    """The number of hosts, also for reasons that are not in ``reasons``."""


def hosts_without(database: sqlite3.Connection, limit: int) -> HostsWithout:
    """Return at most *limit* reasons, and the number of all hosts."""
    database.execute(_HOSTS)
    found = []
    for row in database.execute(_REASONS, (limit,)).fetchall():
        given = row["status"], row["error"], ORIGINS
        origins = tuple(origin for (origin,) in database.execute(_ORIGINS, given))
        found.append(Reason(**row, origins=origins))
    hosts: int = database.execute(_ALL).fetchone()[0]
    return HostsWithout(tuple(found), hosts)
