"""The report for programs: CSV files, JSON, and what differs from an earlier crawl."""

from __future__ import annotations

import csv
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from scrapy_rep.report import tables
from scrapy_rep.report.ledgers import NO_LIMITS, Ledgers
from tests.commands.rep import SCHEMAS
from tests.report import ledgers
from tests.report.ledgers import NEWS, PRESS, START, Ledger
from tests.report.making import run

if TYPE_CHECKING:
    from pathlib import Path

ORIGIN = "https://a.example"
SCHEMA = json.loads((SCHEMAS / "report.json").read_text())
MAKERS = ("brief", "crowded", "empty", "hostile", "measured")


def as_csv(folder: Path, table: str) -> list[dict[str, str]]:
    with (folder / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def as_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    capsys.readouterr()
    assert run(*arguments, "--json") == 0
    written = capsys.readouterr().out
    assert written.count("\n") == 1
    assert written.isascii()
    record: dict[str, Any] = json.loads(written)
    Draft202012Validator(SCHEMA).validate(record)
    return record


@pytest.mark.parametrize("name", MAKERS)
def test_the_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The JSON of any ledger fits the schema, and has all rows of all tables."""
    path = getattr(ledgers, name)(tmp_path / "ledger")
    record = as_json(capsys, path, "--against", ledgers.used(tmp_path / "ledger.rep"))
    assert list(record["tables"]) == list(tables.TABLES)
    if name == "crowded":
        assert len(record["tables"]["urls"]) == 40 * 31
        assert len(record["tables"]["without-robotstxt"]) == 40
    assert len(list(tmp_path.iterdir())) == 2  # It writes no page.


def test_the_schema_has_the_columns_of_the_views(tmp_path: Path) -> None:
    """No second list of columns can differ from the views."""
    path = ledgers.empty(tmp_path / "ledger")
    with closing(Ledgers([path], NO_LIMITS)) as nothing:
        for table, view in tables.TABLES.items():
            names = [each[0] for each in nothing.view(view).description]
            items = SCHEMA["properties"]["tables"]["properties"][table]["items"]
            assert list(items["properties"]) == tables.columns(names)


def test_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each table is a file, with the same rows and columns as in the JSON; older files are replaced."""
    path, folder = ledgers.measured(tmp_path / "ledger"), tmp_path / "a" / "b"
    record = as_json(capsys, path)
    for _ in range(2):
        assert run(path, "--csv", folder) == 0
    names = sorted(set(tables.TABLES) - {"differences"})
    assert sorted(one.name for one in folder.iterdir()) == [f"{n}.csv" for n in names]
    for name in names:
        rows = [
            {key: "" if value is None else str(value) for key, value in row.items()}
            for row in record["tables"][name]
        ]
        assert as_csv(folder, name) == rows
    assert as_csv(folder, "fetched")[0] == {
        "origin": "https://news.example", "day": "2026-09-21", "pages": "1801",
        "bytes": "42244256",
    }  # fmt: skip
    assert as_csv(folder, "timeline")[0]["start_at"] == "2026-09-21T14:10:00Z"


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\r\n=1", "\uff1dHYPERLINK(1)"],
)
def test_no_cell_is_a_formula(tmp_path: Path, text: str) -> None:
    """A text that a spreadsheet may take for a formula begins with a quote; a row is one line."""
    ledger = Ledger(tmp_path / "ledger")
    given = {"layer": text, "verdict": "refused", "reason": text, "origin": text}
    ledger.decision(text, statement=text, **given)
    assert run(ledger.close(), "--csv", tmp_path / "csv") == 0
    for name in ("urls", "reasons", "hosts"):
        (row,) = as_csv(tmp_path / "csv", name)
        texts = [each for each in row.values() if each and not each[0].isdigit()]
        beginnings = {each.lstrip()[0] for each in texts}
        assert not beginnings & {"=", "+", "-", "@", "\uff1d"}
        assert (tmp_path / "csv" / f"{name}.csv").read_bytes().count(b"\n") == 2


def test_a_folder_that_can_not_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names a folder that cannot be made; a ledger is not replaced by a table."""
    path = ledgers.brief(tmp_path / "hosts.csv")
    assert run(path, "--csv", path) == 2
    assert f"{path}: File exists" in capsys.readouterr().err
    assert run(path, "--csv", tmp_path) == 2
    assert "this is an input file" in capsys.readouterr().err


def test_what_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page is written with --csv or --json only if it is asked for."""
    path = ledgers.brief(tmp_path / "ledger")
    page, folder = tmp_path / "page.html", tmp_path / "csv"
    assert run(path, "--csv", folder, "--json", "-o", page) == 0
    assert capsys.readouterr().out.startswith('{"made_at": ')
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert run(path, "--json", "-o", "-") == 2
    assert "standard output" in capsys.readouterr().err


def two_crawls(tmp_path: Path) -> tuple[str, str]:
    """Return the ledgers of a crawl in October, and of the one before."""
    paths = []
    for number, body in enumerate((PRESS, NEWS)):
        ledger = Ledger(tmp_path / f"{number}.rep")
        ledger.crawl("denied", started=START + number * 2_600_000)
        ledger.snapshot(ORIGIN, body)
        for page in range(1 + 4 * number):
            url = f"{ORIGIN}/private/{page}"
            ledger.refused(url, 3, "Disallow: /private/")
        ledger.snapshot("https://same.example", PRESS)
        ledger.snapshot(f"https://only-{number}.example")
        ledger.traffic(ORIGIN, 0, pages=10 - number, bytes=1000)
        ledger.progress(0, pages=10 - number, bytes=1000)
        paths.append(ledger.close())
    return paths[1], paths[0]


def test_differences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What has changed is listed: the whole first, then the hosts that differ most. What is the
    same is not.
    """
    now, before = two_crawls(tmp_path)
    found = as_json(capsys, now, "--against", before)["tables"]["differences"]
    assert [tuple(row.values()) for row in found] == [
        ("", "hosts that name AI crawlers", 0, 1),
        ("", "pages fetched", 10, 9),
        ("", "refused, robots.txt: rule", 1, 5),
        (ORIGIN, "content of robots.txt (SHA-256)", found[3]["was"], found[3]["value"]),
        (ORIGIN, "delay asked for, in seconds", 2.0, 5.0),
        (ORIGIN, "forbidden to CCBot", None, "everything"),
        (ORIGIN, "forbidden to ClaudeBot", None, "some paths"),
        (ORIGIN, "forbidden to GPTBot", None, "everything"),
        (ORIGIN, "forbidden to Google-Extended", None, "nothing"),
        (ORIGIN, "forbidden to PerplexityBot", None, "everything but exceptions"),
        (ORIGIN, "pages fetched", 10, 9),
        (ORIGIN, "refused", 1, 5),
        ("https://only-0.example", "robots.txt", "unavailable 404", None),
        ("https://only-1.example", "robots.txt", None, "unavailable 404"),
    ]
    assert run(now, "--against", before, "--csv", tmp_path / "csv") == 0
    assert len(as_csv(tmp_path / "csv", "differences")) == len(found)


def test_differences_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page has the table of differences, and names the ledger that is compared with, which is
    not replaced.
    """
    now, before = two_crawls(tmp_path)
    page = tmp_path / "page.html"

    def section(*arguments: object) -> str:
        assert run(now, *arguments, "-o", page) == 0
        return (
            page.read_text().partition('id="difference"')[2].partition("</section")[0]
        )

    shown = section("--against", before)
    assert f"Compared with <code>{before}</code>" in shown
    assert "only-0.example" in shown
    assert '<p class="none">Nothing.</p>' in section("--against", now)
    assert section() == ""
    capsys.readouterr()
    assert run(now, "--against", before, "-o", before) == 2
    assert "is an input file" in capsys.readouterr().err
