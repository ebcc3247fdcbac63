"""The ledger rows that the signals of a crawl produce."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, signals
from scrapy.exceptions import DropItem
from scrapy.http import HtmlResponse, Response

from scrapy_rep import signals as ours
from scrapy_rep.exceptions import ItemDenied, UsageDenied
from scrapy_rep.extensions import evidence
from scrapy_rep.extensions.evidence import Evidence
from scrapy_rep.ledger.terms import Layer, Verdict
from scrapy_rep.protocol.access.results import AccessResult, Entry
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.usage.preferences import Denial, UsagePreferences
from scrapy_rep.settings import RepSettings
from tests.fakes import fake_crawler

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.ledger.records import Decided, Snapshot

pytestmark = pytest.mark.newest

URL = "http://example.com/a"
ROBOTS = b"User-agent: *\nContent-Usage: train-ai=n\nLicense: https://l.example/\n"
ENTRY = Entry(
    result=AccessResult(url="http://example.com/robots.txt", status=200, body=ROBOTS),
    fetched=1_800_000_000.0,
    expires=1_800_086_400.0,
)


def recorder(**settings: Any) -> tuple[dict[Any, Callable[..., None]], list[Any]]:
    """The signal receivers, and the list of the rows that they write."""
    rows: list[Snapshot | Decided] = []
    crawler = fake_crawler({"REP_LEDGER": "ledger.sqlite", **settings})
    settings_read = RepSettings.from_settings(crawler.settings)
    found = Evidence(settings_read, rows.append)
    # The receivers are bound methods, so they keep the object alive.
    return found.receivers, rows


def preferences() -> UsagePreferences:
    return RobotsTxt.parse(ROBOTS).usage(URL, ("mybot",))


def denial() -> Denial:
    found = preferences().denial(["train-ai"])
    assert found is not None
    return found


# Usage preferences.


def test_statements_of_use() -> None:
    """Each usage statement makes a row with its line in robots.txt and the time of the fetch.
    A statement without a category has its signal as the reason.
    """
    receivers, rows = recorder(REP_LEDGER_LEVEL="all")
    receivers[ours.usage_read](
        response=Response(URL), preferences=preferences(), entry=ENTRY
    )
    assert {(row.reason, row.line, row.source) for row in rows} == {
        ("train-ai", 2, "robots.txt"),
        ("License", 3, "robots.txt"),
    }
    for row in rows:
        assert (row.layer, row.verdict) == (Layer.USAGE, Verdict.NOTED)
        assert (row.url, row.page, row.fetched) == (URL, URL, ENTRY.fetched)


def test_statements_of_use_are_bounded() -> None:
    """The number of rows for one response is limited."""
    receivers, rows = recorder(REP_LEDGER_LEVEL="all")
    many = UsagePreferences(preferences().statements * 500)
    receivers[ours.usage_read](response=Response(URL), preferences=many, entry=None)
    assert 0 < len(rows) <= 100
    assert {row.fetched for row in rows} == {None}


@pytest.mark.parametrize("is_dropped", [False, True])
def test_items_that_are_not_for_a_purpose(is_dropped: bool) -> None:
    """An annotated item has the same evidence as a dropped one."""
    receivers, rows = recorder()
    response = Response(URL)
    if is_dropped:
        exception = UsageDenied(URL, denial(), ENTRY)
        receivers[signals.item_dropped](response=response, exception=exception)
    else:
        receivers[ours.usage_annotated](response=response, denial=denial(), entry=ENTRY)
    (row,) = rows
    assert row.verdict is (Verdict.DROPPED if is_dropped else Verdict.ANNOTATED)
    assert (row.layer, row.reason, row.line) == (Layer.USAGE, "train-ai", 2)
    assert row.statement == "Content-Usage: train-ai=n"
    assert row.fetched == ENTRY.fetched


def test_items_that_others_drop() -> None:
    """An item that another component drops makes no row."""
    receivers, rows = recorder()
    drop = receivers[signals.item_dropped]
    drop(response=Response(URL), exception=DropItem("a duplicate"))
    assert rows == []
    rules = IndexingRules.parse([b"noindex"])
    drop(response=Response(URL), exception=ItemDenied(URL, "noindex", rules))
    assert [(row.layer, row.reason) for row in rows] == [(Layer.HEADER, "noindex")]


@pytest.mark.parametrize(
    ("reason", "statement", "layer"),
    [
        ("train-ai", denial().statement, Layer.USAGE),
        ("search", None, Layer.USAGE),
        ("noindex", IndexingRules.parse([b"noindex"]).statements[0], Layer.HEADER),
        ("noimageindex", None, Layer.META),
    ],
)
def test_files_that_are_refused(reason: str, statement: Any, layer: Layer) -> None:
    """The row of a refused file has the page that refuses it and the layer."""
    receivers, rows = recorder()
    receivers[ours.media_refused](
        url="http://cdn.example/a.png",
        request=Request(URL),
        response=Response(URL),
        reason=reason,
        statement=statement,
        entry=ENTRY,
    )
    (row,) = rows
    assert (row.layer, row.verdict, row.reason) == (layer, Verdict.DROPPED, reason)
    assert (row.url, row.page) == ("http://cdn.example/a.png", URL)


# Rules that the settings ignore.


@pytest.mark.parametrize(("level", "count"), [("denied", 2), ("all", 4)])
def test_requests_without_obedience(level: str, count: int) -> None:
    """With ROBOTSTXT_OBEY off, a row is written for each origin or, at the level "all", for
    each request. URLs without an origin make no row.
    """
    receivers, rows = recorder(ROBOTSTXT_OBEY=False, REP_LEDGER_LEVEL=level)
    reach = receivers[signals.request_reached_downloader]
    for url in (URL, f"{URL}/b", "http://other.example/", "data:,x", URL):
        reach(request=Request(url))
    assert len(rows) == count
    assert {row.origin for row in rows} == {
        "http://example.com",
        "http://other.example",
    }
    assert {(row.layer, row.verdict) for row in rows} == {
        (Layer.OVERRIDE, Verdict.ALLOWED)
    }
    assert signals.request_reached_downloader not in recorder()[0]


@pytest.mark.parametrize(("level", "count"), [("denied", 2), ("all", 3)])
def test_statements_that_are_ignored(level: str, count: int) -> None:
    """An ignored noindex makes a row for each origin or, at the level "all", for each page."""
    receivers, rows = recorder(REP_NOINDEX="ignore", REP_LEDGER_LEVEL=level)
    for url in (URL, f"{URL}/b", "http://other.example/"):
        receivers[ours.indexing_read](
            request=Request(url),
            response=HtmlResponse(url),
            rules=IndexingRules.parse([b"noindex"]),
        )
    kept = [row for row in rows if row.layer is Layer.OVERRIDE]
    assert len(kept) == count
    assert {(row.verdict, row.statement) for row in kept} == {
        (Verdict.ALLOWED, "noindex")
    }


def test_what_was_recorded_is_remembered_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The memory of recorded origins is limited; beyond the limit, an origin can be recorded
    again.
    """
    monkeypatch.setattr(evidence, "_MAX_REMEMBERED", 2)
    receivers, rows = recorder(ROBOTSTXT_OBEY=False)
    reach = receivers[signals.request_reached_downloader]
    for number in (1, 2, 1, 3, 1, 3):
        reach(request=Request(f"http://host{number}.example/"))
    assert [row.origin[11:-8] for row in rows] == ["1", "2", "3", "1"]
