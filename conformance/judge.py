"""Asks parsers, and compares what they answer with what is expected."""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from conformance.cases import Case

SECONDS = 5.0
"""How long an answer may take."""


class Adapter(Protocol):
    """Someone who can be asked."""

    name: str
    """With its version, as the table has it."""

    dialect: str
    """The dialect that it says it follows."""

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The answer to a question, or None to one that it has no answer for.

        See ``README.md`` for what stands in both. Whatever it raises is a wrong answer.
        """


@dataclass
class Failure:
    """A case that was answered otherwise than expected."""

    case: Case
    expected: Mapping[str, Any]
    answer: Mapping[str, Any] | str


@dataclass
class Result:
    """How one parser did, in one dialect."""

    name: str
    dialect: str
    asked: Counter[str] = field(default_factory=Counter)
    """How many cases it had an answer to, by topic."""

    passed: Counter[str] = field(default_factory=Counter)
    disputed: int = 0
    """How many of the disputed cases, which are not counted, it answers as noted there."""

    failures: list[Failure] = field(default_factory=list)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises TimeoutError in what takes longer: some parsers never end on some files.

    Without effect where there are no alarms: on Windows, and beside the main thread.
    """
    if not hasattr(signal, "setitimer") or current_thread() is not main_thread():
        yield
        return

    def give_up(*_: object) -> None:
        raise TimeoutError(f"No answer in {seconds:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def judge(adapter: Adapter, cases: Iterable[Case], seconds: float = SECONDS) -> Result:
    """Ask *adapter* about all *cases* that its dialect has an answer for; each of its
    answers may take so many seconds.
    """
    result = Result(adapter.name, adapter.dialect)
    for case in cases:
        if adapter.dialect not in case.dialects:
            continue
        expected = case.expected(adapter.dialect)
        answer: Mapping[str, Any] | str | None
        try:
            with limited(seconds):
                answer = adapter.answer(case.question(adapter.dialect))
        except Exception as error:  # noqa: BLE001  of any parser
            answer = f"{type(error).__name__}: {error}"
        if answer is None or not (isinstance(answer, str) or expected.keys() & answer):
            continue
        is_right = not isinstance(answer, str) and agrees(answer, expected)
        if case.is_disputed:
            result.disputed += is_right
            continue
        result.asked[case.topic] += 1
        if is_right:
            result.passed[case.topic] += 1
        else:
            result.failures.append(Failure(case, expected, answer))
    return result


def agrees(answer: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Whether *answer* says what is expected. Which line decided is compared where the
    parser says so; of all else, what it leaves out is wrong.
    """
    return all(
        key in answer and answer[key] == value
        for key, value in expected.items()
        if key != "line" or "line" in answer
    )


def table(results: Sequence[Result], topics: Sequence[str]) -> str:
    """Passed of asked, by topic and parser, in Markdown."""
    rows = [
        ["topic", *(result.name for result in results)],
        ["dialect", *(result.dialect for result in results)],
        *([topic, *(_cell(result, topic) for result in results)] for topic in topics),
        ["all", *(_share(result) for result in results)],
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [_line(row, widths) for row in rows]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([lines[0], _line(rule, widths), *lines[1:]])


def _cell(result: Result, topic: str) -> str:
    asked = result.asked[topic]
    return f"{result.passed[topic]} of {asked}" if asked else ""


def _share(result: Result) -> str:
    asked, passed = result.asked.total(), result.passed.total()
    if not asked:
        return ""
    # Never 100 % of less than all.
    return f"{passed} of {asked} ({passed * 1000 // asked / 10:g} %)"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return f"| {' | '.join(padded)} |"
