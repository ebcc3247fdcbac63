"""Which store the settings choose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.utils.job import job_dir

from scrapy_rep.exceptions import SettingError, StoreNotInstalled
from scrapy_rep.protocol.display import address_without_credentials
from scrapy_rep.settings.values import named
from scrapy_rep.stores import ALLOWED, SCHEMES, open_store
from scrapy_rep.stores.base import Store

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def store_of(settings: BaseSettings) -> str | type[Store]:
    """The store: its URI or its class as set, or else the URI of a file in JOBDIR, if there
    is one.
    """
    value = settings.get("REP_STORE")
    if value is None:
        # A crawl that is resumed continues with the robots.txt files that it has.
        folder = job_dir(settings)
        return (
            f"sqlite:///{Path(folder) / 'robotstxt.sqlite'}" if folder else "memory://"
        )
    is_address = isinstance(value, str) and "://" in value
    found = None if is_address else named(value, SCHEMES)
    if isinstance(found, type) and issubclass(found, Store):
        return found
    try:
        open_store(value, max_entries=1, max_bytes=1).close()
    except (TypeError, ValueError, AttributeError):
        allowed = f"{ALLOWED}, or the import path of a Store"
        raise SettingError("REP_STORE", displayed(value), allowed) from None
    except StoreNotInstalled as error:
        allowed = f"one that can be used: {error}"
        raise SettingError("REP_STORE", displayed(value), allowed) from None
    return str(value)


def displayed(store: object) -> object:
    """The value of ``REP_STORE`` without credentials."""
    if isinstance(store, str):
        return address_without_credentials(store)
    if isinstance(store, type):
        return f"{store.__module__}.{store.__qualname__}"
    return store
