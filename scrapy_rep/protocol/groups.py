"""Groups of a robots.txt: who is meant, and what is said to them (RFC 9309, 2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from scrapy_rep.protocol.agents import agent_of_line
from scrapy_rep.protocol.lines import Line, lines
from scrapy_rep.protocol.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.protocol.dialect import Dialect


class Record(NamedTuple):
    """A line of a group that is no rule (RFC 9309, 2.2.4, "other records")."""

    field: str
    """In lower case."""

    value: str
    line: int


class Group(NamedTuple):
    """One or more user-agent lines, and what follows them.

    However many agents share it, it is there once.
    """

    agents: tuple[str, ...]
    """The tokens of its user-agent lines, in lower case; empty ones name nobody."""

    rules: tuple[Rule, ...]
    """In file order, empty ones included."""

    records: tuple[Record, ...]

    lines: tuple[int, ...]
    """The numbers of its user-agent lines, one for each of the agents."""


Groups: TypeAlias = tuple[tuple[Group, ...], list[Line]]


def parse_groups(body: bytes, dialect: Dialect) -> Groups:
    """The groups of a robots.txt, and its sitemap lines, which belong to no group."""
    return groups_of(lines(body, dialect), dialect)


def groups_of(lines: Iterable[Line], dialect: Dialect) -> Groups:
    """The same, of lines that have been read."""
    groups: list[Group] = []
    sitemaps: list[Line] = []
    agents: list[tuple[str, int]] = []
    rules: list[Rule] = []
    records: list[Record] = []

    def close() -> None:
        if agents:
            names, numbers = zip(*agents, strict=True)
            groups.append(Group(names, tuple(rules), tuple(records), numbers))
        agents.clear()
        rules.clear()
        records.clear()

    for line in lines:
        number, field, value = line
        if field == "user-agent":
            if rules:
                close()
            agents.append((agent_of_line(value, dialect), number))
        elif field in {"allow", "disallow"}:
            # An empty one closes the run of user-agent lines as well. Rules that stand
            # before any user-agent line are in no group (RFC 2.2.2).
            if agents:
                pattern = value.decode("utf-8", "replace")
                allows = field == "allow"
                rules.append(Rule("allow" if allows else "disallow", pattern, number))
        elif field == "sitemap":
            sitemaps.append(line)
        elif not field:
            close()
        elif agents:
            records.append(Record(field, value.decode("utf-8", "replace"), number))
    close()
    return tuple(groups), sitemaps
