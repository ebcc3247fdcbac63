"""Tests of the records of decisions: the fields of each kind of record, the reasons, and the maximum lengths of
texts.
"""

from __future__ import annotations

from typing import Any

import pytest

from scrapy_rep.base import meta
from scrapy_rep.base.records import (
    MAX_TEXT,
    MAX_URL,
    page_record,
    request_record,
    storable,
    url_text,
)
from scrapy_rep.base.settings import DEFAULTS, OBEY
from scrapy_rep.protocol.access.entries import CacheEntry
from scrapy_rep.protocol.access.results import AccessResult
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.indexing.statements import DENIALS
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.reasons import REASONS
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.rules import Decision, Reason
from scrapy_rep.protocol.usage.statements import CATEGORIES
from scrapy_rep.record import Layer, Subject, Verdict

pytestmark = pytest.mark.newest

URL = "http://example.com/a"
ORIGIN = origin_of(URL)
ROBOTS = b"User-agent: *\nContent-Usage: train-ai=n\n"
ENTRY = CacheEntry(
    result=AccessResult(url="http://example.com/robots.txt", status=200, body=ROBOTS),
    fetched=1_800_000_000.0,
    expires=1_800_086_400.0,
)
USAGE = RobotsTxt.parse(ROBOTS).usage(URL, ("mybot",)).statements[0]
NOINDEX = IndexingRules.of_page([b"mybot: noindex"], agents=("mybot",)).statements[0]


def test_the_record_of_a_refusal_has_the_rule_line_agent_and_fetch_time() -> None:
    decision = RobotsTxt.parse(ROBOTS + b"Disallow: /a\n").decide(URL, "mybot")
    record = request_record(URL, ORIGIN, decision, entry=ENTRY, via="browser http://b/")
    assert (record.layer, record.verdict) == (Layer.ROBOTS_TXT, Verdict.REFUSED)
    assert (record.reason, record.line, record.agent) == ("rule", 3, "*")
    assert (record.statement, record.fetched) == ("Disallow: /a", ENTRY.fetched)
    assert (record.url, record.origin) == (URL, "http://example.com")
    assert (record.page, record.via) == (None, "browser http://b/")


@pytest.mark.parametrize(
    ("reason", "layer", "text"),
    [
        (Reason.BACK_OFF, Layer.DELAY, "back-off"),
        (Reason.CRAWL_DELAY, Layer.DELAY, "crawl-delay"),
        (Reason.UNREACHABLE, Layer.ROBOTS_TXT, "unreachable"),
        (Reason.OVERRIDE, Layer.OVERRIDE, "dont_obey_robotstxt"),
    ],
)
def test_the_layer_of_a_decision_without_a_rule_follows_from_its_reason(
    reason: Reason, layer: Layer, text: str
) -> None:
    """An override without a host pattern is the meta key dont_obey_robotstxt."""
    record = request_record(URL, None, Decision(False, None, None, reason))
    assert (record.layer, record.reason, record.origin) == (layer, text, "")
    assert (record.line, record.statement) == (None, None)


@pytest.mark.parametrize(
    ("reason", "because", "verdict", "layer"),
    [
        ("train-ai", USAGE, Verdict.DROPPED, Layer.USAGE),
        ("search", None, Verdict.DROPPED, Layer.USAGE),
        ("License", USAGE, Verdict.NOTED, Layer.USAGE),
        ("noindex", NOINDEX, Verdict.ANNOTATED, Layer.HEADER),
        ("noindex", None, Verdict.DROPPED, Layer.META),
        ("nofollow", "ugc nofollow", Verdict.DROPPED, Layer.REL),
        ("REP_NOINDEX", NOINDEX, Verdict.ALLOWED, Layer.OVERRIDE),
    ],
)
def test_the_record_for_a_page_has_the_statement_its_source_and_its_agent(
    reason: str, because: Any, verdict: Verdict, layer: Layer
) -> None:
    page = "http://example.com/page"
    record = page_record(
        Subject.ITEM, verdict, reason, because, url=URL, origin=ORIGIN, page=page, entry=ENTRY
    )  # fmt: skip
    assert (record.layer, record.verdict, record.reason) == (layer, verdict, reason)
    assert (record.url, record.page) == (URL, page)
    stated = record.statement, record.agent, record.source, record.line, record.fetched
    if because is USAGE:
        text = "Content-Usage: train-ai=n"
        assert stated == (text, USAGE.agent, "robots.txt", 2, ENTRY.fetched)
    elif because is NOINDEX:
        assert stated == (NOINDEX.text, "mybot", None, None, None)
    else:
        assert stated == (because, None, None, None, None)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://user:secret@host/a@b", "http://***@host/a@b"),
        ("http://user@host", "http://***@host"),
        ("http://user:p@ss@host/", "http://***@host/"),
        ("http://host/@x?a=//b@c", "http://host/@x?a=//***@c"),
        ("http://host/path", "http://host/path"),
    ],
)
def test_records_contain_no_passwords(url: str, expected: str) -> None:
    """User names and passwords are masked, and also text that only looks like them."""
    assert url_text(url) == expected


def test_long_texts_of_records_are_truncated() -> None:
    """A truncated URL ends with an ellipsis. A lone surrogate, which SQLite cannot store, is replaced."""
    assert url_text("http://host/" + "x" * 9000)[-2:] == "x…"
    assert len(url_text("http://host/" + "x" * 9000)) == MAX_URL
    assert storable("x" * MAX_TEXT) == "x" * MAX_TEXT
    assert len(storable("ä" * 9000)) == MAX_TEXT
    assert storable("a\ud800ä") == "a?ä"


@pytest.mark.parametrize("term", [*Layer, *Verdict, *Subject])
def test_a_term_is_formatted_as_its_value(term: Layer | Verdict | Subject) -> None:
    """The ledger stores this text. In some versions of Python, an enum is formatted in another way by default."""
    assert f"{term}" == str(term) == term.value


def test_each_reason_has_a_text_and_an_existing_setting() -> None:
    """Each reason for which a crawl refuses, drops or allows something has a text, which does not end with a full stop.
    If the reason names a setting or meta key that changes the decision, this setting or key exists.
    """
    denying_rules = {
        name for name, denied in DENIALS.items() if {"index", "follow"} & set(denied)
    }
    switches = {OBEY, meta.DONT_OBEY_ROBOTSTXT}
    assert {*map(str, Reason), *denying_rules, *CATEGORIES, *switches} <= REASONS.keys()
    assert all(words.text and words.text[-1] != "." for words in REASONS.values())
    settings = {*DEFAULTS, *switches, meta.DONT_OBEY_NOINDEX, ""}
    assert {words.setting for words in REASONS.values()} <= settings
