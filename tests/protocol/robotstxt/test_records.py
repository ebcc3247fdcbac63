"""Records that are no rules: sitemaps, delays, rates and visit times."""

from __future__ import annotations

from datetime import datetime, time, timezone

import pytest

from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.decisions import Reason

AT = "https://example.com/robots.txt"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Sitemap: https://example.com/s.xml", "https://example.com/s.xml"),
        ("SITEMAP:https://other.example/s.xml # text", "https://other.example/s.xml"),
        ("Sitemap: /s.xml", "https://example.com/s.xml"),
        ("Sitemap: s.xml?a=b", "https://example.com/s.xml?a=b"),
        ("Sitemap: //other.example/s.xml", "https://other.example/s.xml"),
        ("Sitemap: file:///etc/passwd", None), ("Sitemap: javascript:a()", None),
        ("Sitemap: data:text/xml,a", None), ("Sitemap: http://[", None),
        ("Sitemap:", None), ("# Sitemap: https://example.com/s.xml", None),
    ],
)  # fmt: skip
def test_sitemaps(line: str, found: str | None) -> None:
    """Sitemap lines give their absolute http and https URLs."""
    robots = RobotsTxt.parse(line.encode(), url=AT)
    assert robots.sitemaps == ((found,) if found else ())


def test_sitemaps_belong_to_no_group() -> None:
    """Sitemaps are read anywhere in the file, in order."""
    lines = ["Sitemap: https://example.com/{}"] * 3
    body = "\nUser-agent: x\nDisallow: /\n".join(lines).format(1, 2, 3)
    expected = tuple(f"https://example.com/{n}" for n in (1, 2, 3))
    assert RobotsTxt.parse(body.encode()).sitemaps == expected


def test_relative_sitemap_without_a_base() -> None:
    """Without a base URL, a relative sitemap is ignored."""
    assert RobotsTxt.parse(b"Sitemap: /s.xml").sitemaps == ()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("5", 5.0), ("0", 0.0), ("0.5", 0.5), ("010", 10.0), ("1.25", 1.25),
        (".5", 0.5), ("5.", 5.0), ("5s", 5.0), ("5 S", 5.0), ("5 sec", 5.0),
        ("10 seconds", 10.0), ("9" * 400, 1e9), ("86400", 86400.0),
        ("", None), ("-1", None), ("+1", None), ("1e3", None), ("1e999", None),
        ("5m", None), ("5 x", None), ("5  s", None), (".", None), ("s", None),
        ("inf", None), ("nan", None), ("0x10", None), ("1,5", None), ("1, 2", None),
        ("1_0", None), ("٥", None), ("x", None), ("1.2.3", None),
    ],
)  # fmt: skip
def test_crawl_delay(value: str, seconds: float | None) -> None:
    """Only a decimal number of seconds is a crawl delay."""
    body = f"User-agent: *\nCrawl-delay: {value}".encode()
    assert RobotsTxt.parse(body).crawl_delay("bot") == seconds


@pytest.mark.parametrize(
    ("body", "delays"),
    [
        # As real sites write it.
        ("User-agent: Slurp\nCrawl-delay: 300\n\nUser-agent: *\nDisallow: /download/",
         {"mybot": None, "slurp": 300}),
        ("User-agent: GoogleBot\nCrawl-delay: 0.9\nUser-agent: AhrefsBot\nCrawl-delay: 1.5",
         {"googlebot": 0.9, "ahrefsbot": 1.5}),
        # Lines that are neither rules nor records of a group do not end a run.
        (("User-agent: a\n\n# text\nSitemap: https://example.com/\n text\nUser-agent: b\n"
         "\n# text\nSitemap: https://example.com/\nCrawl-delay: 2"),
         {"a": 2, "b": 2}),
        # Any other record ends the run, although the group continues for rules.
        ("User-agent: a\nHost: x\nUser-agent: b\nCrawl-delay: 2", {"a": None, "b": 2}),
        ("User-agent: a\nDisallow:\nCrawl-delay: 2\nDisallow: /\nCrawl-delay: 3", {"a": 3}),
        (("User-agent: a\nUser-agent: b\nCrawl-delay: 1\nUser-agent: c\nCrawl-delay: 2\n"
         "Disallow: /"), {"a": 1, "b": 1, "c": 2}),
        # If two runs name a crawler, the records of both count.
        (("User-agent: a\nCrawl-delay: 1\nUser-agent: b\nCrawl-delay: 5\nDisallow: /\n"
         "User-agent: a\nUser-agent: c\nCrawl-delay: 3"), {"a": 3, "b": 5, "c": 3}),
        ("User-agent: a, b\nCrawl-delay: 1\nUser-agent: c\nDisallow: /", {"b": 1, "c": None}),
    ],
)  # fmt: skip
def test_a_delay_is_that_of_the_user_agent_lines_above_it(
    body: str, delays: dict[str, float | None]
) -> None:
    """A group shares its rules; a delay is only for the user-agent lines above it."""
    robots = RobotsTxt.parse(body.encode())
    assert {agent: robots.crawl_delay(agent) for agent in delays} == delays


@pytest.mark.parametrize(
    ("value", "rate"),
    [
        ("1/5", (1, 5, None, None)), ("10/60", (10, 60, None, None)),
        ("1/10s", (1, 10, None, None)), ("1/5m", (1, 300, None, None)),
        ("1/1h", (1, 3600, None, None)), ("2/1M", (2, 60, None, None)),
        ("1/10s 1800-1900", (1, 10, time(18), time(19))),
        ("1/5m 0600-0845", (1, 300, time(6), time(8, 45))),
        ("", None), ("5", None), ("0/5", None), ("1/0", None), ("-1/5", None),
        ("1/5d", None), ("a/b", None), ("1/5 x", None), ("1/5 2500-2600", None),
    ],
)  # fmt: skip
def test_request_rate(value: str, rate: tuple | None) -> None:
    """A request rate is a number of requests in a period, optionally in a window of the day."""
    robots = RobotsTxt.parse(f"User-agent: *\nRequest-rate: {value}".encode())
    found = robots.request_rate("bot")
    names = ("requests", "seconds", "start", "end")
    assert (found and tuple(getattr(found, name) for name in names)) == rate


@pytest.mark.parametrize(
    ("value", "times"),
    [
        ("0600-0845", (time(6), time(8, 45))), ("2200-0400", (time(22), time(4))),
        ("0000-2359", (time(0), time(23, 59))), ("", None), ("0600", None),
        ("0660-0845", None), ("2400-0100", None), ("6-8", None), ("a-b", None),
    ],
)  # fmt: skip
def test_visit_time(value: str, times: tuple | None) -> None:
    """A visit time is a window of the day, which may span midnight."""
    robots = RobotsTxt.parse(f"User-agent: *\nVisit-time: {value}".encode())
    found = robots.visit_time("bot")
    assert (found and (found.start, found.end)) == times


def at(hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2026, 3, 1, hour, minute, second, tzinfo=timezone.utc)


def test_delay_at_a_time() -> None:
    """The longest requested delay counts; a rate with a window counts only in its window."""
    body = b"""\
User-agent: bot
Crawl-delay: 2
Request-rate: 3/12
Request-rate: 1/1m 0800-0900
Request-rate: 1/30 2300-0100
Disallow: /x
User-agent: idle
Disallow: /x
"""
    robots = RobotsTxt.parse(body)
    times = {at(7, 59, 59): 4, at(8): 60, at(9, 0, 59): 60, at(9, 1): 4}
    times |= {at(22): 4, at(23): 30, at(0, 30): 30, at(1, 1): 4}
    for now, delay in times.items():
        assert robots.pace("bot").delay(now) == delay, now
    assert robots.pace("idle").delay(at(8)) == 0
    assert robots.pace("idle").opens_in(at(8)) == 0


@pytest.mark.parametrize(
    ("value", "now", "seconds"),
    [
        ("0600-0845", at(6), 0), ("0600-0845", at(8, 45, 59), 0),
        ("0600-0845", at(5, 59), 60), ("0600-0845", at(8, 46), (21 * 60 + 14) * 60),
        ("2200-0400", at(23), 0), ("2200-0400", at(3), 0), ("2200-0400", at(21), 3600),
        ("0700-0700", at(12), 0), ("0000-2359", at(23, 59, 59), 0), ("?", at(1), 0),
    ],
)  # fmt: skip
def test_opens_in(value: str, now: datetime, seconds: float) -> None:
    """A closed window opens in at most a day."""
    robots = RobotsTxt.parse(f"User-agent: *\nVisit-time: {value}".encode())
    assert robots.pace("bot").opens_in(now) == seconds


def test_the_line_that_decides() -> None:
    """The delay or window line that counts is returned, with its line number."""
    body = b"""\
# Slowly.
User-agent: other
Crawl-delay: 99
Disallow:
User-agent: bot
Crawl-delay: soon
Crawl-delay: 2
Request-rate: 1/5 0800-0900
Visit-time: always
Disallow:

User-agent: bot
Crawl-delay: 3
Visit-time: 0600-0845
Disallow:
"""
    pace = RobotsTxt.parse(body).pace("bot")
    delays = [pace.refusal(Reason.CRAWL_DELAY, at(hour), "bot") for hour in (8, 12)]
    assert [decision.line for decision in delays] == [8, 13]
    assert pace.refusal(Reason.VISIT_TIME, at(8), "bot").line == 14
