"""Finds the ``Crawl-delay``, ``Request-rate`` and ``Visit-time`` lines for one crawler.

RFC 9309 does not define these fields. It says that user-agent lines share the rules that
follow, even if other records stand between the lines (2.2.4). But sites that write a delay
below each user-agent line mean that crawler only. So such a record applies only to the run of
user-agent lines directly above it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from scrapy_rep.protocol.grammar import (
    PACE_FIELDS,
    SITEMAP,
    USER_AGENT,
    WHITE_SPACE,
    WS,
    line_of,
)
from scrapy_rep.protocol.robotstxt.groups import Record, parse_groups

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from scrapy_rep.protocol.dialect import Dialect

UserAgentLine: TypeAlias = tuple[int, int, bytes]
"""The start and end of a user-agent line, and one of its tokens."""

Span: TypeAlias = tuple[int, int, int]
"""The start and end of a group, or of several merged ones, including user-agent lines; and the
number of the first line, from 1."""

# For text in lower case. Neither expression reads a character more than twice.
_LINE = re.compile((line_of(USER_AGENT, *PACE_FIELDS) + r"([^#\n]*)").encode())
_ENDS_RUN = re.compile(
    rf"\n{WS}(?!{SITEMAP}{WS}:)[^{WHITE_SPACE}:#\n][^:#\n]*:".encode()
).search


def delays_of(
    text: bytes,
    lowered: bytes,
    spans: Sequence[Span],
    ours: Collection[UserAgentLine],
    dialect: Dialect,
) -> tuple[Record, ...]:
    """Return the delay, rate and window lines for a crawler in the groups *spans* of *text*.

    *lowered* is the text in lower case, and *ours* are the user-agent lines that name the
    crawler.
    """
    if dialect.misspelt_fields:
        # The expression does not match misspelt fields.
        tokens = {token.decode() for _, _, token in ours}
        return tuple(_read_all(text, spans, tokens, dialect))
    starts = {start for start, _, _ in ours}
    records = []
    for start, end, number in spans:
        # A span begins with a user-agent line.
        is_ours, latest = start in starts, start
        counted, line = start, number
        for match in _LINE.finditer(lowered, start, end):
            if match[1] == b"user-agent":
                is_same_run = is_ours and not _ENDS_RUN(lowered, latest, match.start())
                is_ours = is_same_run or match.start() + 1 in starts
                latest = match.end()
            elif is_ours:
                line += text.count(b"\n", counted, match.end())
                counted = match.end()
                value = text[slice(*match.span(2))].strip().decode("utf-8", "replace")
                records.append(Record(match[1].decode(), value, line))
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
                if record.field in PACE_FIELDS and record.run in ours:
                    yield Record(record.field, record.value, record.line + number - 1)
