"""Each fuzz target holds for the seeds, and for inputs like them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import is_long
from tests.fuzz.targets import SEEDS, TARGETS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]


def seeds(name: str) -> list[Path]:
    return sorted((SEEDS / name).iterdir())


@pytest.mark.parametrize(
    "seed", [seed for name in TARGETS for seed in seeds(name)],
    ids=lambda seed: f"{seed.parent.name}-{seed.name}",
)  # fmt: skip
def test_kept_inputs_are_read_as_their_target_says(seed: Path) -> None:
    """Each input that once was wrong, or reaches rare code, is read as its target says."""
    TARGETS[seed.parent.name](seed.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_mixtures_of_seeds_are_read_as_their_target_says(name: str) -> None:
    """Any bytes are read as the target says: here a seed with another piece in it, or the pieces of
    all seeds in another order.
    """
    whole = [seed.read_bytes() for seed in seeds(name)]
    words = sorted({word for data in whole for word in re.findall(rb"\w+|\W", data)})
    piece = st.sampled_from(words) | st.binary(max_size=4)
    pieces = st.lists(piece, max_size=40).map(b"".join)
    changed = st.builds(
        lambda seed, at, length, new: seed[:at] + new + seed[at + length :],
        st.sampled_from(whole),
        st.integers(0, max(map(len, whole))),
        st.integers(0, 60),
        pieces,
    )
    run = given(changed | pieces)(TARGETS[name])
    settings(max_examples=1000 if is_long else 10)(run)()
