"""Malicious files and URLs: to decide on them and to lint them takes bounded, linear time."""

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

# Other tests cover the code that these files run through.
pytestmark = pytest.mark.unmeasured

DIALECTS = [RFC9309, GOOGLE, CLASSIC]
KIB = 1_024
KIB_500 = 512_000
# Far more than any file takes on an idle machine, far less than a quadratic one would: a sixteenth of
# the file would take it a 256th of the time.
LONG_FILE, SECONDS, SECONDS_TO_LINT = (
    (KIB_500, 5.0, 15.0) if effort.is_long else (KIB_500 // 16, 0.5, 1.5)
)
ANY = b"User-agent: *\n"


def word(number: int) -> bytes:
    """Return a different word of letters for each number."""
    return bytes(ord("a") + int(digit) for digit in str(number))


def lines(piece: bytes, size: int) -> bytes:
    """Repeat the piece up to this size, with a different word for each ``W``."""
    count = size // len(piece)
    if b"W" not in piece:
        return piece * count
    return b"".join(piece.replace(b"W", word(i)) for i in range(count))[:size]


def names_over_rules(size: int) -> bytes:
    return lines(b"User-agent: W\n", size // 2) + lines(b"Disallow: /W\n", size // 2)


def nested(size: int) -> bytes:
    count = int((2 * size) ** 0.5)
    return ANY + b"".join(b"Allow: /%b\n" % (b"a" * i) for i in range(count))[:size]


def one_rule(piece: bytes) -> Callable[[int], bytes]:
    return lambda size: ANY + b"Disallow: /" + lines(piece, size)[:-30] + b"b\n"


# A file that repeats these octets, or a function of its size.
HOSTILE: dict[str, bytes | Callable[[int], bytes]] = {
    "names over rules": names_over_rules,
    "runs of one name": lambda size: lines(ANY, size // 2) + lines(b"Disallow: /W\n", size // 2),
    "wildcards alike": lambda size: ANY + lines(b"Disallow: /*a*a*a*b\n", size),
    "wildcards unlike": lambda size: ANY + lines(b"Disallow: /*a*a*W*b\n", size),
    "two rules a name": b"User-agent:W\nAllow:/*W\nAllow:/*b\n",
    "groups beside one for all": lambda size: ANY + b"Disallow: /a\n" + lines(b"User-agent: W\nDisallow: /W\n", size),
    "groups of one name": b"User-agent:*\nAllow:\n",
    "groups of two names in turns": b"User-agent:*\nAllow:\nUser-agent:b\nAllow:/\n",
    "groups of many names": b"User-agent:W\n\n",
    "names that begin alike": b"User-agent:" + b"a" * 200 + b"W\nAllow:/\n",
    "nested literals": nested,
    "rules unlike each other": lambda size: ANY + lines(b"disallow :/W\n ALLOW: /%7eW#\n", size),
    "fields": b"W:\n", "fields like others": b"DisWlow: /\n", "words": b"a b c\n", "no UTF-8": b"\xff\n",
    "a page": lambda size: b"<html>" + lines(b"<a:b>\n", size), "sitemaps": b"Sitemap:/\n",
    "delays": lambda size: ANY + lines(b"Crawl-delay:1\nCrawl-delay:2\n", size),
    "delays of groups": b"User-agent:*\nCrawl-delay:1\nAllow:\n\n",
    "LF": b"\n", "CR": b"\r", "one line of spaces": b" ", "one line of null bytes": b"\0", "one line of colons": b"\t:",
    "spaces in a field": lambda size: ANY + b"Disallow: /allow" + lines(b" ", size) + b":",
    "brackets in a name": lambda size: b"User-agent: " + lines(b"(", size),
    **{f"one rule of {piece!r}": one_rule(piece) for piece in (b"a", b"*a", b"/*a*a*b", b"*", b"$", b"%7e", b"%", b"\xff", b"allow ")},
}  # fmt: skip


# Of these, lint compares up to a number of rules with each other.
LONG = HOSTILE | {
    "long patterns": lambda size: ANY + lines(b"Disallow: /*" + b"a*" * 100 + b"zzzz*W\nAllow: /*" + b"?%2F*" * 100 + b"zzzz*W\n", size),
    "opposite rules": lambda size: ANY + lines(b"Disallow: /*?a/%2F*W?\nAllow: /*?/*bW\n", size),
}  # fmt: skip


def hostile(name: str, size: int) -> bytes:
    made = LONG[name]
    return lines(made, size) if isinstance(made, bytes) else made(size)


def decide(robots: RobotsTxt, length: int, agents: Iterable[str] = ("bot",)) -> None:
    for url in (f"{ORIGIN}/{'a' * length}", f"{ORIGIN}/{'a' * length}b"):
        for agent in agents:
            robots.is_allowed(url, agent)
            robots.decide(url, agent)
            robots.crawl_delay(agent)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS, ids=attrgetter("name"))
@pytest.mark.parametrize("name", HOSTILE)
def test_the_steps_are_linear_in_the_lines(name: str, dialect: Dialect) -> None:
    """The cost grows linearly with the number of lines, whatever they say."""
    bodies = [hostile(name, size) for size in (2 * KIB, 4 * KIB)]
    decide(RobotsTxt.parse(bodies[0], dialect), 2_000)  # Fills the caches.
    lint(bodies[0])
    once, twice = (
        steps(lambda body=body: decide(RobotsTxt.parse(body, dialect), 2_000))
        for body in bodies
    )
    assert twice < 2.3 * once
    if dialect is RFC9309:
        once, twice = (steps(lambda body=body: lint(body)) for body in bodies)
        assert twice < 2.3 * once


@pytest.mark.slow
@pytest.mark.parametrize(
    "dialect", DIALECTS[: 3 if effort.is_long else 1], ids=attrgetter("name")
)
@pytest.mark.parametrize("name", LONG)
def test_a_file_of_500_kib_is_decided_on_and_linted_in_time(
    name: str, dialect: Dialect
) -> None:
    """A file of 500 KiB, or of a sixteenth of that in a short run, is decided on and linted in time, for
    many crawlers, with a bounded number of findings.
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
    """Return a parsed and indexed robots.txt with these rules for everyone."""
    robots = RobotsTxt.parse("\n".join(["User-agent: *", *rules]), dialect)
    for _ in range(3):
        robots.decide(f"{ORIGIN}/", "bot")
    return robots


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE], ids=attrgetter("name"))
def test_the_rule_that_matches_a_long_url_is_found(dialect: Dialect) -> None:
    """The rule that matches a long URL decides, even though not every word is searched for."""
    rules = [f"Disallow: /*ab{n}q" for n in range(5_000)]
    robots = parse(
        [*rules, "Allow: /*/ab777q/*ok", "Disallow: /*?/ab5q", "Allow: /a*"], dialect
    )
    near = f"{ORIGIN}/" + "".join(f"ab{n}" for n in range(2_500))
    encoded = 5_003 if dialect is RFC9309 else 7
    lines = {"": 5_004, "ab17q": 19, "ab3ab17qab4q": 19, "/ab777q/ok": 5_002}
    for tail, line in {**lines, "?/ab5q": 5_003, "?%2Fab5q": encoded}.items():
        decision = robots.decide(near + tail, "bot")
        assert decision.line == line
        assert decision.allowed is (line in {5_002, 5_004})
        assert robots.is_allowed(near + tail, "bot") is decision.allowed


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE], ids=attrgetter("name"))
@pytest.mark.parametrize("rule", ["/*ab{}q", "/*{}*ab*a$", "/*?{}=/*b", "/*%2Fab{}*%2f"])  # fmt: skip
def test_a_very_long_url_is_decided_fast(rule: str, dialect: Dialect) -> None:
    """A decision on a very long URL is fast: wildcards are not searched for in it."""
    robots = parse((f"Disallow: {rule.format(n)}" for n in range(3_000)), dialect)
    for url in ("ab" * 125_000, "/a?b" * 60_000, "%2F?b" * 50_000):
        start = process_time()
        decision = robots.decide(f"{ORIGIN}/{url}", "bot")
        assert process_time() - start < SECONDS
        assert decision.reason is Reason.TOO_LONG


def test_a_very_long_raw_url_is_decided_fast() -> None:
    """A URL of a million characters that are not ASCII takes as long as any other, in all forms."""
    robots = parse(["Disallow: /*?q=", "Disallow: /ab"], RFC9309)
    url = f"{ORIGIN}/" + "ツ" * 1_000_000
    start = process_time()
    assert request_target.decide(robots, url, "bot").reason is Reason.TOO_LONG
    assert process_time() - start < 1


def test_a_url_beyond_the_limit_is_refused() -> None:
    """A URL beyond the limit is refused only if a wildcard would have to be searched for."""
    at_most, too_long = (
        f"{ORIGIN}/{'a' * size}" for size in (MAX_TARGET - 1, MAX_TARGET)
    )
    robots = parse(["Disallow: /*?q=", "Disallow: /x*y"])
    assert robots.decide(at_most, "bot").reason is Reason.NO_RULE
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
    other = RobotsTxt.parse(b"User-agent: other\nDisallow: /*a")
    assert other.decide(too_long, "bot").reason is Reason.NO_GROUP


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE], ids=attrgetter("name"))
def test_a_long_query_is_compared_with_the_patterns_that_begin_like_it(
    dialect: Dialect,
) -> None:
    """A pattern whose query begins otherwise does not refuse a long URL; one whose delimiters are
    encoded in the URL does.
    """
    page, long = f"{ORIGIN}/page?", "b" * MAX_TARGET
    robots = parse(["Disallow: /page?id=*x", "Disallow: /page?to=/a*x"], dialect)
    assert robots.decide(f"{page}other={long}", "bot").reason is Reason.NO_RULE
    for near in ("id=", "to=/a", *(["to=%2Fa"] if dialect is RFC9309 else [])):
        decision = robots.decide(f"{page}{near}{long}", "bot")
        assert decision.reason is Reason.TOO_LONG
    many = parse((f"Disallow: /page?id{n}=*" for n in range(2_000)), dialect)
    assert many.is_allowed(f"{page}q={long[:2_500]}", "bot")


def test_too_many_comparisons_are_refused() -> None:
    """A long URL is refused if too many patterns match in part all over it."""
    robots = parse(f"Disallow: /*{n:04}*{n:04}*z" for n in range(2_000))
    words = "".join(f"{n:04}" for n in range(2_000)) * 2
    assert len(words) * 2_000 > MAX_COMPARED
    decision = robots.decide(f"{ORIGIN}/{words}", "bot")
    assert (decision.allowed, decision.reason) == (False, Reason.TOO_LONG)
    assert not robots.is_allowed(f"{ORIGIN}/{words}", "bot")
    assert robots.is_allowed(f"{ORIGIN}/{words[:800]}", "bot")
