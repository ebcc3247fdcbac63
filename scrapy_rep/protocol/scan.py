"""Which rule wins, found the plain way: by a look at each."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from scrapy_rep.protocol import paths
from scrapy_rep.protocol.paths import NORMAL, NORMAL_CLASS, Pattern
from scrapy_rep.protocol.rules import bare

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.rules import RuleLines

Candidate: TypeAlias = tuple[int, int, str]
"""A rule as it is compared: of two that match, the greater one wins.

Its precedence, which is twice the octets of the pattern, and one more if the rule allows,
or 0 where the first rule wins; its mark, negative; and its value.
"""

KnownRule: TypeAlias = tuple[int, str, Pattern]
"""A rule's mark, its bare value, and its pattern."""

LITERAL = re.compile(rf"/[{NORMAL_CLASS}]*").fullmatch
"""Whether a value is a pattern that is the beginning of a target as it stands."""

# What a target must begin with, and have in it, if a value is to match it.
_NORMAL_PARTS = re.compile(rf"((?:/[{NORMAL_CLASS}]*)?)\**([{NORMAL_CLASS}]*)").match

_EVERYTHING = Pattern(("",), anchored=False, octets=0)


def candidate(mark: int, value: str, octets: int, dialect: Dialect) -> Candidate:
    precedence = 0 if dialect.rule_choice == "first" else 2 * octets + (mark & 1)
    return precedence, -mark, value


def rule_of(value: str, mark: int, dialect: Dialect) -> KnownRule | None:
    """What a rule line stands for, if it is a rule."""
    value = bare(value)
    if value:
        pattern = paths.pattern(value, dialect)
        return pattern and (mark, value, pattern)
    if not mark & 1 and dialect.empty_disallow == "allow-all":
        return mark + 1, value, _EVERYTHING
    return None


def directories_of(lines: RuleLines, dialect: Dialect) -> list[KnownRule]:
    """The rules that allow directories, because their index pages are allowed."""
    found: list[KnownRule] = []
    if dialect.index_html_quirk:
        for written, mark in lines.allows.items():
            value = bare(written)
            directory = paths.directory_of_index(value, dialect)
            if directory is not None:
                found.append((mark, value, directory))
    return found


class RuleScan:
    """The rules that one crawler follows, asked one after the other which of them wins."""

    __slots__ = ("_dialect", "_lines")

    def __init__(self, lines: RuleLines, dialect: Dialect) -> None:
        self._lines = lines
        self._dialect = dialect

    def allows(self, target: str) -> bool:
        """Whether *target* is allowed."""
        winner = self.winner(target)
        return winner is None or bool(winner[1] & 1)

    def winner(self, target: str) -> Candidate | None:
        """The rule that decides on *target*, or None if none matches."""
        dialect, elsewhere = self._dialect, _elsewhere(target[1:2])
        slashed = paths.with_slashes(target, dialect)
        found: list[Candidate] = []
        rules = directories_of(self._lines, dialect)
        for values in filter(None, (self._lines.disallows, self._lines.allows)):
            # Each look leaves fewer to the next, which takes longer.
            near = [value for value in values if value[:2] not in elsewhere]
            near = [v for v in near if slashed.startswith(v) or not LITERAL(v)]
            for value in near:
                mark = values[value]
                if LITERAL(value):
                    found.append(candidate(mark, value, len(value), dialect))
                elif _may_match(value, target, slashed):
                    rule = rule_of(value, mark, dialect)
                    if rule is not None:
                        rules.append(rule)
        for mark, value, pattern in rules:
            if paths.matches(pattern, target):
                found.append(candidate(mark, value, pattern.octets, dialect))
        return max(found, default=None)


@lru_cache(maxsize=256)
def _elsewhere(character: str) -> frozenset[str]:
    """How values begin that match no target whose path begins with *character*."""
    return frozenset("/" + other for other in NORMAL if other != character)


def _may_match(value: str, target: str, slashed: str) -> bool:
    """Whether *target* begins like *value*, and has in it what follows the first ``*``,
    as far as both are normal.
    """
    parts = _NORMAL_PARTS(value)
    if parts is None:
        return True
    if not slashed.startswith(parts[1]):
        return False
    return parts[2] in target or parts[2] in slashed
