"""Where robots.txt files are kept across requests, crawls and machines."""

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
"""The addresses that :func:`open_store` takes, in words that end a sentence."""


def open_store(address: str, *, max_entries: int, max_bytes: int) -> Store:
    """The store at *address*, one of :data:`ALLOWED`.

    A relative path starts at the working directory. Paths are not percent-decoded.
    *max_entries* and *max_bytes* limit a store in memory. Other stores have no limit: they
    delete entries that are too old to be of use.

    Nothing is read, written or connected before the first call. Raises ValueError for any
    other address, and StoreNotInstalled where the store needs a package that is missing.
    """
    # Modules are imported when they are needed: not every Python has SQLite, and the client
    # of Redis is an extra.
    scheme, separator, rest = address.partition("://")
    if address == "memory://":
        from scrapy_rep.stores.memory import MemoryStore  # noqa: PLC0415

        return MemoryStore(max_entries, max_bytes)
    if scheme == "sqlite" and _is_file(rest):
        from scrapy_rep.stores.sqlite import SqliteStore  # noqa: PLC0415

        return SqliteStore(rest[1:])
    if scheme in {"redis", "rediss", "unix"} and separator and _is_server(address):
        from scrapy_rep.stores.redis import RedisStore  # noqa: PLC0415

        # They are about the options in its query.
        with suppress(TypeError, ValueError):
            return RedisStore(address)
    # The message leaves the address out, which may hold a password.
    raise ValueError(f"The address of a store must be {ALLOWED}.")


def _is_file(path: str) -> bool:
    # ":memory:" is SQLite's name for a database that no other process can see.
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
    # The client takes anything else than a number for database 0.
    database = parts.path.removeprefix("/")
    return port != 0 and (not database or database.isdecimal())
