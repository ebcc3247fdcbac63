"""Records are bounded, and contain no secrets."""

from __future__ import annotations

import json

from scrapy_rep.ledger.records import Snapshot, weight
from scrapy_rep.protocol.access.results import AccessResult, Entry
from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.record import MAX_TEXT
from tests.ledger.records import ORIGIN, result, snapshot


def test_a_robots_txt_that_could_not_be_had() -> None:
    """The snapshot of an unreachable robots.txt has the error without passwords, and no body."""
    failed = result(
        b"",
        status=None,
        error="no route to http://me:secret@proxy " + "x" * 9000,
        redirects=("http://me@b.example/",),
    )
    entry = Entry(result=failed, fetched=5.0, expires=6.0, unreachable_since=5.0)
    found = Snapshot(ORIGIN, entry, RFC9309)
    origin, url, redirects, access, status, error, headers, *rest = found.row
    assert (origin, url) == (ORIGIN, f"{ORIGIN}/robots.txt")
    assert json.loads(redirects) == ["http://***@b.example/"]
    assert (access, status, headers, rest) == ("unreachable", None, "[]", [5, 6, None])
    assert error.startswith("no route to http://***@proxy xxx")
    assert len(error) == MAX_TEXT
    assert found.body is None


def test_a_copy_in_its_place() -> None:
    """If a cached copy is used, the snapshot has its body, and the time when it was fetched."""
    failed = AccessResult(url=f"{ORIGIN}/robots.txt", status=503)
    entry = Entry(
        result=failed,
        fetched=5.0,
        expires=6.0,
        unreachable_since=5.0,
        copy=result(b"good"),
        copy_fetched=3.0,
    )
    found = Snapshot(ORIGIN, entry, RFC9309)
    assert found.row[3:5] == ("unreachable", 503)
    assert found.row[-1] == 3.0
    assert found.body == b"good"
    assert weight(found) >= 4


def test_a_body_that_nobody_reads_to_its_end() -> None:
    """A body beyond the size limit is cut to the limit plus one byte, which shows the cut."""
    body = snapshot(b"#" * 2_000_000).body
    assert body is not None
    assert len(body) == RFC9309.size_limit + 1
