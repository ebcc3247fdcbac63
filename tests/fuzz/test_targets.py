"""Tests that run each fuzz target with its seeds, which are example inputs, and with random variations of the seeds."""

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
    """Return the files with the seeds of a target."""
    return sorted((SEEDS / name).iterdir())


@pytest.mark.parametrize(
    "seed", [seed for name in TARGETS for seed in seeds(name)],
    ids=lambda seed: f"{seed.parent.name}-{seed.name}",
)  # fmt: skip
def test_the_target_of_each_seed_succeeds(seed: Path) -> None:
    """A seed is an input for which the target once failed, or that reaches code that runs rarely."""
    TARGETS[seed.parent.name](seed.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_each_target_succeeds_for_mixtures_of_its_seeds(name: str) -> None:
    """A mixture is a random sequence of words from the seeds and short random bytes, or a seed in which such a sequence
    replaces a part.
    """
    contents = [seed.read_bytes() for seed in seeds(name)]
    words = sorted({word for data in contents for word in re.findall(rb"\w+|\W", data)})
    piece = st.sampled_from(words) | st.binary(max_size=4)
    pieces = st.lists(piece, max_size=40).map(b"".join)
    changed_seeds = st.builds(
        lambda seed, start, length, new: seed[:start] + new + seed[start + length :],
        st.sampled_from(contents),
        st.integers(0, max(map(len, contents))),
        st.integers(0, 60),
        pieces,
    )
    run = given(changed_seeds | pieces)(TARGETS[name])
    settings(max_examples=1000 if is_long else 10)(run)()
