"""The part of a robots.txt that one crawler follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.protocol.robotstxt.groupsearch import follow
from scrapy_rep.protocol.robotstxt.pace import NO_PACE, Pace

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robotstxt.ruleindex import RuleIndex
    from scrapy_rep.protocol.robotstxt.rules import GroupText


class CrawlerRules:
    """The groups, rules and delays for one sequence of product tokens.

    *text* is a robots.txt as :func:`~scrapy_rep.protocol.robotstxt.lines.canonical_text` gives it.
    """

    __slots__ = ("agent", "agents", "asked", "groups", "index", "pace")

    def __init__(
        self, agents: str | tuple[str, ...], text: bytes, dialect: Dialect
    ) -> None:
        self.agents = agents
        tokens = (agents,) if isinstance(agents, str) else agents
        self.agent, spans, records = follow(text, tokens, dialect)
        """The product token whose groups are followed, ``*``, or None."""

        self.pace = Pace.of(records) if records else NO_PACE
        """The delays, rates and windows that the groups state."""

        self.groups: list[GroupText] = [
            (text[start:end].decode("latin-1"), line) for start, end, line in spans
        ]
        """The text of the groups, until their rules are indexed."""

        self.index: RuleIndex | None = None

        self.asked = False
        """Whether a decision was made already."""

    @property
    def weight(self) -> int:
        """About how many bytes it takes in memory."""
        if self.index is not None:
            return self.index.weight
        return sum(len(text) for text, _ in self.groups)
