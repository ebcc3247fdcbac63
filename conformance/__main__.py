"""Runs parsers on the test cases, and prints each parser's number of correct answers, by topic.

    python -m conformance                               scrapy-rep and other parsers
    python -m conformance --only scrapy-rep --failures  one parser, with its wrong answers
    python -m conformance --adapter mymodule:answer     your own callable
    python -m conformance --command "node ask.js"       a parser in another language

A callable takes a question as a dictionary, and returns the answer as a dictionary. If it
does not support the question, it returns None. A command reads questions and writes answers
as lines of JSON. See conformance/README.md for the fields of questions and answers.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.adapters.command import Command
from conformance.cases import DIALECTS, Suite
from conformance.judge import Ended, judge, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from conformance.judge import Adapter, Result

    Answer = Callable[[Mapping[str, Any]], "Mapping[str, Any] | None"]


class Function:
    """A parser that is called as a Python function. *path* is the import path of the function, ``MODULE:CALLABLE``.

    For each test case, the function receives a question as a dict, such as whether a robots.txt allows a URL. The
    function returns the answer as a dict, or None if it does not support the question.
    """

    def __init__(self, path: str, dialect: str) -> None:
        module, _, name = path.partition(":")
        sys.path.insert(0, str(Path.cwd()))
        self._call: Answer = getattr(import_module(module), name)
        self.name = path
        self.dialect = dialect

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self._call(question)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parsers, and print the table of results. Return the exit status: 0 if all answers are correct, and 1 if
    an answer is wrong. If a program of ``--command`` ends too early or takes too long for an answer, no table is
    printed, and the exit status is 2.
    """
    options = parsed(arguments)
    suite = Suite()
    results: list[Result] = []
    for adapter in chosen(options):
        try:
            results.append(judge(adapter, suite.cases))
        except Ended as error:
            # The error begins with the id of the test case, such as "agents-001: No answer in 5 s".
            print(
                f"{adapter.name} failed, so the remaining test cases were not run. Test case {error}",
                file=sys.stderr,
            )
            return 2
        finally:
            if isinstance(adapter, Command):
                adapter.close()
    print(table(results, suite.topics))
    disputed = sum(case.is_disputed for case in suite.cases)
    print(
        f"\nThe suite has {len(suite.cases)} cases. The table does not count the {disputed} disputed cases."
    )
    if options.failures:
        for result in results:
            show_failures(result)
    return 1 if any(result.failures for result in results) else 0


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", metavar="WORD", help="run only parsers whose names contain WORD"
    )
    parser.add_argument("--adapter", metavar="MODULE:CALLABLE", action="append")
    parser.add_argument("--command", action="append")
    parser.add_argument(
        "--dialect", choices=DIALECTS, default="rfc9309",
        help="the dialect that the parsers of --adapter and --command follow",
    )  # fmt: skip
    parser.add_argument(
        "--failures", action="store_true", help="show each wrong answer"
    )
    return parser.parse_args(arguments)


def chosen(options: argparse.Namespace) -> Iterator[Adapter]:
    if options.adapter or options.command:
        for path in options.adapter or ():
            yield Function(path, options.dialect)
        for command in options.command or ():
            yield Command(command, options.dialect)
        return
    # Imported here, because these modules import packages that are not needed to test a custom parser.
    from conformance.adapters.ours import ScrapyRep  # noqa: PLC0415
    from conformance.adapters.peers import PEERS  # noqa: PLC0415

    everyone: list[Adapter] = [*map(ScrapyRep, DIALECTS), *(peer() for peer in PEERS)]
    for adapter in everyone:
        if (options.only or "") in adapter.name:
            yield adapter


def show_failures(result: Result) -> None:
    print(f"\n{result.name}, {result.dialect}: {len(result.failures)} wrong")
    for failure in result.failures:
        fields = failure.case.fields
        print(f"  {failure.case.id} ({fields['source']}): {fields['why']}")
        print(f"    expected {json.dumps(failure.expected)}, got {failure.answer}")


if __name__ == "__main__":
    sys.exit(main())
