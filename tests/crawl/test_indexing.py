"""Tests that crawls obey the indexing rules of responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer, html, image, meta, redirect
from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Site

pytestmark = pytest.mark.unmeasured

SPIDERS = "tests.crawl.page_spiders"
PAGES = {
    "/open": html('<a href="/from-open">'),
    "/noindex": html('<a href="/from-noindex">', meta("noindex")),
    "/nofollow": html('<a href="/from-nofollow">', meta("nofollow")),
    "/none": html('<a href="/from-none">', tag="none"),
    "/ours": html('<a href="/from-ours">', meta("none", "testbot")),
    "/others": html('<a href="/from-others">', meta("none", "otherbot")),
    "/expired": html('<a href="/from-expired">', tag="unavailable_after: 1999-1-1"),
    "/target": html('<a href="/from-target">', tag="testbot: noindex"),
    "/commented": html('<a href="/from-commented">', f"<!-- {meta('none')} -->"),
    # Links with a keyword of REP_REL.
    "/rel": html(
        '<base href="/deep/"><a rel="ugc nofollow" href="marked"><a href="plain">'
        '<a rel=sponsored href="both"><a href="both"><area rel=UGC href="area">'
    ),
}
NOT_INDEXED = {"/noindex", "/none", "/ours", "/expired", "/target"}
NOT_FOLLOWED = {"/from-nofollow", "/from-none", "/from-ours"}


@pytest.mark.parametrize(
    "spider", ["PageSpider", "AsyncPageSpider", "ListPageSpider", "RulePageSpider"]
)
def test_items_and_links_are_kept_or_dropped_as_the_rules_of_their_pages_say(
    site: Site, mode: str, spider: str
) -> None:
    """The callbacks are generators, asynchronous generators, functions that return lists, or the callbacks of
    a CrawlSpider. A link whose rel attribute has a keyword of REP_REL is not followed, unless the page also
    links to the URL without the keyword.
    """
    host = site.add()
    host.answers["/"] = html("".join(f'<a href="{path}">' for path in PAGES))
    host.answers |= {**PAGES, "/moved": redirect("/target")}
    result = run_crawl(
        [host.url("/"), host.url("/moved")],
        spider=f"{SPIDERS}.{spider}",
        mode=mode,
        settings={"REP_REL": ["ugc"]},
    )
    linked = {f"/from-{path[1:]}" for path in PAGES if path != "/rel"} - NOT_FOLLOWED
    linked |= {"/", "/deep/plain", "/deep/both"}
    assert set(host.pages) == {*PAGES, *linked, "/moved"}
    items = {item["url"].removeprefix(host.origin) for item in result.items}
    assert items == {*PAGES, *linked} - NOT_INDEXED
    dropped = len(result.lines("DEBUG", "Dropped: "))
    assert not result.lines("WARNING", "Dropped: ")
    assert result.stats["item_dropped_count"] == dropped
    assert result.stats["rep/noindex/dropped/unavailable_after"] == 1
    assert result.stats["rep/noindex/dropped/noindex"] == dropped - 1
    assert result.stats["rep/nofollow/page"] == len(NOT_FOLLOWED)
    assert result.stats["rep/nofollow/rel"] == 2
    message = f"Dropped: {host.url('/noindex')} must not be indexed: noindex (meta)"
    assert len(result.lines("DEBUG", message)) == 1
    assert "['noindex', 'nofollow']" in result.log


def test_noindex_and_nofollow_do_not_stop_a_login_form_or_an_awaited_page(
    site: Site, mode: str
) -> None:
    """Pages with a login often say noindex and nofollow. The form of such a page is sent, and so are
    requests for URLs to which the page does not link. A callback that awaits a page with noindex gets it.
    """
    host = site.add()
    hidden = meta("noindex, nofollow")
    links = '<a href="/orders"><form method=post action="/login"><area href="/login">'
    host.answers |= {
        "/account": html(links, hidden),
        "/awaited": html('<a href="/next">', hidden),
    }
    spider = f"{SPIDERS}.LoginSpider"
    result = run_crawl([host.url("/account")], spider=spider, mode=mode)
    sent = {(hit.method, hit.path) for hit in host.hits}
    assert sent == {
        ("GET", "/robots.txt"),
        ("GET", "/account"),
        ("POST", "/login"),
        ("GET", "/api/orders"),
        ("GET", "/awaited"),
        ("GET", "/next"),
    }
    assert result.stats["rep/nofollow/page"] == 1
    (line,) = result.lines("DEBUG", "its link on", "must not be followed")
    assert host.url("/orders") in line
    assert "rep/noindex/media/noindex" not in result.stats


def test_items_do_not_get_files_that_say_noindex(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """Media pipelines leave a file out of its item if a header of the file says noindex. They also leave it
    out if its headers, or robots.txt, forbid its use for a purpose of the crawl. Images are left out for
    noimageindex and noimageai, too.

    If the page of an item says noimageindex or noimageai, the images of the item are not requested, and
    the field IMAGES_URLS_FIELD is emptied. The other files of the item are requested. An item that cannot
    be changed is dropped.
    """
    host = site.add("User-agent: *\nContent-Usage: /no/ train-ai=n\n")
    document = Answer(b"d", headers={"Content-Type": "application/pdf"})
    files = {
        "/a.gif": image(),
        "/b.gif": image(X_Robots_Tag="noindex"),
        "/c.gif": image(X_Robots_Tag="noimageindex"),
        "/d.gif": image(X_Robots_Tag="noimageai"),
        "/e.gif": image(Content_Usage="train-ai=n"),
        "/no/f.gif": image(),
        "/a.pdf": document,
        "/b.pdf": Answer(b"d", headers={"tdm-reservation": "1"}),
        "/pdf.html": html(head=meta("noindex")),
    }
    body = "".join(
        f'<{"a href" if "pdf" in path else "img src"}="{host.url(path)}">'
        for path in files
    )
    hidden = f'<img src="{host.url("/hidden.gif")}"><a href="{host.url("/a.pdf")}">'
    host.answers |= {
        **files,
        "/page": html(body),
        "/noimageindex": html(hidden, meta("noimageindex")),
        "/noimageai": html(hidden, meta("noimageai")),
        "/covers": html(hidden, meta("noimageindex")),
    }
    pipelines = ("images.ImagesPipeline", "files.FilesPipeline")
    result = run_crawl(
        map(host.url, ("/page", "/noimageindex", "/noimageai", "/covers")),
        spider=f"{SPIDERS}.MediaPageSpider",
        mode=mode,
        settings={
            "ITEM_PIPELINES": {f"scrapy.pipelines.{name}": 1 for name in pipelines},
            "IMAGES_STORE": str(tmp_path),
            "FILES_STORE": str(tmp_path),
            "REP_PURPOSES": ["train-ai"],
        },
    )
    assert "/hidden.gif" not in host.pages
    media_of = {
        item["url"].removeprefix(host.origin): [
            media["url"].removeprefix(host.origin)
            for media in [*item.get("images", []), *item.get("files", [])]
        ]
        for item in result.items
    }
    assert media_of == {
        "/page": ["/a.gif", "/a.pdf", "/pdf.html"],
        "/noimageindex": ["/a.pdf"],
        "/noimageai": ["/a.pdf"],
    }
    emptied = [item["image_urls"] for item in result.items if "noimage" in item["url"]]
    assert emptied == [[], []]
    assert result.stats["rep/noindex/media/noindex"] == 1
    assert result.stats["rep/noindex/media/noimageindex"] == 2
    assert result.stats["rep/usage/media/train-ai"] == 5
    assert result.stats["rep/noindex/dropped/noimageindex"] == 1
    assert f"The images of {host.url('/covers')} must not be indexed" in result.log
