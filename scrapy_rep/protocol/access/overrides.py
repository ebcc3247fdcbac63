"""Overrides: decisions of a crawl's operator to obey, ignore or replace the robots.txt of certain hosts.

An override can also limit how many pages the crawl fetches from each of these hosts.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from math import inf
from typing import Any, Literal, NamedTuple

from scrapy_rep.protocol.dialect import Dialect
from scrapy_rep.protocol.origins import Origin
from scrapy_rep.protocol.robots import RobotsTxt

ALLOWED_OVERRIDE = (
    '"obey", "ignore", the text of a robots.txt, or a dict with "pages" and/or one of "obey" and '
    '"robotstxt", and optionally "reason" and "until"'
)
ALLOWED_PATTERN = (
    'a host pattern: "example.com", "*.example.com" or "*", with ":port" for one port, 1 to '
    "65535"
)

_KEYS = {
    "obey": "True or False",
    "robotstxt": "the text of a robots.txt",
    "pages": "a whole number, 0 or greater",
    "reason": "a text",
    "until": "an ISO 8601 date or time: the last day (UTC) on which the override applies, such as "
    '"2027-01-01", or the time at which it ends, with its offset, such as "2027-01-01T12:00:00+00:00"',
}
"""The keys of an override that is a dict, each with a description of its valid values."""

_CODES_FOR_SITES = frozenset({"everything-forbidden"})
"""The codes of linter findings that are not reported for an override. These findings warn the owner of a site about
rules that might be mistakes, but the author of an override writes such rules on purpose."""

_MAX_PORT = 65535

_HOST_PATTERN = r"(\*|(?:\*\.)?(?:\[[0-9a-f:.]+\]|[^\s/*:]+))(?::(\d{1,5}))?"


class Override(NamedTuple):
    """An item of the setting ``REP_OVERRIDES``: whether the crawl obeys, ignores or replaces the robots.txt of the
    hosts that match ``pattern``. For example, ``{"example.com": "ignore"}`` in the setting becomes an override with the
    ``pattern`` ``"example.com"`` and the ``kind`` ``"ignore"``. The attribute ``pages`` can also limit how many pages
    the crawl fetches from each host.
    """

    pattern: str
    """The host pattern, as written in ``REP_OVERRIDES``."""

    kind: Literal["obey", "ignore", "robotstxt"]

    robots: RobotsTxt | None
    """The robots.txt that replaces the robots.txt of the hosts if ``kind`` is ``"robotstxt"``; otherwise None."""

    host: str
    port: int | None

    reason: str = ""
    """The operator's reason for the override, as one line of text; empty if none is given."""

    until: str = ""
    """The last day on which the override applies, or the time when it ends, as written in ``REP_OVERRIDES``. Empty
    if the override does not end."""

    ends: float = inf
    """When the override ends, in seconds since the epoch; infinity if it does not end."""

    warnings: tuple[str, ...] = ()
    """The possible mistakes in the override's robots.txt. Each text contains the line number and a remedy."""

    pages: int | None = None
    """The maximum number of pages to fetch from each host; 0 for no limit. None if the override sets no number, so
    that the setting ``REP_PAGES_PER_HOST`` applies."""

    def __str__(self) -> str:
        return f"{self.pattern}: {self.kind}{self.note}"

    @property
    def note(self) -> str:
        """A suffix for messages about the override, such as ``" (agreed by mail; until 2026-12-31)"``. Empty if the
        override has neither a reason nor an end.
        """
        until = self.until and f"until {self.until}"
        note = "; ".join(filter(None, (self.reason, until)))
        return note and f" ({note})"

    @property
    def end_notice(self) -> str:
        """The text of the warning that a crawl logs after the override has ended."""
        return (
            f"REP_OVERRIDES[{self.pattern!r}] has ended and no longer has an effect: "
            f"{self.kind}{self.note}. Remove it, or set a later date"
        )

    def covers(self, origin: Origin) -> bool:
        """Whether the host pattern matches the host and port of *origin*."""
        if self.port is not None and self.port != origin.port:
            return False
        if self.host == "*":
            return True
        if self.host.startswith("*."):
            return origin.host.endswith(self.host[1:])
        return origin.host == self.host

    @property
    def specificity(self) -> tuple[bool, int, bool]:
        """A sort key, which is greater for a more specific host pattern. If several overrides match an origin, the
        override with the greatest key applies.
        """
        return (not self.host.startswith("*"), len(self.host), self.port is not None)


class OverrideError(ValueError):
    """Raised for an invalid override.

    *value* is the invalid value, and *allowed* describes the valid values. *keys* are the keys in
    ``REP_OVERRIDES`` that lead to the value, such as ``("example.com", "pages")``. They are empty if the value
    is an invalid host pattern. *line* is the number of the invalid line in the override's robots.txt; 0 if
    another part of the override is invalid.
    """

    def __init__(
        self, keys: tuple[str, ...], value: object, allowed: str, line: int = 0
    ) -> None:
        super().__init__(*keys)
        self.keys = keys
        self.value = value
        self.allowed = allowed
        self.line = line


def parse_overrides(
    setting: Mapping[str, object], dialect: Dialect
) -> tuple[Override, ...]:
    """Parse the value of ``REP_OVERRIDES``. Return the overrides, with the most specific override first.
    Raises OverrideError at the first invalid override.
    """
    overrides = [_parse(pattern, value, dialect) for pattern, value in setting.items()]
    return tuple(
        sorted(overrides, key=lambda override: override.specificity, reverse=True)
    )


def override_for(
    overrides: Iterable[Override], origin: Origin, now: float
) -> Override | None:
    """Return the override that applies to *origin*; None if there is none. Overrides that have ended at the time
    *now*, in seconds since the epoch, do not apply.

    *overrides* must be sorted, with the most specific override first, as :func:`parse_overrides` returns them.
    If *origin* has a virtual host, which is the ``Host`` header of its requests, host patterns are compared with
    the virtual host and not with the host in the URL.
    """
    named = origin.named
    return next(
        (
            override
            for override in overrides
            if now < override.ends and override.covers(named)
        ),
        None,
    )


def _parse_pattern(pattern: str) -> tuple[str, int | None]:
    """Return the host, in lower case, and the port of a host pattern. The port is None if the pattern contains no
    port. Raises OverrideError if the pattern is invalid.
    """
    match = re.fullmatch(_HOST_PATTERN, pattern.lower())
    port = int(match[2]) if match and match[2] else None
    if match is None or (port is not None and not 0 < port <= _MAX_PORT):
        raise OverrideError((), pattern, ALLOWED_PATTERN)
    return match[1], port


def _long_form(value: object) -> dict[Any, object]:
    """Return the *value* of an override as a dict. The text ``"obey"`` becomes ``{"obey": True}``, and
    ``"ignore"`` becomes ``{"obey": False}``. Any other value that is not a dict becomes ``{"robotstxt": value}``.

    If *value* is a dict with ``pages``, but without ``obey`` and ``robotstxt``, the item ``"obey": True`` is
    added. All other dicts are returned as they are.
    """
    if not isinstance(value, dict):
        is_word = value in ("obey", "ignore")
        return {"obey": value == "obey"} if is_word else {"robotstxt": value}
    is_limit_alone = "pages" in value and "robotstxt" not in value
    return {"obey": True, **value} if is_limit_alone else value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _parse(pattern: str, value: object, dialect: Dialect) -> Override:
    host, port = _parse_pattern(pattern)
    written = _long_form(value)

    def wrong(key: str) -> OverrideError:
        if not isinstance(value, dict):
            return OverrideError((pattern,), value, ALLOWED_OVERRIDE)
        return OverrideError((pattern, key), written[key], _KEYS[key])

    if ("obey" in written) == ("robotstxt" in written) or written.keys() - _KEYS.keys():
        raise OverrideError((pattern,), value, ALLOWED_OVERRIDE)
    kind: Literal["obey", "ignore", "robotstxt"] = "robotstxt"
    robots = None
    warnings: tuple[str, ...] = ()
    if "obey" in written:
        if not isinstance(written["obey"], bool):
            raise wrong("obey")
        kind = "obey" if written["obey"] else "ignore"
    else:
        text = written["robotstxt"]
        # A text without a colon is not a robots.txt, but probably a misspelt "obey" or "ignore".
        if not isinstance(text, str) or ":" not in text:
            raise wrong("robotstxt")
        robots = RobotsTxt.parse(text.encode("utf-8", "replace"), dialect)
        keys = (pattern, "robotstxt") if isinstance(value, dict) else (pattern,)
        warnings = _warnings(robots, keys)
    if not _is_count(written.get("pages", 0)):
        raise wrong("pages")
    pages: Any = written.get("pages")
    reason, until, ends = written.get("reason", ""), written.get("until"), inf
    if not isinstance(reason, str):
        raise wrong("reason")
    if until is not None:
        try:
            ends = _end(until)
        except (OverflowError, TypeError, ValueError):
            raise wrong("until") from None
    reason, until = " ".join(reason.split()), str(until or "")
    return Override(
        pattern, kind, robots, host, port, reason, until, ends, warnings, pages
    )


def _warnings(robots: RobotsTxt, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the linter's warnings about the robots.txt of an override. Each text begins with the line number. Raises
    OverrideError if the linter finds an error. *keys* are the keys in ``REP_OVERRIDES`` that lead to the text of
    this robots.txt.
    """
    # The linter is imported here, because few crawls have an override with a robots.txt.
    from scrapy_rep.protocol.linter import lint  # noqa: PLC0415

    warnings = []
    for finding in lint(robots.body, robots.dialect):
        if finding.severity == "error":
            allowed = f"a line of a robots.txt without this mistake: {finding.message}"
            raise OverrideError(keys, finding.text, allowed, finding.line)
        if finding.code not in _CODES_FOR_SITES:
            warnings.append(f"line {finding.line}: {finding.message}")
    return tuple(warnings)


def _end(until: object) -> float:
    """Return when an override ends, in seconds since the epoch. *until* is a date or a datetime, or a text in ISO 8601
    for one of these. If *until* is a date, the override ends at the end of that day in UTC. If *until* is a
    datetime, the override ends at that time. Raises ValueError, TypeError or OverflowError for any other *until*,
    and for a datetime without a time zone.
    """
    if isinstance(until, str):
        text = until.strip()
        is_day = len(text) == len("2027-01-01")
        # fromisoformat() does not accept "Z" as the offset in Python 3.10.
        text = re.sub("[Zz]$", "+00:00", text)
        until = date.fromisoformat(text) if is_day else datetime.fromisoformat(text)
    if not isinstance(until, date):
        raise TypeError
    if not isinstance(until, datetime):
        until = datetime.combine(until + timedelta(days=1), time(), timezone.utc)
    if until.tzinfo is None:
        raise ValueError
    return until.timestamp()
