"""What the example project fetches and keeps, and the verdict of its judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scrapy.settings import default_settings

from tests.example import copy_project, crawl

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.unmeasured

ACQUITTED = [
    "requests for a robots.txt: 12",
    "requests that reached a forbidden path: 0",
    "requests outside of a Visit-time: 0",
    "hosts asked faster than their Crawl-delay: 0",
    "smallest gap at http://slow.example: <gap>, asked for: 0.3 s",
    "items kept that said noindex: 0",
    "",
    "The ledger: scrapy rep report demo.ledger",
]
IGNORE_PAGES = (
    "-s",
    "REP_NOINDEX=ignore",
    "-s",
    "REP_NOFOLLOW=ignore",
    "-s",
    "REP_REL=",
)

MODES = [
    pytest.param("TWISTED_REACTOR_ENABLED=True", id="asyncio"),
    pytest.param(
        "TWISTED_REACTOR_ENABLED=False",
        id="reactorless",
        marks=pytest.mark.skipif(
            not hasattr(default_settings, "TWISTED_REACTOR_ENABLED"),
            reason="Scrapy runs without a reactor from 2.15 on",
        ),
    ),
]

KEPT = {
    "http://bare.example/",
    "http://bare.example/private/",
    "http://docs.example/",
    "http://docs.example/drafts/ready-to-read.html",
    "http://docs.example/guide/",
    "http://moved.example/",
    "http://moved.example/news.html",
    "http://open.example/",
    "http://open.example/about.html",
    "http://press.example/",
    "http://press.example/archive/founding.html",
    "http://press.example/comments.html",
    "http://press.example/letters.html",
    "http://press.example/rivals.html",
    "http://shop.example/",
    "http://shop.example/basket/help.html",
    "http://shop.example/tea.html",
    "http://slow.example/",
    "http://slow.example/one.html",
    "http://slow.example/three.html",
    "http://slow.example/two.html",
    "http://typo.example/",
    "http://typo.example/attic/",
    "http://typo.example/cellar/",
}
EXPIRING = {"http://press.example/fair.html": "until 2099-12-31T23:59:59Z"}
NOINDEX = {
    "http://press.example/archive.html": "noindex (meta)",
    "http://press.example/members.html": "none (meta)",
    "http://press.example/print.html": "noindex (header)",
}
EXPIRED = {
    "http://press.example/yesterday.html": "unavailable_after: 2010-06-25 (meta)"
}
REDIRECT = "http://open.example/offer"
FETCHED = {*KEPT, *EXPIRING, *NOINDEX, *EXPIRED, REDIRECT}
# A link extractor skips links to PDF files by default.
PDF = "http://docs.example/guide/guide.pdf"
PDF_PAGE = "http://docs.example/guide/guide.pdf?page=1"
PDF_NOINDEX = "http://press.example/paper.pdf"

SHOP = "http://shop.example/robots.txt"
DOCS = "http://docs.example/robots.txt"
FORBIDDEN = {
    "http://docs.example/drafts/rough.html": (DOCS, "2: Disallow: /drafts/"),
    "http://down.example/": ("http://down.example/robots.txt", "unreachable"),
    "http://moved.example/drafts/next.html": (
        "http://moved.example/robots.txt",
        "2: Disallow: /drafts/",
    ),
    "http://shop.example/basket/": (SHOP, "7: Disallow: /basket/"),
    "http://shop.example/basket/add.html": (SHOP, "7: Disallow: /basket/"),
    "http://shop.example/basket/offer.html": (SHOP, "7: Disallow: /basket/"),
    "http://shop.example/tea.html?sort=price": (SHOP, "9: Disallow: /*?sort="),
}
GLACIAL = "http://glacial.example/"
NIGHT = "http://night.example/"
REFUSED = {
    **FORBIDDEN,
    GLACIAL: ("http://glacial.example/robots.txt", "3: Crawl-delay: 3600"),
    NIGHT: ("http://night.example/robots.txt", "2: Visit-time: <hours>"),
}

PRESS = "http://press.example"
NOT_FOLLOWED = {
    f"{PRESS}/comments/advert.html": (f"{PRESS}/comments.html", "nofollow (rel)"),
    f"{PRESS}/comments/reader.html": (f"{PRESS}/comments.html", "nofollow (rel)"),
    f"{PRESS}/letters/complaint.html": (f"{PRESS}/letters.html", "nofollow (page)"),
    f"{PRESS}/members/list.html": (f"{PRESS}/members.html", "nofollow (page)"),
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return copy_project(tmp_path)


@pytest.mark.parametrize("mode", MODES)
def test_demo(mode: str, project: Path) -> None:
    """The demo spider fetches and keeps all allowed pages, and only those. Its table names
    the line that refused a page, the statement that dropped an item, and the page whose
    links were not followed. The judge finds no violation.
    """
    result = crawl("demo", "-s", mode, project=project)
    assert result.fetched == {*FETCHED, PDF_PAGE, PDF_NOINDEX}
    assert result.kept == {*KEPT, PDF_PAGE}
    noindex = {**NOINDEX, PDF_NOINDEX: "noindex (header)"}
    assert result.of_item("dropped") == {**noindex, **EXPIRED}
    assert result.of_item("expiring") == EXPIRING
    refused = {**REFUSED, PDF: (DOCS, "3: Disallow: /*.pdf$")}
    assert result.not_sent("refused") == refused
    assert result.not_sent("not followed") == NOT_FOLLOWED
    assert result.closing_lines == ACQUITTED


def test_links(project: Path) -> None:
    """A CrawlSpider without any code for this package gets the same results."""
    result = crawl("links", project=project)
    assert result.fetched == FETCHED
    assert result.kept == KEPT
    assert result.of_item("dropped") == {**NOINDEX, **EXPIRED}
    assert result.of_item("expiring") == EXPIRING
    assert result.not_sent("refused") == REFUSED
    assert result.not_sent("not followed") == NOT_FOLLOWED
    assert result.closing_lines == ACQUITTED


@pytest.mark.newest
def test_judge_finds_what_should_not_be(project: Path) -> None:
    """A crawl that ignores all rules fetches and keeps every page, and the judge lists each
    violation, and no others.
    """
    result = crawl(
        "links", "-s", "ROBOTSTXT_OBEY=False", *IGNORE_PAGES, project=project
    )
    next_page = f"{GLACIAL}next.html"
    assert result.fetched == {*FETCHED, *REFUSED, *NOT_FOLLOWED, next_page}
    assert result.kept == result.fetched - {REDIRECT}
    assert result.closing_lines == [
        "requests for a robots.txt: 0",
        f"requests that reached a forbidden path: {len(FORBIDDEN)}",
        *(f"  {page}" for page in sorted(FORBIDDEN)),
        "requests outside of a Visit-time: 1",
        f"  {NIGHT}",
        "hosts asked faster than their Crawl-delay: 2",
        "  http://glacial.example",
        "  http://slow.example",
        "smallest gap at http://slow.example: <gap>, asked for: 0.3 s",
        "smallest gap at http://glacial.example: <gap>, asked for: 3600 s",
        f"items kept that said noindex: {len(NOINDEX)}",
        *(f"  {page}" for page in sorted(NOINDEX)),
        *ACQUITTED[-2:],
    ]


@pytest.mark.newest
def test_edited_site(project: Path) -> None:
    """After an edit of a robots.txt or a page of the site, the next
    crawl follows the new rules.
    """
    site = project / "demo" / "site"
    (site / "bare" / "robots.txt").write_text(
        "User-agent: demobot\nDisallow: /private\n"
    )
    (site / "open" / "about.html").write_text('<meta name="robots" content="noindex">')
    result = crawl("demo", project=project)
    refused = "http://bare.example/private/"
    assert refused not in result.fetched
    assert result.not_sent("refused")[refused] == (
        "http://bare.example/robots.txt",
        "2: Disallow: /private",
    )
    assert (
        result.of_item("dropped")["http://open.example/about.html"] == "noindex (meta)"
    )
    assert result.closing_lines == ACQUITTED
