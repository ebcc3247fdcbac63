"""The command that runs all benchmarks."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import indexing, timing

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]


def test_a_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A measure prints a table, and writes it to a file."""
    monkeypatch.setattr(indexing, "RESPONSES", 10)
    # The process of the tests has many objects, so that a collection would take long.
    monkeypatch.setattr(timing, "gc", SimpleNamespace(collect=int))
    file = tmp_path / "run.json"
    command = ["benchmarks", "--only", "headers", "--rounds", "1", "--json"]
    monkeypatch.setattr(sys, "argv", [*command, str(file)])
    assert benchmarks.main() == 0
    rows = json.loads(file.read_text())["rows"]
    printed = capsys.readouterr().out.splitlines()[-len(rows) :]
    assert len(rows) == 3
    for row, line in zip(rows, printed, strict=True):
        assert line.startswith(f"| {row['what']} | {row['who']} |")
