"""The subcommand ``scrapy rep report``, which writes a report on past crawls as a single HTML file or as JSON."""

from __future__ import annotations

import sys
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_rep.crawl.ledger.reader import reading
from scrapy_rep.tools.output import CLEAN, Output, notify, output_file, progress
from scrapy_rep.tools.report import answers
from scrapy_rep.tools.report.ledgers import NO_LIMITS, ReportLedgers, ReportLimits

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator

    from scrapy.settings import Settings

_PAGE = "robots-report.html"


def run(arguments: Namespace, settings: Settings) -> int:
    """Write the report, and return the exit status 0. Raises UsageError if the output cannot be written, and
    LedgerError if a ledger cannot be read.
    """
    if min(arguments.hosts, arguments.robotstxt) < 0:
        raise UsageError("--hosts and --robotstxt must be 0 or greater")
    if arguments.json and arguments.output == "-":
        raise UsageError(
            "--json and -o - would both write to standard output; choose a file for -o"
        )
    if arguments.json:
        with _opened(arguments, NO_LIMITS) as ledgers:
            record = answers.as_dict(ledgers, time.time())
        Output(arguments).show(record, ())
    if arguments.output is not None or not arguments.json:
        _write_page(arguments, arguments.output or _PAGE)
    return CLEAN


def _write_page(arguments: Namespace, output: str) -> None:
    try:
        from scrapy_rep.tools.report.page import MARK, render  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            f"An HTML report needs the package {error.name}, which is not installed; run "
            "pip install 'scrapy-rep[report]' (in a checkout: pip install '.[report]')"
        ) from None

    def parts() -> Iterator[str]:
        limits = ReportLimits(hosts=arguments.hosts, files=arguments.robotstxt)
        with _opened(arguments, limits) as ledgers:
            yield from render(ledgers, time.time())

    def write_parts(write: Callable[[str], object]) -> None:
        for number, part in enumerate(parts(), 1):
            write(part)
            progress.say(f"writing {output}, part {number:,}")

    if output == "-":
        write_parts(lambda part: sys.stdout.buffer.write(part.encode()))
        sys.stdout.buffer.flush()
        return
    with output_file(output, output, arguments.ledgers, MARK) as write:
        write_parts(write)
    notify(f"wrote {output}; open this file in a browser")


@contextmanager
def _opened(arguments: Namespace, limits: ReportLimits) -> Iterator[ReportLedgers]:
    """Yield the open ledgers, and close them at the end of the ``with`` block. If a ledger is damaged, SQLite raises an
    error in the block, which becomes a LedgerError.
    """
    paths = arguments.ledgers
    with reading(", ".join(paths)), closing(ReportLedgers(paths, limits)) as ledgers:
        yield ledgers
