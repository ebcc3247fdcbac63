"""How long a robots.txt stays fresh, by the server, the dialect and the settings."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from scrapy_rep.protocol.access.freshness import Bounds, lifetime
from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
from tests.protocol.access.test_states import after, result

NOW = 1_700_000_000.0
DAYS = 24 * 60 * 60.0
ANY = Bounds(0, 1e9)


def date(seconds: float) -> str:
    return formatdate(NOW + seconds, usegmt=True)


def holds(dialect: Dialect, bounds: Bounds = ANY, **headers: str) -> float:
    return lifetime(result(200, **headers).headers, dialect, bounds, NOW)


@pytest.mark.parametrize(("dialect", "days"), [(RFC9309, 1), (GOOGLE, 1), (CLASSIC, 7)])
def test_without_a_word_from_the_server(dialect: Dialect, days: int) -> None:
    """Without caching headers, a result is fresh for a day; in the 1996 draft, for a week."""
    for status in (200, 404):
        entry = after(dialect, (0, status))
        assert entry.expires == days * DAYS
        assert entry.is_fresh(days * DAYS - 1)
        assert not entry.is_fresh(days * DAYS)


@pytest.mark.parametrize(
    ("dialect", "headers", "seconds"),
    [
        (RFC9309, {"cache_control": "max-age=600"}, 600),
        (RFC9309, {"cache_control": "Max-Age = 600 , public"}, 600),
        (RFC9309, {"cache_control": 'max-age="600"'}, 600),
        (RFC9309, {"cache_control": "max-age=600, max-age=60"}, 600),
        (RFC9309, {"cache_control": "max-age=600, s-maxage=60"}, 60),
        (RFC9309, {"cache_control": "max-age=600", "age": "100"}, 500),
        (RFC9309, {"cache_control": "max-age=600", "age": "1000"}, 0),
        (RFC9309, {"cache_control": "max-age=600", "age": "soon"}, 600),
        (RFC9309, {"cache_control": "max-age=600", "expires": date(60)}, 600),
        (RFC9309, {"cache_control": "max-age=0"}, 0),
        (RFC9309, {"cache_control": "max-age=-5"}, DAYS),
        (RFC9309, {"cache_control": "max-age=soon"}, DAYS),
        (RFC9309, {"cache_control": "max-age"}, DAYS),
        (RFC9309, {"cache_control": "no-store, max-age=600"}, 0),
        (RFC9309, {"cache_control": "no-cache"}, 0),
        (RFC9309, {"cache_control": "must-revalidate"}, DAYS),
        (RFC9309, {"cache_control": ",,; =, \x00"}, DAYS),
        (RFC9309, {"expires": date(3600)}, 3600),
        (RFC9309, {"expires": date(3600), "date": date(600)}, 3000),
        (RFC9309, {"expires": date(-3600)}, 0),
        (RFC9309, {"expires": "0"}, 0),
        (RFC9309, {"expires": "-1"}, 0),
        (RFC9309, {"expires": "Thu, 99 Jan 2999 99:99:99 GMT"}, 0),
        (GOOGLE, {"cache_control": "max-age=600"}, 600),
        (GOOGLE, {"cache_control": "max-age=864000"}, 10 * DAYS),
        (GOOGLE, {"cache_control": "s-maxage=60"}, DAYS),
        (GOOGLE, {"cache_control": "no-store"}, DAYS),
        (GOOGLE, {"expires": date(60)}, DAYS),
        (CLASSIC, {"expires": date(3600)}, 3600),
        (CLASSIC, {"cache_control": "max-age=600"}, 7 * DAYS),
    ],
)
def test_headers(dialect: Dialect, headers: dict[str, str], seconds: float) -> None:
    """All cache directives of RFC 9111 count, as RFC 9309 lets crawlers use them. In the Google
    dialect, only max-age counts; in the 1996 draft, only Expires.
    """
    assert holds(dialect, **headers) == seconds


def test_the_floor() -> None:
    """With ``max-age=0`` a robots.txt is still fresh for a minimum time, in every dialect."""
    headers = {"cache_control": "max-age=0", "expires": "0"}
    for dialect in (RFC9309, GOOGLE, CLASSIC):
        assert holds(dialect, Bounds(), **headers) == 300
        assert holds(dialect, Bounds(7, 1e9), **headers) == 7
        # The operator may want it sooner.
        assert holds(dialect, Bounds(max_age=5), **headers) == 5


def test_the_ceiling() -> None:
    """RFC 9309 caps freshness at a day; the other dialects at a month."""
    headers = {"cache_control": "max-age=99999999999", "expires": date(400 * DAYS)}
    assert holds(RFC9309, Bounds(), **headers) == DAYS
    assert holds(GOOGLE, Bounds(), cache_control="max-age=99999999999") == 30 * DAYS
    assert holds(CLASSIC, Bounds(), **headers) == 30 * DAYS
