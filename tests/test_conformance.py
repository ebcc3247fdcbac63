"""The conformance suite: its cases, its judge, and the parsers that it asks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from conformance.adapters.command import Command
from conformance.adapters.ours import ScrapyRep
from conformance.adapters.peers import PEERS
from conformance.cases import DIALECTS, SCHEMA, Case, Suite
from conformance.judge import Ended, agrees, judge, table

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

ROOT = Path(__file__).parents[1]
SUITE = Suite()


def test_this_package_passes() -> None:
    """This package answers every case of each dialect as expected, but for those on which the
    sources disagree, which count for nobody. The table in the documentation has its figures.
    """
    assert any(case.is_disputed for case in SUITE.cases)
    results = [judge(ScrapyRep(dialect), SUITE.cases) for dialect in DIALECTS]
    for dialect, result in zip(DIALECTS, results, strict=True):
        assert [(failure.case.id, failure.answer) for failure in result.failures] == []
        counting = [
            c for c in SUITE.cases if dialect in c.dialects and not c.is_disputed
        ]
        assert result.asked.total() == len(counting)
    page = (ROOT / "docs" / "conformance.md").read_text()
    documented = [cells(line) for line in page.splitlines()]
    for line in table(results, SUITE.topics).splitlines()[3:]:
        assert cells(line) in documented
    assert f"{len(SUITE.cases)} cases" in page


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.split("|")[1:5]]


def test_cases_are_as_the_schema_says() -> None:
    """The cases are valid by the schema, and their ids are unique."""
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for case in SUITE.cases:
        assert [error.message for error in validator.iter_errors(case.fields)] == []
    ids = Counter(case.id for case in SUITE.cases)
    assert [name for name, count in ids.items() if count > 1] == []
    for path in (ROOT / "conformance" / "cases").glob("*.jsonl"):
        assert {case.topic for case in Suite(path.parent).cases} >= {path.stem}


@pytest.mark.parametrize("case", SUITE.cases[::40], ids=lambda case: case.id)
def test_a_wrong_answer_is_found(case: Case) -> None:
    """The judge accepts only the expected answer, for a sample of cases."""
    for dialect in case.dialects:
        expected = case.expected(dialect)
        assert agrees(expected, expected)
        for key, value in expected.items():
            assert not agrees({**expected, key: [value, "other"]}, expected)
        assert not agrees({}, expected)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.__name__)
def test_peers_answer(peer: type) -> None:
    """Each peer parser can be run, and passes most of the simplest cases."""
    cases = [case for case in SUITE.cases if case.topic == "groups"]
    result = judge(peer(), cases)
    assert result.passed.total() > result.asked.total() / 2


def answer(question: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The adapter that the next test passes to ``--adapter``."""
    return ScrapyRep(question["dialect"]).answer(question)


def test_the_command_asks_any_callable_and_prints_the_table() -> None:
    """``python -m conformance`` asks any callable, prints the table, and exits with 0 if all
    answers are right.
    """
    command = [sys.executable, "-m", "conformance", "--dialect", "google", "--failures"]
    command += ["--adapter", "tests.test_conformance:answer"]
    printed = subprocess.check_output(command, cwd=ROOT, text=True)
    assert printed.startswith("| topic")
    assert "tests.test_conformance:answer" in printed
    assert f"{len(SUITE.cases)} cases" in printed
    assert "0 wrong" in printed


COMMAND = """\
import json, sys
for line in sys.stdin:
    question = json.loads(line)
    is_easy = question["kind"] == "decision" and "robots" in question
    allowed = "Disallow: /a" not in question.get("robots", "")
    print(json.dumps({"allowed": allowed} if is_easy else None), flush=True)
"""


@pytest.mark.parametrize(
    ("code", "timeout", "message"),
    [
        (COMMAND, 60, None),
        ("import sys; sys.exit(3)", 60, "The command ended with the exit status 3"),
        (
            "input(); print('null'); raise SystemExit(4)",
            60,
            "ended with the exit status 4",
        ),
        ("import time; time.sleep(60)", 0.5, "No answer in 0.5 s"),
    ],
)
def test_a_command_in_any_language_can_be_asked(
    tmp_path: Path, code: str, timeout: float, message: str | None
) -> None:
    """A command in any language can be asked, by lines of JSON. If it ends or hangs, the run
    says so at once, with the case, and asks no more.
    """
    script = tmp_path / "ask.py"
    script.write_text(code)
    command = Command(f"{sys.executable} {script}", "rfc9309", timeout=timeout)
    if message:
        with pytest.raises(Ended, match=f"^agents-00.*{message}"):
            judge(command, SUITE.cases)
    else:
        result = judge(command, SUITE.cases[:300])
        assert 0 < result.passed.total() < result.asked.total()
    command.close()


def test_a_parser_that_never_answers_fails_at_the_time_limit() -> None:
    """A parser that never returns from a case fails it at the time limit."""

    class Endless:
        name, dialect = "endless", "rfc9309"

        def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any] | None:
            while True:
                pass

    (failure,) = judge(Endless(), SUITE.cases[:1], seconds=0.05).failures
    assert "TimeoutError" in str(failure.answer)
