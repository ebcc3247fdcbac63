"""Runs ``python -m MODULE`` in processes that need not import Scrapy.

To import Scrapy and this package takes longer than most test crawls: without this, crawls
take five times as much processor time. So there is a server, which is this module as a script. It
imports what crawls need, and forks a process for each :class:`Popen`. The processes of a test run share
one server.

A ``Popen`` has a connection of its own to the server, through which the server sends the status of the
process when that has ended: a pytest process can wait for its own children only. This needs Linux:
elsewhere, each ``Popen`` starts Python anew.
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
"""The environment before a test without coverage removes the variables for it."""

PACKAGES = ("scrapy", "scrapy_rep")
MODULES = (
    "encodings.cp1252",
    "scrapy_redis.spiders",
    "tests.crawl.spiders",
    "twisted.internet.selectreactor",
)
"""What crawls need besides the modules of the packages."""

PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
PR_SET_PDEATHSIG = 1
LISTENER = 3
"""The file of a server at which it listens."""

VARIABLE = "TESTS_FORK_SERVER"
"""The environment variable with the address of the server of a test run."""

CAN_FORK = sys.platform == "linux"


class Popen(subprocess.Popen[Any]):
    """A process that runs ``python -m`` with *args*, the name of a module and its arguments.

    Its pipes, files, *cwd* and *env* are those of ``subprocess.Popen``. Other arguments of it,
    and variables that Python reads at its start, such as PYTHONHASHSEED, have no effect.
    """

    def _execute_child(self, args: Sequence[str], *rest: Any) -> None:
        execute = super()._execute_child
        if not CAN_FORK:
            execute([sys.executable, "-m", *args], *rest)
            return
        # The arguments differ between versions of Python.
        arguments = inspect.signature(execute).bind(args, *rest).arguments
        files = [arguments["p2cread"], arguments["c2pwrite"], arguments["errwrite"]]
        folder, environment = (
            arguments["cwd"] or Path.cwd(),
            arguments["env"] or os.environ,
        )
        job = json.dumps([args, str(folder), dict(environment)])
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_address())
        ours = [n if file == -1 else file for n, file in enumerate(files)]
        socket.send_fds(self._connection, [b"+"], ours)
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
    args: Sequence[str], *, stdin: bytes = b"", timeout: float = 120, **how: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run a :class:`Popen` with *stdin* as its input. Return its output, as ``subprocess.run``
    does.
    """
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with Popen(args, **pipes, **how) as process:
        try:
            output = process.communicate(stdin, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(args, process.returncode, *output)


@cache
def _address() -> str:
    """Return the address of the server of this test run, or of one for this process."""
    return os.environ.get(VARIABLE) or start()


def start() -> str:
    """Start a server that ends with this process, and return its address. It loads Scrapy when it is asked
    for the first process.
    """
    folder = tempfile.mkdtemp()  # No other user of the machine may enter it.
    address = str(Path(folder) / "server")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    listener.set_inheritable(True)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    # It ends when its standard input does: when this process ends, which keeps the other side of the pipe.
    its_input, _ = os.pipe()
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "tests.forks", str(LISTENER)],
        {**OUR_ENVIRONMENT, "PYTHONPATH": path},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, its_input, 0),
            (os.POSIX_SPAWN_DUP2, listener.fileno(), LISTENER),
        ],
        setsid=True,
    )
    os.close(its_input)
    listener.close()
    return address


def serve(listener: socket.socket) -> None:
    """Fork a process for each connection to *listener*, and send the status of each that has ended through its
    connection, until the standard input ends.
    """
    server, is_loaded, coverage = os.getpid(), False, None
    running: dict[int, tuple[int, socket.socket]] = {}
    """The number and the connection of each process, by the file that shows its end."""
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
            # The garbage collector does not touch frozen objects, so processes need no copies of them.
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
            for file, (_, other) in running.items():
                os.close(file)
                other.close()
            listener.close()
            client.close()
            its = {
                i for i in environment.items() if i[0].startswith("COVERAGE_PROCESS")
            }
            if coverage and its and its <= OUR_ENVIRONMENT.items():
                coverage._auto_save = True
                coverage.start()
            become(args, folder, environment, files)
        for file in files:
            os.close(file)
        with contextlib.suppress(OSError):  # The client may have ended.
            client.sendall(process.to_bytes(4, "big"))
        running[os.pidfd_open(process)] = process, client


def die_with(parent: int) -> None:
    """Let this process end with *parent*: it does not outlive the tests."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def load() -> None:
    """Import what crawls of all modes need, but nothing that installs a reactor."""
    names = list(MODULES)
    for package in PACKAGES:
        path = importlib.import_module(package).__path__
        names += [module.name for module in pkgutil.walk_packages(path, f"{package}.")]
    for name in names:
        # Some modules of Scrapy warn, or need packages that are not installed. Python warns
        # if it runs a module that has been imported.
        if not name.endswith("__main__"):
            with warnings.catch_warnings(), contextlib.suppress(ImportError):
                warnings.simplefilter("ignore")
                importlib.import_module(name)
    assert "twisted.internet.reactor" not in sys.modules, "A reactor is installed"


def prepare_coverage() -> Coverage | None:
    """If coverage is measured, save that of the imports. Return an object that measures the
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


def become(
    args: Sequence[str], folder: str, environment: Mapping[str, str], files: list[int]
) -> None:
    """Run the module *args* as the main module of this process, with *files* as standard
    input, output and error; then end the process as Python does, but without clearing modules.

    To clear them would touch, and so copy, all memory shared with the server, and take most
    of the time of a small crawl. Garbage of the module itself is collected, as some objects,
    such as a failed ``Deferred``, log an error then.
    """
    # A shell lets background jobs ignore SIGINT; crawls must react to it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    # The objects of the server remember whether its files were seekable.
    sys.stdin = sys.__stdin__ = open(0, closefd=False)
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)
    # Not buffered: if a signal arrives while the log is written, Scrapy's handler of the signal logs, too. A buffer
    # would raise RuntimeError then (a reentrant call), and the crawl would not notice the signal.
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
