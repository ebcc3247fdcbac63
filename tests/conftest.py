"""Options, markers and fixtures of all tests."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from coverage import Coverage
from hypothesis import HealthCheck, settings

from tests import effort

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.stores.redis_server import RedisServer

MARKERS = (
    "newest: is the same on every Scrapy, and so is left out on the oldest",
    "unmeasured: goes where others go, and so is not measured for coverage, nor its crawls",
    "slow: takes seconds, and so comes first, that nobody waits for it at the end",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long",
        action="store_true",
        help="try many more examples, and each robots.txt of SCRAPY_REP_CORPUS",
    )


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    effort.is_long = config.getoption("--long")
    # Without deadlines, as a machine may be slow.
    settings.register_profile(
        "ours",
        max_examples=1000 if effort.is_long else 40,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("ours")


# This runs before other plugins select tests by their markers.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in marks_of_package(item):
            item.add_marker(mark)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure no coverage in tests with the marker ``unmeasured``, nor in their fixtures.

    The marker ``no_cover`` of pytest-cov has no effect under pytest-xdist: coverage was
    started twice there, and to stop one measurement leaves the other.
    """
    measuring = Coverage.current()
    if not measuring or not item.get_closest_marker("unmeasured"):
        return (yield)
    measuring._collector.pause()
    try:
        return (yield)
    finally:
        measuring._collector.resume()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One Redis server for all tests of this process; each xdist worker has its own."""
    # Tests of the protocol need no Redis client.
    from tests.stores import redis_server as module  # noqa: PLC0415

    if module.BINARY is None:
        pytest.skip("There is no redis-server on the PATH")
    with module.RedisServer() as server:
        yield server


def marks_of_package(item: pytest.Item) -> Iterable[pytest.MarkDecorator]:
    """Yield the ``pytestmark`` of the packages of *item*, which pytest does not read."""
    name = item.getparent(pytest.Module).obj.__name__
    while name := name.rpartition(".")[0]:
        yield from getattr(sys.modules[name], "pytestmark", ())
