"""The usage statements of a site for a URL: the records of its robots.txt, and its tdmrep.json.

A group of robots.txt for the token of a purpose, ``User-agent: __usage_ai-training``, states by its
rules whether a URL may be used for it (draft-kelley-aipref-training-preference-signal-00): the
abstract of the draft says that such groups have the paths and the precedence of all groups.

The usage records of a robots.txt, ``Content-Usage``, ``Content-Signal`` and ``License``, belong to
groups, like rules (RFC 9309, 2.2.1). ``Content-Usage`` is a rule (draft-ietf-aipref-attach-05, 3):
the next user-agent line begins a new group. ``Content-Signal`` and ``License`` are other records,
and end no group. A ``Content-Signal`` applies only to the run of user-agent lines directly above
it, as a ``Crawl-delay`` does.

``/.well-known/tdmrep.json`` has the reservations of an origin, by path. Source: TDM Reservation
Protocol, "TDM File on the Origin Server". The file is an array of rules. Each has a ``location``,
which matches like a path pattern of robots.txt, a ``tdm-reservation``, and an optional
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
"""The number of octets that are compared for one target, counted for each pattern with a ``*``. That is
enough to compare a target of 1 KB with 4,000 patterns, in some hundredths of a second."""


class StatementsByPath:
    """The usage statements of records, each with the path that it is about.

    For a URL, the records with the longest matching patterns count together, or only the first
    record that matches, depending on the dialect.
    """

    __slots__ = ("_dialect", "_ranked", "_searched")

    def __init__(
        self, records: Iterable[tuple[str, Statements]], dialect: Dialect
    ) -> None:
        self._dialect = dialect
        self._ranked: list[tuple[int, paths.Pattern, Statements]] = []
        """The rank, the pattern and the statements of each record. Of the records that match a URL,
        those with the lowest rank count."""

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
        self._searched = sum(
            any(pattern.segments[1:]) for _, pattern, _ in self._ranked
        )

    def for_target(self, target: str, written: str = "") -> Statements:
        """Return the statements that count for a target.

        *target* and *written* are the parts of a
        :class:`~scrapy_rep.protocol.robotstxt.paths.Target`. If they are too long to compare
        with all paths, the result is all statements that disallow a use.
        """
        if (len(target) + len(written)) * self._searched > MAX_COMPARED:
            everything = chain.from_iterable(map(itemgetter(2), self._ranked))
            return limited(
                statement for statement in everything if statement.value is False
            )
        decoded = paths.with_decoded_query(target, self._dialect)
        for _, equals in groupby(self._ranked, key=itemgetter(0)):
            matching = [
                statements
                for _, pattern, statements in equals
                if paths.matches(pattern, target, decoded, written)
            ]
            if matching:
                return limited(chain.from_iterable(matching))
        return ()


PURPOSE_TOKENS = tuple(
    label.name for label in LABELS if label.signal is Signal.USER_AGENT
)
"""The tokens in user-agent lines that name a purpose. The rules of such a group are statements about
use, and no rules for access, since no crawler has such a name."""

_BY_PATH = (Signal.CONTENT_USAGE, Signal.CONTENT_SIGNAL)
_SIGNALS = {signal.lower(): signal for signal in (*_BY_PATH, Signal.LICENSE)}
FIELDS = frozenset(_SIGNALS)
"""The fields of usage records, in lower case."""

_NAMES = tuple(name.encode() for name in (*FIELDS, *PURPOSE_TOKENS))
_RULES = frozenset({*RULES, "content-usage"})

# The number of characters of usage records that are read for one crawler: more than any site has. To
# parse a dictionary takes a thousand times as long as to parse a rule.
_MAX_READ = 50_000


def may_state_usage(body: bytes, dialect: Dialect) -> bool:
    """Whether a robots.txt may have usage records. This fast search rules out most files."""
    if NUL in body:  # The file may be in UTF-16.
        body = decoded_text(body, dialect)
    lowered = body.lower()
    for name in _NAMES:  # noqa: SIM110  any() would call a generator for each
        if name in lowered:
            return True
    return False


class UsageRecords:
    """The usage records of a robots.txt for one crawler, and the purposes that have groups."""

    __slots__ = ("_by_path", "_licenses", "purpose_tokens")

    def __init__(
        self, body: bytes, agents: str | tuple[str, ...], dialect: Dialect
    ) -> None:
        tokens = (agents,) if isinstance(agents, str) else agents
        read = [*lines(body, dialect)]
        groups = groups_of(read, dialect, _RULES)
        named = {token for group in groups for token in group.agents}
        agent, ours = choose_agent(tokens, named, dialect)
        self.purpose_tokens = [token for token in PURPOSE_TOKENS if token in named]
        """The tokens of purposes for which there is a group."""

        self._by_path: list[StatementsByPath] = []
        self._licenses: tuple[UsageStatement, ...] = ()
        # The records for all crawlers stand before the first group, so this is the file order.
        for_agent = _records_of(groups, ours, dialect)
        for whose, records in ((None, records_for_all(read)), (agent, for_agent)):
            by_signal: dict[Signal, list[OtherRecord]] = {}
            for record in _within_limit(records):
                by_signal.setdefault(_SIGNALS[record.field], []).append(record)
            for signal in _BY_PATH:
                if signal in by_signal:
                    # A record without a known label counts too: it overrides records with
                    # shorter paths.
                    by_path = [
                        (
                            split_path(record.value)[0],
                            tuple(statements_of(record, whose)),
                        )
                        for record in by_signal[signal]
                    ]
                    self._by_path.append(StatementsByPath(by_path, dialect))
            if Signal.LICENSE in by_signal:
                # Licences in a group override the licences for all (RSL 1.0, 4.4.3).
                self._licenses = limited(
                    statement
                    for record in by_signal[Signal.LICENSE]
                    for statement in statements_of(record, whose)
                    if "://" in statement.label  # An absolute URI (RSL 1.0, 4.4.1).
                )

    def of_target(self, target: str, written: str = "") -> UsagePreferences:
        """Return the preferences for a target that the crawler may fetch. The parameters are those of
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
    """Return the statement of the groups for the purpose *token* about a URL. *decision* is the decision
    on that URL for a crawler of this name. There is no statement if no rule of these groups decided;
    the groups of ``*`` do not count.
    """
    rule = decision.rule
    if decision.agent != token or rule is None:
        return ()
    location = Source.ROBOTS_TXT, Signal.USER_AGENT, None, rule.line
    text = f"{Signal.USER_AGENT}: {token}, {rule}"
    value = "allow" if decision.allowed else "disallow"
    return tuple(statements_at(location, text, [(token, value)]))


def records_for_all(read: Iterable[Line]) -> list[OtherRecord]:
    """Return the usage records for all crawlers: those that stand before the first group."""
    before = takewhile(lambda line: line.field != USER_AGENT, read)
    return [
        OtherRecord(field, value.decode("utf-8", "replace"), number)
        for number, field, value in before
        if field in FIELDS and field not in _RULES
    ]


def _records_of(
    groups: Iterable[Group], named: AbstractSet[str], dialect: Dialect
) -> list[OtherRecord]:
    """Return the usage records of the groups whose user-agent lines have one of the tokens *named*."""
    by_group = [
        [
            record
            for record in group.records
            if record.field in FIELDS
            and (record.run in ours or record.field not in RUN_FIELDS)
        ]
        for group in groups
        if (ours := group.runs_of(named))
    ]
    return [*chain.from_iterable(by_group if dialect.merge_groups else by_group[:1])]


def _within_limit(records: list[OtherRecord]) -> list[OtherRecord]:
    """Return the first records, up to the limit in characters."""
    sizes = accumulate(len(record.value) for record in records)
    return [
        record for record, size in zip(records, sizes, strict=True) if size <= _MAX_READ
    ]


def statements_of(record: OtherRecord, agent: str | None) -> Iterable[UsageStatement]:
    """Return the statements of a record, addressed to *agent*, or to all crawlers if *agent* is None."""
    signal, expression = expression_of(record.field, record.value)
    text = f"{signal}: {record.value}"
    location = Source.ROBOTS_TXT, signal, agent, record.line
    return statements_at(location, text, expression.pairs)


def expression_of(field: str, value: str) -> tuple[Signal, Expression]:
    """Return the signal of a record, and the parsed labels and values behind its path."""
    signal = _SIGNALS[field]
    return signal, read_expression(signal, split_path(value)[1])


MAX_SIZE = 512_000
"""The size of the largest tdmrep.json that is read, in bytes. A larger file states nothing, because its
part within the limit is not valid JSON."""

# TDMRep refers to the draft of RFC 9309 for patterns. The first rule that matches counts.
_IN_SEQUENCE = replace(RFC9309, name="tdmrep", rule_choice="first")


class TdmRep:
    """The rules of a tdmrep.json. Create an instance with :meth:`parse`. It is immutable."""

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
        """Return the usage preferences for *url*."""
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
    # JSON's true is not 1, though Python's is.
    is_stated = value in (0, 1) and not isinstance(value, bool)
    pair = "tdm-reservation", str(int(value)) if is_stated else None
    location = Source.TDMREP, Signal.TDM_RESERVATION, None, number
    # To write an array or object as text takes a recursion as deep as its nesting.
    shown = type(value).__name__ if isinstance(value, list | dict) else repr(value)
    text = f"{path}: tdm-reservation {shown:.60}"
    yield from statements_at(location, text, [pair])
    policy = rule.get("tdm-policy")
    if isinstance(policy, str):
        location = Source.TDMREP, Signal.TDM_POLICY, None, number
        text = f"{path}: tdm-policy {policy}"
        yield from statements_at(location, text, [(policy, None)])
