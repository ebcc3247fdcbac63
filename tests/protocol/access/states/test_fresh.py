"""How long a robots.txt stays fresh, by the server, the dialect and the settings."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from scrapy_rep.protocol.access.freshness import Bounds, lifetime
from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
from tests.protocol.access.states.moments import (
    ALL,
    DAY,
    START,
    after,
    name_of,
    result,
    verdict,
)

NOW = 1_700_000_000.0
DAYS = 24 * 60 * 60.0
ANY = Bounds(0, 1e9)


def date(seconds: float) -> str:
    return formatdate(NOW + seconds, usegmt=True)


def holds(dialect: Dialect, bounds: Bounds = ANY, **headers: str) -> float:
    return lifetime(result(200, **headers).headers, dialect, bounds, NOW)


@pytest.mark.parametrize(
    ("dialect", "days"), [(RFC9309, 1), (GOOGLE, 1), (CLASSIC, 7)], ids=name_of
)
def test_without_a_word_from_the_server(dialect: Dialect, days: int) -> None:
    """Without caching headers, a result is fresh for a day; in the 1996 draft, for a week."""
    assert holds(dialect) == days * DAYS
    for status in (200, 404):
        entry = after(dialect, (START, status))
        assert entry.expires == days * DAYS
        assert entry.is_fresh(days * DAYS - 1)
        assert not entry.is_fresh(days * DAYS)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"cache_control": "max-age=600"}, 600),
        ({"cache_control": "Max-Age = 600 , public"}, 600),
        ({"cache_control": 'max-age="600"'}, 600),
        ({"cache_control": "max-age=600, max-age=60"}, 600),
        ({"cache_control": "max-age=600, s-maxage=60"}, 60),
        ({"cache_control": "max-age=600", "age": "100"}, 500),
        ({"cache_control": "max-age=600", "age": "1000"}, 0),
        ({"cache_control": "max-age=600", "age": "soon"}, 600),
        ({"cache_control": "max-age=600", "expires": date(60)}, 600),
        ({"cache_control": "max-age=0"}, 0),
        ({"cache_control": "max-age=-5"}, DAYS),
        ({"cache_control": "max-age=soon"}, DAYS),
        ({"cache_control": "max-age"}, DAYS),
        ({"cache_control": "no-store, max-age=600"}, 0),
        ({"cache_control": "no-cache"}, 0),
        ({"cache_control": "must-revalidate"}, DAYS),
        ({"cache_control": ",,; =, \x00"}, DAYS),
        ({"expires": date(3600)}, 3600),
        ({"expires": date(3600), "date": date(600)}, 3000),
        ({"expires": date(-3600)}, 0),
        ({"expires": "0"}, 0),
        ({"expires": "-1"}, 0),
        ({"expires": "Thu, 99 Jan 2999 99:99:99 GMT"}, 0),
    ],
)
def test_cache_control_as_in_rfc_9111(headers: dict[str, str], seconds: float) -> None:
    """All cache directives of RFC 9111 count, as RFC 9309 lets crawlers use them."""
    assert holds(RFC9309, **headers) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"cache_control": "max-age=600"}, 600),
        ({"cache_control": "max-age=864000"}, 10 * DAYS),
        ({"cache_control": "s-maxage=60"}, DAYS),
        ({"cache_control": "no-store"}, DAYS),
        ({"expires": date(60)}, DAYS),
    ],
)
def test_google_minds_max_age_alone(headers: dict[str, str], seconds: float) -> None:
    """In the Google dialect, max-age replaces the default of a day; nothing else counts."""
    assert holds(GOOGLE, **headers) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"expires": date(3600)}, 3600), ({"cache_control": "max-age=600"}, 7 * DAYS)],
)
def test_the_1996_draft_minds_expires_alone(
    headers: dict[str, str], seconds: float
) -> None:
    """In the 1996 draft, only Expires counts; without it, a robots.txt is fresh for a week."""
    assert holds(CLASSIC, **headers) == seconds


def test_the_floor() -> None:
    """With ``max-age=0`` a robots.txt is still fresh for a minimum time, in every dialect."""
    headers = {"cache_control": "max-age=0", "expires": "0"}
    for dialect in ALL:
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


def test_rules_count_while_it_is_fresh() -> None:
    """While a robots.txt is fresh, the rules of the last fetch are used."""
    entry = after(RFC9309, (START, 404), (DAY, 200))
    assert verdict(entry, RFC9309) == (False, "rule")
    assert verdict(after(RFC9309, (START, 200), (DAY, 404)), RFC9309)[0]
