"""Locks for coroutines, with any reactor and without one."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from scrapy.utils.defer import maybe_deferred_to_future

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from twisted.internet.defer import DeferredLock, DeferredSemaphore


@asynccontextmanager
async def held(lock: DeferredLock | DeferredSemaphore) -> AsyncIterator[None]:
    """Hold *lock* in the block. If it is free, nothing is awaited, which takes a task each time."""
    got: list[object] = []
    acquired = lock.acquire().addCallback(got.append)
    try:
        if not got:
            await maybe_deferred_to_future(acquired)
        yield
    finally:
        # A call that is cancelled may have got the lock in the same moment.
        if got:
            lock.release()
