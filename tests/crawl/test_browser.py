"""Tests of crawls with Playwright: a response that robots.txt forbids is refused, and with ``abort_forbidden`` no
forbidden request is sent.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests import effort
from tests.browser import CHROMIUM, FLAGS, PATIENCE
from tests.crawl.answers import HANGS, Answer, busy, html, redirect
from tests.crawl.crawl import run_crawl
from tests.crawl.pauses import EARLY
from tests.crawl.spiders import PlanSpider
from tests.crawl.waiting_spiders import EveryWaySpider

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy import Request

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
ABORT = {"PLAYWRIGHT_ABORT_REQUEST": "scrapy_rep.playwright.abort_forbidden"}


class BrowserSpider(PlanSpider):
    """Downloads its requests with Playwright, unless their meta has ``"playwright": False``.

    The dict of a request can have two keys that say when a page is complete:

    - ``ends_at``: Playwright waits until the URL of the page has this path.
    - ``state``: without ``ends_at``, Playwright waits for this load state. The default is "networkidle".
    """

    def request(self, arguments: dict[str, Any]) -> Request:
        from scrapy_playwright.page import PageMethod  # noqa: PLC0415

        end_path = arguments.pop("ends_at", None)
        wait = (
            ("wait_for_url", f"**{end_path}") if end_path else ("wait_for_load_state",)
        )
        if not end_path:
            wait += (arguments.pop("state", "networkidle"),)
        arguments["meta"] = {"playwright": True, **arguments.get("meta", {})}
        methods = [PageMethod(*wait, timeout=PATIENCE)]
        arguments["meta"]["playwright_page_methods"] = methods
        return super().request(arguments)


class FollowingBrowserSpider(BrowserSpider, EveryWaySpider):
    """A BrowserSpider that sends the requests in ``follow``, as EveryWaySpider does."""


def crawl(
    requests: list[Any], path: Path, flags: tuple[str, ...] = (), **arguments: Any
) -> CrawlResult:
    """Run a crawl with Playwright. *path* is the folder for the ledger, *flags* are command-line flags of Chromium."""
    settings = {
        "DOWNLOAD_HANDLERS": {"http": HANDLER, "https": HANDLER},
        "PLAYWRIGHT_DEFAULT_NAVIGATION_TIMEOUT": PATIENCE,
        "PLAYWRIGHT_LAUNCH_OPTIONS": {
            "executable_path": CHROMIUM,
            "args": [*FLAGS, "--headless", *flags],
            "timeout": PATIENCE,
        },
        "PLAYWRIGHT_MAX_PAGES_PER_CONTEXT": 4,
        "REP_LEDGER": str(path / "ledger.sqlite"),
        "REP_LEDGER_LEVEL": "all",
        **arguments.pop("settings"),
    }
    arguments.setdefault("spider", f"{__name__}.BrowserSpider")
    result = run_crawl(requests, settings=settings, **arguments)
    print(result.log)
    return result


def browser_decisions(path: Path) -> set[tuple[str, str, str]]:
    """Return the decisions in the ledger on URLs that the browser requested by itself: URL, verdict, and ``via``."""
    query = "SELECT url, verdict, via FROM decision WHERE via IS NOT NULL"
    with closing(sqlite3.connect(path / "ledger.sqlite")) as ledger:
        return set(ledger.execute(query))


class Redirections:
    """Hosts whose pages lead a browser to other pages, with HTTP redirects, scripts and meta refresh."""

    def __init__(self, site: Site) -> None:
        self.host = host = site.add(RULES)
        self.other = site.add(RULES, name="localhost")
        self.ignored = site.add(RULES, name="127.0.0.2")
        self.ignored.answers["/go"] = redirect("/private/ignored")
        private, away = "/private/%s", self.other.url("/private/away")
        refresh = '<meta http-equiv="refresh" content="0; url=/private/refresh">'
        host.answers |= {
            "/script": html('<script>location = "/private/script"</script>'),
            "/refresh": html(refresh),
            "/http": redirect("/private/http"),
            "/away": redirect(away),
            "/fine": redirect("/landing"),
            "/exempt": redirect("/private/exempt"),
        }
        self.forbidden = {
            f"/{name}": host.url(private % name)
            for name in ("script", "refresh", "http")
        } | {"/away": away}
        """The forbidden targets, by the paths of the pages that lead there."""

        exempt = {"dont_obey_robotstxt": True}
        self.requests = [
            *[{"url": host.url(path)} for path in self.forbidden],
            *[{"url": host.url("/fine")}, {"url": host.url("/plain#part")}],
            {"url": host.url("/exempt"), "meta": exempt},
            {"url": self.ignored.url("/go")},
        ]
        self.settings = {"REP_OVERRIDES": {"127.0.0.2": "ignore"}}
        self.arrived = {
            *map(host.url, ("/landing", "/plain#part", "/private/exempt")),
            self.ignored.url("/private/ignored"),
        }
        """The URLs of the responses that the spider must get."""

    def check(self, result: CrawlResult) -> None:
        """Check that the forbidden targets were refused, and that the browser fetched no robots.txt."""
        for path in self.forbidden:
            error = result.error(self.host.url(path))
            assert (error["error"], error["reason"]) == ("RobotsDenied", "rule"), error
        for host in (self.host, self.other):
            (hit,) = host.robots_hits
            assert "Sec-Fetch-Mode" not in hit.headers


def test_a_response_is_refused_if_the_browser_ended_at_a_forbidden_url(
    site: Site, tmp_path: Path
) -> None:
    """A response is judged by the URL at which the browser ended, after an HTTP redirect, a script or a meta refresh.

    If this URL is forbidden, the error says so, and from which URL the browser came.
    """
    redirections = Redirections(site)
    host, ignored = redirections.host, redirections.ignored
    for request, path in zip(
        redirections.requests, ("script", "refresh"), strict=False
    ):
        request["ends_at"] = f"/private/{path}"
    result = crawl(redirections.requests, tmp_path, settings=redirections.settings)
    redirections.check(result)
    assert set(result.fetched()) == redirections.arrived
    forbidden = redirections.forbidden.items()
    for path, target in forbidden:
        message = result.error(host.url(path))["message"]
        assert f"{target} was reached by a redirect of a browser from" in message
    assert {refusal["url"] for refusal in result.denied} == set(
        redirections.forbidden.values()
    )
    assert result.stats["rep/browser/arrived"] == 4
    assert result.stats["robotstxt/forbidden"] == 4
    refused = {(to, "refused", f"redirect {host.url(path)}") for path, to in forbidden}
    assert browser_decisions(tmp_path) == refused | {
        (to, "allowed", f"redirect {start}")
        for to, start in [
            (host.url("/landing"), host.url("/fine")),
            (host.url("/private/exempt"), host.url("/exempt")),
            (ignored.url("/private/ignored"), ignored.url("/go")),
        ]
    }
    (warning,) = result.lines("WARNING", "scrapy_playwright")
    assert "abort_forbidden" in warning


def script(code: str) -> Answer:
    """Return a file of JavaScript."""
    return Answer(code.encode(), headers={"Content-Type": "text/javascript"})


# The requests of a worker. Tests wait for the last one, below /hop, to know that the others were sent.
WORKER = "fetch('{0}'); fetch('/private{0}').catch(() => 0); fetch('/hop{0}').catch(() => 0);"
SPECULATION_RULES = '{"%s": [{"urls": ["/private/%s"], "eagerness": "immediate"}]}'
RICH = """<img src="/private/image"><img src="/hop/image"><img src="/image">
<iframe src="/private/frame"></iframe><iframe src="/hop/frame"></iframe>
<script>
fetch("/private/fetch").catch(() => 0); fetch("/hop/fetch").catch(() => 0)
fetch("data:,fine")
</script>"""
SCRIPTS = {
    "worker": """new Worker("/worker.js"); new Worker("/private/a.js")
        new Worker("/hop/a.js")""",
    "service": """navigator.serviceWorker.register("/service.js")
        navigator.serviceWorker.register("/private/service.js").catch(() => 0)""",
    "worklet": """const worklet = new OfflineAudioContext(1, 1, 44100).audioWorklet
        worklet.addModule("/private/worklet.js").catch(() => 0)
        worklet.addModule("/worklet.js").catch(() => 0)""",
    "shared": """new SharedWorker("/shared.js"); new SharedWorker("/private/b.js")
        new SharedWorker("/hop/b.js")""",
    "opener": """open("/private/popup"); open("/popup"); open("/hop/popup")""",
    "later": """fetchLater("/private/later", {activateAfter: 0})
        fetchLater("/private/last")""",
    "leaving": """const send = (event) => {
            navigator.sendBeacon("/private/" + event.type);
            fetch("/private/keepalive", {keepalive: true});
            new Image().src = "/private/image";
        };
        addEventListener("pagehide", send); addEventListener("visibilitychange", send)""",
    "late-rules": f"""const rules = document.createElement("script")
        rules.type = "speculationrules"
        rules.textContent = `{SPECULATION_RULES % ("prefetch", "late")}`
        document.body.append(rules)""",
}


def hidden_pages(host: Host, other: Host) -> dict[str, Answer]:
    """Return the answers of *host* for pages with requests that Playwright does not report, and for their scripts.

    The load state "networkidle" of Playwright is not reliable for pages with workers, popups and frames: it can be
    reached while a worker or popup starts, and is never reached with a shared worker. So each page with workers, popups
    or frames has an image that the host answers only after all other requests of the page have arrived.
    """

    def until(*paths: str, on: Host = host) -> Answer:
        """Return an answer that is sent when *paths* below ``/hop`` of the host *on* were requested."""
        return Answer(after=lambda: all(on.hits_on(f"/hop{path}") for path in paths))

    rules = "<script type=speculationrules>%s</script>"
    rule_sets = [
        SPECULATION_RULES % (action, action) for action in ("prefetch", "prerender")
    ]
    by_file = SPECULATION_RULES % ("prefetch", "by-file")
    rules_headers = {"Content-Type": "application/speculationrules+json"}
    workers = WORKER.format("/by-worker") + "new Worker('/nested.js');"
    imports = "importScripts('/private/imported')"
    frames = (
        f'<iframe src="{other.url(path)}"></iframe>'
        for path in ("/hop/frame", "/frame")
    )
    last_images = {
        "worker": until("/by-worker", "/by-nested"),
        "service": until("/by-service"),
        "shared": until("/by-shared"),
        "opener": until("/by-popup", "/popup"),
        "framing": until("/by-frame", on=other),
    }
    bodies = {name: f"<script>{code}</script>" for name, code in SCRIPTS.items()}
    bodies |= {
        "rich": RICH,
        "download": """<a id=a download href="/private/file">A file</a>
            <script>a.click()</script>""",
        "rules": "".join(rules % rule_set for rule_set in rule_sets),
        "framing": "".join(frames),
    }
    pages = {
        name: html(body + f'<img src="/until-{name}">' * (name in last_images))
        for name, body in bodies.items()
    }
    pages |= {f"until-{name}": answer for name, answer in last_images.items()}
    pages |= {
        "file-of-rules": html(Speculation_Rules='"/rules.json"'),
        "worker.js": script(workers + "new Worker('/private/nested.js')"),
        "nested.js": script(WORKER.format("/by-nested")),
        "shared.js": script(WORKER.format("/by-shared") + imports),
        "service.js": script(WORKER.format("/by-service")),
        "worklet.js": script('import "/private/module.js"'),
        "rules.json": Answer(by_file.encode(), headers=rules_headers),
        "popup": html("""<img src="/private/of-popup">
            <script>new Worker("/of-popup.js")</script>"""),
        "of-popup.js": script(WORKER.format("/by-popup")),
    }
    return {f"/{name}": page for name, page in pages.items()}


REQUESTED = [*SCRIPTS, "rich", "download", "rules", "file-of-rules", "framing"]
"""The names of the pages in :func:`hidden_pages` that the spider requests."""

ALLOWED = [
    *[
        "by-worker",
        "by-nested",
        "by-shared",
        "by-service",
        "by-popup",
        "popup",
        "image",
    ],
    *["hop/image", "hop/frame", "hop/fetch"],
]
"""The names of allowed paths that must be requested. They show that the scripts of the pages have run."""


@pytest.mark.parametrize(
    "isolation",
    # The first flag is Chromium's default on a desktop. Only a long test run uses the second one.
    ["--site-per-process", "--disable-site-isolation-trials"][: 1 + effort.is_long],
)
def test_chromium_sends_no_request_that_robotstxt_forbids(
    site: Site, tmp_path: Path, isolation: str
) -> None:
    """With ``abort_forbidden``, Chromium sends no request that robots.txt forbids.

    The pages refer to forbidden URLs in many ways: as images, frames, popups, downloads, scripts of workers and audio
    worklets; with fetch(), fetchLater() and speculation rules; and with requests of a page that closes. Scripts also
    navigate to forbidden URLs. Many allowed URLs redirect to a forbidden URL. Some requests come from popups, or from
    frames that have a process of their own.
    """
    redirections = Redirections(site)
    host, other = redirections.host, redirections.other
    host.answers |= hidden_pages(host, other)
    other.answers |= {
        "/frame": html("""<img src="/private/of-frame"><img src="/hop/of-frame">
            <script>new SharedWorker("/of-frame.js")</script>"""),
        "/of-frame.js": script(WORKER.format("/by-frame")),
    }
    redirected = [
        "a.js",
        "b.js",
        "frame",
        "of-frame",
        "by-frame",
        "fetch",
        "image",
        "popup",
    ]
    for name in (*redirected, *ALLOWED[:5]):
        host.answers[f"/hop/{name}"] = redirect(f"/private/hop/{name}")
        other.answers[f"/hop/{name}"] = redirect(f"/private/hop/{name}")
    requests = [*redirections.requests]
    for name in REQUESTED:
        state = "load" if name in {"shared", "framing"} else "networkidle"
        requests.append({"url": host.url(f"/{name}"), "state": state})
    settings = {**ABORT, **redirections.settings}
    result = crawl(requests, tmp_path, (isolation,), settings=settings)
    redirections.check(result)
    private = [hit.path for hit in site.log if hit.path.startswith("/private")]
    assert sorted(private) == ["/private/exempt", "/private/ignored"]
    assert {f"/{name}" for name in ALLOWED} <= set(host.pages)
    assert {"/frame", "/by-frame", "/hop/of-frame"} <= set(other.pages)
    # The page /download can fail: scrapy-playwright sometimes notices that its download was cancelled.
    fetched = {*result.fetched(), host.url("/download")}
    assert fetched == redirections.arrived | {
        host.url(f"/{name}") for name in REQUESTED
    }
    refused = [
        "image",
        "fetch",
        "frame",
        "popup",
        "hop/image",
        "hop/fetch",
        "hop/frame",
    ]
    assert {
        *(host.url(f"/private/{name}") for name in refused),
        *(other.url(f"/private/{name}") for name in ("of-frame", "hop/of-frame")),
        other.url("/private/away"),
    } <= {
        url for url, verdict, _ in browser_decisions(tmp_path) if verdict == "refused"
    }
    assert result.stats["rep/browser/aborted"] > 40
    assert "rep/browser/arrived" not in result.stats
    assert result.lines("WARNING", "rowser") == []


def test_the_time_out_of_a_page_ends_the_robotstxt_fetches_that_it_waits_for(
    site: Site, tmp_path: Path
) -> None:
    """If a page times out while its images and frames wait for the robots.txt of silent hosts, the fetches of these
    robots.txt files are ended. Later requests to these hosts fetch robots.txt again.
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
        then=[{"url": silent.url("/later"), "meta": {"playwright": False}}],
        settings={**ABORT, "DOWNLOAD_TIMEOUT": 100},
    )
    assert result.error(host.url("/page"))["error"] == "TimeoutError"
    assert result.fetched() == [silent.url("/later")]
    assert (silent.pages, away.pages) == (["/later"], [])
    assert (len(silent.robots_hits), len(away.robots_hits)) == (2, 1)
    assert "rep/robotstxt/unreachable" not in result.stats
    assert result.stats["elapsed_time_seconds"] < 90
    assert "never retrieved" not in result.log


def test_a_browser_in_a_dry_run_fetches_everything(site: Site, tmp_path: Path) -> None:
    """In a dry run, a browser fetches all pages and images. Only the URLs that the spider requests are judged."""
    host = site.add(RULES)
    host.answers["/"] = html('<img src="/private/image">')
    urls = [host.url("/"), host.url("/private/page")]
    pages = [{"url": url, "meta": {"playwright": True}} for url in urls]
    result = crawl(pages, tmp_path, settings={"REP_DRY_RUN": True, **ABORT})
    assert result.fetched() == sorted(urls)
    assert {"/", "/private/page", "/private/image"} <= {*host.pages}
    assert result.stats["rep/dry_run/denied/rule"] == 1
    assert not result.lines("ERROR")


def test_a_robotstxt_that_a_page_waits_for_is_fetched_as_soon_as_a_pause_of_its_host_ends(
    site: Site, tmp_path: Path
) -> None:
    """A browser loads a page with an image, and the host of the image asks for a pause meanwhile. The robots.txt for
    the image is not requested within the pause.

    After the pause, robots.txt is requested at once. If it waited for the end of the page, it would wait forever, since
    the page waits for its image.
    """
    host, images = site.add(RULES), site.add(RULES)
    # The page /after-busy of this host is requested after the 429.
    control = site.add(name="127.0.0.2")
    page, after_busy = host.url("/page"), control.url("/after-busy")
    image = html(f'<img src="{images.url("/image")}">')
    host.answers |= {
        "/busy": busy(429, after=lambda: host.hits_on("/page")),
        # This page is answered when the crawl has received the 429, and has begun the pause.
        "/page": replace(image, after=lambda: control.hits_on("/after-busy")),
    }
    without_browser: dict[str, Any] = {"meta": {"playwright": False}}
    result = crawl(
        [{"url": page, "state": "load"}, {"url": host.url("/busy"), **without_browser}],
        tmp_path,
        spider=f"{__name__}.FollowingBrowserSpider",
        follow={host.url("/busy"): [{"url": after_busy, **without_browser}]},
        settings={**ABORT, "REP_BACKOFF_MAX": 60, "REP_WAIT_TIMEOUT": 60},
        constants={"scrapy_rep.crawl.frontier.limits._FIRST_PAUSE": 0.6},
    )
    (busy_hit,), (robots_hit,) = host.hits_on("/busy"), images.robots_hits
    assert busy_hit.answered is not None
    assert robots_hit.time > busy_hit.answered + 0.6 - EARLY
    assert images.pages == ["/image"]
    assert result.fetched() == sorted([page, host.url("/busy"), after_busy])
