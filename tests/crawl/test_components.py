"""Other components of Scrapy beside this package's middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scrapy import signals

from tests.crawl.answers import Answer, robots
from tests.crawl.crawl import ADDON, BY_HAND, run_crawl
from tests.crawl.test_ledger import rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: *\nDisallow: /private\n"


@pytest.mark.parametrize("order", [100, 543])
def test_a_project_that_names_scrapys_own(
    site: Site, tmp_path: Path, mode: str, order: int
) -> None:
    """A project that names Scrapy's own RobotsTxtMiddleware gets the one of this package
    instead: one fetch of robots.txt, with overrides and a ledger.
    """
    host = site.add("User-agent: *\nDisallow: /\n")
    ledger = tmp_path / "ledger.sqlite"
    theirs = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
    result = run_crawl(
        [host.url("/public"), host.url("/private")],
        mode=mode,
        settings={
            "DOWNLOADER_MIDDLEWARES": {theirs: order},
            "REP_LEDGER": str(ledger),
            "REP_OVERRIDES": {"127.0.0.1": RULES},
        },
    )
    assert [hit.path for hit in host.hits] == ["/public"]
    assert result.error(host.url("/private"))["reason"] == "rule"
    assert theirs not in result.log
    (row,) = rows(ledger, "SELECT layer, verdict FROM decision WHERE line")
    assert row == {"layer": "override", "verdict": "refused"}


def sitemap(host: Host, *paths: str) -> Answer:
    locations = "".join(f"<url><loc>{host.url(path)}</loc></url>" for path in paths)
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    body = f'<?xml version="1.0"?><urlset xmlns="{space}">{locations}</urlset>'
    return Answer(body.encode(), headers={"Content-Type": "application/xml"})


def test_a_sitemap_spider(site: Site, mode: str) -> None:
    """A SitemapSpider that starts at robots.txt finds the pages of the sitemap, with
    one fetch of robots.txt.
    """
    host = site.add()
    text = f"{RULES}Sitemap: {host.url('/sitemap.xml')}\n"
    host.answers["/robots.txt"] = robots(text)
    host.answers["/sitemap.xml"] = sitemap(host, "/private", "/public")
    result = run_crawl(
        mode=mode, spider="RobotsSitemapSpider", sitemap_urls=[host.robotstxt]
    )
    assert len(host.robots_hits) == 1
    assert host.pages == ["/public", "/sitemap.xml"]
    assert result.fetched() == [host.url("/public")]


@pytest.mark.parametrize("enable", [ADDON, BY_HAND], ids=["add-on", "by hand"])
def test_a_request_for_robotstxt(site: Site, enable: dict[str, object]) -> None:
    """A spider's request for a robots.txt that the crawl has already fetched gets the copy,
    with the flag ``robotstxt_copy``.
    """
    host, forbidding = site.add(RULES), site.add("User-agent: *\nDisallow: /\n")
    missing = site.add(robots("Not here", status=404))
    hosts = (host, forbidding, missing)
    result = run_crawl(
        [host.url("/public") for host in hosts],
        then=[host.robotstxt for host in hosts],
        enable=enable,
    )
    assert [len(host.robots_hits) for host in hosts] == [1, 1, 1]
    seen = {response["url"]: response for response in result.responses}
    for one, status in ((host, 200), (forbidding, 200), (missing, 404)):
        assert seen[one.robotstxt]["status"] == status
        assert seen[one.robotstxt]["flags"] == ["robotstxt_copy"]
    assert seen[host.robotstxt]["body"] == RULES
    assert seen[host.url("/public")]["flags"] == []
    assert result.stats["rep/robotstxt/from_copy"] == 3


def test_requests_for_what_only_looks_like_robotstxt(site: Site) -> None:
    """A URL with a query or in another folder is not a robots.txt, and follows the rules."""
    host = site.add("User-agent: *\nDisallow: /\n")
    run_crawl([host.url("/robots.txt?a"), host.url("/x/robots.txt")])
    assert host.pages == []


@pytest.mark.skipif(
    not hasattr(signals, "robots_parsed"), reason="This Scrapy has no robots_parsed"
)
def test_robots_parsed(site: Site, mode: str) -> None:
    """The signal ``robots_parsed`` is sent once for each robots.txt, with a working parser."""
    host, missing = site.add(RULES), site.add()
    failing = site.add(robots("", status=503))
    result = run_crawl(
        [host.url("/public"), host.url("/b"), missing.url("/b"), failing.url("/b")],
        mode=mode,
    )
    of_host = [one for one in result.parsed if one["url"].startswith(host.origin)]
    assert len(of_host) == 1
    assert of_host[0]["allowed"]
    assert not of_host[0]["private"]
    assert not [one for one in result.parsed if one["url"].startswith(failing.origin)]


@pytest.mark.parametrize("dialect", ["rfc9309", "classic"])
def test_the_parser_under_scrapys_middleware(site: Site, dialect: str) -> None:
    """As ROBOTSTXT_PARSER, this package's parser decides for Scrapy's own middleware, in
    the dialect of the settings.
    """
    rules = "User-agent: *\nDisallow: /a\nAllow: /a/b\n"
    host = site.add(rules)
    enable = {
        "ROBOTSTXT_OBEY": True,
        "ROBOTSTXT_PARSER": "scrapy_rep.RobotParser",
        "REP_DIALECT": dialect,
    }
    # Scrapy's middleware lets some of several parallel requests pass.
    settings = {"CONCURRENT_REQUESTS": 1}
    paths = ("/a/b", "/a/c", "/c")
    result = run_crawl(map(host.url, paths), enable=enable, settings=settings)
    longest = ["/a/b", "/c"] if dialect == "rfc9309" else ["/c"]
    assert host.pages == longest
    assert result.stats["robotstxt/forbidden"] == 3 - len(longest)
    assert "rep/robotstxt/successful" not in result.stats


def test_counted_pages_are_pages(site: Site) -> None:
    """Responses for robots.txt do not reach the spider, and have their own stats."""
    host = site.add(RULES)
    result = run_crawl([host.url("/a"), host.url("/b")])
    assert len(result.responses) == 2
    assert result.stats["robotstxt/response_count"] == 1
    assert result.stats["robotstxt/response_status_count/200"] == 1


def test_a_duplicate_filter_sees_no_robotstxt(site: Site) -> None:
    """A spider's request for robots.txt is not a duplicate of the fetch by this package."""
    host = site.add(RULES)
    result = run_crawl([host.url("/a"), host.robotstxt])
    assert "dupefilter/filtered" not in result.stats
    assert len(host.robots_hits) == 1
    assert len(result.responses) == 2
