"""Writes the parts of pages that say what tables of the package say.

    python3 -m docs._ext.generated

The codes of the linter on ``docs/lint.md``, and the known crawlers on ``docs/commands.md``. A part
stands between two marks; what is around it is written by hand.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_rep.protocol.crawlers import CHECKED, CRAWLERS
from scrapy_rep.protocol.linter import KINDS, explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.protocol.crawlers import Crawler

DOCS = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- {}: `python3 dev.py docs` writes this. -->\n", "<!-- end -->\n"


def page(name: str) -> str:
    """The page as it should be."""
    text = (DOCS / name).read_text(encoding="utf-8")
    for source, lines in (("CODES", _codes), ("CRAWLERS", _crawlers)):
        before, begin, rest = text.partition(BEGIN.format(source))
        if begin:
            after = rest.partition(END)[2]
            text = f"{before}{begin}\n{''.join(lines())}\n{END}{after}"
    return text


def _codes() -> Iterator[str]:
    for code, kind in KINDS.items():
        found = explain(code)
        yield f"### `{code}`\n\n"
        example = kind.example.decode("utf-8", "backslashreplace")
        if example:
            example = example.encode("ascii", "backslashreplace").decode()
            yield f"```text\n{example}\n```\n\n"
        place = f", line {found.line}" if found.line else ""
        yield f"*{kind.severity}*{place}: {_escaped(found.message)}.\n\n"


def _crawlers() -> Iterator[str]:
    yield f"By operator, as their pages say ({CHECKED}); Google's read the dialect `google`:\n\n"
    for operator, group in groupby(CRAWLERS.values(), lambda each: each.operator):
        named = ", ".join(f"{_token(each)} ({each.purpose})" for each in group)
        yield f"- {operator}: {named}\n"


def _token(crawler: Crawler) -> str:
    first, *others = (f"`{agent}`" for agent in crawler.agents)
    return ", else ".join([f"[{first}]({crawler.source})", *others])


def _escaped(text: str) -> str:
    return re.sub(r"([*_`<>#\\\[\]])", r"\\\1", text)


PAGES = ("lint.md", "commands.md")

if __name__ == "__main__":
    for name in PAGES:
        (DOCS / name).write_text(page(name), encoding="utf-8")
