"""An index of thousands of patterns with a ``*``, by parts that a target must contain.

A robots.txt within the size limit can have 25,000 such patterns, and a search for one word in
a URL of 16 KB takes up to 50 microseconds. So the index does not search for words one by one:
it cuts the target into all parts of a few lengths, and looks these up.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from scrapy_rep.protocol.robotstxt.limits import Comparisons
    from scrapy_rep.protocol.robotstxt.rulescan import Candidate
    from scrapy_rep.protocol.robotstxt.wildcards import Wildcards

# The length of the longest parts, in octets. A target is cut once for each length.
_PART = 6

# An encoded slash in a target may stand for a raw one in a pattern.
_SLASH = re.compile("/|%2F")


class WildcardIndex:
    """Finds patterns with a ``*`` by parts of their needles."""

    __slots__ = ("_by_part", "_groups", "_tests")

    def __init__(self, groups: Mapping[int, Wildcards]) -> None:
        self._groups = groups

        self._tests: list[tuple[Candidate, int, int]] = []
        """Candidates, each with its group and its index there; the winning ones come first."""

        for group, wildcards in groups.items():
            for place, rule in enumerate(wildcards.rules):
                self._tests.append((rule, group, place))
        self._tests.sort(reverse=True)

        self._by_part: dict[int, dict[str, list[int]]] = {}
        """Indexes of tests, by the length of a part and by the part."""

        parts = [
            _parts_of(groups[group].needles[place]) for _, group, place in self._tests
        ]
        number_of = Counter(part for found in parts for part in found)
        for place, found in enumerate(parts):
            # The rarest part finds the fewest other patterns.
            part = min(found, key=number_of.__getitem__)
            by_part = self._by_part.setdefault(len(part), {})
            by_part.setdefault(part, []).append(place)

    def best(
        self, comparisons: Comparisons, groups: Collection[int]
    ) -> Candidate | None:
        """Return the best pattern of *groups* that matches the target, or None.

        Raises :class:`~scrapy_rep.protocol.robotstxt.limits.TooLong` over the limits.
        """
        parts = _Parts(comparisons.target)
        may_have = parts.may_have
        if comparisons.has_encoded_slash:
            may_have = parts.may_have_encoded
        found: list[int] = []
        for length, by_part in self._by_part.items():
            for part in by_part.keys() & parts[length]:
                found += by_part[part]
        for place in sorted(found):
            rule, group, number = self._tests[place]
            if group in groups:
                wildcards = self._groups[group]
                if may_have(wildcards.needles[number]):
                    pattern = wildcards.pattern(number)
                    if comparisons.matches(pattern):
                        return rule
        return None


class _Parts(dict[int, set[str]]):
    """All parts of a target, by their length."""

    def __init__(self, target: str) -> None:
        super().__init__()
        self._target = target

    def __missing__(self, length: int) -> set[str]:
        target = self._target
        starts = range(len(target) - length + 1)
        self[length] = found = {target[i : i + length] for i in starts}
        return found

    def may_have(self, needle: str) -> bool:
        """Whether the target has all parts of *needle*."""
        if len(needle) <= _PART:
            return needle in self[len(needle)]
        parts = self[_PART]
        starts = range(len(needle) - _PART + 1)
        return all(needle[i : i + _PART] in parts for i in starts)

    def may_have_encoded(self, needle: str) -> bool:
        """Whether the target has all parts of *needle*, with slashes raw or encoded."""
        return all(map(self.may_have, _SLASH.split(needle)))


def _parts_of(needle: str) -> list[str]:
    """Return long parts of *needle* that each target with the needle contains."""
    parts = []
    for word in filter(None, _SLASH.split(needle)):
        starts = range(0, len(word) - _PART, _PART)
        parts += [*[word[i : i + _PART] for i in starts], word[-_PART:]]
    return parts or [""]
