"""Collects the contents of a report from ledgers."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from scrapy.settings import default_settings

from scrapy_rep.ledger.terms import Layer
from scrapy_rep.report.check import check
from scrapy_rep.report.documents import Documents
from scrapy_rep.report.hosts import Hosts
from scrapy_rep.report.model import (
    Answers,
    Changed,
    Outage,
    Overridden,
    Report,
    Tally,
    Use,
)
from scrapy_rep.report.urls import UrlsByHost
from scrapy_rep.report.without import hosts_without
from scrapy_rep.settings import DEFAULTS, OBEY
from scrapy_rep.stats import RESPONSE_COUNT

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from scrapy_rep.report.scratch import Crawl, Scratch

ANSWERS = 20
"""The most kinds of answers to show."""

_TALLIES = """
SELECT layer, verdict, reason, sum(count) FROM tally GROUP BY layer, verdict, reason
ORDER BY layer, 4 DESC, verdict, reason
"""

# Requests only, without the statements of pages. A ledger with only refusals has one such
# row for each host that an override decided on.
_LET_THROUGH = """
SELECT crawl, sum(count) FROM tally
WHERE verdict = 'allowed' AND layer = ? AND NOT of_page GROUP BY crawl
"""

_ANSWERS = """
SELECT access, status, CASE WHEN status IS NULL THEN substr(error, 1, 200) END AS why,
       count(*), count(DISTINCT origin)
FROM snapshot GROUP BY access, status, why ORDER BY 4 DESC, access, status, why
"""

_OUTAGES = """
SELECT origin, count(*) AS times, min(fetched) AS first, max(fetched) AS last,
       (SELECT status FROM snapshot AS other WHERE other.origin = one.origin
        AND access = 'unreachable' ORDER BY fetched DESC LIMIT 1) AS status,
       (SELECT substr(error, 1, 500) FROM snapshot AS other
        WHERE other.origin = one.origin AND access = 'unreachable'
        ORDER BY fetched DESC LIMIT 1) AS error,
       max(copy_of) IS NOT NULL AS copy,
       (SELECT coalesce(sum(count), 0) FROM tally WHERE tally.origin = one.origin
        AND verdict = 'refused' AND reason = 'unreachable') AS given_up,
       coalesce((SELECT max(fetched) FROM snapshot AS other
                 WHERE other.origin = one.origin AND access != 'unreachable'), 0)
       > max(fetched) AS recovered
FROM snapshot AS one WHERE access = 'unreachable' GROUP BY origin
ORDER BY given_up DESC, times DESC, origin
"""

_OVERRIDDEN = """
SELECT reason, statement, verdict, sum(count), count(DISTINCT origin)
FROM overridden GROUP BY reason, statement, verdict ORDER BY 4 DESC, reason, statement
"""

# Outcomes come before statements that were only noted.
_USES = """
SELECT origin, purpose, verdict, source, statement, line, sum(count), url FROM used
GROUP BY origin, purpose, verdict, source, statement, line
ORDER BY verdict = 'noted', 7 DESC, origin, purpose, statement LIMIT ?
"""

_ALL_USES = """
SELECT count(*) FROM (
    SELECT 1 FROM used GROUP BY origin, purpose, verdict, source, statement, line
)
"""


@dataclass(frozen=True)
class Limits:
    """The most that a report shows. The report says how much it leaves out."""

    hosts: int = 10_000
    """Rows of the table of hosts."""

    documents: int = 200
    """Hosts whose robots.txt is shown."""

    rows: int = 500
    """Rows of each other table."""


def collect(scratch: Scratch, limits: Limits) -> Report:
    """Return the report on the ledgers in *scratch*.

    Its hosts, URLs and documents are read while they are iterated, from the open *scratch*.
    """
    crawls = tuple(sorted(scratch.crawls.values(), key=attrgetter("started")))
    documents = Documents(scratch, limits.documents)
    urls = UrlsByHost(scratch, limits.rows)
    hosts = Hosts(scratch, documents.numbers, urls.numbers, limits.hosts)
    outages = [_outage(row) for row in scratch.database.execute(_OUTAGES)]
    answers = [Answers(*row) for row in scratch.database.execute(_ANSWERS)]
    uses = [
        Use(*(*row, documents.numbers.get(row["origin"])))
        for row in scratch.database.execute(_USES, (limits.rows,))
    ]
    (all_uses,) = scratch.database.execute(_ALL_USES).fetchone()
    overridden = [Overridden(*row) for row in scratch.database.execute(_OVERRIDDEN)]
    return Report(
        crawls=crawls,
        tallies=tuple(Tally(*row) for row in scratch.database.execute(_TALLIES)),
        let_through=_let_through(scratch, Layer.ROBOTS_TXT.value),
        let_through_by_override=_let_through(scratch, Layer.OVERRIDE.value),
        arrived=scratch.arrived,
        check=check(scratch),
        responses=sum(map(_responses, crawls)),
        answers=tuple(answers[:ANSWERS]),
        answers_left_out=sum(one.count for one in answers[ANSWERS:]),
        hosts=hosts,
        documents=documents,
        urls=urls,
        without=hosts_without(scratch.database, limits.rows),
        outages=tuple(outages[: limits.rows]),
        outages_left_out=max(0, len(outages) - limits.rows),
        overridden=tuple(overridden[: limits.rows]),
        overridden_left_out=max(0, len(overridden) - limits.rows),
        uses=tuple(uses),
        uses_left_out=all_uses - len(uses),
        changed=tuple(one for crawl in crawls for one in _changed(crawl)),
    )


def _let_through(scratch: Scratch, layer: str) -> int:
    rows = scratch.database.execute(_LET_THROUGH, (layer,))
    complete = {each for each, crawl in scratch.crawls.items() if crawl.complete}
    return sum(count for crawl, count in rows if crawl in complete)


def _outage(row: sqlite3.Row) -> Outage:
    columns: dict[str, Any] = dict(row)
    copy, recovered = bool(columns.pop("copy")), bool(columns.pop("recovered"))
    return Outage(**columns, copy=copy, recovered=recovered)


def _responses(crawl: Crawl) -> int:
    received = crawl.counts.get("downloader/response_count", 0)
    return max(0, int(received - crawl.counts.get(RESPONSE_COUNT, 0)))


def _changed(crawl: Crawl) -> Iterator[Changed]:
    for name, value in crawl.settings.items():
        default = DEFAULTS.get(name, getattr(default_settings, name, None))
        # The add-on sets this one to True.
        default = True if name == OBEY else default
        if value != default:
            yield Changed(name, value, crawl.spider)
