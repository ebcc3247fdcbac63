"""The extension that writes a ledger, without a crawl."""

from __future__ import annotations

import json
from contextlib import closing
from importlib.metadata import PackageNotFoundError
from typing import TYPE_CHECKING

import pytest
from scrapy import Request, signals
from scrapy.http import HtmlResponse

from scrapy_rep.downloadermiddlewares.indexing import IndexingMiddleware
from scrapy_rep.extensions import ledger as module
from scrapy_rep.extensions.ledger import Ledger
from scrapy_rep.ledger import writer
from scrapy_rep.ledger.reader import open_ledger
from scrapy_rep.settings import NOINDEX, OBEY
from tests.fakes import coroutine_test, fake_crawler

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from sqlite3 import Row
    from typing import NoReturn

    from scrapy.crawler import Crawler

pytestmark = pytest.mark.newest


def extension(path: Path, **settings: str) -> tuple[Ledger, Crawler]:
    settings = {"REP_LEDGER": str(path), "ROBOTSTXT_OBEY": False, **settings}
    crawler = fake_crawler(settings)
    return Ledger.from_crawler(crawler), crawler


async def crawl(crawler: Crawler) -> None:
    """Open the spider, have it send requests to two hosts, and close it."""
    spider = crawler.spider
    crawler.signals.send_catch_log(signals.spider_opened, spider=spider)
    for host in "ab":
        crawler.signals.send_catch_log(
            signals.request_reached_downloader,
            request=Request(f"http://{host}.example/"),
            spider=spider,
        )
    await crawler.signals.send_catch_log_async(
        signals.spider_closed, spider=spider, reason="finished"
    )


@coroutine_test
async def test_records_without_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Lost records are counted in the stats, and one warning names the ledger."""
    monkeypatch.setattr(writer, "_MAX_WAITING", 0)
    path = tmp_path / "ledger"
    kept, crawler = extension(path)
    await crawl(crawler)
    assert crawler.stats.get_value("rep/ledger/dropped") == 2
    assert [str(path) in line for line in caplog.messages] == [True]
    assert kept is not None


@coroutine_test
async def test_a_spider_that_never_opens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If a crawl ends before its spider is open, the extension does nothing."""
    kept, crawler = extension(tmp_path / "ledger")
    await crawler.signals.send_catch_log_async(
        signals.spider_closed, spider=crawler.spider, reason="shutdown"
    )
    # Scrapy's CoreStats logs an error of its own here.
    assert not any(each.name.startswith("scrapy_rep") for each in caplog.records)
    assert "Ledger" not in caplog.text
    assert kept is not None


@coroutine_test
async def test_a_package_that_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the metadata of an installed package, the ledger records "not installed"."""

    def version(name: str) -> NoReturn:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(module, "version", version)
    path = tmp_path / "ledger"
    kept, crawler = extension(path)
    await crawl(crawler)
    with closing(open_ledger(str(path))) as connection:
        (row,) = connection.execute("SELECT versions FROM crawl")
    assert json.loads(row["versions"])["scrapy-rep"] == "not installed"
    assert crawler.stats.get_value("rep/ledger/recorded") == 2
    assert kept is not None


URLS = ["http://a.example/1", "http://a.example/2", "http://b.example/"]


@pytest.mark.parametrize("level", ["denied", "all"])
@pytest.mark.parametrize(("reason", "page"), [(OBEY, ""), (NOINDEX, "noindex")])
@coroutine_test
async def test_what_the_user_ignores(
    tmp_path: Path, reason: str, page: str, level: str
) -> None:
    """What is ignored by ROBOTSTXT_OBEY or REP_NOINDEX makes a row for each origin or, at the
    level "all", for each request or page. URLs without an origin make no row.
    """
    settings = {NOINDEX: "ignore", "REP_LEDGER_LEVEL": level}
    urls = URLS if page else (*URLS, "data:,x")
    rows = await recorded(tmp_path, urls, page=page, **settings)
    kept = [row for row in rows if row["reason"] == reason]
    assert [row["url"] for row in kept] == (
        URLS if level == "all" else [URLS[0], URLS[2]]
    )
    assert {(row["layer"], row["verdict"], row["statement"]) for row in kept} == {
        ("override", "allowed", page or None)
    }


@coroutine_test
async def test_what_was_recorded_is_remembered_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of recorded origins is limited; beyond the limit, an origin can be recorded
    again.
    """
    monkeypatch.setattr(module, "_MAX_REMEMBERED", 2)
    urls = [f"http://host{number}.example/" for number in (1, 2, 1, 3, 1, 3)]
    rows = await recorded(tmp_path, urls)
    assert [row["origin"][11:-8] for row in rows] == ["1", "2", "3", "1"]


async def recorded(
    tmp_path: Path, urls: Sequence[str], *, page: str = "", **settings: str
) -> list[Row]:
    """Return the rows about requests for *urls*, or about pages there with this X-Robots-Tag."""
    path = tmp_path / "ledger"
    kept, crawler = extension(path, **settings)
    spider, send = crawler.spider, crawler.signals.send_catch_log
    send(signals.spider_opened, spider=spider)
    for request in map(Request, urls):
        if page:
            response = HtmlResponse(request.url, headers={"X-Robots-Tag": page})
            IndexingMiddleware(crawler).process_response(request, response)
        else:
            send(signals.request_reached_downloader, request=request, spider=spider)
    await crawler.signals.send_catch_log_async(
        signals.spider_closed, spider=spider, reason="finished"
    )
    assert kept is not None
    with closing(open_ledger(str(path))) as ledger:
        return ledger.execute("SELECT * FROM decision ORDER BY id").fetchall()
