"""All code that depends on the version of Scrapy, or uses private names of Scrapy.

Tested on Scrapy 2.14.0 and 2.19.0. If a later Scrapy lacks a private name, the function that uses
the name returns a neutral value, and logs one warning. ``docs/explanation/scrapy.md`` lists the
names, what the package does without each of them, and what Scrapy would have to offer instead.
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

# Scrapy 2.18 and later have this signal.
HAS_ROBOTS_PARSED_SIGNAL = hasattr(signals, "robots_parsed")

# In older versions, Slot.lastseen is a time of the wall clock, not of the monotonic clock.
_SLOTS_HAVE_WALL_CLOCK = getattr(downloader, "time", None) is time.time


def is_heard(crawler: Crawler, signal: Any) -> bool:
    """Whether anything in the crawl is connected to *signal*."""
    return any(dispatcher.getAllReceivers(crawler.signals.sender, signal))


def is_interactive(crawler: Crawler) -> bool:
    """Whether the command is ``scrapy shell``, ``fetch`` or ``view``, where a person waits for a page."""
    # The shell sets DUPEFILTER_CLASS. The other two use a spider of Scrapy's own, or replace the
    # start method of the spider.
    priority = crawler.settings.getpriority("DUPEFILTER_CLASS")
    return (
        priority == SETTINGS_PRIORITIES["command"]
        or isinstance(crawler.spider, DefaultSpider)
        or _starts_in(crawler, "scrapy.commands.fetch")
    )


def is_parse_command(crawler: Crawler) -> bool:
    """Whether the command is ``scrapy parse``, in which the output of a callback does not pass through
    the spider middlewares.
    """
    return _starts_in(crawler, "scrapy.commands.parse")


def _starts_in(crawler: Crawler, module: str) -> bool:
    """Whether *module*, that of a command, has replaced the start method of the spider."""
    start = getattr(type(crawler.spider), "start", None)
    return getattr(start, "__module__", "") == module


def shared_component(crawler: Crawler, kind: Callable[[Crawler], _T]) -> _T:
    """Return the object that ``kind(crawler)`` creates, the same at each call, so that the components of a
    crawl share it. Only the crawler keeps a reference, so the object is freed with the crawler.
    """
    components = vars(crawler).setdefault("_scrapy_rep_components", {})
    if kind not in components:
        components[kind] = kind(crawler)
    component: _T = components[kind]
    return component


def loop_caller() -> Callable[..., object]:
    """Return a function that other threads use to call a function in the current event loop. It raises
    RuntimeError once the event loop has ended.
    """
    if scrapy_asyncio.is_asyncio_available():
        return asyncio.get_running_loop().call_soon_threadsafe
    # This import installs a reactor if there is none, so it must run after Scrapy has installed one.
    from twisted.internet import reactor

    caller: Callable[..., object] = reactor.callFromThread
    return caller


async def run_in_thread(function: Callable[[], _T]) -> _T:
    """Call *function* in another thread and return its result. Scrapy 2.15 and later have the same
    function.
    """
    if scrapy_asyncio.is_asyncio_available():
        return await asyncio.to_thread(function)
    # This import installs a reactor if there is none, so it must run after Scrapy has installed one.
    from twisted.internet.threads import deferToThread  # noqa: PLC0415

    return await deferToThread(function)


logger = get_logger(__name__)


PROXY_AUTH_META_KEY = "_auth_proxy"
"""The meta key in which Scrapy notes the proxy to which the ``Proxy-Authorization`` header of a request
belongs."""


_MISSING = object()

_NO_SLOT = "\0"
"""A key that no download slot has."""

_SLOT_ATTRIBUTES = ("concurrency", "delay", "lastseen", "queue")
"""The attributes of Scrapy's download slots that this module reads."""


class SlotState(NamedTuple):
    """The state of a download slot of Scrapy."""

    concurrency: int
    delay: float = 0.0
    """The seconds between two requests."""

    is_queueing: bool = False
    """Whether a request waits in the slot."""

    last_seen: float = float("-inf")
    """When the slot last sent a request, in seconds on the monotonic clock."""


def is_closing(crawler: Crawler) -> bool:
    """Whether the spider is closing or has closed. Scrapy has a signal only for the end of closing."""
    if _find(crawler.engine, "_slot.closing") is not None:
        return True
    # Once the spider has closed, the engine has no slot.
    return getattr(crawler.engine, "_slot", _MISSING) is None


def close_spider(crawler: Crawler, reason: str) -> None:
    """Begin to close the spider, with *reason* as its finish reason, as Scrapy's own extensions do."""
    if crawler.engine is not None and not is_closing(crawler):
        deferred_from_coro(crawler.engine.close_spider_async(reason=reason))


def concurrent_requests(crawler: Crawler) -> int:
    """Return ``CONCURRENT_REQUESTS``. For 0, which means no limit since Scrapy 2.19, return 1,000."""
    return crawler.settings.getint("CONCURRENT_REQUESTS") or 1_000


def wake(crawler: Crawler) -> None:
    """Make the engine ask the scheduler for requests now, instead of at its next heartbeat. Do nothing if
    the downloader is full, since the engine asks again at the end of a download.
    """
    schedule = _find(crawler.engine, "_slot.nextcall.schedule")
    if schedule is not None and not crawler.engine.downloader.needs_backout():
        schedule()


def requests_in_progress(crawler: Crawler) -> Collection[Request]:
    """Return the requests that the scheduler has handed out and that are not done: they are downloaded, or
    their callback runs, or its output is processed.
    """
    return _find(crawler.engine, "_slot.inprogress") or set()


def download_slot(crawler: Crawler, request: Request) -> str:
    """Return the key of the download slot of *request*, nearly always its host; empty if the URL has no
    valid host. Lone surrogates in the name of a slot are replaced, so that the key can be encoded.
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
    """If *request* waits in its download slot, remove it from the slot, and fail it with *error*."""
    slots: Any = _find(crawler.engine, "downloader.slots") or {}
    slot = slots.get(download_slot(crawler, request))
    for entry in _find(slot, "queue") or ():
        if entry[0] is request:
            slot.queue.remove(entry)
            answer = entry[1]
            # The deferred of a request that was cancelled has been called already.
            if not answer.called:
                answer.errback(error)
            return


class DownloaderState:
    """The state of Scrapy's downloader. Create an instance after the engine, as it reads attributes of
    the downloader only once.
    """

    def __init__(self, crawler: Crawler) -> None:
        downloader = _find(crawler.engine, "downloader")
        self._crawler = crawler
        active, slots = _find(downloader, "active"), _find(downloader, "slots")
        self.active: AbstractSet[object] | None = active
        """The requests that are being downloaded; None if this version of Scrapy has no such attribute."""

        self.slots: dict[str, Any] = {} if slots is None else slots
        """The existing download slots, by key."""

        self.own_slots = crawler.settings.getdict("DOWNLOAD_SLOTS").keys()
        """The keys of the slots with settings of their own, in ``DOWNLOAD_SLOTS``."""

        self.new_slot = slot_state(crawler, _NO_SLOT)
        """The state of a new slot without settings of its own."""

        get_slot_key = getattr(downloader, "get_slot_key", None)
        is_scrapys = getattr(get_slot_key, "__func__", None) is Downloader.get_slot_key
        is_by_address = crawler.settings.getint("CONCURRENT_REQUESTS_PER_IP")
        self.has_slot_for_each_host: bool = is_scrapys and not is_by_address
        """Whether each request uses the slot of its host, unless its meta names another slot."""

    def state(self, key: str) -> SlotState:
        """Return the :func:`slot_state` of the slot *key*."""
        return slot_state(self._crawler, key)


_getter = cache(attrgetter)


def _find(owner: Any, path: str) -> Any:
    """Return the attribute of *owner* at a dotted *path*. Return None, and warn once, if *owner* or an
    object on the path does not have the attribute.
    """
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
    "_slot.inprogress": "with a JOBDIR, a crawl that is killed loses the requests in progress",
    "_slot.nextcall.schedule": "a request may be sent 5 seconds late",
    "active": "if a component hides the end of a request, its host gets fewer requests at a time",
    "downloader.get_slot_key": "scrapy-rep ignores download_slot in Request.meta",
    "slots": "scrapy-rep ignores the delays of download slots",
    **dict.fromkeys(
        _SLOT_ATTRIBUTES, "scrapy-rep ignores the delays of download slots"
    ),
}
"""What a missing attribute changes for the user, for the warning."""


@cache
def _warn(path: str) -> None:
    logger.warning(
        "This version of Scrapy has no attribute %s: %s. Update scrapy-rep to a version that "
        "supports this Scrapy",
        path,
        _CONSEQUENCES.get(path, "scrapy-rep works without it"),
    )
