"""TDMRep: the examples of the final report of 10 May 2024, and what follows from its text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scrapy_rep import UsagePreferences
from scrapy_rep.protocol.usage.sites import TdmRep
from tests.protocol.usage.asking import stated

SITE = "https://provider.com"
POLICY = f"{SITE}/policies/policy.json"
RESERVED, FREE = "tdm=n train-ai=n", "tdm=y train-ai=y"


def usage(path: str, *rules: Any) -> UsagePreferences:
    return TdmRep.parse(json.dumps(rules).encode()).usage(SITE + path)


def of(location: str, reservation: Any = 1, **more: Any) -> dict[str, Any]:
    return {"location": location, "tdm-reservation": reservation, **more}


# The second example of the section "Examples".
THREE = (
    of("/directory-a/"),
    of("/directory-b/html/", **{"tdm-policy": POLICY}),
    of("/directory-b/images/*.jpg", 0),
)


@pytest.mark.parametrize(
    ("path", "rules", "expected", "licenses"),
    [
        # The first example: a whole server.
        ("/any/where?x", (of("/"),), RESERVED, ()),
        ("/directory-a/file.pdf", THREE, RESERVED, ()),
        ("/directory-b/html/page.html", THREE, RESERVED, (POLICY,)),
        ("/directory-b/images/image.jpg", THREE, FREE, ()),
        ("/directory-b/images/image.png", THREE, "-", ()),
        ("/directory-c/", THREE, "-", ()),
        # What is no rule is passed over.
        ("/", (1, None, [], {}, {"location": 1, "tdm-reservation": 1}, of("/")), RESERVED, ()),
        ("/", ({"location": ["/"], "tdm-reservation": 1}, of("/", 0)), FREE, ()),
        ("/", ({"location": "/"}, of("/")), "-", ()),
        # A value other than 0 and 1 is unset, in the rule that matches first.
        *(("/a", (of("/a", value), of("/", 1)), expected, ())
          for value, expected in [
              (0, FREE), (1, RESERVED), (1.0, RESERVED), (2, "-"), (-1, "-"), (True, "-"),
              (False, "-"), ("1", "-"), (None, "-"), ([1], "-"), (1e999, "-"), (0.5, "-"),
          ]),
    ],
)  # fmt: skip
def test_the_first_matching_rule_decides(
    path: str, rules: Any, expected: str, licenses: tuple[str, ...]
) -> None:
    """The first rule whose location matches states whether a page may be mined."""
    preferences = usage(path, *rules)
    assert (stated(preferences), preferences.licenses) == (expected, licenses)


def test_a_statement_says_its_rule_value_and_number() -> None:
    """A statement says its rule, the value as written, and its number in the file."""
    statements = usage("/any/where?x", 1, of("/")).statements
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
        # The first match in sequence is the most specific one.
        (["/a/*", "/a/b", "/"], "/a/b", 1),
        (["/", "/a/b"], "/a/b", 1),
        (["/a/b", "/"], "/a/c", 2),
        (["/a", "/a"], "/a", 1),
        # Matching is case-sensitive, and compares encoded characters.
        (["/A"], "/a", 0),
        (["/%61"], "/a", 1),
        (["/\u30c4"], "/%E3%83%84", 1),
        (["/100%/x"], "/100%/x", 1),
        (["/100%/x"], "/100%25/x", 1),
        (["/caf%"], "/caf%C3%A9", 1),
        # A pattern is a prefix, and the query is part of the compared text.
        (["/a?b=*c"], "/a?b=1c2", 1),
        ([""], "/a", 0),
        # White space around a pattern is stripped, and no character begins a comment.
        ([" /a\t"], "/a", 1),
        ([" ", "/"], "/a", 2),
        (["/a#b"], "/ab", 0),
        (["/a#b"], "/a%23b", 1),
    ],
)
def test_a_location_matches_as_a_pattern_of_robots_txt(
    locations: list[str], path: str, number: int
) -> None:
    """A location matches as the pattern of a rule of robots.txt; the first in the file counts."""
    statements = usage(path, *map(of, locations)).statements
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
def test_a_file_that_is_no_array_states_nothing(body: bytes, is_valid: bool) -> None:
    """A file that is too long, or no array, states nothing."""
    tdmrep = TdmRep.parse(body)
    assert (tdmrep.is_valid, bool(tdmrep.usage(f"{SITE}/"))) == (is_valid, False)


def test_a_deeply_nested_value_reserves_nothing() -> None:
    """A reservation that is nested as deeply as JSON can be read, or deeper, reserves nothing, and
    raises nothing.
    """

    def read(depth: int) -> TdmRep:
        nested = "[" * depth + "]" * depth
        body = f'[{{"location": "/", "tdm-reservation": {nested}}}]'
        return TdmRep.parse(body.encode())

    deep, too_deep = 10, 200_000
    while too_deep - deep > 1:
        depth = (deep + too_deep) // 2
        deep, too_deep = (depth, too_deep) if read(depth).is_valid else (deep, depth)
    assert read(deep).usage(f"{SITE}/").get("tdm") is None


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
        # The specification does not say which of several in one place counts: the strictest does.
        (0, ["0", "1"], None, RESERVED),
        # An unset value supersedes nothing.
        (1, ["2"], "x", RESERVED),
        (0, ["1"], "", RESERVED),
        *((None, [value], value, "-") for value in ("2", "", "yes", "true", "01", "-1")),
    ],
)  # fmt: skip
def test_a_tag_overrides_a_header_which_overrides_the_file(
    file: int | None, fields: list[str], tag: str | None, expected: str
) -> None:
    """A tag overrides a header field, and that the file; what is overridden stays as evidence."""
    of_file = None if file is None else usage("/", of("/", file))
    preferences = UsagePreferences.parse(
        [("tdm-reservation", value.encode()) for value in fields],
        b"" if tag is None else f"<meta name=tdm-reservation content='{tag}'>".encode(),
        tdmrep=of_file,
    )
    assert stated(preferences) == expected
    assert file is None or "tdmrep.json" in {
        statement.source for statement in preferences.statements
    }


def test_the_example_of_the_specification_is_read_as_it_says() -> None:
    """The example of the section "TDM Metadata in HTML Content". A tag that permits mining does not
    permit the training that AIPREF disallows.
    """
    html = f"""<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
        <meta name="tdm-reservation" content="1"><meta name="tdm-policy" content="{POLICY}">
        <title>Document title</title></head><body>...</body></html>""".encode()
    preferences = UsagePreferences.parse(html=html)
    assert (stated(preferences), preferences.licenses) == (RESERVED, (POLICY,))
    fields = [("Content-Usage", b"train-ai=n"), ("tdm-reservation", b"1")]
    free = UsagePreferences.parse(fields, html.replace(b'"1"', b'"0"'))
    assert stated(free) == "tdm=y train-ai=n"
