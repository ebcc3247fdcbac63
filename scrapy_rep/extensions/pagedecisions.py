"""Decisions about links, items and files, as rows of a ledger."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from scrapy_rep.ledger.records import Decided, storable, url_text
from scrapy_rep.protocol.indexing.statements import Statement
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.usage.statements import UsageStatement
from scrapy_rep.protocol.usage.vocabulary import Source

if TYPE_CHECKING:
    from scrapy_rep.ledger.terms import Layer, Verdict
    from scrapy_rep.protocol.access.results import Entry

Because: TypeAlias = "Statement | UsageStatement | str | None"
"""The evidence for a decision: a statement, the value of a ``rel``, or None."""


class PageDecision(NamedTuple):
    """A decision, and the statement that it follows."""

    layer: Layer
    verdict: Verdict
    reason: str
    because: Because = None

    entry: Entry | None = None
    """The cache entry of the robots.txt, if the statement is from there."""

    def decided(self, url: str, page: str | None, now: float) -> Decided:
        """Return the row about *url*, decided at *now*; *page* is *url* or links to it."""
        origin, shown = _place(url)
        agent, statement = None, self.because
        fetched, line, source = None, None, None
        if isinstance(statement, UsageStatement):
            source = str(statement.source)
            if statement.source is Source.ROBOTS_TXT:
                line = statement.position
                fetched = None if self.entry is None else self.entry.fetched
        if isinstance(statement, (Statement, UsageStatement)):
            agent, statement = statement.agent, statement.text
        return Decided(
            now,
            origin,
            shown,
            None if page is None else _place(page)[1],
            None if agent is None else storable(agent),
            self.layer,
            self.verdict,
            self.reason,
            fetched,
            line,
            None if statement is None else storable(statement),
            source=source,
        )


# Cached, since a page has several statements and several items.
@lru_cache(maxsize=64)
def _place(url: str) -> tuple[str, str]:
    """Return the origin of a URL and the URL, as a ledger stores them."""
    origin = origin_of(url)
    return "" if origin is None else str(origin), url_text(url)
