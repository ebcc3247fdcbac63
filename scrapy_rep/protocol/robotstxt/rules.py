"""Decides whether the allow and disallow lines of a crawler's groups allow a URL.

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
    """There is neither a group for the crawler nor a group for ``*``."""
    ROBOTS_TXT = "robots-txt"
    """The URL is the URL of robots.txt itself."""
    UNAVAILABLE = "unavailable"
    """robots.txt does not exist, or access to it is denied (RFC 9309, 2.3.1.3)."""
    UNREACHABLE = "unreachable"
    """robots.txt is unreachable (RFC 9309, 2.3.1.4)."""
    OVERRIDE = "override"
    """An override in the settings decided."""
    CRAWL_DELAY = "crawl-delay"
    """robots.txt sets a longer delay between requests than the settings allow."""
    BACK_OFF = "back-off"
    """The host requested a longer pause, with status 429 or 503, than the settings allow."""
    BUDGET = "budget"
    """The crawl has fetched as many pages from the host as the settings allow."""
    BAD_URL = "bad-url"
    """The URL has an invalid host or port, so no robots.txt applies to it."""
    TOO_LONG = "too-long"
    """The URL is too long to compare with all rules that contain a ``*``. Either its path and query have
    more than 65,536 octets, or the comparisons would process more than 4,000,000 octets."""

    __str__ = str.__str__


class Decision(NamedTuple):
    """Whether a crawler may fetch a URL, and why."""

    allowed: bool

    rule: "Rule | None"
    """The rule that the decision is based on; None if the decision is not based on a rule."""

    agent: str | None
    """The product token whose groups the crawler follows, or ``*``; None if it follows no group."""

    reason: Reason

    form: str = ""
    """The forbidden form of the URL, if robots.txt allows the URL as written but forbids another form in which a
    server can see the URL, for example with decoded octets (see :mod:`~scrapy_rep.protocol.request_target`).
    Otherwise, this field is empty."""

    @property
    def line(self) -> int:
        """The line number, from 1, of the rule that the decision is based on; 0 if ``rule`` is None."""
        return self.rule.line if self.rule else 0


MAX_TARGET = 65_536
"""The maximum length, in octets, of a target that is compared with patterns that contain a ``*``. A longer target is
not compared with these patterns. To be safe, it is forbidden if it begins with the text before the first ``*`` of a
pattern, even if the pattern is that of an ``Allow``."""

MAX_COMPARED = 4_000_000
"""The maximum cost, in octets, of all comparisons that one decision makes with patterns that contain a ``*`` (see
:func:`_cost`). The limit is enough to compare a target of 1 KB with about 4,000 patterns, which takes some hundredths
of a second."""

TOO_LONG = -1
"""The result of :meth:`RuleList.winner` if the limits :data:`MAX_TARGET` and :data:`MAX_COMPARED` do not allow all
comparisons that a decision needs."""

# The parameters of _cost(), which estimates the cost, in octets, of comparing a target with a pattern:
#
#     len(target) * (1 + min(len(pattern), _MAX_COSTLY) // _OCTETS_AT_ONCE) + _SEGMENT * number_of_segments
#
# In the worst case, Python compares the pattern with the target at each octet of the target, and reads at most
# _MAX_COSTLY octets of the pattern each time. To read _OCTETS_AT_ONCE octets of the pattern costs about as much as one
# octet of the target. Each segment (a text between two "*") costs as much as _SEGMENT octets.
_SEGMENT = 64
_OCTETS_AT_ONCE = 32
_MAX_COSTLY = 2_048

# The maximum length of a pattern's required text (see _required()). A target without this text cannot match. Four
# characters are enough to rule out most patterns with a "*".
_REQUIRED_LENGTH = 4

# RuleList.winner() has two ways to find the patterns whose required text (see _required()) occurs in the target:
#
# 1. It searches the target for each required text. This takes a millisecond for 2,000 patterns and a target of 500
#    octets.
# 2. It creates a set of all short substrings of the target, and looks up each required text in the set.
#
# The first way is used if the number of patterns times the length of the target, in octets, is at most _MAX_SEARCHED.
# If the product is greater, the second way is faster.
_MAX_SEARCHED = 1_000_000

# The maximum total length, in octets, of the patterns that first_answer() sorts. first_answer() needs no other limit:
# comparing a target with patterns of this total length never costs more than MAX_COMPARED.
_MAX_CANDIDATES = 2_048

_LITERAL = re.compile(rf"/[{paths.NORMAL_CLASS}]*").fullmatch
"""Matches the value of a rule that begins with ``/`` and consists only of characters in ``paths.NORMAL``. Such a value
has no wildcards and needs no normalization."""

# Captures the text "b" of the pattern "/a*b*c". Only targets with this text can match the pattern. first_answer()
# splits the pattern before the first character that is not in paths.NORMAL, into "/a" and "*b*c", and applies this
# expression to the second part. The captured text can be empty.
_FIRST_PART: Callable[[str], re.Match[str]] = re.compile(
    rf"\**([{paths.NORMAL_CLASS}]*)"
).match  # type: ignore[assignment]  # It matches any text.

_NORMAL_START: Callable[[str], re.Match[str]] = re.compile(
    rf"[{paths.NORMAL_CLASS}]*"
).match  # type: ignore[assignment]  # It matches any text.

# Finds the runs of characters of paths.NORMAL in a text. A "%" and the hex digits after it belong to no run; they add
# an empty string to the result.
_NORMAL_RUN = re.compile(rf"%[0-9A-Fa-f]{{0,2}}|([{paths.NORMAL_CLASS}]+)").findall

# Divides the characters of paths.NORMAL into eight classes: maps each character to a string of all characters of its
# class. _candidates_for() compiles one regular expression for each class. For the first URL on a host, such as "/shop",
# first_answer() uses the expression for the class of the "s", which skips most rules that begin with other characters.
#
# The number of classes is a compromise. With a single class, the first decision on a host would take 1.1 times as long.
# With more classes, more expressions would be compiled, and an expression must be used for about a dozen hosts until it
# has saved as much time as its compilation took.
_CLASS_OF = {
    character: paths.NORMAL[number % 8 :: 8]
    for number, character in enumerate(paths.NORMAL)
}


class Rule(NamedTuple):
    """A line of a robots.txt that can decide on a URL: an allow or disallow line (RFC 9309, 2.2.2). In a
    :class:`Decision` that refuses a URL because the delay is too long, the rule is instead a ``Crawl-delay``
    or ``Request-rate`` line.
    """

    kind: str
    """The field of the line in lower case: ``allow``, ``disallow``, ``crawl-delay``, ``request-rate``."""

    pattern: str
    """The value of the line as written: a path pattern, a delay or a rate. Invalid UTF-8 becomes U+FFFD."""

    line: int
    """The number of the line, from 1."""

    def __str__(self) -> str:
        return f"{self.kind.capitalize()}: {self.pattern}"


class RuleList:
    """Allow and disallow lines in order of precedence. Among the rules that match a target, the rule with the
    lowest index decides.

    A binary search finds the matching patterns without a ``*``. Two kinds of patterns are compared with the
    target one by one: patterns with a ``*``, and patterns that can end within an encoded octet of the target, as
    ``/a%2`` does within the ``%2F`` of ``/a%2F``.
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
        """Whether a target is allowed, by the index that :meth:`winner` returns for the target. The first items are
        the effects of the rules. The next item is True, because a target that no rule matches is allowed.
        The last item, which has the index :data:`TOO_LONG` (-1), is False."""

        self._lines = _compact([line for _, line, _, _, _ in rules])
        self._values = [value for _, _, _, value, _ in rules]

        literals: dict[str, int] = {}
        exact: dict[str, int] = {}
        self._compared: list[tuple[int, str, str]] = []
        """The rules whose patterns must be compared with a target one by one (see the class docstring). Each item
        contains the index of the rule, and two texts: a target can match the pattern only if it contains the first text
        and begins with the second text."""

        self._patterns: dict[int, paths.Pattern] = {}
        """Cached parsed patterns, by the index of their rule. To save memory, a pattern is parsed only when
        :meth:`winner` first meets a target that the pattern may match. The parsed patterns of all rules
        would take most of the memory."""

        for index, (_, _, allows, value, pattern) in enumerate(rules):
            if pattern is None:
                literals.setdefault(value, index)
                continue
            if len(pattern.segments) == 1:
                indexes = exact if pattern.anchored else literals
                indexes.setdefault(pattern.segments[0], index)
                if pattern.anchored or "%" not in "".join(pattern.written)[-2:]:
                    continue
                # The pattern may end within an encoded octet of a target, as "/a%2" does within the "%2F" of
                # "/a%2F". So the pattern must be compared as written, too.
            self._compared.append((index, _required(pattern), _prefix(pattern)))
            if allows and dialect.index_html_quirk:
                # "Allow: /a/index.html" has two patterns, "/a/index.html" and "/a/$" (see effect_of()). _parse() makes
                # only the first pattern from the value of the rule, so the second pattern must be kept here.
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
        """For each prefix in ``_prefixes``, the index of a rule. For the prefix ``/ab``, this is the first rule, in
        order of precedence, with the pattern ``/``, ``/a`` or ``/ab``. If no rule has one of these patterns, the index
        is the number of rules."""
        # To decide on a target by the rules without wildcards, _best_literal() finds the longest prefix with which the
        # target begins. The index for this prefix is that of the rule that takes precedence.

    def winner(
        self, target: str, written: str = "", max_compared: int = MAX_COMPARED
    ) -> int:
        """Return the index of the rule that decides on a target. If no rule matches, return the number of rules.
        Return :data:`TOO_LONG` if the target is too long (see :data:`MAX_TARGET`), or if the comparisons would cost
        more than *max_compared* octets (see :func:`_cost`).

        *target* is the normalized target. *written* is the target as written; it is empty if only the normalized
        target must be compared (see :class:`~scrapy_rep.protocol.robotstxt.paths.Target`).
        """
        decoded = target
        if "%" in target:
            decoded = paths.with_decoded_query(target, self._dialect)
        # All patterns without a "*" are compared with the decoded target, because patterns with a "?" must be compared
        # with it. For patterns with neither "*" nor "?", the result is the same as with `target`.
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
            if required not in parts:  # True for most patterns.
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
        """Return the lowest index among the rules without a ``*`` that match *target*. If none matches, return
        the number of rules.
        """
        prefixes, parents = self._prefixes, self._parents
        at = bisect_right(prefixes, target) - 1
        while not target.startswith(prefixes[at]):
            at = parents[at]
        best: int = self._best[at]
        return min(best, self._exact.get(target, best)) if self._exact else best

    def rule(self, index: int) -> tuple[bool, Rule] | None:
        """Return whether the rule with this *index* allows URLs, and the rule itself. Return None if *index* is the
        number of rules (no rule matches) or :data:`TOO_LONG`. *index* is a result of :meth:`winner`.
        """
        if not 0 <= index < len(self._values):
            return None
        allows, value = bool(self.allows[index]), self._values[index]
        # A rule with an empty value is in the list only if it is a Disallow that allows everything.
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
    """Return whether the rules in *texts*, the texts of a crawler's groups, allow a target. Only the few rules
    that may match the target are parsed and sorted. Return None if too many rules may match; the caller
    should use a :class:`RuleList` instead.

    *target* and *written* are the two forms in a :class:`~scrapy_rep.protocol.robotstxt.paths.Target`. *target*
    must not contain ``%2F`` or ``%3F``, because this function does not decode them to compare them with a raw
    ``/`` or ``?``.
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
    """Return a function that searches the text of groups for the allow and disallow lines that can match a target with
    one of *characters* after its first slash. For speed, the function skips most of the other rules, but not all.

    For example, the function for ``"st"`` finds all rules that can match ``/shop`` or ``/tea``, such as
    ``Disallow: /s`` and ``Disallow: /*a``. It skips ``Disallow: /a``. The function for ``""`` is for targets without a
    character of ``paths.NORMAL`` after the first slash, such as ``/`` and ``/%20``.

    The function returns a tuple for each line, for example ``("D", "/a", "*b")`` for ``Disallow: /a*b``:

    1. The first letter of a disallow line as written, "d" or "D"; empty for an allow line.
    2. The start of the value, up to the first character that is not in ``paths.NORMAL``. Every matching target
       begins with this text. Empty if the value does not begin with a slash.
    3. The rest of the value.
    """
    others = re.escape("".join(sorted({*paths.NORMAL} - {*characters})))
    # The lookahead "(?!Disallow: ...)" is only for speed: it rejects most rules at once. The rest of the expression
    # would reject the same rules.
    return re.compile(
        rf"\n(?!Disallow: /[{others}])"
        rf"{WS}(?:([dD])(?i:isallow)|[aA](?i:llow)){WS}:{WS}"
        rf"(?:(/(?![{others}])[{paths.NORMAL_CLASS}]*)|(?![/{WHITE_SPACE}]))([^#\n]*)"
    ).findall


def effect_of(
    value: str, dialect: Dialect, *, allows: bool
) -> tuple[bool, list[paths.Pattern]]:
    """Return the effect of a rule with this *value*: whether the rule allows the URLs that it matches, and its
    patterns. *allows* is whether the field of the rule is Allow.

    - Most rules have one pattern.
    - A rule without an effect has no patterns.
    - In a dialect with ``index_html_quirk``, ``Allow: /a/index.html`` has two patterns, because it allows ``/a/``, too.
    - In a dialect whose ``empty_disallow`` is ``"allow-all"``, an empty ``Disallow`` allows URLs, and its pattern is
      :data:`paths.EVERYTHING`.
    """
    if not value:
        allows_all = not allows and dialect.empty_disallow == "allow-all"
        return True, [paths.EVERYTHING] if allows_all else []
    patterns = [paths.pattern(value, dialect)]
    if allows and dialect.index_html_quirk:
        patterns.append(paths.directory_of_index(value, dialect))
    return allows, [pattern for pattern in patterns if pattern is not None]


_SortedRule = tuple[int, int, bool, str, "paths.Pattern | None"]
"""A rule to sort: its sort key, the number of its line, whether it allows URLs, its value with one character for
each octet, and its pattern. The pattern is None if the value needs no normalization and has no wildcards (see
``_LITERAL``)."""


def _sorted(lines: Iterable[PlainLine], dialect: Dialect) -> list[_SortedRule]:
    """Return the rules in *lines* in order of precedence. If several lines have the same field and value, only the
    first of them is included.
    """
    disallows: dict[str, int] = {}
    allows: dict[str, int] = {}
    for number, field, rest in lines:
        values = disallows if field == "disallow" else allows
        # This repeats the code of octets(), to avoid a call for each rule.
        values.setdefault(rest.partition("#")[0].strip(WHITE_SPACE), number)
    first_wins = dialect.rule_choice == "first"
    rules: list[_SortedRule] = []
    for is_allow, values in ((False, disallows), (True, allows)):
        has_quirk = is_allow and dialect.index_html_quirk
        for value, number in values.items():
            # A fast path for most rules. Without it, parsing and sorting the rules of a file would take 1.25 times as
            # long.
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
    """Return a text with which all normalized targets that match *pattern* begin. For example, return ``/a`` for
    ``/a*b``. The text ends before the first ``*`` of the pattern, or earlier.
    """
    # A pattern is compared with targets in two forms: as written, and normalized. The text must fit both forms, so it
    # ends before the first character that normalization changes. Example: the pattern "/a%2" is normalized to
    # "/a%252", but as written, it also matches the target "/a%2F". Only "/a" is common to both.
    #
    # In the query of the pattern, the text ends before the first "/" or "?". Example: the pattern "/a?b/c" also matches
    # the target "/a?b%2Fc", which begins with "/a?b", but not with "/a?b/".
    prefix = pattern.segments[0]
    is_changed = pattern.written and pattern.written != pattern.segments
    if is_changed or paths.PERCENT_ALONE.search(prefix):
        prefix = _NORMAL_START(prefix)[0]
    path, mark, query = prefix.partition("?")
    if pattern.needs_decoded_query:
        query = query.replace("?", "/").partition("/")[0]
    return path + mark + query


def _required(pattern: paths.Pattern) -> str:
    """Return a text of at most four characters that every target matching *pattern* contains, in its normalized form or
    as written. For example, return ``.pdf`` for ``/*/report.pdf``. A target that contains the text in neither form need
    not be compared with *pattern*. Return an empty text if no such text is known.
    """
    # Only the parts after the first "*" are used, because the text before it is checked with _prefix(). A character
    # that normalization changes is not used, because a target can contain it raw or encoded.
    parts: Iterable[str] = pattern.segments[1:]
    is_normal = not pattern.written or pattern.written == pattern.segments
    if not is_normal:
        parts = _NORMAL_RUN(" ".join(pattern.written[1:]))
    if pattern.needs_decoded_query:
        # A "/" or "?" in the query of the pattern also matches "%2F" or "%3F" in a target. So the required text must
        # contain neither "/" nor "?".
        parts = "/".join(parts).replace("?", "/").split("/")
    required = max(parts, key=len, default="")[-_REQUIRED_LENGTH:]
    # If normalization encodes a character of the pattern, every matching target contains a "%" in its normalized
    # form. So "%" can be the required text if there is no other.
    has_encoded = not is_normal and any("%" in part for part in pattern.segments[1:])
    return "%" if has_encoded and not required else required


def _parts_of(target: str) -> AbstractSet[str]:
    """Return all substrings of *target* with up to four characters, the maximum length of a required text (see
    :func:`_required`).
    """
    parts = {""}
    for length in range(1, _REQUIRED_LENGTH + 1):
        starts = range(len(target) - length + 1)
        parts.update([target[at : at + length] for at in starts])
    return parts


def _cost(pattern: paths.Pattern, octets: int) -> int:
    """Estimate how many octets must be processed in the worst case to compare *pattern* with a target of *octets*
    octets.
    """
    times = 1 + min(pattern.octets, _MAX_COSTLY) // _OCTETS_AT_ONCE
    return octets * times + _SEGMENT * len(pattern.segments)


def _parents(prefixes: list[str]) -> list[int]:
    """Return the index of each prefix's parent. The parent is the longest other prefix that the prefix begins with.

    *prefixes* must be sorted. The first prefix is empty, so it is the parent of every prefix without a
    longer parent, and of itself.
    """
    parents = [0] * len(prefixes)
    for at in range(1, len(prefixes)):
        prefix, parent = prefixes[at], at - 1
        while not prefix.startswith(prefixes[parent]):
            parent = parents[parent]
        parents[at] = parent
    return parents


def _compact(numbers: list[int]) -> Sequence[int]:
    """Return *numbers* as a sequence that takes little memory: bytes if each number is less than 256, as in most
    files, otherwise an array. With lists, the parsed robots.txt of a host would take 1.25 times as much memory.
    """
    fit = max(numbers, default=0) < 256
    return bytes(numbers) if fit else array("I", numbers)
