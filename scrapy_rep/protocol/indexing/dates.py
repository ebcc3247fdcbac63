"""Reads the dates of ``unavailable_after``.

python-dateutil parses the text. This module makes the result independent of the machine and
the time: of the local time zone, of today's date for missing parts, and of the current
century for two-digit years.

Sources:

- RFC 822, 5 (with RFC 1123, 5.2.14): ``25 Jun 10 15:00:00 PST``, its zone names;
- RFC 850, 2.1.4: ``Friday, 25-Jun-10 15:00:00 GMT``;
- ISO 8601: ``2010-06-25T15:00:00+02:00``, and until 2019 ``2010-06-25T24:00:00Z``, the end of the day;
- RFC 1123, 5.2.14, and RFC 2822, 4.3: the military zones, letters from A to Y, cannot be relied on,
  because RFC 822 defined them with the wrong sign. Here, these letters are not zones;
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
"""The known zone names, with their offsets from UTC in seconds. If several zones have the same name, the
name means the zone of RFC 822, or else the zone with the largest population."""

_WORDS = frozenset(ZONES) | {
    word.upper()
    for words in (
        *parserinfo.MONTHS,
        *parserinfo.WEEKDAYS,
        *parserinfo.AMPM,
        parserinfo.JUMP,  # "at", "of", "st", "th", and signs
    )
    for word in words
    if len(word)
    > 1  # dateutil takes "a" and "p" for am and pm, and ignores "m" and "t".
}
_WORD = re.compile(r"[A-Z]+")
_LAST_WORD = re.compile(r"[A-Z]+\Z")
_ISO_T = re.compile(r"(?<=\d)T(?=\d)")
_DOTTED_AMPM = re.compile(r"\b([AP])\.M\b\.?")
_END_OF_DAY = re.compile(
    r"(?<![\d:+-])24:00(?::00(?:[.,]0{1,9})?)?(?![\d:.,])|(?<=\dT)2400(?:00)?(?!\d)"
)
_COMMENT = re.compile(r"\(([A-Z ]+|(?:GMT|UTC)[+-]\d\d:?\d\d)\)\Z")
"""Matches a zone in parentheses after a date: ``(PST)`` (RFC 822, 3.4.3),
``(Coordinated Universal Time)`` (as JavaScript writes dates), ``(GMT+02:00)``."""
_LONG_NAMES = {"COORDINATED UNIVERSAL TIME": 0, "GREENWICH MEAN TIME": 0}
_NAMED_OFFSET = re.compile(r"(?:GMT|UTC)(?=[+-]\d)")
"""Matches the name before an offset, which is deleted: by ``GMT+2``, authors mean two hours east of
Greenwich, but POSIX and dateutil read two hours west."""
_SIGN = re.compile(r"(?:\A|\s)[+-]")
_DOTTED = re.compile(r"\d{1,2}\.\d{1,2}\.\d")
"""Matches a date with dots: its day comes first, while a date with slashes begins with the month."""

_DAY = 24 * 60 * 60
_MAX_LENGTH = 80
"""The length in characters of the longest text that is read as a date."""
_EARLIEST = datetime(1900, 1, 1, tzinfo=timezone.utc)
"""The earliest valid date. An earlier date, such as the year 1, is the zero value of some program."""
# dateutil fills in missing parts of a date from here: only a time of 0:00, because _CompleteDates rejects
# dates without a year, a month or a day.
_NO_DEFAULT = datetime(2000, 1, 1)


class _CompleteDates(parserinfo):
    """A vocabulary for dateutil that rejects dates without a year, a month or a day."""

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


def _zone(name: str | None, offset: int | None) -> timezone | None:
    # Since dateutil calls this function for every date, it never falls back to the local zone.
    if name is None and offset is None:
        return None
    return timezone(timedelta(seconds=offset or 0))


def read_date(text: str) -> datetime | None:
    """Parse *text* as a date and return it in UTC; None if *text* is not a date.

    A date without a time means the beginning of the day, and 24:00 the end of the day. A time
    without a zone is in UTC. Case does not matter. A text with unknown words is not a date.
    """
    # dateutil would ignore null characters, and read a date that the text does not have.
    if len(text) > _MAX_LENGTH or not text.isascii() or "\0" in text:
        return None
    text = text.upper().strip()
    zone: timezone | None = timezone.utc
    comment = _COMMENT.search(text)
    if comment is not None and _names_zone(comment[1]):
        # The zone in parentheses repeats the zone or offset before it, or stands alone.
        zone, text = _zone_in_comment(comment[1]), text[: comment.start()].strip()
    text, ends_of_day = _END_OF_DAY.subn("00:00", _DOTTED_AMPM.sub(r"\1M", text))
    words = _WORD.findall(_ISO_T.sub(" ", text))
    if not _WORDS.issuperset(words) or ends_of_day > 1:
        return None
    if ends_of_day and not {"AM", "PM"}.isdisjoint(words):
        return None
    sign = _SIGN.search(text)
    if sign is not None and ":" not in text[: sign.start()]:
        return None  # The year has a sign, which dateutil would ignore.
    text = _NAMED_OFFSET.sub("", text)
    try:
        date = _parsed(text)
        if date.tzinfo is None:
            if zone is None:
                return None
            date = date.replace(tzinfo=zone)
        date = date.astimezone(timezone.utc) + timedelta(days=ends_of_day)
    except (ValueError, ArithmeticError):  # The module decimal raises ArithmeticError.
        return None
    return date if date >= _EARLIEST else None


def _parsed(text: str) -> datetime:
    """Return the date in *text*, with its zone if *text* names a zone. Raises ValueError or
    ArithmeticError if *text* is not a date.
    """
    try:
        return _parsed_by_dateutil(text)
    except ValueError:
        # dateutil reads the name of a zone only after a time.
        last = _LAST_WORD.search(text)
        if last is None or last[0] not in ZONES:
            raise
        date = _parsed_by_dateutil(text[: last.start()])
        if date.tzinfo is not None:
            raise
        return date.replace(tzinfo=_zone(last[0], ZONES[last[0]]))


def _parsed_by_dateutil(text: str) -> datetime:
    is_day_first = _DOTTED.match(text) is not None
    return _parser.parse(
        text, default=_NO_DEFAULT, dayfirst=is_day_first, tzinfos=_zone
    )


def _names_zone(comment: str) -> bool:
    return comment in ZONES or comment.endswith((" TIME", *"0123456789"))


def _zone_in_comment(comment: str) -> timezone | None:
    """Return the zone that *comment* names; None if the name is unknown, or if the offset is a
    day or more."""
    seconds = _LONG_NAMES.get(comment, ZONES.get(comment))
    if comment[-1].isdigit():
        hours, minutes = int(comment[4:6]), int(comment[-2:])
        seconds = (hours * 60 + minutes) * (-60 if comment[3] == "-" else 60)
    if seconds is None or abs(seconds) >= _DAY:
        return None
    return timezone(timedelta(seconds=seconds))
