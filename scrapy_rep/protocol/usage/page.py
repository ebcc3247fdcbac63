"""Reads the statements about use in the headers and tags of a response."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy_rep.protocol.usage.statements import (
    MAX_TEXT,
    UsageStatement,
    Where,
    read_signal,
    read_usage,
)
from scrapy_rep.protocol.usage.vocabulary import Signal, Source, row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy_rep.protocol.indexing.statements import Statement
    from scrapy_rep.protocol.indexing.tags import Tag

FIELDS = frozenset(
    {"content-usage", "content-signal", "tdm-reservation", "tdm-policy", "link"}
)
"""The header fields about use, in lower case, except ``X-Robots-Tag``."""

_MAX_LINES = 100

# A target and its parameters (RFC 8288, 3). Neither repetition shares a character with
# what follows it, so this cannot backtrack.
_LINK = re.compile(r"<([^<>]{0,4096})>((?:[^,\"<]|\"[^\"]*\")*)")
_PARAMETER = re.compile(r";\s*([A-Za-z*]+)\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))")


def page_statements(
    fields: Iterable[tuple[str, bytes]],
    statements: Iterable[Statement],
    tags: Iterable[Tag],
) -> Iterator[UsageStatement]:
    """The statements about use in a response: in its header fields, whose names are in
    lower case, in its indexing *statements*, and in its *tags*.
    """
    by_name: dict[str, list[bytes]] = {}
    for name, value in fields:
        if name in FIELDS:
            lines = by_name.setdefault(name, [])
            # Fields that are longer together are read up to this limit, or not at all.
            if sum(map(len, lines)) <= MAX_TEXT and len(lines) < _MAX_LINES:
                lines.append(value)
    yield from _dictionary(by_name.get("content-usage", []))
    for name, read in _READERS.items():
        for position, value in enumerate(by_name.get(name, ()), 1):
            yield from read(Source.HEADER, position, value.decode("latin-1"))
    for each in statements:
        if row_of(Signal.ROBOTS_TAG, each.name) is not None:
            place = Source(each.source), Signal.ROBOTS_TAG, each.agent, each.position
            yield from Where(*place, each.text).says(each.name, each.name)
    for tag in tags:
        read = _READERS.get(tag.name, _license)
        yield from read(Source.META, tag.start, tag.content)


def _dictionary(lines: list[bytes]) -> Iterator[UsageStatement]:
    """All field lines are one dictionary (RFC 9651, 4.2). If one of them cannot be read,
    all preferences are unknown.
    """
    if not lines:
        return
    value = b", ".join(lines)
    text = f"Content-Usage: {value[:MAX_TEXT].decode('latin-1')}"
    where = Where(Source.HEADER, Signal.CONTENT_USAGE, None, 1, text)
    for label, stated in read_usage(value).pairs:
        yield from where.says(label, stated)


def _pairs(source: Source, position: int, value: str) -> Iterator[UsageStatement]:
    text = f"Content-Signal: {value[:MAX_TEXT]}"
    where = Where(source, Signal.CONTENT_SIGNAL, None, position, text)
    for label, stated in read_signal(value.encode("latin-1")).pairs:
        yield from where.says(label, stated)


def _reservation(source: Source, position: int, value: str) -> Iterator[UsageStatement]:
    text = f"tdm-reservation: {value.strip()}"
    where = Where(source, Signal.TDM_RESERVATION, None, position, text)
    return where.says("tdm-reservation", value.strip())


def _policy(source: Source, position: int, url: str) -> Iterator[UsageStatement]:
    text = f"tdm-policy: {url.strip()}"
    where = Where(source, Signal.TDM_POLICY, None, position, text)
    return where.says(url.strip(), None)


def _license(source: Source, position: int, url: str) -> Iterator[UsageStatement]:
    where = Where(source, Signal.LICENSE, None, position, f"license: {url}")
    return where.says(url, None)


def _links(source: Source, position: int, value: str) -> Iterator[UsageStatement]:
    for match in _LINK.finditer(value[:MAX_TEXT]):
        for name, quoted, token in _PARAMETER.findall(match[2]):
            if name.lower() == "rel" and "license" in (quoted or token).lower().split():
                yield from _license(source, position, match[1].strip())


_READERS: dict[str, Callable[[Source, int, str], Iterator[UsageStatement]]] = {
    "content-signal": _pairs,
    "tdm-reservation": _reservation,
    "tdm-policy": _policy,
    "link": _links,
}
"""The readers of field lines, and of the tags of the same name."""
