"""Finds rules that never decide, because another rule decides wherever they match.

Each pattern has a *witness*: the pattern with a character that occurs in no pattern and no
URL instead of each ``*``, and at the end. Another pattern that matches the witness has a
``*`` or its open end where that character stands, so it matches every URL that the first
pattern matches. The linter looks up each witness in the index that decides for crawlers: a
rule that does not win on its witness never wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.protocol.robotstxt.rules import TOO_LONG, RuleList, effect_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.protocol.lint.findings import LintedFile
    from scrapy_rep.protocol.robotstxt.lines import Line
    from scrapy_rep.protocol.robotstxt.paths import Pattern
    from scrapy_rep.protocol.robotstxt.rules import Rule

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
    different = _without_duplicates(rules, file)
    list_ = RuleList(
        ((line.number, line.field, line.value.decode("latin-1")) for line in rules),
        file.dialect,
    )
    wildcards = [line.value for line in different if b"*" in line.value]
    cost_of_all = sum(map(len, wildcards))
    spent = 0
    for line in different:
        if spent > budget:
            break
        allows, patterns = effect_of(
            line.value.decode("latin-1"), file.dialect, allows=line.field == "allow"
        )
        winners = {}
        for pattern in patterns:
            for witness in _witnesses(pattern):
                spent += cost_of_all + (1 + len(wildcards)) * len(witness)
                place = list_.winner(witness)
                if place == TOO_LONG:
                    return budget + 1
                found = list_.rule(place)
                if found is not None:
                    winners[found[1].line] = found
        if winners and line.number not in winners:
            _report(line.number, allows, winners[min(winners)], file)
    return spent


def _without_duplicates(rules: list[Line], file: LintedFile) -> list[Line]:
    """Return the rules without repetitions. Add a finding for each of those."""
    firsts: dict[tuple[str, bytes], Line] = {}
    for line in rules:
        first = firsts.setdefault((line.field, line.value), line)
        if first is not line and line.value:
            message = f"line {first.number} has the same rule: delete one of the two"
            file.add(line.number, "duplicate-rule", message)
    return list(firsts.values())


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


def _report(
    number: int, allows: bool, winner: tuple[bool, Rule], file: LintedFile
) -> None:
    winner_allows, rule = winner
    if allows == winner_allows:
        message = f"line {rule.line} decides wherever this rule matches, with the same"
        file.add(number, "redundant-rule", f"{message} result: delete this rule")
    else:
        says = "allows" if winner_allows else "forbids"
        message = f"line {rule.line} decides wherever this rule matches, and {says}"
        first = file.dialect.rule_choice == "first"
        remedy = "put this one first" if first else "lengthen this pattern"
        file.add(number, "shadowed-rule", f"{message} the URL: delete one, or {remedy}")
