"""Patterns with a ``*``, arranged so that few of them need to be tried."""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from scrapy_rep.protocol import paths
from scrapy_rep.protocol.scan import Candidate, candidate

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect

Unlevelled: TypeAlias = tuple[int, str, "paths.Pattern | None"]
"""A rule's mark, its value, and its pattern if that is known yet."""

_REGULAR = re.compile(rf"[/*][{paths.NORMAL_CLASS}*]*\$?").fullmatch
_NOTHING = paths.Pattern(("*",), anchored=False, octets=0)

_Test: TypeAlias = tuple[int, int, str, str, "paths.Pattern | None"]
"""A candidate, its needle, and its pattern if that is known yet."""


class Wildcards:
    """The patterns that have one head.

    Each has a needle: one of the parts that a target must have in it. Most patterns do
    not match most targets, and a search for the needle is enough to say so; the pattern
    itself is worked out when its needle is found for the first time.
    """

    __slots__ = ("_dialect", "_rules", "_tests")

    def __init__(self, rules: list[Unlevelled], dialect: Dialect) -> None:
        self._rules = rules
        self._dialect = dialect
        self._tests: list[_Test] = []

    def best(self, target: str, best: Candidate | None) -> Candidate | None:
        """The best of *best* and of the patterns that match *target*, which begins with
        their head.
        """
        tests = self._tests or self._prepare()
        for place, (precedence, minus_mark, value, needle, known) in enumerate(tests):
            if best is not None and (precedence, minus_mark) < best:
                break
            if needle in target or "%2F" in target:
                pattern = known or paths.pattern(value, self._dialect) or _NOTHING
                if known is None:
                    tests[place] = precedence, minus_mark, value, needle, pattern
                if paths.matches(pattern, target):
                    return precedence, minus_mark, value
        return best

    def _prepare(self) -> list[_Test]:
        tests = self._tests
        for mark, value, known in self._rules:
            pattern = known
            if pattern is None and _REGULAR(value):
                # Nothing in it is to be levelled.
                octets, parts = len(value), value.removesuffix("$").split("*")
            else:
                pattern = pattern or paths.pattern(value, self._dialect) or _NOTHING
                octets, parts = pattern.octets, list(pattern.segments)
            needle = max(parts[1:], key=len, default="")
            rule = candidate(mark, value, octets, self._dialect)
            tests.append((*rule, needle, pattern))
        # Those that win come first.
        tests.sort(key=itemgetter(0, 1), reverse=True)
        self._rules = []
        return tests
