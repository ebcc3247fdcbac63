"""What this package uses of Scrapy although Scrapy does not document it.

Tried on Scrapy 2.14.0 and 2.19.0. Where a later Scrapy has no such thing any more, it is
as if it said no, and one warning names what is missing.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from twisted.python.failure import Failure

from scrapy_rep.compat.versions import SlotState
from scrapy_rep.protocol.origins import origin_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_warn = cache(partial(logger.warning, "Scrapy has no %s; what needs it is left out"))

PROXY_AUTH_META_KEY = "_auth_proxy"
"""The proxy that the ``Proxy-Authorization`` header of a request is for."""


def is_closing(crawler: Crawler) -> bool:
    """Whether the spider is being closed, of which there is no signal before the end."""
    if _find(crawler.engine, "_slot") is None:  # It is closed.
        return hasattr(crawler.engine, "_slot")
    return _find(crawler.engine, "_slot.closing") is not None


def wake(crawler: Crawler) -> None:
    """Have the engine ask its scheduler for requests now, not at its next heartbeat."""
    schedule = _find(crawler.engine, "_slot.nextcall.schedule")
    if schedule is not None:
        schedule()


def active_requests(crawler: Crawler) -> Collection[object]:
    """The requests between the scheduler and their callback."""
    return _find(crawler.engine, "downloader.active") or set()


def requests_in_progress(crawler: Crawler) -> Collection[object]:
    """The requests between the scheduler and the end of their callback and of all that it
    has made.
    """
    return _find(crawler.engine, "_slot.inprogress") or set()


def download_slot(crawler: Crawler, request: Request) -> str:
    """The key of the download slot of *request*; its host, nearly always."""
    get_slot_key = _find(crawler.engine, "downloader.get_slot_key")
    return str(get_slot_key(request) if get_slot_key else origin_of(request.url))


def slot_state(crawler: Crawler, key: str) -> SlotState | None:
    """The download slot of that name; None where it can't be told."""
    downloader = _find(crawler.engine, "downloader")
    slot = (_find(downloader, "slots") or {}).get(key)
    if slot is not None:
        limits = slot.concurrency, len(slot.active), slot.delay
        return SlotState(*limits, bool(slot.queue), slot.lastseen)
    concurrency = _find(downloader, "domain_concurrency")
    own = (_find(downloader, "per_slot_settings") or {}).get(key, {})
    delay = own.get("delay", _find(downloader, "_delay") or 0.0)
    concurrency = own.get("concurrency", concurrency)
    return None if concurrency is None else SlotState(concurrency, delay=delay)


@contextmanager
def room_in_downloader(crawler: Crawler) -> Iterator[None]:
    """Let the downloader take one request more than ``CONCURRENT_REQUESTS``."""
    downloader: Any = getattr(crawler.engine, "downloader", None)
    # The handler that Scrapy uses without a reactor has connections of aiohttp's.
    handlers = getattr(getattr(downloader, "handlers", None), "_handlers", {})
    sessions = [getattr(handler, "_session", None) for handler in handlers.values()]
    pools = [(getattr(session, "connector", None), "_limit") for session in sessions]
    # None: there is no such limit to raise. 0: there is no limit.
    limits = [(downloader, "total_concurrency"), *pools]
    raised = [limit for limit in limits if getattr(*limit, None)]
    for owner, name in raised:
        setattr(owner, name, getattr(owner, name) + 1)
    try:
        yield
    finally:
        for owner, name in raised:
            setattr(owner, name, getattr(owner, name) - 1)


def has_room(crawler: Crawler, *, raised: int, apart: type[Request]) -> bool:
    """Whether the downloader takes another request, with those *apart* left out of the
    count, and its limit without the *raised* part.
    """
    limit = (_find(crawler.engine, "downloader.total_concurrency") or 0) - raised
    active = active_requests(crawler)
    if limit <= 0 or len(active) < limit:
        return True
    return sum(not isinstance(request, apart) for request in active) < limit


def is_scraper_full(crawler: Crawler) -> bool:
    """Whether callbacks and item pipelines can't keep up."""
    needs_backout = _find(crawler.engine, "scraper.slot.needs_backout")
    return needs_backout is not None and needs_backout()


def fail(crawler: Crawler, request: Request, error: Exception) -> None:
    """Give *error* to the errback of *request*, as if a download had ended with it."""
    enqueue = _find(crawler.engine, "scraper.enqueue_scrape")
    if request.errback is not None and enqueue is not None:
        # The engine looks whether all is done when a download ends, which this is not.
        enqueue(Failure(error), request).addBoth(lambda _: wake(crawler))


def _find(owner: Any, path: str) -> Any:
    """The attribute at a dotted *path*; None where there is none."""
    try:
        return _getter(path)(owner)
    except AttributeError:
        return _look_for(owner, path)


_getter = cache(attrgetter)


def _look_for(owner: Any, path: str) -> Any:
    """The same, for what may be missing on the way."""
    for name in path.split("."):
        if owner is not None and not hasattr(owner, name):
            _warn(path)
        owner = getattr(owner, name, None)
    return owner
