"""All code that depends on the version of Scrapy, or that uses private names of Scrapy.

This code is tested on Scrapy 2.14.0 and 2.19.0. If a later Scrapy lacks a private name, the function that
uses the name returns a neutral value, and one warning is logged. ``docs/explanation/scrapy.md`` lists the
private names, the consequences of missing names, and the public API that could replace each name.
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

# True in Scrapy 2.18 and later.
HAS_ROBOTS_PARSED_SIGNAL = hasattr(signals, "robots_parsed")

# True in older versions of Scrapy, in which Slot.lastseen is a time of the wall clock, not of the monotonic clock.
_SLOTS_HAVE_WALL_CLOCK = getattr(downloader, "time", None) is time.time


def is_heard(crawler: Crawler, signal: Any) -> bool:
    """Whether *signal* has a receiver in the crawl."""
    return any(dispatcher.getAllReceivers(crawler.signals.sender, signal))


def is_interactive(crawler: Crawler) -> bool:
    """Whether the running command is ``scrapy shell``, ``scrapy fetch`` or ``scrapy view``. With these commands, a
    person waits for a page.
    """
    # "shell" sets DUPEFILTER_CLASS with the priority of commands. "fetch" and "view" use Scrapy's DefaultSpider, or
    # replace the start method of the project's spider.
    priority = crawler.settings.getpriority("DUPEFILTER_CLASS")
    return (
        priority == SETTINGS_PRIORITIES["command"]
        or isinstance(crawler.spider, DefaultSpider)
        or _starts_in(crawler, "scrapy.commands.fetch")
    )


def is_parse_command(crawler: Crawler) -> bool:
    """Whether the running command is ``scrapy parse``. In this command, the output of callbacks bypasses the
    spider middlewares.
    """
    return _starts_in(crawler, "scrapy.commands.parse")


def _starts_in(crawler: Crawler, module: str) -> bool:
    """Whether the spider's ``start`` method comes from *module*, the import path of a Scrapy command's module. Some
    commands, such as ``scrapy parse``, replace the method.
    """
    start = getattr(type(crawler.spider), "start", None)
    return getattr(start, "__module__", "") == module


def shared_component(crawler: Crawler, kind: Callable[[Crawler], _T]) -> _T:
    """Return the object that ``kind(crawler)`` creates. All calls with the same arguments return the same object,
    so the components of a crawl share it. The object is stored in the crawler, and is freed with the crawler.
    """
    components = vars(crawler).setdefault("_scrapy_rep_components", {})
    if kind not in components:
        components[kind] = kind(crawler)
    component: _T = components[kind]
    return component


def loop_caller() -> Callable[..., object]:
    """Return a thread-safe function ``caller(function, *args)``. It schedules the call ``function(*args)`` in the event
    loop in which :func:`loop_caller` was called. If this is an asyncio event loop and it is closed, ``caller`` raises
    RuntimeError.
    """
    if scrapy_asyncio.is_asyncio_available():
        return asyncio.get_running_loop().call_soon_threadsafe
    # This import installs a reactor if there is none, so it must run after Scrapy has installed one.
    from twisted.internet import reactor

    caller: Callable[..., object] = reactor.callFromThread
    return caller


async def run_in_thread(function: Callable[[], _T]) -> _T:
    """Call *function* in another thread, and return the result of the call. Scrapy 2.15 and later have an
    equivalent function.
    """
    if scrapy_asyncio.is_asyncio_available():
        return await asyncio.to_thread(function)
    # This import installs a reactor if there is none, so it must run after Scrapy has installed one.
    from twisted.internet.threads import deferToThread  # noqa: PLC0415

    return await deferToThread(function)


logger = get_logger(__name__)


PROXY_AUTH_META_KEY = "_auth_proxy"
"""A meta key of Scrapy. If a request has a ``Proxy-Authorization`` header, the value is the URL of the proxy for which
the header is meant. If the request gets another proxy later, Scrapy removes the header."""


_MISSING = object()

_NO_SLOT = "\0"
"""A slot key that no request has. For this key, :func:`slot_state` returns the state of a new slot."""

_SLOT_ATTRIBUTES = ("concurrency", "delay", "lastseen", "queue")
"""The attributes of Scrapy's download slots that this module reads."""


class SlotState(NamedTuple):
    """The state of one of Scrapy's download slots."""

    concurrency: int
    delay: float = 0.0
    """The delay in seconds between two requests."""

    is_queueing: bool = False
    """Whether at least one request waits in the slot."""

    last_seen: float = float("-inf")
    """The time of the slot's last request, in seconds on the monotonic clock; ``-inf`` before the first request."""


def is_closing(crawler: Crawler) -> bool:
    """Whether the spider is closing or closed. No signal tells this in time, because Scrapy sends ``spider_closed``
    only at the end of closing.
    """
    if _find(crawler.engine, "_slot.closing") is not None:
        return True
    # After the spider is closed, engine._slot is None.
    return getattr(crawler.engine, "_slot", _MISSING) is None


def close_spider(crawler: Crawler, reason: str) -> None:
    """Start closing the spider, with *reason* as the finish reason, and return immediately. Do nothing if the
    spider is closing already.
    """
    if crawler.engine is not None and not is_closing(crawler):
        deferred_from_coro(crawler.engine.close_spider_async(reason=reason))


def concurrent_requests(crawler: Crawler) -> int:
    """Return the value of ``CONCURRENT_REQUESTS``. If the value is 0, which means no limit in Scrapy 2.19, return
    1,000.
    """
    return crawler.settings.getint("CONCURRENT_REQUESTS") or 1_000


def wake(crawler: Crawler) -> None:
    """Make the engine call the scheduler for further requests now. Without this, the engine would wait for its next
    heartbeat, up to 5 seconds later. Do nothing if the downloader is full, because the engine calls the scheduler
    again when a download ends.
    """
    schedule = _find(crawler.engine, "_slot.nextcall.schedule")
    if schedule is not None and not crawler.engine.downloader.needs_backout():
        schedule()


def requests_in_progress(crawler: Crawler) -> Collection[Request]:
    """Return the requests that the engine took from the scheduler and that are not done yet. A request is done
    when its download, its callback, and the processing of the callback's output have ended.
    """
    return _find(crawler.engine, "_slot.inprogress") or set()


def download_slot(crawler: Crawler, request: Request) -> str:
    """Return the key of *request*'s download slot, which is usually the host. Return an empty string if the URL
    does not have a valid host. Lone surrogates in the key are replaced, so that the key can be encoded.
    """
    get_slot_key = _find(crawler.engine, "downloader.get_slot_key")
    try:
        key = str(get_slot_key(request)) if get_slot_key else host_of(request)
    except ValueError:  # An invalid URL, such as "http://[::/".
        return ""
    return key.encode(errors="replace").decode()


def slot_state(crawler: Crawler, key: str) -> SlotState:
    """Return the state of the download slot *key*. If the slot does not exist, return the state of a new slot."""
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
    """Remove *request* from the queue of its download slot, and make it fail with *error*. Do nothing if the
    request is not in this queue.
    """
    slots: Any = _find(crawler.engine, "downloader.slots") or {}
    slot = slots.get(download_slot(crawler, request))
    for entry in _find(slot, "queue") or ():
        if entry[0] is request:
            slot.queue.remove(entry)
            answer = entry[1]
            # If the request was cancelled, its Deferred has already fired.
            if not answer.called:
                answer.errback(error)
            return


class DownloaderState:
    """The state of Scrapy's downloader. An instance must be created after the engine, because it reads
    attributes of the engine's downloader only once.
    """

    def __init__(self, crawler: Crawler) -> None:
        downloader = _find(crawler.engine, "downloader")
        self._crawler = crawler
        active, slots = _find(downloader, "active"), _find(downloader, "slots")
        self.active: AbstractSet[object] | None = active
        """The requests in Scrapy's downloader; None if the downloader of this Scrapy version has no attribute
        ``active``."""

        self.slots: dict[str, Any] = {} if slots is None else slots
        """The existing download slots, by key."""

        self.own_slots = crawler.settings.getdict("DOWNLOAD_SLOTS").keys()
        """The keys of the download slots that have settings of their own in ``DOWNLOAD_SLOTS``."""

        self.new_slot = slot_state(crawler, _NO_SLOT)
        """The state of a new download slot that ``DOWNLOAD_SLOTS`` does not configure."""

        get_slot_key = getattr(downloader, "get_slot_key", None)
        is_scrapys = getattr(get_slot_key, "__func__", None) is Downloader.get_slot_key
        is_by_address = crawler.settings.getint("CONCURRENT_REQUESTS_PER_IP")
        self.has_slot_for_each_host: bool = is_scrapys and not is_by_address
        """Whether each request uses the slot of its host, unless the request's meta names another slot. False if Scrapy
        has a slot for each IP address, or if the project's own downloader chooses the slots."""

    def state(self, key: str) -> SlotState:
        """Return the state of the download slot *key*, as :func:`slot_state` does."""
        return slot_state(self._crawler, key)


_getter = cache(attrgetter)


def _find(owner: Any, path: str) -> Any:
    """Return the attribute of *owner* at the dotted *path*. If an attribute on the path does not exist, return
    None, and log a warning the first time. Return None without a warning if a value on the path is None.
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
    "_slot.inprogress": "if a crawl with a JOBDIR is killed, its requests in progress are lost",
    "_slot.nextcall.schedule": "requests may be sent up to 5 seconds late",
    "active": "if a component hides the end of a request, the host gets fewer concurrent requests",
    "downloader.get_slot_key": "scrapy-rep ignores download_slot in Request.meta",
    "downloader.slots": "requests that wait for a DOWNLOAD_DELAY are sent during a pause of their host",
    "slots": "scrapy-rep ignores the delays of download slots",
    **dict.fromkeys(
        _SLOT_ATTRIBUTES, "scrapy-rep ignores the delays of download slots"
    ),
}
"""What goes wrong in a crawl if Scrapy's engine or downloader lacks an attribute that this package reads. The keys are
the paths of the attributes. The values are the ends of sentences that begin with "Scrapy has no attribute ..., so"."""


@cache
def _warn(path: str) -> None:
    logger.warning(
        "The engine or downloader of this version of Scrapy has no attribute %s, so %s. Update "
        "scrapy-rep to a version that supports this version of Scrapy",
        path,
        _CONSEQUENCES.get(path, "a part of scrapy-rep does not work"),
    )
