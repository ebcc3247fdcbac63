"""Failures of a proxy are not taken for answers of the site."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer, robots
from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: *\nDisallow: /private/\n"
ORIGIN = "http://behind-the-proxy.invalid"
REFUSED = Answer(status=407, headers={"Proxy-Authenticate": 'Basic realm="a proxy"'})


def through(proxy: str, path: str, priority: int = 0) -> dict[str, object]:
    return {"url": ORIGIN + path, "meta": {"proxy": proxy}, "priority": priority}


def test_a_proxy_that_refuses_and_a_good_one(site: Site, mode: str) -> None:
    """If a proxy answers 407 for robots.txt, it is fetched through the
    proxy of another request.
    """
    bad, good = site.add(), site.add()
    bad.answers = {
        ORIGIN + path: REFUSED
        for path in ("/robots.txt", "/public/bad", *(f"/public/{n}" for n in range(5)))
    }
    good.answers[f"{ORIGIN}/robots.txt"] = robots(RULES)
    requests = [through(bad.origin, "/public/bad", 1)]
    requests += [
        through(good.origin, f"/{part}/{number}")
        for number in range(5)
        for part in ("private", "public")
    ]
    result = run_crawl(requests, mode=mode, settings={"REP_WAIT_MAX": 30})
    assert good.pages == sorted(
        [f"{ORIGIN}/robots.txt", *(f"{ORIGIN}/public/{n}" for n in range(5))]
    )
    assert {error["reason"] for error in result.errors} == {"rule"}
    assert len(result.errors) == 5


def test_a_proxy_that_refuses_alone(site: Site, mode: str) -> None:
    """If the only proxy answers 407, robots.txt is unreachable, and no page is fetched."""
    bad = site.add()
    bad.answers = {f"{ORIGIN}/robots.txt": REFUSED}
    requests = [through(bad.origin, f"/public/{number}") for number in range(5)]
    result = run_crawl(requests, mode=mode)
    assert set(bad.pages) == {f"{ORIGIN}/robots.txt"}
    assert {error["reason"] for error in result.errors} == {"unreachable"}


def test_a_proxy_that_refuses_to_connect(site: Site, mode: str) -> None:
    """If the proxy answers 407 to CONNECT for an https site, robots.txt is unreachable."""
    bad = site.add()
    origin = "https://behind-the-proxy.invalid"
    bad.answers["behind-the-proxy.invalid:443"] = REFUSED
    requests = [
        {"url": f"{origin}/public/{number}", "meta": {"proxy": bad.origin}}
        for number in range(3)
    ]
    result = run_crawl(requests, mode=mode)
    assert {error["reason"] for error in result.errors} == {"unreachable"}
    assert {hit.method for hit in bad.hits} == {"CONNECT"}


def test_a_dead_proxy_and_a_good_one(site: Site, mode: str) -> None:
    """If the proxy of the first request is dead, robots.txt is retried through that of the
    next request, and no request with a working proxy is refused.
    """
    dead, good = site.refusing(), site.add()
    good.answers[f"{ORIGIN}/robots.txt"] = robots(RULES)
    requests = [through(dead.origin, "/public/dead", 1)]
    requests += [through(good.origin, f"/public/{number}") for number in range(5)]
    requests += [through(good.origin, "/private/")]
    result = run_crawl(
        requests,
        mode=mode,
        settings={"REP_WAIT_MAX": 30},
    )
    pages = [f"{ORIGIN}/public/{number}" for number in range(5)]
    assert good.pages == [*pages, f"{ORIGIN}/robots.txt"]
    assert result.error(f"{ORIGIN}/private/")["reason"] == "rule"
    assert result.error(f"{ORIGIN}/public/dead")["error"] != "RobotsDenied"


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


def test_too_many_redirects(site: Site) -> None:
    """With too many redirects, pages are fetched as without a robots.txt, and the
    log shows the whole chain.
    """
    host = site.add()
    host.chain(6, robots(RULES))
    result = run_crawl([host.url("/private/")])
    assert "/private/" in host.pages
    (line,) = result.lines("WARNING", "redirected more than")
    assert host.url("/hop-1") in line
    assert host.url("/hop-5") in line
