"""Differences between versions of Scrapy, and the private names of Scrapy. Only this module has them.

Tested on Scrapy 2.14.0 and 2.19.0. If a later Scrapy lacks a private name, the function here
returns a neutral value, and logs one warning that names it. ``docs/explanation/scrapy.md``
says of each name what the package does without it, and what Scrapy would need to offer instead.
"""

from __future__ import annotations

import asyncio
import time
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydispatch import dispatcher
from scrapy import signals
from scrapy.core import downloader
from scrapy.core.downloader import Downloader
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils import asyncio as scrapy_asyncio
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.spider import DefaultSpider

from scrapy_rep.base.log import get_logger
from scrapy_rep.base.requests import host_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from collections.abc import Set as AbstractSet

    from scrapy import Request
    from scrapy.crawler import Crawler


_T = TypeVar("_T")

# Scrapy 2.18 and later.
HAS_ROBOTS_PARSED_SIGNAL = hasattr(signals, "robots_parsed")

# Older versions record the moments of download slots on the wall clock.
_SLOTS_HAVE_WALL_CLOCK = getattr(downloader, "time", None) is time.time


def is_heard(crawler: Crawler, signal: Any) -> bool:
    """Whether anybody receives *signal* in the crawl."""
    return any(dispatcher.getAllReceivers(crawler.signals.sender, signal))


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
    """Return the object of *kind* that the components of a crawl share. The first call makes it.

    The crawler has the only reference, so the object is freed with the crawler.
    """
    components = vars(crawler).setdefault("_scrapy_rep_components", {})
    if kind not in components:
        components[kind] = kind(crawler)
    component: _T = components[kind]
    return component


def loop_caller() -> Callable[..., object]:
    """Return a function with which other threads call a function in the event loop that runs now. The
    returned function raises RuntimeError once that loop has ended.
    """
    if scrapy_asyncio.is_asyncio_available():
        return asyncio.get_running_loop().call_soon_threadsafe
    # This imports the reactor, so it must run after Scrapy has installed one.
    from twisted.internet import reactor

    caller: Callable[..., object] = reactor.callFromThread
    return caller


async def run_in_thread(function: Callable[[], _T]) -> _T:
    """Return the result of *function*, called on another thread, as ``run_in_thread`` of Scrapy 2.15 and
    later does.
    """
    if scrapy_asyncio.is_asyncio_available():
        return await asyncio.to_thread(function)
    # This imports the reactor, so it must run after Scrapy has installed one.
    from twisted.internet.threads import deferToThread  # noqa: PLC0415

    return await deferToThread(function)


logger = get_logger(__name__)


PROXY_AUTH_META_KEY = "_auth_proxy"
"""The meta key of the proxy for which the ``Proxy-Authorization`` header of a request is."""


_NO_SUCH = object()

_NO_SLOT = "\0"
"""A key that no download slot has."""

_SLOT_ATTRIBUTES = ("concurrency", "delay", "lastseen", "queue")
"""The attributes of a download slot."""


class SlotState(NamedTuple):
    """The state of a download slot. Times are in seconds, moments on the monotonic clock."""

    concurrency: int
    delay: float = 0.0
    is_queueing: bool = False
    """Whether a request waits in the slot."""

    last_seen: float = float("-inf")
    """The moment at which the slot last sent a request."""


def is_closing(crawler: Crawler) -> bool:
    """Whether the spider is closing. Scrapy sends a signal only once the spider has closed."""
    if _find(crawler.engine, "_slot.closing") is not None:
        return True
    # Once the spider has closed, the engine has no slot.
    return getattr(crawler.engine, "_slot", _NO_SUCH) is None


def close_spider(crawler: Crawler, reason: str) -> None:
    """Begin to close the spider, as Scrapy's own extensions do."""
    if crawler.engine is not None and not is_closing(crawler):
        deferred_from_coro(crawler.engine.close_spider_async(reason=reason))


def concurrent_requests(crawler: Crawler) -> int:
    """Return ``CONCURRENT_REQUESTS``; 1,000 for 0, which means no limit since Scrapy 2.19."""
    return crawler.settings.getint("CONCURRENT_REQUESTS") or 1_000


def wake(crawler: Crawler) -> None:
    """Make the engine ask the scheduler for requests now, instead of at its next heartbeat. If the
    downloader is full, this does nothing: the engine asks when a download has ended.
    """
    schedule = _find(crawler.engine, "_slot.nextcall.schedule")
    if schedule is not None and not crawler.engine.downloader.needs_backout():
        schedule()


def requests_in_progress(crawler: Crawler) -> Collection[Request]:
    """Return the requests that the scheduler has handed out, and whose callback and output have not
    ended.
    """
    return _find(crawler.engine, "_slot.inprogress") or set()


def download_slot(crawler: Crawler, request: Request) -> str:
    """Return the key of the download slot of *request*, which is nearly always its host; empty if the
    URL has no valid host. The key can be encoded, whatever name a project gives a slot.
    """
    get_slot_key = _find(crawler.engine, "downloader.get_slot_key")
    try:
        key = str(get_slot_key(request)) if get_slot_key else host_of(request)
    except ValueError:  # "http://[::/"
        return ""
    return key.encode(errors="replace").decode()


def slot_state(crawler: Crawler, key: str) -> SlotState:
    """Return the state of the download slot *key*, or the state that a new slot would have."""
    downloader = _find(crawler.engine, "downloader")
    slot = (_find(downloader, "slots") or {}).get(key)
    if slot is not None and None not in [
        _find(slot, name) for name in _SLOT_ATTRIBUTES
    ]:
        last_seen = slot.lastseen
        if _SLOTS_HAVE_WALL_CLOCK:
            last_seen += time.monotonic() - time.time()
        return SlotState(slot.concurrency, slot.delay, bool(slot.queue), last_seen)
    settings = crawler.settings
    slot_settings = settings.getdict("DOWNLOAD_SLOTS").get(key, {})
    delay = slot_settings.get("delay", settings.getfloat("DOWNLOAD_DELAY"))
    usual = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
    return SlotState(slot_settings.get("concurrency", usual), delay=delay)


def withdraw(crawler: Crawler, request: Request, error: Exception) -> None:
    """Take *request* out of its download slot, if it waits there, and fail it with *error*."""
    slots: Any = _find(crawler.engine, "downloader.slots") or {}
    slot = slots.get(download_slot(crawler, request))
    for entry in _find(slot, "queue") or ():
        if entry[0] is request:
            slot.queue.remove(entry)
            if not entry[
                1
            ].called:  # A request that was cancelled has an answer already.
                entry[1].errback(error)
            return


class DownloaderState:
    """The state of Scrapy's downloader. Its attributes are looked up once, so the engine must exist."""

    def __init__(self, crawler: Crawler) -> None:
        downloader = _find(crawler.engine, "downloader")
        self._crawler = crawler
        active, slots = _find(downloader, "active"), _find(downloader, "slots")
        self.active: AbstractSet[object] | None = active
        """The requests that are being downloaded; None if Scrapy does not tell."""

        self.slots: dict[str, Any] = {} if slots is None else slots
        """The existing download slots, by key."""

        self.own_slots = crawler.settings.getdict("DOWNLOAD_SLOTS").keys()
        """The keys of the slots that have settings of their own."""

        self.new_slot = slot_state(crawler, _NO_SLOT)
        """The state of a new slot without settings of its own."""

        get_slot_key = getattr(downloader, "get_slot_key", None)
        is_scrapys = getattr(get_slot_key, "__func__", None) is Downloader.get_slot_key
        is_by_address = crawler.settings.getint("CONCURRENT_REQUESTS_PER_IP")
        self.has_slot_for_each_host: bool = is_scrapys and not is_by_address
        """Whether the key of a request's slot is its host, unless the request names another slot."""

    def state(self, key: str) -> SlotState:
        """Return the :func:`slot_state` of the slot *key*."""
        return slot_state(self._crawler, key)


_getter = cache(attrgetter)


def _find(owner: Any, path: str) -> Any:
    """Return the attribute at a dotted *path*; None, with a warning, if an attribute of it is missing."""
    try:
        return _getter(path)(owner)
    except AttributeError:
        for name in path.split("."):
            if owner is not None and not hasattr(owner, name):
                _warn(path)
            owner = getattr(owner, name, None)
        return owner


_CONSEQUENCES = {
    "_slot.closing": "a closing spider waits for delays and pauses",
    "_slot.inprogress": "requests seem to be done when they are sent",
    "_slot.nextcall.schedule": "a request may be sent 5 seconds late",
    "active": "requests whose end a component hides keep their places",
    "downloader.get_slot_key": "download_slot in Request.meta is not seen",
    "slots": "the delays of download slots are not seen",
    **dict.fromkeys(_SLOT_ATTRIBUTES, "the delays of download slots are not seen"),
}
"""The consequence of each missing attribute, for the warning."""


@cache
def _warn(path: str) -> None:
    logger.warning(
        "This version of Scrapy has no attribute %s: %s. Update scrapy-rep to a version that "
        "supports this Scrapy",
        path,
        _CONSEQUENCES.get(path, "scrapy-rep works without it"),
    )
