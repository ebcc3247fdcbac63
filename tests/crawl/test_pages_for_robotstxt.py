"""Crawls of sites whose robots.txt arrives as an HTML page."""

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
    """A challenge page for robots.txt allows everything: the log says so of the first, and counts
    them at the end; so do the ledger and the report. Rules in a page are obeyed, and the log says
    that.
    """
    walls = [
        site.add(Answer(CHALLENGE, status=status, headers=HTML))
        for status in (200, 202)
    ]
    ruled = site.add(robots(f"<html>\n{RULES}", headers=HTML))
    plain = site.add(robots(RULES))
    hosts = [*walls, ruled, plain]
    path = tmp_path / "ledger"
    result = run_crawl(
        [host.url("/private?a=1&b=2") for host in hosts],
        settings={"REP_LEDGER": str(path), "LOG_LEVEL": "INFO"},
    )
    assert result.fetched() == sorted(wall.url("/private?a=1&b=2") for wall in walls)
    (first,) = result.lines(
        "INFO", "challenge page of a bot wall", "everything is allowed"
    )
    assert any(wall.robotstxt in first for wall in walls)
    assert "status 20" in first
    (obeyed,) = result.lines(
        "INFO", "some of its lines are robots.txt rules. These rules are obeyed"
    )
    assert ruled.robotstxt in obeyed
    assert result.lines("INFO", "HTML pages without rules", ": 2.", "REP_OVERRIDES")
    with closing(open_ledger(str(path))) as ledger:
        snapshots = ledger.execute(
            "SELECT origin FROM snapshot WHERE is_page ORDER BY origin"
        )
        assert [row["origin"] for row in snapshots] == sorted(
            host.origin for host in (*walls, ruled)
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
    """A robots.txt that a middleware has a browser fetch is obeyed, with the add-on and with this
    package's parser in Scrapy's own middleware.
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
