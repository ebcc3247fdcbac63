"""Hosts on loopback that make a crawler wait, in a process of their own.

    python benchmarks/waiting_site.py

It prints its port on standard output, and serves until its standard input ends.
"""

from __future__ import annotations

import asyncio
import sys

DELAY = 5
SLOW = "127.0.0.1"
"""Asks for a crawl delay of ``DELAY`` seconds."""

BROKEN = "127.0.0.2"
"""Answers 503."""

HOME = "127.0.0.3"
HEALTHY = tuple(f"127.0.1.{number}" for number in range(1, 51))
SILENT = tuple(f"127.0.2.{number}" for number in range(1, 201))
"""Never answer."""

# In seconds. With the latency of many hosts, the processor does not limit their crawl.
LATENCY = 0.05
LATENCY_OF_MANY = 0.2


def answer(
    body: bytes, status: bytes = b"200 OK", kind: bytes = b"text/plain"
) -> bytes:
    head = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    return head % (status, kind, len(body)) + body


PAGE = answer(b"<html><body><p>A page</p></body></html>", kind=b"text/html")
UNAVAILABLE = answer(b"", b"503 Service Unavailable")
ROBOTS = {
    SLOW: answer(b"User-agent: *\nCrawl-delay: %d\n" % DELAY),
    BROKEN: UNAVAILABLE,
}
NO_RULES = answer(b"User-agent: *\nDisallow:\n")


class Connection(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._host = transport.get_extra_info("sockname")[0]
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            request, _, self._received = self._received.partition(b"\r\n\r\n")
            self._answer(request.split(b" ", 2)[1])

    def _answer(self, path: bytes) -> None:
        if self._host in _SILENT:
            return
        page = UNAVAILABLE if self._host == BROKEN else PAGE
        if path == b"/robots.txt":
            page = ROBOTS.get(self._host, NO_RULES)
        seconds = LATENCY_OF_MANY if self._host in _HEALTHY else LATENCY
        asyncio.get_running_loop().call_later(seconds, self._transport.write, page)


_HEALTHY = frozenset(HEALTHY)
_SILENT = frozenset(SILENT)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    port = 0  # Any free port, then the same for all hosts
    for host in (SLOW, BROKEN, HOME, *HEALTHY, *SILENT):
        server = await loop.create_server(Connection, host, port)
        port = server.sockets[0].getsockname()[1]
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
