"""Overrides: the operator's own decisions for hosts, which replace their robots.txt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from scrapy_rep.protocol.robots import RobotsTxt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.origins import Origin

ALLOWED_OVERRIDE = '"obey", "ignore" or the text of a robots.txt'
ALLOWED_PATTERN = (
    'a host pattern: "example.com", "*.example.com" or "*", with ":port" for one port, 1 to '
    "65535"
)

_MAX_PORT = 65535

_HOST_PATTERN = re.compile(
    r"(\*|(?:\*\.)?(?:\[[0-9a-f:.]+\]|[^\s/*:]+))(?::(\d{1,5}))?"
)


class Override(NamedTuple):
    """The operator's decision for the hosts that a pattern matches."""

    pattern: str
    """The host pattern as written in the setting."""

    kind: Literal["obey", "ignore", "robotstxt"]

    robots: RobotsTxt | None
    """The robots.txt to follow, if the kind is ``"robotstxt"``."""

    host: str
    port: int | None

    def covers(self, origin: Origin) -> bool:
        if self.port is not None and self.port != origin.port:
            return False
        if self.host == "*":
            return True
        if self.host.startswith("*."):
            return origin.host.endswith(self.host[1:])
        return origin.host == self.host

    @property
    def specificity(self) -> tuple[bool, int, bool]:
        """A sort key: of several overrides for an origin, the one with the greatest decides."""
        return (not self.host.startswith("*"), len(self.host), self.port is not None)


class OverrideError(ValueError):
    """An override is invalid: its pattern if *is_pattern*, otherwise its value."""

    def __init__(self, pattern: str, *, is_pattern: bool) -> None:
        super().__init__(pattern)
        self.pattern = pattern
        self.is_pattern = is_pattern


def parse_overrides(
    written: Mapping[str, object], dialect: Dialect
) -> tuple[Override, ...]:
    """The overrides of a setting, the most specific first. Raises OverrideError if invalid."""
    overrides = [_parse(pattern, value, dialect) for pattern, value in written.items()]
    return tuple(sorted(overrides, key=lambda each: each.specificity, reverse=True))


def override_for(overrides: Iterable[Override], origin: Origin) -> Override | None:
    """Return the override that decides for *origin*, or None. A virtual host has that of its
    own name, not that of the address at which it is requested.
    """
    return next((each for each in overrides if each.covers(origin.named)), None)


def _parse(pattern: str, value: object, dialect: Dialect) -> Override:
    match = _HOST_PATTERN.fullmatch(pattern.lower())
    port = int(match[2]) if match and match[2] else None
    if match is None or (port is not None and not 0 < port <= _MAX_PORT):
        raise OverrideError(pattern, is_pattern=True)
    host = match[1]
    if value == "obey":
        return Override(pattern, "obey", None, host, port)
    if value == "ignore":
        return Override(pattern, "ignore", None, host, port)
    # A robots.txt has a colon; a misspelt keyword does not.
    if not isinstance(value, str) or ":" not in value:
        raise OverrideError(pattern, is_pattern=False)
    robots = RobotsTxt.parse(value.encode("utf-8", "replace"), dialect)
    return Override(pattern, "robotstxt", robots, host, port)
