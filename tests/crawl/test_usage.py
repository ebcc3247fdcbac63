"""A crawl with purposes keeps the items that may be used for them, by the access log."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.ledger.reader import open_ledger
from tests.crawl.answers import Answer, image, redirect
from tests.crawl.crawl import run_crawl
from tests.crawl.usage_site import DENIED, PAGES, TDMREP, build, items_for, page

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site

SPIDERS = "tests.crawl.page_spiders"
WELL_KNOWN = "/.well-known/tdmrep.json"


def crawl(
    host: Host, *purposes: str, spider: str = "PageSpider", **arguments: Any
) -> CrawlResult:
    settings = {"REP_PURPOSES": list(purposes), **arguments.pop("settings", {})}
    return run_crawl(
        [host.url("/")], spider=f"{SPIDERS}.{spider}", settings=settings, **arguments
    )


def items(result: CrawlResult, host: Host) -> set[str]:
    return {item["url"].removeprefix(host.origin) for item in result.items}


def used(path: Path) -> list[dict[str, Any]]:
    """Return the decisions of the layer "usage" in the ledger."""
    query = (
        "SELECT d.*, s.origin AS of_origin FROM decision AS d"
        " LEFT JOIN snapshot AS s ON s.id = d.snapshot WHERE layer = 'usage'"
    )
    with closing(open_ledger(str(path))) as ledger:
        return [dict(row) for row in ledger.execute(query)]


EVIDENCE = {
    "/no-training/a": (
        "robots.txt",
        10,
        "*",
        "Content-Usage: /no-training/ train-ai=n",
    ),
    "/for-all/a": ("robots.txt", 1, None, "Content-Signal: /for-all/ ai-train=no"),
    "/header": ("header", None, None, "Content-Usage: train-ai=n, search=n, ai-use=y"),
    "/noai": ("meta", None, None, "noai"),
    "/noai-header": ("header", None, "testbot", "noai"),
    "/tdm-meta": ("meta", None, None, "tdm-reservation: 1"),
    "/mining/a": ("tdmrep.json", None, None, "/mining/: tdm-reservation 1"),
}


@pytest.mark.newest
@pytest.mark.parametrize("purpose", ["search", "train-ai", "tdm"])
def test_one_site_three_purposes(
    site: Site, mode: str, purpose: str, tmp_path: Path
) -> None:
    """For each purpose, the crawl fetches all pages, keeps exactly the items that may be
    used for it, and records the evidence of each drop: the statement as written, and its source.
    """
    host = build(site)
    ledger = tmp_path / "ledger.sqlite"
    result = crawl(
        host, purpose, mode=mode, settings={"REP_LEDGER": str(ledger)}
    )  # fmt: skip
    assert items(result, host) == items_for(purpose)
    asked = {"/", *PAGES} | ({WELL_KNOWN} if purpose != "search" else set())
    assert set(host.pages) == asked
    assert len(host.hits_on(WELL_KNOWN)) == (purpose != "search")
    dropped = used(ledger)
    paths = {row["url"].removeprefix(host.origin): row for row in dropped}
    assert paths.keys() == DENIED[purpose]
    assert len(dropped) == len(DENIED[purpose])
    assert {(row["verdict"], row["reason"]) for row in dropped} == {
        ("dropped", purpose)
    }
    for row in dropped:
        assert row["statement"]
        in_file = row["source"] == "robots.txt"
        assert (row["line"] is not None) == in_file
        assert (row["of_origin"] == host.origin) == in_file
    for path, evidence in EVIDENCE.items() if purpose == "train-ai" else ():
        assert (
            tuple(paths[path][key] for key in ("source", "line", "agent", "statement"))
            == evidence
        )
    if purpose == "train-ai":
        assert (
            " must not be used for train-ai: Content-Usage: /no-training/ train-ai=n "
            "(robots.txt, line 10)" in result.log
        )
    key = f"rep/usage/dropped/{purpose}"
    assert result.stats[key] == len(dropped) == result.stats["item_dropped_count"]


def test_without_a_purpose(site: Site, mode: str, tmp_path: Path) -> None:
    """Without a purpose, all items pass, no additional request is sent, and the usage
    preferences can be read.
    """
    host = build(site)
    ledger = tmp_path / "ledger.sqlite"
    settings = {"REP_LEDGER": str(ledger), "REP_LEDGER_LEVEL": "all"}
    result = crawl(host, mode=mode, spider="UsagePageSpider", settings=settings)
    assert items(result, host) == {"/", *PAGES} - {"/moved"}
    assert Counter(hit.path for hit in host.hits) == Counter(
        ["/robots.txt", "/", *PAGES]
    )
    stated = {
        item["url"].removeprefix(host.origin): item["usage"] for item in result.items
    }
    assert stated["/silent"] == stated["/broken/a"] == "<UsagePreferences unknown>"
    assert stated["/search-only/a"] == (
        "<UsagePreferences train-ai=n, ai-use=n, search=y>"
    )
    assert stated["/tdm-header"] == "<UsagePreferences train-ai=n, tdm=n>"
    rows = used(ledger)
    assert {row["verdict"] for row in rows} == {"noted"}
    noted = {
        (row["url"].removeprefix(host.origin), row["reason"], row["statement"])
        for row in rows
    }
    assert ("/search-only/a", "ai-use", "Content-Usage: /search-only/ train-ai=n, ai-use=n, search=y") in noted  # fmt: skip
    assert ("/silent", "License", "License: https://license.example/all.xml") in noted
    assert ("/licensed", "License", "License: https://license.example/p") in noted


@pytest.mark.newest
def test_purposes_of_a_request(site: Site) -> None:
    """``rep_purposes`` in a request's meta replaces REP_PURPOSES, and an invalid
    value refuses the request.
    """
    host = build(site)
    wanted = {
        "/no-training/a": ([], True),
        "/no-training/a?2": (["search"], True),
        "/no-training/a?3": (["train-ai"], False),
        "/mining/a": (["tdm"], False),
        "/silent": (["mining"], False),
    }
    result = run_crawl(
        [
            {"url": host.url(path), "meta": {"rep_purposes": purposes}}
            for path, (purposes, _) in wanted.items()
        ],
        spider=f"{SPIDERS}.PageSpider",
        settings={"REP_PURPOSES": ["train-ai"]},
    )
    assert items(result, host) == {
        path for path, (_, passes) in wanted.items() if passes
    }
    assert "/silent" not in host.pages
    error = result.error(host.url("/silent"))["message"]
    assert "meta['rep_purposes'] is ['mining'], but it must be one or" in error


# tdmrep.json.


@pytest.mark.newest
def test_tdmrep_is_fetched_like_robots_txt(site: Site, tmp_path: Path) -> None:
    """tdmrep.json is fetched once per origin while it is fresh, also over several crawls,
    with the Crawl-delay of its host, and not if robots.txt forbids it.
    """
    host = build(site)
    closed = site.add("User-agent: *\nDisallow: /.well-known/\nCrawl-delay: 0.2\n")
    slow = site.add("User-agent: *\nCrawl-delay: 0.3\n")
    slow.answers[WELL_KNOWN] = Answer(TDMREP)
    settings = {"REP_STORE": f"sqlite:///{tmp_path}/store", "REP_PURPOSES": ["tdm"]}
    urls = [host.url("/mining/a"), closed.url("/mining/a"), slow.url("/mining/a")]
    for _ in range(2):
        result = run_crawl(
            urls, spider=f"{SPIDERS}.PageSpider", settings=settings
        )  # fmt: skip
        assert [item["url"] for item in result.items] == [closed.url("/mining/a")]
    assert len(host.robots_hits) == len(host.hits_on(WELL_KNOWN)) == 1
    assert len(slow.hits_on(WELL_KNOWN)) == 1
    assert closed.hits_on(WELL_KNOWN) == []
    times = [hit.time for hit in slow.hits[:3]]
    assert [hit.path for hit in slow.hits[:3]] == [
        "/robots.txt",
        WELL_KNOWN,
        "/mining/a",
    ]
    assert times[2] - times[1] >= 0.29


def test_tdmrep_that_says_nothing(site: Site, mode: str) -> None:
    """A tdmrep.json that is missing, broken, too long or unreachable reserves nothing, and
    delays nothing. Redirects are followed.
    """
    down = site.add(Answer(status=503))
    answers = {
        "missing": Answer(status=404),
        "broken": Answer(b"[{"),
        "failing": Answer(status=503),
        "long": Answer(b" " * 600_000 + TDMREP),
        "moved": Answer(status=302, headers={"Location": "/other.json"}),
        "moved away": redirect(site.refusing().url("/other.json")),
        "moved to a host whose robots.txt is down": redirect(down.url("/other.json")),
    }
    hosts = {name: site.add("User-agent: *\nDisallow:\n") for name in answers}
    for name, answer in answers.items():
        hosts[name].answers[WELL_KNOWN] = answer
        hosts[name].answers["/other.json"] = Answer(TDMREP)
    result = run_crawl(
        [host.url("/mining/a") for host in hosts.values()],
        spider=f"{SPIDERS}.PageSpider",
        mode=mode,
        settings={"REP_PURPOSES": ["tdm"]},
    )
    passed = {item["url"] for item in result.items}
    expected = answers.keys() - {"moved"}
    assert passed == {hosts[name].url("/mining/a") for name in expected}
    assert result.stats["rep/tdmrep/successful"] == 3
    assert result.stats["rep/tdmrep/unavailable"] == 1
    assert result.stats["rep/tdmrep/unreachable"] == 3
    assert down.pages == []
    # Scrapy's stats count robots.txt only: of these hosts, and of the two that are away.
    assert result.stats["robotstxt/request_count"] == len(hosts) + 2
    assert result.stats["robotstxt/response_count"] == len(hosts) + 1


# User agents.

NAMES = {"train-ai": "testbot-train", "search": "testbot"}
GROUPS = """\
User-agent: testbot
Disallow: /not-for-search/
Disallow: /for-none/

User-agent: testbot-train
Disallow: /not-for-training/
Disallow: /for-none/
Content-Usage: /usage/ train-ai=n, search=n
Crawl-delay: 0.1

User-agent: *
Disallow: /
"""


def test_a_name_for_each_purpose(site: Site, mode: str, tmp_path: Path) -> None:
    """Each purpose follows the group of its own user agent. A page that all of them must
    not fetch is not fetched.
    """
    paths = ["/a", "/not-for-search/", "/not-for-training/", "/for-none/", "/usage/"]
    host, ledger = site.add(GROUPS), tmp_path / "ledger.sqlite"
    result = run_crawl(
        [host.url(path) for path in paths],
        spider=f"{SPIDERS}.PageSpider",
        mode=mode,
        settings={
            "REP_PURPOSES": ["search", "train-ai"],
            "REP_AGENTS": NAMES,
            "REP_LEDGER": str(ledger),
        },
    )
    assert items(result, host) == {"/a"}
    # The others are fetched for the purpose that may use them.
    assert set(host.pages) - {WELL_KNOWN} == set(paths) - {"/for-none/"}
    assert result.stats["rep/denied/rule"] == 1
    rows = {row["url"].removeprefix(host.origin): row for row in used(ledger)}
    row = rows["/not-for-search/"]
    assert (row["reason"], row["agent"], row["line"], row["statement"]) == (
        "search", "testbot", 2, "Disallow: /not-for-search/",
    )  # fmt: skip
    assert rows["/usage/"]["reason"] == "train-ai"
    assert {hit.headers["User-Agent"] for hit in host.hits} == {"testbot"}


# Media.


def test_media(site: Site, mode: str, tmp_path: Path) -> None:
    """Files that must not be used for a purpose, by their own statements, do not arrive. Images
    that the item of a page with noimageai names are not requested.
    """
    host = site.add("User-agent: *\nContent-Usage: /no/ train-ai=n\n")
    files = {
        "/a.gif": image(),
        "/no/b.gif": image(),
        "/c.gif": image(X_Robots_Tag="noimageai"),
        "/d.gif": image(Content_Usage="train-ai=n"),
        "/e.gif": image(),
        "/f.pdf": Answer(b"f", headers={"Content-Type": "application/pdf"}),
        "/g.pdf": Answer(b"g", headers={"tdm-reservation": "1"}),
    }

    def with_files(head: str, *paths: str) -> Answer:
        tags = {"gif": "img src", "pdf": "a href"}
        named = (f'<{tags[path[-3:]]}="{host.url(path)}">' for path in paths)
        return page(head + "".join(named))

    host.answers |= {
        "/": with_files("", "/a.gif", "/no/b.gif", "/c.gif", "/d.gif", "/g.pdf"),
        "/page": with_files(
            '<meta name="robots" content="noimageai">', "/e.gif", "/f.pdf"
        ),
        **files,
    }
    result = run_crawl(
        [host.url("/"), host.url("/page")],
        spider=f"{SPIDERS}.MediaPageSpider",
        mode=mode,
        settings={
            "ITEM_PIPELINES": {
                "scrapy.pipelines.images.ImagesPipeline": 1,
                "scrapy.pipelines.files.FilesPipeline": 2,
            },
            "IMAGES_STORE": str(tmp_path / "files"),
            "FILES_STORE": str(tmp_path / "files"),
            "REP_PURPOSES": ["train-ai"],
            "REP_LEDGER": str(tmp_path / "ledger.sqlite"),
        },
    )
    assert "/e.gif" not in host.pages
    arrived = {
        media["url"]
        for item in result.items
        for media in [*item["images"], *item["files"]]
    }
    assert arrived == {host.url("/a.gif"), host.url("/f.pdf")}
    assert result.stats["rep/usage/media/train-ai"] == 5
    rows = {
        row["url"].removeprefix(host.origin): row
        for row in used(tmp_path / "ledger.sqlite")
    }
    assert rows.keys() == {"/no/b.gif", "/c.gif", "/d.gif", "/e.gif", "/g.pdf"}
    assert rows["/e.gif"]["page"] == host.url("/page")
    assert (rows["/no/b.gif"]["line"], rows["/no/b.gif"]["source"]) == (2, "robots.txt")
