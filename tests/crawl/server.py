"""HTTP servers on loopback with an access log, as the hosts that a test crawls."""

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
    """An entry of the access log: one request.

    ``time`` and ``answered`` are times of the monotonic clock.
    """

    time: float
    host: Host
    method: str
    target: str
    headers: dict[str, str]
    answer: Answer | None = None
    answered: float | None = None
    """The time at which the host began to send the answer, or None if it has not."""

    body: bytes = b""

    @property
    def path(self) -> str:
        """The requested path with its query. For a request through a proxy, the whole URL."""
        return self.target


class Host:
    """A server on one port of loopback: the answers that it gives, and its entries of the access log."""

    def __init__(self, site: Site, name: str, tls: bool) -> None:
        self.site = site
        self.name = name
        self.scheme = "https" if tls else "http"
        self.port = 0
        self.bound_socket: socket.socket | None = None
        """The socket that holds the port of a host that refuses connections."""
        self.answers: dict[str, Answer | Sequence[Answer]] = {}
        """The answers by path, or by ``Host`` header and path. A sequence has an answer for each request."""
        self.limit: Callable[[Hit], Answer | None] | None = None
        """Returns the answer to a request, or None if the host shall answer as ``answers`` says."""
        self.concurrent = 0
        """The number of requests that wait for their answers now."""
        self.sent_on_connect: Callable[[], Iterable[bytes | Then]] | None = None
        """If set, the host sends these parts on each new connection, and closes it without reading a request."""
        self.max_concurrent = 0
        """The highest value that ``concurrent`` had."""
        self._answer_counts: Counter[str] = Counter()

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
        """The seconds from each request to the next one, including requests for robots.txt."""
        return [after.time - before.time for before, after in pairwise(self.hits)]

    @property
    def robots_hits(self) -> list[Hit]:
        return self.hits_on("/robots.txt")

    def hits_on(self, path: str) -> list[Hit]:
        """Return the requests for *path*."""
        return [hit for hit in self.hits if hit.path == path]

    @property
    def pages(self) -> list[str]:
        """The paths of all requests except those for robots.txt, sorted."""
        return sorted(hit.path for hit in self.hits if hit.path != "/robots.txt")

    def answer(self, path: str) -> Answer:
        """Return the answer for the next request for *path*. The last answer of a sequence is repeated."""
        answers = self.answers.get(path)
        if answers is None:
            missing = Answer(status=404, headers={"Content-Type": "text/plain"})
            page = Answer(PAGE, headers={"Content-Type": "text/html"})
            return missing if path == "/robots.txt" else page
        if isinstance(answers, Answer):
            return answers
        index = min(self._answer_counts[path], len(answers) - 1)
        self._answer_counts[path] += 1
        return answers[index]

    def chain(self, hops: int, last: Answer, status: int = 301) -> None:
        """Redirect robots.txt *hops* times within this host. *last* is the answer at the end of the chain."""
        path = "/robots.txt"
        for hop in range(1, hops + 1):
            self.answers[path] = redirect(f"/hop-{hop}", status)
            path = f"/hop-{hop}"
        self.answers[path] = last


class Site:
    """Several hosts, each on its own port. One thread serves them until the end of the ``with`` block."""

    def __init__(self) -> None:
        self.log: list[Hit] = []
        self.limit: Callable[[Hit], Answer | None] | None = None
        """Like ``Host.limit``, but for all hosts. It is called before the ``limit`` of the host."""
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
        """Start a host that answers *robots* for robots.txt, and return it.

        By default, robots.txt is answered with 404. All other paths are answered with a page.

        *name*: the host name of its URLs. A name that starts with ``127.`` is also the address of the server.
        """
        host = Host(self, name, tls)
        if robots is not None:
            host.answers["/robots.txt"] = (
                Answer(robots.encode(), headers={"Content-Type": "text/plain"})
                if isinstance(robots, str)
                else robots
            )
        listening = asyncio.run_coroutine_threadsafe(self._listen(host), self._loop)
        host.port = listening.result(timeout=120)
        return host

    def refusing(self) -> Host:
        """Return a host that refuses connections: its port is bound, but nothing listens on it."""
        host = Host(self, "127.0.0.1", tls=False)
        host.bound_socket = self._stack.enter_context(socket.socket())
        host.bound_socket.bind(("127.0.0.1", 0))
        host.port = host.bound_socket.getsockname()[1]
        return host

    def listen(self, host: Host) -> None:
        """Make a *host* from :meth:`refusing` accept connections from now on."""
        listening = asyncio.run_coroutine_threadsafe(self._listen(host), self._loop)
        listening.result(timeout=120)

    def settle(self) -> None:
        """Wait until all requests that were sent are in the access log, even if their processes have ended."""

        async def read() -> None:
            for _ in range(20):
                await asyncio.sleep(0.001)

        asyncio.run_coroutine_threadsafe(read(), self._loop).result(timeout=120)

    def plain_on_https(self) -> Host:
        """Return a host with https URLs whose server does not use TLS."""
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
            # A task that was cancelled before its first step has not closed its connection.
            for writer in list(self._writers):
                writer.transport.abort()
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()

    async def _listen(self, host: Host) -> int:
        context = None
        if host.scheme == "https":
            context = self._tls = self._tls or self._tls_context()
        address = host.name if host.name.startswith("127.") else "127.0.0.1"
        bind_to: dict[str, Any] = {"host": address, "port": 0}
        if host.bound_socket is not None:
            bind_to = {"sock": host.bound_socket}

        def connected(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> Awaitable[None]:
            self._writers.add(writer)
            return _serve(host, reader, writer)

        server = await asyncio.start_server(
            connected, **bind_to, ssl=context, backlog=256
        )
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
            if host.sent_on_connect is not None:
                # An https client begins the TLS handshake. Wait for its first byte, so that the connection fails during
                # the handshake, not before.
                if host.scheme == "https":
                    await reader.read(1)
                return await _send_raw(host.sent_on_connect(), reader, writer)
            while (hit := await _read_request(host, reader, writer)) is not None:
                host.site.log.append(hit)
                host_and_path = hit.headers.get("Host", "") + hit.path
                for limit in (host.site.limit, host.limit):
                    if limit and (answer := limit(hit)):
                        break
                else:
                    answer = host.answer(
                        host_and_path if host_and_path in host.answers else hit.path
                    )
                host.concurrent += 1
                host.max_concurrent = max(host.max_concurrent, host.concurrent)
                try:
                    await _wait(answer)
                finally:
                    host.concurrent -= 1
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
    """Send *parts* byte for byte. If a part is a :class:`Then`, do what it says."""
    for part in parts:
        if part is Then.STOP:
            await reader.read()
            return
        if part is Then.PAUSE:
            await asyncio.sleep(0.05)
            continue
        if part is Then.RESET:
            await asyncio.sleep(
                0.05
            )  # Without this pause, the last part might not arrive before the reset.
            _reset(writer)
            return
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0)


async def _wait(answer: Answer) -> None:
    """Wait for the delay and the condition of *answer*."""
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
    """Close the connection with RST, which the client cannot mistake for the end of the answer."""
    connection = writer.get_extra_info("socket")
    linger = struct.pack("ii", 1, 0)
    with contextlib.suppress(
        OSError
    ):  # The client may have closed the connection already.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()
