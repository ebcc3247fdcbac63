"""The hosts of a report; those with the most refusals come first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_rep.protocol.agents import product_tokens
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309
from scrapy_rep.protocol.robots import RobotsTxt

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping

    from scrapy_rep.report.scratch import Scratch

RULES = 3
"""The most rules of a host to show."""

# The origin of a URL with an invalid host is empty.
_ORIGINS = (
    "SELECT origin FROM tally WHERE origin != '' UNION SELECT origin FROM snapshot"
)

_HOSTS = f"""
SELECT all_of.origin AS origin,
       coalesce(sum(CASE WHEN verdict = 'refused' THEN count END), 0) AS refused,
       coalesce(sum(CASE WHEN verdict = 'dropped' THEN count END), 0) AS dropped,
       coalesce(sum(count), 0) AS decided,
       max(age) AS age
FROM ({_ORIGINS}) AS all_of LEFT JOIN tally ON tally.origin = all_of.origin
GROUP BY all_of.origin ORDER BY refused DESC, dropped DESC, decided DESC, 1 LIMIT ?
"""  # noqa: S608

_RULES = """
SELECT coalesce(statement, ''), sum(count) FROM line
WHERE origin = ? AND verdict = 'refused'
GROUP BY statement ORDER BY 2 DESC, min(line)
"""

_GAP = "SELECT seconds FROM gap WHERE origin = ?"

_LATEST = "SELECT * FROM snapshot WHERE origin = ? ORDER BY fetched DESC LIMIT 1"


@dataclass(frozen=True, slots=True)
class TopRule:
    statement: str
    refused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    origin: str

    access: str | None
    """The result of the last fetch of its robots.txt; None if there was no fetch."""

    status: int | None
    error: str | None

    copy: bool
    """Whether an older copy was followed in place of the last answer."""

    age: float | None
    """The greatest age of a robots.txt when it decided, in seconds."""

    delay: float | None
    """The delay that its robots.txt asks for, in seconds."""

    gap: float | None
    """The shortest time between two requests, in seconds; None if there is no delay, or no
    ledger with every decision."""

    refused: int
    dropped: int
    rules: tuple[TopRule, ...]

    more_rules: int
    """The number of other rules that refused requests."""

    document: int | None
    """The number of its robots.txt in the report, if it is shown."""

    urls: int | None
    """Its number among the hosts whose refused URLs are shown, if it is one of them."""


class Hosts:
    def __init__(
        self,
        scratch: Scratch,
        documents: Mapping[str, int],
        urls: Mapping[str, int],
        limit: int,
    ) -> None:
        """*documents* and *urls* are the numbers in the report, by origin, of the hosts
        whose robots.txt and whose refused URLs are shown.
        """
        self._scratch = scratch
        self._documents = documents
        self._urls = urls
        self._limit = limit
        count = f"SELECT count(*) FROM ({_ORIGINS})"  # noqa: S608
        self.met: int = scratch.database.execute(count).fetchone()[0]
        self.shown = min(self.met, limit)

    def __iter__(self) -> Iterator[Host]:
        for row in self._scratch.database.execute(_HOSTS, (self._limit,)):
            yield self._host(row)

    def _host(self, row: sqlite3.Row) -> Host:
        origin = row["origin"]
        database = self._scratch.database
        latest = database.execute(_LATEST, (origin,)).fetchone()
        rules = database.execute(_RULES, (origin,)).fetchall()
        delay = self._delay(latest) if latest else None
        gap = database.execute(_GAP, (origin,)).fetchone() if delay else None
        return Host(
            origin=origin,
            access=latest and latest["access"],
            status=latest and latest["status"],
            error=latest and latest["error"],
            copy=bool(latest and latest["copy_of"] is not None),
            age=row["age"],
            delay=delay,
            gap=gap and gap["seconds"],
            refused=row["refused"],
            dropped=row["dropped"],
            rules=tuple(TopRule(*rule) for rule in rules[:RULES]),
            more_rules=max(0, len(rules) - RULES),
            document=self._documents.get(origin),
            urls=self._urls.get(origin),
        )

    def _delay(self, snapshot: sqlite3.Row) -> float | None:
        crawl = self._scratch.crawls.get(snapshot["crawl"])
        if snapshot["sha256"] is None or crawl is None:
            return None
        body = self._scratch.body(snapshot["ledger"], snapshot["sha256"]) or b""
        dialect = DIALECTS.get(crawl.dialect, RFC9309)
        robots = RobotsTxt.parse(body, dialect)
        agents = crawl.agents or product_tokens(crawl.user_agent)
        delays = [robots.crawl_delay(agents)]
        rate = robots.request_rate(agents) if dialect.crawl_delay else None
        if rate:
            delays.append(rate.seconds / rate.requests)
        return max((delay for delay in delays if delay), default=None)
