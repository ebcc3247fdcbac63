"""Properties of usage statements for any input."""

from __future__ import annotations

# Imported here, because the lazy import would count as time of the first example.
import http_sf  # noqa: F401
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep import CLASSIC, GOOGLE, RFC9309, Dialect, RobotsTxt, UsagePreferences
from scrapy_rep.protocol.usage.statements import UsageStatement
from scrapy_rep.protocol.usage.vocabulary import CATEGORIES, Signal, Source

pytestmark = pytest.mark.unmeasured

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
PREFERENCES = st.lists(STATEMENTS, max_size=8).map(
    lambda found: UsagePreferences(tuple(found))
)

# How restrictive an answer is.
RANK = {None: 0, True: 1, False: 2}


def outcome(found: UsagePreferences) -> list[int]:
    return [
        RANK[found.get(category, image=image)]
        for category in CATEGORIES
        for image in (False, True)
    ]


@given(PREFERENCES, PREFERENCES)
def test_combination_is_commutative(a: UsagePreferences, b: UsagePreferences) -> None:
    assert a | b == b | a
    assert set((a | b).statements) == set((b | a).statements)


@given(PREFERENCES, PREFERENCES, PREFERENCES)
def test_combination_is_associative(
    a: UsagePreferences, b: UsagePreferences, c: UsagePreferences
) -> None:
    assert (a | b) | c == a | (b | c)
    assert set(((a | b) | c).statements) == set((a | (b | c)).statements)


@given(PREFERENCES, PREFERENCES)
def test_more_statements_never_loosen(a: UsagePreferences, b: UsagePreferences) -> None:
    """One more statement never allows a disallowed category, or makes a known value unknown."""
    both = outcome(a | b)
    assert both == [max(pair) for pair in zip(outcome(a), outcome(b), strict=True)]


TEXT = st.text("ab/*?$[=", max_size=5) | st.sampled_from(
    ["a%2Fb", "%5B", "?a/b", "%61*"]
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
            [f"Disallow: {each}" for each in patterns],
            [f"Content-Usage: {each} label=1" for each in patterns],
        )
    )
    for path in (*paths, *(each.replace("*", "b") for each in patterns)):
        url = "https://example.com" + path
        counting = [each.position for each in records.usage(url, "mybot").statements]
        assert (counting or [0])[0] == rules.decide(url, "mybot").line
