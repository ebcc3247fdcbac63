"""What ledgers say about past crawls: their decisions, and the robots.txt files behind them."""

from __future__ import annotations

import heapq
import math
from datetime import datetime, timezone
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.exceptions import UsageError

from scrapy_rep.commands.profile import decision_record
from scrapy_rep.commands.sources import LoadedRobotsTxt, Rules, of_result
from scrapy_rep.commands.urls import Asked
from scrapy_rep.ledger.reader import open_ledger, read_json, read_texts, reading
from scrapy_rep.protocol.access.results import AccessResult
from scrapy_rep.protocol.origins import Origin, written_origin
from scrapy_rep.protocol.robotstxt.decisions import Decision
from scrapy_rep.protocol.robotstxt.rules import Rule
from scrapy_rep.settings import LEDGER_LEVEL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

_SQLITE = b"SQLite format 3\0"

# A decision about a request has no page.
_DECIDED = """
    FROM decision WHERE layer IN ('robots.txt', 'override', 'delay') AND page IS NULL
    AND verdict IN ('allowed', 'refused', 'would-refuse') AND time <= :until
    AND (:crawl IS NULL OR crawl = :crawl) AND (:origin IS NULL OR origin = :origin)
"""
# The last decision on a URL counts: SQLite takes the other columns from the row with the
# maximum. It sorts on disk what does not fit into memory.
_DECISIONS = f"""
    SELECT *, max(time) AS time, count(*) AS times {_DECIDED}
    GROUP BY origin, url ORDER BY origin, url
"""
_BY_ID = "SELECT * FROM snapshot LEFT JOIN body USING (sha256) WHERE id = :id"
_LAST = """
    SELECT * FROM snapshot LEFT JOIN body USING (sha256)
    WHERE origin = :of AND fetched <= :until
    AND crawl IN (SELECT id FROM crawl WHERE :crawl IS NULL OR id = :crawl)
    ORDER BY fetched DESC LIMIT 1
"""


class PastCrawl(NamedTuple):
    """What a ledger says about a crawl."""

    agents: tuple[str, ...]
    """Its product tokens."""

    dialect: str
    """The name of its dialect."""

    is_complete: bool
    """Whether its ledger has the URLs that were fetched."""


class Past(NamedTuple):
    """The last decision on a URL."""

    origin: str
    url: str
    time: float

    times: int
    """The number of decisions on the URL."""

    row: sqlite3.Row
    crawl: PastCrawl | None
    ledger: Ledger

    @property
    def record(self) -> dict[str, Any]:
        """The decision as a JSON object: as ``decision_record`` returns it, with ``override`` and
        ``time``.
        """
        row = self.row
        line, statement, reason = row["line"], row["statement"], row["reason"]
        is_override, rule = row["layer"] == "override", None
        if statement and line and not is_override:
            kind, _, pattern = statement.partition(":")
            rule = Rule(kind.lower(), pattern.strip(), line)
        form = row["form"] if "form" in row.keys() else None  # noqa: SIM118
        allowed = row["verdict"] == "allowed"
        decision = Decision(allowed, rule, row["agent"], reason, form or "")
        moment = datetime.fromtimestamp(self.time, timezone.utc)
        return {
            **decision_record(decision),
            "override": (statement or reason) if is_override else None,
            "time": moment.isoformat(timespec="seconds").replace("+00:00", "Z"),
        }

    @property
    def loaded(self) -> LoadedRobotsTxt | None:
        """The robots.txt that decided."""
        snapshot = self.row["snapshot"]
        if snapshot is None:
            return None
        return self.ledger.robotstxt(_BY_ID, id=snapshot).loaded


class Ledger:
    """A ledger: all of it, one of its crawls, or its state at a time.

    Raises LedgerError for a file that is damaged, and UsageError for a crawl that is not in it.
    """

    def __init__(self, path: str, crawl: int | None, until: float) -> None:
        self.path = path
        self._asked = {"crawl": crawl, "until": until, "origin": None}
        self._connection = open_ledger(path)
        self.close = self._connection.close
        self.robotstxt = lru_cache(maxsize=8)(self._robotstxt)
        with reading(path):
            self.crawls = {
                row["id"]: PastCrawl(
                    read_texts(row["agents"]),
                    row["dialect"],
                    read_json(row["settings"], dict).get(LEDGER_LEVEL) == "all",
                )
                for row in self._connection.execute("SELECT * FROM crawl")
                if crawl in {None, row["id"]}
            }
        if crawl is not None and not self.crawls:
            raise UsageError(f"{path} has no crawl {crawl}")

    def rows(self, sql: str, **asked: Any) -> Iterator[sqlite3.Row]:
        with reading(self.path):
            yield from self._connection.execute(sql, self._asked | asked)

    def decisions(self, origin: str | None) -> Iterator[Past]:
        """Yield the last decision on each URL, sorted by origin and URL."""
        for row in self.rows(_DECISIONS, origin=origin):
            crawl = self.crawls.get(row["crawl"])
            place = row["origin"], row["url"], row["time"], row["times"]
            yield Past(*place, row, crawl, self)

    def _robotstxt(self, sql: str, **asked: Any) -> Rules:
        """Return a robots.txt that a crawl used, and the crawl."""
        for row in self.rows(sql, **asked):
            body, error = row["body"], row["error"] or ""
            if body is not None:  # It may be an older copy, used in place of an error.
                result = AccessResult(url=row["url"], status=200, body=bytes(body))
            else:
                result = AccessResult(url=row["url"], status=row["status"], error=error)
            return Rules(of_result(result), self.crawls.get(row["crawl"]))
        return Rules()


class PastCrawls:
    """Several ledgers, read as one."""

    def __init__(self, ledgers: Sequence[Ledger]) -> None:
        self._ledgers = ledgers
        every = [crawl for each in ledgers for crawl in each.crawls.values()]
        self.crawls = len(every)
        """The number of crawls."""
        self.complete_crawls = sum(crawl.is_complete for crawl in every)
        """The number of crawls whose ledgers have the URLs that were fetched."""
        origins = self.origins
        self.origin = written_origin(origins.pop()) if len(origins) == 1 else None
        """The origin of all URLs, if there is only one."""

    @property
    def origins(self) -> set[str]:
        """The origins of the URLs; of many, some."""
        sql = f"SELECT DISTINCT origin {_DECIDED} AND origin != '' LIMIT 2"
        return {row["origin"] for each in self._ledgers for row in each.rows(sql)}

    def count(self, origin: Origin | None) -> int:
        """Return the number of decisions."""
        sql, asked = f"SELECT count(*) AS times {_DECIDED}", origin and str(origin)
        rows = [row for each in self._ledgers for row in each.rows(sql, origin=asked)]
        return sum(row["times"] for row in rows)

    def urls(self, origin: Origin | None) -> Iterator[Asked]:
        """Yield each URL with the last decision on it, sorted by origin."""
        streams = [each.decisions(origin and str(origin)) for each in self._ledgers]
        place = attrgetter("origin", "url")
        for _, same in groupby(heapq.merge(*streams, key=place), place):
            each = list(same)
            times = sum(one.times for one in each)
            past = max(each, key=attrgetter("time"))._replace(times=times)
            yield Asked(past.url, written_origin(past.origin), past)

    async def load(self, origins: Iterable[Origin]) -> None:
        pass

    def rules(self, origin: Origin | None) -> Rules:
        """Return the last robots.txt of *origin*, and the crawl that used it."""
        for each in reversed(self._ledgers) if origin else ():
            found = each.robotstxt(_LAST, of=str(origin))
            if found.loaded is not None:
                return found
        return Rules()


def ledger_of(argument: str) -> Ledger | None:
    """Return the ledger that an argument names: ``PATH``, ``PATH#CRAWL`` or ``PATH@TIME``; None if
    that is no SQLite file. Raises UsageError for a time that can't be read.
    """
    if _is_sqlite(argument):
        return Ledger(argument, None, math.inf)
    path, _, crawl = argument.rpartition("#")
    if crawl.isdecimal() and _is_sqlite(path):
        return Ledger(path, int(crawl[:18]), math.inf)
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
    return Ledger(path, None, moment.timestamp())


def _is_sqlite(path: str) -> bool:
    try:
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except (OSError, ValueError):
        return False
