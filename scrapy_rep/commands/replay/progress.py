"""A progress bar on standard error, where tqdm is installed."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_rep.commands.shared.output import Output


@contextmanager
def progress(output: Output, total: int) -> Iterator[Callable[[int], object]]:
    """Show a bar on standard error while the block runs, if that is a terminal.

    The block gets a function to call with the count of URLs that were judged since the
    last call. Without tqdm, which comes with the extra ``report``, there is no bar.
    """
    try:
        from tqdm import tqdm  # noqa: PLC0415
    except ImportError:
        yield lambda _: None
        return
    # None: shown on a terminal alone.
    with tqdm(total=total, unit=" URLs", disable=None) as bar:
        if not bar.disable:
            # A bar on the same terminal has to make room for each line.
            output.write = lambda text: tqdm.write(text, file=sys.stdout, end="")
        yield bar.update
