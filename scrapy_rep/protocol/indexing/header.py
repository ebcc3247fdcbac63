"""Reads the statements in X-Robots-Tag headers.

No text defines the grammar. This one reads the examples of Google and MDN as they explain
them ("X-Robots-Tag: BadBot: noindex, nofollow, googlebot: nofollow")::

    field-line = [ part *( "," [ part ] ) ]
    part       = *( agent ":" ) [ statement ]
    agent      = token [ "/" version ]           ; opens a scope up to the next agent
    statement  = name [ ":" value ]

Only dates may have commas in their value.
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
# An agent has a letter, unlike the time "15:00", and no "//" follows it, unlike in a URL. No
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
    """Add the statements of field lines that are addressed to *agents* or to everyone.

    *values* are the values of the field lines, *agents* the crawler's product tokens in
    lower case.
    """
    for number, value in enumerate(values, 1):
        if reading.is_full:
            return
        if len(value) > MAX_TEXT:
            message = f"the crawler reads only {MAX_TEXT} of {len(value)} bytes"
            reading.add_finding("too-long", message, ("header", None, number))
        text = value[:MAX_TEXT].decode("latin-1")
        for agent, spans in _scopes(text):
            if agent is None or agent.lower() in agents or agent.lower() in _EVERYONE:
                reading.read(("header", agent, number), text, spans)
