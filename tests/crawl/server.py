"""Test hosts on loopback, with an access log."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import tempfile
import threading
import time
import weakref
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.crawl.answers import HANGS, Answer, Then, redirect
from tests.crawl.certificate import write_certificate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from typing_extensions import Self

PAGE = b"<html><head><title>A page</title></head><body>A page</body></html>"
TLS_HANDSHAKE = b"\x16"


@dataclass
class Hit:
    """A line of the access log."""

    time: float
    host: Host
    method: str
    target: str
    headers: dict[str, str]
    answer: Answer | None = None
    answered: float | None = None
    """When the host began to send the answer."""

    body: bytes = b""

    @property
    def path(self) -> str:
        """The requested path; for a request through a proxy, the whole URL."""
        return self.target


class Host:
    """A port on loopback, its answers, and its part of the access log."""

    def __init__(self, site: Site, name: str, tls: bool) -> None:
        self.site = site
        self.name = name
        self.scheme = "https" if tls else "http"
        self.port = 0
        self.taken: socket.socket | None = None
        """The socket of a host that refuses connections."""
        self.answers: dict[str, Answer | Sequence[Answer]] = {}
        """By path, or by a virtual host with a path."""
        self.limit: Callable[[Hit], Answer | None] | None = None
        """Returns the answer that a request gets in place of the one in ``answers``, if any."""
        self.under_way = 0
        self.opening: Callable[[], Iterable[bytes | Then]] | None = None
        """The parts to send on each connection before any request; then it is closed."""
        self.at_once = 0
        """The highest number of requests that waited for their answers at the same time."""
        self._asked: Counter[str] = Counter()

    @property
    def origin(self) -> str:
        port = f":{self.port}" if self.port else ""
        return f"{self.scheme}://{self.name}{port}"

    @property
    def robotstxt(self) -> str:
        return self.url("/robots.txt")

    def url(self, path: str) -> str:
        return self.origin + path

    @property
    def hits(self) -> list[Hit]:
        return [hit for hit in self.site.log if hit.host is self]

    @property
    def gaps(self) -> list[float]:
        """The seconds between successive requests, robots.txt included."""
        return [after.time - before.time for before, after in pairwise(self.hits)]

    @property
    def robots_hits(self) -> list[Hit]:
        return self.hits_on("/robots.txt")

    def hits_on(self, path: str) -> list[Hit]:
        return [hit for hit in self.hits if hit.path == path]

    @property
    def pages(self) -> list[str]:
        """The requested paths except for robots.txt, sorted."""
        return sorted(hit.path for hit in self.hits if hit.path != "/robots.txt")

    def answer(self, path: str) -> Answer:
        """Return the next answer for *path*. Of several answers, the last one is repeated."""
        answers = self.answers.get(path)
        if answers is None:
            missing = Answer(status=404, headers={"Content-Type": "text/plain"})
            page = Answer(PAGE, headers={"Content-Type": "text/html"})
            return missing if path == "/robots.txt" else page
        if isinstance(answers, Answer):
            return answers
        turn = min(self._asked[path], len(answers) - 1)
        self._asked[path] += 1
        return answers[turn]

    def chain(self, hops: int, last: Answer, status: int = 301) -> None:
        """Redirect robots.txt *hops* times on this host, and then answer *last*."""
        path = "/robots.txt"
        for hop in range(1, hops + 1):
            self.answers[path] = redirect(f"/hop-{hop}", status)
            path = f"/hop-{hop}"
        self.answers[path] = last


class Site:
    """Several hosts, each on its own port, served by one thread until the end of the block."""

    def __init__(self) -> None:
        self.log: list[Hit] = []
        self.limit: Callable[[Hit], Answer | None] | None = None
        """Like ``limit`` of a host, but for all hosts; it is called before that of the host."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._stack = contextlib.ExitStack()
        self._tls: ssl.SSLContext | None = None
        self._servers: list[asyncio.AbstractServer] = []
        self._writers: weakref.WeakSet[asyncio.StreamWriter] = weakref.WeakSet()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=120)
        self._stack.close()
        assert not self._thread.is_alive(), "The server did not stop"

    def add(
        self,
        robots: Answer | Sequence[Answer] | str | None = None,
        *,
        name: str = "127.0.0.1",
        tls: bool = False,
    ) -> Host:
        """Start a host. By default it answers 404 for robots.txt, and a page for other paths."""
        host = Host(self, name, tls)
        if robots is not None:
            host.answers["/robots.txt"] = (
                Answer(robots.encode(), headers={"Content-Type": "text/plain"})
                if isinstance(robots, str)
                else robots
            )
        serving = asyncio.run_coroutine_threadsafe(self._listen(host), self._loop)
        host.port = serving.result(timeout=120)
        return host

    def refusing(self) -> Host:
        """Return a host whose port is bound but does not listen, so that
        connections are refused.
        """
        host = Host(self, "127.0.0.1", tls=False)
        host.taken = self._stack.enter_context(socket.socket())
        host.taken.bind(("127.0.0.1", 0))
        host.port = host.taken.getsockname()[1]
        return host

    def listen(self, host: Host) -> None:
        """Have a *host* that was :meth:`refusing` answer from now on."""
        serving = asyncio.run_coroutine_threadsafe(self._listen(host), self._loop)
        serving.result(timeout=120)

    def settle(self) -> None:
        """Wait until all requests that were sent are in the log, also those of processes that have ended."""

        async def read() -> None:
            for _ in range(20):
                await asyncio.sleep(0.001)

        asyncio.run_coroutine_threadsafe(read(), self._loop).result(timeout=120)

    def plain_on_https(self) -> Host:
        """Return a host that has https URLs but does not speak TLS."""
        host = self.add()
        host.scheme = "https"
        return host

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            for server in self._servers:
                server.close()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            ended = asyncio.gather(*tasks, return_exceptions=True)
            self._loop.run_until_complete(ended)
            # A task that was cancelled before it began has closed nothing.
            for writer in list(self._writers):
                writer.transport.abort()
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()

    async def _listen(self, host: Host) -> int:
        context = None
        if host.scheme == "https":
            context = self._tls = self._tls or self._tls_context()
        address = host.name if host.name.startswith("127.") else "127.0.0.1"
        at: dict[str, Any] = {"host": address, "port": 0}
        if host.taken is not None:
            at = {"sock": host.taken}

        def connected(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> Awaitable[None]:
            self._writers.add(writer)
            return _serve(host, reader, writer)

        server = await asyncio.start_server(connected, **at, ssl=context, backlog=256)
        self._servers.append(server)
        return server.sockets[0].getsockname()[1]

    def _tls_context(self) -> ssl.SSLContext:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(write_certificate(Path(folder)))
        return context


async def _serve(
    host: Host, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer the requests on one connection."""
    with contextlib.suppress(
        ConnectionError, asyncio.IncompleteReadError, ssl.SSLError
    ):
        try:
            if host.opening is not None:
                # In TLS, the client sends the first byte.
                if host.scheme == "https":
                    await reader.read(1)
                return await _send_raw(host.opening(), reader, writer)
            while (hit := await _read_request(host, reader, writer)) is not None:
                host.site.log.append(hit)
                named = hit.headers.get("Host", "") + hit.path
                for limit in (host.site.limit, host.limit):
                    if limit and (answer := limit(hit)):
                        break
                else:
                    answer = host.answer(named if named in host.answers else hit.path)
                host.under_way += 1
                host.at_once = max(host.at_once, host.under_way)
                try:
                    await _wait(answer)
                finally:
                    host.under_way -= 1
                if answer is not HANGS:
                    hit.answer, hit.answered = answer, time.monotonic()
                if answer.raw is not None:
                    return await _send_raw(answer.raw(), reader, writer)
                writer.write(_head(answer) + answer.body)
                await writer.drain()
        finally:
            writer.close()


async def _send_raw(
    parts: Iterable[bytes | Then],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    for part in parts:
        if part is Then.STOP:
            await reader.read()
            return
        if part is Then.PAUSE:
            await asyncio.sleep(0.05)
            continue
        if part is Then.RESET:
            await asyncio.sleep(0.05)  # The pause lets the last part arrive first.
            _reset(writer)
            return
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0)


async def _wait(answer: Answer) -> None:
    await asyncio.sleep(answer.delay)
    end = time.monotonic() + 60
    while answer.after and not answer.after() and time.monotonic() < end:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def _read_request(
    host: Host, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Hit | None:
    first = await reader.read(1)
    if not first:
        return None
    if first == TLS_HANDSHAKE:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        await writer.drain()
        return None
    head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    request_line, *lines = head.strip().split("\r\n")
    method, target, _ = request_line.split(" ", 2)
    fields = (line.partition(":") for line in lines)
    headers = {name.strip().title(): value.strip() for name, _, value in fields}
    body = await reader.readexactly(int(headers.get("Content-Length", 0)))
    return Hit(time.monotonic(), host, method, target, headers, body=body)


def _head(answer: Answer) -> bytes:
    headers = dict(answer.headers)
    if answer.status != 204:
        headers["Content-Length"] = str(len(answer.body))
    lines = [f"HTTP/1.1 {answer.status} Reason"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close the connection with RST, which the client can't mistake
    for the end of the answer.
    """
    connection = writer.get_extra_info("socket")
    linger = struct.pack("ii", 1, 0)
    with contextlib.suppress(OSError):  # The client has closed it already.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()
