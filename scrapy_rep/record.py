"""The record of a decision: the one form in which it is sent, raised, counted and stored."""

from enum import Enum
from typing import NamedTuple


class _Term(str, Enum):
    __str__ = str.__str__


class Layer(_Term):
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


class Verdict(_Term):
    """The outcome of a decision."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    """Not fetched."""
    DROPPED = "dropped"
    WOULD_REFUSE = "would-refuse"
    """Fetched nevertheless, in a dry run."""
    WOULD_DROP = "would-drop"
    """Not dropped, in a dry run."""
    WOULD_ALLOW = "would-allow"
    """Refused by Scrapy's own middleware, in a dry run."""
    ANNOTATED = "annotated"
    NOTED = "noted"
    """A statement of a site was read. Its effects have records of their own."""


IN_DRY_RUN = {
    Verdict.REFUSED: Verdict.WOULD_REFUSE,
    Verdict.DROPPED: Verdict.WOULD_DROP,
}
"""The verdicts that withhold something, each with the verdict of a dry run in its place."""


class Subject(_Term):
    """What a decision is about."""

    REQUEST = "request"
    PAGE = "page"
    """A response, with the statements about it."""
    LINK = "link"
    ITEM = "item"
    FILE = "file"
    """A file of a media pipeline."""


class Record(NamedTuple):
    """A decision. Each field is the column of that name in a ledger, ``fetched`` excepted.

    Texts are cut to a length, and URLs have no user names and passwords.
    :mod:`scrapy_rep.base.records` makes one for each kind of decision.
    """

    time: float
    subject: Subject
    verdict: Verdict
    layer: Layer
    reason: str
    url: str
    origin: str
    """The origin of *url*; empty if it has none."""
    page: str | None = None
    """The URL of the page that has the statement, link or item; None for a request."""
    agent: str | None = None
    """The agent that the rule or statement names."""
    fetched: float | None = None
    """When the robots.txt that decided was fetched; None if no robots.txt decided."""
    line: int | None = None
    """The line of the rule or statement in robots.txt."""
    statement: str | None = None
    """The rule, statement or override, as written."""
    form: str | None = None
    """The form of *url* that was refused; None if that is *url* as written."""
    source: str | None = None
    """Where a usage statement was found, such as ``tdmrep.json``."""
    via: str | None = None
    """How a browser came to *url*, and from which page; None if a spider requested it."""
