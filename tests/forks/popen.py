"""A replacement for the module ``subprocess`` in code that starts ``python -m``."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.forks.client import start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.forks.client import Forked

DEVNULL, PIPE, STDOUT = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT


def Popen(
    args: Sequence[str], *, text: bool = False, **given: Any
) -> Forked | subprocess.Popen[Any]:
    """Start *args*: by the fork server if they are this Python and ``-m``,
    otherwise as a new process.
    """
    if list(args[:2]) != [sys.executable, "-m"]:
        return subprocess.Popen(args, text=text, **given)
    process = start(args[2:], **{"stdout": 1, "stderr": 2} | given)
    if text:
        for name in ("stdin", "stdout", "stderr"):
            if pipe := getattr(process, name):
                setattr(process, name, io.TextIOWrapper(pipe))
    return process
