"""Records are bounded, and contain no secrets."""

from __future__ import annotations

import json

import pytest

from scrapy_rep.ledger.records import MAX_TEXT, MAX_URL, Snapshot, storable, url_text
from scrapy_rep.ledger.terms import Layer, Verdict
from scrapy_rep.protocol.access.results import AccessResult, Entry
from scrapy_rep.protocol.dialect import RFC9309
from tests.ledger.records import ORIGIN, result, snapshot


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://user:secret@host/a@b", "http://***@host/a@b"),
        ("http://user@host", "http://***@host"),
        ("http://user:p@ss@host/", "http://***@host/"),
        ("http://host/@x?a=//b@c", "http://host/@x?a=//***@c"),
        ("http://host/path", "http://host/path"),
    ],
)
def test_no_passwords(url: str, expected: str) -> None:
    """User names and passwords are removed, and so is text that could be one."""
    assert url_text(url) == expected


def test_bounds() -> None:
    """A text that is too long is cut, and marked as cut."""
    assert url_text("http://host/" + "x" * 9000)[-2:] == "x…"
    assert len(url_text("http://host/" + "x" * 9000)) == MAX_URL
    assert storable("x" * MAX_TEXT) == "x" * MAX_TEXT
    assert len(storable("ä" * 9000)) == MAX_TEXT


def test_what_sqlite_does_not_take() -> None:
    """Half of a surrogate pair is replaced, because SQLite cannot store it."""
    assert storable("a\ud800ä") == "a?ä"


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
    assert found.weight >= 4


def test_a_body_that_nobody_reads_to_its_end() -> None:
    """A body beyond the size limit is cut to the limit plus one byte, which shows the cut."""
    body = snapshot(b"#" * 2_000_000).body
    assert body is not None
    assert len(body) == RFC9309.size_limit + 1


@pytest.mark.parametrize("term", [*Layer, *Verdict])
def test_terms_are_their_text(term: Layer | Verdict) -> None:
    """Formatting a term gives its value in the ledger, in every version of Python."""
    assert f"{term}" == str(term) == term.value
