"""A dry run changes nothing, and says exactly what a real run withholds."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.core.scheduler import BaseScheduler

from scrapy_rep.downloadermiddlewares import dryrun
from tests import effort
from tests.crawl.answers import HANGS, Answer, busy, html, image, meta, redirect, robots
from tests.crawl.crawl import ADDON, CrawlResult, run_crawl
from tests.crawl.page_spiders import PageSpider

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy import Request
    from scrapy.http import Response

    from tests.crawl.server import Host, Site


DRY = {**ADDON, "REP_DRY_RUN": True}
COLUMNS = "subject, verdict, layer, reason, url, page, agent, line, statement, form"
RULES = "User-agent: *\nDisallow: /*3\nDisallow: /img/*7\nAllow: /p/13\n"
ROBOTS = [
    robots(RULES),
    robots(f"{RULES}Crawl-delay: 0.02\n"),
    None,
    robots("User-agent: testbot\nDisallow: /p/1\nAllow: /p/1$\n", delay=0.3),
    Answer(status=503),
    robots(f"{RULES}Content-Signal: ai-train=no\n", delay=0.2),
    redirect("/moved.txt", 301),
    robots("User-agent: *\nCrawl-delay: 100000\n"),
]
"""The robots.txt of the hosts of a large site, in turn."""


class SiteSpider(PageSpider):
    """Makes an item of each page, with its images, and follows all its links."""

    def note_response(self, response: Response) -> Iterator[Any]:
        if hasattr(response, "selector"):
            images = response.css("img::attr(src)").getall()
            urls = list(map(response.urljoin, images))
            yield {"url": response.url, "image_urls": urls}
            for link in response.css("a::attr(href)"):
                yield response.follow(link.get(), self.note_response)


class RaisingSpider(PageSpider):
    """Raises after the first link of each page."""

    def note_response(self, response: Response) -> Iterator[Any]:
        for output in super().note_response(response):
            yield output
            if output != {"url": response.url}:
                raise RuntimeError("This callback is broken")


class CopyingSpider(PageSpider):
    """Follows links with the meta of the page, as many spiders do."""

    def note_response(self, response: Response) -> Iterator[Any]:
        for output in super().note_response(response):
            if not isinstance(output, dict):
                output.meta.update(response.meta)
            yield output


class StackScheduler(BaseScheduler):
    """A scheduler of a project, without a duplicate filter or a queue of Scrapy's."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def has_pending_requests(self) -> bool:
        return bool(self.requests)

    def enqueue_request(self, request: Request) -> bool:
        self.requests.append(request)
        return True

    def next_request(self) -> Request | None:
        return self.requests.pop() if self.requests else None


def links(*urls: str, head: str = "") -> Answer:
    return html("".join(f'<a href="{url}">' for url in urls), head)


def crawl(
    urls: Any, settings: Any = None, spider: str = "PageSpider", **arguments: Any
) -> CrawlResult:
    """Run a dry run, or another crawl if *arguments* enable something else."""
    module = "tests.crawl.page_spiders" if spider == "PageSpider" else __name__
    arguments = {"enable": DRY, "timeout": 600, **arguments}
    return run_crawl(urls, spider=f"{module}.{spider}", settings=settings, **arguments)


def large_site(site: Site, hosts: int, pages: int) -> list[Host]:
    """Add *hosts* with *pages* each, with everything for which a crawl withholds requests, links,
    items and files, and with many ways to most pages.
    """
    found = [
        site.add(ROBOTS[number % len(ROBOTS)], name=f"h{number}.test")
        for number in range(hosts)
    ]
    for number, host in enumerate(found):
        host.answers["/moved.txt"] = robots(RULES)
        for page in range(pages):
            chance = Random(1000 * number + page)
            host.answers[f"/p/{page}"] = _page(chance, found, page, pages)
            tag = {"X_Robots_Tag": "noindex"} if chance.random() < 0.1 else {}
            host.answers[f"/img/{page}"] = image(**tag)
    return found


def _page(chance: Random, hosts: list[Host], page: int, pages: int) -> Answer:
    other = chance.choice(hosts).url(f"/p/{chance.randrange(pages)}")
    if page and chance.random() < 0.05:
        return redirect(other)
    rel = "nofollow" if chance.random() < 0.2 else ""
    urls = [f"/p/{each}" for each in (2 * page + 1, 2 * page + 2) if each < pages]
    urls.append(chance.choice(hosts).url("/p/0"))
    body = "".join(f'<a href="{url}">' for url in urls)
    body += f'<a href="{other}" rel="{rel}">'
    if chance.random() < 0.3:
        body += f'<img src="/img/{chance.randrange(pages)}">'
    says = ["noindex", "nofollow", "noimageindex", "none", ""]
    (said,) = chance.choices(says, [10, 10, 5, 5, 70])
    if said == "none":
        return html(body, tag=said)
    return html(body, meta(said) if said else "")


def withheld(ledger: Path) -> Counter[tuple[Any, ...]]:
    """Return what a ledger says was withheld, or would be, with the verdicts of a real run."""
    query = f"SELECT {COLUMNS} FROM decision WHERE verdict NOT IN ('allowed', 'noted')"
    query += " AND url NOT LIKE '%/tdmrep.json'"  # No request of the spider.
    with closing(sqlite3.connect(ledger)) as file:
        found = file.execute(query).fetchall()
    real = {"would-refuse": "refused", "would-drop": "dropped"}
    return Counter((row[0], real.get(row[1], row[1]), *row[2:]) for row in found)


def test_compared_with_both_runs(site: Site, mode: str, tmp_path: Path) -> None:
    """A dry run sends the same requests and makes the same items as the crawl without this
    package, and its ledger has exactly what the ledger of a real run has.
    """
    hosts = large_site(site, *((200, 100) if effort.is_long else (8, 25)))
    starts = [host.url(f"/p/{page}") for host in hosts[:3] for page in (0, 3)]
    names = {host.name: ["127.0.0.1"] for host in hosts}
    settings: dict[str, Any] = {
        "ITEM_PIPELINES": {"scrapy.pipelines.images.ImagesPipeline": 1},
        "IMAGES_STORE": str(tmp_path / "images"),
        "IMAGES_EXPIRES": 0,
        "MEDIA_ALLOW_REDIRECTS": True,
        "REP_REL": ["nofollow"],
        "REP_PURPOSES": ["train-ai"],
    }
    results, sent = {}, {}
    for name, enable in {"stock": {}, "dry": DRY, "real": ADDON}.items():
        own = {"REP_LEDGER": str(tmp_path / name)} if enable else {}
        arguments = {"mode": mode, "names": names, "enable": enable}
        results[name] = crawl(starts, settings | own, "SiteSpider", **arguments)
        hits = [hit for hit in site.log if hit.path.startswith(("/p/", "/img/"))]
        sent[name] = Counter((hit.host.name, hit.path) for hit in hits)
        site.log.clear()
    dry = results["dry"]
    assert sent["dry"] == sent["stock"] > sent["real"]
    items = [sorted(map(repr, results[name].items)) for name in ("dry", "stock")]
    assert items[0] == items[1]
    would, was = withheld(tmp_path / "dry"), withheld(tmp_path / "real")
    assert would - was == Counter()
    assert was - would == Counter()
    assert {"request", "link", "item", "file"} <= {row[0] for row in was}
    assert {"rule", "unreachable", "crawl-delay"} <= {row[3] for row in was}
    assert dry.stats["rep/dry_run/not_judged"] == 0
    not_sent = Counter(subject for subject, *_ in was.elements())["request"]
    not_sent += dry.stats["rep/dry_run/not_met"]
    assert sent["dry"].total() - not_sent == sent["real"].total()
    assert not dry.lines("ERROR")


def test_the_order_of_requests(site: Site, mode: str) -> None:
    """With one request at a time, a dry run sends them in the order of the stock crawl. The queue
    is first in, first out: of the other one, the order depends on the speed of the machine.
    """
    host = site.add("User-agent: *\nDisallow: /b\nCrawl-delay: 1\n")
    host.answers |= {
        "/": links("/late", "/b", "/c", "/d", "/b3"),
        "/b": links("/b1", "/b2"),
        "/c": redirect("/e"),
        "/d": links("/b2", "/f", head=meta("nofollow")),
    }
    settings = {
        "CONCURRENT_REQUESTS": 1,
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    }
    order = []
    for enable in ({}, DRY):
        crawl([host.url("/")], settings, mode=mode, enable=enable)
        order.append([hit.path for hit in host.hits if hit.path != "/robots.txt"])
        assert len(host.robots_hits) == bool(enable)
        site.log.clear()
    assert order[0] == order[1]


def test_the_log(site: Site, mode: str) -> None:
    """The log says that it is a dry run, what a real run would have withheld, why, where, by which
    setting, and how long it would have taken.
    """
    host = site.add("User-agent: *\nDisallow: /private\nCrawl-delay: 100\n")
    host.answers |= {
        "/": links("/private/1", "/private/2", "/open", head=meta("noindex")),
        "/private/1": links("/only-from-private"),
        "/open": busy(503, "30"),
        "/only-from-private": html(head=meta("noindex")),
    }
    starts = [host.url("/"), host.url("/private/3")]
    settings = {"REP_BACKOFF_MAX": 60, "REP_WAIT_MAX": 600}
    result = crawl(starts, settings, mode=mode)
    for level, *words in (
        ("INFO", "This is a dry run"),
        ("INFO", "A start request would be refused"),
        ("INFO", "would be refused: 3", "(rule)", "REP_OVERRIDES", f"at {host.origin} (3)"),
        ("WARNING", "Items that would be dropped: 1", "(noindex)"),
        ("INFO", "(delay)", "REP_CRAWL_DELAY", "Crawl-delay: 100"),
        ("INFO", "(back-off)", "Retry-After: 30"),
        ("INFO", "would not have made: 1."),
        ("INFO", "have taken at least 0:03:50, by"),  # "/" and "/open".
        ("INFO", "127.0.0.1", "2 requests", "100 s", "0:00:30"),
    ):  # fmt: skip
        assert len(result.lines(level, *words)) == 1, words
    found = {key: count for key, count in result.stats.items() if "dry_run" in key}
    assert found == {
        "rep/dry_run/denied/rule": 3,
        "rep/dry_run/noindex/dropped/noindex": 1,
        "rep/dry_run/not_judged": 0,
        "rep/dry_run/not_met": 1,
        "rep/dry_run/seconds": 230.0,
    }
    assert "robotstxt/forbidden" not in result.stats
    assert result.stats["elapsed_time_seconds"] < 30


STARTS_AND_TARGETS = {
    "/a": redirect("/ab"),
    "/ab": links("/c"),
    "/a2": links("/d"),
    "/c": html(head=meta("noindex")),
    "/d": links("/e"),
    "/ok": redirect("/a3"),
    "/a3": links("/f"),
}
RETRIED = {"/1": [Answer(status=500), Answer(status=500), html()]}
FORBIDS_1 = "User-agent: *\nDisallow: /1\n"
GROUPS = "User-agent: *\nDisallow: /2\n\nUser-agent: testbot\nDisallow: /1\n"
NOINDEX = links("/1", "/2", head=meta("noindex"))


@pytest.mark.parametrize(
    ("rules", "answers", "starts", "settings", "pages", "counts"),
    [
        pytest.param(
            robots(FORBIDS_1), {}, "/1", {"ROBOTSTXT_OBEY": False}, "/1", (1, 0, 0),
            id="a project that does not obey learns what it would refuse",
        ),
        pytest.param(
            robots(GROUPS), {"/": NOINDEX}, "/", {"ROBOTSTXT_OBEY": True}, "/ /2", (1, 0, 1),
            id="what Scrapy's own middleware refuses, a real run would refuse",
        ),
        *[
            pytest.param(
                robots(FORBIDS_1, delay=delay), RETRIED, "/2 /1", {"RETRY_ENABLED": True},
                "/1 /1 /1 /2", (1, 0, 0),
                id=f"a request that Scrapy retries counts once, delay {delay}",
            )
            for delay in (0, 1)
        ],
        pytest.param(
            # Scrapy marks the targets of a refused start request, and the spider marks the other
            # links, like it. The links of the target of a redirect are not taken for targets.
            robots("User-agent: *\nDisallow: /a\n"), STARTS_AND_TARGETS, "/a /a2 /ok",
            {"spider": "CopyingSpider"}, "/a /a2 /a3 /ab /c /d /e /f /ok", (3, 5, 0),
            id="targets of refused start requests are no start requests",
        ),
        pytest.param(
            robots(FORBIDS_1), {"/": NOINDEX}, "/", {"spider": "RaisingSpider"}, "/ /1",
            (1, 0, 1), id="what a callback made before it raised is judged",
        ),
    ],
)  # fmt: skip
def test_what_counts(  # noqa: PLR0917
    site: Site,
    rules: Answer,
    answers: dict[str, Any],
    starts: str,
    settings: dict[str, Any],
    pages: str,
    counts: tuple[int, int, int],
) -> None:
    """The pages that are fetched, and the requests that would be refused or not met, and the items
    that would be dropped.
    """
    host = site.add(rules)
    host.answers |= answers
    settings = dict(settings)
    spider = settings.pop("spider", "PageSpider")
    result = crawl(map(host.url, starts.split()), settings, spider)
    assert host.pages == pages.split()
    keys = ("denied/rule", "not_met", "noindex/dropped/noindex")
    assert counts == tuple(result.stats.get(f"rep/dry_run/{key}", 0) for key in keys)
    is_off = settings.get("ROBOTSTXT_OBEY") is False
    assert len(result.lines("INFO", "ROBOTSTXT_OBEY is False in this")) == is_off
    assert result.stats.get("robotstxt/forbidden", 0) == bool(
        settings.get("ROBOTSTXT_OBEY")
    )
    assert not result.lines("ERROR")


def test_a_robotstxt_that_does_not_answer(site: Site, mode: str) -> None:
    """No page waits for it, also where the host gets one request at a time. The end of the crawl
    waits, so that all requests are judged.
    """
    host = site.add()
    paths = [f"/{number}" for number in range(10)]

    def all_pages_came() -> bool:
        hits = [hit.time for path in paths for hit in host.hits_on(path)]
        return set(paths) < set(host.pages) and time.monotonic() > max(hits) + 0.5

    host.answers["/robots.txt"] = Answer(status=503, after=all_pages_came)
    host.answers["/"] = links(*paths)
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    result = crawl([host.url("/")], settings, mode=mode)
    (asked,) = host.robots_hits
    assert max(hit.time for hit in host.hits) < asked.answered - 0.4
    assert result.stats["rep/dry_run/denied/unreachable"] == 1
    # All others were found on that page.
    assert result.stats["rep/dry_run/not_met"] == 10
    assert result.stats["rep/dry_run/not_judged"] == 0


@pytest.mark.parametrize(
    ("waits", "reason", "limit"),
    [("_END_WAITS", "finished", 0), ("_CLOSING_WAITS", "closespider_pagecount", 1)],
)
def test_an_end_that_waits_too_long(
    site: Site, mode: str, waits: str, reason: str, limit: int
) -> None:
    """The end of a crawl waits for robots.txt files only so long, also if the spider is closed
    early. What is not judged, is counted.
    """
    host = site.add(HANGS)
    settings = {"DOWNLOAD_TIMEOUT": 60, "CLOSESPIDER_PAGECOUNT": limit}
    constants = {f"{dryrun.__name__}.{waits}": 1.0}
    result = crawl([host.url("/")], settings, mode=mode, constants=constants)
    assert result.stats["elapsed_time_seconds"] < 50
    assert result.stats["finish_reason"] == reason
    assert result.stats["rep/dry_run/not_judged"] == 1
    assert len(result.lines("INFO", "not judged: 1.")) == 1
    assert len(result.items) == 1
    assert not result.lines("ERROR")


def test_a_jobdir(site: Site, mode: str, tmp_path: Path) -> None:
    """A dry run in a JOBDIR leaves the files of Scrapy there, and a real run can resume it."""
    host = site.add(robots("User-agent: *\nDisallow: /private\n"))
    allowed, private = {f"/{n}" for n in range(9)}, {"/private/1", "/private/2"}
    host.answers["/"] = links(*allowed, *private)
    settings = {"JOBDIR": str(tmp_path / "job"), "CONCURRENT_REQUESTS": 1}
    starts = [host.url("/")]
    dry = crawl(starts, {**settings, "CLOSESPIDER_PAGECOUNT": 3}, mode=mode)
    assert dry.stats["finish_reason"] == "closespider_pagecount"
    assert (tmp_path / "job" / "requests.seen").exists()
    real = crawl(starts, settings, mode=mode, enable=ADDON)
    fetched = {*host.pages} - {"/"}
    assert allowed <= fetched
    refused = real.stats.get("rep/denied/rule", 0)
    assert refused + len(fetched & private) == len(private)


@pytest.mark.parametrize(
    "component",
    [
        {"SCHEDULER_PRIORITY_QUEUE": "scrapy_rep.HostQueue"},
        {"SCHEDULER": f"{__name__}.StackScheduler"},
    ],
)
def test_components_of_the_project(
    site: Site, mode: str, component: dict[str, str]
) -> None:
    """Also with HostQueue in the settings of the project, or a scheduler of its own, nothing
    waits: not for robots.txt, not for a delay, and not for a pause.
    """
    host = site.add(
        robots("User-agent: *\nCrawl-delay: 60\n", after=lambda: host.hits_on("/2"))
    )
    host.answers |= {"/": links("/1", "/2"), "/1": busy(503, "60")}
    settings = {**component, "REP_BACKOFF_MAX": 60, "CONCURRENT_REQUESTS": 1}
    result = crawl([host.url("/")], settings, mode=mode)
    assert host.pages == ["/", "/1", "/2"]
    assert host.hits_on("/2")[0].time < host.robots_hits[0].answered
    # Each of the three requests, and the pause.
    assert result.stats["rep/dry_run/seconds"] == 240
