"""The verdict: which requests should a crawler not have made, and which items not kept?

The judge is not the accused: robots.txt is read by Protego, pages by parsel, which come
with Scrapy, and both straight from the files of the site.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from parsel import Selector
from protego import Protego

from demo.hosts import HOSTS, Answer, Host
from demo.server import SITE, Hit, page_file

if TYPE_CHECKING:
    from collections.abc import Iterable


def forbidden_hits(pages: Iterable[Hit], user_agent: str) -> list[Hit]:
    rules = {host.name: Protego.parse(_robotstxt(host)) for host in HOSTS}
    return [
        hit for hit in pages if not rules[hit.host.name].can_fetch(hit.url, user_agent)
    ]


def noindex_pages(urls: Iterable[str], user_agent: str) -> list[str]:
    name = user_agent.partition("/")[0]
    return [url for url in urls if {"noindex", "none"} & _statements(url, name)]


def _robotstxt(host: Host) -> str:
    """What RFC 9309 makes of the answer that this host gives to /robots.txt."""
    file = SITE / host.name / "robots.txt"
    default = Answer(200 if file.exists() else 404)
    answer = host.answers.get("/robots.txt", default)
    if answer.status >= 500 or answer.status == 429:
        return "User-agent: *\nDisallow: /"
    if answer.status >= 400:
        return ""
    if answer.status >= 300:
        location = dict(answer.headers)["Location"]
        return _robotstxt(next(h for h in HOSTS if location.startswith(h.origin)))
    return file.read_text(encoding="utf-8")


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
