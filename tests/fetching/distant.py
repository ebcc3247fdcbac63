"""A proxy before a Redis server, which makes it as slow to answer as a distant one."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def distant(path: str, seconds: float) -> Iterator[int]:
    """Yield a port on loopback that leads to the socket *path*. Each round trip takes *seconds* longer."""
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
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _start(path: str, delay: float) -> asyncio.Server:
    async def connected(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(asyncio.CancelledError), closing(writer):
            there, back = await asyncio.open_unix_connection(path)
            with closing(back):
                await asyncio.gather(
                    _copy(reader, back, delay), _copy(there, writer, delay)
                )

    return await asyncio.start_server(connected, "127.0.0.1", 0)


async def _copy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float
) -> None:
    """Copy bytes, each *delay* seconds later, until the end."""
    loop = asyncio.get_running_loop()
    while data := await reader.read(65_536):
        loop.call_later(delay, writer.write, data)
    await asyncio.sleep(delay)
    writer.close()
