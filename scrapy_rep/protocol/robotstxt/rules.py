"""Decides whether a crawler may fetch a URL, by the allow and disallow lines of its groups.

:class:`RuleList` sorts the rules by precedence, so that the first rule that matches decides.
:func:`first_answer` decides on a single URL without sorting all rules.
"""

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import cache
from operator import itemgetter
from typing import NamedTuple

from scrapy_rep.protocol.dialect import Dialect
from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.robotstxt.lines import GroupText, PlainLine
from scrapy_rep.protocol.text import WHITE_SPACE, WS


class Reason(str, Enum):
    """The reason for a decision."""

    RULE = "rule"
    """A rule matched."""
    NO_RULE = "no-rule"
    """The crawler follows a group, but no rule in it matches."""
    NO_GROUP = "no-group"
    """There is no group for the crawler, and none for ``*``."""
    ROBOTS_TXT = "robots-txt"
    """The URL is that of robots.txt itself."""
    UNAVAILABLE = "unavailable"
    """robots.txt does not exist, or access to it is denied (RFC 9309, 2.3.1.3)."""
    UNREACHABLE = "unreachable"
    """robots.txt is unreachable (RFC 9309, 2.3.1.4)."""
    OVERRIDE = "override"
    """An override in the settings decided."""
    CRAWL_DELAY = "crawl-delay"
    """robots.txt asks for a longer delay between requests than the settings allow."""
    BACK_OFF = "back-off"
    """The host has asked for a longer pause, by 429 or 503, than the settings allow."""
    BUDGET = "budget"
    """The host has had as many pages as the settings allow."""
    BAD_URL = "bad-url"
    """The URL has an invalid host or port, so there is no robots.txt for it."""
    TOO_LONG = "too-long"
    """The URL is too long to compare with all rules that have a ``*``: its path and query have over
    65,536 octets, or the comparisons would take over 4,000,000 octets."""

    __str__ = str.__str__


class Decision(NamedTuple):
    """Whether a crawler may fetch a URL, and why."""

    allowed: bool

    rule: "Rule | None"
    """The rule that decided; None if no rule did."""

    agent: str | None
    """The product token of the groups that the crawler followed, or ``*``; None if it followed none."""

    reason: Reason

    form: str = ""
    """The form of the URL that is forbidden, if the URL as written is allowed (see
    :mod:`~scrapy_rep.protocol.request_target`); otherwise empty."""

    @property
    def line(self) -> int:
        """The line number of the rule that decided, from 1; 0 if no rule did."""
        return self.rule.line if self.rule else 0


MAX_TARGET = 65_536
"""The longest target, in octets, that is compared with patterns that have a ``*``."""

MAX_COMPARED = 4_000_000
"""The number of octets that one decision may compare with patterns that have a ``*``: enough to
compare a target of 1 KB with about 4,000 patterns, in some hundredths of a second."""

TOO_LONG = -1
"""The result of :meth:`RuleList.winner` if these limits do not suffice to find the rule."""

# The cost of comparing a target with a pattern, in octets. Each segment of the pattern costs _SEGMENT
# octets. Python may compare the pattern at each octet of the target, so the length of the target counts
# once, and once more for each _OCTETS_AT_ONCE octets of the pattern. Only the first _MAX_COSTLY octets
# of a pattern count.
_SEGMENT = 64
_OCTETS_AT_ONCE = 32
_MAX_COSTLY = 2_048

# The length of the text by which a pattern with a "*" is ruled out. Four characters rule out most patterns.
_REQUIRED_LENGTH = 4

# There are two ways to see which patterns may match a target. Up to this number of patterns, times the
# octets of the target, the required text of each pattern is searched in the target: for 2,000 patterns
# and 500 octets, this takes a millisecond. For more, a look-up in a set of all short parts of the target
# is faster.
_MAX_SEARCHED = 1_000_000

# How many octets of rules first_answer() sorts. It needs no other limit: so few never reach MAX_COMPARED.
_MAX_CANDIDATES = 2_048

_LITERAL = re.compile(rf"/[{paths.NORMAL_CLASS}]*").fullmatch
"""Matches the value of a rule that is a literal pattern, and needs no normalization."""

# Applied to the rest of a pattern, after the literal text at its start: skips leading "*"s, and captures
# the literal text after them, which each matching target has too.
_FIRST_PART: Callable[[str], re.Match[str]] = re.compile(
    rf"\**([{paths.NORMAL_CLASS}]*)"
).match  # type: ignore[assignment]  # It matches any text.

_NORMAL_START: Callable[[str], re.Match[str]] = re.compile(
    rf"[{paths.NORMAL_CLASS}]*"
).match  # type: ignore[assignment]  # It matches any text.

# Finds the runs of normal characters. A "%" with the hex digits after it gives an empty run.
_NORMAL_RUN = re.compile(rf"%[0-9A-Fa-f]{{0,2}}|([{paths.NORMAL_CLASS}]+)").findall

# The class of each normal character. There are eight classes, and _candidates_for() compiles an expression
# for each class. With a single expression, the delay and the first decision take 1.1 times as long. An
# expression for each character would take as long to compile as it saves on a dozen hosts.
_CLASS_OF = {
    character: paths.NORMAL[number % 8 :: 8]
    for number, character in enumerate(paths.NORMAL)
}


class Rule(NamedTuple):
    """The line that decides about a URL: an allow or disallow line (RFC 9309, 2.2.2), or a ``Crawl-delay`` or
    ``Request-rate`` line, if the URL is refused because the delay is too long.
    """

    kind: str
    """The field of the line in lower case: ``allow``, ``disallow``, ``crawl-delay``, ``request-rate``."""

    pattern: str
    """The pattern, or the value of a delay, as written. Invalid UTF-8 becomes U+FFFD."""

    line: int
    """The number of the line, from 1."""

    def __str__(self) -> str:
        return f"{self.kind.capitalize()}: {self.pattern}"


class RuleList:
    """Allow and disallow lines in order of precedence: of the rules that match a target, the rule with
    the lowest index decides.

    Literal patterns are found by a binary search. Patterns with a ``*``, and patterns that may end
    within an encoded octet, are compared one by one.
    """

    __slots__ = (
        "_best", "_compared", "_dialect", "_exact", "_lines", "_parents", "_patterns",
        "_prefixes", "_values", "allows",
    )  # fmt: skip

    def __init__(self, lines: Iterable[PlainLine], dialect: Dialect) -> None:
        self._dialect = dialect
        rules = _sorted(lines, dialect)
        no_rule = len(rules)

        self.allows = bytes([*(allows for _, _, allows, _, _ in rules), True, False])
        """For each result of :meth:`winner`, whether it allows: for each rule; then True if no rule
        matches; and, as the last item, False for :data:`TOO_LONG`, which is -1."""

        self._lines = _compact([line for _, line, _, _, _ in rules])
        self._values = [value for _, _, _, value, _ in rules]

        literals: dict[str, int] = {}
        exact: dict[str, int] = {}
        self._compared: list[tuple[int, str, str]] = []
        """The patterns that are compared one by one: the index of the rule, a text that each matching
        target contains, and a text that each matching target begins with."""

        self._patterns: dict[int, paths.Pattern] = {}
        """Parsed patterns, by the index of their rule. A pattern is kept only once a target may match it,
        because all parsed patterns would take most of the memory."""

        for index, (_, _, allows, value, pattern) in enumerate(rules):
            if pattern is None:
                literals.setdefault(value, index)
                continue
            if len(pattern.segments) == 1:
                indexes = exact if pattern.anchored else literals
                indexes.setdefault(pattern.segments[0], index)
                if pattern.anchored or "%" not in "".join(pattern.written)[-2:]:
                    continue
                # The pattern may end within an encoded octet of a target, so it is also compared as written.
            self._compared.append((index, _required(pattern), _prefix(pattern)))
            if allows and dialect.index_html_quirk:
                # The value may also have the pattern of a directory, which _parse() would not return.
                self._patterns[index] = pattern
        literals.setdefault("", no_rule)
        self._exact = exact

        self._prefixes = prefixes = sorted(literals)
        parents = _parents(prefixes)
        best = list(map(literals.__getitem__, prefixes))
        for at, parent in enumerate(parents):
            best[at] = min(best[at], best[parent])
        self._parents = _compact(parents)
        self._best = _compact(best)
        """For each literal, the lowest index of a rule among the literals with which it begins, itself
        included: the rule that decides if this is the longest literal that matches."""

    def winner(
        self, target: str, written: str = "", max_compared: int = MAX_COMPARED
    ) -> int:
        """Return the index of the rule that decides on a target: the number of rules if no rule matches,
        or :data:`TOO_LONG` if the comparisons would take more than *max_compared* octets.

        *target* and *written* are the two parts of a :class:`~scrapy_rep.protocol.robotstxt.paths.Target`.
        """
        decoded = target
        if "%" in target:
            decoded = paths.with_decoded_query(target, self._dialect)
        best = self._best_literal(decoded)
        compared = self._compared
        if not compared:
            return best
        if len(target) > MAX_TARGET:
            may_match = any(target.startswith(prefix) for _, _, prefix in compared)
            return TOO_LONG if may_match else best
        searched = f"{target} {written}" if written else target
        is_short = len(compared) * len(searched) <= _MAX_SEARCHED
        parts = searched if is_short else _parts_of(searched)
        octets_left = max_compared
        for index, required, prefix in compared:
            if required not in parts:  # This rules out most patterns.
                continue
            if index > best:
                break
            if target.startswith(prefix):
                pattern = self._patterns.get(index) or self._parse(index)
                octets_left -= _cost(pattern, len(searched))
                if octets_left < 0:
                    return TOO_LONG
                if paths.matches(pattern, target, decoded, written):
                    return index
        return best

    def _best_literal(self, target: str) -> int:
        """Return the lowest index of the rules without a ``*`` that match *target*."""
        prefixes, parents = self._prefixes, self._parents
        at = bisect_right(prefixes, target) - 1
        while not target.startswith(prefixes[at]):
            at = parents[at]
        best: int = self._best[at]
        return min(best, self._exact.get(target, best)) if self._exact else best

    def rule(self, index: int) -> tuple[bool, Rule] | None:
        """Return whether a rule allows, and the rule itself, for an *index* from :meth:`winner`; None if no
        rule decided.
        """
        if not 0 <= index < len(self._values):
            return None
        allows, value = bool(self.allows[index]), self._values[index]
        # An empty rule that has an effect is a Disallow that allows everything.
        kind = "allow" if allows and value else "disallow"
        written = value.encode("latin-1").decode("utf-8", "replace")
        return allows, Rule(kind, written, self._lines[index])

    def _parse(self, index: int) -> paths.Pattern:
        pattern = paths.pattern(self._values[index], self._dialect)
        assert pattern is not None
        self._patterns[index] = pattern
        return pattern


def first_answer(
    target: str, written: str, texts: Iterable[GroupText], dialect: Dialect
) -> bool | None:
    """Return whether the rules in *texts* allow a target, but parse and sort only the few rules that may
    match the target. Return None if there are too many of them: then a :class:`RuleList` should decide.

    *target* and *written* are as in :meth:`RuleList.winner`. The target must not have a ``%2F`` or
    ``%3F``, which may match a raw character.
    """
    find_candidates = _candidates_for(_CLASS_OF.get(target[1:2], ""))
    lines = [
        line for text, _ in texts for line in find_candidates(text.decode("latin-1"))
    ]
    searched = f"{target} {written}" if written else target
    candidates = [
        (number, "disallow" if disallows else "allow", prefix + rest)
        for number, (disallows, prefix, rest) in enumerate(lines)
        if target.startswith(prefix) and _FIRST_PART(rest)[1] in searched
    ]
    if sum(len(value) for _, _, value in candidates) > _MAX_CANDIDATES:
        return None
    for _, _, allows, value, pattern in _sorted(candidates, dialect):
        if pattern is None:
            is_match = target.startswith(value)
        else:
            is_match = paths.matches(pattern, target, target, written)
        if is_match:
            return allows
    return True


@cache
def _candidates_for(characters: str) -> Callable[[str], list[tuple[str, str, str]]]:
    """Return a function that finds rule lines in a text. It finds those that may match a target with one of
    *characters* behind its first slash: their value has one of *characters* there too, or a wildcard
    or another character that is not a normal one.

    For each line, the function returns "d" for a disallow line, or an empty string; the literal text
    at the start of the value, with which each matching target begins; and the rest of the line.
    """
    others = re.escape("".join(sorted({*paths.NORMAL} - {*characters})))
    return re.compile(
        rf"\n(?!Disallow: /[{others}])"  # Fast: this rules out most lines.
        rf"{WS}(?:([dD])(?i:isallow)|[aA](?i:llow)){WS}:{WS}"
        rf"(?:(/(?![{others}])[{paths.NORMAL_CLASS}]*)|(?![/{WHITE_SPACE}]))([^#\n]*)"
    ).findall


def effect_of(
    value: str, dialect: Dialect, *, allows: bool
) -> tuple[bool, list[paths.Pattern]]:
    """Return whether the rule *value* allows, and its patterns. *allows* says whether its field is Allow.

    A rule without effect has no pattern. A rule that also allows the directory of an index page has
    two patterns. An empty Disallow that allows everything has the pattern of everything.
    """
    if not value:
        allows_all = not allows and dialect.empty_disallow == "allow-all"
        return True, [paths.EVERYTHING] if allows_all else []
    patterns = [paths.pattern(value, dialect)]
    if allows and dialect.index_html_quirk:
        patterns.append(paths.directory_of_index(value, dialect))
    return allows, [pattern for pattern in patterns if pattern is not None]


_SortedRule = tuple[int, int, bool, str, "paths.Pattern | None"]
"""A rule to sort: its sort key, the number of its line, whether it allows, its value with one
character for each octet, and its pattern; None if the value is literal and needs no normalization."""


def _sorted(lines: Iterable[PlainLine], dialect: Dialect) -> list[_SortedRule]:
    """Return the rules of *lines* in order of precedence. Of equal rules, only the first is kept."""
    disallows: dict[str, int] = {}
    allows: dict[str, int] = {}
    for number, field, rest in lines:
        values = disallows if field == "disallow" else allows
        # The same code as in octets(), without a call for each rule.
        values.setdefault(rest.partition("#")[0].strip(WHITE_SPACE), number)
    first_wins = dialect.rule_choice == "first"
    rules: list[_SortedRule] = []
    for is_allow, values in ((False, disallows), (True, allows)):
        has_quirk = is_allow and dialect.index_html_quirk
        for value, number in values.items():
            # Without this branch, to read and sort all rules takes 1.25 times as long.
            if _LITERAL(value) and not has_quirk:
                rank = 0 if first_wins else -2 * len(value) - is_allow
                rules.append((rank, number, is_allow, value, None))
                continue
            effect, patterns = effect_of(value, dialect, allows=is_allow)
            for pattern in patterns:
                rank = 0 if first_wins else -2 * pattern.octets - effect
                rules.append((rank, number, effect, value, pattern))
    rules.sort(key=itemgetter(0, 1))
    return rules


def _prefix(pattern: paths.Pattern) -> str:
    """Return a text with which each target that matches *pattern* begins, normalized.

    This is the text of the pattern up to the first ``*``, but not beyond a character that
    normalization changes, since the pattern may match as written, nor beyond a delimiter in the
    query, which may be encoded in a target.
    """
    prefix = pattern.segments[0]
    is_changed = pattern.written and pattern.written != pattern.segments
    if is_changed or paths.PERCENT_ALONE.search(prefix):
        prefix = _NORMAL_START(prefix)[0]
    path, mark, query = prefix.partition("?")
    if pattern.has_query:
        query = query.replace("?", "/").partition("/")[0]
    return path + mark + query


def _required(pattern: paths.Pattern) -> str:
    """Return a text that each target that matches *pattern* contains: the end of its longest part after
    the first ``*``.
    """
    parts: Iterable[str] = pattern.segments[1:]
    is_normal = not pattern.written or pattern.written == pattern.segments
    if not is_normal:
        parts = _NORMAL_RUN(" ".join(pattern.written[1:]))
    if pattern.has_query:
        # An encoded delimiter may stand for a raw one.
        parts = "/".join(parts).replace("?", "/").split("/")
    required = max(parts, key=len, default="")[-_REQUIRED_LENGTH:]
    # If a character of the pattern has to be encoded, each matching target has a "%".
    has_encoded = not is_normal and any("%" in part for part in pattern.segments[1:])
    return "%" if has_encoded and not required else required


def _parts_of(target: str) -> AbstractSet[str]:
    """Return all substrings of *target* of up to four characters: a pattern requires no longer text."""
    parts = {""}
    for length in range(1, _REQUIRED_LENGTH + 1):
        starts = range(len(target) - length + 1)
        parts.update([target[at : at + length] for at in starts])
    return parts


def _cost(pattern: paths.Pattern, octets: int) -> int:
    """Return the cost of comparing *pattern* with a target of this length. Both are in octets."""
    times = 1 + min(pattern.octets, _MAX_COSTLY) // _OCTETS_AT_ONCE
    return octets * times + _SEGMENT * len(pattern.segments)


def _parents(prefixes: list[str]) -> list[int]:
    """Return the index of each prefix's parent: the longest other prefix with which it begins.

    *prefixes* are sorted. The first is empty, so all others begin with it.
    """
    parents = [0] * len(prefixes)
    for at in range(1, len(prefixes)):
        prefix, parent = prefixes[at], at - 1
        while not prefix.startswith(prefixes[parent]):
            parent = parents[parent]
        parents[at] = parent
    return parents


def _compact(numbers: list[int]) -> Sequence[int]:
    """Return *numbers* in a compact sequence: with lists, a host takes 1.25 times as much memory. In most
    files, each number fits into a byte.
    """
    fit = max(numbers, default=0) < 256
    return bytes(numbers) if fit else array("I", numbers)
