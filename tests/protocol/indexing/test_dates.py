"""Tests of the dates of ``unavailable_after``: valid forms, invalid forms and time zones."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest

from scrapy_rep.protocol.indexing.dates import ZONES, read_date
from scrapy_rep.protocol.indexing.rules import IndexingRules

# Each date, and the texts that are parsed as this date. The formats come from RFC 822, RFC 850, RFC 1123 and ISO 8601,
# from the documentation of Google and MDN, and from what people and programs write. Two-digit years are read as in RFC
# 6265.
FORMS = {
    "2010-06-25T00:00": [
        "2010-06-25", "20100625", "25 Jun 2010", "25-Jun-2010", "June 25, 2010",
        "2010/06/25", "06/25/2010", "25/06/2010", "25 Jun 2010 GMT", "2010-06-25Z", "2010-06-25 Z",
        "Friday, 25-Jun-10 UTC", "2010-06-24T24:00:00Z", "24 Jun 2010 24:00", "20100624T240000Z",
        "2010-06-24 24:00:00.000", "20100624T2400",
    ],
    "2010-06-25T08:00": ["25 Jun 2010 PST", "25 Jun 2010 (PST)", "24 Jun 2010 24:00:00 PST"],
    "2010-06-25T13:00": [
        "25 Jun 2010 15:00:00 (GMT+02:00)", "25 Jun 2010 15:00:00 (CEST)",
        "2010-06-25T15:00:00+02:00", "25 Jun 2010 15:00:00 +0200 (GMT+02:00)",
        "2010-06-25 15:00 UTC+2", "2010-06-25T15:00:00CEST",
    ],
    "2010-06-25T15:00": [
        "Friday, 25-Jun-10 15:00:00 GMT", "Fri, 25 Jun 2010 15:00:00 GMT", "2010-06-25T15:00",
        "2010-06-25T15:00:00Z", "20100625T150000Z", "Fri Jun 25 15:00:00 2010",
        "25 Jun 2010 15:00:00 (Coordinated Universal Time)", "25 Jun 2010 3:00 p.m.",
        "25 Jun 2010 15:00:00 GMT (PST)", "25 Jun 2010 15:00:00 (GMT)",
        "Fri, 25 Jun 2010 15:00:00 +0000 (UTC)", "2010-06-25 15:00:00", "201006251500",
    ],
    "2010-06-25T15:00:00.250": ["2010-06-25T15:00:00.250Z", "2010-06-25T15:00:00,25Z"],
    "2010-06-25T22:00": [
        "Friday, June 25th, 2010 at 3:00 PM PDT", "Fri Jun 25 15:00:00 PDT 2010",
    ],
    "2010-06-25T23:00": [
        "Fri, 25 Jun 10 15:00:00 PST", "Fri, 25 Jun 2010 15:00:00 -0800",
        "25 Jun 2010 15:00:00 PST", "25 Jun 2010 15:00:00 (PST)", "25 Jun 2010 15:00:00 (GMT-08:00)",
        "Fri Jun 25 2010 15:00:00 GMT-0800 (Pacific Standard Time)",
    ],
    "2007-08-25T20:00": ["25-Aug-2007 15:00:00 EST"],
    "2020-02-10T00:00": ["02/10/2020", "10.02.2020"],
    "2069-12-31T00:00": ["31 Dec 69"],
    "1970-01-01T00:00": ["1 Jan 70"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "iso"), [(text, iso) for iso, texts in FORMS.items() for text in texts]
)
def test_each_form_of_a_date_is_parsed(text: str, iso: str) -> None:
    """The date is in UTC. Upper and lower case do not matter. Headers and meta tags have the same forms. A
    page may be indexed up to the date, and not after it.
    """
    date = datetime.fromisoformat(f"{iso}+00:00")
    for spelling in (text, f" {text.lower()} ", text.upper()):
        assert read_date(spelling) == date
    html = f'<meta name=robots content="unavailable_after: {text}">'.encode()
    for rules in (
        IndexingRules.of_page([f"unavailable_after: {text}".encode()]),
        IndexingRules.parse(html=html),
    ):
        assert rules.unavailable_after == date
        assert rules.indexable(date)
        assert not rules.indexable(date + timedelta(seconds=1))


NOT_DATES = [
    "", " ", "\0", "2010-06-25\0", "25.06.2\x00010", f"2010-06-25 10:{'9' * 30}.5", "never",
    f"2010-06-25 {'9' * 30}m", "tomorrow", "10000-01-01", "99999-01-01", "-2020-01-01",
    "1 Jan -2020", "0000-00-00 00:00:00", "0001-01-01T00:00:00Z", "1899-12-31", "June 2020",
    "-0001-11-30T00:00:00Z", "2020-02-30", "2020-13-01", "2020-01-01T25:00", "1e400", "nan",
    "2020-01-01T10:00:00+99:00", "9999-12-31T23:59:59-10:00", "99999999999999999999", "2020",
    "1277478000", "Friday", "15:00", "25 Jun 2010 15:00:00 XYZ", "25 Jun 2010 or so",
    "25 Jun 2010 (or so)", "25 Jun 2010 (\x1b]0;owned\x07)", "25 Jun 2010 (\nFAKE LINE)",
    "25 Jun 2010 (PST) (PST)", "25 Jun 2010 ()", "25 Juin 2010", "２０２０-０９-２１",
    "2020-09-21" + " " * 80 + "Z", "2010-06-25T24:00:01Z", "2010-06-25T24:30Z", "2010-06-25T25:00Z",
    "2010-06-25 24:00 PM", "24:00 2010-06-25 24:00", "9999-12-31T24:00Z", "June 2010 GMT", "GMT",
    "25 Jun 2010 GMT PST", "25 Jun 2010 15:00 GMT PST", "25 Jun 2010 15:00:00 (GMT+99:00)",
    "25 Jun 2010 15:00:00 (Pacific Standard Time)", "2010-06-25T15:00+24:00",
]  # fmt: skip


@pytest.mark.parametrize("text", NOT_DATES)
@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")
def test_a_text_that_is_not_a_date_is_a_finding(text: str) -> None:
    """Invalid, absurd and incomplete dates raise no exception and cause no warning."""
    assert read_date(text) is None
    header = f"unavailable_after: {text}".encode("latin-1", "replace")
    rules = IndexingRules.of_page([header])
    assert rules == IndexingRules()
    assert "bad-date" in {finding.code for finding in rules.findings}


def test_each_zone_of_the_table_is_parsed_with_its_offset() -> None:
    utc_date = datetime(2010, 6, 25, 15, tzinfo=timezone.utc)
    for name, offset in ZONES.items():
        date = read_date(f"2010-06-25 15:00 {name}")
        assert date == utc_date - timedelta(seconds=offset), name


@pytest.mark.parametrize("letter", "ABCDEFGHIJKLMNOPQRSTUVWXY")
def test_z_is_the_only_military_zone(letter: str) -> None:
    """RFC 822 defined the other letters with the wrong sign, so nobody knows which offset is meant. A date
    with such a letter is invalid. The letter does not count as UTC, AM or PM.
    """
    for form in (
        "15:00:00 {}",
        "3:00 {}",
        "03:00:00{}",
        "(15:00) {}",
        "{}",
        "15:00 ({})",
    ):
        assert read_date(f"25 Jun 2010 {form.format(letter)}") is None
    assert read_date("25 Jun 2010 15:00:00Z") == read_date("25 Jun 2010 15:00")


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Kolkata", "Etc/GMT+12"])
def test_the_local_zone_does_not_affect_a_date(zone: str) -> None:
    """The time zone of this machine does not change the result, even if the date contains the abbreviation of this
    zone, such as PDT in Los Angeles.
    """
    code = (
        "from scrapy_rep.protocol.indexing.dates import read_date\n"
        "for zone in ('', 'PDT', 'IST'):\n"
        "    print(read_date('25 Jun 2010 15:00 ' + zone).strftime('%H:%M%z'))"
    )
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "TZ": zone},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.split() == ["15:00+0000", "22:00+0000", "09:30+0000"]
