"""Whatever was asked before, and in whatever order, each question gets its own answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309
from scrapy_rep.protocol.robots import RobotsTxt
from tests.protocol.strategies import ORIGIN, cases

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.unmeasured


@pytest.mark.parametrize("count", [1, 50, 5_000])
@pytest.mark.parametrize("path", ["/ab", "/abz", "/xab7z", f"/{'ab' * 900}z"])
def test_the_first_answer_is_that_of_all_rules(path: str, count: int) -> None:
    """The first answer, from the rules that may match, is that of later ones, also if so many
    may match that the URL is too long to compare with all.
    """
    rules = "".join(
        f"Disallow: /*ba*ababab*q{n}\nAllow: /ab{n}\n" for n in range(count)
    )
    body = f"User-agent: *\nDisallow: /*{'a*' * count}b{count}\n{rules}"
    robots, url = RobotsTxt.parse(body), ORIGIN + path
    first = robots.is_allowed(url, "bot")
    assert robots.is_allowed(url, "bot") is first is robots.decide(url, "bot").allowed


@given(tail=st.binary(max_size=200), fill=st.sampled_from((0, 1000, 5000)))
def test_a_packed_body_is_the_same(tail: bytes, fill: int) -> None:
    """A body that is kept compressed is unchanged, and still answers for other crawlers."""
    body = b"User-agent: a\nDisallow: /a\n# %b\nUser-agent: b\nDisallow: /b\n" % (
        b"-" * fill
    )
    robots = RobotsTxt.parse(body + tail)
    groups, sitemaps = robots.groups, robots.sitemaps
    for _ in range(3):
        assert not robots.is_allowed(f"{ORIGIN}/a", "a")
    assert robots.body == body + tail
    assert (robots.groups, robots.sitemaps) == (groups, sitemaps)
    assert robots.decide(f"{ORIGIN}/b", "b").line == 5
    assert robots.decide(f"{ORIGIN}/a", ["a"]).line == 2


def test_many_crawlers_ask_in_turns() -> None:
    """Alternating questions of several agents each get their own answers."""
    names = [f"bot{'x' * i}" for i in range(100)]
    groups = [f"User-agent: {name}\nDisallow: /{name}$\n" for name in names]
    robots = RobotsTxt.parse("".join(groups).encode())
    for _ in range(3):
        for i, name in enumerate(names):
            for agents in (name, [name], (name.upper(), "x")):
                assert robots.decide(f"{ORIGIN}/{name}", agents).line == 2 * i + 2


@given(case=cases())
def test_the_order_of_questions_does_not_matter(
    case: tuple[bytes, str, tuple[str, ...]],
) -> None:
    """The order of questions does not change the answers."""
    body, url, agents = case
    questions: list[Callable[[RobotsTxt], object]] = [
        lambda robots: robots.decide(url, agents),
        lambda robots: robots.crawl_delay(agents),
        lambda robots: robots.request_rate(agents),
        lambda robots: robots.visit_time("*"),
        lambda robots: robots.groups,
        lambda robots: robots.sitemaps,
    ]
    for dialect in (RFC9309, GOOGLE, CLASSIC):
        fresh = [question(RobotsTxt.parse(body, dialect)) for question in questions]
        robots = RobotsTxt.parse(body, dialect)
        for _ in range(2):
            assert [question(robots) for question in questions] == fresh
        assert [question(robots) for question in questions[::-1]] == fresh[::-1]
