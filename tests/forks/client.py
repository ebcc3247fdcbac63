"""The client of the fork server, which tests use like ``subprocess``."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Self

ROOT = Path(__file__).parents[2]
START_SECONDS = 120
OUR_ENVIRONMENT = dict(os.environ)
"""The environment before a test without coverage removes the variables for it."""


class Forked:
    """A process that the fork server started, with the interface of ``subprocess.Popen``."""

    def __init__(
        self, server: Server, channel: socket.socket, args: Sequence[str]
    ) -> None:
        self.args = args
        self.returncode: int | None = None
        self.stdin: IO[Any] | None = None
        self.stdout: IO[Any] | None = None
        self.stderr: IO[Any] | None = None
        self._server = server
        self._channel = channel
        self._reading = threading.Lock()
        self._said = b""
        self.pid = int(self._line(START_SECONDS) or self._fail("did not fork"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for file in (self.stdin, self.stdout, self.stderr):
            if file:
                file.close()
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None if the process runs."""
        with self._reading:
            if self.returncode is None and (line := self._line(0)) is not None:
                self.returncode = os.waitstatus_to_exitcode(int(line))
                self._channel.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process, and return its exit code."""
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            # Another thread may read the end first, and close the channel.
            with contextlib.suppress(OSError, ValueError):
                self._has_come(min(left or 1, 1))
        return code

    def communicate(self, timeout: float | None = None) -> tuple[Any, None]:
        """Return what the process writes to its standard output, and wait for its end."""
        assert self.stdout is not None
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

    def _line(self, timeout: float) -> bytes | None:
        """Return the next line from the server about this process, or None
        after *timeout* seconds.
        """
        while b"\n" not in self._said:
            if not self._has_come(timeout):
                return None
            if not (part := self._channel.recv(1024)):
                self._fail("ended, and its processes with it")
            self._said += part
        line, _, self._said = self._said.partition(b"\n")
        return line

    def _has_come(self, timeout: float) -> bool:
        """Return whether the server sends something within *timeout* seconds."""
        with selectors.PollSelector() as selector:  # Works with many open files.
            selector.register(self._channel, selectors.EVENT_READ)
            return bool(selector.select(timeout))

    def _fail(self, what: str) -> bytes:
        raise RuntimeError(f"The fork server {what}: {self.args}\n{self._server.log}")


class Server:
    """A fork server, which ends with this process.

    A *bare* server imports nothing, so it starts quickly, and its children import what they
    need.
    """

    def __init__(
        self, *, bare: bool = False, environment: Mapping[str, str] | None = None
    ) -> None:
        self._log = tempfile.TemporaryFile("w+b")
        self._control, theirs = socket.socketpair()
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "tests.forks.server", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                [*command, "bare"] if bare else command,
                cwd=ROOT,
                env={**(environment or os.environ), "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        atexit.register(self.end)

    @property
    def log(self) -> str:
        """The output of the server itself, which says why it ended."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def end(self) -> None:
        """End the server and all processes that it started."""
        atexit.unregister(self.end)
        self._control.close()
        self._process.wait()
        self._log.close()

    def fork(
        self, args: Sequence[str], files: Sequence[int], job: Mapping[str, object]
    ) -> Forked:
        """Fork a process with *files* as its standard input, output and error."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [b"!"], [theirs.fileno(), *files])
            except OSError as error:
                raise RuntimeError(f"The fork server ended:\n{self.log}") from error
        ours.sendall(json.dumps(job).encode() + b"\n")
        return Forked(self, ours, args)


@cache
def _server() -> Server:
    return Server(environment=OUR_ENVIRONMENT)


def start(
    args: Sequence[str],
    *,
    stdin: IO[bytes] | IO[str] | int = subprocess.DEVNULL,
    stdout: IO[bytes] | IO[str] | int,
    stderr: IO[bytes] | IO[str] | int = subprocess.STDOUT,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
) -> Forked:
    """Start ``python -m`` with *args*, the name of a module and its arguments.

    Environment variables that Python reads at its start, such as PYTHONHASHSEED, have no
    effect.
    """
    job = {
        "args": list(args),
        "cwd": str(cwd or Path.cwd()),
        "env": dict(os.environ if env is None else env),
    }
    pipes: dict[str, IO[bytes]] = {}
    given: list[int] = []
    with contextlib.ExitStack() as theirs:
        for name, file in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)):
            if file == subprocess.STDOUT:
                given.append(given[-1])
            elif file == subprocess.DEVNULL:
                nowhere = theirs.enter_context(Path(os.devnull).open("r+b"))
                given.append(nowhere.fileno())
            elif file == subprocess.PIPE:
                ends = os.pipe()
                its, ours = ends if name == "stdin" else ends[::-1]
                pipes[name] = os.fdopen(ours, "wb" if name == "stdin" else "rb")
                theirs.callback(os.close, its)
                given.append(its)
            else:
                given.append(file if isinstance(file, int) else file.fileno())
        process = _server().fork(args, given, job)
    vars(process).update(pipes)
    return process


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
