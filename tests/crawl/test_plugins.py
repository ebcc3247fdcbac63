"""Widely used plugins beside this package: they work as usual, and fetch nothing forbidden."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import scrapy

from tests.crawl.answers import Answer, robots
from tests.crawl.crawl import ADDON, CrawlResult, run_crawl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: testbot\nDisallow: /private\nUser-agent: *\nDisallow: /\n"
HTML = {"Content-Type": "text/html"}
LINKS = Answer(
    b'<a href="/one">1</a><a href="/two">2</a><a href="/private/a">3</a>', headers=HTML
)


def site_with_links(site: Site) -> Host:
    host = site.add(RULES)
    host.answers["/"] = LINKS
    return host


def crawl(host: Host, **arguments: Any) -> CrawlResult:
    spider = "tests.crawl.page_spiders.PageSpider"
    return run_crawl([host.url("/")], spider=spider, **arguments)


def test_deltafetch(site: Site, tmp_path: Path) -> None:
    """scrapy-deltafetch: a page that made an item is not fetched again, and
    forbidden pages are not fetched.
    """
    plugin = pytest.importorskip("scrapy_deltafetch")
    if scrapy.version_info >= (2, 19) and not hasattr(
        plugin.DeltaFetch, "process_spider_output_async"
    ):
        pytest.skip("This scrapy-deltafetch does not run on this Scrapy")
    host = site_with_links(site)
    settings = {
        "SPIDER_MIDDLEWARES": {"scrapy_deltafetch.DeltaFetch": 100},
        "DELTAFETCH_ENABLED": True,
        "DELTAFETCH_DIR": str(tmp_path),
    }
    crawl(host, settings=settings)
    assert host.pages == ["/", "/one", "/two"]
    result = crawl(host, settings=settings)
    assert host.pages == ["/", "/", "/one", "/two"]
    assert result.stats["deltafetch/skipped"] == 2


@pytest.mark.parametrize("policy", ["DummyPolicy", "RFC2616Policy"])
def test_http_cache(site: Site, tmp_path: Path, policy: str) -> None:
    """Scrapy's HTTP cache: cached pages follow the current robots.txt, which is not cached."""
    host = site_with_links(site)
    cached = {**HTML, "Cache-Control": "max-age=3600"}
    host.answers["/one"] = host.answers["/two"] = Answer(b"<html>", headers=cached)
    settings = {
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path),
        "HTTPCACHE_POLICY": f"scrapy.extensions.httpcache.{policy}",
    }
    crawl(host, settings=settings)
    host.answers["/robots.txt"] = robots("User-agent: *\nDisallow: /two\n")
    result = crawl(host, settings=settings)
    assert len(host.robots_hits) == 2
    assert result.error(host.url("/two"))["reason"] == "rule"
    assert host.url("/one") in result.fetched()
    assert host.hits_on("/one") == host.hits_on("/one")[:1]
    assert "rep/browser/arrived" not in result.stats


def test_rotating_proxies(site: Site) -> None:
    """scrapy-rotating-proxies: robots.txt is fetched through one of the proxies, and
    forbidden pages through none.
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
    asked = [hit.path for proxy in proxies for hit in proxy.hits]
    assert sorted(set(asked)) == [
        *(f"{origin}/public/{n}" for n in range(4)), f"{origin}/robots.txt"
    ]  # fmt: skip
    assert [error["reason"] for error in result.errors] == ["rule"] * 4


@pytest.mark.parametrize("package", ["scrapy_user_agents", "scrapy_fake_useragent"])
def test_user_agents(site: Site, package: str) -> None:
    """Plugins with random User-Agent headers do not affect ROBOTSTXT_USER_AGENT."""
    module = "middlewares" if package == "scrapy_user_agents" else "middleware"
    pytest.importorskip(f"{package}.{module}", exc_type=ImportError)
    host = site_with_links(site)
    settings = {
        "ROBOTSTXT_USER_AGENT": "testbot",
        "DOWNLOADER_MIDDLEWARES": {
            "scrapy.downloadermiddlewares.useragent.UserAgentMiddleware": None,
            f"{package}.{module}.RandomUserAgentMiddleware": 400,
        },
    }
    crawl(host, settings=settings)
    assert host.pages == ["/", "/one", "/two"]
    # scrapy-fake-useragent uses USER_AGENT if its own providers fail.
    if package == "scrapy_user_agents":
        assert host.hits_on("/")[0].headers["User-Agent"].startswith("Mozilla")


@pytest.mark.parametrize("order", [300, 600])
def test_poet(site: Site, order: int) -> None:
    """scrapy-poet: additional requests of its client follow robots.txt as well, in
    either order of the add-ons.
    """
    pytest.importorskip("scrapy_poet")
    host = site.add(RULES)
    result = run_crawl(
        [host.url("/page")],
        spider="tests.crawl.plugin_spiders.PoetSpider",
        enable={"ADDONS": {**ADDON["ADDONS"], "scrapy_poet.Addon": order}},
    )
    assert host.pages == ["/extra", "/page"], result.log
    refused, fetched = result.items
    assert "ignored" in refused["found"]
    assert fetched["found"] == "200"


@contextmanager
def zyte_api(rules: str, moved: dict[str, str]) -> Iterator[tuple[str, list[Any]]]:
    """Run a server that answers for any site as Zyte API does. Yield its URL and a list of
    the requests. Pages in *moved* get the response of another URL.
    """
    asked: list[Any] = []

    class Api(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            wanted = json.loads(self.rfile.read(length))
            asked.append(wanted)
            path = urlsplit(wanted["url"]).path
            body = rules if path == "/robots.txt" else "<html></html>"
            kind = "text/plain" if path == "/robots.txt" else "text/html"
            found = {
                "url": moved.get(wanted["url"], wanted["url"]),
                "statusCode": 200,
                "httpResponseBody": base64.b64encode(body.encode()).decode(),
                "httpResponseHeaders": [{"name": "Content-Type", "value": kind}],
            }
            answer = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/", asked
        server.shutdown()


@pytest.mark.parametrize("order", [300, 600])
def test_zyte_api(order: int) -> None:
    """scrapy-zyte-api: robots.txt is fetched through it too, no forbidden
    page is requested, and a response of another URL is judged by that, in
    either order of the add-ons.
    """
    pytest.importorskip("scrapy_zyte_api")
    pytest.importorskip("scrapy_poet")
    pytest.importorskip("zyte_common_items")
    origin = "http://behind-the-api.invalid"
    moved = {f"{origin}/moved": f"{origin}/private"}
    with zyte_api(RULES, moved) as (api_url, asked):
        result = run_crawl(
            [f"{origin}{path}" for path in ("/public", "/private", "/moved")],
            settings={
                "ZYTE_API_KEY": "a",
                "ZYTE_API_URL": api_url,
                "ZYTE_API_TRANSPARENT_MODE": True,
            },
            enable={"ADDONS": {**ADDON["ADDONS"], "scrapy_zyte_api.Addon": order}},
        )
    urls = sorted(each["url"] for each in asked)
    assert urls == [f"{origin}{path}" for path in ("/moved", "/public", "/robots.txt")]
    assert result.fetched() == [f"{origin}/public"]
    assert [error["reason"] for error in result.errors] == ["rule", "rule"]
    (robots,) = (each for each in asked if each["url"].endswith("/robots.txt"))
    unencoded = {"name": "Accept-Encoding", "value": "identity"}
    assert unencoded in robots["customHttpRequestHeaders"]
