"""Finds rules that never decide, because another rule decides wherever they match.

Each pattern has a *witness*: the pattern with a character that occurs in no pattern and no
URL instead of each ``*``, and at the end. Another pattern that matches the witness has a
``*`` or its open end where that character stands, so it matches every URL that the first
pattern matches. The linter looks up each witness in the index that decides for crawlers: a
rule that does not win on its witness never wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.protocol.robotstxt.limits import TooLong
from scrapy_rep.protocol.robotstxt.ruleindex import RuleIndex
from scrapy_rep.protocol.robotstxt.rules import RuleLines
from scrapy_rep.protocol.robotstxt.rulescan import directories_of, rule_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.protocol.lint.findings import LintedFile
    from scrapy_rep.protocol.robotstxt.lines import Line
    from scrapy_rep.protocol.robotstxt.paths import Pattern

# Patterns and URLs have characters up to U+00FF.
_ANYTHING = "\u0100"

# The number of characters of wildcards and witnesses that are compared in one file.
_BUDGET = 150_000_000


def check_rules(file: LintedFile) -> None:
    """Find duplicate rules, and rules that another rule always overrules."""
    lines = {line.number: line for line in file.lines}
    together: dict[object, list[Line]] = {}
    for place, group in enumerate(file.groups):
        # Crawlers merge groups with the same names.
        names = frozenset(group.agents) if file.dialect.merge_groups else place
        rules = together.setdefault(names, [])
        rules += [lines[rule.line] for rule in group.rules]
    budget = _BUDGET
    for rules in together.values():
        if len(rules) > 1:
            budget -= _check_together(rules, file, budget)
    if budget < 0:
        message = "too many patterns, so the linter compared only some: use fewer *"
        file.add(0, "not-compared", message)


def _check_together(rules: list[Line], file: LintedFile, budget: int) -> int:
    """Check rules that the same crawlers follow; return the number of characters compared."""
    dialect = file.dialect
    read, marks = _read(rules, file)
    index = RuleIndex(read, dialect)
    directories: dict[int, list[Pattern]] = {}
    for mark, _, pattern in directories_of(read, dialect):
        directories.setdefault(mark, []).append(pattern)
    wildcards = [value for _, value in marks if "*" in value]
    cost_of_all = sum(map(len, wildcards))
    spent = 0
    for mark, value in marks:
        if spent > budget:
            break
        rule = rule_of(value, mark, dialect)
        if rule is None:
            continue
        winners = {}
        for pattern in (rule[2], *directories.get(mark, ())):
            for witness in _witnesses(pattern):
                spent += cost_of_all + (1 + len(wildcards)) * len(witness)
                try:
                    winner = index.winner(witness)
                except TooLong:
                    return budget + 1
                if winner is not None:
                    winners[-winner[1] >> 1] = -winner[1]
        if mark >> 1 not in winners:
            _report(mark, winners[min(winners)], file)
    return spent


def _read(
    rules: list[Line], file: LintedFile
) -> tuple[RuleLines, list[tuple[int, str]]]:
    """Return the rules in the form for the index, and their marks and values in file order.
    Add a finding for each duplicate.
    """
    read = RuleLines()
    marks = []
    for number, field, octets in rules:
        value = octets.decode("latin-1")
        allows = field == "allow"
        mark = 2 * number + allows
        first = (read.allows if allows else read.disallows).setdefault(value, mark)
        if first == mark:
            marks.append((mark, value))
        elif value:
            message = f"line {first >> 1} has the same rule: delete one of the two"
            file.add(number, "duplicate-rule", message)
    return read, marks


def _witnesses(pattern: Pattern) -> Iterator[str]:
    segments = pattern.segments
    tail = "" if pattern.anchored else _ANYTHING
    witness = _ANYTHING.join(segments) + tail
    if segments[0]:
        yield witness
        return
    # The first "*" matches the "/" with which every target begins, or nothing.
    yield "/" + witness
    if witness.strip(_ANYTHING) and segments[1].startswith("/"):
        yield witness.removeprefix(_ANYTHING)


def _report(mark: int, winner: int, file: LintedFile) -> None:
    line, allows = winner >> 1, winner & 1
    if allows == mark & 1:
        message = f"line {line} decides wherever this rule matches, with the same"
        file.add(mark >> 1, "redundant-rule", f"{message} result: delete this rule")
    else:
        says = "allows" if allows else "forbids"
        message = f"line {line} decides wherever this rule matches, and {says} the URL"
        first = file.dialect.rule_choice == "first"
        remedy = "put this one first" if first else "lengthen this pattern"
        file.add(mark >> 1, "shadowed-rule", f"{message}: delete one, or {remedy}")
