"""A slow robots.txt does not hold up other hosts, and waiting requests stay unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer, redirect, robots
from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: *\nDisallow: /private\n"
# Hosts that differ only in their port share a download slot, so it has room for all.
FOUR = {"CONCURRENT_REQUESTS": 4}
COUNTING = {"DOWNLOADER_MIDDLEWARES": {"tests.crawl.waiting_spiders.CountPasses": 594}}


def test_healthy_hosts_do_not_stall(site: Site, mode: str) -> None:
    """While requests wait for the slow robots.txt of four hosts, the pages of another host are
    fetched with full CONCURRENT_REQUESTS. Those that waited are sent afterwards.
    """
    host = site.add(RULES)
    paths = [f"/public/{number}" for number in range(40)]
    host.answers |= dict.fromkeys(paths, Answer(delay=0.05))
    late = robots(RULES, after=lambda: len(host.pages) == 40)
    slow = [site.add(late) for _ in range(4)]
    priorities = [4, 8, 2, 6, 3, 7, 1]
    requests = [
        {"url": one.url(f"/public/{priority}"), "priority": priority}
        for priority in priorities
        for one in slow
    ]
    requests += [{"url": one.url("/private"), "priority": 1} for one in slow]
    result = run_crawl(
        requests + [host.url(path) for path in paths], mode=mode, settings=FOUR
    )
    assert len(host.pages) == 40
    assert host.at_once == 4
    for one in slow:
        robotstxt, *pages = one.hits
        assert robotstxt.path == "/robots.txt"
        assert host.hits[-1].time < pages[0].time
        assert sorted(hit.path for hit in pages) == [
            f"/public/{priority}" for priority in sorted(priorities)
        ]
    assert "log_count/ERROR" not in result.stats, result.log


def test_the_order_of_priority(site: Site, mode: str) -> None:
    """Requests that waited for robots.txt are sent in the order of their priority."""
    host = site.add(robots(RULES, delay=1))
    priorities = [3, 9, 1, 7, 5, 8, 2, 6, 4, 0]
    requests = [{"url": host.url(f"/{one}"), "priority": one} for one in priorities]
    run_crawl(requests, mode=mode, settings={"CONCURRENT_REQUESTS": 1})
    pages = [hit.path for hit in host.hits if hit.path != "/robots.txt"]
    assert pages == [f"/{one}" for one in range(9, -1, -1)]


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
            **COUNTING,
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
    assert [len(item["files"]) for item in result.items if "file_urls" in item] == [
        10,
        10,
    ]
    assert result.stats["passes"] <= 2 * (42 + 20)
    for item in result.items:
        assert not [key for key in item.get("meta", ()) if key.startswith("_rep")]
