"""What ledgers say about past crawls: their decisions, and the robots.txt files behind them."""

from __future__ import annotations

import heapq
import math
from datetime import datetime, timezone
from functools import lru_cache
from itertools import groupby, repeat
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.exceptions import UsageError

from scrapy_rep.crawl.ledger.reader import crawls_of, open_ledger, reading
from scrapy_rep.protocol.access.results import AccessResult
from scrapy_rep.protocol.origins import Origin, written_origin
from scrapy_rep.protocol.reasons import evidence, words_of
from scrapy_rep.tools.report.shown import iso_time
from scrapy_rep.tools.sources import LoadedRobotsTxt, Rules, Source
from scrapy_rep.tools.urls import Asked

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

_SQLITE = b"SQLite format 3\0"

# A decision about a request has no page.
_DECIDED = """
    FROM decision WHERE layer IN ('robots.txt', 'override', 'delay') AND page IS NULL
    AND verdict IN ('allowed', 'refused', 'would-refuse', 'would-allow') AND time <= :until
    AND (:crawl IS NULL OR crawl = :crawl) AND (:origin IS NULL OR origin = :origin)
"""
# The last decision on a URL counts: SQLite takes the other columns from the row with the
# maximum. It sorts on disk what does not fit into memory.
_DECISIONS = f"""
    SELECT *, max(time) AS time {_DECIDED} GROUP BY origin, url ORDER BY origin, url
"""
_SNAPSHOT = "SELECT * FROM snapshot LEFT JOIN body USING (sha256) WHERE id = :id"
_LAST = """
    SELECT id, fetched FROM snapshot WHERE origin = :of AND fetched <= :until
    AND crawl IN (SELECT id FROM crawl WHERE :crawl IS NULL OR id = :crawl)
    ORDER BY fetched DESC LIMIT 1
"""


class Past(NamedTuple):
    """The last decision on a URL."""

    ledger: Ledger
    row: sqlite3.Row

    @property
    def crawl(self) -> dict[str, Any] | None:
        return self.ledger.crawls.get(self.row["crawl"])

    @property
    def record(self) -> dict[str, Any]:
        """The decision as a JSON object."""
        row = self.row
        is_override = row["layer"] == "override"
        return {
            "allowed": row["verdict"] == "allowed",
            **{name: row[name] for name in ("reason", "agent", "form")},
            "why": why(row),
            "override": (row["statement"] or row["reason"]) if is_override else None,
            "time": iso_time(row["time"]),
        }

    @property
    def loaded(self) -> LoadedRobotsTxt | None:
        """The robots.txt that decided."""
        return self.ledger.loaded(self.row["snapshot"]).site


class Ledger:
    """A ledger: all of it, one of its crawls, or its state at a time.

    Raises LedgerError for a file that is damaged, and UsageError for a crawl that is not in it.
    """

    def __init__(
        self, path: str, crawl: int | None = None, until: float = math.inf
    ) -> None:
        self.path = path
        self._asked = {"crawl": crawl, "until": until, "origin": None}
        self.connection = open_ledger(path)
        self.close = self.connection.close
        self.loaded = lru_cache(maxsize=8)(self._loaded)
        try:
            with reading(path):
                self.crawls = {
                    each["id"]: _crawl(each)
                    for each in crawls_of(self.connection, path)
                    if crawl in {None, each["id"]}
                }
            if crawl is not None and not self.crawls:
                raise UsageError(f"{path} has no crawl {crawl}")
        except BaseException:
            self.close()
            raise

    def rows(self, sql: str, **values: Any) -> Iterator[sqlite3.Row]:
        """Yield the rows of a query."""
        with reading(self.path):
            yield from self.connection.execute(sql, self._asked | values)

    def snapshot(self, number: int | None) -> sqlite3.Row | None:
        """Return the row of a robots.txt, with its body; None if there is none."""
        return next(self.rows(_SNAPSHOT, id=number), None)

    def _loaded(self, snapshot: int | None) -> Rules:
        """Return a robots.txt that a crawl used, and the crawl."""
        row = self.snapshot(snapshot)
        if row is None:
            return Rules()
        status, body, error = row["status"], row["body"], row["error"] or ""
        if body is not None:  # It may be an older copy, used in place of an error.
            status, error = 200, ""
        result = AccessResult(
            url=row["url"], status=status, body=body or b"", error=error
        )
        return Rules(LoadedRobotsTxt(result), crawl=self.crawls.get(row["crawl"]))


class PastCrawls(Source):
    """Several ledgers, read as one."""

    def __init__(self, ledgers: Sequence[Ledger]) -> None:
        self._ledgers = ledgers
        self.crawls = [one for each in ledgers for one in each.crawls.values()]
        sql = f"SELECT DISTINCT origin {_DECIDED} AND origin != '' LIMIT 2"
        origins = {row["origin"] for each in ledgers for row in each.rows(sql)}
        self.has_origins = len(origins) > 1
        """Whether the URLs have several origins."""
        self.origin = None if self.has_origins else written_origin("".join(origins))

    def urls(self, origin: Origin | None) -> Iterator[Asked]:
        """Yield each URL with the last decision on it, sorted by origin."""
        of = origin and str(origin)
        streams = [
            map(Past, repeat(each), each.rows(_DECISIONS, origin=of))
            for each in self._ledgers
        ]
        for (written, url), same in groupby(heapq.merge(*streams, key=_place), _place):
            past = max(same, key=lambda each: each.row["time"])
            yield Asked(url, written_origin(written), past)

    def rules(self, origin: Origin | None) -> Rules:
        """Return the last robots.txt of *origin*, and the crawl that used it."""
        lasts = (
            (row["fetched"], row["id"], each)
            for each in self._ledgers
            for row in each.rows(_LAST, of=origin and str(origin))
        )
        _, number, ledger = max(lasts, key=itemgetter(0), default=(0, None, None))
        return ledger.loaded(number) if ledger else Rules()


def _place(past: Past) -> tuple[str, str]:
    return past.row["origin"], past.row["url"]


def _crawl(crawl: dict[str, Any]) -> dict[str, Any]:
    """Return a crawl as a JSON object."""
    same = ("spider", "user_agent", "dialect", "every_decision")
    return {
        "ledger": crawl["path"],
        "crawl": crawl["id"],
        **{name: crawl[name] for name in same},
        "agents": list(crawl["agents"]),
        "started": iso_time(crawl["started"]),
        "ended": iso_time(crawl["ended"]),
    }


def why(row: sqlite3.Row) -> str:
    """Return the reason of a decision in words."""
    layer, line = row["layer"], row["line"]
    words = words_of(row["reason"], layer, row["verdict"]).text
    if layer == "robots.txt" and line and row["statement"]:
        words = ""
    elif layer != "delay":
        # Of the text of an override, or of a statement that names its place.
        line = None
    return evidence(words, row["statement"], line, row["form"])


def ledger_of(argument: str) -> Ledger | None:
    """Return the ledger that an argument names: ``PATH``, ``PATH#CRAWL`` or ``PATH@TIME``; None if
    that is no SQLite file. Raises UsageError for a time that can't be read.
    """
    if _is_sqlite(argument):
        return Ledger(argument)
    path, _, crawl = argument.rpartition("#")
    if crawl.isdecimal() and _is_sqlite(path):
        return Ledger(path, int(crawl[:18]))
    path, _, time = argument.rpartition("@")
    if not _is_sqlite(path):
        return None
    try:
        moment = datetime.fromisoformat(time.replace("Z", "+00:00"))
    except ValueError:
        raise UsageError(
            f"{argument}: {time!r} is not a time such as 2026-11-30 or 2026-11-30T12:00 (UTC)"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return Ledger(path, until=moment.timestamp())


def _is_sqlite(path: str) -> bool:
    try:
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except (OSError, ValueError):
        return False
