"""The result of a fetch, and what it allows, row by row of the dialects."""

from __future__ import annotations

import pytest

from scrapy_rep.protocol.access.results import (
    Access,
    AccessResult,
    Entry,
    renew,
    robots_of,
)
from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect

URL = "http://example.com/robots.txt"
PAGE = "http://example.com/page"
FORBIDS = b"User-agent: *\nDisallow: /page\n"
ALL = [RFC9309, GOOGLE, CLASSIC]


def fetched(status: int | None, body: bytes = b"") -> AccessResult:
    return AccessResult(url=URL, status=status, body=body)


def allows(entry: Entry, dialect: Dialect) -> tuple[bool, str]:
    decision = robots_of(entry, dialect).decide(PAGE, "mybot")
    return decision.allowed, str(decision.reason)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        *((status, Access.SUCCESSFUL) for status in (200, 203, 204, 206)),
        *((status, Access.UNAVAILABLE) for status in (300, 301, 304, 308)),
        *((status, Access.UNAVAILABLE) for status in (400, 401, 403, 404, 418, 451)),
        *((status, Access.UNREACHABLE) for status in (429, 500, 503, 599, 600)),
        (None, Access.UNREACHABLE),
    ],
)
def test_2_3_1_kinds_of_access(status: int | None, expected: Access) -> None:
    """Each status is of one kind of RFC 9309, 2.3.1; 429 counts as a server error."""
    assert fetched(status).access is expected


@pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("status", [404, 500, None])
def test_only_a_successful_body_is_parsed(dialect: Dialect, status: int | None) -> None:
    """The body of an error page is ignored."""
    entry = renew(fetched(status, FORBIDS), None, dialect=dialect, now=0)
    assert robots_of(entry, dialect).groups == ()


@pytest.mark.parametrize(
    ("dialect", "status", "allowed"),
    [
        (RFC9309, 401, True),
        (RFC9309, 403, True),
        (GOOGLE, 403, True),
        (CLASSIC, 401, False),
        (CLASSIC, 403, False),
        (CLASSIC, 404, True),
        (RFC9309, 310, True),
    ],
)
def test_unavailable(dialect: Dialect, status: int, allowed: bool) -> None:
    """4xx allows everything; in the 1996 draft, 401 and 403 forbid everything."""
    entry = renew(fetched(status), None, dialect=dialect, now=0)
    assert allows(entry, dialect) == (allowed, "unavailable")


def test_sitemaps_are_resolved_where_the_redirects_began() -> None:
    """After redirects, the rules apply to the host of the first request, and relative
    sitemap URLs are resolved against its robots.txt.
    """
    body = b"Sitemap: /map.xml"
    redirects = ("http://other.example/robots.txt",)
    result = AccessResult(url=URL, status=200, body=body, redirects=redirects)
    robots = robots_of(renew(result, None, dialect=RFC9309, now=0), RFC9309)
    assert robots.sitemaps == ("http://example.com/map.xml",)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<!DOCTYPE html><html>", True),
        (b"\n  <html lang=en>", True),
        (FORBIDS, False),
        (b"", False),
    ],
)
def test_html(body: bytes, expected: bool) -> None:
    """An HTML page in place of a robots.txt is detected."""
    assert fetched(200, body).is_html is expected


def test_outcome_in_words() -> None:
    """The outcome of a fetch is described in words, for log messages."""
    assert str(fetched(503)) == "status 503"
    assert (
        str(AccessResult(url=URL, status=None, error="TimeoutError"))
        == "no answer: TimeoutError"
    )
