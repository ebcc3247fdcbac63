"""Property tests of usage preferences: how statements are combined, and the cost of hostile input."""

from __future__ import annotations

import json
from time import process_time
from typing import TYPE_CHECKING

# Imported here, because otherwise the time of its lazy import would count for the first example.
import http_sf  # noqa: F401
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep import CLASSIC, GOOGLE, RFC9309, Dialect, RobotsTxt, UsagePreferences
from scrapy_rep.protocol.usage.sites import TdmRep
from scrapy_rep.protocol.usage.statements import (
    CATEGORIES,
    Signal,
    Source,
    UsageStatement,
)
from tests import effort

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = [pytest.mark.unmeasured, pytest.mark.slow]

STATEMENTS = st.builds(
    UsageStatement,
    st.sampled_from(Source),
    st.sampled_from(Signal),
    st.sampled_from([None, "*", "mybot"]),
    st.integers(0, 3),
    st.sampled_from(["a", "b"]),
    st.just("label"),
    st.sampled_from(["", *CATEGORIES]),
    st.sampled_from([True, False, None]),
    st.booleans(),
    st.booleans(),
)
PREFERENCES = st.lists(STATEMENTS, max_size=8).map(tuple).map(UsagePreferences)

# A higher number is a more restrictive value.
RANK = {None: 0, True: 1, False: 2}


def ranks(preferences: UsagePreferences) -> list[int]:
    """Return two numbers for each category of use: how restrictive *preferences* are for pages, and for images. The
    numbers are those of RANK.
    """
    return [
        RANK[preferences.get(category, image=image)]
        for category in CATEGORIES
        for image in (False, True)
    ]


@given(PREFERENCES, PREFERENCES, PREFERENCES)
def test_the_order_of_sources_changes_nothing_and_more_statements_allow_no_more(
    a: UsagePreferences, b: UsagePreferences, c: UsagePreferences
) -> None:
    """Preferences of several sources can be combined in any order and grouping. More statements never allow a category
    that was disallowed, and never make a stated preference unknown.
    """
    for combined, reordered in ((a | b, b | a), ((a | b) | c, a | (b | c))):
        assert combined == reordered
        assert set(combined.statements) == set(reordered.statements)
    expected = [max(pair) for pair in zip(ranks(a), ranks(b), strict=True)]
    assert ranks(a | b) == expected


TEXT = st.text("ab/*?$[=", max_size=5) | st.sampled_from(
    ["a%2Fb", "%5B", "?a/b", "%61*", "%/x", "a%", "%%2", "%%2A", "%C3%A9", "?a%3Fb"]
)
PATTERNS = st.lists(TEXT.map("/{}".format), min_size=1, max_size=6)


@given(PATTERNS, PATTERNS, st.sampled_from([RFC9309, GOOGLE, CLASSIC]))
def test_the_path_of_a_usage_record_matches_like_the_pattern_of_a_rule(
    patterns: list[str], paths: list[str], dialect: Dialect
) -> None:
    """Two robots.txt files have the same patterns on the same lines, one file in rules and one in usage records. For
    each URL, the same line decides in the two files.
    """
    rules, records = (
        RobotsTxt.parse(("User-agent: *\n" + "\n".join(lines)).encode(), dialect)
        for lines in (
            [f"Disallow: {pattern}" for pattern in patterns],
            [f"Content-Usage: {pattern} label=1" for pattern in patterns],
        )
    )
    for path in (*paths, *(pattern.replace("*", "b") for pattern in patterns)):
        url = "https://example.com" + path
        lines = [
            statement.position for statement in records.usage(url, "mybot").statements
        ]
        assert (lines or [0])[0] == rules.decide(url, "mybot").line


# Hostile input. Each input is far larger than what real sites send.

# The size of each input in bytes, and the limit for its processor time in seconds. The limit is far above the time that
# the input needs, and far below the time that a quadratic algorithm would take.
SIZE, SECONDS = (512_000, 5.0) if effort.is_long else (64_000, 0.5)
URL = "https://example.com/" + "a" * 2000
QUERY = "https://example.com/" + "?" * 8 + "%2F" * 13_000
GROUP = b"User-agent: *\n"
FIELDS = ("Link", "Content-Usage", "Content-Signal", "tdm-reservation", "tdm-policy")


def many(line: str) -> bytes:
    """Return many lines made of a template, with a number for ``%(i)d``."""
    count = SIZE // len(line) + 1
    return b"".join((line % {"i": i}).encode() + b"\n" for i in range(count))[:SIZE]


def tdmrep_json(locations: Iterable[str]) -> bytes:
    """Return a ``tdmrep.json`` with a rule for each location."""
    entries = [{"location": location, "tdm-reservation": 1} for location in locations]
    return json.dumps(entries).encode()[:SIZE]


ROBOTS_TXT = [
    GROUP + many("Content-Usage: train-ai=n"),
    GROUP + many("Content-Usage: /%(i)d train-ai=n"),
    GROUP + many("Content-Usage: /a*%(i)d* train-ai=n"),
    GROUP + many("Content-Usage: /*a*a*a*a*a*b%(i)06d train-ai=n"),
    GROUP + many("Content-Usage: /*?/*b%(i)d train-ai=n"),
    GROUP + b"Content-Usage: " + many("a%(i)d=1,").replace(b"\n", b""),
    GROUP + b"Content-Usage: " + b"a=(" * (SIZE // 3),
    GROUP + b"Content-Usage: " + b'a="' + b"x" * SIZE,
    GROUP + b"Content-Usage: /" + b"a" * SIZE,
    GROUP + b"Content-Signal: " + b"ai-train=no," * (SIZE // 12),
    many("Content-Signal: /%(i)d ai-train=no") + GROUP,
    GROUP + many("License: https://e.com/%(i)d"),
    many("User-agent: a%(i)d") + b"Content-Usage: train-ai=n",
    many("User-agent: *\nContent-Usage: /%(i)d train-ai=n"),
]
VALUES = [
    b"<" * 60_000, b'<a>;rel="' * 7_000, b"<a>;rel=license," * 4_000, b"<a>" + b"; " * 30_000,
    b"a=1," * 16_000, b"a=:" + b"A" * 60_000, b"a" + b";b" * 30_000, b"=" * 60_000, b"," * 60_000,
]  # fmt: skip
PAGES = [
    b"<link rel=license href=x>" * (SIZE // 25),
    b"<link " + b"a " * (SIZE // 2) + b"license",
    b"<link aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa " * (SIZE // 47) + b"license",
    b"<meta name=tdm-reservation content=1>" * (SIZE // 37),
    b"<meta name=tdm-policy content='" + b"x" * SIZE + b"'>",
    b"<link rel='license' href='" * (SIZE // 26),
]
TDMREP_JSON = [
    tdmrep_json(f"/a*{i}*" for i in range(10_000)),
    tdmrep_json(f"/{i}" for i in range(10_000)),
    tdmrep_json(f"/*{i}$" for i in range(10_000)),
    tdmrep_json(["/" + "*a" * (SIZE // 10)]),
    b"[" * SIZE,
    b'{"a":' * (SIZE // 5),
    b"[" + b"1," * (SIZE // 2) + b"1]",
]
HOSTILE = [
    (kind, text)
    for kind, texts in (
        ("robots.txt", ROBOTS_TXT),
        ("field", VALUES),
        ("page", PAGES),
        ("tdmrep.json", TDMREP_JSON),
    )
    for text in texts
]


@pytest.mark.parametrize(
    ("kind", "text"),
    HOSTILE,
    ids=[f"{kind}-{i}" for i, (kind, _) in enumerate(HOSTILE)],
)
def test_hostile_input_takes_bounded_time(kind: str, text: bytes) -> None:
    """The number and the length of the statements that are kept as evidence are bounded, too."""
    start = process_time()
    preferences = UsagePreferences()
    if kind == "robots.txt":
        robots = RobotsTxt.parse(text[:SIZE])
        for agent in ("bot", "a1"):
            for url in (URL, URL + "b", "https://example.com/1", QUERY):
                preferences = robots.usage(url, agent)
    elif kind == "field":
        preferences = UsagePreferences.parse([(name, text) for name in FIELDS * 200])
    elif kind == "page":
        preferences = UsagePreferences.parse(html=text)
    else:
        tdmrep = TdmRep.parse(text)
        for _ in range(3):
            preferences = tdmrep.usage(URL)
    assert process_time() - start < SECONDS
    assert len(preferences.statements) < 300
    assert all(len(statement.text) <= 1_024 for statement in preferences.statements)
