"""Reads the statements in X-Robots-Tag headers.

No text defines the grammar. This one reads every example on Google's and MDN's pages as
these pages explain it ("X-Robots-Tag: BadBot: noindex, nofollow, googlebot: nofollow")::

    field-line = [ part *( "," [ part ] ) ]
    part       = *( agent ":" ) [ statement ]
    agent      = token [ "/" version ]           ; opens a scope up to the next agent
    statement  = name [ ":" value ]

A date is the only value with commas in it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy_rep.protocol.indexing.statements import MAX_TEXT, VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from scrapy_rep.protocol.indexing.statements import Span, StatementReader

_EVERYONE = frozenset({"*", "robots"})
"""Names for all crawlers: ``*`` as in robots.txt, ``robots`` as the name of a meta tag."""

_PART = re.compile("[^,]+")
# With a letter, since "15:00" is a time; not before "//", since that is a URL. Neither
# repetition shares a character with what follows it, so this cannot backtrack.
_AGENT = re.compile(
    r"\s*([0-9_.-]*[a-zA-Z*][a-zA-Z0-9*_.-]*)(?:/[a-zA-Z0-9_.-]*)?\s*:(?!//)"
)


def _scopes(text: str) -> Iterator[tuple[str | None, list[Span]]]:
    """Yield each agent of a field line (None for everyone) and the parts in its scope."""
    agent = None
    spans: list[Span] = []
    for part in _PART.finditer(text):
        start, end = part.span()
        while (match := _AGENT.match(text, start, end)) is not None:
            if match[1].lower() in VOCABULARY:
                break
            yield agent, spans
            agent, spans, start = match[1], [], match.end()
        spans.append((start, end))
    yield agent, spans


def read_headers(
    values: Iterable[bytes], agents: Collection[str], reading: StatementReader
) -> None:
    """Read field lines (one value each) that are addressed to everyone or to us.

    The agents are our product tokens, in lower case.
    """
    for number, value in enumerate(values, 1):
        if reading.is_full:
            return
        if len(value) > MAX_TEXT:
            message = f"only {MAX_TEXT} bytes of {len(value)} are read"
            reading.add_finding("too-long", message, ("header", None, number))
        text = value[:MAX_TEXT].decode("latin-1")
        for agent, spans in _scopes(text):
            if agent is None or agent.lower() in agents or agent.lower() in _EVERYONE:
                reading.read(("header", agent, number), text, spans)
