"""Options, markers, hooks and fixtures for all tests."""

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
    "newest: does not depend on the version of Scrapy, so it does not run on the oldest one",
    "unmeasured: covers only code that other tests cover, so its coverage and that of its crawls is not measured",
    "slow: takes seconds, so it starts first, and does not delay the end of the test run",
)
"""The markers and their descriptions."""

COVERAGE_PROCESS = {"COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"}
"""The environment variables that make Python processes measure their coverage."""

SCHEDULED_BY_TEST = (
    "tests/crawl/",
    "tests/tools/",
    "tests/redis/",
    "tests/simulation/",
)
"""Folders with tests that take long. In these folders, each free pytest-xdist process gets the next test, or the next
class with all its tests. In other folders, it gets the next file. So the tests of one class in these folders, and the
tests of one file in other folders, may share results that take seconds to make.
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
    measures_coverage = config.getoption("cov_source", None)
    if is_first and config.getoption("numprocesses", None) and not measures_coverage:
        # The processes of pytest-xdist share a fork server. If coverage is measured, each process starts its own fork
        # server later, when the environment contains the variables that switch coverage on. The module copies the
        # environment when it is imported, so it must not be imported before.
        from tests import forks  # noqa: PLC0415

        if forks.CAN_FORK:
            os.environ[forks.VARIABLE] = forks.start()
    # There is no deadline, because a machine may be slow. Each short run has the same examples. So a failure is due to
    # the change that is tested. Each long run has new examples.
    settings.register_profile(
        "ours",
        max_examples=1000 if effort.is_long else 25,
        derandomize=not effort.is_long,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("ours")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """If tests with the marker ``newest`` are not selected, ignore files and packages in which all tests have this
    marker. Otherwise, each process of pytest-xdist would import them.
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


# This hook runs first, because other plugins select tests by the markers that the hook adds.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in marks_of_package(item):
            item.add_marker(mark)
    positions = mixed_positions(
        list(dict.fromkeys(item.path.as_posix() for item in items))
    )
    items.sort(
        key=lambda item: (
            item.get_closest_marker("slow") is None,
            positions[item.path.as_posix()],
        )
    )


def mixed_positions(files: list[str]) -> dict[str, float]:
    """Return a sort key from 0 to 1 for each of *files*. In this order, tests with crawls, which wait most of the time,
    alternate with other tests, which need the processor.
    """
    crawls = [file for file in files if "/tests/crawl/" in file]
    others = [file for file in files if "/tests/crawl/" not in file]
    return {
        file: number / len(group)
        for group in (crawls, others)
        for number, file in enumerate(group)
    }


def pytest_collection_finish() -> None:
    """Freeze all collected tests and imported modules, so that the garbage collector does not examine them again and
    again.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure no coverage in tests with the marker ``unmeasured``, in their fixtures, and in the processes that they
    start. A crawl takes half as long again if its coverage is measured.

    The marker ``no_cover`` of pytest-cov has no effect under pytest-xdist, where coverage is started twice: the marker
    stops only one of the two measurements.
    """
    coverage = Coverage.current()
    if not coverage or not item.get_closest_marker("unmeasured"):
        return (yield)
    coverage._collector.pause()
    variables = {
        key: os.environ.pop(key) for key in COVERAGE_PROCESS & os.environ.keys()
    }
    try:
        return (yield)
    finally:
        os.environ.update(variables)
        coverage._collector.resume()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Give each free process the next test, the next class, or the next file: see ``SCHEDULED_BY_TEST``.

    The marker ``xdist_group`` could not do this. It has no effect with pytest 9.2 and pytest-xdist 3.8: pytest-xdist
    adds the group to an attribute that this version of pytest does not read.
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if not nodeid.startswith(SCHEDULED_BY_TEST):
                return nodeid.partition("::")[0]
            return nodeid.rpartition("::")[0] if nodeid.count("::") > 1 else nodeid

    return Scheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def _no_warnings_of_fake_engines() -> Iterator[None]:
    """Log no warnings about missing private names of Scrapy. The fake engines of the tests lack most of these names.
    Each warning would be in the log of whichever test happens to be the first to need the name.
    """
    with pytest.MonkeyPatch.context() as patch:
        with suppress(ImportError):  # Tests of the protocol need no Scrapy.
            patch.setattr("scrapy_rep.base.compat._warn", lambda path: None)
        yield


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A Redis server that all tests of this pytest-xdist process share."""
    # Tests of the protocol need no Redis client.
    from tests.fetching import redis_server as module  # noqa: PLC0415

    if module.BINARY is None:
        pytest.skip("There is no redis-server on the PATH")
    with module.RedisServer() as server:
        yield server


def marks_of_package(item: pytest.Item) -> Iterable[pytest.MarkDecorator]:
    """Yield the markers in the ``pytestmark`` of each package that contains *item*. pytest does not read the
    ``pytestmark`` of packages.
    """
    name = item.getparent(pytest.Module).obj.__name__
    while name := name.rpartition(".")[0]:
        yield from getattr(sys.modules[name], "pytestmark", ())
