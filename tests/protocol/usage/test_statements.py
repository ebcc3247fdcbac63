"""Tests of usage preferences: the statements of each signal in robots.txt, headers and tags.

The sources of the cases are:

- AIPREF: the examples of draft-ietf-aipref-vocab-08 and draft-ietf-aipref-attach-05 (and examples of
  earlier revisions with the same text), and cases that follow from the text of the drafts;
- content signals: contentsignals.org and the documentation of Cloudflare;
- noai: DeviantArt, 2022;
- licences: RSL 1.0.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scrapy_rep import CLASSIC, GOOGLE, RFC9309, Dialect, RobotsTxt, UsagePreferences
from scrapy_rep.protocol.usage import statements
from scrapy_rep.protocol.usage.statements import (
    CATEGORIES,
    LABELS,
    Label,
    Signal,
    Source,
)
from tests.protocol.usage.preferences import header_usage, robots_usage, stated

# Values of header fields and records.


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # attach-05, 1.2; vocab-08, 6 and 6.1.
        ("train-ai=n", "train-ai=n"),
        ("train-ai=y, search=n", "search=n train-ai=y"),
        ("train-ai=n, ai-use=y, search=y", "ai-use=y search=y train-ai=n"),
        # vocab-08, 6.5.1: the last value of a label counts. Here, the last values are a boolean and a string, which
        # state nothing. Only the tokens y and n are valid values.
        ('train-ai=y, train-ai, search=n, search="n"', "-"),
        # vocab-08, 6.4 and 6.5.2: unknown labels and parameters are ignored.
        ("train-ai;allow=n, train-ai=y", "train-ai=y"),
        ('train-ai;has;parameters="?";', "-"),
        ('train-ai;has;parameters="?"', "-"),
        ("train-ai=n;why=x, new=y", "train-ai=n"),
        # Labels of earlier revisions (-00 to -07), since removed.
        ("ai=n, bots=n, tdm=n, train-genai=n, ai-output=n, all=n, genai=n", "-"),
        # vocab-08, 6.5: other types, other tokens.
        ("train-ai=?0, ai-use=1, search=(n)", "-"),
        ("train-ai=N, ai-use=no, search=deny", "-"),
        # vocab-08, 6.5.1: a text that cannot be parsed. Upper case in a key is also invalid.
        ("Train-AI=n", "-"),
        ("train-ai = n", "-"),
        ("train-ai=n,", "-"),
        ("train-ai=n; search=n", "train-ai=n"),  # search is a parameter
        ("train-ai=n search=n", "-"),
        ("train-ai=n, SEARCH=n", "-"),
        ("train-ai=n, search=\xff", "-"),
        ("", "-"),
        (" \t ", "-"),
        # RFC 9651, 3.2: the last duplicate wins. White space is allowed around commas.
        ("train-ai=y,\ttrain-ai=n", "train-ai=n"),
        ("train-ai=n ,  train-ai=y", "train-ai=y"),
        # A value that is too long is ignored, like an invalid value.
        ("train-ai=n" + ", a=1" * 20_000, "-"),
    ],
)
def test_content_usage_means_the_same_in_header_and_record(
    value: str, expected: str
) -> None:
    assert stated(header_usage(value)) == expected
    record = f"User-agent: *\nContent-Usage: {value}\n"
    assert stated(robots_usage(record.encode("latin-1"))) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("search=yes, ai-train=no", "search=y train-ai=n"),
        ("ai-train=no, search=yes, ai-input=yes", "ai-use=y search=y train-ai=n"),
        ("search=yes,ai-train=no", "search=y train-ai=n"),
        # A missing signal "neither grants nor restricts".
        ("search=yes", "search=y"),
        # developers.cloudflare.com, "Managed robots.txt".
        ("search=yes, ai-train=no, use=reference", "search=y train-ai=n"),
        ("use=immediate", "search=n train-ai=n"),
        ("use=full", "-"),
        ("search=yes, use=immediate", "search=n train-ai=n"),
        # Signals are parsed leniently, because there is no grammar for them.
        ("Search = YES , AI-train=No,", "search=y train-ai=n"),
        ("ai-train=no, ai-train=yes", "train-ai=n"),
        # Values without a meaning.
        ("ai-train", "-"),
        ("train-ai=no, ai-train=n, search=true", "-"),
        ("search=yes ai-train=no", "-"),
        ("", "-"),
    ],
)
def test_content_signal_means_the_same_in_header_and_record(
    value: str, expected: str
) -> None:
    body = f"User-Agent: *\nContent-Signal: {value}\nAllow: /\n"
    assert stated(robots_usage(body)) == expected
    assert stated(header_usage(value, name="Content-Signal")) == expected


# The product token that stands for a purpose, in place of a crawler.
TOKEN = "__usage_ai-training"


@pytest.mark.parametrize(
    ("body", "path", "expected", "text"),
    [
        ("User-agent: {}\nDisallow: /", "/", "train-ai=n", "Disallow: / (robots.txt, line 2)"),
        ("User-agent: {}\nDisallow: /a\nAllow: /a/b$", "/a/b", "train-ai=y", "line 3"),
        ("User-agent: {}\nDisallow: /a\nAllow: /a/b$", "/a/bc", "train-ai=n", "line 2"),
        # Without a matching rule or a group for the token, nothing is stated. The group "*" does not
        # count.
        ("User-agent: {}\nDisallow: /a", "/b", "-", ""),
        ("User-agent: {}\nDisallow:", "/b", "-", ""),
        ("User-agent: *\nAllow: /\n# {}", "/b", "-", ""),
        # The rules of this group do not affect access, and the rules of other groups do not affect
        # training.
        ("User-agent: {}\nDisallow: /\n\nUser-agent: *\nDisallow: /b", "/a", "train-ai=n", ""),
        # Nothing is stated about a URL that may not be fetched.
        ("User-agent: {}\nAllow: /\n\nUser-agent: *\nDisallow: /b", "/b", "-", ""),
        # Groups for the same token are combined, as for crawlers. A group may name both purposes and
        # crawlers.
        ("User-agent: {0}\nAllow: /\nUser-agent: x\nAllow: /\nUser-agent: {0}\nDisallow: /a", "/a",
         "train-ai=n", "line 6"),
        ("User-agent: *\nUser-agent: {}\nAllow: /a\nCrawl-delay: 1", "/a", "train-ai=y", "line 3"),
        # If other signals say something else, a statement that disallows wins.
        ("User-agent: {}\nAllow: /\nUser-agent: *\nContent-Usage: train-ai=n, search=y", "/",
         "search=y train-ai=n", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("token", [TOKEN, TOKEN.title()])
def test_the_rules_of_a_group_for_a_purpose_state_whether_a_url_may_be_used_for_it(
    body: str, path: str, expected: str, text: str, token: str
) -> None:
    robots = body.format(token)
    preferences = robots_usage(robots, path)
    assert stated(preferences) == expected
    assert text in "".join(map(str, preferences.statements))
    assert RobotsTxt.parse(robots).is_allowed("https://example.com/a", "mybot")


LINKS = """
<link rel="license" type="application/rsl+xml" href="https://e.com/l?a&amp;b">
<link rel=stylesheet href=license.css><!-- <link rel=license href=/no> -->
<LINK HREF=/cc REL='nofollow LICENSE'><p>no body tag
"""


@pytest.mark.parametrize(
    ("fields", "html", "licenses", "expected", "of_images"),
    [
        ([("X-Robots-Tag", "noindex, noai")], "", "", "train-ai=n", False),
        ([("X-Robots-Tag", "other: noindex"), ("x-robots-tag", "mybot: noai")], "", "",
         "train-ai=n", False),
        ([], "<META NAME=MyBot CONTENT='NOAI'>", "", "train-ai=n", False),
        ([], '<meta name="robots" content="noimageai">', "", "-", False),
        ([("X-Robots-Tag", "other: noai")], "", "", "-", None),
        ([], '<meta name="otherbot" content="noai">', "", "-", None),
        # Several field lines are joined, so one invalid line invalidates all (RFC 9651, 4.2).
        ([("Content-Usage", "train-ai=y"), ("Content-Usage", "train-ai=n, search=y")], "", "",
         "search=y train-ai=n", False),
        ([("Content-Usage", "train-ai=n"), ("Content-Usage", "search=")], "", "", "-", None),
        # License links are evidence and grant nothing (RSL 1.0, 4.5 and 4.6.1).
        ([("Link", '<https://e.com/1>; rel="license"; type="application/rsl+xml"'),
          ("Link", "</style.css>; rel=preload, <https://e.com/2>;REL=License;x=y"),
          ("Link", '</x>; title="rel=license, <y>; rel=license"; rel="next"')], "",
         "https://e.com/1 https://e.com/2", "-", None),
        ([], LINKS, "https://e.com/l?a&b /cc", "-", None),
        # License links are only read from the head of a page.
        ([], "<head></head><BODY><link rel=license href=/l>", "", "-", None),
        ([], "<meta name='a&b' rel=license href=/license>", "", "-", None),
        # An empty field states nothing, and is not a licence.
        ([("tdm-policy", " "), ("tdm-reservation", " "), ("Content-Usage", " ")], "", "", "-", None),
    ],
)  # fmt: skip
def test_fields_and_tags_for_everyone_and_for_the_crawler_count(
    fields: list[tuple[str, str]],
    html: str,
    licenses: str,
    expected: str,
    of_images: bool | None,
) -> None:
    """Fields and tags for other crawlers do not count. ``noimageai`` is only about images."""
    headers = [(name, value.encode()) for name, value in fields]
    preferences = UsagePreferences.parse(headers, html.encode(), "mybot")
    assert stated(preferences) == expected
    assert preferences.licenses == tuple(licenses.split())
    assert preferences.get("train-ai", image=True) is of_images
    assert bool(preferences) is (bool(licenses) or of_images is not None)
    assert all(
        statement.value is None for statement in preferences.statements if licenses
    )


# Records of robots.txt.

# The example of draft-ietf-aipref-attach-05, section 3.4, figure 2. Table 1 of the draft has the expected results.
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
# contentsignals.org, "Advanced Usage": two groups for everyone, each with another path.
TWO_PATHS = """\
User-Agent: *
Content-Signal: /about ai-train=yes, search=yes, ai-input=yes
Allow: /about

User-Agent: *
Content-Signal: /blog/ ai-train=no, search=yes, ai-input=no
Allow: /blog/
"""
# A service has prepended a block to the robots.txt of a site, so there are two groups for everyone.
PREPENDED = """\
User-agent: *
Content-Signal: search=yes,ai-train=no
Allow: /
User-agent: trainer
Disallow: /x
Content-Signal: ai-train=yes
User-agent: *
Disallow: /private/
"""
BEFORE = """\
Content-Signal: ai-train=no
Content-Signal: /a search=no
User-agent: mybot
Allow: /
Content-Signal: ai-train=yes, search=yes
"""
SPLIT = """\
User-agent: mybot
Content-Usage: train-ai=n
User-agent: a
Allow: /
User-agent: mybot
Content-Usage: /x search=n
Content-Usage: search=y
"""


@pytest.mark.parametrize(
    ("body", "agent", "path", "expected"),
    [
        (EXAMPLE, "other", "/test", "train-ai=n"),
        (EXAMPLE, "other", "/never/test", "-"),
        (EXAMPLE, "other", "/ai-ok/test", "train-ai=y"),
        (EXAMPLE, "ExampleBot", "/test", "train-ai=y"),
        (EXAMPLE, "ExampleBot", "/never/test", "train-ai=y"),
        (EXAMPLE, "ExampleBot", "/ai-ok/test", "train-ai=y"),
        (TWO_PATHS, "mybot", "/about", "ai-use=y search=y train-ai=y"),
        (TWO_PATHS, "mybot", "/blog/1", "ai-use=n search=y train-ai=n"),
        (TWO_PATHS, "mybot", "/", "-"),
        (PREPENDED, "mybot", "/", "search=y train-ai=n"),
        (PREPENDED, "mybot", "/private/", "-"),
        (PREPENDED, "trainer", "/", "train-ai=y"),
        # A signal before the first group is for everyone, and is combined with the signals of the group.
        (BEFORE, "mybot", "/", "search=y train-ai=n"),
        (BEFORE, "mybot", "/a", "search=n train-ai=y"),
        (BEFORE, "other", "/", "train-ai=n"),
        # A Content-Signal record does not end a group: it is one of the "other records" of RFC 9309,
        # 2.2.4. Like a Crawl-delay, it is for the user-agent lines directly above it.
        ("User-agent: a\nContent-Signal: ai-train=no\nUser-agent: b\nDisallow: /x", "a", "/", "train-ai=n"),
        ("User-agent: a\nContent-Signal: ai-train=no\nUser-agent: b\nDisallow: /x", "a", "/x", "-"),
        ("User-agent: a\nContent-Signal: ai-train=no\nUser-agent: b\nAllow: /", "b", "/", "-"),
        ("User-agent: a\n\nUser-agent: b\nAllow: /\nContent-Signal: ai-train=no", "a", "/", "train-ai=n"),
        # RFC 9309, 2.2.1: product tokens are case-insensitive, groups for the same crawler are merged,
        # and the group "*" does not count for a crawler that has its own group.
        ("User-agent: MYBOT\nContent-Usage: train-ai=n", "mybot", "/", "train-ai=n"),
        (SPLIT, "mybot", "/", "search=y train-ai=n"),
        ("User-agent: *\nContent-Usage: train-ai=n\nUser-agent: mybot\nDisallow:", "mybot", "/",
         "-"),
        # A record before the first group, or in another crawler's group, does not count.
        ("User-agent: a\nContent-Usage: train-ai=n", "mybot", "/", "-"),
        ("Content-Usage: train-ai=n\nUser-agent: *\nAllow: /", "mybot", "/", "-"),
        # attach-05, 3: a Content-Usage record is a rule, and ends a run of user-agent lines.
        ("User-agent: mybot\nContent-Usage: train-ai=n\nUser-agent: b\nAllow: /", "b", "/", "-"),
        ("User-agent: mybot\nUser-agent: b\nContent-Usage: train-ai=n", "b", "/", "train-ai=n"),
        # Other records do not end a group (RFC 9309, 2.2.4).
        ("User-agent: a\nCrawl-delay: 1\nUser-agent: b\nContent-Usage: train-ai=n", "a", "/",
         "train-ai=n"),
        # Field names are case-insensitive, and may have white space around them. UTF-16 is decoded.
        ("User-agent: *\n  CONTENT-usage\t:train-ai=n", "mybot", "/", "train-ai=n"),
        ("User-agent: *\nContent-Usage: train-ai=n\n".encode("utf-16"), "mybot", "/", "train-ai=n"),
        # Of several product tokens, the first that has a group is used.
        ("User-agent: b\nContent-Usage: search=n\nUser-agent: *\nContent-Usage: search=y",
         ("a", "b"), "/", "search=n"),
        ("User-agent: b\nContent-Usage: search=n\nUser-agent: *\nContent-Usage: search=y",
         ("a", "c"), "/", "search=y"),
    ],
)  # fmt: skip
def test_records_of_the_crawlers_group_count_where_it_may_fetch(
    body: str | bytes, agent: str, path: str, expected: str
) -> None:
    """Nothing is stated about a path that the crawler may not fetch."""
    preferences = robots_usage(body, path, agent)
    assert stated(preferences) == expected
    assert bool(preferences) is (expected != "-")


@pytest.mark.parametrize(
    ("records", "path", "expected"),
    [
        # attach-05, 3.1: the longest path wins, in octets of the encoded path. The order of the records
        # does not matter. A record without a path counts as shorter than all others.
        (["train-ai=n", "/ train-ai=y"], "/a", "train-ai=y"),
        (["/a/b train-ai=y", "/a train-ai=n"], "/a/b", "train-ai=y"),
        (["/a/b train-ai=y", "/a train-ai=n"], "/a/c", "train-ai=n"),
        # The record with the longer path hides the whole other record, with all its categories.
        (["train-ai=n", "/a search=y"], "/a", "search=y"),
        (["train-ai=n", "/a Search=y"], "/a", "-"),
        # Encoding as in RFC 9309, 2.2.2.
        (["/%62 train-ai=n"], "/b", "train-ai=n"),
        (["/\u30c4 train-ai=n"], "/%E3%83%84", "train-ai=n"),
        (["/100%/x train-ai=n"], "/100%/x", "train-ai=n"),
        (["/100%/x train-ai=n"], "/100%25/x", "train-ai=n"),
        (["/caf% train-ai=n"], "/caf%C3%A9", "train-ai=n"),
        (["/a?b=/c train-ai=n"], "/a?b=%2Fc", "train-ai=n"),
        # Special characters as in RFC 9309, 2.2.3.
        (["/*.pdf$ train-ai=n"], "/x/y.pdf", "train-ai=n"),
        (["/*.pdf$ train-ai=n"], "/x/y.pdf?z", "-"),
        # Records with identical or equally long paths all apply; the most restrictive value wins.
        (["/a train-ai=y", "/a train-ai=n"], "/a", "train-ai=n"),
        (["/a train-ai=y", "/%61 train-ai=n"], "/a", "train-ai=n"),
        (["/a train-ai=y", "/a search=n"], "/a", "search=n train-ai=y"),
        (["/*/b train-ai=y", "/a/* train-ai=n"], "/a/b", "train-ai=n"),
        (["/a/b* train-ai=y", "/a/b/ train-ai=n"], "/a/b/", "train-ai=n"),
        (["/a/b/ train-ai=n", "/a/b* train-ai=y"], "/a/b/", "train-ai=n"),
        (["train-ai=y", "train-ai=n"], "/a", "train-ai=n"),
        # 3.2: a path must begin with a slash, and white space ends it.
        (["a train-ai=n"], "/a", "-"),
        (["*.pdf train-ai=n"], "/x.pdf", "-"),
        (["/a\ttrain-ai=n"], "/a", "train-ai=n"),
        (["/a   train-ai=n  "], "/a", "train-ai=n"),
        (["/a"], "/a", "-"),
        (["/atrain-ai=n"], "/a", "-"),
        # 3.2: "#" ends the value.
        (["train-ai=n # please"], "/a", "train-ai=n"),
    ],
)
def test_the_records_with_the_longest_matching_path_count(
    records: list[str], path: str, expected: str
) -> None:
    body = "User-agent: *\n" + "".join(
        f"Content-Usage: {record}\n" for record in records
    )
    assert stated(robots_usage(body, path)) == expected


@pytest.mark.parametrize(
    ("records", "path", "expected"),
    [
        (
            "Content-Usage: /a train-ai=n\nContent-Usage: /a/b train-ai=y",
            "/a/b",
            "train-ai=n",
        ),
        ("Content-Usage: train-ai=n\nContent-Usage: /a train-ai=y", "/a", "train-ai=n"),
        ("\nContent-Usage: train-ai=n", "/a", "-"),
    ],
)
def test_in_the_classic_dialect_the_first_record_that_matches_counts(
    records: str, path: str, expected: str
) -> None:
    """In this dialect, an empty line ends a group."""
    preferences = robots_usage(f"User-agent: *\n{records}", path, dialect=CLASSIC)
    assert stated(preferences) == expected


FOR_EVERYONE = "License: https://e.com/all\n"
FOR_EXAMPLEBOT = "User-agent: ExampleBot\nAllow: /\nLicense: https://e.com/own\n\n"


@pytest.mark.parametrize(
    ("body", "agent", "licenses"),
    [
        # rslstandard.org/guide/robots-txt.
        (f"{FOR_EVERYONE}User-agent: Googlebot\nAllow: /", "mybot", "https://e.com/all"),
        (f"{FOR_EVERYONE}User-agent: Googlebot\nAllow: /", "googlebot", "https://e.com/all"),
        # RSL 1.0, 4.4.2 and 4.4.3: licenses in the crawler's group replace the licenses of the file.
        (f"{FOR_EVERYONE}{FOR_EXAMPLEBOT}User-agent: *\nAllow: /\n", "examplebot", "https://e.com/own"),
        (f"{FOR_EVERYONE}{FOR_EXAMPLEBOT}User-agent: *\nAllow: /\n", "mybot", "https://e.com/all"),
        (f"{FOR_EXAMPLEBOT}User-agent: *\nAllow: /\n{FOR_EVERYONE}", "mybot", "https://e.com/all"),
        # There may be several licenses, and duplicates are dropped. A license that is not an absolute
        # URI is ignored (4.4.1).
        (f"{FOR_EVERYONE}LICENSE:https://b.example/2\n{FOR_EVERYONE}User-agent: *\n", "mybot",
         "https://e.com/all https://b.example/2"),
        ("License: /license.xml\nLicense: none (public domain)", "mybot", ""),
    ],
)  # fmt: skip
def test_licences_in_the_group_replace_those_for_everyone_and_are_not_preferences(
    body: str, agent: str, licenses: str
) -> None:
    preferences = robots_usage(body, "/", agent)
    assert (" ".join(preferences.licenses), stated(preferences)) == (licenses, "-")


SITES = [
    (sources.split(", ")[0], block)
    for block in Path(__file__)
    .with_name("real.txt")
    .read_text("utf-8")
    .split("\n== ")[1:]
    for sources in block.splitlines()[:1]
]


@pytest.mark.parametrize(
    "block", [block for _, block in SITES], ids=[name for name, _ in SITES]
)
def test_the_preferences_of_real_sites_are_parsed_as_noted(block: str) -> None:
    """The sites are in the file ``real.txt``. Its first lines explain its format."""
    lines = block.splitlines()[1:]
    body = "\n".join(line for line in lines if not line.startswith("? "))
    questions = [line[2:].split(" = ") for line in lines if line.startswith("? ")]
    assert questions
    for question, expected in questions:
        agent, path = question.split()
        preferences = robots_usage(body, path, agent)
        answers = [
            *stated(preferences).split(),
            *(f"license={url}" for url in preferences.licenses),
        ]
        assert set(answers) - {"-"} == set(expected.split()) - {"-"}, question


# Evidence and combination of statements.


def test_the_deciding_statement_names_source_agent_and_line() -> None:
    """The statement also has the text of the line, the category and the value."""
    statement = robots_usage(EXAMPLE, "/ai-ok/x").because("train-ai")
    assert statement is not None
    assert statement[:5] == (
        Source.ROBOTS_TXT, Signal.CONTENT_USAGE, "*", 5, "Content-Usage: /ai-ok/ train-ai=y",
    )  # fmt: skip
    assert (statement.category, statement.value) == ("train-ai", True)
    assert robots_usage(BEFORE, "/", "other").statements[0].agent is None


@pytest.mark.parametrize("level", ["immediate", "reference", "full"])
def test_each_level_of_use_is_a_statement_about_search_and_training(level: str) -> None:
    """The level ``immediate`` disallows both. The other levels neither allow nor disallow them, but are
    statements too.
    """
    statements = robots_usage(
        f"User-Agent: *\nContent-Signal: use={level}\n"
    ).statements
    value = False if level == "immediate" else None
    evidence = [
        (statement.category, statement.value, statement.text)
        for statement in statements
    ]
    text = f"Content-Signal: use={level}"
    assert evidence == [("search", value, text), ("train-ai", value, text)]


def test_a_statement_that_disallows_wins_whatever_its_source() -> None:
    """This is required by section 5.1 of draft-ietf-aipref-vocab-08."""
    robots = robots_usage(
        "User-agent: *\nContent-Usage: train-ai=y, search=y\nContent-Signal: ai-input=no"
    )
    page = UsagePreferences.parse(
        [("Content-Usage", b"ai-use=y, search=n")], b"<meta name=robots content=noai>"
    )
    combined = robots | page
    assert stated(combined) == "ai-use=n search=n train-ai=n"
    assert combined.to_dict()["tdm"] is None
    assert [str(statement) for statement in combined.statements] == [
        *["Content-Usage: train-ai=y, search=y (robots.txt, line 2)"] * 2,
        "Content-Signal: ai-input=no (robots.txt, line 3)",
        *["Content-Usage: ai-use=y, search=n (header)"] * 2,
        "noai (meta)",
    ]
    noimageai = UsagePreferences.parse(html=b"<meta name=robots content=noimageai>")
    because = noimageai.because("train-ai", image=True)
    assert (because and because.text, noimageai.because("train-ai")) == (
        "noimageai",
        None,
    )


def test_evidence_is_bounded_and_has_the_deciding_statements() -> None:
    """Of hundreds of records for the same path, only a few are kept, among them the deciding record. Of
    a header field, only the first hundred lines are read.
    """
    body = "User-agent: *\n" + "Content-Signal: ai-train=yes\n" * 500
    preferences = robots_usage(body + "Content-Signal: ai-train=no\n")
    assert preferences.get("train-ai") is False
    assert len(preferences.statements) <= 20
    for count, expected in ((50, "train-ai=n"), (100, "-")):
        assert stated(header_usage(*["x=y"] * count, "train-ai=n")) == expected


def test_on_a_url_too_long_to_compare_every_disallowing_record_counts() -> None:
    """The URL is too long to be compared with the paths of all records. Records that allow a use do not
    count.
    """
    paths = "".join(f"Content-Usage: /*{i}z train-ai=n, ai-use=y\n" for i in range(100))
    robots = f"User-agent: *\nContent-Usage: search=y\n{paths}"
    for length, expected in ((30_000, "search=y"), (50_000, "train-ai=n")):
        assert stated(robots_usage(robots, "/" + "a" * length)) == expected


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE, CLASSIC], ids=lambda d: d.name)
def test_question_marks_and_encoded_slashes_add_no_comparisons(
    dialect: Dialect,
) -> None:
    """Only a limited number of octets is compared for a URL. A path without a wildcard is compared with
    a URL once, no matter how many question marks and encoded slashes the URL has. For a path with a
    wildcard, the length of the URL counts once, or twice if the URL has a "%".
    """
    robots = (
        "User-agent: *\nContent-Usage: /b?x train-ai=n\nContent-Usage: /a search=y\n"
    )
    url = "/a" + "?" * 1_500 + "%2F"
    assert stated(robots_usage(robots, url, dialect=dialect)) == "search=y"
    wildcards = "".join(f"Content-Usage: /*{i}?z train-ai=n\n" for i in range(600))
    assert stated(robots_usage(robots + wildcards, url, dialect=dialect)) == "search=y"


def test_preferences_that_allow_the_same_are_equal() -> None:
    """Equal preferences have the same hash. The repr shows the stated preferences. Headers that are not a
    list of pairs raise an exception.
    """
    record = robots_usage("User-agent: *\nContent-Usage: train-ai=n, x=1")
    assert header_usage("train-ai=n") == record
    assert hash(header_usage("train-ai=n")) == hash(record)
    assert header_usage("train-ai=n") not in (header_usage("train-ai=y"), "train-ai=n")
    assert (
        repr(header_usage("train-ai=n, search=y"))
        == "<UsagePreferences train-ai=n, search=y>"
    )
    assert repr(header_usage("")) == "<UsagePreferences unknown>"
    assert (bool(header_usage("")), bool(header_usage("x=1"))) == (False, True)
    with pytest.raises(TypeError, match="pairs"):
        UsagePreferences.parse(b"train-ai=n")  # type: ignore[arg-type]


# Documentation.


def test_usage_md_explains_each_purpose_as_the_code_does() -> None:
    """``docs/usage.md`` has the explanation of each purpose from the code, all values that disallow and
    allow the purpose, and the date of each source.
    """
    text = (Path(__file__).parents[3] / "docs" / "usage.md").read_text()

    def in_docs(label: Label, value: str | None) -> str:
        if label.signal is Signal.ROBOTS_TAG:
            return f"`{value}`{' (images)' if label.images else ''}"
        has_colon = label.signal in {Signal.TDM_RESERVATION, Signal.USER_AGENT}
        colon = ": " if has_colon else "="
        return f"`{label.name}{colon}{value}`"

    for category, meaning in CATEGORIES.items():
        assert f"| `{category}` | {meaning} |" in text
        ((no, yes),) = re.findall(
            rf"^\| `{category}` \| (`.*) \| (.*) \|$", text, re.MULTILINE
        )
        labels = [label for label in LABELS if category in label.categories]
        assert set(no.split(", ")) == {
            in_docs(label, label.disallows) for label in labels if label.disallows
        }
        assert set(yes.split(", ")) == {
            in_docs(label, label.allows) for label in labels if label.allows
        }
    dates = re.findall(r"\(\d{4}-\d\d-\d\d\)", statements.__doc__)
    assert len(dates) == 8
    assert [date for date in dates if date not in text] == []
