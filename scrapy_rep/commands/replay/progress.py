"""A progress bar for people who wait, where there is a library for it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_rep.commands.shared.output import Output


@contextmanager
def progress(
    output: Output, total: int, done: int
) -> Iterator[Callable[[int], object]]:
    """Show a bar on standard error while the block runs, if that is a terminal.

    Gives the function that takes how much more was done. Needs tqdm, of the extra
    ``report``; without it there is no bar.
    """
    try:
        from tqdm import tqdm  # noqa: PLC0415
    except ImportError:
        yield lambda _: None
        return
    # None: shown on a terminal alone.
    with tqdm(total=total, initial=done, unit=" URLs", disable=None) as bar:
        if not bar.disable:
            # A bar on the same terminal has to make room for each line.
            output.write = lambda text: tqdm.write(text, file=sys.stdout, end="")
        yield bar.update
