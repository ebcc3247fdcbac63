"""Reads the suite's test cases from files."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER = Path(__file__).with_name("cases")
SCHEMA = Path(__file__).with_name("schema.json")

DIALECTS = ("rfc9309", "google", "classic")
"""The dialects for which cases can contain expected answers. They follow RFC 9309 (``rfc9309``), Google's
documentation and published parser (``google``), and the specifications of 1994 and 1996 (``classic``)."""

_NOT_IN_QUESTION = ("topic", "source", "why", "expected", "disputed")


@dataclass(frozen=True)
class Case:
    """A test case: a question about a robots.txt or a page, with the expected answer in each dialect."""

    fields: Mapping[str, Any]
    """The fields of the case, as ``schema.json`` describes them."""

    @property
    def id(self) -> str:
        return str(self.fields["id"])

    @property
    def topic(self) -> str:
        return str(self.fields["topic"])

    @property
    def is_disputed(self) -> bool:
        """Whether the sources contradict each other on the answer, so that results for the case do not count."""
        return "disputed" in self.fields

    @property
    def dialects(self) -> tuple[str, ...]:
        """The dialects for which the case contains an expected answer."""
        return tuple(name for name in DIALECTS if name in self.fields["expected"])

    def expected(self, dialect: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.fields["expected"][dialect]
        return answer

    def question(self, dialect: str) -> dict[str, Any]:
        """Return the question for a parser that follows *dialect*. The question contains the dialect, and the case's
        fields without the expected answers and their explanations.
        """
        fields = {
            name: value
            for name, value in self.fields.items()
            if name not in _NOT_IN_QUESTION
        }
        if "padding" in fields:
            padding = "#" * fields.pop("padding")
            fields["robots"] = fields["robots"].replace("{padding}", padding)
        return {**fields, "dialect": dialect}


def body_of(question: Mapping[str, Any]) -> bytes:
    """Return the bytes of the robots.txt in *question*; empty bytes if there is none."""
    if "robots_base64" in question:
        return base64.b64decode(question["robots_base64"])
    return str(question.get("robots", "")).encode()


def agents_of(question: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the crawler's product tokens in *question*, in order of preference."""
    agent = question["agent"]
    return (agent,) if isinstance(agent, str) else tuple(agent)


class Suite:
    """The test cases in a folder of ``.jsonl`` files."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        return tuple(self._read())

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(case.topic for case in self.cases))

    def _read(self) -> Iterator[Case]:
        for path in sorted(self._folder.glob("*.jsonl")):
            for line in path.read_text(encoding="utf-8").split("\n"):
                if line:
                    yield Case(json.loads(line))
