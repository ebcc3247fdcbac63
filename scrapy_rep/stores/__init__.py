"""Where robots.txt is kept across requests, crawls and machines."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from scrapy_rep.stores.base import Store

ALLOWED = (
    "memory://, sqlite:///RELATIVE/PATH, sqlite:////ABSOLUTE/PATH,"
    " redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH/OF/SOCKET?db=DB"
)
"""The URIs that ``open_store`` takes, in words that end a sentence."""


def open_store(uri: str, *, max_entries: int, max_bytes: int) -> Store:
    """The store that *uri* is the address of, one of ``ALLOWED``.

    A relative path starts at the working directory; neither kind is percent-decoded.
    *max_entries* and *max_bytes* bound a store in memory, and have no meaning for others,
    where entries go when they are too old to be of use.

    Nothing is read, written or connected before the first call. Raises ValueError for
    any other URI, and StoreNotInstalled where the store needs a package that is not
    there.
    """
    # Modules are imported when they are needed: not every Python has SQLite, and the
    # client of Redis is an extra.
    scheme, separator, rest = uri.partition("://")
    if uri == "memory://":
        from scrapy_rep.stores.memory import MemoryStore  # noqa: PLC0415

        return MemoryStore(max_entries, max_bytes)
    if separator and scheme == "sqlite" and _is_file(rest):
        from scrapy_rep.stores.sqlite import SqliteStore  # noqa: PLC0415

        return SqliteStore(rest[1:])
    if separator and scheme in {"redis", "rediss", "unix"} and _is_server(uri):
        from scrapy_rep.stores.redis import RedisStore  # noqa: PLC0415

        try:
            return RedisStore(uri)
        except (TypeError, ValueError):  # one of the options in its query
            pass
    # Without what was given: it may hold a password.
    raise ValueError(f"The address of a store must be {ALLOWED}.")


def _is_file(path: str) -> bool:
    # ":memory:" is SQLite's name for a database that no other process can see.
    return path.startswith("/") and path not in {"/", "/:memory:"} and "\0" not in path


def _is_server(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        return False
    if parts.scheme == "unix":
        return bool(parts.path.strip("/"))
    # The client takes anything else than a number for database 0.
    database = parts.path.removeprefix("/")
    return port != 0 and (not database or database.isdecimal())
