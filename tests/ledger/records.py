"""Builders of ledger records, and ledgers of one made-up crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_rep.crawl.ledger import writer as module
from scrapy_rep.crawl.ledger.writer import LedgerWriter
from scrapy_rep.protocol.access.entries import CacheEntry
from scrapy_rep.protocol.access.results import AccessResult
from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ORIGIN = "http://example.com"
CRAWL = (
    "1-2-3",
    "spider",
    "bot/1.0",
    '["bot"]',
    "rfc9309",
    '{"A": 1}',
    '{"Scrapy": "3"}',
    1.0,
)
END = (9.0, "finished", '{"pages": 2}')


def make_snapshot(
    body: bytes = b"User-agent: *\n",
    fetched: float = 5.0,
    origin: str = ORIGIN,
    **fields: Any,
) -> tuple[tuple[Any, ...], bytes | None]:
    """Return what ``writer.snapshot`` makes of a robots.txt that was fetched at the time *fetched*:
    the row, and the body or None. Other *fields* are those of the AccessResult.
    """
    fields = {"status": 200, "url": f"{origin}/robots.txt", **fields}
    result = AccessResult(body=body, **fields)
    entry = CacheEntry(result=result, fetched=fetched, expires=fetched + 60)
    return module.snapshot(origin, entry, RFC9309)


def make_decision(
    number: int = 0, fetched: float | None = 5.0, **fields: Any
) -> Record:
    """Return a decision made at second *number*, by default a refusal of the page ``/NUMBER``.
    *fetched* is the time at which the robots.txt that decided was fetched. Other *fields* replace
    those of the record.
    """
    return Record(
        time=float(number),
        subject="request",
        verdict="refused",
        layer="robots.txt",
        reason="rule",
        url=f"{ORIGIN}/{number}",
        origin=ORIGIN,
        agent="*",
        fetched=fetched,
        line=2,
        statement="Disallow: /",
    )._replace(**fields)


def write_record(writer: LedgerWriter, record: Any) -> None:
    """Pass *record* to the writer: a decision, a return value of :func:`make_snapshot`, or a pair of a
    table and a row for it.
    """
    if isinstance(record, Record):
        writer.write_decision(record)
    elif isinstance(record[0], str):
        writer.write(*record)
    else:
        row, body = record
        if body is not None:
            writer.write("body", (row[-1], body))
        writer.write("snapshot", row)


def write_crawl(
    path: Path, *transactions: Iterable[Any], crawl: tuple[Any, ...] = CRAWL
) -> LedgerWriter:
    """Write a complete crawl to the ledger at *path*, with a flush after each of the
    *transactions*.
    """
    writer = LedgerWriter(path)
    writer.start(crawl)
    for number, records in enumerate(transactions, 1):
        for record in records:
            write_record(writer, record)
        if number == len(transactions):
            writer.close(END)
        else:
            flush(writer)
    assert not writer.dropped
    return writer


def flush(writer: LedgerWriter) -> None:
    """Write all buffered records to the file, and update the counts of the writer."""
    for _ in range(2):
        writer.flush()
        writer._thread.join()
    writer._take()
