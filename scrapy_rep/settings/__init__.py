"""Settings, read and checked once."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from scrapy_rep.compat.startlog import say_in_one_sentence
from scrapy_rep.compat.versions import shared_component
from scrapy_rep.exceptions import SettingError
from scrapy_rep.settings import readers
from scrapy_rep.settings.values import Values, tokens_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scrapy_rep.protocol.access.freshness import Bounds
    from scrapy_rep.protocol.access.overrides import Override
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.stores.base import Store

OBEY = "ROBOTSTXT_OBEY"
USER_AGENT = "ROBOTSTXT_USER_AGENT"
PARSER = "ROBOTSTXT_PARSER"
LEDGER_LEVEL = "REP_LEDGER_LEVEL"
NOINDEX = "REP_NOINDEX"
NOFOLLOW = "REP_NOFOLLOW"

DEFAULTS: dict[str, object] = {
    "REP_AGENTS": {},
    "REP_CRAWL_DELAY": True,
    "REP_CRAWL_DELAY_MAX": 180,
    "REP_DIALECT": "rfc9309",
    "REP_DOWNLOAD_TIMEOUT": 30,
    "REP_GOOGLE_COMPATIBLE": False,
    "REP_HEADER_ENABLED": True,
    "REP_ITEM_FIELD": "robots",
    "REP_LEDGER": None,
    "REP_LEDGER_LEVEL": "denied",
    "REP_MAX_AGE": 86400,
    "REP_META_ENABLED": True,
    "REP_MIN_AGE": 300,
    "REP_NOFOLLOW": "drop",
    "REP_NOINDEX": "drop",
    "REP_OVERRIDES": {},
    "REP_PURPOSES": [],
    "REP_QUEUE_LEASE": 60,
    "REP_REDIRECT_PRIVATE": False,
    "REP_REL": [],
    "REP_REQUEST_META_KEYS": ["download_slot"],
    "REP_RETRY_TIMES": 1,
    "REP_SHARED_DELAY": True,
    "REP_STOP_DOWNLOAD": False,
    "REP_STORE": "memory://",
    "REP_STORE_MAX_BYTES": 134217728,
    "REP_STORE_MAX_ENTRIES": 100000,
    "REP_UNREACHABLE_WAIT": 600,
    "REP_USAGE": "drop",
    "REP_USAGE_UNKNOWN": "allow",
    "REP_VISIT_TIME": True,
    "REP_VISIT_TIME_WAIT": 3600,
}
"""Every setting of this package, and its default."""


@dataclass(frozen=True)
class RepSettings:
    """What the settings of a crawl say to this package."""

    obey: bool

    agents: tuple[str, ...]
    """The product tokens to follow; empty to take those of the User-Agent header."""

    dialect: Dialect

    download_timeout: float
    """In seconds, for each request."""

    redirect_private: bool
    """Whether a robots.txt on a public address may be redirected to a private one."""

    retry_times: int
    request_meta_keys: tuple[str, ...]
    overrides: tuple[Override, ...]

    bounds: Bounds
    """For how long a robots.txt may hold."""

    store: str | type[Store]
    """The address of the store, as set or of a file in JOBDIR; or a class of the user."""

    store_max_entries: int
    store_max_bytes: int

    unreachable_wait: float
    """For how many seconds a request waits for a robots.txt that can't be had."""

    crawl_delay: bool
    """Whether ``Crawl-delay`` and ``Request-rate`` are kept to."""

    crawl_delay_max: float
    """In seconds; of a host that asks for more, nothing is fetched."""

    queue_lease: float
    """After how many seconds without a sign of a worker the requests that it has taken from
    a queue in Redis are there for others."""

    shared_delay: bool
    """Whether all workers on one store keep a delay together, where it can be shared."""

    visit_time: bool

    visit_time_wait: float
    """For how many seconds a request waits for a window of ``Visit-time`` to open."""

    ledger: str | None
    """The path of the ledger, if one is to be written."""

    ledger_level: str

    header_enabled: bool
    meta_enabled: bool
    noindex: str
    nofollow: str

    rel: frozenset[str]
    """The values of ``rel``, in lower case, whose links are not followed."""

    item_field: str

    stop_download: bool

    purposes: tuple[str, ...]
    """What the crawl is for: categories of use."""

    purpose_agents: Mapping[str, tuple[str, ...]]
    """The product tokens to follow for a purpose, where these are its own."""

    usage: str

    usage_unknown: bool
    """Whether a use is allowed of which nothing is stated."""

    clients: frozenset[str]
    """What downloads, as far as it has ways of its own (see
    :func:`~scrapy_rep.protocol.request_target.other_forms`)."""

    @classmethod
    def of(cls, crawler: Crawler) -> RepSettings:
        """The settings of a crawl, which its components share: they are read once."""
        return shared_component(crawler, _read_settings)

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> RepSettings:
        """Read the settings. Raises SettingError for a value that can't be."""
        try:
            return cls._read(settings)
        except SettingError:
            say_in_one_sentence()
            raise

    @classmethod
    def _read(cls, settings: BaseSettings) -> RepSettings:
        values = Values(settings, {**DEFAULTS, OBEY: False})
        dialect = readers.dialect(values)
        return cls(
            obey=values.flag(OBEY),
            agents=tokens_in(USER_AGENT, settings[USER_AGENT] or ()),
            dialect=dialect,
            download_timeout=values.seconds("REP_DOWNLOAD_TIMEOUT"),
            redirect_private=values.flag("REP_REDIRECT_PRIVATE"),
            retry_times=values.whole("REP_RETRY_TIMES", least=0),
            request_meta_keys=tuple(values.names("REP_REQUEST_META_KEYS")),
            overrides=readers.overrides(values, dialect),
            bounds=readers.bounds(values),
            store=readers.store(values),
            store_max_entries=values.whole("REP_STORE_MAX_ENTRIES", least=1),
            store_max_bytes=values.whole("REP_STORE_MAX_BYTES", least=1),
            unreachable_wait=values.seconds("REP_UNREACHABLE_WAIT", least=0),
            crawl_delay=values.flag("REP_CRAWL_DELAY") and dialect.crawl_delay,
            crawl_delay_max=values.seconds("REP_CRAWL_DELAY_MAX"),
            queue_lease=values.seconds("REP_QUEUE_LEASE"),
            shared_delay=values.flag("REP_SHARED_DELAY"),
            visit_time=values.flag("REP_VISIT_TIME") and dialect.crawl_delay,
            visit_time_wait=values.seconds("REP_VISIT_TIME_WAIT", least=0),
            ledger=readers.ledger(values),
            ledger_level=values.one_of(LEDGER_LEVEL, "denied", "all"),
            header_enabled=values.flag("REP_HEADER_ENABLED"),
            meta_enabled=values.flag("REP_META_ENABLED"),
            noindex=values.one_of(NOINDEX, "drop", "annotate", "ignore"),
            nofollow=values.one_of(NOFOLLOW, "drop", "ignore"),
            rel=readers.rel(values, dialect),
            item_field=values.name("REP_ITEM_FIELD"),
            stop_download=values.flag("REP_STOP_DOWNLOAD"),
            purposes=values.purposes("REP_PURPOSES"),
            purpose_agents=values.agents("REP_AGENTS"),
            usage=values.one_of("REP_USAGE", "drop", "annotate", "ignore"),
            usage_unknown=values.one_of("REP_USAGE_UNKNOWN", "allow", "deny")
            == "allow",
            clients=readers.clients(settings),
        )


def _read_settings(crawler: Crawler) -> RepSettings:
    return RepSettings.from_settings(crawler.settings)


def unknown_names(settings: BaseSettings) -> Iterator[tuple[str, str | None]]:
    """Names that look like settings of this package and are none, each with the nearest
    one that is, if any is near.
    """
    for name in settings:
        if isinstance(name, str) and name.startswith("REP_") and name not in DEFAULTS:
            yield name, next(iter(get_close_matches(name, DEFAULTS, 1)), None)


def recorded(settings: BaseSettings, read: RepSettings) -> dict[str, object]:
    """Every setting that this package follows, without credentials; *read* is what was
    read from them.
    """
    names = {*DEFAULTS, *(name for name in settings if name.startswith("ROBOTSTXT_"))}
    found = {name: settings.get(name, DEFAULTS.get(name)) for name in sorted(names)}
    found["REP_STORE"] = readers.displayed_store(read.store)
    return found
