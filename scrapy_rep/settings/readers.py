"""Readers of settings that depend on other settings, or are not of a simple type.

All of them raise SettingError for an invalid value.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.utils.job import job_dir

from scrapy_rep.exceptions import SettingError, StoreNotInstalled
from scrapy_rep.protocol.access.overrides import (
    ALLOWED_OVERRIDE,
    ALLOWED_PATTERN,
    Override,
    OverrideError,
    parse_overrides,
)
from scrapy_rep.protocol.dialect import DIALECTS, GOOGLE, Dialect
from scrapy_rep.protocol.display import address_without_credentials
from scrapy_rep.protocol.request_target import AIOHTTP, HTTP2, HTTPX
from scrapy_rep.settings.values import tokens_in
from scrapy_rep.stores import ALLOWED, open_store
from scrapy_rep.stores.base import Store

if TYPE_CHECKING:
    from scrapy_rep.settings.values import Values

_LINK_TYPES = frozenset({
    "alternate", "author", "bookmark", "external", "help", "license", "me", "next",
    "nofollow", "noopener", "noreferrer", "opener", "prev", "privacy-policy", "search",
    "sponsored", "tag", "terms-of-service", "ugc",
})  # fmt: skip
"""The values that ``REP_REL`` may have: those of the HTML standard (4.6.7) for ``a`` and
``area``, ``sponsored`` and ``ugc`` of search engines, and ``me``."""


def user_agent(values: Values, name: str) -> tuple[str, ...]:
    return tokens_in(name, values.get(name) or ())


def dialect(values: Values, name: str = "REP_DIALECT") -> Dialect:
    found = values.named(name, DIALECTS)
    if not isinstance(found, Dialect):
        names = ", ".join(map(repr, DIALECTS))
        raise values.error(name, f"{names}, or the import path of a Dialect")
    if not values.flag("REP_GOOGLE_COMPATIBLE"):
        return found
    if values.is_set(name) and found != GOOGLE:
        allowed = "'google' or not set, because REP_GOOGLE_COMPATIBLE is True"
        value = values.get(name)
        shown = value if isinstance(value, str) else found.name
        raise SettingError(name, shown, allowed)
    return GOOGLE


def paces(values: Values, name: str) -> bool:
    """Whether the flag *name*, about delays or visit times, is set and the dialect has them."""
    return values.flag(name) and dialect(values).crawl_delay


def is_allow(values: Values, name: str) -> bool:
    return values.one_of(name, "allow", "deny") == "allow"


def clients(values: Values, name: str) -> frozenset[str]:
    handlers = values.settings.getwithbase(name)
    chosen = "".join(str(handlers.get(scheme)) for scheme in ("http", "https")).lower()
    found = {client for client in (AIOHTTP, HTTP2, HTTPX) if client in chosen}
    # Without a reactor, Scrapy downloads with aiohttp by default.
    if not values.settings.getbool("TWISTED_REACTOR_ENABLED", True):
        found.add(AIOHTTP)
    return frozenset(found)


def overrides(values: Values, name: str) -> tuple[Override, ...]:
    allowed = f"a dict of host patterns to {ALLOWED_OVERRIDE}"
    written = values.mapping(name, allowed)
    try:
        return parse_overrides(written, dialect(values))
    except OverrideError as error:
        if error.is_pattern:
            key = f"A key of {name}"
            raise SettingError(key, error.pattern, ALLOWED_PATTERN) from None
        key = f"{name}[{error.pattern!r}]"
        raise SettingError(key, written[error.pattern], ALLOWED_OVERRIDE) from None


def rel(values: Values, name: str) -> frozenset[str]:
    if not values.is_set(name):
        return dialect(values).untrusted_rel
    found = frozenset(map(str.lower, values.names(name)))
    if not found <= _LINK_TYPES:
        allowed = ", ".join(sorted(_LINK_TYPES))
        raise values.error(name, f"a list of values of rel, each one of {allowed}")
    return found


def max_age(values: Values, name: str) -> float:
    least, most = values.seconds("REP_MIN_AGE", least=0), values.seconds(name)
    if most < least:
        raise values.error(name, f"at least REP_MIN_AGE, which is {least:g}")
    return most


def ledger(values: Values, name: str) -> str | None:
    # Empty for -s REP_LEDGER= on the command line.
    if values.get(name) == "" or not values.is_set(name):
        return None
    return values.name(name)


def store(values: Values, name: str) -> str | type[Store]:
    """The address or class of the store, as set; otherwise the address of a file in JOBDIR;
    without JOBDIR, the default address.
    """
    value: Any = values.get(name)
    if not values.is_set(name):
        # A resumed crawl continues with the robots.txt files that it has stored.
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
        allowed = f"a store whose package is installed ({error})"
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
