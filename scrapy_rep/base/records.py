"""Makes the record of each kind of decision, with texts and URLs as a record keeps them."""

import time
from functools import lru_cache
from typing import Any, TypeAlias

from scrapy_rep.base import meta
from scrapy_rep.protocol.access.entries import CacheEntry
from scrapy_rep.protocol.access.overrides import Override
from scrapy_rep.protocol.indexing.statements import Statement
from scrapy_rep.protocol.origins import Origin
from scrapy_rep.protocol.robotstxt.rules import Decision, Reason
from scrapy_rep.protocol.text import without_credentials
from scrapy_rep.protocol.usage.statements import CATEGORIES, Source, UsageStatement
from scrapy_rep.record import Layer, Record, Subject, Verdict

Because: TypeAlias = "Statement | UsageStatement | str | None"
"""Why something is forbidden: a statement, the value of a ``rel``, or None if no statement says so."""

MAX_URL = 4096
"""The most characters of a URL to keep; a longer one is cut and ends with an ellipsis."""

MAX_TEXT = 1024
"""The most characters of a rule, a statement, a header value or an error to keep."""

CUT = "…"
"""The end of a text that was cut."""

_DELAY_REASONS = frozenset({Reason.BACK_OFF, Reason.CRAWL_DELAY})


def make_record(
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
    """Return the record of a decision, with the current time."""
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


def request_record(
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
    elif decision.reason in _DELAY_REASONS:
        layer = Layer.DELAY
    return make_record(
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


def page_record(
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
    """Return the record of a decision by a statement of *page*: an indexing rule, a usage preference
    or the ``rel`` of a link. *entry* is the cache entry of the robots.txt of the page.

    If the verdict is that something is allowed despite the statement, the decision is an override
    by the user of the crawler.
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
    return make_record(
        subject, verdict, layer, reason, url=url, origin=origin, page=page, **stated
    )


def forbidden(reason: str, because: Because) -> str:
    """Return the part of an error message that says how a page or file must not be used, and why."""
    if reason in CATEGORIES:
        return f"must not be used for {reason}: {because or 'nothing is stated'}"
    return f"must not be indexed: {because or reason}"


# Cached, since a page has several statements and several items.
@lru_cache(maxsize=64)
def url_text(url: str) -> str:
    """Return *url* as a record keeps it, without user name and password."""
    return storable(without_credentials(url), MAX_URL)


def storable(written: str, at_most: int = MAX_TEXT) -> str:
    """Return *written* in a form that SQLite can store, cut at *at_most* characters."""
    if len(written) > at_most:
        written = written[: at_most - 1] + CUT
    if written.isascii():
        return written
    # SQLite stores no lone surrogates.
    return written.encode("utf-8", "replace").decode("utf-8")
