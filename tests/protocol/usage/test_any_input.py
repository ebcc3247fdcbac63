"""Usage statements of any input: how they are combined, and what hostile ones may cost."""

from __future__ import annotations

import json
from time import process_time
from typing import TYPE_CHECKING

# Imported here, because the lazy import would count as time of the first example.
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

# How restrictive an answer is.
RANK = {None: 0, True: 1, False: 2}


def outcome(preferences: UsagePreferences) -> list[int]:
    return [
        RANK[preferences.get(category, image=image)]
        for category in CATEGORIES
        for image in (False, True)
    ]


@given(PREFERENCES, PREFERENCES, PREFERENCES)
def test_the_order_of_sources_changes_nothing_and_more_never_allows_more(
    a: UsagePreferences, b: UsagePreferences, c: UsagePreferences
) -> None:
    """The order and the grouping of sources change nothing. One more statement never allows a
    disallowed category, or makes a known value unknown.
    """
    for combined, other in ((a | b, b | a), ((a | b) | c, a | (b | c))):
        assert combined == other
        assert set(combined.statements) == set(other.statements)
    both = outcome(a | b)
    assert both == [max(pair) for pair in zip(outcome(a), outcome(b), strict=True)]


TEXT = st.text("ab/*?$[=", max_size=5) | st.sampled_from(
    ["a%2Fb", "%5B", "?a/b", "%61*", "%/x", "a%", "%%2", "%%2A", "%C3%A9", "?a%3Fb"]
)
PATTERNS = st.lists(TEXT.map("/{}".format), min_size=1, max_size=6)


@given(PATTERNS, PATTERNS, st.sampled_from([RFC9309, GOOGLE, CLASSIC]))
def test_a_path_counts_as_in_a_rule(
    patterns: list[str], paths: list[str], dialect: Dialect
) -> None:
    """Of several records, the one counts whose path would decide if they were rules."""
    rules, records = (
        RobotsTxt.parse(("User-agent: *\n" + "\n".join(lines)).encode(), dialect)
        for lines in (
            [f"Disallow: {pattern}" for pattern in patterns],
            [f"Content-Usage: {pattern} label=1" for pattern in patterns],
        )
    )
    for path in (*paths, *(pattern.replace("*", "b") for pattern in patterns)):
        url = "https://example.com" + path
        counting = [
            pattern.position for pattern in records.usage(url, "mybot").statements
        ]
        assert (counting or [0])[0] == rules.decide(url, "mybot").line


# Hostile input: each is far more than any site sends.

# The size of each input, and far more seconds than it needs, but far less than a quadratic one would
# take: an eighth of the size would take it a sixty-fourth of the time.
SIZE, SECONDS = (512_000, 5.0) if effort.is_long else (64_000, 0.5)
URL = "https://example.com/" + "a" * 2000
QUERY = "https://example.com/" + "?" * 8 + "%2F" * 13_000
GROUP = b"User-agent: *\n"
FIELDS = ("Link", "Content-Usage", "Content-Signal", "tdm-reservation", "tdm-policy")


def many(line: str) -> bytes:
    count = SIZE // len(line) + 1
    return b"".join((line % {"i": i}).encode() + b"\n" for i in range(count))[:SIZE]


def rules(locations: Iterable[str]) -> bytes:
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
    rules(f"/a*{i}*" for i in range(10_000)),
    rules(f"/{i}" for i in range(10_000)),
    rules(f"/*{i}$" for i in range(10_000)),
    rules(["/" + "*a" * (SIZE // 10)]),
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
    """Whatever a site sends is read in bounded time, and its evidence is bounded."""
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
        read = TdmRep.parse(text)
        for _ in range(3):
            preferences = read.usage(URL)
    assert process_time() - start < SECONDS
    assert len(preferences.statements) < 300
    assert all(len(statement.text) <= 1_024 for statement in preferences.statements)
