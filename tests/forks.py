"""Runs ``python -m MODULE`` in processes that need not import Scrapy.

To import Scrapy and this package takes longer than most test crawls: without this, crawls take
five times as much processor time. So each pytest process has a fork server, ``python -m
tests.forks``, which has imported everything, and forks itself for each module to be run. On other
systems than Linux, a module is run in a new Python process.

The forked process is a child of pytest and not of the server, so that :class:`subprocess.Popen`
can wait for it: the server forks twice, and pytest adopts the process when the one between ends.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coverage import Coverage

ROOT = Path(__file__).parents[1]
ENVIRONMENT = dict(os.environ)
"""The environment before a test without coverage removes the variables for it."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LONGEST_JOB = 1 << 20
"""In bytes."""

MEASURED = {
    each for each in ENVIRONMENT.items() if each[0].startswith("COVERAGE_PROCESS_")
}
"""What the environment of a process has whose coverage is measured."""

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

_one_at_a_time = threading.Lock()


# In the process of pytest.


def start(
    args: Sequence[str], stdin: Any = subprocess.DEVNULL, **options: Any
) -> subprocess.Popen[Any]:
    """Start ``python -m`` with *args*, the name of a module and its arguments. The options are
    those of ``Popen``. Environment variables that Python reads at its start have no effect.
    """
    options = {"stdin": stdin, "stderr": subprocess.STDOUT, **options}
    kind = Forked if sys.platform == "linux" else subprocess.Popen
    return kind([sys.executable, "-m", *args], **options)


def run(
    args: Sequence[str], given: bytes = b"", timeout: float = 120, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run ``python -m`` with *args*, and *given* as its input. Return its output, as
    ``subprocess.run`` does.
    """
    options |= dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start(args, **options) as process:
        try:
            out, err = process.communicate(given, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(args, process.returncode, out, err)


class Forked(subprocess.Popen):  # type: ignore[type-arg]
    """A process that is forked by the server."""

    def _execute_child(self, args: list[str], *more: Any) -> None:
        cwd, env, *_ = more[4:]
        pipes = more[9:15]
        theirs = (pipes[0], 0), (pipes[3], 1), (pipes[5], 2)
        files = [default if file == -1 else file for file, default in theirs]
        job = args[2:], str(cwd or Path.cwd()), dict(os.environ if env is None else env)
        try:
            with _one_at_a_time:
                server = _server()
                socket.send_fds(server, [json.dumps(job).encode()], files)
                self.pid = int(server.recv(LONGEST_JOB))
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)


@cache
def _server() -> socket.socket:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST_JOB)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.forks", str(its.fileno())],
        env={**ENVIRONMENT, "PYTHONPATH": path},
        pass_fds=[its.fileno()],
        start_new_session=True,  # Ctrl-C is for pytest.
    )
    its.close()
    atexit.register(server.wait)
    atexit.register(ours.close)  # This ends it.
    return ours


# In the process of the server.


def serve(number: int) -> None:
    """Fork a process for each job that comes through the socket *number*, until it is closed."""
    load()
    prepared = prepare_measuring()
    # Frozen objects are not touched by the garbage collector, so no process copies them.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=number) as connection:
        while True:
            job, files, _, _ = socket.recv_fds(connection, LONGEST_JOB, 3)
            if not job:
                return
            if between := os.fork():
                for file in files:
                    os.close(file)
                os.waitpid(between, 0)
                continue
            between = os.getpid()
            if os.fork():
                os._exit(0)
            end_with_pytest(between)
            connection.send(b"%d" % os.getpid())
            connection.close()
            args, folder, environment = json.loads(job)
            if prepared and MEASURED <= environment.items():
                prepared._auto_save = True
                prepared.start()
            become(args, folder, environment, files)


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
    """If coverage is measured, save that of the imports. Return an object that measures forked
    processes: it has cached which files to measure, and does not list files that never run.
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


# In a forked process.


def end_with_pytest(between: int) -> None:
    """Have this process killed when pytest ends, which adopts it when *between* has ended."""
    while os.getppid() == between:
        time.sleep(0.0005)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def become(
    args: list[str],
    folder: str,
    environment: dict[str, str],
    files: list[int],
) -> NoReturn:
    """Run the module *args* as the main module of this process, with *files* as standard input,
    output and error; then end the process.
    """
    os.setsid()
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
    sys.argv = args
    sys.path[0] = folder
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


def leave(code: int) -> NoReturn:
    """End this process as Python does, with *code* or, if that is negative, by a signal, but
    without clearing its modules.

    That would touch, and so copy, all memory shared with the server, and take most of the time of
    a small crawl. Garbage of the process itself is collected, as some objects, such as a failed
    ``Deferred``, log an error then.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError):  # The module has closed it.
            stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
