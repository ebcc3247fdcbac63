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


def test_a_delay_over_the_limit(rep: Rep) -> None:
    """A host that asks for a longer delay than REP_CRAWL_DELAY_MAX is skipped in a crawl, so
    its URLs are denied in each format, with the record and the setting.
    """
    Path("robots.txt").write_text("User-agent: *\nDisallow: /a\nCrawl-delay: 200\n")
    ended = rep(*ASKED, "--brief")
    why = (
        "line 3, Crawl-delay: 200 (the host asks for a longer delay than the crawl accepts; "
        "REP_CRAWL_DELAY_MAX is 180)"
    )
    assert (ended.status, ended.out) == (1, f"denied\t{ASKED[1]}\t{why}\n")
    ended = rep(*ASKED)
    assert ended.status == 1
    assert ended.out.startswith(
        f"denied   {ASKED[1]}\n"
        f"  {why}, in the group for everyone\n"
        "\n"
        "  1 | User-agent: *\n"
        "  2 | Disallow: /a\n"
        "  3 | Crawl-delay: 200\n"
        "    |              ^^^\n"
    )
    for options in ([], ["--brief"]):
        ended = rep(*ASKED, *options, "--json")
        (record,) = ended.records("check")
        assert ended.status == 1
        assert (record["allowed"], record["reason"]) == (False, "crawl-delay")
        assert record["rule"] == {"kind": "crawl-delay", "pattern": "200", "line": 3}
    ended = rep("check", "-", *ASKED[2:], "--brief", stdin=ASKED[1])
    assert ended.err == "scrapy rep: 1 URL: 0 allowed, 1 denied\n"
    # A rule that forbids the URL decides first.
    forbidden = rep("check", "https://shop.example/a", *ASKED[2:], "--brief").out
    assert "line 2, Disallow: /a\n" in forbidden
    for settings in (
        {"REP_CRAWL_DELAY_MAX": 200},
        {"REP_CRAWL_DELAY": False},
        {"REP_DIALECT": "google"},
    ):
        ended = rep(*ASKED, **settings)
        assert (ended.status, "REP_CRAWL_DELAY_MAX" in ended.out) == (0, False)


def test_a_delay_over_the_limit_in_each_dialect(rep: Rep) -> None:
    """``--dialects`` applies the delay where the dialect has one, and shows the difference."""
    Path("robots.txt").write_text("User-agent: *\nRequest-rate: 1/10m\n")
    ended = rep(*ASKED, "--dialects", "--json")
    (record,) = ended.records("check")
    found = {name: each["reason"] for name, each in record["dialects"].items()}
    assert found == {
        "rfc9309": "crawl-delay", "google": "no-rule", "classic": "crawl-delay"
    }  # fmt: skip
    assert (record["agree"], ended.status) == (False, 1)


def test_a_rate_that_has_not_begun(rep: Rep) -> None:
    """A rate for other hours of the day refuses nothing now."""
    now = datetime.now(timezone.utc)
    hours = "-".join(f"{now + timedelta(hours=each):%H%M}" for each in (3, 9))
    Path("robots.txt").write_text(f"User-agent: *\nRequest-rate: 1/10m {hours}\n")
    assert rep(*ASKED).status == 0


def test_visiting_hours_that_are_too_far_away(rep: Rep) -> None:
    """Outside of the visiting hours of a host, its URLs are denied if a crawl would not wait
    for them, with the setting that changes it.
    """
    now = datetime.now(timezone.utc)
    opens, closes = (f"{now + timedelta(hours=hours):%H%M}" for hours in (3, 9))
    Path("robots.txt").write_text(f"User-agent: *\nVisit-time: {opens}-{closes}\n")
    why = (
        f"line 2, Visit-time: {opens}-{closes} (the host opens later than the crawl waits; "
        "REP_WAIT_MAX is 600)"
    )
    ended = rep(*ASKED, "--brief")
    assert (ended.status, ended.out) == (1, f"denied\t{ASKED[1]}\t{why}\n")
    ended = rep(*ASKED, "--json")
    assert ended.records("check")[0]["reason"] == "visit-time"
    for settings in (
        {"REP_WAIT_MAX": 86400},
        {"REP_CRAWL_DELAY": False},
        {"REP_DIALECT": "google"},
    ):
        assert rep(*ASKED, "--brief", **settings).status == 0


def test_robotstxt_itself_is_not_delayed(rep: Rep) -> None:
    """A crawl gets the robots.txt of a host that it skips, so that URL is allowed."""
    Path("robots.txt").write_text("User-agent: *\nCrawl-delay: 200\n")
    ended = rep("check", "https://shop.example/robots.txt", *ASKED[2:])
    assert ended.status == 0
