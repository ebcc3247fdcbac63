"""The URLs of past crawls and the decisions on them, read from ledgers."""

from __future__ import annotations

import heapq
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.ledger.checks import check_values, read_json, read_texts
from scrapy_rep.ledger.reader import open_ledger, reading
from scrapy_rep.ledger.terms import Layer, Verdict
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.settings import LEDGER_LEVEL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from scrapy_rep.protocol.dialect import Dialect

# A decision about a request has no page.
_DECIDED = """
    FROM decision WHERE layer IN ('robots.txt', 'override') AND page IS NULL
    AND verdict IN ('allowed', 'refused')
"""
# The last decision on a URL counts: SQLite takes the other columns from the row with the
# maximum. It sorts on disk what does not fit into memory.
_DECISIONS = f"""
    SELECT origin, url, verdict, reason, line, statement, layer, crawl, snapshot,
        max(time) AS time, count(*) AS times {_DECIDED}
    GROUP BY origin, url ORDER BY origin, url
"""
_ORIGINS = f"SELECT DISTINCT origin {_DECIDED} ORDER BY origin"
_COUNT = f"SELECT count(*) AS times {_DECIDED}"
_BODY = """
    SELECT body FROM snapshot JOIN body USING (sha256) WHERE id = CAST(? AS INTEGER)
"""


class PastCrawl(NamedTuple):
    """What a ledger says about a crawl."""

    agents: tuple[str, ...]
    """Its product tokens."""

    dialect: str
    """The name of its dialect."""

    is_complete: bool
    """Whether its ledger has the URLs that were fetched."""


_UNKNOWN = PastCrawl((), "", is_complete=False)


class PastDecision(NamedTuple):
    """The last decision on a URL."""

    origin: str
    url: str
    allowed: bool
    reason: str
    line: int | None
    statement: str | None

    override: str | None
    """The override in the settings, or the setting or meta key, by which the user of the
    crawler decided; None if the site decided."""

    time: float

    crawl: PastCrawl

    times: int
    """The number of decisions on the URL."""

    snapshot: tuple[str, int] | None
    """The robots.txt that decided: the path of its ledger, and its id there."""


class PastCrawls:
    """Several ledgers, read as one, sorted by origin and URL.

    Raises LedgerError for a file that is damaged or is not a ledger.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._crawls = [_crawls(path) for path in paths]
        self.count: int = sum(next(_rows(path, _COUNT))["times"] for path in paths)
        """The number of decisions."""
        every = [crawl for crawls in self._crawls for crawl in crawls.values()]
        self.dialects = {crawl.dialect for crawl in every}
        """The names of the dialects of the crawls."""
        self.crawls = len(every)
        """The number of crawls."""
        self.complete_crawls = sum(crawl.is_complete for crawl in every)
        """The number of crawls whose ledgers have the URLs that were fetched."""

    def origins(self) -> Iterator[str]:
        """Return the origins, each once."""
        streams = [
            (row["origin"] for row in _rows(path, _ORIGINS)) for path in self._paths
        ]
        return (origin for origin, _ in groupby(heapq.merge(*streams)))

    def decisions(self) -> Iterator[PastDecision]:
        """Yield the last decision on each URL."""
        streams = [
            _decisions(path, crawls)
            for path, crawls in zip(self._paths, self._crawls, strict=True)
        ]
        place = attrgetter("origin", "url")
        for _, same in groupby(heapq.merge(*streams, key=place), place):
            each = list(same)
            last = max(each, key=attrgetter("time"))
            yield last._replace(times=sum(one.times for one in each))


def past_robotstxt(snapshot: tuple[str, int], dialect: Dialect) -> RobotsTxt | None:
    """Return the robots.txt of a past decision, or None if the ledger does not have it."""
    path, number = snapshot
    body = next((row["body"] for row in _rows(path, _BODY, str(number))), None)
    return RobotsTxt.parse(bytes(body), dialect) if body else None


def urls_of(path: str, origin: str | None) -> Iterator[str]:
    """Return the URLs of *origin* in a ledger, each once; of all origins if it is None."""
    _check(path)
    if origin is None:
        rows = _rows(path, "SELECT DISTINCT url FROM decision ORDER BY url")
    else:
        sql = "SELECT DISTINCT url FROM decision WHERE origin = ? ORDER BY url"
        rows = _rows(path, sql, origin)
    return (row["url"] for row in rows)


def origin_count(path: str) -> int:
    """Return the number of origins in a ledger."""
    count: int = next(_rows(path, "SELECT count(DISTINCT origin) FROM decision"))[0]
    return count


def _crawls(path: str) -> dict[int, PastCrawl]:
    """Check a ledger, and return the crawls in it."""
    _check(path)
    with reading(path):
        return {
            row["id"]: PastCrawl(
                read_texts(row["agents"]),
                row["dialect"],
                read_json(row["settings"], dict).get(LEDGER_LEVEL) == "all",
            )
            for row in _rows(path, "SELECT id, agents, dialect, settings FROM crawl")
        }


def _check(path: str) -> None:
    with closing(open_ledger(path)) as connection, reading(path):
        check_values(connection)


def _decisions(path: str, crawls: dict[int, PastCrawl]) -> Iterator[PastDecision]:
    for row in _rows(path, _DECISIONS):
        is_override = row["layer"] == Layer.OVERRIDE.value
        yield PastDecision(
            row["origin"],
            row["url"],
            row["verdict"] == Verdict.ALLOWED.value,
            row["reason"],
            row["line"],
            row["statement"],
            (row["statement"] or row["reason"]) if is_override else None,
            row["time"],
            crawls.get(row["crawl"], _UNKNOWN),
            row["times"],
            None if row["snapshot"] is None else (path, row["snapshot"]),
        )


def _rows(path: str, sql: str, *parameters: str) -> Iterator[sqlite3.Row]:
    with closing(open_ledger(path)) as connection, reading(path):
        yield from connection.execute(sql, parameters)
