"""Fixtures of the frontier tests: no event loop, and no crawl outlives its test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.frontier.fakes import Crawl, no_event_loop

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _all_is_synchronous() -> Iterator[None]:
    with no_event_loop():
        yield
        Crawl.abandon_all()
