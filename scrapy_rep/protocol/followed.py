"""What of a robots.txt holds for one crawler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.protocol.following import find_groups
from scrapy_rep.protocol.groups import parse_groups
from scrapy_rep.protocol.rules import RuleLines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.groups import Record
    from scrapy_rep.protocol.index import RuleIndex

PACE_FIELDS = ("crawl-delay", "request-rate", "visit-time")


class Followed:
    """What holds for one sequence of product tokens.

    *text* is a robots.txt as :func:`~scrapy_rep.protocol.lines.proper_text` gives it.
    """

    __slots__ = ("agent", "agents", "asked", "index", "lines", "records")

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

        self.records: tuple[Record, ...] | None = None
        """What the groups say of how fast and when; None until someone has asked."""


def pace_records(
    agents: str | tuple[str, ...], text: bytes, dialect: Dialect
) -> tuple[Record, ...]:
    """The records of a crawler's groups that are about how fast and when to crawl."""
    lowered = text.lower()
    if not any(field.encode() in lowered for field in PACE_FIELDS):
        return ()
    _, spans = find_groups(text, _tokens(agents), dialect)
    return tuple(
        record
        for start, end, _ in spans
        for group in parse_groups(text[start:end], dialect)[0]
        for record in group.records
        if record.field in PACE_FIELDS
    )


def _tokens(agents: str | tuple[str, ...]) -> Sequence[str]:
    return (agents,) if isinstance(agents, str) else agents
