"""The dates of ``unavailable_after``: which text is a date, and which date it is."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from datetime import datetime, timedelta, timezone

import pytest

from scrapy_rep.protocol.indexing.dates import ZONES, read_date
from scrapy_rep.protocol.indexing.rules import IndexingRules


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=timezone.utc)  # type: ignore[misc, arg-type]


FORMS = {
    # RFC 850, RFC 822 and 1123, ISO 8601
    "Friday, 25-Jun-10 15:00:00 GMT": utc(2010, 6, 25, 15),
    "Fri, 25 Jun 10 15:00:00 PST": utc(2010, 6, 25, 23),
    "Fri, 25 Jun 2010 15:00:00 GMT": utc(2010, 6, 25, 15),
    "Fri, 25 Jun 2010 15:00:00 -0800": utc(2010, 6, 25, 23),
    "2010-06-25": utc(2010, 6, 25),
    "20100625": utc(2010, 6, 25),
    "2010-06-25T15:00": utc(2010, 6, 25, 15),
    "2010-06-25T15:00:00Z": utc(2010, 6, 25, 15),
    "2010-06-25T15:00:00+02:00": utc(2010, 6, 25, 13),
    "20100625T150000Z": utc(2010, 6, 25, 15),
    "2010-06-25T15:00:00.250Z": utc(2010, 6, 25, 15, 0, 0, 250_000),
    "2010-06-25T15:00:00,25Z": utc(2010, 6, 25, 15, 0, 0, 250_000),
    # Examples of Google and MDN
    "25 Jun 2010 15:00:00 PST": utc(2010, 6, 25, 23),
    "2020-09-21": utc(2020, 9, 21),
    "25-Aug-2007 15:00:00 EST": utc(2007, 8, 25, 20),
    "Wed, 03 Dec 2025 13:09:53 GMT": utc(2025, 12, 3, 13, 9, 53),
    # Other forms that people and programs write
    "25 Jun 2010": utc(2010, 6, 25),
    "25-Jun-2010": utc(2010, 6, 25),
    "June 25, 2010": utc(2010, 6, 25),
    "Friday, June 25th, 2010 at 3:00 PM PDT": utc(2010, 6, 25, 22),
    "Fri Jun 25 15:00:00 2010": utc(2010, 6, 25, 15),
    "Fri Jun 25 15:00:00 PDT 2010": utc(2010, 6, 25, 22),
    "Fri Jun 25 2010 15:00:00 GMT-0800 (Pacific Standard Time)": utc(2010, 6, 25, 23),
    "Fri, 25 Jun 2010 15:00:00 +0000 (UTC)": utc(2010, 6, 25, 15),
    "25 Jun 2010 15:00:00 +0200 (GMT+02:00)": utc(2010, 6, 25, 13),
    "2010-06-25 15:00:00": utc(2010, 6, 25, 15),
    "2010-06-25 15:00 UTC+2": utc(2010, 6, 25, 13),
    "2010/06/25": utc(2010, 6, 25),
    "06/25/2010": utc(2010, 6, 25),
    "25/06/2010": utc(2010, 6, 25),
    "02/10/2020": utc(2020, 2, 10),
    "10.02.2020": utc(2020, 2, 10),
    "2010-06-25T15:00:00CEST": utc(2010, 6, 25, 13),
    "201006251500": utc(2010, 6, 25, 15),
    # Two-digit years, as in RFC 6265
    "31 Dec 69": utc(2069, 12, 31),
    "1 Jan 70": utc(1970, 1, 1),
}


@pytest.mark.parametrize(("text", "date"), FORMS.items())
def test_form(text: str, date: datetime) -> None:
    """Each form parses as its date in UTC, in any case."""
    assert read_date(text) == date
    assert read_date(f" {text.lower()} ") == date
    assert read_date(text.upper()) == date


@pytest.mark.parametrize(("text", "date"), FORMS.items())
def test_before_and_after(text: str, date: datetime) -> None:
    """A page may be indexed up to the date and not after it, for header and meta tag."""
    second = timedelta(seconds=1)
    for rules in (
        IndexingRules.parse([f"unavailable_after: {text}".encode()]),
        IndexingRules.parse(
            html=f'<meta name=robots content="unavailable_after: {text}">'.encode()
        ),
    ):
        assert rules.unavailable_after == date
        assert rules.indexable(date - second)
        assert rules.indexable(date)
        assert not rules.indexable(date + second)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2010-06-25\0",
        "25.06.2\x00010",
        f"2010-06-25 10:{'9' * 30}.5",
        f"2010-06-25 {'9' * 30}m",
        " ",
        "never",
        "tomorrow",
        "10000-01-01",
        "99999-01-01",
        "-2020-01-01",
        "1 Jan -2020",
        "0000-00-00 00:00:00",
        "0001-01-01T00:00:00Z",
        "1899-12-31",
        "-0001-11-30T00:00:00Z",
        "2020-02-30",
        "2020-13-01",
        "2020-01-01T25:00",
        "2020-01-01T10:00:00+99:00",
        "9999-12-31T23:59:59-10:00",
        "99999999999999999999",
        "1e400",
        "nan",
        "1277478000",
        "2020",
        "June 2020",
        "Friday",
        "15:00",
        "25 Jun 2010 15:00:00 XYZ",
        "25 Jun 2010 or so",
        "25 Jun 2010 (or so)",
        "25 Jun 2010 (\x1b]0;owned\x07)",
        "25 Jun 2010 (\nFAKE LINE)",
        "25 Jun 2010 (PST) (PST)",
        "25 Jun 2010 ()",
        "25 Juin 2010",
        "２０２０-０９-２１",
        "2020-09-21" + " " * 80 + "Z",
        "\0",
    ],
)
def test_not_a_date(text: str) -> None:
    """An invalid, absurd or incomplete date is a finding, and raises nothing."""
    assert read_date(text) is None
    header = f"unavailable_after: {text}".encode("latin-1", "replace")
    rules = IndexingRules.parse([header])
    assert rules.unavailable_after is None
    assert rules == IndexingRules()
    assert "bad-date" in {finding.code for finding in rules.findings}


def test_text_behind_a_date_in_a_meta_tag() -> None:
    """White space ends a statement of a meta tag, so the date is used without the text."""
    html = b'<meta name=robots content="unavailable_after: 1 Jan 2010 (or so)">'
    assert IndexingRules.parse(html=html).unavailable_after == utc(2010, 1, 1)


@pytest.mark.parametrize(("name", "offset"), ZONES.items())
def test_zone(name: str, offset: int) -> None:
    """Every zone of the table is understood, with its offset from UTC."""
    assert read_date(f"2010-06-25 15:00 {name}") == utc(2010, 6, 25, 15) - timedelta(
        seconds=offset
    )


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Kolkata", "Etc/GMT+12"])
def test_not_local(zone: str) -> None:
    """The local time zone does not affect a date, even if a zone has the same name."""
    dates = ["25 Jun 2010 15:00", "25 Jun 2010 15:00 PDT", "25 Jun 2010 15:00 IST"]
    code = (
        "from scrapy_rep.protocol.indexing.dates import read_date\n"
        f"for text in {dates}: print(read_date(text).isoformat())"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "TZ": zone},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == [
        "2010-06-25T15:00:00+00:00",
        "2010-06-25T22:00:00+00:00",
        "2010-06-25T09:30:00+00:00",
    ]


def test_no_warning() -> None:
    """A zone name that is not in the table makes the date invalid; dateutil does not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_date("25 Jun 2010 15:00:00 XYZ") is None
