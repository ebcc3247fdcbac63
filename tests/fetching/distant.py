"""A proxy that delays the answers of a Redis server, as if the server were far away."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def distant(path: str, seconds: float) -> Iterator[int]:
    """Run a proxy for the server at the Unix socket *path*, and yield the port of the proxy on the loopback interface.
    Through the proxy, each round trip to the server takes *seconds* longer. The proxy stops at the end of the ``with``
    block.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    started = asyncio.run_coroutine_threadsafe(_start(path, seconds / 2), loop)
    server = started.result(10)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(_stop(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _stop(server: asyncio.Server) -> None:
    server.close()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _start(path: str, delay: float) -> asyncio.Server:
    async def connect(
        from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        with suppress(asyncio.CancelledError), closing(to_client):
            from_server, to_server = await asyncio.open_unix_connection(path)
            with closing(to_server):
                await asyncio.gather(
                    _copy(from_client, to_server, delay),
                    _copy(from_server, to_client, delay),
                )

    return await asyncio.start_server(connect, "127.0.0.1", 0)


async def _copy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float
) -> None:
    """Copy all bytes from *reader* to *writer*, and close *writer*. Each byte is delayed by *delay* seconds."""
    loop = asyncio.get_running_loop()
    while data := await reader.read(65_536):
        loop.call_later(delay, writer.write, data)
    await asyncio.sleep(delay)
    writer.close()
