"""Indexing rules act on documents. JSON APIs, feeds and sitemaps that say noindex are crawled as
by stock Scrapy.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.answers import Answer
from tests.crawl.crawl import run_crawl
from tests.crawl.test_ledger import rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.unmeasured

SPIDERS = "tests.crawl.data_spiders"
SHOPS = ("Abbey Road", "Baker Street", "Camden")
JSON = "application/json; charset=UTF-8"
HTML = "text/html; charset=UTF-8"


def tagged(body: bytes | str, content_type: str, tag: str, **headers: str) -> Answer:
    fields = {"Content-Type": content_type, "X-Robots-Tag": tag, **headers}
    fields = {name: value for name, value in fields.items() if value}
    return Answer(body if isinstance(body, bytes) else body.encode(), headers=fields)


def wordpress(site: Site) -> Host:
    """Add a WordPress site with the pages of some shops, its APIs, sitemaps and a feed, each
    with the headers that WordPress and SEO plugins send.
    """
    host = site.add()
    start = f"User-agent: *\nDisallow: /wp-admin/\nAllow: {AJAX}\n"
    robots = f"{start}Sitemap: {host.url('/sitemap_index.xml')}\n"
    host.answers["/robots.txt"] = tagged(robots, "text/plain", "noindex, nofollow")
    for number, name in enumerate(SHOPS, 1):
        data = json.dumps({"@type": "Store", "name": name})
        page = (
            f'<html><script type="application/ld+json">{data}</script>'
            f"<p id=phone>{number}</p></html>"
        )
        host.answers[f"/shop/{number}/"] = tagged(page, HTML, "")
    found = [{"id": number, "store": name} for number, name in enumerate(SHOPS, 1)]
    host.answers[AJAX_QUERY] = tagged(json.dumps(found), JSON, "noindex")
    for page_number, numbers in ((1, (1, 2)), (2, (3,))):
        shops = [
            {
                "id": number,
                "link": host.url(f"/shop/{number}/"),
                "title": {"rendered": SHOPS[number - 1]},
            }
            for number in numbers
        ]
        path = f"/wp-json/wp/v2/shops?per_page=2&page={page_number}"
        host.answers[path] = tagged(
            json.dumps(shops), JSON, "noindex", **{"X-WP-TotalPages": "2"}
        )
    namespace = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    host.answers["/sitemap_index.xml"] = tagged(
        f'<?xml version="1.0" encoding="UTF-8"?>\n<sitemapindex {namespace}>'
        f"<sitemap><loc>{host.url('/shop-sitemap.xml')}</loc></sitemap></sitemapindex>",
        "text/xml; charset=UTF-8",
        "noindex, follow",
    )
    pages = "".join(
        f"<url><loc>{host.url(f'/shop/{number}/')}</loc></url>" for number in (1, 2, 3)
    )
    host.answers["/shop-sitemap.xml"] = tagged(
        f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset {namespace}>{pages}</urlset>',
        "application/xml",
        "noindex, nofollow",
    )
    entries = "".join(f"<item><title>{name}</title></item>" for name in SHOPS)
    host.answers["/feed/"] = tagged(
        f"<rss version='2.0'><channel>{entries}</channel></rss>",
        "application/rss+xml",
        "noindex, nofollow",
    )
    return host


AJAX = "/wp-admin/admin-ajax.php"
AJAX_QUERY = f"{AJAX}?action=store_search&autoload=1"
CRAWLS = {
    "StoreFinderSpider": ([AJAX_QUERY], 3),
    "RestSpider": (["/shop/1/", "/shop/2/", "/shop/3/"], 6),
    "ShopSitemapSpider": (["/shop/1/", "/shop/2/", "/shop/3/"], 3),
    "FeedSpider": (["/feed/"], 3),
}


def crawl(host: Host, spider: str, **arguments: Any) -> CrawlResult:
    return run_crawl(
        spider=f"{SPIDERS}.{spider}",
        origin=host.origin,
        sitemap_urls=[host.robotstxt],
        start_urls=[host.url("/feed/")],
        **arguments,
    )


@pytest.mark.parametrize("spider", CRAWLS)
def test_nothing_of_data_is_dropped(site: Site, mode: str, spider: str) -> None:
    """Spiders of a store locator, a REST API, sitemaps and a feed get all items from all pages, as
    with stock Scrapy, although each of these answers says noindex.
    """
    pages, count = CRAWLS[spider]
    host = wordpress(site)
    result = crawl(host, spider, mode=mode)
    assert set(pages) <= set(host.pages)
    assert len(result.items) == count
    assert len({json.dumps(item) for item in result.items}) == count
    assert "rep/noindex/dropped/noindex" not in result.stats
    assert "rep/nofollow/page" not in result.stats


@pytest.mark.newest
def test_files_that_are_data(site: Site, mode: str, tmp_path: Path) -> None:
    """A media pipeline gets a JSON file, a sitemap and an archive that say noindex, and does
    not get a PDF that says so.
    """
    host = site.add()
    types = {
        "/a.json": "application/json",
        "/b.xml": "text/xml",
        "/c.zip": "application/zip",
        "/d.pdf": "application/pdf",
    }
    for path, name in types.items():
        host.answers[path] = tagged(b"{}", name, "noindex")
    result = run_crawl(
        [host.url("/")],
        spider="FilesSpider",
        mode=mode,
        file_urls=[host.url(path) for path in types],
        settings={
            "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
            "FILES_STORE": str(tmp_path),
        },
    )
    (item,) = result.items
    got = {file["url"].removeprefix(host.origin) for file in item["files"]}
    assert got == set(types) - {"/d.pdf"}
    assert result.stats["rep/noindex/media/noindex"] == 1


@pytest.mark.newest
@pytest.mark.parametrize("level", ["denied", "all"])
def test_the_ledger_notes_what_data_states(
    site: Site, tmp_path: Path, level: str
) -> None:
    """The ledger has the statements of data, as noted, with a reason that says that they
    withheld nothing: once for each origin, or with the level "all" of each response.
    """
    host = wordpress(site)
    path = tmp_path / "ledger.sqlite"
    settings = {"REP_LEDGER": str(path), "REP_LEDGER_LEVEL": level}
    crawl(host, "RestSpider", settings=settings)
    query = "SELECT * FROM decision WHERE layer = 'header' ORDER BY id"
    found = rows(path, query)
    assert {(row["verdict"], row["reason"]) for row in found} == {("noted", "data")}
    assert {row["statement"] for row in found} == {"noindex"}
    assert len(found) == (1 if level == "denied" else 2)
    assert not rows(path, "SELECT * FROM decision WHERE verdict = 'dropped'")


@pytest.mark.newest
def test_the_rules_of_data_are_exposed(site: Site) -> None:
    """Scrapy's log shows what data states, and with REP_NOINDEX = "annotate" its items say it."""
    host = wordpress(site)
    result = crawl(host, "StoreFinderSpider", settings={"REP_NOINDEX": "annotate"})
    assert {item["robots"]["index"] for item in result.items} == {False}
    assert len(result.items) == len(SHOPS)
    assert "['noindex']" in result.log


@pytest.mark.newest
def test_usage_preferences_act_on_data(site: Site) -> None:
    """A usage preference for JSON has its effect: noai on an API is meant for its content."""
    host = wordpress(site)
    answer = host.answers[AJAX_QUERY]
    fields = {**answer.headers, "X-Robots-Tag": "noindex, noai"}
    host.answers[AJAX_QUERY] = Answer(answer.body, headers=fields)
    result = crawl(host, "StoreFinderSpider", settings={"REP_PURPOSES": ["train-ai"]})
    assert result.items == []
    assert result.stats["rep/usage/dropped/train-ai"] == len(SHOPS)
