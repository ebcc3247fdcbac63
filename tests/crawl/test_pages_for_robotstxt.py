"""Tests of crawls of sites whose robots.txt is an HTML page."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.crawl.ledger.reader import open_ledger
from scrapy_rep.tools.report.answers import overall
from scrapy_rep.tools.report.ledgers import ReportLedgers, ReportLimits
from tests.crawl.answers import Answer, robots
from tests.crawl.crawl import ADDON, run_crawl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Site

pytestmark = [pytest.mark.unmeasured]

CHALLENGE = (
    b"<!DOCTYPE html><html><head><title>Just a moment...</title></head>"
    b"<body><script>challenge()</script></body></html>"
)
HTML = {"Content-Type": "text/html; charset=utf-8"}
RULES = "User-agent: *\nDisallow: /private?a=1&b=2\n"
RENDERING = {
    "DOWNLOADER_MIDDLEWARES": {"tests.crawl.component_spiders.RenderingMiddleware": 543}
}
STOCK = {"ROBOTSTXT_OBEY": True, "ROBOTSTXT_PARSER": "scrapy_rep.RobotParser"}


@pytest.mark.newest
def test_a_challenge_page_for_robotstxt_allows_everything_and_is_logged(
    site: Site, tmp_path: Path
) -> None:
    """The log has a line about the first challenge page, and at the end the number of challenge pages. If an
    HTML page has rules, these are obeyed, and the log says so. The ledger and the report have each
    robots.txt that is an HTML page, with or without rules.
    """
    challenged = [
        site.add(Answer(CHALLENGE, status=status, headers=HTML))
        for status in (200, 202)
    ]
    with_rules = site.add(robots(f"<html>\n{RULES}", headers=HTML))
    plain = site.add(robots(RULES))
    hosts = [*challenged, with_rules, plain]
    path = tmp_path / "ledger"
    result = run_crawl(
        [host.url("/private?a=1&b=2") for host in hosts],
        settings={"REP_LEDGER": str(path), "LOG_LEVEL": "INFO"},
    )
    assert result.fetched() == sorted(
        host.url("/private?a=1&b=2") for host in challenged
    )
    (first,) = result.lines(
        "INFO", "challenge page of a bot wall", "everything is allowed"
    )
    assert any(host.robotstxt in first for host in challenged)
    assert "status 20" in first
    (obeyed,) = result.lines(
        "INFO", "some of its lines are robots.txt rules. These rules are obeyed"
    )
    assert with_rules.robotstxt in obeyed
    assert result.lines("INFO", "HTML pages without rules", ": 2.", "REP_OVERRIDES")
    with closing(open_ledger(str(path))) as ledger:
        snapshots = ledger.execute(
            "SELECT origin FROM snapshot WHERE is_page ORDER BY origin"
        )
        assert [row["origin"] for row in snapshots] == sorted(
            host.origin for host in (*challenged, with_rules)
        )
    with closing(ReportLedgers([str(path)], ReportLimits())) as ledgers:
        report: dict[str, Any] = overall(ledgers, 0)
    assert report["figures"]["pages_for_robotstxt"] == 3
    assert any(
        note.startswith("The robots.txt of 3 hosts was an HTML page")
        for note in report["notes"]
    )


@pytest.mark.parametrize("enable", [ADDON, STOCK], ids=["add-on", "parser alone"])
def test_a_robotstxt_that_a_browser_shows_is_obeyed(
    site: Site, enable: dict[str, Any]
) -> None:
    """A middleware renders each response in a browser, which shows robots.txt as an HTML page. The rules are
    obeyed, both with the add-on and with this package's parser in Scrapy's own middleware.
    """
    host = site.add(robots(RULES))
    result = run_crawl(
        [host.url("/private?a=1&b=2"), host.url("/public")],
        settings=RENDERING,
        enable=enable,
    )
    assert result.fetched() == [host.url("/public")]
    assert host.pages == ["/public"]
    assert not result.lines("INFO", "HTML page")
