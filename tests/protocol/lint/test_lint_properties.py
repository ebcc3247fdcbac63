"""Properties of lint findings for any file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
from scrapy_rep.protocol.lint.findings import MAX_OF_A_CODE, MAX_TEXT
from scrapy_rep.protocol.lint.linter import CODES
from scrapy_rep.protocol.robots import RobotsTxt
from tests.effort import few
from tests.protocol import strategies
from tests.protocol.corpus import agents_for, read_corpus, urls_for
from tests.protocol.reference import Reference

if TYPE_CHECKING:
    from collections.abc import Callable

# Other tests cover the code that these run through.
pytestmark = pytest.mark.unmeasured

DIALECTS = [RFC9309, GOOGLE, CLASSIC]
MIXTURES = [
    replace(RFC9309, name="index", index_html_quirk=True),
    replace(RFC9309, name="first", rule_choice="first", merge_groups=False),
    replace(CLASSIC, name="octets", rule_choice="most-octets", merge_groups=True),
    replace(CLASSIC, name="wild", wildcards=True, agent_match="token"),
]
# Rules in lines with these findings decide on no URL.
IDLE = {"outside-group"}
FEW = (
    *([b"/"] * 4),
    *([b"*"] * 4),
    *(b"a", b"b", b"$", b"%61", b"%2F", b"\xc3\xa9", b"index.html"),
)


def check(body: bytes, dialect: Dialect) -> None:
    found = RobotsTxt.parse(body, dialect, "https://example.com/robots.txt").lint()
    lines = body.count(b"\n") + body.count(b"\r") + 1
    lines += len(body.decode("utf-16", "replace").splitlines())
    for finding in found:
        assert 0 <= finding.line <= lines
        assert finding.severity == CODES[finding.code]
        assert finding.message.isprintable()
        assert 0 < len(finding.message) < 500
        assert len(finding.text) <= MAX_TEXT
        if "more findings with this code" not in finding.message:
            assert finding.message.count(": ") >= 1, "no remedy"
    assert [f.line for f in found] == sorted(f.line for f in found)
    counts = [[f.code for f in found].count(code) for code in CODES]
    assert max(counts) <= MAX_OF_A_CODE + 1


ENDS = (*([b""] * 3), b"*", b"*$", b"**", b"$*")


@st.composite
def crowded(draw: Callable) -> tuple[bytes, list[str]]:
    """A few groups with many similar rules, and URLs that they may match."""
    seen: list[bytes] = []
    body = b""
    for _ in range(draw(st.integers(1, 3))):
        for agent in draw(st.lists(st.sampled_from((b"*", b"bot", b"b")), min_size=1)):
            body += b"User-agent: " + agent + b"\n"
        for _ in range(draw(st.integers(0, 6))):
            pattern = b"".join(draw(st.lists(st.sampled_from(FEW), max_size=5)))
            field = draw(st.sampled_from((b"Allow: ", b"Disallow: ")))
            body += field + pattern + draw(st.sampled_from((b"\n", b"\n", b"\n\n")))
            seen.append(pattern)
    return body, draw(st.lists(strategies.urls(seen), min_size=8, max_size=24))


@few()
@given(case=crowded())
def test_rules_that_are_called_idle_never_decide(case: tuple[bytes, list[str]]) -> None:
    """A line reported as never deciding decides on no URL, by the reference."""
    body, urls = case
    for dialect in DIALECTS + MIXTURES:
        found = RobotsTxt.parse(body, dialect).lint()
        idle = {finding.line for finding in found if finding.code in IDLE}
        reference = Reference(body, dialect)
        for url in urls:
            for agent in ("bot", "other", "b", "botnews"):
                line = reference.decide(url, agent)[1]
                assert line not in idle, (dialect.name, url, agent)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
def test_real_files(dialect: Dialect) -> None:
    """The properties hold for the files of real sites."""
    for name, body in read_corpus()[::3]:
        robots = RobotsTxt.parse(body, dialect)
        findings = robots.lint()
        idle = {f.line for f in findings if f.code in IDLE}
        for url in urls_for(body, 40) if idle else ():
            for agents in agents_for(body):
                assert robots.decide(url, agents).line not in idle, (name, url)
