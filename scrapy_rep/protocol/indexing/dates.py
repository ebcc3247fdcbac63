"""Parses the dates in ``unavailable_after`` rules.

python-dateutil parses the text. This module makes sure that the result does not depend on the local
time zone of the machine, on today's date (for missing parts of a date), or on the current century
(for two-digit years).

Sources:

- RFC 822, 5 (with RFC 1123, 5.2.14): dates such as ``25 Jun 10 15:00:00 PST``, and the names of zones;
- RFC 850, 2.1.4: dates such as ``Friday, 25-Jun-10 15:00:00 GMT``;
- ISO 8601: dates such as ``2010-06-25T15:00:00+02:00``, and the time 24:00 for the end of a day, as in
  ``2010-06-25T24:00:00Z``;
- RFC 1123, 5.2.14, and RFC 2822, 4.3: the military zones, which are single letters from A to Y, are
  ambiguous, because RFC 822 defined them with the wrong sign. So a date with such a zone is invalid;
- RFC 6265, 5.1.1: two-digit years mean 1970 to 2069.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from dateutil.parser import parser, parserinfo

_HOURS = {
    # The zones of RFC 822, and all other zones of North America.
    "UT": 0, "UTC": 0, "GMT": 0, "Z": 0,
    "EST": -5, "EDT": -4, "CST": -6, "CDT": -5,
    "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
    "NST": -3.5, "NDT": -2.5, "AST": -4, "ADT": -3,
    "AKST": -9, "AKDT": -8, "HST": -10,
    # Europe and Africa. BST is British Summer Time, not Bangladesh Standard Time.
    "WET": 0, "WEST": 1, "BST": 1, "CET": 1, "CEST": 2, "MEZ": 1, "MESZ": 2,
    "EET": 2, "EEST": 3, "SAST": 2, "EAT": 3, "MSK": 3, "TRT": 3,
    # Asia and Oceania. IST is Indian Standard Time, not Irish or Israel Standard Time.
    "PKT": 5, "IST": 5.5, "WIB": 7, "HKT": 8, "SGT": 8, "AWST": 8,
    "JST": 9, "KST": 9, "ACST": 9.5, "ACDT": 10.5, "AEST": 10, "AEDT": 11,
    "NZST": 12, "NZDT": 13,
    # South America.
    "BRT": -3, "BRST": -2, "ART": -3,
}  # fmt: skip

ZONES = {name: int(hours * 3600) for name, hours in _HOURS.items()}
"""The offset from UTC, in seconds, of each known time zone: ``ZONES["EST"]`` is -18000. If several zones in the world
have the same name, this dict contains only one of them: for ``CST``, the zone in North America (RFC 822), and for
``IST``, Indian Standard Time."""

_WORDS = frozenset(ZONES) | {
    word.upper()
    for words in (
        *parserinfo.MONTHS,
        *parserinfo.WEEKDAYS,
        *parserinfo.AMPM,
        parserinfo.JUMP,  # Words without a meaning, such as "at", "of", "st" and "th".
    )
    for word in words
    # Single letters are left out, because dateutil would read "a" and "p" as am and pm, and ignore "m" and "t".
    if len(word) > 1
}
_WORD = re.compile(r"[A-Z]+")
_LAST_WORD = re.compile(r"[A-Z]+\Z")
_ISO_T = re.compile(r"(?<=\d)T(?=\d)")
_DOTTED_AMPM = re.compile(r"\b([AP])\.M\b\.?")
_END_OF_DAY = re.compile(
    r"(?<![\d:+-])24:00(?::00(?:[.,]0{1,9})?)?(?![\d:.,])|(?<=\dT)2400(?:00)?(?!\d)"
)
_COMMENT = re.compile(r"\(([A-Z ]+|(?:GMT|UTC)[+-]\d\d:?\d\d)\)\Z")
"""Matches a time zone in parentheses at the end of a date: a name (``(PST)``), an offset (``(GMT+02:00)``), or the long
name that JavaScript writes (``(COORDINATED UNIVERSAL TIME)``). The date must already be in upper case. In RFC 822,
3.4.3, text in parentheses is called a comment."""
_LONG_NAMES = {"COORDINATED UNIVERSAL TIME": 0, "GREENWICH MEAN TIME": 0}
_NAMED_OFFSET = re.compile(r"(?:GMT|UTC)(?=[+-]\d)")
"""Matches ``GMT`` or ``UTC`` before an offset. :func:`read_date` deletes this name, because authors write ``GMT+2`` for
two hours east of Greenwich, but POSIX and dateutil read ``GMT+2`` as two hours west."""
_SIGN = re.compile(r"(?:\A|\s)[+-]")
_DOTTED = re.compile(r"\d{1,2}\.\d{1,2}\.\d")
"""Matches the start of a numeric date with dots, such as ``25.6.2010``. Such a date begins with the day, while a date
with slashes, such as ``6/25/2010``, begins with the month."""

_DAY = 24 * 60 * 60
_MAX_LENGTH = 80
"""The maximum length of a date, in characters. A longer text is not a date."""
_EARLIEST = datetime(1900, 1, 1, tzinfo=timezone.utc)
"""The earliest valid date. Earlier dates are usually placeholders, such as a date in the year 1, which is the zero
value of dates in some programming languages."""
# dateutil replaces the missing parts of a date by the parts of this default. Only its time, 0:00, is ever used,
# because _CompleteDates rejects dates without a year, a month or a day.
_NO_DEFAULT = datetime(2000, 1, 1)


class _CompleteDates(parserinfo):
    """The configuration of dateutil's parser: the known zones, the century of two-digit years, and the rejection of
    dates without a year, a month or a day.
    """

    TZOFFSET = ZONES

    def convertyear(self, year: int, century_specified: bool = False) -> int:
        if year < 100 and not century_specified:
            return year + (1900 if year >= 70 else 2000)
        return year

    def validate(self, res: datetime) -> bool:
        # `res` has the attributes of a datetime. An attribute is None if the text does not contain the part.
        parts: tuple[int | None, ...] = (res.year, res.month, res.day)
        return None not in parts and super().validate(res)


_parser = parser(_CompleteDates())


def _zone(name: str | None, offset: int | None) -> timezone | None:
    # dateutil calls this function for every date to get its time zone. Without this function, dateutil would use the
    # machine's local zone for some names of zones.
    if name is None and offset is None:
        return None
    return timezone(timedelta(seconds=offset or 0))


def read_date(text: str) -> datetime | None:
    """Parse a date, and return it as an aware datetime in UTC. Return None if *text* is not a valid date.

    A date without a time means the beginning of the day. The time 24:00 means the end of the day. A date
    without a time zone is in UTC. Case does not matter. A text that contains unknown words is not a valid
    date, and neither is a date before 1900.
    """
    # A text with a null character is rejected. dateutil ignores null characters, so it would find a date that the
    # text does not contain.
    if len(text) > _MAX_LENGTH or not text.isascii() or "\0" in text:
        return None
    text = text.upper().strip()
    zone: timezone | None = timezone.utc
    comment = _COMMENT.search(text)
    if comment is not None and _names_zone(comment[1]):
        # The zone in parentheses is only used if no other zone or offset precedes it.
        zone, text = _zone_in_comment(comment[1]), text[: comment.start()].strip()
    text, ends_of_day = _END_OF_DAY.subn("00:00", _DOTTED_AMPM.sub(r"\1M", text))
    words = _WORD.findall(_ISO_T.sub(" ", text))
    if not _WORDS.issuperset(words) or ends_of_day > 1:
        return None
    if ends_of_day and not {"AM", "PM"}.isdisjoint(words):
        return None
    sign = _SIGN.search(text)
    if sign is not None and ":" not in text[: sign.start()]:
        return None  # The year has a sign. dateutil would ignore the sign.
    text = _NAMED_OFFSET.sub("", text)
    try:
        date = _parsed(text)
        if date.tzinfo is None:
            if zone is None:
                return None
            date = date.replace(tzinfo=zone)
        date = date.astimezone(timezone.utc) + timedelta(days=ends_of_day)
    except (
        ValueError,
        ArithmeticError,
    ):  # dateutil uses decimal, which raises ArithmeticError.
        return None
    return date if date >= _EARLIEST else None


def _parsed(text: str) -> datetime:
    """Return the date in *text*. It is aware if *text* contains a zone or an offset, and otherwise naive. Raises
    ValueError or ArithmeticError if *text* is not a date.
    """
    try:
        return _parsed_by_dateutil(text)
    except ValueError:
        # dateutil accepts the name of a zone only after a time. So if a date has a zone but no time, the date is
        # parsed here without the zone, and the zone is added to the result.
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
    """Return the time zone that is named in *comment*, the text in parentheses after a date. Return None if the name
    is unknown, or if the offset from UTC is a day or more."""
    seconds = _LONG_NAMES.get(comment, ZONES.get(comment))
    if comment[-1].isdigit():
        hours, minutes = int(comment[4:6]), int(comment[-2:])
        seconds = (hours * 60 + minutes) * (-60 if comment[3] == "-" else 60)
    if seconds is None or abs(seconds) >= _DAY:
        return None
    return timezone(timedelta(seconds=seconds))
