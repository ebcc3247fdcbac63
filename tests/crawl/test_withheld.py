"""A crawl says what it withheld, how much, why, and which setting changes that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer, image
from tests.crawl.crawl import run_crawl
from tests.crawl.test_indexing import SPIDERS, html, meta

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]


def test_each_kind(site: Site, tmp_path: Path) -> None:
    """There is a line for each kind and reason, with the count, the setting and one example URL:
    a warning for what was withheld of fetched pages. The first refused start request and the
    first dropped item have a line at once.
    """
    host = site.add("User-agent: *\nDisallow: /private\nCrawl-delay: 0.1\n")
    links = "".join(f'<a href="/from-{number}">' for number in range(3))
    host.answers |= {
        "/": html(links, meta("nofollow")),
        "/noindex/1": html("", meta("noindex")),
        "/noindex/2": html("", meta("noindex")),
        "/old": html("", tag="unavailable_after: 1999-1-1"),
        "/rel": html('<a href="/ugc" rel="ugc">'),
        "/ai": html("", tag="noai"),
        "/busy": Answer(status=503, headers={"Retry-After": "1"}),
    }
    paths = [f"/private/{number}" for number in range(4)] + list(host.answers)[1:]
    result = run_crawl(
        map(host.url, paths),
        spider=f"{SPIDERS}.PageSpider",
        settings={
            "REP_BACKOFF_MAX": 60,
            "REP_PURPOSES": ["train-ai"],
            "REP_REL": ["ugc"],
        },
    )
    origin = host.origin
    at_once = {
        ("INFO", "A start request is refused"): f"{origin}/private/",
        ("WARNING", "The first item is dropped"): origin,
    }
    at_the_end = {
        ("INFO", "Requests refused: 4", "(rule)", "REP_OVERRIDES"): "/private/",
        (
            "INFO",
            "Delays and pauses kept: 1",
            "(delay)",
            "REP_CRAWL_DELAY",
        ): "/robots.txt",
        ("INFO", "Delays and pauses kept: 1", "(back-off)", "REP_BACKOFF_MAX"): "/busy",
        ("WARNING", "Links not followed: 3", "(nofollow)", "REP_NOFOLLOW"): "/from-",
        ("WARNING", "Links not followed: 1", "(nofollow)", "REP_REL"): "/ugc",
        ("WARNING", "Items dropped: 2", "(noindex)", "REP_NOINDEX"): "/noindex/",
        ("WARNING", "Items dropped: 1", "(unavailable_after)", "REP_NOINDEX"): "/old",
        ("WARNING", "Items dropped: 1", "(train-ai)", "REP_PURPOSES"): "/ai",
    }
    begins = result.log.index("Closing spider")
    for (level, *words), url in (at_once | at_the_end).items():
        (line,) = result.lines(level, *words)
        assert url in line.partition("Example: ")[2]
        assert (result.log.index(line) > begins) is ((level, *words) in at_the_end)
    everything = [
        *result.lines("INFO", "Example: "),
        *result.lines("WARNING", "Example: "),
    ]
    assert len(everything) == len(at_once) + len(at_the_end)


def test_files(site: Site, tmp_path: Path) -> None:
    """Files that a media pipeline does not get have a line; they were fetched, or their page was."""
    host = site.add("User-agent: *\nDisallow:\n")
    host.answers |= {
        "/": html(f'<img src="{host.url("/a.gif")}">'),
        "/a.gif": image(X_Robots_Tag="noindex"),
    }
    result = run_crawl(
        [host.url("/")],
        spider="tests.crawl.page_spiders.MediaPageSpider",
        settings={
            "ITEM_PIPELINES": {"scrapy.pipelines.images.ImagesPipeline": 1},
            "IMAGES_STORE": str(tmp_path),
        },
    )
    (line,) = result.lines("WARNING", "Files withheld: 1", "(noindex)", "REP_NOINDEX")
    assert host.url("/a.gif") in line
