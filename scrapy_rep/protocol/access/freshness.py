"""How long a fetched robots.txt is fresh, and how long a crawler waits after a failed fetch.

Sources: RFC 9309, 2.4, which allows crawlers to use the cache control of RFC 9111; and RFC 9110, 10.2.3,
for ``Retry-After``. Header fields are pairs of a name in lower case and a value. Durations are in seconds,
and points in time are in seconds since the epoch.
"""

import re
from collections.abc import Iterable
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import TypeAlias

from scrapy_rep.protocol.dialect import Dialect

Headers: TypeAlias = Iterable[tuple[str, str]]

DAY = 24 * 60 * 60.0

_MAX_LIFETIME = 30 * DAY
"""The maximum lifetime, in seconds, that header fields can set."""

_FIRST_RETRY, _LAST_RETRY = 30.0, 60 * 60.0
_MIN_RETRY_AFTER, _MAX_RETRY_AFTER = 1.0, DAY

# Maps each value of Dialect.freshness to the directives of Cache-Control that set the lifetime. If a response has
# several of them, the first valid one in this order is used. s-maxage is included because several crawls can share a
# cache.
_AGE_DIRECTIVES = {
    "cache-control": ("s-maxage", "max-age"),
    "max-age": ("max-age",),
    "expires": (),
}

_DELTA_SECONDS = r"(?a)\d+"  # The form "delta-seconds" in RFC 9111, 1.2.2.
_WITH_FRACTION = r"(?a)\d+(\.\d+)?"
_MAX_SECONDS = 2.0**31
"""The maximum duration in seconds. A larger number is reduced to this number (RFC 9111, 1.2.2)."""
_MAX_CHARACTERS = 64
"""The maximum length, in characters, of a number or date in a header field. Further characters are ignored."""

_DIRECTIVE = r'\s*([\w-]+)\s*(?:=\s*"?([^",]*)"?)?\s*'


MIN_AGE = 5 * 60.0
"""The default minimum lifetime, in seconds. Many servers send ``max-age=0`` by default. Without a minimum, the
crawler would fetch robots.txt before each page of these servers. RFC 9309, 2.4, sets no minimum."""


def lifetime(
    headers: Headers,
    dialect: Dialect,
    fetched: float,
    *,
    min_age: float = MIN_AGE,
    max_age: float = DAY,
) -> float:
    """Return the lifetime, in seconds, of a response with *headers* that was received at the time *fetched*.

    The dialect's ``freshness`` determines which headers state the lifetime. If they state none, the dialect's ``ttl``
    is used.

    The lifetime is at least *min_age* or *max_age*, whichever is less, and normally at most 30 days. If the dialect's
    ``freshness`` is ``"cache-control"``, the lifetime is at most *max_age* (RFC 9309, 2.4).
    """
    fields = dict(headers)
    directives = cache_control(fields)
    seconds = _stated_lifetime(fields, directives, dialect, fetched)
    if seconds is None:
        seconds = dialect.ttl.total_seconds()
    if dialect.freshness == "cache-control":
        seconds = min(seconds, max_age)
    return max(min(seconds, _MAX_LIFETIME), min(min_age, max_age))


def _stated_lifetime(
    fields: dict[str, str],
    directives: dict[str, str],
    dialect: Dialect,
    fetched: float,
) -> float | None:
    """Return the lifetime, in seconds, that the header *fields* of a response state (RFC 9111, 4.2.1). Return None if
    they state no lifetime. *dialect* determines which fields are read. *directives* are those of
    ``Cache-Control``, and *fetched* is the time at which the response was received.
    """
    forbids_caching = "no-cache" in directives or "no-store" in directives
    if dialect.freshness == "cache-control" and forbids_caching:
        return 0.0
    for name in _AGE_DIRECTIVES[dialect.freshness]:
        value = directives.get(name)
        if value is not None and (seconds := _seconds(value)) is not None:
            return seconds - (_seconds(fields.get("age", "")) or 0.0)
    if dialect.freshness != "max-age" and "expires" in fields:
        # An invalid date, such as "0", counts as a date in the past (RFC 9111, 5.3).
        expires = _moment(fields["expires"])
        date = _moment(fields.get("date", ""))
        return 0.0 if expires is None else expires - (date or fetched)
    return None


def must_revalidate(headers: Headers) -> bool:
    """Whether a response with *headers* must not be used after its lifetime, even while the server is unreachable
    (RFC 9111, 5.2.2.2).
    """
    directives = cache_control(dict(headers))
    return not directives.keys().isdisjoint(
        {"must-revalidate", "proxy-revalidate", "no-cache", "no-store"}
    )


def retry_delay(headers: Headers, attempts: int, jitter: float, now: float) -> float:
    """Return how many seconds to wait before the next fetch, after *attempts* failed fetches in a row. The
    wait starts at *now*, the time of the last fetch. *headers* are those of the response to the last fetch;
    they are empty if there was no response.

    A valid ``Retry-After`` in *headers* (RFC 9110, 10.2.3) determines the wait, up to a day. But the wait is
    at least 1 second after the first failed fetch, 2 seconds after the second, 4 after the third, and so on.
    This minimum never exceeds an hour.

    Without a ``Retry-After``, the wait is 30 seconds after the first failed fetch, 60 after the second, 120
    after the third, and so on, up to an hour. *jitter*, from 0 to 1, makes this wait up to 1.5 times as long,
    so that crawlers do not all fetch at the same time.
    """
    factor = 2.0 ** min(attempts - 1, 30)
    pause = pause_asked(headers, now)
    if pause is None:
        return min(_FIRST_RETRY * factor, _LAST_RETRY) * (1 + jitter / 2)
    shortest = min(_MIN_RETRY_AFTER * factor, _LAST_RETRY)
    return max(min(pause, _MAX_RETRY_AFTER), shortest)


def pause_asked(headers: Headers, now: float) -> float | None:
    """Return the length, in seconds, of the pause for which a server asks with ``Retry-After`` in *headers*. Return
    None if the field is missing or invalid. *now* is the time when the response was received.

    The value of the field is a number of seconds, or the date on which the pause ends (RFC 9110, 10.2.3). In
    the case of a date, the pause starts at the ``Date`` of the response, so that the clocks of server and
    crawler do not have to agree. If the response has no ``Date``, the pause starts at *now*. The result is 0
    for a date before the start of the pause.

    Numbers with a fraction are valid, because some servers send them. Negative numbers and all other values
    are invalid. If there are several ``Retry-After`` fields, the longest pause is returned. The result is at
    most 2**31.
    """
    fields = list(headers)
    sent = _moment(dict(fields).get("date", ""))
    since = now if sent is None else sent
    pauses = (_pause(value, since) for name, value in fields if name == "retry-after")
    return max((pause for pause in pauses if pause is not None), default=None)


def _pause(value: str, since: float) -> float | None:
    """Return the length, in seconds, of the pause that the *value* of a ``Retry-After`` field states. Return None if
    the value is invalid. If the value is a date, it is the end of the pause, and *since* is the start.
    """
    seconds = _seconds(value, _WITH_FRACTION)
    if seconds is not None or (moment := _moment(value)) is None:
        return seconds
    return min(max(moment - since, 0.0), _MAX_SECONDS)


def cache_control(fields: dict[str, str]) -> dict[str, str]:
    """Return the directives in the ``Cache-Control`` field (RFC 9111, 5.2) as a dict of their names, in lower case,
    and their values.
    """
    directives: dict[str, str] = {}
    for part in fields.get("cache-control", "")[:4096].split(","):
        match = re.fullmatch(_DIRECTIVE, part)
        if match is not None:
            # If a directive appears twice, the first value counts (RFC 9111, 4.2.1).
            directives.setdefault(match[1].lower(), match[2] or "")
    return directives


def _seconds(value: str, form: str = _DELTA_SECONDS) -> float | None:
    value = value[:_MAX_CHARACTERS].strip()
    return min(float(value), _MAX_SECONDS) if re.fullmatch(form, value) else None


def _moment(value: str) -> float | None:
    """Parse an HTTP-date (RFC 9110, 5.6.7), and return it in seconds since the epoch. Return None if *value* is not a
    valid date.
    """
    try:
        date = parsedate_to_datetime(value[:_MAX_CHARACTERS])
        # A date in the format of asctime() contains no time zone, but all HTTP-dates are in UTC.
        return (date if date.tzinfo else date.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, TypeError, OverflowError, OSError, IndexError):
        return None
