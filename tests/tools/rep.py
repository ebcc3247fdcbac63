"""Runs ``scrapy rep``, in this process or in a subprocess."""

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


class Ended(NamedTuple):
    """The result of a run."""

    status: int
    out: str
    err: str

    def records(self, subcommand: str) -> list[dict[str, Any]]:
        """Return the JSON objects, validated against the schema of the subcommand."""
        schema = json.loads((SCHEMAS / f"{subcommand}.json").read_text())
        validator = Draft202012Validator(schema)
        records = [json.loads(line) for line in self.out.splitlines()]
        for record in records:
            validator.validate(record)
        return records


def execute(arguments: Iterable[str], settings: Mapping[str, Any]) -> int:
    """Run the command in this process as Scrapy does."""
    command = RepCommand()
    all_settings = {"ADDONS": ADDON, "USER_AGENT": "mybot/1.0", **settings}
    # None stands for a setting that the project does not have.
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
    """Runs ``scrapy rep`` in this process."""

    def __init__(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(
        self, *arguments: str, stdin: str | bytes = b"", **settings: Any
    ) -> Ended:
        octets = stdin.encode() if isinstance(stdin, str) else stdin
        text = io.TextIOWrapper(io.BytesIO(octets))
        self._monkeypatch.setattr(sys, "stdin", text)
        try:
            status = execute(arguments, settings)
        except SystemExit as end:  # argparse exits this way.
            status = int(str(end.code))
        return Ended(status, *self._capsys.readouterr())

    def records(self, *arguments: str, **more: Any) -> list[dict[str, Any]]:
        """Return the JSON objects that a run writes, validated against the schema."""
        return self(*arguments, "--json", **more).records(arguments[0])

    def record(self, *arguments: str, **more: Any) -> dict[str, Any]:
        """Return the only JSON object."""
        (record,) = self.records(*arguments, **more)
        return record


def scrapy_rep(
    *arguments: str, stdin: str | bytes = b"", cwd: Path | None = None
) -> Ended:
    """Run ``scrapy rep`` through Scrapy's entry point, in a subprocess."""
    done = forks.run(
        ["scrapy", "rep", *arguments],
        stdin=stdin.encode() if isinstance(stdin, str) else stdin,
        cwd=cwd,
        env=plain_environment(),
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def plain_environment() -> dict[str, str]:
    """Return the environment without the variables that would redirect requests or settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and not name.startswith("SCRAPY_")
    }
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**kept, "PYTHONPATH": path}


def new_ledger(
    path: Path | str,
    decisions: Iterable[tuple[str, str]],
    *,
    agents: tuple[str, ...] = ("mybot",),
    dialect: str = "rfc9309",
    time: float = 0.0,
    level: str = "all",
) -> Ledger:
    """Return the open ledger of one crawl: URLs, and the verdict on each, by a rule."""
    ledger = Ledger(Path(path))
    crawl = {"spider": "shop", "started": 0, "agents": json.dumps(agents)}
    ledger.crawl(level, dialect=dialect, **crawl)
    for number, (url, verdict) in enumerate(decisions):
        rule = {"line": 3, "statement": "Disallow: /"}
        ledger.decision(url, verdict=verdict, time=time + number, **rule)
    return ledger


def write_ledger(
    path: Path | str, decisions: Iterable[tuple[str, str]], **crawl: Any
) -> str:
    """Write a ledger as :func:`new_ledger` does, and close it. Return its path."""
    return new_ledger(path, decisions, **crawl).close()
