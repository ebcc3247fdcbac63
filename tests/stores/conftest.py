from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.stores.places import PLACES, Place, RedisPlace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty place for each kind of store that keeps entries."""
    yield from _place(request, tmp_path)


@pytest.fixture(params=[kind for kind in PLACES if kind != "memory"])
def shared_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A place for each kind of store that several processes can use."""
    yield from _place(request, tmp_path)


def _place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    kind = PLACES[request.param]
    if kind is RedisPlace:
        found: Place = RedisPlace(request.getfixturevalue("redis_server"))
    else:
        found = kind(tmp_path)
    yield found
    found.close()
