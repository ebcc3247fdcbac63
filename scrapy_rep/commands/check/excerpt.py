"""The lines of a robots.txt around the rule that decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.commands.shared.output import BLUE, RED, Painted
from scrapy_rep.protocol.display import columns, visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.commands.shared.robotstxt import LoadedRobotsTxt
    from scrapy_rep.protocol.robotstxt.rules import Rule

# Characters of a line of a robots.txt that are shown.
_SHOWN_OF_LINE = 120


def excerpt(loaded: LoadedRobotsTxt, rule: Rule) -> Iterable[list[str | Painted]]:
    """The lines around a rule, with carets under its pattern."""
    lines = loaded.context(rule.line)
    width = len(str(lines[-1].number)) if lines else 1
    for number, text in lines:
        margin = Painted(f"  {number:>{width}} | ", BLUE)
        if number != rule.line:
            yield [margin, shorten(text)]
            continue
        shown, start, end = pointed(text, rule.pattern)
        yield [margin, shown]
        indent = " " * columns(visible(shown[:start]))
        carets = "^" * max(columns(visible(shown[start:end])), 1)
        yield [Painted(f"  {'':>{width}} | ", BLUE), indent, Painted(carets, RED)]


def shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_OF_LINE else text[:_SHOWN_OF_LINE] + "…"


def pointed(text: str, pattern: str) -> tuple[str, int, int]:
    """A line, shortened, and where in it the pattern stands."""
    # The field of a line never has a colon; where a dialect does without one, the
    # pattern follows white space.
    start = text.find(pattern, text.find(":") + 1) if pattern else text.find(":") + 1
    start = max(start, 0)
    if start > _SHOWN_OF_LINE // 2:
        cut = start - _SHOWN_OF_LINE // 4
        text, start = "…" + text[cut:], start - cut + 1
    text = shorten(text)
    return text, start, min(start + len(pattern), len(text))
