"""Holds past crawls against the robots.txt files of today."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timezone
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_rep.commands.check.checking import why
from scrapy_rep.commands.replay.progress import progress
from scrapy_rep.commands.replay.purgelist import PurgeList
from scrapy_rep.commands.replay.state import State
from scrapy_rep.commands.shared.output import (
    GREEN,
    RED,
    YELLOW,
    Output,
    Painted,
    complain,
)
from scrapy_rep.commands.shared.pastcrawls import PastCrawls, PastDecision, PastFiles
from scrapy_rep.commands.shared.readings import decision_record, describe_access
from scrapy_rep.commands.shared.running import CLEAN, FOUND
from scrapy_rep.commands.shared.sources import Sources, ask, given_robotstxt
from scrapy_rep.commands.shared.terms import Terms, terms_of
from scrapy_rep.commands.shared.uses import in_words, robotstxt_usage, usage_change
from scrapy_rep.protocol.agents import EVERYONE
from scrapy_rep.protocol.dialect import DIALECTS
from scrapy_rep.protocol.origins import Origin, origin_of
from scrapy_rep.protocol.robotstxt.decisions import Reason

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Sequence

    from scrapy.settings import Settings

    from scrapy_rep.commands.shared.readings import Reading
    from scrapy_rep.protocol.dialect import Dialect

# So many robots.txt files are fetched side by side, before their URLs are judged.
_ORIGINS_AT_ONCE = 128

# URLs that are judged between two times that the state is written.
_SAVED_EVERY = 10_000

_COLOURS = {"forbidden": RED, "allowed": GREEN, "unknown": YELLOW, "usage": YELLOW}


def replay(arguments: Namespace, settings: Settings) -> int:
    terms = terms_of(arguments, settings)
    crawls = PastCrawls(arguments.ledgers)
    dialects = _dialects(arguments, terms, crawls)
    given = _given(arguments.robots, list(dialects.values()))
    output = Output.of(arguments)
    with ExitStack() as stack:
        state = None
        if arguments.state is not None:
            state = State(arguments.state, _question(arguments, crawls))
            stack.callback(state.close)
        purge_list = PurgeList(arguments.purge_list)
        stack.callback(purge_list.discard)
        found = Found(output, purge_list)
        agents = terms.agents if arguments.agent else None
        replaying = Replaying(crawls, dialects, terms, found, state, agents=agents)
        ask(terms, list(dialects.values()), given, replaying.run)
        purge_list.keep()
        if state is not None:
            state.remove()
    return found.end()


def _dialects(
    arguments: Namespace, terms: Terms, crawls: PastCrawls
) -> dict[str, Dialect]:
    """The dialect for each name in the ledgers."""
    if arguments.dialect is not None:
        return dict.fromkeys(crawls.dialects | {""}, terms.dialect)
    own = {terms.dialect.name: terms.dialect, "": terms.dialect}
    known = DIALECTS | own
    return {name: known.get(name, terms.dialect) for name in crawls.dialects | {""}}


def _given(
    values: Sequence[str], dialects: Sequence[Dialect]
) -> dict[Origin | None, tuple[Reading, ...]]:
    """What the options ``--robots`` name, by origin; None for all others."""
    given = {}
    for value in values:
        before, equals, path = value.partition("=")
        origin = origin_of(before) if equals else None
        given[origin] = given_robotstxt(path if origin else value, dialects)
    return given


def _question(arguments: Namespace, crawls: PastCrawls) -> str:
    ledgers = [str(Path(path).resolve()) for path in arguments.ledgers]
    asked = [arguments.agent, arguments.dialect, arguments.robots]
    return json.dumps([ledgers, crawls.marks, *asked])


class Found:
    """Shows what has changed since, and counts it."""

    def __init__(self, output: Output, purge_list: PurgeList) -> None:
        self.output = output
        self._purge_list = purge_list
        self._counts: Counter[str] = Counter()

    def add(self, record: dict[str, Any]) -> None:
        change = record["change"]
        self._counts[change] += record.get("urls", 1)
        if change == "forbidden":
            self._purge_list.add(record["url"])
        if self.output.as_json:
            self.output.record(record)
        else:
            self.output.row(
                Painted(change, _COLOURS[change]),
                record.get("url", record["origin"]),
                record["why"],
            )

    def end(self) -> int:
        counts = {change: self._counts[change] for change in _COLOURS}
        if self.output.as_json:
            self.output.record({"change": "summary", **counts})
        else:
            self.output.flush()
            complain(
                f"URLs that were fetched and are now forbidden: {counts['forbidden']}; "
                f"that were refused and are now allowed: {counts['allowed']}"
            )
        if counts["usage"] and not self.output.as_json:
            complain(
                f"URLs whose content may be used for other purposes: {counts['usage']}"
            )
        if counts["unknown"]:
            complain(
                "URLs of which it is not known, since their robots.txt is unreachable: "
                f"{counts['unknown']}"
            )
        return FOUND if counts["forbidden"] or counts["unknown"] else CLEAN


class Replaying:
    """Goes through past crawls, origin by origin, URL by URL."""

    def __init__(
        self,
        crawls: PastCrawls,
        dialects: dict[str, Dialect],
        terms: Terms,
        found: Found,
        state: State | None,
        *,
        agents: tuple[str, ...] | None,
    ) -> None:
        self._crawls = crawls
        self._places = {name: place for place, name in enumerate(dialects)}
        self._terms = terms
        self._agents = agents
        self._found = found
        self._state = state
        self._files = PastFiles()
        self._done = state.done if state else 0
        self._unsaved: list[dict[str, Any]] = []
        self._advance: Callable[[int], object]

    async def run(self, sources: Sources) -> None:
        state = self._state
        start = (state.origin, state.url) if state else ("", "")
        with progress(self._found.output, self._crawls.count, self._done) as advance:
            self._advance = advance
            for record in state.results() if state else ():
                self._found.add(record)
            origins = self._crawls.origins(start[0])
            groups = groupby(self._crawls.decisions(*start), attrgetter("origin"))
            group = next(groups, None)
            while names := list(islice(origins, _ORIGINS_AT_ONCE)):
                wanted = [origin for name in names if (origin := origin_of(name))]
                known = await sources.of(wanted)
                while group is not None and group[0] <= names[-1]:
                    origin = origin_of(group[0])
                    if origin is not None:
                        self._judge(group[1], known[origin])
                    group = next(groups, None)
                self._found.output.flush()

    def _judge(
        self, pasts: Iterator[PastDecision], readings: Sequence[Reading]
    ) -> None:
        """Judge the URLs of an origin, and save how far that has come."""
        unsaved = 0
        unknown = 0
        for past in pasts:
            reading = readings[self._places.get(past.dialect, 0)]
            if reading.is_unreachable:
                # What was refused as unreachable then would be refused now.
                unknown += past.reason != Reason.UNREACHABLE.value
            else:
                self._compare(past, reading)
            self._done += past.times
            self._advance(past.times)
            unsaved += 1
            if unsaved >= _SAVED_EVERY:
                self._save(past, readings[0], unknown)
                unsaved = unknown = 0
        if unsaved:
            self._save(past, readings[0], unknown)

    def _compare(self, past: PastDecision, reading: Reading) -> None:
        agents = self._agents or past.agents or (EVERYONE,)
        decision = self._terms.decide(reading.robots, past.url, agents)
        if decision.allowed == past.allowed:
            if decision.allowed:
                self._compare_usage(past, reading, agents)
            return
        self._add(
            {
                "change": "allowed" if decision.allowed else "forbidden",
                "origin": past.origin,
                "url": past.url,
                "why": why(decision),
                "agents": list(agents),
                "dialect": reading.dialect.name,
                "then": {
                    "allowed": past.allowed,
                    "time": _iso(past.time),
                    "reason": past.reason,
                    "line": past.line,
                    "statement": past.statement,
                },
                "now": decision_record(decision),
            }
        )

    def _compare_usage(
        self, past: PastDecision, reading: Reading, agents: tuple[str, ...]
    ) -> None:
        """What a URL that was fetched was for then, and is for now."""
        robots = self._files.robots(past, reading.dialect)
        if robots is None:
            return
        terms = replace(self._terms, agents=agents)
        old = robotstxt_usage(robots, past.url, terms)
        new = robotstxt_usage(reading.robots, past.url, terms)
        change = usage_change(old, new, terms)
        if change is not None:
            self._add(
                {
                    "change": "usage",
                    "origin": past.origin,
                    "url": past.url,
                    "why": in_words(change, old, new),
                    "agents": list(agents),
                    "dialect": reading.dialect.name,
                    **change,
                }
            )

    def _add(self, record: dict[str, Any]) -> None:
        self._found.add(record)
        if self._state is not None:
            self._unsaved.append(record)

    def _save(self, last: PastDecision, reading: Reading, unknown: int) -> None:
        if unknown:
            # An outage is no prohibition: what was fetched need not go for it.
            self._add(
                {
                    "change": "unknown",
                    "origin": last.origin,
                    "urls": unknown,
                    "why": f"robots.txt is {describe_access(reading)}",
                }
            )
        if self._state is not None:
            self._state.save(last.origin, last.url, self._done, self._unsaved)
            self._unsaved.clear()


def _iso(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
