"""An index that finds the usage statements for a URL."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.robotstxt.rules import TOO_LONG, RuleList
from scrapy_rep.protocol.usage.statements import limited

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.usage.statements import UsageStatement

    Statements = tuple[UsageStatement, ...]

# The size of a path and its statements in memory, in bytes, measured on 30-octet records.
_PATH_WEIGHT = 2_000


class PathIndex:
    """Finds the statements for a URL among records with paths, with the index for rules.

    For a URL, the record with the longest matching pattern counts, or the first that matches,
    depending on the dialect. A record without a path matches all URLs, and is the shortest.
    If the longest counts, records with equal or equally long patterns count together.
    """

    __slots__ = ("_dialect", "_everywhere", "_groups", "_index", "_octets", "_rivals")

    def __init__(
        self, records: Iterable[tuple[bytes, Statements]], dialect: Dialect
    ) -> None:
        self._dialect = dialect
        groups: list[list[Statements]] = []
        everywhere: list[Statements] = []
        before = 0
        # Patterns with wildcards, by length: several of the same length can match a URL.
        self._rivals: dict[int, list[tuple[paths.Pattern, int]]] = {}
        lines: list[tuple[int, str, str]] = []
        self._octets: list[int] = []
        numbers: dict[object, int] = {}
        for path, record in records:
            if not path:
                before = before if everywhere else len(groups)
                everywhere.append(record)
                continue
            value = path.decode("latin-1")
            pattern = paths.pattern(value, dialect)
            if pattern is None:
                continue
            number = numbers.setdefault(pattern[:2], len(groups))
            if number < len(groups):
                groups[number].append(record)
                continue
            groups.append([record])
            lines.append((number + 1, "disallow", value))
            self._octets.append(pattern.octets)
            if len(pattern.segments) > 1 or pattern.anchored:
                self._rivals.setdefault(pattern.octets, []).append((pattern, number))
        self._groups = list(map(self._combined, groups))
        self._everywhere = (before, self._combined(everywhere)) if everywhere else None
        self._index = RuleList(lines, dialect) if groups else None

    @property
    def weight(self) -> int:
        """The approximate size in memory, in bytes."""
        return _PATH_WEIGHT * (1 + len(self._groups))

    def _combined(self, records: list[Statements]) -> Statements:
        """Return the statements of all records with the same pattern."""
        if self._dialect.rule_choice == "first":
            return records[0]
        return limited(chain.from_iterable(records))

    def statements_for(self, target: str) -> Statements:
        """Return the statements that count for *target*.

        If *target* is too long to compare with all paths, they are all statements that
        disallow a use.
        """
        everywhere = self._everywhere
        place = None if self._index is None else self._index.winner(target)
        if place == TOO_LONG:
            everything = chain(*self._groups, everywhere[1] if everywhere else ())
            return limited(each for each in everything if each.value is False)
        winner = self._index.rule(place) if self._index and place is not None else None
        if winner is None:
            return () if everywhere is None else everywhere[1]
        number = winner[1].line - 1
        if self._dialect.rule_choice == "first":
            # If a record without a path stands before the winner, it is the first match.
            if everywhere is not None and everywhere[0] <= number:
                return everywhere[1]
            return self._groups[number]
        found = self._groups[number]
        for pattern, rival in self._rivals.get(self._octets[number], ()):
            if rival != number and paths.matches(pattern, target):
                found = limited((*found, *self._groups[rival]))
        return found
