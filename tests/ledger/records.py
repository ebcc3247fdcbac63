"""Records of an invented crawl."""

from __future__ import annotations

from typing import Any

from scrapy_rep.ledger import writer
from scrapy_rep.protocol.access.results import AccessResult, Entry
from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.record import Record

ORIGIN = "http://example.com"
CRAWL = ("spider", "bot/1.0", '["bot"]', "rfc9309", '{"A": 1}', '{"Scrapy": "3"}', 1.0)
END = (9.0, "finished", '{"pages": 2}')


def result(body: bytes = b"User-agent: *\n", **fields: Any) -> AccessResult:
    fields = {"status": 200, "url": f"{ORIGIN}/robots.txt", **fields}
    return AccessResult(body=body, **fields)


def snapshot(
    body: bytes = b"User-agent: *\n", fetched: float = 5.0, origin: str = ORIGIN
) -> tuple[tuple[Any, ...], bytes | None]:
    entry = Entry(result=result(body), fetched=fetched, expires=fetched + 60)
    return writer.snapshot(origin, entry, RFC9309)


def decided(number: int = 0, fetched: float | None = 5.0, **fields: Any) -> Record:
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
