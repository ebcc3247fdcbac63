"""Failures of a proxy are not taken for answers of the site."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer, robots
from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: *\nDisallow: /private/\n"
REFUSED = Answer(status=407, headers={"Proxy-Authenticate": 'Basic realm="a proxy"'})


def test_failures(site: Site, mode: str) -> None:
    """A proxy that answers 407, or is dead, says nothing about a site: its robots.txt is fetched
    through the proxy of another request. Without one it is unreachable, and no page is fetched;
    so it is with 407 as the answer to CONNECT.
    """
    bad, good, dead, tunnel = site.add(), site.add(), site.refusing(), site.add()
    alone, https = "http://alone.invalid", "https://alone.invalid"
    helped = {"http://refused.invalid": bad, "http://dead.invalid": dead}
    bad.answers = {
        origin + path: REFUSED
        for origin in (alone, *helped)
        for path in ("/robots.txt", "/public/bad")
    }
    tunnel.answers["alone.invalid:443"] = REFUSED
    requests = []

    def through(proxy: Host, *urls: str, priority: int = 0) -> None:
        requests.extend(
            {"url": url, "meta": {"proxy": proxy.origin}, "priority": priority}
            for url in urls
        )

    fetched, denied = [], []
    for origin, proxy in helped.items():
        through(proxy, f"{origin}/public/bad", priority=1)
        public = [f"{origin}/public/{number}" for number in range(5)]
        private = [f"{origin}/private/{number}" for number in range(5)]
        through(good, *public, *private)
        good.answers[f"{origin}/robots.txt"] = robots(RULES)
        fetched += [*public, f"{origin}/robots.txt"]
        denied += private
    lost = [f"{origin}/public/{n}" for origin in (alone, https) for n in range(3)]
    through(bad, *lost[:3])
    through(tunnel, *lost[3:])
    result = run_crawl(requests, mode=mode, settings={"REP_WAIT_MAX": 1})
    assert good.pages == sorted(fetched)
    assert {path for path in bad.pages if "alone" in path} == {f"{alone}/robots.txt"}
    assert {hit.method for hit in tunnel.hits} == {"CONNECT"}
    errors = {each["url"]: each.get("reason") for each in result.errors}
    assert errors.pop("http://dead.invalid/public/bad") is None
    wanted = dict.fromkeys(denied, "rule") | dict.fromkeys(lost, "unreachable")
    assert errors == wanted


def test_cookies_on_the_way(site: Site, mode: str) -> None:
    """A site that redirects robots.txt to itself until its cookie is sent gets the cookie,
    but only for robots.txt.
    """
    host = site.add()

    class Gate(dict):
        """Answers for /robots.txt that depend on the cookie of the last request."""

        def get(self, path: str, default: object = None) -> object:
            if path != "/robots.txt":
                return None
            hit = host.hits_on(path)[-1]
            if hit.headers.get("Cookie") == "gate=open":
                return robots(RULES)
            headers = {"Location": "/robots.txt", "Set-Cookie": "gate=open; Path=/"}
            return Answer(status=302, headers=headers)

    host.answers = Gate()
    urls = [host.url("/public"), host.url("/private/")]
    result = run_crawl(urls, mode=mode)
    assert host.pages == ["/public"]
    assert len(host.robots_hits) == 2
    assert "Cookie" not in host.hits_on("/public")[0].headers
    assert result.error(host.url("/private/"))["reason"] == "rule"
