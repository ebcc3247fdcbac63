"""Tests that decisions on malicious robots.txt files and URLs, and linting such files, take bounded and
linear time.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from time import process_time
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol import request_target
from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
from scrapy_rep.protocol.linter import MAX_OF_A_CODE, lint
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.rules import MAX_COMPARED, MAX_TARGET, Reason
from tests import effort
from tests.protocol.growth import steps
from tests.protocol.strategies import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# The coverage of these tests is not measured, because other tests cover the same code.
pytestmark = pytest.mark.unmeasured

DIALECTS = [RFC9309, GOOGLE, CLASSIC]
KIB = 1_024
KIB_500 = 512_000
# The size of a long file in bytes, and the limits for its processor time in seconds. The limits are far above the time
# that any file takes on an idle machine, and far below the time that a quadratic algorithm would take.
LONG_FILE, SECONDS, SECONDS_TO_LINT = (
    (KIB_500, 5.0, 15.0) if effort.is_long else (KIB_500 // 16, 0.5, 1.5)
)
ANY = b"User-agent: *\n"


def word(number: int) -> bytes:
    """Return a different word of letters for each number."""
    return bytes(ord("a") + int(digit) for digit in str(number))


def lines(piece: bytes, size: int) -> bytes:
    """Return the piece repeated up to *size* octets. Each repetition has a different word for ``W``."""
    count = size // len(piece)
    if b"W" not in piece:
        return piece * count
    return b"".join(piece.replace(b"W", word(i)) for i in range(count))[:size]


def all_names_before_all_rules(size: int) -> bytes:
    return lines(b"User-agent: W\n", size // 2) + lines(b"Disallow: /W\n", size // 2)


def nested(size: int) -> bytes:
    """Return rules in which each pattern begins with the previous pattern."""
    count = int((2 * size) ** 0.5)
    return ANY + b"".join(b"Allow: /%b\n" % (b"a" * i) for i in range(count))[:size]


def one_rule(piece: bytes) -> Callable[[int], bytes]:
    """Return a function that makes a robots.txt of a given size, in bytes. The file has a single rule, whose pattern
    repeats *piece*.
    """
    return lambda size: ANY + b"Disallow: /" + lines(piece, size)[:-30] + b"b\n"


# Each value is octets that the file repeats, or a function that returns a file of a given size.
HOSTILE: dict[str, bytes | Callable[[int], bytes]] = {
    "all names before all rules": all_names_before_all_rules,
    "a run of the same name": lambda size: lines(ANY, size // 2) + lines(b"Disallow: /W\n", size // 2),
    "equal wildcards": lambda size: ANY + lines(b"Disallow: /*a*a*a*b\n", size),
    "different wildcards": lambda size: ANY + lines(b"Disallow: /*a*a*W*b\n", size),
    "two rules for each name": b"User-agent:W\nAllow:/*W\nAllow:/*b\n",
    "many groups and one for everyone": lambda size: ANY + b"Disallow: /a\n" + lines(b"User-agent: W\nDisallow: /W\n", size),
    "groups of one name": b"User-agent:*\nAllow:\n",
    "groups of two alternating names": b"User-agent:*\nAllow:\nUser-agent:b\nAllow:/\n",
    "groups of many names": b"User-agent:W\n\n",
    "names that begin alike": b"User-agent:" + b"a" * 200 + b"W\nAllow:/\n",
    "nested literals": nested,
    "different rules": lambda size: ANY + lines(b"disallow :/W\n ALLOW: /%7eW#\n", size),
    "fields": b"W:\n", "misspelt fields": b"DisWlow: /\n", "words": b"a b c\n", "invalid UTF-8": b"\xff\n",
    "a page": lambda size: b"<html>" + lines(b"<a:b>\n", size), "sitemaps": b"Sitemap:/\n",
    "delays": lambda size: ANY + lines(b"Crawl-delay:1\nCrawl-delay:2\n", size),
    "delays of groups": b"User-agent:*\nCrawl-delay:1\nAllow:\n\n",
    "LF": b"\n", "CR": b"\r", "one line of spaces": b" ", "one line of null bytes": b"\0", "one line of colons": b"\t:",
    "spaces in a field": lambda size: ANY + b"Disallow: /allow" + lines(b" ", size) + b":",
    "brackets in a name": lambda size: b"User-agent: " + lines(b"(", size),
    **{f"one rule of {piece!r}": one_rule(piece) for piece in (b"a", b"*a", b"/*a*a*b", b"*", b"$", b"%7e", b"%", b"\xff", b"allow ")},
}  # fmt: skip


# Files for the test of long files. For the last two, the cost of lint is not linear in the number of
# lines: lint compares rules with each other, up to a limit.
LONG = HOSTILE | {
    "long patterns": lambda size: ANY + lines(b"Disallow: /*" + b"a*" * 100 + b"zzzz*W\nAllow: /*" + b"?%2F*" * 100 + b"zzzz*W\n", size),
    "opposite rules": lambda size: ANY + lines(b"Disallow: /*?a/%2F*W?\nAllow: /*?/*bW\n", size),
}  # fmt: skip


def hostile(name: str, size: int) -> bytes:
    """Return the hostile file with this name, of about *size* octets."""
    content = LONG[name]
    return lines(content, size) if isinstance(content, bytes) else content(size)


def decide(robots: RobotsTxt, length: int, agents: Iterable[str] = ("bot",)) -> None:
    """Make each kind of decision for two URLs with paths of about *length* octets."""
    for url in (f"{ORIGIN}/{'a' * length}", f"{ORIGIN}/{'a' * length}b"):
        for agent in agents:
            robots.is_allowed(url, agent)
            robots.decide(url, agent)
            robots.crawl_delay(agent)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS, ids=attrgetter("name"))
@pytest.mark.parametrize("name", HOSTILE)
def test_the_cost_is_linear_in_the_number_of_lines(name: str, dialect: Dialect) -> None:
    """The cost is the number of Python lines that run."""
    bodies = [hostile(name, size) for size in (2 * KIB, 4 * KIB)]
    decide(RobotsTxt.parse(bodies[0], dialect), 2_000)  # Fills the caches.
    lint(bodies[0])
    half_cost, cost = (
        steps(lambda body=body: decide(RobotsTxt.parse(body, dialect), 2_000))
        for body in bodies
    )
    assert cost < 2.3 * half_cost
    if dialect is RFC9309:
        half_cost, cost = (steps(lambda body=body: lint(body)) for body in bodies)
        assert cost < 2.3 * half_cost


@pytest.mark.slow
@pytest.mark.parametrize(
    "dialect", DIALECTS[: 3 if effort.is_long else 1], ids=attrgetter("name")
)
@pytest.mark.parametrize("name", LONG)
def test_a_file_of_500_kib_is_decided_on_and_linted_in_time(
    name: str, dialect: Dialect
) -> None:
    """Decisions are made for several crawlers. The number of findings is limited. Without ``--long``, the file has only
    a sixteenth of 500 KiB.
    """
    start = process_time()
    robots = RobotsTxt.parse(
        hostile(name, LONG_FILE), replace(dialect, size_limit=2 * KIB_500)
    )
    decide(robots, 8_000, [word(number).decode() for number in (0, 4_000, 8_000)])
    assert process_time() - start < SECONDS
    if dialect is RFC9309:
        assert len(lint(robots.body, robots.dialect)) < 10 * MAX_OF_A_CODE
        assert process_time() - start < SECONDS_TO_LINT


def parse(rules: Iterable[str], dialect: Dialect = RFC9309) -> RobotsTxt:
    """Return a parsed robots.txt with *rules* for all crawlers. Three decisions have been made with the robots.txt,
    because the first decision does not use the index of the rules.
    """
    robots = RobotsTxt.parse("\n".join(["User-agent: *", *rules]), dialect)
    for _ in range(3):
        robots.decide(f"{ORIGIN}/", "bot")
    return robots


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE], ids=attrgetter("name"))
def test_the_rule_that_matches_a_long_url_is_found_among_thousands(
    dialect: Dialect,
) -> None:
    """If a URL is long and there are many rules, the package first checks whether up to four characters of each pattern
    occur in the URL. It compares the URL only with the patterns that pass. The check must not exclude the rule that
    matches.
    """
    rules = [f"Disallow: /*ab{n}q" for n in range(5_000)]
    robots = parse(
        [*rules, "Allow: /*/ab777q/*ok", "Disallow: /*?/ab5q", "Allow: /a*"], dialect
    )
    # The URL has the words of many rules without their "q". Of all rules, only "/a*" matches.
    url = f"{ORIGIN}/" + "".join(f"ab{n}" for n in range(2_500))
    line_if_encoded = 5_003 if dialect is RFC9309 else 7
    line_by_tail = {
        "": 5_004, "ab17q": 19, "ab3ab17qab4q": 19, "/ab777q/ok": 5_002, "?/ab5q": 5_003,
        "?%2Fab5q": line_if_encoded,
    }  # fmt: skip
    for tail, line in line_by_tail.items():
        decision = robots.decide(url + tail, "bot")
        assert decision.line == line
        assert decision.allowed is (line in {5_002, 5_004})
        assert robots.is_allowed(url + tail, "bot") is decision.allowed


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE], ids=attrgetter("name"))
@pytest.mark.parametrize("rule", ["/*ab{}q", "/*{}*ab*a$", "/*?{}=/*b", "/*%2Fab{}*%2f"])  # fmt: skip
def test_a_very_long_url_is_decided_fast(rule: str, dialect: Dialect) -> None:
    """The URL is refused as too long. It is not compared with the patterns that have wildcards."""
    robots = parse((f"Disallow: {rule.format(n)}" for n in range(3_000)), dialect)
    for url in ("ab" * 125_000, "/a?b" * 60_000, "%2F?b" * 50_000):
        start = process_time()
        decision = robots.decide(f"{ORIGIN}/{url}", "bot")
        assert process_time() - start < SECONDS
        assert decision.reason is Reason.TOO_LONG


def test_a_very_long_url_that_is_not_ascii_is_decided_fast() -> None:
    """Deciding on all forms of the URL, raw and percent-encoded, takes less than a second."""
    robots = parse(["Disallow: /*?q=", "Disallow: /ab"], RFC9309)
    url = f"{ORIGIN}/" + "ツ" * 1_000_000
    start = process_time()
    assert request_target.decide(robots, url, "bot").reason is Reason.TOO_LONG
    assert process_time() - start < 1


def test_a_url_beyond_the_limit_is_refused_if_a_pattern_with_a_wildcard_may_match() -> (
    None
):
    """If no pattern with a wildcard may match, the other rules decide."""
    longest, too_long = (
        f"{ORIGIN}/{'a' * size}" for size in (MAX_TARGET - 1, MAX_TARGET)
    )
    robots = parse(["Disallow: /*?q=", "Disallow: /x*y"])
    assert robots.decide(longest, "bot").reason is Reason.NO_RULE
    for url in (too_long, too_long + "?q="):
        decision = robots.decide(url, ["other", "bot"])
        assert (decision.allowed, decision.rule) == (False, None)
        assert (decision.reason, decision.agent) == (Reason.TOO_LONG, "*")
        assert not robots.is_allowed(url, "bot")
    for rules in (["Disallow: /x*y"], ["Disallow: /b"], ["Allow: /a"], []):
        assert parse(rules).decide(too_long, "bot").allowed
    assert parse(["Disallow: /aaa"]).decide(too_long, "bot").reason is Reason.RULE
    blanket = RobotsTxt.blanket(allowed=True, reason=Reason.UNAVAILABLE)
    assert blanket.is_allowed(too_long, "bot")
    no_group = RobotsTxt.parse(b"User-agent: other\nDisallow: /*a")
    assert no_group.decide(too_long, "bot").reason is Reason.NO_GROUP


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE], ids=attrgetter("name"))
def test_a_long_query_is_refused_only_if_a_pattern_has_the_same_beginning(
    dialect: Dialect,
) -> None:
    """In RFC 9309's dialect, the beginnings are also the same if a slash is encoded in the URL."""
    page, long = f"{ORIGIN}/page?", "b" * MAX_TARGET
    robots = parse(["Disallow: /page?id=*x", "Disallow: /page?to=/a*x"], dialect)
    assert robots.decide(f"{page}other={long}", "bot").reason is Reason.NO_RULE
    for beginning in ("id=", "to=/a", *(["to=%2Fa"] if dialect is RFC9309 else [])):
        decision = robots.decide(f"{page}{beginning}{long}", "bot")
        assert decision.reason is Reason.TOO_LONG
    many = parse((f"Disallow: /page?id{n}=*" for n in range(2_000)), dialect)
    assert many.is_allowed(f"{page}q={long[:2_500]}", "bot")


def test_a_url_that_needs_too_many_comparisons_is_refused() -> None:
    """The rules have many patterns that match parts of a long URL."""
    robots = parse(f"Disallow: /*{n:04}*{n:04}*z" for n in range(2_000))
    words = "".join(f"{n:04}" for n in range(2_000)) * 2
    assert len(words) * 2_000 > MAX_COMPARED
    decision = robots.decide(f"{ORIGIN}/{words}", "bot")
    assert (decision.allowed, decision.reason) == (False, Reason.TOO_LONG)
    assert not robots.is_allowed(f"{ORIGIN}/{words}", "bot")
    assert robots.is_allowed(f"{ORIGIN}/{words[:800]}", "bot")
