"""Finds the usage statements about a URL in the robots.txt and the tdmrep.json of its site.

The usage records of a robots.txt stand in groups, like rules (RFC 9309, 2.2.1):

- ``Content-Usage`` is a rule (draft-ietf-aipref-attach-05, 3). It applies to the whole group, and a
  user-agent line after it begins a new group.
- ``License`` is not a rule. It applies to the whole group, and a user-agent line after it continues the
  group.
- ``Content-Signal`` is not a rule. A user-agent line after it continues the group. Like a
  ``Crawl-delay``, it applies only to the closest user-agent lines above it.

A group may be addressed to a purpose instead of a crawler: ``User-agent: __usage_ai-training``. The
rules of this group state which URLs may be used for the purpose. The source is
draft-kelley-aipref-training-preference-signal-00. According to its abstract, paths and precedence are
the same as in all other groups.

``/.well-known/tdmrep.json`` contains an origin's reservations of rights (TDM Reservation Protocol,
"TDM File on the Origin Server"). The file is an array of rules. Each rule has a ``location``, which
matches like a path pattern of robots.txt, a ``tdm-reservation``, and an optional ``tdm-policy``. The
first rule that matches a URL applies.
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
"""The maximum effort of comparing one target, which is the path and query of a URL, with the patterns of a file. The
effort is the length of the target in octets, times the number of patterns with text after a ``*``. If it exceeds this
limit, the target is not compared, and all statements in the file that disallow a use apply to the target. The limit
allows a target of 1 KB to be compared with 4,000 patterns, which takes some hundredths of a second."""


class StatementsByPath:
    """Finds the usage statements that apply to a URL. *records* are pairs of a path and the statements for this
    path. They come from robots.txt or tdmrep.json.

    The ``rule_choice`` of the dialect determines which statements apply: those of all records with the longest
    matching path, or those of the first record with a matching path. An empty path matches every URL.
    """

    __slots__ = ("_dialect", "_ranked", "_wildcard_patterns")

    def __init__(
        self, records: Iterable[tuple[str, Statements]], dialect: Dialect
    ) -> None:
        self._dialect = dialect
        self._ranked: list[tuple[int, paths.Pattern, Statements]] = []
        """The rank, the pattern and the statements of each record, sorted by rank. The rank is a number that
        orders the records by precedence. Among the records that match a URL, those with the lowest rank
        apply."""

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
        """The number of patterns with text after a ``*``, such as ``/*.pdf``. Such a pattern takes longer to
        compare with a URL, because the whole path and query of the URL is searched for the text."""

    def for_target(self, target: str, written: str = "") -> Statements:
        """Return the statements that apply to a target, which is the path and query of a URL.

        *target* is the normalized target. *written* is the target as written, or empty if only the normalized
        target must be compared (see :class:`~scrapy_rep.protocol.robotstxt.paths.Target`). If the target is too
        long to be compared with all patterns (:data:`MAX_COMPARED`), return all statements that disallow a use,
        whatever their paths.
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
"""The product tokens that name a purpose and not a crawler if they appear in a user-agent line, such as
``__usage_ai-training``. The rules of a group for one of these tokens are usage statements. They do not restrict access,
because no crawler uses such a token as its name."""

_BY_PATH = (Signal.CONTENT_USAGE, Signal.CONTENT_SIGNAL)
_SIGNALS = {signal.lower(): signal for signal in (*_BY_PATH, Signal.LICENSE)}
FIELDS = frozenset(_SIGNALS)
"""The names, in lower case, of the robots.txt fields that state usage preferences, such as ``content-signal``. A line
with one of these names is called a usage record."""

_NAMES = tuple(name.encode() for name in (*FIELDS, *PURPOSE_TOKENS))
_RULES = frozenset({*RULES, "content-usage"})

# The maximum total length, in characters, of the usage records in one robots.txt that are parsed for one crawler. No
# known robots.txt exceeds this length. The limit is needed because the value of a Content-Usage record is a Dictionary
# (RFC 9651), which takes a thousand times as long to parse as an allow or disallow rule.
_MAX_READ = 50_000


def may_state_usage(body: bytes, dialect: Dialect) -> bool:
    """Return whether a robots.txt can contain usage preferences. This fast check searches the file, without parsing it, for
    the names in :data:`FIELDS`, such as ``content-usage``, and for the tokens in :data:`PURPOSE_TOKENS`, such as
    ``__usage_ai-training``. False is certain. True is not certain: a name can be in a comment, for example.
    """
    if NUL in body:  # A null byte shows that the file may be in UTF-16.
        body = decoded_text(body, dialect)
    lowered = body.lower()
    return any(name in lowered for name in _NAMES)


class UsageRecords:
    """What a robots.txt says to one crawler about the use of pages. This consists of the usage records that apply to
    the crawler, such as ``Content-Signal: ai-train=no``, and of the purposes that appear in user-agent lines, such as
    ``User-agent: __usage_ai-training``.

    *body* is the content of robots.txt, and *agents* are the crawler's product tokens.
    """

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
        """The tokens in :data:`PURPOSE_TOKENS` that appear in user-agent lines of the robots.txt."""

        self._by_path: list[StatementsByPath] = []
        self._licenses: tuple[UsageStatement, ...] = ()
        for_all = records_for_all(all_lines)
        for_agent = _records_of(groups, matching, dialect)
        # The records for all crawlers come first, because they stand before the first group of the file.
        for addressee, records in ((None, for_all), (agent, for_agent)):
            by_signal: dict[Signal, list[OtherRecord]] = {}
            for record in _within_limit(records):
                by_signal.setdefault(_SIGNALS[record.field], []).append(record)
            for signal in _BY_PATH:
                if signal in by_signal:
                    # Records that state no known category are included, because they
                    # override records with shorter paths.
                    by_path = [
                        (
                            split_path(record.value)[0],
                            tuple(statements_of(record, addressee)),
                        )
                        for record in by_signal[signal]
                    ]
                    self._by_path.append(StatementsByPath(by_path, dialect))
            if Signal.LICENSE in by_signal:
                # The licences in a group override the licences for all crawlers (RSL 1.0, 4.4.3). Only absolute
                # URIs are valid (4.4.1).
                self._licenses = limited(
                    statement
                    for record in by_signal[Signal.LICENSE]
                    for statement in statements_of(record, addressee)
                    if "://" in statement.label
                )

    def of_target(self, target: str, written: str = "") -> UsagePreferences:
        """Return the usage preferences that the usage records state for a URL.

        *target* is the path and query of the URL after normalization, and *written* is the path and query before
        normalization. Pass the values that :func:`~scrapy_rep.protocol.robotstxt.paths.target` returns for the
        URL. If *written* is empty, only *target* is compared with the paths of the records.

        The caller must check that the crawler may fetch the URL. Groups for a purpose, such as
        ``User-agent: __usage_ai-training``, are ignored here; see :func:`purpose_statements`.
        """
        statements = [
            statement
            for by_path in self._by_path
            for statement in by_path.for_target(target, written)
        ]
        statements += self._licenses
        return UsagePreferences(limited(statements)) if statements else NOTHING_STATED


def purpose_statements(token: str, decision: Decision) -> Statements:
    """Return what the groups for a purpose, such as ``User-agent: __usage_ai-training``, say about a URL. The result
    is a tuple with one usage statement, which allows or disallows the use of the URL for the purpose. The tuple is
    empty if no rule in these groups matches the URL. The groups for all crawlers (``*``) are ignored.

    *token* is the product token that names the purpose: ``__usage_ai-training``. *decision* is the decision of
    robots.txt whether a crawler with this product token may fetch the URL.
    """
    rule = decision.rule
    if decision.agent != token or rule is None:
        return ()
    location = Source.ROBOTS_TXT, Signal.USER_AGENT, None, rule.line
    text = f"{Signal.USER_AGENT}: {token}, {rule}"
    value = "allow" if decision.allowed else "disallow"
    return tuple(statements_at(location, text, [(token, value)]))


def records_for_all(lines: Iterable[Line]) -> list[OtherRecord]:
    """Return the usage records for all crawlers, which are those before the first group. A ``Content-Usage`` before
    the first group is ignored, because ``Content-Usage`` is a rule, and rules have an effect only in groups.
    """
    before = takewhile(lambda line: line.field != USER_AGENT, lines)
    return [
        OtherRecord(field, value.decode("utf-8", "replace"), number)
        for number, field, value in before
        if field in FIELDS and field not in _RULES
    ]


def _records_of(
    groups: Iterable[Group], tokens: AbstractSet[str], dialect: Dialect
) -> list[OtherRecord]:
    """Return the usage records in *groups* that apply to a crawler. *tokens* are the product tokens in user-agent
    lines that match the crawler. In a dialect that does not merge groups, only the records of the first group with
    such a user-agent line are returned.
    """
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
    """Return the records at the beginning of *records* whose total length is at most ``_MAX_READ`` characters."""
    sizes = accumulate(len(record.value) for record in records)
    return [
        record for record, size in zip(records, sizes, strict=True) if size <= _MAX_READ
    ]


def statements_of(record: OtherRecord, agent: str | None) -> Iterable[UsageStatement]:
    """Parse a usage record of robots.txt into its usage statements. *agent* is the crawler to which the record is
    addressed; None if the record stands before the first group, and is therefore addressed to all crawlers.
    *agent* is stored in each statement.
    """
    signal, expression = expression_of(record.field, record.value)
    text = f"{signal}: {record.value}"
    location = Source.ROBOTS_TXT, signal, agent, record.line
    return statements_at(location, text, expression.pairs)


def expression_of(field: str, value: str) -> tuple[Signal, Expression]:
    """Parse a usage record of robots.txt, such as ``Content-Signal: /blog/ search=yes, ai-train=no``. *field* is
    the name before the colon, in lower case, and *value* is the text after the colon.

    Return the kind of usage statement (``Content-Signal``) and the parsed text, which contains the pairs of names
    and values in the record (``search=yes`` and ``ai-train=no``). The path at the start of *value* is skipped.
    """
    signal = _SIGNALS[field]
    return signal, read_expression(signal, split_path(value)[1])


MAX_SIZE = 512_000
"""The maximum size, in bytes, of a tdmrep.json. A larger file is ignored as a whole. It cannot be cut to this size,
because a part of a file is not valid JSON."""

# TDMRep adopts the path patterns of a draft of RFC 9309. But in TDMRep, the first rule that matches applies, and not
# the rule with the longest pattern.
_IN_SEQUENCE = replace(RFC9309, name="tdmrep", rule_choice="first")


class TdmRep:
    """A parsed tdmrep.json, the file in which an origin states usage preferences for its paths. Create an instance
    with :meth:`parse`. Instances are immutable.
    """

    __slots__ = ("_statements", "is_valid")

    def __init__(self, rules: list[Any] | None) -> None:
        self.is_valid = rules is not None
        """Whether the file is a JSON array of at most :data:`MAX_SIZE` bytes. If False, this instance contains
        no statements."""

        self._statements = StatementsByPath(_tdmrep_records(rules or []), _IN_SEQUENCE)

    @classmethod
    def parse(cls, body: bytes) -> TdmRep:
        """Parse a tdmrep.json. A file that is too large, or is not a JSON array, gives an instance without
        statements.
        """
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
    """Yield the path and the statements of each rule in a tdmrep.json. Rules without a path are skipped."""
    for number, rule in enumerate(rules, 1):
        path = rule.get("location") if isinstance(rule, dict) else None
        if isinstance(path, str) and (path := path.strip(" \t\v\f")):
            yield path, tuple(_tdmrep_statements(number, path[:MAX_SHOWN], rule))


def _tdmrep_statements(
    number: int, path: str, rule: dict[str, Any]
) -> Iterator[UsageStatement]:
    """Yield the usage statements in *rule*, which is the rule for *path* in a tdmrep.json. *number* is the position
    of the rule in the file, from 1.
    """
    value: Any = rule.get("tdm-reservation")
    # In JSON, true and 1 are different values, but in Python, True == 1.
    is_valid = value in (0, 1) and not isinstance(value, bool)
    pair = "tdm-reservation", str(int(value)) if is_valid else None
    location = Source.TDMREP, Signal.TDM_RESERVATION, None, number
    # For an array or object, only its type is shown, because repr() might exceed the recursion limit.
    shown = type(value).__name__ if isinstance(value, list | dict) else repr(value)
    text = f"{path}: tdm-reservation {shown:.60}"
    yield from statements_at(location, text, [pair])
    policy = rule.get("tdm-policy")
    if isinstance(policy, str):
        location = Source.TDMREP, Signal.TDM_POLICY, None, number
        text = f"{path}: tdm-policy {policy}"
        yield from statements_at(location, text, [(policy, None)])
