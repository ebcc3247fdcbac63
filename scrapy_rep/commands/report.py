"""``scrapy rep report``: a report on past crawls, as one HTML file."""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from scrapy.settings import BaseSettings

HELP = "Write a report on past crawls, as one HTML file"

_DEFAULT_OUTPUT = "robots-report.html"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "ledgers", nargs="+", metavar="LEDGER", help="ledgers of crawls (REP_LEDGER)"
    )
    parser.add_argument(
        "-o",
        "--output",
        default=_DEFAULT_OUTPUT,
        metavar="FILE",
        help="the file to write, or - for standard output (default: %(default)s); an "
        "older report is replaced, any other file is not",
    )
    parser.add_argument(
        "--hosts",
        type=int,
        default=10_000,
        metavar="N",
        help="how many hosts to list at most (default: %(default)s)",
    )
    parser.add_argument(
        "--robotstxt",
        type=int,
        default=200,
        metavar="N",
        help="how many hosts to show the robots.txt of at most (default: %(default)s)",
    )


def run(arguments: Namespace, settings: BaseSettings) -> int:
    """The exit status: 0. Raises UsageError or LedgerError where no report is written."""
    from scrapy.exceptions import UsageError  # noqa: PLC0415

    try:
        from scrapy_rep.report.render import MARK  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            f"A report needs a package that is not installed ({error.name}): "
            "pip install scrapy-rep[report]"
        ) from None
    from scrapy_rep.commands.shared.output import complain  # noqa: PLC0415
    from scrapy_rep.commands.shared.output_file import OutputFile  # noqa: PLC0415

    if min(arguments.hosts, arguments.robotstxt) < 0:
        raise UsageError("--hosts and --robotstxt must be 0 or greater")
    output = arguments.output
    if output == "-":
        for part in _parts(arguments):
            sys.stdout.buffer.write(part.encode())
        sys.stdout.buffer.flush()
        return 0
    if not _may_be_replaced(output, MARK):
        raise UsageError(f"{output} exists and is not a report; it is not replaced")
    with OutputFile(output, output, arguments.ledgers) as file:
        for part in _parts(arguments):
            file.write(part)
    complain(f"{output} is written; open it in a browser")
    return 0


def _parts(arguments: Namespace) -> Iterator[str]:
    """The parts of the page, one after the other."""
    from scrapy_rep.exceptions import LedgerError  # noqa: PLC0415
    from scrapy_rep.report.collect import Limits, collect  # noqa: PLC0415
    from scrapy_rep.report.render import render  # noqa: PLC0415
    from scrapy_rep.report.scratch import Scratch  # noqa: PLC0415
    from scrapy_rep.sqlitefiles import FAILURES, cause_of  # noqa: PLC0415

    ledgers = dict.fromkeys(os.path.realpath(path) for path in arguments.ledgers)
    limits = Limits(hosts=arguments.hosts, documents=arguments.robotstxt)
    with closing(Scratch(ledgers)) as scratch:
        try:
            yield from render(collect(scratch, limits), time.time())
        except FAILURES as error:
            raise LedgerError(", ".join(ledgers), cause_of(error)) from None


def _may_be_replaced(output: str, mark: str) -> bool:
    """Whether *output* does not exist, is empty or begins with the *mark* of a report.

    A user who mistakes the argument of ``-o`` must not lose a ledger.
    """
    path = Path(output)
    if not path.exists():
        return True
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            begins = file.read(len(mark))
    except OSError:
        return False
    return not begins or begins == mark.encode()
