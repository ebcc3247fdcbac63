"""Where commands get the robots.txt of an origin from."""

from __future__ import annotations

import asyncio

import pytest

from scrapy_rep.commands.shared.sources import finish


def test_finish() -> None:
    """``finish`` returns the result of a coroutine that does not wait, and raises for others."""

    async def at_once() -> int:
        return 1

    async def later() -> None:
        await asyncio.sleep(0)

    assert finish(at_once()) == 1
    with pytest.raises(RuntimeError, match="was suspended"):
        finish(later())
