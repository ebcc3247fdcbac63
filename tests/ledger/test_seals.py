"""Whatever is changed in a ledger later, its seals or its digest show it.

``tests/docs/test_proof.py`` has another program that computes the same digests.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.ledger import writer as module
from scrapy_rep.ledger.reader import open_ledger
from scrapy_rep.ledger.seals import Checked, check, sealed_digest
from scrapy_rep.ledger.traffic import Traffic
from scrapy_rep.ledger.writer import LedgerWriter
from tests.ledger.records import CRAWL, END, ORIGIN, decided, snapshot, write_crawl

if TYPE_CHECKING:
    from pathlib import Path

RULES = b"User-agent: *\nDisallow: /\n"


def crawled(path: Path) -> LedgerWriter:
    """Write a crawl of 30 decisions, in four transactions."""
    traffic, counts = Traffic(), list[Any]()
    traffic.write = counts.append
    for number in range(30):
        traffic.note_page(ORIGIN, 100, float(number))
    decisions = [decided(n, url=f"{ORIGIN}/{n}?ü\0") for n in range(30)]
    last = [*decisions[20:], *counts]
    later = [snapshot(RULES + b"# later\n", fetched=50.0)]
    first = [snapshot(RULES), *decisions[:10]]
    return write_crawl(path, first, decisions[10:20], last, later)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a ledger of two crawls."""
    path = tmp_path / "ledger.sqlite"
    crawled(path)
    crawled(path)
    return path


def checked(path: Path) -> list[Checked]:
    with closing(open_ledger(str(path))) as ledger:
        return check(ledger)


def change(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.create_function("sha256", 1, lambda body: sha256(body).hexdigest())
        for statement in script.split(";"):
            connection.execute(statement)
        connection.commit()


def problems(path: Path) -> list[tuple[Any, ...]]:
    return [
        (each.crawl, problem.table, problem.what, problem.first, problem.last)
        for each in checked(path)
        for problem in each.problems
    ]


def test_as_it_was_written(path: Path) -> None:
    """Each crawl has its own digest, which its writer knows and its seals have too."""
    third = crawled(path)
    found = checked(path)
    assert [each.crawl for each in found] == [1, 2, 3]
    assert [each.problems for each in found] == [[], [], []]
    assert len({each.digest for each in found}) == 3
    assert found[2].digest == third.digest
    assert third.decisions == 30
    assert found[0].rows == {
        "crawl": 1, "decision": 30, "progress": 1, "snapshot": 2, "traffic": 1,
    }  # fmt: skip
    with closing(open_ledger(str(path))) as ledger:
        assert [sealed_digest(ledger, each.crawl or 0) for each in found] == [
            each.digest for each in found
        ]
        assert sealed_digest(ledger, 9) is None


OTHER_FILE = "UPDATE body SET body = x'61', sha256 = sha256(x'61') WHERE rowid = 1"
CHANGES = {
    "verdict": ("UPDATE decision SET verdict = 'allowed' WHERE id = 15", (1, "decision", "changed", 11, 20)),
    "time": ("UPDATE decision SET time = time + 1e-6 WHERE id = 1", (1, "decision", "changed", 1, 10)),
    "null to text": ("UPDATE decision SET form = '' WHERE id = 45", (2, "decision", "changed", 41, 50)),
    "removed row": ("DELETE FROM decision WHERE id = 17", (1, "decision", "removed", 17, 17)),
    "removed last rows": ("DELETE FROM decision WHERE id > 55", (2, "decision", "removed", 56, 56)),
    "added row": (
        ("INSERT INTO decision (crawl, time, origin, url, layer, verdict, reason)"
        " VALUES (1, 0, '', '', '', '', '')"), (1, "decision", "added", 61, 61)),
    "renumbered row": ("UPDATE decision SET id = 0 WHERE id = 17", (1, "decision", "added", 0, 0)),
    "swapped rows": (
        ("UPDATE decision SET id = 99 WHERE id = 12; UPDATE decision SET id = 12 WHERE id = 13;"
        "UPDATE decision SET id = 13 WHERE id = 99"), (1, "decision", "changed", 11, 20)),
    "robots.txt byte": (
        "UPDATE body SET body = CAST(replace(body, 'Disallow', 'Allow') AS BLOB) WHERE rowid = 2",
        (1, "body", "changed", None, None)),
    "missing robots.txt": ("DELETE FROM body WHERE rowid = 2", (1, "body", "removed", None, None)),
    "robots.txt of no crawl": (
        "INSERT INTO body VALUES (sha256(x'61'), x'61')", (None, "body", "added", None, None)),
    "time of a robots.txt": (
        "UPDATE snapshot SET fetched = 4 WHERE id = 2", (1, "snapshot", "changed", 2, 2)),
    "crawl": (
        "UPDATE crawl SET user_agent = 'other' WHERE id = 2", (2, "crawl", "changed", None, None)),
    "end of a crawl": (
        "UPDATE crawl SET ended = NULL, finish_reason = NULL, counts = NULL WHERE id = 1",
        (1, "crawl", "changed", None, None)),
    "removed crawl": ("DELETE FROM crawl WHERE id = 1", (1, "crawl", "removed", None, None)),
    "traffic": (
        "UPDATE traffic SET pages = pages + 1 WHERE crawl = 1", (1, "traffic", "changed", None, None)),
    "removed traffic": ("DELETE FROM traffic WHERE crawl = 1", (1, "traffic", "removed", None, None)),
    "dropped table": ("DROP TABLE progress", (1, "progress", "removed", None, None)),
    "seal": (
        "UPDATE seal SET sha256 = 'x' WHERE part = 'decision' AND last = 20",
        (1, "decision", "changed", 11, 20)),
    "seal of no rows": (
        ("INSERT INTO seal (crawl, part, rows, last, sha256) SELECT crawl, part, rows, last, 'x'"
        " FROM seal WHERE part = 'decision' AND last = 30"), (1, "decision", "changed", 30, 30)),
    "row of another crawl": (
        "UPDATE decision SET crawl = 2 WHERE id = 5", (1, "decision", "removed", 5, 5)),
    "row of no crawl": (
        "UPDATE decision SET crawl = 77 WHERE id = 60", (2, "decision", "removed", 60, 60)),
    "other robots.txt": (OTHER_FILE, (1, "body", "removed", None, None)),
    "other robots.txt and its snapshots": (
        f"{OTHER_FILE};UPDATE snapshot SET sha256 = sha256(x'61') WHERE id IN (1, 3)",
        (1, "snapshot", "changed", 1, 1)),
    "removed last seals": (
        "DELETE FROM seal WHERE part = 'decision' AND crawl = 1 AND last > 20",
        (1, "decision", "added", 21, 21)),
}  # fmt: skip


ALSO = {
    "row of another crawl": [(2, "decision", "added", 5, 5)],
    "row of no crawl": [(77, "crawl", "removed", 77, 77)],
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change(path: Path, name: str) -> None:
    """A change is found, in the batch of rows where it is, and exactly if a row is missing or was
    added. A row that is moved to another crawl is missing in the one, and added in the other.
    """
    script, expected = CHANGES[name]
    change(path, script)
    first, *others = problems(path)
    assert first == expected
    assert others == ALSO.get(name, others)


def test_rows_and_seals(path: Path, tmp_path: Path) -> None:
    """Who writes new seals too is found by the digest alone."""
    before = checked(path)[0].digest
    forged = tmp_path / "forged"
    shutil.copy(path, forged)
    change(
        forged,
        "DELETE FROM seal WHERE crawl = 1;"
        "UPDATE decision SET verdict = 'allowed' WHERE id = 5",
    )
    with closing(sqlite3.connect(forged)) as ledger:
        module.seal(ledger, 1, {}, is_end=True)
        ledger.commit()
    assert problems(forged) == []
    assert checked(forged)[0].digest != before
    assert checked(path)[0].digest == before


def test_a_ledger_of_an_earlier_version(path: Path) -> None:
    """A crawl without seals, as earlier versions wrote it, has no digest and no problems. A crawl
    that continues such a ledger seals its own rows.
    """
    change(path, "DELETE FROM seal WHERE crawl = 1")
    first, second = checked(path)
    assert (first.digest, first.problems) == (None, [])
    assert second.digest
    change(path, "DROP TABLE seal")
    assert [each.digest for each in checked(path)] == [None, None]
    third = crawled(path)
    assert [each.digest for each in checked(path)] == [None, None, third.digest]
    assert problems(path) == []


def test_killed(tmp_path: Path) -> None:
    """What a killed crawl has written is sealed: all but the tables whose rows may change."""
    path = tmp_path / "ledger.sqlite"
    writer, traffic = LedgerWriter(path, CRAWL), Traffic()
    traffic.write = writer.write
    traffic.note_page(ORIGIN, 100, 1.0)
    writer.write(snapshot())
    for number in range(3):
        writer.write(decided(number))
        assert writer._write_all()
    assert writer._connection
    writer._connection.close()
    assert (problems(path), writer.digest) == ([], None)
    for script, expected in {
        "UPDATE decision SET time = 9 WHERE id = 2": (1, "decision", "changed", 2, 2),
        "DELETE FROM decision WHERE id = 3": (1, "decision", "removed", 3, 3),
        "UPDATE crawl SET agents = '[]'": (1, "crawl", "changed", None, None),
    }.items():
        copy = tmp_path / "copy"
        shutil.copy(path, copy)
        change(copy, script)
        assert problems(copy) == [expected]


def test_nothing_decided(tmp_path: Path) -> None:
    """A crawl without decisions seals that there are none."""
    path = tmp_path / "ledger.sqlite"
    writer = write_crawl(path, [])
    [found] = checked(path)
    assert (found.rows, found.problems) == ({"crawl": 1}, [])
    assert found.digest == writer.digest
    change(path, CHANGES["added row"][0])
    [found] = checked(path)
    assert [each.what for each in found.problems] == ["added"]
    assert found.digest != writer.digest


def test_a_failed_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a failed transaction did not write is not sealed; what it wrote is."""
    path = tmp_path / "ledger.sqlite"
    writer = LedgerWriter(path, CRAWL)
    writer.write(decided(1))
    assert writer._write_all()
    real = module.seal

    def fail(*arguments: Any, **named: Any) -> None:
        real(*arguments, **named)
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(module, "seal", fail)
    writer.write(decided(2))
    assert not writer._write_all()
    monkeypatch.undo()
    writer._end = END
    assert writer._write_all()
    writer._connected().close()
    assert problems(path) == []
    assert checked(path)[0].rows["decision"] == 2


def test_a_table_and_a_column_of_later_versions(path: Path) -> None:
    """Columns, indexes and tables that are added change no digest; a sealed table that this
    version does not know counts.
    """
    before = [each.digest for each in checked(path)]
    change(
        path,
        "ALTER TABLE decision ADD COLUMN later TEXT; CREATE TABLE mine (crawl INTEGER);"
        "INSERT INTO mine VALUES (1); CREATE INDEX i ON decision (url)",
    )
    assert [each.digest for each in checked(path)] == before
    assert problems(path) == []
    line = '{"crawl":1}\n'
    seal = f"1, 'mine', 1, 0, '{sha256(line.encode()).hexdigest()}'"
    change(path, f"INSERT INTO seal (crawl, part, rows, last, sha256) VALUES ({seal})")
    assert problems(path) == []
    assert checked(path)[0].digest != before[0]
    change(path, "INSERT INTO mine VALUES (1)")
    assert problems(path) == [(1, "mine", "added", None, None)]
