"""The groups of a robots.txt: their agents, rules and other records (RFC 9309, 2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from scrapy_rep.protocol.agents import agents_of_line
from scrapy_rep.protocol.grammar import RULES, SITEMAP, USER_AGENT
from scrapy_rep.protocol.robotstxt.lines import Line, lines
from scrapy_rep.protocol.robotstxt.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from scrapy_rep.protocol.dialect import Dialect


class Record(NamedTuple):
    """A line of a group that is no rule (RFC 9309, 2.2.4, "other records")."""

    field: str
    """In lower case."""

    value: str
    line: int

    run: int = 0
    """The run of user-agent lines directly above it, by the number of its first line. A
    delay, rate or window is for the agents of that run alone."""


class Group(NamedTuple):
    """One or more user-agent lines, and what follows them.

    A group that several agents share is there once.
    """

    agents: tuple[str, ...]
    """The tokens of its user-agent lines, in lower case; an empty one names no agent."""

    rules: tuple[Rule, ...]
    """In file order, empty ones included."""

    records: tuple[Record, ...]

    lines: tuple[int, ...]
    """The numbers of its user-agent lines, one for each of the agents."""

    runs: tuple[int, ...]
    """For each of the agents, the run of user-agent lines that names it: the number of
    the first line. A run goes over blank lines, comments and sitemaps; any other record
    ends it, though not the group."""


Groups: TypeAlias = tuple[tuple[Group, ...], list[Line]]


def parse_groups(body: bytes, dialect: Dialect) -> Groups:
    """The groups of a robots.txt, and its sitemap lines, which belong to no group."""
    return groups_of(lines(body, dialect), dialect)


def groups_of(
    lines: Iterable[Line], dialect: Dialect, rule_fields: Collection[str] = RULES
) -> Groups:
    """The groups and sitemap lines among *lines*; those of *rule_fields* are rules."""
    groups: list[Group] = []
    sitemaps: list[Line] = []
    agents: list[tuple[str, int, int]] = []
    rules: list[Rule] = []
    records: list[Record] = []
    run = latest_run = 0

    def close() -> None:
        if agents:
            names, numbers, runs = zip(*agents, strict=True)
            groups.append(Group(names, tuple(rules), tuple(records), numbers, runs))
        for part in (agents, rules, records):
            part.clear()

    for line in lines:
        number, field, value = line
        if field == SITEMAP:
            sitemaps.append(line)
        elif field == USER_AGENT:
            if rules:
                close()
            run = latest_run = run or number
            agents += [(name, number, run) for name in agents_of_line(value, dialect)]
        else:
            run = 0
            text = value.decode("utf-8", "replace")
            if not field:
                close()
            elif agents and field in rule_fields:
                # An empty rule ends the run of user-agent lines as well. Rules that stand
                # before any user-agent line are in no group (RFC 2.2.2).
                rules.append(Rule(field, text, number))
            elif agents:
                records.append(Record(field, text, number, latest_run))
    close()
    return tuple(groups), sitemaps
