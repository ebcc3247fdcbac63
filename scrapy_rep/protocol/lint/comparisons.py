"""Checks that let the rules of a file decide: on shadowed rules, and on differing dialects."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_from_bytes

from scrapy_rep.protocol.agents import EVERYONE, agents_of_line
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309
from scrapy_rep.protocol.grammar import RULES, USER_AGENT
from scrapy_rep.protocol.lint.findings import quoted
from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.robotstxt.accessrules import AccessRules
from scrapy_rep.protocol.robotstxt.lines import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.lint.findings import File

    Found = tuple[Any, ...]

# A rule is shadowed if the opposite is decided wherever it matches. In a *witness* of a pattern,
# a character that stands in no pattern of the group replaces each "*", and follows an open
# end. A pattern that matches the witness has a "*" or its open end at these places, so it
# matches every URL that the first one matches: what decides on the witness decides on them all.

_WITNESSES = "~!,;:@()_-ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ"
ORIGIN = "https://example.com"
_ASCII = bytes(range(128))

# The number of characters of wildcards and witnesses that are compared in one file.
_MAX_COMPARED = 50_000_000


def shadowed_rules(file: File) -> Iterator[Found]:
    """Yield the rules that never decide: line, deciding line, its verdict, and a remedy."""
    dialect, left = file.dialect, _MAX_COMPARED
    meant = "put this one first"
    if dialect.rule_choice != "first":
        meant = "lengthen this pattern"
    for rules in _rules_together(file):
        text = b"\n".join([b"User-agent:*", *[b"%s:%s" % rule[:2] for rule in rules]])
        whole = replace(dialect, size_limit=len(text), line_limit=None)
        robots = AccessRules.parse(text, whole)
        patterns = [paths.pattern(rule[1].decode("latin-1"), dialect) for rule in rules]
        used = set().union(
            *[part for each in patterns if each for part in each.segments]
        )
        free = next((char for char in _WITNESSES if char not in used), None)
        wildcards = [value for _, value, _ in rules if b"*" in value]
        cost = sum(map(len, wildcards))
        for (field, value, number), pattern in zip(rules, patterns, strict=True):
            left -= cost + (1 + len(wildcards)) * len(value)
            if free is None or left < 0:
                break
            urls = _witnesses(value, field == b"allow", free, dialect)
            target = paths.target(urls[0], dialect)
            if pattern is None or not paths.matches(pattern, target):
                continue
            [(allowed, rule), *others] = {
                robots.decide(url, EVERYONE)[:2] for url in urls
            }
            allows = field == b"allow" or not value
            if rule and not others and allowed is not allows:
                winner = rules[rule.line - 2][2]
                yield number, winner, "allows" if allowed else "forbids", meant


def _rules_together(file: File) -> Iterator[list[tuple[bytes, bytes, int]]]:
    """Yield the different rules that the same crawlers follow, if some allow and some forbid:
    field, value and line.
    """
    values = {line.number: line.value for line in file.lines_of(*RULES)}
    allow_all = file.dialect.empty_disallow == "allow-all"
    together: dict[object, dict[tuple[bytes, bytes], int]] = {}
    for place, group in enumerate(file.groups):
        # Crawlers merge groups with the same names.
        names = frozenset(group.agents) if file.dialect.merge_groups else place
        rules = together.setdefault(names, {})
        for kind, _, line in group.rules:
            if values[line] or (allow_all and kind == "disallow"):
                rules.setdefault((kind.encode(), values[line]), line)
    for rules in together.values():
        if len({kind == b"allow" or not value for kind, value in rules}) > 1:
            yield [(*rule, line) for rule, line in rules.items()]


def _witnesses(value: bytes, allows: bool, free: str, dialect: Dialect) -> list[str]:
    """Return URLs for which the rule must decide on one, or else decides on none."""
    path = quote_from_bytes(value, safe=_ASCII)
    if dialect.wildcards:
        path = path[:-1] if path.endswith("$") else path + "*"
        path = path.replace("*", free)
    else:
        path += free
    found = [path if path.startswith("/") else "/" + path]
    before, mark, query = found[0].partition("?")
    if value.startswith(b"*") and path.lstrip(free).startswith("/"):
        found.append(path.lstrip(free))  # The first "*" may match nothing.
    if "/" in query and dialect.path_encoding == "rfc3986":
        found.append(before + mark + query.replace("/", "%2F"))
    directory, _, page = found[0].rpartition("/")
    if allows and page.startswith("index.htm") and dialect.index_html_quirk:
        found.append(directory + "/")
    return [ORIGIN + each for each in found]


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
        both = [AccessRules.parse(body, each) for each in (ours, theirs)]
        # The file read in one dialect, but for one point, and in the other dialect.
        mixtures = [
            (name, AccessRules.parse(body, replace(one, **{name: value})), read)
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


def _verdict(robots: AccessRules, url: str, agent: str) -> str:
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
