"""Makes reports as the command does."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import TYPE_CHECKING

from scrapy.settings import Settings

from scrapy_rep.commands import report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def run(*arguments: object) -> int:
    """The exit status of the command."""
    parser = ArgumentParser()
    report.add_arguments(parser)
    return report.run(parser.parse_args(list(map(str, arguments))), Settings())


def make_report(folder: Path, maker: Callable[[Path], str]) -> Path:
    """The report of a ledger that *maker* makes."""
    ledger = maker(folder / f"{maker.__name__}.rep")
    html = folder / f"{maker.__name__}.html"
    assert run(ledger, "-o", html) == 0
    return html
