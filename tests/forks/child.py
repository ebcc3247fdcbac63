"""Imports what crawls and commands need, and runs a module as ``python -m`` does.

The fork server imports this module, so each process that it forks has imported the rest too.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import pkgutil
import runpy
import signal
import sys
import threading
import traceback
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coverage import Coverage

# Modules that Scrapy imports late, besides the components of Scrapy and this package.
MODULES = (
    "asyncio",
    "encodings.cp1252",
    "resource",
    "scrapy.cmdline",
    "scrapy.crawler",
    "scrapy.logformatter",
    "scrapy.spiders",
    "scrapy.squeues",
    "scrapy.statscollectors",
    "sqlite3",
    "twisted.internet.asyncioreactor",
    "twisted.internet.selectreactor",
    "twisted.web.client",
)
PACKAGES = (
    "scrapy.commands",
    "scrapy.core",
    "scrapy.downloadermiddlewares",
    "scrapy.extensions",
    "scrapy.spidermiddlewares",
    "scrapy_rep",
)
OPTIONAL = ("aiohttp", "coverage", "httpx", "redis")
SPIDERS = "tests.crawl"
SERVERS_ENVIRONMENT = dict(os.environ)
SERVERS_PATH = sys.path[1:]
PR_SET_PDEATHSIG = 1


def load() -> None:
    """Import what crawls of all modes need, but nothing that installs a reactor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in MODULES:
            importlib.import_module(name)
        for name in OPTIONAL:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        for name in PACKAGES:
            path = importlib.import_module(name).__path__
            for found in pkgutil.walk_packages(path, f"{name}."):
                # Some of Scrapy's modules need packages that are not installed.
                with contextlib.suppress(ImportError):
                    importlib.import_module(found.name)
        for found in pkgutil.iter_modules(importlib.import_module(SPIDERS).__path__):
            if found.name.endswith("spiders"):
                importlib.import_module(f"{SPIDERS}.{found.name}")
    assert "twisted.internet.reactor" not in sys.modules, "A reactor is installed"


def prepare_measuring() -> Coverage | None:
    """If coverage is measured, save that of the imports. Return an object that measures the
    children: it has cached which files to measure, and does not list files that never run.
    """
    coverage = sys.modules.get("coverage")
    if not coverage or not (measured := coverage.Coverage.current()):
        return None
    measured.stop()
    measured.save()
    measured._auto_save = False
    prepared = coverage.process_startup(force=True)
    prepared.stop()
    prepared._auto_save = False
    prepared._post_save_work = lambda: None
    prepared._collector.should_trace_cache = measured._collector.should_trace_cache
    return prepared


def measure() -> None:
    """Measure coverage in this process, if the environment of both it and the server asks."""
    asked = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("COVERAGE_PROCESS_")
    }
    if PREPARED and asked and asked.items() <= SERVERS_ENVIRONMENT.items():
        PREPARED._auto_save = True
        PREPARED.start()
        # Some versions of multiprocessing forget the exit functions of the server.
        atexit.unregister(PREPARED._atexit)
        atexit.register(PREPARED._atexit)


def become(
    args: Sequence[str], folder: str, environment: Mapping[str, str], files: list[int]
) -> None:
    """Run the module *args* as the main module of this process, with *files* as standard
    input, output and error; then end the process.
    """
    os.setsid()
    with contextlib.suppress(AttributeError, OSError):  # Linux only
        # The process does not outlive the tests.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # A shell lets background jobs ignore SIGINT; crawls must react to it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", errors="backslashreplace", buffering=1, closefd=False)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    sys.argv = list(args)
    sys.path[:] = [folder, *SERVERS_PATH]
    measure()
    code = 0
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as error:
        code = error.code
        if not isinstance(code, int | None):
            print(code, file=sys.stderr)
            code = 1
    except KeyboardInterrupt:
        traceback.print_exc()
        code = -signal.SIGINT
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        code = 1
    leave(code or 0)


def leave(code: int) -> None:
    """End this process as Python does, with *code* or, if that is negative, by a signal, but
    without clearing its modules.

    That would touch, and so copy, all memory shared with the server, and take most of the
    time of a small crawl. Garbage of the child itself is collected, as some objects, such
    as a failed ``Deferred``, log an error then.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


load()
PREPARED = prepare_measuring()
# Frozen objects are not touched by the garbage collector, so children need no copies of them.
gc.collect()
gc.freeze()
