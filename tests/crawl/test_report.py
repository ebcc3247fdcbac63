"""The report of a real crawl."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.report.collect import Limits, collect
from scrapy_rep.report.scratch import Scratch
from scrapy_rep.report.words import headline, without_robotstxt
from tests.crawl.answers import Answer, redirect
from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Site

pytestmark = pytest.mark.newest

DELAY = 0.3


def test_a_crawl_and_its_report(site: Site, tmp_path: Path) -> None:
    """The report has the actual gap between requests, the hosts without a robots.txt, the
    unreachable host, and the refused and overridden URLs of the crawl.
    """
    slow = site.add(f"User-agent: *\nDisallow: /no\nCrawl-delay: {DELAY}\n")
    none, closed = site.add(), site.add(Answer(status=403))
    loop = site.add(redirect("/robots.txt", 301))
    owned, refused = site.add("User-agent: *\nDisallow: /\n"), site.refusing()
    ledger = tmp_path / "ledger.sqlite"
    answered = (slow, none, closed, loop, owned)
    run_crawl(
        [host.url(path) for host in answered for path in ("/1", "/2", "/3", "/no")]
        + [refused.url("/1")],
        settings={
            "REP_LEDGER": str(ledger),
            "REP_LEDGER_LEVEL": "all",
            "REP_OVERRIDES": {
                f"127.0.0.1:{owned.port}": "User-agent: *\nDisallow: /no"
            },
        },
    )
    with closing(Scratch([str(ledger)])) as scratch:
        report = collect(scratch, Limits())
        hosts = {host.origin: host for host in report.hosts}
        urls = {host.origin: host for host in report.urls}
    assert headline(report).sentence == "0 of 15 pages fetched were forbidden"
    gap = hosts[slow.origin].gap
    assert hosts[slow.origin].delay == DELAY
    assert gap is not None
    assert DELAY * 0.9 < gap < 20
    without = {
        without_robotstxt(one.status, one.error): (one.origins, one.allowed)
        for one in report.without.reasons
    }
    assert without == {
        "404 Not Found": ((none.origin,), 4),
        "403 Forbidden": ((closed.origin,), 4),
        "redirected more than 5 times, in a loop (301 Moved Permanently)": (
            (loop.origin,),
            4,
        ),
    }
    (outage,) = report.outages
    assert (outage.origin, outage.error) == (refused.origin, "connection refused")
    (one,) = urls[slow.origin].urls
    assert (one.url, one.line, one.statement) == (slow.url("/no"), 2, "Disallow: /no")
    (first, *others) = sorted(urls[owned.origin].urls, key=lambda one: one.verdict)
    assert {one.verdict for one in (first, *others)} == {"allowed", "refused"}
    assert (urls[owned.origin].refused, urls[owned.origin].overridden) == (0, 4)
