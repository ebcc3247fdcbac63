"""Components of a project, and services that fetch its pages, beside this package's middleware."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import pytest
from scrapy import signals

from tests.crawl.answers import Answer, Then, busy, redirect, robots
from tests.crawl.broken_answers import stages
from tests.crawl.crawl import run_crawl
from tests.crawl.test_ledger import rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.unmeasured

COMPONENTS = "tests.crawl.component_spiders"
EVERY_WAY = "tests.crawl.waiting_spiders.EveryWaySpider"
RULES = "User-agent: *\nDisallow: /private\n"
DELAY = "User-agent: *\nDisallow: /private\nCrawl-delay: {}\n"
FORBIDS_HELD = "User-agent: *\nDisallow: /held\n"
WELL_KNOWN = "/.well-known/tdmrep.json"
TDMREP = b'[{"location": "/", "tdm-reservation": 1}]'
STOPPED = "a component stopped its download by raising StopDownload in a handler of"
PART = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"
"""The start of a response, after which no client tries again by itself."""
REFRESH = b'<meta http-equiv="refresh" content="0; url=/found">'


def pages(*hosts: Host) -> list[str]:
    return [host.url(path) for host in hosts for path in ("/private", "/public")]


def beside(name: str, order: int = 700, **settings: Any) -> dict[str, Any]:
    """Return the settings of a project with a downloader middleware."""
    return {"DOWNLOADER_MIDDLEWARES": {f"{COMPONENTS}.{name}": order}, **settings}


class Failing(NamedTuple):
    """What happens to robots.txt where a middleware fails its request."""

    name: str
    order: int
    why: str = ""
    """What the log says."""

    requests: int = 1
    attributes: dict[str, Any] = {}


KEY = "KeyError: 'wanted', raised by a component (see REP_REQUEST_META_KEYS)"
REPLACED = "a downloader middleware replaced the request by a new request 11 times in a row, the last"
FAILING = {
    "needs a key of the request": Failing("NeedsKey", 450, KEY, 0),
    "needs it after the middleware": Failing("NeedsKey", 700, KEY, 0),
    "needs it with a response": Failing("NeedsKeyOfResponses", 700, KEY),
    "needs it with an error": Failing("NeedsKeyOfFailures", 450, KEY, 0),
    "is cancelled": Failing("CancelRobotsTxt", 860),
    "returns its request for ever": Failing(
        *("ReplaceRobotsTxt", 450, REPLACED, 11),
        {"instead": "/robots.txt", "is_copy": True},
    ),
    "returns a new request of another method": Failing(
        *("ReplaceRobotsTxt", 700, "Refused by", 1),
        {"instead": "/robots.txt", "is_copy": False},
    ),
}


@pytest.mark.parametrize("case", FAILING.values(), ids=FAILING)
def test_a_middleware_that_fails_robotstxt_refuses_the_pages_at_once(
    site: Site, mode: str, case: Failing
) -> None:
    """If a middleware fails the request for robots.txt, all pages that wait for it are refused at
    once. The log says why, with one traceback at most.
    """
    is_refusing = case.name == "NeedsKeyOfFailures"
    hosts = [site.refusing() if is_refusing else site.add(RULES) for _ in range(2)]
    result = run_crawl(
        [{"url": url, "meta": {"wanted": 1}} for url in pages(*hosts)],
        mode=mode,
        settings=beside(case.name, case.order, REP_WAIT_TIMEOUT=600 if case.why else 0),
        **case.attributes,
        timeout=30,
    )
    assert [host.pages for host in hosts] == [[]] * 2
    assert [len(host.robots_hits) for host in hosts] == [case.requests] * 2
    assert {error["error"] for error in result.errors} <= {
        "IgnoreRequest",
        "RobotsDenied",
    }
    assert len(result.errors) == 4
    assert result.stats["finish_reason"] == "robots_denied"
    assert "never retrieved" not in result.log
    errors = result.lines("ERROR")
    assert [KEY[-22:-1] in error for error in errors] == [True] * (case.why == KEY)
    assert result.log.count('request.meta["wanted"]') == len(errors)
    assert ("Traceback" in result.log) is bool(errors)
    remedy = (
        "must return None for a request that it created" if case.why == REPLACED else ""
    )
    for host in hosts:
        words = host.robotstxt, case.why, remedy, "are refused"
        assert result.lines("WARNING", *words)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("NeedsKey", {}),
        ("ReplaceRobotsTxt", {"instead": "/rules", "is_copy": True}),
    ],
)
def test_rep_request_meta_keys_gives_a_middleware_its_key(
    site: Site, mode: str, name: str, attributes: dict[str, Any]
) -> None:
    """With REP_REQUEST_META_KEYS, as the log says, a middleware gets its key. A request that it
    returns in place of the one for robots.txt is sent at once, as a part of the same fetch.
    """
    host = site.add("User-agent: *\nDisallow: /\n")
    path = attributes.get("instead", "/robots.txt")
    host.answers[path] = robots(RULES)
    result = run_crawl(
        [{"url": url, "meta": {"wanted": 1}} for url in pages(host)],
        mode=mode,
        settings=beside(name, 450, REP_REQUEST_META_KEYS=["wanted"]),
        **attributes,
        timeout=30,
    )
    asked = [hit.path for hit in host.hits]
    assert asked == [*dict.fromkeys(["/robots.txt", path]), "/public"]
    assert result.lines("ERROR") == []


@pytest.mark.newest
def test_a_middleware_sees_robotstxt_as_it_is_sent_and_answered(site: Site) -> None:
    """A middleware that solves challenges sees the request for robots.txt as it is sent, and the
    response as the server has sent it.
    """
    host = site.add(RULES)
    host.limit = lambda hit: (
        None if "X-Solved" in hit.headers else Answer(b"a challenge", 403)
    )
    result = run_crawl(pages(host), settings=beside("SolveChallenges"))
    assert [hit.path for hit in host.hits if "X-Solved" in hit.headers] == [
        "/robots.txt",
        "/public",
    ]
    assert result.stats["solved/identity/30"] == 1


@pytest.mark.newest
def test_an_error_of_the_network_is_not_blamed_on_a_component(site: Site) -> None:
    """An error of the network is not taken for one of a component that looks at it."""
    host = site.add(stages(Then.RESET)["in the body"])
    settings = beside("NeedsKeyOfFailures", REP_REQUEST_META_KEYS=["wanted"])
    requests = [{"url": url, "meta": {"wanted": 1}} for url in pages(host)]
    result = run_crawl(requests, settings=settings)
    assert host.pages == []
    assert len(host.robots_hits) == 2
    (line,) = result.lines("WARNING", host.robotstxt)
    assert "component" not in line
    assert result.lines("ERROR") == []


@pytest.mark.parametrize(
    ("stops_in", "fails"), [("headers_received", False), ("bytes_received", True)]
)
def test_a_robotstxt_whose_download_was_stopped_is_no_file_without_rules(
    site: Site, mode: str, stops_in: str, fails: bool
) -> None:
    """A robots.txt whose download a signal handler of the project has stopped is no file
    without rules: pages are refused at once, and the log names the cause. A status without a
    file says the same as ever, unless the handler fails the download. So it is with tdmrep.json.
    Neither request asks for an encoding, whatever the spider's requests ask for.
    """
    host, missing = site.add(RULES), site.add(robots("None", status=404))
    moved = site.add(redirect(host.robotstxt, body=b"Moved"))
    html = site.add(robots(f"#<\n{RULES}", headers={"Content-Type": "text/html"}))
    html.answers[WELL_KNOWN] = Answer(TDMREP)
    mining = {"url": html.url("/public"), "headers": {"Accept-Encoding": "gzip"}}
    result = run_crawl(
        [*pages(host, missing, moved), mining],
        mode=mode,
        spider=f"{COMPONENTS}.HtmlOnlySpider",
        stops_in=stops_in,
        fails=fails,
        settings={"REP_WAIT_TIMEOUT": 600, "REP_PURPOSES": ["tdm"]},
        timeout=30,
    )
    assert host.pages == moved.pages == []
    # Twisted may repeat a request on a connection that it has just closed.
    fetched = set() if fails else {WELL_KNOWN, "/private", "/public"}
    assert set(missing.pages) == fetched
    hits = 1 if fails else 2
    assert hits <= len(host.robots_hits) <= 2 * hits
    for server in [host, moved] + [missing] * fails:
        (line,) = result.lines("WARNING", server.robotstxt, STOPPED, "are refused")
        assert "let the handler ignore requests for robots.txt and tdmrep.json" in line
    assert result.stats["rep/robotstxt/unreachable"] == 2 + fails
    assert result.stats["rep/robotstxt/successful"] == 1
    assert result.stats["rep/tdmrep/unreachable"] == 1
    assert result.lines("DEBUG", html.url(WELL_KNOWN), STOPPED)
    asked = {hit.path: hit.headers["Accept-Encoding"] for hit in html.hits}
    files = dict.fromkeys(["/robots.txt", WELL_KNOWN], "identity")
    assert asked == files | {"/public": "gzip"}


# Downloads that are cancelled, fail or are hidden free their places once.


def test_a_cancelled_download_holds_up_none_that_follows_it(
    site: Site, mode: str
) -> None:
    """Hundreds of downloads that wait for the same robots.txt all continue when it comes. Those that
    are cancelled while they wait for robots.txt, for the delay of their host, or while they are in
    flight, do not hold up those that follow them. One that is cancelled in the moment in which it is
    refused is counted once. Of one Request object that is downloaded several times at once, Scrapy fails all
    downloads but one with a KeyError; each of them ends, and keeps the delay.
    """
    start = site.add()
    many = site.add(Answer(b"", delay=0.5), name="127.0.0.2")
    some = site.add(robots(DELAY.format(0.2), delay=0.2), name="127.0.0.3")
    some.limit = lambda hit: None if hit.path == "/robots.txt" else Answer(delay=0.1)
    refused = site.add(DELAY.format(0.5), name="127.0.0.4")
    refused.limit = lambda hit: busy(429, "3600") if hit.path == "/0" else None
    same = site.add(DELAY.format(0.3), name="127.0.0.5")
    more = {
        start.url(f"/{host.name}"): [host.url(f"/{number}") for number in range(count)]
        for host, count in ((many, 300), (some, 14), (refused, 30))
    }
    of_many, of_some, of_refused = more
    more[start.url("/same")] = [same.url("/")] * 4
    result = run_crawl(
        list(more),
        mode=mode,
        spider=EVERY_WAY,
        settings={"REP_BACKOFF_MAX": 60, "REP_WAIT_TIMEOUT": 60},
        more=more,
        cancel_after={
            of_some: [0.1 + 0.1 * n if n % 2 else None for n in range(14)],
            of_refused: [0.52 + 0.002 * n for n in range(30)],
        },
    )
    errors = {item["url"]: item["error"] for item in result.items}
    assert len(many.robots_hits) == 1
    assert [errors[url] for url in more[of_many]] == [None] * 300
    assert [errors[url] for url in more[of_some][::2]] == [None] * 7
    assert any(errors[url] for url in more[of_some][1::2])
    assert len(same.pages) > 1
    at_once = [item["error"] for item in result.items if item["url"] == same.url("/")]
    assert sorted(at_once, key=str) == ["KeyError"] * 3 + [None]
    for host, delay in ((some, 0.2), (same, 0.3)):
        assert min(host.gaps) > delay - 0.01, host.gaps
    for host in (many, some, refused, same):
        counts = result.stats[f"places/{host.name}"]
        assert counts["in_flight"] == 0, host.name
        assert counts["waiting"] == 0, host.name
    assert "log_count/ERROR" not in result.stats, result.log


def test_a_request_that_a_middleware_returns_is_downloaded_when_it_comes_again(
    site: Site, mode: str
) -> None:
    """A request that a middleware returns, the same object, is downloaded when it comes again,
    whether it comes from the scheduler or past that.
    """
    host = site.add(DELAY.format(0.2))
    start, file = host.url("/start"), host.url("/file")
    result = run_crawl(
        [start],
        mode=mode,
        spider=EVERY_WAY,
        settings=beside("MarkOnce", 543),
        more={start: [file]},
        timeout=30,
    )
    assert [(item["url"], item["error"]) for item in result.items] == [(file, None)]
    assert host.pages == ["/file", "/start"]
    assert min(host.gaps) > 0.19, host.gaps


def test_a_hidden_error_begins_the_delay(site: Site, mode: str) -> None:
    """The delay of a host begins after a request that has failed, even if a component of the
    project replaces the error by a response.
    """
    host = site.add(DELAY.format(0.3))
    host.limit = lambda hit: (
        None if hit.path == "/robots.txt" else Answer(raw=lambda: [PART, Then.RESET])
    )
    urls = [host.url(f"/{number}") for number in range(3)]
    result = run_crawl(urls, mode=mode, settings=beside("HideErrors"))
    assert [response["status"] for response in result.responses] == [418] * 3
    assert min(host.gaps) > 0.29, host.gaps


@pytest.mark.newest
def test_a_request_held_until_its_rules_are_stale_keeps_to_the_new_ones(
    site: Site,
) -> None:
    """A request that a component holds back until the robots.txt that allowed it is no longer fresh is judged by the
    next one, and not sent if that forbids it.
    """
    host, other = site.add([robots(""), robots(FORBIDS_HELD)]), site.add()

    def is_stale() -> bool:
        hits = host.hits_on("/first")
        return bool(hits) and hits[0].time < time.monotonic() - 0.25

    other.answers["/go"] = Answer(after=is_stale)
    # The first request after a robots.txt may use it whenever it is sent.
    first = {"url": host.url("/first"), "priority": 1}
    result = run_crawl(
        [first, host.url("/held"), other.url("/go")],
        settings=beside("HoldBack", REP_MAX_AGE=0.2),
    )
    assert host.pages == ["/first"]
    assert len(host.robots_hits) == 2
    assert result.error(host.url("/held"))["reason"] == "rule"


def test_a_component_may_download_from_the_host_whose_request_it_holds(
    site: Site,
) -> None:
    """A downloader middleware may download something from the host of a request while it holds
    that request back, although the host has a delay. A crawl does not hang there.
    """
    host = site.add(DELAY.format(0.3))
    urls = [host.url(f"/{number}") for number in range(3)]
    result = run_crawl(urls, settings=beside("LogIn"))
    assert result.fetched() == sorted(urls)
    assert len(host.hits_on("/token")) == 3


# Scrapy's own components.


def test_the_middleware_replaces_scrapys_own_where_a_project_names_that(
    site: Site, tmp_path: Path
) -> None:
    """A project that names Scrapy's own RobotsTxtMiddleware gets the one of this package
    instead: one fetch of robots.txt, with overrides and a ledger.
    """
    host, ledger = site.add("User-agent: *\nDisallow: /\n"), tmp_path / "ledger"
    theirs = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
    result = run_crawl(
        pages(host),
        settings={
            "DOWNLOADER_MIDDLEWARES": {theirs: 100},
            "REP_LEDGER": str(ledger),
            "REP_OVERRIDES": {"127.0.0.1": RULES},
        },
    )
    assert [hit.path for hit in host.hits] == ["/public"]
    assert result.error(host.url("/private"))["reason"] == "rule"
    assert theirs not in result.log
    (row,) = rows(ledger, "SELECT layer, verdict FROM decision WHERE line")
    assert row == {"layer": "override", "verdict": "refused"}


def test_a_sitemap_spider_gets_its_pages_from_noindex_sitemaps(
    site: Site, mode: str
) -> None:
    """A SitemapSpider that starts at robots.txt finds the pages of the sitemap, with
    one fetch of robots.txt, although both say noindex and nofollow, as SEO plugins let them.
    """
    host = site.add()
    tag = {"X-Robots-Tag": "noindex, nofollow"}
    text = f"{RULES}Sitemap: {host.url('/sitemap.xml')}\n"
    host.answers["/robots.txt"] = robots(text, headers=tag)
    locations = "".join(f"<url><loc>{url}</loc></url>" for url in pages(host))
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    body = f'<?xml version="1.0"?><urlset xmlns="{space}">{locations}</urlset>'
    xml = {"Content-Type": "application/xml", **tag}
    host.answers["/sitemap.xml"] = Answer(body.encode(), headers=xml)
    spider = "RobotsSitemapSpider"
    result = run_crawl(mode=mode, spider=spider, sitemap_urls=[host.robotstxt])
    assert len(host.robots_hits) == 1
    assert host.pages == ["/public", "/sitemap.xml"]
    assert result.fetched() == [host.url("/public")]


def test_a_spider_gets_the_copy_of_a_fetched_robotstxt(site: Site, mode: str) -> None:
    """A spider's request for a robots.txt that the crawl has already fetched gets the copy, with the flag
    ``robotstxt_copy``; it is no duplicate of the fetch, which does not reach the spider and has its own stats. One that
    redirects is sent, so that its response says so. A URL with a query or in another folder is not a robots.txt. The
    signal ``robots_parsed`` is sent once for each robots.txt, with a working parser.
    """
    host, forbidding = site.add(RULES), site.add("User-agent: *\nDisallow: /\n")
    missing = site.add(robots("Not here", status=404))
    hosts = (host, forbidding, missing)
    moved = site.add()
    moved.chain(1, robots(RULES))
    result = run_crawl(
        [
            server.url("/public")
            for server in (*hosts, moved, site.add(Answer(status=503)))
        ],
        then=[
            *(server.robotstxt for server in (*hosts, moved)),
            *(forbidding.url(path) for path in ("/robots.txt?a", "/x/robots.txt")),
        ],
        mode=mode,
    )
    assert [len(server.robots_hits) for server in hosts] == [1, 1, 1]
    assert forbidding.pages == []
    seen = {response["url"]: response for response in result.responses}
    assert len(seen) == len(result.responses) == 7
    assert "redirect_urls" in seen[moved.url("/hop-1")]["meta"]
    assert moved.pages == ["/hop-1", "/hop-1", "/public"]
    for server, status in ((host, 200), (forbidding, 200), (missing, 404)):
        assert seen[server.robotstxt]["status"] == status
        assert seen[server.robotstxt]["flags"] == ["robotstxt_copy"]
    assert seen[host.robotstxt]["body"] == RULES
    assert seen[host.url("/public")]["flags"] == []
    assert result.stats["rep/robotstxt/from_copy"] == 3
    assert result.stats["robotstxt/response_count"] == 5
    assert result.stats["robotstxt/response_status_count/200"] == 3
    assert "dupefilter/filtered" not in result.stats
    if hasattr(signals, "robots_parsed"):
        parsed = [
            (signal["url"], signal["allowed"], signal["private"])
            for signal in result.parsed
        ]
        assert sorted(parsed) == sorted(
            [
                (host.url("/public"), True, False),
                (forbidding.url("/public"), False, False),
                (moved.url("/public"), True, False),
            ]
        )


def test_scrapys_own_middleware_can_use_this_packages_parser(site: Site) -> None:
    """As ROBOTSTXT_PARSER, this package's parser decides for Scrapy's own middleware, in
    the dialect of the settings.
    """
    host = site.add("User-agent: *\nDisallow: /a\nAllow: /a/b\n")
    parser = {"ROBOTSTXT_PARSER": "scrapy_rep.RobotParser", "REP_DIALECT": "classic"}
    # Scrapy's middleware lets some of several parallel requests pass.
    settings = {"CONCURRENT_REQUESTS": 1, "ROBOTSTXT_OBEY": True}
    paths = ("/a/b", "/a/c", "/c")
    result = run_crawl(map(host.url, paths), enable=parser, settings=settings)
    assert host.pages == ["/c"]
    assert result.stats["robotstxt/forbidden"] == 2
    assert "rep/robotstxt/successful" not in result.stats


# Services that render or fetch the pages of a site for a crawl.


def through(service: Host, kind: str) -> dict[str, Any]:
    return {"settings": beside(kind, 725, SERVICE_URL=service.origin)}


@pytest.mark.parametrize("kind", ["Service", "ExemptService"])
def test_a_service_gets_the_requests_of_each_site_with_its_delay(
    site: Site, kind: str
) -> None:
    """A service gets the requests for one site with the Crawl-delay of that site, and those
    for different sites independently.
    """
    service, delay = site.add(name="127.0.0.9"), 0.3
    hosts = [site.add(DELAY.format(delay), name=f"127.0.0.{n}") for n in (2, 3, 4)]
    urls = [host.url(f"/{n}/{host.port}") for n in range(4) for host in hosts]
    result = run_crawl(urls, **through(service, kind))
    assert len(result.responses) == len(urls), result.log
    for host in hosts:
        assert host.pages == []
        times = [hit.time for hit in service.hits if hit.path.endswith(f"{host.port}")]
        assert len(times) == 4
        assert min(after - before for before, after in pairwise(times)) >= delay
    assert min(service.gaps) < delay, "The sites waited for each other"


@pytest.mark.newest
def test_a_response_of_a_service_is_judged_by_where_it_ended(site: Site) -> None:
    """A response of a service that ended at another URL is judged by that URL, before Scrapy looks
    where the page leads. It passes if the spider has exempted a request to its origin.
    """
    service, host = site.add(name="127.0.0.9"), site.add(RULES, name="127.0.0.2")
    exempted = site.add(RULES, name="127.0.0.3")
    for url, body in (
        (host.url("/moved"), REFRESH),
        (exempted.url("/exempt"), b"<html></html>"),
    ):
        end = url.rpartition("/")[0] + "/private"
        landed = {"X-Landed": end, "Content-Type": "text/html"}
        target = f"/render?url={quote(url, safe='')}"
        service.answers[target] = Answer(body, headers=landed)
    exempt = {"url": exempted.url("/exempt"), "meta": {"dont_obey_robotstxt": True}}
    urls = [host.url("/private"), host.url("/moved"), host.url("/fine"), exempt]
    result = run_crawl(urls, **through(service, "ExemptService"))
    assert result.fetched() == sorted([host.url("/fine"), exempted.url("/private")])
    assert [error["reason"] for error in result.errors] == ["rule", "rule"]
    assert sum("was reached" in error["message"] for error in result.errors) == 1
    assert result.stats["rep/browser/arrived"] == 1
