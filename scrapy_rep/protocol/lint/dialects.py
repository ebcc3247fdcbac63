"""Finds URLs that dialects decide on differently, and the reason."""

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

# The limits of what is compared: bytes of a file, rules, and names, spread over the file.
_MAX_BYTES = 65_536
_MAX_RULES = 48
_MAX_AGENTS = 8
_MAX_PATH = 1000
_MAX_PATH_SHOWN = 60

# The fields of a dialect that can be the reason, the most useful ones first. Each has a
# description and a remedy.
_REASONS = {
    "misspelt_fields": (
        "they differ in which misspelt fields are read", "spell all fields properly",
    ),
    "blank_line_ends_group": (
        "they differ in whether a blank line ends a group",
        "write no blank line in a group, and one before each",
    ),
    "leading_slash_assumed": (
        "they differ in what a pattern without a leading / is",
        "begin each pattern with /",
    ),
    "wildcards": (
        "they differ in whether * and $ are special",
        "write the beginnings of paths, without * and $, where that can be said",
    ),
    "path_encoding": (
        "they differ in how percent-encoding is compared",
        "write patterns as they are in URLs, %-encoded in upper case",
    ),
    "index_html_quirk": (
        "they differ in whether to allow index.html is to allow its directory",
        "add a rule for the directory, with a $ after it",
    ),
    "comma_separated_agents": (
        "they differ in whether commas separate names",
        "write a user-agent line for each name",
    ),
    "utf_16": (
        "they differ in whether UTF-16 is decoded", "save the file as UTF-8",
    ),
    "nul_ends_line": (
        "they differ in whether a null byte ends a line", "delete null bytes",
    ),
    "agent_match": (
        "they differ in whom a user-agent line names",
        "use product tokens of letters, - and _ alone, none the beginning of another",
    ),
    "merge_groups": (
        "they differ in whether groups of one name are merged",
        "write one group for each name",
    ),
    "empty_disallow": (
        "they differ in what an empty Disallow is", "delete it where it has company",
    ),
    "rule_choice": (
        "they differ in whether the longest or the first rule wins",
        "put longer patterns before shorter ones",
    ),
}  # fmt: skip
_SEVERAL = ("there are several reasons", "see what else is found in this file")

_ORIGIN = "https://example.com"


def compare_dialects(file: LintedFile) -> None:
    """Compare the decisions of all dialects on the paths that the rules are about."""
    body, dialect = file.body, file.dialect
    if len(body) > _MAX_BYTES:
        body = body[: body.rfind(b"\n", 0, _MAX_BYTES) + 1]
    paths_asked, agents = _paths_and_agents(body, dialect)
    for other in DIALECTS.values():
        if replace(other, name=dialect.name) != dialect:
            _Comparison(body, dialect, other).report(paths_asked, agents, file)


def _paths_and_agents(
    body: bytes, dialect: Dialect
) -> tuple[list[tuple[str, int]], list[str]]:
    """A path for each rule of a file, misspelt fields included, with its line; and the
    agents of the file.
    """
    line_of: dict[str, int] = {}
    agents = {EVERYONE: None}
    for number, field, value in lines(body, replace(dialect, misspelt_fields=True)):
        if field == "user-agent":
            for reading in DIALECTS.values():
                for name in agents_of_line(value, reading):
                    agents[name or EVERYONE] = None
        elif field in {"allow", "disallow"} and 0 < len(value) < _MAX_PATH:
            # In the form in which Scrapy writes URLs, whatever the dialect.
            pattern = paths.pattern(value.decode("latin-1"), RFC9309)
            if pattern is not None:
                path = "x".join(pattern.segments)
                path = path if path.startswith("/") else "/" + path
                line_of.setdefault(path, number)
                directory, _, page = path.rpartition("/")
                if page.startswith("index.htm"):
                    path = directory + "/"
                    line_of.setdefault(path, number)
    # The dialects are known to differ on this URL.
    line_of.pop("/robots.txt", None)
    asked = _spread(list(line_of.items()), _MAX_RULES)
    return asked, _spread(list(agents), _MAX_AGENTS)


def _spread(items: list[_T], at_most: int) -> list[_T]:
    """At most *at_most* of the *items*, spread evenly, beginning with the first."""
    return items[:: -(-len(items) // at_most)] if items else items


class _Comparison:
    """One file read in two dialects, and in mixtures of both."""

    def __init__(self, body: bytes, ours: Dialect, theirs: Dialect) -> None:
        self._ours = AccessRules.parse(body, ours)
        self._theirs = AccessRules.parse(body, theirs)
        self._mixtures: list[tuple[str, AccessRules, AccessRules]] = []
        """For each field that differs: its name, the file read in one dialect with this
        field of the other, and the file read in the other dialect."""
        for one, other, read in (
            (ours, theirs, self._theirs), (theirs, ours, self._ours),
        ):  # fmt: skip
            for name in _REASONS:
                value = getattr(other, name)
                if value != getattr(one, name):
                    mixed = AccessRules.parse(body, replace(one, **{name: value}))
                    self._mixtures.append((name, mixed, read))

    def report(
        self, asked: list[tuple[str, int]], agents: list[str], file: LintedFile
    ) -> None:
        reported = set()
        for agent in agents:
            for path, line in asked:
                url = _ORIGIN + path
                ours = self._ours.is_allowed(url, agent)
                if ours is not self._theirs.is_allowed(url, agent):
                    reason = self._reason(url, agent)
                    if reason not in reported:
                        reported.add(reason)
                        message = self._message(reason, path, agent)
                        file.add(line, "dialects-differ", message)

    def _reason(self, url: str, agent: str) -> str:
        """The one field that explains the difference; empty where no single field does."""
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
        unnamed = agent == EVERYONE
        who = "a crawler that is not named" if unnamed else quoted(agent.encode())
        return f"for {who}, {path} is {' and '.join(verdicts)}: {why}: {remedy}"
