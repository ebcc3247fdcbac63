"""How robots.txt is fetched: once per origin, independent of Scrapy's settings for pages,
with limits on size and time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer, redirect, robots
from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.newest

RULES = "User-agent: *\nDisallow: /private\n"
LIMIT = 500 * 1024
PAGES = ("/private", "/public")
MEGABYTE = 1024 * 1024


def pages(*hosts: Host) -> list[str]:
    return [host.url(path) for host in hosts for path in PAGES]


def test_one_fetch_for_every_spelling_of_an_origin(site: Site) -> None:
    """User information and upper case in a URL cause no second fetch of robots.txt."""
    host = site.add(RULES, name="localhost")
    result = run_crawl(
        [host.url("/a"), host.url("/b").replace("localhost", "LOCALHOST")],
        then=[host.url("/c").replace("//", "//user:word@"), host.url("/private")],
    )
    assert len(host.robots_hits) == 1
    assert "Authorization" not in host.robots_hits[0].headers
    # Some of Scrapy's download handlers can't fetch a URL with user information.
    assert host.pages in (["/a", "/b"], ["/a", "/b", "/c"])
    assert result.stats["robotstxt/request_count"] == 1


def test_no_cookies_go_or_come(site: Site) -> None:
    """The robots.txt fetch sends no cookies of the session, and adds none to it."""
    host = site.add(robots(RULES, headers={"Set-Cookie": "robots=1"}))
    host.answers["/login"] = Answer(headers={"Set-Cookie": "session=1"})
    login = {"url": host.url("/login"), "meta": {"dont_obey_robotstxt": True}}
    run_crawl([login], then=[host.url("/public")])
    (fetch,) = host.robots_hits
    assert "Cookie" not in fetch.headers
    (page,) = host.hits_on("/public")
    assert page.headers["Cookie"] == "session=1"


def test_a_meta_refresh_is_not_followed(site: Site) -> None:
    """A robots.txt in HTML is read for rules, and its meta refresh is not followed."""
    refresh = '<meta http-equiv="refresh" content="0;url=/elsewhere">\n'
    body = (refresh + RULES).encode()
    host = site.add(Answer(body, headers={"Content-Type": "text/html"}))
    run_crawl(pages(host))
    assert host.pages == ["/public"]
    assert len(host.robots_hits) == 1


def test_autothrottle_learns_nothing_from_it(site: Site) -> None:
    """AutoThrottle does not adjust its delay after responses for robots.txt."""
    host = site.add(robots(RULES, delay=0.3))
    settings = {
        "AUTOTHROTTLE_ENABLED": True,
        "AUTOTHROTTLE_DEBUG": True,
        "AUTOTHROTTLE_START_DELAY": 0.01,
    }
    result = run_crawl(pages(host), settings=settings)
    assert host.pages == ["/public"]
    adjusted = [line for line in result.log.splitlines() if "latency:" in line]
    assert len(adjusted) == 1


def long_body(padding: bytes = b"# padding\n") -> bytes:
    """Return a body with one rule that ends at the limit, and one that begins there."""
    head, last = RULES.encode(), b"Disallow: /last\n"
    space = LIMIT - len(head) - len(last)
    filling = padding * (space // len(padding))
    rest = b"#" * (space - len(filling) - 1) + b"\n" if space > len(filling) else b""
    # The limit is in the middle, so that the rest of the body is still unread.
    return head + filling + rest + last + b"Disallow: /late\n" + padding * 50_000


def test_only_500_kib_are_read(site: Site, mode: str) -> None:
    """Only 500 KiB of robots.txt are read, whatever its length,
    Content-Length or DOWNLOAD_MAXSIZE.
    """
    body = long_body()
    assert body.index(b"Disallow: /late") == LIMIT
    hosts = [
        site.add(robots(RULES)),
        site.add(Answer(body)),
        site.add(Answer(body, endless=True)),
        site.add(Answer(body, endless=True, announced=1 << 30)),
    ]
    urls = [
        *pages(*hosts),
        *[host.url(path) for host in hosts[1:] for path in ("/last", "/late")],
    ]
    result = run_crawl(urls, mode=mode, settings={"DOWNLOAD_MAXSIZE": 1000})
    assert hosts[0].pages == ["/public"]
    for host in hosts[1:]:
        assert host.pages == ["/late", "/public"]
        assert len(host.robots_hits) == 1
        assert host.robots_hits[0].sent < 16 * MEGABYTE
    assert result.stats["rep/robotstxt/successful"] == 4
    assert "log_count/ERROR" not in result.stats, result.log


def test_retries(site: Site) -> None:
    """A robots.txt fetch without an answer is repeated once, whatever RETRY_TIMES says.
    One with status 503 is not.
    """
    permits = b"User-agent: *\nAllow: /\n"
    broken = Answer(permits, reset="length")
    recovering = site.add([broken, robots(RULES)])
    dead = site.add(broken)
    overloaded = site.add(robots(RULES, status=503))
    result = run_crawl(
        pages(recovering, dead, overloaded),
        settings={"RETRY_ENABLED": True, "RETRY_TIMES": 7},
    )
    hosts = (recovering, dead, overloaded)
    assert [len(host.robots_hits) for host in hosts] == [2, 2, 1]
    assert [host.pages for host in hosts] == [["/public"], [], []]
    assert result.stats["robotstxt/request_count"] == 3


def test_half_a_robotstxt_is_none(site: Site) -> None:
    """A truncated robots.txt is not used, even with DOWNLOAD_FAIL_ON_DATALOSS = False."""
    host = site.add(Answer(b"User-agent: *\nAllow: /\n", reset="length"))
    run_crawl(pages(host), settings={"DOWNLOAD_FAIL_ON_DATALOSS": False})
    assert host.pages == []


def test_the_timeout_of_scrapy(site: Site) -> None:
    """DOWNLOAD_TIMEOUT, or ``download_timeout`` of the spider, limits the fetch. That of a request
    limits the request alone.
    """
    slow, hanging = site.add(robots(RULES, delay=1)), site.add(Answer(hang=True))
    run_crawl([{"url": url, "meta": {"download_timeout": 0.5}} for url in pages(slow)])
    assert slow.pages == ["/public"]
    settings = {"DOWNLOAD_TIMEOUT": 1}
    result = run_crawl(pages(hanging), settings=settings)
    assert result.stats["elapsed_time_seconds"] < 30
    result = run_crawl(pages(hanging), download_timeout=1)
    assert result.stats["elapsed_time_seconds"] < 30
    assert hanging.pages == []
    assert len(hanging.robots_hits) == 4


def test_a_trickle(site: Site, mode: str) -> None:
    """The time-out also limits a robots.txt that is sent byte by byte."""
    host = site.add(robots(RULES + "#" * 100, pace=0.5))
    settings = {"DOWNLOAD_TIMEOUT": 1}
    result = run_crawl(pages(host), mode=mode, settings=settings)
    assert host.pages == []
    assert result.stats["elapsed_time_seconds"] < 60
    assert result.stats["rep/robotstxt/unreachable"] == 1


ABOUT_REDIRECTS = {
    "switched off": {"REDIRECT_ENABLED": False},
    "one at most": {"REDIRECT_MAX_TIMES": 1},
    "without the middleware": {
        "DOWNLOADER_MIDDLEWARES": {
            "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None
        }
    },
    "handled by the spider": {},
}


@pytest.mark.parametrize("settings", ABOUT_REDIRECTS.values(), ids=ABOUT_REDIRECTS)
def test_redirects_go_around_redirect_settings(
    site: Site, settings: dict[str, object]
) -> None:
    """Redirects of robots.txt are followed however a project treats those of pages. Otherwise
    a robots.txt that has moved would allow everything.
    """
    host = site.add()
    host.chain(3, robots(RULES))
    own = {} if settings else {"handle_httpstatus_list": [301, 302, 307, 308]}
    run_crawl(pages(host), settings=settings, **own)
    assert [path for path in host.pages if path in PAGES] == ["/public"]


def test_a_slow_download_does_not_hold_a_fast_host(site: Site) -> None:
    """While the robots.txt of one host is fetched, pages of another host are too."""
    fast = site.add(RULES)
    slow = site.add(robots(RULES, after=lambda: fast.hits_on("/public")))
    run_crawl(pages(slow, fast))
    (slow_page,), (fast_page,) = slow.hits_on("/public"), fast.hits_on("/public")
    assert fast_page.time < slow_page.time
    host = site.add(redirect(fast.robotstxt))
    run_crawl(pages(host))
    assert host.pages == ["/public"]
