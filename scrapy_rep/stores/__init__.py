"""Stores of robots.txt files, which requests, crawls and machines can share."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from scrapy_rep.stores.base import Store

ALLOWED = (
    "memory://, sqlite:///RELATIVE/PATH, sqlite:////ABSOLUTE/PATH,"
    " redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH/OF/SOCKET?db=DB"
)
"""The addresses that :func:`open_store` accepts, for the end of an error message."""


def open_store(address: str, *, max_entries: int, max_bytes: int) -> Store:
    """The store at *address*, one of :data:`ALLOWED`.

    A relative path starts at the working directory. Paths are not percent-decoded.
    *max_entries* and *max_bytes* limit a store in memory. Other stores have no limit, but
    delete entries that are too old to be used.

    A store opens its file or connection at its first call. Raises ValueError for any other
    address, and StoreNotInstalled if the store needs a package that is not installed.
    """
    # Imported where needed: not every Python has SQLite, and the Redis client is an extra.
    scheme, separator, rest = address.partition("://")
    if address == "memory://":
        from scrapy_rep.stores.memory import MemoryStore  # noqa: PLC0415

        return MemoryStore(max_entries, max_bytes)
    if scheme == "sqlite" and _is_file(rest):
        from scrapy_rep.stores.sqlite import SqliteStore  # noqa: PLC0415

        return SqliteStore(rest[1:])
    if scheme in {"redis", "rediss", "unix"} and separator and _is_server(address):
        from scrapy_rep.stores.redis import RedisStore  # noqa: PLC0415

        # Invalid options in the query of the address.
        with suppress(TypeError, ValueError):
            return RedisStore(address)
    # The message leaves the address out, which may hold a password.
    raise ValueError(f"The address of a store must be {ALLOWED}.")


def _is_file(path: str) -> bool:
    # SQLite keeps a database called ":memory:" in memory, where no other process sees it.
    is_named = path.startswith("/") and path not in {"/", "/:memory:"}
    return is_named and "\0" not in path


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
