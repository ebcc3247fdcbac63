"""Where versions of Scrapy differ, each difference under a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

from scrapy import exceptions, signals
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils import asyncio as scrapy_asyncio
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.spider import DefaultSpider
from twisted.internet import error
from twisted.internet.defer import Deferred

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

_T = TypeVar("_T")
_P = ParamSpec("_P")

# Scrapy 2.18 and later.
HAS_ROBOTS_PARSED_SIGNAL = hasattr(signals, "robots_parsed")

# Scrapy 2.15 and later; before, there always is a reactor.
HAS_RUN_IN_THREAD = hasattr(scrapy_asyncio, "run_in_thread")

NO_SERVER_ERRORS: tuple[type[Exception], ...] = (
    error.ConnectionRefusedError,
    error.DNSLookupError,
    # Scrapy 2.15 and later have errors of their own.
    *(
        getattr(exceptions, name)
        for name in ("DownloadConnectionRefusedError", "CannotResolveHostError")
        if hasattr(exceptions, name)
    ),
)
"""What a download ends with where nobody answers at a host."""


class SlotState(NamedTuple):
    """A download slot at a moment. Times are in seconds, moments of the monotonic clock."""

    concurrency: int
    active: int = 0
    delay: float = 0.0
    is_queueing: bool = False
    """Whether a request waits in it, for its delay or for its turn."""

    last_seen: float = float("-inf")
    """When it last sent a request."""


def is_interactive(crawler: Crawler) -> bool:
    """Whether a person waits for one page: ``scrapy shell``, ``fetch`` and ``view``."""
    spider = crawler.spider
    # The shell has a setting of its own; the others have a spider of Scrapy's, or replace
    # what the spider begins with.
    in_shell = crawler.settings.getpriority("DUPEFILTER_CLASS")
    start = getattr(type(spider), "start", None)
    return (
        in_shell == SETTINGS_PRIORITIES["command"]
        or isinstance(spider, DefaultSpider)
        or getattr(start, "__module__", "") == "scrapy.commands.fetch"
    )


def shared_component(crawler: Crawler, kind: Callable[[Crawler], _T]) -> _T:
    """The one of its *kind* that the components of a crawl share; made if there is none.

    It is kept with the crawler, and freed with it.
    """
    components = vars(crawler).setdefault("_scrapy_rep_components", {})
    if kind not in components:
        components[kind] = kind(crawler)
    found: _T = components[kind]
    return found


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
