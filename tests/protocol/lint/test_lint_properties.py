"""Properties of lint findings for any file."""

from __future__ import annotations

import pytest

from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
from scrapy_rep.protocol.lint.findings import MAX_OF_A_CODE, MAX_TEXT
from scrapy_rep.protocol.lint.linter import CODES
from scrapy_rep.protocol.robots import RobotsTxt
from tests.protocol.corpus import agents_for, read_corpus, urls_for

# Other tests cover the code that these run through.
pytestmark = pytest.mark.unmeasured

DIALECTS = [RFC9309, GOOGLE, CLASSIC]
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
