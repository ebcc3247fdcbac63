"""The tables of the reference and the README agree with the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import scrapy.signals
from scrapy.settings import Settings

from docs._ext import generated, settingspage
from scrapy_rep import exceptions, meta, settings, signals, stats

pytestmark = pytest.mark.newest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def reference(page: str) -> str:
    return (ROOT / "docs" / "reference" / f"{page}.md").read_text(encoding="utf-8")


def table(page: str, number: int = 0) -> list[list[str]]:
    """Return the rows of a table on a page of the reference, without its header."""
    tables = re.findall(r"(?:^\|.*\n)+", reference(page), re.MULTILINE)
    rows = tables[number].strip().split("\n")[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def names(rows: list[list[str]]) -> list[str]:
    return [row[0].strip("` ") for row in rows]


def test_settings() -> None:
    """The page of settings is what the table of settings says."""
    written = reference("settings")
    assert written == settingspage.page(), "python3 dev.py docs writes the page anew"
    for group in settingspage.GROUPS.values():
        assert written.count(f"\n## {group}\n") == 1


@pytest.mark.parametrize("name", generated.PAGES)
def test_generated(name: str) -> None:
    """The codes of the linter and the known crawlers are those of the package."""
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == generated.page(name), "python3 dev.py docs writes the page anew"


@pytest.mark.parametrize("name", sorted(settings.DEFAULTS))
def test_setting(name: str) -> None:
    """Each setting has an entry with a valid example that is not the default."""
    entry = reference("settings").split(f"\n### `{name}`\n")[1].split("\n### ")[0]
    (example,) = re.findall(rf"^- Example: `{name} = (.+)`$", entry, re.MULTILINE)
    value = ast.literal_eval(example)
    assert value != settings.DEFAULTS[name]
    settings.RepSettings.from_settings(Settings({name: value}))


def test_reasons_of_defaults() -> None:
    """The reason of each default is explained."""
    page = (ROOT / "docs" / "explanation" / "defaults.md").read_text(encoding="utf-8")
    for name, default in settings.DEFAULTS.items():
        (row,) = re.findall(rf"^\|[^|]*`{name}`[^|]*\| (.*?) \|", page, re.MULTILINE)
        assert f"`{default!r}`".replace("'", '"') in row, name


def test_stats() -> None:
    """The table of stats has exactly the stat keys of the code."""
    keys = [value for name, value in vars(stats).items() if name.isupper()]
    assert sorted(names(table("stats"))) == sorted(keys)


def test_meta_keys_and_flags() -> None:
    """The tables of meta keys and flags have exactly the public ones of the code."""
    shown = {*names(table("meta")), *names(table("meta", 1))}
    spelt = {value for name, value in vars(meta).items() if name.isupper()}
    assert shown == {value for value in spelt if not value.startswith("_")}


def test_signals() -> None:
    """Each signal of this package has a row, and each row names an existing signal."""
    ours = {name for name in vars(signals) if name.islower() and name[0] != "_"}
    shown = names(table("signals"))
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
    rows = table("exceptions")
    shown = {row[0].strip("` ").rpartition(".")[2]: row[1] for row in rows}
    ours = {
        name: value
        for name, value in vars(exceptions).items()
        if isinstance(value, type)
        and value.__module__ == exceptions.__name__
        and name[0] != "_"
    }
    assert set(shown) == set(ours)
    for name, base in shown.items():
        assert ours[name].__bases__[-1].__name__ in base


@pytest.mark.parametrize("command", ["demo", "test"])
def test_the_two_commands(command: str) -> None:
    """Both commands in the README are commands of dev.py."""
    assert f"python3 dev.py {command} " in README
    assert f'case ["{command}", *rest]' in (ROOT / "dev.py").read_text()
