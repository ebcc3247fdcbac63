"""Indexing rules act on documents. JSON APIs, feeds and sitemaps that say noindex are crawled as
by stock Scrapy.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer
from tests.crawl.crawl import run_crawl
from tests.crawl.test_ledger import rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.unmeasured

SPIDER = "tests.crawl.page_spiders.TextLinkSpider"
DATA = {
    "/wp-json/wp/v2/shops": "application/json; charset=UTF-8",
    "/sitemap.xml": "text/xml; charset=UTF-8",
    "/shop-sitemap.xml": "application/xml",
    "/feed/": "application/rss+xml",
    "/shops.js": "text/javascript",
    # This is what PHP says if a plugin does not say that it sends JSON.
    "/wp-admin/admin-ajax.php": "text/html; charset=UTF-8",
}
"""Documents with the types that WordPress and its plugins send, by path."""


def tagged(body: bytes, content_type: str, tag: str) -> Answer:
    return Answer(body, headers={"Content-Type": content_type, "X-Robots-Tag": tag})


def wordpress(site: Site, tag: str = "noindex, nofollow") -> tuple[Host, list[str]]:
    """Add a site with data that says *tag* and links to pages. Return the URLs of the data."""
    host = site.add()
    for path, content_type in DATA.items():
        body = json.dumps({"link": host.url(f"/shop{path}")}).encode()
        host.answers[path] = tagged(body, content_type, tag)
    return host, list(map(host.url, DATA))


def test_nothing_of_data_is_dropped(site: Site, mode: str) -> None:
    """Items and links pass from JSON, sitemaps, feeds and scripts that say noindex and nofollow, as
    with stock Scrapy. Scrapy's log shows what they say.
    """
    host, urls = wordpress(site)
    result = run_crawl(urls, mode=mode, spider=SPIDER)
    assert set(host.pages) == {*DATA, *(f"/shop{path}" for path in DATA)}
    assert {item["url"] for item in result.items} == set(map(host.url, host.pages))
    assert "rep/noindex/dropped/noindex" not in result.stats
    assert "rep/nofollow/page" not in result.stats
    assert "['noindex', 'nofollow']" in result.log


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
def test_what_data_states_is_told(site: Site, tmp_path: Path, level: str) -> None:
    """The ledger has the statements of data, as noted, with a reason that says that they
    withheld nothing: once for each origin, or with the level "all" of each response. With
    REP_NOINDEX = "annotate", the items of data say it. A usage preference of data has its effect:
    noai on an API is meant for its content.
    """
    _, urls = wordpress(site, "noindex")
    _, others = wordpress(site, "noai")
    path = tmp_path / "ledger.sqlite"
    settings = {
        "REP_LEDGER": str(path),
        "REP_LEDGER_LEVEL": level,
        "REP_NOINDEX": "annotate",
        "REP_PURPOSES": ["train-ai"],
    }
    result = run_crawl([*urls, *others], spider=SPIDER, settings=settings)
    query = "SELECT * FROM decision WHERE layer = 'header' AND statement = 'noindex'"
    found = rows(path, f"{query} AND verdict = 'noted'")
    assert {row["reason"] for row in found} == {"data"}
    assert len(found) == (1 if level == "denied" else len(DATA))
    noted = [item for item in result.items if not item["robots"]["index"]]
    assert {item["url"] for item in noted} == set(urls)
    assert not {item["url"] for item in result.items} & set(others)
    assert result.stats["rep/usage/dropped/train-ai"] == len(DATA)
