"""Tests of :class:`RobotParser`, with which Scrapy's own robots.txt middleware uses the parser of this package."""

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
    """Product tokens and User-Agent headers are accepted as text and as bytes."""
    parser = RobotParser.from_crawler(None, BODY)
    assert not parser.allowed("http://example.com/private/", agent)
    assert not parser.allowed(b"http://example.com/private/", agent)
    assert parser.allowed("http://example.com/", agent)
    assert parser.crawl_delay(agent) == 2.5


def test_rep_dialect_applies_with_scrapys_middleware() -> None:
    body = b"User-agent: *\nDisallow: /\nAllow: /dir/index.html\nCrawl-delay: 1\n"
    url = "http://example.com/dir/"
    parser = RobotParser.from_crawler(fake_crawler(), body)
    google = RobotParser.from_crawler(fake_crawler({"REP_DIALECT": "google"}), body)
    assert not parser.allowed(url, "mybot")
    assert google.allowed(url, "mybot")
    assert (parser.crawl_delay("mybot"), google.crawl_delay("mybot")) == (1, None)


def test_urls_are_normalised_as_in_the_middleware_of_this_package() -> None:
    """Dot segments and escapes must not bypass a rule. How escapes are normalised depends on the download handler."""
    parser = RobotParser.from_crawler(fake_crawler(), BODY)
    assert not parser.allowed("http://example.com/a/../private/", "mybot")
    assert parser.allowed("http://example.com/private/../a", "other")
    with_other_handler = fake_crawler({"DOWNLOAD_HANDLERS": {"http": "x.aiohttp"}})
    body = b"User-agent: *\nDisallow: /a&b\n"
    for crawler, allowed in ((fake_crawler(), True), (with_other_handler, False)):
        parser = RobotParser.from_crawler(crawler, body)
        assert parser.allowed("http://example.com/a%26b", "mybot") is allowed


def test_the_urls_of_sitemaps_are_absolute_if_the_url_of_robotstxt_is_known() -> None:
    """If the URL of robots.txt is not known, the URLs of sitemaps are listed as written. Values that cannot be URLs of
    sitemaps are left out.
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
