"""AIPREF: the examples of draft-ietf-aipref-vocab-08 and draft-ietf-aipref-attach-05 (and
of earlier revisions that still read the same), and what follows from their text.
"""

from __future__ import annotations

import pytest

from scrapy_rep import CLASSIC, RFC9309, RobotsTxt, UsagePreferences
from scrapy_rep.protocol.usage.vocabulary import Signal, Source
from tests.protocol.usage.asking import header, robots_usage, stated

# attach-05, 3.4, figure 2.
EXAMPLE = """\
User-Agent: *
Allow: /
Disallow: /never/
Content-Usage: train-ai=n
Content-Usage: /ai-ok/ train-ai=y

User-Agent: ExampleBot
Allow: /
Content-Usage: train-ai=y
"""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # attach-05, 1.2.
        ("train-ai=n", {"train-ai": False}),
        # vocab-08, 6.
        ("train-ai=y, search=n", {"train-ai": True, "search": False}),
        # vocab-08, 6.5.1: the last value counts, and these are no tokens.
        ('train-ai=y, train-ai, search=n, search="n"', {}),
        # vocab-08, 6.5.2.
        ("train-ai;allow=n, train-ai=y", {"train-ai": True}),
        ('train-ai;has;parameters="?";', {}),
        ('train-ai;has;parameters="?"', {}),
        # vocab-08, 6.1: all three labels.
        ("train-ai=n, ai-use=y, search=y", {"train-ai": False, "ai-use": True, "search": True}),
        # vocab-08, 6.4: unknown labels and parameters are ignored.
        ("train-ai=n;why=x, new=y", {"train-ai": False}),
        # Labels of earlier revisions (-00 to -07), since removed.
        ("ai=n, bots=n, tdm=n, train-genai=n, ai-output=n, all=n, genai=n", {}),
        # vocab-08, 6.5: other types, other tokens.
        ("train-ai=?0, ai-use=1, search=(n)", {}),
        ("train-ai=N, ai-use=no, search=deny", {}),
        # vocab-08, 6.5.1: a text that does not parse, or has upper case in a key.
        ("Train-AI=n", {}),
        ("train-ai = n", {}),
        ("train-ai=n,", {}),
        ("train-ai=n; search=n", {"train-ai": False}),  # search is a parameter
        ("train-ai=n search=n", {}),
        ("train-ai=n, SEARCH=n", {}),
        ("train-ai=n, search=\xff", {}),
        ("", {}),
        (" \t ", {}),
        # RFC 9651, 3.2: the last duplicate wins, white space around commas is free.
        ("train-ai=y,\ttrain-ai=n", {"train-ai": False}),
        ("train-ai=n ,  train-ai=y", {"train-ai": True}),
    ],
)  # fmt: skip
def test_expressions(value: str, expected: dict[str, bool]) -> None:
    """An expression means the same in a header field and in a robots.txt record."""
    assert stated(header(value)) == expected
    record = f"User-agent: *\nContent-Usage: {value}\n".encode("latin-1")
    assert stated(robots_usage(record)) == expected


def test_field_lines_are_one_dictionary() -> None:
    """Several field lines are joined, so one invalid line invalidates all (RFC 9651, 4.2)."""
    assert stated(header("train-ai=y", "train-ai=n, search=y")) == {
        "train-ai": False,
        "search": True,
    }
    assert stated(header("train-ai=n", "search=", "ai-use=n")) == {}


@pytest.mark.parametrize(
    ("agent", "path", "expected"),
    [
        # attach-05, 3.4, table 1.
        ("other", "/test", {"train-ai": False}),
        ("other", "/never/test", {}),
        ("other", "/ai-ok/test", {"train-ai": True}),
        ("ExampleBot", "/test", {"train-ai": True}),
        ("ExampleBot", "/never/test", {"train-ai": True}),
        ("ExampleBot", "/ai-ok/test", {"train-ai": True}),
    ],
)
def test_example_of_robots_txt(
    agent: str, path: str, expected: dict[str, bool]
) -> None:
    assert stated(robots_usage(EXAMPLE, path, agent)) == expected


def test_evidence_of_a_record() -> None:
    statement = robots_usage(EXAMPLE, "/ai-ok/x").because("train-ai")
    assert statement is not None
    assert (statement.source, statement.signal) == (
        Source.ROBOTS_TXT,
        Signal.CONTENT_USAGE,
    )
    assert (statement.agent, statement.position) == ("*", 5)
    assert statement.text == "Content-Usage: /ai-ok/ train-ai=y"
    assert (statement.category, statement.value) == ("train-ai", True)


@pytest.mark.parametrize(
    ("records", "path", "expected"),
    [
        # attach-05, 3.1: the longest path wins, by octets of the encoded path, in any
        # order; a record without a path is shorter than any.
        (["train-ai=n", "/ train-ai=y"], "/a", {"train-ai": True}),
        (["/a/b train-ai=y", "/a train-ai=n"], "/a/b", {"train-ai": True}),
        (["/a/b train-ai=y", "/a train-ai=n"], "/a/c", {"train-ai": False}),
        # The longer path hides the whole shorter record, also its other categories.
        (["train-ai=n", "/a search=y"], "/a", {"search": True}),
        (["train-ai=n", "/a Search=y"], "/a", {}),
        # Encoding as in RFC 9309, 2.2.2.
        (["/%62 train-ai=n"], "/b", {"train-ai": False}),
        (["/\u30c4 train-ai=n"], "/%E3%83%84", {"train-ai": False}),
        (["/a%20b train-ai=n"], "/a%20b", {"train-ai": False}),
        # Special characters as in RFC 9309, 2.2.3.
        (["/*.pdf$ train-ai=n"], "/x/y.pdf", {"train-ai": False}),
        (["/*.pdf$ train-ai=n"], "/x/y.pdf?z", {}),
        # Records with identical paths all apply; the most restrictive value wins.
        (["/a train-ai=y", "/a train-ai=n"], "/a", {"train-ai": False}),
        (["/a train-ai=y", "/%61 train-ai=n"], "/a", {"train-ai": False}),
        (["/a train-ai=y", "/a search=n"], "/a", {"train-ai": True, "search": False}),
        (["/*/b train-ai=y", "/a/* train-ai=n"], "/a/b", {"train-ai": False}),
        (["/a/b* train-ai=y", "/a/*/ train-ai=n"], "/a/b/", {"train-ai": False}),
        # So do records with equally long paths, in any order.
        (["/a/b* train-ai=y", "/a/b/ train-ai=n"], "/a/b/", {"train-ai": False}),
        (["/a/b/ train-ai=n", "/a/b* train-ai=y"], "/a/b/", {"train-ai": False}),
        (["train-ai=y", "train-ai=n"], "/a", {"train-ai": False}),
        # 3.2: a path always begins with a slash, and ends with white space.
        (["a train-ai=n"], "/a", {}),
        (["*.pdf train-ai=n"], "/x.pdf", {}),
        (["/a\ttrain-ai=n"], "/a", {"train-ai": False}),
        (["/a   train-ai=n  "], "/a", {"train-ai": False}),
        (["/a"], "/a", {}),
        (["/atrain-ai=n"], "/a", {}),
        # 3.2: "#" ends the value.
        (["train-ai=n # please"], "/a", {"train-ai": False}),
    ],
)
def test_paths(records: list[str], path: str, expected: dict[str, bool]) -> None:
    body = "User-agent: *\n" + "".join(f"Content-Usage: {each}\n" for each in records)
    assert stated(robots_usage(body, path)) == expected


@pytest.mark.parametrize(
    ("body", "agent", "expected"),
    [
        # RFC 9309, 2.2.1: names ignore case, groups of one name are merged, and a
        # crawler's own group hides the group for everyone.
        ("User-agent: MYBOT\nContent-Usage: train-ai=n", "mybot", {"train-ai": False}),
        (
            (
                "User-agent: mybot\nContent-Usage: train-ai=n\nUser-agent: a\nAllow: /\n"
                "User-agent: mybot\nContent-Usage: /x search=n\nContent-Usage: search=y"
            ),
            "mybot",
            {"train-ai": False, "search": True},
        ),
        ("User-agent: *\nContent-Usage: train-ai=n\nUser-agent: mybot\nDisallow:", "mybot", {}),
        # Without a group there is no record.
        ("User-agent: a\nContent-Usage: train-ai=n", "mybot", {}),
        ("Content-Usage: train-ai=n\nUser-agent: *\nAllow: /", "mybot", {}),
        # 3: the record is a rule, and ends a run of user-agent lines.
        ("User-agent: mybot\nContent-Usage: train-ai=n\nUser-agent: b\nAllow: /", "b", {}),
        ("User-agent: mybot\nUser-agent: b\nContent-Usage: train-ai=n", "b", {"train-ai": False}),
        # Other records do not end a group (RFC 9309, 2.2.4).
        (
            "User-agent: a\nCrawl-delay: 1\nUser-agent: b\nContent-Usage: train-ai=n",
            "a",
            {"train-ai": False},
        ),
        # Field names in any case, with white space around them.
        ("User-agent: *\n  CONTENT-usage\t:train-ai=n", "mybot", {"train-ai": False}),
    ],
)  # fmt: skip
def test_groups(body: str, agent: str, expected: dict[str, bool]) -> None:
    assert stated(robots_usage(body, "/", agent)) == expected


def test_disallowed_paths_have_no_preferences() -> None:
    """Disallowed paths and missing robots.txt files have no preferences (attach-05, 3.1)."""
    body = "User-agent: *\nDisallow: /a\nAllow: /a/b\nContent-Usage: train-ai=n"
    assert robots_usage(body, "/a/c").statements == ()
    assert stated(robots_usage(body, "/a/b")) == {"train-ai": False}


def test_several_agents() -> None:
    """Of several product tokens, the first that has a group is used."""
    robots = RobotsTxt.parse(
        b"User-agent: b\nContent-Usage: search=n\nUser-agent: *\nContent-Usage: search=y"
    )
    url = "https://example.com/"
    assert robots.usage(url, ["a", "b"]).get("search") is False
    assert robots.usage(url, ("a", "c")).get("search") is True


def test_the_classic_dialect_takes_the_first_record_that_matches() -> None:
    body = "User-agent: *\nContent-Usage: /a train-ai=n\nContent-Usage: /a/b train-ai=y"
    assert stated(robots_usage(body, "/a/b", dialect=CLASSIC)) == {"train-ai": False}
    assert stated(robots_usage(body, "/a/b", dialect=RFC9309)) == {"train-ai": True}
    body = "User-agent: *\nContent-Usage: train-ai=n\nContent-Usage: /a train-ai=y"
    assert stated(robots_usage(body, "/a", dialect=CLASSIC)) == {"train-ai": False}
    body = "User-agent: *\n\nContent-Usage: train-ai=n"
    assert stated(robots_usage(body, "/a", dialect=CLASSIC)) == {}


def test_utf_16() -> None:
    body = "User-agent: *\nContent-Usage: train-ai=n\n".encode("utf-16")
    assert stated(robots_usage(body)) == {"train-ai": False}


@pytest.mark.parametrize(
    ("one", "other", "combined"),
    [
        # vocab-08, 5.1.
        ("train-ai=y", "train-ai=n", {"train-ai": False}),
        ("train-ai=y", "search=n", {"train-ai": True, "search": False}),
        ("train-ai=y", "train-ai=1", {"train-ai": True}),
        ("x=y", "", {}),
    ],
)
def test_combination(one: str, other: str, combined: dict[str, bool]) -> None:
    assert stated(header(one) | header(other)) == combined
    assert stated(header(other) | header(one)) == combined


def test_too_long_a_field_says_nothing() -> None:
    """A field that is too long is ignored, like an invalid one."""
    assert stated(header("train-ai=n" + ", a=1" * 20_000)) == {}


def test_headers_are_pairs() -> None:
    with pytest.raises(TypeError, match="pairs"):
        UsagePreferences.parse(b"train-ai=n")  # type: ignore[arg-type]


def test_equality_is_about_what_is_allowed() -> None:
    assert header("train-ai=n") == robots_usage(
        "User-agent: *\nContent-Usage: train-ai=n"
    )
    assert hash(header("train-ai=n")) == hash(header("train-ai=n, x=1"))
    assert header("train-ai=n") != header("train-ai=y")
    assert header("train-ai=n") != "train-ai=n"
    assert (
        repr(header("train-ai=n, search=y"))
        == "<UsagePreferences train-ai=n, search=y>"
    )
    assert repr(header("")) == "<UsagePreferences unknown>"
    assert not header("")
    assert header("x=1")
