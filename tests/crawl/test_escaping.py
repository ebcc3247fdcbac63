"""Tests that text from servers is escaped in the log, so that it cannot forge a line or control a terminal, and that
passwords of URLs are masked.
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
"""An escape sequence that sets the title of a terminal, a bell, line ends, and a mark that reverses text."""

RAW = EVIL.encode().decode("latin-1")
"""EVIL for headers. The server encodes headers in Latin-1, and thereby sends EVIL in UTF-8."""

DATE = "1\x0b \x1c \x1fJan 2010"
"""A valid date with control characters. They are valid since they are white space for Python."""

EXPIRED = f"unavailable_after: {DATE}"
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
    """Return an HTML page with a link, and with *headers*, whose names have ``_`` in place of ``-``."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    text = f"<html><head>{head}</head><body><a href='/next'>{body}</a></body></html>"
    html = {"Content-Type": "text/html; charset=utf-8"}
    return Answer(text.encode(), headers={**html, **fields})


def meta(name: str, content: str) -> str:
    """Return a meta element."""
    return f'<meta name="{name}" content="{content}">'


def policy(location: str, tdm_policy: str) -> Answer:
    """Return a tdmrep.json with one rule."""
    rule = {"location": location, "tdm-reservation": 1, "tdm-policy": tdm_policy}
    return Answer(json.dumps([rule], ensure_ascii=False).encode())


PAGES = {
    "/header": page(X_Robots_Tag=f"noindex, {RAW}"),
    "/date-header": page(X_Robots_Tag=EXPIRED),
    "/date-meta": page(meta("robots", EXPIRED)),
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
    # The items of this spider have only a URL. So the lines that Scrapy itself logs about responses and items contain
    # no other text from servers.
    verbose = {"REP_LEDGER_LEVEL": "all", "REP_PURPOSES": ["train-ai", "tdm"]}
    spider = "tests.crawl.page_spiders.PageSpider"
    return run_crawl(urls, mode=mode, spider=spider, settings={**verbose, **settings})


def test_text_from_servers_is_escaped_in_the_log(site: Site, mode: str) -> None:
    """The log escapes text from servers: rules, headers, meta elements, dates, policies, Location headers, and answers
    that are not HTTP.
    """
    host, redirecting = site.add(ROBOTS), site.add()
    tdmrep = policy("/mining", f"https://policy.example/\nFAKE LINE{EVIL}")
    host.answers |= {**PAGES, WELL_KNOWN: tdmrep}
    for hop in range(7):
        path = "/robots.txt" if not hop else f"/{hop}{EVIL}"
        quoted = quote(path, safe="/:;[]") if hop else path
        redirecting.answers[quoted] = redirecting.answers[path] = redirect(
            f"/{hop + 1}{RAW}"
        )
    not_http = site.add(Answer(status=f"abc {RAW} \x1b[31mFAKE LINE"))  # type: ignore[arg-type]
    bad_location = site.add(redirect(f"http://{RAW}:99999999/"))
    private = f"/private{quote(EVIL)}"
    urls = [
        *(host.url(path) for path in (*PAGES, private)),
        *(host.url("/page") for host in (redirecting, not_http, bad_location)),
    ]
    result = crawl(urls, mode, DOWNLOAD_TIMEOUT=3)
    assert private not in host.pages
    lines = result.log.split("\n")
    assert [
        line for line in lines if not line.isprintable() or line.startswith("FAKE")
    ] == []
    escaped = EVIL.encode("unicode_escape").decode()
    assert result.lines("DEBUG", f"(disallow: /private{escaped})")
    assert escaped in result.error(host.url(private))["message"]
    assert result.lines("WARNING", not_http.robotstxt, "is unreachable")
    dropped = [line for line in lines if "Dropped: " in line]
    date = EXPIRED.encode("unicode_escape").decode()
    assert any(date in line for line in dropped), dropped
    assert any(escaped in line for line in dropped), dropped


def test_the_log_masks_user_names_and_passwords_of_urls(site: Site, mode: str) -> None:
    """No line of this package's loggers has the user name or password of a URL.

    This applies to the URLs of pages, robots.txt files, links and redirects, and to URLs in text from sites.
    """
    host = site.add(f"User-agent: *\nDisallow: /private\nSitemap: {SECRET}/map.xml\n")
    down, dead = site.add(Answer(status=503)), site.refusing()
    url_with_user = f"http://{SECRET}127.0.0.1"
    moved = site.add(redirect(f"{url_with_user}:{host.port}/robots.txt"))
    chained = site.add([redirect(f"{url_with_user}/{n}?//") for n in range(2)])
    expired = f"noindex, unavailable_after: http://{SECRET}x/"
    host.answers |= {
        "/page": page(
            f'<a rel="nofollow" href="{url_with_user}:{host.port}/next">',
            X_Robots_Tag=expired,
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
    own_lines = [line for line in result.log.splitlines() if "[scrapy_rep" in line]
    assert len(own_lines) > 20
    assert [line for line in own_lines if "secret" in line or "name:" in line] == []
    assert any("***@" in line for line in own_lines)
