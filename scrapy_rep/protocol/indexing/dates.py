"""Reads the dates of ``unavailable_after``.

python-dateutil parses the text. This module makes the result independent of the machine and
the time: of the local time zone, of today's date for missing parts, and of the current
century for two-digit years.

Sources:

- RFC 822, 5 (with RFC 1123, 5.2.14): ``25 Jun 10 15:00:00 PST``, its zone names;
- RFC 850, 2.1.4: ``Friday, 25-Jun-10 15:00:00 GMT``;
- ISO 8601: ``2010-06-25T15:00:00+02:00``;
- RFC 6265, 5.1.1: two-digit years mean 1970 to 2069.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from dateutil.parser import parser, parserinfo

_HOURS = {
    # RFC 822, and the rest of North America.
    "UT": 0, "UTC": 0, "GMT": 0, "Z": 0,
    "EST": -5, "EDT": -4, "CST": -6, "CDT": -5,
    "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
    "NST": -3.5, "NDT": -2.5, "AST": -4, "ADT": -3,
    "AKST": -9, "AKDT": -8, "HST": -10,
    # Europe and Africa. BST is British, not Bangladesh's.
    "WET": 0, "WEST": 1, "BST": 1, "CET": 1, "CEST": 2, "MEZ": 1, "MESZ": 2,
    "EET": 2, "EEST": 3, "SAST": 2, "EAT": 3, "MSK": 3, "TRT": 3,
    # Asia and Oceania. IST is Indian, neither Irish nor Israel's.
    "PKT": 5, "IST": 5.5, "WIB": 7, "HKT": 8, "SGT": 8, "AWST": 8,
    "JST": 9, "KST": 9, "ACST": 9.5, "ACDT": 10.5, "AEST": 10, "AEDT": 11,
    "NZST": 12, "NZDT": 13,
    # South America.
    "BRT": -3, "BRST": -2, "ART": -3,
}  # fmt: skip

ZONES = {name: int(hours * 3600) for name, hours in _HOURS.items()}
"""The known zone names, and their offsets from UTC in seconds. A name that several zones
share means the one of RFC 822, or else the most populous zone."""

_WORDS = frozenset(ZONES) | {
    word.upper()
    for words in (
        *parserinfo.MONTHS,
        *parserinfo.WEEKDAYS,
        *parserinfo.AMPM,
        parserinfo.JUMP,  # "at", "of", "st", "th", the "T" of ISO 8601, and signs
    )
    for word in words
}
_WORD = re.compile(r"[A-Z]+")
_COMMENT = re.compile(r"\(([A-Z ]+|(?:GMT|UTC)[+-]\d\d:?\d\d)\)\Z")
"""The zone in parentheses that may follow a date: ``(PST)`` (RFC 822, 3.4.3),
``(Coordinated Universal Time)`` (JavaScript's Date), ``(GMT+02:00)``."""
_NAMED_OFFSET = re.compile(r"(?:GMT|UTC)(?=[+-]\d)")
"""Authors mean two hours east of Greenwich by ``GMT+2``. POSIX and dateutil read it as west."""
_SIGN = re.compile(r"(?:\A|\s)[+-]")
_DOTTED = re.compile(r"\d{1,2}\.\d{1,2}\.\d")
"""A date with dots has the day first; a date with slashes has the month first."""

_MAX_LENGTH = 80
"""Longer text, in characters, is not read as a date."""
_EARLIEST = datetime(1900, 1, 1, tzinfo=timezone.utc)
"""An earlier date is the zero value of some program, such as the year 1."""
# dateutil takes a missing time from this. _CompleteDates rejects a date with missing parts.
_NO_DEFAULT = datetime(2000, 1, 1)


class _CompleteDates(parserinfo):
    """dateutil's vocabulary; rejects dates without a year, a month or a day."""

    TZOFFSET = ZONES

    def convertyear(self, year: int, century_specified: bool = False) -> int:
        if year < 100 and not century_specified:
            return year + (1900 if year >= 70 else 2000)
        return year

    def validate(self, res: datetime) -> bool:
        # `res` has the attributes of a datetime, with None for parts that the text lacks.
        parts: tuple[int | None, ...] = (res.year, res.month, res.day)
        return None not in parts and super().validate(res)


_parser = parser(_CompleteDates())


def _zone(name: str | None, offset: int | None) -> timezone:
    # dateutil calls this for every date, and so never uses the local zone.
    return timezone(timedelta(seconds=offset or 0))


def read_date(text: str) -> datetime | None:
    """Return the date in *text*, in UTC, or None if *text* is not a date.

    A date without a time means the beginning of the day; a time without a zone is in UTC.
    Case does not matter. A date with unknown words around it is not a date.
    """
    # dateutil ignores null characters.
    if len(text) > _MAX_LENGTH or not text.isascii() or "\0" in text:
        return None
    text = _COMMENT.sub(_without_zone_name, text.upper().strip()).strip()
    if not _WORDS.issuperset(_WORD.findall(text)):
        return None
    sign = _SIGN.search(text)
    if sign is not None and ":" not in text[: sign.start()]:
        return None  # the sign of a year, which dateutil ignores
    try:
        date = _parser.parse(
            _NAMED_OFFSET.sub("", text),
            default=_NO_DEFAULT,
            dayfirst=_DOTTED.match(text) is not None,
            tzinfos=_zone,
        ).astimezone(timezone.utc)
    except (ValueError, ArithmeticError):  # the latter from decimal numbers
        return None
    return date if date >= _EARLIEST else None


def _without_zone_name(comment: re.Match[str]) -> str:
    """Return an empty string for the name of a zone, or else the unchanged *comment*."""
    name = comment[1]
    is_zone = name in ZONES or name.endswith((" TIME", *"0123456789"))
    return "" if is_zone else comment[0]
