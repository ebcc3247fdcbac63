"""Stores of robots.txt files, which crawls and machines can share, and the client of a store in a crawl."""

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
    " each with ?mb=MEGABYTES (&mb=... after another option)"
)
"""The addresses that :func:`open_store` accepts, for the end of an error message."""

MEMORY = 128
"""The megabytes of memory that robots.txt files may take, unless the address has ``mb``."""

_MB = re.compile(r"([?&])mb=([1-9][0-9]{0,8})(&|$)")

# Imported where needed: not every Python has SQLite, and the Redis client is an extra.
_STORES = {
    "sqlite": "scrapy_rep.crawl.fetching.sqlitestore.SqliteStore",
    **dict.fromkeys(
        ("redis", "rediss", "unix"), "scrapy_rep.crawl.fetching.redisstore.RedisStore"
    ),
}

# The seconds for which the client does not call a store after a failure, so that not every
# request waits for another failure.
_PAUSE = 3.0

# The seconds for which the client waits for a call of a store. The stores of this package return
# earlier, also if a disk or a network fails.
_MAX_CALL = 30.0

# The most keys that one call of a store reads or writes.
_AT_ONCE = 32


class Store(ABC):
    """Keeps bytes by key for crawls that share it.

    A *key* is an origin, such as ``https://example.com``. A crawl calls all methods on one thread,
    which is not that of its event loop; other processes may use the same data. Methods raise StoreError
    if a disk or a network fails. Then the crawl continues without the store, and calls it again after
    some seconds.
    """

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the data of *key*; None if the store has none."""

    @abstractmethod
    def put(self, key: str, data: bytes, until: float) -> None:
        """Keep *data*, at most 1 MiB, under *key*, in place of earlier data, at least until the time *until*
        (in seconds since the epoch).
        """

    @abstractmethod
    def close(self) -> None:
        """Close files and connections. Never raises. No method is called after it."""

    def get_many(self, keys: Collection[str]) -> Mapping[str, bytes | None]:
        """Return the data of several *keys*. A store that can read them in one call overrides this
        method.
        """
        return {key: self.get(key) for key in keys}

    def put_many(self, entries: Mapping[str, tuple[bytes, float]]) -> None:
        """Keep several *entries*: the data and the time *until*, by key. A store that can write them in one
        call overrides this method.
        """
        for key, (data, until) in entries.items():
            self.put(key, data, until)


def open_store(address: str | Path) -> tuple[Store | None, int]:
    """Return the store at *address*, one of :data:`ALLOWED`, and the bytes of memory that the robots.txt
    files of the crawl may take. The store is None for ``memory://``. A Path is that of a SQLite file, and
    may have any characters.

    A relative path starts at the working directory. Paths are not percent-decoded. A store
    opens its file or connection at its first call. Raises ValueError for any other address, and
    StoreNotInstalled if the store needs a package that is not installed.
    """
    if isinstance(address, Path):
        return load_object(_STORES["sqlite"])(address), 1_000_000 * MEMORY
    mb = _MB.search(address)
    max_bytes = 1_000_000 * int(mb[2] if mb else MEMORY)
    # All other options are for the client of Redis.
    address = _MB.sub(lambda option: option[1] if option[3] else "", address, count=1)
    scheme, separator, rest = address.partition("://")
    if address == "memory://":
        return None, max_bytes
    if scheme == "sqlite" and _is_file(rest):
        return load_object(_STORES[scheme])(rest[1:]), max_bytes
    if scheme in {"redis", "rediss", "unix"} and separator and _is_server(address):
        # The query of the address may have invalid options.
        with suppress(TypeError, ValueError):
            return load_object(_STORES[scheme])(address), max_bytes
    # The address, which may hold a password, is not in the message.
    raise ValueError(f"The address of a store must be {ALLOWED}.")


def _is_file(path: str) -> bool:
    # SQLite keeps a database called ":memory:" in memory, where no other process sees it.
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
    # The client would silently use database 0 for anything but a number.
    database = parts.path.removeprefix("/")
    return port != 0 and (not database or database.isdecimal())


class StoreClient:
    """Calls a store on a thread of its own, one call after the other. Reads and writes that come during a
    call wait, and are combined in the next one. While the store fails, or a call does not return,
    the crawl continues without it.
    """

    def __init__(self, crawler: Crawler, store: Store) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._store = store
        self._gets: list[tuple[str, Deferred[bytes | None]]] = []
        self._puts: list[tuple[str, tuple[bytes, float], Deferred[None]]] = []
        self._work: Deferred[None] | None = None
        """Fires when no read or write waits any more; None if none does."""

        self._calls: SimpleQueue[tuple[Callable[[], object], Callable[..., None]]]
        self._calls = SimpleQueue()
        self._has_thread = False
        self._is_stuck = False
        """Whether a call has not returned in time, and not since."""

        self._is_failing = False
        self._paused_until = -inf
        self._has_warned_of_entry = False
        self._is_closed = False
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    async def get(self, origin: Origin) -> CacheEntry | None:
        """Return the entry of *origin*; None if the store has none, or a useless one: it expired too long
        ago, or comes from the future. Raises SpiderClosing if the spider has closed meanwhile.
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
            self._warn_of_entry(origin, ValueError("it comes from the future"))
            return None
        return entry if now < entry.expires + KEEP else None

    def put(self, origin: Origin, entry: CacheEntry) -> Deferred[None]:
        """Store *entry*. The Deferred fires when that is done, or has failed."""
        written: Deferred[None] = Deferred()
        try:
            data = dumps(entry) if self._may_call() else None
        except ValueError:
            data = None  # It is too long. Each worker fetches this file for itself.
        if data is None:
            written.callback(None)
        else:
            self._puts.append((str(origin), (data, entry.expires + KEEP), written))
            self._begin_work()
        return written

    def _may_call(self) -> bool:
        if self._is_closed or self._is_stuck or time.monotonic() < self._paused_until:
            return False
        if self._is_failing:
            # This call tests whether the store works again. Other requests do not wait for it.
            self._paused_until = time.monotonic() + _PAUSE
        return True

    # Calls.

    def _begin_work(self) -> None:
        if self._work is None:
            work: Deferred[None] = Deferred()
            self._work = work
            deferred_from_coro(self._read_and_write()).chainDeferred(work)

    async def _read_and_write(self) -> None:
        """Read and write for all that wait, in as few calls as possible."""
        while self._gets or self._puts:
            gets, self._gets = self._gets[:_AT_ONCE], self._gets[_AT_ONCE:]
            puts, self._puts = self._puts[:_AT_ONCE], self._puts[_AT_ONCE:]
            entries = {key: entry for key, entry, _ in puts}
            data: dict[str, bytes | None] = {}
            try:
                await self._call(partial(self._exchange, gets, data, entries))
                self._paused_until = -inf
                # A locked store can be read, but not written.
                if puts and self._is_failing:
                    self._is_failing = False
                    self._logger.info(
                        "The store of robots.txt files works again, and the crawl uses it again"
                    )
            except Exception as error:  # noqa: BLE001  a store of one's own may raise anything
                self._failed(error)
                gets, self._gets = gets + self._gets, []
                puts, self._puts = puts + self._puts, []
            for key, answer in gets:
                if not answer.called:  # It was cancelled.
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
        """Add to *data* what the store has for *gets*, and put *entries* there. Runs on the thread."""
        if gets:
            data.update(self._store.get_many([key for key, _ in gets]))
        if entries:
            self._store.put_many(entries)

    async def _call(self, function: Callable[[], object]) -> None:
        """Call *function* on the thread. Raises the error that it raises, or StoreError if it does not
        return in time.
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
            why = f"a call has not returned after {_MAX_CALL:g} seconds"
            returned(StoreError(type(self._store).__name__, why))
            self._is_stuck = True

        if not self._has_thread:
            self._has_thread = True
            # A daemon: a process that exits does not wait for a call that never returns.
            Thread(target=self._run, args=(loop_caller(),), daemon=True).start()
        timer = call_later(_MAX_CALL, timed_out)
        self._calls.put((function, returned))
        try:
            await maybe_deferred_to_future(ended)
        finally:
            timer.cancel()

    def _run(self, call_in_loop: Callable[..., object]) -> None:
        """Run the calls, one after the other, until the store is closed. This is the thread."""
        function = None
        while function != self._store.close:
            function, returned = self._calls.get()
            error = None
            try:
                function()
            except Exception as raised:  # noqa: BLE001  raised where the call is awaited
                error = raised
            except BaseException as raised:  # noqa: BLE001  it must not end the thread
                error = StoreError(type(self._store).__name__, repr(raised))
            # The event loop may have ended meanwhile.
            with suppress(RuntimeError):
                call_in_loop(returned, error)

    async def _until_idle(self) -> None:
        while self._work is not None:
            await maybe_deferred_to_future(self._work)

    async def _spider_closed(self) -> None:
        """Close the store when all writes have ended. Meanwhile, other fetches may end."""
        await self._until_idle()
        self._is_closed = True
        if self._is_stuck:
            self._calls.put((self._store.close, lambda _: None))
        else:
            with suppress(Exception):
                await self._call(self._store.close)

    # Faults.

    def _failed(self, error: Exception) -> None:
        self._crawler.stats.inc_value(stats.STORE_ERRORS)
        if not self._is_failing:
            # Any other error is a bug in the store, whose author needs the traceback.
            is_bug = not isinstance(error, StoreError)
            self._logger.log(
                ERROR if is_bug else WARNING,
                "The store of robots.txt files fails: %(error)s. The crawl continues without "
                "it, and tries it again every few seconds",
                exc_info=error if is_bug else None,
                error=error,
            )
        self._is_failing = True
        self._paused_until = time.monotonic() + _PAUSE

    def _warn_of_entry(self, origin: Origin, error: ValueError) -> None:
        self._crawler.stats.inc_value(stats.STORE_ERRORS)
        if not self._has_warned_of_entry:
            self._has_warned_of_entry = True
            self._logger.warning(
                "The entry of %(url)s in the store of robots.txt files cannot be read "
                "(%(error)s). It counts as missing: the file is fetched, and replaces it. "
                "Check who else writes to the store. Later such entries are only counted "
                "(%(stat)s)",
                url=origin.robotstxt_url,
                error=error,
                stat=stats.STORE_ERRORS,
            )


def _make_folder(crawler: Crawler, store: Any, address: str) -> None:
    """Make the folder for the file of a store, if only that is missing. Raises SettingError if more are."""
    from scrapy_rep.base.sqlitefile import make_folder  # noqa: PLC0415

    path: Path = store.path
    if make_folder(path, STORE, address):
        CrawlLog(__name__, crawler).info(
            "%(setting)s: the folder %(folder)s did not exist, and was made",
            setting=STORE,
            folder=path.parent,
        )


def open_client(
    crawler: Crawler, chosen: str | Path | type
) -> tuple[StoreClient | None, int]:
    """Return the client of the store that ``REP_STORE`` selects (*chosen*), and the bytes of memory that the
    robots.txt files of the crawl may take. The client is None for ``memory://``.

    Raises SettingError if *chosen* is neither the address of a store nor a subclass of Store, and if the
    store needs a package that is not installed.
    """
    allowed = f"{ALLOWED}, or the import path of a Store"
    if isinstance(chosen, type):
        if issubclass(chosen, Store):
            of_project = build_from_crawler(chosen, crawler)
            return StoreClient(crawler, of_project), 1_000_000 * MEMORY
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
