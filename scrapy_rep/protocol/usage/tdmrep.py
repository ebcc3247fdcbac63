"""``/.well-known/tdmrep.json``: the reservations of an origin, path by path.

TDM Reservation Protocol, "TDM File on the Origin Server": an array of rules, each with a
``location``, which is matched like a pattern of robots.txt, a ``tdm-reservation`` and
perhaps a ``tdm-policy``. The first that matches, in sequence, is the one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.usage.pathindex import PathIndex
from scrapy_rep.protocol.usage.preferences import NOTHING_STATED, UsagePreferences
from scrapy_rep.protocol.usage.statements import MAX_SHOWN, Occurrence, UsageStatement
from scrapy_rep.protocol.usage.vocabulary import Signal, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = "/.well-known/tdmrep.json"

MAX_SIZE = 512_000
"""The bytes of a file that are read, as of a robots.txt. A longer file is ignored, since
its beginning is no JSON array."""

# The report refers to the draft of RFC 9309 for patterns, and lets the first match win.
_IN_SEQUENCE = replace(RFC9309, name="tdmrep", rule_choice="first")


class TdmRep:
    """The rules of a tdmrep.json. Made by :meth:`parse`; immutable."""

    __slots__ = ("_index", "is_valid", "weight")

    def __init__(self, rules: list[Any] | None) -> None:
        self.is_valid = rules is not None
        """Whether it is a JSON array. Otherwise it states nothing."""

        self._index = PathIndex(_records(rules or []), _IN_SEQUENCE)

        self.weight = self._index.weight
        """About how many bytes it takes in memory."""

    @classmethod
    def parse(cls, body: bytes) -> TdmRep:
        """Read a file. No content makes this raise; a file that is no array of rules, or
        too long, states nothing.
        """
        try:
            found = json.loads(body) if len(body) <= MAX_SIZE else None
        except (ValueError, RecursionError):
            found = None
        return cls(found if isinstance(found, list) else None)

    def usage(self, url: str) -> UsagePreferences:
        """The preferences that it states for *url*."""
        found = self._index.statements_for(paths.target(url, _IN_SEQUENCE))
        return UsagePreferences(found) if found else NOTHING_STATED


def _records(rules: list[Any]) -> Iterator[tuple[bytes, tuple[UsageStatement, ...]]]:
    for number, rule in enumerate(rules, 1):
        location = rule.get("location") if isinstance(rule, dict) else None
        if isinstance(location, str) and (location := location.strip(" \t\v\f")):
            # There are no comments here.
            octets = location.replace("#", "%23").encode("utf-8", "surrogatepass")
            yield octets, tuple(_statements(number, location, rule))


def _statements(
    number: int, location: str, rule: dict[str, Any]
) -> Iterator[UsageStatement]:
    value = rule.get("tdm-reservation")
    # JSON's true is not 1, though Python's is.
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    stated = str(int(value)) if is_number and value in {0, 1} else None
    text = f"{location[:MAX_SHOWN]}: tdm-reservation {value!r:.60}"
    occurrence = Occurrence(Source.TDMREP, Signal.TDM_RESERVATION, None, number, text)
    yield from occurrence.statements("tdm-reservation", stated)
    policy = rule.get("tdm-policy")
    if isinstance(policy, str):
        text = f"{location[:MAX_SHOWN]}: tdm-policy {policy}"
        occurrence = Occurrence(Source.TDMREP, Signal.TDM_POLICY, None, number, text)
        yield from occurrence.statements(policy, None)
