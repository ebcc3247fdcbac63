"""The delay, rate and window lines that are for one crawler.

``Crawl-delay``, ``Request-rate`` and ``Visit-time`` are not in RFC 9309, which says of
rules that user-agent lines share those that follow, whatever stands between the lines
(2.2.4). Sites that write a delay below each user-agent line mean it for that one. So such a
record belongs to the run of user-agent lines directly above it alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, TypeAlias

from scrapy_rep.protocol.grammar import PACE_FIELDS, SITEMAP, WHITE_SPACE, WS, line_of
from scrapy_rep.protocol.robotstxt.groups import Record, parse_groups
from scrapy_rep.protocol.robotstxt.pace import FIELDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from scrapy_rep.protocol.dialect import Dialect

UserAgentLine: TypeAlias = tuple[int, int, bytes]
"""The start and end of a user-agent line, and its token. A line with several tokens is
there once for each."""

Span: TypeAlias = tuple[int, int, int]
"""The start and end of a group, or of several that are merged, with the user-agent lines;
and the number of the first line, from 1."""

# For text in lower case. Neither expression reads a character more than twice.
_LINE = re.compile((line_of(*PACE_FIELDS) + r"([^#\n]*)").encode())
_ENDS_RUN = re.compile(
    rf"\n{WS}(?!{SITEMAP}{WS}:)[^{WHITE_SPACE}:#\n][^:#\n]*:".encode()
)


def delays_of(
    text: bytes,
    lowered: bytes,
    spans: Sequence[Span],
    found: Sequence[UserAgentLine],
    hits: Collection[int],
    *,
    dialect: Dialect,
) -> tuple[Record, ...]:
    """The delay, rate and window lines in the groups *spans* of *text* that are for a
    crawler.

    *lowered* is the text in lower case, *found* all user-agent lines, and *hits* the
    indexes of those that name the crawler.
    """
    if dialect.misspelt_fields:
        # These expressions do not know misspelt fields.
        agents = {found[hit][2].decode() for hit in hits}
        return tuple(_read_all(text, spans, agents, dialect))
    starts = [start for start, _, _ in found]
    runs = _Runs(lowered, found, hits)
    records = []
    for start, end, number in spans:
        first = bisect_right(starts, start - 1)
        counted, line = start, number
        for match in _LINE.finditer(lowered, start, end):
            line += text.count(b"\n", counted, match.end())
            counted = match.end()
            if runs.has_hit(bisect_right(starts, match.start()) - 1, first):
                value = text[slice(*match.span(2))].strip().decode("utf-8", "replace")
                records.append(Record(match[1].decode(), value, line))
    return tuple(records)


class _Runs:
    """The runs of user-agent lines, by the last line of each."""

    def __init__(
        self, text: bytes, found: Sequence[UserAgentLine], hits: Collection[int]
    ) -> None:
        self._text = text
        self._found = found
        self._hits = hits
        self._known: dict[int, bool] = {}

    def has_hit(self, last: int, first: int) -> bool:
        """Whether the run that ends with the user-agent line *last*, and does not begin
        before *first*, names the crawler.
        """
        known = self._known.get(last)
        if known is None:
            known = self._known[last] = self._look(last, first)
        return known

    def _look(self, last: int, first: int) -> bool:
        found = self._found
        while last not in self._hits:
            if last == first:
                return False
            if _ENDS_RUN.search(self._text, found[last - 1][1], found[last][0]):
                return False
            last -= 1
        return True


def _read_all(
    text: bytes, spans: Sequence[Span], agents: Collection[str], dialect: Dialect
) -> Iterator[Record]:
    for start, end, number in spans:
        for group in parse_groups(text[start:end], dialect)[0]:
            ours = {
                run
                for agent, run in zip(group.agents, group.runs, strict=True)
                if agent in agents
            }
            for record in group.records:
                if record.field in FIELDS and record.run in ours:
                    yield Record(record.field, record.value, record.line + number - 1)
