"""The usage statements of a site about a URL: those in its robots.txt, and those in its tdmrep.json.

The usage records of a robots.txt, ``Content-Usage``, ``Content-Signal`` and ``License``, belong to
groups, like rules (RFC 9309, 2.2.1). ``Content-Usage`` is a rule (draft-ietf-aipref-attach-05, 3):
the next user-agent line begins a new group. ``Content-Signal`` and ``License`` are other records,
and do not end a group. A ``Content-Signal`` applies only to the run of user-agent lines directly
above it, as a ``Crawl-delay`` does.

A group may be addressed to a purpose instead of a crawler: ``User-agent: __usage_ai-training``. Its
rules state which URLs may be used for the purpose (draft-kelley-aipref-training-preference-signal-00;
according to the abstract, such groups have the same paths and the same precedence as all groups).

``/.well-known/tdmrep.json`` has the reservations of an origin, by path. Source: TDM Reservation
Protocol, "TDM File on the Origin Server". The file is an array of rules. Each rule has a
``location``, which matches like a path pattern of robots.txt, a ``tdm-reservation``, and an optional
``tdm-policy``. The first rule that matches counts.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import accumulate, chain, groupby, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.agents import choose_agent
from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.robotstxt.groups import OtherRecord, groups_of
from scrapy_rep.protocol.robotstxt.lines import decoded_text, lines
from scrapy_rep.protocol.text import NUL, RULES, RUN_FIELDS, USER_AGENT
from scrapy_rep.protocol.usage.preferences import NOTHING_STATED, UsagePreferences
from scrapy_rep.protocol.usage.statements import (
    LABELS,
    MAX_SHOWN,
    Signal,
    Source,
    UsageStatement,
    limited,
    read_expression,
    split_path,
    statements_at,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robotstxt.groups import Group
    from scrapy_rep.protocol.robotstxt.lines import Line
    from scrapy_rep.protocol.robotstxt.rules import Decision
    from scrapy_rep.protocol.usage.statements import Expression

    Statements = tuple[UsageStatement, ...]

MAX_COMPARED = 4_000_000
"""The limit for comparisons with one target, in octets: the length of the target, times the number of
patterns with a ``*``. A target of 1 KB can be compared with 4,000 patterns, in some hundredths of a
second."""


class StatementsByPath:
    """The usage statements of records that have a path: finds those that apply to a URL.

    Depending on the dialect, these are the statements of all records with the longest matching
    path, or of the first record with a matching path.
    """

    __slots__ = ("_dialect", "_ranked", "_wildcard_patterns")

    def __init__(
        self, records: Iterable[tuple[str, Statements]], dialect: Dialect
    ) -> None:
        self._dialect = dialect
        self._ranked: list[tuple[int, paths.Pattern, Statements]] = []
        """The rank, the pattern and the statements of each record, in order of rank. Of the records that
        match a URL, those with the lowest rank count."""

        for number, (path, statements) in enumerate(records):
            pattern = paths.EVERYTHING
            if path:
                octets = path.encode("utf-8", "surrogatepass")
                parsed = paths.pattern(octets.decode("latin-1"), dialect)
                if parsed is None:
                    continue
                pattern = parsed
            rank = number if dialect.rule_choice == "first" else -pattern.octets
            self._ranked.append((rank, pattern, statements))
        self._ranked.sort(key=itemgetter(0))
        self._wildcard_patterns = sum(
            any(pattern.segments[1:]) for _, pattern, _ in self._ranked
        )
        """The number of patterns with a ``*`` before other text, which have to be searched in a target."""

    def for_target(self, target: str, written: str = "") -> Statements:
        """Return the statements that apply to a target.

        *target* and *written* are the two parts of a
        :class:`~scrapy_rep.protocol.robotstxt.paths.Target`. If they are too long to compare
        with all patterns, every statement that disallows a use applies.
        """
        if (len(target) + len(written)) * self._wildcard_patterns > MAX_COMPARED:
            everything = chain.from_iterable(map(itemgetter(2), self._ranked))
            return limited(
                statement for statement in everything if statement.value is False
            )
        decoded = paths.with_decoded_query(target, self._dialect)
        for _, records in groupby(self._ranked, key=itemgetter(0)):
            matching = [
                statements
                for _, pattern, statements in records
                if paths.matches(pattern, target, decoded, written)
            ]
            if matching:
                return limited(chain.from_iterable(matching))
        return ()


PURPOSE_TOKENS = tuple(
    label.name for label in LABELS if label.signal is Signal.USER_AGENT
)
"""The tokens in user-agent lines that name a purpose. The rules of a group for such a token are usage
statements. They do not restrict access, since no crawler has such a name."""

_BY_PATH = (Signal.CONTENT_USAGE, Signal.CONTENT_SIGNAL)
_SIGNALS = {signal.lower(): signal for signal in (*_BY_PATH, Signal.LICENSE)}
FIELDS = frozenset(_SIGNALS)
"""The fields of usage records, in lower case."""

_NAMES = tuple(name.encode() for name in (*FIELDS, *PURPOSE_TOKENS))
_RULES = frozenset({*RULES, "content-usage"})

# The number of characters of usage records that are read for one crawler: more than any site has. The
# limit is needed because a dictionary takes a thousand times as long to parse as a rule.
_MAX_READ = 50_000


def may_state_usage(body: bytes, dialect: Dialect) -> bool:
    """Whether a robots.txt may have usage records, by a fast search that rules out most files."""
    if NUL in body:  # The file may be in UTF-16.
        body = decoded_text(body, dialect)
    lowered = body.lower()
    return any(name in lowered for name in _NAMES)


class UsageRecords:
    """The usage records of a robots.txt for one crawler, and the purposes that have groups of their own."""

    __slots__ = ("_by_path", "_licenses", "purpose_tokens")

    def __init__(
        self, body: bytes, agents: str | tuple[str, ...], dialect: Dialect
    ) -> None:
        tokens = (agents,) if isinstance(agents, str) else agents
        all_lines = [*lines(body, dialect)]
        groups = groups_of(all_lines, dialect, _RULES)
        group_tokens = {token for group in groups for token in group.agents}
        agent, matching = choose_agent(tokens, group_tokens, dialect)
        self.purpose_tokens = [
            token for token in PURPOSE_TOKENS if token in group_tokens
        ]
        """The tokens of purposes for which the file has a group."""

        self._by_path: list[StatementsByPath] = []
        self._licenses: tuple[UsageStatement, ...] = ()
        for_all = records_for_all(all_lines)
        for_agent = _records_of(groups, matching, dialect)
        # This is the file order: the records for all crawlers stand before the first group.
        for addressee, records in ((None, for_all), (agent, for_agent)):
            by_signal: dict[Signal, list[OtherRecord]] = {}
            for record in _within_limit(records):
                by_signal.setdefault(_SIGNALS[record.field], []).append(record)
            for signal in _BY_PATH:
                if signal in by_signal:
                    # Records without a known label are included: they override records with
                    # shorter paths.
                    by_path = [
                        (
                            split_path(record.value)[0],
                            tuple(statements_of(record, addressee)),
                        )
                        for record in by_signal[signal]
                    ]
                    self._by_path.append(StatementsByPath(by_path, dialect))
            if Signal.LICENSE in by_signal:
                # Licences in a group override the licences for all (RSL 1.0, 4.4.3).
                self._licenses = limited(
                    statement
                    for record in by_signal[Signal.LICENSE]
                    for statement in statements_of(record, addressee)
                    if "://" in statement.label  # An absolute URI (RSL 1.0, 4.4.1).
                )

    def of_target(self, target: str, written: str = "") -> UsagePreferences:
        """Return the preferences for a target that the crawler may fetch. *target* and *written* are as in
        :meth:`StatementsByPath.for_target`.
        """
        statements = [
            statement
            for by_path in self._by_path
            for statement in by_path.for_target(target, written)
        ]
        statements += self._licenses
        return UsagePreferences(limited(statements)) if statements else NOTHING_STATED


def purpose_statements(token: str, decision: Decision) -> Statements:
    """Return the usage statement that the groups for a purpose make about a URL, as a tuple with one item.
    Return an empty tuple if no rule of these groups decides. The groups for all crawlers (``*``) are ignored.

    *token* is the product token that stands for the purpose, and *decision* is the decision on the URL for a
    crawler with that token.
    """
    rule = decision.rule
    if decision.agent != token or rule is None:
        return ()
    location = Source.ROBOTS_TXT, Signal.USER_AGENT, None, rule.line
    text = f"{Signal.USER_AGENT}: {token}, {rule}"
    value = "allow" if decision.allowed else "disallow"
    return tuple(statements_at(location, text, [(token, value)]))


def records_for_all(lines: Iterable[Line]) -> list[OtherRecord]:
    """Return the usage records for all crawlers: the records before the first group."""
    before = takewhile(lambda line: line.field != USER_AGENT, lines)
    return [
        OtherRecord(field, value.decode("utf-8", "replace"), number)
        for number, field, value in before
        if field in FIELDS and field not in _RULES
    ]


def _records_of(
    groups: Iterable[Group], tokens: AbstractSet[str], dialect: Dialect
) -> list[OtherRecord]:
    """Return the usage records that apply to the agents *tokens*."""
    by_group = [
        [
            record
            for record in group.records
            if record.field in FIELDS
            and (record.run in runs or record.field not in RUN_FIELDS)
        ]
        for group in groups
        if (runs := group.runs_of(tokens))
    ]
    return [*chain.from_iterable(by_group if dialect.merge_groups else by_group[:1])]


def _within_limit(records: list[OtherRecord]) -> list[OtherRecord]:
    """Return the first *records* that together have at most ``_MAX_READ`` characters."""
    sizes = accumulate(len(record.value) for record in records)
    return [
        record for record, size in zip(records, sizes, strict=True) if size <= _MAX_READ
    ]


def statements_of(record: OtherRecord, agent: str | None) -> Iterable[UsageStatement]:
    """Return the statements that a usage record makes. They are addressed to *agent*, or to all crawlers
    if *agent* is None.
    """
    signal, expression = expression_of(record.field, record.value)
    text = f"{signal}: {record.value}"
    location = Source.ROBOTS_TXT, signal, agent, record.line
    return statements_at(location, text, expression.pairs)


def expression_of(field: str, value: str) -> tuple[Signal, Expression]:
    """Return the signal of a usage record with this *field*, and the labels and values in its *value*."""
    signal = _SIGNALS[field]
    return signal, read_expression(signal, split_path(value)[1])


MAX_SIZE = 512_000
"""The size of the largest tdmrep.json that is read, in bytes. A larger file states nothing, because a
part of it is not valid JSON."""

# TDMRep refers to the draft of RFC 9309 for patterns, but the first rule that matches counts.
_IN_SEQUENCE = replace(RFC9309, name="tdmrep", rule_choice="first")


class TdmRep:
    """A parsed tdmrep.json. Create an instance with :meth:`parse`. Instances are immutable."""

    __slots__ = ("_statements", "is_valid")

    def __init__(self, rules: list[Any] | None) -> None:
        self.is_valid = rules is not None
        """Whether the file is a JSON array. Otherwise it states nothing."""

        self._statements = StatementsByPath(_tdmrep_records(rules or []), _IN_SEQUENCE)

    @classmethod
    def parse(cls, body: bytes) -> TdmRep:
        """Parse a tdmrep.json. A file that is too long, or not an array of rules, states nothing."""
        try:
            rules = json.loads(body) if len(body) <= MAX_SIZE else None
        except (ValueError, RecursionError):
            rules = None
        return cls(rules if isinstance(rules, list) else None)

    def usage(self, url: str) -> UsagePreferences:
        """Return the usage preferences that the file states for *url*."""
        statements = self._statements.for_target(*paths.target(url, _IN_SEQUENCE))
        return UsagePreferences(statements) if statements else NOTHING_STATED


def _tdmrep_records(rules: list[Any]) -> Iterator[tuple[str, Statements]]:
    """Yield the path and the statements of each rule of a tdmrep.json."""
    for number, rule in enumerate(rules, 1):
        path = rule.get("location") if isinstance(rule, dict) else None
        if isinstance(path, str) and (path := path.strip(" \t\v\f")):
            yield path, tuple(_tdmrep_statements(number, path[:MAX_SHOWN], rule))


def _tdmrep_statements(
    number: int, path: str, rule: dict[str, Any]
) -> Iterator[UsageStatement]:
    """Yield the statements of the rule *number* of a tdmrep.json, which is about *path*."""
    value: Any = rule.get("tdm-reservation")
    # In JSON, true is not 1, as it is in Python.
    is_valid = value in (0, 1) and not isinstance(value, bool)
    pair = "tdm-reservation", str(int(value)) if is_valid else None
    location = Source.TDMREP, Signal.TDM_RESERVATION, None, number
    # An array or object is not shown: repr() would recurse as deep as the file nests it.
    shown = type(value).__name__ if isinstance(value, list | dict) else repr(value)
    text = f"{path}: tdm-reservation {shown:.60}"
    yield from statements_at(location, text, [pair])
    policy = rule.get("tdm-policy")
    if isinstance(policy, str):
        location = Source.TDMREP, Signal.TDM_POLICY, None, number
        text = f"{path}: tdm-policy {policy}"
        yield from statements_at(location, text, [(policy, None)])
