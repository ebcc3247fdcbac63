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
    from tests.crawl.server import Host, Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

EVIL = "\x1b]0;owned\x07\x85\u2028\u202eFAKE LINE"
"""A terminal title, a bell, line ends, and right-to-left text."""

SPACES = "\x0b \x1c \x1f"
"""White space for Python, which is therefore accepted within a date."""

DATE = f"1{SPACES}Jan{SPACES}2010"
OVER = f"unavailable_after: {DATE}"
IN_BRACKETS = f"unavailable_after: 1 Jan 2010 ({EVIL}\nFAKE LINE)"

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

TDMREP = [
    {
        "location": "/mining",
        "tdm-reservation": 1,
        "tdm-policy": f"https://policy.example/\nFAKE LINE{EVIL}",
    }
]


def page(head: str = "", **headers: str) -> Answer:
    # Headers are sent in Latin-1; this sends the bytes of UTF-8.
    fields = {
        name.replace("_", "-"): value.encode().decode("latin-1")
        for name, value in headers.items()
    }
    body = f"<html><head>{head}</head><body><a href='/next'>{EVIL}</a></body></html>"
    html = {"Content-Type": "text/html; charset=utf-8"}
    return Answer(body.encode(), headers={**html, **fields})


def meta(name: str, content: str) -> str:
    return f'<meta name="{name}" content="{content}">'


PAGES = {
    "/header": page(X_Robots_Tag=f"noindex, {EVIL}"),
    "/date-header": page(X_Robots_Tag=OVER),
    "/date-meta": page(meta("robots", OVER)),
    "/brackets": page(meta("robots", IN_BRACKETS)),
    "/brackets-header": page(X_Robots_Tag=f"unavailable_after: 1 Jan 2010 ({EVIL})"),
    "/for-us": page(meta(f"testbot{EVIL}", "noindex") + meta("testbot", f"nofollow {EVIL}")),
    "/use-header": page(Content_Usage=f"train-ai=n, {EVIL}"),
    "/signal": page(),
    "/usage": page(),
    "/mining": page(),
    "/mining-header": page(tdm_reservation="1", tdm_policy=EVIL),
    "/mining-meta": page(meta("tdm-reservation", "1") + meta("tdm-policy", f"{EVIL}\nFAKE LINE")),
    "/noai": page(meta("robots", f"noai, {EVIL}")),
}  # fmt: skip


def add(site: Site) -> Host:
    host = site.add(ROBOTS)
    host.answers |= PAGES
    policy = json.dumps(TDMREP, ensure_ascii=False).encode()
    host.answers["/.well-known/tdmrep.json"] = Answer(policy)
    return host


def faked(log: str) -> list[str]:
    """Return the lines of *log* that contain an invisible character,
    or that a server started.
    """
    return [
        line
        for line in log.split("\n")
        if not line.isprintable() or line.startswith("FAKE")
    ]


def crawl(urls: list[str], mode: str, **settings: object) -> CrawlResult:
    # Scrapy logs items and responses itself. Of responses, it shows only the URL.
    wanted = {
        "REP_LEDGER_LEVEL": "all",
        "REP_PURPOSES": ["train-ai", "tdm"],
        **settings,
    }
    spider = "tests.crawl.page_spiders.PageSpider"
    return run_crawl(urls, mode=mode, spider=spider, settings=wanted)


def test_pages_and_files(site: Site, mode: str) -> None:
    """Rules, headers, tags, dates and policies from servers are escaped in the log."""
    host = add(site)
    private = f"/private{quote(EVIL)}"
    result = crawl([host.url(path) for path in (*PAGES, private)], mode)
    assert private not in host.pages
    assert faked(result.log) == []
    shown = EVIL.encode("unicode_escape").decode()
    assert result.lines("DEBUG", f"(disallow: /private{shown})")
    assert shown in result.error(host.url(private))["message"]
    dropped = [line for line in result.log.splitlines() if "Dropped: " in line]
    date = DATE.encode("unicode_escape").decode()
    assert sum(f"unavailable_after: {date}" in line for line in dropped) >= 1, dropped
    assert any(shown in line for line in dropped), dropped


def test_robotstxt_that_is_not_to_be_had(site: Site, mode: str) -> None:
    """A Location header, and an answer that is not HTTP, are escaped in warnings."""
    raw = EVIL.encode().decode("latin-1")
    chain = site.add()
    for hop in range(7):
        path = "/robots.txt" if not hop else f"/{hop}{EVIL}"
        target = f"/{hop + 1}{raw}"
        asked = quote(path, safe="/:;[]") if hop else path
        chain.answers[asked] = chain.answers[path] = redirect(target)
    no_http = site.add(Answer(status=f"abc {raw} \x1b[31mFAKE LINE"))  # type: ignore[arg-type]
    nowhere = site.add(redirect(f"http://{raw}:99999999/"))
    hosts = [chain, no_http, nowhere]
    settings = {"DOWNLOAD_TIMEOUT": 3}
    result = crawl([host.url("/page") for host in hosts], mode, **settings)
    assert faked(result.log) == []
    assert result.lines("WARNING", no_http.robotstxt, "is unreachable")


def test_passwords_in_urls(site: Site, mode: str) -> None:
    """No line of this package's loggers has the user name or password of a URL: whether a
    page, its robots.txt or its links are refused, and whatever a site redirects to.
    """
    host = site.add(f"User-agent: *\nDisallow: /private\nSitemap: {SECRET}/map.xml\n")
    down, dead = site.add(Answer(status=503)), site.refusing()
    moved = site.add(redirect(f"http://{SECRET}127.0.0.1:{host.port}/robots.txt"))
    chained = site.add([redirect(f"http://{SECRET}127.0.0.1/{n}?//") for n in range(2)])
    links = f'<a rel="nofollow" href="http://{SECRET}127.0.0.1:{host.port}/next">'
    policy = [
        {"location": "/", "tdm-reservation": 1, "tdm-policy": f"http://{SECRET}x/"}
    ]
    host.answers |= {
        "/page": page(
            links, X_Robots_Tag=f"noindex, unavailable_after: http://{SECRET}x/"
        ),
        "/.well-known/tdmrep.json": Answer(json.dumps(policy).encode()),
    }
    urls = [
        one.url(path).replace("//", f"//{SECRET}")
        for one in (host, down, dead, moved, chained)
        for path in ("/page", "/private", "/%2e/private", "/a//b")
    ]
    # Some of Scrapy's download handlers refuse a URL with user information.
    plain = [host.url(path) for path in ("/page", "/private")]
    result = crawl([*urls, *plain], mode, REP_REL=["nofollow"])
    ours = [line for line in result.log.splitlines() if "[scrapy_rep" in line]
    assert len(ours) > 20
    assert [line for line in ours if "secret" in line or "name:" in line] == []
    assert any("***@" in line for line in ours)


SECRET = "name:secret@"
