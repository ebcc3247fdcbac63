"""Tests of the conformance suite: its cases, its judge, and the adapters of the parsers that it
judges.
"""

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


def test_this_package_passes_all_cases_in_each_dialect() -> None:
    """Disputed cases, on which the specifications disagree, are not counted for any parser. The table in
    ``docs/conformance.md`` has the figures of this run.
    """
    assert any(case.is_disputed for case in SUITE.cases)
    results = [judge(ScrapyRep(dialect), SUITE.cases) for dialect in DIALECTS]
    for dialect, result in zip(DIALECTS, results, strict=True):
        assert [(failure.case.id, failure.answer) for failure in result.failures] == []
        counted_cases = [
            case
            for case in SUITE.cases
            if dialect in case.dialects and not case.is_disputed
        ]
        assert result.counted.total() == len(counted_cases)
    page = (ROOT / "docs" / "conformance.md").read_text()
    documented = [cells(line) for line in page.splitlines()]
    for line in table(results, SUITE.topics).splitlines()[3:]:
        assert cells(line) in documented
    assert f"{len(SUITE.cases)} cases" in page


def cells(row: str) -> list[str]:
    """Return the first four cells of a row of a Markdown table."""
    return [cell.strip() for cell in row.split("|")[1:5]]


def test_cases_match_the_schema_and_have_unique_ids() -> None:
    """Each file of cases is named after their topic."""
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
def test_the_judge_accepts_only_the_expected_answer(case: Case) -> None:
    """Only a sample of the cases is checked."""
    for dialect in case.dialects:
        expected = case.expected(dialect)
        assert agrees(expected, expected)
        for key, value in expected.items():
            assert not agrees({**expected, key: [value, "other"]}, expected)
        assert not agrees({}, expected)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.__name__)
def test_each_peer_runs_and_passes_most_of_the_simple_cases(peer: type) -> None:
    cases = [case for case in SUITE.cases if case.topic == "groups"]
    result = judge(peer(), cases)
    assert result.passed.total() > result.counted.total() / 2


def answer(question: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the answer of this package to a question of the suite. The next test passes this function to
    ``--adapter``.
    """
    return ScrapyRep(question["dialect"]).answer(question)


def test_the_command_judges_any_callable_and_prints_the_table() -> None:
    """``python -m conformance`` exits with status 0 if all answers are right."""
    command = [sys.executable, "-m", "conformance", "--dialect", "google", "--failures"]
    command += ["--adapter", "tests.test_conformance:answer"]
    printed = subprocess.check_output(command, cwd=ROOT, text=True)
    assert printed.startswith("| topic")
    assert "tests.test_conformance:answer" in printed
    assert f"{len(SUITE.cases)} cases" in printed
    assert "0 wrong" in printed


PARTIAL_PARSER = """\
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
        (PARTIAL_PARSER, 60, None),
        ("import sys; sys.exit(3)", 60, "The command ended with the exit status 3"),
        (
            "input(); print('null'); raise SystemExit(4)",
            60,
            "ended with the exit status 4",
        ),
        ("import time; time.sleep(60)", 0.5, "No answer in 0.5 s"),
    ],
)
def test_a_command_in_any_language_can_be_judged(
    tmp_path: Path, code: str, timeout: float, message: str | None
) -> None:
    """The command reads questions and writes answers as lines of JSON. If the command ends or hangs, the run stops at
    once. The error message names the case.
    """
    script = tmp_path / "ask.py"
    script.write_text(code)
    command = Command(f"{sys.executable} {script}", "rfc9309", timeout=timeout)
    if message:
        with pytest.raises(Ended, match=f"^agents-00.*{message}"):
            judge(command, SUITE.cases)
    else:
        result = judge(command, SUITE.cases[:300])
        assert 0 < result.passed.total() < result.counted.total()
    command.close()


def test_a_parser_that_never_answers_fails_at_the_time_limit() -> None:
    class Endless:
        name, dialect = "endless", "rfc9309"

        def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any] | None:
            while True:
                pass

    (failure,) = judge(Endless(), SUITE.cases[:1], seconds=0.05).failures
    assert "TimeoutError" in str(failure.answer)
