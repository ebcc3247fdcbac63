"""Runs a subcommand, and turns its exceptions into messages and exit statuses."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_rep.commands.shared.output import notify
from scrapy_rep.exceptions import LedgerError, SettingError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from scrapy.settings import Settings

CLEAN, FOUND, WRONG_USAGE = 0, 1, 2
"""0: allowed, or nothing found. 1: denied, or something found. 2: wrong usage or input."""

# The status that shells give a process that a signal ended.
_INTERRUPTED, _BROKEN_PIPE = 128 + 2, 128 + 13


def exit_status(
    run: Callable[[Namespace, Settings], int],
    arguments: Namespace,
    settings: Settings,
    unknown: list[str],
) -> int:
    """Run a subcommand, and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A character that the terminal can't encode must not end the command.
            stream.reconfigure(errors="backslashreplace")
    try:
        if unknown:
            raise UsageError(f"unrecognized arguments: {' '.join(unknown)}")
        status = run(arguments, settings)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as "head", has closed the pipe. Without this, Python would
        # report an error when it flushes the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (UsageError, SettingError, LedgerError) as error:
        notify(str(error))
        return WRONG_USAGE
    return status
