"""Delays and visiting hours in the output of ``scrapy rep check``."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.commands.conftest import Rep

ASKED = ("check", "https://shop.example/basket/1", "--robots", "robots.txt")


def test_pace(rep: Rep) -> None:
    """The request rate and the visit window are shown, and the sitemaps are counted."""
    sitemaps = "".join(f"Sitemap: https://a.example/{n}.xml\n" for n in range(8))
    Path("robots.txt").write_text(
        "User-agent: *\nRequest-rate: 1/5\nVisit-time: 0600-0845\n" + sitemaps
    )
    out = rep(*ASKED).out
    assert "  request rate: 1/5s\n  visit time: 06:00-08:45 UTC\n" in out
    assert out.count("  sitemap: ") == 5
    assert "  and 3 more sitemaps\n" in out


def test_what_a_crawl_refuses(rep: Rep) -> None:
    """The output says if a crawl with these settings would refuse an allowed URL, because
    of the delay or the visiting hours.
    """
    now = datetime.now(timezone.utc)
    opens, closes = (f"{now + timedelta(hours=hours):%H%M}" for hours in (3, 9))
    Path("robots.txt").write_text(
        f"User-agent: *\nCrawl-delay: 200\nVisit-time: {opens}-{closes}\n"
    )
    too_slow = (
        "  a crawl skips this host: it asks for 200 seconds between requests, more "
        "than REP_CRAWL_DELAY_MAX (180)\n"
    )
    too_late = (
        "  a crawl refuses this URL now: the host wants no visits before "
        f"{opens[:2]}:{opens[2:]} UTC, and a crawl waits at most 3600 "
        "seconds (REP_VISIT_TIME_WAIT)\n"
    )
    ended = rep(*ASKED)
    assert ended.status == 0
    assert too_slow + too_late in ended.out
    for settings in (
        {"REP_CRAWL_DELAY_MAX": 200, "REP_VISIT_TIME_WAIT": 86400},
        {"REP_CRAWL_DELAY": False, "REP_VISIT_TIME": False},
        {"REP_DIALECT": "google"},
    ):
        assert "a crawl" not in rep(*ASKED, **settings).out
