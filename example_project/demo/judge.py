"""The verdict: which requests should a crawler not have made, or not yet, and which items
not kept?

The judge is not the accused: robots.txt is read by Protego, pages by parsel, which come
with Scrapy, and both straight from the files of the site.
"""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from parsel import Selector
from protego import Protego

from demo.hosts import HOSTS, Answer, Host
from demo.server import SITE, Hit, page_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import time


class Gap(NamedTuple):
    """The smallest gap between two requests to a host that asks for one."""

    host: Host
    asked: float
    seen: float


def forbidden_hits(hits: Iterable[Hit], user_agent: str) -> list[Hit]:
    rules = {host.name: Protego.parse(_robotstxt(host)) for host in HOSTS}
    return [
        hit for hit in hits if not rules[hit.host.name].can_fetch(hit.url, user_agent)
    ]


def gaps(hits: Iterable[Hit], user_agent: str) -> list[Gap]:
    """Of each host with a Crawl-delay that was asked more than once."""
    found = []
    for host in HOSTS:
        asked = Protego.parse(_robotstxt(host)).crawl_delay(user_agent)
        times = sorted(hit.seconds for hit in hits if hit.host == host)
        if asked and len(times) > 1:
            seen = min(later - one for one, later in pairwise(times))
            found.append(Gap(host, asked, seen))
    return found


def untimely_hits(hits: Iterable[Hit], user_agent: str) -> list[Hit]:
    """Those to hosts whose Visit-time is not now: the hours that it names are far off."""
    now = datetime.now(timezone.utc).time()
    closed = set()
    for host in HOSTS:
        window = Protego.parse(_robotstxt(host)).visit_time(user_agent)
        if window and not _is_between(window.start_time, window.end_time, now):
            closed.add(host.name)
    return [hit for hit in hits if hit.host.name in closed]


def noindex_pages(urls: Iterable[str], user_agent: str) -> list[str]:
    name = user_agent.partition("/")[0]
    return [url for url in urls if {"noindex", "none"} & _statements(url, name)]


def _robotstxt(host: Host) -> str:
    """What RFC 9309 makes of the answer that this host gives to /robots.txt."""
    file = SITE / host.name / "robots.txt"
    default = Answer(200 if file.is_file() else 404)
    answer = host.answers.get("/robots.txt", default)
    if answer.status >= 500 or answer.status == 429:
        return "User-agent: *\nDisallow: /"
    if answer.status >= 400:
        return ""
    if answer.status >= 300:
        location = dict(answer.headers)["Location"]
        return _robotstxt(next(h for h in HOSTS if location.startswith(h.origin)))
    if answer.body is not None:
        return answer.body.decode()
    return file.read_text(encoding="utf-8")


def _is_between(start: time, end: time, now: time) -> bool:
    if start < end:
        return start <= now <= end
    return now >= start or now <= end


def _statements(url: str, name: str) -> set[str]:
    """What a page says to everyone and to the crawler of that name."""
    host = next(host for host in HOSTS if url.startswith(f"{host.origin}/"))
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
