"""Finds URLs on which the dialects decide differently, and the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scrapy_rep.protocol.agents import EVERYONE, agents_of_line
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309
from scrapy_rep.protocol.lint.findings import quoted
from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.robotstxt.accessrules import AccessRules
from scrapy_rep.protocol.robotstxt.lines import lines

if TYPE_CHECKING:
    from typing import TypeVar

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.lint.findings import LintedFile

    _T = TypeVar("_T")

# The limits of a comparison: the bytes of a file that are read, and the rules and names that
# are taken from them, evenly spread.
_MAX_BYTES = 65_536
_MAX_RULES = 48
_MAX_AGENTS = 8
_MAX_PATH = 1000
_MAX_PATH_SHOWN = 60

# The fields of a dialect that can be the reason of a difference, the most useful ones
# first. Each has a text that follows "the dialects differ in", and a remedy.
_REASONS = {
    "misspelt_fields": (
        "which misspelt fields they accept", "spell all fields correctly",
    ),
    "blank_line_ends_group": (
        "whether a blank line ends a group",
        "write no blank line in a group, and one before each group",
    ),
    "leading_slash_assumed": (
        "how they read a pattern without a leading /",
        "begin each pattern with /",
    ),
    "wildcards": (
        "whether * and $ are special",
        "write the beginning of a path, without * and $, where that is enough",
    ),
    "path_encoding": (
        "how they compare percent-encoding",
        "write patterns as they stand in URLs, with percent-encoding in upper case",
    ),
    "index_html_quirk": (
        "whether a rule that allows index.html also allows its directory",
        "add a rule for the directory, with $ at the end",
    ),
    "comma_separated_agents": (
        "whether commas separate names",
        "write a user-agent line for each name",
    ),
    "utf_16": (
        "whether they decode UTF-16", "save the file as UTF-8",
    ),
    "nul_ends_line": (
        "whether a null byte ends a line", "delete the null bytes",
    ),
    "agent_match": (
        "which crawlers a user-agent line names",
        "use product tokens of letters, - and _ only, none the beginning of another",
    ),
    "merge_groups": (
        "whether they merge groups with the same name",
        "write one group for each name",
    ),
    "empty_disallow": (
        "what an empty Disallow means", "delete it if the group has other rules",
    ),
    "rule_choice": (
        "whether the longest or the first matching rule wins",
        "put longer patterns before shorter ones",
    ),
}  # fmt: skip
_SEVERAL = ("several points", "see the other findings")

_ORIGIN = "https://example.com"


def compare_dialects(file: LintedFile) -> None:
    """Compare the file's dialect with each other one, on paths made from the patterns."""
    body, dialect = file.body, file.dialect
    if len(body) > _MAX_BYTES:
        body = body[: body.rfind(b"\n", 0, _MAX_BYTES) + 1]
    examples, agents = _paths_and_agents(body, dialect)
    for other in DIALECTS.values():
        if replace(other, name=dialect.name) != dialect:
            _Comparison(body, dialect, other).report(examples, agents, file)


def _paths_and_agents(
    body: bytes, dialect: Dialect
) -> tuple[list[tuple[str, int]], list[str]]:
    """The paths to compare, each with the line of its rule, and the agents to compare for.

    A rule gives the path that its pattern matches, with ``x`` for each ``*``. Rules in
    misspelt fields count too.
    """
    line_of: dict[str, int] = {}
    agents = {EVERYONE: None}
    for number, field, value in lines(body, replace(dialect, misspelt_fields=True)):
        if field == "user-agent":
            for reading in DIALECTS.values():
                for name in agents_of_line(value, reading):
                    agents[name or EVERYONE] = None
        elif field in {"allow", "disallow"} and 0 < len(value) < _MAX_PATH:
            # RFC 9309's normalization gives the form in which Scrapy writes URLs.
            pattern = paths.pattern(value.decode("latin-1"), RFC9309)
            if pattern is not None:
                path = "x".join(pattern.segments)
                path = path if path.startswith("/") else "/" + path
                line_of.setdefault(path, number)
                directory, _, page = path.rpartition("/")
                if page.startswith("index.htm"):
                    path = directory + "/"
                    line_of.setdefault(path, number)
    # The dialects differ on this URL by design.
    line_of.pop("/robots.txt", None)
    examples = _spread(list(line_of.items()), _MAX_RULES)
    return examples, _spread(list(agents), _MAX_AGENTS)


def _spread(items: list[_T], at_most: int) -> list[_T]:
    """The first of the *items* and others at even distances, at most *at_most* in all."""
    return items[:: -(-len(items) // at_most)] if items else items


class _Comparison:
    """One file read in two dialects, and in mixtures of both."""

    def __init__(self, body: bytes, ours: Dialect, theirs: Dialect) -> None:
        self._ours = AccessRules.parse(body, ours)
        self._theirs = AccessRules.parse(body, theirs)
        self._mixtures: list[tuple[str, AccessRules, AccessRules]] = []
        """For each field that differs: its name, the file read in one dialect but with the
        other dialect's value of this field, and the file read in the other dialect."""
        for one, other, read in (
            (ours, theirs, self._theirs), (theirs, ours, self._ours),
        ):  # fmt: skip
            for name in _REASONS:
                value = getattr(other, name)
                if value != getattr(one, name):
                    mixed = AccessRules.parse(body, replace(one, **{name: value}))
                    self._mixtures.append((name, mixed, read))

    def report(
        self, examples: list[tuple[str, int]], agents: list[str], file: LintedFile
    ) -> None:
        reported = set()
        for agent in agents:
            for path, line in examples:
                url = _ORIGIN + path
                ours = self._ours.is_allowed(url, agent)
                if ours is not self._theirs.is_allowed(url, agent):
                    reason = self._reason(url, agent)
                    if reason not in reported:
                        reported.add(reason)
                        message = self._message(reason, path, agent)
                        file.add(line, "dialects-differ", message)

    def _reason(self, url: str, agent: str) -> str:
        """The field that alone explains the difference, or an empty string."""
        for name, mixed, other in self._mixtures:
            if mixed.is_allowed(url, agent) is other.is_allowed(url, agent):
                return name
        return ""

    def _message(self, reason: str, path: str, agent: str) -> str:
        why, remedy = _REASONS.get(reason, _SEVERAL)
        verdicts = []
        for robots in (self._ours, self._theirs):
            decision = robots.decide(_ORIGIN + path, agent)
            verdict = "allowed" if decision.allowed else "forbidden"
            line = f"line {decision.line}" if decision.line else "no rule"
            verdicts.append(f"{verdict} in {robots.dialect.name} ({line})")
        if len(path) > _MAX_PATH_SHOWN:
            path = path[: _MAX_PATH_SHOWN - 3] + "..."
        who = quoted(agent.encode())
        if agent == EVERYONE:
            who = "a crawler without its own group"
        found = f"for {who}, {path} is {' and '.join(verdicts)}"
        return f"{found}, as the dialects differ in {why}: {remedy}"
