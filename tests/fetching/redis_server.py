"""A Redis server for tests, which can be stopped and started again."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING, NoReturn

from redis import Redis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

BINARY = shutil.which("redis-server")


class RedisServer:
    """A Redis server on a Unix socket in a temporary folder. By default, the server loses its data when it stops.

    :param port: if not 0, the server also listens on this port of the loopback interface
    :param appendonly: whether the server keeps its data in an append-only file
    :param is_cluster: whether the server is the only node of a cluster. It then also needs the port 10,000 higher
    """

    def __init__(
        self, port: int = 0, *, appendonly: bool = False, is_cluster: bool = False
    ) -> None:
        # Not pytest's folder: the path of a socket must not exceed 107 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="rep-redis-"))
        self._socket = self._folder / "redis.sock"
        self._port = port
        self._appendonly = "yes" if appendonly else "no"
        self._is_cluster = is_cluster
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self._socket}?db=0"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def start(self) -> None:
        options = {
            "--port": str(self._port),
            "--bind": "127.0.0.1",
            "--unixsocket": str(self._socket),
            "--dir": str(self._folder),
            "--save": "",
            "--appendonly": self._appendonly,
            "--appendfsync": "always",
        }
        assert BINARY is not None
        if self._is_cluster:
            options["--cluster-enabled"] = "yes"
        arguments = [part for option in options.items() for part in option]
        self._process = subprocess.Popen(
            [BINARY, *arguments], stdout=subprocess.PIPE, text=True
        )
        output = self._process.stdout
        assert output is not None
        lines = []
        for line in output:
            lines.append(line)
            if "eady to accept connections" in line:
                break
        else:
            self._fail(lines)
        Thread(target=_drain, args=(output,), daemon=True).start()

    def stop(self) -> None:
        """Kill the server without closing connections, as when a machine fails."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Suspend the server process in a ``with`` block, to simulate a server that hangs. Clients can connect, but get
        no answers.
        """
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def client(self) -> Redis:
        return Redis.from_url(self.url)

    def _fail(self, lines: list[str]) -> NoReturn:
        self.stop()
        raise RuntimeError("Redis did not start:\n" + "".join(lines))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _drain(output: IO[str]) -> None:
    with output:
        for _ in output:
            pass
