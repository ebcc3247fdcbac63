"""Proxies for a Redis server: one delays the answers, as if the server were far away, and one loses answers."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager


def distant(path: str, seconds: float) -> AbstractContextManager[int]:
    """Run a proxy for the server at the Unix socket *path*, and yield the port of the proxy on the loopback interface.
    Through the proxy, each round trip to the server takes *seconds* longer. The proxy stops at the end of the ``with``
    block.
    """
    return _proxy(path, seconds / 2, lambda answer: False)


def lossy(path: str, is_lost: Callable[[bytes], object]) -> AbstractContextManager[int]:
    """Run a proxy for the server at the Unix socket *path*, and yield the port of the proxy on the loopback interface.
    The proxy calls *is_lost* with each answer of the server, in a thread of its own. If *is_lost* returns true, the
    proxy closes the connection instead of passing the answer on. So the server has executed a call, and the client does
    not know it. The proxy stops at the end of the ``with`` block.
    """
    return _proxy(path, 0, is_lost)


@contextmanager
def _proxy(
    path: str, delay: float, is_lost: Callable[[bytes], object]
) -> Iterator[int]:
    """Run a proxy that delays all bytes by *delay* seconds, and loses the answers for which *is_lost* returns true."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    started = asyncio.run_coroutine_threadsafe(_start(path, delay, is_lost), loop)
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


async def _start(
    path: str, delay: float, is_lost: Callable[[bytes], object]
) -> asyncio.Server:
    async def connect(
        from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        with suppress(asyncio.CancelledError), closing(to_client):
            from_server, to_server = await asyncio.open_unix_connection(path)
            with closing(to_server):
                await asyncio.gather(
                    _copy(from_client, to_server, delay, lambda call: False),
                    _copy(from_server, to_client, delay, is_lost),
                )

    return await asyncio.start_server(connect, "127.0.0.1", 0)


async def _copy(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    delay: float,
    is_lost: Callable[[bytes], object],
) -> None:
    """Copy all bytes from *reader* to *writer*, and close *writer*. Each byte is delayed by *delay* seconds. End before
    the first bytes for which *is_lost* returns true.
    """
    loop = asyncio.get_running_loop()
    while (data := await reader.read(65_536)) and not is_lost(data):
        loop.call_later(delay, writer.write, data)
    await asyncio.sleep(delay)
    writer.close()
