"""The ledger writer counts every record that it loses, whatever happens to the file."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.ledger import writer as module
from scrapy_rep.ledger.reader import open_ledger
from scrapy_rep.ledger.seals import check
from scrapy_rep.ledger.writer import LedgerWriter
from tests.ledger.records import CRAWL, END, ORIGIN, decided, snapshot

if TYPE_CHECKING:
    from pathlib import Path


WRITTEN_EVERY = module._WRITE_INTERVAL


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WRITE_INTERVAL", 0.01)
    monkeypatch.setattr(module, "_RETRY_AFTER", 0.01)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(open_ledger(str(path))) as ledger:
        return [tuple(row) for row in ledger.execute(query)]


def written(path: Path, *records: Any) -> LedgerWriter:
    writer = LedgerWriter(path, CRAWL)
    writer.start()
    for record in records:
        writer.write(record)
    writer.close(END)
    return writer


def wait_for(check: Any) -> None:
    """Wait until the condition is true, for ten seconds at most."""
    for _ in range(2000):
        if check():
            return
        Event().wait(0.005)
    raise AssertionError


def test_all_of_it(path: Path) -> None:
    """The crawl, its robots.txt files, its decisions and its end are written, nothing else."""
    later = snapshot(b"Disallow: /\n", fetched=7.0)
    writer = written(
        path,
        snapshot(),
        decided(1),
        later,
        decided(2, fetched=7.0),
        decided(3, fetched=None, line=None, layer="meta", page="http://page/"),
        snapshot(),  # From the store again.
        decided(4, fetched=99.0),  # For a robots.txt that was dropped.
    )
    assert (writer.recorded, writer.dropped, writer.errors) == (7, 0, 0)
    [crawl] = rows(path, "SELECT * FROM crawl")
    assert crawl[:4] == (1, "spider", "bot/1.0", '["bot"]')
    assert crawl[7:10] == (1.0, 9.0, "finished")
    assert json.loads(crawl[10]) == {"pages": 2}
    decisions = "SELECT d.url, body FROM decision d LEFT JOIN snapshot s ON s.id = d.snapshot LEFT JOIN body USING (sha256) ORDER BY d.id"
    assert rows(path, decisions) == [
        (f"{ORIGIN}/1", b"User-agent: *\n"),
        (f"{ORIGIN}/2", b"Disallow: /\n"),
        (f"{ORIGIN}/3", None),
        (f"{ORIGIN}/4", None),
    ]
    assert rows(path, "SELECT count(*) FROM snapshot") == [(2,)]
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_several_crawls(path: Path) -> None:
    """A ledger is continued: each crawl gets a row, robots.txt files and decisions of its own. A
    body is stored once, whichever hosts serve it, and in all crawls.
    """
    for _ in range(2):
        written(path, snapshot(), snapshot(origin="http://b.example"), decided(1))
    assert rows(path, "SELECT count(*) FROM body") == [(1,)]
    assert rows(path, "SELECT crawl, snapshot FROM decision") == [(1, 1), (2, 3)]
    each = "SELECT crawl, count(*) FROM snapshot GROUP BY 1"
    assert rows(path, each) == [(1, 2), (2, 2)]


def test_written_while_it_runs(path: Path) -> None:
    """During a crawl, a reader sees the records so far, and a crawl without an end."""
    writer = LedgerWriter(path, CRAWL)
    writer.start()
    writer.write(decided(1))
    wait_for(lambda: writer.recorded)
    assert rows(path, "SELECT ended, (SELECT count(*) FROM decision) FROM crawl") == [
        (None, 1)
    ]
    writer.close(END)


def test_half_a_second_apart(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are written every half second, so a crash loses no more than that."""
    monkeypatch.setattr(module, "_WRITE_INTERVAL", WRITTEN_EVERY)
    pauses: list[float | None] = []

    class Closing(Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            return super().wait(0.01)

    writer = LedgerWriter(path, CRAWL)
    writer._closing = Closing()
    writer.start()
    for number in (1, 2):
        writer.write(decided(number))
        wait_for(lambda number=number: writer.recorded == number)
    writer.close(END)
    assert len(pauses) >= 3
    assert set(pauses) == {0.5}


def test_more_than_a_batch(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More records than a batch are all written, each with its snapshot."""
    monkeypatch.setattr(module, "_RECORDS_A_BATCH", 3)
    snapshots = [snapshot(fetched=float(number)) for number in range(1, 11)]
    decisions = [decided(number, fetched=float(number)) for number in range(1, 11)]
    assert written(path, *snapshots, *decisions).recorded == 20
    assert rows(path, "SELECT snapshot, time FROM decision ORDER BY id") == [
        (number, number) for number in range(1, 11)
    ]


def test_a_slow_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow disk, records beyond the buffer are counted, and the others are written."""
    monkeypatch.setattr(module, "_MAX_WAITING", 10 * module._weight(decided()))
    blocker = sqlite3.connect(path, isolation_level=None)
    written(path)
    blocker.execute("BEGIN IMMEDIATE")
    writer = LedgerWriter(path, CRAWL)
    writer.start()
    for number in range(100):
        writer.write(decided(number))
    assert writer.dropped == 90
    blocker.execute("ROLLBACK")
    wait_for(lambda: writer.recorded == 10)
    writer.write(decided(100))
    writer.close(END)
    assert (writer.recorded, writer.dropped) == (11, 90)
    assert rows(path, "SELECT count(*) FROM decision") == [(11,)]
    blocker.close()


def test_a_file_that_fails_for_a_while(path: Path) -> None:
    """After temporary failures the writer retries, without duplicate or missing rows."""
    path.mkdir()
    writer = LedgerWriter(path, CRAWL)
    writer.start()
    writer.write(snapshot())
    writer.write(decided(1))
    wait_for(lambda: writer.errors > 1)
    assert "directory" in str(writer.error)
    path.rmdir()
    wait_for(lambda: writer.recorded == 2)
    assert writer.error is None
    writer.close(END)
    assert rows(path, "SELECT snapshot FROM decision") == [(1,)]
    assert rows(path, "SELECT count(*) FROM crawl") == [(1,)]


def test_a_file_that_fails_to_the_end(path: Path) -> None:
    """If the file fails to the end, the unwritten records are counted."""
    path.mkdir()
    writer = written(path, decided(1), decided(2))
    assert (writer.recorded, writer.dropped) == (0, 2)
    assert writer.errors > 0


def test_a_file_that_is_moved(path: Path) -> None:
    """If the file is moved away, no new one is made; the writer continues when it is back."""
    writer = LedgerWriter(path, CRAWL)
    writer.start()
    wait_for(path.exists)
    writer.write(decided(1))
    wait_for(lambda: writer.recorded == 1)
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    writer.write(decided(2))
    wait_for(lambda: writer.errors)
    assert "moved or removed" in str(writer.error)
    assert not path.exists()
    elsewhere.rename(path)
    writer.close(END)
    assert (writer.recorded, writer.dropped) == (2, 0)
    assert rows(path, "SELECT time FROM decision") == [(1.0,), (2.0,)]


def test_what_can_never_be_written(path: Path) -> None:
    """A record that can never be written is dropped and counted; later ones are written."""
    writer = LedgerWriter(path, CRAWL)
    writer.start()
    writer.write(decided(1, line=10**30))
    wait_for(lambda: writer.errors)
    assert isinstance(writer.error, OverflowError)
    writer.write(decided(2))
    writer.close(END)
    assert (writer.recorded, writer.dropped) == (1, 1)
    never = LedgerWriter(path, (object(), *CRAWL[1:]))
    never.start()
    never.write(decided(1))
    wait_for(lambda: never.errors > 1)
    never.close(END)
    assert (never.recorded, never.dropped) == (0, 1)


def test_two_writers(path: Path) -> None:
    """Two writers on one file do not disturb each other; each writes and seals its own rows."""
    writers = [LedgerWriter(path, CRAWL) for _ in range(2)]
    for writer in writers:
        writer.start()
    for number in range(200):
        for writer in writers:
            writer.write(snapshot(fetched=float(number + 1)))
            writer.write(decided(number, fetched=float(number + 1)))
    for writer in writers:
        writer.close(END)
        assert (writer.recorded, writer.dropped) == (400, 0)
    same = "SELECT d.crawl, count(*) FROM decision d JOIN snapshot s ON s.id = d.snapshot AND s.crawl = d.crawl GROUP BY 1"
    assert rows(path, same) == [(1, 200), (2, 200)]
    with closing(open_ledger(str(path))) as ledger:
        found = check(ledger)
    assert [each.problems for each in found] == [[], []]
    assert {each.digest for each in found} == {each.digest for each in writers}
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]


def test_an_end_that_takes_too_long(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The crawl waits only so long for the last records; unwritten ones are counted."""
    monkeypatch.setattr(module, "_CLOSE_TIMEOUT", 0.1)
    written(path)
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    writer = written(path, decided(1))
    assert writer.dropped == 1
    blocker.execute("ROLLBACK")
    blocker.close()
    wait_for(lambda: writer.recorded)
