from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.commands.rep import ROBOTS, Ended, execute
from tests.crawl.server import Site

if TYPE_CHECKING:
    from collections.abc import Iterator


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


@pytest.fixture
def rep(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Rep:
    """Run ``scrapy rep`` in this process, in an empty folder with a ``robots.txt``."""
    monkeypatch.chdir(tmp_path)
    Path("robots.txt").write_text(ROBOTS)
    return Rep(capsys, monkeypatch)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        yield site
