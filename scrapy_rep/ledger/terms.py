"""The values of the columns ``layer`` and ``verdict`` of a ledger."""

from __future__ import annotations

from enum import Enum


class Layer(str, Enum):
    """The source of a decision, in the order in which the sources are checked."""

    OVERRIDE = "override"
    """The user of the crawler decided, not the site."""
    ROBOTS_TXT = "robots.txt"
    DELAY = "delay"
    HEADER = "header"
    META = "meta"
    REL = "rel"
    USAGE = "usage"
    """Usage preferences of the site, wherever they are stated."""

    def __str__(self) -> str:
        return self.value


class Verdict(str, Enum):
    """The outcome of a decision."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    """Not fetched."""
    DROPPED = "dropped"
    ANNOTATED = "annotated"
    NOTED = "noted"
    """A statement of a site; its effects have rows of their own."""

    def __str__(self) -> str:
        return self.value
