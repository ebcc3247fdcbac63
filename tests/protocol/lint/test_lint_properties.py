"""Properties of lint findings for any file."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
from scrapy_rep.protocol.lint.findings import MAX_OF_A_CODE, MAX_TEXT
from scrapy_rep.protocol.lint.linter import CODES
from scrapy_rep.protocol.robots import RobotsTxt
from tests.effort import few
from tests.protocol.corpus import agents_for, read_corpus, urls_for
from tests.protocol.reference import Reference
from tests.protocol.strategies import cases

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


@few()
@given(case=cases())
def test_generated_files(case: tuple[bytes, str, tuple[str, ...]]) -> None:
    """Findings are complete, and a line reported as never deciding decides on no URL."""
    body, url, agents = case
    for dialect in DIALECTS + MIXTURES:
        check(body, dialect)
        found = RobotsTxt.parse(body, dialect).lint()
        idle = {finding.line for finding in found if finding.code in IDLE}
        assert Reference(body, dialect).decide(url, agents)[1] not in idle, dialect.name


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
