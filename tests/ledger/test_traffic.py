"""What is counted and measured, and how the batches of it are put together in the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scrapy_rep.ledger import writer as module
from scrapy_rep.ledger.traffic import Traffic
from scrapy_rep.ledger.writer import LedgerWriter
from tests.ledger.records import CRAWL, END
from tests.ledger.test_writer import rows, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

A, B = "http://a.example", "http://b.example"
TRAFFIC = (
    "SELECT origin, hour, pages, bytes, delay, gap, pauses, pause, resumed FROM traffic"
)
PROGRESS = "SELECT minute, pages, bytes, waiting FROM progress"


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WRITE_INTERVAL", 0.01)
    monkeypatch.setattr(module, "_RETRY_AFTER", 0.01)


def started(path: Path) -> tuple[LedgerWriter, Traffic]:
    writer, traffic = LedgerWriter(path, CRAWL), Traffic()
    writer.start()
    traffic.write = writer.write
    return writer, traffic


def note_all(traffic: Traffic, between: Callable[[], object]) -> None:
    """Note the events of two hosts in two hours, and call *between* after each."""
    for note in (
        lambda: traffic.note_page(A, 100, 3700),
        lambda: traffic.note_gap(A, 2.0, None, 3700),
        lambda: traffic.note_gap(A, 2.0, 2.5, 3701),
        lambda: traffic.note_gap(A, 2.0, 2.2, 3702),
        lambda: traffic.note_gap(A, 1.0, 1.5, 3703),
        lambda: traffic.note_gap(A, 2.0, None, 3704),
        lambda: traffic.note_page(A, 23, 7300),
        lambda: traffic.note_page(B, 7, 7301),
        lambda: traffic.note_waiting(4, 7301),
        lambda: traffic.note_waiting(9, 7302),
        lambda: traffic.note_waiting(2, 7303),
        lambda: traffic.note_pause(B, 5.0, 7304),
        lambda: traffic.note_resumed(B, 5.0, 6.0, 7305),
        lambda: traffic.note_pause(B, 60.0, 7306),
        lambda: traffic.note_resumed(B, 60.0, 61.0, 7307),
        lambda: traffic.note_pause(B, 90.0, 7308),
    ):
        note()
        between()


EXPECTED = [
    (A, 3600, 1, 100, 2.0, 2.2, 0, None, None),
    (A, 7200, 1, 23, None, None, 0, None, None),
    (B, 7200, 1, 7, None, None, 3, 60.0, 61.0),
]
EXPECTED_PROGRESS = [(3660, 1, 100, None), (7260, 2, 30, 9)]


@pytest.mark.parametrize("is_each_alone", [False, True])
def test_of_an_hour(tmp_path: Path, is_each_alone: bool) -> None:
    """Of the gaps of an hour, the shortest for its delay is kept; so is that of the pauses. The
    same is in the ledger if it was written after each event, while the crawl ran.
    """
    path = tmp_path / "ledger"
    writer, traffic = started(path)

    def wait() -> None:
        if is_each_alone:
            wait_for(lambda: not writer._waiting)

    note_all(traffic, wait)
    writer.close(END)
    assert rows(path, TRAFFIC) == EXPECTED
    assert rows(path, PROGRESS) == EXPECTED_PROGRESS
    assert (writer.recorded, writer.dropped) == (0, 0), "counts are no records"
