"""Whether the requests for tdmrep.json themselves keep to robots.txt."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import HANGS, Answer, busy, redirect
from tests.crawl.crawl import CrawlResult, run_crawl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Host, Site

WELL_KNOWN = "/.well-known/tdmrep.json"
TDMREP = b'[{"location": "/", "tdm-reservation": 1}]'
RULES = "User-agent: *\nDisallow: /secret\n"
OPEN = "User-agent: *\nDisallow:\n"


def moved(site: Site, target: str, robots: str = OPEN) -> Host:
    host = site.add(robots)
    host.answers[WELL_KNOWN] = redirect(target)
    host.answers["/secret"] = host.answers["/policy"] = Answer(TDMREP)
    return host


def crawl(hosts: list[Host], mode: str = "asyncio", **settings: object) -> CrawlResult:
    return run_crawl(
        [host.url("/page") for host in hosts],
        spider="tests.crawl.page_spiders.PageSpider",
        mode=mode,
        settings={"REP_PURPOSES": ["tdm"], **settings},
    )


def test_a_redirect_to_a_forbidden_page(site: Site, mode: str, tmp_path: Path) -> None:
    """A redirect of tdmrep.json is followed only where the robots.txt of its target allows
    that, on the same host and on others, in each form in which a server may see the URL. What
    is forbidden is logged, recorded, and counts as unreachable.
    """
    other = site.add(RULES)
    other.answers["/secret"] = other.answers["/policy"] = Answer(TDMREP)
    hosts = [
        moved(site, "/secret", RULES),
        moved(site, other.url("/secret")),
        moved(site, other.url("/a/..%2Fsecret/%2e./../secret")),
    ]
    allowed = moved(site, other.url("/policy"))
    ledger = tmp_path / "ledger.sqlite"
    result = crawl([*hosts, allowed], mode, REP_LEDGER=str(ledger))
    assert [host.pages for host in hosts] == [[WELL_KNOWN, "/page"]] * 3
    assert other.pages == ["/policy"]
    assert len(other.robots_hits) == 1
    assert {item["url"] for item in result.items} == {
        host.url("/page") for host in hosts
    }
    assert result.stats["rep/tdmrep/unreachable"] == 3
    assert result.stats["rep/tdmrep/successful"] == 1
    assert result.stats["rep/robotstxt/successful"] == 5
    assert result.stats["rep/denied/rule"] == 3
    why = f"Forbidden by {other.robotstxt}, line 2 (disallow: /secret)"
    assert result.lines("DEBUG", hosts[1].url(WELL_KNOWN), "is unreachable", why)
    with closing(sqlite3.connect(ledger)) as database:
        rows = database.execute("SELECT url FROM decision WHERE verdict = 'refused'")
        assert len(rows.fetchall()) == 3


def test_redirects_in_a_circle(site: Site, mode: str) -> None:
    """Two hosts whose tdmrep.json is at the other one do not wait for each other."""
    one, two = site.add(OPEN), site.add(OPEN)
    for host, other in ((one, two), (two, one)):
        host.answers[WELL_KNOWN] = redirect(other.url("/policy"))
        host.answers["/policy"] = Answer(TDMREP)
    result = crawl([one, two], mode)
    assert [host.pages for host in (one, two)] == [[WELL_KNOWN, "/page", "/policy"]] * 2
    assert len(one.robots_hits) == len(two.robots_hits) == 1
    assert result.items == []
    assert result.stats["elapsed_time_seconds"] < 30


def test_a_spider_that_closes(site: Site, mode: str) -> None:
    """A spider that closes does not wait for a tdmrep.json that never comes, nor for the
    robots.txt of a host to which it is redirected.
    """
    silent = site.add(HANGS)
    slow, host = site.add(OPEN), moved(site, silent.url("/policy"))
    slow.answers[WELL_KNOWN] = HANGS
    pages = [
        {"url": one.url("/page"), "meta": {"rep_purposes": ["tdm"]}}
        for one in (slow, host)
    ]
    result = run_crawl(pages, mode=mode, settings={"CLOSESPIDER_TIMEOUT": 1})
    assert slow.pages == host.pages == [WELL_KNOWN]
    assert len(silent.robots_hits) == 1
    assert result.stats["elapsed_time_seconds"] < 20
    assert "Traceback" not in result.log


@pytest.mark.newest
def test_agents_and_overrides(site: Site) -> None:
    """As for any request, the group of the User-Agent that is sent decides, or an override."""
    rules = "User-agent: special\nDisallow: /secret\n"
    other, overridden = site.add(rules), site.add(OPEN)
    for host in (other, overridden):
        host.answers["/secret"] = Answer(TDMREP)
    hosts = [moved(site, one.url("/secret")) for one in (other, overridden)]
    pattern = f"127.0.0.1:{overridden.port}"
    settings = {
        "REP_OVERRIDES": {pattern: "User-agent: *\nDisallow: /secret\n"},
        "USER_AGENT": "special/1.0",
    }
    result = crawl(hosts, **settings)
    assert len(result.items) == 2
    assert other.pages == overridden.pages == []
    assert overridden.robots_hits == []
    result = crawl(hosts, REP_OVERRIDES={pattern: "ignore"})
    assert other.pages == overridden.pages == ["/secret"]
    assert overridden.robots_hits == []
    assert result.items == []


def test_one_that_is_unreachable_at_a_host_with_a_delay(site: Site) -> None:
    """A page does not wait until a tdmrep.json is back, also if that is fetched again sooner than
    the page may be sent.
    """
    host = site.add("User-agent: *\nCrawl-delay: 2\n")
    host.answers[WELL_KNOWN] = busy(503, "1")
    crawl([host], CLOSESPIDER_TIMEOUT=60)
    assert host.pages == [WELL_KNOWN, "/page"]
