"""robots.txt: its decisions and its findings.

An input is a robots.txt, a URL or path, and product tokens separated by commas.
"""

from __future__ import annotations

import re
from dataclasses import replace

from scrapy_rep import CLASSIC, GOOGLE, RFC9309, Decision, Dialect, Reason, RobotsTxt
from tests.fuzz.inputs import bounded, grown, parts, text
from tests.protocol.lint.test_lint import IDLE, check
from tests.protocol.reference import Reference, read_lines

DIALECTS = (
    RFC9309,
    GOOGLE,
    CLASSIC,
    replace(RFC9309, name="index", index_html_quirk=True),
    replace(CLASSIC, name="wild", wildcards=True, agent_match="token"),
)

# Bytes that the reference, which is slow on purpose, can process in a moment.
_REFERENCE_AT_MOST = 2_000

_URL = re.compile(r"[A-Za-z]+://[A-Za-z0-9.]+/")
_TOKEN = re.compile(r"[A-Za-z0-9_.-]+")


def decide(data: bytes) -> None:
    """Check in every dialect that:

    - nothing raises, and time is bounded for each byte;
    - the verdict, line, agent and reason agree with the plain reference;
    - ``is_allowed``, the fast path, agrees with ``decide``, called first or later;
    - the line of a decision exists, and has the rule's pattern;
    - delays, windows and sitemaps can be read.
    """
    body, url, agents = _case(data)
    for dialect in DIALECTS:
        with bounded(len(body) + len(url)):
            robots = RobotsTxt.parse(body, dialect)
            first = robots.is_allowed(url, agents)
            decision = robots.decide(url, agents)
            assert robots.is_allowed(url, agents) == first == decision.allowed
            assert RobotsTxt.parse(body, dialect).decide(url, agents) == decision
            assert robots.decide(url, agents) == decision
            _ask_the_rest(robots, agents)
        _check_line(body, dialect, decision)
        is_short = len(body) + len(url) < _REFERENCE_AT_MOST
        if is_short and decision.reason is not Reason.TOO_LONG:
            expected = Reference(body, dialect).decide(url, agents)
            verdict = decision.allowed, decision.line, decision.agent
            assert (*verdict, decision.reason.value) == expected, dialect.name


def lint(data: bytes) -> None:
    """Check in every dialect that:

    - nothing raises, and time is bounded for each byte;
    - each finding names an existing line, and has a text of bounded length;
    - a line reported as deciding on no URL does not decide on this one.
    """
    body, url, agents = _case(data)
    for dialect in DIALECTS:
        with bounded(len(body)):
            check(body, dialect)
            robots = RobotsTxt.parse(body, dialect, url)
            findings = robots.lint()
        idle = {finding.line for finding in findings if finding.code in IDLE}
        assert robots.decide(url, agents).line not in idle, dialect.name


def _case(data: bytes) -> tuple[bytes, str, tuple[str, ...]]:
    body, url, names = parts(data, 3)
    url = text(grown(url))
    agents = tuple(dict.fromkeys(_TOKEN.findall(text(names))[:4])) or ("bot",)
    return grown(body), url if _URL.match(url) else f"https://example.com/{url}", agents


def _ask_the_rest(robots: RobotsTxt, agents: tuple[str, ...]) -> None:
    delay, rate = robots.crawl_delay(agents), robots.request_rate(agents)
    assert delay is None or 0 <= delay < float("inf")
    assert rate is None or rate.delay > 0
    robots.visit_time(agents)
    assert all("://" in sitemap for sitemap in robots.sitemaps)
    assert robots.weight > 0


def _check_line(body: bytes, dialect: Dialect, decision: Decision) -> None:
    lines = read_lines(body, dialect)
    assert 0 <= decision.line <= len(lines)
    assert (decision.rule is not None) == (decision.line > 0)
    if decision.rule is not None and decision.rule.pattern.isascii():
        line = lines[decision.line - 1]
        assert decision.rule.pattern.encode() in line, dialect.name
