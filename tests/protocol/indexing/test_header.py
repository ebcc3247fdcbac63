"""How X-Robots-Tag field lines are read: agents, values and findings."""

from __future__ import annotations

import pytest

from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.indexing.statements import MAX_TEXT


def read(*lines: str, agents: tuple[str, ...] = ("mybot",)) -> IndexingRules:
    return IndexingRules.parse([line.encode("latin-1") for line in lines], b"", agents)


def evidence(rules: IndexingRules) -> list[tuple[str | None, int, str]]:
    return [(each.agent, each.position, each.text) for each in rules.statements]


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
def test_scope(lines: list[str], statements: list[tuple[str | None, int, str]]) -> None:
    """An agent's scope ends at the next agent or at the end of its line."""
    assert evidence(read(*lines)) == statements


@pytest.mark.parametrize(
    "line",
    [
        "max-snippet: 5, noindex", "max-image-preview:none, noindex",
        "max-video-preview: 5, noindex",
        "unavailable_after: 25 Jun 2010 15:00:00 PST, noindex",
        "MAX-SNIPPET : 5, noindex", "max-snippet: nonsense, noindex",
        "max-snippet:, noindex", "max-snippet, noindex",
        "unavailable_after: 15:00, noindex",
        "unavailable_after: soon, 15:00:00 GMT, noindex", "noindex: yes, nofollow",
        "all: noindex", "see https://example.com/, noindex",
        "https://example.com/, noindex", ": noindex, noindex", "\xa0noindex\xa0",
        "caf\xe9, noindex", "caf\xe9: noindex, noindex", "\0, noindex", ", ,noindex,,",
        "\tNoIndex\t",
    ],
)  # fmt: skip
def test_noindex_is_not_lost(line: str) -> None:
    """No value, unknown name or empty part is taken for an agent, or hides noindex."""
    assert not read(line).index


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        (
            "unavailable_after: Friday, 25-Jun-10 15:00:00 GMT, noindex",
            ["unavailable_after: Friday, 25-Jun-10 15:00:00 GMT", "noindex"],
        ),
        (
            "unavailable_after: Friday, June 25, 2010, 3:00 PM, PST, noindex",
            ["unavailable_after: Friday, June 25, 2010, 3:00 PM, PST", "noindex"],
        ),
        # dateutil could take any of these letters for a time zone.
        (
            "unavailable_after: 25 Jun 2010 15:00:00, NONE",
            ["unavailable_after: 25 Jun 2010 15:00:00", "NONE"],
        ),
        (
            "unavailable_after: Friday, never, noindex",
            ["unavailable_after: Friday", "never", "noindex"],
        ),
        (
            "unavailable_after: 2010-06-25,unavailable_after: 2020-06-25",
            ["unavailable_after: 2010-06-25", "unavailable_after: 2020-06-25"],
        ),
    ],
)
def test_longest_date(line: str, texts: list[str]) -> None:
    """The longest run of parts that parses as a date is the date."""
    rules = read(line)
    assert [each.text for each in rules.statements] == texts


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("noindx", "unknown-name"),
        ("noindex nofollow", "unknown-name"),
        ("noindex; nofollow", "unknown-name"),
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
def test_finding(line: str, code: str) -> None:
    """A problem of a statement is a finding with the position of its field line."""
    findings = read("noindex", line).findings
    assert code in {finding.code for finding in findings}
    assert {(finding.source, finding.position) for finding in findings} == {
        ("header", 2)
    }


def test_no_findings_about_others() -> None:
    """Statements to other agents give no findings."""
    assert read("other: noindx, max-snippet: many").findings == ()
