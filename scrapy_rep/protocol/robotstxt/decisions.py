"""The decision whether a crawler may fetch a URL, with its evidence."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from scrapy_rep.protocol.robotstxt.rules import Rule


class Reason(str, Enum):
    """The reason for a Decision."""

    RULE = "rule"
    """A rule matched."""
    NO_RULE = "no-rule"
    """The crawler follows a group, but no rule in it matches."""
    NO_GROUP = "no-group"
    """There is no group for the crawler, and none for ``*``."""
    ROBOTS_TXT = "robots-txt"
    """The URL is the one of robots.txt itself."""
    UNAVAILABLE = "unavailable"
    """robots.txt does not exist, or access to it is denied (RFC 9309, 2.3.1.3)."""
    UNREACHABLE = "unreachable"
    """robots.txt is unreachable (RFC 9309, 2.3.1.4)."""
    OVERRIDE = "override"
    """An override in the settings decided."""
    CRAWL_DELAY = "crawl-delay"
    """robots.txt asks for a longer delay between requests than the settings allow."""
    BACK_OFF = "back-off"
    """The host has asked for a longer pause, by 429 or 503, than the settings allow."""
    BAD_URL = "bad-url"
    """The URL has an invalid host or port, so there is no robots.txt for it."""
    TOO_LONG = "too-long"
    """The URL is too long to compare with all rules that have a ``*``: its path and query
    have over 65,536 octets, or over 4,000,000 octets would be compared."""

    __str__ = str.__str__


class Decision(NamedTuple):
    """Whether a crawler may fetch a URL, and why."""

    allowed: bool

    rule: Rule | None
    """The rule that decided, or None."""

    agent: str | None
    """The product token, or ``*``, whose groups the crawler followed; None if it followed none."""

    reason: Reason

    form: str = ""
    """The forbidden form of the URL, if the form as written is allowed (see
    :mod:`~scrapy_rep.protocol.request_target`)."""

    @property
    def line(self) -> int:
        """The line number of the rule that decided, from 1; 0 if there is none."""
        return self.rule.line if self.rule else 0
