"""Makes reports as the command does."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import TYPE_CHECKING

from scrapy.settings import Settings

from scrapy_rep.commands import report
from scrapy_rep.commands.arguments import SUBCOMMANDS
from scrapy_rep.commands.output import exit_status

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def run(*arguments: object) -> int:
    """Return the exit status of the command."""
    parser = ArgumentParser()
    SUBCOMMANDS["report"].add_arguments(parser)
    given = parser.parse_args(list(map(str, arguments)))
    return exit_status(report.run, given, Settings(), unknown=[])


def make_report(folder: Path, maker: Callable[[Path], str | list[str]]) -> Path:
    """Make the report of a ledger that *maker* makes, or of several."""
    made = maker(folder / f"{maker.__name__}.rep")
    html = folder / f"{maker.__name__}.html"
    assert run(*([made] if isinstance(made, str) else made), "-o", html) == 0
    return html
