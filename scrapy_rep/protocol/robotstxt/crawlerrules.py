"""What of a robots.txt holds for one crawler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.protocol.robotstxt.groupsearch import follow
from scrapy_rep.protocol.robotstxt.pace import NO_PACE, Pace

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robotstxt.ruleindex import RuleIndex
    from scrapy_rep.protocol.robotstxt.rules import GroupText


class CrawlerRules:
    """What holds for one sequence of product tokens.

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
        """What the groups say to the crawler of how fast and when."""

        self.groups: list[GroupText] = [
            (text[start:end].decode("latin-1"), line) for start, end, line in spans
        ]
        """The groups, as long as their rules are not indexed."""

        self.index: RuleIndex | None = None

        self.asked = False
        """Whether the rules have been asked about."""

    @property
    def weight(self) -> int:
        """The bytes that it takes, about."""
        if self.index is not None:
            return self.index.weight
        return sum(len(text) for text, _ in self.groups)
