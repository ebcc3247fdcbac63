"""Tests of the records of a crawl: its ledger, which agrees with the access log of the server, the report on
the ledger, and the log lines about refused requests and dropped items.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.crawl.ledger.reader import open_ledger
from scrapy_rep.tools.report import answers
from scrapy_rep.tools.report.answers import overall
from scrapy_rep.tools.report.ledgers import ReportLedgers, ReportLimits
from tests.crawl import disks
from tests.crawl.answers import Answer, html, image, meta, redirect, robots
from tests.crawl.crawl import BY_HAND, run_crawl, start_crawl
from tests.crawl.disks import fill, small_disk

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Host, Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

RULES = "User-agent: *\nDisallow: /private/\nAllow: /private/open\n"
PAGES = "tests.crawl.page_spiders.PageSpider"
DRIVER = "tests.crawl.driver_middlewares.Driver"
ENDLESS = "tests.crawl.page_spiders.EndlessSpider"
DATA = {
    "/wp-json/wp/v2/shops": "application/json; charset=UTF-8",
    "/sitemap.xml": "text/xml; charset=UTF-8",
    "/shop-sitemap.xml": "application/xml",
    "/feed/": "application/rss+xml",
    "/shops.js": "text/javascript",
    # PHP's default, if a plugin sets no type for its JSON.
    "/wp-admin/admin-ajax.php": "text/html; charset=UTF-8",
}
"""Documents with the types that WordPress and its plugins send, by path."""
COLUMNS = ("page", "layer", "verdict", "reason", "agent", "line", "statement")


def rows(path: Path, query: str, *values: Any) -> list[dict[str, Any]]:
    """Return the rows of a query on the ledger at *path*."""
    ledger = open_ledger(str(path))
    try:
        return [dict(row) for row in ledger.execute(query, values)]
    finally:
        ledger.close()


def decisions(path: Path, url: str) -> list[tuple[Any, ...]]:
    """Return the decisions on *url* in order, each as the values of COLUMNS. The value of the column ``page`` is
    shortened from a URL to its path.
    """
    decisions = rows(path, "SELECT * FROM decision WHERE url = ? ORDER BY id", url)
    for row in decisions:
        row["page"] = row["page"] and re.sub("^http://[^/]*", "", row["page"])
    return [tuple(row[name] for name in COLUMNS) for row in decisions]


def headline(*paths: str) -> str:
    """Return the headline of a report on the ledgers at *paths*."""
    with closing(ReportLedgers(paths, ReportLimits())) as ledgers:
        headline_text: str = overall(ledgers, 0.0)["headline"]
    return headline_text


def is_created(path: Path) -> bool:
    """Return whether the crawl has created its ledger."""
    return path.exists() and path.stat().st_size > 0


def allowed_urls(path: Path) -> Counter[str]:
    """Return how many decisions of the ledger allowed the request for each URL."""
    query = "SELECT url FROM decision WHERE verdict = 'allowed' AND page IS NULL"
    return Counter(row["url"] for row in rows(path, query))


def fetched_urls(*hosts: Host) -> Counter[str]:
    """Return how often each URL is in the access logs, except for robots.txt."""
    return Counter(host.url(path) for host in hosts for path in host.pages)


def add_host_with_all_rules(site: Site) -> Host:
    """Return a host whose pages have indexing rules and links of each kind."""
    host = site.add(RULES)
    host.answers |= {
        "/": html(
            '<a href="/noindex"><a href="/nofollow"><a href="/header">'
            '<a href="/private/no"><a href="/private/open"><a rel="UGC x" href="/ugc">'
        ),
        "/noindex": html(head=meta("NoIndex, max-snippet:50, what")),
        "/nofollow": html('<a href="/from-nofollow">', meta("NoFollow", "testbot")),
        "/header": html('<a href="/from-header">', tag="unavailable_after: 1999-1-1"),
        "/private/open": html(),
    }
    return host


def test_the_ledger_has_each_decision_and_one_allowed_request_for_each_fetched_page(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """The ledger has each decision with its evidence. Each fetched page has exactly one decision that
    allowed it. Pages that were not fetched have none.
    """
    host, twin = add_host_with_all_rules(site), site.add(RULES)
    replaced, ignored, down = (
        site.add(RULES),
        site.add(RULES),
        site.add(Answer(status=503)),
    )
    path = tmp_path / "ledger.sqlite"
    result = run_crawl(
        [
            host.url("/"),
            twin.url("/private/also"),
            replaced.url("/private/ours"),
            replaced.url("/closed"),
            ignored.url("/private/free"),
            down.url("/page"),
            {"url": down.url("/anyway"), "meta": {"dont_obey_robotstxt": True}},
        ],
        mode=mode,
        spider=PAGES,
        settings={
            "REP_LEDGER": str(path),
            "REP_LEDGER_LEVEL": "all",
            "REP_REL": ["ugc"],
            "REP_OVERRIDES": {
                f"127.0.0.1:{replaced.port}": {
                    "robotstxt": "User-agent: *\nDisallow: /closed",
                    "reason": "agreed",
                    "until": "9000-01-01",
                },
                f"127.0.0.1:{ignored.port}": {"obey": False, "reason": "our own"},
            },
        },
    )
    assert "log_count/ERROR" not in result.stats, result.log
    assert allowed_urls(path) == fetched_urls(host, twin, replaced, ignored, down)
    no_rule = (None, "robots.txt", "allowed", "no-rule", "*", None, None)
    expected = {
        host.url("/"): [no_rule],
        host.url("/private/open"): [
            (None, "robots.txt", "allowed", "rule", "*", 3, "Allow: /private/open")
        ],
        host.url("/private/no"): [
            (None, "robots.txt", "refused", "rule", "*", 2, "Disallow: /private/")
        ],
        host.url("/noindex"): [
            no_rule,
            ("/noindex", "meta", "noted", "noindex", None, None, "NoIndex"),
            ("/noindex", "meta", "noted", "max-snippet", None, None, "max-snippet:50"),
            ("/noindex", "meta", "dropped", "noindex", None, None, "NoIndex"),
        ],
        host.url("/nofollow"): [
            no_rule,
            ("/nofollow", "meta", "noted", "nofollow", "testbot", None, "NoFollow"),
        ],
        host.url("/from-nofollow"): [
            ("/nofollow", "meta", "dropped", "nofollow", "testbot", None, "NoFollow")
        ],
        host.url("/header"): [
            no_rule,
            *[
                ("/header", "header", verdict, "unavailable_after", None, None, date)
                for date in ["unavailable_after: 1999-1-1"]
                for verdict in ("noted", "dropped")
            ],
        ],
        host.url("/ugc"): [("/", "rel", "dropped", "nofollow", None, None, "UGC x")],
        replaced.url("/private/ours"): [
            (None, "override", "allowed", "no-rule", "*", None,
             f"127.0.0.1:{replaced.port}: robotstxt (agreed; until 9000-01-01)")
        ],
        replaced.url("/closed"): [
            (None, "override", "refused", "rule", "*", 2,
             "Disallow: /closed (agreed; until 9000-01-01)")
        ],
        ignored.url("/private/free"): [
            (None, "override", "allowed", "override", None, None,
             f"127.0.0.1:{ignored.port}: ignore (our own)")
        ],
        down.url("/page"): [
            (None, "robots.txt", "refused", "unreachable", None, None, None)
        ],
        down.url("/anyway"): [
            (None, "override", "allowed", "dont_obey_robotstxt", None, None, None)
        ],
    }  # fmt: skip
    assert {url: decisions(path, url) for url in expected} == expected
    check_snapshots(path, host, twin, down)
    [crawl] = rows(path, "SELECT * FROM crawl")
    assert crawl["finish_reason"] == "finished"
    assert (crawl["spider"], crawl["agents"]) == ("pages", '["testbot"]')
    assert json.loads(crawl["counts"])["rep/noindex/dropped/noindex"] == 1
    assert json.loads(crawl["settings"])["REP_LEDGER_LEVEL"] == "all"
    records = "SELECT (SELECT count(*) FROM decision) + (SELECT count(*) FROM snapshot)"
    [[count]] = [row.values() for row in rows(path, records)]
    assert result.stats["rep/ledger/recorded"] == count
    assert "rep/ledger/dropped" not in result.stats
    # A crawl logs no checksum of its ledger, since other crawls can write to the same file.
    assert "SHA-256" not in result.log


def check_snapshots(path: Path, host: Host, twin: Host, down: Host) -> None:
    """Check that two hosts with the same robots.txt share a body, and that the snapshot of an unreachable
    robots.txt has its status and no body.
    """
    snapshots = rows(path, "SELECT * FROM snapshot LEFT JOIN body USING (sha256)")
    snapshot_of = {row["origin"]: row for row in snapshots}
    assert len(snapshots) == len(snapshot_of) == 3
    bodies = [snapshot_of[robots_host.origin]["body"] for robots_host in (host, twin)]
    assert bodies == [RULES.encode()] * 2
    assert len(rows(path, "SELECT * FROM body")) == 1
    fetched, missing = snapshot_of[host.origin], snapshot_of[down.origin]
    assert (fetched["access"], fetched["status"]) == ("successful", 200)
    assert fetched["url"] == host.robotstxt
    assert ["content-type", "text/plain"] in json.loads(fetched["headers"])
    assert fetched["fetched"] < time.time() < fetched["expires"]
    assert (missing["access"], missing["status"]) == ("unreachable", 503)
    assert (missing["sha256"], missing["copy_of"]) == (None, None)


def test_the_level_denied_leaves_out_allowed_requests(
    site: Site, tmp_path: Path
) -> None:
    """With the default level "denied", the ledger leaves out requests that a site allowed.

    A setting or meta key that overrides the rules of a host, such as REP_OVERRIDES or ``dont_obey_robotstxt``, has one
    row for each host, not one for each request.
    """
    host, ignored = add_host_with_all_rules(site), site.add(RULES)
    host.answers["/kept"] = html(head=meta("noindex"))
    path = tmp_path / "a" / "plan.sqlite"
    exempt = {"meta": {"dont_obey_robotstxt": True}}
    result = run_crawl(
        [
            host.url("/"),
            *[ignored.url(f"/private/{number}") for number in range(5)],
            *[{"url": host.url(f"/private/{n}"), **exempt} for n in range(5)],
            {"url": host.url("/kept"), "meta": {"dont_obey_noindex": True}},
        ],
        spider=PAGES,
        settings={
            "REP_LEDGER": str(path),
            "REP_OVERRIDES": {f"127.0.0.1:{ignored.port}": "ignore"},
            "REP_NOINDEX": "annotate",
            "REP_NOFOLLOW": "ignore",
        },
    )
    assert "log_count/ERROR" not in result.stats, result.log
    decisions = rows(path, "SELECT layer, verdict, reason, url FROM decision")
    counts = Counter((row["layer"], row["verdict"], row["reason"]) for row in decisions)
    assert counts == {
        ("robots.txt", "refused", "rule"): 1,
        ("override", "allowed", "override"): 1,
        ("override", "allowed", "dont_obey_robotstxt"): 1,
        ("override", "allowed", "REP_NOFOLLOW"): 1,
        ("override", "allowed", "dont_obey_noindex"): 1,
        ("meta", "annotated", "noindex"): 1,
        ("header", "annotated", "unavailable_after"): 1,
    }
    assert len(rows(path, "SELECT * FROM snapshot")) == 1


def test_the_ledger_says_that_robotstxt_was_not_obeyed(
    site: Site, tmp_path: Path
) -> None:
    """With ROBOTSTXT_OBEY = False, each fetched page has a decision that names this setting."""
    host = add_host_with_all_rules(site)
    path = tmp_path / "ledger.sqlite"
    result = run_crawl(
        [host.url("/")],
        spider=PAGES,
        settings={
            "ROBOTSTXT_OBEY": False,
            "REP_LEDGER": str(path),
            "REP_LEDGER_LEVEL": "all",
            "REP_NOINDEX": "ignore",
        },
    )
    assert "log_count/ERROR" not in result.stats, result.log
    assert allowed_urls(path) == fetched_urls(host)
    assert host.url("/private/no") in allowed_urls(path)
    query = "SELECT DISTINCT layer, reason FROM decision WHERE verdict = 'allowed'"
    assert rows(path, query) == [
        {"layer": "override", "reason": "ROBOTSTXT_OBEY"},
        {"layer": "override", "reason": "REP_NOINDEX"},
    ]


ALL = {"REP_LEDGER_LEVEL": "all"}
HEADLINES: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "refusals alone":
        (["/", "/private/1"], {}, "1 page was fetched, and 1 request was refused"),
    "every decision": (
        ["/", "/private/1"], ALL,
        "1 page was fetched (none forbidden), and 1 request was refused",
    ),
    "everything refused":
        (["/private/1", "/private/2"], ALL, "No page was fetched, and 2 requests were refused"),
    "no answer": (["/gone"], ALL, "1 page was fetched (none forbidden), and no request was refused"),
    "ROBOTSTXT_OBEY = False": (
        ["/", "/private/1"], {"ROBOTSTXT_OBEY": False},
        "2 pages were fetched without regard to robots.txt",
    ),
    "an override": (
        ["/", "/private/1"], {"REP_OVERRIDES": {"127.0.0.1": "ignore"}, **ALL},
        "2 pages were fetched (2 because of an override), and no request was refused",
    ),
    "a limit of pages": (
        ["/", "/2"], {"REP_PAGES_PER_HOST": 1, **ALL},
        "1 page was fetched (none forbidden), and 1 request was refused",
    ),
    "a limit of addresses": (
        ["/", "/private/1"], {"REP_CONCURRENCY_PER_ADDRESS": 1, **ALL},
        "1 page was fetched (none forbidden), and 1 request was refused",
    ),
    "only a middleware that fetches by itself": (
        ["/", "/private/1"], {"DOWNLOADER_MIDDLEWARES": {DRIVER: 543}, **ALL},
        "1 page was fetched (none forbidden), and 1 request was refused",
    ),
    "a dry run": (
        ["/", "/private/1"], {"REP_DRY_RUN": True},
        "Dry run: 2 pages were fetched, and 1 request would have been refused",
    ),
}  # fmt: skip
"""Crawls by what their headline shows. Each has the paths of its requests, its settings, and the expected headline."""


def test_the_headline_agrees_with_the_access_log(site: Site, tmp_path: Path) -> None:
    """For each crawl in HEADLINES, the number of pages in the headline of its report is the number of pages
    that the server has sent. The headline of one report on the ledgers of all these crawls has the sums.
    ``test_network.py`` tests the headline of a crawl without a network.
    """
    ledgers = []
    for number, (paths, settings, expected) in enumerate(HEADLINES.values()):
        host, ledger = site.add(RULES), tmp_path / str(number)
        host.answers["/gone"] = Answer(status=404)
        run_crawl(
            [{"url": host.url(path), "meta": {"driver": True}} for path in paths],
            settings={"REP_LEDGER": str(ledger), **settings},
        )
        ledgers.append(str(ledger))
        text = headline(str(ledger))
        assert text == expected
        pages = int(
            text.partition(" page")[0].removeprefix("Dry run: ").replace("No", "0")
        )
        assert pages == len(host.pages)
    assert headline(*ledgers) == (
        "12 pages were fetched (2 because of an override), and 8 requests were or would have been refused"
    )


def test_the_ledger_has_each_dropped_file_and_image_with_its_rule(
    site: Site, tmp_path: Path
) -> None:
    """An image of a page with noimageindex is not requested. An image with noindex in its headers is dropped
    after its download.

    For each image, the ledger has the rule, and the URL of the page or image that states the rule. The log says
    how many files were dropped after their download.
    """
    host = site.add(RULES)
    host.answers |= {
        "/page": html(f'<img src="{host.url("/c.gif")}">', meta("noimageindex")),
        "/b": html(f'<img src="{host.url("/b.gif")}">'),
        "/b.gif": image(X_Robots_Tag="noindex"),
    }
    path = tmp_path / "ledger.sqlite"
    result = run_crawl(
        [host.url("/page"), host.url("/b")],
        spider="tests.crawl.page_spiders.MediaPageSpider",
        settings={
            "REP_LEDGER": str(path),
            "ITEM_PIPELINES": {"scrapy.pipelines.images.ImagesPipeline": 1},
            "IMAGES_STORE": str(tmp_path),
        },
    )
    assert decisions(path, host.url("/c.gif")) == [
        ("/page", "meta", "dropped", "noimageindex", None, None, "noimageindex")
    ]
    assert decisions(path, host.url("/b.gif")) == [
        ("/b.gif", "header", "dropped", "noindex", None, None, "noindex")
    ]
    (line,) = result.lines("WARNING", "Files withheld: 1", "(noindex)", "REP_NOINDEX")
    assert host.url("/b.gif") in line


def test_the_ledger_has_robotstxt_from_the_store_and_stale_copies(
    site: Site, tmp_path: Path
) -> None:
    """A robots.txt from the store has the time of its fetch. The snapshot of an unreachable robots.txt names
    the stale copy that was used.
    """
    host = site.add([robots(RULES), Answer(status=503)])
    path = tmp_path / "ledger.sqlite"
    settings = {"REP_LEDGER": str(path), "REP_STORE": f"sqlite:///{tmp_path}/store"}
    for offset in (0.0, 0.0, 2 * 24 * 3600.0):
        run_crawl(
            [host.url("/private/a")],
            spider="tests.crawl.waiting_spiders.ClockSpider",
            offset=offset,
            settings=settings,
        )
    snapshots = rows(path, "SELECT * FROM snapshot ORDER BY id")
    assert len(host.robots_hits) == 2
    assert [snapshot["crawl"] for snapshot in snapshots] == [1, 2, 3]
    assert snapshots[0]["fetched"] == snapshots[1]["fetched"]
    last = snapshots[-1]
    assert (last["access"], last["status"]) == ("unreachable", 503)
    assert last["copy_of"] == snapshots[0]["fetched"]
    assert last["sha256"] == snapshots[0]["sha256"]
    refused = "SELECT snapshot, line FROM decision WHERE verdict = 'refused'"
    assert [tuple(row.values()) for row in rows(path, refused)] == [
        (snapshot["id"], 2) for snapshot in snapshots
    ]


def test_a_robotstxt_with_an_invalid_http_status_is_unreachable(
    site: Site, tmp_path: Path
) -> None:
    """The ledger has all decisions nevertheless, also those about the hosts with an invalid status."""
    large, negative = site.add(Answer(status=10**30)), site.add(Answer(status=-1))
    path = tmp_path / "ledger.sqlite"
    settings = {"REP_LEDGER": str(path), "REP_LEDGER_LEVEL": "all"}
    urls = [
        large.url("/page"),
        negative.url("/page"),
        site.add(robots(RULES)).url("/page"),
    ]
    result = run_crawl(urls, settings=settings)
    decisions = rows(
        path, "SELECT verdict FROM decision JOIN snapshot ON snapshot.id = snapshot"
    )
    assert sorted(row["verdict"] for row in decisions) == [
        "allowed",
        "refused",
        "refused",
    ]
    assert large.pages == negative.pages == []
    assert result.stats["rep/ledger/recorded"] == 6
    assert "rep/ledger/dropped" not in result.stats
    errors = {row["error"] for row in rows(path, "SELECT error FROM snapshot")}
    words = "is not an HTTP status"
    assert errors == {None, f"-1 {words}", f"1{19 * '0'} {words}"}


def test_the_ledger_is_intact_after_a_kill(site: Site, tmp_path: Path) -> None:
    """After SIGKILL, the ledger has all decisions up to some moment, and the number of pages fetched up to
    that moment. The next crawl continues the same file.
    """
    host = site.add(RULES)
    path = tmp_path / "ledger.sqlite"
    settings = {"REP_LEDGER": str(path), "REP_LEDGER_LEVEL": "all"}
    crawl = start_crawl(spider=ENDLESS, origin=host.origin, settings=settings)
    crawl.until(lambda: is_created(path) and len(allowed_urls(path)) > 20)
    crawl.process.kill()
    crawl.wait()
    assert rows(path, "PRAGMA integrity_check") == [{"integrity_check": "ok"}]
    recorded_urls = [
        row["url"] for row in rows(path, "SELECT url FROM decision ORDER BY id")
    ]
    assert len(recorded_urls) > 20
    assert recorded_urls == [
        host.url(f"/{number}") for number in range(len(recorded_urls))
    ]
    # The ledger can have the last page before its request arrives at the host.
    assert len(host.pages) >= len(recorded_urls) - 1
    [traffic] = rows(path, "SELECT sum(pages) AS pages FROM traffic")
    assert 0 < traffic["pages"] <= len(host.pages)
    [row] = rows(path, "SELECT * FROM crawl")
    assert (row["ended"], row["finish_reason"], row["counts"]) == (None, None, None)
    run_crawl([host.url("/")], settings=settings)
    ended = rows(path, "SELECT ended IS NULL AS killed FROM crawl ORDER BY id")
    assert ended == [{"killed": 1}, {"killed": 0}]


def test_the_ledger_has_all_decisions_after_a_full_disk(
    site: Site, tmp_path: Path
) -> None:
    """While the disk is full, the crawl goes on, with one warning and a stat. When the disk has space again,
    the crawl writes all its decisions.
    """
    host = site.add(RULES)
    with small_disk(tmp_path / "disk", 1024) as disk:
        path = disk / "ledger.sqlite"
        settings = {"REP_LEDGER": str(path), "REP_LEDGER_LEVEL": "all"}
        stop = "/stop"
        crawl = start_crawl(
            spider=ENDLESS, origin=host.origin, stop=stop, settings=settings
        )
        crawl.until(lambda: is_created(path) and allowed_urls(path))

        def is_stuck() -> bool:
            """Fill the disk, and return whether the ledger then stays the same for 20 requests."""
            # This also fills the space that SQLite frees when it fails.
            fill(disk)
            before, hits = sum(allowed_urls(path).values()), len(host.hits)
            crawl.until(lambda: len(host.hits) > hits + 20)
            return sum(allowed_urls(path).values()) == before

        crawl.until(lambda: "Cannot write to the ledger" in crawl.log or is_stuck())
        crawl.until(is_stuck)
        before = sum(allowed_urls(path).values())
        disks.free(disk)
        crawl.until(lambda: sum(allowed_urls(path).values()) > before)
        host.answer = lambda path: html(stop)
        result = crawl.result()
        assert result.stats["finish_reason"] == "stopped"
        assert result.stats["rep/ledger/errors"] >= 1
        assert len(result.lines("WARNING", "ledger")) == 1
        assert allowed_urls(path) == fetched_urls(host)
        assert rows(path, "PRAGMA integrity_check") == [{"integrity_check": "ok"}]


def test_one_line_in_extensions_enables_the_ledger(site: Site, tmp_path: Path) -> None:
    """A project without the add-on can enable the ledger alone. The ledger is in the folder of REP_LEDGER, even if
    the name of the spider is a path.
    """
    host = site.add(RULES)
    enable = {
        **BY_HAND,
        "EXTENSIONS": {"scrapy_rep.crawl.ledger.extension.LedgerExtension": 500},
    }
    settings = {"REP_LEDGER": str(tmp_path / "%(name)s-%(pid)s-%(time)s.sqlite")}
    name = "../../a\\b\0c"
    run_crawl([host.url("/private/a")], enable=enable, settings=settings, name=name)
    [path] = tmp_path.iterdir()
    assert re.search(r"c-\d+-\d{4}-.*\.sqlite$", path.name)
    assert len(decisions(path, host.url("/private/a"))) == 1


def test_noindex_of_json_and_feeds_is_recorded_and_drops_nothing(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """JSON, sitemaps, feeds and scripts may have a header with noindex and nofollow. Their items are kept
    and their links followed, as in stock Scrapy. The log shows the statements, the ledger notes them once for
    each origin, and with REP_NOINDEX = "annotate" the items have them. A usage preference of these files is
    obeyed: noai on an API is meant for its content.
    """
    host, other = site.add(), site.add()
    for site_host, tag in ((host, "noindex, nofollow"), (other, "noai")):
        for path, content_type in DATA.items():
            body = json.dumps({"link": site_host.url(f"/shop{path}")}).encode()
            headers = {"Content-Type": content_type, "X-Robots-Tag": tag}
            site_host.answers[path] = Answer(body, headers=headers)
    ledger = tmp_path / "ledger.sqlite"
    settings = {"REP_LEDGER": str(ledger), "REP_PURPOSES": ["train-ai"]}
    result = run_crawl(
        [site_host.url(path) for site_host in (host, other) for path in DATA],
        mode=mode,
        spider="tests.crawl.page_spiders.TextLinkSpider",
        settings={**settings, "REP_NOINDEX": "annotate"},
    )
    pages = set(host.pages) - {"/.well-known/tdmrep.json"}
    assert pages == {*DATA, *(f"/shop{path}" for path in DATA)}
    items = {item["url"]: item for item in result.items}
    assert set(map(host.url, pages)) <= set(items)
    assert not set(map(other.url, DATA)) & set(items)
    assert result.stats["rep/usage/dropped/train-ai"] == len(DATA)
    noted = {url: item["robots"] for url, item in items.items() if "robots" in item}
    denied = {"index": False, "follow": False}
    assert noted == dict.fromkeys(map(host.url, DATA), denied)
    assert not [stat for stat in result.stats if "/dropped/noindex" in stat]
    assert "rep/nofollow/page" not in result.stats
    assert "['noindex', 'nofollow']" in result.log
    query = "SELECT reason FROM decision WHERE statement = 'noindex'"
    noted_once = rows(ledger, f"{query} AND verdict = 'noted'")
    assert noted_once == [{"reason": "data"}]


def test_the_log_counts_refusals_and_drops_by_kind_and_reason(site: Site) -> None:
    """At the end, the log has a line for each kind and reason, with the count, the setting that changes the
    behaviour, and an example URL. For items and links of fetched pages, the line is a warning. The first
    refused start request and the first dropped item have a line at once.
    """
    host = site.add("User-agent: *\nDisallow: /private\nCrawl-delay: 0.1\n")
    links = "".join(f'<a href="/from-{number}">' for number in range(3))
    host.answers |= {
        "/": html(links, meta("nofollow")),
        "/noindex/1": html("", meta("noindex")),
        "/noindex/2": html("", meta("noindex")),
        "/old": html("", tag="unavailable_after: 1999-1-1"),
        "/rel": html('<a href="/ugc" rel="ugc">'),
        "/ai": html("", tag="noai"),
        "/busy": Answer(status=503, headers={"Retry-After": "1"}),
    }
    paths = [f"/private/{number}" for number in range(4)] + list(host.answers)[1:]
    settings = {"REP_BACKOFF_MAX": 60, "REP_PURPOSES": ["train-ai"], "REP_REL": ["ugc"]}
    result = run_crawl(map(host.url, paths), spider=PAGES, settings=settings)
    at_once = {
        "WARNING: A start request is refused": "/private/",
        "WARNING: The first item is dropped": "",
    }
    at_the_end = {
        "INFO: Requests refused: 4: robots.txt disallows;: REP_OVERRIDES": "/private/",
        "INFO: Hosts that ask for a delay: 1: Crawl-delay or: REP_CRAWL_DELAY_OBEY": "/robots.txt",
        "INFO: Pauses that hosts asked for: 1: 429 or 503;: DOWNLOAD_DELAY": "/busy",
        "WARNING: Links not followed: 3: must not be followed;: REP_NOFOLLOW": "/from-",
        "WARNING: Links not followed: 1: links with this rel: REP_REL": "/ugc",
        "WARNING: Items dropped: 2: must not be in an index;: REP_NOINDEX": "/noindex/",
        "WARNING: Items dropped: 1: no longer be in an index;: REP_NOINDEX": "/old",
        "WARNING: Items dropped: 1: used for train-ai;: REP_PURPOSES": "/ai",
    }
    closing_at = result.log.index("Closing spider")
    for expected_line, path in (at_once | at_the_end).items():
        level, kind, *words = expected_line.split(": ")
        words = [": ".join([kind, *words[:1]]), *words[1:]]
        (line,) = result.lines(level, *words)
        assert host.url(path) in line.partition("Example: ")[2]
        assert (result.log.index(line) > closing_at) is (expected_line in at_the_end)
    example_lines = [line for line in result.log.splitlines() if "Example: " in line]
    assert len(example_lines) == len(at_once) + len(at_the_end)


def test_the_report_has_gaps_outages_and_refused_urls(
    site: Site, tmp_path: Path
) -> None:
    """The gap is the actual gap between requests. The report also has the hosts without a robots.txt, and the
    URLs with an override.
    """
    delay = 0.3
    rules = f"User-agent: *\nDisallow: /no\nCrawl-delay: {delay}\n"
    slow = site.add(rules, name="127.0.0.2")
    missing, locked = site.add(), site.add(Answer(status=403))
    loop = site.add(redirect("/robots.txt", 301))
    overridden, refused = site.add("User-agent: *\nDisallow: /\n"), site.refusing()
    ledger = tmp_path / "ledger.sqlite"
    overrides = {f"127.0.0.1:{overridden.port}": "User-agent: *\nDisallow: /no"}
    answered = (slow, missing, locked, loop, overridden)
    run_crawl(
        [host.url(path) for host in answered for path in ("/1", "/2", "/3", "/no")]
        + [refused.url("/1")],
        settings={"REP_LEDGER": str(ledger), "REP_LEDGER_LEVEL": "all", "REP_OVERRIDES": overrides},
    )  # fmt: skip
    with closing(ReportLedgers([str(ledger)], ReportLimits())) as ledgers:
        hosts = {host["origin"]: host for host in ledgers.view("host")}
        urls = ledgers.view("judged_url").fetchall()
        hosts_without_robotstxt = {
            row["origin"]: (answers.status(row["status"], row["error"]), row["allowed"])
            for row in ledgers.view("without")
        }
        (outage,) = ledgers.view("outage")
    assert headline(str(ledger)) == (
        "18 pages were fetched (3 because of an override, no other forbidden), and 3 requests were refused"
    )
    assert hosts[slow.origin]["delay"] == delay
    assert delay * 0.9 < hosts[slow.origin]["gap"] < 20
    loops = "redirected more than 5 times (301 Moved Permanently)"
    assert hosts_without_robotstxt == {
        missing.origin: ("404 Not Found", 4),
        locked.origin: ("403 Forbidden", 4),
        loop.origin: (loops, 4),
    }
    assert (outage["origin"], outage["error"]) == (refused.origin, "connection refused")
    (row,) = (row for row in urls if row["origin"] == slow.origin)
    evidence = (row["url"], row["line"], row["statement"])
    assert evidence == (slow.url("/no"), 2, "Disallow: /no")
    overridden_rows = [row for row in urls if row["origin"] == overridden.origin]
    assert {row["verdict"] for row in overridden_rows} == {"allowed", "refused"}
    assert {row["overridden_of_host"] for row in overridden_rows} == {4}
    assert {row["refused_of_host"] for row in overridden_rows} == {0}
