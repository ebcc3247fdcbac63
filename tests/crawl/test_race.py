"""However many requests wait for a robots.txt, it is fetched once, and all of them obey it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import robots
from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: *\nDisallow: /private/\n"


def test_fifty_requests_to_a_cold_host(site: Site, every_mode: str) -> None:
    """50 parallel requests to a host with a slow robots.txt cause one fetch of it, and no
    forbidden page is requested.
    """
    host = site.add(robots(RULES, delay=0.3))
    allowed = [f"/public/{number}" for number in range(25)]
    forbidden = [f"/private/{number}" for number in range(25)]
    paths = [path for pair in zip(forbidden, allowed, strict=True) for path in pair]
    settings = {
        "CONCURRENT_REQUESTS": 50,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    }
    result = run_crawl(map(host.url, paths), mode=every_mode, settings=settings)
    assert host.pages == sorted(allowed)
    assert len(host.robots_hits) == 1
    assert {error["error"] for error in result.errors} == {"RobotsDenied"}
    assert len(result.errors) == 25
    assert result.stats["robotstxt/forbidden"] == 25
    assert result.stats["robotstxt/request_count"] == 1
    assert "log_count/ERROR" not in result.stats, result.log


@pytest.mark.newest
def test_ports_schemes_and_names_are_hosts_apart(site: Site, mode: str) -> None:
    """Each port and scheme of a host name has its own robots.txt, and each name of an address."""
    hosts = {
        rule: site.add(
            robots(f"User-agent: *\nDisallow: {rule}\n", delay=0.1), tls=rule > "/b"
        )
        for rule in ("/a", "/b", "/c", "/d")
    }
    urls = [host.url(path) for path in hosts for host in hosts.values()]
    named = site.add("User-agent: *\nDisallow: /private\n")
    urls += [
        named.url("/public"),
        named.url("/public").replace("127.0.0.1", "localhost"),
    ]
    result = run_crawl(urls, mode=mode)
    assert len(named.robots_hits) == 2
    for rule, host in hosts.items():
        assert host.pages == sorted(set(hosts) - {rule})
        assert len(host.robots_hits) == 1
    assert sorted(error["url"] for error in result.errors) == sorted(
        host.url(rule) for rule, host in hosts.items()
    )
    assert result.stats["robotstxt/request_count"] == 4 + 2


def test_one_at_a_time(site: Site, every_mode: str) -> None:
    """With CONCURRENT_REQUESTS = 1, the robots.txt fetch does not wait for the
    request that waits for it.
    """
    hosts = [site.add(robots(RULES, delay=0.1)) for _ in range(3)]
    hosts[1].chain(3, robots(RULES))
    settings = {
        "CONCURRENT_REQUESTS": 1,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOAD_DELAY": 0.05,
    }
    paths = ("/private/1", "/public/1", "/public/2")
    urls = [host.url(path) for path in paths for host in hosts]
    run_crawl(urls, mode=every_mode, settings=settings)
    for host in hosts:
        pages = [path for path in host.pages if path in paths]
        assert pages == ["/public/1", "/public/2"]
        assert len(host.robots_hits) == 1
