"""The pages that list what the code has agree with the code."""

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
    return (DOCS / "reference" / f"{page}.md").read_text(encoding="utf-8")


def table(page: str, number: int = 0) -> dict[str, str]:
    """Return the rows of a table on a page of the reference: the name, and the rest."""
    tables = re.findall(r"(?:^\|.*\n)+", reference(page), re.MULTILINE)
    rows = [row.strip("|").split(" | ", 1) for row in tables[number].split("\n")[2:-1]]
    return {name.strip("` "): rest for name, rest in rows}


@pytest.mark.parametrize("name", sorted(settings.DEFAULTS))
def test_each_setting_has_an_entry_with_an_example_and_a_reason(name: str) -> None:
    """Each setting has an entry with a valid example that is not the default, and with the reason
    of its default.
    """
    entry = reference("settings").split(f"\n### `{name}`\n")[1].split("\n### ")[0]
    (example,) = re.findall(rf"^- Example: `{name} = (.+)`$", entry, re.MULTILINE)
    value, default = ast.literal_eval(example), settings.DEFAULTS[name]
    assert value != default
    settings.RepSettings(Settings({name: value}))
    (shown, why) = re.findall(r"^- Default: `(.*)`: (.+)$", entry, re.MULTILINE)[0]
    assert shown == repr(default).replace("'", '"')
    assert why.endswith(".")


def test_the_generated_pages_are_up_to_date() -> None:
    """The page of settings, the codes of the linter and the known crawlers are those of the
    package; each group of settings is there once, behind a list of all settings.
    """
    written = {
        page: (ROOT / "docs" / page).read_text("utf-8") for page in generated.PAGES
    }
    expected = {page: generated.page(page) for page in generated.PAGES}
    assert written == expected, "python3 dev.py docs writes the pages anew"
    text = reference("settings")
    assert text == settingspage.page(), "python3 dev.py docs writes the page anew"
    for group in settingspage.GROUPS.values():
        assert text.count(f"\n## {group}\n") == 1
    beginning = text.partition("\n## ")[0]
    listed = re.findall(r"\[`(\w+)`\]\(#\w+\)", beginning)
    assert listed == [setting.name for setting in settings.SETTINGS.values()]


def test_the_tables_have_what_the_code_has() -> None:
    """The tables have exactly the stats, meta keys and flags, signals and exceptions of the
    code, and name only signals that exist.
    """
    keys = [value for name, value in vars(stats).items() if name.isupper()]
    assert sorted(table("stats")) == sorted(keys)
    spelt = {value for name, value in vars(meta).items() if name.isupper()}
    public = {value for value in spelt if not value.startswith("_")}
    assert {*table("meta"), *table("meta", 1)} == public
    ours = {name for name in vars(signals) if name.islower() and name[0] != "_"}
    shown = table("signals")
    assert {name for name in ours if f"scrapy_rep.signals.{name}" in shown} == ours - {
        "annotations"
    }
    for name in shown:
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
    """Each row of the table of defences in SECURITY.md names existing tests."""
    section = SECURITY.split("\n## What is defended\n")[1].split("\n### ")[0]
    rows = [row for row in section.splitlines() if row.startswith("| ")][1:]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`(tests/[^`]+)`", row.split(" | ")[2])
        assert named, row
        assert [path for path in named if not (ROOT / path).is_file()] == []


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
def test_the_bounds_in_security_are_those_of_the_code(
    sentence: str, value: int
) -> None:
    """The limits in SECURITY.md are those of the code, in all dialects."""
    assert sentence.format(value) in " ".join(SECURITY.split())
    for dialect in DIALECTS.values():
        assert dialect.size_limit == RFC9309.size_limit
        assert dialect.max_redirects == RFC9309.max_redirects


DOCUMENTED_BY_SCRAPY = {
    "SlotState", "concurrent_requests", "is_heard", "is_interactive", "is_parse_command", "loop_caller",
    "run_in_thread", "shared_component",
}  # fmt: skip
"""The functions and classes of ``base/compat.py`` that use no private name."""


def test_the_page_of_private_names_is_complete() -> None:
    """The page of Scrapy's private names has a paragraph for each function or class that uses one, with what
    it reads.
    """
    shown: dict[str, str] = {}
    for paragraph in PRIVATE_NAMES.split("\n\n"):
        begin, _, names = paragraph.partition(" (")
        for name in re.findall(r"`(\w+)`", names.partition(")")[0]):
            if begin.startswith("**"):
                shown[name] = shown.get(name, "") + paragraph
    tree = ast.parse(Path(compat.__file__).read_text())
    functions = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if not node.name.startswith("_")
    }
    assert set(shown) == {*functions, "PROXY_AUTH_META_KEY"} - DOCUMENTED_BY_SCRAPY
    for name, function in functions.items():
        for path in re.findall(r"\b_find\([\w.]+, '([^']+)'", ast.unparse(function)):
            assert path in shown[name], (name, path)
