"""Reads ``/.well-known/tdmrep.json``: the reservations of an origin, by path.

Source: TDM Reservation Protocol, "TDM File on the Origin Server". The file is an array of
rules. Each has a ``location``, which matches like a path pattern of robots.txt, a
``tdm-reservation``, and an optional ``tdm-policy``. The first rule that matches counts.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.usage.bypath import StatementsByPath
from scrapy_rep.protocol.usage.preferences import NOTHING_STATED, UsagePreferences
from scrapy_rep.protocol.usage.statements import (
    MAX_SHOWN,
    UsageStatement,
    statements_at,
)
from scrapy_rep.protocol.usage.vocabulary import Signal, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = "/.well-known/tdmrep.json"

MAX_SIZE = 512_000
"""The largest file that is read, in bytes. A longer one states nothing, because the part
within the limit is not valid JSON."""

# TDMRep refers to the draft of RFC 9309 for patterns, and the first match wins.
_IN_SEQUENCE = replace(RFC9309, name="tdmrep", rule_choice="first")


class TdmRep:
    """The rules of a tdmrep.json. Create it with :meth:`parse`. It is immutable."""

    __slots__ = ("_statements", "is_valid")

    def __init__(self, rules: list[Any] | None) -> None:
        self.is_valid = rules is not None
        """Whether the file is a JSON array. Otherwise it states nothing."""

        self._statements = StatementsByPath(_records(rules or []), _IN_SEQUENCE)

        """The approximate size in memory, in bytes."""

    @classmethod
    def parse(cls, body: bytes) -> TdmRep:
        """Read a file. One that is too long, or not an array of rules, states nothing."""
        try:
            found = json.loads(body) if len(body) <= MAX_SIZE else None
        except (ValueError, RecursionError):
            found = None
        return cls(found if isinstance(found, list) else None)

    def usage(self, url: str) -> UsagePreferences:
        found = self._statements.for_target(paths.target(url, _IN_SEQUENCE))
        return UsagePreferences(found) if found else NOTHING_STATED


def _records(rules: list[Any]) -> Iterator[tuple[bytes, tuple[UsageStatement, ...]]]:
    for number, rule in enumerate(rules, 1):
        location = rule.get("location") if isinstance(rule, dict) else None
        if isinstance(location, str) and (location := location.strip(" \t\v\f")):
            path = location.encode("utf-8", "surrogatepass")
            yield path, tuple(_statements(number, location[:MAX_SHOWN], rule))


def _statements(
    number: int, location: str, rule: dict[str, Any]
) -> Iterator[UsageStatement]:
    value: Any = rule.get("tdm-reservation")
    # JSON's true is not 1, though Python's is.
    is_stated = value in (0, 1) and not isinstance(value, bool)
    pair = "tdm-reservation", str(int(value)) if is_stated else None
    place = Source.TDMREP, Signal.TDM_RESERVATION, None, number
    # The text of an array or object would take as deep a recursion as it is nested.
    shown = type(value).__name__ if isinstance(value, list | dict) else repr(value)
    text = f"{location}: tdm-reservation {shown:.60}"
    yield from statements_at(place, text, [pair])
    policy = rule.get("tdm-policy")
    if isinstance(policy, str):
        place = Source.TDMREP, Signal.TDM_POLICY, None, number
        text = f"{location}: tdm-policy {policy}"
        yield from statements_at(place, text, [(policy, None)])
