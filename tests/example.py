"""Runs a copy of the example project, and reads its output."""

from __future__ import annotations

import os
import re
import shutil
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from tests import forks

ROOT = Path(__file__).parents[1]
PROJECT = ROOT / "example_project"
COLUMNS = ["page", "outcome", "item", "said by", "statement"]


def copy_project(folder: Path) -> Path:
    """Copy the project without the output files of earlier crawls."""
    left = shutil.ignore_patterns("*.ledger*", "robots-report.html", "__pycache__")
    return shutil.copytree(PROJECT, folder / "project", ignore=left)


def without_time(printed: str) -> str:
    """Return *printed* with placeholders for text that depends on the time and the machine."""
    printed = re.sub(r"\b\d+\.\d{3} s\b", "<gap>", printed)
    return re.sub(r"\b\d\d(:?)\d\d(-\d\d\1\d\d| UTC)\b", "<hours>", printed)


class Row(NamedTuple):
    page: str
    outcome: str
    item: str
    said_by: str
    statement: str


class Crawl(NamedTuple):
    """The output of a crawl."""

    rows: list[Row]
    closing_lines: list[str]
    printed: str

    @property
    def fetched(self) -> set[str]:
        return {row.page for row in self.rows if row.outcome.startswith("fetched ")}

    @property
    def kept(self) -> set[str]:
        return {row.page for row in self.rows if row.item == "kept"}

    def not_sent(self, outcome: str) -> dict[str, tuple[str, str]]:
        """For each page with this outcome, return the source and the text of the statement."""
        rows = [row for row in self.rows if row.outcome == outcome]
        return {row.page: (row.said_by, row.statement) for row in rows}

    def of_item(self, item: str) -> dict[str, str]:
        """For each page whose item has this outcome, return the page's own statement."""
        rows = [row for row in self.rows if row.item == item]
        assert {row.said_by for row in rows} <= {"itself"}
        return {row.page: row.statement for row in rows}


def crawl(*args: str, project: Path) -> Crawl:
    process = forks.run(["scrapy", "crawl", *args], cwd=project, env=environment())
    printed, log = process.stdout.decode(), process.stderr.decode()
    assert process.returncode == 0, log
    assert "ERROR" not in log
    table, _, closing = without_time(printed).partition("\n\n")
    head, *lines = table.splitlines()
    assert re.split(r" {2,}", head) == COLUMNS
    starts = [head.index(column) for column in COLUMNS]
    cuts = [slice(*ends) for ends in zip_longest(starts, starts[1:])]
    rows = [Row(*(line[cut].strip() for cut in cuts)) for line in lines]
    assert len({row.page for row in rows}) == len(rows)
    return Crawl(rows, closing.splitlines(), printed)


def environment() -> dict[str, str]:
    """Return this environment with the package on its path, without variables that select
    another project or measure coverage, as other tests cover the same code.
    """
    left_out = ("SCRAPY", "COVERAGE")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not any(word in name for word in left_out)
    }
    paths = [str(ROOT), *filter(None, [kept.get("PYTHONPATH")])]
    return kept | {"PYTHONPATH": os.pathsep.join(paths)}
