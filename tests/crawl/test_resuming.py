"""A crawl with a JOBDIR that is stopped while requests wait for
robots.txt loses none of them.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.answers import Answer, robots
from tests.crawl.crawl import start_crawl, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

RULES = "User-agent: *\nDisallow: /private/\n"
ALLOWED = [f"/public/{number}" for number in range(20)]
FORBIDDEN = [f"/private/{number}" for number in range(10)]
DOWN, HANGS = Answer(status=503), Answer(hang=True)
STOPS = {
    "closed by itself": {"settings": {"CLOSESPIDER_TIMEOUT": 3}},
    "SIGINT": {"is_stopped": True},
}


def part_of_crawl(
    hosts: list[Host],
    folder: Path,
    spider: str = "HurriedSpider",
    settings: dict[str, Any] | None = None,
    *,
    is_stopped: bool = False,
    **kwargs: Any,
) -> CrawlResult:
    """Crawl all URLs of *hosts*; in later runs, the duplicate filter drops them.

    If it *is stopped*, the crawl gets SIGINT once it has contacted each host and fetched
    all that it can.
    """
    times = {host: len(host.robots_hits) for host in hosts}
    crawl = start_crawl(
        [host.url(path) for path in ALLOWED + FORBIDDEN for host in hosts],
        spider=f"tests.crawl.waiting_spiders.{spider}",
        settings={
            "CONCURRENT_REQUESTS": 8,
            "JOBDIR": str(folder),
            "REP_WAIT_MAX": 30,
            **(settings or {}),
        },
        **kwargs,
    )

    def has_met(host: Host) -> bool:
        if host.answers["/robots.txt"] is DOWN:  # It has been retried.
            return len(host.robots_hits) > times[host] + 1
        if host.answers["/robots.txt"] is HANGS:
            return len(host.robots_hits) > times[host]
        return len(host.pages) == len(ALLOWED)

    if is_stopped:
        ended = crawl.process.poll
        wait_until(lambda: all(map(has_met, hosts)) or ended() is not None)
        crawl.process.send_signal(signal.SIGINT)
    return crawl.result()


def back(hosts: list[Host]) -> None:
    for host in hosts:
        host.answers["/robots.txt"] = robots(RULES)


def check_nothing_lost(hosts: list[Host], *results: CrawlResult) -> None:
    for host in hosts:
        assert host.pages == sorted(ALLOWED)
    errors = [error for result in results for error in result.errors]
    assert sorted(error["url"] for error in errors) == sorted(
        host.url(path) for path in FORBIDDEN for host in hosts
    )
    for result in results:
        assert "log_count/ERROR" not in result.stats, result.log
    assert results[-1].stats["finish_reason"] == "finished"


@pytest.mark.parametrize("stop", STOPS)
def test_stopped_while_some_are_held(
    site: Site, mode: str, stop: str, tmp_path: Path
) -> None:
    """A crawl that is stopped by an extension or a signal while requests wait for
    robots.txt can be resumed without loss.
    """
    hosts = [site.add(DOWN), site.add(HANGS), site.add(RULES)]
    first = part_of_crawl(hosts, tmp_path, mode=mode, **STOPS[stop])
    assert first.stats["finish_reason"] != "finished"
    assert first.stats["elapsed_time_seconds"] < 25
    assert [host.pages for host in hosts] == [[], [], sorted(ALLOWED)]
    back(hosts)
    second = part_of_crawl(hosts, tmp_path, mode=mode)
    check_nothing_lost(hosts, first, second)
