"""What of a robots.txt holds for one crawler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.protocol.following import follow
from scrapy_rep.protocol.pace import NO_PACE, Pace
from scrapy_rep.protocol.rules import RuleLines

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.index import RuleIndex


# Bytes that a rule takes while it is not indexed: measured on rules of 10 to 30 octets.
_LINE_WEIGHT = 120


class Followed:
    """What holds for one sequence of product tokens.

    *text* is a robots.txt as :func:`~scrapy_rep.protocol.lines.proper_text` gives it.
    """

    __slots__ = ("agent", "agents", "asked", "index", "lines", "pace")

    def __init__(
        self, agents: str | tuple[str, ...], text: bytes, dialect: Dialect
    ) -> None:
        self.agents = agents
        tokens = (agents,) if isinstance(agents, str) else agents
        self.agent, spans, records = follow(text, tokens, dialect)
        """The product token whose groups are followed, ``*``, or None."""

        self.pace = Pace.of(records) if records else NO_PACE
        """What the groups say to the crawler of how fast and when."""

        lines = RuleLines()
        for start, end, line in spans:
            lines.add_group(text[start:end].decode("latin-1"), line)

        self.lines: RuleLines | None = lines
        """The rules, as long as they are not indexed."""

        self.index: RuleIndex | None = None

        self.asked = False
        """Whether the rules have been asked about."""

    @property
    def weight(self) -> int:
        """The bytes that it takes, about."""
        if self.index is not None:
            return self.index.weight
        assert self.lines is not None
        rules = len(self.lines.allows) + len(self.lines.disallows)
        return rules * _LINE_WEIGHT
