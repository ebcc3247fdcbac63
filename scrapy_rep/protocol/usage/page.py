"""Reads usage statements from the headers and tags of a response."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from scrapy_rep.protocol.usage.statements import (
    MAX_TEXT,
    Occurrence,
    UsageStatement,
    read_expression,
)
from scrapy_rep.protocol.usage.vocabulary import Signal, Source, row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy_rep.protocol.indexing.statements import Statement, Tag

FIELDS = frozenset(
    {"content-usage", "content-signal", "tdm-reservation", "tdm-policy", "link"}
)
"""The header fields about use, in lower case, except ``X-Robots-Tag``."""

_MAX_LINES = 100

# A target and its parameters (RFC 8288, 3). No repetition shares a character with what
# follows it, so this cannot backtrack.
_LINK = re.compile(r"<([^<>]{0,4096})>((?:[^,\"<]|\"[^\"]*\")*)")
_PARAMETER = re.compile(r";\s*([A-Za-z*]+)\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))")


def page_statements(
    fields: Iterable[tuple[str, bytes]],
    statements: Iterable[Statement],
    tags: Iterable[Tag],
) -> Iterator[UsageStatement]:
    """Yield the usage statements of a response.

    They come from its header *fields*, with names in lower case, its indexing *statements*,
    and its *tags*.
    """
    by_name: dict[str, list[bytes]] = {}
    for name, value in fields:
        if name in FIELDS:
            lines = by_name.setdefault(name, [])
            # The readers cut or ignore text over this limit.
            if sum(map(len, lines)) <= MAX_TEXT and len(lines) < _MAX_LINES:
                lines.append(value)
    if "content-usage" in by_name:
        # All field lines form one dictionary (RFC 9651, 4.2). An error in one line makes all
        # preferences unknown.
        by_name["content-usage"] = [b", ".join(by_name["content-usage"])]
    for name, read in _READERS.items():
        for position, value in enumerate(by_name.get(name, ()), 1):
            yield from read(Source.HEADER, position, value.decode("latin-1"))
    for each in statements:
        if row_of(Signal.ROBOTS_TAG, each.name) is not None:
            place = Source(each.source), Signal.ROBOTS_TAG, each.agent, each.position
            yield from Occurrence(*place, each.text).statements(each.name, each.name)
    for tag in tags:
        yield from _READERS[tag.name](Source.META, tag.line, tag.content)


def _read_labels(
    signal: Signal, source: Source, position: int, value: str
) -> Iterator[UsageStatement]:
    occurrence = Occurrence(source, signal, None, position, f"{signal}: {value}")
    for label, stated in read_expression(signal, value.encode("latin-1")).pairs:
        yield from occurrence.statements(label, stated)


def _read_reservation(
    source: Source, position: int, value: str
) -> Iterator[UsageStatement]:
    signal, value = Signal.TDM_RESERVATION, value.strip()
    occurrence = Occurrence(source, signal, None, position, f"{signal}: {value}")
    return occurrence.statements("tdm-reservation", value)


def _read_url(
    signal: Signal, source: Source, position: int, value: str
) -> Iterator[UsageStatement]:
    url = value.strip()
    occurrence = Occurrence(source, signal, None, position, f"{signal.lower()}: {url}")
    return occurrence.statements(url, None)


def _read_links(source: Source, position: int, value: str) -> Iterator[UsageStatement]:
    for match in _LINK.finditer(value[:MAX_TEXT]):
        for name, quoted, token in _PARAMETER.findall(match[2]):
            if name.lower() == "rel" and "license" in (quoted or token).lower().split():
                yield from _read_url(Signal.LICENSE, source, position, match[1])


_READERS: dict[str, Callable[[Source, int, str], Iterator[UsageStatement]]] = {
    "content-usage": partial(_read_labels, Signal.CONTENT_USAGE),
    "content-signal": partial(_read_labels, Signal.CONTENT_SIGNAL),
    "tdm-reservation": _read_reservation,
    "tdm-policy": partial(_read_url, Signal.TDM_POLICY),
    "link": _read_links,
    "license": partial(_read_url, Signal.LICENSE),
}
"""The readers of field lines and tags, by name."""
