"""A robots.txt that was loaded from a file, the settings or the web."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.access.results import AccessResult, renew, robots_of
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.decisions import Decision, Reason
from scrapy_rep.protocol.robotstxt.lines import decoded_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.protocol.access.overrides import Override
    from scrapy_rep.protocol.dialect import Dialect


class LoadedRobotsTxt:
    """A robots.txt, parsed in one dialect, with its source and its lines."""

    def __init__(
        self,
        robots: RobotsTxt,
        where: str,
        result: AccessResult | None = None,
        *,
        is_override: bool = False,
    ) -> None:
        self.robots = robots
        self.where = where
        """Its URL, the name of its file, or the setting."""

        self.result = result
        """The result of the fetch, if it was fetched."""

        self.is_override = is_override
        """Whether it comes from REP_OVERRIDES."""

    @classmethod
    def of_result(cls, result: AccessResult, dialect: Dialect) -> LoadedRobotsTxt:
        entry = renew(result, None, dialect=dialect, now=time.time())
        return cls(robots_of(entry, dialect), result.url, result)

    @classmethod
    def of_override(cls, override: Override, dialect: Dialect) -> LoadedRobotsTxt:
        if override.robots is None:
            robots = RobotsTxt.blanket(
                allowed=True, reason=Reason.OVERRIDE, dialect=dialect
            )
        else:
            robots = RobotsTxt.parse(override.robots.body, dialect)
        where = f"REP_OVERRIDES[{override.pattern!r}]"
        return cls(robots, where, is_override=True)

    @property
    def dialect(self) -> Dialect:
        return self.robots.dialect

    def lines_around(self, line: int) -> list[tuple[int, str]]:
        """Return a line, with two before and two after it, as numbers and texts."""
        first = max(line - 2, 1)
        return list(enumerate(self._lines[first - 1 : line + 2], first))

    def group(self, line: int) -> tuple[str, ...]:
        """Return the agents to whom the rule or delay on *line* applies."""
        return self._groups.get(line, ())

    @cached_property
    def _lines(self) -> list[str]:
        # Split as the dialect splits lines, so that the line numbers agree.
        read = decoded_text(self.robots.body, self.dialect).decode("utf-8", "replace")
        return read.removesuffix("\n").split("\n")

    @cached_property
    def _groups(self) -> dict[int, tuple[str, ...]]:
        found: dict[int, tuple[str, ...]] = {}
        for group in self.robots.groups:
            found |= dict.fromkeys((rule.line for rule in group.rules), group.agents)
            # A delay belongs to the user-agent lines directly above it.
            runs: dict[int, list[str]] = {}
            for agent, run in zip(group.agents, group.runs, strict=True):
                runs.setdefault(run, []).append(agent)
            for record in group.records:
                found[record.line] = tuple(runs.get(record.run, ()))
        return found


def decision_record(decision: Decision) -> dict[str, Any]:
    """Return a decision as a JSON object."""
    return {
        "allowed": decision.allowed,
        "reason": str(decision.reason),
        "agent": decision.agent,
        "rule": decision.rule and decision.rule._asdict(),
        "form": decision.form or None,
    }


def loaded_record(loaded: LoadedRobotsTxt, agents: Sequence[str]) -> dict[str, Any]:
    """Return the source, the pace and the sitemaps of a robots.txt as a JSON object."""
    rate = loaded.robots.request_rate(agents)
    window = loaded.robots.visit_time(agents)
    return {
        "robotstxt": loaded.where,
        "access": access_record(loaded),
        "crawl_delay": loaded.robots.crawl_delay(agents),
        "request_rate": rate and f"{rate.requests}/{rate.seconds}s",
        "visit_time": window and f"{window.start:%H:%M}-{window.end:%H:%M}",
        "sitemaps": list(loaded.robots.sitemaps),
    }


def access_record(loaded: LoadedRobotsTxt) -> dict[str, Any]:
    """Return the result of loading a robots.txt, as a JSON object."""
    result = loaded.result
    if result is None:
        outcome = "override" if loaded.is_override else "file"
        result = AccessResult(url=loaded.where, status=None)
    else:
        outcome = str(result.access)
    return {
        "outcome": outcome,
        "status": result.status,
        "redirects": list(result.redirects),
        "error": result.error,
        "html": result.is_html,
    }


def describe_access(loaded: LoadedRobotsTxt) -> str:
    """Return the result of loading a robots.txt, in words."""
    result = loaded.result
    if result is None:
        return "set in the settings" if loaded.is_override else "given with --robots"
    words = f"{result.access} ({result})"
    if result.redirects:
        words += f", redirected to {result.redirects[-1]}"
    if result.is_html:
        words += "; it is an HTML page, and lines that look like rules are followed"
    return words
