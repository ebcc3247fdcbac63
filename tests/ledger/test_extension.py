"""The extension that writes a ledger, without a crawl."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from scrapy import Request, signals
from scrapy.http import HtmlResponse
from twisted.internet.task import Clock, LoopingCall

import scrapy_rep
from scrapy_rep.base.settings import NOINDEX, OBEY
from scrapy_rep.crawl.ledger import extension as module
from scrapy_rep.crawl.ledger import writer
from scrapy_rep.crawl.ledger.extension import LedgerExtension
from scrapy_rep.crawl.ledger.reader import open_ledger
from scrapy_rep.crawl.pages.indexing import IndexingMiddleware
from tests.fakes import coroutine_test, fake_crawler

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from sqlite3 import Row

    from scrapy.crawler import Crawler

pytestmark = pytest.mark.newest

URLS = ["http://a.example/1", "http://a.example/2", "http://b.example/"]


async def crawl(
    tmp_path: Path, urls: Sequence[str] = URLS, *, page: str = "", **settings: str
) -> tuple[list[Row], Crawler]:
    """Run a crawl with requests for *urls*, or with pages there that have this X-Robots-Tag. Return
    the rows of its decisions, with its versions.
    """
    path = tmp_path / "ledger"
    settings = {"REP_LEDGER": str(path), "ROBOTSTXT_OBEY": False, **settings}
    crawler = fake_crawler(settings)
    extension = LedgerExtension.from_crawler(crawler)
    spider, send = crawler.spider, crawler.signals.send_catch_log
    if urls:
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
    assert extension is not None
    with closing(open_ledger(str(path))) as ledger:
        query = (
            "SELECT * FROM decision JOIN crawl ON crawl.id = crawl ORDER BY decision.id"
        )
        return ledger.execute(query).fetchall(), crawler


@pytest.mark.parametrize("level", ["denied", "all"])
@pytest.mark.parametrize(("reason", "page"), [(OBEY, ""), (NOINDEX, "noindex")])
@coroutine_test
async def test_what_the_user_ignores_is_recorded_once_an_origin(
    tmp_path: Path, reason: str, page: str, level: str
) -> None:
    """What is ignored by ROBOTSTXT_OBEY or REP_NOINDEX makes a row for each origin or, at the
    level "all", for each request or page. URLs without an origin make no row.
    """
    settings = {NOINDEX: "ignore", "REP_LEDGER_LEVEL": level}
    urls = URLS if page else (*URLS, "data:,x")
    rows, _ = await crawl(tmp_path, urls, page=page, **settings)
    kept = [row for row in rows if row["reason"] == reason]
    assert [row["url"] for row in kept] == (URLS if level == "all" else URLS[::2])
    stated = ("override", "allowed", page or None)
    assert {(row["layer"], row["verdict"], row["statement"]) for row in kept} == {
        stated
    }


@coroutine_test
async def test_lost_records_are_counted_and_warned_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Lost records are counted in the stats, and one warning names the ledger."""
    monkeypatch.setattr(writer, "_MAX_WAITING", 0)
    _, crawler = await crawl(tmp_path)
    assert crawler.stats.get_value("rep/ledger/dropped") == 2
    assert [str(tmp_path / "ledger") in line for line in caplog.messages] == [True]


@coroutine_test
async def test_a_decision_is_in_the_file_about_a_second_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision is in the file about a second later, while the crawl goes on."""
    clock, path = Clock(), tmp_path / "ledger"
    monkeypatch.setattr(module, "create_looping_call", LoopingCall)
    crawler = fake_crawler({"REP_LEDGER": str(path), "ROBOTSTXT_OBEY": False})
    extension = LedgerExtension.from_crawler(crawler)
    extension._checking.clock = clock
    spider, send = crawler.spider, crawler.signals.send_catch_log
    send(signals.spider_opened, spider=spider)
    extension._writer._thread.join()
    counts = []
    for seconds in (0.0, 1.0, 1.0):
        send(
            signals.request_reached_downloader, request=Request(URLS[0]), spider=spider
        )
        clock.advance(seconds)
        extension._writer._thread.join()
        with closing(open_ledger(str(path))) as ledger:
            query = "SELECT count(*) FROM decision, crawl WHERE ended IS NULL"
            counts += map(tuple, ledger.execute(query))
        extension._recorded_once.clear()
    assert counts == [(0,), (2,), (3,)]
    await crawler.signals.send_catch_log_async(
        signals.spider_closed, spider=spider, reason="finished"
    )


@coroutine_test
async def test_without_an_open_spider_no_ledger_is_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If a crawl ends before its spider is open, the extension does nothing."""
    assert (await crawl(tmp_path, urls=()))[0] == []
    # Scrapy's CoreStats logs an error of its own here.
    assert not any(record.name.startswith("scrapy_rep") for record in caplog.records)
    assert "Ledger" not in caplog.text


@coroutine_test
async def test_the_memory_of_recorded_origins_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of recorded origins is limited; beyond the limit, an origin can be recorded
    again.
    """
    monkeypatch.setattr(module, "_MAX_REMEMBERED", 2)
    urls = [f"http://host{number}.example/" for number in (1, 2, 1, 3, 1, 3)]
    rows, crawler = await crawl(tmp_path, urls)
    assert [row["origin"][11:-8] for row in rows] == ["1", "2", "3", "1"]
    assert json.loads(rows[0]["versions"])["scrapy-rep"] == scrapy_rep.__version__
    assert crawler.stats.get_value("rep/ledger/recorded") == 4
