"""What this package uses of Scrapy although Scrapy does not document it.

Tried on Scrapy 2.14.0 and 2.19.0. Each function does nothing, or says no, where a later
Scrapy has no such thing any more.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from scrapy.utils.httpobj import urlparse_cached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler


def is_closing(crawler: Crawler) -> bool:
    """Whether the spider is being closed.

    Scrapy has no signal for it: ``spider_closed`` comes after the last request is done.
    """
    slot = getattr(crawler.engine, "_slot", None)
    return slot is None or slot.closing is not None


@contextmanager
def room_in_downloader(crawler: Crawler, *, made: bool = True) -> Iterator[None]:
    """Let the downloader take one request more than ``CONCURRENT_REQUESTS``, for one
    that only waits, or that others wait for; or don't, if no room is to be *made*.
    """
    limits = [
        (owner, name)
        for owner, name in _limits(getattr(crawler.engine, "downloader", None))
        # None: there is no such limit to raise. 0: there is no limit.
        if made and getattr(owner, name, None)
    ]
    for owner, name in limits:
        setattr(owner, name, getattr(owner, name) + 1)
    try:
        yield
    finally:
        for owner, name in limits:
            setattr(owner, name, getattr(owner, name) - 1)


def _limits(downloader: Any) -> Iterator[tuple[Any, str]]:
    """Whatever has ``CONCURRENT_REQUESTS`` for a limit, and the name of that."""
    yield downloader, "total_concurrency"
    handlers = getattr(getattr(downloader, "handlers", None), "_handlers", {})
    for handler in handlers.values():
        # The handler that Scrapy uses without a reactor has connections of aiohttp's.
        yield getattr(getattr(handler, "_session", None), "connector", None), "_limit"


def extend_scheduler(
    crawler: Crawler,
    is_holding: Callable[[], bool],
    give_back: Callable[[], list[Request]],
) -> None:
    """Have requests that are held outside of the scheduler count as its own.

    While *is_holding*, it has requests pending, so that the spider is not idle. When the
    crawl ends, those that *give_back* returns are enqueued, so that a scheduler that
    keeps its queue for another run keeps them too.
    """
    slot: Any = getattr(crawler.engine, "_slot", None)
    scheduler: Any = getattr(slot, "scheduler", None)
    if hasattr(scheduler, "has_pending_requests"):
        has_pending_requests = scheduler.has_pending_requests
        scheduler.has_pending_requests = lambda: is_holding() or has_pending_requests()
    if hasattr(scheduler, "close"):
        close = scheduler.close

        def close_with_all(reason: str) -> Any:
            for request in give_back():
                scheduler.enqueue_request(request)
            return close(reason)

        scheduler.close = close_with_all


def download_slot(crawler: Crawler, request: Request) -> str:
    """The name of the download slot of *request*; its host, nearly always."""
    downloader: Any = getattr(crawler.engine, "downloader", None)
    if hasattr(downloader, "get_slot_key"):
        return str(downloader.get_slot_key(request))
    return str(request.meta.get("download_slot") or urlparse_cached(request).hostname)


def is_in_downloader(crawler: Crawler, request: object) -> bool:
    """Whether *request* is somewhere between the scheduler and its callback: with a
    downloader middleware, in a slot, or on its way.
    """
    return request in getattr(getattr(crawler.engine, "downloader", None), "active", ())
