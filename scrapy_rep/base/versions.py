"""Differences between versions of Scrapy, and objects that a crawl's components share."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from pydispatch import dispatcher
from scrapy import signals
from scrapy.core import downloader
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils import asyncio as scrapy_asyncio
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.spider import DefaultSpider
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

_T = TypeVar("_T")

# Scrapy 2.18 and later.
HAS_ROBOTS_PARSED_SIGNAL = hasattr(signals, "robots_parsed")

# Older versions record the moments of download slots on the wall clock.
_SLOTS_HAVE_WALL_CLOCK = getattr(downloader, "time", None) is time.time


def package_version() -> str:
    """The version of this package."""
    try:
        return version("scrapy-rep")
    except PackageNotFoundError:
        return "not installed"


def connect_first(crawler: Crawler, receiver: Callable[..., Any], signal: Any) -> None:
    """Connect *receiver* to *signal* before all others: of several that close the spider when it is
    idle, Scrapy takes the reason of the last.
    """
    crawler.signals.connect(receiver, signal)
    receivers = dispatcher.getReceivers(crawler.signals.sender, signal)
    receivers.insert(0, receivers.pop())


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


class StillRuns(Exception):
    """A call on a *thread* has not returned in time. The thread goes on."""

    def __init__(self, thread: Thread, seconds: float) -> None:
        super().__init__(f"a call has not returned after {seconds:g} seconds")
        self.thread = thread


async def run_in_thread(
    function: Callable[[], _T], *, at_most: float | None = None
) -> _T:
    """The result of *function*, called on a thread of its own.

    With *at_most*, raises StillRuns after so many seconds, and the process does not wait for the
    thread at its end.
    """
    over: Deferred[_T] = Deferred()

    def end(result: Any) -> None:
        if not over.called:
            over.callback(result)

    def run() -> None:
        result: Any
        try:
            result = function()
        except BaseException:  # noqa: BLE001  raised where the call is awaited
            result = Failure()
        # The event loop may have ended meanwhile.
        with suppress(RuntimeError):
            call_in_loop(end, result)

    call_in_loop: Callable[..., object]
    if scrapy_asyncio.is_asyncio_available():
        call_in_loop = asyncio.get_running_loop().call_soon_threadsafe
    else:
        # This imports the reactor, so it must run after Scrapy has installed one.
        from twisted.internet import reactor

        call_in_loop = reactor.callFromThread
    thread = Thread(target=run, daemon=at_most is not None)
    thread.start()
    if at_most is None:
        return await maybe_deferred_to_future(over)
    late = Failure(StillRuns(thread, at_most))
    timer = scrapy_asyncio.call_later(at_most, end, late)
    try:
        return await maybe_deferred_to_future(over)
    finally:
        timer.cancel()
