"""Limits for the time that one decision may take to compare a target with patterns."""

from __future__ import annotations

from scrapy_rep.protocol.robotstxt import paths

MAX_TARGET = 65_536
"""The longest target, in octets, that is compared with patterns that have a ``*``."""

MAX_COMPARED = 4_000_000
"""How many octets one decision may compare with patterns that have a ``*``: a 1 KB target with
about 4,000 patterns, which takes some hundredths of a second."""

# The cost of a pattern's segment, in octets compared.
_SEGMENT = 64


class TooLong(Exception):
    """A comparison of a target with all patterns would exceed the limits."""


class Comparisons:
    """Compares the target of one decision with patterns, within the limits."""

    __slots__ = ("_left", "has_encoded_slash", "target")

    def __init__(self, target: str) -> None:
        if len(target) > MAX_TARGET:
            raise TooLong
        self.target = target
        self.has_encoded_slash = "%2F" in target
        self._left = MAX_COMPARED

    def matches(self, pattern: paths.Pattern) -> bool:
        """Whether the target matches *pattern*. Raises :class:`TooLong` over the limit."""
        target = self.target
        if not target.startswith(pattern.segments[0]) and not self.has_encoded_slash:
            return False
        cost = len(target) + _SEGMENT * len(pattern.segments)
        if pattern.halves is not None and self.has_encoded_slash:
            # paths.matches compares twice for each place where the query can begin.
            cost *= 1 + 2 * min(target.count("?"), paths.QUESTION_MARKS_TRIED)
        self._left -= cost
        if self._left < 0:
            raise TooLong
        return paths.matches(pattern, target)
