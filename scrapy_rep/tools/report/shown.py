"""Formats the values in a report."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from http import HTTPStatus

from scrapy_rep.protocol import text as texts

_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def visible(text: object, limit: int = 1000) -> str:
    """Return *text* on one line, with invisible characters replaced by their codes.

    A text of more than *limit* characters is cut, with a note at the end.
    """
    written = str(text)
    more = len(written) - limit
    if more > 0:
        written = written[:limit]
    written = texts.visible(written)
    return f"{written}… ({more:,} more characters)" if more > 0 else written


def setting(value: object) -> str:
    """Format the value of a setting, without the passwords in URLs."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return texts.without_credentials(text)


def whole(number: float) -> str:
    return f"{number:,.0f}"


def duration(seconds: float | None) -> str:
    """Format a duration in two units, or in one unit if that is ten or more of it."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{round(max(0, seconds), 2):g} s"
    size, unit, smaller, smaller_unit = next(
        units for units in _UNITS if seconds >= units[0]
    )
    rest = int(seconds % size // smaller) if seconds < 10 * size else 0
    written = f"{int(seconds // size)} {unit}"
    return f"{written} {rest} {smaller_unit}" if rest else written


def iso_time(seconds: float | None) -> str | None:
    """``2026-11-21T09:30:00Z``; None for no time, or one that no date has."""
    if seconds is None:
        return None
    try:
        time = datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")


def moment(seconds: float) -> str:
    """``2026-11-21 09:30``, in UTC."""
    time = iso_time(seconds)
    return "–" if time is None else time[:16].replace("T", " ")


def span(first: float, last: float) -> str:
    """``2026-11-21 09:30 to 10:15``, in UTC; the same day is not repeated."""
    start, end = moment(first), moment(last)
    if end == start:
        return start
    day, _, time = end.partition(" ")
    return f"{start} to {time if start.startswith(f'{day} ') else end}"


def ratio(value: float | None) -> str:
    """Format how many times a delay something is, rounded down: 0.999 is not 1."""
    return "–" if value is None else f"{int(value * 100) / 100:,.2f}"


def octets(number: int) -> str:
    """``123 bytes``, ``45.6 MB``; a megabyte has 1,000,000 bytes."""
    if number < 10_000:
        return count(number, "byte")
    size, unit = next(
        (size, unit)
        for size, unit in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (1000, "kB"))
        if number >= size
    )
    return f"{number / size:,.{1 if number < 100 * size else 0}f} {unit}"


def count(number: int, one: str, many: str | None = None) -> str:
    """``1 host``, ``2,000 hosts``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def status(number: int | None, error: str | None) -> str:
    """``404 Not Found``, ``TLS failed``, or both: the answer to a request for robots.txt."""
    if number is None:
        return error or "no answer"
    try:
        said = f"{number} {HTTPStatus(number).phrase}"
    except ValueError:
        said = f"status {number}"
    return f"{error} ({said})" if error else said
