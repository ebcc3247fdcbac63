"""Compares what the rules of a file decide in different dialects."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.agents import EVERYONE, agents_of_line
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309
from scrapy_rep.protocol.grammar import RULES, USER_AGENT
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.robotstxt.lines import lines
from scrapy_rep.tools.findings import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.tools.findings import File

    Found = tuple[Any, ...]

ORIGIN = "https://example.com"

# The limits of a comparison: the bytes of a file that are read, and the rules and names that
# are taken from them, evenly spread.
_MAX_BYTES = 65_536
_MAX_RULES = 48
_MAX_AGENTS = 8
_MAX_PATH = 1000
_MAX_SHOWN = 60

# The fields of a dialect that can be the reason of a difference, the most useful ones first:
# what the dialects differ in, and the remedy.
_DIFFERENCES = {
    "misspelt_fields": ("which misspelt fields they accept",
        "spell all fields correctly"),
    "blank_line_ends_group": ("whether a blank line ends a group",
        "write no blank line in a group, and one before each group"),
    "leading_slash_assumed": ("how they read a pattern without a leading /",
        "begin each pattern with /"),
    "wildcards": ("whether * and $ are special",
        "write the beginning of a path, without * and $, where that is enough"),
    "path_encoding": ("how they compare percent-encoding",
        "write patterns as they stand in URLs, with percent-encoding in upper case"),
    "index_html_quirk": ("whether a rule that allows index.html also allows its directory",
        "add a rule for the directory, with $ at the end"),
    "comma_separated_agents": ("whether commas separate names",
        "write a user-agent line for each name"),
    "utf_16": ("whether they decode UTF-16",
        "save the file as UTF-8"),
    "nul_ends_line": ("whether a null byte ends a line",
        "delete the null bytes"),
    "agent_match": ("which crawlers a user-agent line names",
        "use product tokens of letters, - and _ only, none the beginning of another"),
    "merge_groups": ("whether they merge groups with the same name",
        "write one group for each name"),
    "empty_disallow": ("what an empty Disallow means",
        "delete it if the group has other rules"),
    "rule_choice": ("whether the longest or the first matching rule wins",
        "put longer patterns before shorter ones"),
}  # fmt: skip
_SEVERAL = ("several points", "see the other findings")


def differences(file: File) -> Iterator[Found]:
    """Compare the dialect with each other one, on URLs made from the patterns."""
    body, ours = file.body, file.dialect
    if len(body) > _MAX_BYTES:
        body = body[: body.rfind(b"\n", 0, _MAX_BYTES) + 1]
    examples, agents = _paths_and_agents(body, ours)
    for theirs in DIALECTS.values():
        if replace(theirs, name=ours.name) == ours:
            continue
        both = [RobotsTxt.parse(body, each) for each in (ours, theirs)]
        # The file read in one dialect, but for one point, and in the other dialect.
        mixtures = [
            (name, RobotsTxt.parse(body, replace(one, **{name: value})), read)
            for one, other, read in ((ours, theirs, both[1]), (theirs, ours, both[0]))
            for name in _DIFFERENCES
            if (value := getattr(other, name)) != getattr(one, name)
        ]
        reported: set[str] = set()
        for agent, (path, line) in product(agents, examples):
            url = ORIGIN + path
            if both[0].is_allowed(url, agent) is both[1].is_allowed(url, agent):
                continue
            explains = (
                name
                for name, mixed, read in mixtures
                if mixed.is_allowed(url, agent) is read.is_allowed(url, agent)
            )
            reason = next(explains, "")
            if reason in reported:
                continue
            reported.add(reason)
            who = quoted(agent.encode())
            if agent == EVERYONE:
                who = "a crawler without its own group"
            verdicts = [_verdict(each, url, agent) for each in both]
            shown = path if len(path) <= _MAX_SHOWN else path[: _MAX_SHOWN - 3] + "..."
            yield line, who, shown, *verdicts, *_DIFFERENCES.get(reason, _SEVERAL)


def _verdict(robots: RobotsTxt, url: str, agent: str) -> str:
    decision = robots.decide(url, agent)
    verdict = "allowed" if decision.allowed else "forbidden"
    line = f"line {decision.line}" if decision.line else "no rule"
    return f"{verdict} in {robots.dialect.name} ({line})"


def _paths_and_agents(
    body: bytes, dialect: Dialect
) -> tuple[list[tuple[str, int]], list[str]]:
    """Return the paths to compare, each with the line of its rule, and the agents.

    A rule gives the path that its pattern matches, with ``x`` for each ``*``. Rules in
    misspelt fields count too.
    """
    line_of: dict[str, int] = {}
    agents = {EVERYONE: None}
    for number, field, value in lines(body, replace(dialect, misspelt_fields=True)):
        if field == USER_AGENT:
            for reading in DIALECTS.values():
                for name in agents_of_line(value, reading):
                    agents[name or EVERYONE] = None
        elif field in RULES and 0 < len(value) < _MAX_PATH:
            # RFC 9309's normalization gives the form in which Scrapy writes URLs.
            pattern = paths.pattern(value.decode("latin-1"), RFC9309)
            if pattern is not None:
                path = "x".join(pattern.segments)
                path = path if path.startswith("/") else "/" + path
                line_of.setdefault(path, number)
                directory, _, page = path.rpartition("/")
                if page.startswith("index.htm"):
                    line_of.setdefault(directory + "/", number)
    # The dialects differ on this URL by design.
    line_of.pop("/robots.txt", None)
    examples, names = list(line_of.items()), list(agents)
    every = -(-len(examples) // _MAX_RULES) or 1
    return examples[::every], names[:: -(-len(names) // _MAX_AGENTS)]
