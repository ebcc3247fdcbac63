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

from conformance.__main__ import main
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


@pytest.mark.parametrize("dialect", DIALECTS)
def test_this_package_passes(dialect: str) -> None:
    """This package answers every case of each dialect as expected."""
    result = judge(ScrapyRep(dialect), SUITE.cases)
    assert [(one.case.id, one.answer) for one in result.failures] == []
    counting = [c for c in SUITE.cases if dialect in c.dialects and not c.is_disputed]
    assert result.asked.total() == len(counting)


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


def test_disputed_cases_count_for_nobody() -> None:
    """Disputed cases, on which the sources disagree, are not counted."""
    disputed = [case for case in SUITE.cases if case.is_disputed]
    assert disputed
    for dialect in DIALECTS:
        assert judge(ScrapyRep(dialect), disputed).asked.total() == 0


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.__name__)
def test_peers_answer(peer: type) -> None:
    """Each peer parser can be run, and passes most of the simplest cases."""
    cases = [case for case in SUITE.cases if case.topic == "groups"]
    result = judge(peer(), cases)
    assert result.passed.total() > result.asked.total() / 2


def answer(question: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The adapter that the next test passes to ``--adapter``."""
    return ScrapyRep(question["dialect"]).answer(question)


def test_an_adapter_of_ones_own(capsys: pytest.CaptureFixture) -> None:
    """``--adapter`` runs any callable, in the dialect of ``--dialect``."""
    arguments = ["--adapter", "tests.test_conformance:answer", "--dialect", "google"]
    assert main([*arguments, "--failures"]) == 0
    printed = capsys.readouterr().out
    assert "tests.test_conformance:answer" in printed
    assert "0 wrong" in printed


COMMAND = """\
import json, sys
for line in sys.stdin:
    question = json.loads(line)
    is_easy = question["kind"] == "decision" and "robots" in question
    allowed = "Disallow: /a" not in question.get("robots", "")
    print(json.dumps({"allowed": allowed} if is_easy else None), flush=True)
"""


def test_a_command_of_another_language(tmp_path: Path) -> None:
    """A command in any language can be asked, by lines of JSON."""
    script = tmp_path / "ask.py"
    script.write_text(COMMAND)
    command = Command(f"{sys.executable} {script}", "rfc9309")
    result = judge(command, SUITE.cases[:300])
    command.close()
    assert 0 < result.passed.total() < result.asked.total()


@pytest.mark.parametrize(
    ("code", "timeout", "said"),
    [
        ("import sys; sys.exit(3)", 60, "The command ended, with status 3"),
        ("input(); print('null'); raise SystemExit(4)", 60, "ended, with status 4"),
        ("import time; time.sleep(60)", 0.5, "No answer in 0.5 s"),
    ],
)
def test_a_command_that_ends(
    tmp_path: Path, code: str, timeout: float, said: str
) -> None:
    """If a command ends or hangs, the run says so at once, with the case, and asks no more."""
    script = tmp_path / "ask.py"
    script.write_text(code)
    command = Command(f"{sys.executable} {script}", "rfc9309", timeout=timeout)
    with pytest.raises(Ended, match=said) as raised:
        judge(command, SUITE.cases)
    command.close()
    assert str(raised.value).startswith("agents-00")


def test_a_parser_that_never_answers() -> None:
    """A parser that never returns from a case fails it at the time limit."""

    class Endless:
        name, dialect = "endless", "rfc9309"

        def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any] | None:
            while True:
                pass

    (failure,) = judge(Endless(), SUITE.cases[:1], seconds=0.05).failures
    assert "TimeoutError" in str(failure.answer)


def test_the_documented_table_is_of_these_cases() -> None:
    """The table in the documentation has the current figures of this package."""
    page = (ROOT / "docs" / "conformance.md").read_text()
    results = [judge(ScrapyRep(dialect), SUITE.cases) for dialect in DIALECTS]
    documented = [
        [cell.strip() for cell in line.split("|")[1:5]]
        for line in page.splitlines()
        if line.startswith("|")
    ]
    for line in table(results, SUITE.topics).splitlines()[3:]:
        assert [cell.strip() for cell in line.split("|")[1:5]] in documented
    assert f"{len(SUITE.cases)} cases" in page


def test_the_command() -> None:
    """``python -m conformance`` prints the table, and exits with 0 if all answers are right."""
    command = [sys.executable, "-m", "conformance", "--only", "scrapy-rep"]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ended.stdout.startswith("| topic")
    assert f"{len(SUITE.cases)} cases" in ended.stdout
