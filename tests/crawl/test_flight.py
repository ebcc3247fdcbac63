"""The robots.txt fetch takes over keys of the request that needs it, and ends with the crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.answers import Answer, redirect, robots
from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: *\nDisallow: /private\n"


def sent_meta(sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        request["meta"] for request in sent if request["url"].endswith("/robots.txt")
    ]


def test_the_proxy_of_the_request(site: Site, mode: str) -> None:
    """The robots.txt of a host behind a proxy is fetched through that proxy."""
    proxy = site.add()
    origin = "http://behind-the-proxy.invalid"
    proxy.answers[f"{origin}/robots.txt"] = robots(RULES)
    paths = ("/public", "/private")
    requests = [
        {"url": origin + path, "meta": {"proxy": proxy.origin}} for path in paths
    ]
    result = run_crawl(requests, mode=mode)
    assert proxy.pages == [f"{origin}/public", f"{origin}/robots.txt"]
    assert result.error(f"{origin}/private")["reason"] == "rule"


def test_the_credentials_of_the_proxy(site: Site, mode: str) -> None:
    """The robots.txt fetch sends the credentials of the proxy, also for
    the target of a redirect.
    """
    proxy = site.add()
    origin, other = "http://one.invalid", "http://two.invalid"
    proxy.answers[f"{origin}/moved"] = redirect(f"{other}/public")
    for host in (origin, other):
        proxy.answers[f"{host}/robots.txt"] = robots(RULES)
    meta = {"proxy": proxy.origin.replace("//", "//user:word@")}
    run_crawl([{"url": f"{origin}/moved", "meta": meta}], mode=mode)
    assert len(proxy.hits) == 4
    asked = {hit.target: hit.headers.get("Proxy-Authorization") for hit in proxy.hits}
    assert set(asked.values()) == {"Basic dXNlcjp3b3Jk"}


def test_the_download_slot_of_the_request(site: Site) -> None:
    """By default, the robots.txt fetch takes over ``download_slot``, and
    no other keys of the user.
    """
    host = site.add(RULES)
    meta = {"download_slot": "mine", "session": "7"}
    result = run_crawl([{"url": host.url("/public"), "meta": meta}])
    (sent,) = sent_meta(result.sent)
    assert sent["download_slot"] == "mine"
    assert "session" not in sent


@pytest.mark.parametrize("own", [True, False])
def test_the_user_agent_of_the_request(site: Site, own: bool) -> None:
    """The robots.txt fetch has the User-Agent header of the request."""
    host = site.add(RULES)
    headers = {"User-Agent": "special/1.0"} if own else {}
    settings = {"ROBOTSTXT_USER_AGENT": "another"}
    run_crawl([{"url": host.url("/public"), "headers": headers}], settings=settings)
    names = {hit.headers["User-Agent"] for hit in host.hits}
    assert names == {"special/1.0" if own else "testbot"}
    assert len(host.hits) == 2


def test_closing_while_robotstxt_hangs(site: Site, mode: str) -> None:
    """A crawl that closes does not wait for a robots.txt that hangs, nor for
    requests that wait for it.
    """
    host = site.add(Answer(hang=True))
    other = site.add(RULES)
    urls = [host.url(f"/{number}") for number in range(40)]
    result = run_crawl(
        [*urls, other.url("/public")],
        mode=mode,
        settings={"CLOSESPIDER_TIMEOUT": 1, "CONCURRENT_REQUESTS": 60},
    )
    assert result.stats["elapsed_time_seconds"] < 60
    assert result.exit_code == 0
    assert result.stats["finish_reason"] == "closespider_timeout"
    assert host.pages == []
    assert other.pages == ["/public"]
    assert len(host.robots_hits) == 1
    assert "log_count/ERROR" not in result.stats, result.log
    assert "Traceback" not in result.log
    assert "never retrieved" not in result.log


def test_closing_between_redirects(site: Site, mode: str) -> None:
    """A crawl that closes does not wait for a robots.txt that hangs after
    redirects, nor for its retries.
    """
    host = site.add()
    host.chain(2, Answer(hang=True))
    result = run_crawl(
        [host.url(f"/{number}") for number in range(10)],
        mode=mode,
        settings={"CLOSESPIDER_TIMEOUT": 1},
    )
    assert result.stats["elapsed_time_seconds"] < 60
    assert len(host.hits_on("/hop-2")) == 1
    assert host.pages == ["/hop-1", "/hop-2"]


def test_a_cancelled_fetch_frees_everyone(site: Site, mode: str) -> None:
    """If the robots.txt fetch is cancelled, all waiting requests are
    refused, and none waits on.
    """
    host = site.add(robots(RULES, delay=0.3))
    middleware = {"tests.crawl.spiders.CancelRobotsTxt": 860}
    result = run_crawl(
        [host.url(f"/{number}") for number in range(20)],
        mode=mode,
        settings={"DOWNLOADER_MIDDLEWARES": middleware},
    )
    assert host.pages == []
    assert len(host.robots_hits) == 1
    assert len(result.errors) == 20
    kinds = {error["error"] for error in result.errors}
    assert kinds <= {"IgnoreRequest", "RobotsDenied"}
    assert result.stats["finish_reason"] == "finished"
    assert "Traceback" not in result.log
    assert "never retrieved" not in result.log
