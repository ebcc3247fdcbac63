"""The differences between two robots.txt files, read in one dialect."""

from __future__ import annotations

from bisect import bisect_left
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from scrapy_rep.protocol.grammar import PACE_FIELDS
from scrapy_rep.protocol.robotstxt.lines import lines
from scrapy_rep.protocol.usage.robotstxt import FIELDS as USAGE_FIELDS
from scrapy_rep.protocol.usage.robotstxt import usage_groups
from scrapy_rep.protocol.usage.statements import split_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_rep.protocol.robots import RobotsTxt
    from scrapy_rep.protocol.robotstxt.groups import Group

# The most lines to compare. Only hostile files have more: thousands of agents, each in a
# group of its own and in a shared group with thousands of rules.
_MAX_COMPARED = 500_000


Followed: TypeAlias = tuple[tuple[int, int], ...]
"""The groups that an agent follows: the number of each group, and the number of the run of
user-agent lines there whose delays apply to the agent, or 0."""


class Record(NamedTuple):
    """A line of a group: a rule, or another record."""

    field: str
    value: str
    line: int


class GroupChange(NamedTuple):
    """What changed for some agents, which all follow the same groups."""

    agents: tuple[str, ...]
    """In lower case; ``*`` is everyone."""

    kind: str
    """Whether a group for them was ``added``, ``removed`` or ``changed``."""

    added: tuple[Record, ...]
    removed: tuple[Record, ...]

    moved: tuple[Record, ...]
    """Rules that are in both files, but in another order, with their new line numbers."""


def group_changes(old: RobotsTxt, new: RobotsTxt) -> tuple[list[GroupChange], bool]:
    """Return the changes in the groups, and whether the list is complete.

    The list is cut short if the files have too many lines to compare.
    """
    old_groups, new_groups = old.groups, new.groups
    before, after = _followed(old_groups, old), _followed(new_groups, new)
    together: dict[tuple[Followed, Followed], list[str]] = {}
    for agent in dict.fromkeys([*before, *after]):
        followed = tuple(before.get(agent, ())), tuple(after.get(agent, ()))
        together.setdefault(followed, []).append(agent)
    changes: list[GroupChange] = []
    compared = 0
    for (old_numbers, new_numbers), agents in together.items():
        was = _records(old_groups, old_numbers)
        now = _records(new_groups, new_numbers)
        compared += len(was) + len(now)
        if compared > _MAX_COMPARED:
            return changes, False
        kind = "added"
        if old_numbers:
            kind = "changed" if new_numbers else "removed"
        change = GroupChange(
            tuple(agents),
            kind,
            added=tuple(record for key, record in now.items() if key not in was),
            removed=tuple(record for key, record in was.items() if key not in now),
            moved=tuple(_moved(was, now)),
        )
        if kind != "changed" or any(change[2:]):
            changes.append(change)
    return changes, True


def sample_paths(*files: RobotsTxt) -> Iterator[str]:
    """Yield two paths for each pattern in robots.txt files, but no path twice."""
    seen = set()
    for robots in files:
        for group in robots.groups:
            for pattern in _patterns(group):
                path = pattern.replace("*", "").rstrip("$")
                path = path if path.startswith("/") else f"/{path}"
                # A pattern with a $ may match only the first of these paths.
                for sample in (path, f"{path}x"):
                    if sample not in seen:
                        seen.add(sample)
                        yield sample


def records_for_all(robots: RobotsTxt) -> set[tuple[str, str]]:
    """Return the field and value of each usage record before the first group."""
    groups = usage_groups(lines(robots.body, robots.dialect), robots.dialect)
    return {
        (line.field, line.value.decode("utf-8", "replace")) for line in groups.for_all
    }


def _patterns(group: Group) -> Iterator[str]:
    for rule in group.rules:
        yield rule.pattern
    for record in group.records:
        if record.field in USAGE_FIELDS:
            # A record without a path applies to all paths.
            path, _ = split_path(record.value.encode("utf-8", "surrogatepass"))
            yield path.decode("utf-8", "replace") or "/"


def _followed(
    groups: Sequence[Group], robots: RobotsTxt
) -> dict[str, list[tuple[int, int]]]:
    """Return for each agent the pairs of numbers that ``Followed`` describes."""
    found: dict[str, list[tuple[int, int]]] = {}
    for number, group in enumerate(groups):
        slow = {record.run for record in group.records if record.field in PACE_FIELDS}
        for agent, run in dict.fromkeys(zip(group.agents, group.runs, strict=True)):
            followed = found.setdefault(agent, [])
            if robots.dialect.merge_groups or not followed or followed[0][0] == number:
                pair = number, run if run in slow else 0
                if pair not in followed[-1:]:
                    followed.append(pair)
    found.pop("", None)
    return found


def _records(
    groups: Sequence[Group], followed: Followed
) -> dict[tuple[str, str], Record]:
    """Return the records of the groups that an agent follows, each once, in order."""
    found: dict[tuple[str, str], Record] = {}

    def add(field: str, value: str, line: int) -> None:
        found.setdefault((field, value), Record(field, value, line))

    for number, pairs in groupby(followed, key=itemgetter(0)):
        group = groups[number]
        runs = {run for _, run in pairs}
        for rule in group.rules:
            add(rule.kind, rule.pattern, rule.line)
        for other in group.records:
            if other.field not in PACE_FIELDS or other.run in runs:
                add(other.field, other.value, other.line)
    return found


def _moved(
    was: dict[tuple[str, str], Record], now: dict[tuple[str, str], Record]
) -> Iterator[Record]:
    """Yield the fewest rules whose removal leaves the others in their old order."""
    place = {key: number for number, key in enumerate(was)}
    kept = [record for key, record in now.items() if key in place and _is_rule(record)]
    in_order = _longest_rising([place[record[:2]] for record in kept])
    for number, record in enumerate(kept):
        if number not in in_order:
            yield record


def _is_rule(record: Record) -> bool:
    return record.field in {"allow", "disallow"}


def _longest_rising(numbers: list[int]) -> set[int]:
    """Return the indices of a longest rising subsequence of distinct numbers.

    difflib may find a shorter one, and takes quadratic time: 2 s for 5,000 rules that are
    swapped in pairs. This takes a few milliseconds.
    """
    ends: list[int] = []
    """The smallest number that a rising subsequence of each length ends with."""
    at: list[int] = []
    before: list[int] = []
    for index, number in enumerate(numbers):
        length = bisect_left(ends, number)
        before.append(at[length - 1] if length else -1)
        if length == len(ends):
            ends.append(number)
            at.append(index)
        else:
            ends[length], at[length] = number, index
    found = set()
    index = at[-1] if at else -1
    while index >= 0:
        found.add(index)
        index = before[index]
    return found
