"""The answer to whether a URL may be fetched, with its evidence."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from scrapy_rep.protocol.robotstxt.rules import Rule


class Reason(str, Enum):
    """Why a Decision is what it is."""

    RULE = "rule"
    """A rule matched."""
    NO_RULE = "no-rule"
    """There is a group for the agent, and no rule in it matches."""
    NO_GROUP = "no-group"
    """There is no group for the agent, and none for everyone."""
    ROBOTS_TXT = "robots-txt"
    """The URL is that of robots.txt itself."""
    UNAVAILABLE = "unavailable"
    """There is no robots.txt (RFC 9309, 2.3.1.3)."""
    UNREACHABLE = "unreachable"
    """robots.txt is unreachable (RFC 9309, 2.3.1.4)."""
    OVERRIDE = "override"
    """The user of the crawler has decided."""
    CRAWL_DELAY = "crawl-delay"
    """robots.txt asks for a longer delay between requests than the user of the crawler
    allows."""
    VISIT_TIME = "visit-time"
    """The host's window for visits does not open soon enough."""
    BAD_URL = "bad-url"
    """The host or port of the URL cannot be read, so there is no robots.txt to ask."""
    TOO_LONG = "too-long"
    """The URL is too long to be compared with all the rules that have a ``*``: its path
    and query have over 65,536 octets, or more than 4,000,000 octets would be compared."""

    __str__ = str.__str__


class Decision(NamedTuple):
    """The answer to: may I fetch this URL?"""

    allowed: bool

    rule: Rule | None
    """The rule that won, if one did."""

    agent: str | None
    """The product token whose groups were followed, ``*``, or None."""

    reason: Reason

    form: str = ""
    """The form of the URL that was denied, where that is not the one as written (see
    :mod:`~scrapy_rep.protocol.request_target`)."""

    @property
    def line(self) -> int:
        """The number of the line that decided, from 1; 0 where no rule did."""
        return self.rule.line if self.rule else 0
