"""Crawls obey the indexing rules of responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.answers import Answer, html, image, meta, redirect
from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: *\nDisallow:\n"
SPIDERS = "tests.crawl.page_spiders"


def crawl(host: Host, spider: str = "PageSpider", **arguments: Any) -> CrawlResult:
    return run_crawl([host.url("/")], spider=f"{SPIDERS}.{spider}", **arguments)


def items(result: CrawlResult, host: Host) -> list[str]:
    return sorted(item["url"].removeprefix(host.origin) for item in result.items)


def site_with_everything(site: Site) -> Host:
    """Add a host with one page for each kind of rule, each with a link to its own page."""
    host = site.add(RULES)
    pages = {
        "/open": html('<a href="/from-open">'),
        "/noindex": html('<a href="/from-noindex">', meta("noindex")),
        "/nofollow": html('<a href="/from-nofollow">', meta("nofollow")),
        "/none": html('<a href="/from-none">', tag="none"),
        "/ours": html('<a href="/from-ours">', meta("none", "testbot")),
        "/others": html('<a href="/from-others">', meta("none", "otherbot")),
        "/expired": html('<a href="/from-expired">', tag="unavailable_after: 1999-1-1"),
        "/moved": redirect("/target"),
        "/target": html('<a href="/from-target">', tag="testbot: noindex"),
        "/commented": html('<a href="/from-commented">', f"<!-- {meta('none')} -->"),
    }
    links = "".join(f'<a href="{path}">' for path in pages if path != "/target")
    host.answers |= {"/": html(links), **pages}
    for path in [path for path in pages if path != "/moved"]:
        host.answers[f"/from-{path[1:]}"] = html()
    return host


NOT_INDEXED = {"/noindex", "/none", "/ours", "/expired", "/target"}
NOT_FOLLOWED = {"/from-nofollow", "/from-none", "/from-ours"}


@pytest.mark.parametrize(
    "spider", ["PageSpider", "AsyncPageSpider", "ListPageSpider", "RulePageSpider"]
)
def test_exactly_what_is_allowed_arrives(site: Site, mode: str, spider: str) -> None:
    """Items and links pass as the rules of their pages allow, from callbacks
    that are generators, asynchronous generators or functions that return
    lists, and from a CrawlSpider.
    """
    host = site_with_everything(site)
    result = crawl(host, spider, mode=mode)
    known = set(host.answers) - {"/robots.txt"}
    assert set(host.pages) == known - NOT_FOLLOWED
    expected = known - NOT_FOLLOWED - NOT_INDEXED - {"/moved"}
    assert items(result, host) == sorted(expected)
    assert result.stats["item_dropped_count"] == len(NOT_INDEXED)
    assert result.stats["rep/noindex/dropped/noindex"] == len(NOT_INDEXED) - 1
    assert result.stats["rep/noindex/dropped/unavailable_after"] == 1
    assert result.stats["rep/nofollow/page"] == len(NOT_FOLLOWED)
    url = host.url("/noindex")
    dropped = f"Dropped: {url} must not be indexed: noindex (meta)"
    assert len(result.lines("WARNING", dropped)) == 1
    assert len(result.lines("WARNING", "Dropped: ")) == len(NOT_INDEXED)
    assert "['noindex', 'nofollow']" in result.log


def test_the_level_of_dropped_items(site: Site) -> None:
    """DEFAULT_DROPITEM_LOG_LEVEL is also the level of items that are dropped for noindex."""
    host = site_with_everything(site)
    result = crawl(host, settings={"DEFAULT_DROPITEM_LOG_LEVEL": "DEBUG"})
    assert len(result.lines("DEBUG", "Dropped: ")) == len(NOT_INDEXED)
    assert not result.lines("WARNING", "Dropped: ")


@pytest.mark.newest
def test_links_by_rel(site: Site, mode: str) -> None:
    """A link whose rel attribute has a keyword of REP_REL is not followed, unless the page
    also links to the URL without it.
    """
    host = site.add(RULES)
    body = (
        '<base href="/deep/"><a rel="ugc nofollow" href="marked"><a href="plain">'
        '<a rel=sponsored href="both"><a href="both"><area rel=UGC href="area">'
    )
    host.answers["/"] = html(body)
    for name in ("plain", "both", "marked", "area"):
        host.answers[f"/deep/{name}"] = html()
    for spider in ("PageSpider", "RulePageSpider"):
        result = crawl(host, spider, mode=mode, settings={"REP_REL": ["ugc"]})
        assert result.stats["rep/nofollow/rel"] == 2
    assert set(host.pages) == {"/", "/deep/plain", "/deep/both"}


MEDIA = {
    "ITEM_PIPELINES": {
        "scrapy.pipelines.images.ImagesPipeline": 1,
        "scrapy.pipelines.files.FilesPipeline": 2,
    }
}


def stores(folder: Path) -> dict[str, str]:
    return {"IMAGES_STORE": str(folder), "FILES_STORE": str(folder)}


def with_images(host: Host, *paths: str, head: str = "", body: str = "") -> Answer:
    images = "".join(f'<img src="{host.url(path)}">' for path in paths)
    return html(images + body, head)


def test_media(site: Site, mode: str, tmp_path: Path) -> None:
    """Files do not arrive if their own header says noindex, nor images whose own header says
    noimageindex. Images that the item of a page with noimageindex names are not requested; the
    other files of the item are.
    """
    host = site.add(RULES)
    document = f'<a href="{host.url("/d.pdf")}">'
    host.answers |= {
        "/": with_images(host, "/a.gif", "/b.gif", "/e.gif", body=document),
        "/page": with_images(host, "/c.gif", head=meta("noimageindex"), body=document),
        "/a.gif": image(),
        "/b.gif": image(X_Robots_Tag="noindex"),
        "/c.gif": image(),
        "/d.pdf": Answer(b"d", headers={"Content-Type": "application/pdf"}),
        "/e.gif": image(X_Robots_Tag="noimageindex"),
    }
    result = run_crawl(
        [host.url("/"), host.url("/page")],
        spider=f"{SPIDERS}.MediaPageSpider",
        mode=mode,
        settings={**MEDIA, **stores(tmp_path)},
    )
    assert "/c.gif" not in host.pages
    found = {
        item["url"].removeprefix(host.origin): [
            [media["url"].removeprefix(host.origin) for media in item[field]]
            for field in ("images", "files")
        ]
        for item in result.items
    }
    assert found == {"/": [["/a.gif"], ["/d.pdf"]], "/page": [[], ["/d.pdf"]]}
    assert [item["image_urls"] for item in result.items if "/page" in item["url"]] == [
        []
    ]
    assert result.stats["rep/noindex/media/noindex"] == 1
    assert result.stats["rep/noindex/media/noimageindex"] == 2


def test_images_in_fields_of_their_own(site: Site, mode: str, tmp_path: Path) -> None:
    """The field is emptied that each ImagesPipeline of the project reads: that of its own
    setting, of its class, or of its code. An item that cannot be changed is dropped.
    """
    host = site.add(RULES)
    paths = ["/1.gif", "/2.gif", "/3.gif"]
    host.answers |= {
        "/page": with_images(host, *paths, head=meta("noimageindex")),
        **dict.fromkeys(paths, image()),
    }
    pipelines = ("CoverPipeline", "OwnFieldPipeline", "PortraitPipeline")
    result = run_crawl(
        [host.url("/page")],
        spider=f"{SPIDERS}.ManyPipelinesSpider",
        mode=mode,
        settings={
            **stores(tmp_path),
            "ITEM_PIPELINES": {
                "scrapy.pipelines.images.ImagesPipeline": 1,
                **{f"tests.crawl.image_pipelines.{name}": 2 for name in pipelines},
            },
            "COVERPIPELINE_IMAGES_URLS_FIELD": "covers",
        },
    )
    assert host.pages == ["/page"]
    (item,) = result.items
    empty = {"covers": [], "cover": "", "portrait": []}  # A tuple is a list in JSON.
    assert item.items() >= {**empty, "other": host.url("/1.gif")}.items()
    assert result.stats["rep/noindex/media/noimageindex"] == 3
    assert result.stats["rep/noindex/dropped/noimageindex"] == 1
    assert f"The images of {host.url('/page')} must not be indexed" in result.log
