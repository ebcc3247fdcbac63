"""``scrapy rep report``: a report on past crawls, as one HTML file."""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_rep.commands.output import CLEAN, notify, output_file
from scrapy_rep.ledger.reader import reading
from scrapy_rep.report.ledgers import Ledgers, Limits

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator

    from scrapy.settings import Settings


def run(arguments: Namespace, settings: Settings) -> int:
    """Write the report, and return 0. Raises UsageError or LedgerError if that fails."""
    try:
        from scrapy_rep.report.render import MARK, render  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            f"A report needs a package that is not installed ({error.name}): "
            "pip install 'scrapy-rep[report]' (in a checkout: pip install '.[report]')"
        ) from None
    if min(arguments.hosts, arguments.robotstxt) < 0:
        raise UsageError("--hosts and --robotstxt must be 0 or greater")
    output = arguments.output
    if output == "-":
        for part in _parts(arguments, render):
            sys.stdout.buffer.write(part.encode())
        sys.stdout.buffer.flush()
        return CLEAN
    if not _may_be_replaced(output, MARK):
        raise UsageError(f"{output} exists and is not a report; choose another file")
    with output_file(output, output, arguments.ledgers) as write:
        for part in _parts(arguments, render):
            write(part)
    notify(f"{output} is written; open it in a browser")
    return CLEAN


def _parts(
    arguments: Namespace, render: Callable[[Ledgers, float], Iterator[str]]
) -> Iterator[str]:
    """Yield the HTML of the report in parts."""
    # A ledger given twice counts once.
    paths = list(dict.fromkeys(map(os.path.realpath, arguments.ledgers)))
    limits = Limits(hosts=arguments.hosts, files=arguments.robotstxt)
    with closing(Ledgers(paths, limits)) as ledgers, reading(", ".join(paths)):
        yield from render(ledgers, time.time())


def _may_be_replaced(output: str, mark: str) -> bool:
    """Whether *output* does not exist, is empty or begins with the *mark* of a report.

    So a mistaken ``-o`` does not overwrite a ledger.
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
