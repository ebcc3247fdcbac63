"""The usage preferences of hosts, and their outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_rep.report.model import Use

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping

    from scrapy_rep.report.scratch import Scratch

# Outcomes come before statements that were only noted.
_USES = """
SELECT origin, purpose, verdict, source, statement, line, sum(count), url FROM used
GROUP BY origin, purpose, verdict, source, statement, line
ORDER BY verdict = 'noted', 7 DESC, origin, purpose, statement LIMIT ?
"""

_ALL = """
SELECT count(*) FROM (
    SELECT 1 FROM used GROUP BY origin, purpose, verdict, source, statement, line
)
"""


def uses(
    scratch: Scratch, documents: Mapping[str, int], limit: int
) -> tuple[tuple[Use, ...], int]:
    """The rows that are shown, and the number of those left out. *documents* are the
    numbers of the robots.txt files in the report, by origin.
    """
    rows = scratch.database.execute(_USES, (limit,))
    found = tuple(Use(*columns) for columns in _with_documents(rows, documents))
    count: int = scratch.database.execute(_ALL).fetchone()[0]
    return found, count - len(found)


def _with_documents(
    rows: Iterable[sqlite3.Row], documents: Mapping[str, int]
) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        yield (*row, documents.get(row["origin"]))
