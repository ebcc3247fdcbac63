"""The URLs of each host that were refused, or that an override decided on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.report.scratch import Scratch

URLS = 20
"""The most URLs of a host to show."""

_ORIGINS = """
SELECT origin FROM judged GROUP BY origin
ORDER BY sum(CASE WHEN layer != 'override' THEN count END) DESC, origin LIMIT ?
"""

_ALL = "SELECT count(DISTINCT origin) FROM judged"

_URLS = """
SELECT url, verdict, layer, reason, line, statement, sum(count) AS times FROM judged
WHERE origin = ? AND url IS NOT NULL GROUP BY url, verdict, layer, reason
ORDER BY layer = 'override', times DESC, min(rowid)
"""

# A row without a URL counts the URLs of one ledger that were not copied.
_COUNTS = """
SELECT coalesce(sum(CASE WHEN layer != 'override' THEN count END), 0),
       coalesce(sum(CASE WHEN layer = 'override' THEN count END), 0),
       coalesce(sum(CASE WHEN url IS NULL THEN urls END), 0)
FROM judged WHERE origin = ?
"""


@dataclass(frozen=True, slots=True)
class JudgedUrl:
    """A URL that was refused, or that an override decided on."""

    url: str
    verdict: str
    layer: str
    reason: str
    line: int | None
    statement: str | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUrls:
    """The refused and the overridden URLs of one host."""

    number: int
    origin: str

    refused: int
    """How often a request was refused, without overrides."""

    overridden: int
    """How often an override decided."""

    urls: tuple[JudgedUrl, ...]
    more_urls: int


class UrlsByHost:
    """Hosts with their URLs; those with the most refusals come first."""

    def __init__(self, scratch: Scratch, limit: int) -> None:
        self._database = scratch.database
        rows = self._database.execute(_ORIGINS, (limit,))
        self.numbers = {row[0]: number for number, row in enumerate(rows, 1)}
        """The number of each host in this section of the report, by origin."""
        count: int = self._database.execute(_ALL).fetchone()[0]
        self.left_out = count - len(self.numbers)

    def __iter__(self) -> Iterator[HostUrls]:
        for origin, number in self.numbers.items():
            rows = self._database.execute(_URLS, (origin,)).fetchall()
            refused, overridden, more = self._database.execute(
                _COUNTS, (origin,)
            ).fetchone()
            yield HostUrls(
                number=number,
                origin=origin,
                refused=refused,
                overridden=overridden,
                urls=tuple(JudgedUrl(*row) for row in rows[:URLS]),
                more_urls=max(0, len(rows) - URLS) + more,
            )
