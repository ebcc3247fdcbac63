"""Options, markers and fixtures of all tests."""

from __future__ import annotations

import gc
import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from coverage import Coverage
from hypothesis import HealthCheck, settings

from tests import effort

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.fetching.redis_server import RedisServer

MARKERS = (
    "newest: is the same on every Scrapy, and so is left out on the oldest",
    "unmeasured: goes where others go, and so is not measured for coverage, nor its crawls",
    "slow: takes seconds, and so comes first, that nobody waits for it at the end",
)

COVERAGE_PROCESS = {"COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"}
"""The environment variables that make Python processes measure their coverage."""

ONE_BY_ONE = ("tests/crawl/", "tests/tools/", "tests/redis/", "tests/simulation/")
"""Folders of tests that take long. Each of these tests goes to the process that is free first, but the tests of
a class go together. Elsewhere, a process gets a whole file. So the tests of a class here, and of a file
elsewhere, may share what takes seconds to make.
"""


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
    is_first = not hasattr(config, "workerinput")
    measures = config.getoption("cov_source", None)
    if is_first and config.getoption("numprocesses", None) and not measures:
        # The processes of pytest-xdist share a server. If coverage is measured, each has its own, which
        # finds in its environment how to measure: so nothing is imported before that is there.
        from tests import forks  # noqa: PLC0415

        if forks.CAN_FORK:
            os.environ[forks.VARIABLE] = forks.start()
    # No deadlines, as a machine may be slow. Each short run has the same examples, so that a failure is due
    # to the change that is tested; long runs have new examples.
    settings.register_profile(
        "ours",
        max_examples=1000 if effort.is_long else 25,
        derandomize=not effort.is_long,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("ours")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore files and packages whose tests all have the marker ``newest``, if these are not selected: else each
    process of pytest-xdist would import them.
    """
    module = collection_path
    if module.is_dir():
        module /= "__init__.py"
    wants_newest = config.option.markexpr != "not newest"
    if module.suffix == ".py" and module.exists() and not wants_newest:
        marks = re.search(r"^pytestmark = .*(\n .*)*", module.read_text(), re.MULTILINE)
        if marks and "mark.newest" in marks[0]:
            return True
    return None


# This runs before other plugins select tests by their markers.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in marks_of_package(item):
            item.add_marker(mark)
    places = mixed(list(dict.fromkeys(item.path.as_posix() for item in items)))
    items.sort(
        key=lambda item: (
            item.get_closest_marker("slow") is None,
            places[item.path.as_posix()],
        )
    )


def mixed(files: list[str]) -> dict[str, float]:
    """Return the places of *files* in an order that mixes crawls, which wait most of the time, with
    tests that compute.
    """
    crawls = [file for file in files if "/tests/crawl/" in file]
    others = [file for file in files if "/tests/crawl/" not in file]
    return {
        file: number / len(group)
        for group in (crawls, others)
        for number, file in enumerate(group)
    }


def pytest_collection_finish() -> None:
    """Keep the garbage collector from going through all tests and modules again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure no coverage in tests with the marker ``unmeasured``, nor in their fixtures and
    in the processes that they start: a measured crawl takes half as long again.

    The marker ``no_cover`` of pytest-cov has no effect under pytest-xdist: coverage was
    started twice there, and to stop one measurement leaves the other.
    """
    measuring = Coverage.current()
    if not measuring or not item.get_closest_marker("unmeasured"):
        return (yield)
    measuring._collector.pause()
    asked = {key: os.environ.pop(key) for key in COVERAGE_PROCESS & os.environ.keys()}
    try:
        return (yield)
    finally:
        os.environ.update(asked)
        measuring._collector.resume()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Give a process that is free the next test, the next class, or the next file: see
    ``ONE_BY_ONE``.

    The marker ``xdist_group`` has no effect with pytest 9.2 and pytest-xdist 3.8, which adds
    the group to an attribute that this pytest does not read.
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if not nodeid.startswith(ONE_BY_ONE):
                return nodeid.partition("::")[0]
            return nodeid.rpartition("::")[0] if nodeid.count("::") > 1 else nodeid

    return Scheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def _silent_fakes() -> Iterator[None]:
    """Log no missing private names of Scrapy. Its fake engine has few of them, and the first test that misses one
    would have the warning in its log.
    """
    with pytest.MonkeyPatch.context() as patch:
        with suppress(ImportError):  # Tests of the protocol need no Scrapy.
            patch.setattr("scrapy_rep.base.compat._warn", lambda path: None)
        yield


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One Redis server for all tests of this process; each xdist worker has its own."""
    # Tests of the protocol need no Redis client.
    from tests.fetching import redis_server as module  # noqa: PLC0415

    if module.BINARY is None:
        pytest.skip("There is no redis-server on the PATH")
    with module.RedisServer() as server:
        yield server


def marks_of_package(item: pytest.Item) -> Iterable[pytest.MarkDecorator]:
    """Yield the ``pytestmark`` of the packages of *item*, which pytest does not read."""
    name = item.getparent(pytest.Module).obj.__name__
    while name := name.rpartition(".")[0]:
        yield from getattr(sys.modules[name], "pytestmark", ())
