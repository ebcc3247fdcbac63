"""Creates the :class:`Record` of a decision: shortens its texts, and removes passwords from its URLs."""

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
"""The cause of a prohibition: a statement of the site, or the value of a ``rel`` attribute. None if the site states
nothing about a use, and the use is forbidden because the setting ``REP_USAGE_UNKNOWN`` is ``"deny"``."""

MAX_URL = 4096
"""The maximum number of stored characters of a URL. A longer URL is cut, and ends with an ellipsis."""

MAX_TEXT = 1024
"""The maximum number of stored characters of a rule, a statement, a header value or an error. A longer text
is cut, and ends with an ellipsis."""

CUT = "…"
"""The last character of a text or URL that was cut."""

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
    """Return the record of a decision, with the present time. Long texts and URLs are cut, and user names and
    passwords are removed from URLs. *others* are further fields of :class:`Record`.
    """
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
    """Return the record of a decision about a request for *url*. The decision is based on robots.txt, an override, a
    delay, or the maximum number of pages for a host.

    :param origin: the origin of the request; None if the URL has no valid host or port
    :param entry: the cache entry of the robots.txt; None if no robots.txt applies
    :param override: the override that replaces the robots.txt; None if there is none
    :param via: how a browser came to *url*, such as ``"redirect http://a.example/"``; None if the spider requested
        *url*
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
    """Return the record of a decision about a page, or about an item, a link or a file of a page.

    :param reason: the reason in the record, such as the indexing rule ``"noindex"`` or the purpose ``"train-ai"``
    :param because: the site's statement on which the decision is based: an indexing rule, a usage preference or the
        ``rel`` attribute of a link. None if the site states nothing about a purpose
    :param url: the URL that the decision is about, such as the target of the link
    :param page: the URL of the page
    :param entry: the cache entry of the page's robots.txt, if *because* is in a robots.txt
    """
    # The layer is "usage" for a decision about a purpose. It is "override" for a page that is allowed, since such a
    # record is made only if a setting or meta key overrides what the page forbids. Otherwise, the layer is the place of
    # the statement: "header", "meta" or "rel".
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
    """Return the end of an error message about a page or file, such as ``"must not be indexed: noindex"``. It
    states which use is forbidden, and why.
    """
    if reason in CATEGORIES:
        return f"must not be used for {reason}: {because or 'nothing is stated'}"
    return f"must not be indexed: {because or reason}"


# Cached, because the statements and items of a page cause several consecutive records with the same URL.
@lru_cache(maxsize=64)
def url_text(url: str) -> str:
    """Return *url* as records store it: without user name and password, and cut at :data:`MAX_URL` characters."""
    return storable(without_credentials(url), MAX_URL)


def storable(text: str, at_most: int = MAX_TEXT) -> str:
    """Return *text* cut at *at_most* characters. Lone surrogates become ``?``, because SQLite cannot store them."""
    if len(text) > at_most:
        text = text[: at_most - 1] + CUT
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")
