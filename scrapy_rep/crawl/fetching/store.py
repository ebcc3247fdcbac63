"""The base class of stores, through which several crawls share robots.txt files. This module also contains the client
with which a crawl uses a store without blocking the event loop.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from logging import ERROR, WARNING
from math import inf
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import signals
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.misc import build_from_crawler, load_object
from twisted.internet.defer import Deferred

from scrapy_rep.base import stats
from scrapy_rep.base.compat import loop_caller
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.settings import STORE, displayed
from scrapy_rep.crawl.fetching.memory import KEEP, dumps, loads
from scrapy_rep.exceptions import (
    SettingError,
    SpiderClosing,
    StoreError,
    StoreNotInstalled,
)
from scrapy_rep.protocol.access.entries import MAX_AHEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from scrapy.crawler import Crawler

    from scrapy_rep.protocol.access.entries import CacheEntry
    from scrapy_rep.protocol.origins import Origin

ALLOWED = (
    "memory://, sqlite:///RELATIVE/PATH, sqlite:////ABSOLUTE/PATH,"
    " redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH/OF/SOCKET?db=DB,"
    " each optionally with ?mb=MEGABYTES at the end (&mb=MEGABYTES after another option)"
)
"""The forms of store addresses that :func:`open_store` accepts, as text for an error message."""

DEFAULT_MEGABYTES = 128
"""The memory limit for robots.txt files in megabytes, if the address of the store does not contain ``?mb=``."""

_MB = re.compile(r"([?&])mb=([1-9][0-9]{0,8})(&|$)")

# The import path of the store class for each URL scheme. A class is imported only when it is used, since some builds of
# Python lack SQLite, and the Redis client is an optional dependency.
_STORES = {
    "sqlite": "scrapy_rep.crawl.fetching.sqlitestore.SqliteStore",
    **dict.fromkeys(
        ("redis", "rediss", "unix"), "scrapy_rep.crawl.fetching.redisstore.RedisStore"
    ),
}

# The time in seconds between a failed call to the store and the next call. Without this pause, each request would have
# to wait until another call to the store fails.
_PAUSE_SECONDS = 3.0

# The maximum time in seconds to wait for the end of a call to the store. The stores of this package have shorter
# time-outs, but a store of the project may have none.
_CALL_TIMEOUT = 30.0

# The maximum number of keys to read, and of entries to write, in one call to the store.
_MAX_KEYS = 32


class Store(ABC):
    """The base class of stores. A store is a key-value store of bytes that several crawls can share.

    A *key* is an origin, such as ``https://example.com``. A crawl calls all methods on one thread, which is not the
    thread of the event loop, so methods are allowed to block. Other processes can read and write the same data.

    Methods raise StoreError if a disk or a network fails. The crawl then continues without the store, and tries to use
    the store again after some seconds.
    """

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the data under *key*. Return None if the store does not contain *key*."""

    @abstractmethod
    def put(self, key: str, data: bytes, until: float) -> None:
        """Store *data* (at most 1 MiB) under *key*, and replace earlier data. The data is needed until the time
        *until*, in seconds since the epoch. The store is allowed to delete it afterwards.
        """

    @abstractmethod
    def close(self) -> None:
        """Close files and connections. This method must not raise exceptions. No method is called afterwards."""

    def get_many(self, keys: Collection[str]) -> Mapping[str, bytes | None]:
        """Return a mapping from each key in *keys* to its data, or to None if the store does not contain the key.

        This implementation calls :meth:`get` for each key. Override it if the store can read several keys in one
        operation.
        """
        return {key: self.get(key) for key in keys}

    def put_many(self, entries: Mapping[str, tuple[bytes, float]]) -> None:
        """Store *entries*, which maps each key to a pair of the data and the time until which the data is needed (see
        *until* in :meth:`put`).

        This implementation calls :meth:`put` for each key. Override it if the store can write several keys in one
        operation.
        """
        for key, (data, until) in entries.items():
            self.put(key, data, until)


def open_store(address: str | Path) -> tuple[Store | None, int]:
    """Return a pair: the store at *address*, and the limit, in bytes, for the memory that a crawl uses for robots.txt
    files.

    For ``memory://``, the store is None. Other stores open their file or connection on first use, not in this function.

    :param address: a string in one of the forms in :data:`ALLOWED`; or a ``pathlib.Path`` object with the path of a
        SQLite file. A Path object can contain any characters. A relative path starts at the working directory. Paths
        are not percent-decoded
    :raises ValueError: if *address* is a string in another form
    :raises StoreNotInstalled: if the store needs a package that is not installed
    """
    if isinstance(address, Path):
        return load_object(_STORES["sqlite"])(address), 1_000_000 * DEFAULT_MEGABYTES
    mb = _MB.search(address)
    max_bytes = 1_000_000 * int(mb[2] if mb else DEFAULT_MEGABYTES)
    # Remove the option "mb" from the address. The remaining options are passed to the Redis client, which would reject
    # "mb".
    address = _MB.sub(lambda option: option[1] if option[3] else "", address, count=1)
    scheme, separator, rest = address.partition("://")
    if address == "memory://":
        return None, max_bytes
    if scheme == "sqlite" and _is_file(rest):
        return load_object(_STORES[scheme])(rest[1:]), max_bytes
    if scheme in {"redis", "rediss", "unix"} and separator and _is_server(address):
        # The Redis client raises TypeError or ValueError if an option in the address is invalid.
        with suppress(TypeError, ValueError):
            return load_object(_STORES[scheme])(address), max_bytes
    # The message leaves out the address, which may contain a password.
    raise ValueError(f"The address of a store must be {ALLOWED}.")


def _is_file(path: str) -> bool:
    # SQLite interprets ":memory:" as a database in memory, which other processes could not share.
    is_named = path.startswith("/") and path not in {"/", "/:memory:"}
    return is_named and not {"\0", "?"} & set(path)


def _is_server(address: str) -> bool:
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return False
    if parts.scheme == "unix":
        return bool(parts.path.strip("/"))
    # If the path is not a number, the Redis client silently uses database 0.
    database = parts.path.removeprefix("/")
    return port != 0 and (not database or database.isdecimal())


class StoreClient:
    """Calls the store of a crawl on a separate thread, so that the event loop is not blocked. Reads and writes that the
    crawl asks for during a call are combined in the next call. While the store fails, or a call hangs, the crawl
    continues without the store.
    """

    def __init__(self, crawler: Crawler, store: Store) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._store = store
        self._gets: list[tuple[str, Deferred[bytes | None]]] = []
        self._puts: list[tuple[str, tuple[bytes, float], Deferred[None]]] = []
        self._work: Deferred[None] | None = None
        """Fires when all reads and writes that the crawl has asked for are done. None if all of them are done."""

        self._calls: SimpleQueue[tuple[Callable[[], object], Callable[..., None]]]
        self._calls = SimpleQueue()
        self._has_thread = False
        self._is_stuck = False
        """Whether a call to the store has exceeded its time-out and has not returned yet."""

        self._is_failing = False
        self._paused_until = -inf
        self._has_warned_of_entry = False
        self._is_closed = False
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    async def get(self, origin: Origin) -> CacheEntry | None:
        """Return the entry of *origin* from the store. The entry can have expired, but at most 30 days ago.

        Return None if the store fails or contains no entry of *origin*. Also return None if the entry cannot be used:
        it is damaged, it expired more than 30 days ago, or its fetch time is in the future. Raises SpiderClosing if the
        client is closed, because the spider closes.
        """
        data = None
        if self._may_call():
            answer: Deferred[bytes | None] = Deferred()
            self._gets.append((str(origin), answer))
            self._begin_work()
            data = await maybe_deferred_to_future(answer)
        if self._is_closed:
            why = f"The spider closes, so {origin.robotstxt_url} is not fetched"
            raise SpiderClosing(why)
        if data is None:
            return None
        try:
            entry = loads(data, origin)
        except ValueError as error:
            self._warn_of_entry(origin, error)
            return None
        now = time.time()
        if entry.fetched > now + MAX_AHEAD:
            self._warn_of_entry(
                origin, ValueError("the fetch time of the entry is in the future")
            )
            return None
        return entry if now < entry.expires + KEEP else None

    def put(self, origin: Origin, entry: CacheEntry) -> Deferred[None]:
        """Write *entry*, the cache entry of *origin*, to the store. Return a Deferred that fires when the write ends,
        whether it succeeds or fails.

        Nothing is written if *entry* is too long, the store is failing, or the client is closed. The returned Deferred
        has then already fired.
        """
        written: Deferred[None] = Deferred()
        try:
            data = dumps(entry) if self._may_call() else None
        except ValueError:
            data = None  # The entry is too long to store, so each crawl fetches this file itself.
        if data is None:
            written.callback(None)
        else:
            self._puts.append((str(origin), (data, entry.expires + KEEP), written))
            self._begin_work()
        return written

    def _may_call(self) -> bool:
        """Return whether the store may be called now. Return False if the client is closed, while a call hangs, and
        during the pause after a failed call.

        After the pause, the first caller gets True, and must then call the store. All other callers get False until that
        call has succeeded or another pause is over.
        """
        if self._is_closed or self._is_stuck or time.monotonic() < self._paused_until:
            return False
        if self._is_failing:
            # The last call failed, so only the caller of this method may try the store again now. A new pause keeps
            # others from calling the store until this attempt has succeeded or the pause is over.
            self._paused_until = time.monotonic() + _PAUSE_SECONDS
        return True

    # Calling the store on a separate thread.

    def _begin_work(self) -> None:
        if self._work is None:
            work: Deferred[None] = Deferred()
            self._work = work
            deferred_from_coro(self._read_and_write()).chainDeferred(work)

    async def _read_and_write(self) -> None:
        """Do all reads and writes that the crawl has asked for, in as few calls to the store as possible."""
        while self._gets or self._puts:
            gets, self._gets = self._gets[:_MAX_KEYS], self._gets[_MAX_KEYS:]
            puts, self._puts = self._puts[:_MAX_KEYS], self._puts[_MAX_KEYS:]
            entries = {key: entry for key, entry, _ in puts}
            data: dict[str, bytes | None] = {}
            try:
                await self._call(partial(self._exchange, gets, data, entries))
                self._paused_until = -inf
                # Only a successful write shows that the store works again. A successful read does not, since a SQLite
                # file can be read while it is locked for writing.
                if puts and self._is_failing:
                    self._is_failing = False
                    self._logger.info(
                        "The store of robots.txt files works again. The crawl uses it from now on"
                    )
            except Exception as error:  # noqa: BLE001  a store of the project may raise anything
                self._failed(error)
                gets, self._gets = gets + self._gets, []
                puts, self._puts = puts + self._puts, []
            for key, answer in gets:
                # The Deferred of a cancelled get() has already fired.
                if not answer.called:
                    answer.callback(data.get(key))
            for _, _, written in puts:
                written.callback(None)
        self._work = None

    def _exchange(
        self,
        gets: list[tuple[str, Deferred[bytes | None]]],
        data: dict[str, bytes | None],
        entries: dict[str, tuple[bytes, float]],
    ) -> None:
        """Read the keys in *gets* from the store, add their data to the dictionary *data*, and write *entries* to the
        store. This method runs on the thread for the store.
        """
        if gets:
            data.update(self._store.get_many([key for key, _ in gets]))
        if entries:
            self._store.put_many(entries)

    async def _call(self, function: Callable[[], object]) -> None:
        """Call *function* on the thread for the store. Raises the exception that *function* raises, or StoreError if
        *function* does not return within :data:`_CALL_TIMEOUT` seconds.
        """
        ended: Deferred[None] = Deferred()

        def returned(error: Exception | None) -> None:
            self._is_stuck = False
            if ended.called:
                return
            if error is None:
                ended.callback(None)
            else:
                ended.errback(error)

        def timed_out() -> None:
            why = f"a call did not return within {_CALL_TIMEOUT:g} seconds"
            returned(StoreError(type(self._store).__name__, why))
            self._is_stuck = True

        if not self._has_thread:
            self._has_thread = True
            # The thread is a daemon, so that the process can exit while a call hangs.
            Thread(target=self._run, args=(loop_caller(),), daemon=True).start()
        timer = call_later(_CALL_TIMEOUT, timed_out)
        self._calls.put((function, returned))
        try:
            await maybe_deferred_to_future(ended)
        finally:
            timer.cancel()

    def _run(self, call_in_loop: Callable[..., object]) -> None:
        """Execute the functions in the queue ``_calls`` one after the other, until the store is closed. This is the
        main function of the thread. After each function, *call_in_loop* passes its error, or None, to the event loop.
        """
        function = None
        while function != self._store.close:
            function, returned = self._calls.get()
            error = None
            try:
                function()
            except Exception as raised:  # noqa: BLE001  _call() raises it in the event loop
                error = raised
            except BaseException as raised:  # noqa: BLE001  no error of a store may end the thread
                error = StoreError(type(self._store).__name__, repr(raised))
            # RuntimeError is raised if the event loop ended during the call.
            with suppress(RuntimeError):
                call_in_loop(returned, error)

    async def _until_idle(self) -> None:
        while self._work is not None:
            await maybe_deferred_to_future(self._work)

    async def _spider_closed(self) -> None:
        """Wait until all reads and writes are done, and then close the store. Fetches that are still running can add
        reads and writes during the wait. These are done too.
        """
        await self._until_idle()
        self._is_closed = True
        if self._is_stuck:
            self._calls.put((self._store.close, lambda _: None))
        else:
            with suppress(Exception):
                await self._call(self._store.close)

    # Errors of the store, and unusable entries.

    def _failed(self, error: Exception) -> None:
        self._crawler.stats.inc_value(stats.STORE_ERRORS)
        if not self._is_failing:
            # Errors other than StoreError are bugs in the store, so its author needs the traceback.
            is_bug = not isinstance(error, StoreError)
            self._logger.log(
                ERROR if is_bug else WARNING,
                "The store of robots.txt files failed: %(error)s. The crawl continues without "
                "the store, and tries to use it again every few seconds",
                exc_info=error if is_bug else None,
                error=error,
            )
        self._is_failing = True
        self._paused_until = time.monotonic() + _PAUSE_SECONDS

    def _warn_of_entry(self, origin: Origin, error: ValueError) -> None:
        self._crawler.stats.inc_value(stats.STORE_ERRORS)
        if not self._has_warned_of_entry:
            self._has_warned_of_entry = True
            self._logger.warning(
                "The entry of %(url)s in the store of robots.txt files cannot be used: %(error)s. The crawl fetches "
                "this robots.txt from its server, and replaces the entry. Check whether other programs write to the "
                "store, and whether the clocks of all machines that use the store are right. Further such entries "
                "are not logged, but counted in the stat %(stat)s",
                url=origin.robotstxt_url,
                error=error,
                stat=stats.STORE_ERRORS,
            )


def _make_folder(crawler: Crawler, store: Any, address: str) -> None:
    """Create the folder for the file of *store*, a SqliteStore, if the folder is missing. Raises SettingError if the
    parent of the folder is missing too, since the path is then probably mistyped. *address* is the address of the
    store, for the error message.
    """
    from scrapy_rep.base.sqlitefile import make_folder  # noqa: PLC0415

    path: Path = store.path
    if make_folder(path, STORE, address):
        CrawlLog(__name__, crawler).info(
            "%(setting)s: created the folder %(folder)s, which did not exist",
            setting=STORE,
            folder=path.parent,
        )


def open_client(
    crawler: Crawler, chosen: str | Path | type
) -> tuple[StoreClient | None, int]:
    """Return a pair: a client for the store that the setting ``REP_STORE`` selects, and the limit, in bytes, for the
    memory that the crawl uses for robots.txt files. For ``memory://``, the client is None.

    :param chosen: the value of ``REP_STORE``: the address of a store, the Path of a SQLite file, or a subclass of Store
    :raises SettingError: if *chosen* is not a valid value, or if the store needs a package that is not installed
    """
    allowed = f"{ALLOWED}, or the import path of a Store"
    if isinstance(chosen, type):
        if issubclass(chosen, Store):
            of_project = build_from_crawler(chosen, crawler)
            return StoreClient(crawler, of_project), 1_000_000 * DEFAULT_MEGABYTES
    else:
        try:
            store, max_bytes = open_store(chosen)
            if isinstance(chosen, str) and chosen.startswith("sqlite:"):
                _make_folder(crawler, store, chosen)
            return None if store is None else StoreClient(crawler, store), max_bytes
        except StoreNotInstalled as error:
            allowed = f"a store whose package is installed ({error})"
        except SettingError:
            raise
        except ValueError:
            pass
    raise SettingError(STORE, displayed(STORE, chosen), allowed)
