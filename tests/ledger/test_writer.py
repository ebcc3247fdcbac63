"""Tests of :class:`LedgerWriter`: which files it accepts as a ledger, which rows it writes, and
that it counts every record that it drops, whatever happens to the file.
"""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from itertools import islice
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.base.records import MAX_TEXT
from scrapy_rep.crawl.ledger import writer as module
from scrapy_rep.crawl.ledger.reader import APPLICATION_ID, VERSION, open_ledger
from scrapy_rep.crawl.ledger.traffic import Traffic
from scrapy_rep.crawl.ledger.writer import LedgerWriter
from scrapy_rep.exceptions import LedgerError
from scrapy_rep.protocol.access.entries import CacheEntry
from scrapy_rep.protocol.access.results import AccessResult
from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.text import visible
from tests.ledger.records import (
    CRAWL,
    END,
    ORIGIN,
    flush,
    make_decision,
    make_snapshot,
    write_record,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

A, B = "http://a.example", "http://b.example"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def blocker(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection that locks the ledger file, as another process could."""
    module.prepare(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal, as :meth:`LedgerWriter.digest` does."""
    return sha256(path.read_bytes()).hexdigest()


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Return the rows that *query* selects from the ledger at *path*."""
    with closing(open_ledger(str(path))) as ledger:
        return [tuple(row) for row in ledger.execute(query)]


def start_writer(
    path: Path, *records: Any, crawl: tuple[Any, ...] = CRAWL
) -> LedgerWriter:
    """Return a writer that was started and was passed *records*, but is not closed."""
    writer = LedgerWriter(path)
    writer.start(crawl)
    for record in records:
        write_record(writer, record)
    return writer


def write_ledger(path: Path, *records: Any) -> LedgerWriter:
    """Write a complete crawl with *records*, and return its closed writer."""
    writer = start_writer(path, *records)
    writer.close(END)
    return writer


# Creation of the file.


def test_a_ledger_can_be_created_by_several_threads_at_once(tmp_path: Path) -> None:
    """A new ledger is created with its folder, the version and the application id. If several
    threads create it at the same time, the later ones find the tables of the first. A reader gets
    columns by name, and cannot write.
    """
    path = tmp_path / "a" / "a ledger #1?.sqlite"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(module.prepare, [path] * 16))
    with closing(open_ledger(str(path))) as ledger:
        assert tuple(*ledger.execute("PRAGMA user_version")) == (VERSION,)
        assert tuple(*ledger.execute("PRAGMA application_id")) == (APPLICATION_ID,)
        assert ledger.execute("SELECT count(*) AS n FROM decision").fetchone()["n"] == 0
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            ledger.execute("DELETE FROM decision")


@pytest.mark.parametrize(
    ("name", "pragma", "message"),
    [
        ("text", "", "not a database"),
        ("folder", "", "directory|not a regular file"),
        ("text/below", "", "Not a directory|File exists"),
        ("other", "application_id = 1", "of another program"),
        (
            "earlier",
            f"user_version = {VERSION - 1}",
            f"another version .*{VERSION - 1};",
        ),
        ("later", f"user_version = {VERSION + 1}", f"another version .*{VERSION + 1};"),
        ("missing", "", "No such file"),
        ("a\0b/ledger", "", "null|such"),
        ("\ud800/ledger", "", "surrogates|such"),
    ],
)
def test_a_file_that_is_no_ledger_is_refused_and_not_changed(
    tmp_path: Path, name: str, pragma: str, message: str
) -> None:
    """LedgerError is raised by ``prepare``, which a crawl calls before it starts, and by ``open_ledger``. The message
    names the file and says what is wrong. A path that cannot exist, for example with a null character, raises
    LedgerError as well.
    """
    (tmp_path / "text").write_text("User-agent: *\n" * 100)
    (tmp_path / "folder").mkdir()
    path = tmp_path / name
    if pragma:
        module.prepare(path)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA {pragma}")
    before = (
        path.read_bytes() if name in {"text", "other", "earlier", "later"} else None
    )
    for open_path in (module.prepare, lambda path: open_ledger(str(path))):
        if open_path is module.prepare and name == "missing":
            continue
        with pytest.raises(LedgerError, match=message) as error:
            open_path(path)
        assert visible(str(path)) in str(error.value)
    assert before == (path.read_bytes() if before else None)


@pytest.mark.parametrize(
    ("error", "is_temporary"),
    [
        (sqlite3.OperationalError("database or disk is full"), True),
        (sqlite3.OperationalError("database is locked"), True),
        (sqlite3.OperationalError("disk I/O error"), True),
        (sqlite3.OperationalError("attempt to write a readonly database"), False),
        (OSError(28, "No space left on device"), True),
        (PermissionError(13, "Permission denied"), False),
    ],
)
def test_a_full_disk_or_a_lock_does_not_stop_the_start_of_a_crawl(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, is_temporary: bool
) -> None:
    """A crawl starts although the disk is full or the ledger is locked, because the writer tries again later. Other
    errors stop the start of the crawl.
    """

    def fail(path: Path) -> None:
        raise error

    monkeypatch.setattr(module, "open_to_write", fail)
    if is_temporary:
        module.prepare(path)
    else:
        with pytest.raises(LedgerError, match=str(error.args[-1])):
            module.prepare(path)


# Rows.


def test_each_crawl_adds_its_own_rows_to_a_ledger(path: Path) -> None:
    """A crawl writes one row about itself, with the time and the reason of its end, and rows for its robots.txt files
    and its decisions. A second crawl adds its own rows to the same ledger. Equal bodies are stored once. The ledger is
    a single file.
    """
    for _ in range(2):
        writer = write_ledger(
            path,
            make_snapshot(),
            make_decision(1),
            make_snapshot(b"Disallow: /\n", fetched=7.0),
            make_decision(2, fetched=7.0),
            make_decision(
                3, fetched=None, line=None, layer="meta", page="http://page/"
            ),
            make_snapshot(),  # The same robots.txt, read from the store again.
            make_snapshot(origin=B),
            make_decision(4, fetched=99.0),  # No snapshot was fetched at that time.
        )
        assert (writer.recorded, writer.dropped, writer.errors) == (8, 0, 0)
    for number, crawl in enumerate(rows(path, "SELECT * FROM crawl"), 1):
        assert crawl[:5] == (number, "1-2-3", "spider", "bot/1.0", '["bot"]')
        assert crawl[8:11] == (1.0, 9.0, "finished")
        assert json.loads(crawl[11]) == {"pages": 2}
    decisions = "SELECT d.crawl, d.snapshot, d.url, body FROM decision d LEFT JOIN snapshot s ON s.id = d.snapshot LEFT JOIN body USING (sha256) ORDER BY d.id"
    assert rows(path, decisions) == [
        (crawl, number and 3 * crawl - 3 + number, f"{ORIGIN}/{page}", body)
        for crawl in (1, 2)
        for page, number, body in (
            (1, 1, b"User-agent: *\n"), (2, 2, b"Disallow: /\n"), (3, None, None), (4, None, None)
        )
    ]  # fmt: skip
    assert rows(path, "SELECT count(*) FROM body") == [(2,)]
    assert rows(path, "SELECT count(*) FROM snapshot") == [(6,)]
    assert [file.name for file in path.parent.iterdir()] == [path.name]


DOWN = AccessResult(
    url=f"{ORIGIN}/robots.txt",
    status=None,
    error="no route to http://me:secret@proxy " + "x" * 9000,
    redirects=("http://me@b.example/",),
)


def test_the_snapshot_of_an_unreachable_robots_txt_has_its_error() -> None:
    """The snapshot of an unreachable robots.txt has the error, without passwords, and no body. If
    an older copy is used instead, the snapshot has the body of the copy, and the time at which the
    copy was fetched.
    """
    times = {"fetched": 5.0, "expires": 6.0, "unreachable_since": 5.0}
    row, body = module.snapshot(ORIGIN, CacheEntry(result=DOWN, **times), RFC9309)
    url = f"{ORIGIN}/robots.txt"
    error = ("no route to http://***@proxy " + "x" * 9000)[: MAX_TEXT - 1] + "…"
    answer = '["http://***@b.example/"]', "unreachable", None, error, 0, "[]"
    assert (row, body) == ((ORIGIN, url, *answer, 5, 6, None, None), None)
    copy = AccessResult(url=url, status=200, body=b"good")
    entry = CacheEntry(result=DOWN, **times, copy=copy, copy_fetched=3.0)
    row, body = module.snapshot(ORIGIN, entry, RFC9309)
    assert (row[3], *row[-2:]) == ("unreachable", 3.0, sha256(b"good").hexdigest())
    assert body == b"good"


def test_a_body_beyond_the_size_limit_is_cut() -> None:
    """A body beyond the size limit is cut one byte after the limit. The extra byte shows that the
    body was cut.
    """
    _, body = make_snapshot(b"#" * 2_000_000)
    assert len(body or b"") == RFC9309.size_limit + 1


@pytest.mark.parametrize("write_each_event", [False, True])
def test_traffic_has_pages_by_hour_and_the_shortest_gaps(
    path: Path, write_each_event: bool
) -> None:
    """Pages are counted for each host and hour. A gap is the time from a response to the next request to the same host.
    A gap is recorded if it is shorter than all earlier gaps, relative to the delay or pause that the host asked for. A
    delay or pause is recorded if it is longer than all earlier delays or pauses of the host.

    The ledger is the same whether the rows are written at the end or after each event (*write_each_event*).
    ``writer.recorded`` does not count rows of traffic. Pages before ``Traffic.open`` are ignored.
    """
    writer, traffic = start_writer(path), Traffic()
    a, b = (origin_of(url) for url in (A, B))
    assert a is not None
    assert b is not None
    traffic.note_page(b, 7)
    traffic.open()
    row_count = 0

    def write(now: float) -> None:
        nonlocal row_count
        rows = traffic.take(now)
        row_count += len(rows)
        for row in rows:
            write_record(writer, row)

    for now, notes in (
        (3700, [(traffic.note_page, a, 100)]),
        (7300, [(traffic.note_page, a, 23), (traffic.note_page, b, 7)]),
        (
            7330,
            [
                (traffic.note_page, a, 3),
                (traffic.note_waiting, 9),
                *((traffic.note_gap, "delay", A, *delay_and_gap, now) for now, delay_and_gap in enumerate((
                    (2.0, None), (2.0, 2.5), (2.0, 2.2), (1.0, 1.5), (2.0, None), (2.0, 2.4)
                ))),
                *((traffic.note_gap, "pause", B, *pause_and_gap, now) for now, pause_and_gap in enumerate((
                    (5.0, None), (5.0, 6.0), (60.0, None), (60.0, 61.0), (6.0, None)
                ))),
            ],
        ),
    ):  # fmt: skip
        for note, *values in notes:
            note(*values)
            if write_each_event:
                write(now)
                flush(writer)
        write(now)
    assert row_count == (16 if write_each_event else 14)
    writer.close(END)
    assert rows(path, "SELECT origin, hour, pages, bytes FROM traffic") == [
        (A, 3600, 1, 100), (A, 7200, 2, 26), (B, 7200, 1, 7),
    ]  # fmt: skip
    progress = rows(path, "SELECT minute, pages, waiting FROM progress")
    assert progress == [(3660, 1, None), (7260, 2, None), (7320, 1, 9)]
    assert rows(path, "SELECT origin, kind, time, asked, gap FROM gap") == [
        (A, "delay", 0, 2.0, None), (A, "delay", 1, 2.0, 2.5), (A, "delay", 2, 2.0, 2.2),
        (B, "pause", 0, 5.0, None), (B, "pause", 1, 5.0, 6.0), (B, "pause", 2, 60.0, None),
        (B, "pause", 3, 60.0, 61.0),
    ]  # fmt: skip
    assert (writer.recorded, writer.dropped) == (0, 0)


def test_the_views_show_withheld_urls_pages_by_day_and_shortest_gaps(
    path: Path,
) -> None:
    """The view ``withheld`` has each refusal and drop with the robots.txt that decided,
    ``pages_by_day`` the pages of each day, and ``shortest_gaps`` the shortest gap for each delay or
    pause that a host asked for.
    """
    day = 24 * 3600
    traffic_rows = [
        *(("traffic", row) for row in (
            (A, 0, 1, 100), (A, 3600, 1, 100), (A, day, 1, 100), (B, day, 1, 7), (A, 7200, 0, 0)
        )),
        *(("gap", row) for row in (
            (A, "delay", 1, 5.0, 9.0), (A, "delay", 2, 5.0, 5.5), (A, "delay", 3, 5.0, None),
            (A, "delay", 4, 2.0, 2.5), (B, "pause", 5, 60.0, None), (B, "pause", 6, 60.0, 61.0),
            (B, "delay", 7, 2.0, None),
        )),
    ]  # fmt: skip
    noted = {"verdict": "noted", "layer": "meta", "reason": "noindex"}
    dropped = {"verdict": "dropped", "subject": "item", "page": f"{ORIGIN}/4"}
    write_ledger(
        path,
        make_snapshot(fetched=5.0),
        make_decision(60),
        make_decision(61, verdict="allowed"),
        make_decision(62, **noted),
        make_decision(63, fetched=None, **{**noted, **dropped}),
        *traffic_rows,
    )
    assert rows(path, "SELECT * FROM withheld") == [
        ("1970-01-01 00:01:00", "refused", "request", f"{ORIGIN}/60", None, "robots.txt", "rule",
         2, "Disallow: /", "1970-01-01 00:00:05", 200, 1),
        ("1970-01-01 00:01:03", "dropped", "item", f"{ORIGIN}/63", f"{ORIGIN}/4", "meta", "noindex",
         2, "Disallow: /", None, None, 1),
    ]  # fmt: skip
    assert rows(path, "SELECT * FROM pages_by_day") == [
        ("1970-01-01", A, 2, 200), ("1970-01-02", A, 1, 100), ("1970-01-02", B, 1, 7),
    ]  # fmt: skip
    assert rows(path, "SELECT * FROM shortest_gaps ORDER BY origin, kind") == [
        (A, "delay", 5.0, 5.5, 1.1), (B, "delay", 2.0, None, None), (B, "pause", 60.0, 61.0, 61 / 60),
    ]  # fmt: skip


# The writer thread, and failures.


def test_a_reader_sees_the_last_flush_of_a_running_crawl(path: Path) -> None:
    """During a crawl, a reader sees the records of the last flush; the crawl has no end yet."""
    writer = start_writer(path)
    for number in (1, 2):
        write_record(writer, make_decision(number))
        flush(writer)
        assert writer.recorded == number
        query = "SELECT ended, (SELECT count(*) FROM decision) FROM crawl"
        assert rows(path, query) == [(None, number)]
    writer.close(END)


def test_two_writers_on_one_file_do_not_disturb_each_other(path: Path) -> None:
    """Two writers can write to one file at the same time, each with rows for its own crawl. The
    writer that closes last merges the write-ahead log, so that a single file is left.
    """
    writers = [start_writer(path) for _ in range(2)]
    for number in range(200):
        for writer in writers:
            write_record(writer, make_snapshot(fetched=float(number + 1)))
            write_record(writer, make_decision(number, fetched=float(number + 1)))
            writer.flush()
    for writer in writers:
        flush(writer)  # Both have the file open now.
    for writer in writers:
        writer.close(END)
        assert (writer.recorded, writer.dropped) == (400, 0)
    snapshots_of_own_crawl = "SELECT d.crawl, count(*) FROM decision d JOIN snapshot s ON s.id = d.snapshot AND s.crawl = d.crawl AND s.fetched = d.time + 1 GROUP BY 1"
    assert rows(path, snapshots_of_own_crawl) == [(1, 200), (2, 200)]
    # The first writer closed while the other had the file open, so only the last has a digest.
    assert [writer.digest() for writer in writers] == [None, digest(path)]
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_records_beyond_the_buffer_are_counted_as_dropped(
    path: Path, blocker: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the disk is slow, records beyond the limit of the buffer are dropped and counted. The
    records in the buffer are written.
    """
    texts = len(f"{make_decision().url}{make_decision().statement}")
    monkeypatch.setattr(module, "_MAX_WAITING", 10 * (module._ROW_BYTES + texts) + 9)
    writer = start_writer(path, *map(make_decision, range(5)))
    writer.flush()
    for number in range(5, 100):
        write_record(writer, make_decision(number))
    assert writer.dropped == 90
    blocker.execute("ROLLBACK")
    flush(writer)
    assert writer.recorded == 10
    write_record(writer, make_decision(100))
    writer.close(END)
    assert (writer.recorded, writer.dropped) == (11, 90)
    assert rows(path, "SELECT count(*) FROM decision") == [(11,)]


def test_close_stops_waiting_for_the_last_records_after_a_timeout(
    path: Path, blocker: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another connection locks the ledger, ``close`` waits until a timeout, and counts unwritten records as
    dropped. When the ledger is unlocked, the writer thread still writes all of these records, and the time at which the
    crawl ended.
    """
    monkeypatch.setattr(module, "_CLOSE_TIMEOUT", 0.1)
    writer = start_writer(path, make_decision(1))
    writer.flush()
    write_record(writer, make_decision(2))
    writer.close(END)
    assert (writer.recorded, writer.dropped) == (0, 2)
    blocker.execute("ROLLBACK")
    writer._thread.join()
    query = "SELECT ended, (SELECT count(*) FROM decision) FROM crawl"
    assert rows(path, query) == [(END[0], 2)]


def test_rows_that_arrive_while_the_end_is_written_are_not_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are written although they arrive after the thread took the last rows: during the commit
    of the end of the crawl, and while the file is being closed. Later rows are counted as dropped.
    """
    writer = start_writer(path, make_decision(0))
    commit, close = writer._commit, module.close_and_merge_log
    late_numbers = iter(range(1, 5))

    def write_two_rows() -> None:
        for number in islice(late_numbers, 2):
            write_record(writer, make_decision(number))

    def commit_and_write_rows(*args: Any) -> Any:
        failure = commit(*args)
        write_two_rows()
        return failure

    def write_rows_and_close(connection: sqlite3.Connection) -> bool:
        write_two_rows()
        return close(connection)

    monkeypatch.setattr(writer, "_commit", commit_and_write_rows)
    monkeypatch.setattr(module, "close_and_merge_log", write_rows_and_close)
    flush(writer)
    late_numbers = iter(range(5, 9))
    writer.close(END)
    assert (writer.recorded, writer.dropped) == (9, 0)
    query = "SELECT ended, (SELECT count(*) FROM decision) FROM crawl"
    assert rows(path, query) == [(END[0], 9)]
    assert writer.digest() == digest(path)
    write_record(writer, make_decision(9))
    assert (writer.recorded, writer.dropped) == (9, 1)


def test_a_row_that_arrives_while_the_thread_takes_rows_is_written_later(
    path: Path,
) -> None:
    writer = start_writer(path)
    flush(writer)
    other_thread = Thread(target=write_record, args=(writer, make_decision(2)))

    class InterruptedDict(dict[str, Any]):
        def items(self) -> Iterator[Any]:  # type: ignore[override]
            yield from super().items()
            other_thread.start()
            # The thread may have to wait until all rows are taken.
            other_thread.join(0.1)

    writer._rows = InterruptedDict(writer._rows)
    write_record(writer, make_decision(1))
    writer._take()
    other_thread.join()
    writer.close(END)
    assert (writer.recorded, writer.dropped) == (2, 0)


def test_after_temporary_failures_no_row_is_missing_or_doubled(path: Path) -> None:
    """After a temporary failure, the writer tries again, and writes each row exactly once. If the file still cannot be
    written when the crawl ends, the unwritten records are counted as dropped.
    """
    path.mkdir()
    failed_writer = write_ledger(path, make_decision(1), make_decision(2))
    assert (failed_writer.recorded, failed_writer.dropped) == (0, 2)
    assert failed_writer.errors > 0
    writer = start_writer(path, make_snapshot(), make_decision(1))
    flush(writer)
    write_record(writer, make_decision(2))
    assert writer.errors > 1
    assert "directory" in str(writer.error)
    path.rmdir()
    flush(writer)
    assert writer.recorded == 3
    errors = writer.errors
    writer.close(END)
    assert writer.errors == errors
    assert rows(path, "SELECT snapshot FROM decision") == [(1,), (1,)]
    assert rows(path, "SELECT count(*) FROM crawl") == [(1,)]


def test_a_writer_waits_until_its_moved_file_is_back(path: Path) -> None:
    """If the file is moved away, the writer does not create a new one. It continues when the file
    is back.
    """
    writer = start_writer(path, make_decision(1))
    flush(writer)
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    write_record(writer, make_decision(2))
    flush(writer)
    assert "moved or removed" in str(writer.error)
    assert not path.exists()
    elsewhere.rename(path)
    writer.close(END)
    assert (writer.recorded, writer.dropped) == (2, 0)
    assert rows(path, "SELECT time FROM decision") == [(1.0,), (2.0,)]


def test_the_writer_tries_again_if_no_thread_can_be_started(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", fail)
        writer = start_writer(path, make_decision(1))
        writer.flush()
        assert (writer.errors, str(writer.error)) == (2, "can't start new thread")
        failed_writer = write_ledger(path.with_name("other"), make_decision(1))
        assert (failed_writer.recorded, failed_writer.dropped) == (0, 1)
    write_record(writer, make_decision(2))
    writer.close(END)
    assert (writer.recorded, writer.dropped) == (2, 0)


def test_a_record_that_cannot_be_written_does_not_affect_other_records(
    path: Path,
) -> None:
    """SQLite cannot store some values, such as an integer of more than 64 bits. The record with
    such a value is counted as dropped, and all other records are written.
    """
    for value in (10**30, object(), "\ud800"):
        writer = start_writer(path, *map(make_decision, range(100)))
        write_record(writer, make_decision(1, line=value))
        write_record(writer, make_decision(2))
        flush(writer)
        assert not isinstance(writer.error, sqlite3.OperationalError)
        assert writer.errors == 1
        assert (writer.recorded, writer.dropped) == (101, 1)
        write_record(writer, make_decision(3))
        writer.close(END)
        assert (writer.errors, writer.recorded) == (1, 102)
    count = "SELECT count(*) FROM decision GROUP BY crawl"
    assert rows(path, count) == [(102,)] * 3
    failed_writer = start_writer(path, make_decision(1), crawl=(object(), *CRAWL[1:]))
    flush(failed_writer)
    assert failed_writer.errors > 1
    failed_writer.close(END)
    assert (failed_writer.recorded, failed_writer.dropped) == (0, 1)
