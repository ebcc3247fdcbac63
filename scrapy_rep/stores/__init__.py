"""Where robots.txt files are kept across requests, crawls and machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy_rep.stores.base import Store

ALLOWED = (
    "memory://, sqlite:///RELATIVE/PATH, sqlite:////ABSOLUTE/PATH,"
    " redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH/OF/SOCKET?db=DB"
)
"""The addresses that :func:`open_store` takes, in words that end a sentence."""


class Opener(Protocol):
    """Opens the stores of one scheme."""

    def __call__(self, address: str, max_entries: int, max_bytes: int) -> Store | None:
        """The store at *address*; None where the address does not fit the scheme."""


def open_store(address: str, *, max_entries: int, max_bytes: int) -> Store:
    """The store at *address*, one of :data:`ALLOWED`.

    A relative path starts at the working directory. Paths are not percent-decoded.
    *max_entries* and *max_bytes* limit a store in memory. Other stores have no limit: they
    delete entries that are too old to be of use.

    Nothing is read, written or connected before the first call. Raises ValueError for any
    other address, and StoreNotInstalled where the store needs a package that is missing.
    """
    opener = SCHEMES.get(address.partition("://")[0])
    store = None
    if opener is not None:
        store = opener(address, max_entries, max_bytes)
    if store is None:
        # The message leaves the address out, which may hold a password.
        raise ValueError(f"The address of a store must be {ALLOWED}.")
    return store


# Modules are imported when they are needed: not every Python has SQLite, and the client of
# Redis is an extra.


def _open_memory(address: str, max_entries: int, max_bytes: int) -> Store | None:
    from scrapy_rep.stores.memory import MemoryStore  # noqa: PLC0415

    return MemoryStore(max_entries, max_bytes) if address == "memory://" else None


def _open_sqlite(address: str, max_entries: int, max_bytes: int) -> Store | None:
    path = address.partition("://")[2]
    # ":memory:" is SQLite's name for a database that no other process can see.
    if not path.startswith("/") or path in {"/", "/:memory:"} or "\0" in path:
        return None
    from scrapy_rep.stores.sqlite import SqliteStore  # noqa: PLC0415

    return SqliteStore(path[1:])


def _open_redis(address: str, max_entries: int, max_bytes: int) -> Store | None:
    if not _is_server(address):
        return None
    from scrapy_rep.stores.redis import RedisStore  # noqa: PLC0415

    try:
        return RedisStore(address)
    except (TypeError, ValueError):  # one of the options in its query
        return None


def _is_server(address: str) -> bool:
    if "://" not in address:
        return False
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


SCHEMES: Mapping[str, Opener] = {
    "memory": _open_memory,
    "sqlite": _open_sqlite,
    "redis": _open_redis,
    "rediss": _open_redis,
    "unix": _open_redis,
}
"""What opens a store, by the scheme of its address."""
