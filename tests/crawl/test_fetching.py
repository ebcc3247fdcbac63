"""How robots.txt is fetched: once per origin, independent of Scrapy's settings for pages, with limits
on size and time, and through the proxies of requests. ``tests/fetching`` has each kind of answer.
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


def test_the_fetch_of_robotstxt_is_apart_from_cookies_throttle_and_redirect_limits(
    site: Site, mode: str
) -> None:
    """The fetch of robots.txt sends no cookies of the session and adds none to it, and asks for no
    compression. AutoThrottle does not learn from it, and its redirects are followed whatever
    REDIRECT_MAX_TIMES says, with the cookies that they set. User information and upper case in a URL
    cause no second fetch. The rules of a robots.txt in HTML hold, and its meta refresh is not
    followed. One that is cut off is not used, even with DOWNLOAD_FAIL_ON_DATALOSS = False. One
    without an answer is fetched once more, one with status 503 is not, whatever RETRY_TIMES says.
    ``download_timeout`` of a request and DOWNLOAD_MAXSIZE limit pages alone.
    """
    cookie = {"Set-Cookie": "robots=1"}
    long = robots(RULES + 50 * "# padding\n", headers=cookie, delay=1.2)
    host = site.add(long, name="localhost")
    host.answers["/login"] = Answer(headers={"Set-Cookie": "session=1"})
    refresh = '<meta http-equiv="refresh" content="0;url=/elsewhere">\n'
    page = site.add(robots(refresh + RULES, headers={"Content-Type": "text/html"}))
    moved = site.add()
    moved.chain(3, robots(RULES))
    broken = stages(Then.RESET)["in the body"]
    recovering, dead = site.add([broken, robots(RULES)]), site.add(broken)
    overloaded = site.add(robots(RULES, status=503))
    # It redirects robots.txt to itself until its cookie is sent.
    gate = site.add(robots(RULES))
    opened = {"Location": "/robots.txt", "Set-Cookie": "gate=open; Path=/"}
    gate.limit = lambda hit: (
        Answer(status=302, headers=opened)
        if "gate=open" not in hit.headers.get("Cookie", "") and "robots" in hit.path
        else None
    )
    hosts = [page, moved, recovering, gate, dead, overloaded]
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
    assert "gate" not in gate.hits_on("/public")[0].headers.get("Cookie", "")
    # Some of Scrapy's download handlers can't fetch a URL with user information.
    assert {"/b", "/public"} <= set(host.pages) <= {"/b", "/c", "/login", "/public"}
    fetched = [[path for path in host.pages if path in PAGES] for host in hosts]
    assert fetched == [["/public"]] * 4 + [[], []]
    assert [len(host.robots_hits) for host in hosts] == [1, 1, 2, 2, 2, 1]
    assert page.pages == ["/public"]
    assert result.stats["robotstxt/request_count"] == 7
    adjusted = [line for line in result.log.splitlines() if "latency:" in line]
    assert len(adjusted) == len(result.responses)


@pytest.mark.parametrize("attributes", [{}, {"download_timeout": 1}])
def test_download_timeout_limits_the_fetch_of_robotstxt(
    site: Site, attributes: dict[str, float]
) -> None:
    """DOWNLOAD_TIMEOUT, or ``download_timeout`` of the spider, limits the fetch. Redirects are
    followed and compressed files read also in a project without Scrapy's middlewares for these.
    """
    hanging, moved = site.add(HANGS), site.add()
    redirects = "scrapy.downloadermiddlewares.redirect.RedirectMiddleware"
    packed = Answer(
        zlib.compress(RULES.encode()), headers={"Content-Encoding": "deflate"}
    )
    moved.chain(3, packed)
    result = run_crawl(
        pages(moved, hanging),
        settings={
            "COMPRESSION_ENABLED": False,
            "DOWNLOAD_TIMEOUT": 60 if attributes else 1,
            "DOWNLOADER_MIDDLEWARES": {redirects: None},
            "REDIRECT_ENABLED": False,
        },
        handle_httpstatus_list=[301],
        **attributes,
    )
    assert [path for path in moved.pages if path in PAGES] == ["/public"]
    assert hanging.pages == []
    assert len(hanging.robots_hits) == 2
    assert result.stats["elapsed_time_seconds"] < 30


def test_robotstxt_is_fetched_through_the_proxy_of_its_requests(
    site: Site, mode: str
) -> None:
    """The robots.txt of a host behind a proxy is fetched through that proxy, with its credentials;
    that of the target of a redirect, too. A proxy that answers 407, or is dead, says nothing about a
    site: its robots.txt is fetched through the proxy of another request. Without one it is
    unreachable, and no page is fetched; so it is with 407 as the answer to CONNECT.
    """
    good, bad, dead, tunnel = site.add(), site.add(), site.refusing(), site.add()
    refused = Answer(
        status=407, headers={"Proxy-Authenticate": 'Basic realm="a proxy"'}
    )
    alone = ["http://alone.invalid", "https://alone.invalid", "http://dead.invalid"]
    origins = [f"http://{name}.invalid" for name in ("one", "two", "three", "four")]
    for origin in origins:
        good.answers[f"{origin}/robots.txt"] = robots(RULES)
    good.answers[f"{origins[0]}/moved"] = redirect(f"{origins[1]}/public")
    bad.answers = {
        f"{origin}/{path}": refused
        for origin in (*origins, *alone)
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
        f"{alone[0]}/a": bad,
        f"{alone[1]}/a": tunnel,
        f"{alone[2]}/a": dead,
    }
    requests = [
        {
            "url": url,
            "meta": {"proxy": proxy.origin.replace("//", "//user:word@")},
            # So robots.txt is first fetched through the others.
            "priority": proxy is not good,
        }
        for url, proxy in proxies.items()
    ]
    result = run_crawl(requests, mode=mode, settings={"REP_WAIT_TIMEOUT": 1})
    paths = ("two.invalid/public", "three.invalid/a", "four.invalid/a")
    wanted = {*good.answers, *(f"http://{path}" for path in paths)}
    assert sorted(hit.target for hit in good.hits) == sorted(wanted)
    sent = {hit.headers.get("Proxy-Authorization") for hit in good.hits}
    assert sent == {"Basic dXNlcjp3b3Jk"}
    assert {path for path in bad.pages if "alone" in path} == {f"{alone[0]}/robots.txt"}
    assert {hit.method for hit in tunnel.hits} == {"CONNECT"}
    assert {error["url"]: error.get("reason") for error in result.errors} == {
        f"{origins[3]}/public": None,
        **{f"{origins[number]}/private": "rule" for number in (0, 2, 3)},
        **{f"{origin}/a": "unreachable" for origin in alone},
    }
    refused = "(no answer: connection refused through its proxy)"
    assert result.lines("WARNING", f"{alone[2]}/robots.txt", refused)


NAMES = ("everyone", "defaultbot", "spiderbot", "MJ12bot")


def test_the_user_agent_of_a_request_chooses_the_group(site: Site, mode: str) -> None:
    """``spider.user_agent`` has priority over USER_AGENT, and the User-Agent header of a request
    over both; that of a browser follows the group of USER_AGENT. All requests share one robots.txt.
    """
    groups = {name: f"User-agent: {name}\nDisallow: /{name}\n" for name in NAMES}
    host = site.add("".join(groups.values()).replace("agent: everyone", "agent: *"))
    browser = "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"
    follows = {"": "spiderbot", "MJ12bot/1.4": "MJ12bot", browser: "defaultbot"}
    requests = [
        {
            "url": host.url(f"/{path}?{follows[header]}"),
            "headers": {"User-Agent": header} if header else {},
        }
        for header in follows
        for path in NAMES
    ]
    settings = {"USER_AGENT": "defaultbot"}
    run_crawl(requests, mode=mode, spider="MozillaSpider", settings=settings)
    refused = {request["url"] for request in requests} - set(map(host.url, host.pages))
    assert refused == {host.url(f"/{name}?{name}") for name in follows.values()}
    assert len(host.robots_hits) == 1
