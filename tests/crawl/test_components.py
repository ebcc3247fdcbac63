"""Tests of crawls whose project has middlewares and signal handlers of its own, or a service that fetches pages."""

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
"""The start of a response. A client that has received it does not repeat the request by itself."""
REFRESH = b'<meta http-equiv="refresh" content="0; url=/found">'


def pages(*hosts: Host) -> list[str]:
    """Return the URLs of a forbidden and an allowed page of each host."""
    return [host.url(path) for host in hosts for path in ("/private", "/public")]


def with_middleware(name: str, order: int = 700, **settings: Any) -> dict[str, Any]:
    """Return *settings*, and the setting that adds the downloader middleware *name* with this order."""
    return {"DOWNLOADER_MIDDLEWARES": {f"{COMPONENTS}.{name}": order}, **settings}


class Failing(NamedTuple):
    """A middleware that makes the request for robots.txt fail, and the expected result."""

    name: str
    order: int
    reason: str = ""
    """The words with which the log explains the failure."""

    requests: int = 1
    """The number of requests for robots.txt that each host gets."""

    attributes: dict[str, Any] = {}
    """Attributes of the spider, which the middleware reads."""


KEY = "KeyError: 'wanted', raised by a component (see REP_REQUEST_META_KEYS)"
REPLACED = "a downloader middleware replaced the request by a new request 11 times in a row, the last"
FAILING = {
    "reads a meta key of the request": Failing("NeedsKey", 450, KEY, 0),
    "reads it behind the middleware of this package": Failing("NeedsKey", 700, KEY, 0),
    "reads it when the response arrives": Failing("NeedsKeyOfResponses", 700, KEY),
    "reads it when the download fails": Failing("NeedsKeyOfFailures", 450, KEY, 0),
    "raises CancelledError": Failing("CancelRobotsTxt", 860),
    "always replaces the response by the request": Failing(
        *("ReplaceRobotsTxt", 450, REPLACED, 11),
        {"instead": "/robots.txt", "is_copy": True},
    ),
    "replaces the response by a new request with another method": Failing(
        *("ReplaceRobotsTxt", 700, "Refused by", 1),
        {"instead": "/robots.txt", "is_copy": False},
    ),
}


@pytest.mark.parametrize("case", FAILING.values(), ids=FAILING)
def test_pages_are_refused_at_once_if_a_middleware_makes_robotstxt_fail(
    site: Site, mode: str, case: Failing
) -> None:
    """If a middleware makes the request for robots.txt fail, all pages that wait for this robots.txt are refused at
    once. The log says why, and has at most one traceback.
    """
    is_refusing = case.name == "NeedsKeyOfFailures"
    hosts = [site.refusing() if is_refusing else site.add(RULES) for _ in range(2)]
    result = run_crawl(
        [{"url": url, "meta": {"wanted": 1}} for url in pages(*hosts)],
        mode=mode,
        settings=with_middleware(
            case.name, case.order, REP_WAIT_TIMEOUT=600 if case.reason else 0
        ),
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
    assert ["REP_REQUEST_META_KEYS" in error for error in errors] == [True] * (
        case.reason == KEY
    )
    assert result.log.count('request.meta["wanted"]') == len(errors)
    assert ("Traceback" in result.log) is bool(errors)
    remedy = (
        "must return None for a request that it created"
        if case.reason == REPLACED
        else ""
    )
    for host in hosts:
        words = host.robotstxt, case.reason, remedy, "are refused"
        assert result.lines("WARNING", *words)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("NeedsKey", {}),
        ("ReplaceRobotsTxt", {"instead": "/rules", "is_copy": True}),
    ],
)
def test_rep_request_meta_keys_gives_requests_for_robotstxt_a_meta_key(
    site: Site, mode: str, name: str, attributes: dict[str, Any]
) -> None:
    """With REP_REQUEST_META_KEYS, which the log recommends, a middleware finds its meta key in requests for robots.txt.

    If the middleware returns another request in place of the response for robots.txt, it is sent at once, as a part of
    the same fetch.
    """
    host = site.add("User-agent: *\nDisallow: /\n")
    path = attributes.get("instead", "/robots.txt")
    host.answers[path] = robots(RULES)
    result = run_crawl(
        [{"url": url, "meta": {"wanted": 1}} for url in pages(host)],
        mode=mode,
        settings=with_middleware(name, 450, REP_REQUEST_META_KEYS=["wanted"]),
        **attributes,
        timeout=30,
    )
    requested = [hit.path for hit in host.hits]
    assert requested == [*dict.fromkeys(["/robots.txt", path]), "/public"]
    assert result.lines("ERROR") == []


@pytest.mark.newest
def test_a_middleware_gets_the_request_and_response_of_robotstxt_unchanged(
    site: Site,
) -> None:
    """A middleware that solves challenges gets the request for robots.txt as it is sent, and the response as the server
    has sent it.
    """
    host = site.add(RULES)
    host.limit = lambda hit: (
        None if "X-Solved" in hit.headers else Answer(b"a challenge", 403)
    )
    result = run_crawl(pages(host), settings=with_middleware("SolveChallenges"))
    assert [hit.path for hit in host.hits if "X-Solved" in hit.headers] == [
        "/robots.txt",
        "/public",
    ]
    assert result.stats["solved/identity/30"] == 1


@pytest.mark.newest
def test_an_error_of_the_network_is_not_blamed_on_a_component(site: Site) -> None:
    """The middleware has a ``process_exception`` method that gets the error, but is not its cause."""
    host = site.add(stages(Then.RESET)["in the body"])
    settings = with_middleware("NeedsKeyOfFailures", REP_REQUEST_META_KEYS=["wanted"])
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
def test_a_robotstxt_whose_download_is_stopped_is_unreachable(
    site: Site, mode: str, stops_in: str, fails: bool
) -> None:
    """If a signal handler of the project stops the download of a robots.txt, the body that has arrived is not used: the
    robots.txt is unreachable, pages are refused at once, and the log names the cause.

    A status such as 404 has its usual meaning even without a body, unless the handler makes the download fail. The
    same applies to tdmrep.json.

    Requests for robots.txt and tdmrep.json accept no content coding, whatever the requests of the spider accept.
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
    # Twisted may repeat a request if it has just closed the connection.
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
    encodings = {hit.path: hit.headers["Accept-Encoding"] for hit in html.hits}
    files = dict.fromkeys(["/robots.txt", WELL_KNOWN], "identity")
    assert encodings == files | {"/public": "gzip"}


# Cancelled downloads, failed downloads, and failures that a component hides.


def test_a_cancelled_download_does_not_block_later_ones(site: Site, mode: str) -> None:
    """Cancelled downloads do not block later ones. The limiter counts the end of each download exactly once.

    The spider downloads from four hosts:

    - ``many``: 300 downloads that wait for the same robots.txt all continue when it arrives.
    - ``some``: downloads are cancelled while they wait for robots.txt or for the delay, or while they are in flight.
    - ``refused``: downloads are cancelled at about the time at which they are refused.
    - ``same``: one Request object is downloaded four times at once. Scrapy makes all but one of these downloads fail
      with a KeyError. All four downloads end, and keep the delay.
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
    many_page, some_page, refused_page = more
    more[start.url("/same")] = [same.url("/")] * 4
    result = run_crawl(
        list(more),
        mode=mode,
        spider=EVERY_WAY,
        settings={"REP_BACKOFF_MAX": 60, "REP_WAIT_TIMEOUT": 60},
        more=more,
        cancel_after={
            some_page: [0.1 + 0.1 * n if n % 2 else None for n in range(14)],
            refused_page: [0.52 + 0.002 * n for n in range(30)],
        },
    )
    errors = {item["url"]: item["error"] for item in result.items}
    assert len(many.robots_hits) == 1
    assert [errors[url] for url in more[many_page]] == [None] * 300
    assert [errors[url] for url in more[some_page][::2]] == [None] * 7
    assert any(errors[url] for url in more[some_page][1::2])
    assert len(same.pages) > 1
    same_errors = [
        item["error"] for item in result.items if item["url"] == same.url("/")
    ]
    assert sorted(same_errors, key=str) == ["KeyError"] * 3 + [None]
    for host, delay in ((some, 0.2), (same, 0.3)):
        assert min(host.gaps) > delay - 0.01, host.gaps
    for host in (many, some, refused, same):
        counts = result.stats[f"limiter/{host.name}"]
        assert counts["in_flight"] == 0, host.name
        assert counts["waiting"] == 0, host.name
    assert "log_count/ERROR" not in result.stats, result.log


def test_a_request_that_a_middleware_reschedules_is_downloaded_the_second_time(
    site: Site, mode: str
) -> None:
    """A middleware returns each request from ``process_request`` once, as the same object.

    The request is downloaded when it passes the middlewares again, whether it comes from the scheduler or from
    ``engine.download_async``.
    """
    host = site.add(DELAY.format(0.2))
    start, file = host.url("/start"), host.url("/file")
    result = run_crawl(
        [start],
        mode=mode,
        spider=EVERY_WAY,
        settings=with_middleware("MarkOnce", 543),
        more={start: [file]},
        timeout=30,
    )
    assert [(item["url"], item["error"]) for item in result.items] == [(file, None)]
    assert host.pages == ["/file", "/start"]
    assert min(host.gaps) > 0.19, host.gaps


def test_the_delay_begins_after_an_error_that_a_component_hides(
    site: Site, mode: str
) -> None:
    """The delay of a host begins after a failed request, even if a component replaces the error by a response."""
    host = site.add(DELAY.format(0.3))
    host.limit = lambda hit: (
        None if hit.path == "/robots.txt" else Answer(raw=lambda: [PART, Then.RESET])
    )
    urls = [host.url(f"/{number}") for number in range(3)]
    result = run_crawl(urls, mode=mode, settings=with_middleware("HideErrors"))
    assert [response["status"] for response in result.responses] == [418] * 3
    assert min(host.gaps) > 0.29, host.gaps


@pytest.mark.newest
def test_a_request_that_is_held_back_until_robotstxt_is_stale_is_judged_again(
    site: Site,
) -> None:
    """A robots.txt allows a request, a component holds the request back, and the robots.txt becomes stale meanwhile.

    The request is judged by the next robots.txt, and not sent if that file forbids it.
    """
    # The second host is there for the page /go, after which HoldBack lets requests pass.
    host, control = site.add([robots(""), robots(FORBIDS_HELD)]), site.add()

    def is_stale() -> bool:
        hits = host.hits_on("/first")
        return bool(hits) and hits[0].time < time.monotonic() - 0.25

    control.answers["/go"] = Answer(after=is_stale)
    # The first request after a fetch of robots.txt may use the file however old it is, so /held must not be the first.
    first = {"url": host.url("/first"), "priority": 1}
    result = run_crawl(
        [first, host.url("/held"), control.url("/go")],
        settings=with_middleware("HoldBack", REP_MAX_AGE=0.2),
    )
    assert host.pages == ["/first"]
    assert len(host.robots_hits) == 2
    assert result.error(host.url("/held"))["reason"] == "rule"


def test_a_component_may_download_from_a_host_while_it_holds_a_request_back(
    site: Site,
) -> None:
    """A downloader middleware may download something from a host with a delay while it holds back a request to the same
    host. The crawl does not hang.
    """
    host = site.add(DELAY.format(0.3))
    urls = [host.url(f"/{number}") for number in range(3)]
    result = run_crawl(urls, settings=with_middleware("LogIn"))
    assert result.fetched() == sorted(urls)
    assert len(host.hits_on("/token")) == 3


# Scrapy's own components.


def test_the_middleware_replaces_scrapys_own_if_a_project_enables_the_latter(
    site: Site, tmp_path: Path
) -> None:
    """If the settings of a project name Scrapy's RobotsTxtMiddleware, the middleware of this package is used instead,
    with overrides and a ledger.
    """
    host, ledger = site.add("User-agent: *\nDisallow: /\n"), tmp_path / "ledger"
    scrapy_middleware = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
    result = run_crawl(
        pages(host),
        settings={
            "DOWNLOADER_MIDDLEWARES": {scrapy_middleware: 100},
            "REP_LEDGER": str(ledger),
            "REP_OVERRIDES": {"127.0.0.1": RULES},
        },
    )
    assert [hit.path for hit in host.hits] == ["/public"]
    assert result.error(host.url("/private"))["reason"] == "rule"
    assert scrapy_middleware not in result.log
    (row,) = rows(ledger, "SELECT layer, verdict FROM decision WHERE line")
    assert row == {"layer": "override", "verdict": "refused"}


def test_a_sitemap_spider_gets_its_pages_from_noindex_sitemaps(
    site: Site, mode: str
) -> None:
    """A SitemapSpider that starts at robots.txt gets the pages of the sitemap, with one fetch of robots.txt.

    robots.txt and the sitemap have noindex and nofollow in their X-Robots-Tag, as SEO plugins send them.
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
    """A spider that requests a robots.txt which the crawl has already fetched gets the copy, with the flag
    ``robotstxt_copy``.

    - The duplicate filter does not drop this request, although the same URL has been fetched.
    - The response of the fetch itself does not reach the spider, and has its own stats.
    - If robots.txt redirects, the request of the spider is sent, so that its response has ``redirect_urls``.
    - A URL with a query, or in another folder, is not a robots.txt.
    - The signal ``robots_parsed`` is sent once for each robots.txt, with a parser that works.
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
    """If ROBOTSTXT_PARSER names the parser of this package, it decides for Scrapy's own middleware, in the dialect of
    REP_DIALECT.
    """
    host = site.add("User-agent: *\nDisallow: /a\nAllow: /a/b\n")
    parser = {"ROBOTSTXT_PARSER": "scrapy_rep.RobotParser", "REP_DIALECT": "classic"}
    # With more than one request at a time, Scrapy's middleware lets some forbidden requests pass.
    settings = {"CONCURRENT_REQUESTS": 1, "ROBOTSTXT_OBEY": True}
    paths = ("/a/b", "/a/c", "/c")
    result = run_crawl(map(host.url, paths), enable=parser, settings=settings)
    assert host.pages == ["/c"]
    assert result.stats["robotstxt/forbidden"] == 2
    assert "rep/robotstxt/successful" not in result.stats


# Services that render or fetch the pages of a site for a crawl.


def with_service(service: Host, middleware: str) -> dict[str, Any]:
    """Return the arguments of a crawl that sends the requests for all pages to *service*.

    *middleware* is the name of the downloader middleware that does this: "Service" or "ExemptService".
    """
    return {"settings": with_middleware(middleware, 725, SERVICE_URL=service.origin)}


@pytest.mark.parametrize("middleware", ["Service", "ExemptService"])
def test_requests_through_a_service_keep_the_delay_of_each_site(
    site: Site, middleware: str
) -> None:
    """A crawl sends all requests for pages to a service that fetches them. Between two requests for pages of one site,
    the Crawl-delay of the site passes. Requests for pages of different sites do not wait for each other.
    """
    service, delay = site.add(name="127.0.0.9"), 0.3
    hosts = [site.add(DELAY.format(delay), name=f"127.0.0.{n}") for n in (2, 3, 4)]
    urls = [host.url(f"/{n}/{host.port}") for n in range(4) for host in hosts]
    result = run_crawl(urls, **with_service(service, middleware))
    assert len(result.responses) == len(urls), result.log
    for host in hosts:
        assert host.pages == []
        times = [hit.time for hit in service.hits if hit.path.endswith(f"{host.port}")]
        assert len(times) == 4
        assert min(after - before for before, after in pairwise(times)) >= delay
    assert min(service.gaps) < delay, "The sites waited for each other"


@pytest.mark.newest
def test_a_response_of_a_service_is_judged_by_the_url_at_which_it_ended(
    site: Site,
) -> None:
    """A service that fetches a page can follow redirects. The response of the service then has the last URL of the
    redirects, and is refused if robots.txt forbids this URL. A meta refresh in a refused page is not followed.

    The response is not refused if the spider has sent a request with ``dont_obey_robotstxt`` to the origin of the last
    URL.
    """
    service, host = site.add(name="127.0.0.9"), site.add(RULES, name="127.0.0.2")
    exempted = site.add(RULES, name="127.0.0.3")
    for url, body in (
        (host.url("/moved"), REFRESH),
        (exempted.url("/exempt"), b"<html></html>"),
    ):
        end_url = url.rpartition("/")[0] + "/private"
        headers = {"X-Landed": end_url, "Content-Type": "text/html"}
        target = f"/render?url={quote(url, safe='')}"
        service.answers[target] = Answer(body, headers=headers)
    exempt = {"url": exempted.url("/exempt"), "meta": {"dont_obey_robotstxt": True}}
    urls = [host.url("/private"), host.url("/moved"), host.url("/fine"), exempt]
    result = run_crawl(urls, **with_service(service, "ExemptService"))
    assert result.fetched() == sorted([host.url("/fine"), exempted.url("/private")])
    assert [error["reason"] for error in result.errors] == ["rule", "rule"]
    assert sum("was reached" in error["message"] for error in result.errors) == 1
    assert result.stats["rep/browser/arrived"] == 1
