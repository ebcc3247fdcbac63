"""Reads usage statements from the headers and tags of a response."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy_rep.protocol.usage.statements import (
    MAX_TEXT,
    read_expression,
    statements_at,
)
from scrapy_rep.protocol.usage.vocabulary import Signal, Source, row_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_rep.protocol.indexing.statements import Statement, Tag
    from scrapy_rep.protocol.usage.statements import UsageStatement

_SIGNALS = {
    "content-usage": Signal.CONTENT_USAGE,
    "content-signal": Signal.CONTENT_SIGNAL,
    "tdm-reservation": Signal.TDM_RESERVATION,
    "tdm-policy": Signal.TDM_POLICY,
    "link": Signal.LICENSE,
}
FIELDS = frozenset(_SIGNALS)
"""The header fields about use, in lower case, except ``X-Robots-Tag``."""

_MAX_LINES = 100

# A target and its parameters (RFC 8288, 3). No repetition shares a character with what
# follows it, so this cannot backtrack.
_LINK = re.compile(rb"<([^<>]{0,4096})>((?:[^,\"<]|\"[^\"]*\")*)")
_PARAMETER = re.compile(rb";\s*([A-Za-z*]+)\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))")


def page_statements(
    fields: Iterable[tuple[str, bytes]],
    statements: Iterable[Statement],
    tags: Iterable[Tag],
) -> Iterator[UsageStatement]:
    """Yield the usage statements of a response.

    They come from its header *fields*, with names in lower case, its indexing *statements*,
    and its *tags*.
    """
    by_name: dict[str, list[bytes]] = {name: [] for name in _SIGNALS}
    for name, value in fields:
        lines = by_name.get(name, [])
        # The readers cut or ignore text over this limit.
        if sum(map(len, lines)) <= MAX_TEXT and len(lines) < _MAX_LINES:
            lines.append(value.strip())
    # All field lines form one dictionary (RFC 9651, 4.2). An error in one line makes all
    # preferences unknown.
    by_name["content-usage"] = [b", ".join(by_name["content-usage"])]
    for name, lines in by_name.items():
        for position, line in enumerate(lines, 1):
            for value in _license_urls(line) if name == "link" else (line,):
                yield from _read(_SIGNALS[name], Source.HEADER, position, value)
    for each in statements:
        if row_of(Signal.ROBOTS_TAG, each.name) is not None:
            place = Source(each.source), Signal.ROBOTS_TAG, each.agent, each.position
            yield from statements_at(place, each.text, [(each.name, each.name)])
    for tag in tags:
        signal = _SIGNALS.get(tag.name, Signal.LICENSE)
        content = tag.content.strip().encode("utf-8", "replace")
        yield from _read(signal, Source.META, tag.line, content)


def _read(
    signal: Signal, source: Source, position: int, value: bytes
) -> Iterator[UsageStatement]:
    text = f"{signal}: {value.decode('utf-8', 'replace')}"
    pairs = read_expression(signal, value).pairs
    return statements_at((source, signal, None, position), text, pairs)


def _license_urls(value: bytes) -> Iterator[bytes]:
    """Yield the targets of the licence links in the value of a ``Link`` field line."""
    for match in _LINK.finditer(value[:MAX_TEXT]):
        for name, quoted, token in _PARAMETER.findall(match[2]):
            relations = (quoted or token).lower().split()
            if name.lower() == b"rel" and b"license" in relations:
                yield match[1]
