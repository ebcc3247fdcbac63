"""TDMRep: the examples of the final report of 10 May 2024, and what follows from its text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scrapy_rep import UsagePreferences
from scrapy_rep.protocol.usage.tdmrep import TdmRep
from tests.protocol.usage.asking import stated

POLICY = "https://provider.com/policies/policy.json"
RESERVED = {"tdm": False, "train-ai": False}
FREE = {"tdm": True, "train-ai": True}


def rules(*found: Any) -> TdmRep:
    return TdmRep.parse(json.dumps(found).encode())


def of(location: str, reservation: Any = 1, **more: Any) -> dict[str, Any]:
    return {"location": location, "tdm-reservation": reservation, **more}


def test_html_example() -> None:
    """The example of the section "TDM Metadata in HTML Content"."""
    html = f"""<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
        <meta name="tdm-reservation" content="1">
        <meta name="tdm-policy" content="{POLICY}">
        <title>Document title</title></head><body>...</body></html>"""
    found = UsagePreferences.parse(html=html.encode())
    assert stated(found) == RESERVED
    assert found.licenses == (POLICY,)


def test_opt_out_of_a_whole_server() -> None:
    """The first example of the section "Examples"."""
    found = rules(of("/")).usage("https://provider.com/any/where?x")
    assert stated(found) == RESERVED
    assert str(found.statements[0]) == "/: tdm-reservation 1 (tdmrep.json, rule 1)"


@pytest.mark.parametrize(
    ("path", "expected", "licenses"),
    [
        ("/directory-a/file.pdf", RESERVED, ()),
        ("/directory-b/html/page.html", RESERVED, (POLICY,)),
        ("/directory-b/images/image.jpg", FREE, ()),
        ("/directory-b/images/image.png", {}, ()),
        ("/directory-c/", {}, ()),
    ],
)
def test_three_groups_of_files(
    path: str, expected: dict[str, bool], licenses: tuple[str, ...]
) -> None:
    """The second example of the section "Examples"."""
    found = rules(
        of("/directory-a/"),
        of("/directory-b/html/", **{"tdm-policy": POLICY}),
        of("/directory-b/images/*.jpg", 0),
    ).usage("https://provider.com" + path)
    assert stated(found) == expected
    assert found.licenses == licenses


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
def test_locations(locations: list[str], path: str, number: int) -> None:
    found = rules(*map(of, locations)).usage("https://provider.com" + path)
    assert [each.position for each in found.statements[:1]] == (
        [number] if number else []
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, FREE), (1, RESERVED), (1.0, RESERVED),
        (2, {}), (-1, {}), (True, {}), (False, {}), ("1", {}), (None, {}), ([1], {}),
        (1e999, {}), (0.5, {}),
    ],
)  # fmt: skip
def test_other_values_are_unset(value: Any, expected: dict[str, bool]) -> None:
    found = rules(of("/a", value), of("/", 1)).usage("https://provider.com/a")
    assert stated(found) == expected


@pytest.mark.parametrize("value", ["2", "", "yes", "true", "01", "-1"])
def test_other_values_of_fields_and_tags_are_unset(value: str) -> None:
    found = UsagePreferences.parse([("TDM-Reservation", value.encode())])
    assert stated(found) == {}
    html = f'<meta name="tdm-reservation" content="{value}">'.encode()
    assert stated(UsagePreferences.parse(html=html)) == {}


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{}", b"null", b"1", b"[", b'{"location": "/", "tdm-reservation": 1}',
        b" " * 512_000 + b'[{"location": "/", "tdm-reservation": 1}]', b"\xff\xfe[", b"[" * 100_000, b"[" + b"9" * 10_000 + b"]", b"<html>",
    ],
)  # fmt: skip
def test_what_is_no_array_says_nothing(body: bytes) -> None:
    assert not TdmRep.parse(body).usage("https://provider.com/")


def test_rules_that_are_none_are_passed_over() -> None:
    found = rules(
        1,
        None,
        [],
        {},
        {"location": 1, "tdm-reservation": 1},
        {"location": "/"},
        of("/"),
    )
    assert found.is_valid
    assert [
        (each.position, each.value)
        for each in found.usage("https://provider.com/").statements
    ] == [(6, None), (6, None)]
    found = rules({"location": ["/"], "tdm-reservation": 1}, of("/", 0))
    assert stated(found.usage("https://provider.com/")) == FREE


@pytest.mark.parametrize(
    ("file", "field", "tag", "expected"),
    [
        # "Processing priority": the header supersedes the file, and the tag the header.
        (1, None, None, RESERVED),
        (1, "0", None, FREE),
        (0, "1", None, RESERVED),
        (1, "1", "0", FREE),
        (0, "0", "1", RESERVED),
        (1, "0", "1", RESERVED),
        (1, None, "0", FREE),
        # An unset value supersedes nothing.
        (1, "2", "x", RESERVED),
        (0, "1", "", RESERVED),
    ],
)
def test_priority(
    file: int, field: str | None, tag: str | None, expected: dict[str, bool]
) -> None:
    found = UsagePreferences.parse(
        [] if field is None else [("tdm-reservation", field.encode())],
        b"" if tag is None else f"<meta name=tdm-reservation content='{tag}'>".encode(),
        tdmrep=rules(of("/", file)).usage("https://provider.com/"),
    )
    assert stated(found) == expected
    # Superseded statements stay in the evidence.
    assert {each.source for each in found.statements} >= {"tdmrep.json"}


def test_other_signals_are_not_superseded() -> None:
    """A tag that permits mining does not permit the training that AIPREF disallows."""
    found = UsagePreferences.parse(
        [("Content-Usage", b"train-ai=n"), ("tdm-reservation", b"1")],
        b'<meta name="tdm-reservation" content="0">',
    )
    assert stated(found) == {"tdm": True, "train-ai": False}


def test_several_in_one_place() -> None:
    """The specification does not say which of several statements in one place counts, so
    the most restrictive does.
    """
    found = UsagePreferences.parse(
        [("tdm-reservation", b"0"), ("tdm-reservation", b"1")]
    )
    assert stated(found) == RESERVED
