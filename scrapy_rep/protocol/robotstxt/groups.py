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
    """A line of a group that is not a rule (RFC 9309, 2.2.4, "other records")."""

    field: str
    """In lower case."""

    value: str
    line: int

    run: int = 0
    """The first line number of the run of user-agent lines directly above it. A delay, rate
    or window applies only to the agents of that run."""


class Group(NamedTuple):
    """One or more user-agent lines, and the rules and records that follow them."""

    agents: tuple[str, ...]
    """The tokens of its user-agent lines, in lower case; an empty one names none."""

    rules: tuple[Rule, ...]
    """In file order, empty ones included."""

    records: tuple[Record, ...]

    lines: tuple[int, ...]
    """The numbers of its user-agent lines, one for each of the agents."""

    runs: tuple[int, ...]
    """For each of the agents, the first line number of the run of user-agent lines that names
    it. Blank lines, comments and sitemaps do not end a run. Other records do, but do not end
    the group."""


Groups: TypeAlias = tuple[tuple[Group, ...], list[Line]]


def parse_groups(body: bytes, dialect: Dialect) -> Groups:
    """Return the groups of a robots.txt, and its sitemap lines, which belong to no group."""
    return groups_of(lines(body, dialect), dialect)


def groups_of(
    lines: Iterable[Line], dialect: Dialect, rule_fields: Collection[str] = RULES
) -> Groups:
    """Return the groups and sitemap lines among *lines*. *rule_fields* are the fields of rules."""
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
                # Even an empty rule ends the run of user-agent lines. Rules before any
                # user-agent line are in no group (RFC 2.2.2).
                rules.append(Rule(field, text, number))
            elif agents:
                records.append(Record(field, text, number, latest_run))
    close()
    return tuple(groups), sitemaps
