"""How much a decision may cost: a target compared with patterns, in bounded time."""

from __future__ import annotations

from scrapy_rep.protocol.robotstxt import paths

MAX_TARGET = 65_536
"""Octets. A longer target is compared with no pattern that has a ``*``."""

MAX_COMPARED = 4_000_000
"""Octets. For one decision no more are compared with patterns that have a ``*``: 4,000
patterns with a target of 1 KB. It takes at most some hundredths of a second."""

# What a segment of a pattern costs, in octets compared.
_SEGMENT = 64


class TooLong(Exception):
    """A target is too long for the patterns that it would have to be compared with."""


class Comparisons:
    """Those of one target, for one decision. Raises :class:`TooLong`."""

    __slots__ = ("_left", "has_encoded_slash", "target")

    def __init__(self, target: str) -> None:
        if len(target) > MAX_TARGET:
            raise TooLong
        self.target = target
        self.has_encoded_slash = "%2F" in target
        self._left = MAX_COMPARED

    def matches(self, pattern: paths.Pattern) -> bool:
        """Whether the target matches *pattern*."""
        target = self.target
        if not target.startswith(pattern.segments[0]) and not self.has_encoded_slash:
            return False
        cost = len(target) + _SEGMENT * len(pattern.segments)
        if pattern.halves is not None and self.has_encoded_slash:
            # It is compared twice for each place where its query can begin.
            cost *= 1 + 2 * min(target.count("?"), paths.QUESTION_MARKS_TRIED)
        self._left -= cost
        if self._left < 0:
            raise TooLong
        return paths.matches(pattern, target)
