"""The robots.txt fetch takes over keys of the request that needs it, and ends with the crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer, redirect, robots
from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: *\nDisallow: /private\n"


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


def test_the_slot_and_the_user_agent_of_the_request(site: Site) -> None:
    """By default, the robots.txt fetch takes over ``download_slot`` and the User-Agent header of
    the request, and no other keys of the user.
    """
    own, plain = site.add(RULES), site.add(RULES)
    meta = {"download_slot": "mine", "session": "7"}
    headers = {"User-Agent": "special/1.0"}
    request = {"url": own.url("/public"), "meta": meta, "headers": headers}
    settings = {"ROBOTSTXT_USER_AGENT": "another"}
    result = run_crawl([request, plain.url("/public")], settings=settings)
    (sent,) = (one["meta"] for one in result.sent if one["url"] == own.robotstxt)
    assert sent["download_slot"] == "mine"
    assert "session" not in sent
    for host, name in ((own, "special/1.0"), (plain, "testbot")):
        assert [hit.headers["User-Agent"] for hit in host.hits] == [name] * 2


def test_closing_while_robotstxt_hangs(site: Site, mode: str) -> None:
    """A crawl that closes does not wait for a robots.txt that hangs, also after redirects, nor for
    requests that wait for it.
    """
    host, moved = site.add(Answer(hang=True)), site.add()
    moved.chain(2, Answer(hang=True))
    other = site.add(RULES)
    urls = [one.url(f"/{number}") for one in (host, moved) for number in range(40)]
    result = run_crawl(
        [*urls, other.url("/public")],
        mode=mode,
        settings={"CLOSESPIDER_TIMEOUT": 1, "CONCURRENT_REQUESTS": 60},
    )
    assert result.stats["elapsed_time_seconds"] < 60
    assert result.exit_code == 0
    assert result.stats["finish_reason"] == "closespider_timeout"
    assert (host.pages, moved.pages) == ([], ["/hop-1", "/hop-2"])
    assert other.pages == ["/public"]
    assert len(host.robots_hits) == 1
    assert "log_count/ERROR" not in result.stats, result.log
    assert "Traceback" not in result.log
    assert "never retrieved" not in result.log


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
