"""Which rule wins, found without an index."""

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
"""A rule as it is compared: of two that match, the greater one wins.

Its precedence, which is twice the octets of the pattern, and one more if the rule allows,
or 0 where the first rule wins; its mark, negative; and its value.
"""

KnownRule: TypeAlias = tuple[int, str, Pattern]
"""A rule's mark, its bare value, and its pattern."""

LITERAL = re.compile(rf"/[{NORMAL_CLASS}]*").fullmatch
"""Whether a value is a pattern that is the beginning of a target as it stands."""

# Normal characters that are taken as one by the expression that finds rules: to compile it
# for each of them would take as long as it saves at a dozen hosts.
_ALIKE = {character: NORMAL[n % 8 :: 8] for n, character in enumerate(NORMAL)}

# What a target must have in it, if a value is to match it that has more than a head.
_FIRST_PART = re.compile(rf"\**([{NORMAL_CLASS}]*)").match

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


def can_scan(target: str) -> bool:
    """Whether *target* is short, and has no ``%2F``, which some rules take for a ``/``."""
    return len(target) <= paths.SHORT and "%2F" not in target


class RuleScan:
    """The rules that one crawler follows, looked for in the text of its groups.

    An expression goes through the text once and stops only at rules that may match the
    target. This keeps nothing, so it is for a single question: on the files of real sites
    it takes half the time of making a :class:`RuleLines` and trying each rule.

    Targets are those of :func:`can_scan`.
    """

    __slots__ = ("_dialect", "_groups")

    def __init__(self, groups: Sequence[GroupText], dialect: Dialect) -> None:
        self._groups = groups
        self._dialect = dialect

    def allows(self, target: str) -> bool:
        """Whether *target* is allowed."""
        if self._dialect.index_html_quirk:
            winner = self.winner(target)
            return winner is None or bool(winner[1] & 1)
        found = self._find(target)
        return found is None or bool(found[1][1] & 1)

    def winner(self, target: str) -> Candidate | None:
        """The rule that decides on *target*, or None if none matches."""
        found = self._find(target)
        best = None
        if found is not None:
            (text, line), (precedence, mark, value) = found
            rules = _rules_near(_ALIKE.get(target[1:2], "")).finditer(text)
            rule = next(islice(rules, mark >> 1, None))
            line += text.count("\n", 0, rule.end())
            best = precedence, -(2 * line + (mark & 1)), value
        if self._dialect.index_html_quirk:
            return max(filter(None, (best, self._best_directory(target))), default=None)
        return best

    def _find(self, target: str) -> tuple[GroupText, Candidate] | None:
        """The rule that decides, and its group. Its mark, which is positive, has its number
        among the rules that may match instead of that of its line.
        """
        rules_near = _rules_near(_ALIKE.get(target[1:2], "")).findall
        found = None
        for group in self._groups:
            best = self._best_of(rules_near(group[0]), target)
            # Among equals the first rule wins.
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
                # Lines that say the same are looked at once.
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

    def _best_directory(self, target: str) -> Candidate | None:
        """The best of the rules that allow *target* because it is a directory."""
        dialect = self._dialect
        if not any("index.htm" in text or "%" in text for text, _ in self._groups):
            return None
        rules = directories_of(RuleLines.of_groups(self._groups), dialect)
        found = [
            candidate(mark, value, pattern.octets, dialect)
            for mark, value, pattern in rules
            if paths.matches(pattern, target)
        ]
        return max(found, default=None)


@cache
def _rules_near(characters: str) -> re.Pattern[str]:
    """An expression for the rule lines whose values may match a target, going by the
    character behind its first slash, which is one of *characters* or not normal.

    Of each it finds whether it disallows, what the target must begin with, and the rest of
    the value.
    """
    others = re.escape("".join(sorted(set(NORMAL) - set(characters))))
    return re.compile(
        rf"\n{WS}(?:([dD])(?i:isallow)|[aA](?i:llow)){WS}:{WS}"
        rf"(?:(/(?![{others}])[{NORMAL_CLASS}]*)|(?![/{WHITE_SPACE}]))([^#\n]*)"
    )
