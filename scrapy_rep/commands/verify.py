"""``scrapy rep verify``: whether a ledger is as the crawls wrote it."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.commands.output import CLEAN, FOUND, Output, notify
from scrapy_rep.ledger.reader import open_ledger, reading
from scrapy_rep.ledger.seals import check
from scrapy_rep.report.shown import iso_time

if TYPE_CHECKING:
    import sqlite3
    from argparse import Namespace

    from scrapy.settings import Settings

    from scrapy_rep.ledger.seals import Checked

_ROWS = (
    "{verdict:word}  {ledger:bold}",
    "  crawl {crawl}: {spider}, started {started}",
    "  ended {ended}: {finish_reason}",
    ("rows", ("  {name}: {item:=row}",)),
    "  sha256 {digest}",
    "  published: {published}",
    ("problems", ("  {table}: {message}",)),
)

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})").fullmatch


def run(arguments: Namespace, settings: Settings) -> int:
    path, output = arguments.ledger, Output(arguments)
    missing = published = {_digest(each) for each in arguments.digests}
    is_intact = True
    with closing(open_ledger(path)) as ledger, reading(path):
        # A crawl may be writing the ledger; a transaction reads a consistent state.
        ledger.execute("BEGIN")
        crawls = {row["id"]: row for row in ledger.execute("SELECT * FROM crawl")}
        for checked in check(ledger):
            record = _record(path, checked, crawls.get(checked.crawl), published)
            output.show(record, _ROWS)
            missing = missing - {checked.digest}
            # With published digests, only their crawls are judged.
            if record["published"] or not published:
                is_intact = is_intact and record["verdict"] == "intact"
    for each in sorted(missing):
        notify(f"no crawl in {path} has the digest {each} as it is now")
    return CLEAN if is_intact and not missing else FOUND


def _digest(text: str) -> str:
    match = _DIGEST(text.strip().lower())
    if match is None:
        raise UsageError(f"{text!r} is not a SHA-256: it has 64 hexadecimal digits")
    return match[1]


def _record(
    path: str, checked: Checked, crawl: sqlite3.Row | None, published: set[str]
) -> dict[str, Any]:
    verdict = "intact" if checked.digest else "not sealed"
    return {
        "ledger": path,
        "crawl": checked.crawl,
        "spider": crawl and crawl["spider"],
        "started": crawl and iso_time(crawl["started"]),
        "ended": crawl and iso_time(crawl["ended"]),
        "finish_reason": crawl and crawl["finish_reason"],
        "rows": checked.rows,
        "digest": checked.digest,
        "published": checked.digest in published if published else None,
        "verdict": "changed" if checked.problems else verdict,
        "problems": [each._asdict() for each in checked.problems],
    }
