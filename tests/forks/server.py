"""The fork server: loads what crawls and commands need, and forks a process for each.

``python -m tests.forks.server FD``, the number of a connected socket; with ``bare`` after
it, the server loads nothing. Each message on the socket brings four files: a channel to
whoever asks, and the standard files of the process. The server writes the number of the
process to the channel, and its wait status at its end. The process reads from the channel
what to do. When the other side closes the socket, as it does when it dies, the server kills
its processes and ends.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import threading
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coverage import Coverage

# What Scrapy loads late, besides all of its components and ours.
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
OUR_ENVIRONMENT = dict(os.environ)
Channels = dict[int, socket.socket]


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    if "bare" not in sys.argv:
        load()
    prepared = prepare_measuring()
    # The collector does not touch, and so does not copy, what the children share.
    gc.collect()
    gc.freeze()
    become(serve(control), prepared)


def load() -> None:
    """Import what a crawl in any mode needs, and nothing that chooses a reactor."""
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
                # Some of Scrapy's need packages that are not installed.
                with contextlib.suppress(ImportError):
                    importlib.import_module(found.name)
        for found in pkgutil.iter_modules(importlib.import_module(SPIDERS).__path__):
            if found.name.endswith("spiders"):
                importlib.import_module(f"{SPIDERS}.{found.name}")
    assert "twisted.internet.reactor" not in sys.modules, "A reactor is installed"


def prepare_measuring() -> Coverage | None:
    """Write what the imports ran, if coverage is measured. Return what is to measure the
    children: it knows of each file that is imported whether to measure it, and need not
    name the files that never run.
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


def measure(prepared: Coverage | None) -> None:
    """Measure coverage in this child, if its environment asks for it."""
    asked = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("COVERAGE_PROCESS_")
    }
    if not asked:
        return
    if prepared and asked.items() <= OUR_ENVIRONMENT.items():
        prepared._auto_save = True
        prepared.start()
        return
    import coverage  # noqa: PLC0415

    coverage.process_startup(force=True)


def serve(control: socket.socket) -> socket.socket:
    """Fork until the other side is gone. Return, in each child, its channel."""
    channels: Channels = {}
    ended, told = socket.socketpair()
    for side in (ended, told):
        side.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    while True:
        ready = select.select([control, ended], [], [])[0]
        if ended in ready:
            ended.recv(1024)
            report_ends(channels)
        if control not in ready:
            continue
        message, files, _, _ = socket.recv_fds(control, 1, 4)
        if not message:
            for pid in channels:
                os.kill(pid, signal.SIGKILL)
            sys.exit()
        channel = socket.socket(fileno=files[0])
        if pid := os.fork():
            channels[pid] = channel
            for file in files[1:]:
                os.close(file)
            tell(channel, pid)
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Tests that a shell runs in the background are not to be interrupted; these are.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for other in (control, ended, told, *channels.values()):
            other.close()
        for number, file in enumerate(files[1:]):
            os.dup2(file, number)
            os.close(file)
        return channel


def report_ends(channels: Channels) -> None:
    for pid in list(channels):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            with channels.pop(pid) as channel:
                tell(channel, status)


def tell(channel: socket.socket, number: int) -> None:
    # Whoever asked may have lost interest.
    with contextlib.suppress(OSError):
        channel.sendall(b"%d\n" % number)


def become(channel: socket.socket, prepared: Coverage | None) -> None:
    """Run what is asked for on *channel* as the main module of this process."""
    with channel, channel.makefile("rb") as lines:
        job = json.loads(lines.readline())
    os.setsid()
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", errors="backslashreplace", buffering=1, closefd=False)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    sys.argv = job["args"]
    sys.path[0] = job["cwd"]
    measure(prepared)
    code = 0
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as error:
        if not isinstance(error.code, int | None):
            raise
        code = error.code or 0
    leave(code)


def leave(code: int) -> None:
    """End as a Python does, but do not take its modules apart.

    That would touch, and so copy, all that the child shares with the server: it is most of
    what a small crawl takes. What is the child's own is collected, as some of it, such as
    a ``Deferred`` that has failed, says something then.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
