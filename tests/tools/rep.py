"""Helpers that run ``scrapy rep``, in this process or in a subprocess, and write ledgers for it."""

from __future__ import annotations

import io
import json
import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jsonschema import Draft202012Validator
from scrapy.settings import Settings

from scrapy_rep.base.settings import ADDON
from scrapy_rep.tools.command import RepCommand
from tests import forks
from tests.tools.report.ledgers import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pytest

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs" / "schemas"

ROBOTS = """\
# Of a shop.
User-agent: otherbot
User-agent: mybot
Crawl-delay: 2
Disallow: /basket/  # no robots
Allow: /basket/help
Sitemap: https://shop.example/sitemap.xml

User-agent: *
Disallow: /
"""


class RunResult(NamedTuple):
    """The exit status and the output of a run of ``scrapy rep``."""

    status: int
    out: str
    err: str

    def records(self, subcommand: str) -> list[dict[str, Any]]:
        """Return the JSON objects of the output, after validation against the schema of
        *subcommand*.
        """
        schema = json.loads((SCHEMAS / f"{subcommand}.json").read_text())
        validator = Draft202012Validator(schema)
        records = [json.loads(line) for line in self.out.splitlines()]
        for record in records:
            validator.validate(record)
        return records


def execute(arguments: Iterable[str], settings: Mapping[str, Any]) -> int:
    """Run the command in this process, as Scrapy does. Return the exit status. *settings* are
    settings of the project; None unsets a default of this function.
    """
    command = RepCommand()
    all_settings = {"ADDONS": ADDON, "USER_AGENT": "mybot/1.0", **settings}
    command.settings = Settings(
        {name: value for name, value in all_settings.items() if value is not None}
    )
    parser = ArgumentParser(conflict_handler="resolve")
    command.add_options(parser)
    options, rest = parser.parse_known_args(list(arguments))
    command.process_options(rest, options)
    command.run(rest, options)
    return command.exitcode


class Rep:
    """A callable that runs ``scrapy rep`` in this process."""

    def __init__(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(
        self, *arguments: str, stdin: str | bytes = b"", **settings: Any
    ) -> RunResult:
        """Run the command with *arguments*, in a project with these *settings*."""
        octets = stdin.encode() if isinstance(stdin, str) else stdin
        text = io.TextIOWrapper(io.BytesIO(octets))
        self._monkeypatch.setattr(sys, "stdin", text)
        try:
            status = execute(arguments, settings)
        except SystemExit as exit_error:  # argparse exits this way.
            status = int(str(exit_error.code))
        return RunResult(status, *self._capsys.readouterr())

    def records(self, *arguments: str, **options: Any) -> list[dict[str, Any]]:
        """Run the command with ``--json``, and return its JSON objects, after validation against
        the schema.
        """
        return self(*arguments, "--json", **options).records(arguments[0])

    def record(self, *arguments: str, **options: Any) -> dict[str, Any]:
        """Run the command with ``--json``, and return its single JSON object."""
        (record,) = self.records(*arguments, **options)
        return record


def scrapy_rep(
    *arguments: str, stdin: str | bytes = b"", cwd: Path | None = None
) -> RunResult:
    """Run ``scrapy rep`` through Scrapy's entry point, in a subprocess with the current folder
    *cwd*.
    """
    process = forks.run(
        ["scrapy", "rep", *arguments],
        stdin=stdin.encode() if isinstance(stdin, str) else stdin,
        cwd=cwd,
        env=plain_environment(),
    )
    return RunResult(
        process.returncode, process.stdout.decode(), process.stderr.decode()
    )


def plain_environment() -> dict[str, str]:
    """Return the environment of a subprocess, without variables that would set a proxy or settings
    of Scrapy.
    """
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and not name.startswith("SCRAPY_")
    }
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**variables, "PYTHONPATH": path}


def new_ledger(
    path: Path | str,
    decisions: Iterable[tuple[str, str]],
    *,
    agents: tuple[str, ...] = ("mybot",),
    dialect: str = "rfc9309",
    time: float = 0.0,
    level: str = "all",
) -> Ledger:
    """Return the open ledger of one crawl. Each pair of *decisions* is a URL and the verdict of a
    rule on it; the decisions are one second apart, the first at *time*. *agents*, *dialect* and
    *level* are those of the crawl.
    """
    ledger = Ledger(Path(path))
    crawl = {"spider": "shop", "started": 0, "agents": json.dumps(agents)}
    ledger.crawl(level, dialect=dialect, **crawl)
    for number, (url, verdict) in enumerate(decisions):
        rule = {"line": 3, "statement": "Disallow: /"}
        ledger.decision(url, verdict=verdict, time=time + number, **rule)
    return ledger


def write_ledger(
    path: Path | str, decisions: Iterable[tuple[str, str]], **options: Any
) -> str:
    """Write the ledger that :func:`new_ledger` makes, and return its path."""
    return new_ledger(path, decisions, **options).close()
