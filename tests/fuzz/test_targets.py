"""Each target holds for the kept inputs, and for variations of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from tests.effort import is_long
from tests.fuzz.targets import TARGETS, inputs, seeds

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

KEPT = [(name, path) for name in TARGETS for path in seeds(name)]


@pytest.mark.parametrize(
    ("name", "path"), KEPT, ids=[f"{name}-{path.name}" for name, path in KEPT]
)
def test_inputs_that_are_kept(name: str, path: Path) -> None:
    """Each input that once was wrong, or reaches rare code, has the properties of its target."""
    TARGETS[name](path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_like_them(name: str) -> None:
    """No bytes make a parser raise, or break another property of its target."""
    run = given(inputs(name))(TARGETS[name])
    settings(max_examples=1000 if is_long else 20)(run)()
