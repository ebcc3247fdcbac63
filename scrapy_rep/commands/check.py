"""``scrapy rep check``: whether URLs may be fetched, and by which rule."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeAlias

from scrapy.exceptions import UsageError

from scrapy_rep.commands.shared.exit_status import CLEAN, FOUND, WRONG_USAGE
from scrapy_rep.commands.shared.output import Output, Painted, notify
from scrapy_rep.commands.shared.profile import Profile, profile_of
from scrapy_rep.commands.shared.robotstxt import (
    decision_record,
    describe_access,
    loaded_record,
)
from scrapy_rep.commands.shared.sources import Sources, ask, given_robotstxt
from scrapy_rep.commands.shared.urls import by_origins, line_batches, parse_argument
from scrapy_rep.commands.shared.usage import (
    is_denied,
    robotstxt_usage,
    show_usage,
    usage_record,
)
from scrapy_rep.commands.shared.verdicts import decide_at, in_seconds, verdict, why
from scrapy_rep.protocol.dialect import DIALECTS
from scrapy_rep.protocol.display import columns, visible

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy.settings import Settings

    from scrapy_rep.commands.shared.robotstxt import LoadedRobotsTxt
    from scrapy_rep.commands.shared.sources import Given
    from scrapy_rep.protocol.robotstxt.decisions import Decision
    from scrapy_rep.protocol.robotstxt.rules import Rule
    from scrapy_rep.protocol.usage.preferences import UsagePreferences

# Limits of the text output: sitemaps, and characters of a line of robots.txt.
_SITEMAPS_SHOWN = 5
_SHOWN_OF_LINE = 120

_Judged: TypeAlias = "list[tuple[LoadedRobotsTxt, Decision, str]]"
"""The decision of each dialect on one URL, and the text of ``decide_at``; the dialect of the
crawl comes first."""


def run(arguments: Namespace, settings: Settings) -> int:
    profile = profile_of(arguments, settings)
    dialects = [profile.dialect]
    if arguments.dialects:
        dialects += [each for each in DIALECTS.values() if each != profile.dialect]
    if "-" in arguments.urls and (len(arguments.urls) > 1 or arguments.robots == "-"):
        raise UsageError("- reads all of standard input: give it once, as the only URL")
    given: Given = {}
    if arguments.robots is not None:
        given[None] = given_robotstxt(arguments.robots, dialects)
    for note in profile.notes:
        notify(note)
    checker = Checker(profile, Output(arguments), brief=arguments.brief)
    batches: Iterable[list[tuple[int, str]]]
    is_list = arguments.urls == ["-"]
    if is_list:
        batches = line_batches(sys.stdin.buffer)
    else:
        batches = [list(checker.arguments(arguments.urls))]
        if batches == [[]]:
            return WRONG_USAGE
    status = ask(
        profile, dialects, given, lambda sources: checker.run(sources, batches)
    )
    if is_list:
        checker.sum_up()
    return status


class Checker:
    """Shows the verdict on each URL as soon as it is known."""

    def __init__(self, profile: Profile, output: Output, *, brief: bool) -> None:
        self._profile = profile
        self._output = output
        self._brief = brief
        self._status = CLEAN
        self._counts: Counter[str] = Counter()

    def arguments(self, texts: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Yield the arguments that are URLs; report the others on standard error."""
        for text in texts:
            try:
                yield 0, parse_argument(text).url
            except UsageError as error:
                self._status = WRONG_USAGE
                notify(str(error))

    async def run(
        self, sources: Sources, batches: Iterable[list[tuple[int, str]]]
    ) -> int:
        for batch in batches:
            for part in by_origins(batch):
                origins = {parsed.origin for *_, parsed in part if parsed is not None}
                found = await sources.of(origins)
                for number, text, parsed in part:
                    if parsed is None:
                        self._counts["bad"] += 1
                        self._status = WRONG_USAGE
                        notify(
                            f"line {number}: {text[:200]!r} is not a URL of http, https or ftp"
                        )
                    else:
                        self._show(parsed.url, found[parsed.origin])
            self._output.flush()
        return self._status

    def sum_up(self) -> None:
        """Report how many URLs of a list are allowed and denied."""
        counts = self._counts
        words = f"{counts['allowed']:,} allowed, {counts['denied']:,} denied"
        if counts["use denied"]:
            words += (
                f"; {counts['use denied']:,} of the allowed may not be used for a "
                "purpose of the crawl"
            )
        if counts["bad"]:
            words += f"; lines that are not URLs: {counts['bad']:,}"
        total = counts["allowed"] + counts["denied"]
        notify(f"{total:,} {'URL' if total == 1 else 'URLs'}: {words}")

    def _show(self, url: str, by_dialect: Sequence[LoadedRobotsTxt]) -> None:
        now = datetime.now(timezone.utc)
        judged = [
            (each, *decide_at(now, self._profile, each.robots, url))
            for each in by_dialect
        ]
        loaded, decision, _ = judged[0]
        usage = robotstxt_usage(loaded.robots, url, self._profile)
        is_use_denied = is_denied(usage, self._profile)
        if not decision.allowed or is_use_denied:
            self._status = max(self._status, FOUND)
        self._counts["allowed" if decision.allowed else "denied"] += 1
        self._counts["use denied"] += decision.allowed and is_use_denied
        if self._output.as_json:
            self._output.record(self._record(url, judged, usage))
        elif self._brief:
            self._show_brief(url, judged)
        else:
            self._show_all(url, judged, usage)

    def _record(
        self, url: str, judged: _Judged, usage: UsagePreferences
    ) -> dict[str, Any]:
        loaded, decision, _ = judged[0]
        record = {
            "url": url,
            **self._profile.record,
            "dialect": loaded.dialect.name,
            **decision_record(decision),
        }
        if not self._brief:
            record["group"] = list(loaded.group(decision.line))
            lines = loaded.lines_around(decision.line) if decision.line else []
            record["context"] = [
                {"line": number, "text": text[:1000]} for number, text in lines
            ]
            record |= loaded_record(loaded, self._profile.agents)
            record["usage"] = usage_record(usage, self._profile)
        if len(judged) > 1:
            record["dialects"] = {
                each.dialect.name: decision_record(decided)
                for each, decided, _ in judged
            }
            record["agree"] = _agree(judged)
        return record

    def _show_brief(self, url: str, judged: _Judged) -> None:
        """Show one line: the verdict, then the verdicts of the other dialects."""
        (_, decision, more), *others = judged
        word, style = verdict(decision)
        cells: list[str | Painted]
        cells = [Painted(word.strip(), style), url, why(decision, more)]
        for each, decided, more in others:
            word, style = verdict(decided)
            cells.append(Painted(f"{each.dialect.name}: {word.strip()}", style))
            cells.append(why(decided, more))
        self._output.row(*cells)

    def _show_all(self, url: str, judged: _Judged, usage: UsagePreferences) -> None:
        loaded, decision, more = judged[0]
        show = self._output.line
        show(verdict(decision), "  ", Painted(url, "bold"))
        show("  ", why(decision), *_for_whom(loaded, decision))
        if more:
            show("  ", Painted(more, "yellow"))
        if decision.rule is not None:
            show()
            for parts in _excerpt(loaded, decision.rule):
                show(*parts)
            show()
        show("  robots.txt: ", loaded.where, ", ", describe_access(loaded))
        record = loaded_record(loaded, self._profile.agents)
        if record["crawl_delay"] is not None:
            show("  crawl delay: ", in_seconds(record["crawl_delay"]))
        if record["request_rate"]:
            show("  request rate: ", record["request_rate"])
        if record["visit_time"]:
            show("  visit time: ", record["visit_time"], " UTC")
        show_usage(self._output, usage, self._profile)
        for sitemap in record["sitemaps"][:_SITEMAPS_SHOWN]:
            show("  sitemap: ", sitemap)
        left = len(record["sitemaps"]) - _SITEMAPS_SHOWN
        if left > 0:
            show(f"  and {left} more {'sitemap' if left == 1 else 'sitemaps'}")
        if len(judged) > 1:
            self._show_dialects(judged)
        show()

    def _show_dialects(self, judged: _Judged) -> None:
        for each, decision, more in judged:
            name = f"  {each.dialect.name:<10} "
            self._output.line(name, verdict(decision), "  ", why(decision, more))
        if _agree(judged):
            self._output.line("  The dialects agree.")
        else:
            self._output.line(Painted("  The dialects disagree.", "yellow"))


def _agree(judged: _Judged) -> bool:
    return len({decision.allowed for _, decision, _ in judged}) == 1


def _for_whom(loaded: LoadedRobotsTxt, decision: Decision) -> list[str]:
    if decision.agent is None:
        return []
    whom = "everyone" if decision.agent == "*" else decision.agent
    parts = [", in the group for ", whom]
    others = [agent for agent in loaded.group(decision.line) if agent]
    if len(others) > 1:
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        parts.append(f" (it names {', '.join(others[:5])}{more})")
    return parts


def _excerpt(loaded: LoadedRobotsTxt, rule: Rule) -> Iterator[list[str | Painted]]:
    """Yield the lines around a rule, with carets under its pattern."""
    lines = loaded.lines_around(rule.line)
    width = len(str(lines[-1][0])) if lines else 1
    for number, text in lines:
        margin = Painted(f"  {number:>{width}} | ", "blue")
        if number != rule.line:
            yield [margin, _shortened(text)]
            continue
        shown, start, end = _pointed(text, rule.pattern)
        yield [margin, shown]
        indent = " " * columns(visible(shown[:start]))
        carets = "^" * max(columns(visible(shown[start:end])), 1)
        yield [Painted(f"  {'':>{width}} | ", "blue"), indent, Painted(carets, "red")]


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_OF_LINE else text[:_SHOWN_OF_LINE] + "…"


def _pointed(text: str, pattern: str) -> tuple[str, int, int]:
    """Return a line, shortened, and the start and end of the pattern in it."""
    # A field name has no colon. A dialect may accept white space instead of the colon.
    start = text.find(pattern, text.find(":") + 1) if pattern else text.find(":") + 1
    start = max(start, 0)
    if start > _SHOWN_OF_LINE // 2:
        cut = start - _SHOWN_OF_LINE // 4
        text, start = "…" + text[cut:], start - cut + 1
    text = _shortened(text)
    return text, start, min(start + len(pattern), len(text))
