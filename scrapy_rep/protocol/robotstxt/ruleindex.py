"""The index that finds which of a crawler's rules decides."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING

from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.robotstxt.limits import Comparisons, TooLong
from scrapy_rep.protocol.robotstxt.rules import bare
from scrapy_rep.protocol.robotstxt.rulescan import (
    LITERAL,
    candidate,
    directories_of,
    rule_of,
)
from scrapy_rep.protocol.robotstxt.wildcardindex import WildcardIndex
from scrapy_rep.protocol.robotstxt.wildcards import Wildcards

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robotstxt.rules import RuleLines
    from scrapy_rep.protocol.robotstxt.rulescan import Candidate
    from scrapy_rep.protocol.robotstxt.wildcards import LazyRule

# The prefix of every target.
_ROOT = "/"

# The size of a rule in memory, in bytes, by its shape: measured on rules of 10 to 30 octets.
_LITERAL_WEIGHT, _EXACT_WEIGHT, _WILDCARD_WEIGHT = 100, 250, 600

# With more patterns with a * than the first limit, trying them one by one takes too long for
# a long target; with more than the second, for any target.
_MANY_WILDCARDS = 200
_TOO_MANY_WILDCARDS = 1_000

_HEAD_OF_WILDCARD = re.compile(rf"((?:/[{paths.NORMAL_CLASS}]*)?)\*").match


class RuleIndex:
    """Finds the rule that decides on a target. More rules hardly make this slower.

    The head of a pattern is its literal part, up to the first ``*``. The parent of a head is
    the longest other head that it begins with. A binary search finds the place of the target
    among the sorted heads. The head before that place, or one of its parents, is the longest
    that the target begins with. Patterns with a ``*`` are compared only if the target begins
    with their head.
    """

    __slots__ = (
        "_dialect", "_exact", "_first_wins", "_heads", "_marks", "_needs_slow_path",
        "_parents", "_wildcard_index", "_wildcards", "_written", "weight",
    )  # fmt: skip

    def __init__(self, lines: RuleLines, dialect: Dialect) -> None:
        shapes = _Shapes(lines, dialect)
        self._dialect = dialect
        self._first_wins = dialect.rule_choice == "first"
        self._heads = heads = sorted(shapes.literals)
        marks = list(map(shapes.literals.__getitem__, heads))
        parents = _parents(heads)
        if self._first_wins:
            _inherit(heads, marks, parents, shapes.written)
        self._marks = _compact(marks)
        self._parents = _compact(parents)
        self._exact = shapes.exact or None
        self._wildcards = {
            bisect_right(heads, head) - 1: Wildcards(found, dialect)
            for head, found in shapes.wildcards.items()
        } or None
        self._written = shapes.written or None
        wildcards = sum(map(len, shapes.wildcards.values()))
        self._wildcard_index: WildcardIndex | None = None
        self._needs_slow_path = bool(shapes.exact) or wildcards > _TOO_MANY_WILDCARDS

        self.weight = (
            len(heads) * _LITERAL_WEIGHT
            + len(shapes.exact) * _EXACT_WEIGHT
            + wildcards * _WILDCARD_WEIGHT
        )
        """The approximate size in memory, in bytes."""

    def allows(self, target: str) -> bool:
        """Whether *target* is allowed. One that is too long to compare is not allowed."""
        try:
            winner = self.winner(target)
        except TooLong:
            return False
        return winner is None or winner[1] & 1 == 1

    def allows_normal(self, target: str) -> bool:
        """Whether the target of a :data:`~scrapy_rep.protocol.robotstxt.paths.NORMAL_URL`
        is allowed.

        A crawl calls this for each request, so it is one long function with few calls.
        """
        if self._needs_slow_path:
            return self.allows(target)
        heads, parents, marks = self._heads, self._parents, self._marks
        place = bisect_right(heads, target) - 1
        while place and not target.startswith(heads[place]):
            place = parents[place]
        wildcards = self._wildcards
        if wildcards is None:
            mark = marks[place]
            return not mark or mark & 1 == 1
        best = None
        at = place
        while True:
            if at in wildcards:
                rule = wildcards[at].best(target)
                if rule is not None and (best is None or rule > best):
                    best = rule
            if not at:
                break
            at = parents[at]
        while place and not marks[place]:  # the head of patterns with a *
            place = parents[place]
        mark = marks[place]
        if best is not None:
            precedence = 0 if self._first_wins else 2 * len(heads[place]) + (mark & 1)
            if not mark or best > (precedence, -mark):
                mark = best[1]
        return not mark or mark & 1 == 1

    def winner(self, target: str) -> Candidate | None:
        """Return the rule that decides on *target*, or None if none matches.

        Raises :class:`~scrapy_rep.protocol.robotstxt.limits.TooLong` over the limits.
        """
        heads, parents, marks = self._heads, self._parents, self._marks
        whole = target
        if "%2F" in target:
            target = paths.with_slashes(target, self._dialect)
        place = bisect_right(heads, target) - 1
        while not target.startswith(heads[place]):
            place = parents[place]
        best = None
        if self._wildcards:
            best = self._best_wildcard(whole, place)
        if self._exact and target in self._exact:
            exact = self._exact[target]
            best = exact if best is None else max(best, exact)
        while place and not marks[place]:  # the head of patterns with a *
            place = parents[place]
        mark = marks[place]
        if mark:
            head = heads[place]
            precedence = 0 if self._first_wins else 2 * len(head) + (mark & 1)
            if best is None or best < (precedence, -mark):
                value = self._written.get(mark, head) if self._written else head
                return precedence, -mark, value
        return best

    def _best_wildcard(self, target: str, place: int) -> Candidate | None:
        """Return the best matching rule with a ``*``, or None. *place* is the index of the
        longest head that *target* begins with.
        """
        found = {}
        wildcards, parents = self._wildcards or {}, self._parents
        while True:
            if place in wildcards:
                found[place] = wildcards[place]
            if not place:
                break
            place = parents[place]
        if not found:
            return None
        comparisons = Comparisons(target)
        if sum(len(group.needles) for group in found.values()) <= _MANY_WILDCARDS:
            rules = [group.best_for(comparisons) for group in found.values()]
            return max(filter(None, rules), default=None)
        if self._wildcard_index is None:
            self._wildcard_index = WildcardIndex(wildcards)
        return self._wildcard_index.best(comparisons, found)


class _Shapes:
    """Sorts rules by the shape of their patterns."""

    def __init__(self, lines: RuleLines, dialect: Dialect) -> None:
        self._dialect = dialect

        self.literals = {_ROOT: 0}
        """Heads, each with the mark of the rule whose whole pattern it is; 0 for none."""

        self.written: dict[int, str] = {}
        """The values of literal patterns that differ from their normalized form, by mark."""

        self.exact: dict[str, Candidate] = {}
        """Patterns that match only one target, by that target."""

        self.wildcards: dict[str, list[LazyRule]] = {}
        """Patterns with a ``*``, by their heads."""

        self._add_all(lines.disallows)
        self._add_all(lines.allows)
        for rule in directories_of(lines, dialect):
            self._add_parsed(*rule)
        for head in self.wildcards:
            self.literals.setdefault(head, 0)

    def _add_all(self, values: dict[str, int]) -> None:
        """Add the values of disallow lines, or, in a second call, of allow lines."""
        others = [value for value in values if not LITERAL(value)]
        literals = values
        if others:
            literals = values.copy()
            for value in others:
                del literals[value]
        if self._dialect.rule_choice == "first":
            for value, mark in literals.items():
                self._add_literal(value, mark)
        else:
            # Of two equal patterns, the one that allows wins: it comes second.
            self.literals.update(literals)
        for value in others:
            self._add(value, values[value])

    def _add(self, value: str, mark: int) -> None:
        head = _HEAD_OF_WILDCARD(value)
        if head and self._dialect.wildcards:
            # The pattern is parsed when a target begins with this head.
            rules = self.wildcards.setdefault(head[1] or _ROOT, [])
            rules.append((mark, bare(value), None))
            return
        rule = rule_of(value, mark, self._dialect)
        if rule is not None:
            self._add_parsed(*rule)

    def _add_parsed(self, mark: int, value: str, pattern: paths.Pattern) -> None:
        head = pattern.segments[0]
        is_counted = len(head) + pattern.anchored == pattern.octets
        if len(pattern.segments) > 1 or not head or not is_counted:
            rules = self.wildcards.setdefault(head or _ROOT, [])
            rules.append((mark, value, pattern))
        elif pattern.anchored:
            exact = candidate(mark, value, pattern.octets, self._dialect)
            self.exact[head] = max(self.exact.get(head, exact), exact)
        else:
            self._add_literal(head, mark)
            if value != head:
                self.written[mark] = value

    def _add_literal(self, head: str, mark: int) -> None:
        before = self.literals.get(head)
        if not before or self._rank(mark) > self._rank(before):
            self.literals[head] = mark

    def _rank(self, mark: int) -> Candidate:
        return candidate(mark, "", 0, self._dialect)


def _parents(heads: list[str]) -> list[int]:
    """Return the index of the parent of each head: the longest other head it begins with.

    In sorted order, the heads that begin with a head follow it immediately. All heads begin
    with the first one.
    """
    parents = [0] * len(heads)
    parent = 0
    nested = map(str.startswith, islice(heads, 2, None), islice(heads, 1, None))
    for place, begins_with_the_one_before in enumerate(nested, 2):
        if begins_with_the_one_before:
            parents[place] = parent = place - 1
        elif parent:
            while parent and not heads[place].startswith(heads[parent]):
                parent = parents[parent]
            parents[place] = parent
    return parents


def _inherit(
    heads: list[str], marks: list[int], parents: list[int], written: dict[int, str]
) -> None:
    """Give each literal that begins with the literal of an earlier rule the mark of that rule.

    In a dialect where the first rule wins, the earlier rule always decides.
    """
    for place in range(1, len(marks)):
        earlier = marks[parents[place]]
        if earlier and (not marks[place] or earlier < marks[place]):
            written.setdefault(earlier, heads[parents[place]])
            marks[place] = earlier


def _compact(numbers: list[int]) -> Sequence[int]:
    """Return *numbers* in a compact sequence. In most files, each number fits an octet."""
    return bytes(numbers) if max(numbers) < 256 else array("I", numbers)
