"""Tests of how robots.txt is fetched: once per origin, independently of Scrapy's settings for pages, with
limits on size and time, and through the proxies of requests. ``tests/fetching`` tests each kind of answer.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import HANGS, Answer, Then, redirect, robots
from tests.crawl.broken_answers import stages
from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.newest

RULES = "User-agent: *\nDisallow: /private\n"
PAGES = ("/private", "/public")


def pages(*hosts: Host) -> list[str]:
    return [host.url(path) for host in hosts for path in PAGES]


def test_the_robotstxt_fetch_is_independent_of_cookies_autothrottle_and_redirect_limits(
    site: Site, mode: str
) -> None:
    """Scrapy's settings for pages do not affect the fetch of robots.txt:

    - The fetch sends no cookies of the session, adds none to the session, and asks for no compression.
    - AutoThrottle ignores it.
    - Its redirects are followed whatever REDIRECT_MAX_TIMES says, with the cookies that they set.
    - User information and upper case in a URL cause no second fetch.
    - The rules of a robots.txt in HTML apply, and its meta refresh is not followed.
    - A truncated robots.txt is not used, even with DOWNLOAD_FAIL_ON_DATALOSS = False.
    - Whatever RETRY_TIMES says, a robots.txt without an answer is fetched once more, and a robots.txt
      with status 503 is not.
    - ``download_timeout`` of a request and DOWNLOAD_MAXSIZE limit only pages.
    """
    cookie = {"Set-Cookie": "robots=1"}
    long_and_slow = robots(RULES + 50 * "# padding\n", headers=cookie, delay=1.2)
    host = site.add(long_and_slow, name="localhost")
    host.answers["/login"] = Answer(headers={"Set-Cookie": "session=1"})
    refresh = '<meta http-equiv="refresh" content="0;url=/elsewhere">\n'
    html_host = site.add(robots(refresh + RULES, headers={"Content-Type": "text/html"}))
    redirecting = site.add()
    redirecting.chain(3, robots(RULES))
    broken = stages(Then.RESET)["in the body"]
    recovering, dead = site.add([broken, robots(RULES)]), site.add(broken)
    overloaded = site.add(robots(RULES, status=503))
    # This host redirects robots.txt to itself until the request has the host's cookie.
    cookie_wall = site.add(robots(RULES))
    cookie_headers = {"Location": "/robots.txt", "Set-Cookie": "gate=open; Path=/"}
    cookie_wall.limit = lambda hit: (
        Answer(status=302, headers=cookie_headers)
        if "gate=open" not in hit.headers.get("Cookie", "") and "robots" in hit.path
        else None
    )
    hosts = [html_host, redirecting, recovering, cookie_wall, dead, overloaded]
    login = {"url": host.url("/login"), "meta": {"dont_obey_robotstxt": True}}
    result = run_crawl(
        [login],
        then=[
            {"url": host.url("/public"), "meta": {"download_timeout": 1}},
            host.url("/b").replace("localhost", "LOCALHOST"),
            host.url("/c").replace("//", "//user:word@"),
            host.url("/private"),
            *pages(*hosts),
        ],
        mode=mode,
        settings={
            "AUTOTHROTTLE_ENABLED": True,
            "AUTOTHROTTLE_DEBUG": True,
            "AUTOTHROTTLE_START_DELAY": 0.01,
            "DOWNLOAD_FAIL_ON_DATALOSS": False,
            "DOWNLOAD_MAXSIZE": 100,
            "REDIRECT_MAX_TIMES": 1,
            "RETRY_ENABLED": True,
            "RETRY_TIMES": 7,
        },
    )
    (fetch,) = host.robots_hits
    assert not {"Cookie", "Authorization"} & fetch.headers.keys()
    assert fetch.headers["Accept-Encoding"] == "identity"
    assert host.hits_on("/public")[0].headers["Cookie"] == "session=1"
    assert "gate" not in cookie_wall.hits_on("/public")[0].headers.get("Cookie", "")
    # Some of Scrapy's download handlers can't fetch a URL with user information.
    assert {"/b", "/public"} <= set(host.pages) <= {"/b", "/c", "/login", "/public"}
    fetched = [[path for path in host.pages if path in PAGES] for host in hosts]
    assert fetched == [["/public"]] * 4 + [[], []]
    assert [len(host.robots_hits) for host in hosts] == [1, 1, 2, 2, 2, 1]
    assert html_host.pages == ["/public"]
    assert result.stats["robotstxt/request_count"] == 7
    throttle_lines = [line for line in result.log.splitlines() if "latency:" in line]
    assert len(throttle_lines) == len(result.responses)


@pytest.mark.parametrize("attributes", [{}, {"download_timeout": 1}])
def test_download_timeout_limits_the_fetch_of_robotstxt(
    site: Site, attributes: dict[str, float]
) -> None:
    """DOWNLOAD_TIMEOUT, or ``download_timeout`` of the spider, limits the fetch of robots.txt. In a
    project without Scrapy's middlewares for redirects and compression, redirects of robots.txt are
    still followed, and a compressed robots.txt is still read.
    """
    hanging, redirecting = site.add(HANGS), site.add()
    redirects = "scrapy.downloadermiddlewares.redirect.RedirectMiddleware"
    compressed = Answer(
        zlib.compress(RULES.encode()), headers={"Content-Encoding": "deflate"}
    )
    redirecting.chain(3, compressed)
    result = run_crawl(
        pages(redirecting, hanging),
        settings={
            "COMPRESSION_ENABLED": False,
            "DOWNLOAD_TIMEOUT": 60 if attributes else 1,
            "DOWNLOADER_MIDDLEWARES": {redirects: None},
            "REDIRECT_ENABLED": False,
        },
        handle_httpstatus_list=[301],
        **attributes,
    )
    assert [path for path in redirecting.pages if path in PAGES] == ["/public"]
    assert hanging.pages == []
    assert len(hanging.robots_hits) == 2
    assert result.stats["elapsed_time_seconds"] < 30


def test_robotstxt_is_fetched_through_the_proxy_of_its_requests(
    site: Site, mode: str
) -> None:
    """The robots.txt of a host is fetched through the proxy of the request that needs it, with the
    credentials for the proxy. The robots.txt of the target of a redirect is fetched in the same way.

    A proxy that answers 407, or is dead, says nothing about a site: robots.txt is then fetched through
    the proxy of another request. If there is no other proxy, robots.txt is unreachable, and no page is
    fetched. The same applies to 407 as the answer to CONNECT.
    """
    good, bad, dead, tunnel = site.add(), site.add(), site.refusing(), site.add()
    refused = Answer(
        status=407, headers={"Proxy-Authenticate": 'Basic realm="a proxy"'}
    )
    unreachable = [
        "http://alone.invalid",
        "https://alone.invalid",
        "http://dead.invalid",
    ]
    origins = [f"http://{name}.invalid" for name in ("one", "two", "three", "four")]
    for origin in origins:
        good.answers[f"{origin}/robots.txt"] = robots(RULES)
    good.answers[f"{origins[0]}/moved"] = redirect(f"{origins[1]}/public")
    bad.answers = {
        f"{origin}/{path}": refused
        for origin in (*origins, *unreachable)
        for path in ("robots.txt", "public")
    }
    tunnel.answers["alone.invalid:443"] = refused
    proxies = {
        f"{origins[0]}/moved": good,
        f"{origins[0]}/private": good,
        f"{origins[2]}/public": bad,
        f"{origins[2]}/a": good,
        f"{origins[2]}/private": good,
        f"{origins[3]}/public": dead,
        f"{origins[3]}/a": good,
        f"{origins[3]}/private": good,
        f"{unreachable[0]}/a": bad,
        f"{unreachable[1]}/a": tunnel,
        f"{unreachable[2]}/a": dead,
    }
    requests = [
        {
            "url": url,
            "meta": {"proxy": proxy.origin.replace("//", "//user:word@")},
            # The failing proxies come first.
            "priority": proxy is not good,
        }
        for url, proxy in proxies.items()
    ]
    result = run_crawl(requests, mode=mode, settings={"REP_WAIT_TIMEOUT": 1})
    paths = ("two.invalid/public", "three.invalid/a", "four.invalid/a")
    expected = {*good.answers, *(f"http://{path}" for path in paths)}
    assert sorted(hit.target for hit in good.hits) == sorted(expected)
    sent = {hit.headers.get("Proxy-Authorization") for hit in good.hits}
    assert sent == {"Basic dXNlcjp3b3Jk"}
    assert {path for path in bad.pages if "alone" in path} == {
        f"{unreachable[0]}/robots.txt"
    }
    assert {hit.method for hit in tunnel.hits} == {"CONNECT"}
    assert {error["url"]: error.get("reason") for error in result.errors} == {
        f"{origins[3]}/public": None,
        **{f"{origins[number]}/private": "rule" for number in (0, 2, 3)},
        **{f"{origin}/a": "unreachable" for origin in unreachable},
    }
    reason = "(no answer: connection refused through its proxy)"
    assert result.lines("WARNING", f"{unreachable[2]}/robots.txt", reason)


NAMES = ("everyone", "defaultbot", "spiderbot", "MJ12bot")


def test_the_user_agent_of_a_request_chooses_the_group(site: Site, mode: str) -> None:
    """The User-Agent header of a request has priority over ``spider.user_agent``, which has priority
    over USER_AGENT. A request with the header of a browser follows the group of USER_AGENT. All
    requests share one robots.txt.
    """
    groups = {name: f"User-agent: {name}\nDisallow: /{name}\n" for name in NAMES}
    host = site.add("".join(groups.values()).replace("agent: everyone", "agent: *"))
    browser = "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"
    group_of = {"": "spiderbot", "MJ12bot/1.4": "MJ12bot", browser: "defaultbot"}
    requests = [
        {
            "url": host.url(f"/{path}?{group_of[header]}"),
            "headers": {"User-Agent": header} if header else {},
        }
        for header in group_of
        for path in NAMES
    ]
    settings = {"USER_AGENT": "defaultbot"}
    run_crawl(requests, mode=mode, spider="MozillaSpider", settings=settings)
    refused = {request["url"] for request in requests} - set(map(host.url, host.pages))
    assert refused == {host.url(f"/{name}?{name}") for name in group_of.values()}
    assert len(host.robots_hits) == 1
