"""How robots.txt is fetched: once per origin, independent of Scrapy's settings for pages,
with limits on size and time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import HANGS, Answer, Then, redirect, robots
from tests.crawl.crawl import run_crawl
from tests.crawl.lies import CHUNKED, STATUS, chunk, endless, head, stages

if TYPE_CHECKING:
    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.newest

RULES = "User-agent: *\nDisallow: /private\n"
LIMIT = 500 * 1024
PAGES = ("/private", "/public")


def pages(*hosts: Host) -> list[str]:
    return [host.url(path) for host in hosts for path in PAGES]


def test_what_scrapy_does_for_pages(site: Site, mode: str) -> None:
    """The fetch of robots.txt sends no cookies of the session and adds none to it, AutoThrottle does
    not learn from it, and its redirects are followed whatever REDIRECT_MAX_TIMES says. User
    information and upper case in a URL cause no second fetch. The rules of a robots.txt in HTML hold,
    and its meta refresh is not followed. One that is cut off is not used, even with
    DOWNLOAD_FAIL_ON_DATALOSS = False. One without an answer is fetched once more, one with status
    503 is not, whatever RETRY_TIMES says. ``download_timeout`` of a request limits the request alone.
    """
    cookie = {"Set-Cookie": "robots=1"}
    host = site.add(robots(RULES, headers=cookie, delay=1.2), name="localhost")
    host.answers["/login"] = Answer(headers={"Set-Cookie": "session=1"})
    refresh = '<meta http-equiv="refresh" content="0;url=/elsewhere">\n'
    page = site.add(robots(refresh + RULES, headers={"Content-Type": "text/html"}))
    moved = site.add()
    moved.chain(3, robots(RULES))
    broken = stages(Then.RESET)["in the body"]
    recovering, dead = site.add([broken, robots(RULES)]), site.add(broken)
    overloaded = site.add(robots(RULES, status=503))
    hosts = [page, moved, recovering, dead, overloaded]
    login = {"url": host.url("/login"), "meta": {"dont_obey_robotstxt": True}}
    result = run_crawl(
        [login],
        then=[
            {"url": host.url("/public"), "meta": {"download_timeout": 1}},
            host.url("/b").replace("localhost", "LOCALHOST"),
            host.url("/c").replace("//", "//user:word@"),
            *pages(*hosts),
        ],
        mode=mode,
        settings={
            "AUTOTHROTTLE_ENABLED": True,
            "AUTOTHROTTLE_DEBUG": True,
            "AUTOTHROTTLE_START_DELAY": 0.01,
            "DOWNLOAD_FAIL_ON_DATALOSS": False,
            "REDIRECT_MAX_TIMES": 1,
            "RETRY_ENABLED": True,
            "RETRY_TIMES": 7,
        },
    )
    (fetch,) = host.robots_hits
    assert not {"Cookie", "Authorization"} & fetch.headers.keys()
    assert host.hits_on("/public")[0].headers["Cookie"] == "session=1"
    # Some of Scrapy's download handlers can't fetch a URL with user information.
    assert {"/b", "/public"} <= set(host.pages)
    assert [[path for path in each.pages if path in PAGES] for each in hosts] == [
        *[["/public"]] * 3, [], [],
    ]  # fmt: skip
    assert [len(each.robots_hits) for each in hosts] == [1, 1, 2, 2, 1]
    assert page.pages == ["/public"]
    assert result.stats["robotstxt/request_count"] == 6
    adjusted = [line for line in result.log.splitlines() if "latency:" in line]
    assert len(adjusted) == len(result.responses)


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
    filler = b"#" * 65_536
    hosts = [
        site.add(robots(RULES)),
        site.add(Answer(body)),
        site.add(endless(STATUS + CHUNKED + b"\r\n" + chunk(body), chunk(filler))),
        site.add(endless(head(length=1 << 30) + body, filler)),
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
    assert result.stats["rep/robotstxt/successful"] == 4
    assert "log_count/ERROR" not in result.stats, result.log


WITHOUT_REDIRECTS = {"scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None}


@pytest.mark.parametrize("attributes", [{}, {"download_timeout": 1}])
def test_the_timeout_of_scrapy(site: Site, attributes: dict[str, float]) -> None:
    """DOWNLOAD_TIMEOUT, or ``download_timeout`` of the spider, limits the fetch. Redirects are followed also in a project without RedirectMiddleware,
    whose spider handles those of pages itself.
    """
    hanging, moved = site.add(HANGS), site.add()
    moved.chain(3, robots(RULES))
    result = run_crawl(
        pages(moved, hanging),
        settings={
            "DOWNLOAD_TIMEOUT": 60 if attributes else 1,
            "DOWNLOADER_MIDDLEWARES": WITHOUT_REDIRECTS,
            "REDIRECT_ENABLED": False,
        },
        handle_httpstatus_list=[301],
        **attributes,
    )
    assert [path for path in moved.pages if path in PAGES] == ["/public"]
    assert hanging.pages == []
    assert len(hanging.robots_hits) == 2
    assert result.stats["elapsed_time_seconds"] < 30


def test_the_proxy_of_the_request(site: Site, mode: str) -> None:
    """The robots.txt of a host behind a proxy is fetched through that proxy, with its credentials;
    that of the target of a redirect, too.
    """
    proxy = site.add()
    origin, other = "http://one.invalid", "http://two.invalid"
    proxy.answers[f"{origin}/moved"] = redirect(f"{other}/public")
    for host in (origin, other):
        proxy.answers[f"{host}/robots.txt"] = robots(RULES)
    meta = {"proxy": proxy.origin.replace("//", "//user:word@")}
    urls = [f"{origin}/moved", f"{origin}/private"]
    result = run_crawl([{"url": url, "meta": meta} for url in urls], mode=mode)
    assert len(proxy.hits) == 4
    asked = {hit.target: hit.headers.get("Proxy-Authorization") for hit in proxy.hits}
    assert asked.keys() == {
        *(f"{origin}/moved", f"{origin}/robots.txt"),
        *(f"{other}/public", f"{other}/robots.txt"),
    }
    assert set(asked.values()) == {"Basic dXNlcjp3b3Jk"}
    assert result.error(f"{origin}/private")["reason"] == "rule"
