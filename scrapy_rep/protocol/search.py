"""Many words looked for in one text, in bounded time.

A robots.txt of the size that is read can have 25,000 patterns with a ``*``, and to look for
one word in a URL of 16 KB takes up to 50 microseconds. So the words are not looked for one
after the other: the text is cut into all its parts of the lengths that the words have, and
these are looked up among the words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 65_536
"""Octets. What is longer is not searched."""

MOST_COMPARED = 8_000_000
"""Octets. A search ends when it has compared so many with patterns."""

# Octets. To look for each of the words is faster where it comes to no more.
_FEW_COMPARED = 1_000_000

# Octets of the longest part that is looked up; longer words are cut into these. The text is
# gone through once for each length.
_PART = 8

# What a segment of a pattern costs, in octets compared.
_SEGMENT = 64

_SLASH = re.compile("/|%2F")


class TooLong(Exception):
    """A text is too long for the patterns that it would have to be compared with."""


class Search:
    """A text in which words are looked for, before patterns are compared with it.

    An encoded slash in the text may stand for a raw one in a word, so that of these words
    the longest part between slashes is looked for.
    """

    __slots__ = ("_left", "_parts", "has_encoded_slash", "text")

    def __init__(self, text: str, words: list[str]) -> None:
        if len(text) > LONGEST:
            raise TooLong
        self.text = text
        self.has_encoded_slash = "%2F" in text
        self._left = MOST_COMPARED
        self._parts: set[str] | None = None
        if len(text) * len(words) > _FEW_COMPARED:
            self._parts = _parts_in(text, map(self._word, words))

    def may_have(self, word: str) -> bool:
        """Whether all parts of *word*, one of the words, are in the text."""
        word = self._word(word)
        if self._parts is None:
            return word in self.text
        if len(word) <= _PART:
            return word in self._parts
        return self._parts.issuperset(_parts_of(word))

    def count(self, segments: int, times: int = 1) -> None:
        """Tell that a pattern of so many *segments* is compared with the text."""
        self._left -= (len(self.text) + segments * _SEGMENT) * times
        if self._left < 0:
            raise TooLong

    def _word(self, word: str) -> str:
        if self.has_encoded_slash:
            return max(_SLASH.split(word), key=len)
        return word


def _parts_in(text: str, words: Iterable[str]) -> set[str]:
    """Those parts of *words* that are in *text*."""
    by_length: dict[int, set[str]] = {}
    for word in words:
        for part in _parts_of(word):
            by_length.setdefault(len(part), set()).add(part)
    found: set[str] = set()
    for length, parts in by_length.items():
        starts = range(len(text) - length + 1)
        found.update(parts.intersection([text[i : i + length] for i in starts]))
    return found


def _parts_of(word: str) -> list[str]:
    if len(word) <= _PART:
        return [word]
    starts = range(0, len(word) - _PART, _PART)
    return [*[word[i : i + _PART] for i in starts], word[-_PART:]]
