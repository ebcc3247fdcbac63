"""Tests of requests with a ``Host`` header: the robots.txt of this virtual host applies."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.answers import Answer, redirect, robots
from tests.crawl.crawl import run_crawl
from tests.crawl.test_usage import rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

NO_A, NO_B = "User-agent: *\nDisallow: /a\n", "User-agent: *\nDisallow: /b\n"
NAME, DOWN = "v.example", "down.example"
WELL_KNOWN = "/.well-known/tdmrep.json"
RESERVED = Answer(b'[{"location": "/", "tdm-reservation": 1}]')
ALLOWED_REQUESTS = [
    *[("address", "/b"), ("address", "/robots.txt")],
    *[(NAME, "/a"), (NAME, "/robots.txt")],
]
"""The requests for the pages that are allowed at the address and at v.example, and for both robots.txt files."""


@pytest.fixture
def host(site: Site) -> Host:
    """A host whose robots.txt forbids /a at the address, and /b at the virtual host v.example."""
    host = site.add(NO_A)
    host.answers[f"{NAME}/robots.txt"] = robots(NO_B)
    return host


def request(host: Host, path: str, name: object = NAME) -> dict[str, Any]:
    """Return a request with *name* as its ``Host`` header, or without the header if *name* is None."""
    headers = {} if name is None else {"Host": name}
    return {"url": host.url(path), "headers": headers, "dont_filter": True}


def all_pages(host: Host) -> list[dict[str, Any]]:
    """Return requests for /a and /b, at the address and at v.example."""
    return [request(host, path, name) for name in (None, NAME) for path in ("/a", "/b")]


def requested(host: Host) -> list[tuple[str, str]]:
    """Return the ``Host`` header and the path of each request in the access log, sorted. If the header is the address
    and port of *host*, "address" is returned in its place.
    """
    address = host.origin.partition("://")[2]
    names = [hit.headers["Host"].replace(address, "address") for hit in host.hits]
    return sorted(zip(names, (hit.path for hit in host.hits), strict=True))


def denied(result: CrawlResult) -> set[tuple[str, str]]:
    """Return the URLs that a rule has denied, each with the URL of the robots.txt."""
    return {
        (error["url"], error["robotstxt_url"])
        for error in result.errors
        if error["reason"] == "rule"
    }


def test_each_virtual_host_has_its_own_robotstxt(
    host: Host, mode: str, tmp_path: Path
) -> None:
    """The robots.txt and tdmrep.json of a virtual host are requested like its pages: at the same address, and with the
    same ``Host`` header. The store, the ledger and the queue keep the files of each virtual host apart, even if the
    robots.txt of another virtual host is unreachable.
    """
    host.answers[f"{DOWN}/robots.txt"] = Answer(status=503)
    host.answers[f"{NAME}{WELL_KNOWN}"] = RESERVED
    host.answers[WELL_KNOWN] = Answer(b"[]")
    ledger = tmp_path / "ledger.sqlite"
    settings = {
        "REP_LEDGER": str(ledger),
        "REP_PURPOSES": ["tdm"],
        "REP_STORE": f"sqlite:///{tmp_path}/store.sqlite",
    }
    arguments = {"spider": "tests.crawl.page_spiders.PageSpider", "settings": settings}
    requests = [*all_pages(host), request(host, "/c", DOWN)]
    result = run_crawl(requests, mode=mode, **arguments)
    tdmrep_requests = [("address", WELL_KNOWN), (NAME, WELL_KNOWN)]
    assert requested(host) == sorted(
        [*ALLOWED_REQUESTS, *tdmrep_requests, (DOWN, "/robots.txt")]
    )
    assert result.error(host.url("/c"))["reason"] == "unreachable"
    name = f"{host.robotstxt}#Host:{DOWN}"
    assert len(result.lines("WARNING", f"{name} is unreach")) == 1
    virtual = f"{host.origin}#Host:{NAME}"
    expected_denials = {
        (host.url("/a"), host.robotstxt),
        (host.url("/b"), f"{host.robotstxt}#Host:{NAME}"),
    }
    assert denied(result) == expected_denials
    assert [item["url"] for item in result.items] == [host.url("/b")]
    query = """SELECT d.origin, s.origin AS file, verdict FROM decision d
        LEFT JOIN snapshot s ON s.id = d.snapshot WHERE s.status = 200 OR layer = 'usage'"""
    assert {tuple(row.values()) for row in rows(ledger, query)} == {
        (host.origin, host.origin, "refused"),
        (virtual, None, "dropped"),
        (virtual, virtual, "refused"),
    }
    host.site.log.clear()
    second_result = run_crawl(all_pages(host), mode=mode, **arguments)
    assert requested(host) == [("address", "/b"), (NAME, "/a")]
    assert denied(second_result) == expected_denials


def test_a_host_header_for_all_requests_does_not_change_whose_robotstxt_is_fetched(
    site: Site, host: Host, mode: str
) -> None:
    """DEFAULT_REQUEST_HEADERS sets "Host: v.example" in all requests that have no ``Host`` header. Nevertheless, the
    robots.txt for each page is requested from the right host:

    - Pages with "Host: v.example" obey the robots.txt of v.example, which is requested with the same header.
    - If the robots.txt of v.example redirects to a path, the path is requested with the same header.
    - If the redirect leads to another address, "Host: v.example" is not sent there.
    - Pages whose own ``Host`` header is the address in their URL obey the robots.txt of the address.
    """
    other = site.add(NO_B)
    other.answers[f"{NAME}/robots.txt"] = robots("", status=404)
    host.answers[f"{NAME}/robots.txt"] = redirect("/other.txt")
    host.answers[f"{NAME}/other.txt"] = redirect(other.robotstxt)
    address = host.origin.partition("://")[2]
    requests = [host.url("/a"), host.url("/b"), request(host, "/c", address)]
    settings = {"DEFAULT_REQUEST_HEADERS": {"host": NAME}}
    run_crawl(requests, mode=mode, settings=settings)
    assert requested(host) == [
        *[("address", "/c"), ("address", "/robots.txt")],
        *[(NAME, "/a"), (NAME, "/other.txt"), (NAME, "/robots.txt")],
    ]
    assert [name for name, _ in requested(other)] == ["address"]


def test_overrides_apply_to_virtual_hosts_and_delays_to_addresses(site: Site) -> None:
    """An override for the name of a virtual host applies to it, and an override for the address does not. The
    Crawl-delay of a virtual host applies to all requests to its address. A request whose ``Host`` header is
    invalid or repeated is refused.
    """
    host, slow = site.add(NO_A, name="127.0.0.2"), site.add(name="127.0.0.3")
    host.answers[f"{NAME}/robots.txt"] = robots(NO_B)
    slow.answers[f"{NAME}/robots.txt"] = robots("User-agent: *\nCrawl-delay: 0.5\n")
    overridden = "w.example"
    names = ["", "a b", "u@v.example", "v.example/b", "v%2eexample", [NAME, NAME]]
    result = run_crawl(
        [
            *all_pages(host),
            *[request(host, path, overridden) for path in ("/a", "/b")],
            *[request(host, f"/{number}", name) for number, name in enumerate(names)],
            *[request(slow, path) for path in ("/1", "/2")],
        ],
        then=[request(slow, "/3", None), request(slow, "/4")],
        settings={"REP_OVERRIDES": dict.fromkeys(["127.0.0.2", overridden], "ignore")},
    )
    all_requests = [
        (name, path) for name in ("address", overridden) for path in ("/a", "/b")
    ]
    assert requested(host) == [
        *all_requests[:2],
        *ALLOWED_REQUESTS[2:],
        *all_requests[2:],
    ]
    refused = [error["url"] for error in result.errors if error["reason"] == "bad-url"]
    assert sorted(refused) == [host.url(f"/{number}") for number in range(len(names))]
    times = [hit.time for hit in slow.hits if hit.path != "/robots.txt"]
    assert len(times) == 4
    assert min(after - before for before, after in pairwise(times)) >= 0.5


def test_a_request_whose_host_header_is_removed_is_judged_again(host: Host) -> None:
    """A middleware removes the header. The robots.txt of the host to which the request is then sent applies."""
    middleware = "tests.crawl.component_spiders.RemoveHost"
    result = run_crawl(
        [request(host, path) for path in ("/a", "/b")],
        settings={"DOWNLOADER_MIDDLEWARES": {middleware: 543}},
    )
    assert host.pages == []
    assert len(result.errors) == 2
