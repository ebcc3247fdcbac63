"""Text from servers is escaped in the log, so that it can't start a
line or control a terminal.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.crawl.answers import Answer, redirect
from tests.crawl.crawl import CrawlResult, run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

EVIL = "\x1b]0;owned\x07\x85\u2028\u202eFAKE LINE"
"""A terminal title, a bell, line ends, and right-to-left text."""

RAW = EVIL.encode().decode("latin-1")
"""Headers are sent in Latin-1; this sends the bytes of UTF-8."""

DATE = "1\x0b \x1c \x1fJan 2010"
"""With what is white space for Python, and therefore accepted within a date."""

OVER = f"unavailable_after: {DATE}"
IN_BRACKETS = "unavailable_after: 1 Jan 2010 ({})"
SECRET = "name:secret@"
WELL_KNOWN = "/.well-known/tdmrep.json"
ROBOTS = f"""\
User-agent: {EVIL}
Disallow: /

User-agent: testbot
Disallow: /private{EVIL}
Crawl-delay: {EVIL}
Sitemap: http://127.0.0.1/{EVIL}
Content-Signal: /signal ai-train=no, {EVIL}=no
Content-Usage: /usage train-ai=n, {EVIL}
{EVIL}: {EVIL}
"""


def page(head: str = "", body: str = EVIL, **headers: str) -> Answer:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    text = f"<html><head>{head}</head><body><a href='/next'>{body}</a></body></html>"
    html = {"Content-Type": "text/html; charset=utf-8"}
    return Answer(text.encode(), headers={**html, **fields})


def meta(name: str, content: str) -> str:
    return f'<meta name="{name}" content="{content}">'


def policy(location: str, tdm_policy: str) -> Answer:
    rule = {"location": location, "tdm-reservation": 1, "tdm-policy": tdm_policy}
    return Answer(json.dumps([rule], ensure_ascii=False).encode())


PAGES = {
    "/header": page(X_Robots_Tag=f"noindex, {RAW}"),
    "/date-header": page(X_Robots_Tag=OVER),
    "/date-meta": page(meta("robots", OVER)),
    "/brackets": page(meta("robots", IN_BRACKETS.format(f"{EVIL}\nFAKE LINE"))),
    "/brackets-header": page(X_Robots_Tag=IN_BRACKETS.format(RAW)),
    "/for-us": page(meta(f"testbot{EVIL}", "noindex") + meta("testbot", f"nofollow {EVIL}")),
    "/use-header": page(Content_Usage=f"train-ai=n, {RAW}"),
    "/signal": page(),
    "/usage": page(),
    "/mining": page(),
    "/mining-header": page(tdm_reservation="1", tdm_policy=RAW),
    "/mining-meta": page(meta("tdm-reservation", "1") + meta("tdm-policy", f"{EVIL}\nFAKE LINE")),
    "/noai": page(meta("robots", f"noai, {EVIL}")),
}  # fmt: skip


def crawl(urls: list[str], mode: str, **settings: object) -> CrawlResult:
    # Scrapy logs items and responses itself. Of responses, it shows only the URL.
    wanted = {"REP_LEDGER_LEVEL": "all", "REP_PURPOSES": ["train-ai", "tdm"]}
    spider = "tests.crawl.page_spiders.PageSpider"
    return run_crawl(urls, mode=mode, spider=spider, settings={**wanted, **settings})


def test_text_from_servers_is_escaped_in_the_log(site: Site, mode: str) -> None:
    """Rules, headers, tags, dates and policies from servers are escaped in the log, and so are a
    Location header, and an answer that is not HTTP.
    """
    host, chain = site.add(ROBOTS), site.add()
    tdmrep = policy("/mining", f"https://policy.example/\nFAKE LINE{EVIL}")
    host.answers |= {**PAGES, WELL_KNOWN: tdmrep}
    for hop in range(7):
        path = "/robots.txt" if not hop else f"/{hop}{EVIL}"
        asked = quote(path, safe="/:;[]") if hop else path
        chain.answers[asked] = chain.answers[path] = redirect(f"/{hop + 1}{RAW}")
    no_http = site.add(Answer(status=f"abc {RAW} \x1b[31mFAKE LINE"))  # type: ignore[arg-type]
    nowhere = site.add(redirect(f"http://{RAW}:99999999/"))
    private = f"/private{quote(EVIL)}"
    urls = [
        *(host.url(path) for path in (*PAGES, private)),
        *(host.url("/page") for host in (chain, no_http, nowhere)),
    ]
    result = crawl(urls, mode, DOWNLOAD_TIMEOUT=3)
    assert private not in host.pages
    lines = result.log.split("\n")
    assert [
        line for line in lines if not line.isprintable() or line.startswith("FAKE")
    ] == []
    shown = EVIL.encode("unicode_escape").decode()
    assert result.lines("DEBUG", f"(disallow: /private{shown})")
    assert shown in result.error(host.url(private))["message"]
    assert result.lines("WARNING", no_http.robotstxt, "is unreachable")
    dropped = [line for line in lines if "Dropped: " in line]
    date = OVER.encode("unicode_escape").decode()
    assert any(date in line for line in dropped), dropped
    assert any(shown in line for line in dropped), dropped


def test_the_log_has_no_password_of_a_url(site: Site, mode: str) -> None:
    """No line of this package's loggers has the user name or password of a URL: whether a
    page, its robots.txt or its links are refused, and whatever a site redirects to.
    """
    host = site.add(f"User-agent: *\nDisallow: /private\nSitemap: {SECRET}/map.xml\n")
    down, dead = site.add(Answer(status=503)), site.refusing()
    there = f"http://{SECRET}127.0.0.1"
    moved = site.add(redirect(f"{there}:{host.port}/robots.txt"))
    chained = site.add([redirect(f"{there}/{n}?//") for n in range(2)])
    over = f"noindex, unavailable_after: http://{SECRET}x/"
    host.answers |= {
        "/page": page(
            f'<a rel="nofollow" href="{there}:{host.port}/next">', X_Robots_Tag=over
        ),
        WELL_KNOWN: policy("/", f"http://{SECRET}x/"),
    }
    urls = [
        host.url(path).replace("//", f"//{SECRET}")
        for host in (host, down, dead, moved, chained)
        for path in ("/page", "/private", "/%2e/private", "/a//b")
    ]
    # Some of Scrapy's download handlers refuse a URL with user information.
    urls += [host.url(path) for path in ("/page", "/private")]
    result = crawl(urls, mode, REP_REL=["nofollow"])
    ours = [line for line in result.log.splitlines() if "[scrapy_rep" in line]
    assert len(ours) > 20
    assert [line for line in ours if "secret" in line or "name:" in line] == []
    assert any("***@" in line for line in ours)
