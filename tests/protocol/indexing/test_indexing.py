"""Every indexing rule, from a header and from a meta tag, and how rules are combined."""

from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError, replace
from datetime import datetime, timezone
from typing import Any

import pytest

from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.indexing.statements import VOCABULARY

JUNE = datetime(2010, 6, 25, 15, tzinfo=timezone.utc)
NOINDEX = {"index": False, "index_embedded": False}

# The statement, the field that it changes, and the value in the evidence.
RULES: list[tuple[str, dict[str, Any], Any]] = [
    ("all", {}, None),
    ("index", {}, None),
    ("follow", {}, None),
    ("noindex", NOINDEX, None),
    ("nofollow", {"follow": False}, None),
    ("none", {**NOINDEX, "follow": False}, None),
    ("noarchive", {"archive": False}, None),
    ("nocache", {"archive": False}, None),
    ("nosnippet", {"max_snippet": 0}, None),
    ("max-snippet:0", {"max_snippet": 0}, 0),
    ("max-snippet:50", {"max_snippet": 50}, 50),
    ("max-snippet: 50", {"max_snippet": 50}, 50),
    ("max-snippet:-1", {}, -1),
    ("max-image-preview:none", {"max_image_preview": "none"}, "none"),
    ("max-image-preview:standard", {"max_image_preview": "standard"}, "standard"),
    ("max-image-preview: Large", {"max_image_preview": "large"}, "large"),
    ("max-video-preview:0", {"max_video_preview": 0}, 0),
    ("max-video-preview:30", {"max_video_preview": 30}, 30),
    ("max-video-preview:-1", {}, -1),
    ("noimageindex", {"image_index": False}, None),
    ("notranslate", {"translate": False}, None),
    ("nositelinkssearchbox", {"sitelinks_search_box": False}, None),
    ("noodp", {"odp": False}, None),
    ("noydir", {"ydir": False}, None),
    ("indexifembedded", {}, None),
    ("unavailable_after: 25 Jun 2010 15:00:00 GMT", {"unavailable_after": JUNE}, JUNE),
    ("noai", {"ai": False}, None),
    ("noimageai", {"image_ai": False}, None),
]


def test_every_name_is_in_the_table() -> None:
    """The table of this file has every name of the vocabulary."""
    assert {text.partition(":")[0] for text, _, _ in RULES} == VOCABULARY


@pytest.mark.parametrize("source", ["header", "meta"])
@pytest.mark.parametrize(("text", "changes", "value"), RULES)
def test_one_rule(text: str, changes: dict[str, Any], value: Any, source: str) -> None:
    """In a header and in a meta tag, each statement has its effect and is the evidence."""
    html = f'<html>\n<meta name="robots" content=" {text} ">'.encode()
    header, page = ([b"", text.encode()], b"") if source == "header" else ([], html)
    rules = IndexingRules.parse(header, page)
    assert rules == IndexingRules(**changes)
    (statement,) = rules.statements
    name = text.partition(":")[0].lower()
    assert statement == (source, None, 2, text, name, value, True)
    assert rules.findings == ()


# Lists of statements, and their combined rules.
SUMS: list[tuple[list[str], dict[str, Any]]] = [
    (["index", "noindex", "all"], NOINDEX),
    (["follow", "nofollow"], {"follow": False}),
    (["all", "none"], {**NOINDEX, "follow": False}),
    (["noindex", "nofollow"], {**NOINDEX, "follow": False}),
    (["max-snippet:50", "max-snippet:20", "max-snippet:-1"], {"max_snippet": 20}),
    (["max-snippet:50", "nosnippet"], {"max_snippet": 0}),
    (["max-video-preview:-1", "max-video-preview:9"], {"max_video_preview": 9}),
    (["max-image-preview:large", "max-image-preview:none"], {"max_image_preview": "none"}),
    (["max-image-preview:large", "max-image-preview:standard"], {"max_image_preview": "standard"}),
    (["unavailable_after:2030-01-01", "unavailable_after:25 Jun 2010 15:00:00"], {"unavailable_after": JUNE}),
    (["noindex", "indexifembedded"], {"index": False}),
    (["none", "indexifembedded"], {"index": False, "follow": False}),
    (["noindex", "something-new", "nofollow"], {**NOINDEX, "follow": False}),
    (["max-snippet:soon", "noindex"], NOINDEX),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "changes"), SUMS)
def test_sum(texts: list[str], changes: dict[str, Any]) -> None:
    """The most restrictive statement wins, whatever the order, source and agent."""
    expected = IndexingRules(**changes)
    for order in (texts, texts[::-1]):
        parts = [text.encode() for text in order]
        one = parts[0]
        rest = b", ".join(parts[1:])
        own_meta = b'<meta name="MyBot" content="' + one + b'">'
        for headers, html in (
            ([b", ".join(parts)], b""),
            (parts, b""),
            ([], b'<meta name="robots" content="' + b", ".join(parts) + b'">'),
            ([b"mybot: " + one, rest], b""),
            ([rest], own_meta),
        ):
            assert IndexingRules.parse(headers, html, ("mybot",)) == expected


def test_google_vocabulary() -> None:
    """Rules that Google documents as no longer used have no effect in its dialect."""
    for name in ("noarchive", "nocache", "nositelinkssearchbox", "noai", "noodp"):
        rules = IndexingRules.parse([f"noindex, {name}".encode()], dialect=GOOGLE)
        assert rules == IndexingRules(**NOINDEX)
        assert [statement.name for statement in rules.unknown] == [name]


def test_classic_vocabulary() -> None:
    """The classic dialect knows six names, and ignores the rest."""
    header = b"max-snippet: 0, nosnippet, unavailable_after: Fri, 25 Jun 2010, nofollow"
    rules = IndexingRules.parse([header], dialect=CLASSIC)
    assert rules == IndexingRules(follow=False)
    assert [statement.text for statement in rules.unknown] == [
        "max-snippet: 0",
        "nosnippet",
        "unavailable_after: Fri, 25 Jun 2010",
    ]
    assert IndexingRules.parse([b"none, all"], dialect=CLASSIC) == IndexingRules(
        **NOINDEX, follow=False
    )


def test_own_vocabulary() -> None:
    """A user can extend the vocabulary of a dialect."""
    assert GOOGLE.indexing_vocabulary is not None
    names = GOOGLE.indexing_vocabulary | {"noarchive"}
    dialect = replace(GOOGLE, indexing_vocabulary=names)
    assert not IndexingRules.parse([b"noarchive"], dialect=dialect).archive


def test_value_object() -> None:
    """Rules that allow the same are equal and hash alike; they are picklable and immutable."""
    rules = IndexingRules.parse([b"none"])
    same = IndexingRules.parse(html=b"<meta name=robots content='nofollow noindex'>")
    assert rules == same
    assert hash(rules) == hash(same)
    assert rules.statements != same.statements
    assert rules != IndexingRules.parse([b"noindex"])
    assert pickle.loads(pickle.dumps(rules)) == rules
    with pytest.raises(FrozenInstanceError):
        rules.index = True  # type: ignore[misc]


def test_repr() -> None:
    """The repr shows the rules."""
    assert repr(IndexingRules()) == "<IndexingRules all>"
    rules = IndexingRules.parse([b"max-snippet:20", b"none", b"nocache"])
    assert repr(rules) == "<IndexingRules noindex, nofollow, noarchive, max-snippet:20>"


def test_to_dict() -> None:
    """The dict has every rule as a JSON value, and no evidence."""
    rules = IndexingRules.parse([b"noai, unavailable_after: 2010-06-25T15:00:00Z"])
    assert json.loads(json.dumps(rules.to_dict())) == {
        "index": True,
        "follow": True,
        "archive": True,
        "snippet": True,
        "image_index": True,
        "translate": True,
        "sitelinks_search_box": True,
        "odp": True,
        "ydir": True,
        "ai": False,
        "image_ai": True,
        "index_embedded": True,
        "max_snippet": None,
        "max_image_preview": None,
        "max_video_preview": None,
        "unavailable_after": "2010-06-25T15:00:00Z",
    }


def test_one_agent_as_str() -> None:
    """A single product token may be passed as a string; an empty one is none."""
    assert not IndexingRules.parse([b"MyBot: nofollow"], agents="mybot").follow
    html = b'<meta name="" content="nofollow">'
    assert IndexingRules.parse(html=html, agents="").follow


def test_misuse() -> None:
    """A wrong argument raises, while no content does."""
    with pytest.raises(TypeError):
        IndexingRules.parse(b"noindex")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="time zone"):
        IndexingRules().indexable(datetime(2020, 1, 1))


def test_the_statement_that_decides() -> None:
    """because() returns the first statement that denies the name, the earliest date for
    unavailable_after, and None if nothing denies the name.
    """
    first, second = b"unavailable_after: 2030-01-02", b"unavailable_after: 2030-01-01"
    rules = IndexingRules.parse([b"noidnex", b"nofollow, none", first, second])
    texts = {
        name: because and because.text
        for name in ("noindex", "nofollow", "noarchive", "unavailable_after", "noidnex")
        for because in (rules.because(name),)
    }
    assert texts == {
        "noindex": "none",
        "nofollow": "nofollow",
        "noarchive": None,
        "unavailable_after": second.decode(),
        "noidnex": None,
    }


def test_evidence() -> None:
    """Each rule that restricts something comes with the statements that would do so alone; a
    statement without a limit is no evidence.
    """
    headers = [b"none", b"max-snippet:20, nosnippet", b"max-snippet:-1, follow"]
    found = IndexingRules.parse(headers).evidence()
    assert {name: [each.name for each in said] for name, said in found.items()} == {
        "index": ["none"],
        "follow": ["none"],
        "index_embedded": ["none"],
        "snippet": ["nosnippet"],
        "max_snippet": ["max-snippet", "nosnippet"],
    }
    assert IndexingRules.parse([b"all"]).evidence() == {}
