"""The decision whether a crawler may fetch a URL, and the rules of one crawler that decide it.

The rules are sorted by precedence once, so that the first rule that matches decides.
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
    """The URL is too long to compare with all rules that have a ``*``: its path and query
    have over 65,536 octets, or over 4,000,000 octets would be compared."""

    __str__ = str.__str__


class Decision(NamedTuple):
    """Whether a crawler may fetch a URL, and why."""

    allowed: bool

    rule: "Rule | None"
    """The rule that decided, or None."""

    agent: str | None
    """The product token, or ``*``, whose groups the crawler followed; None if it followed none."""

    reason: Reason

    form: str = ""
    """The form of the URL that is forbidden, although the URL as written is allowed; empty if there is
    none (see :mod:`~scrapy_rep.protocol.request_target`)."""

    @property
    def line(self) -> int:
        """The line number of the rule that decided, from 1; 0 if there is none."""
        return self.rule.line if self.rule else 0


MAX_TARGET = 65_536
"""The longest target, in octets, that is compared with patterns that have a ``*``."""

MAX_COMPARED = 4_000_000
"""The number of octets that one decision may compare with patterns that have a ``*``. That is enough to
compare a target of 1 KB with about 4,000 patterns, in some hundredths of a second."""

TOO_LONG = -1
"""The place of a rule that cannot be found within these limits."""

# The cost of comparing a target with a pattern, in octets. Python may compare a short pattern at each
# octet of a target, so the target counts once more for each _OCTETS_AT_ONCE octets of the pattern, of
# which _MAX_COSTLY count. Each segment of the pattern costs _SEGMENT octets.
_SEGMENT = 64
_OCTETS_AT_ONCE = 32
_MAX_COSTLY = 2_048

# The length of a key. Keys of this length rule out most patterns.
_KEY = 4

# Up to this product of the number of keys and the octets of the target, each key is searched in the target
# by itself: 2,000 keys and a target of 500 octets take a millisecond. Above it, a set of the parts of the
# target is faster.
_MAX_SEARCHED = 1_000_000

# The most octets of rules that a first answer sorts. So few octets never reach MAX_COMPARED.
_MAX_NEAR = 2_048

_LITERAL = re.compile(rf"/[{paths.NORMAL_CLASS}]*").fullmatch
"""Matches a value that is a normalized literal pattern."""

# Applied to what is behind the literal beginning of a pattern: skips leading "*"s, and captures the literal
# text behind them, which each matching target has.
_FIRST_PART: Callable[[str], re.Match[str]] = re.compile(
    rf"\**([{paths.NORMAL_CLASS}]*)"
).match  # type: ignore[assignment]  # It matches any text.

_NORMAL_START: Callable[[str], re.Match[str]] = re.compile(
    rf"[{paths.NORMAL_CLASS}]*"
).match  # type: ignore[assignment]  # It matches any text.

# Finds the runs of normal characters, and an empty run for a "%" with the digits behind it.
_NORMAL_RUN = re.compile(rf"%[0-9A-Fa-f]{{0,2}}|([{paths.NORMAL_CLASS}]+)").findall

# Classes of normal characters. One expression is compiled for each class: one for each character
# would take as long to compile as it saves on a dozen hosts. With one expression for all characters,
# the delay and the first decision take 1.1 times as long.
_CLASS_OF = {
    character: paths.NORMAL[number % 8 :: 8]
    for number, character in enumerate(paths.NORMAL)
}


class Rule(NamedTuple):
    """An allow or disallow line (RFC 9309, 2.2.2), or a delay because of which a URL is refused."""

    kind: str
    """``allow`` or ``disallow``; for a delay, its field in lower case."""

    pattern: str
    """The pattern as written, or the value of a delay. Invalid UTF-8 becomes U+FFFD."""

    line: int
    """The number of the line, from 1."""

    def __str__(self) -> str:
        return f"{self.kind.capitalize()}: {self.pattern}"


class RuleList:
    """Allow and disallow lines, in order of precedence.

    The *place* of a rule is its index in that order; of the rules that match a target, the one
    with the lowest place decides. Literal patterns are found by a binary search. Patterns with a
    ``*``, and those that may end within an encoded octet, are tried in order.
    """

    __slots__ = (
        "_best", "_dialect", "_exact", "_heads", "_lines", "_parents", "_patterns",
        "_tried", "_values", "allows",
    )  # fmt: skip

    def __init__(self, lines: Iterable[PlainLine], dialect: Dialect) -> None:
        self._dialect = dialect
        rules = _sorted(lines, dialect)
        none = len(rules)

        self.allows = bytes([*(allows for _, _, allows, _, _ in rules), True, False])
        """For each place, whether the rule allows. The last two are no rule, which allows, and
        :data:`TOO_LONG`, which forbids."""

        self._lines = _compact([line for _, line, _, _, _ in rules])
        self._values = [value for _, _, _, value, _ in rules]

        literals: dict[str, int] = {}
        exact: dict[str, int] = {}
        self._tried: list[tuple[int, str, str]] = []
        """The place, the key and the head of each pattern that is tried. A matching target contains the
        key and begins with the head."""

        self._patterns: dict[int, paths.Pattern] = {}
        """Parsed patterns, by their places. A pattern is parsed again when a target may match it,
        because all parsed patterns would take most of the memory."""

        for place, (_, _, allows, value, pattern) in enumerate(rules):
            if pattern is None:
                literals.setdefault(value, place)
                continue
            if len(pattern.segments) == 1:
                shape = exact if pattern.anchored else literals
                shape.setdefault(pattern.segments[0], place)
                if pattern.anchored or "%" not in "".join(pattern.written)[-2:]:
                    continue
                # The pattern may end within an encoded octet of a target, so it is tried as written too.
            self._tried.append((place, _key(pattern), _head(pattern)))
            if allows and dialect.index_html_quirk:
                # The value may have another pattern.
                self._patterns[place] = pattern
        literals.setdefault("", none)
        self._exact = exact

        self._heads = heads = sorted(literals)
        parents = _parents(heads)
        best = list(map(literals.__getitem__, heads))
        for at, parent in enumerate(parents):
            best[at] = min(best[at], best[parent])
        self._parents = _compact(parents)
        self._best = _compact(best)
        """For each head, the lowest place among the heads that it begins with, itself included."""

    def winner(
        self, target: str, written: str = "", max_compared: int = MAX_COMPARED
    ) -> int:
        """Return the place of the rule that decides on a target. It is the number of rules if none
        matches, and :data:`TOO_LONG` if too many octets would be compared.

        *target* and *written* are the parts of a :class:`~scrapy_rep.protocol.robotstxt.paths.Target`.
        *max_compared* is the number of octets that may be compared with patterns that have a ``*``.
        """
        decoded = target
        if "%" in target:
            decoded = paths.with_decoded_query(target, self._dialect)
        best = self._best_literal(decoded)
        tried = self._tried
        if not tried:
            return best
        if len(target) > MAX_TARGET:
            is_near = any(target.startswith(head) for _, _, head in tried)
            return TOO_LONG if is_near else best
        searched = f"{target} {written}" if written else target
        is_short = len(tried) * len(searched) <= _MAX_SEARCHED
        parts = searched if is_short else _parts_of(searched)
        octets_left = max_compared
        for place, key, head in tried:
            if key not in parts:  # as for most targets
                continue
            if place > best:
                break
            if target.startswith(head):
                pattern = self._patterns.get(place) or self._parse(place)
                octets_left -= _cost(pattern, len(searched))
                if octets_left < 0:
                    return TOO_LONG
                if paths.matches(pattern, target, decoded, written):
                    return place
        return best

    def _best_literal(self, target: str) -> int:
        """Return the lowest place of the patterns without a ``*`` that match *target*."""
        heads, parents = self._heads, self._parents
        at = bisect_right(heads, target) - 1
        while not target.startswith(heads[at]):
            at = parents[at]
        best: int = self._best[at]
        return min(best, self._exact.get(target, best)) if self._exact else best

    def rule(self, place: int) -> tuple[bool, Rule] | None:
        """Return whether the rule at *place* allows, and the rule; None if *place* is that of no rule."""
        if not 0 <= place < len(self._values):
            return None
        allows, value = bool(self.allows[place]), self._values[place]
        # An empty rule that has an effect is a Disallow that allows everything.
        kind = "allow" if allows and value else "disallow"
        written = value.encode("latin-1").decode("utf-8", "replace")
        return allows, Rule(kind, written, self._lines[place])

    def _parse(self, place: int) -> paths.Pattern:
        pattern = paths.pattern(self._values[place], self._dialect)
        assert pattern is not None
        self._patterns[place] = pattern
        return pattern


def first_answer(
    target: str, written: str, texts: Iterable[GroupText], dialect: Dialect
) -> bool | None:
    """Return whether the rules in *texts* allow a target, from only the rules that may match it; None if
    these are so many that a :class:`RuleList` should decide.

    *target* and *written* are as in :meth:`RuleList.winner`. The target must have no ``%2F`` or
    ``%3F``, which may match a raw character.
    """
    search = _rule_lines_near(_CLASS_OF.get(target[1:2], ""))
    lines = [line for text, _ in texts for line in search(text.decode("latin-1"))]
    searched = f"{target} {written}" if written else target
    near = [
        (number, "disallow" if disallows else "allow", head + rest)
        for number, (disallows, head, rest) in enumerate(lines)
        if target.startswith(head) and _FIRST_PART(rest)[1] in searched
    ]
    if sum(len(rest) for _, _, rest in near) > _MAX_NEAR:
        return None
    for _, _, allows, value, pattern in _sorted(near, dialect):
        if pattern is None:
            is_match = target.startswith(value)
        else:
            is_match = paths.matches(pattern, target, target, written)
        if is_match:
            return allows
    return True


@cache
def _rule_lines_near(characters: str) -> Callable[[str], list[tuple[str, str, str]]]:
    """Return a search for rule lines that may match a target whose second character is one of
    *characters*: those whose value has such a second character, or no normal one.

    For each line, it finds "d" if it is a disallow line; the part of the value that each matching
    target begins with; and the rest of the line.
    """
    others = re.escape("".join(sorted({*paths.NORMAL} - {*characters})))
    return re.compile(
        rf"\n(?!Disallow: /[{others}])"  # Most rules need only this.
        rf"{WS}(?:([dD])(?i:isallow)|[aA](?i:llow)){WS}:{WS}"
        rf"(?:(/(?![{others}])[{paths.NORMAL_CLASS}]*)|(?![/{WHITE_SPACE}]))([^#\n]*)"
    ).findall


def effect_of(
    value: str, dialect: Dialect, *, allows: bool
) -> tuple[bool, list[paths.Pattern]]:
    """Return whether a rule allows, and its patterns.

    A rule without effect has no pattern. A rule that also allows the directory of an index page has
    two patterns.
    """
    if not value:
        allows_all = not allows and dialect.empty_disallow == "allow-all"
        return True, [paths.EVERYTHING] if allows_all else []
    patterns = [paths.pattern(value, dialect)]
    if allows and dialect.index_html_quirk:
        patterns.append(paths.directory_of_index(value, dialect))
    return allows, [pattern for pattern in patterns if pattern is not None]


_SortedRule = tuple[int, int, bool, str, "paths.Pattern | None"]
"""A rule in order: its sort key, the number of its line, whether it allows, its value with one
character for each octet, and its pattern, which is None for a literal without need of normalization."""


def _sorted(lines: Iterable[PlainLine], dialect: Dialect) -> list[_SortedRule]:
    """Return the rules of *lines* in order of precedence. Of equal rules, only the first is kept."""
    disallows: dict[str, int] = {}
    allows: dict[str, int] = {}
    for number, field, rest in lines:
        values = disallows if field == "disallow" else allows
        # As octets() does it, but without a call for each rule.
        values.setdefault(rest.partition("#")[0].strip(WHITE_SPACE), number)
    first_wins = dialect.rule_choice == "first"
    rules: list[_SortedRule] = []
    for is_allow, values in ((False, disallows), (True, allows)):
        has_quirk = is_allow and dialect.index_html_quirk
        for value, number in values.items():
            # Without this, to read and sort all rules takes 1.25 times as long.
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


def _head(pattern: paths.Pattern) -> str:
    """Return the text that each matching target begins with, normalized. It is the text of *pattern* up
    to the first ``*``. It ends before a character that normalization changes, since the pattern may
    match as written, and before a delimiter in the query, which may be encoded in a target.
    """
    head = pattern.segments[0]
    is_changed = pattern.written and pattern.written != pattern.segments
    if is_changed or paths.PERCENT_ALONE.search(head):
        head = _NORMAL_START(head)[0]
    path, mark, query = head.partition("?")
    if pattern.has_query:
        query = query.replace("?", "/").partition("/")[0]
    return path + mark + query


def _key(pattern: paths.Pattern) -> str:
    """Return a part of *pattern*, behind the first ``*``, that each matching target contains."""
    parts: Iterable[str] = pattern.segments[1:]
    is_normal = not pattern.written or pattern.written == pattern.segments
    if not is_normal:
        parts = _NORMAL_RUN(" ".join(pattern.written[1:]))
    if pattern.has_query:
        # An encoded delimiter may stand for a raw one.
        parts = "/".join(parts).replace("?", "/").split("/")
    key = max(parts, key=len, default="")[-_KEY:]
    # For a character that has to be encoded, each matching target has a "%".
    has_encoded = not is_normal and any("%" in part for part in pattern.segments[1:])
    return "%" if has_encoded and not key else key


def _parts_of(target: str) -> AbstractSet[str]:
    """Return all parts of *target* that are short enough to be the key of a pattern."""
    parts = {""}
    for length in range(1, _KEY + 1):
        starts = range(len(target) - length + 1)
        parts.update([target[at : at + length] for at in starts])
    return parts


def _cost(pattern: paths.Pattern, octets: int) -> int:
    """Return the cost of comparing a target of so many *octets* with *pattern*, in octets."""
    times = 1 + min(pattern.octets, _MAX_COSTLY) // _OCTETS_AT_ONCE
    return octets * times + _SEGMENT * len(pattern.segments)


def _parents(heads: list[str]) -> list[int]:
    """Return the index of the parent of each of the sorted *heads*: the longest other head that
    it begins with. All begin with the first one.
    """
    parents = [0] * len(heads)
    for at in range(1, len(heads)):
        head, parent = heads[at], at - 1
        while not head.startswith(heads[parent]):
            parent = parents[parent]
        parents[at] = parent
    return parents


def _compact(numbers: list[int]) -> Sequence[int]:
    """Return *numbers* in a compact sequence. In most files, each number fits an octet. With lists, a
    host takes 1.25 times as much memory.
    """
    fit = max(numbers, default=0) < 256
    return bytes(numbers) if fit else array("I", numbers)
