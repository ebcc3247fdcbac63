"""The Google dialect: Google's documentation, with its examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.dialect import GOOGLE
from scrapy_rep.protocol.robots import RobotsTxt
from tests.protocol.robotstxt import asking

if TYPE_CHECKING:
    from scrapy_rep.protocol.robotstxt.decisions import Decision


def ask(body: str | bytes, path: str, agents: object = "googlebot") -> Decision:
    return asking.ask(body, path, agents, GOOGLE)


def matches(pattern: str | bytes, path: str, kind: str = "disallow") -> bool:
    return asking.matches(pattern, path, GOOGLE, kind)


# The documentation: grouping of rules, precedence of user agents

GROUPS = """\
user-agent: a
disallow: /c

user-agent: b
disallow: /d

user-agent: e
user-agent: f
disallow: /g

user-agent: h
"""


@pytest.mark.parametrize(
    ("agent", "denied"),
    [("a", "/c"), ("b", "/d"), ("e", "/g"), ("f", "/g"), ("h", ""), ("i", "")],
)
def test_grouping(agent: str, denied: str) -> None:
    """Each crawler follows the rules after the run of user-agent lines that names it."""
    paths = ("/c", "/d", "/g")
    assert [p for p in paths if not ask(GROUPS, p, agent).allowed] == denied.split()


def test_other_rules_do_not_group() -> None:
    """A sitemap between two user-agent lines does not separate them."""
    body = (
        "user-agent: a\nsitemap: https://example.com/s.xml\nuser-agent: b\ndisallow: /"
    )
    assert not ask(body, "/", "a").allowed
    assert not ask(body, "/", "b").allowed


def test_groups_of_one_agent_are_combined() -> None:
    """Groups of the same agent are combined; those for everyone are not added."""
    body = (
        "user-agent: googlebot-news\ndisallow: /fish\n\n"
        "user-agent: *\ndisallow: /carrots\n\n"
        "user-agent: googlebot-news\ndisallow: /shrimp"
    )
    paths = ("/fish", "/carrots", "/shrimp")
    lines = [ask(body, path, "googlebot-news").line for path in paths]
    assert lines == [2, 0, 8]
    assert [ask(body, path, "otherbot").line for path in paths] == [0, 5, 0]


@pytest.mark.parametrize(
    ("agents", "line"),
    [
        (["googlebot-news", "googlebot"], 2), (["googlebot"], 6),
        (["storebot-google"], 4), (["googlebot-image", "googlebot"], 6),
        (["otherbot"], 4), (["Googlebot-News"], 2),
    ],
)  # fmt: skip
def test_precedence_of_user_agents(agents: list[str], line: int) -> None:
    """The most specific of a crawler's names that has a group is followed."""
    body = (
        "user-agent: googlebot-news\ndisallow: /\n"
        "user-agent: *\ndisallow: /\nuser-agent: googlebot\ndisallow: /"
    )
    assert ask(body, "/", agents).line == line


# The documentation: matching of paths, precedence of rules


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("/", "/ /a /a/b?c", ""),
        ("/*", "/ /a /a/b?c", ""),
        ("/$", "/", "/a /?a"),
        ("/fish",
         ("/fish /fish.html /fish/salmon.html /fishheads /fishheads/yummy.html "
         "/fish.php?id=anything"),
         "/Fish.asp /catfish /?id=fish /desert/fish"),
        ("/fish*",
         ("/fish /fish.html /fish/salmon.html /fishheads /fishheads/yummy.html "
         "/fish.php?id=anything"),
         "/Fish.asp /catfish /?id=fish /desert/fish"),
        ("/fish/",
         "/fish/ /fish/?id=anything /fish/salmon.htm",
         "/fish /fish.html /animals/fish/ /Fish/Salmon.asp"),
        ("/*.php",
         ("/index.php /filename.php /folder/filename.php "
         "/folder/filename.php?parameters /folder/any.php.file.html /filename.php/"),
         "/ /windows.PHP"),
        ("/*.php$",
         "/filename.php /folder/filename.php",
         "/filename.php?parameters /filename.php/ /filename.php5 /windows.PHP"),
        ("/fish*.php",
         "/fish.php /fishheads/catfish.php?parameters",
         "/Fish.PHP"),
    ],
)  # fmt: skip
def test_path_matching(pattern: str, matching: str, others: str) -> None:
    """The documented patterns match the documented paths, and no others."""
    for path in matching.split():
        assert matches(pattern, path), path
    for path in others.split():
        assert not matches(pattern, path), path


@pytest.mark.parametrize(
    ("path", "allow", "disallow", "allowed"),
    [
        ("/page", "/p", "/", True), ("/folder/page", "/folder", "/folder", True),
        ("/page.htm", "/page", "/*.htm", False), ("/page.php5", "/page", "/*.ph", True),
        ("/", "/$", "/", True), ("/page.htm", "/$", "/", False),
    ],
)  # fmt: skip
def test_precedence_of_rules(
    path: str, allow: str, disallow: str, allowed: bool
) -> None:
    """The longest rule wins; of two equally long rules, the less restrictive."""
    rules = [f"allow: {allow}", f"disallow: {disallow}"]
    for lines in (rules, rules[::-1]):
        decision = ask("\n".join(["user-agent: *", *lines]), path)
        assert decision.allowed is allowed
        assert decision.rule.kind == ("allow" if allowed else "disallow")


def test_crawl_delay_is_not_supported() -> None:
    """Crawl-delay has no effect."""
    robots = RobotsTxt.parse(b"User-agent: *\nCrawl-delay: 10", GOOGLE)
    assert robots.crawl_delay("googlebot") is None
