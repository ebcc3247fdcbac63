"""Judges URLs, and shows the evidence of each verdict."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.commands.check.excerpt import excerpt
from scrapy_rep.commands.shared.exit_status import CLEAN, FOUND, WRONG_USAGE
from scrapy_rep.commands.shared.output import BOLD, YELLOW, Output, Painted, complain
from scrapy_rep.commands.shared.politeness import in_seconds, refusals
from scrapy_rep.commands.shared.profile import Profile, profile_of
from scrapy_rep.commands.shared.robotstxt import (
    decision_record,
    describe_access,
    loaded_record,
)
from scrapy_rep.commands.shared.sources import Sources, ask, given_robotstxt
from scrapy_rep.commands.shared.urls import (
    asked_argument,
    by_origins,
    line_batches,
    opened,
)
from scrapy_rep.commands.shared.usage import (
    is_denied,
    robotstxt_usage,
    show_usage,
    usage_record,
)
from scrapy_rep.commands.shared.verdicts import verdict, why
from scrapy_rep.protocol.dialect import DIALECTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy.settings import Settings

    from scrapy_rep.commands.shared.robotstxt import LoadedRobotsTxt
    from scrapy_rep.commands.shared.sources import Given
    from scrapy_rep.commands.shared.urls import AskedUrl
    from scrapy_rep.protocol.robotstxt.decisions import Decision
    from scrapy_rep.protocol.usage.preferences import UsagePreferences

# Sitemaps that are shown to people.
_SITEMAPS_SHOWN = 5


def check(arguments: Namespace, settings: Settings) -> int:
    profile = profile_of(arguments, settings)
    dialects = [profile.dialect]
    if arguments.dialects:
        dialects += [each for each in DIALECTS.values() if each != profile.dialect]
    if "-" in arguments.urls and (len(arguments.urls) > 1 or arguments.robots == "-"):
        raise UsageError("- stands for all of standard input, and can be given once")
    given: Given = {}
    if arguments.robots is not None:
        given[None] = given_robotstxt(arguments.robots, dialects)
    if profile.note:
        complain(profile.note)
    checker = Checker(profile, Output.of(arguments), brief=arguments.brief)
    with ExitStack() as stack:
        batches: Iterable[list[tuple[int, str]]]
        if arguments.urls == ["-"]:
            batches = line_batches(stack.enter_context(opened("-")))
        else:
            batches = [list(checker.arguments(arguments.urls))]
            if batches == [[]]:
                return WRONG_USAGE
        status = ask(
            profile, dialects, given, lambda sources: checker.run(sources, batches)
        )
    if arguments.urls == ["-"]:
        checker.sum_up()
    return status


class Checker:
    """Shows a verdict for each URL, as they come."""

    def __init__(self, profile: Profile, output: Output, *, brief: bool) -> None:
        self._profile = profile
        self._output = output
        self._brief = brief
        self._status = CLEAN
        self._counts: Counter[str] = Counter()

    def arguments(self, texts: Iterable[str]) -> Iterator[tuple[int, str]]:
        """The URLs that arguments are. Complains of the others."""
        for text in texts:
            try:
                yield 0, asked_argument(text).url
            except UsageError as error:
                self._status = WRONG_USAGE
                complain(str(error))

    async def run(
        self, sources: Sources, batches: Iterable[list[tuple[int, str]]]
    ) -> int:
        for batch in batches:
            for part in by_origins(batch):
                origins = {asked.origin for *_, asked in part if asked is not None}
                found = await sources.of(origins)
                for number, text, asked in part:
                    if asked is None:
                        self._counts["bad"] += 1
                        self._status = WRONG_USAGE
                        complain(
                            f"line {number}: {text[:200]!r} is not a URL of http, https or ftp"
                        )
                    else:
                        self._show(asked, found[asked.origin])
            self._output.flush()
        return self._status

    def _show(self, asked: AskedUrl, by_dialect: Sequence[LoadedRobotsTxt]) -> None:
        decisions = [
            self._profile.decide(each.robots, asked.url) for each in by_dialect
        ]
        usage = robotstxt_usage(by_dialect[0].robots, asked.url, self._profile)
        is_used_otherwise = is_denied(usage, self._profile)
        if not decisions[0].allowed or is_used_otherwise:
            self._status = max(self._status, FOUND)
        self._counts["allowed" if decisions[0].allowed else "denied"] += 1
        self._counts["used otherwise"] += decisions[0].allowed and is_used_otherwise
        if self._output.as_json:
            self._output.record(self._record(asked, by_dialect, decisions))
        elif self._brief:
            self._show_brief(asked, by_dialect, decisions)
        else:
            self._show_all(asked, by_dialect, decisions, usage)

    def sum_up(self) -> None:
        """Say how many URLs of a list are allowed, and how many are not."""
        counts = self._counts
        words = f"{counts['allowed']:,} allowed, {counts['denied']:,} denied"
        if counts["used otherwise"]:
            words += (
                f"; {counts['used otherwise']:,} of the allowed not for the purposes"
            )
        if counts["bad"]:
            words += f"; lines that are not URLs: {counts['bad']:,}"
        total = counts["allowed"] + counts["denied"]
        complain(f"{total:,} {'URL' if total == 1 else 'URLs'}: {words}")

    def _record(
        self,
        asked: AskedUrl,
        by_dialect: Sequence[LoadedRobotsTxt],
        decisions: Sequence[Decision],
    ) -> dict[str, Any]:
        loaded, decision = by_dialect[0], decisions[0]
        record = {
            "url": asked.url,
            "agents": list(self._profile.agents),
            "dialect": loaded.dialect.name,
            **decision_record(decision),
        }
        if not self._brief:
            record["group"] = list(loaded.group(decision.line))
            lines = loaded.context(decision.line) if decision.line else []
            record["context"] = [
                {"line": line.number, "text": line.text[:1000]} for line in lines
            ]
            record |= loaded_record(loaded, self._profile.agents)
            usage = robotstxt_usage(loaded.robots, asked.url, self._profile)
            record["usage"] = usage_record(usage, self._profile)
        if len(by_dialect) > 1:
            record["dialects"] = {
                each.dialect.name: decision_record(each_decision)
                for each, each_decision in zip(by_dialect, decisions, strict=True)
            }
            record["agree"] = agree(decisions)
        return record

    def _show_brief(
        self,
        asked: AskedUrl,
        by_dialect: Sequence[LoadedRobotsTxt],
        decisions: Sequence[Decision],
    ) -> None:
        """A line with the verdict, those of the other dialects behind it."""
        word, colour = verdict(decisions[0])
        cells: list[str | Painted] = [Painted(word.strip(), colour), asked.url]
        cells.append(why(decisions[0]))
        for each, decision in zip(by_dialect[1:], decisions[1:], strict=True):
            word, colour = verdict(decision)
            cells.append(Painted(f"{each.dialect.name}: {word.strip()}", colour))
            cells.append(why(decision))
        self._output.row(*cells)

    def _show_all(
        self,
        asked: AskedUrl,
        by_dialect: Sequence[LoadedRobotsTxt],
        decisions: Sequence[Decision],
        usage: UsagePreferences,
    ) -> None:
        loaded, decision = by_dialect[0], decisions[0]
        show = self._output.line
        show(verdict(decision), "  ", Painted(asked.url, BOLD))
        show("  ", why(decision), *_for_whom(loaded, decision))
        if decision.rule is not None:
            show()
            for parts in excerpt(loaded, decision.rule):
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
        if decision.allowed:
            pace = loaded.robots.pace(self._profile.agents)
            for refusal in refusals(
                pace, self._profile.rep, datetime.now(timezone.utc)
            ):
                show("  ", Painted(refusal, YELLOW))
        show_usage(self._output, usage, self._profile)
        for sitemap in record["sitemaps"][:_SITEMAPS_SHOWN]:
            show("  sitemap: ", sitemap)
        if len(record["sitemaps"]) > _SITEMAPS_SHOWN:
            more = len(record["sitemaps"]) - _SITEMAPS_SHOWN
            show(f"  and {more} more {'sitemap' if more == 1 else 'sitemaps'}")
        if len(by_dialect) > 1:
            self._show_dialects(by_dialect, decisions)
        show()

    def _show_dialects(
        self, by_dialect: Sequence[LoadedRobotsTxt], decisions: Sequence[Decision]
    ) -> None:
        for each, decision in zip(by_dialect, decisions, strict=True):
            name = f"  {each.dialect.name:<10} "
            self._output.line(name, verdict(decision), "  ", why(decision))
        if agree(decisions):
            self._output.line("  The dialects agree.")
        else:
            self._output.line(Painted("  The dialects disagree.", YELLOW))


def agree(decisions: Sequence[Decision]) -> bool:
    return len({decision.allowed for decision in decisions}) == 1


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
