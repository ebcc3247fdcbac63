"""Records: what each kind of decision says, its words, and the bounds of its texts."""

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


def test_the_record_of_a_refusal_has_rule_line_agent_and_time() -> None:
    """The record of a refusal has the rule, its line, the agent and the time of the fetch."""
    decision = RobotsTxt.parse(ROBOTS + b"Disallow: /a\n").decide(URL, "mybot")
    record = request_record(URL, ORIGIN, decision, entry=ENTRY, via="browser http://b/")
    assert (record.layer, record.verdict) == (Layer.ROBOTS_TXT, Verdict.REFUSED)
    assert (record.reason, record.line, record.agent) == ("rule", 3, "*")
    assert (record.statement, record.fetched) == ("Disallow: /a", ENTRY.fetched)
    assert (record.url, record.origin) == (URL, "http://example.com")
    assert (record.page, record.via) == (None, "browser http://b/")


@pytest.mark.parametrize(
    ("reason", "layer", "words"),
    [
        (Reason.BACK_OFF, Layer.DELAY, "back-off"),
        (Reason.CRAWL_DELAY, Layer.DELAY, "crawl-delay"),
        (Reason.UNREACHABLE, Layer.ROBOTS_TXT, "unreachable"),
        (Reason.OVERRIDE, Layer.OVERRIDE, "dont_obey_robotstxt"),
    ],
)
def test_the_reason_of_a_decision_without_a_rule_tells_its_layer(
    reason: Reason, layer: Layer, words: str
) -> None:
    """The layer follows from the reason; an override without a pattern is that of the meta."""
    record = request_record(URL, None, Decision(False, None, None, reason))
    assert (record.layer, record.reason, record.origin) == (layer, words, "")
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
def test_the_record_of_a_page_has_the_statement_and_its_source(
    reason: str, because: Any, verdict: Verdict, layer: Layer
) -> None:
    """The record of what a page forbids has the statement, its source and its agent."""
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
def test_records_have_no_passwords(url: str, expected: str) -> None:
    """User names and passwords are removed, and so is text that could be one."""
    assert url_text(url) == expected


def test_long_texts_of_records_are_cut_and_marked() -> None:
    """A text that is too long is cut, and marked as cut. Half of a surrogate pair, which SQLite
    cannot store, is replaced.
    """
    assert url_text("http://host/" + "x" * 9000)[-2:] == "x…"
    assert len(url_text("http://host/" + "x" * 9000)) == MAX_URL
    assert storable("x" * MAX_TEXT) == "x" * MAX_TEXT
    assert len(storable("ä" * 9000)) == MAX_TEXT
    assert storable("a\ud800ä") == "a?ä"


@pytest.mark.parametrize("term", [*Layer, *Verdict, *Subject])
def test_a_term_is_formatted_as_its_value(term: Layer | Verdict | Subject) -> None:
    """Formatting a term gives its value in the ledger, in every version of Python."""
    assert f"{term}" == str(term) == term.value


def test_each_reason_has_words_and_what_changes_it() -> None:
    """Each reason for which a crawl refuses, drops or allows something has words, which end no
    sentence. If a setting or a meta key can change it, that exists.
    """
    withheld = {
        name for name, denied in DENIALS.items() if {"index", "follow"} & set(denied)
    }
    asked = {OBEY, meta.DONT_OBEY_ROBOTSTXT}
    assert {*map(str, Reason), *withheld, *CATEGORIES, *asked} <= REASONS.keys()
    assert all(words.text and words.text[-1] != "." for words in REASONS.values())
    settings = {*DEFAULTS, *asked, meta.DONT_OBEY_NOINDEX, ""}
    assert {words.setting for words in REASONS.values()} <= settings
