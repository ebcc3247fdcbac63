"""Tests of dry runs. They send the requests and make the items of a crawl without this package. Log, stats and ledger
name all requests that a real run would refuse, and all items that it would drop.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.core.scheduler import BaseScheduler

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
"""The robots.txt files of :func:`large_site`: the first host has the first file, and so on. After the last file, the
list begins again.
"""


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
    """A PageSpider whose callback raises an exception after the first link of each page."""

    def note_response(self, response: Response) -> Iterator[Any]:
        for output in super().note_response(response):
            yield output
            if output != {"url": response.url}:
                raise RuntimeError("This callback is broken")


class StackScheduler(BaseScheduler):
    """A scheduler of a project: a stack without a duplicate filter."""

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
    """Return a page with links to *urls*."""
    return html("".join(f'<a href="{url}">' for url in urls), head)


def crawl(
    urls: Any, settings: Any = None, spider: str = "PageSpider", **arguments: Any
) -> CrawlResult:
    """Run a dry run. *arguments* are those of ``run_crawl``: if they have ``enable``, the crawl is no dry run."""
    module = "tests.crawl.page_spiders" if spider == "PageSpider" else __name__
    arguments = {"enable": DRY, "timeout": 600, **arguments}
    return run_crawl(urls, spider=f"{module}.{spider}", settings=settings, **arguments)


def large_site(site: Site, hosts: int, pages: int) -> list[Host]:
    """Add *hosts* hosts with *pages* pages each, and return them.

    The hosts, pages and images have rules and statements of each kind for which a crawl withholds requests, links,
    items and files. Most pages can be reached on many paths.
    """
    hosts = [
        site.add(ROBOTS[number % len(ROBOTS)], name=f"h{number}.test")
        for number in range(hosts)
    ]
    for number, host in enumerate(hosts):
        host.answers["/moved.txt"] = robots(RULES)
        for page in range(pages):
            chance = Random(1000 * number + page)
            host.answers[f"/p/{page}"] = _page(chance, hosts, page, pages)
            tag = {"X_Robots_Tag": "noindex"} if chance.random() < 0.1 else {}
            host.answers[f"/img/{page}"] = image(**tag)
    return hosts


def _page(chance: Random, hosts: list[Host], page: int, pages: int) -> Answer:
    """Return page number *page* of *pages*, with random links to pages of *hosts* and random indexing rules."""
    other = chance.choice(hosts).url(f"/p/{chance.randrange(pages)}")
    if page and chance.random() < 0.05:
        return redirect(other)
    rel = "nofollow" if chance.random() < 0.2 else ""
    urls = [f"/p/{number}" for number in (2 * page + 1, 2 * page + 2) if number < pages]
    urls.append(chance.choice(hosts).url("/p/0"))
    body = "".join(f'<a href="{url}">' for url in urls)
    body += f'<a href="{other}" rel="{rel}">'
    if chance.random() < 0.3:
        body += f'<img src="/img/{chance.randrange(pages)}">'
    rules = ["noindex", "nofollow", "noimageindex", "none", ""]
    (tag,) = chance.choices(rules, [10, 10, 5, 5, 70])
    if tag == "none":
        return html(body, tag=tag)
    return html(body, meta(tag) if tag else "")


def withheld(ledger: Path) -> Counter[tuple[Any, ...]]:
    """Return what was withheld, or would be withheld, according to a ledger. For a dry run, "would-refuse" is returned
    as "refused", and "would-drop" as "dropped", so that a dry run and a real run can be compared.
    """
    query = f"SELECT {COLUMNS} FROM decision WHERE verdict NOT IN ('allowed', 'noted')"
    query += (
        " AND url NOT LIKE '%/tdmrep.json'"  # These are not requests of the spider.
    )
    with closing(sqlite3.connect(ledger)) as file:
        decisions = file.execute(query).fetchall()
    real = {"would-refuse": "refused", "would-drop": "dropped"}
    return Counter((row[0], real.get(row[1], row[1]), *row[2:]) for row in decisions)


@pytest.mark.newest
def test_a_dry_run_sends_the_requests_of_stock_scrapy_and_records_what_a_real_run_withholds(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """A dry run sends the same requests and makes the same items as a crawl without this package. Its ledger has
    everything that the ledger of a real run says was withheld.
    """
    hosts = large_site(site, *((200, 100) if effort.is_long else (8, 16)))
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
        ledger_settings = {"REP_LEDGER": str(tmp_path / name)} if enable else {}
        arguments = {"mode": mode, "names": names, "enable": enable}
        results[name] = crawl(
            starts, settings | ledger_settings, "SiteSpider", **arguments
        )
        hits = [hit for hit in site.log if hit.path.startswith(("/p/", "/img/"))]
        sent[name] = Counter((hit.host.name, hit.path) for hit in hits)
        site.log.clear()
    dry = results["dry"]
    assert sent["dry"] == sent["stock"] > sent["real"]
    items = [sorted(map(repr, results[name].items)) for name in ("dry", "stock")]
    assert items[0] == items[1]
    would_withhold, withheld_in_real = (
        withheld(tmp_path / "dry"),
        withheld(tmp_path / "real"),
    )
    assert withheld_in_real - would_withhold == Counter()
    assert {"request", "link", "item", "file"} <= {row[0] for row in withheld_in_real}
    assert {"rule", "unreachable", "crawl-delay"} <= {
        row[3] for row in withheld_in_real
    }
    assert dry.stats["rep/dry_run/requests"] == sent["dry"].total()
    assert not dry.lines("ERROR")


def test_the_log_of_a_dry_run_says_what_a_real_run_would_withhold(
    site: Site, mode: str
) -> None:
    """The log says that the crawl is a dry run, and how long a real run would take at most.

    The log gives the number of requests that a real run would refuse, and the number of items that it would drop, each
    with the reason, the hosts, and the setting that changes it. The numbers are upper limits, since a real run fetches
    fewer pages.
    """
    host = site.add("User-agent: *\nDisallow: /private\nCrawl-delay: 100\n")
    host.answers |= {
        "/": links("/private/1", "/private/2", "/open", head=meta("noindex")),
        "/private/1": links("/only-from-private"),
        "/open": busy(503, "30"),
        "/only-from-private": html(head=meta("noindex")),
    }
    starts = [host.url("/"), host.url("/private/3")]
    result = crawl(starts, {"REP_BACKOFF_MAX": 60}, mode=mode)
    for level, *words in (
        ("INFO", "this is a dry run", "The last lines of the log say"),
        ("WARNING", "A start request would be refused"),
        ("INFO", "would be refused: 3 of the 6 requests of this run", "disallows;",
         "REP_OVERRIDES", f"at {host.origin} (3)"),
        ("WARNING", "Items that would be dropped: 2", "(noindex)"),
        ("INFO", "robots.txt has a Crawl-delay", "REP_CRAWL_DELAY_OBEY", "Crawl-delay: 100"),
        ("INFO", "has judged 6 requests", "upper limits"),
        ("INFO", "take up to 0:05:00 for 127.0.0.1: 3 requests", "100 s"),
    ):  # fmt: skip
        assert len(result.lines(level, *words)) == 1, words
    assert len(result.lines("INFO", "a dry run")) == 1
    counts = {key: count for key, count in result.stats.items() if "dry_run" in key}
    assert counts == {
        "rep/dry_run/denied/rule": 3,
        "rep/dry_run/noindex/dropped/noindex": 2,
        "rep/dry_run/requests": 6,
        "rep/dry_run/seconds": 300.0,
    }
    assert "robotstxt/forbidden" not in result.stats
    assert result.stats["elapsed_time_seconds"] < 30


@pytest.mark.parametrize("obeys", [None, False])
def test_the_log_says_which_results_depend_on_robotstxt_obey(
    site: Site, mode: str, *, obeys: bool | None
) -> None:
    """If the project has set ROBOTSTXT_OBEY = False, each line about a rule of robots.txt says that a real run would
    withhold something only with ROBOTSTXT_OBEY = True. Other lines, such as those about noindex, do not say so.
    """
    rules = "User-agent: *\nCrawl-delay: 100\nDisallow: /1\n"
    preferring = site.add(robots(f"{rules}Content-Signal: ai-train=no\n"))
    other = site.add(robots(rules), name="127.0.0.2")
    other.answers["/"] = html("", meta("noindex"))
    urls = [other.url("/1"), other.url("/"), preferring.url("/")]
    settings: dict[str, Any] = {"REP_PURPOSES": ["train-ai"]}
    if obeys is not None:
        settings["ROBOTSTXT_OBEY"] = obeys
    result = crawl(urls, settings, mode=mode)
    condition = " with ROBOTSTXT_OBEY = True" if obeys is False else ""
    for words in (
        f"A start request would be refused{condition}, because",
        f"Requests that would be refused{condition}: 1 of the 3 requests",
        f"Items that would be dropped{condition}: 1, because the content",
        "Items that would be dropped: 1, because the page",
        f"A real run{condition} would take up to 0:01:40 for 127.0.0.2:",
        f"A real run{condition} would take up to 0:01:40 for 127.0.0.1:",
    ):
        assert words in result.log
    assert len(result.lines("INFO", "a real run would ignore")) == bool(condition)


FORBIDS_1 = "User-agent: *\nDisallow: /1\n"
GROUPS = "User-agent: *\nDisallow: /2\n\nUser-agent: testbot\nDisallow: /1\n"
NOINDEX = links("/1", "/2", head=meta("noindex"))


@pytest.mark.parametrize(
    ("rules", "start", "settings", "pages", "counts"),
    [
        pytest.param(
            FORBIDS_1, "/1", {"ROBOTSTXT_OBEY": False}, "/1", (1, 0),
            id="a project with ROBOTSTXT_OBEY = False",
        ),
        pytest.param(
            GROUPS, "/", {"ROBOTSTXT_OBEY": True}, "/ /2", (1, 1),
            id="requests that Scrapy's own middleware refuses",
        ),
        pytest.param(
            FORBIDS_1, "/", {"spider": "RaisingSpider"}, "/ /1", (1, 1),
            id="a callback that raises after its first link",
        ),
    ],
)  # fmt: skip
def test_a_dry_run_counts_pages_refusals_and_dropped_items(  # noqa: PLR0917
    site: Site,
    rules: str,
    start: str,
    settings: dict[str, Any],
    pages: str,
    counts: tuple[int, int],
) -> None:
    """The stats and the log of a dry run count the pages that are fetched, the requests that would
    be refused, and the items that would be dropped.
    """
    host = site.add(robots(rules))
    host.answers["/"] = NOINDEX
    settings = dict(settings)
    spider = settings.pop("spider", "PageSpider")
    result = crawl([host.url(start)], settings, spider)
    assert host.pages == pages.split()
    keys = ("denied/rule", "noindex/dropped/noindex")
    assert counts == tuple(result.stats.get(f"rep/dry_run/{key}", 0) for key in keys)
    is_off = settings.get("ROBOTSTXT_OBEY") is False
    assert len(result.lines("INFO", "ROBOTSTXT_OBEY is False in this")) == is_off
    assert result.stats.get("robotstxt/forbidden", 0) == bool(
        settings.get("ROBOTSTXT_OBEY")
    )
    assert not result.lines("ERROR")


def test_a_dry_run_says_what_only_a_real_run_would_allow(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """In a project with ROBOTSTXT_OBEY = True, a dry run also says what Scrapy refuses and a real run would allow.

    Here, Scrapy's parser lets the crawler ``testbot`` follow the group ``test``, although that group is for another
    crawler.
    """
    rules = "User-agent: test\nDisallow: /1\n\nUser-agent: *\nDisallow: /2\n"
    host = site.add(robots(rules))
    urls = [host.url(path) for path in ("/1", "/2", "/3")]
    settings = {"ROBOTSTXT_OBEY": True, "REP_LEDGER": str(tmp_path / "ledger")}
    result = crawl(urls, settings, mode=mode)
    assert sorted(host.pages) == ["/2", "/3"]
    words = "refuses and that would be sent: 1 of the 3 requests", "no rule", urls[0]
    assert len(result.lines("INFO", *words)) == 1
    assert result.stats["rep/dry_run/allowed/no-rule"] == 1
    assert result.stats["rep/dry_run/denied/rule"] == 1
    decisions = withheld(tmp_path / "ledger")
    verdicts = sorted((row[1], row[4]) for row in decisions)
    assert verdicts == [("refused", urls[1]), ("would-allow", urls[0])]


def test_requests_to_a_host_with_a_silent_robotstxt_are_sent_after_its_time_out(
    site: Site, mode: str
) -> None:
    """If a host never answers the request for robots.txt, all requests to the host wait for one time-out together, not
    one after the other. Then they are sent, and count as requests that would be refused.
    """
    host = site.add(HANGS)
    urls = [host.url(f"/{number}") for number in range(4)]
    settings = {"DOWNLOAD_TIMEOUT": 1, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    result = crawl(urls, settings, mode=mode)
    assert sorted(host.pages) == [f"/{number}" for number in range(4)]
    first_page = min(hit.time for hit in host.hits if hit.path != "/robots.txt")
    assert max(hit.time for hit in host.robots_hits) < first_page
    assert len(host.robots_hits) == 2
    assert result.stats["rep/dry_run/denied/unreachable"] == 4
    assert result.stats["elapsed_time_seconds"] < 30


@pytest.mark.parametrize(
    "component",
    [
        {"SCHEDULER": "scrapy_rep.Scheduler"},
        {"SCHEDULER": f"{__name__}.StackScheduler"},
    ],
)
def test_a_dry_run_waits_for_no_delay_and_no_pause(
    site: Site, mode: str, component: dict[str, str]
) -> None:
    """A dry run waits for no Crawl-delay and no pause, even if SCHEDULER is the scheduler of this package or a
    scheduler of the project.
    """
    host = site.add("User-agent: *\nCrawl-delay: 60\n")
    host.answers |= {"/": links("/1", "/2"), "/1": busy(503, "60")}
    settings = {**component, "REP_BACKOFF_MAX": 60, "CONCURRENT_REQUESTS": 1}
    result = crawl([host.url("/")], settings, mode=mode)
    assert sorted(host.pages) == ["/", "/1", "/2"]
    assert result.stats["rep/dry_run/seconds"] == 180
    assert result.stats["elapsed_time_seconds"] < 30
