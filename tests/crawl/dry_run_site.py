"""A site of many hosts, with everything for which a crawl withholds requests, links, items and
files, and with many ways to most pages.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from tests.crawl.answers import Answer, image, redirect, robots
from tests.crawl.page_spiders import PageSpider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response

    from tests.crawl.server import Host, Site

RULES = "User-agent: *\nDisallow: /*3\nDisallow: /img/*7\nAllow: /p/13\n"
ROBOTS = [
    robots(RULES),
    robots(f"{RULES}Crawl-delay: 0.02\n"),
    None,
    robots("User-agent: testbot\nDisallow: /p/1\nAllow: /p/1$\n", delay=0.3),
    Answer(status=503),
    robots(f"{RULES}Content-Signal: ai-train=no\n", delay=0.2),
    redirect("/moved.txt", 301),
    robots("User-agent: *\nCrawl-delay: 100000\n"),
]
"""The robots.txt of the hosts, in turn."""


class SiteSpider(PageSpider):
    """Makes an item of each page, with its images, and follows all its links."""

    def note_response(self, response: Response) -> Iterator[Any]:
        if hasattr(response, "selector"):
            images = response.css("img::attr(src)").getall()
            yield {
                "url": response.url,
                "image_urls": list(map(response.urljoin, images)),
            }
            for link in response.css("a::attr(href)"):
                yield response.follow(link.get(), self.note_response)


def build(site: Site, hosts: int, pages: int) -> tuple[list[Host], list[str]]:
    """Add *hosts* with *pages* each to *site*. Return the hosts, and the URLs to start with."""
    found = [
        site.add(ROBOTS[number % len(ROBOTS)], name=f"h{number}.test")
        for number in range(hosts)
    ]
    for number, host in enumerate(found):
        host.answers["/moved.txt"] = robots(RULES)
        for page in range(pages):
            chance = Random(1000 * number + page)
            url = f"/p/{page}"
            host.answers[url] = _page(chance, found, page, pages)
            host.answers[f"/img/{page}"] = (
                image(X_Robots_Tag="noindex") if chance.random() < 0.1 else image()
            )
    starts = [host.url(f"/p/{page}") for host in found[:3] for page in (0, 3)]
    return found, starts


def _page(chance: Random, hosts: list[Host], page: int, pages: int) -> Answer:
    other = chance.choice(hosts).url(f"/p/{chance.randrange(pages)}")
    if page and chance.random() < 0.05:
        return redirect(other)
    own = [f"/p/{each}" for each in (2 * page + 1, 2 * page + 2) if each < pages]
    links = [(link, "") for link in own]
    rel = "nofollow" if chance.random() < 0.2 else ""
    links += [(other, rel), (chance.choice(hosts).url("/p/0"), "")]
    head, headers = "", {"Content-Type": "text/html; charset=utf-8"}
    drawn = chance.random()
    if drawn < 0.1:
        head = '<meta name="robots" content="noindex">'
    elif drawn < 0.2:
        head = '<meta name="robots" content="nofollow">'
    elif drawn < 0.25:
        headers["X-Robots-Tag"] = "none"
    elif drawn < 0.3:
        head = '<meta name="robots" content="noimageindex">'
    body = "".join(f'<a href="{link}" rel="{rel}">' for link, rel in links)
    if chance.random() < 0.3:
        body += f'<img src="/img/{chance.randrange(pages)}">'
    return Answer(f"<html><head>{head}</head>{body}".encode(), headers=headers)
