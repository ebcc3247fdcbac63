"""A fork server for processes that run ``python -m MODULE``. The processes need not import Scrapy.

Importing Scrapy and this package takes longer than most test crawls. If each crawl imported them, crawls would take
five times as much processor time. So one process, the fork server, imports the modules that crawls need, and forks a
process for each :class:`Popen`. The fork server runs this module as a script. All pytest processes of a test run share
one fork server.

A pytest process can wait only for its own children, but the forked processes are children of the fork server. So each
``Popen`` has its own connection to the fork server, which sends the exit status over the connection when the process
ends.

The fork server needs Linux. On other systems, each ``Popen`` starts a new Python process.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import inspect
import io
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coverage import Coverage

ROOT = Path(__file__).parents[1]
OUR_ENVIRONMENT = dict(os.environ)
"""The environment when this module is imported. Later, a test that measures no coverage removes the variables that
switch coverage on.
"""

PACKAGES = ("scrapy", "scrapy_rep")
MODULES = (
    "encodings.cp1252",
    "scrapy_redis.spiders",
    "tests.crawl.spiders",
    "twisted.internet.selectreactor",
)
"""The modules that the server imports in addition to all modules of ``PACKAGES``."""

PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
"""The parameters of ``_execute_child`` that are the file descriptors of pipes."""

PR_SET_PDEATHSIG = 1
"""The option of prctl that sends a signal to this process when its parent ends."""

LISTENER = 3
"""The file descriptor of the socket on which the server listens."""

VARIABLE = "TESTS_FORK_SERVER"
"""The environment variable with the address of the fork server that all processes of a test run share. It is not set
if each process has its own fork server.
"""

CAN_FORK = sys.platform == "linux"
"""Whether a fork server works on this system."""


class Popen(subprocess.Popen[Any]):
    """A process that runs ``python -m`` with *args*, the name of a module and its arguments.

    The parameters *stdin*, *stdout*, *stderr*, *cwd* and *env* mean the same as in ``subprocess.Popen``. Parameters
    about the start of the process, such as *preexec_fn*, have no effect. Environment variables that Python reads when
    it starts, such as PYTHONHASHSEED, have no effect either.
    """

    def _execute_child(self, args: Sequence[str], *rest: Any) -> None:
        execute = super()._execute_child
        if not CAN_FORK:
            execute([sys.executable, "-m", *args], *rest)
            return
        # The order and the number of the parameters differ between versions of Python.
        arguments = inspect.signature(execute).bind(args, *rest).arguments
        files = [arguments["p2cread"], arguments["c2pwrite"], arguments["errwrite"]]
        folder, environment = (
            arguments["cwd"] or Path.cwd(),
            arguments["env"] or os.environ,
        )
        job = json.dumps([args, str(folder), dict(environment)])
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_address())
        # If a stream is not redirected, its file is -1. Then the new process gets the standard input (0), output (1) or
        # error (2) of this process.
        inherited = [n if file == -1 else file for n, file in enumerate(files)]
        socket.send_fds(self._connection, [b"+"], inherited)
        self._connection.sendall(f"{job}\n".encode())
        self.pid = int.from_bytes(self._connection.recv(4), "big")
        assert self.pid, "The server has ended"
        self._child_created = True
        self._close_pipe_fds(*(arguments[name] for name in PIPES))

    def poll(self) -> int | None:
        if not CAN_FORK:
            return super().poll()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not CAN_FORK:
            return super().wait(timeout)
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            status = self._connection.recv(4)
            self._connection.close()
            assert status, "The server has ended"
            self.returncode = os.waitstatus_to_exitcode(int.from_bytes(status, "big"))
        return self.returncode


def run(
    args: Sequence[str], *, stdin: bytes = b"", timeout: float = 120, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run a :class:`Popen` with *args*, *stdin* as its input, and *options* such as *cwd*. Return its exit status and
    output, as ``subprocess.run`` does. If it takes more than *timeout* seconds, kill it and raise TimeoutExpired.
    """
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with Popen(args, **pipes, **options) as process:
        try:
            output = process.communicate(stdin, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(args, process.returncode, *output)


@cache
def _address() -> str:
    """Return the address of the fork server that all processes of this test run share. If they share none, start a fork
    server for this process alone.
    """
    return os.environ.get(VARIABLE) or start()


def start() -> str:
    """Start a fork server that ends with this process, and return its address. The fork server imports Scrapy when the
    first process is requested.
    """
    folder = (
        tempfile.mkdtemp()
    )  # Other users of the machine have no access to this folder.
    address = str(Path(folder) / "server")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    listener.set_inheritable(True)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    # The standard input of the server is a pipe. This process keeps the other end of the pipe open. When this process
    # ends, the pipe is closed, and the server ends.
    stdin, _ = os.pipe()
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "tests.forks", str(LISTENER)],
        {**OUR_ENVIRONMENT, "PYTHONPATH": path},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, stdin, 0),
            (os.POSIX_SPAWN_DUP2, listener.fileno(), LISTENER),
        ],
        setsid=True,
    )
    os.close(stdin)
    listener.close()
    return address


def serve(listener: socket.socket) -> None:
    """Serve connections to *listener* until the standard input ends. Fork a process for each connection, and send its
    process id. When the process has ended, send its exit status.
    """
    server, is_loaded, coverage = os.getpid(), False, None
    running: dict[int, tuple[int, socket.socket]] = {}
    """The process id and the connection of each running process, by the file descriptor (pidfd) that becomes readable
    when the process ends.
    """
    while True:
        ready = select.select([0, listener, *running], [], [])[0]
        if 0 in ready:
            return
        for file in running.keys() & set(ready):
            process, client = running.pop(file)
            status = os.waitpid(process, 0)[1]
            os.close(file)
            with client, contextlib.suppress(OSError):  # The client may have ended.
                client.sendall(status.to_bytes(4, "big"))
        if listener not in ready:
            continue
        client, _ = listener.accept()
        if not is_loaded:
            is_loaded = True
            load()
            coverage = prepare_coverage()
            # The garbage collector does not write to frozen objects. So the forked processes share the memory of these
            # objects, and need no copies.
            gc.collect()
            gc.freeze()
        files = socket.recv_fds(client, 1, 3)[1]
        with client.makefile() as jobs:
            job = jobs.readline()
        if not job.endswith("\n"):
            client.close()
            continue  # The client has ended.
        args, folder, environment = json.loads(job)
        process = os.fork()
        if process == 0:
            die_with(server)
            for file, (_, other_client) in running.items():
                os.close(file)
                other_client.close()
            listener.close()
            client.close()
            coverage_variables = {
                item
                for item in environment.items()
                if item[0].startswith("COVERAGE_PROCESS")
            }
            # Coverage is measured only if the environment of the process still switches it on.
            if (
                coverage
                and coverage_variables
                and coverage_variables <= OUR_ENVIRONMENT.items()
            ):
                coverage._auto_save = True
                coverage.start()
            become(args, folder, environment, files)
        for file in files:
            os.close(file)
        with contextlib.suppress(OSError):  # The client may have ended.
            client.sendall(process.to_bytes(4, "big"))
        running[os.pidfd_open(process)] = process, client


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent, the process *parent*, ends. So this process does not outlive
    the tests.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def load() -> None:
    """Import the modules that crawls of any kind need, but none that installs a reactor."""
    names = list(MODULES)
    for package in PACKAGES:
        path = importlib.import_module(package).__path__
        names += [module.name for module in pkgutil.walk_packages(path, f"{package}.")]
    for name in names:
        # Some modules of Scrapy emit warnings, or need packages that are not installed. Modules named __main__ are left
        # out, because Python warns when it runs a module that has already been imported.
        if not name.endswith("__main__"):
            with warnings.catch_warnings(), contextlib.suppress(ImportError):
                warnings.simplefilter("ignore")
                importlib.import_module(name)
    assert "twisted.internet.reactor" not in sys.modules, "A module installed a reactor"


def prepare_coverage() -> Coverage | None:
    """If coverage is measured, save the coverage of the imports so far. Return an object that measures the forked
    processes. It already knows which files to measure, and it does not report files that never ran. Return None if
    coverage is not measured.
    """
    coverage = sys.modules.get("coverage")
    if not coverage or not (of_imports := coverage.Coverage.current()):
        return None
    of_imports.stop()
    of_imports.save()
    of_imports._auto_save = False
    prepared = coverage.process_startup(force=True)
    prepared.stop()
    prepared._auto_save = False
    prepared._post_save_work = lambda: None
    prepared._collector.should_trace_cache = of_imports._collector.should_trace_cache
    return prepared


def become(
    args: Sequence[str], folder: str, environment: Mapping[str, str], files: list[int]
) -> None:
    """Run the module ``args[0]`` as the main module of this process, with *files* as standard input, output and error.
    Then end the process as Python does, but without clearing the imported modules.

    Clearing them would write to all memory that this process shares with the server, and so copy that memory. This
    would take most of the time of a small crawl. The garbage of the module itself is collected, because some objects,
    such as a failed ``Deferred``, log an error when they are collected.
    """
    # Background jobs of a shell ignore SIGINT. Crawls must react to SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    # The file objects of the server cannot be used again: they remember whether the server's files were seekable.
    sys.stdin = sys.__stdin__ = open(0, closefd=False)
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)
    # Standard error is not buffered. If a signal arrives while a log line is written, Scrapy's signal handler writes a
    # log line too. A buffer would raise RuntimeError then (a reentrant call), and the crawl would not notice the
    # signal.
    errors = open(2, "wb", buffering=0, closefd=False)
    sys.stderr = io.TextIOWrapper(errors, errors="backslashreplace", write_through=True)
    sys.__stderr__ = sys.stderr
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = list(args)
    sys.path[0] = folder
    code: Any = 0
    try:
        runpy.run_module(args[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException as error:  # noqa: BLE001
        sys.excepthook(type(error), error, error.__traceback__)
        code = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        serve(listener)
        shutil.rmtree(Path(listener.getsockname()).parent)
