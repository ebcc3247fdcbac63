"""The verdict: requests that a crawler must not have sent, or sent too early, and items
that it must not have kept.

The judge is independent of scrapy-rep: Protego parses robots.txt and parsel the pages.
Both come with Scrapy, and read the files of the site.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

from parsel import Selector
from protego import Protego

from demo.hosts import HOSTS, Answer, Host
from demo.server import SITE, Hit, page_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import time


class Gap(NamedTuple):
    """The smallest gap between two requests to a host with a delay."""

    host: Host
    asked: float
    seen: float


def forbidden_hits(hits: Iterable[Hit], user_agent: str) -> list[Hit]:
    rules = {host.name: Protego.parse(_robotstxt(host)) for host in HOSTS}
    return [
        hit for hit in hits if not rules[hit.host.name].can_fetch(hit.url, user_agent)
    ]


def gaps(hits: Iterable[Hit], user_agent: str) -> list[Gap]:
    """Return the gap of each host with a Crawl-delay and more than one request."""
    found = []
    for host in HOSTS:
        asked = Protego.parse(_robotstxt(host)).crawl_delay(user_agent)
        times = sorted(hit.seconds for hit in hits if hit.host == host)
        if asked and len(times) > 1:
            seen = min(later - one for one, later in pairwise(times))
            found.append(Gap(host, asked, seen))
    return found


def untimely_hits(hits: Iterable[Hit], user_agent: str) -> list[Hit]:
    """Return the requests to hosts whose Visit-time is closed; its window is hours away."""
    closed = {host.name for host in HOSTS if _is_closed(host, user_agent)}
    return [hit for hit in hits if hit.host.name in closed]


def repeated_robotstxts(hits: Iterable[Hit]) -> list[str]:
    """Return robots.txt URLs that were fetched more than once for each host that needs
    them: the host itself, and each host that redirects there.
    """
    asked = Counter(hit.url for hit in hits if hit.url.endswith("/robots.txt"))
    for host in HOSTS:
        url = f"{host.origin}/robots.txt"
        while url:
            asked[url] -= 1
            url = _location(url)
    return list(asked.elements())


def missing_pages(
    hits: Iterable[Hit],
    start: str,
    user_agent: str,
    longest_delay: float,
    rel: Collection[str],
) -> set[str]:
    """Return the URLs that a crawl from *start* should have requested, but did not. Such
    a crawl skips hosts with a longer delay, and follows no links with a value of *rel*.
    """
    name = user_agent.partition("/")[0]
    rules = {host.name: Protego.parse(_robotstxt(host)) for host in HOSTS}
    left_alone = set()
    for host in HOSTS:
        delay = rules[host.name].crawl_delay(user_agent) or 0
        if delay > longest_delay or _is_closed(host, user_agent):
            left_alone.add(host.name)
    wanted, to_do = set(), {start}
    while to_do:
        url = to_do.pop()
        host = _host(url)
        if host.name in left_alone or not rules[host.name].can_fetch(url, user_agent):
            continue
        wanted.add(url)
        to_do |= _leads_to(url, name, rel) - wanted
    return wanted - {hit.url for hit in hits}


def _leads_to(url: str, name: str, rel: Collection[str]) -> set[str]:
    """Return the URLs that a crawler of that name may follow from a page."""
    location = _location(url)
    if location:
        return {location}
    file = page_file(_host(url), unquote(urlsplit(url).path))
    if (
        file is None
        or file.suffix != ".html"
        or {"nofollow", "none"} & _statements(url, name)
    ):
        return set()
    links = Selector(file.read_text(encoding="utf-8")).css("a[href]")
    return {
        urljoin(url, link.attrib["href"]).partition("#")[0]
        for link in links
        if not set(rel) & set(link.attrib.get("rel", "").split())
    }


def _location(url: str) -> str:
    """Return the target of a redirect, or "" for other pages."""
    answer = _host(url).answers.get(unquote(urlsplit(url).path), Answer())
    return dict(answer.headers).get("Location", "")


def _host(url: str) -> Host:
    return next(host for host in HOSTS if url.startswith(f"{host.origin}/"))


def noindex_pages(urls: Iterable[str], user_agent: str) -> list[str]:
    name = user_agent.partition("/")[0]
    return [url for url in urls if {"noindex", "none"} & _statements(url, name)]


def _robotstxt(host: Host) -> str:
    """Return the rules of a host's response to /robots.txt, by RFC 9309."""
    file = SITE / host.name / "robots.txt"
    default = Answer(200 if file.is_file() else 404)
    answer = host.answers.get("/robots.txt", default)
    if answer.status >= 500 or answer.status == 429:
        return "User-agent: *\nDisallow: /"
    if answer.status >= 400:
        return ""
    if answer.status >= 300:
        return _robotstxt(_host(dict(answer.headers)["Location"]))
    if answer.body is not None:
        return answer.body.decode()
    return file.read_text(encoding="utf-8")


def _is_closed(host: Host, user_agent: str) -> bool:
    window = Protego.parse(_robotstxt(host)).visit_time(user_agent)
    now = datetime.now(timezone.utc).time()
    return bool(window) and not _is_between(window.start_time, window.end_time, now)


def _is_between(start: time, end: time, now: time) -> bool:
    if start < end:
        return start <= now <= end
    return now >= start or now <= end


def _statements(url: str, name: str) -> set[str]:
    """Return the statements of a page for everyone and for the crawler of that name."""
    host = _host(url)
    path = unquote(urlsplit(url).path)
    texts = []
    for field, value in host.answers.get(path, Answer()).headers:
        crawler, _, text = value.rpartition(":")
        if field == "X-Robots-Tag" and crawler in {"", name}:
            texts.append(text)
    file = page_file(host, path)
    if file and file.suffix == ".html":
        page = Selector(file.read_text(encoding="utf-8"))
        for crawler in ("robots", name):
            texts += page.css(f"meta[name={crawler}]::attr(content)").getall()
    return {word.strip().lower() for text in texts for word in text.split(",")}
