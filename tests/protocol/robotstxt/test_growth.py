"""How the cost of parsing and deciding grows, counted in steps rather than measured in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
from scrapy_rep.protocol.robots import RobotsTxt
from tests.protocol.growth import steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

pytestmark = pytest.mark.unmeasured

DIALECTS = pytest.mark.parametrize(
    "dialect", [RFC9309, GOOGLE, CLASSIC], ids=lambda d: d.name
)
LONG = "https://example.com/" + "a" * 2000


def ask(robots: RobotsTxt, urls: Sequence[str], agent: str = "bot") -> None:
    for url in urls:
        robots.is_allowed(url, agent)
        robots.decide(url, agent)


def literals(count: int) -> list[str]:
    return [f"Disallow: /{n % 10}/{n % 100 // 10}/{n // 100}" for n in range(count)]


def user_agents_over_rules(count: int) -> list[str]:
    names = ["User-agent: " + "ab"[n % 2] * (n % 50) for n in range(count)]
    return [*names, "User-agent: bot", *literals(count)]


def groups_of_one_agent(count: int) -> list[str]:
    return ["User-agent: bot", "Disallow: /a", "User-agent: x", "Allow: /b"] * count


def runs_for_one_agent(count: int) -> list[str]:
    return ["User-agent: bot"] * count + ["Sitemap: /"] * count + literals(count)


def empty_groups(count: int) -> list[str]:
    return ["User-agent: bot", "Allow:"] * count


def wildcards(count: int) -> list[str]:
    return ["User-agent: bot", *[f"Disallow: /*a*a*{n}b" for n in range(count)]]


def one_long_rule(count: int) -> list[str]:
    return ["User-agent: bot", "Disallow: /" + "*a" * count]


def nested_literals(count: int) -> list[str]:
    return ["User-agent: bot", *["Allow: /" + "a" * (n % 200) for n in range(count)]]


def blank_lines(count: int) -> list[str]:
    return ["User-agent: bot", "", "User-agent: bot", "Disallow: /a", ""] * count


def rules_unlike_each_other(count: int) -> list[str]:
    kinds = ("Disallow: ", "disallow :", "Allow:", " ALLOW: ", "#", "Disallow:/%7e")
    return ["User-agent: bot", *[f"{kinds[n % 6]}/{n}" for n in range(count)]]


@DIALECTS
@pytest.mark.parametrize(
    "lines",
    [
        user_agents_over_rules, groups_of_one_agent, runs_for_one_agent, empty_groups,
        wildcards, one_long_rule, nested_literals, blank_lines, rules_unlike_each_other,
    ],
)  # fmt: skip
def test_twice_the_file_takes_twice_the_steps(
    lines: Callable[[int], list[str]], dialect: Dialect
) -> None:
    """Parsing and deciding take linear time, whatever is in the file."""

    def read(count: int) -> Callable[[], object]:
        body = "\n".join(lines(count)).encode()

        def task() -> None:
            robots = RobotsTxt.parse(body, dialect)
            ask(robots, [LONG, LONG + "b"])
            robots.crawl_delay("bot")

        return task

    read(1)()  # The first call compiles the regular expressions.
    assert steps(read(1_000)) <= 2.2 * steps(read(500))
