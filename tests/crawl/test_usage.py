"""Tests of crawls whose data is for certain purposes, such as "train-ai". A crawl keeps only items that may be used for
its purposes. Its requests for tdmrep.json obey robots.txt, as the access log shows.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.crawl.ledger.reader import open_ledger
from tests.crawl.answers import HANGS, Answer, busy, html, meta, redirect
from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Host, Site

SPIDER = "tests.crawl.page_spiders.UsagePageSpider"
WELL_KNOWN = "/.well-known/tdmrep.json"
USAGE_DECISIONS = "SELECT * FROM decision WHERE layer = 'usage'"
OPEN = "User-agent: *\nDisallow:\n"

ROBOTS = """\
Content-Signal: /for-all/ ai-train=no
License: https://license.example/all.xml

User-agent: other
Disallow: /
Content-Usage: search=n, train-ai=n, ai-use=n

User-agent: *
Disallow: /private/
Content-Usage: /no-training/ train-ai=n
Content-Usage: /no-training/but/ train-ai=y
Content-Usage: /search-only/ train-ai=n, ai-use=n, search=y
Content-Usage: /broken/ Train-AI=n
Content-Signal: /signals/ search=no, ai-input=yes, ai-train=no

User-agent: __usage_ai-training
Disallow: /by-purpose/
"""

TDMREP = b"""[
    {"location": "/mining/free/", "tdm-reservation": 0},
    {"location": "/mining/", "tdm-reservation": 1, "tdm-policy": "https://p.example/"},
    {"location": "/mining-unset/", "tdm-reservation": 2}
]"""

USAGE = "train-ai=n, search=n, ai-use=y"
SEARCH_ONLY = "Content-Usage: /search-only/ train-ai=n, ai-use=n, search=y"
SIGNALS = "Content-Signal: /signals/ search=no, ai-input=yes, ai-train=no"
NO_TRAINING = "Content-Usage: /no-training/ train-ai=n"
BY_PURPOSE = "User-agent: __usage_ai-training, Disallow: /by-purpose/"
LICENSE = "https://license.example/p"
PURPOSES = ("search", "train-ai", "ai-use", "tdm")
KEPT = {
    "/silent": html(),
    "/no-training/but/a": html(),
    "/broken/a": html(),
    "/header-broken": html(Content_Usage="train-ai = n"),
    "/noai-others": html(tag="otherbot: noai"),
    "/tdm-freed": html(head=meta("0", "tdm-reservation"), tdm_reservation="1"),
    "/mining/free/a": html(),
    "/mining/header": html(tdm_reservation="0"),
    "/mining-unset/a": html(),
    "/licensed": html(head=f'<link rel=license type=application/rsl+xml href="{LICENSE}">'),
    "/moved": redirect("/no-training/moved"),
}  # fmt: skip
"""Pages whose items may be used for all purposes, and ``/moved``, whose target is in DROPPED."""
DROPPED = {
    "/no-training/a": (html(), "train-ai", f"robots.txt 10 {NO_TRAINING}"),
    "/no-training/moved": (html(), "train-ai", f"robots.txt 10 {NO_TRAINING}"),
    "/search-only/a": (html(), "train-ai ai-use", f"robots.txt 12 {SEARCH_ONLY}"),
    "/signals/a": (html(), "search train-ai", f"robots.txt 14 {SIGNALS}"),
    "/by-purpose/a": (html(), "train-ai", f"robots.txt 17 {BY_PURPOSE}"),
    "/for-all/a": (html(), "train-ai", f"robots.txt 1 {ROBOTS.splitlines()[0]}"),
    "/header": (
        html(Content_Usage=USAGE), "search train-ai", f"header Content-Usage: {USAGE}",
    ),
    "/header-and-robots/a": (
        html(Content_Usage="search=n"), "search", "header Content-Usage: search=n",
    ),
    "/noai": (html(head=meta("noai")), "train-ai", "meta noai"),
    "/noai-header": (html(tag="testbot: noai"), "train-ai", "header noai"),
    "/tdm-header": (
        html(tdm_reservation="1"), "train-ai tdm", "header tdm-reservation: 1",
    ),
    "/tdm-meta": (
        html(head=meta("1", "TDM-Reservation")), "train-ai tdm", "meta tdm-reservation: 1",
    ),
    "/mining/a": (html(), "train-ai tdm", "tdmrep.json /mining/: tdm-reservation 1"),
}  # fmt: skip
"""Pages, the purposes for which their items must not be used, and the evidence: the source, and the statement as
written.
"""

PAGES = KEPT | {path: answer for path, (answer, _, _) in DROPPED.items()}


def add_host(site: Site) -> Host:
    """Return a host with all PAGES, ROBOTS and TDMREP."""
    host = site.add(ROBOTS)
    host.answers |= {**PAGES, WELL_KNOWN: Answer(TDMREP)}
    return host


def rows(path: Path | str, query: str = USAGE_DECISIONS) -> list[dict[str, Any]]:
    """Return the rows of *query* on the ledger at *path*."""
    with closing(open_ledger(str(path))) as ledger:
        return [dict(row) for row in ledger.execute(query)]


@pytest.mark.newest
def test_a_crawl_keeps_the_items_that_may_be_used_for_its_purpose(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """For each purpose, the crawl fetches all pages, keeps exactly the items that may be used for this purpose, and
    records the evidence of each dropped item. The purposes of a request replace those of the crawl. A request
    with an invalid purpose is refused.
    """
    host = add_host(site)
    paths = [path for path in PAGES if path != "/no-training/moved"]
    visits = [([purpose], path) for purpose in PURPOSES for path in paths]
    visits += [([], "/no-training/a"), (["mining"], "/refused")]
    ledger = tmp_path / "ledger.sqlite"
    result = run_crawl(
        [
            {"url": host.url(path), "meta": {"rep_purposes": purposes}, "dont_filter": True}
            for purposes, path in visits
        ],
        mode=mode,
        spider=SPIDER,
        settings={"REP_PURPOSES": ["train-ai"], "REP_LEDGER": str(ledger)},
    )  # fmt: skip
    assert set(host.pages) == {*PAGES, WELL_KNOWN}
    assert len(host.hits_on(WELL_KNOWN)) == 1
    message = result.error(host.url("/refused"))["message"]
    assert (
        "meta['rep_purposes'] is ['mining'], but it must be one of train-ai" in message
    )
    expected = {
        (purpose, path): evidence
        for path, (_, purposes, evidence) in DROPPED.items()
        for purpose in purposes.split()
    }
    kept = {
        (purpose, item["url"].removeprefix(host.origin))
        for item in result.items
        for purpose in item["purposes"] or [""]
    }
    everything = {(purpose, path) for purpose in PURPOSES for path in PAGES}
    redirecting = {(purpose, "/moved") for purpose in PURPOSES}
    assert kept == everything - redirecting - expected.keys() | {("", "/no-training/a")}
    dropped = rows(ledger)
    statements = {}
    for row in dropped:
        evidence = (row["source"], row["line"], row["statement"])
        key = row["reason"], row["url"].removeprefix(host.origin)
        statements[key] = " ".join(str(part) for part in evidence if part is not None)
    assert statements == expected
    assert {row["verdict"] for row in dropped} == {"dropped"}
    assert len(dropped) == len(expected) == result.stats["item_dropped_count"]
    for purpose in PURPOSES:
        count = sum(reason == purpose for reason, _ in expected)
        assert result.stats[f"rep/usage/dropped/{purpose}"] == count
    message = f" must not be used for train-ai: {NO_TRAINING} (robots.txt, line 10)"
    assert message in result.log


def test_without_a_purpose_all_items_are_kept_and_tdmrep_is_not_requested(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """tdmrep.json is requested only for the purpose of mining. The spider can read the usage preferences."""
    host, ledger = add_host(site), tmp_path / "ledger.sqlite"
    usage_of = {
        "/silent": "unknown",
        "/broken/a": "unknown",
        "/search-only/a": "train-ai=n, ai-use=n, search=y",
        "/tdm-header": "train-ai=n, tdm=n",
        "/licensed": "unknown",
    }
    settings = {"REP_LEDGER": str(ledger), "REP_LEDGER_LEVEL": "all"}
    search = {"url": host.url("/free"), "meta": {"rep_purposes": ["search"]}}
    requests = [*map(host.url, usage_of), search]
    usage_of["/free"] = "unknown"
    result = run_crawl(requests, mode=mode, spider=SPIDER, settings=settings)
    assert {item["url"].removeprefix(host.origin): item["usage"] for item in result.items} == {
        path: f"<UsagePreferences {usage}>" for path, usage in usage_of.items()
    }  # fmt: skip
    assert host.pages == sorted(usage_of)
    notes = rows(ledger)
    assert {row["verdict"] for row in notes} == {"noted"}
    assert {
        (host.url("/search-only/a"), "ai-use", SEARCH_ONLY),
        (host.url("/silent"), "License", "License: https://license.example/all.xml"),
        (host.url("/licensed"), "License", f"License: {LICENSE}"),
    } <= {(row["url"], row["reason"], row["statement"]) for row in notes}


RESERVED = Answer(b'[{"location": "/", "tdm-reservation": 1}]')
SECRET = "User-agent: *\nDisallow: /secret\n"


@pytest.mark.newest
def test_tdmrep_is_fetched_like_a_page(site: Site, mode: str, tmp_path: Path) -> None:
    """Like a page, tdmrep.json is fetched with the Crawl-delay of its host, and not if robots.txt forbids it. It is
    fetched once per origin while it is fresh, also over several crawls. A tdmrep.json that is missing, broken, too
    long or unreachable reserves nothing and delays nothing.

    A redirect of tdmrep.json is followed only if the robots.txt of the target host allows the target URL, or an
    override does. The rules for the User-Agent of the request must allow each form in which a server can read the
    target URL.

    Two hosts that redirect their tdmrep.json to each other do not wait for each other.
    """
    down, other = site.add(Answer(status=503)), site.add(SECRET)
    by_agent = site.add("User-agent: special\nDisallow: /secret\n")
    replaced, ignored = site.add(OPEN), site.add(SECRET)
    for host in (other, by_agent, replaced, ignored):
        host.answers |= {"/secret": RESERVED, "/policy": RESERVED}
    first, second = site.add(OPEN), site.add(OPEN)
    delayed = site.add("User-agent: *\nCrawl-delay: 0.3\n", name="127.0.0.2")
    other_form = other.url("/a/..%2Fsecret/%2e./../secret")
    reserving = {
        "reserved": (site.add(OPEN), RESERVED),
        "with a delay": (delayed, RESERVED),
        "moved": (site.add(OPEN), redirect("/policy")),
        "moved to an allowed page": (site.add(OPEN), redirect(other.url("/policy"))),
        "moved to an override": (site.add(OPEN), redirect(ignored.url("/secret"))),
        "one of a circle": (first, redirect(second.url("/policy"))),
        "the other one": (second, redirect(first.url("/policy"))),
    }
    slow = site.add("User-agent: *\nCrawl-delay: 2\n", name="127.0.0.3")
    kept = {
        "closed": (site.add("User-agent: *\nDisallow: /.well-known/\n"), RESERVED),
        "missing": (site.add(OPEN), Answer(status=404)),
        "broken": (site.add(OPEN), Answer(b"[{")),
        "long": (site.add(OPEN), Answer(b" " * 600_000 + RESERVED.body)),
        # The page is requested two seconds after this tdmrep.json. By then, Retry-After allows another fetch of
        # tdmrep.json, but tdmrep.json is not fetched again.
        "failing": (slow, busy(503, "1")),
        "moved away": (site.add(OPEN), redirect(site.refusing().url("/policy"))),
        "moved to one that is down": (site.add(OPEN), redirect(down.url("/policy"))),
        "forbidden at home": (site.add(SECRET), redirect("/secret")),
        "forbidden": (site.add(OPEN), redirect(other.url("/secret"))),
        "forbidden in another form": (site.add(OPEN), redirect(other_form)),
        "forbidden to this agent": (site.add(OPEN), redirect(by_agent.url("/secret"))),
        "forbidden by an override": (site.add(OPEN), redirect(replaced.url("/secret"))),
    }
    hosts = {name: host for name, (host, _) in (reserving | kept).items()}
    for host, answer in (reserving | kept).values():
        host.answers |= {WELL_KNOWN: answer, "/policy": RESERVED, "/secret": RESERVED}
    settings = {
        "REP_LEDGER": str(tmp_path / "ledger.sqlite"),
        "REP_OVERRIDES": {
            f"127.0.0.1:{replaced.port}": SECRET,
            f"127.0.0.1:{ignored.port}": "ignore",
        },
        "REP_PURPOSES": ["tdm"],
        "REP_STORE": f"sqlite:///{tmp_path}/store",
        "USER_AGENT": "special/1.0",
    }
    urls = [host.url("/page") for host in hosts.values()]
    result = run_crawl(urls, mode=mode, spider=SPIDER, settings=settings)
    item_urls = {item["url"] for item in result.items}
    assert {name for name, host in hosts.items() if host.url("/page") in item_urls} == {
        *kept
    }
    targets = (down, other, by_agent, replaced, ignored)
    fetched = [target.pages for target in targets]
    assert fetched == [[], ["/policy"], [], [], ["/secret"]]
    assert replaced.robots_hits == ignored.robots_hits == []
    with_policy = ("moved", "one of a circle", "the other one")
    for name, host in hosts.items():
        first = [] if name == "closed" else [WELL_KNOWN]
        last = ["/policy"] if name in with_policy else []
        assert host.pages == [*first, "/page", *last], name
        assert len(host.robots_hits) == 1
    assert [hit.path for hit in delayed.hits] == ["/robots.txt", WELL_KNOWN, "/page"]
    assert delayed.gaps[1] >= 0.29
    assert result.stats["rep/denied/rule"] == 5
    assert result.stats["rep/tdmrep/unavailable"] == 1
    assert result.stats["rep/tdmrep/unreachable"] == 8
    # Scrapy's stats count only requests for robots.txt, including those of the targets of redirects.
    assert result.stats["robotstxt/request_count"] == len(hosts) + 4
    message = f"Refused by {other.robotstxt}, line 2 (disallow: /secret)"
    tdmrep_url = hosts["forbidden"].url(WELL_KNOWN)
    assert result.lines("DEBUG", tdmrep_url, ": unreachable (", message)
    query = "SELECT * FROM decision WHERE reason = 'rule' AND verdict = 'refused'"
    assert len(rows(settings["REP_LEDGER"], query)) == 5
    site.log.clear()
    urls_seen = [hosts[name].url("/page") for name in ("reserved", "with a delay")]
    result = run_crawl(urls_seen, mode=mode, spider=SPIDER, settings=settings)
    assert result.items == []
    assert [hit.path for hit in site.log] == ["/page"] * 2


def test_a_closing_spider_does_not_wait_for_tdmrep(site: Site, mode: str) -> None:
    """A host never answers the request for tdmrep.json, or for the robots.txt of the host to which tdmrep.json is
    redirected. The spider closes nevertheless.
    """
    silent, slow, host = site.add(HANGS), site.add(OPEN), site.add(OPEN)
    slow.answers[WELL_KNOWN] = HANGS
    host.answers[WELL_KNOWN] = redirect(silent.url("/policy"))
    settings = {"CLOSESPIDER_TIMEOUT": 1, "REP_PURPOSES": ["tdm"]}
    pages = [site_host.url("/page") for site_host in (slow, host)]
    result = run_crawl(pages, mode=mode, settings=settings)
    assert slow.pages == host.pages == [WELL_KNOWN]
    assert len(silent.robots_hits) == 1
    assert result.stats["elapsed_time_seconds"] < 20
    assert "Traceback" not in result.log
