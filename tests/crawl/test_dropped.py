"""Components of a project that stop or fail the request for robots.txt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer, Then, redirect, robots
from tests.crawl.crawl import run_crawl
from tests.crawl.lies import stages

if TYPE_CHECKING:
    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.unmeasured

COMPONENTS = "tests.crawl.component_spiders"
RULES = "User-agent: *\nDisallow: /private\n"
WELL_KNOWN = "/.well-known/tdmrep.json"
TDMREP = b'[{"location": "/", "tdm-reservation": 1}]'
JSON = {"Content-Type": "application/json"}
STOPPED = "a component stopped its download (StopDownload in a handler of"


def pages(*hosts: Host) -> list[str]:
    return [host.url(path) for host in hosts for path in ("/private", "/public")]


@pytest.mark.parametrize(
    ("stops_in", "fails"), [("headers_received", False), ("bytes_received", True)]
)
def test_a_project_that_stops_what_is_not_html(
    site: Site, mode: str, stops_in: str, fails: bool
) -> None:
    """A robots.txt whose download a signal handler of the project has stopped is no file
    without rules: pages are refused at once, and the log names the cause. A status without a
    file says the same as ever, unless the handler fails the download.
    """
    host = site.add(RULES)
    missing = site.add(robots("None", status=404))
    moved = site.add(redirect(host.robotstxt, body=b"Moved"))
    result = run_crawl(
        pages(host, missing, moved),
        mode=mode,
        spider=f"{COMPONENTS}.HtmlOnlySpider",
        stops_in=stops_in,
        fails=fails,
        settings={"REP_WAIT_MAX": 600},
    )
    assert host.pages == moved.pages == []
    # Twisted may repeat a request on a connection that it has just closed.
    assert set(missing.pages) == (set() if fails else {"/private", "/public"})
    hits = 1 if fails else 2
    assert hits <= len(host.robots_hits) <= 2 * hits
    for one in [host, moved] + [missing] * fails:
        (line,) = result.lines("WARNING", one.robotstxt, STOPPED, "are refused")
        assert "let requests for robots.txt and tdmrep.json pass there" in line
    assert result.stats["rep/robotstxt/unreachable"] == 2 + fails
    assert "rep/robotstxt/successful" not in result.stats
    assert result.stats["elapsed_time_seconds"] < 30


def test_a_tdmrep_that_is_stopped(site: Site, mode: str) -> None:
    """A stopped tdmrep.json is not read as one that reserves nothing: it is unreachable."""
    html = {"Content-Type": "text/html"}
    host = site.add(robots(RULES, headers=html))
    host.answers[WELL_KNOWN] = Answer(TDMREP, headers=JSON)
    result = run_crawl(
        [host.url("/public")],
        mode=mode,
        spider=f"{COMPONENTS}.HtmlOnlyPageSpider",
        settings={"REP_PURPOSES": ["tdm"]},
    )
    assert len(host.hits_on(WELL_KNOWN)) == 1
    assert result.stats["rep/tdmrep/unreachable"] == 1
    assert result.lines("DEBUG", host.url(WELL_KNOWN), STOPPED)


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        *(("NeedsKey", 450), ("NeedsKey", 700)),
        *(("NeedsKeyOfResponses", 700), ("NeedsKeyOfFailures", 450)),
    ],
)
def test_a_middleware_that_fails(site: Site, mode: str, kind: str, order: int) -> None:
    """If a middleware fails for lack of a meta key, the pages are refused at once, whatever
    the order of the middleware. The log has one traceback, and says which setting helps.
    """
    is_failing = kind == "NeedsKeyOfFailures"
    hosts = [site.refusing() if is_failing else site.add(RULES) for _ in range(3)]
    result = run_crawl(
        [{"url": url, "meta": {"wanted": 1}} for url in pages(*hosts)],
        mode=mode,
        settings={
            "DOWNLOADER_MIDDLEWARES": {f"{COMPONENTS}.{kind}": order},
            "REP_WAIT_MAX": 600,
        },
    )
    assert [host.pages for host in hosts] == [[]] * 3
    (error,) = result.lines("ERROR")
    assert "REP_REQUEST_META_KEYS" in error
    assert result.log.count('request.meta["wanted"]') == 1
    for host in hosts:
        what = "KeyError: 'wanted', raised by a component (see REP_REQUEST_META_KEYS)"
        assert result.lines("WARNING", host.robotstxt, what, "are refused")
    assert result.stats["rep/robotstxt/unreachable"] == 3
    assert result.stats["elapsed_time_seconds"] < 30


@pytest.mark.newest
def test_a_middleware_that_gets_its_key(site: Site) -> None:
    """With REP_REQUEST_META_KEYS, as the log says, the crawl goes on: also where a store
    keeps what was known.
    """
    host = site.add(RULES)
    settings = {
        "DOWNLOADER_MIDDLEWARES": {f"{COMPONENTS}.NeedsKey": 450},
        "REP_REQUEST_META_KEYS": ["wanted"],
    }
    requests = [{"url": url, "meta": {"wanted": 1}} for url in pages(host)]
    result = run_crawl(requests, settings=settings)
    assert host.pages == ["/public"]
    assert result.lines("ERROR") == []


@pytest.mark.newest
def test_the_network_is_no_component(site: Site, mode: str) -> None:
    """An error of the network is not taken for one of a component, also beside a middleware
    that looks at it.
    """
    host = site.add(stages(Then.RESET)["in the body"])
    settings = {"DOWNLOADER_MIDDLEWARES": {f"{COMPONENTS}.NeedsKeyOfFailures": 700}}
    settings["REP_REQUEST_META_KEYS"] = ["wanted"]
    requests = [{"url": url, "meta": {"wanted": 1}} for url in pages(host)]
    result = run_crawl(requests, mode=mode, settings=settings)
    assert host.pages == []
    assert len(host.robots_hits) == 2
    (line,) = result.lines("WARNING", host.robotstxt)
    assert "component" not in line
    assert result.lines("ERROR") == []


def test_a_cancelled_fetch_frees_everyone(site: Site, mode: str) -> None:
    """If the robots.txt fetch is cancelled, all waiting requests are
    refused, and none waits on.
    """
    host = site.add(robots(RULES, delay=0.3))
    middleware = {f"{COMPONENTS}.CancelRobotsTxt": 860}
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


@pytest.mark.parametrize("is_copy", [True, False])
def test_a_middleware_that_returns_requests(
    site: Site, mode: str, is_copy: bool
) -> None:
    """A request that a middleware returns in place of the one for robots.txt is sent at once, as a
    part of the same fetch, up to ten times. After that, the fetch has failed, and the log says why.
    """
    host, endless = site.add(RULES), site.add(RULES)
    host.answers["/rules"] = robots("User-agent: *\nDisallow: /public\n")
    settings = {
        "DOWNLOADER_MIDDLEWARES": {f"{COMPONENTS}.Replacing": 450},
        "REP_WAIT_MAX": 600,
    }
    how = {"mode": mode, "settings": settings, "is_copy": is_copy, "timeout": 20}
    run_crawl(pages(host), replaced=["/robots.txt"], instead="/rules", **how)
    assert [hit.path for hit in host.hits] == ["/robots.txt", "/rules", "/private"]
    result = run_crawl(
        pages(endless), replaced=["/robots.txt"], instead="/robots.txt", **how
    )
    assert [hit.path for hit in endless.hits] == ["/robots.txt"] * 11
    assert {error["reason"] for error in result.errors} == {"unreachable"}
    why = "dropped by a component: replaced by other requests 11 times"
    assert result.lines("WARNING", endless.robotstxt, why, "are refused")
