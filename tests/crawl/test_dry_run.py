"""A dry run changes nothing, and says exactly what a real run withholds."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.core.scheduler import BaseScheduler

from scrapy_rep.downloadermiddlewares import dryrun
from tests import effort
from tests.crawl.answers import HANGS, Answer, busy, redirect, robots
from tests.crawl.crawl import ADDON, CrawlResult, run_crawl
from tests.crawl.dry_run_site import build
from tests.crawl.page_spiders import PageSpider
from tests.crawl.test_indexing import html, meta

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy import Request
    from scrapy.http import Response

    from tests.crawl.server import Host, Site


DRY = {**ADDON, "REP_DRY_RUN": True}
REAL_VERDICTS = {"would-refuse": "refused", "would-drop": "dropped"}
COLUMNS = "subject, verdict, layer, reason, url, page, agent, line, statement, form"


def ledger(tmp_path: Path, name: str) -> dict[str, str]:
    return {"REP_LEDGER": str(tmp_path / f"{name}.sqlite")}


def withheld(settings: dict[str, str]) -> Counter[tuple[Any, ...]]:
    """Return what a ledger says was withheld, or would be, with the verdicts of a real run."""
    query = f"SELECT {COLUMNS} FROM decision WHERE verdict NOT IN ('allowed', 'noted')"
    query += " AND url NOT LIKE '%/tdmrep.json'"  # No request of the spider.
    with closing(sqlite3.connect(settings["REP_LEDGER"])) as file:
        found = file.execute(query).fetchall()
    return Counter(
        (subject, REAL_VERDICTS.get(verdict, verdict), *others)
        for subject, verdict, *others in found
    )


def requests(site: Site) -> Counter[tuple[str, str]]:
    """Return the requests of the spider that the hosts got, and forget all."""
    own = {"/robots.txt", "/moved.txt", "/.well-known/tdmrep.json"}
    hits = [hit for hit in site.log if hit.path not in own]
    site.log.clear()
    return Counter((hit.host.name, hit.path) for hit in hits)


def run(
    site: Site,
    hosts: list[Host],
    starts: list[str],
    settings: dict[str, Any],
    **kwargs: Any,
) -> tuple[CrawlResult, Counter[tuple[str, str]]]:
    names = {host.name: ["127.0.0.1"] for host in hosts}
    result = run_crawl(
        starts,
        spider="tests.crawl.dry_run_site.SiteSpider",
        names=names,
        settings=settings,
        timeout=600,
        **kwargs,
    )
    assert result.exit_code == 0, result.log
    return result, requests(site)


def test_compared_with_both_runs(site: Site, mode: str, tmp_path: Path) -> None:
    """A dry run sends the same requests and makes the same items as the crawl without this
    package, and its ledger has exactly what the ledger of a real run has.
    """
    size = (200, 100) if effort.is_long else (8, 25)
    hosts, starts = build(site, *size)
    settings: dict[str, Any] = {
        "ITEM_PIPELINES": {"scrapy.pipelines.images.ImagesPipeline": 1},
        "IMAGES_STORE": str(tmp_path / "images"),
        "IMAGES_EXPIRES": 0,
        "MEDIA_ALLOW_REDIRECTS": True,
        "REP_REL": ["nofollow"],
        "REP_PURPOSES": ["train-ai"],
    }
    real_ledger, dry_ledger = ledger(tmp_path, "real"), ledger(tmp_path, "dry")
    stock, by_stock = run(site, hosts, starts, settings, mode=mode, enable={})
    dry, by_dry = run(
        site, hosts, starts, {**settings, **dry_ledger}, mode=mode, enable=DRY
    )
    _, by_real = run(site, hosts, starts, {**settings, **real_ledger}, mode=mode)
    assert by_dry == by_stock
    assert sorted(map(repr, dry.items)) == sorted(map(repr, stock.items))
    assert by_real < by_stock
    would, was = withheld(dry_ledger), withheld(real_ledger)
    assert would - was == Counter()
    assert was - would == Counter()
    kinds = Counter((subject, reason) for subject, _, _, reason, *_ in was.elements())
    assert {"request", "link", "item", "file"} <= {subject for subject, _ in kinds}
    assert {"rule", "unreachable", "crawl-delay"} <= {reason for _, reason in kinds}
    assert dry.stats["rep/dry_run/not_judged"] == 0
    not_sent = Counter(subject for subject, *_ in was.elements())["request"]
    not_sent += dry.stats["rep/dry_run/not_met"]
    assert by_dry.total() - not_sent == by_real.total()
    assert not dry.lines("ERROR")


def links(*urls: str, head: str = "") -> Answer:
    return html("".join(f'<a href="{url}">' for url in urls), head)


def dry_run(urls: Any, settings: Any = None, **kwargs: Any) -> CrawlResult:
    spider = kwargs.pop("spider", "tests.crawl.page_spiders.PageSpider")
    return run_crawl(urls, spider=spider, settings=settings, enable=DRY, **kwargs)


def paths(host: Host) -> list[str]:
    return [hit.path for hit in host.hits if hit.path != "/robots.txt"]


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
    starts = [host.url("/")]
    spider = "tests.crawl.page_spiders.PageSpider"
    run_crawl(starts, mode=mode, spider=spider, settings=settings, enable={})
    stock = paths(host)
    site.log.clear()
    dry_run(starts, settings, mode=mode)
    assert paths(host) == stock
    assert len(host.robots_hits) == 1


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
    result = dry_run(starts, settings, mode=mode)
    assert len(result.lines("INFO", "This is a dry run")) == 1
    assert len(result.lines("INFO", "A start request would be refused")) == 1
    (line,) = result.lines("INFO", "would be refused: 3", "(rule)", "REP_OVERRIDES")
    assert f"Most at {host.origin} (3)" in line
    assert (
        len(result.lines("WARNING", "Items that would be dropped: 1", "(noindex)")) == 1
    )
    assert (
        len(result.lines("INFO", "(delay)", "REP_CRAWL_DELAY", "Crawl-delay: 100")) == 1
    )
    assert len(result.lines("INFO", "(back-off)", "Retry-After: 30")) == 1
    assert len(result.lines("INFO", "would not have made: 1.")) == 1
    # "/" and "/open".
    assert len(result.lines("INFO", "have taken at least 0:03:50, by")) == 1
    assert len(result.lines("INFO", "127.0.0.1", "2 requests", "100 s", "0:00:30")) == 1
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


def test_a_project_that_obeys(site: Site, mode: str, tmp_path: Path) -> None:
    """Where Scrapy's own middleware obeys robots.txt, it goes on to do so; what it refuses, a real
    run would refuse too, by the group of the crawler.
    """
    host = site.add(
        "User-agent: *\nDisallow: /\n\nUser-agent: testbot\nDisallow: /private\n"
    )
    host.answers["/"] = links("/private/1", "/open", head=meta("noindex"))
    file = ledger(tmp_path, "dry")
    result = dry_run([host.url("/")], {"ROBOTSTXT_OBEY": True, **file}, mode=mode)
    assert paths(host) == ["/", "/open"]
    assert result.stats["robotstxt/forbidden"] == 1
    assert result.stats["rep/dry_run/denied/rule"] == 1
    found = [(row[0], row[3], row[8]) for row in withheld(file)]
    refused = ("request", "rule", "Disallow: /private")
    assert sorted(found) == [("item", "noindex", "noindex"), refused]


def test_a_project_that_does_not_obey(site: Site) -> None:
    """A project that ignores robots.txt learns what it would refuse."""
    host = site.add("User-agent: *\nDisallow: /private\n")
    result = dry_run([host.url("/private")], {"ROBOTSTXT_OBEY": False})
    assert paths(host) == ["/private"]
    assert len(result.lines("INFO", "ROBOTSTXT_OBEY is False in this project")) == 1
    assert result.stats["rep/dry_run/denied/rule"] == 1


def test_a_robotstxt_that_does_not_answer(site: Site, mode: str) -> None:
    """No page waits for it, also where the host gets one request at a time. The end of the crawl
    waits, so that all requests are judged.
    """
    host = site.add()
    paths = [f"/{number}" for number in range(10)]

    def all_pages_came() -> bool:
        last = max(
            (hit.time for path in paths for hit in host.hits_on(path)), default=0
        )
        return set(paths) < set(host.pages) and time.monotonic() > last + 0.5

    host.answers["/robots.txt"] = Answer(status=503, after=all_pages_came)
    host.answers["/"] = links(*paths)
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    result = dry_run([host.url("/")], settings, mode=mode)
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
    result = dry_run([host.url("/")], settings, mode=mode, constants=constants)
    assert result.stats["elapsed_time_seconds"] < 50
    assert result.stats["finish_reason"] == reason
    assert result.stats["rep/dry_run/not_judged"] == 1
    assert len(result.lines("INFO", "not judged: 1.")) == 1
    assert len(result.items) == 1
    assert not result.lines("ERROR")


def test_a_jobdir(site: Site, mode: str, tmp_path: Path) -> None:
    """A dry run in a JOBDIR leaves the files of Scrapy there, and a real run can resume it."""
    host = site.add(robots("User-agent: *\nDisallow: /private\n"))
    host.answers["/"] = links(*[f"/{n}" for n in range(9)], "/private/1", "/private/2")
    settings = {"JOBDIR": str(tmp_path / "job"), "CONCURRENT_REQUESTS": 1}
    starts = [host.url("/")]
    dry = dry_run(starts, {**settings, "CLOSESPIDER_PAGECOUNT": 3}, mode=mode)
    assert dry.stats["finish_reason"] == "closespider_pagecount"
    assert (tmp_path / "job" / "requests.seen").exists()
    real = run_crawl(
        starts,
        spider="tests.crawl.page_spiders.PageSpider",
        settings=settings,
        mode=mode,
    )
    assert sorted({*paths(host)} - {"/"}) == sorted(
        {*(f"/{n}" for n in range(9)), *(p for p in paths(host) if "private" in p)}
    )
    refused = real.stats.get("rep/denied/rule", 0)
    assert refused + sum("private" in path for path in paths(host)) == 2


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
    settings = {
        **component,
        "REP_BACKOFF_MAX": 60,
        "CONCURRENT_REQUESTS": 1,
    }
    result = dry_run([host.url("/")], settings, mode=mode)
    assert sorted(paths(host)) == ["/", "/1", "/2"]
    assert host.hits_on("/2")[0].time < host.robots_hits[0].answered
    # Each of the three requests, and the pause.
    assert result.stats["rep/dry_run/seconds"] == 240


@pytest.mark.parametrize("delay", [0, 1])
def test_a_retry(site: Site, delay: float) -> None:
    """A request that Scrapy retries counts once, as in a real run, which would not have sent it."""
    host = site.add(robots("User-agent: *\nDisallow: /1\n", delay=delay))
    host.answers["/1"] = [Answer(status=500), Answer(status=500), html()]
    result = dry_run([host.url("/2"), host.url("/1")], {"RETRY_ENABLED": True})
    assert paths(host).count("/1") == 3
    assert result.stats["rep/dry_run/denied/rule"] == 1


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


def test_what_only_leads_through_start_requests(site: Site) -> None:
    """The targets of a refused start request are not taken for start requests, although Scrapy
    marks the one, and the spider marks the others, like it. The links of the target of a redirect
    are not taken for targets.
    """
    host = site.add("User-agent: *\nDisallow: /a\n")
    host.answers |= {"/a": redirect("/ab"), "/ab": links("/c"), "/a2": links("/d")}
    host.answers |= {"/c": html(head=meta("noindex")), "/d": links("/e")}
    host.answers |= {"/ok": redirect("/a3"), "/a3": links("/f")}
    spider = f"{__name__}.CopyingSpider"
    starts = [host.url(path) for path in ("/a", "/a2", "/ok")]
    result = dry_run(starts, spider=spider)
    assert {*paths(host)} == {
        *["/a", "/a2", "/a3", "/ab", "/c", "/d", "/e", "/f", "/ok"]
    }
    assert result.stats["rep/dry_run/denied/rule"] == 3
    assert result.stats["rep/dry_run/not_met"] == 5
    assert "rep/dry_run/noindex/dropped/noindex" not in result.stats


def test_a_callback_that_raises(site: Site, mode: str) -> None:
    """What it has made before passes, and is judged."""
    host = site.add("User-agent: *\nDisallow: /1\n")
    host.answers["/"] = links("/1", "/2", head=meta("noindex"))
    spider = f"{__name__}.RaisingSpider"
    result = dry_run([host.url("/")], spider=spider, mode=mode)
    assert paths(host) == ["/", "/1"]
    assert result.stats["rep/dry_run/denied/rule"] == 1
    assert result.stats["rep/dry_run/noindex/dropped/noindex"] == 1
    assert not result.lines("ERROR")
