"""Requests wait for a robots.txt that is slow or unreachable, obey it when it comes, and hold up
no other host.

``tests/frontier/test_core.py`` proves what becomes of a host in each of its phases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.answers import HANGS, Answer, busy, redirect, robots
from tests.crawl.crawl import RETRIED_SOON, run_crawl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: *\nDisallow: /private\n"
DOWN = Answer(status=503)
SPIDERS = "tests.crawl.waiting_spiders."
ALLOWED = [f"/public/{number}" for number in range(12)]
FORBIDDEN = [f"/private/{number}" for number in range(8)]
# Hosts that differ only in their port share a download slot, so it has room for all.
FOUR = {"CONCURRENT_REQUESTS": 4}
WAITING = {"CONCURRENT_REQUESTS": 16, "REP_WAIT_MAX": 30}


def all_urls(hosts: list[Host]) -> list[str]:
    return [host.url(path) for path in ALLOWED + FORBIDDEN for host in hosts]


def check_nothing_lost(hosts: list[Host], result: CrawlResult) -> None:
    """Check that each allowed URL was fetched once, and each forbidden one
    was refused by its rule.
    """
    for host in hosts:
        assert host.pages == sorted(ALLOWED)
        for path in FORBIDDEN:
            assert result.error(host.url(path))["reason"] == "rule"
    assert len(result.errors) == len(FORBIDDEN) * len(hosts)
    assert len(result.responses) == len(ALLOWED) * len(hosts)
    assert result.stats["finish_reason"] == "finished"
    assert "log_count/ERROR" not in result.stats, result.log


# A robots.txt that is slow.


def test_one_fetch_for_all_requests(site: Site, every_mode: str) -> None:
    """40 parallel requests to hosts with a slow robots.txt cause one fetch of each, and no
    forbidden page is requested.
    """
    hosts = [site.add(robots(RULES, delay=0.3)) for _ in range(2)]
    result = run_crawl(
        all_urls(hosts), mode=every_mode, settings={"CONCURRENT_REQUESTS": 50}
    )
    check_nothing_lost(hosts, result)
    assert [len(host.robots_hits) for host in hosts] == [1, 1]
    assert result.stats["robotstxt/request_count"] == 2


def test_healthy_hosts_do_not_stall(site: Site, mode: str) -> None:
    """While requests wait for the slow robots.txt of four hosts, the pages of another host are
    fetched with full CONCURRENT_REQUESTS. Those that waited are sent afterwards.
    """
    host = site.add(RULES)
    paths = [f"/public/{number}" for number in range(40)]
    host.answers |= dict.fromkeys(paths, Answer(delay=0.05))
    late = robots(RULES, after=lambda: len(host.pages) == 40)
    slow = [site.add(late) for _ in range(4)]
    requests = [{"url": url, "priority": 1} for url in all_urls(slow)]
    run_crawl([*requests, *map(host.url, paths)], mode=mode, settings=FOUR)
    assert len(host.pages) == 40
    assert host.at_once == 4
    for one in slow:
        assert one.pages == sorted(ALLOWED)
        assert host.hits[-1].time < one.hits[1].time


def test_one_at_a_time(site: Site, every_mode: str) -> None:
    """With CONCURRENT_REQUESTS = 1, the robots.txt fetch does not wait for the request that waits
    for it. Requests of a host that waited are sent in the order of their priority.
    """
    hosts = [site.add(robots(RULES, delay=0.1)) for _ in range(3)]
    hosts[1].chain(3, robots(RULES))
    settings = {
        "CONCURRENT_REQUESTS": 1,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOAD_DELAY": 0.05,
    }
    priorities = [3, 1, 5, 2, 4, 0]
    requests = [{"url": host.url("/private"), "priority": 9} for host in hosts]
    requests += [
        {"url": host.url(f"/{priority}"), "priority": priority}
        for priority in priorities
        for host in hosts
    ]
    run_crawl(requests, mode=every_mode, settings=settings)
    for host in hosts:
        sent = [hit.path for hit in host.hits if hit.path[1:].isdigit()]
        assert sent == ["/5", "/4", "/3", "/2", "/1", "/0"]
        assert len(host.robots_hits) == 1
        assert "/private" not in host.pages


@pytest.mark.newest
def test_ports_schemes_and_names_are_hosts_apart(site: Site, mode: str) -> None:
    """Each port and scheme of a host name has its own robots.txt, and each name of an address."""
    hosts = {
        rule: site.add(
            robots(f"User-agent: *\nDisallow: {rule}\n", delay=0.1), tls=rule > "/b"
        )
        for rule in ("/a", "/b", "/c", "/d")
    }
    named = site.add(RULES)
    url = named.url("/public")
    urls = [host.url(path) for path in hosts for host in hosts.values()]
    urls += [url, url.replace("127.0.0.1", "localhost")]
    result = run_crawl(urls, mode=mode)
    assert len(named.robots_hits) == 2
    for rule, host in hosts.items():
        assert host.pages == sorted(set(hosts) - {rule})
        assert len(host.robots_hits) == 1
        assert result.error(host.url(rule))["reason"] == "rule"


def test_requests_are_what_they_were(site: Site, mode: str) -> None:
    """Requests that waited for robots.txt reach callbacks as the spider made them. The duplicate
    filter knows them meanwhile, and ``dont_filter`` bypasses it; the targets of their redirects
    are filtered as duplicate or offsite. The crawl does not end while they wait.
    """
    host, other = site.add(robots(RULES, delay=1)), site.add(RULES)
    offsite = other.url("/offsite").replace("127.0.0.1", "localhost")
    host.answers |= {f"/{number}": redirect("/target") for number in range(3)}
    host.answers["/away"] = redirect(offsite)
    paths = [
        "/page",
        "/page",
        "/forced",
        "/forced",
        "/private",
        "/0",
        "/1",
        "/2",
        "/away",
    ]
    result = run_crawl(
        [{"url": host.url(path), "dont_filter": path == "/forced"} for path in paths],
        mode=mode,
        settings=FOUR,
        allowed_domains=["127.0.0.1"],
    )
    assert host.pages == sorted([*paths[1:4], *paths[5:], "/target"])
    assert other.hits == []
    assert result.error(host.url("/private"))["reason"] == "rule"
    assert result.stats["offsite/filtered"] == 1
    assert result.stats["dupefilter/filtered"] == 1 + 2
    assert result.stats["finish_reason"] == "finished"
    for response in result.responses:
        is_forced = response["url"].endswith("/forced")
        if not response["url"].endswith("/target"):
            assert response["dont_filter"] is is_forced
        assert not [key for key in response["meta"] if key.startswith("_rep")]


def test_what_does_not_come_from_the_queue(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """What a callback downloads itself, and the downloads of a media pipeline, wait for a slow
    robots.txt, obey it, and do not poll.
    """
    host, slow = site.add(RULES), site.add(robots(RULES, delay=1))
    more, files = (
        [
            slow.url(f"/{part}/{kind}/{n}")
            for part in ("public", "private")
            for n in range(10)
        ]
        for kind in ("more", "file")
    )
    urls = [host.url("/page"), host.url("/other")]
    result = run_crawl(
        urls,
        mode=mode,
        spider="tests.crawl.backoff_spiders.EveryWaySpider",
        settings={
            **FOUR,
            "DOWNLOADER_MIDDLEWARES": {f"{SPIDERS}CountPasses": 594},
            "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
            "FILES_STORE": str(tmp_path),
        },
        more=dict.fromkeys(urls, more),
        files=dict.fromkeys(urls, files),
    )
    paths = [url.removeprefix(slow.origin) for url in (*more[:10] * 2, *files[:10])]
    assert slow.pages == sorted(paths)
    assert len(slow.robots_hits) == 1
    errors = [item["error"] for item in result.items if "error" in item]
    assert errors == ["RobotsDenied"] * 20
    found = [len(item["files"]) for item in result.items if "file_urls" in item]
    assert found == [10, 10]
    assert result.stats["passes"] <= 2 * (42 + 20)
    for item in result.items:
        assert not [key for key in item.get("meta", ()) if key.startswith("_rep")]


# A robots.txt that is unreachable.


@pytest.mark.slow
def test_ten_hosts_that_come_back(site: Site, mode: str) -> None:
    """200 requests to 10 hosts whose robots.txt is unreachable two or three times: none is lost,
    and no page is fetched twice or against the rules. Meanwhile, the spider is not idle.
    """
    asked, late = busy(503, "2"), Answer(status=429)
    # A robots.txt without an answer is fetched once more at once.
    failures = [*[[DOWN] * 3] * 4, *[[asked]] * 3, *[[late] * 2] * 2, [HANGS] * 2]
    hosts = [site.add([*failed, robots(RULES)]) for failed in failures]
    settings = {**WAITING, "DOWNLOAD_TIMEOUT": 1}
    result = run_crawl(
        all_urls(hosts), mode=mode, settings=settings, constants=RETRIED_SOON
    )
    check_nothing_lost(hosts, result)
    assert result.stats["idle"] == 1  # Not while requests wait.
    for host, failed in zip(hosts, failures, strict=True):
        assert len(host.robots_hits) == len(failed) + 1
        if failed == [asked]:
            first, second = host.robots_hits
            assert second.time - first.time >= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "hours",
    [
        pytest.param({"/robots.txt": 31 * 24}, id="forward, by NTP"),
        pytest.param({"/1": 25, "/2": -50, "/3": 25, "/4": -1}, id="back and forth"),
    ],
)
def test_a_clock_that_is_set(
    site: Site, mode: str, hours: dict[str, int], tmp_path: Path
) -> None:
    """A clock that is set in an outage does not end it: no forbidden page is fetched. A host with
    a Crawl-delay goes on.
    """
    down = site.add([DOWN, DOWN, robots(RULES)], name="127.0.1.2")
    slow = site.add(f"{RULES}Crawl-delay: 0.2\n", name="127.0.1.3")
    result = run_crawl(
        [*all_urls([down]), *(slow.url(f"/{number}") for number in range(6))],
        mode=mode,
        spider=f"{SPIDERS}ClockSpider",
        settings={**WAITING, "REP_STORE": f"sqlite:///{tmp_path / 'store'}"},
        constants=RETRIED_SOON,
        moves={path: 3600.0 * by for path, by in hours.items()},
    )
    assert down.pages == sorted(ALLOWED)
    assert len(slow.pages) == 6
    assert [error["reason"] for error in result.errors] == ["rule"] * len(FORBIDDEN)


@pytest.mark.newest
def test_giving_up(site: Site, mode: str) -> None:
    """After REP_WAIT_MAX, errbacks get RobotsDenied. Before that, robots.txt is fetched once
    more, even if it is not due yet. At the beginning, the log says how many requests wait, how
    long, and when robots.txt is tried again; at the end, how many are given up.
    """
    host = site.add(DOWN)
    urls = list(map(host.url, ALLOWED))
    result = run_crawl(urls, mode=mode, settings={**WAITING, "REP_WAIT_MAX": 2})
    assert host.pages == []
    assert len(host.robots_hits) == 2
    found = {(error["error"], error["reason"]) for error in result.errors}
    assert found == {("RobotsDenied", "unreachable")}
    assert "status 503" in result.errors[0]["message"]
    assert sorted(error["url"] for error in result.errors) == sorted(urls)
    assert 2 <= result.stats["elapsed_time_seconds"]
    first, last = result.lines("WARNING", host.robotstxt)
    assert "wait for up to 0:00:02" in first
    assert "fetched again in 0:0" in first
    assert f"({len(ALLOWED)} in the queue)" in last


def test_nobody_answers(site: Site, mode: str) -> None:
    """If connections are refused or the host name is unknown, requests are refused at
    once, after a second attempt, and those of another host are sent.
    """
    host, other = site.refusing(), site.add(RULES)
    nowhere = "http://nosuchhost.invalid"
    urls = [site + path for path in ALLOWED for site in (host.origin, nowhere)]
    result = run_crawl(
        [*urls, other.url("/page")],
        mode=mode,
        settings={**WAITING, "REP_WAIT_MAX": 600},
    )
    assert other.pages == ["/page"]
    assert {error["reason"] for error in result.errors} == {"unreachable"}
    assert sorted(error["url"] for error in result.errors) == sorted(urls)
    exceptions = [key for key in result.stats if "robotstxt/exception_count" in key]
    assert sum(result.stats[key] for key in exceptions) == 4
    for robotstxt, why in (
        (host.robotstxt, "no answer: connection refused"),
        (nowhere, "no answer: the host name could not be resolved"),
    ):
        assert len(result.lines("WARNING", robotstxt, why, "are refused")) == 1
    assert "Failure" not in result.log


@pytest.mark.parametrize("is_dropped", [False, True], ids=["status 503", "dropped"])
def test_what_a_callback_downloads_itself(
    site: Site, every_mode: str, is_dropped: bool
) -> None:
    """``download_async`` in a callback is refused at once if robots.txt is unreachable, since the
    page would hold up the crawl: also if a component drops the fetch before a download begins to
    wait for it.
    """
    down, up = site.add(DOWN), site.add(RULES)
    middlewares: dict[str, Any] = {f"{SPIDERS}CountPasses": 594}
    if is_dropped:
        middlewares[f"{SPIDERS}DropRobotsTxt"] = 10
    result = run_crawl(
        [{"url": up.url("/page"), "meta": {"dont_obey_robotstxt": True}}],
        mode=every_mode,
        spider=f"{SPIDERS}DownloadingSpider",
        settings={
            **WAITING,
            "REP_WAIT_MAX": 600,
            "DOWNLOADER_MIDDLEWARES": middlewares,
        },
        more=list(map(down.url, ALLOWED)),
    )
    assert down.pages == []
    assert len(down.robots_hits) == (not is_dropped)
    assert [item["error"] for item in result.items] == ["RobotsDenied"] * len(ALLOWED)
    # Each waits for the fetch of robots.txt, and passes the middleware once.
    assert result.stats["passes"] == 1 + len(ALLOWED)
