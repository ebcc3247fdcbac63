"""Tests of requests that wait for a slow or unreachable robots.txt. They obey robots.txt when it arrives, and do not
hold up other hosts.

``tests/frontier/test_sites.py`` tests each state of a host.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.answers import Answer, redirect, robots
from tests.crawl.crawl import RETRIED_SOON, run_crawl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Host, Site


RULES = "User-agent: *\nDisallow: /private\n"
DOWN = Answer(status=503)
SPIDERS = "tests.crawl.waiting_spiders"
COMPONENTS = "tests.crawl.component_spiders"
ALLOWED = [f"/public/{number}" for number in range(12)]
FORBIDDEN = [f"/private/{number}" for number in range(8)]
# Hosts on different ports share a download slot. ``QUIET`` sets its concurrency to 100, so that only
# CONCURRENT_REQUESTS limits these crawls.
CONCURRENCY_4 = {"CONCURRENT_REQUESTS": 4}
WAITING = {"CONCURRENT_REQUESTS": 16, "REP_WAIT_TIMEOUT": 30}


def all_urls(*hosts: Host) -> list[str]:
    return [host.url(path) for path in ALLOWED + FORBIDDEN for host in hosts]


def test_requests_after_the_spider_has_closed_fail(site: Site, mode: str) -> None:
    """Requests that would have to wait for robots.txt or a delay fail, and the crawl ends."""
    host, other = site.add(f"{RULES}Crawl-delay: 1\n"), site.add(RULES)
    late = [host.url("/late"), other.url("/late")]
    spider = f"{SPIDERS}.LateSpider"
    result = run_crawl([host.url("/1")], mode=mode, spider=spider, late=late)
    assert result.fetched() == [host.url("/1")]
    # The error is SpiderClosing, or the error of a closed engine.
    assert [error["url"] for error in result.errors] == late
    assert (host.pages, other.hits) == (["/1"], [])


# Slow robots.txt.


def test_robotstxt_is_fetched_before_the_pages_if_the_concurrency_is_1(
    site: Site, every_mode: str
) -> None:
    """With CONCURRENT_REQUESTS = 1, the fetch of robots.txt does not wait for the request that needs it. The waiting
    requests of a host are then sent in the order of their priority. Each scheme and port of a host name has its own
    robots.txt. Each host name has its own robots.txt, even if several names have the same IP address.
    """
    hosts = [
        site.add(
            robots(f"User-agent: *\nDisallow: {rule}\n", delay=0.1), tls=rule > "/b"
        )
        for rule in ("/a", "/b", "/c")
    ]
    hosts[1].chain(3, hosts[1].answers["/robots.txt"])
    url = hosts[0].url("/named")
    requests = [{"url": url.replace("127.0.0.1", "localhost")}] + [
        {"url": host.url(path), "priority": priority}
        for priority, path in ((3, "/3"), (1, "/1"), (5, "/5"), (9, "/a"), (9, "/b"), (9, "/c"))
        for host in hosts
    ]  # fmt: skip
    settings = {
        "CONCURRENT_REQUESTS": 1,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOAD_DELAY": 0.05,
    }
    result = run_crawl(requests, mode=every_mode, settings=settings)
    for host, rule in zip(hosts, ("/a", "/b", "/c"), strict=True):
        sent = [hit.path for hit in host.hits if hit.path[1:].isdigit()]
        assert sent == ["/5", "/3", "/1"]
        assert {"/a", "/b", "/c"} - set(host.pages) == {rule}
        assert result.error(host.url(rule))["reason"] == "rule"
    assert [len(host.robots_hits) for host in hosts] == [2, 1, 1]


def test_requests_that_waited_for_robotstxt_are_unchanged(
    site: Site, mode: str
) -> None:
    """Callbacks get the requests as the spider made them. While requests wait, the crawl does not end. A second request
    for the same URL is dropped as a duplicate, unless it has ``dont_filter``. Targets of redirects are dropped if they
    are duplicates or offsite.
    """
    host, other = site.add(robots(RULES, delay=1)), site.add(RULES)
    offsite = other.url("/offsite").replace("127.0.0.1", "localhost")
    host.answers |= {f"/{number}": redirect("/target") for number in range(3)}
    host.answers["/away"] = redirect(offsite)
    paths = ["/page", "/page", "/forced", "/forced", "/0", "/1", "/2", "/away"]
    result = run_crawl(
        [{"url": host.url(path), "dont_filter": path == "/forced"} for path in paths],
        mode=mode,
        settings=CONCURRENCY_4,
        allowed_domains=["127.0.0.1"],
    )
    assert host.pages == sorted([*paths[1:], "/target"])
    assert other.hits == []
    assert result.stats["offsite/filtered"] == 1
    assert result.stats["dupefilter/filtered"] == 1 + 2
    assert result.stats["finish_reason"] == "finished"
    for response in result.responses:
        is_forced = response["url"].endswith("/forced")
        if not response["url"].endswith("/target"):
            assert response["dont_filter"] is is_forced
        assert not [key for key in response["meta"] if key.startswith("_rep")]


def test_downloads_and_files_that_bypass_the_scheduler_wait_for_robotstxt(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """Downloads that a callback awaits, and those of a media pipeline, wait for a slow robots.txt without polling, and
    obey it. If robots.txt is unreachable, downloads that a callback awaits are refused at once, since the waiting
    callback would hold up the crawl. They are also refused if a component drops the request for robots.txt.
    """
    host, slow, down = site.add(RULES), site.add(robots(RULES, delay=1)), site.add(DOWN)
    more, files = (
        [slow.url(f"/{part}/{kind}/{n}") for part in ("public", "private") for n in range(10)]
        for kind in ("more", "file")
    )  # fmt: skip
    urls = [host.url("/page"), host.url("/other")]
    settings = {
        **WAITING,
        **CONCURRENCY_4,
        "DOWNLOADER_MIDDLEWARES": {f"{COMPONENTS}.CountPasses": 594},
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
        "FILES_STORE": str(tmp_path),
    }
    spider = f"{SPIDERS}.EveryWaySpider"
    result = run_crawl(
        [*urls, host.url("/down")],
        mode=mode,
        spider=spider,
        settings=settings | {"REP_WAIT_TIMEOUT": 600},
        more={**dict.fromkeys(urls, more), host.url("/down"): all_urls(down)},
        files=dict.fromkeys(urls, files),
    )
    paths = [url.removeprefix(slow.origin) for url in (*more[:10] * 2, *files[:10])]
    assert slow.pages == sorted(paths)
    assert [len(host.robots_hits) for host in (slow, down)] == [1, 1]
    assert down.pages == []
    errors = [item["error"] for item in result.items if item.get("error")]
    assert errors == ["RobotsDenied"] * (2 * 10 + 20)
    file_counts = [len(item["files"]) for item in result.items if "file_urls" in item]
    assert file_counts == [10, 10]
    # Each request waits for the fetch of robots.txt, and passes the middleware once: none polls.
    assert result.stats["passes"] <= 2 * (2 + 20 + 20) + 1 + 20
    for item in result.items:
        assert not [key for key in item.get("meta", ()) if key.startswith("_rep")]
    settings["DOWNLOADER_MIDDLEWARES"] = {f"{COMPONENTS}.DropRobotsTxt": 10}
    page = {"url": host.url("/page"), "meta": {"dont_obey_robotstxt": True}}
    again = {"more": {page["url"]: all_urls(site.add(RULES))}}
    result = run_crawl([page], mode=mode, spider=spider, settings=settings, **again)
    assert [item["error"] for item in result.items] == ["RobotsDenied"] * 20


# Unreachable robots.txt.


@pytest.mark.newest
def test_requests_are_refused_after_rep_wait_timeout(site: Site, mode: str) -> None:
    """Errbacks get RobotsDenied after the timeout. Before that, robots.txt is fetched once more, even if the next
    attempt is not due yet. At the beginning, the log says for how long requests will wait, and when robots.txt is
    fetched again. At the end, the log has the number of refused requests.

    If connections are refused, or the host name is unknown, requests are refused after two attempts, each of which
    is repeated once. Meanwhile, the requests to another host are sent.
    """
    down, refusing, other = site.add(DOWN), site.refusing(), site.add(RULES)
    unknown = "http://nosuchhost.invalid"
    origins = [down.origin, refusing.origin, unknown]
    urls = [origin + path for path in ALLOWED for origin in origins]
    settings = {**WAITING, "REP_WAIT_TIMEOUT": 2}
    result = run_crawl([*urls, other.url("/page")], mode=mode, settings=settings)
    assert down.pages == []
    assert len(down.robots_hits) == 2
    assert other.pages == ["/page"]
    errors = {(error["error"], error["reason"]) for error in result.errors}
    assert errors == {("RobotsDenied", "unreachable")}
    assert "status 503" in result.error(urls[0])["message"]
    assert sorted(error["url"] for error in result.errors) == sorted(urls)
    assert result.stats["elapsed_time_seconds"] >= 2
    first, last = result.lines("WARNING", down.robotstxt)
    assert "wait for up to 0:00:02" in first
    assert "fetched again in 0:0" in first
    assert f"({len(ALLOWED)} requests so far)" in last
    exceptions = [key for key in result.stats if "robotstxt/exception_count" in key]
    assert sum(result.stats[key] for key in exceptions) == 8
    for robotstxt, reason in (
        (refusing.robotstxt, "no answer: connection refused"),
        (unknown, "no answer: the host name could not be resolved"),
    ):
        assert len(result.lines("WARNING", robotstxt, reason, "are refused")) == 1
    assert "Failure" not in result.log


@pytest.mark.parametrize(
    "way", ["pages", "files of a pipeline", "pages of another scheduler"]
)
def test_an_unreachable_robotstxt_is_fetched_again_for_later_requests(
    site: Site, mode: str, way: str, tmp_path: Path
) -> None:
    """The first requests to a host are refused, since its robots.txt was unreachable for too long. Later requests are
    made when robots.txt may be fetched again. They wait for this fetch, and the fetched robots.txt decides. This
    applies to pages from this package's scheduler and from Scrapy's, and to files of a pipeline.
    """
    host, recovering = (
        site.add(RULES),
        site.add([DOWN, robots(RULES)], name="127.0.0.2"),
    )
    start, late = host.url("/start"), host.url("/late")

    def is_due_again() -> bool:
        hits = [
            hit.answered for hit in recovering.robots_hits if hit.answered is not None
        ]
        # With RETRIED_SOON, the next fetch of robots.txt is due at most one second after a failed fetch.
        return bool(hits) and hits[-1] < time.monotonic() - 1.1

    host.answers["/late"] = Answer(after=is_due_again)
    links = {
        start: [recovering.url("/public/1")],
        late: [
            recovering.url(path) for path in ("/public/2", "/private/2", "/public/3")
        ],
    }
    settings: dict[str, Any] = {**WAITING, "REP_WAIT_TIMEOUT": 0}
    arguments: dict[str, Any] = {}
    if way == "files of a pipeline":
        arguments["files"] = links
        settings["ITEM_PIPELINES"] = {"scrapy.pipelines.files.FilesPipeline": 1}
        settings["FILES_STORE"] = str(tmp_path)
    else:
        arguments["follow"] = {
            page: [{"url": url} for url in urls] for page, urls in links.items()
        }
    if way == "pages of another scheduler":
        settings["SCHEDULER"] = "scrapy.core.scheduler.Scheduler"
    result = run_crawl(
        [start, late],
        mode=mode,
        spider=f"{SPIDERS}.EveryWaySpider",
        settings=settings,
        constants=RETRIED_SOON,
        **arguments,
    )
    assert result.stats["finish_reason"] == "finished"
    assert [hit.path for hit in recovering.hits[:2]] == ["/robots.txt"] * 2
    assert sorted(hit.path for hit in recovering.hits[2:]) == ["/public/2", "/public/3"]
    assert result.stats["rep/denied/unreachable"] == 1
    assert result.stats["rep/denied/rule"] == 1


@pytest.mark.newest
def test_a_file_of_an_unreachable_host_does_not_wait_for_the_next_attempt(
    site: Site, tmp_path: Path
) -> None:
    """The robots.txt of a host is known to be unreachable. A page of this host waits for the next attempt, half a
    minute later, and a file is refused at once. With CONCURRENT_REQUESTS = 1, a waiting file would block the next
    page of another host.
    """
    host, down = site.add(f"{RULES}Crawl-delay: 0.2\n"), site.add(DOWN)
    start, following = host.url("/start"), host.url("/next")

    def is_known_to_be_down() -> bool:
        hits = [hit.answered for hit in down.robots_hits if hit.answered is not None]
        return bool(hits) and hits[0] < time.monotonic() - 0.2

    host.answers["/start"] = Answer(after=is_known_to_be_down)
    result = run_crawl(
        [{"url": down.url("/page"), "priority": 1}, start],
        spider=f"{SPIDERS}.EveryWaySpider",
        settings={
            "CLOSESPIDER_ITEMCOUNT": 2,
            "CONCURRENT_REQUESTS": 1,
            "FILES_STORE": str(tmp_path),
            "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
            "REP_WAIT_TIMEOUT": 600,
        },
        files={start: [down.url("/file")], following: []},
        follow={start: [{"url": following}]},
    )
    assert result.stats["finish_reason"] == "closespider_itemcount"
    assert [hit.path for hit in down.hits] == ["/robots.txt"]
    assert host.pages == ["/next", "/start"]
    assert result.stats["rep/denied/unreachable"] == 1
