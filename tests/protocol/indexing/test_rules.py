"""Tests of :class:`IndexingRules`: the statements of headers and meta tags, their effects, and their
combination.
"""

from __future__ import annotations

import json
import pickle
from copy import copy
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.indexing.statements import (
    DENIALS,
    IMAGE_PREVIEWS,
    MAX_TEXT,
    VOCABULARY,
    Statement,
)
from scrapy_rep.protocol.usage.preferences import UsagePreferences
from tests.protocol.growth import assert_linear

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect

JUNE = datetime(2010, 6, 25, 15, tzinfo=timezone.utc)
NOINDEX = {"index": False, "index_embedded": False}


def parse(
    *lines: str, dialect: Dialect = RFC9309, agents: str | tuple[str, ...] = ("mybot",)
) -> IndexingRules:
    """Return the rules of a response with these ``X-Robots-Tag`` field lines, and another field."""
    headers = [("X-Robots-tag", line.encode("latin-1")) for line in lines]
    headers.append(("Content-Usage", b"noindex"))
    return IndexingRules.parse(headers, b"", agents, dialect)


def restrictions(rules: IndexingRules) -> dict[str, Any]:
    """Return the attributes of *rules* that differ from those of a page without statements."""
    return {
        name: value
        for name, value in vars(rules).items()
        if name not in {"statements", "findings", "tags"}
        and value != getattr(IndexingRules, name)
    }


# The text of a statement, the attributes of IndexingRules that it changes, and the field ``value`` of its Statement.
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


@pytest.mark.parametrize("source", ["header", "meta"])
@pytest.mark.parametrize(("text", "changes", "value"), RULES)
def test_each_statement_has_its_effect_in_header_and_tag(
    text: str, changes: dict[str, Any], value: Any, source: str
) -> None:
    """``rules.statements`` contains the statement with its source. RULES has every name of the vocabulary."""
    html = f'<html>\n<meta name="robots" content=" {text} ">'.encode()
    headers, page = ([b"", text.encode()], b"") if source == "header" else ([], html)
    rules = IndexingRules.of_page(headers, page)
    assert restrictions(rules) == changes
    name = text.partition(":")[0]
    assert rules.statements == ((source, None, 2, text, name, value, True),)
    assert rules.findings == ()
    assert {text.partition(":")[0] for text, _, _ in RULES} == VOCABULARY


@pytest.mark.parametrize(
    ("dialect", "line", "changes", "unknown"),
    [
        # Google documents some of the unknown names as no longer used.
        (GOOGLE, "noindex, noarchive, nocache, nositelinkssearchbox, noai, noodp", NOINDEX,
         "noarchive, nocache, nositelinkssearchbox, noai, noodp"),
        (CLASSIC, "max-snippet: 0, nosnippet, unavailable_after: Fri, 25 Jun 2010, nofollow",
         {"follow": False}, "max-snippet: 0, nosnippet, unavailable_after: Fri, 25 Jun 2010"),
        (CLASSIC, "none, all", {**NOINDEX, "follow": False}, ""),
        # A user can extend the vocabulary of a dialect.
        (replace(GOOGLE, indexing_vocabulary=frozenset({"noarchive"})), "noarchive, noindex",
         {"archive": False}, "noindex"),
        (RFC9309, "noindex, something-new, nofollow", {**NOINDEX, "follow": False},
         "something-new"),
    ],
)  # fmt: skip
def test_an_unknown_name_has_no_effect_and_is_kept_as_evidence(
    dialect: Dialect, line: str, changes: dict[str, Any], unknown: str
) -> None:
    """Each dialect has its own vocabulary."""
    rules = parse(line, dialect=dialect)
    assert restrictions(rules) == changes
    assert ", ".join(statement.text for statement in rules.unknown) == unknown


@pytest.mark.parametrize(
    ("texts", "changes"),
    [
        (["index", "noindex", "all"], NOINDEX),
        (["max-snippet:50", "max-snippet:20", "max-snippet:-1"], {"max_snippet": 20}),
        (["max-snippet:50", "nosnippet"], {"max_snippet": 0}),
        (["max-image-preview:large", "max-image-preview:standard"],
         {"max_image_preview": "standard"}),
        (["unavailable_after:2030-01-01", "unavailable_after:25 Jun 2010 15:00:00"],
         {"unavailable_after": JUNE}),
        (["none", "indexifembedded"], {"index": False, "follow": False}),
        (["max-snippet:soon", "noindex"], NOINDEX),
    ],
)  # fmt: skip
def test_the_most_restrictive_statement_wins(
    texts: list[str], changes: dict[str, Any]
) -> None:
    """The order and the source of the statements do not matter, nor whether they are for everyone or for
    the crawler.
    """
    for first, *rest in (texts, texts[::-1]):
        crawler_tag = f'<meta name="MyBot" content="{first}">'.encode()
        for rules in (
            parse(", ".join([first, *rest])),
            parse(f"mybot: {first}", *rest),
            IndexingRules.of_page([", ".join(rest).encode()], crawler_tag, ("mybot",)),
        ):
            assert restrictions(rules) == changes


@pytest.mark.parametrize(
    ("lines", "statements"),
    [
        (["mybot: noindex, nofollow"], [("mybot", 1, "noindex"), ("mybot", 1, "nofollow")]),
        (["other: noindex, nofollow"], []),
        (["noindex, other: nofollow"], [(None, 1, "noindex")]),
        (["other: noindex, mybot: nofollow"], [("mybot", 1, "nofollow")]),
        (["mybot: noindex, other: nofollow, noai"], [("mybot", 1, "noindex")]),
        (["other: noindex", "nofollow"], [(None, 2, "nofollow")]),
        (["MYBOT:noindex"], [("MYBOT", 1, "noindex")]),
        (["mybot : noindex"], [("mybot", 1, "noindex")]),
        (["mybot/2.1: noindex"], [("mybot", 1, "noindex")]),
        (["mybot:, noindex"], [("mybot", 1, "noindex")]),
        (["other: mybot: noindex"], [("mybot", 1, "noindex")]),
        (["mybot: other: noindex"], []),
        (["mybot2: noindex"], []),
        (["my: noindex"], []),
        (["*: noindex"], [("*", 1, "noindex")]),
        (["robots: noindex"], [("robots", 1, "noindex")]),
    ],
)  # fmt: skip
def test_an_agent_applies_up_to_the_next_agent_or_the_end_of_the_line(
    lines: list[str], statements: list[tuple[str | None, int, str]]
) -> None:
    """An agent is the name of a crawler before a colon, as in ``mybot: noindex, nofollow``. The statements after it are
    only for this crawler.
    """
    evidence = parse(*lines, agents="MyBot").statements
    assert [
        (statement.agent, statement.position, statement.text) for statement in evidence
    ] == statements


LINES_WITH_NOINDEX = [
    "max-snippet: 5, noindex", "max-image-preview:none, noindex", "noindex: yes, nofollow",
    "max-video-preview: 5, noindex", "unavailable_after: 25 Jun 2010 15:00:00 PST, noindex",
    "MAX-SNIPPET : 5, noindex", "max-snippet: nonsense, noindex", "max-snippet:, noindex",
    "max-snippet, noindex", "unavailable_after: 15:00, noindex", "all: noindex", "\tNoIndex\t",
    "unavailable_after: soon, 15:00:00 GMT, noindex", "see https://example.com/, noindex",
    "https://example.com/, noindex", ": noindex, noindex", "\xa0noindex\xa0", ", ,noindex,,",
    "caf\xe9, noindex", "caf\xe9: noindex, noindex", "\0, noindex",
]  # fmt: skip


@pytest.mark.parametrize("line", LINES_WITH_NOINDEX)
def test_noindex_is_found_next_to_odd_statements(line: str) -> None:
    """In ``max-snippet: 5, noindex``, the text before the colon is not the name of a crawler, so noindex is for all
    crawlers. Invalid values, URLs and empty parts do not hide noindex.
    """
    assert not parse(line).index


@pytest.mark.parametrize(
    "texts",
    [
        ["unavailable_after: Friday, 25-Jun-10 15:00:00 GMT", "noindex"],
        ["unavailable_after: Friday, June 25, 2010, 3:00 PM, PST", "noindex"],
        # dateutil alone would read "NONE" after a time as the name of a time zone.
        ["unavailable_after: 25 Jun 2010 15:00:00", "NONE"],
        ["unavailable_after: Friday", "never", "noindex"],
        ["unavailable_after: 2010-06-25", "unavailable_after: 2020-06-25"],
    ],
)
def test_the_date_is_the_longest_sequence_of_parts_that_is_a_date(
    texts: list[str],
) -> None:
    """The commas of a header divide it into parts. A date can contain commas."""
    assert [statement.text for statement in parse(", ".join(texts)).statements] == texts


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("noindx", "unknown-name"),
        ("noindex nofolow", "unknown-name"),
        ("noindex; nofollow", "no-comma"),
        ("max-snippet: many", "bad-value"),
        ("max-snippet: 5.5", "bad-value"),
        ("max-snippet: -2", "bad-value"),
        ("max-snippet: \xb2", "bad-value"),
        ("max-snippet: " + "9" * 5000, "bad-value"),
        ("max-snippet", "bad-value"),
        ("max-image-preview: huge", "bad-value"),
        ("unavailable_after: tomorrow", "bad-date"),
        ("unavailable_after", "bad-date"),
        ("unavailable_after, 2020-09-21", "bad-date"),
        ("nofollow: yes", "stray-colon"),
        ("noindex," + " " * MAX_TEXT, "too-long"),
    ],
)
def test_a_faulty_statement_is_a_finding_with_the_position_of_its_line(
    line: str, code: str
) -> None:
    """A statement for another crawler is not a finding."""
    findings = parse("noindex", line).findings
    assert code in {finding.code for finding in findings}
    assert {(finding.source, finding.position) for finding in findings} == {
        ("header", 2)
    }
    assert code == "too-long" or not parse(f"other: {line}").findings


LISTS = [
    ("noindex; nofollow", ["noindex", "nofollow"]),
    ("noindex/nofollow", ["noindex", "nofollow"]),
    ("noindex nofollow", ["noindex", "nofollow"]),
    ("NoIndex|none ;", ["NoIndex", "none"]),
    ("noindex;", ["noindex"]),
    ("archive, noindex ; nofollow,noai", ["archive", "noindex", "nofollow", "noai"]),
    ("max-snippet: 10; noindex", ["max-snippet: 10", "noindex"]),
    ("max-snippet: many; noindex", ["max-snippet: many", "noindex"]),
    ("noindex max-image-preview:none", ["noindex", "max-image-preview:none"]),
    ("unavailable_after: 25 Jun 2010 15:00:00 PST; noindex", ["unavailable_after: 25 Jun 2010 15:00:00 PST", "noindex"]),
    ("unavailable_after: 2020-09-21 ; noindex", ["unavailable_after: 2020-09-21", "noindex"]),
    ("noindex: nofollow;noarchive", ["noindex:", "nofollow", "noarchive"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "statements"), LISTS)
def test_only_the_dialect_of_rfc9309_recognizes_rules_without_commas(
    text: str, statements: list[str]
) -> None:
    """In RFC 9309's dialect, known rules are recognized with any separator, and the missing comma is a
    finding. In the other dialects, such a text is one unknown rule. Google's documentation only has the
    comma as a separator.
    """
    in_page = IndexingRules.parse(html=f'<meta name=robots content="{text}">'.encode())
    in_header = parse(text)
    assert [statement.text for statement in in_header.statements] == statements
    assert in_page == in_header
    assert "no-comma" in {finding.code for finding in in_header.findings}
    for dialect in (GOOGLE, CLASSIC):
        findings = parse(text, dialect=dialect).findings
        assert "no-comma" not in {finding.code for finding in findings}
        assert len(parse(text, dialect=dialect).statements) <= len(statements)


@pytest.mark.parametrize(
    "text",
    ["noindex; nofolow", "see noindex", "mybot/noindex", "; / |", "max-snippet noindex", "https://a.example/noindex"],
)  # fmt: skip
def test_a_text_without_commas_that_has_an_unknown_word_is_one_unknown_rule(
    text: str,
) -> None:
    rules = parse(text)
    assert rules == parse()
    assert {finding.code for finding in rules.findings} == {"unknown-name"}
    assert not any(statement.known for statement in rules.statements)


@pytest.mark.parametrize(
    "part", ["noindex;", "noindex ", "max-snippet" + " " * 99, "a ", "a b,", "max-snippet:1;,", "unavailable_after: |"]
)  # fmt: skip
def test_a_list_without_commas_takes_linear_time(part: str) -> None:
    """Parsing the list gives findings, such as ``no-comma``. Except for ``unknown-name``, the message of each finding
    has less than 300 characters.
    """
    assert_linear(parse, lambda size: part * (size // len(part)))
    for finding in parse(part * 1000).findings:
        assert len(finding.message) < 300 or finding.code == "unknown-name"


def test_in_googles_dialect_only_a_comma_separates_rules() -> None:
    assert parse("noindex; nofollow", dialect=GOOGLE) == parse()
    assert parse("noindex nofollow", dialect=GOOGLE) == parse()


# Methods and attributes for spiders.


def test_rules_that_allow_the_same_are_equal() -> None:
    """Equal rules have the same hash. Rules can be pickled. The repr shows the restrictions."""
    rules = parse("max-snippet:20", "none", "nocache")
    html = b"<meta name=robots content='nofollow noindex max-snippet:20 noarchive'>"
    page_rules = IndexingRules.parse(html=html)
    assert rules == page_rules == pickle.loads(pickle.dumps(rules))
    assert hash(rules) == hash(page_rules)
    assert rules.statements != page_rules.statements
    assert rules != parse("noindex")
    assert repr(rules) == "<IndexingRules noindex, nofollow, noarchive, max-snippet:20>"
    assert repr(IndexingRules()) == "<IndexingRules all>"


def test_rules_and_preferences_cannot_be_changed() -> None:
    """Several pages can share one object of rules or preferences."""
    rules = IndexingRules.parse()
    with pytest.raises(AttributeError, match="IndexingRules cannot be changed"):
        rules.follow = False
    preferences = UsagePreferences.parse()
    with pytest.raises(AttributeError, match="UsagePreferences cannot be changed"):
        preferences.statements = ()
    assert copy(rules) == IndexingRules.parse()


def test_the_dict_has_every_rule_and_no_evidence() -> None:
    """All values can be written as JSON."""
    values = parse(
        "noai, unavailable_after: 2010-06-25T15:00:00Z, max-snippet: 9"
    ).to_dict()
    allowed = "index follow archive snippet image_index translate sitelinks_search_box odp ydir"
    assert json.loads(json.dumps(values)) == {
        **dict.fromkeys([*allowed.split(), "image_ai", "index_embedded"], True),
        "ai": False,
        "max_snippet": 9,
        "max_image_preview": None,
        "max_video_preview": None,
        "unavailable_after": "2010-06-25T15:00:00Z",
    }


def test_a_wrong_argument_raises_an_exception_but_an_empty_product_token_does_not() -> (
    None
):
    """A tag with an empty name is not for a crawler with an empty product token."""
    with pytest.raises(TypeError):
        IndexingRules.parse(b"noindex")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="time zone"):
        IndexingRules().indexable(datetime(2020, 1, 1))
    assert IndexingRules.parse(
        html=b'<meta name="" content="nofollow">', agents=""
    ).follow


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("noindex", "none"),
        ("nofollow", "nofollow"),
        ("noarchive", None),
        ("unavailable_after", "unavailable_after: 2030-01-01"),
        ("noidnex", None),
    ],
)
def test_because_returns_the_first_statement_that_denies(
    name: str, text: str | None
) -> None:
    """For unavailable_after, this is the statement with the earliest date. If nothing denies the name, the
    result is None.
    """
    dates = "unavailable_after: 2030-01-02", "unavailable_after: 2030-01-01"
    because = parse("noidnex", "nofollow, none", *dates).because(name)
    assert (because and because.text) == text


def test_the_evidence_has_the_statements_for_each_restriction() -> None:
    """The evidence for a restriction has each statement that would restrict the page on its own. Statements
    that restrict nothing, such as ``max-snippet:-1``, are not in the evidence.
    """
    evidence = parse(
        "none", "max-snippet:20, nosnippet", "max-snippet:-1, follow"
    ).evidence()
    assert {
        name: [statement.name for statement in statements]
        for name, statements in evidence.items()
    } == {
        "index": ["none"],
        "follow": ["none"],
        "index_embedded": ["none"],
        "snippet": ["nosnippet"],
        "max_snippet": ["max-snippet", "nosnippet"],
    }
    assert parse("all").evidence() == {}


# Property tests.

DATES = [
    "Friday, 25-Jun-10 15:00:00 GMT",
    "2020-09-21",
    "Wed, 03 Dec 2025 13:09:53 +0100",
]
LIMITS = st.one_of(st.just(-1), st.integers(0, 999_999_999))
PARTS = st.one_of(
    st.sampled_from(list(DENIALS)),
    LIMITS.map("max-snippet:{}".format),
    LIMITS.map("max-video-preview:{}".format),
    st.sampled_from(IMAGE_PREVIEWS).map("max-image-preview:{}".format),
    st.sampled_from(DATES).map("unavailable_after:{}".format),
)
NOISE = ["unknown", "max-snippet:many", "unavailable_after:x", "noindx"]
STATEMENTS = st.lists(st.one_of(PARTS, PARTS, st.sampled_from(NOISE)), max_size=8)
SPACES = st.text(" \t", max_size=3)


def permissiveness(rules: IndexingRules) -> list[float]:
    """Return numbers for the rules. If rules allow less, one or more of their numbers are smaller."""
    unlimited = float("inf")
    previews: list[str | None] = [*IMAGE_PREVIEWS, None]
    date = rules.unavailable_after
    return [
        *(rules.to_dict()[denied[0]] is True for denied in DENIALS.values() if denied),
        rules.index_embedded,
        unlimited if rules.max_snippet is None else rules.max_snippet,
        unlimited if rules.max_video_preview is None else rules.max_video_preview,
        previews.index(rules.max_image_preview),
        unlimited if date is None else date.timestamp(),
    ]


def check_round_trip(rules: IndexingRules, dialect: Dialect) -> None:
    """Assert that the header written from *rules* is parsed as equal rules, without findings."""
    header = rules.to_header()
    parsed = IndexingRules.of_page([header.encode()], dialect=dialect)
    assert (parsed, parsed.findings, parsed.to_header()) == (rules, (), header)


def check_headers(values: list[bytes], restriction: bytes, dialect: Dialect) -> None:
    """Assert that an additional *restriction* never allows more, that statements for another crawler have
    no effect, and that the header written from the rules is parsed as equal rules.
    """
    agents = ("mybot", "mybot-image")
    rules, stricter, with_other_crawler = (
        IndexingRules.of_page(lines, agents=agents, dialect=dialect)
        for lines in (
            values,
            [restriction, *values],
            [*values, b"otherbot: none, noai, max-snippet: 0"],
        )
    )
    check_round_trip(rules, dialect)
    pairs = zip(permissiveness(stricter), permissiveness(rules), strict=True)
    assert all(new <= old for new, old in pairs)
    assert with_other_crawler == rules


@given(STATEMENTS, PARTS, st.sampled_from([RFC9309, GOOGLE, CLASSIC]))
def test_an_additional_restriction_never_allows_more(
    statements: list[str], statement: str, dialect: Dialect
) -> None:
    """Statements for other crawlers have no effect. If the rules are written as a header with ``to_header()`` and
    parsed again, they are equal.
    """
    values = [", ".join(statements).encode()]
    permissions = {"all", "index", "follow", "indexifembedded"}
    restriction = "noindex" if statement in permissions else statement
    check_headers(values, restriction.encode(), dialect)
    check_headers(values, f"mybot: {restriction}".encode(), dialect)


@given(st.data(), STATEMENTS)
def test_the_form_of_statements_does_not_matter(
    data: st.DataObject, statements: list[str]
) -> None:
    """The form is their order, case, white space, source and division into field lines."""
    rules = parse(", ".join(statements))
    separator = data.draw(st.sampled_from([", ", " ", "\n", ",", " , "]))
    html = f"<meta name=mybot content='{separator.join(statements)}'>".encode()
    assert IndexingRules.parse(html=html, agents="mybot") == rules
    lines = [""]
    for statement in data.draw(st.permutations(statements)):
        space = data.draw(SPACES)
        cases = statement.upper(), statement.lower(), statement.title()
        written = data.draw(st.sampled_from(cases)).replace(":", f"{space}:{space}", 1)
        if data.draw(st.booleans()):
            lines.append("")
        agent = data.draw(st.sampled_from(["", "", "MyBot:"]))
        lines[-1] += f",{space}{agent}{space}{written}{space}"
    assert parse(*lines) == rules


@given(
    st.datetimes(datetime(1900, 1, 2), timezones=st.just(timezone.utc)),
    st.sampled_from([None, 0, 1, 10**9 - 1]),
)
def test_the_canonical_header_keeps_every_date_and_limit(
    date: datetime, limit: int | None
) -> None:
    values = {"unavailable_after": date, "max-snippet": limit}
    statements = [
        Statement("header", None, 1, name, name, value)
        for name, value in values.items()
    ]
    check_round_trip(IndexingRules(statements), RFC9309)
