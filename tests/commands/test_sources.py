"""Where the robots.txt of an origin comes from."""

from __future__ import annotations

import asyncio

import pytest

from scrapy_rep.commands.shared.sources import finish


def test_finish() -> None:
    """Without a crawl, a coroutine gives its result at once, or there is a mistake."""

    async def at_once() -> int:
        return 1

    async def later() -> None:
        await asyncio.sleep(0)

    assert finish(at_once()) == 1
    with pytest.raises(RuntimeError, match="waits for something"):
        finish(later())
