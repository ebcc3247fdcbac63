"""Writes the page ``docs/reference/settings.md`` from the table of settings.

    python3 -m docs._ext.settingspage

What stands above the mark on the page is written by hand.
"""

from __future__ import annotations

import ast
import re
from inspect import cleandoc
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_rep.base import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).resolve().parents[1] / "reference" / "settings.md"
MARK = "<!-- From here on, `python3 dev.py docs` writes this page from scrapy_rep/base/settings.py. -->\n"


GROUPS = {
    "ROBOTSTXT_OBEY": "Which rules to follow",
    "REP_REQUEST_META_KEYS": "Fetch and keep robots.txt files",
    "REP_WAIT_TIMEOUT": "How fast, and how long to wait",
    "REP_QUEUE_LEASE": "Many workers",
    "REP_LEDGER": "Record decisions",
    "REP_NOINDEX": "Indexing rules",
    "REP_PURPOSES": "What content is used for",
}
"""The groups of the page, each with the first of its settings: the page has them in this order."""

OF_SCRAPY = "https://docs.scrapy.org/en/latest/topics/settings.html#std-setting-"


def page() -> str:
    """The page as it should be."""
    by_hand = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    return by_hand + MARK + "\n".join(_generated()) + "\n"


def _generated() -> Iterator[str]:
    texts = _texts()
    names: dict[str, list[str]] = {}
    group = ""
    for setting in settings.SETTINGS.values():
        group = GROUPS.get(setting.name, group)
        names.setdefault(group, []).append(
            f"[`{setting.name}`](#{setting.name.lower()})"
        )
    yield ""
    yield from (f"- {group}: {', '.join(links)}" for group, links in names.items())
    for field, setting in settings.SETTINGS.items():
        if setting.name in GROUPS:
            yield f"\n## {GROUPS[setting.name]}"
        yield "\n" + _entry(setting, texts[field])


def _entry(setting: settings.Setting, text: str) -> str:
    text, _, example = text.rpartition("\n\nExample: ")
    text, _, why = text.rpartition("\n\nDefault: ")
    # Strings and names are code on the page, and plain text in an error message.
    value = re.sub(
        r"""(?P<quote>['"])(?P<text>.+?)(?P=quote)|\bREP_\w+""",
        _as_code,
        setting.kind.allowed,
    )
    if setting.name not in settings.DEFAULTS:
        text += (
            f"\n\n[The setting in Scrapy's documentation]({OF_SCRAPY}{setting.name})"
        )
    return (
        f"### `{setting.name}`\n\n- Value: {value}\n- Default: `{_shown(setting.default)}`: {why}\n"
        f"- Example: {example}\n\n{text}"
    )


def _as_code(match: re.Match[str]) -> str:
    text = match["text"]
    # A text with double quotes in it is one for a shell.
    return f'`"{text}"`' if text and '"' not in text else f"`{match[0]}`"


def _shown(default: object) -> str:
    return repr(default).replace("'", '"')


def _texts() -> dict[str, str]:
    """The text below each setting in the source, by field."""
    source = Path(settings.__file__).read_text(encoding="utf-8")
    (table,) = (
        each
        for each in ast.parse(source).body
        if isinstance(each, ast.ClassDef) and each.name == settings.RepSettings.__name__
    )
    return {
        ast.unparse(setting.target): cleandoc(ast.literal_eval(text.value))
        for setting, text in pairwise(table.body)
        if isinstance(setting, ast.AnnAssign) and isinstance(text, ast.Expr)
    }


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
