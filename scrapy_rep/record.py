"""A record describes a decision, for example that a URL is not fetched. Signals and exceptions carry records, stats
count them, and ledgers store them.
"""

from enum import Enum
from typing import NamedTuple


class _Term(str, Enum):
    __str__ = str.__str__


class Layer(_Term):
    """The source of a decision. The members are in the order in which the sources are checked."""

    OVERRIDE = "override"
    """The user of the crawler decided, not the site."""
    ROBOTS_TXT = "robots.txt"
    DELAY = "delay"
    HEADER = "header"
    META = "meta"
    REL = "rel"
    USAGE = "usage"
    """Usage preferences of the site: in robots.txt, tdmrep.json, headers or tags."""


class Verdict(_Term):
    """The outcome of a decision."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    """The URL is not fetched."""
    DROPPED = "dropped"
    """The item or link is dropped."""
    WOULD_REFUSE = "would-refuse"
    """In a dry run: the URL is fetched, but would be refused."""
    WOULD_DROP = "would-drop"
    """In a dry run: the item or link is kept, but would be dropped."""
    WOULD_ALLOW = "would-allow"
    """In a dry run: Scrapy's own middleware refuses the URL, but scrapy-rep would allow it."""
    ANNOTATED = "annotated"
    """The item is kept, with the restrictions of its page in a field."""
    NOTED = "noted"
    """A statement of a site, such as ``noindex`` or ``Crawl-delay: 10``, was read. Each refusal, drop
    or annotation that the statement causes has a record of its own."""


IN_DRY_RUN = {
    Verdict.REFUSED: Verdict.WOULD_REFUSE,
    Verdict.DROPPED: Verdict.WOULD_DROP,
}
"""Maps each verdict that refuses or drops something to the verdict that replaces it in a dry run."""


class Subject(_Term):
    """The kind of thing that a decision is about. For example, the subject is ``REQUEST`` if a request was refused, and
    ``LINK`` if a link was dropped.
    """

    REQUEST = "request"
    PAGE = "page"
    """A response. The decision is about something that the site states for the response, such as ``noindex``."""
    LINK = "link"
    ITEM = "item"
    FILE = "file"
    """A file that a media pipeline downloads."""


class Record(NamedTuple):
    """A decision. Each field except ``fetched`` is stored in a ledger (``REP_LEDGER``), in the column of the same name.

    Long texts and URLs are cut. URLs contain no user names and passwords.
    For each kind of decision, :mod:`scrapy_rep.base.records` has a function that creates the record.
    """

    time: float
    """When the decision was made, in seconds since the epoch."""
    subject: Subject
    verdict: Verdict
    layer: Layer
    reason: str
    url: str
    origin: str
    """The origin of *url*; empty if the URL has no valid host or port."""
    page: str | None = None
    """The URL of the page that has the statement, link or item; None for a request."""
    agent: str | None = None
    """The crawler that the rule or statement is for: a product token, or ``*`` for the rules for all crawlers. None if
    no group of robots.txt applies, or if the statement names no crawler."""
    fetched: float | None = None
    """When the robots.txt behind the decision was fetched, in seconds since the epoch. None if the decision is not
    based on a robots.txt."""
    line: int | None = None
    """The line of the rule or statement in robots.txt. None if the decision is not based on a line of robots.txt."""
    statement: str | None = None
    """The rule, statement or override that the decision is based on, as written."""
    form: str | None = None
    """Another form of *url*, for example with decoded octets. This field is set only if robots.txt allows *url* as
    written but forbids the other form. None in all other cases."""
    source: str | None = None
    """Where a usage statement was found, such as ``tdmrep.json``."""
    via: str | None = None
    """None if the spider requested *url*. Otherwise, how a browser or download handler came to *url*:
    ``redirect PAGE`` if the spider requested the URL *PAGE*, and a redirect or script led from there to *url*;
    ``browser PAGE`` if the page at *PAGE* needs *url*, for example as an image. *PAGE* is empty if it is not known."""
