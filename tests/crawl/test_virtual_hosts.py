"""Requests with a ``Host`` header of their own: the robots.txt of that virtual host applies."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.answers import Answer, redirect, robots
from tests.crawl.crawl import run_crawl
from tests.crawl.test_ledger import rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

NO_A, NO_B = "User-agent: *\nDisallow: /a\n", "User-agent: *\nDisallow: /b\n"
NAME = "v.example"


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


BOTH = [
    ("address", "/b"),
    ("address", "/robots.txt"),
    (NAME, "/a"),
    (NAME, "/robots.txt"),
]


def check_denied(host: Host, result: CrawlResult) -> None:
    found = {
        error["url"]: error["robotstxt_url"]
        for error in result.errors
        if error["reason"] == "rule"
    }
    assert found == {
        host.url("/a"): host.robotstxt,
        host.url("/b"): f"{host.robotstxt}#Host:{NAME}",
    }


def test_each_has_its_own(host: Host, mode: str, tmp_path: Path) -> None:
    """The robots.txt of a virtual host is requested at the same address with the same header.
    It is kept apart: in a store, in the ledger and in the queue, also if another is unreachable.
    """
    host.answers["down.example/robots.txt"] = Answer(status=503)
    down = request(host, "/c", "down.example")
    ledger, store = tmp_path / "ledger.sqlite", tmp_path / "store.sqlite"
    settings = {"REP_STORE": f"sqlite:///{store}", "REP_LEDGER": str(ledger)}
    result = run_crawl([*all_pages(host), down], mode=mode, settings=settings)
    assert served(host) == sorted([*BOTH, ("down.example", "/robots.txt")])
    assert result.error(host.url("/c"))["reason"] == "unreachable"
    name = f"{host.robotstxt}#Host:down.example"
    assert len(result.lines("WARNING", f"{name} is unreach")) == 1
    check_denied(host, result)
    found = rows(ledger, "SELECT origin FROM snapshot WHERE status = 200 ORDER BY 1")
    origins = [host.origin, f"{host.origin}#Host:{NAME}"]
    assert [row["origin"] for row in found] == origins
    refused = "SELECT d.origin, s.origin AS file FROM decision d JOIN snapshot s ON s.id = snapshot"
    found = rows(ledger, f"{refused} WHERE s.status = 200 ORDER BY 1")
    assert [(row["origin"], row["file"]) for row in found] == [
        (origin, origin) for origin in origins
    ]
    host.site.log.clear()
    again = run_crawl(all_pages(host), mode=mode, settings=settings)
    assert served(host) == [("address", "/b"), (NAME, "/a")]
    check_denied(host, again)


def test_set_for_all_requests(site: Site, mode: str) -> None:
    """A header that is set for all requests does not change which site this package asks: each
    robots.txt is that of its own site, also after a redirect to another one.
    """
    other = site.add(NO_B)
    other.answers[f"{NAME}/robots.txt"] = robots("", status=404)
    host = site.add(NO_A)
    host.answers[f"{NAME}/robots.txt"] = redirect(other.robotstxt)
    settings = {"DEFAULT_REQUEST_HEADERS": {"host": NAME}}
    run_crawl([host.url("/a"), host.url("/b")], mode=mode, settings=settings)
    assert served(host) == [
        ("address", "/robots.txt"),
        (NAME, "/a"),
        (NAME, "/robots.txt"),
    ]
    assert [name for name, _ in served(other)] == ["address"]


def test_what_names_no_other_site(host: Host) -> None:
    """A header that names the host of the URL changes nothing; a request whose header is no host,
    or is repeated, is refused.
    """
    same = host.origin.partition("://")[2]
    names = ["", "a b", "u@v.example", "v.example/b", "v%2eexample", [NAME, NAME]]
    requests = [request(host, f"/{at}", name) for at, name in enumerate(names)]
    result = run_crawl([request(host, "/b", same), *requests])
    assert served(host) == [("address", "/b"), ("address", "/robots.txt")]
    for at in range(len(names)):
        assert result.error(host.url(f"/{at}"))["reason"] == "bad-url"


@pytest.mark.parametrize(
    ("pattern", "also"), [(NAME, (NAME, "/b")), ("127.0.0.1", ("address", "/a"))]
)
def test_overrides(host: Host, pattern: str, also: tuple[str, str]) -> None:
    """An override for the name applies to the virtual host; one for the address does not."""
    run_crawl(all_pages(host), settings={"REP_OVERRIDES": {pattern: "ignore"}})
    assert served(host) == sorted({*BOTH, also} - {(also[0], "/robots.txt")})


def test_a_delay(host: Host) -> None:
    """The delay that a virtual host asks for applies to all requests to its address."""
    host.answers[f"{NAME}/robots.txt"] = robots("User-agent: *\nCrawl-delay: 0.5\n")
    first = [request(host, path) for path in ("/1", "/2")]
    run_crawl(first, then=[request(host, "/3", None), request(host, "/4")])
    times = [hit.time for hit in host.hits if hit.path != "/robots.txt"]
    assert len(times) == 4
    assert min(after - before for before, after in pairwise(times)) >= 0.5


def test_redirects(site: Site, host: Host) -> None:
    """A redirect to a path is followed at the virtual host; another address does not get its
    name.
    """
    other = site.add()
    host.answers[f"{NAME}/robots.txt"] = redirect("/other.txt")
    host.answers[f"{NAME}/other.txt"] = redirect(other.url("/b.txt"))
    other.answers["/b.txt"] = robots(NO_B)
    run_crawl([request(host, "/a"), request(host, "/b")])
    assert served(host) == [(NAME, "/a"), (NAME, "/other.txt"), (NAME, "/robots.txt")]
    (hit,) = other.hits
    assert hit.headers["Host"] == other.origin.partition("://")[2]


def test_tdmrep(host: Host, tmp_path: Path) -> None:
    """The tdmrep.json of a virtual host is its own; so is what it says about a page."""
    ledger = tmp_path / "ledger.sqlite"
    path = "/.well-known/tdmrep.json"
    reserved = b'[{"location": "/", "tdm-reservation": 1}]'
    host.answers[f"{NAME}{path}"] = Answer(reserved)
    host.answers[path] = Answer(b"[]")
    result = run_crawl(
        [request(host, "/b", None), request(host, "/a")],
        spider="tests.crawl.page_spiders.PageSpider",
        settings={"REP_PURPOSES": ["tdm"], "REP_LEDGER": str(ledger)},
    )
    assert served(host) == sorted([*BOTH, ("address", path), (NAME, path)])
    assert [item["url"] for item in result.items] == [host.url("/b")]
    (row,) = rows(ledger, "SELECT origin, url, verdict FROM decision")
    origin = f"{host.origin}#Host:{NAME}"
    assert tuple(row.values()) == (origin, host.url("/a"), "dropped")
