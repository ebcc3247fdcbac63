"""Tests of a project that exports its items and responses as JSON. With this package, it gets the same data as with
stock Scrapy. Only pages that robots.txt or indexing rules exclude are missing.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import pytest

from tests.crawl.answers import Answer, html, meta, redirect, robots
from tests.crawl.crawl import ADDON, run_crawl
from tests.crawl.server import Site
from tests.fetching.redis_server import BINARY, RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host

pytestmark = pytest.mark.unmeasured

SPIDERS = "tests.crawl.export_spiders"
SERVICE = "tests.crawl.component_spiders.SomeService"
RULES = "User-agent: *\nDisallow: /private\nDisallow: /rendered\nCrawl-delay: 0.01\n"
PDF = {"Content-Type": "application/pdf", "X-Robots-Tag": "noarchive"}
EXEMPT = {"dont_obey_robotstxt": True}
PATHS = (
    "/open", "/noindex", "/nofollow", "/restricted", "/data", "/moved", "/gone", "/often",
    "/private/page",
)  # fmt: skip
FILES = ("/robots.txt", "/.well-known/tdmrep.json")
WITHHELD = {"/noindex", "/behind", "/private/page"}


class Features(NamedTuple):
    """A crawl with some features of the package: its settings, and the differences to stock Scrapy."""

    settings: dict[str, Any] = {}
    withheld: set[str] = WITHHELD
    """The paths of the pages without an item."""

    rep_flags: bool = True
    """Whether the flags of responses have the indexing rules of their pages."""


FEATURES = {
    "dry run": Features({"REP_DRY_RUN": True}, set(), rep_flags=False),
    "add-on": Features(),
    "all features": Features(
        {
            "REP_LEDGER": "ledger.sqlite",
            "REP_LEDGER_LEVEL": "all",
            "REP_PURPOSES": ["train-ai"],
            "REP_REL": ["ugc"],
            "REP_STORE": "sqlite",
        }
    ),
    "ignored": Features(
        {"ROBOTSTXT_OBEY": False, "REP_NOFOLLOW": "ignore", "REP_NOINDEX": "ignore"},
        set(),
    ),
    "JOBDIR": Features({"JOBDIR": "job"}),
    "Redis": Features(
        {
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        }
    ),
}


def add_host(site: Site) -> Host:
    """Add a host to *site* whose pages have indexing rules, redirects and errors of all kinds."""
    host = site.add()
    host.answers |= {
        "/robots.txt": robots(RULES),
        "/": html("".join(f'<a href="{path}">' for path in PATHS)),
        "/open": html(),
        "/noindex": html("", meta("noindex")),
        "/nofollow": html('<a href="/behind">', meta("nofollow")),
        "/behind": html(),
        "/restricted": html("", meta("noarchive, max-snippet:20"), "notranslate"),
        "/data": Answer(b"{}", headers={"Content-Type": "application/json"}),
        "/moved": redirect("/target"),
        "/exempt": redirect("/private/target"),
        "/target": html(),
        "/private/target": html(),
        "/private/page": html(),
        "/gone": Answer(b"gone", 404, {"X-Robots-Tag": "none"}),
        "/often": [Answer(status=500), html()],
        "/file.pdf": Answer(b"file", headers=PDF),
    }
    return host


def crawl(
    host: Host, folder: Path, settings: dict[str, Any], **enable: Any
) -> CrawlResult:
    """Crawl *host*. All files of the crawl are in *folder*, which is created."""
    folder.mkdir()
    for name in ("JOBDIR", "REP_LEDGER"):
        if name in settings:
            settings = {**settings, name: str(folder / settings[name])}
    if "REP_STORE" in settings:
        settings = {**settings, "REP_STORE": f"sqlite:///{folder}/store.sqlite"}
    exempt = ("/exempt", "/private/mine", "/rendered/mine")
    return run_crawl(
        [host.url("/"), *({"url": host.url(path), "meta": EXEMPT} for path in exempt)],
        spider=f"{SPIDERS}.ExportSpider",
        settings={
            "DOWNLOADER_MIDDLEWARES": {SERVICE: 725},
            "FILES_STORE": str(folder),
            "HTTPERROR_ALLOW_ALL": False,
            "ITEM_PIPELINES": {f"{SPIDERS}.ExportPipeline": 1},
            "RETRY_ENABLED": True,
            "RETRY_HTTP_CODES": [500],
            **settings,
        },
        **enable,
    )


def by_path(rows: list[dict[str, Any]], host: Host) -> dict[str, Any]:
    """Return *rows* in a dict, by the paths of their URLs.

    In all values, the origin of *host* is removed from URLs, so that rows of two hosts can be compared.
    """
    text = json.dumps(rows)
    for origin in (host.origin, quote(host.origin, safe="")):
        text = text.replace(origin, "")
    row_of = {row["url"]: row for row in json.loads(text)}
    for row in row_of.values():
        for file in row.get("files", ()):
            del file[
                "path"
            ]  # The path has a digest of the URL, which differs from host to host.
    return row_of


def noted_rules(result: CrawlResult) -> list[dict[str, Any]]:
    """Return what ``ExportSpider.note_rules`` has noted."""
    return [note for note in result.denied if "in" in note]


class Stock(NamedTuple):
    """A host, and the result of a crawl of it with stock Scrapy."""

    host: Host
    result: CrawlResult


class TestExport:
    """Tests that compare the rows of each crawl with those of one crawl with stock Scrapy."""

    @pytest.fixture(scope="class")
    @classmethod
    def site(cls) -> Iterator[Site]:
        with Site() as site:
            yield site

    @pytest.fixture(scope="class")
    @classmethod
    def service(cls, site: Site) -> Host:
        return site.add(name="127.0.0.9")

    @pytest.fixture(scope="class")
    @classmethod
    def stock(
        cls, site: Site, service: Host, tmp_path_factory: pytest.TempPathFactory
    ) -> Stock:
        host, folder = add_host(site), tmp_path_factory.mktemp("crawl") / "stock"
        settings = {"SERVICE_URL": service.origin}
        return Stock(host, crawl(host, folder, settings, enable={}))

    @pytest.mark.parametrize("name", FEATURES)
    def test_a_project_exports_the_same_rows_as_with_stock_scrapy(
        self, site: Site, service: Host, stock: Stock, tmp_path: Path, name: str
    ) -> None:
        """The meta, flags, headers and request of each response, as JSON, are the same as with stock Scrapy. This
        applies to pages, to files of FilesPipeline, and to all other responses that Scrapy receives.

        There are two differences. Pages that robots.txt or indexing rules exclude are missing. If a page says noindex
        or nofollow, the flags of its response contain this rule.

        ``indexing_rules`` returns the rules of a response in callbacks, errbacks and pipelines, also for a copy of the
        response.
        """
        feature_settings, withheld, rep_flags = FEATURES[name]
        host, stock_host = add_host(site), stock.host
        settings = {**feature_settings, "SERVICE_URL": service.origin}
        server: Any = nullcontext()
        if name == "Redis":
            pytest.importorskip("scrapy_redis")
            if BINARY is None:
                pytest.skip("There is no redis-server on the PATH")
            server = RedisServer()
        with server as redis:
            if redis is not None:
                settings["REDIS_URL"] = redis.url
            result = crawl(host, tmp_path / "rep", settings, enable=ADDON)
        assert "log_count/ERROR" not in result.stats, result.log
        assert "log_count/ERROR" not in stock.result.stats, stock.result.log
        for kind in ("items", "responses", "read"):
            expected = by_path(getattr(stock.result, kind), stock_host)
            exported = by_path(getattr(result, kind), host)
            for flag in ("noindex", "nofollow"):
                if rep_flags and f"/{flag}" in expected:
                    expected[f"/{flag}"]["flags"] = [flag]
            missing = withheld
            if kind == "read":
                # The page /noindex is fetched; only its item is dropped.
                missing = withheld - {"/noindex"}
                files = {
                    path: row for path, row in exported.items() if path not in expected
                }
                assert all(path.endswith(FILES) for path in files)
                assert "rep" not in str([list(row["meta"]) for row in files.values()])
                exported = {
                    path: row for path, row in exported.items() if path in expected
                }
            rows = {path: row for path, row in expected.items() if path not in missing}
            assert exported == rows, kind
        paths = {*PATHS, "/", "/target", "/private/target", "/behind", "/private/mine"}
        assert set(by_path(stock.result.items, stock_host)) == {
            *paths,
            "/rendered/mine",
        } - {"/moved"}
        assert set(by_path(stock.result.responses, stock_host)) == {"/file.pdf"}
        assert {note["says"] for note in noted_rules(stock.result)} == {"ValueError"}
        rules = {
            (note["url"].removeprefix(host.origin), note["in"]): note["says"]
            for note in noted_rules(result)
        }
        for where in ("callback", "copy"):
            assert rules["/noindex", where] == "noindex"
            assert (
                rules["/restricted", where] == "noarchive, notranslate, max-snippet:20"
            )
            assert rules["/data", where] == "all"
        assert rules["/gone", "errback"] == "noindex, nofollow"
        assert rules["/file.pdf", "pipeline"] == "noarchive"
