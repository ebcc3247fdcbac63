"""The statements about use in a robots.txt, for one crawler.

Records belong to groups as rules do (RFC 9309, 2.2.1). ``Content-Usage`` is a rule
(draft-ietf-aipref-attach-05, 3), so that it ends a run of user-agent lines, as an allow
line does; ``Content-Signal`` and ``License`` are other records, which end nothing.
"""

from __future__ import annotations

import sys
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.agents import EVERYONE, tokens_for
from scrapy_rep.protocol.grammar import RULES
from scrapy_rep.protocol.robotstxt.groups import groups_of
from scrapy_rep.protocol.robotstxt.lines import decoded_text, lines
from scrapy_rep.protocol.usage.pathindex import PathIndex
from scrapy_rep.protocol.usage.preferences import NOTHING_STATED, UsagePreferences
from scrapy_rep.protocol.usage.statements import (
    Occurrence,
    UsageStatement,
    limited,
    read_expression,
    split_path,
)
from scrapy_rep.protocol.usage.vocabulary import Signal, Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robotstxt.lines import Line
    from scrapy_rep.protocol.usage.statements import Expression

_SIGNALS = {
    "content-usage": Signal.CONTENT_USAGE,
    "content-signal": Signal.CONTENT_SIGNAL,
    "license": Signal.LICENSE,
}
FIELDS = frozenset(_SIGNALS)
"""The fields of records about use, in lower case."""

_NAMES = tuple(field.encode() for field in FIELDS)
_RULES = frozenset({*RULES, "content-usage"})

# The bytes of records that are read for one crawler. Reading a dictionary takes a thousand
# times as long as reading a rule, and no site has so many.
_MAX_READ = 50_000
# The bytes that it takes in memory besides its records.
_WEIGHT = 2_000


def may_state_usage(body: bytes, dialect: Dialect) -> bool:
    """Whether a robots.txt may have records about use. For most files, this search is all."""
    if b"\0" in body:  # It may be UTF-16.
        body = decoded_text(body, dialect)
    lowered = body.lower()
    return any(name in lowered for name in _NAMES)


class UsageRecords:
    """The records about use of a robots.txt that one crawler follows."""

    __slots__ = ("_indexes", "_licenses", "weight")

    def __init__(
        self, body: bytes, agents: str | tuple[str, ...], dialect: Dialect
    ) -> None:
        tokens = (agents,) if isinstance(agents, str) else agents
        for_all, groups = usage_groups(lines(body, dialect), dialect)
        agent, ours = _followed(groups, tokens, dialect)
        ours = _first_of(ours)
        for_all = _first_of(for_all)
        # In the order of their lines: records for all crawlers stand before any group.
        parts = ((None, for_all), (agent, ours))
        self._indexes = [
            index
            for whose, records in parts
            for signal in (Signal.CONTENT_USAGE, Signal.CONTENT_SIGNAL)
            if (index := _index(records, signal, whose, dialect)) is not None
        ]
        licenses = [line for line in ours if line.field == "license"]
        whose = agent
        if not licenses:
            # A licence in a group overrides those of the file (RSL 1.0, 4.4.3).
            licenses = [line for line in for_all if line.field == "license"]
            whose = None
        self._licenses = limited(
            statement
            for line in licenses
            for statement in statements_of(line, whose)
            if "://" in statement.label  # An absolute URI (RSL 1.0, 4.4.1).
        )
        self.weight = _WEIGHT + sum(index.weight for index in self._indexes)
        """The bytes that it takes, about."""

    def of_target(self, target: str) -> UsagePreferences:
        """The preferences for a URL with that target, which may be fetched."""
        found = [
            statement
            for index in self._indexes
            for statement in index.statements_for(target)
        ]
        found += self._licenses
        return UsagePreferences(limited(found)) if found else NOTHING_STATED


class UsageGroups(NamedTuple):
    """The records about use of a whole robots.txt."""

    for_all: list[Line]
    """The records before any group, which are for all crawlers."""

    groups: list[tuple[tuple[str, ...], list[Line]]]
    """The names of each group, and its records."""


def usage_groups(read: Iterable[Line], dialect: Dialect) -> UsageGroups:
    """The records about use among the lines of a robots.txt."""
    read = list(read)
    groups, _ = groups_of(read, dialect, _RULES)
    records = {line.number: line for line in read if line.field in FIELDS}
    by_group = []
    for group in groups:
        numbers = sorted(
            [rule.line for rule in group.rules]
            + [record.line for record in group.records]
        )
        ours = [records[number] for number in numbers if number in records]
        by_group.append((group.agents, ours))
    first = groups[0].lines[0] if groups else sys.maxsize
    for_all = [
        line
        for line in records.values()
        if line.number < first and line.field not in _RULES
    ]
    return UsageGroups(for_all, by_group)


def _followed(
    groups: list[tuple[tuple[str, ...], list[Line]]],
    agents: tuple[str, ...],
    dialect: Dialect,
) -> tuple[str | None, list[Line]]:
    """The first of *agents* that has a group, or ``*``, and its records."""
    tokens = {token for names, _ in groups for token in names}
    for agent in (*agents, EVERYONE):
        named = tokens_for(agent.lower(), tokens, dialect)
        if named:
            found = [each for names, each in groups if not named.isdisjoint(names)]
            if not dialect.merge_groups:
                del found[1:]
            return agent, list(chain.from_iterable(found))
    return None, []


def _first_of(records: list[Line]) -> list[Line]:
    """The first records, up to the limit."""
    sizes = accumulate(len(line.value) for line in records)
    return [
        line for line, size in zip(records, sizes, strict=True) if size <= _MAX_READ
    ]


def _index(
    records: list[Line], signal: Signal, agent: str | None, dialect: Dialect
) -> PathIndex | None:
    # A record without a known label still counts for its path, in the place of others.
    found = [
        (split_path(line.value)[0], tuple(statements_of(line, agent)))
        for line in records
        if _SIGNALS[line.field] is signal
    ]
    return PathIndex(found, dialect) if found else None


def statements_of(line: Line, agent: str | None) -> Iterable[UsageStatement]:
    """The statements of a record that is for *agent*; None for everyone."""
    signal = _SIGNALS[line.field]
    written = line.value.decode("utf-8", "replace")
    occurrence = Occurrence(
        Source.ROBOTS_TXT, signal, agent, line.number, f"{signal}: {written}"
    )
    if signal is Signal.LICENSE:
        return occurrence.statements(written, None)
    pairs = expression_of(line)[1].pairs
    return [
        each for label, value in pairs for each in occurrence.statements(label, value)
    ]


def expression_of(line: Line) -> tuple[Signal, Expression]:
    """The expression of a record, without its path."""
    signal = _SIGNALS[line.field]
    return signal, read_expression(signal, split_path(line.value)[1])
