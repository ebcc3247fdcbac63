"""The classic dialect: the texts of 1994 and 1996, and their examples."""

from __future__ import annotations

import pytest

from scrapy_rep.protocol.dialect import CLASSIC
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.decisions import Decision, Reason
from tests.protocol.robotstxt import asking


def ask(body: str | bytes, path: str, agents: object = "examplebot") -> Decision:
    return asking.ask(body, path, agents, CLASSIC)


def matches(pattern: str | bytes, path: str) -> bool:
    return asking.matches(pattern, path, CLASSIC)


# 1994

CYBERWORLD = """\
# robots.txt for http://www.example.com/

User-agent: *
Disallow: /cyberworld/map/ # This is an infinite virtual URL space
Disallow: /tmp/ # these will soon disappear
Disallow: /foo.html

# Cybermapper knows where to go.
User-agent: cybermapper
Disallow:
"""


@pytest.mark.parametrize(
    ("agent", "path", "allowed", "line"),
    [
        ("otherbot", "/cyberworld/map/a.html", False, 4), ("otherbot", "/", True, 0),
        ("otherbot", "/tmp/a", False, 5), ("otherbot", "/foo.html", False, 6),
        ("otherbot", "/tmp", True, 0), ("cybermapper", "/tmp/a", True, 10),
        ("CyberMapper", "/cyberworld/map/", True, 10),
    ],
)  # fmt: skip
def test_1994_examples(agent: str, path: str, allowed: bool, line: int) -> None:
    """The first two examples of 1994 decide as described, in one file."""
    decision = ask(CYBERWORLD, path, agent)
    assert (decision.allowed, decision.line) == (allowed, line)


def test_1994_go_away() -> None:
    """The third example forbids everything to every robot."""
    assert not ask("# go away\nUser-agent: *\nDisallow: /", "/").allowed


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/help", "/help.html", True), ("/help", "/help/index.html", True),
        ("/help/", "/help/index.html", True), ("/help/", "/help.html", False),
        ("/a?b", "/a?bc", True), ("help", "/help", False), ("*", "/", False),
        # No character is special.
        ("/a*", "/ab", False), ("/a*", "/a*b", True), ("/a$", "/a", False),
        ("/a$", "/a$b", True), ("/*", "/a", False),
    ],
)  # fmt: skip
def test_1994_value_is_a_beginning(pattern: str, path: str, expected: bool) -> None:
    """A rule applies to every URL that begins with its value."""
    assert matches(pattern, path) is expected


@pytest.mark.parametrize("blank", ["\n", " \n", "\t \n", "\n\n\n", "\r\n"])
def test_1994_blank_lines_separate_records(blank: str) -> None:
    """A blank line ends a record, even between a crawler and its rules."""
    body = f"User-agent: examplebot\nDisallow: /a\n{blank}Disallow: /b"
    assert not ask(body, "/a").allowed
    assert ask(body, "/b").allowed
    assert ask(f"User-agent: *\n{blank}Disallow: /", "/").reason is Reason.NO_RULE


@pytest.mark.parametrize("comment", ["#", "# text", "  # text"])
def test_1994_comment_is_no_blank_line(comment: str) -> None:
    """A line with only a comment is discarded, and ends no record."""
    body = f"User-agent: examplebot\n{comment}\nDisallow: /a\n{comment}\nDisallow: /b"
    assert [ask(body, path).line for path in ("/a", "/b")] == [3, 5]


@pytest.mark.parametrize("line", ["Unknown: /", "Sitemap: /s.xml", "Crawl-delay: 1"])
def test_1994_unknown_lines_are_ignored(line: str) -> None:
    """Unknown lines do not end a record."""
    body = f"User-agent: a\n{line}\nUser-agent: b\n{line}\nDisallow: /"
    assert not ask(body, "/", "a").allowed


def test_1994_empty_disallow_allows_all() -> None:
    """An empty Disallow allows every URL that no earlier rule disallows."""
    body = "User-agent: *\nDisallow: /a\nDisallow:\nDisallow: /"
    assert not ask(body, "/a").allowed
    decision = ask(body, "/b")
    assert decision.allowed
    assert (decision.line, decision.reason) == (3, Reason.RULE)
    assert (decision.rule.kind, decision.rule.pattern) == ("disallow", "")


def test_empty_allow_is_no_rule() -> None:
    """An empty Allow is no rule."""
    assert ask("User-agent: *\nAllow:\nDisallow: /", "/").line == 3


def test_user_agent_line_after_a_rule_begins_a_record() -> None:
    """A user-agent line after a rule begins a new record, even without a blank line."""
    body = "User-agent: a\nDisallow: /a\nUser-agent: b\nDisallow: /b"
    assert ask(body, "/b", "a").allowed
    assert ask(body, "/a", "b").allowed


# 1996, 3.2.1 The user-agent line


@pytest.mark.parametrize(
    ("value", "agent", "named"),
    [
        ("google", "googlebot", True), ("Google", "GOOGLEBOT", True),
        ("google", "MyGoogle", False), ("googlebot", "google", False),
        ("figtree", "FigTree", True), ("figtree/1.0", "FigTree", True),
        ("figtree robot", "FigTree", True), ("", "figtree", False),
        ("/", "figtree", False), ("*fig", "figtree", False), ("*", "figtree", False),
    ],
)  # fmt: skip
def test_1996_name_is_a_beginning(value: str, agent: str, named: bool) -> None:
    """A record is for crawlers whose name begins with the record's name, in any case."""
    decision = ask(f"User-agent: {value}\nDisallow: /", "/", agent)
    assert (decision.agent == agent) is named


def test_1996_first_record_of_that_name() -> None:
    """Only the first record that names the crawler is followed."""
    body = (
        "User-agent: *\nDisallow: /a\n\nUser-agent: fig\nDisallow: /b\n\n"
        "User-agent: figtree\nDisallow: /c\n\nUser-agent: fig\nDisallow: /d"
    )
    lines = [ask(body, path, "figtree").line for path in ("/a", "/b", "/c", "/d")]
    assert lines == [0, 5, 0, 0]


def test_1996_first_record_for_everyone() -> None:
    """A crawler without a record follows only the first record for everyone."""
    body = "User-agent: *\nDisallow: /a\n\nUser-agent: *\nDisallow: /b"
    assert [ask(body, path).line for path in ("/a", "/b")] == [2, 0]


def test_1996_tokens_in_order_of_preference() -> None:
    """Of several product tokens, the first that has a record is followed."""
    body = "User-agent: b\nDisallow: /b\n\nUser-agent: a\nDisallow: /a"
    assert ask(body, "/a", ["abot", "bbot"]).line == 5
    assert ask(body, "/b", ["x", "bbot", "abot"]).agent == "bbot"


def test_1996_no_record() -> None:
    """Without a record for it, a crawler may fetch everything."""
    assert ask("User-agent: x\nDisallow: /", "/").reason is Reason.NO_GROUP


# 1996, 3.2.2 The allow and disallow lines


def test_1996_first_match_wins() -> None:
    """The first matching rule decides, not the longest, nor an equal Allow."""
    rules = ["Disallow: /a", "Allow: /a/b", "Allow: /a"]
    assert ask("\n".join(["User-agent: *", *rules]), "/a/b").line == 2
    assert ask("\n".join(["User-agent: *", *rules[::-1]]), "/a/b").line == 2
    assert ask("\n".join(["User-agent: *", *rules[::-1]]), "/a/b").allowed


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/tmp", "/tmp", True), ("/tmp", "/tmp.html", True),
        ("/tmp", "/tmp/a.html", True), ("/tmp/", "/tmp", False),
        ("/tmp/", "/tmp/", True), ("/tmp/", "/tmp/a.html", True),
        ("/a%3cd.html", "/a%3cd.html", True), ("/a%3Cd.html", "/a%3cd.html", True),
        ("/a%3cd.html", "/a%3Cd.html", True), ("/a%3Cd.html", "/a%3Cd.html", True),
        ("/a%2fb.html", "/a%2fb.html", True), ("/a%2fb.html", "/a/b.html", False),
        ("/a/b.html", "/a%2fb.html", False), ("/a/b.html", "/a/b.html", True),
        ("/%7ejoe/index.html", "/~joe/index.html", True),
        ("/~joe/index.html", "/%7Ejoe/index.html", True),
        # The draft says this of every octet but "/".
        ("/a%2Fb", "/a%2fb", True), ("/%E9", "/%e9", True), ("/a%3Fb", "/a?b", True),
        ("/caf\u00e9", "/caf%C3%A9", True), ("/%2525", "/%25", False),
        ("/%zz", "/%zz", True),
    ],
)  # fmt: skip
def test_1996_table_of_encodings(pattern: str, path: str, expected: bool) -> None:
    """Octets are compared decoded, except for the slash."""
    assert matches(pattern, path) is expected


# 1996, 4 Examples

FICT = """\
# /robots.txt for http://www.fict.org/
# comments to webmaster@fict.org

User-agent: unhipbot
Disallow: /

User-agent: webcrawler
User-agent: excite
Disallow:

User-agent: *
Disallow: /org/plans.html
Allow: /org/
Allow: /serv
Allow: /~mak
Disallow: /
"""


@pytest.mark.parametrize(
    ("path", "unhipbot", "excite", "other"),
    [
        ("/", False, True, False),
        ("/index.html", False, True, False),
        ("/robots.txt", True, True, True),
        ("/server.html", False, True, True),
        ("/services/fast.html", False, True, True),
        ("/services/slow.html", False, True, True),
        ("/orgo.gif", False, True, False),
        ("/org/about.html", False, True, True),
        ("/org/plans.html", False, True, False),
        ("/%7Ejim/jim.html", False, True, False),
        ("/%7Emak/mak.html", False, True, True),
    ],
)
def test_1996_example(path: str, unhipbot: bool, excite: bool, other: bool) -> None:
    """The example decides for each crawler as its table says."""
    url = f"http://www.fict.org{path}"
    assert ask(FICT, url, "unhipbot").allowed is unhipbot
    assert ask(FICT, url, "webcrawler").allowed is excite
    assert ask(FICT, url, "excite").allowed is excite
    assert ask(FICT, url, "otherbot").allowed is other


def test_crawl_delay_is_that_of_the_first_record() -> None:
    """Crawl-delay is read from the first record only, as rules are."""
    body = b"User-agent: a\nCrawl-delay: 1\n\nUser-agent: a\nCrawl-delay: 2"
    assert RobotsTxt.parse(body, CLASSIC).crawl_delay("abot") == 1
