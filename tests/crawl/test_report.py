"""The report of a real crawl."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.report import shown
from scrapy_rep.report.ledgers import Ledgers, Limits
from scrapy_rep.report.tables import overall
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
    slow = site.add(
        f"User-agent: *\nDisallow: /no\nCrawl-delay: {DELAY}\n", name="127.0.0.2"
    )
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
    with closing(Ledgers([str(ledger)], Limits())) as ledgers:
        headline = overall(ledgers, 0.0)["headline"]
        hosts = {host["origin"]: host for host in ledgers.view("host")}
        urls = ledgers.view("judged_url").fetchall()
        without = {
            shown.status(one["status"], one["error"]): (
                one["origin"], one["hosts"], one["allowed"],
            )
            for one in ledgers.view("without")
        }  # fmt: skip
        (outage,) = ledgers.view("outage")
    assert headline == "0 of 15 pages fetched were forbidden"
    assert hosts[slow.origin]["delay"] == DELAY
    assert DELAY * 0.9 < hosts[slow.origin]["gap"] < 20
    assert without == {
        "404 Not Found": (none.origin, 1, 4),
        "403 Forbidden": (closed.origin, 1, 4),
        "redirected more than 5 times (301 Moved Permanently)": (
            loop.origin, 1, 4,
        ),
    }  # fmt: skip
    assert (outage["origin"], outage["error"]) == (refused.origin, "connection refused")
    (one,) = (one for one in urls if one["origin"] == slow.origin)
    assert (one["url"], one["line"], one["statement"]) == (
        slow.url("/no"), 2, "Disallow: /no",
    )  # fmt: skip
    of_owned = [one for one in urls if one["origin"] == owned.origin]
    assert {one["verdict"] for one in of_owned} == {"allowed", "refused"}
    assert {
        (one["refused_of_host"], one["overridden_of_host"]) for one in of_owned
    } == {(0, 4)}
