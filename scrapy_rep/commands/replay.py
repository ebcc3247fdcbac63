"""``scrapy rep replay``: judges the URLs of past crawls by today's robots.txt files."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime, timezone
from functools import lru_cache
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from scrapy_rep.commands.shared.exit_status import CLEAN, FOUND
from scrapy_rep.commands.shared.output import Output, Painted, notify
from scrapy_rep.commands.shared.output_file import OutputFile
from scrapy_rep.commands.shared.past_crawls import PastCrawls, past_robotstxt
from scrapy_rep.commands.shared.profile import Profile, profile_of
from scrapy_rep.commands.shared.robotstxt import decision_record, describe_access
from scrapy_rep.commands.shared.sources import Sources, ask, given_robotstxt
from scrapy_rep.commands.shared.urls import ORIGINS_AT_ONCE
from scrapy_rep.commands.shared.usage import usage_change
from scrapy_rep.commands.shared.verdicts import why
from scrapy_rep.protocol.access.results import Access
from scrapy_rep.protocol.agents import EVERYONE
from scrapy_rep.protocol.dialect import DIALECTS
from scrapy_rep.protocol.origins import Origin, written_origin
from scrapy_rep.protocol.robotstxt.decisions import Reason

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Sequence

    from scrapy.settings import Settings

    from scrapy_rep.commands.shared.output import Style
    from scrapy_rep.commands.shared.past_crawls import PastDecision
    from scrapy_rep.commands.shared.robotstxt import LoadedRobotsTxt
    from scrapy_rep.protocol.dialect import Dialect

_STYLES: dict[str, Style] = {
    "forbidden": "red",
    "allowed": "green",
    "unknown": "yellow",
    "usage": "yellow",
}


def run(arguments: Namespace, settings: Settings) -> int:
    profile = profile_of(arguments, settings)
    crawls = PastCrawls(arguments.ledgers)
    dialects = _dialects(arguments, profile, crawls)
    robots_files = [_origin_and_path(each) for each in arguments.robots]
    given = {
        origin: given_robotstxt(path, list(dialects.values()))
        for origin, path in robots_files
    }
    inputs = [*arguments.ledgers, *(path for _, path in robots_files)]
    agents = profile.agents if arguments.agent else None
    path = arguments.purge_list
    with (
        OutputFile(path, f"--purge-list {path}", inputs) if path else nullcontext()
    ) as purge_list:
        changes = Changes(Output(arguments), crawls, purge_list)
        replayer = Replayer(crawls, dialects, profile, changes, agents=agents)
        ask(profile, list(dialects.values()), given, replayer.run)
    return changes.end()


def _dialects(
    arguments: Namespace, profile: Profile, crawls: PastCrawls
) -> dict[str, Dialect]:
    """Return the dialect to judge by, for each dialect name in the ledgers."""
    names = crawls.dialects | {""}
    if arguments.dialect is not None:
        return dict.fromkeys(names, profile.dialect)
    known = DIALECTS | {profile.dialect.name: profile.dialect}
    return {name: known.get(name, profile.dialect) for name in names}


def _origin_and_path(value: str) -> tuple[Origin | None, str]:
    """Split a value of ``--robots`` into origin and file; None is every other origin."""
    before, equals, path = value.partition("=")
    origin = written_origin(before) if equals else None
    return origin, path if origin else value


class Changes:
    """Shows the URLs whose verdict has changed since the crawl, and counts them."""

    def __init__(
        self, output: Output, crawls: PastCrawls, purge_list: OutputFile | None
    ) -> None:
        self.output = output
        self._crawls = crawls
        self._purge_list = purge_list
        self._counts: Counter[str] = Counter()

    def add(self, record: dict[str, Any]) -> None:
        change = record["change"]
        self._counts[change] += record.get("urls", 1)
        if change == "forbidden" and self._purge_list is not None:
            self._purge_list.write(record["url"] + "\n")
        if self.output.as_json:
            self.output.record(record)
        else:
            self.output.row(
                Painted(change, _STYLES[change]),
                record.get("url", record["origin"]),
                record["why"],
            )

    def end(self) -> int:
        counts = {change: self._counts[change] for change in _STYLES}
        crawls, complete = self._crawls.crawls, self._crawls.complete_crawls
        if self.output.as_json:
            numbers = {"crawls": crawls, "complete_crawls": complete}
            self.output.record({"change": "summary", **counts, **numbers})
        else:
            self.output.flush()
            words = f"URLs that were refused and are now allowed: {counts['allowed']:,}"
            if complete or counts["forbidden"] or not crawls:
                words = (
                    "URLs that were fetched and are now forbidden: "
                    f"{counts['forbidden']:,}; {words}"
                )
            notify(words)
        if complete < crawls:
            notify(
                f"{crawls - complete:,} of {crawls:,} crawls recorded only what was refused "
                "or overridden (REP_LEDGER_LEVEL was not 'all'): which of the other URLs are "
                "now forbidden is not known"
            )
        if counts["usage"] and not self.output.as_json:
            notify(f"URLs whose permitted purposes have changed: {counts['usage']:,}")
        if counts["unknown"]:
            notify(
                "URLs that can't be judged because their robots.txt is unreachable: "
                f"{counts['unknown']:,}"
            )
        return FOUND if counts["forbidden"] or counts["unknown"] else CLEAN


class Replayer:
    """Judges each URL of past crawls by today's robots.txt, origin by origin."""

    def __init__(
        self,
        crawls: PastCrawls,
        dialects: dict[str, Dialect],
        profile: Profile,
        changes: Changes,
        *,
        agents: tuple[str, ...] | None,
    ) -> None:
        """*agents*, if not None, replace the agents of each crawl."""
        self._crawls = crawls
        self._places = {name: place for place, name in enumerate(dialects)}
        self._profile = profile
        self._agents = agents
        self._changes = changes
        # Decisions are sorted by origin, so it is enough to cache one file.
        self._past_robotstxt = lru_cache(maxsize=1)(past_robotstxt)
        self._advance: Callable[[int], object]

    async def run(self, sources: Sources) -> None:
        output = self._changes.output
        with _progress(output, self._crawls.count) as self._advance:
            origins = self._crawls.origins()
            groups = groupby(self._crawls.decisions(), attrgetter("origin"))
            group = next(groups, None)
            while names := list(islice(origins, ORIGINS_AT_ONCE)):
                wanted = [origin for name in names if (origin := written_origin(name))]
                known = await sources.of(wanted)
                while group is not None and group[0] <= names[-1]:
                    origin = written_origin(group[0])
                    if origin is not None:
                        self._judge(group[1], known[origin])
                    group = next(groups, None)
                output.flush()

    def _judge(
        self, pasts: Iterator[PastDecision], by_dialect: Sequence[LoadedRobotsTxt]
    ) -> None:
        """Judge the URLs of one origin."""
        unknown = 0
        for past in pasts:
            loaded = by_dialect[self._places.get(past.crawl.dialect, 0)]
            result = loaded.result
            if result is not None and result.access is Access.UNREACHABLE:
                # A URL that the crawl refused for this reason would be refused again.
                unknown += past.reason != Reason.UNREACHABLE.value
            else:
                self._compare(past, loaded)
            self._advance(past.times)
        if unknown:
            # An outage may pass, so the pages that were fetched need not be purged.
            self._changes.add(
                {
                    "change": "unknown",
                    "origin": past.origin,
                    "urls": unknown,
                    "why": f"robots.txt is {describe_access(by_dialect[0])}",
                }
            )

    def _compare(self, past: PastDecision, loaded: LoadedRobotsTxt) -> None:
        agents = self._agents or past.crawl.agents or (EVERYONE,)
        profile = replace(self._profile, agents=agents)
        decision = profile.decide(loaded.robots, past.url)
        if decision.allowed == past.allowed:
            if decision.allowed:
                self._compare_usage(past, loaded, profile)
            return
        words = why(decision)
        if past.override is not None:
            words += f" (overridden in the crawl: {past.override[:300]})"
        self._changes.add(
            {
                "change": "allowed" if decision.allowed else "forbidden",
                "origin": past.origin,
                "url": past.url,
                "why": words,
                "agents": list(agents),
                "dialect": loaded.dialect.name,
                "then": {
                    "allowed": past.allowed,
                    "time": _iso(past.time),
                    "reason": past.reason,
                    "line": past.line,
                    "statement": past.statement,
                    "override": past.override,
                },
                "now": decision_record(decision),
            }
        )

    def _compare_usage(
        self, past: PastDecision, loaded: LoadedRobotsTxt, profile: Profile
    ) -> None:
        """Report a change in the permitted purposes of a URL that is still allowed."""
        if past.snapshot is None:
            return
        robots = self._past_robotstxt(past.snapshot, loaded.dialect)
        if robots is None:
            return
        change = usage_change(robots, loaded.robots, past.url, profile)
        if change is not None:
            record, words = change
            self._changes.add(
                {
                    "change": "usage",
                    "origin": past.origin,
                    "url": past.url,
                    "why": words,
                    "agents": list(profile.agents),
                    "dialect": loaded.dialect.name,
                    **record,
                }
            )


@contextmanager
def _progress(output: Output, total: int) -> Iterator[Callable[[int], object]]:
    """Show a progress bar while the block runs, if standard error is a terminal.

    Yields a function that takes the number of URLs judged since the last call. There is
    no bar without tqdm, which the extra ``report`` installs.
    """
    try:
        from tqdm import tqdm  # noqa: PLC0415
    except ImportError:
        yield lambda _: None
        return
    # With disable=None, tqdm shows the bar only on a terminal.
    with tqdm(total=total, unit=" URLs", disable=None) as bar:
        if not bar.disable:
            # tqdm.write() moves the bar, which may be on the same terminal.
            output.write = lambda text: tqdm.write(text, file=sys.stdout, end="")
        yield bar.update


def _iso(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
