"""Runs ``python -m MODULE`` in processes that need not import Scrapy.

To import Scrapy and this package takes longer than most test crawls: without this, crawls
take five times as much processor time. So each pytest process has one fork server, that of
:mod:`multiprocessing`, which has imported :mod:`tests.forks.child`, and so everything.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack
from functools import cache
from multiprocessing import connection, forkserver, get_context, reduction
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from multiprocessing.context import ForkServerProcess

    from typing_extensions import Self

ROOT = Path(__file__).parents[2]
OUR_ENVIRONMENT = dict(os.environ)
"""The environment before a test without coverage removes the variables for it."""

_one_at_a_time = Lock()
"""``multiprocessing`` reads the ends of all its processes whenever it starts one."""


class File:
    """An open file that a process gets."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[object, ...]:
        return _number_there, (reduction.DupFd(self._number),)


class Forked:
    """A process of the fork server, with a part of the interface of ``subprocess.Popen``."""

    def __init__(self, process: ForkServerProcess, pipes: Mapping[str, Any]) -> None:
        self._process = process
        self.pid: int = process.pid
        self.stdin: IO[Any] | None = pipes.get("stdin")
        self.stdout: IO[Any] | None = pipes.get("stdout")
        self.stderr: IO[Any] | None = pipes.get("stderr")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for file in (self.stdin, self.stdout, self.stderr):
            if file:
                file.close()
        self.wait()

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal, or None if the process runs."""
        with _one_at_a_time:
            return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process, and return its exit code."""
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.returncode) is None:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
            connection.wait([self._process.sentinel], left)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[Any, None]:
        """Return what the process writes to its standard output, and wait for its end."""
        if self.stdin:
            self.stdin.close()
        with self.stdout as output:
            said = output.read()
        self.wait(timeout)
        return said, None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    args: Sequence[str],
    *,
    stdin: IO[Any] | int = subprocess.DEVNULL,
    stdout: IO[Any] | int,
    stderr: IO[Any] | int = subprocess.STDOUT,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    text: bool = False,
) -> Forked:
    """Start ``python -m`` with *args*, the name of a module and its arguments.

    Environment variables that Python reads at its start, such as PYTHONHASHSEED, have no
    effect.
    """
    pipes: dict[str, IO[Any]] = {}
    numbers: list[int] = []
    with ExitStack() as theirs:
        for name, file in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)):
            if file == subprocess.STDOUT:
                numbers.append(numbers[-1])
            elif file == subprocess.DEVNULL:
                nowhere = theirs.enter_context(Path(os.devnull).open("r+b"))
                numbers.append(nowhere.fileno())
            elif file == subprocess.PIPE:
                ends = os.pipe()
                its, ours = ends if name == "stdin" else ends[::-1]
                pipe = os.fdopen(ours, "wb" if name == "stdin" else "rb")
                pipes[name] = io.TextIOWrapper(pipe) if text else pipe
                theirs.callback(os.close, its)
                numbers.append(its)
            else:
                numbers.append(file if isinstance(file, int) else file.fileno())
        process = _server().Process(
            name=" ".join(args),
            target=_become,
            args=(
                list(args),
                str(cwd or Path.cwd()),
                dict(os.environ if env is None else env),
                [File(number) for number in numbers],
            ),
            daemon=True,
        )
        with _one_at_a_time:
            process.start()
    return Forked(process, pipes)


def run(
    args: Sequence[str],
    *,
    given: bytes = b"",
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 120,
) -> subprocess.CompletedProcess[bytes]:
    """Run ``python -m`` with *args* as :func:`start` does, and *given* as its input. Return
    its output, as ``subprocess.run`` does.
    """
    with (
        tempfile.TemporaryFile() as source,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        source.write(given)
        source.seek(0)
        process = start(args, stdin=source, stdout=out, stderr=err, cwd=cwd, env=env)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(args, code, out.read(), err.read())


@cache
def _server() -> Any:
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.forks.child"])
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**OUR_ENVIRONMENT, "PYTHONPATH": path}
    with mock.patch.dict(os.environ, environment, clear=True):
        forkserver.ensure_running()
    return context


def _become(*job: Any) -> None:
    # Only the fork server and its processes import this module.
    from tests.forks.child import become  # noqa: PLC0415

    become(*job)


def _number_there(passed: Any) -> int:
    number: int = passed.detach()
    return number
