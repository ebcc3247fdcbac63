"""This package's parser under Scrapy's own robots.txt middleware."""

from __future__ import annotations

import pytest

from scrapy_rep.crawl.fetching.robotparser import RobotParser
from scrapy_rep.protocol.robots import RobotsTxt
from tests.fakes import fake_crawler

BODY = b"User-agent: mybot\nCrawl-delay: 2.5\nDisallow: /private/\n"


@pytest.mark.parametrize(
    "agent", ["mybot", b"mybot", "mybot/1.0 (+https://example.com)", "MyBot"]
)
def test_the_user_agent_may_be_a_token_or_a_header(agent: str | bytes) -> None:
    """The user agent may be a product token or a whole header, as text or bytes."""
    parser = RobotParser.from_crawler(None, BODY)
    assert not parser.allowed("http://example.com/private/", agent)
    assert not parser.allowed(b"http://example.com/private/", agent)
    assert parser.allowed("http://example.com/", agent)
    assert parser.crawl_delay(agent) == 2.5


def test_rep_dialect_holds_under_scrapys_middleware() -> None:
    """REP_DIALECT also holds under Scrapy's own middleware."""
    body = b"User-agent: *\nDisallow: /\nAllow: /dir/index.html\nCrawl-delay: 1\n"
    url = "http://example.com/dir/"
    parser = RobotParser.from_crawler(fake_crawler(), body)
    google = RobotParser.from_crawler(fake_crawler({"REP_DIALECT": "google"}), body)
    assert not parser.allowed(url, "mybot")
    assert google.allowed(url, "mybot")
    assert (parser.crawl_delay("mybot"), google.crawl_delay("mybot")) == (1, None)


def test_the_parser_judges_as_the_gate_does() -> None:
    """URLs are normalised under Scrapy's own middleware as under this package's, so that
    dot segments and escapes do not bypass a rule.
    """
    parser = RobotParser.from_crawler(fake_crawler(), BODY)
    assert not parser.allowed("http://example.com/a/../private/", "mybot")
    assert parser.allowed("http://example.com/private/../a", "other")
    reactorless = fake_crawler({"DOWNLOAD_HANDLERS": {"http": "x.aiohttp"}})
    body = b"User-agent: *\nDisallow: /a&b\n"
    for crawler, allowed in ((fake_crawler(), True), (reactorless, False)):
        parser = RobotParser.from_crawler(crawler, body)
        assert parser.allowed("http://example.com/a%26b", "mybot") is allowed


def test_the_parser_lists_absolute_sitemaps() -> None:
    """The parser lists the sitemaps: absolute ones, if the URL of robots.txt is known, and as written
    otherwise, so that none is lost. What is no URL of a sitemap is left out.
    """
    body = (
        b"Sitemap: https://example.com/a.xml\nUser-agent: *\nDisallow: /\nsitemap: /b.xml\n"
        b"Sitemap: c.xml?\xc3\xa9\nSitemap: mailto:a@b.example\nSitemap: http://[\nSitemap:\n"
        b"SITEMAP : /b.xml\n"
    )
    parser = RobotParser.from_crawler(fake_crawler(), body)
    assert parser.sitemaps() == ["https://example.com/a.xml", "/b.xml", "c.xml?\u00e9"]
    robots = RobotsTxt.parse(body, url="https://b.example/robots.txt")
    assert RobotParser(robots).sitemaps() == [
        "https://example.com/a.xml",
        "https://b.example/b.xml",
        "https://b.example/c.xml?\u00e9",
    ]
    assert RobotParser.from_crawler(None, b"").sitemaps() == []
