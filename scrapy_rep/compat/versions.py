"""Differences between versions of Scrapy, and objects that a crawl's components share."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from scrapy import signals
from scrapy.core import downloader
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils import asyncio as scrapy_asyncio
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.spider import DefaultSpider
from twisted.internet.defer import Deferred

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

_T = TypeVar("_T")
_P = ParamSpec("_P")

# The robots.txt files of that many hosts are looked up in a store at the same time.
_MAX_THREADS = 32

# Scrapy 2.18 and later.
HAS_ROBOTS_PARSED_SIGNAL = hasattr(signals, "robots_parsed")

# Older versions record the moments of download slots on the wall clock.
_SLOTS_HAVE_WALL_CLOCK = getattr(downloader, "time", None) is time.time


def slot_moment(moment: float) -> float:
    """Convert a *moment* of a download slot to the monotonic clock."""
    if _SLOTS_HAVE_WALL_CLOCK:
        return moment - time.time() + time.monotonic()
    return moment


def is_interactive(crawler: Crawler) -> bool:
    """Whether ``scrapy shell``, ``fetch`` or ``view`` runs, where a person waits."""
    # The shell changes a setting. The others use a spider of Scrapy's own, or replace the
    # start method of the spider.
    in_shell = crawler.settings.getpriority("DUPEFILTER_CLASS")
    return (
        in_shell == SETTINGS_PRIORITIES["command"]
        or isinstance(crawler.spider, DefaultSpider)
        or _starts_in(crawler, "scrapy.commands.fetch")
    )


def is_parse_command(crawler: Crawler) -> bool:
    """Whether the command is ``scrapy parse``, which runs a callback without passing its
    output through the spider middlewares."""
    return _starts_in(crawler, "scrapy.commands.parse")


def _starts_in(crawler: Crawler, module: str) -> bool:
    start = getattr(type(crawler.spider), "start", None)
    return getattr(start, "__module__", "") == module


def shared_component(crawler: Crawler, kind: Callable[[Crawler], _T]) -> _T:
    """The object of *kind* that the components of a crawl share, which the first call makes.

    The crawler holds it, so it is freed with the crawler.
    """
    components = vars(crawler).setdefault("_scrapy_rep_components", {})
    if kind not in components:
        components[kind] = kind(crawler)
    found: _T = components[kind]
    return found


async def sleep(seconds: float) -> None:
    """Wait for *seconds*, with a reactor or without (Scrapy 2.18 has such a function)."""
    over: Deferred[None] = Deferred()
    timer = scrapy_asyncio.call_later(seconds, over.callback, None)
    try:
        await maybe_deferred_to_future(over)
    finally:
        timer.cancel()


@cache
def _threads() -> ThreadPoolExecutor:
    """Threads for calls that wait for another machine. asyncio's own pool has only a few more than
    the machine has processors.
    """
    return ThreadPoolExecutor(_MAX_THREADS)


async def run_in_thread(
    function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> _T:
    """The result of *function*, called on a thread."""
    if scrapy_asyncio.is_asyncio_available():
        call = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(_threads(), call)
    # This imports the reactor, so it must run after Scrapy has installed one.
    from twisted.internet.threads import deferToThread  # noqa: PLC0415

    deferred = deferToThread(function, *args, **kwargs)
    return await maybe_deferred_to_future(deferred)
