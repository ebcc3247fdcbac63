"""The delay, rate and window lines that are for one crawler.

``Crawl-delay``, ``Request-rate`` and ``Visit-time`` are not in RFC 9309, which says of
rules that user-agent lines share those that follow, whatever stands between the lines
(2.2.4). Sites that write a delay below each user-agent line mean it for that one. So such a
record belongs to the run of user-agent lines directly above it alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from scrapy_rep.protocol.grammar import PACE_FIELDS, WHITE_SPACE, WS
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

# A line with a field, in a text in lower case.
_LINE = re.compile(rf"\n{WS}([^{WHITE_SPACE}:#\n][^:#\n]*):([^#\n]*)".encode())
_PACE_FIELDS = frozenset(field.encode() for field in PACE_FIELDS)
_WHITE_SPACE = WHITE_SPACE.encode()


def delays_of(
    text: bytes,
    lowered: bytes,
    spans: Sequence[Span],
    ours: Collection[UserAgentLine],
    dialect: Dialect,
) -> tuple[Record, ...]:
    """The delay, rate and window lines in the groups *spans* of *text* that are for a
    crawler.

    *lowered* is the text in lower case, and *ours* are the user-agent lines that name the
    crawler.
    """
    if dialect.misspelt_fields:
        # The expression does not know misspelt fields.
        tokens = {token.decode() for _, _, token in ours}
        return tuple(_read_all(text, spans, tokens, dialect))
    starts = {start for start, _, _ in ours}
    records = []
    for start, end, number in spans:
        counted, line = start, number
        # A span begins with a user-agent line.
        is_run, is_ours = True, start in starts
        for match in _LINE.finditer(lowered, start, end):
            field = match[1].rstrip(_WHITE_SPACE)
            if field == b"user-agent":
                is_ours = (is_run and is_ours) or match.start() + 1 in starts
                is_run = True
            elif field != b"sitemap":
                is_run = False
                if is_ours and field in _PACE_FIELDS:
                    line += text.count(b"\n", counted, match.end())
                    counted = match.end()
                    value = text[slice(*match.span(2))].strip()
                    records.append(
                        Record(field.decode(), value.decode("utf-8", "replace"), line)
                    )
    return tuple(records)


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
