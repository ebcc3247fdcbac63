"""Checks a crawl by the access log of the hosts. Lists the requests that a polite crawler would not send, and the items
that a polite crawler would not keep.

This module does not use scrapy-rep. It parses robots.txt with Protego, and pages with parsel. Scrapy depends on both.
"""

from __future__ import annotations

from functools import cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from parsel import Selector
from protego import Protego

from demo.offline.server import answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from demo.offline.server import Hit


def judge(
    log: list[Hit], kept: Iterable[str] | None = None, *, killed: str = ""
) -> int:
    """Print the violations in a crawl, and return their number.

    *log* contains the requests of the crawl. *kept* contains the URLs of the items that the crawl kept; None if these
    are not known, so that items are not checked. *killed* is the User-Agent of a worker that was killed; empty if no
    worker was killed. The times of the killed worker's requests are not checked.
    """
    # A killed worker cannot tell the other workers the times of its last requests, nor the pauses in the responses to
    # these requests. So another worker can send a request to the same site too early.
    pages = [hit for hit in log if not hit.is_robotstxt]
    timed = [hit for hit in log if hit.agent != killed]
    gaps = smallest_gaps(timed)
    pauses = list(pauses_kept(timed))
    violations = {
        "forbidden": [
            hit.url
            for hit in pages
            if not robotstxt(hit.url).can_fetch(hit.url, token(hit))
        ],
        "faster than a Crawl-delay": [
            f"{site}: {gap:.3f} s" for site, (asked, gap) in gaps.items() if gap < asked
        ],
        "within a pause": [
            f"{site}: after {gap:.3f} s" for site, asked, gap in pauses if gap < asked
        ],
    }
    if kept is not None:
        agents = {hit.url: token(hit) for hit in log}
        violations["kept in spite of noindex"] = [
            url for url in kept if {"noindex", "none"} & statements(url, agents[url])
        ]
    print(
        f"The access log of the hosts, checked with other parsers: {len(log)} requests, "
        f"{len(log) - len(pages)} of them for a robots.txt"
    )
    for what, urls in violations.items():
        print(f"  {len(urls)} {what}", *sorted(urls), sep="\n      ")
    for site, (asked, gap) in gaps.items():
        print(f"  {site}: Crawl-delay {asked:g} s, smallest gap {gap:.3f} s")
    for site, asked, gap in pauses:
        print(f"  {site}: Retry-After {asked} s, next request after {gap:.3f} s")
    return sum(map(len, violations.values()))


def token(hit: Hit) -> str:
    """Return the product token of the crawler that sent the request *hit*. User-agent lines in robots.txt files name
    the crawler by this token.
    """
    return hit.agent.partition("/")[0]


@cache
def robotstxt(url: str) -> Protego:
    """Return the robots.txt rules that apply to *url*. As RFC 9309 requires, redirects are followed. Everything is
    forbidden after a server error (5xx), and everything is allowed if there is no robots.txt (4xx).
    """
    response = answer(urljoin(url, "/robots.txt"))
    while "Location" in response.headers:
        response = answer(response.headers["Location"])
    if response.status >= 500:
        return Protego.parse("User-agent: *\nDisallow: /")
    return Protego.parse(response.body.decode() if response.status < 400 else "")


def smallest_gaps(log: list[Hit]) -> dict[str, tuple[float, float]]:
    """Return a dict by site. Each value contains the Crawl-delay of the site, and the shortest time between two
    requests to the site, in seconds. Sites without a Crawl-delay, and sites with fewer than two requests, are left out.
    """
    gaps = {}
    by_site = sorted((urljoin(hit.url, "/"), hit.seconds, token(hit)) for hit in log)
    for site, hits in groupby(by_site, key=lambda hit: hit[0]):
        (_, times, agents) = zip(*hits, strict=True)
        delay = robotstxt(site).crawl_delay(agents[0])
        if delay and len(times) > 1:
            gaps[site] = (
                delay,
                min(later - earlier for earlier, later in pairwise(times)),
            )
    return gaps


def pauses_kept(log: list[Hit]) -> Iterator[tuple[str, int, float]]:
    """Yield the pauses for which sites asked with Retry-After. Each tuple contains the site, the seconds in
    Retry-After, and the seconds until the crawler sent the next request to the site. Pauses without a later request are
    left out.
    """
    for hit in log:
        if not hit.retry_after:
            continue
        site = urljoin(hit.url, "/")
        later = [
            other.seconds
            for other in log
            if urljoin(other.url, "/") == site and other.seconds > hit.seconds
        ]
        if later:
            yield site, hit.retry_after, min(later) - hit.seconds


def statements(url: str, token: str) -> set[str]:
    """Return the names of the indexing rules that the page at *url* states for all crawlers, or for the crawler with
    the product token *token*.
    """
    response = answer(url)
    crawler, _, text = response.headers.get("X-Robots-Tag", "").rpartition(":")
    texts = [text] if crawler in {"", token} else []
    if response.headers["Content-Type"] == "text/html":
        page = Selector(response.body.decode())
        for name in ("robots", token):
            texts += page.css(f"meta[name={name}]::attr(content)").getall()
    return {word.strip().lower() for text in texts for word in text.split(",")}
