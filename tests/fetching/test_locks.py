"""Locks that several coroutines wait for."""

from __future__ import annotations

import asyncio

import pytest
from twisted.internet.defer import DeferredLock, DeferredSemaphore

from scrapy_rep.fetching.locks import held
from tests.fakes import coroutine_test

pytestmark = pytest.mark.newest


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("kind", [DeferredLock, lambda: DeferredSemaphore(1)])
@coroutine_test
async def test_a_wait_that_is_cancelled_as_it_ends(kind: type, steps: int) -> None:
    """One that is cancelled in the moment in which it gets the lock leaves it to the next one."""
    lock, landing = kind(), asyncio.get_running_loop().create_future()

    async def hold() -> None:
        async with held(lock):
            await landing

    _, second, third = [asyncio.ensure_future(hold()) for _ in range(3)]
    for _ in range(10):
        await asyncio.sleep(0)
    landing.set_result(None)
    for _ in range(steps):
        await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait_for(third, 10)
