"""Rules, and the parser that reads them from the text of a group."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from scrapy_rep.protocol.grammar import WHITE_SPACE, line_of

if TYPE_CHECKING:
    from collections.abc import Iterable

GroupText: TypeAlias = tuple[str, int]
"""The text of a group, one character for each octet, and the number of its first line,
which is a user-agent line."""

# A disallow line whose value begins with a slash, up to that value.
_DISALLOW = re.compile(line_of("disallow") + "(?=/)", re.IGNORECASE)

# The characters that can begin a rule line. Most other lines begin with different ones.
_BEGIN_RULES = frozenset(WHITE_SPACE + "aAdD")


class Rule(NamedTuple):
    """An allow or disallow line (RFC 9309, 2.2.2), or a delay or window line that decided."""

    kind: str
    """``allow`` or ``disallow``; for a delay or window line, its field in lower case."""

    pattern: str
    """The pattern as written, or the value of a delay or window line. Invalid UTF-8 becomes
    U+FFFD."""

    line: int
    """The number of the line, from 1."""

    @classmethod
    def of_mark(cls, mark: int, value: str) -> Rule:
        """Return the rule with a mark and value of :class:`RuleLines`."""
        # An empty rule that has an effect is a Disallow that allows everything.
        kind = "allow" if mark & 1 and value else "disallow"
        return cls(kind, value.encode("latin-1").decode("utf-8", "replace"), mark >> 1)


class RuleLines:
    """The allow and disallow lines of one crawler: the mark of each value.

    A *mark* is one integer for a rule: two times the number of its line, plus one if the rule
    allows. The first of equal lines counts. Values are as written, with one character for
    each octet. A comment or white space may still follow them.
    """

    __slots__ = ("allows", "disallows")

    def __init__(self) -> None:
        self.allows: dict[str, int] = {}
        self.disallows: dict[str, int] = {}

    @classmethod
    def of_groups(cls, groups: Iterable[GroupText]) -> RuleLines:
        lines = cls()
        for text, line in groups:
            lines.add_group(text, line)
        return lines

    def add_group(self, group: str, line: int) -> None:
        """Add the rules of a group, whose user-agent line has the number *line*.

        Nearly all rules of nearly all sites are disallow lines that begin alike. Splitting
        the text at this beginning gives their values at once. The lines between them are
        parsed one by one.
        """
        first = _DISALLOW.search(group)
        if first is None:
            self._add_lines(group.split("\n"), 2 * line)
            return
        head, *values = group.split(first[0])
        between = head.split("\n")
        self._add_lines(between, 2 * line)
        mark = 2 * (line + len(between))
        add = self.disallows.setdefault
        for value in values:
            if "\n" not in value:
                add(value, mark)
            else:
                rest, *between = value.split("\n")
                add(rest, mark)
                self._add_lines(between, mark + 2)
                mark += 2 * len(between)
            mark += 2

    def _add_lines(self, lines: list[str], mark: int) -> None:
        for line_mark, line in zip(count(mark, 2), lines, strict=False):
            if line[:1] not in _BEGIN_RULES:
                continue
            name, colon, value = line.partition(":")
            if colon:
                name = name.strip(WHITE_SPACE).lower()
                if name == "disallow":
                    self.disallows.setdefault(bare(value), line_mark)
                elif name == "allow":
                    self.allows.setdefault(bare(value), line_mark + 1)


def bare(value: str) -> str:
    """Return *value* without a comment and the white space around it."""
    if "#" in value:
        value = value.partition("#")[0]
    return value.strip(WHITE_SPACE)
