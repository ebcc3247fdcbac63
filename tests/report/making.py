"""Makes reports as the command does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.commands.rep import execute

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def run(*arguments: object) -> int:
    """Return the exit status of the command."""
    return execute(["report", *map(str, arguments)], {})


def make_report(folder: Path, maker: Callable[[Path], str | list[str]]) -> Path:
    """Make the report of a ledger that *maker* makes, or of several."""
    made = maker(folder / f"{maker.__name__}.rep")
    html = folder / f"{maker.__name__}.html"
    assert run(*([made] if isinstance(made, str) else made), "-o", html) == 0
    return html
