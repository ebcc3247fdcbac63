"""Which store the settings choose."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.utils.job import job_dir

from scrapy_rep.exceptions import SettingError, StoreNotInstalled
from scrapy_rep.stores import ALLOWED, open_store

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def store_of(settings: BaseSettings) -> str:
    """The URI of the store: as set, or of a file in JOBDIR, if there is one."""
    uri = settings.get("REP_STORE")
    if uri is None:
        # A crawl that is resumed goes on with what it has.
        folder = job_dir(settings)
        return (
            f"sqlite:///{Path(folder) / 'robotstxt.sqlite'}" if folder else "memory://"
        )
    try:
        open_store(uri, max_entries=1, max_bytes=1).close()
    except (TypeError, ValueError, AttributeError):
        shown = without_password(uri)
        raise SettingError("REP_STORE", shown, ALLOWED) from None
    except StoreNotInstalled as error:
        allowed = f"one that can be used: {error}"
        raise SettingError("REP_STORE", without_password(uri), allowed) from None
    return str(uri)


def without_password(uri: object) -> object:
    """The URI of a store as it may be shown in a log."""
    if not isinstance(uri, str):
        return uri
    before, at, after = uri.rpartition("@")
    uri = f"{before.partition('//')[0]}//***@{after}" if at else uri
    # The client of Redis takes them from the query as well.
    return re.sub("((?:username|password)=)[^&]*", r"\1***", uri)
