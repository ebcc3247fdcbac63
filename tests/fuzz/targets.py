"""All fuzz targets by name, with their seed inputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.fuzz.indexing import dates, html, robotstag
from tests.fuzz.ledgers import ledger
from tests.fuzz.robotstxt import decide, lint
from tests.fuzz.stored import sqlite, stored
from tests.fuzz.usage import tdmrep, usage

if TYPE_CHECKING:
    from collections.abc import Callable

TARGETS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each
    for each in (
        decide, lint, robotstag, html, dates, usage, tdmrep, stored, sqlite, ledger
    )
}  # fmt: skip

SEEDS = Path(__file__).with_name("seeds")


def seeds(name: str) -> list[Path]:
    return sorted((SEEDS / name).iterdir())


def inputs(name: str) -> st.SearchStrategy[bytes]:
    """Inputs like the seeds of a target: a seed with a piece replaced, or the pieces of
    all seeds in another order.
    """
    whole = [path.read_bytes() for path in seeds(name)]
    known = sorted({one for seed in whole for one in re.findall(rb"\w+|\W", seed)})
    pieces = st.lists(
        st.one_of(st.sampled_from(known), st.binary(max_size=4)), max_size=40
    ).map(b"".join)
    changed = st.builds(
        lambda seed, at, length, new: seed[:at] + new + seed[at + length :],
        st.sampled_from(whole),
        st.integers(0, max(map(len, whole))),
        st.integers(0, 60),
        pieces,
    )
    return st.one_of(changed, pieces)
