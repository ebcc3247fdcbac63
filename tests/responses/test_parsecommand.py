"""The warning of ``scrapy parse`` about what a crawl would drop."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse, Response

from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.responses.parsecommand import warn_of_drops
from tests.fakes import fake_crawler

pytestmark = pytest.mark.newest

URL = "http://example.com/page"
PAST = "unavailable_after: 1999-01-01"
TRAINING = RobotsTxt.parse(b"User-agent: *\nContent-Usage: train-ai=n\n")


@pytest.mark.parametrize(
    ("tag", "settings", "meta", "words"),
    [
        ("", {}, {}, []),
        ("max-snippet: 20", {}, {}, []),
        ("noindex", {}, {}, ["items", "noindex (header)"]),
        (PAST, {}, {}, ["items", f"{PAST} (header)"]),
        ("noimageindex", {}, {}, ["images", "noimageindex (header)"]),
        ("nofollow", {}, {}, ["links", "nofollow (header)"]),
        ("none", {}, {}, ["items", "none (header)", "links"]),
        ("noindex", {}, {"dont_obey_noindex": True}, []),
        ("noindex, noimageindex", {"REP_NOINDEX": "ignore"}, {}, []),
        ("nofollow", {"REP_NOFOLLOW": "ignore"}, {}, []),
        ("", {"REP_REL": ["ugc", "sponsored"]}, {}, ["links", "rel=sponsored, ugc"]),
        ("", {"REP_PURPOSES": ["train-ai"]}, {}, ["items", "train-ai"]),
        ("noindex", {"REP_PURPOSES": ["train-ai"]}, {}, ["items", "noindex (header)"]),
        ("", {"REP_PURPOSES": ["train-ai"], "REP_USAGE": "annotate"}, {}, []),
    ],
)
def test_what_a_crawl_would_drop(
    caplog: pytest.LogCaptureFixture,
    tag: str,
    settings: dict[str, Any],
    meta: dict[str, Any],
    words: list[str],
) -> None:
    """The warning names items, images or links, with the statement; without a drop there is no
    warning.
    """
    crawler = fake_crawler(settings)
    response = HtmlResponse(URL, request=Request(URL, meta=meta))
    rules = IndexingRules.parse([tag.encode()] if tag else [])
    denial = TRAINING.usage(URL, ("mybot",)).denial(settings.get("REP_PURPOSES", []))
    warn_of_drops(crawler, response, rules, denial)
    assert len(caplog.messages) == bool(words)
    for word in (*words, URL) if words else ():
        assert word in caplog.text


def test_a_crawl_drops_nothing_of_data(caplog: pytest.LogCaptureFixture) -> None:
    """For JSON that says noindex, there is no warning, since a crawl keeps its items and links."""
    fields = {"Content-Type": "application/json"}
    response = Response(URL, headers=fields, request=Request(URL))
    rules = IndexingRules.parse([b"none, noimageindex"])
    warn_of_drops(fake_crawler({}), response, rules, None)
    assert not caplog.messages
