"""Records: a decision, in the one form in which it is sent, raised, counted and stored."""

import time
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from scrapy_rep.base import meta
from scrapy_rep.protocol.access.overrides import Override
from scrapy_rep.protocol.access.results import CacheEntry
from scrapy_rep.protocol.indexing.statements import Statement
from scrapy_rep.protocol.origins import Origin
from scrapy_rep.protocol.robotstxt.rules import Decision, Reason
from scrapy_rep.protocol.text import without_credentials
from scrapy_rep.protocol.usage.statements import CATEGORIES, Source, UsageStatement

Because: TypeAlias = "Statement | UsageStatement | str | None"
"""Why a page forbids something: a statement, the value of a ``rel``, or None if it is not known."""

MAX_URL = 4096
"""The most characters of a URL to keep; a longer one is cut and ends with an ellipsis."""

MAX_TEXT = 1024
"""The most characters of a rule, a statement, a header value or an error to keep."""

CUT = "…"
"""The end of a text that was cut."""

_OF_PACE = frozenset({Reason.BACK_OFF, Reason.CRAWL_DELAY})


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
    """A statement of a site; its effects have records of their own."""


IN_DRY_RUN = {
    Verdict.REFUSED: Verdict.WOULD_REFUSE,
    Verdict.DROPPED: Verdict.WOULD_DROP,
}
"""The verdicts that withhold something, and those of a dry run in their place."""


class Subject(_Term):
    """What a decision is about."""

    REQUEST = "request"
    PAGE = "page"
    """A response, and what is stated about it."""
    LINK = "link"
    ITEM = "item"
    FILE = "file"
    """Of a media pipeline."""


class Record(NamedTuple):
    """A decision. Each field is the column of that name in a ledger, ``fetched`` excepted.

    Texts are cut to a length, and URLs have no user names and passwords. :func:`made` makes one;
    the functions below it do so for each kind of decision.
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


def made(
    subject: Subject,
    verdict: Verdict,
    layer: Layer,
    reason: str,
    *,
    url: str,
    origin: Origin | None,
    page: str | None = None,
    agent: str | None = None,
    statement: str | None = None,
    **others: Any,
) -> Record:
    """Return the record of a decision that is made now."""
    return Record(
        time.time(),
        subject,
        verdict,
        layer,
        reason,
        url_text(url),
        "" if origin is None else str(origin),
        None if page is None else url_text(page),
        None if agent is None else storable(agent),
        statement=None if statement is None else storable(statement),
        **others,
    )


def of_request(
    url: str,
    origin: Origin | None,
    decision: Decision,
    *,
    entry: CacheEntry | None = None,
    override: Override | None = None,
    via: str | None = None,
) -> Record:
    """Return the record of a decision by robots.txt, an override or a delay."""
    rule, reason = decision.rule, str(decision.reason)
    statement = None if rule is None else str(rule)
    layer = Layer.ROBOTS_TXT
    if override is not None:
        layer = Layer.OVERRIDE
        statement = f"{statement}{override.note}" if statement else str(override)
    elif decision.reason is Reason.OVERRIDE:
        layer, reason = Layer.OVERRIDE, meta.DONT_OBEY_ROBOTSTXT
    elif decision.reason is Reason.BUDGET:
        layer = Layer.OVERRIDE
    elif decision.reason in _OF_PACE:
        layer = Layer.DELAY
    return made(
        Subject.REQUEST,
        Verdict.ALLOWED if decision.allowed else Verdict.REFUSED,
        layer,
        reason,
        url=url,
        origin=origin,
        agent=decision.agent,
        statement=statement,
        fetched=None if entry is None else entry.fetched,
        line=rule and rule.line,
        form=url_text(decision.form) or None,
        via=via,
    )


def of_page(
    subject: Subject,
    verdict: Verdict,
    reason: str,
    because: Because,
    *,
    url: str,
    origin: Origin | None,
    page: str,
    entry: CacheEntry | None = None,
) -> Record:
    """Return the record of a decision by what *page* states: an indexing rule, a usage preference
    or the ``rel`` of a link. *entry* is the cache entry of the robots.txt of the page.

    What is allowed despite a statement, the user of the crawler has decided.
    """
    layer = Layer.META
    stated: dict[str, Any] = {}
    if isinstance(because, UsageStatement):
        stated = {"agent": because.agent, "statement": because.text}
        stated["source"] = str(because.source)
        if because.source is Source.ROBOTS_TXT:
            stated["line"] = because.position
            stated["fetched"] = None if entry is None else entry.fetched
    elif isinstance(because, Statement):
        layer = Layer(because.source)
        stated = {"agent": because.agent, "statement": because.text}
    elif because is not None:
        layer, stated = Layer.REL, {"statement": because}
    if isinstance(because, UsageStatement) or reason in CATEGORIES:
        layer = Layer.USAGE
    elif verdict is Verdict.ALLOWED:
        layer = Layer.OVERRIDE
    return made(
        subject, verdict, layer, reason, url=url, origin=origin, page=page, **stated
    )


def forbidden(reason: str, because: Because) -> str:
    """Say, for the message of an error, what must not be done with a page or a file, and why."""
    if reason in CATEGORIES:
        return f"must not be used for {reason}: {because or 'nothing is stated'}"
    return f"must not be indexed: {because or reason}"


# Cached, since a page has several statements and several items.
@lru_cache(maxsize=64)
def url_text(url: str) -> str:
    """Return a URL as a record has it: without user and password."""
    return storable(without_credentials(url), MAX_URL)


def storable(written: str, at_most: int = MAX_TEXT) -> str:
    """Return *written* as SQLite can store it, cut at *at_most* characters."""
    if len(written) > at_most:
        written = written[: at_most - 1] + CUT
    if written.isascii():
        return written
    # SQLite stores no lone surrogates.
    return written.encode("utf-8", "replace").decode("utf-8")
