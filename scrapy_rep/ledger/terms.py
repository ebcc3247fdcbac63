"""What the columns ``layer`` and ``verdict`` of a ledger have in them."""

from __future__ import annotations

from enum import Enum


class Layer(str, Enum):
    """What a decision follows, in the order that a request and its response meet it."""

    OVERRIDE = "override"
    """The user of the crawler decided, not the site."""
    ROBOTS_TXT = "robots.txt"
    DELAY = "delay"
    HEADER = "header"
    META = "meta"
    REL = "rel"
    USAGE = "usage"
    """What the site says its content may be used for, wherever it says so."""

    def __str__(self) -> str:
        return self.value


class Verdict(str, Enum):
    """What was decided."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    """Not fetched."""
    DROPPED = "dropped"
    ANNOTATED = "annotated"
    NOTED = "noted"
    """Said by a site; what came of it is apart."""

    def __str__(self) -> str:
        return self.value
