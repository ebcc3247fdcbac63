"""Playwright fetches no page that robots.txt forbids, or its response is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests import effort
from tests.browser import CHROMIUM, PATIENCE
from tests.crawl.answers import HANGS, Answer, redirect
from tests.crawl.crawl import run_crawl
from tests.report.making import run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site

pytest.importorskip("scrapy_playwright", reason="scrapy-playwright is not installed")

pytestmark = [
    pytest.mark.newest,
    pytest.mark.slow,
    pytest.mark.unmeasured,
    pytest.mark.skipif(CHROMIUM is None, reason="There is no Chromium"),
]

RULES = "User-agent: *\nDisallow: /private\n"
HANDLER = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
OPTIONS = (
    "--no-sandbox --headless --disable-gpu --disable-quic --no-first-run"
    " --disable-background-networking --disable-component-update --disable-sync"
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


def script(code: str) -> Answer:
    return Answer(code.encode(), headers={"Content-Type": "text/javascript"})


def html(body: str, **headers: str) -> Answer:
    page = f"<html><head><title>A page</title></head><body>{body}</body></html>"
    return Answer(page.encode(), headers={"Content-Type": "text/html", **headers})


def crawl(
    requests: list[Any], path: Path, *, then: Iterable[Any] = (), **settings: Any
) -> CrawlResult:
    return run_crawl(
        requests,
        then=then,
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


WORKER = "fetch('{0}'); fetch('/private{0}').catch(() => 0); fetch('/hop{0}').catch(() => 0);"
SENT_ON_LEAVING = """
const send = (event) => {
    navigator.sendBeacon("/private/" + event.type);
    fetch("/private/keepalive", {keepalive: true});
    new Image().src = "/private/image";
};
addEventListener("pagehide", send);
addEventListener("visibilitychange", send);
"""


def hidden_site(site: Site) -> tuple[Host, Host, list[str]]:
    """Add hosts whose pages request what Playwright does not report. Return them, and what of
    it is allowed.
    """
    host, other = site.add(RULES), site.add(RULES, name="localhost")
    rules = '{"%s": [{"urls": ["/private/%s"], "eagerness": "immediate"}]}'
    inline = "<script type=speculationrules>%s</script>"
    host.answers |= {
        "/worker": html("""<script>
            new Worker("/worker.js"); new Worker("/private/a.js"); new Worker("/hop/a.js")
            </script>"""),
        "/worker.js": script(
            WORKER.format("/by-worker")
            + "new Worker('/nested.js'); new Worker('/private/nested.js')"
        ),
        "/nested.js": script(WORKER.format("/by-nested")),
        "/shared": html("""<script>
            new SharedWorker("/shared.js"); new SharedWorker("/private/b.js")
            new SharedWorker("/hop/b.js")
            </script><img src="/until-by-shared">"""),
        # With a shared worker, Playwright never says that a page requests nothing more.
        "/until-by-shared": Answer(after=lambda: host.hits_on("/hop/by-shared")),
        "/shared.js": script(
            WORKER.format("/by-shared") + "importScripts('/private/imported')"
        ),
        "/service": html("""<script>
            navigator.serviceWorker.register("/service.js")
            navigator.serviceWorker.register("/private/service.js").catch(() => 0)
            </script>"""),
        "/service.js": script(WORKER.format("/by-service")),
        "/worklet": html("""<script>
            const worklet = new OfflineAudioContext(1, 1, 44100).audioWorklet
            worklet.addModule("/private/worklet.js").catch(() => 0)
            worklet.addModule("/worklet.js").catch(() => 0)
            </script>"""),
        "/worklet.js": script('import "/private/module.js"'),
        "/download": html("""<a id=a download href="/private/file">A file</a>
            <script>a.click()</script>"""),
        "/later": html("""<script>
            fetchLater("/private/later", {activateAfter: 0}); fetchLater("/private/last")
            </script>"""),
        "/leaving": html(f"<script>{SENT_ON_LEAVING}</script>"),
        "/rules": html(
            inline % (rules % ("prefetch", "prefetch"))
            + inline % (rules % ("prerender", "prerender"))
        ),
        "/late-rules": html(f"""<script>
            const rules = document.createElement("script")
            rules.type = "speculationrules"
            rules.textContent = `{rules % ("prefetch", "late")}`
            document.body.append(rules)
            </script>"""),
        "/file-of-rules": html("", **{"Speculation-Rules": '"/rules.json"'}),
        "/rules.json": Answer(
            (rules % ("prefetch", "by-file")).encode(),
            headers={"Content-Type": "application/speculationrules+json"},
        ),
        # Its popups have the time to load while the page waits for an image.
        "/opener": html("""<img src="/late">
            <script>open("/popup"); open("/hop/popup")</script>"""),
        "/late": Answer(b"", delay=2),
        "/popup": html("""<img src="/private/of-popup">
            <script>new Worker("/of-popup.js")</script>"""),
        "/of-popup.js": script(WORKER.format("/by-popup")),
        "/framing": html(
            f'<iframe src="{other.url("/hop/frame")}"></iframe>'
            f'<iframe src="{other.url("/frame")}"></iframe><img src="/until-by-frame">'
        ),
        "/until-by-frame": Answer(after=lambda: other.hits_on("/hop/by-frame")),
    }
    other.answers |= {
        "/frame": html("""<img src="/private/of-frame"><img src="/hop/of-frame">
            <script>new SharedWorker("/of-frame.js")</script>"""),
        "/of-frame.js": script(WORKER.format("/by-frame")),
    }
    workers = ["by-worker", "by-nested", "by-shared", "by-service", "by-popup"]
    for at in (host, other):
        for name in [
            *workers,
            "a.js",
            "b.js",
            "popup",
            "frame",
            "of-frame",
            "by-frame",
        ]:
            at.answers[f"/hop/{name}"] = redirect(f"/private/hop/{name}")
    return host, other, [f"/{name}" for name in workers]


@pytest.mark.parametrize(
    "isolation",
    # The first one is Chromium's default on a desktop.
    ["--site-per-process", "--disable-site-isolation-trials"][: 1 + effort.is_long],
)
def test_what_playwright_does_not_report(
    site: Site, tmp_path: Path, isolation: str
) -> None:
    """With abort_forbidden, Chromium sends no forbidden request from a worker of any kind or
    for its script, from an audio worklet, for a download, from fetchLater, while a page
    closes, because of speculation rules, or from a frame in its own process or a popup.
    """
    host, other, allowed = hidden_site(site)
    launch = {
        **SETTINGS["PLAYWRIGHT_LAUNCH_OPTIONS"],
        "args": [*OPTIONS.split(), isolation],
    }
    names = [
        "worker",
        "shared",
        "service",
        "worklet",
        "download",
        "later",
        "leaving",
        "rules",
        "late-rules",
        "file-of-rules",
        "opener",
        "framing",
    ]
    result = crawl(
        [
            {
                "url": host.url(f"/{name}"),
                "state": "load" if name in {"shared", "framing"} else "networkidle",
            }
            for name in names
        ],
        tmp_path,
        **ABORT,
        PLAYWRIGHT_LAUNCH_OPTIONS=launch,
    )
    print(result.log)
    private = [hit.path for hit in site.log if hit.path.startswith("/private")]
    assert private == []
    assert set(allowed) <= set(host.pages)
    assert "/by-frame" in other.pages
    # scrapy-playwright fails a page if it sees that its download is canceled.
    fetched = {*result.fetched(), host.url("/download")}
    assert fetched == {host.url(f"/{name}") for name in names}
    assert result.stats["rep/browser/aborted"] > 30


def test_a_page_that_waits_for_robotstxt_in_vain(site: Site, tmp_path: Path) -> None:
    """If a page ends with its time-out while its images and frames wait for robots.txt files
    of silent hosts, the fetches of these files end with it, and their hosts can be visited
    later.
    """
    host = site.add(RULES)
    silent = site.add([HANGS, Answer(RULES.encode())], name="127.0.0.2")
    away = site.add(HANGS, name="127.0.0.3")
    host.answers["/page"] = html(
        f'<img src="{silent.url("/image")}"><iframe src="{away.url("/frame")}"></iframe>'
        f'<script>fetch("{away.url("/fetch")}").catch(() => 0)</script>'
    )
    options = {"playwright_page_goto_kwargs": {"timeout": 5_000}}
    result = crawl(
        [{"url": host.url("/page"), "meta": options}],
        tmp_path,
        **ABORT,
        then=[{"url": silent.url("/later"), "meta": {"playwright": False}}],
        DOWNLOAD_TIMEOUT=100,
    )
    print(result.log)
    assert result.error(host.url("/page"))["error"] == "TimeoutError"
    assert result.fetched() == [silent.url("/later")]
    assert (silent.pages, away.pages) == (["/later"], [])
    assert (len(silent.robots_hits), len(away.robots_hits)) == (2, 1)
    assert "rep/robotstxt/unreachable" not in result.stats
    assert result.stats["elapsed_time_seconds"] < 90
    assert "never retrieved" not in result.log


def test_a_dry_run(site: Site, tmp_path: Path) -> None:
    """In a dry run, a browser fetches everything. The URLs of the spider are judged."""
    host = site.add(RULES)
    host.answers["/"] = html('<img src="/private/image">')
    paths = ["/", "/private/page"]
    pages = [{"url": host.url(path), "meta": {"playwright": True}} for path in paths]
    result = crawl(pages, tmp_path, REP_DRY_RUN=True, **ABORT)
    assert result.fetched() == sorted(map(host.url, paths))
    assert {*paths, "/private/image"} <= {*host.pages}
    assert result.stats["rep/dry_run/denied/rule"] == 1
    assert not result.lines("ERROR")
