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
    """Kill the crawls that a failed test has left running, since they would slow down later tests."""
    yield
    for crawl in list(RunningCrawl.alive):
        crawl.end()


# The test command sets the environment variable MODES, to skip the modes that another run tests.
SELECTED_MODES = [
    mode for mode in MODES if mode in os.environ.get("MODES", " ".join(MODES))
]


def skip_unsupported(mode: str) -> str:
    """Return *mode*. Skip the test if the installed Scrapy does not have this mode."""
    if mode == "reactorless" and not has_reactorless_mode():
        pytest.skip("This Scrapy needs a Twisted reactor")
    return mode


@pytest.fixture(params=SELECTED_MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """Each mode of Scrapy that the environment variable MODES selects: asyncio, select, reactorless."""
    return skip_unsupported(request.param)


@pytest.fixture(params=MODES)
def every_mode(request: pytest.FixtureRequest) -> str:
    """Each mode of Scrapy: asyncio, select, reactorless. The environment variable MODES has no effect. The most
    important tests use this fixture in place of ``mode``.
    """
    return skip_unsupported(request.param)
