"""Cache entries after fetches at several moments."""

from __future__ import annotations

from datetime import timedelta

from scrapy_rep.protocol.access.results import AccessResult, Entry, renew, robots_of
from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect

URL = "http://example.com/robots.txt"
PAGE = "http://example.com/page"
FORBIDS = b"User-agent: *\nDisallow: /page\n"
ALL = (RFC9309, GOOGLE, CLASSIC)
START, HOUR, DAY = timedelta(0), timedelta(hours=1), timedelta(days=1)


def result(status: int | None, **headers: str) -> AccessResult:
    """Return a fetch result; status 200 comes with rules that forbid PAGE."""
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    body = FORBIDS if status == 200 else b""
    return AccessResult(url=URL, status=status, headers=pairs, body=body)


def after(
    dialect: Dialect, *steps: tuple[timedelta, AccessResult | int | None]
) -> Entry:
    """Return the cache entry after fetches at these moments with these results or statuses."""
    entry, before = None, 0.0
    for moment, answer in steps:
        if not isinstance(answer, AccessResult):
            answer = result(answer)
        now = moment.total_seconds()
        entry = renew(answer, entry, dialect=dialect, now=now, elapsed=now - before)
        before = now
    assert entry is not None
    return entry


def verdict(entry: Entry, dialect: Dialect) -> tuple[bool, str]:
    """Return whether PAGE is allowed, and the reason."""
    decision = robots_of(entry, dialect).decide(PAGE, "mybot")
    return decision.allowed, str(decision.reason)


def name_of(value: object) -> str:
    """Return the name of a parameter for the test id."""
    return str(getattr(value, "name", value))
