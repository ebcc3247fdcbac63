"""Finds the best of the patterns with a ``*`` that share a head."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.robotstxt.rulescan import Candidate, candidate

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robotstxt.limits import Comparisons

LazyRule: TypeAlias = tuple[int, str, "paths.Pattern | None"]
"""A rule's mark, its value, and its pattern if it is already parsed."""

# It matches no target: all begin with "/".
_NOTHING = paths.Pattern(("*",), anchored=False, octets=0)

_Test: TypeAlias = tuple[Candidate, "paths.Pattern | None", "int | None"]
"""A candidate; its pattern if it is already parsed; and, for a pattern with only a head and a
needle, the first position where the needle can begin."""


class Wildcards:
    """The patterns with one head.

    The *needle* of a pattern is its longest literal part after the head. A search for the
    needle rules out most patterns. A pattern is parsed when a target first has its needle.
    """

    __slots__ = ("_dialect", "_needles", "_rules", "_tests")

    def __init__(self, rules: list[LazyRule], dialect: Dialect) -> None:
        self._rules = rules
        self._dialect = dialect
        self._needles: tuple[str, ...] = ()
        self._tests: list[_Test] = []

    @property
    def needles(self) -> tuple[str, ...]:
        """The needles of the patterns, in order of precedence."""
        return self._needles or self._prepare()

    @property
    def rules(self) -> list[Candidate]:
        """The rules, in the order of their needles."""
        return [rule for rule, _, _ in self._tests] if self.needles else []

    def best(self, target: str) -> Candidate | None:
        """Return the best pattern that matches *target*, or None.

        The target must begin with the head, be short, and have no ``%``.
        """
        needles = self._needles or self._prepare()
        for needle in needles:
            if needle in target:
                break
        else:
            return None  # as for most targets
        for place, needle in enumerate(needles):
            if needle in target:
                rule, _, start = self._tests[place]
                if start is None:
                    if paths.matches(self.pattern(place), target):
                        return rule
                elif target.find(needle, start) >= 0:
                    return rule
        return None

    def best_for(self, comparisons: Comparisons) -> Candidate | None:
        """Return the best pattern that matches a target that begins with the head, or None.

        Raises :class:`~scrapy_rep.protocol.robotstxt.limits.TooLong` over the limits.
        """
        target = comparisons.target
        for place, needle in enumerate(self.needles):
            # An encoded slash may stand where a needle has a raw one.
            is_possible = needle in target or (
                comparisons.has_encoded_slash and "/" in needle
            )
            if is_possible and comparisons.matches(self.pattern(place)):
                return self._tests[place][0]
        return None

    def pattern(self, place: int) -> paths.Pattern:
        """Return the pattern of the needle at an index."""
        rule, pattern, start = self._tests[place]
        if pattern is None:
            pattern = paths.pattern(rule[2], self._dialect) or _NOTHING
            self._tests[place] = rule, pattern, start
        return pattern

    def _prepare(self) -> tuple[str, ...]:
        found: list[tuple[_Test, str]] = []
        for mark, value, known in self._rules:
            pattern = known
            if pattern is None and paths.PLAIN_PATTERN(value):
                # It needs no normalization.
                octets, anchored = len(value), value.endswith("$")
                parts = value.removesuffix("$").split("*")
            else:
                pattern = pattern or paths.pattern(value, self._dialect) or _NOTHING
                octets, anchored = pattern.octets, pattern.anchored
                parts = list(pattern.segments)
            start = len(parts[0]) if len(parts) == 2 and not anchored else None
            rule = candidate(mark, value, octets, self._dialect)
            needle = max(parts[1:], key=len, default="")
            found.append(((rule, pattern, start), needle))
        # The pattern that wins over all others comes first.
        found.sort(key=lambda test: test[0][0], reverse=True)
        self._tests = [test for test, _ in found]
        self._needles = tuple([needle for _, needle in found])
        self._rules = []
        return self._needles
