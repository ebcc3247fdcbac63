"""Finds the usage statements for a URL among records with a path."""

from __future__ import annotations

from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.usage.statements import limited

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.usage.statements import UsageStatement

    Statements = tuple[UsageStatement, ...]

MAX_COMPARED = 4_000_000
"""How many octets are compared for one target, counted for each pattern that is more than a
prefix: a target of 1 KB with 4,000 patterns, which takes some hundredths of a second."""


class StatementsByPath:
    """The usage statements of records, each with the path that it is about.

    For a URL, the records with the longest matching patterns count together, or only the first
    record that matches, depending on the dialect.
    """

    __slots__ = ("_ranked", "_searched")

    def __init__(
        self, records: Iterable[tuple[bytes, Statements]], dialect: Dialect
    ) -> None:
        self._ranked: list[tuple[int, paths.Pattern, Statements]] = []
        """Rank, pattern and statements of each record; those with the lowest rank that match
        a URL count."""

        for number, (path, statements) in enumerate(records):
            pattern = paths.EVERYTHING
            if path:
                found = paths.pattern(path.decode("latin-1"), dialect)
                if found is None:
                    continue
                pattern = found
            rank = number if dialect.rule_choice == "first" else -pattern.octets
            self._ranked.append((rank, pattern, statements))
        self._ranked.sort(key=itemgetter(0))
        self._searched = sum(
            any(pattern.segments[1:]) or "?" in pattern.segments[0]
            for _, pattern, _ in self._ranked
        )

    def for_target(self, target: str) -> Statements:
        """Return the statements that count for *target*.

        If *target* is too long to compare with all paths, they are all statements that
        disallow a use.
        """
        # What a query has encoded may match raw after any "?": each one is tried, twice.
        is_tried = paths.may_delimit_nothing(target)
        times = 1 + 2 * target.count("?") if is_tried else 1
        if len(target) * times * self._searched > MAX_COMPARED:
            everything = chain.from_iterable(each for _, _, each in self._ranked)
            return limited(each for each in everything if each.value is False)
        for _, equals in groupby(self._ranked, key=itemgetter(0)):
            found = [
                each for _, pattern, each in equals if paths.matches(pattern, target)
            ]
            if found:
                return limited(chain.from_iterable(found))
        return ()
