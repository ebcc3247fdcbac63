"""The subcommand ``scrapy rep diff``, which compares two sources of rules. It shows the URLs on which the verdict
differs and, for two robots.txt files, the rules and records that differ.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from scrapy.exceptions import UsageError

from scrapy_rep.protocol.agents import EVERYONE
from scrapy_rep.protocol.origins import Origin, parse_origin
from scrapy_rep.protocol.robotstxt.groups import sitemap_urls
from scrapy_rep.protocol.robotstxt.lines import lines
from scrapy_rep.protocol.robotstxt.rules import MAX_COMPARED, Reason
from scrapy_rep.protocol.text import RUN_FIELDS, SITEMAP
from scrapy_rep.protocol.usage.sites import FIELDS as USAGE_FIELDS
from scrapy_rep.protocol.usage.sites import records_for_all
from scrapy_rep.protocol.usage.statements import split_path
from scrapy_rep.tools.inputs import (
    LIVE,
    LedgerSources,
    Sources,
    UrlList,
    UrlToJudge,
    are_offline,
    batches,
    open_bytes,
    parse_argument,
    sources_of,
)
from scrapy_rep.tools.ledgers import is_sqlite, ledger_named, recorded
from scrapy_rep.tools.output import Output, notify, output_file, progress, status_of
from scrapy_rep.tools.profile import ask, decision_record, profile_of, usage_change

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scrapy.settings import Settings

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robots import RobotsTxt
    from scrapy_rep.protocol.robotstxt.groups import Group
    from scrapy_rep.tools.inputs import RulesSource, SourcesByOrigin
    from scrapy_rep.tools.profile import Profile, Web


# The maximum number of rules and records to compare between two files, added up over all agents. Agents that follow the
# same groups count once. Only hostile files, with thousands of agents and thousands of rules for each, exceed this
# number.
_MAX_COMPARED = 1_000_000

# The maximum number of octets to compare when all sample paths are judged. Each path is compared with all patterns that
# contain a "*". Comparing this number of octets takes a few seconds; real files need far fewer.
_MAX_OCTETS = 6_000_000_000
_SEGMENT = 64
_OCTETS_AT_ONCE = 32

_Records: TypeAlias = "dict[tuple[str, str], int]"
"""The line number of each rule or other record of a robots.txt, by its field and value, such as
``("disallow", "/shop")``."""

_Followed: TypeAlias = "tuple[tuple[int, int], ...]"
"""The groups that an agent follows. Each pair contains the index of a group in the file, and a line number. The agent
is named in a sequence of consecutive user-agent lines. The line number is the number of the first line of this
sequence. For example, if a file begins with the lines ``User-agent: a`` and ``User-agent: b``, the first pair of agent
b is (0, 1)."""

_Lines: TypeAlias = "tuple[tuple[str, str, int], ...]"
"""The records that are in only one of two files. Each tuple contains a record's field, value and line number."""

_Change: TypeAlias = "tuple[str, _Lines, _Lines]"
"""A change of the rules for an agent: the kind (``changed``, ``removed`` or ``added``), the removed records, and
the added records."""


def rule_changes(old: RobotsTxt, new: RobotsTxt) -> list[dict[str, Any]] | None:
    """Return the rules and records that differ between two robots.txt files, as JSON objects. Return None if there
    are too many records to compare.

    Each object describes a change, and the agents that this change concerns. Its keys are ``change`` (``changed``,
    ``removed`` or ``added``), ``agents``, and the lists of records ``added`` and ``removed``. The agents are in lower
    case, and ``*`` stands for everyone. If records outside of groups differ, such as sitemaps, the last object contains
    these records, and its list of agents is empty.

    The order of rules is not compared. Sitemaps are compared as absolute URLs.
    """
    if old.body == new.body and old.dialect == new.dialect:
        return []
    records_left = _MAX_COMPARED
    old_groups, new_groups = old.groups, new.groups
    followed = (
        _followed_by_agent(old_groups, merges=old.dialect.merge_groups),
        _followed_by_agent(new_groups, merges=new.dialect.merge_groups),
    )
    # Agents that follow the same groups are compared once, because a file can contain thousands of agents that share
    # thousands of rules.
    following: dict[tuple[_Followed, _Followed], list[str]] = {}
    for agent in filter(None, dict.fromkeys(chain(*followed))):
        pair = followed[0].get(agent, ()), followed[1].get(agent, ())
        following.setdefault(pair, []).append(agent)
    agents_of: dict[_Change, list[str]] = {}
    for (was, now), agents in following.items():
        records_left -= _number_of_records(old_groups, was)
        records_left -= _number_of_records(new_groups, now)
        if records_left < 0:
            return None
        kind = "changed" if was and now else "removed" if was else "added"
        records = _records(old_groups, was), _records(new_groups, now)
        change = kind, *_compared(*records)
        if change != ("changed", (), ()):
            agents_of.setdefault(change, []).extend(agents)
    # A local file does not have a URL. Its relative sitemap URLs are resolved against the URL of the other file.
    removed, added = _compared(
        _outside(old, old.url or new.url), _outside(new, new.url or old.url)
    )
    changes = [*agents_of.items()]
    if removed or added:
        changes.append((("changed", removed, added), []))
    return [
        {
            "change": kind,
            "agents": agents,
            "added": list(map(_as_dict, added)),
            "removed": list(map(_as_dict, removed)),
        }
        for (kind, removed, added), agents in changes
    ]


def sample_paths(*files: RobotsTxt) -> Iterator[str]:
    """Yield two sample paths for each pattern in *files*, without duplicates. Most of these paths match their
    pattern, so the verdicts on the paths show whether a rule changed.
    """
    seen = set()
    for robots in files:
        for group in robots.groups:
            for pattern in _patterns(group):
                path = pattern.replace("*", "").rstrip("$")
                path = path if path.startswith("/") else f"/{path}"
                # A pattern that ends with a "$" matches only the first of the two paths.
                for sample in (path, f"{path}x"):
                    if sample not in seen:
                        seen.add(sample)
                        yield sample


def _max_samples(files: Iterable[RobotsTxt]) -> int:
    """Return the maximum number of sample paths to compare between *files*. The number is smaller for files with
    patterns that take longer to match.
    """
    cost = sum(max(map(_cost, robots.groups), default=0) for robots in files)
    return _MAX_OCTETS // max(cost, 1)


def _cost(group: Group) -> int:
    """Return the estimated cost of a decision by *group*, as a number of octets to compare. The estimate assumes that
    the path is compared with all patterns of *group* that contain a ``*``. The assumed length of the path is the
    average length of these patterns.
    """
    patterns = [rule.pattern for rule in group.rules if "*" in rule.pattern]
    octets, segments = sum(map(len, patterns)), sum(map(_segments, patterns))
    usual_length = octets // max(len(patterns), 1)
    compared = usual_length * (len(patterns) + octets // _OCTETS_AT_ONCE)
    return min(compared + _SEGMENT * segments, MAX_COMPARED)


def _segments(pattern: str) -> int:
    return pattern.count("*") + 1


def _patterns(group: Group) -> Iterator[str]:
    for rule in group.rules:
        yield rule.pattern
    for record in group.records:
        if record.field in USAGE_FIELDS:
            # A record without a path applies to all paths.
            yield split_path(record.value)[0] or "/"


def _followed_by_agent(
    groups: Sequence[Group], *, merges: bool
) -> dict[str, _Followed]:
    """Return the groups that each agent follows, in file order. If *merges* is True, because the dialect merges groups,
    an agent follows all groups that name the agent. If *merges* is False, the agent follows only the first of these
    groups.
    """
    runs_of: dict[str, dict[tuple[int, int], None]] = {}
    first_of: dict[str, int] = {}
    for index, group in enumerate(groups):
        for agent, run in zip(group.agents, group.runs, strict=True):
            if merges or first_of.setdefault(agent, index) == index:
                runs_of.setdefault(agent, {})[index, run] = None
    return {agent: tuple(followed) for agent, followed in runs_of.items()}


def _number_of_records(groups: Sequence[Group], followed: _Followed) -> int:
    """Return the number of rules and other records in the groups that an agent follows. *groups* contains all groups of
    the file. *followed* refers to the groups of the agent (see :data:`_Followed`).
    """
    followed_groups = [groups[index] for index, _ in followed]
    return sum(len(group.rules) + len(group.records) for group in followed_groups)


def _records(groups: Sequence[Group], followed: _Followed) -> _Records:
    """Return the rules and records that apply to an agent which follows the groups *followed*, without duplicates, in
    file order.

    A group can contain several sequences of user-agent lines, with records between the sequences. Some records, such as
    crawl delays, apply only to the agents that the last sequence before the record names. For other agents of the
    group, these records are left out.
    """
    line_of: _Records = {}
    for index, run in followed:
        group = groups[index]
        for rule in group.rules:
            line_of.setdefault((rule.kind, rule.pattern), rule.line)
        for record in group.records:
            if record.field not in RUN_FIELDS or record.run == run:
                line_of.setdefault((record.field, record.value), record.line)
    return line_of


def _outside(robots: RobotsTxt, base: str | None) -> _Records:
    """Return the records outside of groups, which are sitemaps and the usage records before the first group.
    Relative sitemap URLs are resolved against *base*. If *base* is None, they stay relative.
    """
    all_lines = [*lines(robots.body, robots.dialect)]
    line_of = {
        (record.field, record.value): record.line
        for record in records_for_all(all_lines)
    }
    for line in all_lines:
        for url in sitemap_urls([line], base):
            line_of.setdefault((SITEMAP, url), line.number)
    return line_of


def _compared(old: _Records, new: _Records) -> tuple[_Lines, _Lines]:
    """Return the records that only *old* has, and the records that only *new* has."""
    removed = ((*record, line) for record, line in old.items() if record not in new)
    added = ((*record, line) for record, line in new.items() if record not in old)
    return tuple(removed), tuple(added)


def _as_dict(record: tuple[str, str, int]) -> dict[str, Any]:
    field, value, line = record
    rule = f"{field.capitalize()}: {value}"
    return {"field": field, "value": value, "line": line, "rule": rule}


_WORDS = {
    "denied": "now denied",
    "allowed": "now allowed",
    "usage": "use changes",
    "delayed": "now delayed",
    "overridden": "overridden",
    "unknown": "unknown",
}
"""For each kind of difference between two verdicts on a URL, the words that the output shows."""


_ROWS = ("{words:word}\t{url}\t{why}",)
_HOST_ROWS = ("{words:word}\t{origin}\t{urls:=URL}: {why}",)
_SUMMARY_ROWS = (
    "{urls:=URL} compared",
    *(f"  {words}: {{{kind}:some}}" for kind, words in _WORDS.items()),
    "  unchanged: {unchanged:some}",
)
_RULES_ROWS = (
    "User-agent: {agents:bold}   (group {change})",
    "{place:bold}",
    ("removed", ("  - {rule:red}   (line {line})",)),
    ("added", ("  + {rule:green}   (line {line})",)),
)


class Side(NamedTuple):
    """The old or the new side of a comparison: its name, and the source and dialect of its rules."""

    name: str
    sources: Sources

    dialect: Dialect | None
    """The dialect in which to read the rules, if the command-line argument for this side is the name of a dialect; None
    if it is not."""


class SideDecision(NamedTuple):
    """The decision on a URL by the rules of one side."""

    record: dict[str, Any]
    """The decision as a JSON object. If an override allows a URL that the site's own robots.txt forbids, the object
    contains the rule of the robots.txt, so that the output can show which rule is overridden. :attr:`is_fetched` is
    True in this case."""

    is_fetched: bool = False
    """Whether a crawl would fetch the URL."""

    robots: RobotsTxt | None = None
    """The rules that a crawl would follow; None if these are not known."""

    @property
    def is_known(self) -> bool:
        return self.record["allowed"] is not None


def run(arguments: Namespace, settings: Settings) -> int:
    profile = profile_of(arguments, settings)
    names = list(filter(None, [*arguments.old, arguments.new, arguments.urls]))
    if names.count("-") > 1:
        raise UsageError(
            "'-' means standard input, which can be read only once; use it for only one argument"
        )
    with ExitStack() as stack:
        ledgers = {}
        ledger_by_argument = {name: ledger_named(name) for name in names}
        for side_names in arguments.old, [arguments.new], [arguments.urls]:
            ledger_names = [*filter(None, map(ledger_by_argument.get, side_names))]
            if ledger_names and len(ledger_names) == len(side_names):
                ledgers[tuple(side_names)] = stack.enter_context(
                    closing(LedgerSources(ledger_names))
                )
        purge, path = None, arguments.purge_list
        if path is not None:
            inputs = [
                ledger.path if ledger else name
                for name, ledger in ledger_by_argument.items()
            ]
            file = output_file(path, f"--purge-list {path}", inputs)
            purge = stack.enter_context(file)
            if is_sqlite(path):
                raise UsageError(
                    f"--purge-list {path}: this file is a ledger, or another SQLite file, and is not "
                    "replaced; choose another file"
                )
        differences = Differences(arguments, profile, ledgers, purge)
        # If OLD or NEW is a ledger, the rules are applied for the crawler that wrote the ledger. The warnings about the
        # crawler in the settings would be wrong, so they are not shown.
        if ledgers.keys().isdisjoint([tuple(arguments.old), (arguments.new,)]):
            profile.notify()
        offline = are_offline([*arguments.old, arguments.new], profile)
        return ask(profile, differences.run, offline=offline)


class Differences:
    """Finds the differences between two sources of rules, and writes each difference as soon as it is found."""

    def __init__(
        self,
        arguments: Namespace,
        profile: Profile,
        ledgers: dict[tuple[str, ...], LedgerSources],
        purge: Callable[[str], object] | None,
    ) -> None:
        """Prepare the comparison. Raises UsageError if the list of URLs cannot be opened.

        *ledgers* contains the open ledgers, by the tuple of the command-line arguments that name them. *purge* is a
        function that writes text to the file of ``--purge-list``, which receives the URLs that only the old rules
        allow. *purge* is None without this option.
        """
        self._arguments = arguments
        self._profile = profile
        self._opened = ledgers
        self._purge = purge
        self._origin: Origin | None = None
        if arguments.origin is not None:
            origin = parse_origin(arguments.origin)
            self._origin = origin or parse_argument(arguments.origin).origin
        self._list: UrlList | None = None
        if (path := arguments.urls) is not None and (path,) not in ledgers:
            before_number = "line" if path == "-" else f"{path}, line"
            self._list = UrlList(open_bytes(path), before_number, accepts_paths=True)
        self._output = Output(arguments)
        self._counts = Counter(dict.fromkeys(_WORDS, 0))
        self._of_hosts: Counter[tuple[str, str, str]] = Counter()
        """The numbers of URLs whose change is ``delayed`` or ``unknown``. The output does not list these URLs, but
        shows one line with their number for each key. A key contains the kind of change, the host and the reason."""

    async def run(self, web: Web | None) -> int:
        self._old, self._new = self._sides = await self._load_sides(web)
        self._choose_urls()
        old, new = await self._load([self._origin])
        files = [
            self._known(self._old, old.get(self._origin)),
            self._known(self._new, new.get(self._origin)),
        ]
        urls = batches(self._urls(filter(None, files)))
        # The first URLs are read before any output, so that the error for a damaged ledger is the only output.
        first = next(urls, [])
        have_rules_changed = self._show_rules(*files)
        for batch in chain([first], urls):
            old, new = await self._load(url_to_judge.origin for url_to_judge in batch)
            for url_to_judge in batch:
                self._compare(
                    url_to_judge,
                    old.get(url_to_judge.origin),
                    new.get(url_to_judge.origin),
                )
            progress.say(f"{self._counts.total():,} URLs compared")
            self._output.flush()
        return self._end(have_rules_changed=have_rules_changed)

    async def _load_sides(self, web: Web | None) -> tuple[Side, Side]:
        """Return the old and the new side. Raises UsageError for a source that cannot be read."""
        names = self._arguments.old, [self._arguments.new]

        async def open_(names: list[str]) -> Sources | None:
            return await sources_of(names, self._profile, web, self._opened)

        old, new = [await open_(side_names) for side_names in names]
        # A dialect has no rules of its own. If only one side is a dialect, the rules of the other side are read in this
        # dialect. If both sides are dialects, the robots.txt files that the sites have now are read in both dialects.
        common = old or new or await open_([LIVE])
        assert common is not None
        first, second = (
            Side(
                ", ".join(side_names),
                sources or common,
                self._profile.dialects.get(side_names[0]),
            )
            for side_names, sources in zip(names, (old, new), strict=True)
        )
        return first, second

    def _choose_urls(self) -> None:
        """Choose the URLs to compare: the URLs in ledgers, the URLs in a list, or sample paths.

        Raises UsageError if the user must add an option:

        - ``--urls`` or ``--origin``, because there are no URLs to compare
        - ``--origin``, because the ledgers contain URLs of several hosts, but a side is the robots.txt of a single host
        """
        # The side, old or new, whose decisions on the URLs are read from a ledger. None if the decisions of both sides
        # are computed from rules.
        self._recorded_side: Side | None = None
        # The ledgers from which the URLs are read. None if the URLs come from a list or are sample paths.
        self._url_ledgers = self._opened.get((self._arguments.urls,))
        if self._url_ledgers is None and self._list is None:
            for side in self._sides[::-1]:
                if isinstance(side.sources, LedgerSources) and not side.dialect:
                    self._recorded_side, self._url_ledgers = side, side.sources
        # The only origin whose URLs are compared. None for the URLs of all origins.
        for side in self._sides[::-1]:
            self._origin = self._origin or side.sources.origin
        if self._origin is not None:
            return
        are_files = [side.sources.is_single for side in self._sides]
        if self._url_ledgers and any(are_files) and self._url_ledgers.has_origins:
            raise UsageError(
                "the ledger contains URLs of several hosts, but a robots.txt applies to a single host; choose "
                "the host with --origin"
            )
        if not (self._url_ledgers or self._list or all(are_files)):
            raise UsageError(
                "there are no URLs to compare; give a list of URLs with --urls, or a host with --origin"
            )

    def _urls(self, files: Iterable[RobotsTxt]) -> Iterator[UrlToJudge]:
        """Yield the URLs to compare. These come from ledgers or a list. If there is neither, yield sample paths that
        are made from the patterns in the robots.txt *files*.
        """
        if self._url_ledgers is not None:
            yield from self._url_ledgers.urls(self._origin)
        elif self._list is not None:
            for url_to_judge in chain.from_iterable(self._list):
                if self._origin is None or url_to_judge.origin in {None, self._origin}:
                    yield url_to_judge._replace(
                        origin=url_to_judge.origin or self._origin
                    )
        else:
            start = "" if self._origin is None else str(self._origin)
            files = list(files)
            paths = sample_paths(*files)
            for path in islice(paths, _max_samples(files)):
                yield UrlToJudge(start + path, self._origin)
            if left_out := sum(1 for _ in paths):
                notify(
                    f"{left_out:,} sample paths are not compared, because the files have too many or too long "
                    "patterns with a *; to compare the URLs that matter to you, use --urls"
                )

    async def _load(
        self, origins: Iterable[Origin | None]
    ) -> tuple[SourcesByOrigin, SourcesByOrigin]:
        """Return the rules of the old side and of the new side for each of *origins*."""
        distinct_origins = [*dict.fromkeys(origins)]
        old, new = (side.sources for side in self._sides)
        old_sources = await old.load(distinct_origins)
        if new is old:
            return old_sources, old_sources
        return old_sources, await new.load(distinct_origins)

    def _known(self, side: Side, source: RulesSource | None) -> RobotsTxt | None:
        """Return the rules of *source*, read in the dialect of *side*. Return None if the rules are not known."""
        if source is None or not source.is_known:
            return None
        return source.read_as(self._dialect(side, source.crawl))

    def _dialect(self, side: Side, crawl: dict[str, Any] | None) -> Dialect:
        """Return the dialect in which to read the rules of *side*. This is the first of these dialects that exists:

        1. the dialect that the argument OLD or NEW names
        2. the dialect of the option ``--dialect``
        3. the dialect of *crawl*, the crawl in a ledger from which the rules come
        4. the dialect in the settings
        """
        profile = self._profile
        if side.dialect or self._arguments.dialect is not None or crawl is None:
            return side.dialect or profile.dialect
        return profile.dialects.get(crawl["dialect"], profile.dialect)

    def _show_rules(self, old: RobotsTxt | None, new: RobotsTxt | None) -> bool:
        """Show the added and removed rules and records. Return whether rules or records differ; False if the rules of a
        side are not known.
        """
        if old is None or new is None:
            return False
        changes = rule_changes(old, new)
        if changes is None:
            notify(
                "the files have too many groups to compare, so the output does not show which rules differ"
            )
            return True
        for change in changes:
            place = "" if change["agents"] else "Outside of the groups"
            self._output.show({"kind": "rules", **change}, _RULES_ROWS, place=place)
        return bool(changes)

    def _compare(self, url_to_judge: UrlToJudge, *sources: RulesSource | None) -> None:
        profile, row, url_ledgers = self._profile, url_to_judge.row, self._url_ledgers
        crawls = [source.crawl for source in sources if source]
        if row is not None and url_ledgers is not None and self._recorded_side:
            crawls.insert(0, url_ledgers.ledgers.by_number[row["crawl"]])
        crawl = next(filter(None, crawls), None)
        if (
            crawl and not self._arguments.agent
        ):  # --agent overrides the agents in the ledger.
            profile = replace(profile, agents=crawl["agents"] or (EVERYONE,))
        old, new = (
            self._judged(side, source, url_to_judge, profile, crawl)
            for side, source in zip(self._sides, sources, strict=True)
        )
        kind = _kind(old, new)
        changed: dict[str, Any] | None = {
            "old": old.record,
            "new": new.record,
            "why": f"was: {old.record['why']}; now: {new.record['why']}",
        }
        if not kind and new.is_fetched and old.robots and new.robots:
            changed = usage_change(old.robots, new.robots, url_to_judge.url, profile)
            kind = "usage" if changed else ""
        self._counts[kind] += 1
        if not kind or changed is None:
            return
        origin = str(url_to_judge.origin or (row and row["origin"]) or self._new.name)
        if kind in {"delayed", "unknown"}:
            judged = old if new.is_known and kind == "unknown" else new
            self._of_hosts[kind, origin, judged.record["why"]] += 1
            return
        agents = list(profile.agents)
        record = {
            "kind": kind,
            "url": url_to_judge.url,
            "origin": origin,
            "agents": agents,
        }
        self._output.show(record | changed, _ROWS, words=_WORDS[kind])
        if kind == "denied" and self._purge is not None:
            self._purge(url_to_judge.url + "\n")

    def _judged(
        self,
        side: Side,
        source: RulesSource | None,
        url_to_judge: UrlToJudge,
        profile: Profile,
        crawl: dict[str, Any] | None,
    ) -> SideDecision:
        """Return the decision of *side* on a URL. If the URL comes from the ledger of *side*, return the decision in
        the ledger. Otherwise, judge the URL by the rules of *source*. Without a *source*, the decision is unknown.
        """
        dialect = self._dialect(side, crawl)
        if (
            side is self._recorded_side
            and url_to_judge.row is not None
            and self._url_ledgers
        ):
            record = recorded(url_to_judge.row)
            file = self._url_ledgers.source(url_to_judge.row["snapshot"])
            robots = file.read_as(dialect) if file else None
            return SideDecision(record, record["allowed"], robots)
        if source is None:
            why = "the robots.txt of this host is not known"
            return SideDecision({"allowed": None, "reason": "", "why": why})
        robots = source.read_as(dialect)
        decision = profile.decide_as_crawl(robots, url_to_judge.url)
        is_fetched = decision.allowed
        site = source.site
        if site and is_fetched and site.is_known:
            site_decision = profile.decide(site.read_as(dialect), url_to_judge.url)
            decision = decision if site_decision.allowed else site_decision
        is_known = decision.reason is not Reason.UNREACHABLE
        record = decision_record(decision, profile, is_known=is_known)
        record |= {"override": source.override and str(source.override), "time": None}
        if not is_known:
            record["why"] = f"robots.txt is {source.access['why']}"
        elif source.override:
            record["why"] += f" (overridden: {source.override})"
        return SideDecision(record, is_fetched, robots)

    def _end(self, *, have_rules_changed: bool) -> int:
        """Show one line for each host with changes of the kinds ``delayed`` or ``unknown``. Then show the summary, and
        return the exit status of the command.

        If *have_rules_changed* is True, the exit status reports a difference, even if the verdicts on all URLs are the
        same.
        """
        for (kind, origin, why), urls in self._of_hosts.items():
            record = {"kind": kind, "origin": origin, "urls": urls, "why": why}
            self._output.show(record, _HOST_ROWS, words=_WORDS[kind])
        counts = {kind: self._counts[kind] for kind in _WORDS}
        unchanged = counts["overridden"] + counts["unknown"]
        has_changed: bool | None = (
            have_rules_changed or sum(counts.values()) > unchanged
        )
        if not has_changed and counts["unknown"]:
            has_changed = None
        crawls = self._url_ledgers.ledgers.crawls if self._url_ledgers else []
        complete = sum(crawl["every_decision"] for crawl in crawls)
        record = {
            "kind": "summary",
            "old": self._old.name,
            "new": self._new.name,
            **self._profile.record,
            "dialect": self._dialect(self._new, None).name,
            "urls": self._counts.total(),
            **counts,
            "crawls": len(crawls),
            "complete_crawls": complete,
            "changed": has_changed,
        }
        self._output.show(record, _SUMMARY_ROWS, unchanged=self._counts[""])
        if incomplete := len(crawls) - complete:
            notify(
                f"{incomplete:,} of {len(crawls):,} crawls recorded only refusals and overrides, because "
                "REP_LEDGER_LEVEL was not 'all'; changed verdicts on their other URLs are not shown"
            )
        is_same = None if has_changed is None else not has_changed
        return status_of(
            {is_same}, has_invalid_input=bool(self._list and self._list.bad)
        )


def _kind(old: SideDecision, new: SideDecision) -> str:
    """Return the kind of change between two decisions on a URL, as a key of ``_WORDS``. Return an empty string for no
    change.
    """
    is_same = old.record["reason"] == new.record["reason"]
    if not (old.is_known and new.is_known):
        # If robots.txt was unreachable in the crawl and is unreachable today, nothing has changed. The decision of the
        # crawl is known, because the crawl refused the URL. Today's decision is not known.
        return "" if is_same and (old.is_known or new.is_known) else "unknown"
    if new.is_fetched and not new.record["allowed"]:
        return "overridden"
    if old.is_fetched == new.is_fetched:
        return ""
    if new.is_fetched:
        return "allowed"
    return "delayed" if new.record["reason"] == Reason.CRAWL_DELAY.value else "denied"
