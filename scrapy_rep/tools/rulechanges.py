"""The differences between two robots.txt files: rules and records, and paths to try."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from scrapy_rep.protocol.robotstxt.lines import lines
from scrapy_rep.protocol.text import PACE_FIELDS, SITEMAP
from scrapy_rep.protocol.usage.sites import FIELDS as USAGE_FIELDS
from scrapy_rep.protocol.usage.sites import usage_groups
from scrapy_rep.protocol.usage.statements import split_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_rep.protocol.robots import RobotsTxt
    from scrapy_rep.protocol.robotstxt.groups import Group

# The most lines to compare. Only hostile files have more: thousands of agents, each in a
# group of its own and in a shared group with thousands of rules.
_MAX_COMPARED = 500_000

_Followed: TypeAlias = "tuple[tuple[int, int], ...]"
"""The groups that an agent follows: the number of each group, and the number of the run of
user-agent lines there whose delays apply to the agent, or 0."""

_Records: TypeAlias = "dict[tuple[str, str], int]"
"""The field and value of each record, with its line number; 0 if that is not known."""


def rule_changes(old: RobotsTxt, new: RobotsTxt) -> tuple[list[dict[str, Any]], bool]:
    """Return what was added and removed, and whether the list is complete.

    Each entry is for some agents (in lower case, ``*`` is everyone), which all follow the same
    groups; the last one, without agents, has the sitemaps and the records before the first
    group. The order of rules does not count: where a dialect depends on it, verdicts change.
    The list is cut short if the files have too many lines to compare.
    """
    old_groups, new_groups = old.groups, new.groups
    before, after = _followed(old_groups, old), _followed(new_groups, new)
    together: dict[tuple[_Followed, _Followed], list[str]] = {}
    for agent in dict.fromkeys([*before, *after]):
        followed = tuple(before.get(agent, ())), tuple(after.get(agent, ()))
        together.setdefault(followed, []).append(agent)
    changes: list[dict[str, Any]] = []
    compared = 0
    for (old_numbers, new_numbers), agents in together.items():
        was = _records(old_groups, old_numbers)
        now = _records(new_groups, new_numbers)
        compared += len(was) + len(now)
        if compared > _MAX_COMPARED:
            return changes, False
        kind = "changed" if old_numbers and new_numbers else "added"
        change = _change(agents, kind if new_numbers else "removed", was, now)
        if kind != "changed" or change["added"] or change["removed"]:
            changes.append(change)
    change = _change([], "changed", _of_no_group(old), _of_no_group(new))
    if change["added"] or change["removed"]:
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


def _change(
    agents: list[str], kind: str, was: _Records, now: _Records
) -> dict[str, Any]:
    def only(these: _Records, those: _Records) -> list[dict[str, Any]]:
        return [
            {
                "field": field,
                "value": value,
                "line": line,
                "rule": f"{field.capitalize()}: {value}",
            }
            for (field, value), line in these.items()
            if (field, value) not in those
        ]

    added, removed = only(now, was), only(was, now)
    return {"change": kind, "agents": agents, "added": added, "removed": removed}


def _of_no_group(robots: RobotsTxt) -> _Records:
    """Return the sitemaps, and the usage records before the first group."""
    read = [*lines(robots.body, robots.dialect)]
    for_all, _ = usage_groups(read, robots.dialect)
    found = {
        (line.field, line.value.decode("utf-8", "replace")): line.number
        for line in for_all
    }
    return found | {(SITEMAP, url): 0 for url in robots.sitemaps}


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
    """Return for each agent the pairs of numbers that ``_Followed`` describes."""
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


def _records(groups: Sequence[Group], followed: _Followed) -> _Records:
    """Return the records of the groups that an agent follows, each once, in order."""
    found: _Records = {}
    for number, pairs in groupby(followed, key=itemgetter(0)):
        group = groups[number]
        runs = {run for _, run in pairs}
        for rule in group.rules:
            found.setdefault((rule.kind, rule.pattern), rule.line)
        for other in group.records:
            if other.field not in PACE_FIELDS or other.run in runs:
                found.setdefault((other.field, other.value), other.line)
    return found
