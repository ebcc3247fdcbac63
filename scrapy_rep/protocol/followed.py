"""What of a robots.txt holds for one crawler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.protocol.following import find_groups
from scrapy_rep.protocol.groups import parse_groups
from scrapy_rep.protocol.pace import FIELDS, NO_PACE, Pace
from scrapy_rep.protocol.rules import RuleLines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.index import RuleIndex


class Followed:
    """What holds for one sequence of product tokens.

    *text* is a robots.txt as :func:`~scrapy_rep.protocol.lines.proper_text` gives it.
    """

    __slots__ = ("agent", "agents", "asked", "index", "lines", "pace")

    def __init__(
        self, agents: str | tuple[str, ...], text: bytes, dialect: Dialect
    ) -> None:
        self.agents = agents
        self.agent, spans = find_groups(text, _tokens(agents), dialect)
        """The product token whose groups are followed, ``*``, or None."""

        lines = RuleLines()
        for start, end, line in spans:
            lines.add_group(text[start:end].decode("latin-1"), line)

        self.lines: RuleLines | None = lines
        """The rules, as long as they are not indexed."""

        self.index: RuleIndex | None = None

        self.asked = False
        """Whether the rules have been asked about."""

        self.pace: Pace | None = None
        """What the groups say of how fast and when, once someone has asked."""


def pace_of(agents: str | tuple[str, ...], text: bytes, dialect: Dialect) -> Pace:
    """What the groups of a crawler say of how fast and when to crawl."""
    lowered = text.lower()
    if not any(field.encode() in lowered for field in FIELDS):
        return NO_PACE
    _, spans = find_groups(text, _tokens(agents), dialect)
    return Pace.of(
        record._replace(line=record.line + line - 1)
        for start, end, line in spans
        for group in parse_groups(text[start:end], dialect)[0]
        for record in group.records
    )


def _tokens(agents: str | tuple[str, ...]) -> Sequence[str]:
    return (agents,) if isinstance(agents, str) else agents
