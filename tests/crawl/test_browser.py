"""Playwright fetches no page that robots.txt forbids, or its response is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import CHROMIUM, PATIENCE
from tests.crawl.answers import Answer, redirect
from tests.crawl.crawl import run_crawl
from tests.report.making import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site

pytest.importorskip("scrapy_playwright", reason="scrapy-playwright is not installed")

pytestmark = [
    pytest.mark.newest,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="There is no Chromium"),
]

RULES = "User-agent: *\nDisallow: /private\n"
HANDLER = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
OPTIONS = (
    "--no-sandbox --headless --disable-gpu --disable-quic --no-first-run"
    " --disable-site-isolation-trials --disable-background-networking --disable-component-update --disable-sync"
)
SETTINGS = {
    "DOWNLOAD_HANDLERS": {"http": HANDLER, "https": HANDLER},
    "PLAYWRIGHT_DEFAULT_NAVIGATION_TIMEOUT": PATIENCE,
    "PLAYWRIGHT_LAUNCH_OPTIONS": {
        "executable_path": CHROMIUM,
        "args": OPTIONS.split(),
        "timeout": PATIENCE,
    },
    "PLAYWRIGHT_MAX_PAGES_PER_CONTEXT": 4,
    "REP_LEDGER_LEVEL": "all",
}
ABORT = {"PLAYWRIGHT_ABORT_REQUEST": "scrapy_rep.playwright.abort_forbidden"}


def html(body: str) -> Answer:
    page = f"<html><head><title>A page</title></head><body>{body}</body></html>"
    return Answer(page.encode(), headers={"Content-Type": "text/html"})


def crawl(requests: list[Any], path: Path, **settings: Any) -> CrawlResult:
    return run_crawl(
        requests,
        spider="tests.crawl.browser_spiders.BrowserSpider",
        settings={**SETTINGS, "REP_LEDGER": str(path / "ledger.sqlite"), **settings},
    )


def came_by_browser(path: Path) -> set[tuple[str, str, str]]:
    """Return the decisions in the ledger on URLs that the browser requested itself."""
    with closing(sqlite3.connect(path / "ledger.sqlite")) as ledger:
        return set(
            ledger.execute(
                "SELECT url, verdict, via FROM decision WHERE via IS NOT NULL"
            )
        )


def moving_site(site: Site) -> tuple[Host, Host, Host]:
    """Add hosts whose pages redirect a browser in different ways."""
    host = site.add(RULES)
    other = site.add(RULES, name="localhost")
    ignored = site.add(RULES, name="127.0.0.2")
    host.answers |= {
        "/script": html('<script>location = "/private/script"</script>'),
        "/refresh": html(
            '<meta http-equiv="refresh" content="0; url=/private/refresh">'
        ),
        "/http": redirect("/private/http"),
        "/away": redirect(other.url("/private/away")),
        "/fine": redirect("/landing"),
        "/exempt": redirect("/private/exempt"),
    }
    ignored.answers["/go"] = redirect("/private/ignored")
    return host, other, ignored


def moves(host: Host, ignored: Host) -> list[dict[str, Any]]:
    return [
        {"url": host.url("/script"), "ends_at": "/private/script"},
        {"url": host.url("/refresh"), "ends_at": "/private/refresh"},
        {"url": host.url("/http")},
        {"url": host.url("/away")},
        {"url": host.url("/fine")},
        {"url": host.url("/plain#part")},
        {"url": host.url("/exempt"), "meta": {"dont_obey_robotstxt": True}},
        {"url": ignored.url("/go")},
    ]


def test_what_has_arrived(site: Site, tmp_path: Path) -> None:
    """A response is judged by the URL at which the browser ended, after an HTTP
    redirect, a script or a meta refresh. If that is forbidden, the response is
    refused, with the reason.
    """
    host, other, ignored = moving_site(site)
    result = crawl(
        moves(host, ignored), tmp_path, REP_OVERRIDES={"127.0.0.2": "ignore"}
    )
    assert result.fetched() == sorted(
        [
            host.url("/landing"),
            host.url("/plain#part"),
            host.url("/private/exempt"),
            ignored.url("/private/ignored"),
        ]
    )
    led = {
        "/script": host.url("/private/script"),
        "/refresh": host.url("/private/refresh"),
        "/http": host.url("/private/http"),
        "/away": other.url("/private/away"),
    }
    for path, target in led.items():
        error = result.error(host.url(path))
        assert (error["error"], error["reason"]) == ("RobotsDenied", "rule")
        assert f"{target} arrived by a browser's redirect from" in error["message"]
    assert {each["url"] for each in result.denied} == set(led.values())
    assert result.stats["rep/browser/arrived"] == 4
    assert result.stats["robotstxt/forbidden"] == 4
    assert came_by_browser(tmp_path) == {
        *(
            (target, "refused", f"redirect {host.url(path)}")
            for path, target in led.items()
        ),
        (host.url("/landing"), "allowed", f"redirect {host.url('/fine')}"),
        (
            host.url("/private/exempt"), "allowed", f"redirect {host.url('/exempt')}",
        ),
        (ignored.url("/private/ignored"), "allowed", f"redirect {ignored.url('/go')}"),
    }  # fmt: skip
    report = tmp_path / "report.html"
    assert run(tmp_path / "ledger.sqlite", "-o", report) == 0
    assert (
        "4 forbidden pages fetched by a browser that a redirect or a script led there"
        in report.read_text()
    )
    # The crawler fetched robots.txt, not the browser.
    for hit in (*host.robots_hits, *other.robots_hits):
        assert "Sec-Fetch-Mode" not in hit.headers
    assert len(host.robots_hits) == len(other.robots_hits) == 1
    (warning,) = result.lines("WARNING", "scrapy_playwright")
    assert "abort_forbidden" in warning


def test_what_is_aborted(site: Site, tmp_path: Path) -> None:
    """With abort_forbidden, the browser sends no request that robots.txt forbids: no
    redirect, script navigation, image, frame, XHR or popup, nor redirects of these.
    """
    host, other, ignored = moving_site(site)
    host.answers |= {
        "/rich": html(
            f"""<img src="/private/image"><img src="/image-hop"><img src="/image">
            <iframe src="{other.url("/frame")}"></iframe>
            <iframe src="/private/frame"></iframe><iframe src="/frame-hop"></iframe>
            <script>
            fetch("/private/fetch").catch(() => 0)
            fetch("/fetch-hop").catch(() => 0)
            fetch("data:,fine")
            </script>"""
        ),
        # These are on another page: if requests are intercepted, Chromium sometimes never
        # finishes loading a frame of another site while the page opens windows.
        "/opener": html(
            """<script>
            open("/private/popup"); open("/popup"); open("/popup-hop")
            </script>"""
        ),
        "/image-hop": redirect("/private/image-hop"),
        "/frame-hop": redirect("/private/frame-hop"),
        "/fetch-hop": redirect("/private/fetch-hop"),
        "/popup-hop": redirect("/private/popup-hop"),
    }
    other.answers |= {
        "/frame": html('<img src="/private/deep"><img src="/deep-hop">'),
        "/deep-hop": redirect("/private/deep-hop"),
    }
    requests = moves(host, ignored)
    for request in requests:
        request.pop("ends_at", None)
    requests += [{"url": host.url("/rich")}, {"url": host.url("/opener")}]
    result = crawl(requests, tmp_path, **ABORT, REP_OVERRIDES={"127.0.0.2": "ignore"})
    print(result.log)
    private = [path for path in host.pages if path.startswith("/private")]
    assert private == ["/private/exempt"]
    assert [path for path in other.pages if path.startswith("/private")] == []
    assert {"/image", "/image-hop", "/frame-hop", "/fetch-hop", "/popup"} <= set(
        host.pages
    )
    assert {"/frame", "/deep-hop"} <= set(other.pages)
    assert ignored.pages == ["/go", "/private/ignored"]
    for path in ("/http", "/away", "/script", "/refresh"):
        error = result.error(host.url(path))
        assert (error["error"], error["reason"]) == ("RobotsDenied", "rule"), error
    assert {
        host.url("/rich"),
        host.url("/opener"),
        host.url("/landing"),
        host.url("/private/exempt"),
    } <= set(result.fetched())
    refused = {
        url for url, verdict, _ in came_by_browser(tmp_path) if verdict == "refused"
    }
    assert {
        *(
            host.url(f"/private/{name}")
            for name in ("image", "fetch", "frame", "popup")
        ),
        *(host.url(f"/private/{name}-hop") for name in ("image", "fetch", "frame")),
        *(other.url(f"/private/{name}") for name in ("deep", "deep-hop", "away")),
    } <= refused
    assert result.stats["rep/browser/aborted"] >= len(refused)
    assert "rep/browser/arrived" not in result.stats
    for hit in (*host.robots_hits, *other.robots_hits):
        assert "Sec-Fetch-Mode" not in hit.headers
    assert result.lines("WARNING", "rowser") == []
