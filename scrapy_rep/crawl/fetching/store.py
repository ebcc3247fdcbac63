"""Stores of robots.txt files, which crawls and machines can share."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

ALLOWED = (
    "memory://, sqlite:///RELATIVE/PATH, sqlite:////ABSOLUTE/PATH,"
    " redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH/OF/SOCKET?db=DB,"
    " each with ?mb=MEGABYTES (&mb=... after another option)"
)
"""The addresses that :func:`open_store` accepts, for the end of an error message."""

MEMORY = 128
"""The megabytes of memory that robots.txt files may take without ``mb`` in the address."""

_MB = re.compile(r"([?&])mb=([1-9][0-9]{0,8})(&|$)")


class Store(ABC):
    """Keeps bytes by key for crawls that share it.

    A *key* is an origin, such as ``https://example.com``. All methods may be called from several
    threads at once, and by several processes. They raise StoreError if a disk or a network fails.
    Then the crawl goes on without the store, and calls it again after some seconds.
    """

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the data of *key*; None if there are none."""

    @abstractmethod
    def put(self, key: str, data: bytes, until: float) -> None:
        """Keep *data*, at most 1 MiB, as the data of *key*, at least until the time *until* (in
        seconds since the epoch), and replace the data before.
        """

    @abstractmethod
    def close(self) -> None:
        """Close files and connections. Never raises. No method is called after it."""


def open_store(address: str | Path) -> tuple[Store | None, int]:
    """The store at *address*, one of :data:`ALLOWED`, and the bytes of memory that the robots.txt
    files of the crawl may take. There is no store for ``memory://``. A path is that of a file of
    SQLite, with any characters.

    A relative path starts at the working directory. Paths are not percent-decoded. A store
    opens its file or connection at its first call. Raises ValueError for any other address, and
    StoreNotInstalled if the store needs a package that is not installed.
    """
    if isinstance(address, Path):
        from scrapy_rep.crawl.fetching.sqlitestore import SqliteStore  # noqa: PLC0415

        return SqliteStore(address), 1_000_000 * MEMORY
    mb = _MB.search(address)
    max_bytes = 1_000_000 * int(mb[2] if mb else MEMORY)
    # The other options are for the client of Redis.
    address = _MB.sub(lambda option: option[1] if option[3] else "", address, count=1)
    # Imported where needed: not every Python has SQLite, and the Redis client is an extra.
    scheme, separator, rest = address.partition("://")
    if address == "memory://":
        return None, max_bytes
    if scheme == "sqlite" and _is_file(rest):
        from scrapy_rep.crawl.fetching.sqlitestore import SqliteStore  # noqa: PLC0415

        return SqliteStore(rest[1:]), max_bytes
    if scheme in {"redis", "rediss", "unix"} and separator and _is_server(address):
        from scrapy_rep.crawl.fetching.redisstore import RedisStore  # noqa: PLC0415

        # Invalid options in the query of the address.
        with suppress(TypeError, ValueError):
            return RedisStore(address), max_bytes
    # The message leaves the address out, which may hold a password.
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
