"""The settings that are more than one value of a simple type, each with its reader.

All of them raise SettingError for a value that can't be.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.utils.job import job_dir

from scrapy_rep.exceptions import SettingError, StoreNotInstalled
from scrapy_rep.protocol.access.freshness import Bounds
from scrapy_rep.protocol.access.overrides import (
    ALLOWED_OVERRIDE,
    ALLOWED_PATTERN,
    Override,
    OverrideError,
    parse_overrides,
)
from scrapy_rep.protocol.dialect import DIALECTS, GOOGLE, Dialect
from scrapy_rep.protocol.display import address_without_credentials
from scrapy_rep.protocol.request_target import AIOHTTP, HTTP2
from scrapy_rep.stores import ALLOWED, open_store
from scrapy_rep.stores.base import Store

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scrapy_rep.settings.values import Values

_LINK_TYPES = frozenset({
    "alternate", "author", "bookmark", "external", "help", "license", "me", "next",
    "nofollow", "noopener", "noreferrer", "opener", "prev", "privacy-policy", "search",
    "sponsored", "tag", "terms-of-service", "ugc",
})  # fmt: skip
"""The values that ``rel`` of a link can have: those of the HTML standard (4.6.7) for ``a``
and ``area``, the two that search engines have added, and ``me``."""


def dialect(values: Values) -> Dialect:
    found = values.named("REP_DIALECT", DIALECTS)
    if not isinstance(found, Dialect):
        names = ", ".join(map(repr, DIALECTS))
        raise values.error("REP_DIALECT", f"{names}, or the import path of a Dialect")
    if not values.flag("REP_GOOGLE_COMPATIBLE"):
        return found
    if values.is_set("REP_DIALECT") and found != GOOGLE:
        allowed = "'google', or left out, where REP_GOOGLE_COMPATIBLE is True"
        raise values.error("REP_DIALECT", allowed)
    return GOOGLE


def clients(settings: BaseSettings) -> frozenset[str]:
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS")
    chosen = "".join(str(handlers.get(scheme)) for scheme in ("http", "https")).lower()
    found = {client for client in (AIOHTTP, HTTP2) if client in chosen}
    # Without a reactor, Scrapy downloads with aiohttp unless told otherwise.
    if not settings.getbool("TWISTED_REACTOR_ENABLED", True):
        found.add(AIOHTTP)
    return frozenset(found)


def overrides(values: Values, dialect: Dialect) -> tuple[Override, ...]:
    name = "REP_OVERRIDES"
    allowed = f"a dict of host patterns to {ALLOWED_OVERRIDE}"
    written = values.mapping(name, allowed)
    try:
        return parse_overrides(written, dialect)
    except OverrideError as error:
        if error.is_pattern:
            key = f"A key of {name}"
            raise SettingError(key, error.pattern, ALLOWED_PATTERN) from None
        key = f"{name}[{error.pattern!r}]"
        raise SettingError(key, written[error.pattern], ALLOWED_OVERRIDE) from None


def rel(values: Values, dialect: Dialect) -> frozenset[str]:
    if not values.is_set("REP_REL"):
        return dialect.untrusted_rel
    found = frozenset(map(str.lower, values.names("REP_REL")))
    if not found <= _LINK_TYPES:
        allowed = ", ".join(sorted(_LINK_TYPES))
        raise values.error("REP_REL", f"a list of values of rel, each one of {allowed}")
    return found


def bounds(values: Values) -> Bounds:
    least = values.seconds("REP_MIN_AGE", least=0)
    most = values.seconds("REP_MAX_AGE")
    if most < least:
        raise values.error("REP_MAX_AGE", f"at least REP_MIN_AGE, which is {least:g}")
    return Bounds(least, most)


def ledger(values: Values) -> str | None:
    # Empty, as the command line can have it: -s REP_LEDGER=
    if values.get("REP_LEDGER") == "" or not values.is_set("REP_LEDGER"):
        return None
    return values.name("REP_LEDGER")


def store(values: Values) -> str | type[Store]:
    """The store: its URI or its class as set, or else the URI of a file in JOBDIR, if there
    is one.
    """
    name = "REP_STORE"
    value: Any = values.get(name)
    if not values.is_set(name):
        # A crawl that is resumed continues with the robots.txt files that it has.
        folder = job_dir(values.settings)
        return f"sqlite:///{Path(folder) / 'robotstxt.sqlite'}" if folder else value
    if not isinstance(value, str) or "://" not in value:
        found = values.named(name)
        if isinstance(found, type) and issubclass(found, Store):
            return found
    try:
        open_store(value, max_entries=1, max_bytes=1).close()
    except (TypeError, ValueError, AttributeError):
        allowed = f"{ALLOWED}, or the import path of a Store"
    except StoreNotInstalled as error:
        allowed = f"one that can be used: {error}"
    else:
        return str(value)
    raise SettingError(name, displayed_store(value), allowed)


def displayed_store(store: object) -> object:
    """The value of ``REP_STORE`` without credentials."""
    if isinstance(store, str):
        return address_without_credentials(store)
    if isinstance(store, type):
        return f"{store.__module__}.{store.__qualname__}"
    return store
