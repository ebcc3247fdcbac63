"""The fork server: imports what crawls and commands need, and forks a process for each.

It is started as ``python -m tests.forks.server FD``, where FD is a connected socket; with
``bare`` after that, it imports nothing. Each message on the socket carries four files: a
channel to the client, and the standard files of the new process. The server writes the
process id to the channel, and the wait status at the end of the process. The process reads
its job from the channel. When the client closes the socket or dies, the server kills its
processes and ends.
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
OUR_ENVIRONMENT = dict(os.environ)
Channels = dict[int, socket.socket]


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    if "bare" not in sys.argv:
        load()
    prepared = prepare_measuring()
    # Frozen objects are not touched by the garbage collector, so children need no copies of
    # them.
    gc.collect()
    gc.freeze()
    become(serve(control), prepared)


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
    """Fork a child for each message until the client is gone. Return in each
    child, with its channel.
    """
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
        # A shell lets background jobs ignore SIGINT; crawls must react to it.
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
    # The client may be gone.
    with contextlib.suppress(OSError):
        channel.sendall(b"%d\n" % number)


def become(channel: socket.socket, prepared: Coverage | None) -> None:
    """Run the job on *channel* as the main module of this process."""
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
    """End this process as Python does, but without clearing its modules.

    That would touch, and so copy, all memory shared with the server, and take most of the
    time of a small crawl. Garbage of the child itself is collected, as some objects, such
    as a failed ``Deferred``, log an error then.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
