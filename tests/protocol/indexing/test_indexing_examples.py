"""The examples of Google's and MDN's documentation, with the documented meaning."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from scrapy_rep.protocol.dialect import GOOGLE, RFC9309, Dialect
from scrapy_rep.protocol.indexing.rules import IndexingRules

NOINDEX = {"index": False, "index_embedded": False}


def meta(name: str, content: str) -> str:
    return f'<meta name="{name}" content="{content}">'


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=timezone.utc)  # type: ignore[misc, arg-type]


NONE = {**NOINDEX, "follow": False}
TWO_BOTS = ["googlebot: nofollow", "otherbot: noindex, nofollow"]
ONE_LINE = ["BadBot: noindex, nofollow, googlebot: nofollow"]
SUM_OF_NEGATIVES = ["nofollow", "googlebot: noindex"]
TWO_TAGS = meta("googlebot", "notranslate") + meta("googlebot-news", "nosnippet")

# From "Robots meta tag, data-nosnippet, and X-Robots-Tag specifications" (Google), from
# "X-Robots-Tag" and "<meta name=robots>" (MDN), and from "Robots tag: indexifembedded"
# (Google's blog): the headers, the page, the agents, and the documented meaning.
EXAMPLES: list[tuple[list[str], str, list[str], dict[str, Any]]] = [
    ([], meta("robots", "noindex"), [], NOINDEX),
    ([], '<meta name="robots" content="noindex" />', [], NOINDEX),
    ([], meta("robots", "nofollow, noindex"), [], NONE),
    ([], meta("robots", "noindex") + meta("robots", "nofollow"), [], NONE),
    ([], meta("AdsBot-Google", "noindex"), ["googlebot"], {}),
    ([], meta("googlebot", "nosnippet"), ["googlebot"], {"max_snippet": 0}),
    ([], meta("googlebot", "nosnippet"), ["otherbot"], {}),
    ([], meta("googlebot-news", "nosnippet"), ["googlebot"], {}),
    ([], TWO_TAGS, ["googlebot"], {"translate": False}),
    ([], TWO_TAGS, ["googlebot-news"], {"max_snippet": 0}),
    ([], TWO_TAGS, ["googlebot-news", "googlebot"], {"translate": False, "max_snippet": 0}),
    ([], meta("robots", "nofollow") + meta("googlebot", "noindex"), ["googlebot"], NONE),
    ([], meta("robots", "max-snippet:20, max-image-preview:large"), [], {"max_snippet": 20, "max_image_preview": "large"}),
    ([], meta("robots", "max-snippet:50") + meta("robots", "nosnippet"), [], {"max_snippet": 0}),
    ([], meta("robots", "unavailable_after: 2020-09-21"), [], {"unavailable_after": utc(2020, 9, 21)}),
    ([], meta("googlebot", "noindex") + meta("googlebot", "indexifembedded"), ["googlebot"], {"index": False}),
    (["googlebot:noindex,indexifembedded"], "", ["googlebot"], {"index": False}),
    (["noindex"], "", [], NOINDEX),
    (["noindex, nofollow"], "", [], NONE),
    (["noimageindex", "unavailable_after: 25 Jun 2010 15:00:00 PST"], "", [], {"image_index": False, "unavailable_after": utc(2010, 6, 25, 23)}),
    (["noimageindex", "unavailable_after: Wed, 03 Dec 2025 13:09:53 GMT"], "", [], {"image_index": False, "unavailable_after": utc(2025, 12, 3, 13, 9, 53)}),
    (TWO_BOTS, "", ["googlebot"], {"follow": False}),
    (TWO_BOTS, "", ["otherbot"], NONE),
    (TWO_BOTS, "", ["thirdbot"], {}),
    (["BadBot: noindex, nofollow", "googlebot: nofollow"], "", ["badbot"], NONE),
    (ONE_LINE, "", ["googlebot"], {"follow": False}),
    (ONE_LINE, "", ["badbot"], NONE),
    (SUM_OF_NEGATIVES, "", ["googlebot"], NONE),
    (SUM_OF_NEGATIVES, "", ["bingbot"], {"follow": False}),
    (["max-snippet:50, nosnippet"], "", [], {"max_snippet": 0}),
]  # fmt: skip


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE])
@pytest.mark.parametrize(("headers", "html", "agents", "changes"), EXAMPLES)
def test_example(
    headers: list[str],
    html: str,
    agents: list[str],
    changes: dict[str, Any],
    dialect: Dialect,
) -> None:
    """Every example on Google's and MDN's pages is read as the page explains it."""
    lines = [header.encode() for header in headers]
    rules = IndexingRules.parse(lines, html.encode(), agents, dialect)
    assert rules == IndexingRules(**changes)
    assert rules.findings == ()
