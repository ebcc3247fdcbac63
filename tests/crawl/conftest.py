from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.crawl import crawl
from tests.crawl.crawl import MODES, has_reactorless_mode
from tests.crawl.server import Site

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        yield site


@pytest.fixture(autouse=True)
def measured(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the crawls of a test are measured for coverage.

    That takes half as long again: where crawls go as others do, the marker says no.
    """
    marker = request.node.get_closest_marker("unmeasured")
    monkeypatch.setattr(crawl, "MEASURED", marker is None)


# The test command leaves modes out where they are tried on another Scrapy, or by all the
# tests that know no mode.
CHOSEN = [mode for mode in MODES if mode in os.environ.get("MODES", " ".join(MODES))]


def check(mode: str) -> str:
    if mode == "reactorless" and not has_reactorless_mode():
        pytest.skip("This Scrapy needs a Twisted reactor")
    return mode


@pytest.fixture(params=CHOSEN)
def mode(request: pytest.FixtureRequest) -> str:
    """Each mode that Scrapy runs in, where the installed Scrapy has it."""
    return check(request.param)


@pytest.fixture(params=MODES)
def every_mode(request: pytest.FixtureRequest) -> str:
    """The same, in every run: for what matters most."""
    return check(request.param)
