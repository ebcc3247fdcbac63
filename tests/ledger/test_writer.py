"""The ledger writer: what can be a ledger, what its rows have, and that it counts every record that
it loses, whatever happens to the file.
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
from tests.ledger.records import CRAWL, END, ORIGIN, decided, flush, put, snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

A, B = "http://a.example", "http://b.example"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def blocker(path: Path) -> Iterator[sqlite3.Connection]:
    """Lock the file of a ledger, as another process does."""
    module.prepare(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(open_ledger(str(path))) as ledger:
        return [tuple(row) for row in ledger.execute(query)]


def started(path: Path, *records: Any, crawl: tuple[Any, ...] = CRAWL) -> LedgerWriter:
    writer = LedgerWriter(path)
    writer.start(crawl)
    for record in records:
        put(writer, record)
    return writer


def written(path: Path, *records: Any) -> LedgerWriter:
    writer = started(path, *records)
    writer.close(END)
    return writer


# The file.


def test_a_new_ledger_is_made_once_with_its_folder(tmp_path: Path) -> None:
    """A new file is made with its folder, and has the ids of a ledger. Of several processes that
    make it, the later ones find the tables. It is read by column name, and cannot be written.
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
    ("name", "pragma", "why"),
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
def test_what_is_no_ledger_is_refused_and_stays_unchanged(
    tmp_path: Path, name: str, pragma: str, why: str
) -> None:
    """The message names the file that is no ledger, and the reason; the file stays unchanged. An
    impossible path raises LedgerError before the crawl starts.
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
    for do in (module.prepare, lambda path: open_ledger(str(path))):
        if do is module.prepare and name == "missing":
            continue
        with pytest.raises(LedgerError, match=why) as error:
            do(path)
        assert visible(str(path)) in str(error.value)
    assert before == (path.read_bytes() if before else None)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (sqlite3.OperationalError("database or disk is full"), True),
        (sqlite3.OperationalError("database is locked"), True),
        (sqlite3.OperationalError("disk I/O error"), True),
        (sqlite3.OperationalError("attempt to write a readonly database"), False),
        (OSError(28, "No space left on device"), True),
        (PermissionError(13, "Permission denied"), False),
    ],
)
def test_a_full_disk_or_a_lock_does_not_stop_the_start(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, passes: bool
) -> None:
    """A full disk or a locked file does not stop the start of a crawl; a lasting error does."""

    def fail(path: Path) -> None:
        raise error

    monkeypatch.setattr(module, "open_to_write", fail)
    if passes:
        module.prepare(path)
    else:
        with pytest.raises(LedgerError, match=str(error.args[-1])):
            module.prepare(path)


# The rows.


def test_a_ledger_has_crawl_files_decisions_and_end(path: Path) -> None:
    """The crawl, its robots.txt files, its decisions and its end are written, nothing else. A
    ledger is continued: each crawl has rows of its own. A body is stored once.
    """
    for _ in range(2):
        writer = written(
            path,
            snapshot(),
            decided(1),
            snapshot(b"Disallow: /\n", fetched=7.0),
            decided(2, fetched=7.0),
            decided(3, fetched=None, line=None, layer="meta", page="http://page/"),
            snapshot(),  # From the store again.
            snapshot(origin=B),
            decided(4, fetched=99.0),  # For a robots.txt that was dropped.
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
    """The snapshot of an unreachable robots.txt has the error without passwords, and no body. If a
    cached copy is used, it has the body of the copy, and the time when that was fetched.
    """
    moments = {"fetched": 5.0, "expires": 6.0, "unreachable_since": 5.0}
    row, body = module.snapshot(ORIGIN, CacheEntry(result=DOWN, **moments), RFC9309)
    url = f"{ORIGIN}/robots.txt"
    error = ("no route to http://***@proxy " + "x" * 9000)[: MAX_TEXT - 1] + "…"
    answer = '["http://***@b.example/"]', "unreachable", None, error, 0, "[]"
    assert (row, body) == ((ORIGIN, url, *answer, 5, 6, None, None), None)
    copy = AccessResult(url=url, status=200, body=b"good")
    entry = CacheEntry(result=DOWN, **moments, copy=copy, copy_fetched=3.0)
    row, body = module.snapshot(ORIGIN, entry, RFC9309)
    assert (row[3], *row[-2:]) == ("unreachable", 3.0, sha256(b"good").hexdigest())
    assert body == b"good"


def test_a_body_beyond_the_size_limit_is_cut() -> None:
    """A body beyond the size limit is cut to the limit plus one byte, which shows the cut."""
    _, body = snapshot(b"#" * 2_000_000)
    assert len(body or b"") == RFC9309.size_limit + 1


@pytest.mark.parametrize("is_each_alone", [False, True])
def test_traffic_has_pages_by_hour_and_the_shortest_gaps(
    path: Path, is_each_alone: bool
) -> None:
    """Pages are counted by host and hour. Of the gaps of a host, those are kept that are shorter for
    its delay, or for the pause that it asked for, than those before them; so is the longest pause. They are
    added up in memory; the same is in the ledger if it was written after each event, while the crawl
    ran. Counts are no records. Before the ledger is open, nothing is added up.
    """
    writer, traffic = started(path), Traffic()
    a, b = (origin_of(url) for url in (A, B))
    assert a is not None
    assert b is not None
    traffic.note_page(b, 7)
    traffic.open()
    taken = 0

    def write(now: float) -> None:
        nonlocal taken
        rows = traffic.take(now)
        taken += len(rows)
        for row in rows:
            put(writer, row)

    for now, notes in (
        (3700, [(traffic.note_page, a, 100)]),
        (7300, [(traffic.note_page, a, 23), (traffic.note_page, b, 7)]),
        (
            7330,
            [
                (traffic.note_page, a, 3),
                (traffic.note_waiting, 9),
                *((traffic.note_gap, "delay", A, *of_delay, now) for now, of_delay in enumerate((
                    (2.0, None), (2.0, 2.5), (2.0, 2.2), (1.0, 1.5), (2.0, None), (2.0, 2.4)
                ))),
                *((traffic.note_gap, "pause", B, *of_pause, now) for now, of_pause in enumerate((
                    (5.0, None), (5.0, 6.0), (60.0, None), (60.0, 61.0), (6.0, None)
                ))),
            ],
        ),
    ):  # fmt: skip
        for note, *values in notes:
            note(*values)
            if is_each_alone:
                write(now)
                flush(writer)
        write(now)
    assert taken == (16 if is_each_alone else 14)
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


def test_the_views_have_what_was_withheld_and_the_shortest_gaps(path: Path) -> None:
    """The views have what was withheld, with the robots.txt that decided; the pages of each day; and
    the shortest gaps, beside what was asked for.
    """
    day = 24 * 3600
    counted = [
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
    written(
        path,
        snapshot(fetched=5.0),
        decided(60),
        decided(61, verdict="allowed"),
        decided(62, **noted),
        decided(63, fetched=None, **{**noted, **dropped}),
        *counted,
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


# The thread.


def test_a_reader_sees_the_last_flush_of_a_running_crawl(path: Path) -> None:
    """During a crawl, a reader sees the records of the last flush, and a crawl without an end."""
    writer = started(path)
    for number in (1, 2):
        put(writer, decided(number))
        flush(writer)
        assert writer.recorded == number
        so_far = "SELECT ended, (SELECT count(*) FROM decision) FROM crawl"
        assert rows(path, so_far) == [(None, number)]
    writer.close(END)


def test_two_writers_on_one_file_do_not_disturb_each_other(path: Path) -> None:
    """Two writers on one file do not disturb each other; each writes its own rows. The last one to
    close leaves a single file.
    """
    writers = [started(path) for _ in range(2)]
    for number in range(200):
        for writer in writers:
            put(writer, snapshot(fetched=float(number + 1)))
            put(writer, decided(number, fetched=float(number + 1)))
            writer.flush()
    for writer in writers:
        flush(writer)  # Both have the file open now.
    for writer in writers:
        writer.close(END)
        assert (writer.recorded, writer.dropped) == (400, 0)
    same = "SELECT d.crawl, count(*) FROM decision d JOIN snapshot s ON s.id = d.snapshot AND s.crawl = d.crawl AND s.fetched = d.time + 1 GROUP BY 1"
    assert rows(path, same) == [(1, 200), (2, 200)]
    # The first one left while the other had the file open.
    assert [writer.digest() for writer in writers] == [None, digest(path)]
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_records_beyond_the_buffer_of_a_slow_disk_are_counted(
    path: Path, blocker: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a slow disk, records beyond the buffer are counted, and the others are written."""
    texts = len(f"{decided().url}{decided().statement}")
    monkeypatch.setattr(module, "_MAX_WAITING", 10 * (module._ROW_BYTES + texts) + 9)
    writer = started(path, *map(decided, range(5)))
    writer.flush()
    for number in range(5, 100):
        put(writer, decided(number))
    assert writer.dropped == 90
    blocker.execute("ROLLBACK")
    flush(writer)
    assert writer.recorded == 10
    put(writer, decided(100))
    writer.close(END)
    assert (writer.recorded, writer.dropped) == (11, 90)
    assert rows(path, "SELECT count(*) FROM decision") == [(11,)]


def test_the_crawl_waits_only_so_long_for_the_last_records(
    path: Path, blocker: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The crawl waits only so long for the last records; unwritten ones are counted. If the process
    lives on, they are written nevertheless, with the end, also those that the last write had to
    leave to another.
    """
    monkeypatch.setattr(module, "_CLOSE_TIMEOUT", 0.1)
    writer = started(path, decided(1))
    writer.flush()
    put(writer, decided(2))
    writer.close(END)
    assert (writer.recorded, writer.dropped) == (0, 2)
    blocker.execute("ROLLBACK")
    writer._thread.join()
    so_far = "SELECT ended, (SELECT count(*) FROM decision) FROM crawl"
    assert rows(path, so_far) == [(END[0], 2)]


def test_rows_that_come_while_the_end_is_written_are_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that come after the last ones were taken, while the end is written and the file is closed,
    are written too. Those that come later are counted as dropped.
    """
    writer = started(path, decided(0))
    commit, close = writer._commit, module.close_and_merge_log
    late = iter(range(1, 5))

    def come() -> None:
        for number in islice(late, 2):
            put(writer, decided(number))

    def commit_late(*args: Any) -> Any:
        failure = commit(*args)
        come()
        return failure

    def close_late(connection: sqlite3.Connection) -> bool:
        come()
        return close(connection)

    monkeypatch.setattr(writer, "_commit", commit_late)
    monkeypatch.setattr(module, "close_and_merge_log", close_late)
    flush(writer)
    late = iter(range(5, 9))
    writer.close(END)
    assert (writer.recorded, writer.dropped) == (9, 0)
    so_far = "SELECT ended, (SELECT count(*) FROM decision) FROM crawl"
    assert rows(path, so_far) == [(END[0], 9)]
    assert writer.digest() == digest(path)
    put(writer, decided(9))
    assert (writer.recorded, writer.dropped) == (9, 1)


def test_a_row_that_comes_while_a_thread_takes_rows_is_written_next(path: Path) -> None:
    """A row that comes while a thread takes rows is written with the next ones."""
    writer = started(path)
    flush(writer)
    coming = Thread(target=put, args=(writer, decided(2)))

    class Interrupted(dict[str, Any]):
        def items(self) -> Iterator[Any]:  # type: ignore[override]
            yield from super().items()
            coming.start()
            coming.join(0.1)  # It may wait until all rows are taken.

    writer._rows = Interrupted(writer._rows)
    put(writer, decided(1))
    writer._take()
    coming.join()
    writer.close(END)
    assert (writer.recorded, writer.dropped) == (2, 0)


def test_after_temporary_failures_no_row_is_missing_or_doubled(path: Path) -> None:
    """After temporary failures the writer retries, without duplicate or missing rows. If the file
    fails to the end, the unwritten records are counted.
    """
    path.mkdir()
    never = written(path, decided(1), decided(2))
    assert (never.recorded, never.dropped) == (0, 2)
    assert never.errors > 0
    writer = started(path, snapshot(), decided(1))
    flush(writer)
    put(writer, decided(2))
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


def test_a_writer_whose_file_was_moved_waits_until_it_is_back(path: Path) -> None:
    """If the file is moved away, no new one is made; the writer continues when it is back."""
    writer = started(path, decided(1))
    flush(writer)
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    put(writer, decided(2))
    flush(writer)
    assert "moved or removed" in str(writer.error)
    assert not path.exists()
    elsewhere.rename(path)
    writer.close(END)
    assert (writer.recorded, writer.dropped) == (2, 0)
    assert rows(path, "SELECT time FROM decision") == [(1.0,), (2.0,)]


def test_without_threads_the_writer_tries_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no thread can be started, nothing is raised, and the writer tries again."""

    def fail(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", fail)
        writer = started(path, decided(1))
        writer.flush()
        assert (writer.errors, str(writer.error)) == (2, "can't start new thread")
        never = written(path.with_name("never"), decided(1))
        assert (never.recorded, never.dropped) == (0, 1)
    put(writer, decided(2))
    writer.close(END)
    assert (writer.recorded, writer.dropped) == (2, 0)


def test_a_record_that_can_never_be_written_costs_no_other(path: Path) -> None:
    """A record that can never be written is counted, and costs no other record."""
    for value in (10**30, object(), "\ud800"):
        writer = started(path, *map(decided, range(100)))
        put(writer, decided(1, line=value))
        put(writer, decided(2))
        flush(writer)
        assert not isinstance(writer.error, sqlite3.OperationalError)
        assert writer.errors == 1
        assert (writer.recorded, writer.dropped) == (101, 1)
        put(writer, decided(3))
        writer.close(END)
        assert (writer.errors, writer.recorded) == (1, 102)
    count = "SELECT count(*) FROM decision GROUP BY crawl"
    assert rows(path, count) == [(102,)] * 3
    never = started(path, decided(1), crawl=(object(), *CRAWL[1:]))
    flush(never)
    assert never.errors > 1
    never.close(END)
    assert (never.recorded, never.dropped) == (0, 1)
