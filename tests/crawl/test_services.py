"""Services that render or fetch the pages of a site for a crawl."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pytest

from tests.crawl.answers import Answer
from tests.crawl.crawl import CrawlResult, run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Host, Site

DELAY = 0.3
RULES = f"User-agent: *\nDisallow: /private\nCrawl-delay: {DELAY}\n"
PAGES = 4
MIDDLEWARES = "tests.crawl.service_middlewares"


def crawl(requests: list[Any], service: Host, kind: str) -> CrawlResult:
    settings = {
        "DOWNLOADER_MIDDLEWARES": {f"{MIDDLEWARES}.{kind}": 725},
        "SERVICE_URL": service.origin,
    }
    return run_crawl(requests, settings=settings)


def gaps(service: Host, site: Host) -> list[float]:
    """Return the seconds between successive requests to *service* for pages of *site*."""
    times = [
        hit.time for hit in service.hits if unquote(hit.path).endswith(f"/{site.port}")
    ]
    return [after - before for before, after in pairwise(times)]


@pytest.mark.parametrize("kind", ["Service", "ExemptService"])
def test_the_delay_is_that_of_the_site(site: Site, kind: str) -> None:
    """A service gets the requests for one site with the Crawl-delay of that site, and those
    for different sites independently.
    """
    service = site.add(name="127.0.0.9")
    hosts = [site.add(RULES, name=f"127.0.0.{number}") for number in (2, 3, 4)]
    urls = [
        host.url(f"/{number}/{host.port}") for number in range(PAGES) for host in hosts
    ]
    result = crawl(urls, service, kind)
    assert len(result.responses) == len(urls), result.log
    for host in hosts:
        assert host.pages == []
        kept = gaps(service, host)
        assert len(kept) == PAGES - 1
        assert min(kept) >= DELAY
    assert min(service.gaps) < DELAY, "The sites waited for each other"


@pytest.mark.newest
def test_the_slot_of_a_site(site: Site) -> None:
    """Requests to a service in the download slot of a site keep the Crawl-delay of the site, and a
    host with a Crawl-delay keeps its own also in the download slot of another host.
    """
    first, second = (site.add(RULES, name=f"127.0.0.{number}") for number in (2, 3))
    service = site.add(name="127.0.0.9")
    rendered = [
        {
            "url": service.url(f"/{number}"),
            "meta": {"download_slot": first.name, "rendered": "yes"},
        }
        for number in range(3)
    ]
    slotted = [
        {"url": second.url(f"/{slot}/{number}"), "meta": {"download_slot": slot}}
        for number in range(2)
        for slot in (first.name, second.name)
    ]
    # The second step begins when the delays are known.
    known = [host.url("/known") for host in (first, second)]
    result = run_crawl(known, then=[*rendered, *slotted])
    assert len(result.responses) == 9, result.log
    assert min(second.gaps) >= DELAY
    times = sorted(hit.time for host in (first, service) for hit in host.hits[1:])
    assert len(times) == 4
    assert min(after - before for before, after in pairwise(times)) >= DELAY


@pytest.mark.newest
def test_where_the_service_has_landed(site: Site) -> None:
    """A response of a service that ended at another URL is judged by that URL."""
    service = site.add(name="127.0.0.9")
    host = site.add("User-agent: *\nDisallow: /private\n", name="127.0.0.2")
    for path in ("/moved", "/exempt"):
        landed = {"X-Landed": host.url("/private"), "Content-Type": "text/html"}
        target = f"/render?url={quote(host.url(path), safe='')}"
        service.answers[target] = Answer(b"<html></html>", headers=landed)
    exempt = {"url": host.url("/exempt"), "meta": {"dont_obey_robotstxt": True}}
    urls = [host.url("/private"), host.url("/moved"), host.url("/fine"), exempt]
    result = crawl(urls, service, "ExemptService")
    assert sorted(response["url"] for response in result.responses) == [
        host.url("/fine"), host.url("/private")
    ]  # fmt: skip
    assert [error["reason"] for error in result.errors] == ["rule", "rule"]
    arrived = [
        each["message"] for each in result.errors if "arrived" in each["message"]
    ]
    assert len(arrived) == 1
    assert result.stats["rep/browser/arrived"] == 1


def test_no_encoding_is_asked_for(site: Site, mode: str) -> None:
    """The requests for robots.txt and tdmrep.json ask for no encoding, whatever download
    handler sends them, also if the spider's requests ask for one.
    """
    host = site.add(RULES)
    request = {"url": host.url("/"), "headers": {"Accept-Encoding": "gzip"}}
    run_crawl([request], mode=mode, settings={"REP_PURPOSES": ["tdm"]})
    page, *own = sorted(host.hits, key=lambda hit: hit.path)
    assert len(own) == 2
    assert {hit.headers["Accept-Encoding"] for hit in own} == {"identity"}
    assert page.headers["Accept-Encoding"] == "gzip"
