"""A robots.txt from a public address is not redirected to a private address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer, redirect, robots
from tests.crawl.crawl import CrawlResult, run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.newest

RULES = robots("User-agent: *\nDisallow: /private\n")
SAYS = "at a private address (REP_REDIRECT_PRIVATE)"

INSIDE = [
    "127.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.1.",
    "１２７.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0", "localhost", "a.localhost",
    "inside.example",
]  # fmt: skip
"""Spellings of the address of a host on 127.0.0.1."""


NAMES = {
    "outside.example": ["127.9.0.1"],
    "inside.example": ["127.0.0.1"],
    "rebound.example": ["127.9.0.1", "127.0.0.1"],
}


def outside(site: Site, robotstxt: Answer) -> Host:
    """Add a host with an address that the crawl takes for public."""
    return site.add(robotstxt, name="127.9.0.1")


def crawl(hosts: list[Host], mode: str, **settings: object) -> CrawlResult:
    urls = [host.url(path) for host in hosts for path in ("/private", "/public")]
    spider = "tests.crawl.boundary_spiders.BoundarySpider"
    settings = {"REP_RETRY_TIMES": 0, **settings}
    return run_crawl(urls, mode=mode, spider=spider, settings=settings, names=NAMES)


def check_refused(hosts: list[Host], result: CrawlResult) -> None:
    """Check that no page of *hosts* was fetched, and that the log says why."""
    for host in hosts:
        assert host.pages == []
        assert result.error(host.url("/public"))["reason"] == "unreachable"
        warning = result.lines("WARNING", f"{host.robotstxt} is unreachable", SAYS)
        assert len(warning) == 1, result.log


def check_obeyed(hosts: list[Host]) -> None:
    assert [host.pages for host in hosts] == [["/public"]] * len(hosts)


def test_into_the_network(site: Site, every_mode: str) -> None:
    """A redirect from a public to a private address is not followed, in any spelling of the
    address, nor after a second redirect.
    """
    target = site.add(RULES)
    places = [f"http://{host}:{target.port}/robots.txt" for host in INSIDE]
    # Headers are sent in Latin-1; this sends the bytes of UTF-8.
    written = [place.encode().decode("latin-1") for place in places]
    hosts = [outside(site, redirect(place)) for place in written]
    hosts += [outside(site, redirect(host.robotstxt)) for host in hosts[::4]]
    result = crawl(hosts, every_mode)
    assert target.hits == []
    check_refused(hosts, result)
    assert result.stats["rep/robotstxt/unreachable"] == len(hosts)


def test_where_else_it_may_lead(site: Site, every_mode: str) -> None:
    """Redirects from public to public and from private to any address are followed, but not
    from there back to a private one.
    """
    anywhere, inside = outside(site, RULES), site.add(RULES)
    to_name = redirect(f"http://outside.example:{anywhere.port}/robots.txt")
    good = [
        outside(site, redirect(anywhere.robotstxt)),
        outside(site, to_name),
        outside(site, redirect("/moved")),
        site.add(redirect(inside.robotstxt)),
        site.add(redirect(anywhere.robotstxt)),
    ]
    good[2].answers["/moved"] = RULES
    back_in = outside(site, redirect(inside.robotstxt))
    bad = [site.add(redirect(back_in.robotstxt))]
    result = crawl(good + bad, every_mode)
    for host in good:
        assert "/private" not in host.pages
        assert "/public" in host.pages
    check_refused(bad, result)


def test_another_address_at_the_second_look(site: Site, every_mode: str) -> None:
    """If a name resolves to a public address at first and to a private one for the
    connection, the response is not used.
    """
    target = site.add(RULES)
    host = outside(site, redirect(f"http://rebound.example:{target.port}/robots.txt"))
    result = crawl([host], every_mode, DNSCACHE_ENABLED=False)
    check_refused([host], result)


def test_it_can_be_allowed(site: Site, mode: str) -> None:
    """With REP_REDIRECT_PRIVATE, redirects to private addresses are followed."""
    target = site.add(RULES)
    names = ("127.0.0.1", "localhost", "inside.example")
    places = [f"http://{name}:{target.port}/robots.txt" for name in names]
    hosts = [outside(site, redirect(place)) for place in places]
    crawl(hosts, mode, REP_REDIRECT_PRIVATE=True)
    check_obeyed(hosts)


def test_through_a_proxy(site: Site, mode: str) -> None:
    """Through a proxy, a redirect to a private address in the URL is refused,
    and one to a host name is followed, as the proxy resolves it. The address of
    the proxy does not matter.
    """
    proxy = site.add()
    for name, target in (("bad", "http://10.0.0.1"), ("good", "http://b.example")):
        asked = f"http://{name}.example/robots.txt"
        proxy.answers[asked] = redirect(f"{target}/robots.txt")
        proxy.answers[f"{target}/robots.txt"] = RULES
    urls = [
        f"http://{name}.example/{path}" for name in ("bad", "good") for path in "ab"
    ]
    requests = [{"url": url, "meta": {"proxy": proxy.origin}} for url in urls]
    result = run_crawl(requests, mode=mode, settings={"REP_RETRY_TIMES": 0})
    assert proxy.hits_on("http://10.0.0.1/robots.txt") == []
    assert result.fetched() == ["http://good.example/a", "http://good.example/b"]
    assert result.lines("WARNING", "http://bad.example/robots.txt", SAYS)
