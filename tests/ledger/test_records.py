"""Records are bounded, and contain no secrets."""

from __future__ import annotations

import json
from hashlib import sha256

from scrapy_rep.ledger.writer import snapshot as written
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
    row, body = written(ORIGIN, entry, RFC9309)
    origin, url, redirects, access, status, error, headers, *rest = row
    assert (origin, url) == (ORIGIN, f"{ORIGIN}/robots.txt")
    assert json.loads(redirects) == ["http://***@b.example/"]
    assert (access, status, headers, rest) == (
        "unreachable",
        None,
        "[]",
        [5, 6, None, None],
    )
    assert error.startswith("no route to http://***@proxy xxx")
    assert len(error) == MAX_TEXT
    assert body is None


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
    row, body = written(ORIGIN, entry, RFC9309)
    assert row[3:5] == ("unreachable", 503)
    assert row[-2:] == (3.0, sha256(b"good").hexdigest())
    assert body == b"good"


def test_a_body_that_nobody_reads_to_its_end() -> None:
    """A body beyond the size limit is cut to the limit plus one byte, which shows the cut."""
    _, body = snapshot(b"#" * 2_000_000)
    assert body is not None
    assert len(body) == RFC9309.size_limit + 1
