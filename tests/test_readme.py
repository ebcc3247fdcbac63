"""The tables of the README say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import scrapy.signals

from scrapy_rep import exceptions, meta, settings, signals, stats

pytestmark = pytest.mark.newest

README = (Path(__file__).parents[1] / "README.md").read_text()


def table(heading: str, number: int = 0) -> list[list[str]]:
    """The rows of a table in the section under *heading*, without its head."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    tables = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)
    rows = tables[number].strip().split("\n")[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def names(rows: list[list[str]]) -> list[str]:
    return [row[0].strip("` ") for row in rows]


def test_settings() -> None:
    """Each setting has a row, in alphabetical order, with its default."""
    rows = table("Settings")
    assert names(rows) == sorted(settings.DEFAULTS)
    for (name, default), row in zip(
        sorted(settings.DEFAULTS.items()), rows, strict=True
    ):
        shown = row[1].strip("` ")
        assert shown == repr(default).replace("'", '"'), name


def test_stats() -> None:
    """Each stat key has a row, and each row is a stat key."""
    keys = [value for name, value in vars(stats).items() if name.isupper()]
    assert sorted(names(table("Stats"))) == sorted(keys)


def test_meta_keys_and_flags() -> None:
    """Each meta key and flag that a user meets has a row."""
    section = "Request.meta and Response.flags"
    shown = {*names(table(section)), *names(table(section, 1))}
    spelt = {value for name, value in vars(meta).items() if name.isupper()}
    assert shown == {value for value in spelt if not value.startswith("_")}


def test_signals() -> None:
    """Each signal of ours has a row, and each row is a signal."""
    ours = {name for name in vars(signals) if name.islower() and name[0] != "_"}
    shown = names(table("Signals"))
    assert {name for name in ours if f"scrapy_rep.signals.{name}" in shown} == ours - {
        "annotations"
    }
    for name in shown:
        module, _, attribute = name.rpartition(".")
        known = signals if module == "scrapy_rep.signals" else scrapy.signals
        if attribute != "robots_parsed":
            assert hasattr(known, attribute)


def test_exceptions() -> None:
    """Each exception has a row with its base class."""
    rows = table("Exceptions")
    shown = {row[0].strip("` ").rpartition(".")[2]: row[1] for row in rows}
    ours = {
        name: value
        for name, value in vars(exceptions).items()
        if isinstance(value, type) and value.__module__ == exceptions.__name__
    }
    assert set(shown) == set(ours)
    for name, base in shown.items():
        assert ours[name].__base__.__name__ in base


@pytest.mark.parametrize("command", ["demo", "test"])
def test_the_two_commands(command: str) -> None:
    """Both commands of the README are commands of dev.py."""
    assert f"python3 dev.py {command} " in README
    assert (
        f'case ["{command}", *rest]'
        in (Path(__file__).parents[1] / "dev.py").read_text()
    )
