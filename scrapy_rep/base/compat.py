"""Scrapy's versions and its private names: no other module knows them.

Tested on Scrapy 2.14.0 and 2.19.0. If a later Scrapy lacks a private name, the function here
returns a neutral value, and logs one warning that names it. ``docs/compatibility.md`` lists
each function, with what the package does without it, and what Scrapy would need to offer instead.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from functools import cache
from operator import attrgetter, contains
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydispatch import dispatcher
from scrapy import exceptions, signals
from scrapy.core import downloader
from scrapy.core.downloader import Downloader
from scrapy.http import Headers
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils import asyncio as scrapy_asyncio
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.python import global_object_name
from scrapy.utils.spider import DefaultSpider

from scrapy_rep.base.log import get_logger
from scrapy_rep.protocol.origins import origin_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from collections.abc import Set as AbstractSet
    from types import FrameType

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


_T = TypeVar("_T")

# Scrapy 2.18 and later.
HAS_ROBOTS_PARSED_SIGNAL = hasattr(signals, "robots_parsed")

# A dictionary of lists, by names in title case.
_lines: Callable[..., Any] = dict.get if issubclass(Headers, dict) else Headers.getlist

# Older versions record the moments of download slots on the wall clock.
_SLOTS_HAVE_WALL_CLOCK = getattr(downloader, "time", None) is time.time


def is_heard(crawler: Crawler, signal: Any) -> bool:
    """Whether anybody receives *signal* in the crawl."""
    return any(dispatcher.getAllReceivers(crawler.signals.sender, signal))


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


def loop_caller() -> Callable[..., object]:
    """A function that other threads call, to have a function called in the event loop that runs now.
    It raises RuntimeError once that loop has ended.
    """
    if scrapy_asyncio.is_asyncio_available():
        return asyncio.get_running_loop().call_soon_threadsafe
    # This imports the reactor, so it must run after Scrapy has installed one.
    from twisted.internet import reactor

    found: Callable[..., object] = reactor.callFromThread
    return found


async def run_in_thread(function: Callable[[], _T]) -> _T:
    """The result of *function*, called on another thread, as that of Scrapy 2.15 and later."""
    if scrapy_asyncio.is_asyncio_available():
        return await asyncio.to_thread(function)
    # Where it is called, it imports the reactor.
    from twisted.internet.threads import deferToThread  # noqa: PLC0415

    return await deferToThread(function)


logger = get_logger(__name__)


PROXY_AUTH_META_KEY = "_auth_proxy"
"""The meta key for the proxy to which the ``Proxy-Authorization`` header of a request belongs."""


# Where the functions of Scrapy's download handlers that send ``headers_received`` have the status:
# the name of a variable, and of an attribute or item of its value. They are those for HTTP/1.1, for
# aiohttp, and for HTTP/2.
_STATUS_IN = {
    "_cb_bodyready": ("txresponse", "code"),
    "_read_response": ("response", "status"),
    "receive_headers": ("self", "_response", "status"),
}

# How many calls lie between the handler of a signal and the function that sends it: four to six.
_MAX_FRAMES = 10

_NO_SUCH = object()

_NO_SLOT = "\0"
"""The key of no download slot."""

# What Scrapy raises for a response that is too long (2.15 and later).
_TOO_LONG = getattr(exceptions, "DownloadCancelledError", ())


class SlotState(NamedTuple):
    """The state of a download slot. Times are in seconds, moments on the monotonic clock."""

    concurrency: int
    delay: float = 0.0
    is_queueing: bool = False
    """Whether a request waits in the slot."""

    last_seen: float = float("-inf")
    """The moment at which the slot last sent a request."""


def is_closing(crawler: Crawler) -> bool:
    """Whether the spider is closing. Scrapy sends a signal only when it has closed."""
    if _find(crawler.engine, "_slot.closing") is not None:
        return True
    # Once it is closed, there is no slot.
    return getattr(crawler.engine, "_slot", _NO_SUCH) is None


def close_spider(crawler: Crawler, reason: str) -> None:
    """Begin to close the spider, as Scrapy's own extensions do."""
    if crawler.engine is not None and not is_closing(crawler):
        deferred_from_coro(crawler.engine.close_spider_async(reason=reason))


def concurrent_requests(crawler: Crawler) -> int:
    """``CONCURRENT_REQUESTS``. Since Scrapy 2.19, 0 stands for no limit: then a thousand."""
    return crawler.settings.getint("CONCURRENT_REQUESTS") or 1_000


def has_middleware(crawler: Crawler, path: str) -> bool:
    """Whether the downloader has a middleware of the class at *path*, or of a subclass."""
    found = _find(crawler.engine, "downloader.middleware.middlewares")
    kinds = (kind for each in found or () for kind in type(each).__mro__)
    return found is None or path in map(global_object_name, kinds)


def wake(crawler: Crawler) -> None:
    """Make the engine ask its scheduler for requests now, not only at its next heartbeat. If the
    downloader is full, it asks when a download has ended, in any case.
    """
    schedule = _find(crawler.engine, "_slot.nextcall.schedule")
    if schedule is not None and not crawler.engine.downloader.needs_backout():
        schedule()


async def download_once(crawler: Crawler, request: Request) -> Response | Request:
    """Download *request* as ``download_async`` of the engine does, but return a request that a
    component returns in place of the response, where the engine would go on with that.
    """
    engine: Any = crawler.engine
    download = getattr(engine, "_download", None)
    found: Response | Request
    if download is None:
        found = await engine.download_async(request)
        return found
    try:
        found = await maybe_deferred_to_future(download(request))
    finally:
        engine._slot.remove_request(request)
    return found


def active_requests(crawler: Crawler) -> AbstractSet[object]:
    """The requests between the scheduler and their callback."""
    return _find(crawler.engine, "downloader.active") or set()


def requests_in_progress(crawler: Crawler) -> Collection[Request]:
    """The requests between the scheduler and the end of their callback and its output."""
    return _find(crawler.engine, "_slot.inprogress") or set()


class LoopWatch:
    """Whether the asyncio event loop was told to end with tasks left, as by a second Ctrl-C without
    a reactor: it cancels them, and their requests then look as if they were done.
    """

    def __init__(self) -> None:
        self._future: asyncio.Future[None] | None = None
        with suppress(RuntimeError):  # No event loop of asyncio runs.
            loop = asyncio.get_running_loop()
            if _reactor_is_installed():
                return
            self._future = loop.create_future()
            self._task = loop.create_task(self._wait(self._future))

    @property
    def is_cancelled(self) -> bool:
        return self._future is not None and self._future.cancelled()

    def stop(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    @staticmethod
    async def _wait(future: asyncio.Future[None]) -> None:
        await future


def _reactor_is_installed() -> bool:
    return "twisted.internet.reactor" in sys.modules


def download_slot(crawler: Crawler, request: Request) -> str:
    """The key of the download slot of *request*, which is nearly always its host; empty if its
    host cannot be read. It can be written anywhere, although a project may name a slot as it likes.
    """
    get_slot_key = _find(crawler.engine, "downloader.get_slot_key")
    try:
        key = str(get_slot_key(request) if get_slot_key else origin_of(request.url))
    except ValueError:  # "http://[::/"
        return ""
    return key.encode(errors="replace").decode()


def slot_state(crawler: Crawler, key: str) -> SlotState | None:
    """The state of the download slot *key*; None if it is unknown."""
    downloader = _find(crawler.engine, "downloader")
    slot = (_find(downloader, "slots") or {}).get(key)
    if slot is not None:
        last_seen = slot_moment(slot.lastseen)
        return SlotState(slot.concurrency, slot.delay, bool(slot.queue), last_seen)
    concurrency = _find(downloader, "domain_concurrency")
    own = (_find(downloader, "per_slot_settings") or {}).get(key, {})
    delay = own.get("delay", crawler.settings.getfloat("DOWNLOAD_DELAY"))
    concurrency = own.get("concurrency", concurrency)
    return None if concurrency is None else SlotState(concurrency, delay=delay)


def withdraw(
    crawler: Crawler, request: Request
) -> Callable[[Exception | None], None] | None:
    """Take *request* out of its download slot, in which it waits to be sent. Return a function
    that puts it back, or fails it with an error; None if it does not wait there.
    """
    downloader = _find(crawler.engine, "downloader")
    process_queue = _find(downloader, "_process_queue")
    slots: Any = _find(downloader, "slots") or {}
    slot = slots.get(download_slot(crawler, request))
    waiting = () if slot is None or process_queue is None else slot.queue
    entry = next((each for each in waiting if each[0] is request), None)
    if entry is None:
        return None
    slot.queue.remove(entry)
    _, result = entry

    def go_on(error: Exception | None) -> None:
        if result.called:
            return  # The request was cancelled.
        if error is not None:
            result.errback(error)
        else:
            slot.queue.appendleft(entry)
            process_queue(slot)

    return go_on


class DownloaderState:
    """What changes in Scrapy's downloader with each request. The engine must exist: the attributes
    are looked up once.
    """

    def __init__(self, crawler: Crawler) -> None:
        downloader = _find(crawler.engine, "downloader")
        active, slots = _find(downloader, "active"), _find(downloader, "slots")
        self.active: AbstractSet[object] = set() if active is None else active
        """As :func:`active_requests`."""

        self.slots: dict[str, Any] = {} if slots is None else slots
        """The download slots by key, as far as they exist."""

        own: dict[str, Any] = _find(downloader, "per_slot_settings") or {}
        self.own_slots = own.keys()
        """The keys of the slots that have settings of their own."""

        self.new_slot = slot_state(crawler, _NO_SLOT)
        """The state of any other slot that does not exist yet; None if it is unknown."""

        get_slot_key = getattr(downloader, "get_slot_key", None)
        is_scrapys = getattr(get_slot_key, "__func__", None) is Downloader.get_slot_key
        self.has_slot_for_each_host: bool = is_scrapys and not getattr(
            downloader, "ip_concurrency", 0
        )
        """Whether the host name is the key of a slot, unless the request names another."""


_contains = dict.__contains__ if issubclass(Headers, dict) else contains


def has_host_header(request: Request) -> bool:
    """Whether *request* has a ``Host`` header."""
    headers: Any = getattr(request, "_headers", _NO_SUCH)
    if headers is _NO_SUCH:
        headers = request.headers
    return headers is not None and _contains(headers, b"Host")


def has_headers(request: Request) -> bool:
    """Whether *request* may have header fields. Since Scrapy 2.19, reading ``Request.headers``
    makes an object of 400 bytes where there is none.
    """
    return getattr(request, "_headers", True) is not None


def field_lines(headers: Headers, name: bytes) -> Sequence[bytes]:
    """The values of the field lines with a *name*, which is spelt as Scrapy stores it:
    ``b"Content-Type"``. ``Headers.get`` converts the name and each value, in eight calls.
    """
    found: Sequence[bytes] = _lines(headers, name) or ()
    return found


def raise_limits(crawler: Crawler) -> list[tuple[Any, str]]:
    """Let the downloader take one request more than ``CONCURRENT_REQUESTS``, until
    :func:`lower_limits` is called with what this returns.

    This writes to Scrapy's downloader and to the connection pool of aiohttp, which the handler
    has that Scrapy uses without a reactor. Nothing else leaves the pages their places:

    - A handler instance of its own would need a second pool, of the same size, in which
      innocent hosts time out while they wait for others; and the page that follows a robots.txt
      would need a connection of its own, with another TLS handshake.
    - A subclass of Downloader (``DOWNLOADER``) can say when it is full, but aiohttp's pool has
      no setting. A project may have a Downloader of its own.
    - A greater ``CONCURRENT_REQUESTS`` would change what the project has set, for all of its
      components, and let more pages through wherever the queue is not this package's.
    """
    downloader: Any = getattr(crawler.engine, "downloader", None)
    limits = [(downloader, "total_concurrency")]
    handlers = getattr(getattr(downloader, "handlers", None), "_handlers", {})
    for handler in handlers.values():
        pool = getattr(getattr(handler, "_session", None), "connector", None)
        if pool is not None:
            limits += [(pool, "_limit"), (pool, "_limit_per_host")]
    # None: there is no such attribute. 0: there is no limit.
    limits = [(owner, name) for owner, name in limits if getattr(owner, name, None)]
    for owner, name in limits:
        setattr(owner, name, getattr(owner, name) + 1)
    return limits


def lower_limits(limits: list[tuple[Any, str]]) -> None:
    """Undo what :func:`raise_limits` did, which has returned *limits*."""
    for owner, name in limits:
        setattr(owner, name, getattr(owner, name) - 1)


def has_room(crawler: Crawler, apart: AbstractSet[Request]) -> bool:
    """Whether the downloader has room for another request. The requests *apart*, for each of which
    its limit is raised, do not count.
    """
    downloader = _find(crawler.engine, "downloader")
    limit = getattr(downloader, "total_concurrency", 0) - len(apart)
    active: AbstractSet[object] = getattr(downloader, "active", frozenset())
    return limit <= 0 or len(active) - len(active & apart) < limit


def close_idle_connections(crawler: Crawler) -> None:
    """Close the connections that are kept open for further requests, which need files of this
    process: Twisted keeps one to each host for minutes.
    """
    handlers = _find(crawler.engine, "downloader.handlers._handlers") or {}
    for handler in handlers.values():
        pool = getattr(handler, "_pool", None)
        close = getattr(pool, "closeCachedConnections", None)
        if close is not None:
            close()


def status_received() -> int | None:
    """The status of the response whose header fields have arrived, for a handler of
    ``headers_received``. That signal does not tell it, so it is read from the variables of
    Scrapy's download handler, which sends the signal. None if no handler of Scrapy does.
    """
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MAX_FRAMES):
        if frame is None:
            break
        status = _status_in(frame)
        if status is not None:
            return status
        frame = frame.f_back
    return None


def response_refused(error: Exception) -> tuple[int, Headers] | None:
    """The status and the header fields of the response that a download handler did not begin to
    read, since it would be longer than ``DOWNLOAD_MAXSIZE``; *error* has ended the download. The
    handler for aiohttp sends no ``headers_received`` then.
    """
    step = error.__traceback__ if isinstance(error, _TOO_LONG) else None
    while step is not None:
        headers = step.tb_frame.f_locals.get("headers")
        status = _status_in(step.tb_frame)
        if status is not None and isinstance(headers, Headers):
            return status, headers
        step = step.tb_next
    return None


def _status_in(frame: FrameType) -> int | None:
    path = _STATUS_IN.get(frame.f_code.co_name)
    if path is None:
        return None
    name, *attributes = path
    found = frame.f_locals.get(name)
    for each in attributes:
        found = (
            found.get(each) if isinstance(found, dict) else getattr(found, each, None)
        )
    return found if isinstance(found, int) else None


def is_scraper_full(crawler: Crawler) -> bool:
    """Whether the scraper is overloaded: callbacks and item pipelines cannot keep up."""
    needs_backout = _find(crawler.engine, "scraper.slot.needs_backout")
    return needs_backout is not None and needs_backout()


def image_fields(crawler: Crawler) -> list[str]:
    """The item fields from which the pipelines of the crawl that are an ImagesPipeline take the
    URLs of images. A setting, their class or their code chooses the field.
    """
    pipelines = _find(crawler.engine, "scraper.itemproc.middlewares") or ()
    fields = (getattr(each, "images_urls_field", None) for each in pipelines)
    return [field for field in dict.fromkeys(fields) if isinstance(field, str)]


def is_for_pipeline(crawler: Crawler, request: Request) -> bool:
    """Whether a media pipeline of the crawl downloads *request*, also after a redirect."""
    first = next(iter(request.meta.get("redirect_urls") or ()), request.url)
    asked = request if first == request.url else request.replace(url=first)
    fingerprint = crawler.request_fingerprinter.fingerprint(asked)
    pipelines = _find(crawler.engine, "scraper.itemproc.middlewares") or ()
    infos = (getattr(each, "spiderinfo", None) for each in pipelines)
    return any(fingerprint in getattr(each, "downloading", ()) for each in infos)


_getter = cache(attrgetter)


def _find(owner: Any, path: str) -> Any:
    """The attribute at a dotted *path*; None, with a warning, if one on the way is missing."""
    try:
        return _getter(path)(owner)
    except AttributeError:
        for name in path.split("."):
            if owner is not None and not hasattr(owner, name):
                _warn(path)
            owner = getattr(owner, name, None)
        return owner


_WITHOUT = {
    "_slot.closing": "a closing spider waits for delays and pauses",
    "_slot.inprogress": "requests seem to be done when they are sent",
    "_slot.nextcall.schedule": "a request may be sent 5 seconds late",
    "downloader.active": "requests seem to end when they are sent",
    "downloader.get_slot_key": "download_slot in Request.meta is not seen",
    "slots": "the delays of download slots are not seen",
    "domain_concurrency": "the limits of download slots are not seen",
    "per_slot_settings": "DOWNLOAD_SLOTS is not seen",
    "_process_queue": "one request may be sent within a pause",
}
"""What is missing without an attribute; without any other, something small."""


@cache
def _warn(path: str) -> None:
    logger.warning(
        "This version of Scrapy has no attribute %s: %s. Update scrapy-rep to a version that "
        "supports this Scrapy",
        path,
        _WITHOUT.get(path, "scrapy-rep works without it"),
    )
