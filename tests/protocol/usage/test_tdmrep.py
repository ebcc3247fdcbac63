"""Tests of TDMRep: the examples of its final report of 10 May 2024, and cases that follow from the
report.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from scrapy_rep import UsagePreferences
from scrapy_rep.protocol.usage.sites import TdmRep
from tests.protocol.usage.preferences import stated

SITE = "https://provider.com"
POLICY = f"{SITE}/policies/policy.json"
RESERVED, FREE = "tdm=n train-ai=n", "tdm=y train-ai=y"


def usage(path: str, *rules: Any) -> UsagePreferences:
    """Return the preferences for a path of SITE with these rules in its ``tdmrep.json``."""
    return TdmRep.parse(json.dumps(rules).encode()).usage(SITE + path)


def rule(location: str, reservation: Any = 1, **members: Any) -> dict[str, Any]:
    """Return a rule of a ``tdmrep.json``."""
    return {"location": location, "tdm-reservation": reservation, **members}


# The second example in the section "Examples" of the TDMRep report.
THREE_RULES = (
    rule("/directory-a/"),
    rule("/directory-b/html/", **{"tdm-policy": POLICY}),
    rule("/directory-b/images/*.jpg", 0),
)


@pytest.mark.parametrize(
    ("path", "rules", "expected", "licenses"),
    [
        # The first example in the section "Examples" of the TDMRep report: one rule for a whole server.
        ("/any/where?x", (rule("/"),), RESERVED, ()),
        ("/directory-a/file.pdf", THREE_RULES, RESERVED, ()),
        ("/directory-b/html/page.html", THREE_RULES, RESERVED, (POLICY,)),
        ("/directory-b/images/image.jpg", THREE_RULES, FREE, ()),
        ("/directory-b/images/image.png", THREE_RULES, "-", ()),
        ("/directory-c/", THREE_RULES, "-", ()),
        # Values that are not rules are skipped.
        ("/", (1, None, [], {}, {"location": 1, "tdm-reservation": 1}, rule("/")), RESERVED, ()),
        ("/", ({"location": ["/"], "tdm-reservation": 1}, rule("/", 0)), FREE, ()),
        ("/", ({"location": "/"}, rule("/")), "-", ()),
        # A reservation other than 0 and 1 is unset. The next rule does not count, although it matches.
        *(("/a", (rule("/a", value), rule("/", 1)), expected, ())
          for value, expected in [
              (0, FREE), (1, RESERVED), (1.0, RESERVED), (2, "-"), (-1, "-"), (True, "-"),
              (False, "-"), ("1", "-"), (None, "-"), ([1], "-"), (1e999, "-"), (0.5, "-"),
          ]),
    ],
)  # fmt: skip
def test_the_first_matching_rule_decides(
    path: str, rules: Any, expected: str, licenses: tuple[str, ...]
) -> None:
    """A rule matches by its location, and states whether pages may be mined."""
    preferences = usage(path, *rules)
    assert (stated(preferences), preferences.licenses) == (expected, licenses)


def test_a_statement_has_the_location_value_and_number_of_its_rule() -> None:
    statements = usage("/any/where?x", 1, rule("/")).statements
    assert str(statements[0]) == "/: tdm-reservation 1 (tdmrep.json, rule 2)"


@pytest.mark.parametrize(
    ("locations", "path", "number"),
    [
        # "Use of regular expressions", with the errors in its table corrected.
        (["/this/path/exactly$"], "/this/path/exactly", 1),
        (["/this/path/exactly$"], "/this/path/exactly/not", 0),
        (["/this/*/then"], "/this/and/then", 1),
        (["/path/foo-%24"], "/path/foo-$", 1),
        (["/path/foo-%24"], "/path/foo-", 0),
        # The first rule that matches counts, even if a later rule is more specific.
        (["/a/*", "/a/b", "/"], "/a/b", 1),
        (["/", "/a/b"], "/a/b", 1),
        (["/a/b", "/"], "/a/c", 2),
        (["/a", "/a"], "/a", 1),
        # Matching is case-sensitive. Location and path are compared after normalization: "%61" is "a", and a
        # character such as "\u30c4" is percent-encoded.
        (["/A"], "/a", 0),
        (["/%61"], "/a", 1),
        (["/\u30c4"], "/%E3%83%84", 1),
        (["/100%/x"], "/100%/x", 1),
        (["/100%/x"], "/100%25/x", 1),
        (["/caf%"], "/caf%C3%A9", 1),
        # A pattern is a prefix, and the query is part of the compared text.
        (["/a?b=*c"], "/a?b=1c2", 1),
        ([""], "/a", 0),
        # White space around a pattern is stripped. A "#" does not begin a comment.
        ([" /a\t"], "/a", 1),
        ([" ", "/"], "/a", 2),
        (["/a#b"], "/ab", 0),
        (["/a#b"], "/a%23b", 1),
    ],
)
def test_a_location_matches_like_a_pattern_of_robots_txt(
    locations: list[str], path: str, number: int
) -> None:
    """But the first location that matches counts, not the longest as in robots.txt."""
    statements = usage(path, *map(rule, locations)).statements
    assert {statement.position for statement in statements} == (
        {number} if number else set()
    )


@pytest.mark.parametrize(
    ("body", "is_valid"),
    [
        (b"", False), (b"{}", False), (b"null", False), (b"1", False), (b"[", False),
        (b'{"location": "/", "tdm-reservation": 1}', False), (b"\xff\xfe[", False),
        (b" " * 512_000 + b'[{"location": "/", "tdm-reservation": 1}]', False),
        (b"[" * 100_000, False), (b"[" + b"9" * 10_000 + b"]", False), (b"<html>", False),
        (b"[]", True),
    ],
)  # fmt: skip
def test_a_file_that_is_not_an_array_or_too_long_states_nothing(
    body: bytes, is_valid: bool
) -> None:
    """An empty array states nothing, either, but is valid."""
    tdmrep = TdmRep.parse(body)
    assert (tdmrep.is_valid, bool(tdmrep.usage(f"{SITE}/"))) == (is_valid, False)


def test_a_deeply_nested_value_reserves_nothing() -> None:
    """The test uses the deepest value that the JSON parser can read. Deeper values, which the parser
    cannot read, raise no exception.
    """

    def parse(depth: int) -> TdmRep:
        nested = "[" * depth + "]" * depth
        body = f'[{{"location": "/", "tdm-reservation": {nested}}}]'
        return TdmRep.parse(body.encode())

    deepest, too_deep = 10, 200_000
    while too_deep - deepest > 1:
        depth = (deepest + too_deep) // 2
        if parse(depth).is_valid:
            deepest = depth
        else:
            too_deep = depth
    assert parse(deepest).usage(f"{SITE}/").get("tdm") is None


@pytest.mark.parametrize(
    ("file", "fields", "tag", "expected"),
    [
        # "Processing priority": the header supersedes the file, and the tag the header.
        (1, [], None, RESERVED),
        (1, ["0"], None, FREE),
        (0, ["1"], None, RESERVED),
        (1, ["1"], "0", FREE),
        (0, ["0"], "1", RESERVED),
        (1, ["0"], "1", RESERVED),
        (1, [], "0", FREE),
        # The specification does not say which of several header fields counts. Here, the strictest does.
        (0, ["0", "1"], None, RESERVED),
        # A value other than "0" and "1" counts as unset, and supersedes nothing.
        (1, ["2"], "x", RESERVED),
        (0, ["1"], "", RESERVED),
        *((None, [value], value, "-") for value in ("2", "", "yes", "true", "01", "-1")),
    ],
)  # fmt: skip
def test_a_tag_overrides_a_header_which_overrides_the_file(
    file: int | None, fields: list[str], tag: str | None, expected: str
) -> None:
    """Overridden statements stay in the evidence."""
    file_usage = None if file is None else usage("/", rule("/", file))
    preferences = UsagePreferences.parse(
        [("tdm-reservation", value.encode()) for value in fields],
        b"" if tag is None else f"<meta name=tdm-reservation content='{tag}'>".encode(),
        tdmrep=file_usage,
    )
    assert stated(preferences) == expected
    assert file is None or "tdmrep.json" in {
        statement.source for statement in preferences.statements
    }


def test_the_html_example_of_the_specification_reserves_mining_and_has_a_policy() -> (
    None
):
    """The example is in the section "TDM Metadata in HTML Content". A tag that permits mining does not
    permit training if a Content-Usage header disallows it.
    """
    html = f"""<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
        <meta name="tdm-reservation" content="1"><meta name="tdm-policy" content="{POLICY}">
        <title>Document title</title></head><body>...</body></html>""".encode()
    preferences = UsagePreferences.parse(html=html)
    assert (stated(preferences), preferences.licenses) == (RESERVED, (POLICY,))
    fields = [("Content-Usage", b"train-ai=n"), ("tdm-reservation", b"1")]
    free = UsagePreferences.parse(fields, html.replace(b'"1"', b'"0"'))
    assert stated(free) == "tdm=y train-ai=n"
