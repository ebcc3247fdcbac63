"""Runs parsers on test cases, and compares the parsers' answers with the expected answers."""

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
"""The time limit in seconds for each answer."""


class Ended(Exception):
    """Raised if the process of a parser ended, so that the parser cannot answer further questions."""


class Adapter(Protocol):
    """The interface through which the suite calls a parser."""

    name: str
    """The name and version of the parser, for the table of results."""

    dialect: str
    """The dialect that the parser claims to follow, one of :data:`~conformance.cases.DIALECTS`."""

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the answer to *question*. Return None if the parser does not support the question.

        ``README.md`` describes the fields of questions and answers. An exception counts as a wrong answer, except for
        :class:`Ended`, which ends the run.
        """


@dataclass
class Failure:
    """A case with a wrong answer. *answer* is a message if the parser raised an exception."""

    case: Case
    expected: Mapping[str, Any]
    answer: Mapping[str, Any] | str


@dataclass
class Result:
    """The results of one parser, which follows one dialect."""

    name: str
    dialect: str
    counted: Counter[str] = field(default_factory=Counter)
    """The number of cases that the parser answered correctly or wrongly, by topic. Disputed cases, and cases that the
    parser does not support, are left out."""

    passed: Counter[str] = field(default_factory=Counter)
    """The number of cases that the parser answered correctly, by topic. Disputed cases are left out."""

    disputed: int = 0
    """The number of disputed cases on which the parser gave the expected answer. A case is disputed if its sources
    contradict each other."""

    failures: list[Failure] = field(default_factory=list)
    """The cases that the parser answered wrongly, or for which it raised an exception. Disputed cases are left out."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError if the ``with`` block takes longer than *seconds*. Some parsers hang on some files.

    The time limit needs the signal SIGALRM. On Windows, and in threads other than the main thread, there is no limit.
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
    """Run the parser behind *adapter* on all *cases* that contain an expected answer for its dialect. Return the
    results.

    An answer that takes longer than *seconds* counts as wrong. Raises :class:`Ended`, with the id of the case, if
    the parser's process ends.
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
        except Ended as error:
            raise Ended(f"{case.id}: {error}") from None
        except Exception as error:  # noqa: BLE001  Parsers may raise any exception.
            answer = f"{type(error).__name__}: {error}"
        if answer is None or not (isinstance(answer, str) or expected.keys() & answer):
            continue
        is_right = not isinstance(answer, str) and agrees(answer, expected)
        if case.is_disputed:
            result.disputed += is_right
            continue
        result.counted[case.topic] += 1
        if is_right:
            result.passed[case.topic] += 1
        else:
            result.failures.append(Failure(case, expected, answer))
    return result


def agrees(answer: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Whether *answer* contains all fields of *expected* with the same values. Only ``line`` may be missing in
    *answer*.
    """
    return all(
        key in answer and answer[key] == value
        for key, value in expected.items()
        if key != "line" or "line" in answer
    )


def table(results: Sequence[Result], topics: Sequence[str]) -> str:
    """Return a Markdown table with the numbers of correct answers. Each topic is a row, and each parser a column."""
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
    counted = result.counted[topic]
    return f"{result.passed[topic]}/{counted}" if counted else ""


def _share(result: Result) -> str:
    counted, passed = result.counted.total(), result.passed.total()
    if not counted:
        return ""
    # The share is rounded down, so that 100 % means that all answers are correct.
    return f"{passed}/{counted} ({passed * 1000 // counted / 10:g} %)"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return f"| {' | '.join(padded)} |"
