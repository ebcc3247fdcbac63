from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests.commands.rep import ROBOTS, Ended, execute
from tests.crawl.server import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Rep(Protocol):
    """Runs ``scrapy rep`` in this process."""

    def __call__(
        self, *arguments: str, stdin: str | bytes = b"", **settings: Any
    ) -> Ended: ...


@pytest.fixture
def rep(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Rep:
    """Run ``scrapy rep`` in this process, in an empty folder with a ``robots.txt``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "robots.txt").write_text(ROBOTS)

    def run(*arguments: str, stdin: str | bytes = b"", **settings: Any) -> Ended:
        octets = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(octets)))
        try:
            status = execute(arguments, settings)
        except SystemExit as end:  # argparse exits this way.
            status = int(str(end.code))
        return Ended(status, *capsys.readouterr())

    return run


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        yield site
