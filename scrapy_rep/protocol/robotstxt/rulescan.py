"""Finds the rule that decides by a scan of a crawler's groups, without an index."""

from __future__ import annotations

import re
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from scrapy_rep.protocol.grammar import WHITE_SPACE, WS
from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.robotstxt.paths import NORMAL, NORMAL_CLASS, Pattern
from scrapy_rep.protocol.robotstxt.rules import RuleLines, bare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robotstxt.rules import GroupText

Candidate: TypeAlias = tuple[int, int, str]
"""A rule as a sort key: of two matching rules, the greater one wins.

It has the precedence, the negated mark, and the value. The precedence is two times the octets
of the pattern, plus one if the rule allows; or 0 if the first rule wins in the dialect.
"""

ParsedRule: TypeAlias = tuple[int, str, Pattern]
"""A rule's mark, its bare value, and its pattern."""

LITERAL = re.compile(rf"/[{NORMAL_CLASS}]*").fullmatch
"""Matches a value that is a normalized literal pattern."""

# Classes of normal characters. _rules_near compiles one expression for each class: one for
# each character would take as long to compile as it saves on a dozen hosts.
_ALIKE = {character: NORMAL[n % 8 :: 8] for n, character in enumerate(NORMAL)}

# The first literal part after the head of a value; a matching target must contain it.
_FIRST_PART = re.compile(rf"\**([{NORMAL_CLASS}]*)").match

_EVERYTHING = Pattern(("",), anchored=False, octets=0)


def candidate(mark: int, value: str, octets: int, dialect: Dialect) -> Candidate:
    precedence = 0 if dialect.rule_choice == "first" else 2 * octets + (mark & 1)
    return precedence, -mark, value


def rule_of(value: str, mark: int, dialect: Dialect) -> ParsedRule | None:
    """Return the rule of a line with *value* and *mark*; None if the line has no effect."""
    value = bare(value)
    if value:
        pattern = paths.pattern(value, dialect)
        return pattern and (mark, value, pattern)
    if not mark & 1 and dialect.empty_disallow == "allow-all":
        return mark + 1, value, _EVERYTHING
    return None


def directories_of(lines: RuleLines, dialect: Dialect) -> list[ParsedRule]:
    """Return the rules that allow directories because their index pages are allowed."""
    found: list[ParsedRule] = []
    if dialect.index_html_quirk:
        for written, mark in lines.allows.items():
            value = bare(written)
            directory = paths.directory_of_index(value, dialect)
            if directory is not None:
                found.append((mark, value, directory))
    return found


def can_scan(target: str, groups: Sequence[GroupText], dialect: Dialect) -> bool:
    """Whether :class:`RuleScan` supports *target* and *groups*.

    The target must be short, and have no ``%2F``, which may match a ``/``. No rule may allow
    the directory of an index page.
    """
    if len(target) > paths.SHORT or "%2F" in target:
        return False
    return not dialect.index_html_quirk or not any(
        "index.htm" in text or "%" in text for text, _ in groups
    )


class RuleScan:
    """Finds the rule that decides on a target in the text of the groups of one crawler.

    A regular expression reads the text once, and stops only at rules that may match the
    target. Nothing is cached, so use this for a single target: on real files it takes half
    the time of creating :class:`RuleLines` and comparing each rule. See :func:`can_scan` for
    the targets that it supports.
    """

    __slots__ = ("_dialect", "_groups")

    def __init__(self, groups: Sequence[GroupText], dialect: Dialect) -> None:
        self._groups = groups
        self._dialect = dialect

    def allows(self, target: str) -> bool:
        found = self._find(target)
        return found is None or bool(found[1][1] & 1)

    def winner(self, target: str) -> Candidate | None:
        """Return the rule that decides on *target*, or None if none matches."""
        found = self._find(target)
        if found is None:
            return None
        (text, line), (precedence, mark, value) = found
        rules = _rules_near(_ALIKE.get(target[1:2], "")).finditer(text)
        rule = next(islice(rules, mark >> 1, None))
        line += text.count("\n", 0, rule.end())
        return precedence, -(2 * line + (mark & 1)), value

    def _find(self, target: str) -> tuple[GroupText, Candidate] | None:
        """Return the rule that decides, and its group, or None.

        The mark of the rule is positive. It has the number of the rule among the rules that
        may match instead of a line number.
        """
        rules_near = _rules_near(_ALIKE.get(target[1:2], "")).findall
        found = None
        for group in self._groups:
            best = self._best_of(rules_near(group[0]), target)
            # The first of equal rules wins.
            if best is not None and (found is None or best[0] > found[1][0]):
                found = group, best
        return found

    def _best_of(
        self, rules: list[tuple[str, str, str]], target: str
    ) -> Candidate | None:
        dialect = self._dialect
        first_wins = dialect.rule_choice == "first"
        tried: set[tuple[str, str]] = set()
        most, best = -1, None
        for number, (disallows, head, rest) in enumerate(rules):
            if not target.startswith(head):
                continue
            mark = 2 * number + (not disallows)
            value = head + rest.rstrip(WHITE_SPACE)
            if value == head and head:
                octets = len(head)
            else:
                # Equal lines are compared once.
                key = disallows, value
                part = _FIRST_PART(value, len(head))
                if key in tried or (part and part[1] not in target):
                    continue
                tried.add(key)
                rule = rule_of(value, mark, dialect)
                if rule is None or not paths.matches(rule[2], target):
                    continue
                mark, octets = rule[0], rule[2].octets
            precedence = 0 if first_wins else 2 * octets + (mark & 1)
            if precedence > most:
                most, best = precedence, (precedence, mark, value)
        return best


@cache
def _rules_near(characters: str) -> re.Pattern[str]:
    """Return an expression for the rule lines that may match a target.

    The target's character after the first slash must be one of *characters*, or not normal.
    The groups of the expression are: "d" for a disallow line; the literal that the target
    must begin with; the rest of the value.
    """
    others = re.escape("".join(sorted(set(NORMAL) - set(characters))))
    return re.compile(
        rf"\n{WS}(?:([dD])(?i:isallow)|[aA](?i:llow)){WS}:{WS}"
        rf"(?:(/(?![{others}])[{NORMAL_CLASS}]*)|(?![/{WHITE_SPACE}]))([^#\n]*)"
    )
