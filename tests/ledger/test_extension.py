"""Tests of :class:`LedgerExtension`, which writes the ledger of a crawl. The crawls are faked: the
tests send the signals of Scrapy.
"""

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
    """Fake a crawl with the extension. If *page* is given, the crawl receives a page with this
    X-Robots-Tag from each of the *urls*; otherwise, it requests each URL. If *urls* is empty, the
    spider is never opened. Return the rows of the decisions, each joined with the row of its crawl,
    and the crawler.
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
async def test_an_ignored_rule_is_recorded_once_per_origin_or_for_each_url(
    tmp_path: Path, reason: str, page: str, level: str
) -> None:
    """If settings ignore robots.txt (ROBOTSTXT_OBEY) or noindex (REP_NOINDEX), each origin gets one
    row. With the level "all", each request or page gets a row. A URL without an origin gets none.
    """
    settings = {NOINDEX: "ignore", "REP_LEDGER_LEVEL": level}
    urls = URLS if page else (*URLS, "data:,x")
    rows, _ = await crawl(tmp_path, urls, page=page, **settings)
    overrides = [row for row in rows if row["reason"] == reason]
    assert [row["url"] for row in overrides] == (URLS if level == "all" else URLS[::2])
    expected = ("override", "allowed", page or None)
    assert {(row["layer"], row["verdict"], row["statement"]) for row in overrides} == {
        expected
    }


@coroutine_test
async def test_dropped_records_are_counted_and_logged_in_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Dropped records are counted in the stats, and a single warning names the ledger."""
    monkeypatch.setattr(writer, "_MAX_WAITING", 0)
    _, crawler = await crawl(tmp_path)
    assert crawler.stats.get_value("rep/ledger/dropped") == 2
    assert [str(tmp_path / "ledger") in line for line in caplog.messages] == [True]


@coroutine_test
async def test_decisions_are_written_each_second_during_the_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
async def test_no_ledger_is_written_if_the_spider_never_opens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If a crawl ends before its spider is opened, the extension writes nothing and logs nothing."""
    assert (await crawl(tmp_path, urls=()))[0] == []
    # Scrapy's CoreStats logs an error of its own here.
    assert not any(record.name.startswith("scrapy_rep") for record in caplog.records)
    assert "Ledger" not in caplog.text


@coroutine_test
async def test_the_memory_of_recorded_origins_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The set of origins that already have a row is limited. Beyond the limit, an origin can be
    recorded a second time.
    """
    monkeypatch.setattr(module, "_MAX_REMEMBERED", 2)
    urls = [f"http://host{number}.example/" for number in (1, 2, 1, 3, 1, 3)]
    rows, crawler = await crawl(tmp_path, urls)
    assert [row["origin"][11:-8] for row in rows] == ["1", "2", "3", "1"]
    assert json.loads(rows[0]["versions"])["scrapy-rep"] == scrapy_rep.__version__
    assert crawler.stats.get_value("rep/ledger/recorded") == 4
