"""The statements about use in a robots.txt, for one crawler.

Records belong to groups as rules do (RFC 9309, 2.2.1). ``Content-Usage`` is a rule
(draft-ietf-aipref-attach-05, 3), so that it ends a run of user-agent lines, as an allow
line does; ``Content-Signal`` and ``License`` are other records, which end nothing.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from scrapy_rep.protocol.agents import EVERYONE, agents_of_line, tokens_for
from scrapy_rep.protocol.grammar import RULES, USER_AGENT
from scrapy_rep.protocol.robotstxt.lines import decoded_text, lines
from scrapy_rep.protocol.usage.pathindex import PathIndex
from scrapy_rep.protocol.usage.preferences import SILENCE, UsagePreferences
from scrapy_rep.protocol.usage.statements import (
    UsageStatement,
    Where,
    kept,
    read_signal,
    read_usage,
    split_path,
)
from scrapy_rep.protocol.usage.vocabulary import Signal, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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

_MAX_ASKED = 32

# The bytes of records that are read for one crawler. Reading a dictionary takes a thousand
# times as long as reading a rule, and no site has so many.
_MAX_READ = 50_000
# The bytes that it takes in memory besides its records.
_WEIGHT = 2_000


class UsageRecords:
    """The records about use of a robots.txt, by crawler; false if there are none."""

    __slots__ = ("_asked", "_may_speak")

    def __init__(self, body: bytes, dialect: Dialect) -> None:
        if b"\0" in body:  # It may be UTF-16.
            body = decoded_text(body, dialect)
        lowered = body.lower()
        # For most files, this search is all.
        self._may_speak = any(name in lowered for name in _NAMES)
        self._asked: dict[str | tuple[str, ...], RobotsUsage] = {}

    def __bool__(self) -> bool:
        return self._may_speak

    def of(
        self, body: bytes, agents: str | Sequence[str], dialect: Dialect
    ) -> RobotsUsage:
        """The records for a crawler of these product tokens. *body* is the one given
        before."""
        key = agents if isinstance(agents, str) else tuple(agents)
        found = self._asked.get(key)
        if found is None:
            if len(self._asked) >= _MAX_ASKED:
                self._asked.clear()
            found = self._asked[key] = RobotsUsage(body, key, dialect)
        return found

    @property
    def weight(self) -> int:
        """The bytes that it takes, about."""
        return sum(each.weight for each in self._asked.values())


class RobotsUsage:
    """The records of a robots.txt that one crawler follows."""

    __slots__ = ("_indexes", "_licenses", "weight")

    def __init__(
        self, body: bytes, agents: str | Sequence[str], dialect: Dialect
    ) -> None:
        tokens = (agents,) if isinstance(agents, str) else tuple(agents)
        groups = UsageGroups(lines(body, dialect), dialect)
        agent, ours = groups.followed_by(tokens)
        ours = _first_of(ours)
        for_all = _first_of(groups.for_all)
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
        self._licenses = kept(
            statement
            for line in licenses
            for statement in _statements(line, whose)
            if "://" in statement.label  # An absolute URI (RSL 1.0, 4.4.1).
        )
        self.weight = _WEIGHT + sum(index.weight for index in self._indexes)
        """The bytes that it takes, about."""

    def __bool__(self) -> bool:
        return bool(self._indexes or self._licenses)

    def of_target(self, target: str) -> UsagePreferences:
        """The preferences for a URL with that target, which may be fetched."""
        found = [
            statement for index in self._indexes for statement in index.holding(target)
        ]
        found += self._licenses
        return UsagePreferences(kept(found)) if found else SILENCE


class UsageGroups:
    """The records of each group, by the tokens that it names."""

    def __init__(self, read: Iterable[Line], dialect: Dialect) -> None:
        self.for_all: list[Line] = []
        """The records before any group, which are for all crawlers."""

        self._dialect = dialect
        self.groups: list[tuple[list[str], list[Line]]] = []
        """The names of each group, and its records."""

        is_open = has_rules = False
        for line in read:
            if line.field == USER_AGENT:
                if not is_open or has_rules:
                    self.groups.append(([], []))
                    is_open, has_rules = True, False
                self.groups[-1][0].extend(agents_of_line(line.value, dialect))
            elif not line.field:
                # A blank line, where that ends a group.
                is_open = False
            elif is_open:
                has_rules = has_rules or line.field in _RULES
                if line.field in FIELDS:
                    self.groups[-1][1].append(line)
            elif not self.groups and line.field in FIELDS - _RULES:
                self.for_all.append(line)

    def followed_by(self, agents: Sequence[str]) -> tuple[str | None, list[Line]]:
        """The first of *agents* that has a group, or ``*``, and its records."""
        tokens = {token for names, _ in self.groups for token in names}
        for agent in (*agents, EVERYONE):
            named = tokens_for(agent.lower(), tokens, self._dialect)
            if named:
                found = [
                    records
                    for names, records in self.groups
                    if any(name in named for name in names)
                ]
                if not self._dialect.merge_groups:
                    del found[1:]
                return agent, [line for records in found for line in records]
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
        (split_path(line.value)[0], tuple(_statements(line, agent)))
        for line in records
        if _SIGNALS[line.field] is signal
    ]
    return PathIndex(found, dialect) if found else None


def _statements(line: Line, agent: str | None) -> Iterable[UsageStatement]:
    signal = _SIGNALS[line.field]
    written = line.value.decode("utf-8", "replace")
    where = Where(Source.ROBOTS_TXT, signal, agent, line.number, f"{signal}: {written}")
    if signal is Signal.LICENSE:
        return where.says(written, None)
    pairs = expression_of(line)[1].pairs
    return [each for label, value in pairs for each in where.says(label, value)]


def expression_of(line: Line) -> tuple[Signal, Expression]:
    """The expression of a record, without its path."""
    signal = _SIGNALS[line.field]
    read = read_usage if signal is Signal.CONTENT_USAGE else read_signal
    return signal, read(split_path(line.value)[1])
