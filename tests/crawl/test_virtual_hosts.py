"""Requests with a ``Host`` header of their own: the robots.txt of that virtual host applies."""

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
BOTH = [
    *[("address", "/b"), ("address", "/robots.txt")],
    *[(NAME, "/a"), (NAME, "/robots.txt")],
]


@pytest.fixture
def host(site: Site) -> Host:
    """An address whose robots.txt forbids /a, and where v.example forbids /b."""
    host = site.add(NO_A)
    host.answers[f"{NAME}/robots.txt"] = robots(NO_B)
    return host


def request(host: Host, path: str, name: object = NAME) -> dict[str, Any]:
    headers = {} if name is None else {"Host": name}
    return {"url": host.url(path), "headers": headers, "dont_filter": True}


def all_pages(host: Host) -> list[dict[str, Any]]:
    return [request(host, path, name) for name in (None, NAME) for path in ("/a", "/b")]


def served(host: Host) -> list[tuple[str, str]]:
    """Return the paths that were requested at the address and at v.example, sorted."""
    address = host.origin.partition("://")[2]
    names = [hit.headers["Host"].replace(address, "address") for hit in host.hits]
    return sorted(zip(names, (hit.path for hit in host.hits), strict=True))


def denied(result: CrawlResult) -> set[tuple[str, str]]:
    return {
        (error["url"], error["robotstxt_url"])
        for error in result.errors
        if error["reason"] == "rule"
    }


def test_each_virtual_host_has_its_own_robotstxt(
    host: Host, mode: str, tmp_path: Path
) -> None:
    """The robots.txt and tdmrep.json of a virtual host are requested at the same address with the
    same header. They are kept apart: in a store, in the ledger and in the queue, also if another
    robots.txt is unreachable.
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
    of_tdm = [("address", WELL_KNOWN), (NAME, WELL_KNOWN)]
    assert served(host) == sorted([*BOTH, *of_tdm, (DOWN, "/robots.txt")])
    assert result.error(host.url("/c"))["reason"] == "unreachable"
    name = f"{host.robotstxt}#Host:{DOWN}"
    assert len(result.lines("WARNING", f"{name} is unreach")) == 1
    virtual = f"{host.origin}#Host:{NAME}"
    by_rules = {
        (host.url("/a"), host.robotstxt),
        (host.url("/b"), f"{host.robotstxt}#Host:{NAME}"),
    }
    assert denied(result) == by_rules
    assert [item["url"] for item in result.items] == [host.url("/b")]
    query = """SELECT d.origin, s.origin AS file, verdict FROM decision d
        LEFT JOIN snapshot s ON s.id = d.snapshot WHERE s.status = 200 OR layer = 'usage'"""
    assert {tuple(row.values()) for row in rows(ledger, query)} == {
        (host.origin, host.origin, "refused"),
        (virtual, None, "dropped"),
        (virtual, virtual, "refused"),
    }
    host.site.log.clear()
    again = run_crawl(all_pages(host), mode=mode, **arguments)
    assert served(host) == [("address", "/b"), (NAME, "/a")]
    assert denied(again) == by_rules


def test_redirects_ask_each_site_by_its_own_name(
    site: Site, host: Host, mode: str
) -> None:
    """A header that is set for all requests does not change which site this package asks: each
    robots.txt is that of its own site. A redirect to a path is followed at the virtual host; another
    address does not get its name. A header that names the host of the URL changes nothing.
    """
    other = site.add(NO_B)
    other.answers[f"{NAME}/robots.txt"] = robots("", status=404)
    host.answers[f"{NAME}/robots.txt"] = redirect("/other.txt")
    host.answers[f"{NAME}/other.txt"] = redirect(other.robotstxt)
    address = host.origin.partition("://")[2]
    requests = [host.url("/a"), host.url("/b"), request(host, "/c", address)]
    settings = {"DEFAULT_REQUEST_HEADERS": {"host": NAME}}
    run_crawl(requests, mode=mode, settings=settings)
    assert served(host) == [
        *[("address", "/c"), ("address", "/robots.txt")],
        *[(NAME, "/a"), (NAME, "/other.txt"), (NAME, "/robots.txt")],
    ]
    assert [name for name, _ in served(other)] == ["address"]


def test_overrides_go_by_virtual_host_and_delays_by_address(site: Site) -> None:
    """An override for the name applies to the virtual host; one for the address does not. The delay
    that a virtual host asks for applies to all requests to its address. A request whose header is no
    host, or is repeated, is refused.
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
            *[request(host, f"/{at}", name) for at, name in enumerate(names)],
            *[request(slow, path) for path in ("/1", "/2")],
        ],
        then=[request(slow, "/3", None), request(slow, "/4")],
        settings={"REP_OVERRIDES": dict.fromkeys(["127.0.0.2", overridden], "ignore")},
    )
    everything = [
        (name, path) for name in ("address", overridden) for path in ("/a", "/b")
    ]
    assert served(host) == [*everything[:2], *BOTH[2:], *everything[2:]]
    refused = [error["url"] for error in result.errors if error["reason"] == "bad-url"]
    assert sorted(refused) == [host.url(f"/{at}") for at in range(len(names))]
    times = [hit.time for hit in slow.hits if hit.path != "/robots.txt"]
    assert len(times) == 4
    assert min(after - before for before, after in pairwise(times)) >= 0.5


def test_what_is_sent_without_the_header_is_judged_again(host: Host) -> None:
    """What is sent is judged: by the robots.txt of the host that is asked then."""
    middleware = "tests.crawl.component_spiders.RemoveHost"
    result = run_crawl(
        [request(host, path) for path in ("/a", "/b")],
        settings={"DOWNLOADER_MIDDLEWARES": {middleware: 543}},
    )
    assert host.pages == []
    assert len(result.errors) == 2
