"""Makes the records of decisions, with texts and URLs in the form in which they are stored."""

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
"""Why something is forbidden: a statement of the site, or the value of a ``rel``; None if the site has not
stated anything."""

MAX_URL = 4096
"""How many characters of a URL are stored. A longer URL is cut, and ends with an ellipsis."""

MAX_TEXT = 1024
"""How many characters of a rule, a statement, a header value or an error are stored."""

CUT = "…"
"""The last character of a text that was cut."""

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
    """Return the record of a decision that is made now. Texts are cut, and URLs are without passwords."""
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
    """Return the record of a decision about a request: by robots.txt, an override, a delay or a limit of
    pages. *entry* is the cache entry of the robots.txt.
    """
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

    If the verdict is *allowed* in spite of the statement, the user of the crawler has decided so, and
    the layer is that of overrides.
    """
    layer = Layer.META
    evidence: dict[str, Any] = {}
    if isinstance(because, UsageStatement):
        evidence = {"agent": because.agent, "statement": because.text}
        evidence["source"] = str(because.source)
        if because.source is Source.ROBOTS_TXT:
            evidence["line"] = because.position
            evidence["fetched"] = None if entry is None else entry.fetched
    elif isinstance(because, Statement):
        layer = Layer(because.source)
        evidence = {"agent": because.agent, "statement": because.text}
    elif because is not None:
        layer, evidence = Layer.REL, {"statement": because}
    if isinstance(because, UsageStatement) or reason in CATEGORIES:
        layer = Layer.USAGE
    elif verdict is Verdict.ALLOWED:
        layer = Layer.OVERRIDE
    return make_record(
        subject, verdict, layer, reason, url=url, origin=origin, page=page, **evidence
    )


def forbidden(reason: str, because: Because) -> str:
    """Return the end of an error message about a page or file: how it must not be used, and why."""
    if reason in CATEGORIES:
        return f"must not be used for {reason}: {because or 'nothing is stated'}"
    return f"must not be indexed: {because or reason}"


# Cached, since several records in a row have the same URL: those of the statements and items of a page.
@lru_cache(maxsize=64)
def url_text(url: str) -> str:
    """Return *url* in the form in which it is stored: without user name and password, and not too long."""
    return storable(without_credentials(url), MAX_URL)


def storable(text: str, at_most: int = MAX_TEXT) -> str:
    """Return *text* in a form that SQLite can store, cut at *at_most* characters."""
    if len(text) > at_most:
        text = text[: at_most - 1] + CUT
    if text.isascii():
        return text
    # SQLite cannot store lone surrogates.
    return text.encode("utf-8", "replace").decode("utf-8")
