"""Judges URLs, and shows the evidence of each verdict."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.commands.shared.lists import (
    asked_argument,
    by_origins,
    line_batches,
    opened,
)
from scrapy_rep.commands.shared.output import (
    BLUE,
    BOLD,
    GREEN,
    RED,
    YELLOW,
    Output,
    Painted,
    complain,
)
from scrapy_rep.commands.shared.paces import refusals
from scrapy_rep.commands.shared.readings import (
    decision_record,
    describe_access,
    reading_record,
)
from scrapy_rep.commands.shared.running import CLEAN, FOUND, WRONG_USAGE
from scrapy_rep.commands.shared.sources import Sources, ask, given_robotstxt
from scrapy_rep.commands.shared.terms import Terms, terms_of
from scrapy_rep.commands.shared.uses import (
    is_denied,
    robotstxt_usage,
    show_usage,
    usage_record,
)
from scrapy_rep.protocol.dialect import DIALECTS
from scrapy_rep.protocol.robotstxt.decisions import Decision, Reason
from scrapy_rep.protocol.visible import columns, visible

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Sequence

    from scrapy.settings import Settings

    from scrapy_rep.commands.shared.lists import AskedUrl
    from scrapy_rep.commands.shared.readings import Reading
    from scrapy_rep.commands.shared.sources import Given
    from scrapy_rep.protocol.robotstxt.rules import Rule
    from scrapy_rep.protocol.usage.preferences import UsagePreferences

# Characters of a line of a robots.txt that are shown.
_SHOWN_OF_LINE = 120

# Sitemaps that are shown to people.
_SITEMAPS_SHOWN = 5

_REASONS = {
    Reason.NO_RULE: "no rule of the group matches",
    Reason.NO_GROUP: "no group is for this agent, nor for everyone",
    Reason.ROBOTS_TXT: "it is robots.txt itself",
    Reason.UNAVAILABLE: "robots.txt is unavailable",
    Reason.UNREACHABLE: "robots.txt is unreachable",
    Reason.OVERRIDE: "the settings say so",
    Reason.BAD_URL: "the host or port can't be read",
    Reason.TOO_LONG: "it is too long for all the rules with a *",
}


def check(arguments: Namespace, settings: Settings) -> int:
    terms = terms_of(arguments, settings)
    dialects = [terms.dialect]
    if arguments.dialects:
        dialects += [each for each in DIALECTS.values() if each != terms.dialect]
    if "-" in arguments.urls and (len(arguments.urls) > 1 or arguments.robots == "-"):
        raise UsageError("- stands for all of standard input, and can be given once")
    given: Given = {}
    if arguments.robots is not None:
        given[None] = given_robotstxt(arguments.robots, dialects)
    if terms.note:
        complain(terms.note)
    with ExitStack() as stack:
        batches: Iterable[list[tuple[int, str]]]
        if arguments.urls == ["-"]:
            batches = line_batches(stack.enter_context(opened("-")))
        else:
            batches = [[(0, asked_argument(url).url) for url in arguments.urls]]
        checking = Checking(terms, Output.of(arguments), brief=arguments.brief)
        return ask(
            terms, dialects, given, lambda sources: checking.run(sources, batches)
        )


class Checking:
    """Shows a verdict for each URL, as they come."""

    def __init__(self, terms: Terms, output: Output, *, brief: bool) -> None:
        self._terms = terms
        self._output = output
        self._brief = brief
        self._status = CLEAN

    async def run(
        self, sources: Sources, batches: Iterable[list[tuple[int, str]]]
    ) -> int:
        for batch in batches:
            for part in by_origins(batch):
                origins = {asked.origin for *_, asked in part if asked is not None}
                found = await sources.of(origins)
                for number, text, asked in part:
                    if asked is None:
                        self._status = WRONG_USAGE
                        complain(
                            f"line {number}: {text[:200]!r} is no URL of http, https or ftp"
                        )
                    else:
                        self._show(asked, found[asked.origin])
            self._output.flush()
        return self._status

    def _show(self, asked: AskedUrl, readings: Sequence[Reading]) -> None:
        decisions = [self._terms.decide(each.robots, asked.url) for each in readings]
        usage = robotstxt_usage(readings[0].robots, asked.url, self._terms)
        if not decisions[0].allowed or is_denied(usage, self._terms):
            self._status = max(self._status, FOUND)
        if self._output.as_json:
            self._output.record(self._record(asked, readings, decisions))
        elif self._brief:
            self._show_brief(asked, readings, decisions)
        else:
            self._show_all(asked, readings, decisions, usage)

    def _record(
        self,
        asked: AskedUrl,
        readings: Sequence[Reading],
        decisions: Sequence[Decision],
    ) -> dict[str, Any]:
        reading, decision = readings[0], decisions[0]
        record = {
            "url": asked.url,
            "agents": list(self._terms.agents),
            "dialect": reading.dialect.name,
            **decision_record(decision),
        }
        if not self._brief:
            record["group"] = list(reading.group(decision.line))
            lines = reading.context(decision.line) if decision.line else []
            record["context"] = [
                {"line": line.number, "text": line.text[:1000]} for line in lines
            ]
            record |= reading_record(reading, self._terms.agents)
            usage = robotstxt_usage(reading.robots, asked.url, self._terms)
            record["usage"] = usage_record(usage, self._terms)
        if len(readings) > 1:
            record["dialects"] = {
                each.dialect.name: decision_record(each_decision)
                for each, each_decision in zip(readings, decisions, strict=True)
            }
            record["agree"] = agree(decisions)
        return record

    def _show_brief(
        self,
        asked: AskedUrl,
        readings: Sequence[Reading],
        decisions: Sequence[Decision],
    ) -> None:
        """A line with the verdict, those of the other dialects behind it."""
        word, colour = verdict(decisions[0])
        cells: list[str | Painted] = [Painted(word.strip(), colour), asked.url]
        cells.append(why(decisions[0]))
        for each, decision in zip(readings[1:], decisions[1:], strict=True):
            word, colour = verdict(decision)
            cells.append(Painted(f"{each.dialect.name}: {word.strip()}", colour))
            cells.append(why(decision))
        self._output.row(*cells)

    def _show_all(
        self,
        asked: AskedUrl,
        readings: Sequence[Reading],
        decisions: Sequence[Decision],
        usage: UsagePreferences,
    ) -> None:
        reading, decision = readings[0], decisions[0]
        show = self._output.line
        show(verdict(decision), "  ", Painted(asked.url, BOLD))
        show("  ", why(decision), *_for_whom(reading, decision))
        if decision.rule is not None:
            show()
            for parts in excerpt(reading, decision.rule):
                show(*parts)
            show()
        show("  robots.txt: ", reading.where, ", ", describe_access(reading))
        record = reading_record(reading, self._terms.agents)
        if record["crawl_delay"] is not None:
            show("  crawl delay: ", f"{record['crawl_delay']:g} seconds")
        if record["request_rate"]:
            show("  request rate: ", record["request_rate"])
        if record["visit_time"]:
            show("  visit time: ", record["visit_time"], " UTC")
        if decision.allowed:
            pace = reading.robots.pace(self._terms.agents)
            for refusal in refusals(pace, self._terms.rep, datetime.now(timezone.utc)):
                show("  ", Painted(refusal, YELLOW))
        show_usage(self._output, usage, self._terms)
        for sitemap in record["sitemaps"][:_SITEMAPS_SHOWN]:
            show("  sitemap: ", sitemap)
        if len(record["sitemaps"]) > _SITEMAPS_SHOWN:
            show(f"  ... and {len(record['sitemaps']) - _SITEMAPS_SHOWN} sitemaps more")
        if len(readings) > 1:
            self._show_dialects(readings, decisions)
        show()

    def _show_dialects(
        self, readings: Sequence[Reading], decisions: Sequence[Decision]
    ) -> None:
        for each, decision in zip(readings, decisions, strict=True):
            name = f"  {each.dialect.name:<10} "
            self._output.line(name, verdict(decision), "  ", why(decision))
        if agree(decisions):
            self._output.line("  The dialects agree.")
        else:
            self._output.line(Painted("  The dialects disagree.", YELLOW))


def agree(decisions: Sequence[Decision]) -> bool:
    return len({decision.allowed for decision in decisions}) == 1


def verdict(decision: Decision) -> Painted:
    return Painted("allowed", GREEN) if decision.allowed else Painted("denied ", RED)


def why(decision: Decision) -> str:
    """The reason of a decision in words, on one line."""
    rule = decision.rule
    if rule is None:
        words = _REASONS[decision.reason]
    else:
        words = f"line {rule.line}, {rule.kind.capitalize()}: {rule.pattern}".rstrip()
    return f"{words} (as {decision.form})" if decision.form else words


def _for_whom(reading: Reading, decision: Decision) -> list[str]:
    if decision.agent is None:
        return []
    whom = "everyone" if decision.agent == "*" else decision.agent
    parts = [", in the group for ", whom]
    others = [agent for agent in reading.group(decision.line) if agent]
    if len(others) > 1:
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        parts.append(f" (it names {', '.join(others[:5])}{more})")
    return parts


def excerpt(reading: Reading, rule: Rule) -> Iterable[list[str | Painted]]:
    """The lines around a rule, with carets under its pattern."""
    lines = reading.context(rule.line)
    width = len(str(lines[-1].number)) if lines else 1
    for number, text in lines:
        margin = Painted(f"  {number:>{width}} | ", BLUE)
        if number != rule.line:
            yield [margin, shorten(text)]
            continue
        shown, start, end = pointed(text, rule.pattern)
        yield [margin, shown]
        indent = " " * columns(visible(shown[:start]))
        carets = "^" * max(columns(visible(shown[start:end])), 1)
        yield [Painted(f"  {'':>{width}} | ", BLUE), indent, Painted(carets, RED)]


def shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_OF_LINE else text[:_SHOWN_OF_LINE] + "…"


def pointed(text: str, pattern: str) -> tuple[str, int, int]:
    """A line, shortened, and where in it the pattern stands."""
    # The field of a line never has a colon; where a dialect does without one, the
    # pattern follows white space.
    start = text.find(pattern, text.find(":") + 1) if pattern else text.find(":") + 1
    start = max(start, 0)
    if start > _SHOWN_OF_LINE // 2:
        cut = start - _SHOWN_OF_LINE // 4
        text, start = "…" + text[cut:], start - cut + 1
    text = shorten(text)
    return text, start, min(start + len(pattern), len(text))
