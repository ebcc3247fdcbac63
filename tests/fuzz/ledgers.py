"""Ledgers written by others, as the commands read them."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sqlite3
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from tests.commands.rep import execute
from tests.fuzz.inputs import bounded, fast_folder, parts, written_over
from tests.report.ledgers import Ledger

TABLES = ("crawl", "snapshot", "decision", "body", "traffic", "progress")


def ledger(data: bytes) -> None:
    """Check malicious ledgers; an input is lines with a table and a JSON object each,
    whose values, of any type, are set in the rows of the table. Bytes that overwrite the
    file may follow, as for a store.

    For report, diff, why and verify:

    - nothing raises, and the exit status is 0, 1 or 2;
    - with status 2, one line says why;
    - time is bounded.
    """
    lines, octets = parts(data, 2)
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        path = Path(folder) / "crawl.rep"
        shutil.copyfile(_whole_ledger(), path)
        for line in lines.split(b"\n")[:20]:
            _change(path, line)
        if octets:
            path.write_bytes(written_over(path.read_bytes(), octets))
        robots = Path(folder) / "robots.txt"
        robots.write_bytes(b"User-agent: *\nDisallow: /private\n")
        report = ["report", str(path), "-o", str(Path(folder) / "report.html")]
        diff = ["diff", str(path), str(robots)]
        tables = ["report", str(path), "--against", str(path), "--json"]
        why = ["why", "example.com", str(path), "--limit", "5"]
        verify = ["verify", str(path)]
        for arguments in (report, tables, diff, [*diff, "--json"], why, verify):
            _run(arguments, len(data))


def _run(arguments: list[str], size: int) -> None:
    out, err = io.StringIO(), io.StringIO()
    streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with bounded(size), streams[0], streams[1]:
        status = execute(arguments, {"USER_AGENT": "mybot"})
    assert status in {0, 1, 2}, status
    assert status != 2 or len(err.getvalue().splitlines()) == 1, err.getvalue()


def _change(path: Path, line: bytes) -> None:
    table, _, written = line.partition(b" ")
    name = table.decode("ascii", "replace")
    try:
        columns = json.loads(written)
    except (ValueError, RecursionError):
        return
    if name not in TABLES or not isinstance(columns, dict):
        return
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for column, value in columns.items():
            with contextlib.suppress(sqlite3.Error, ValueError, OverflowError):
                quoted = column.replace('"', '""')
                connection.execute(
                    f'UPDATE {name} SET "{quoted}" = ?', (_value(value),)
                )


def _value(value: Any) -> Any:
    """Return the value of a column: a number, text or None; for a list with one text, bytes."""
    match value:
        case [str(one)]:
            return one.encode("utf-8", "surrogatepass")
        case list() | dict():
            return json.dumps(value)
    return value


@cache
def _whole_ledger() -> str:
    folder = tempfile.mkdtemp(prefix="fuzz-ledger-")
    made = Ledger(Path(folder) / "ledger")
    body = b"User-agent: *\nDisallow: /old\nContent-Usage: train-ai=n\n"
    made.snapshot("https://example.com", body)
    made.snapshot("https://example.org", access="unreachable", error="reset")
    made.refused("https://example.com/old", 2, "Disallow: /old")
    made.allowed("https://example.com/private")
    measured = {"delay": 1.0, "gap": 1.5, "pauses": 1, "pause": 2.0, "resumed": 3.0}
    made.traffic("https://example.com", 0, pages=1, bytes=9, **measured)
    made.progress(0, pages=1, bytes=9, waiting=1)
    return made.close()
