"""Tests that decisions on a robots.txt agree with the reference implementation and with Google's
published parser, and that they do not depend on earlier decisions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309
from scrapy_rep.protocol.robots import RobotsTxt
from tests.protocol.corpus import agents_for, read_corpus, urls_for
from tests.protocol.reference import Reference, Verdict, names_agent
from tests.protocol.strategies import ORIGIN, cases, urls

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robotstxt.rules import Decision

DIALECTS = [RFC9309, GOOGLE, CLASSIC]
# Dialects with combinations of fields that no built-in dialect has, but that users can create.
MIXTURES = [
    replace(RFC9309, name="index", index_html_quirk=True),
    replace(RFC9309, name="typos", misspelt_fields=True, line_limit=20),
    replace(RFC9309, name="first", rule_choice="first", merge_groups=False),
    replace(GOOGLE, name="slash", leading_slash_assumed=True, robotstxt_allowed=True),
    replace(CLASSIC, name="octets", rule_choice="most-octets", merge_groups=True),
    replace(CLASSIC, name="wild", wildcards=True, agent_match="token"),
]
Case = tuple[bytes, str, tuple[str, ...]]


def verdict(robots: RobotsTxt, url: str, agents: tuple[str, ...]) -> Verdict:
    """Return the decision of *robots* as a :data:`Verdict`, the type that the reference implementation returns."""
    decision = robots.decide(url, agents)
    assert robots.is_allowed(url, agents) is decision.allowed
    assert (decision.rule.line if decision.rule else 0) == decision.line
    return decision.allowed, decision.line, decision.agent, decision.reason.value


def expected_user_agent_line(robots: RobotsTxt, decision: Decision) -> int:
    """Return the number of the last line that names the crawler in the group of the deciding rule; 0 if
    no rule decided.
    """
    return max(
        (
            line
            for group in robots.groups
            if any(rule.line == decision.line for rule in group.rules)
            for token, line in zip(group.agents, group.lines, strict=True)
            if names_agent(token.encode(), decision.agent or "", robots.dialect)
        ),
        default=0,
    )


# pytest-twisted cannot run a test that is both generated and parametrized.
@settings(max_examples=2 * settings.default.max_examples)
@given(case=cases(), data=st.data())
def test_decisions_on_generated_files_agree_with_the_reference(
    case: Case, data: st.DataObject
) -> None:
    """In every dialect, the package and the reference implementation agree on the verdict, the line, the agent and the
    reason. The first decision after parsing is tested separately, because it is made without parsing all rules.
    """
    body, url, agents = case
    other_urls = data.draw(st.lists(urls([b"/a*b$", b"/a"]), max_size=3))
    for dialect in DIALECTS + MIXTURES:
        robots, reference = RobotsTxt.parse(body, dialect), Reference(body, dialect)
        first = RobotsTxt.parse(body, dialect).is_allowed(url, agents)
        assert first is reference.decide(url, agents)[0], dialect.name
        for next_url in (url, *other_urls, url):
            expected = reference.decide(next_url, agents)
            assert verdict(robots, next_url, agents) == expected, dialect.name
        decision = robots.decide(url, agents)
        line = robots.user_agent_line(decision)
        assert (line[0] if line else 0) == expected_user_agent_line(robots, decision)


@pytest.mark.slow
@pytest.mark.unmeasured
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
def test_decisions_on_real_files_agree_with_the_reference(dialect: Dialect) -> None:
    differences = []
    for name, body in read_corpus():
        robots, reference = RobotsTxt.parse(body, dialect), Reference(body, dialect)
        for url in urls_for(body, 16 if len(body) < 10_000 else 4):
            for agents in agents_for(body):
                actual = verdict(robots, url, agents)
                expected = reference.decide(url, agents)
                if actual != expected:
                    differences.append((name, url, agents, actual, expected))
    assert not differences, differences[:10]


# The Python port of Google's parser differs from the original for lines of a single word, for several
# blanks in place of a colon, and for characters that URL libraries write differently. So there are
# only characters here that all libraries write alike.
PATHS = st.lists(
    st.sampled_from(["/", "/", "/", "a", "b", "ab", "*", "*", "$", "%7E", "%41", "%2F", "%2f", "%3F", "?", "=", "&", ".html", "/index.html"]),
    max_size=6,
).map("".join)  # fmt: skip
LINES = st.sampled_from(
    ["User-agent: *", "user-agent: bot", "USER-AGENT : Bot/1.0", "User agent: botnews", "User-agent: * x", "User-agent: bot news", "Crawl-delay: 1", "Sitemap: https://a.example/", "# text", "", "unknown: /"]
) | st.builds(
    "{}{}{}".format,
    st.sampled_from(["Allow: ", "allow:", "Disallow: ", "Disallow: ", " DISALLOW\t: ", "Dissallow: ", "Disallows: "]),
    PATHS,
    st.sampled_from(["", " ", "# text"]),
)  # fmt: skip


@given(st.lists(LINES, max_size=9), PATHS, st.sampled_from(["bot", "botnews", "other"]))
def test_the_google_dialect_decides_as_googles_published_parser(
    lines: list[str], path: str, agent: str
) -> None:
    port = pytest.importorskip("gpyrobotstxt.robots_cc")
    body, url = "\n".join(["User-agent: *", *lines]).encode(), f"{ORIGIN}/{path}"
    expected = port.RobotsMatcher().one_agent_allowed_by_robots(body, agent, url)
    assert RobotsTxt.parse(body, GOOGLE).is_allowed(url, agent) is expected


# Independence of earlier questions.


@given(case=cases())
def test_the_order_of_questions_does_not_matter(case: Case) -> None:
    body, url, agents = case
    questions: list[Callable[[RobotsTxt], object]] = [
        lambda robots: robots.decide(url, agents),
        lambda robots: robots.crawl_delay(agents),
        lambda robots: robots.request_rate(agents),
        lambda robots: robots.pace("*"),
        lambda robots: (robots.groups, robots.sitemaps),
    ]
    for dialect in DIALECTS:
        fresh = [question(RobotsTxt.parse(body, dialect)) for question in questions]
        robots = RobotsTxt.parse(body, dialect)
        for _ in range(2):
            assert [question(robots) for question in questions] == fresh
        assert [question(robots) for question in questions[::-1]] == fresh[::-1]


@pytest.mark.parametrize("count", [1, 50, 5_000])
@pytest.mark.parametrize("path", ["/ab", "/abz", "/xab7z", f"/{'ab' * 900}z"])
def test_the_first_decision_equals_later_decisions(path: str, count: int) -> None:
    """For speed, the first decision on a file parses only the rules that can match the URL. Later decisions use all
    rules, parsed and sorted. The result is the same, even if so many rules can match that the URL is refused as too
    long to be compared with all of them.
    """
    rules = "".join(
        f"Disallow: /*ba*ababab*q{n}\nAllow: /ab{n}\n" for n in range(count)
    )
    body = f"User-agent: *\nDisallow: /*{'a*' * count}b{count}\n{rules}"
    robots, url = RobotsTxt.parse(body), ORIGIN + path
    first = robots.is_allowed(url, "bot")
    assert robots.is_allowed(url, "bot") is first is robots.decide(url, "bot").allowed


@pytest.mark.parametrize("fill", [0, 5_000])
def test_alternating_questions_for_many_crawlers_get_the_right_lines(fill: int) -> None:
    """The decisions are the same for a long file, whose text is kept compressed in memory."""
    names = [f"bot{'x' * i}" for i in range(100)]
    groups = [f"User-agent: {name}\nDisallow: /{name}$\n" for name in names]
    body = ("".join(groups) + f"#{'-' * fill}").encode()
    robots = RobotsTxt.parse(body)
    for _ in range(3):
        for i, name in enumerate(names):
            for agents in (name, [name], (name.upper(), "x")):
                assert robots.decide(f"{ORIGIN}/{name}", agents).line == 2 * i + 2
    assert robots.body == body
