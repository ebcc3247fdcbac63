"""Other components of Scrapy beside this package's middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scrapy import signals

from tests.crawl.answers import Answer, robots
from tests.crawl.crawl import run_crawl
from tests.crawl.test_ledger import rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: *\nDisallow: /private\n"
DOWN = Answer(status=503)
NO_PAGE = {"X-Robots-Tag": "noindex, nofollow"}


def test_a_project_that_names_scrapys_own(
    site: Site, tmp_path: Path, mode: str
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
            "DOWNLOADER_MIDDLEWARES": {theirs: 100},
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
    headers = {"Content-Type": "application/xml", **NO_PAGE}
    return Answer(body.encode(), headers=headers)


def test_a_sitemap_spider(site: Site, mode: str) -> None:
    """A SitemapSpider that starts at robots.txt finds the pages of the sitemap, with
    one fetch of robots.txt, although both say noindex and nofollow, as SEO plugins let them.
    """
    host = site.add()
    text = f"{RULES}Sitemap: {host.url('/sitemap.xml')}\n"
    host.answers["/robots.txt"] = robots(text, headers=NO_PAGE)
    host.answers["/sitemap.xml"] = sitemap(host, "/private", "/public")
    result = run_crawl(
        mode=mode, spider="RobotsSitemapSpider", sitemap_urls=[host.robotstxt]
    )
    assert len(host.robots_hits) == 1
    assert host.pages == ["/public", "/sitemap.xml"]
    assert result.fetched() == [host.url("/public")]


def test_requests_for_robotstxt(site: Site, mode: str) -> None:
    """A spider's request for a robots.txt that the crawl has already fetched gets the copy, with the
    flag ``robotstxt_copy``; it is no duplicate of the fetch, which does not reach the spider and
    has its own stats. A URL with a query or in another folder is not a robots.txt. The signal
    ``robots_parsed`` is sent once for each robots.txt, with a working parser.
    """
    host, forbidding = site.add(RULES), site.add("User-agent: *\nDisallow: /\n")
    missing, failing = site.add(robots("Not here", status=404)), site.add(DOWN)
    hosts = (host, forbidding, missing)
    result = run_crawl(
        [one.url("/public") for one in (*hosts, failing)],
        then=[
            *(one.robotstxt for one in hosts),
            *(forbidding.url(path) for path in ("/robots.txt?a", "/x/robots.txt")),
        ],
        mode=mode,
    )
    assert [len(one.robots_hits) for one in hosts] == [1, 1, 1]
    assert forbidding.pages == []
    seen = {response["url"]: response for response in result.responses}
    assert len(seen) == len(result.responses) == 5
    for one, status in ((host, 200), (forbidding, 200), (missing, 404)):
        assert seen[one.robotstxt]["status"] == status
        assert seen[one.robotstxt]["flags"] == ["robotstxt_copy"]
    assert seen[host.robotstxt]["body"] == RULES
    assert seen[host.url("/public")]["flags"] == []
    assert result.stats["rep/robotstxt/from_copy"] == 3
    assert result.stats["robotstxt/response_count"] == 4
    assert result.stats["robotstxt/response_status_count/200"] == 2
    assert "dupefilter/filtered" not in result.stats
    if hasattr(signals, "robots_parsed"):
        parsed = {one["url"]: (one["allowed"], one["private"]) for one in result.parsed}
        assert len(result.parsed) == 2
        assert parsed == {
            host.url("/public"): (True, False),
            forbidding.url("/public"): (False, False),
        }


def test_the_parser_under_scrapys_middleware(site: Site) -> None:
    """As ROBOTSTXT_PARSER, this package's parser decides for Scrapy's own middleware, in
    the dialect of the settings.
    """
    rules = "User-agent: *\nDisallow: /a\nAllow: /a/b\n"
    host = site.add(rules)
    enable = {
        "ROBOTSTXT_OBEY": True,
        "ROBOTSTXT_PARSER": "scrapy_rep.RobotParser",
        "REP_DIALECT": "classic",
    }
    # Scrapy's middleware lets some of several parallel requests pass.
    settings = {"CONCURRENT_REQUESTS": 1}
    paths = ("/a/b", "/a/c", "/c")
    result = run_crawl(map(host.url, paths), enable=enable, settings=settings)
    assert host.pages == ["/c"]
    assert result.stats["robotstxt/forbidden"] == 2
    assert "rep/robotstxt/successful" not in result.stats
