from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.crawl.crawl import MODES, RunningCrawl, has_reactorless_mode
from tests.crawl.server import Site

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        yield site


@pytest.fixture(autouse=True)
def _no_crawl_left() -> Iterator[None]:
    """End the crawls of a test that has failed, which later tests would wait beside."""
    yield
    for crawl in list(RunningCrawl.alive):
        crawl.end()


# The test command sets MODES to skip modes that another run tests.
CHOSEN = [mode for mode in MODES if mode in os.environ.get("MODES", " ".join(MODES))]


def check(mode: str) -> str:
    if mode == "reactorless" and not has_reactorless_mode():
        pytest.skip("This Scrapy needs a Twisted reactor")
    return mode


@pytest.fixture(params=CHOSEN)
def mode(request: pytest.FixtureRequest) -> str:
    """Each mode in which Scrapy runs and that MODES selects."""
    return check(request.param)


@pytest.fixture(params=MODES)
def every_mode(request: pytest.FixtureRequest) -> str:
    """Each mode in which Scrapy runs, whatever MODES says, for the most important tests."""
    return check(request.param)
