"""Tests of crawls with widely used plugins, which work as usual and fetch nothing forbidden."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import scrapy

from tests.crawl.answers import Answer, robots
from tests.crawl.crawl import ADDON, run_crawl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Hit, Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: testbot\nDisallow: /private\nUser-agent: *\nDisallow: /\n"
HTML = {"Content-Type": "text/html"}
LINKS = Answer(
    b'<a href="/one">1</a><a href="/two">2</a><a href="/private/a">3</a>', headers=HTML
)
CACHE = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": "{folder}"}
POLICIES = "scrapy.extensions.httpcache."


def random_agents(middleware: str) -> dict[str, Any]:
    """Return the settings that enable a *middleware* which sets random User-Agent headers."""
    middlewares = {
        "scrapy.downloadermiddlewares.useragent.UserAgentMiddleware": None,
        middleware: 400,
    }
    return {"ROBOTSTXT_USER_AGENT": "testbot", "DOWNLOADER_MIDDLEWARES": middlewares}


@pytest.mark.parametrize(
    ("module", "settings", "refetched"),
    [
        pytest.param(
            "scrapy_deltafetch",
            {
                "SPIDER_MIDDLEWARES": {"scrapy_deltafetch.DeltaFetch": 100},
                "DELTAFETCH_ENABLED": True,
                "DELTAFETCH_DIR": "{folder}",
            },
            ["/"],
            marks=pytest.mark.skipif(
                scrapy.version_info >= (2, 19), reason="It has no asynchronous method"
            ),
            id="scrapy-deltafetch: a page that made an item is not fetched again",
        ),
        pytest.param(
            "scrapy",
            {**CACHE, "HTTPCACHE_POLICY": f"{POLICIES}DummyPolicy"},
            [],
            id="HTTP cache: cached pages follow the robots.txt, which is not cached",
        ),
        pytest.param(
            "scrapy",
            {**CACHE, "HTTPCACHE_POLICY": f"{POLICIES}RFC2616Policy"},
            ["/"],
            id="HTTP cache by RFC 2616",
        ),
        pytest.param(
            "scrapy_user_agents.middlewares",
            random_agents("scrapy_user_agents.middlewares.RandomUserAgentMiddleware"),
            ["/", "/one"],
            id="scrapy-user-agents does not affect ROBOTSTXT_USER_AGENT",
        ),
        pytest.param(
            "scrapy_fake_useragent.middleware",
            random_agents("scrapy_fake_useragent.middleware.RandomUserAgentMiddleware"),
            ["/", "/one"],
            id="scrapy-fake-useragent does not affect ROBOTSTXT_USER_AGENT",
        ),
    ],
)
def test_two_crawls_with_each_plugin_obey_robotstxt(
    site: Site,
    tmp_path: Path,
    module: str,
    settings: dict[str, Any],
    refetched: list[str],
) -> None:
    """The second crawl fetches *refetched* again, and gets another robots.txt, which it obeys."""
    pytest.importorskip(module, exc_type=ImportError)
    host = site.add(RULES)
    page = Answer(b"<html>", headers={**HTML, "Cache-Control": "max-age=3600"})
    host.answers |= {"/": LINKS, "/one": page, "/two": page}
    for name, value in settings.items():
        if value == "{folder}":
            settings = {**settings, name: str(tmp_path)}
    spider = "tests.crawl.page_spiders.PageSpider"
    run_crawl([host.url("/")], spider=spider, settings=settings)
    assert host.pages == ["/", "/one", "/two"]
    if module == "scrapy_user_agents.middlewares":
        assert host.hits_on("/")[0].headers["User-Agent"].startswith("Mozilla")
    host.answers["/robots.txt"] = robots("User-agent: *\nDisallow: /two\n")
    before = len(host.hits)
    result = run_crawl([host.url("/")], spider=spider, settings=settings)
    requested_paths = sorted(hit.path for hit in host.hits[before:])
    assert [path for path in requested_paths if path != "/private/a"] == [
        *refetched,
        "/robots.txt",
    ]
    assert host.url("/two") not in result.fetched()
    assert "rep/browser/arrived" not in result.stats


def test_rotating_proxies_fetch_robotstxt_and_nothing_forbidden(site: Site) -> None:
    """With scrapy-rotating-proxies, robots.txt is fetched through one of the proxies, and forbidden pages
    through none.
    """
    pytest.importorskip("rotating_proxies")
    origin = "http://behind-the-proxy.invalid"
    proxies = [site.add(), site.add()]
    for proxy in proxies:
        proxy.answers[f"{origin}/robots.txt"] = robots(RULES)
    middlewares = "rotating_proxies.middlewares"
    settings = {
        "ROTATING_PROXY_LIST": [proxy.origin for proxy in proxies],
        "DOWNLOADER_MIDDLEWARES": {
            f"{middlewares}.RotatingProxyMiddleware": 610,
            f"{middlewares}.BanDetectionMiddleware": 620,
        },
    }
    urls = [f"{origin}/{part}/{n}" for n in range(4) for part in ("public", "private")]
    result = run_crawl(urls, settings=settings)
    requested_urls = {hit.path for proxy in proxies for hit in proxy.hits}
    assert requested_urls == {f"{origin}/robots.txt", *urls[::2]}
    assert [error["reason"] for error in result.errors] == ["rule"] * 4


@pytest.mark.parametrize("order", [300, 600])
def test_requests_of_scrapy_poets_client_obey_robotstxt(site: Site, order: int) -> None:
    """The HTTP client of scrapy-poet sends additional requests for a page. The add-ons may be in either
    order.
    """
    pytest.importorskip("scrapy_poet")
    host = site.add(RULES)
    result = run_crawl(
        [host.url("/page")],
        spider="tests.crawl.component_spiders.PoetSpider",
        enable={"ADDONS": {**ADDON["ADDONS"], "scrapy_poet.Addon": order}},
    )
    assert host.pages == ["/extra", "/page"], result.log
    refused, fetched = result.items
    assert "ignored" in refused["found"]
    assert fetched["found"] == "200"


@pytest.mark.parametrize("order", [300, 600])
def test_zyte_api_fetches_robotstxt_and_nothing_forbidden(
    site: Site, order: int
) -> None:
    """With scrapy-zyte-api, robots.txt is fetched through Zyte API as well, and no forbidden page is
    requested. If a response has another URL than its request, the URL of the response is judged. The
    add-ons may be in either order.
    """
    for module in ("scrapy_zyte_api", "scrapy_poet", "zyte_common_items"):
        pytest.importorskip(module)
    origin, api = "http://behind-the-api.invalid", site.add()
    requests_by_path: dict[str, Any] = {}

    def fetch(hit: Hit) -> Answer:
        """Return the answer of Zyte API to a request for a page of any site."""
        api_request = json.loads(hit.body)
        path = urlsplit(api_request["url"]).path
        requests_by_path[path] = api_request
        is_robots = path == "/robots.txt"
        body, kind = (RULES, "text/plain") if is_robots else ("<html>", "text/html")
        api_response = {
            "url": api_request["url"].replace("/moved", "/private"),
            "statusCode": 200,
            "httpResponseBody": base64.b64encode(body.encode()).decode(),
            "httpResponseHeaders": [{"name": "Content-Type", "value": kind}],
        }
        headers = {"Content-Type": "application/json"}
        return Answer(json.dumps(api_response).encode(), headers=headers)

    api.limit = fetch
    result = run_crawl(
        [f"{origin}{path}" for path in ("/public", "/private", "/moved")],
        settings={
            "ZYTE_API_KEY": "a",
            "ZYTE_API_URL": api.url("/v1/"),
            "ZYTE_API_TRANSPARENT_MODE": True,
        },
        enable={"ADDONS": {**ADDON["ADDONS"], "scrapy_zyte_api.Addon": order}},
    )
    assert sorted(requests_by_path) == ["/moved", "/public", "/robots.txt"]
    assert len(api.hits) == 3
    assert result.fetched() == [f"{origin}/public"]
    assert [error["reason"] for error in result.errors] == ["rule", "rule"]
    unencoded = {"name": "Accept-Encoding", "value": "identity"}
    assert unencoded in requests_by_path["/robots.txt"]["customHttpRequestHeaders"]


@pytest.mark.newest
def test_failures_of_scrapy_impersonate_are_recognised_by_the_error_codes_of_libcurl(
    site: Site,
) -> None:
    """If a host does not exist or refuses connections, its requests are refused after the same short wait
    as with Scrapy's own download handlers. If the certificate of a host is invalid, the log says that TLS failed.
    """
    handler = "scrapy_impersonate.ImpersonateDownloadHandler"
    pytest.importorskip("scrapy_impersonate")
    host, down, tls = site.add(RULES), site.refusing(), site.add(RULES, tls=True)
    unknown = "http://host.invalid"
    result = run_crawl(
        [
            {"url": url, "meta": {"impersonate": "chrome"}}
            for origin in (host.origin, down.origin, unknown, tls.origin)
            for url in (f"{origin}/one", f"{origin}/private/a")
        ],
        settings={
            "DOWNLOAD_HANDLERS": {"http": handler, "https": handler},
            "REP_REQUEST_META_KEYS": ["impersonate"],
            "REP_WAIT_TIMEOUT": 5,
            "ROBOTSTXT_USER_AGENT": "testbot",
        },
        constants={"scrapy_rep.crawl.frontier.rules._NO_SERVER_WAIT": 0.1},
    )
    assert host.pages == ["/one"]
    assert "Sec-Ch-Ua" in host.robots_hits[0].headers
    assert tls.hits == []
    assert len(result.errors) == 7
    for origin, reason in (
        (down.origin, "connection refused"),
        (unknown, "the host name could not be resolved"),
    ):
        assert result.lines("WARNING", origin, f": {reason}", "are refused")
    assert result.lines("WARNING", tls.origin, "TLS failed: ", "wait for up to")
