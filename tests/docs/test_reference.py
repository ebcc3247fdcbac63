"""Tests that the reference pages agree with the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import scrapy.signals
from scrapy.settings import Settings

from docs._ext import generated, settingspage
from scrapy_rep import exceptions, signals
from scrapy_rep.base import compat, meta, settings, stats
from scrapy_rep.crawl.ledger import reader
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309
from scrapy_rep.protocol.indexing import dates, statements
from scrapy_rep.protocol.robotstxt import rules
from tests.docs.pages import DOCS, ROOT

pytestmark = pytest.mark.newest

SECURITY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
PRIVATE_NAMES = (DOCS / "explanation" / "scrapy.md").read_text(encoding="utf-8")


def reference(page: str) -> str:
    """Return the text of a page of the reference."""
    return (DOCS / "reference" / f"{page}.md").read_text(encoding="utf-8")


def table(page: str, number: int = 0) -> dict[str, str]:
    """Return the rows of a table on a page of the reference: the name in the first column, and the
    rest of the row.
    """
    tables = re.findall(r"(?:^\|.*\n)+", reference(page), re.MULTILINE)
    rows = [row.strip("|").split(" | ", 1) for row in tables[number].split("\n")[2:-1]]
    return {name.strip("` "): rest for name, rest in rows}


@pytest.mark.parametrize("name", sorted(settings.DEFAULTS))
def test_each_setting_has_an_entry_with_an_example_and_a_reason(name: str) -> None:
    """The example is valid and differs from the default. The entry says why the default is what it
    is.
    """
    entry = reference("settings").split(f"\n### `{name}`\n")[1].split("\n### ")[0]
    (example,) = re.findall(rf"^- Example: `{name} = (.+)`$", entry, re.MULTILINE)
    value, default = ast.literal_eval(example), settings.DEFAULTS[name]
    assert value != default
    settings.RepSettings(Settings({name: value}))
    (documented_default, reason) = re.findall(
        r"^- Default: `(.*)`: (.+)$", entry, re.MULTILINE
    )[0]
    assert documented_default == repr(default).replace("'", '"')
    assert reason.endswith(".")


def test_the_generated_pages_are_up_to_date() -> None:
    """The generated pages are those of the settings, the codes of the linter and the known
    crawlers. The page of settings begins with a list of all settings, and has each group once.
    """
    pages = {
        page: (ROOT / "docs" / page).read_text("utf-8") for page in generated.PAGES
    }
    expected = {page: generated.page(page) for page in generated.PAGES}
    assert pages == expected, (
        "the pages are out of date; python3 dev.py docs generates them"
    )
    text = reference("settings")
    assert text == settingspage.page(), (
        "the page is out of date; python3 dev.py docs generates it"
    )
    for group in settingspage.GROUPS.values():
        assert text.count(f"\n## {group}\n") == 1
    introduction = text.partition("\n## ")[0]
    listed_settings = re.findall(r"\[`(\w+)`\]\(#\w+\)", introduction)
    assert listed_settings == [setting.name for setting in settings.SETTINGS.values()]


def test_the_tables_have_the_stats_meta_keys_signals_and_exceptions_of_the_code() -> (
    None
):
    """The tables have exactly the names that the code defines. Signals of Scrapy in the table must
    exist, too.
    """
    keys = [value for name, value in vars(stats).items() if name.isupper()]
    assert sorted(table("stats")) == sorted(keys)
    meta_keys = {value for name, value in vars(meta).items() if name.isupper()}
    public_meta_keys = {value for value in meta_keys if not value.startswith("_")}
    assert {*table("meta"), *table("meta", 1)} == public_meta_keys
    package_signals = {
        name for name in vars(signals) if name.islower() and name[0] != "_"
    }
    documented_signals = table("signals")
    assert {
        name
        for name in package_signals
        if f"scrapy_rep.signals.{name}" in documented_signals
    } == package_signals - {"annotations"}
    for name in documented_signals:
        module, _, attribute = name.rpartition(".")
        module_of_signals = (
            signals if module == "scrapy_rep.signals" else scrapy.signals
        )
        assert attribute == "robots_parsed" or hasattr(module_of_signals, attribute)
    bases = {
        name.rpartition(".")[2]: base for name, base in table("exceptions").items()
    }
    for name, value in vars(exceptions).items():
        if isinstance(value, type) and value.__module__ == exceptions.__name__:
            assert name[0] == "_" or value.__bases__[-1].__name__ in bases.pop(name)
    assert bases == {}


def test_each_defence_names_tests_that_exist() -> None:
    """Each row of the table in SECURITY.md names the tests of the defence."""
    section = SECURITY.split("\n## What is defended\n")[1].split("\n### ")[0]
    rows = [row for row in section.splitlines() if row.startswith("| ")][1:]
    assert len(rows) > 10
    for row in rows:
        test_paths = re.findall(r"`(tests/[^`]+)`", row.split(" | ")[2])
        assert test_paths, row
        assert [path for path in test_paths if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize(
    ("sentence", "value"),
    [
        ("500 KiB are read ({:,} bytes)", RFC9309.size_limit),
        ("more than {:,} octets is refused", rules.MAX_TARGET),
        ("more than {:,} octets would be", rules.MAX_COMPARED),
        ("{:,} characters of a field", statements.MAX_TEXT),
        ("{:,} statements of a response", statements.MAX_STATEMENTS),
        ("{} characters of a date", dates._MAX_LENGTH),
        ("{} are followed", RFC9309.max_redirects),
        ("a value is {} MiB long at most", reader._MAX_VALUE >> 20),
    ],
)
def test_the_limits_in_security_md_are_those_of_the_code(
    sentence: str, value: int
) -> None:
    """SECURITY.md states one maximum size and one maximum number of redirects, so they must be the same in all
    dialects.
    """
    assert sentence.format(value) in " ".join(SECURITY.split())
    for dialect in DIALECTS.values():
        assert dialect.size_limit == RFC9309.size_limit
        assert dialect.max_redirects == RFC9309.max_redirects


DOCUMENTED_BY_SCRAPY = {
    "SlotState", "concurrent_requests", "is_heard", "is_interactive", "is_parse_command", "loop_caller",
    "run_in_thread", "shared_component",
}  # fmt: skip
"""The functions and classes of ``base/compat.py`` that use documented names of Scrapy only."""


def test_the_page_of_private_names_is_complete() -> None:
    """The page about Scrapy's private names has a paragraph for each function or class of
    ``base/compat.py`` that uses a private name, with the names of the attributes that are read.
    """
    paragraph_by_name: dict[str, str] = {}
    for paragraph in PRIVATE_NAMES.split("\n\n"):
        start, _, names = paragraph.partition(" (")
        for name in re.findall(r"`(\w+)`", names.partition(")")[0]):
            if start.startswith("**"):
                paragraph_by_name[name] = paragraph_by_name.get(name, "") + paragraph
    tree = ast.parse(Path(compat.__file__).read_text())
    functions = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if not node.name.startswith("_")
    }
    assert (
        set(paragraph_by_name)
        == {*functions, "PROXY_AUTH_META_KEY"} - DOCUMENTED_BY_SCRAPY
    )
    for name, function in functions.items():
        for path in re.findall(r"\b_find\([\w.]+, '([^']+)'", ast.unparse(function)):
            assert path in paragraph_by_name[name], (name, path)
