"""Where versions of Scrapy differ, each difference under a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar

from scrapy import signals
from scrapy.utils import asyncio as scrapy_asyncio
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")
_P = ParamSpec("_P")

# Scrapy 2.18 and later.
HAS_ROBOTS_PARSED_SIGNAL = hasattr(signals, "robots_parsed")

# Scrapy 2.15 and later; before, there always is a reactor.
HAS_RUN_IN_THREAD = hasattr(scrapy_asyncio, "run_in_thread")


async def sleep(seconds: float) -> None:
    """Let *seconds* pass, under any reactor and without one (Scrapy 2.18 has its own)."""
    over: Deferred[None] = Deferred()
    timer = scrapy_asyncio.call_later(seconds, over.callback, None)
    try:
        await maybe_deferred_to_future(over)
    finally:
        timer.cancel()


async def run_in_thread(
    function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> _T:
    """What *function* returns, called where it holds nothing up."""
    if HAS_RUN_IN_THREAD:
        return await scrapy_asyncio.run_in_thread(function, *args, **kwargs)
    # Imports the reactor, which must not be done before Scrapy has installed it.
    from twisted.internet.threads import deferToThread  # noqa: PLC0415

    deferred = deferToThread(function, *args, **kwargs)
    return await maybe_deferred_to_future(deferred)
