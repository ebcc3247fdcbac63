"""``scrapy rep report``: ledgers as one HTML file."""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from scrapy.settings import BaseSettings

HELP = "Make an HTML file of what ledgers say"

_DEFAULT_OUTPUT = "robots-report.html"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "ledgers", nargs="+", metavar="LEDGER", help="files of REP_LEDGER"
    )
    parser.add_argument(
        "-o",
        "--output",
        default=_DEFAULT_OUTPUT,
        metavar="FILE",
        help="the file to write, - for standard output; %(default)s if not given. "
        "An older report is replaced, another file is not",
    )
    parser.add_argument(
        "--hosts",
        type=int,
        default=10_000,
        metavar="N",
        help="the most hosts in the table (default: %(default)s)",
    )
    parser.add_argument(
        "--robotstxt",
        type=int,
        default=200,
        metavar="N",
        help="the most hosts whose robots.txt is shown (default: %(default)s)",
    )


def run(arguments: Namespace, settings: BaseSettings) -> int:
    """The exit status: 0, or 2 with a message for what can't be."""
    try:
        _write(arguments)
    except _Refused as refused:
        print(refused, file=sys.stderr)
        return 2
    if arguments.output != "-":
        print(f"{arguments.output} is written: open it in a browser", file=sys.stderr)
    return 0


class _Refused(Exception):
    """What is asked for can't be done. The message says why."""


def _write(arguments: Namespace) -> None:
    import sqlite3  # noqa: PLC0415

    try:
        from scrapy_rep.report.render import MARK, render  # noqa: PLC0415
    except ImportError as error:
        raise _Refused(
            f"A report needs a package that is not there ({error.name}): "
            "pip install scrapy-rep[report]"
        ) from None
    from scrapy_rep.exceptions import LedgerError  # noqa: PLC0415
    from scrapy_rep.report.collect import Limits, collect  # noqa: PLC0415
    from scrapy_rep.report.scratch import Scratch  # noqa: PLC0415

    if min(arguments.hosts, arguments.robotstxt) < 0:
        raise _Refused("--hosts and --robotstxt must be 0 or greater.")
    output = arguments.output
    _check_output(output, MARK)
    ledgers = dict.fromkeys(os.path.realpath(path) for path in arguments.ledgers)
    limits = Limits(hosts=arguments.hosts, documents=arguments.robotstxt)
    try:
        with closing(Scratch(ledgers)) as scratch:
            parts = render(collect(scratch, limits), time.time())
            _save(output, parts)
    except LedgerError as error:
        raise _Refused(error) from None
    except sqlite3.Error as error:
        raise _Refused(f"{', '.join(ledgers)}: {error}") from None
    except OSError as error:
        raise _Refused(f"{output}: {error.strerror or error}") from None


def _check_output(output: str, mark: str) -> None:
    """Refuse to replace what is no report: a ledger, say, of whoever forgot the -o."""
    path = Path(output)
    if output == "-" or not path.exists():
        return
    if path.is_file():
        with path.open("rb") as file:
            begins = file.read(len(mark))
        if not begins or begins == mark.encode():
            return
    raise _Refused(f"{output} is there, and is no report; it is not replaced.")


def _save(output: str, parts: Iterator[str]) -> None:
    """Write all of it or nothing."""
    if output == "-":
        for part in parts:
            sys.stdout.buffer.write(part.encode())
        sys.stdout.buffer.flush()
        return
    # Where the output is a link, what it leads to is written.
    path = Path(output).resolve()
    with NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        written = Path(file.name)
        try:
            file.writelines(parts)
            file.close()
            written.chmod(0o666 & ~_umask())
            written.replace(path)
        except BaseException:
            written.unlink()
            raise


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
