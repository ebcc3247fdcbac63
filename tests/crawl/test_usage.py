"""A crawl with purposes keeps the items that may be used for them, by the access log, and its requests
for tdmrep.json keep to robots.txt.
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
USED = "SELECT * FROM decision WHERE layer = 'usage'"
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
FREE = {
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
DENIED = {
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
"""Pages, the purposes for which they must not be used, and the evidence: the source, and the
statement as written.
"""

PAGES = FREE | {path: answer for path, (answer, _, _) in DENIED.items()}


def build(site: Site) -> Host:
    host = site.add(ROBOTS)
    host.answers |= {**PAGES, WELL_KNOWN: Answer(TDMREP)}
    return host


def rows(path: Path | str, query: str = USED) -> list[dict[str, Any]]:
    with closing(open_ledger(str(path))) as ledger:
        return [dict(row) for row in ledger.execute(query)]


@pytest.mark.newest
def test_a_crawl_keeps_the_items_that_its_purpose_allows(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """For each purpose, the crawl fetches all pages, keeps exactly the items that may be
    used for it, and records the evidence of each drop. The purposes of a request replace those of
    the crawl, and an invalid one refuses it.
    """
    host = build(site)
    paths = [path for path in PAGES if path != "/no-training/moved"]
    asked = [([purpose], path) for purpose in PURPOSES for path in paths]
    asked += [([], "/no-training/a"), (["mining"], "/refused")]
    ledger = tmp_path / "ledger.sqlite"
    result = run_crawl(
        [
            {"url": host.url(path), "meta": {"rep_purposes": purposes}, "dont_filter": True}
            for purposes, path in asked
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
    denied = {
        (purpose, path): evidence
        for path, (_, purposes, evidence) in DENIED.items()
        for purpose in purposes.split()
    }
    kept = {
        (purpose, item["url"].removeprefix(host.origin))
        for item in result.items
        for purpose in item["purposes"] or [""]
    }
    everything = {(purpose, path) for purpose in PURPOSES for path in PAGES}
    moved = {(purpose, "/moved") for purpose in PURPOSES}
    assert kept == everything - moved - denied.keys() | {("", "/no-training/a")}
    dropped = rows(ledger)
    statements = {}
    for row in dropped:
        evidence = (row["source"], row["line"], row["statement"])
        key = row["reason"], row["url"].removeprefix(host.origin)
        statements[key] = " ".join(str(part) for part in evidence if part is not None)
    assert statements == denied
    assert {row["verdict"] for row in dropped} == {"dropped"}
    assert len(dropped) == len(denied) == result.stats["item_dropped_count"]
    for purpose in PURPOSES:
        count = sum(reason == purpose for reason, _ in denied)
        assert result.stats[f"rep/usage/dropped/{purpose}"] == count
    why = f" must not be used for train-ai: {NO_TRAINING} (robots.txt, line 10)"
    assert why in result.log


def test_without_a_purpose_all_items_pass_and_nothing_more_is_sent(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """Without a purpose, all items pass, no additional request is sent, as for a purpose that is not
    about mining, and the usage preferences can be read.
    """
    host, ledger = build(site), tmp_path / "ledger.sqlite"
    wanted = {
        "/silent": "unknown",
        "/broken/a": "unknown",
        "/search-only/a": "train-ai=n, ai-use=n, search=y",
        "/tdm-header": "train-ai=n, tdm=n",
        "/licensed": "unknown",
    }
    settings = {"REP_LEDGER": str(ledger), "REP_LEDGER_LEVEL": "all"}
    search = {"url": host.url("/free"), "meta": {"rep_purposes": ["search"]}}
    requests = [*map(host.url, wanted), search]
    wanted["/free"] = "unknown"
    result = run_crawl(requests, mode=mode, spider=SPIDER, settings=settings)
    assert {item["url"].removeprefix(host.origin): item["usage"] for item in result.items} == {
        path: f"<UsagePreferences {usage}>" for path, usage in wanted.items()
    }  # fmt: skip
    assert host.pages == sorted(wanted)
    noted = rows(ledger)
    assert {row["verdict"] for row in noted} == {"noted"}
    assert {
        (host.url("/search-only/a"), "ai-use", SEARCH_ONLY),
        (host.url("/silent"), "License", "License: https://license.example/all.xml"),
        (host.url("/licensed"), "License", f"License: {LICENSE}"),
    } <= {(row["url"], row["reason"], row["statement"]) for row in noted}


RESERVED = Answer(b'[{"location": "/", "tdm-reservation": 1}]')
SECRET = "User-agent: *\nDisallow: /secret\n"


@pytest.mark.newest
def test_tdmrep_is_fetched_like_a_page(site: Site, mode: str, tmp_path: Path) -> None:
    """tdmrep.json is fetched once per origin while it is fresh, also over several crawls,
    with the Crawl-delay of its host, and not if robots.txt forbids it. One that is missing, broken,
    too long or unreachable reserves nothing and delays nothing. A redirect is followed only where the
    robots.txt of its target allows that, or an override, by the group of the User-Agent that is sent,
    in each form in which a server may see the URL; two hosts whose file is at the other one do not
    wait for each other.
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
        # It may be fetched again before the page may be sent.
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
    made = {item["url"] for item in result.items}
    assert {name for name, host in hosts.items() if host.url("/page") in made} == {
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
    # Scrapy's stats count robots.txt only, also of the targets of redirects.
    assert result.stats["robotstxt/request_count"] == len(hosts) + 4
    why = f"Refused by {other.robotstxt}, line 2 (disallow: /secret)"
    about = hosts["forbidden"].url(WELL_KNOWN)
    assert result.lines("DEBUG", about, "is unreachable", why)
    query = "SELECT * FROM decision WHERE reason = 'rule' AND verdict = 'refused'"
    assert len(rows(settings["REP_LEDGER"], query)) == 5
    site.log.clear()
    again = [hosts[name].url("/page") for name in ("reserved", "with a delay")]
    result = run_crawl(again, mode=mode, spider=SPIDER, settings=settings)
    assert result.items == []
    assert [hit.path for hit in site.log] == ["/page"] * 2


def test_a_closing_spider_does_not_wait_for_tdmrep(site: Site, mode: str) -> None:
    """A spider that closes does not wait for a tdmrep.json that never comes, nor for the
    robots.txt of a host to which it is redirected.
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
