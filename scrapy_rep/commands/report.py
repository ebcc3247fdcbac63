"""``scrapy rep report``: a report on past crawls, as one HTML file, CSV files or JSON."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_rep.commands.output import CLEAN, Output, notify, output_file
from scrapy_rep.ledger.reader import reading
from scrapy_rep.report import tables
from scrapy_rep.report.ledgers import NO_LIMITS, Ledgers, Limits

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator

    from scrapy.settings import Settings

_PAGE = "robots-report.html"


def run(arguments: Namespace, settings: Settings) -> int:
    """Write the report, and return 0. Raises UsageError or LedgerError if that fails."""
    if min(arguments.hosts, arguments.robotstxt) < 0:
        raise UsageError("--hosts and --robotstxt must be 0 or greater")
    if arguments.json and arguments.output == "-":
        raise UsageError("--json and -o - both write to standard output")
    if arguments.csv is not None or arguments.json:
        with _opened(arguments, NO_LIMITS) as ledgers:
            if arguments.csv is not None:
                _write_csv(arguments, ledgers)
            if arguments.json:
                record = tables.as_dict(ledgers, time.time())
                Output(arguments).show(record, ())
        if arguments.output is None:
            return CLEAN
    _write_page(arguments, arguments.output or _PAGE)
    return CLEAN


def _write_page(arguments: Namespace, output: str) -> None:
    try:
        from scrapy_rep.report.render import MARK, render  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            f"A report needs a package that is not installed ({error.name}): "
            "pip install 'scrapy-rep[report]' (in a checkout: pip install '.[report]')"
        ) from None

    def write_parts(write: Callable[[str], object]) -> None:
        limits = Limits(hosts=arguments.hosts, files=arguments.robotstxt)
        with _opened(arguments, limits) as ledgers:
            for part in render(ledgers, time.time(), arguments.against):
                write(part)

    if output == "-":
        write_parts(lambda part: sys.stdout.buffer.write(part.encode()))
        sys.stdout.buffer.flush()
        return
    inputs = [*arguments.ledgers, *arguments.against]
    with output_file(output, output, inputs, MARK.encode()) as write:
        write_parts(write)
    notify(f"{output} is written; open it in a browser")


def _write_csv(arguments: Namespace, ledgers: Ledgers) -> None:
    """Write the CSV files, which replace those of an earlier report."""
    folder = Path(arguments.csv)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or error}") from None
    inputs = [*arguments.ledgers, *arguments.against]
    for table in tables.TABLES:
        if table == "differences" and not arguments.against:
            continue
        path = str(folder / f"{table}.csv")
        with output_file(path, path, inputs) as write:
            for line in tables.as_csv(ledgers, table):
                write(line)
    notify(f"the tables are written to {folder}")


@contextmanager
def _opened(arguments: Namespace, limits: Limits) -> Iterator[Ledgers]:
    """Open the ledgers, and compare them with those of ``--against``."""
    with ExitStack() as stack:
        opened = []
        for given in filter(None, (arguments.ledgers, arguments.against)):
            # A ledger given twice counts once.
            paths = list(dict.fromkeys(map(os.path.realpath, given)))
            stack.enter_context(reading(", ".join(paths)))
            opened.append(stack.enter_context(closing(Ledgers(paths, limits))))
        if opened[1:]:
            opened[0].compare(opened[1])
        yield opened[0]
