"""The settings of this package, read and checked once per crawl."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from scrapy_rep.compat.startlog import log_without_traceback
from scrapy_rep.compat.versions import shared_component
from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.access.freshness import Bounds
from scrapy_rep.settings import readers
from scrapy_rep.settings.values import Values
from scrapy_rep.stores.memory import MAX_BYTES, MAX_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scrapy_rep.protocol.access.overrides import Override
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.stores.base import Store

_T = TypeVar("_T")
_P = ParamSpec("_P")

OBEY = "ROBOTSTXT_OBEY"
USER_AGENT = "ROBOTSTXT_USER_AGENT"
PARSER = "ROBOTSTXT_PARSER"
LEDGER_LEVEL = "REP_LEDGER_LEVEL"
NOINDEX = "REP_NOINDEX"
NOFOLLOW = "REP_NOFOLLOW"


def _setting(
    name: str,
    default: object,
    read: Callable[Concatenate[Values, str, _P], _T],
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> _T:
    """A field of RepSettings: the setting *name*, its default, and how to read it."""

    def value(values: Values) -> _T:
        return read(values, name, *args, **kwargs)

    found: Any = field(metadata={"name": name, "default": default, "value": value})
    return found  # type: ignore[no-any-return]


@dataclass(frozen=True)
class RepSettings:
    """The settings of a crawl that this package uses."""

    obey: bool = _setting(OBEY, False, Values.flag)

    agents: tuple[str, ...] = _setting(USER_AGENT, (), readers.user_agent)
    """The product tokens to follow; empty to use those of the User-Agent header."""

    dialect: Dialect = _setting(  # noqa: RUF009
        "REP_DIALECT", "rfc9309", readers.dialect
    )
    google_compatible: bool = _setting("REP_GOOGLE_COMPATIBLE", False, Values.flag)

    download_timeout: float = _setting("REP_DOWNLOAD_TIMEOUT", 30, Values.seconds)
    """Seconds, for each request."""

    redirect_private: bool = _setting("REP_REDIRECT_PRIVATE", False, Values.flag)
    """Whether to follow redirects of robots.txt from a public to a private address."""

    retry_times: int = _setting("REP_RETRY_TIMES", 1, Values.whole, least=0)
    request_meta_keys: tuple[str, ...] = _setting(
        "REP_REQUEST_META_KEYS", ["download_slot"], Values.names
    )
    overrides: tuple[Override, ...] = _setting("REP_OVERRIDES", {}, readers.overrides)

    min_age: float = _setting("REP_MIN_AGE", 300, Values.seconds, least=0)
    max_age: float = _setting("REP_MAX_AGE", 86400, readers.max_age)
    """The seconds for which a robots.txt stays fresh: at least, and at most."""

    store: str | type[Store] = _setting(  # noqa: RUF009
        "REP_STORE", "memory://", readers.store
    )
    """The address of the store, as set or of a file in JOBDIR; or a subclass of Store."""

    store_max_entries: int = _setting(
        "REP_STORE_MAX_ENTRIES", MAX_ENTRIES, Values.whole, least=1
    )
    store_max_bytes: int = _setting(
        "REP_STORE_MAX_BYTES", MAX_BYTES, Values.whole, least=1
    )

    unreachable_wait: float = _setting(
        "REP_UNREACHABLE_WAIT", 600, Values.seconds, least=0
    )
    """The seconds for which a request waits for an unreachable robots.txt."""

    crawl_delay: bool = _setting("REP_CRAWL_DELAY", True, readers.paces)
    """Whether to follow ``Crawl-delay`` and ``Request-rate``."""

    crawl_delay_max: float = _setting("REP_CRAWL_DELAY_MAX", 180, Values.seconds)
    """Seconds. Nothing is fetched from a host that asks for a longer delay."""

    queue_lease: float = _setting("REP_QUEUE_LEASE", 60, Values.seconds)
    """The seconds without a heartbeat after which the requests of a worker are queued again."""

    shared_delay: bool = _setting("REP_SHARED_DELAY", True, Values.flag)
    """Whether workers that share a store share the delay of a host too."""

    visit_time: bool = _setting("REP_VISIT_TIME", True, readers.paces)

    visit_time_wait: float = _setting(
        "REP_VISIT_TIME_WAIT", 3600, Values.seconds, least=0
    )
    """The seconds for which a request waits for a window of ``Visit-time`` to open."""

    ledger: str | None = _setting("REP_LEDGER", None, readers.ledger)
    """The path of the ledger; None for no ledger."""

    ledger_level: str = _setting(LEDGER_LEVEL, "denied", Values.one_of, "denied", "all")

    header_enabled: bool = _setting("REP_HEADER_ENABLED", True, Values.flag)
    meta_enabled: bool = _setting("REP_META_ENABLED", True, Values.flag)
    noindex: str = _setting(
        NOINDEX, "drop", Values.one_of, "drop", "annotate", "ignore"
    )
    nofollow: str = _setting(NOFOLLOW, "drop", Values.one_of, "drop", "ignore")

    rel: frozenset[str] = _setting("REP_REL", [], readers.rel)
    """The values of ``rel``, in lower case, whose links the crawl does not follow."""

    item_field: str = _setting("REP_ITEM_FIELD", "robots", Values.name)

    stop_download: bool = _setting("REP_STOP_DOWNLOAD", False, Values.flag)

    purposes: tuple[str, ...] = _setting("REP_PURPOSES", [], Values.purposes)
    """The purposes of the crawl: categories of use."""

    purpose_agents: Mapping[str, tuple[str, ...]] = _setting(
        "REP_AGENTS", {}, Values.agents
    )
    """The product tokens of purposes that have their own."""

    usage: str = _setting(
        "REP_USAGE", "drop", Values.one_of, "drop", "annotate", "ignore"
    )
    usage_unknown: bool = _setting("REP_USAGE_UNKNOWN", "allow", readers.is_allow)
    """Whether a use without a stated preference is allowed."""

    clients: frozenset[str] = _setting("DOWNLOAD_HANDLERS", {}, readers.clients)
    """The HTTP clients of the download handlers that send URLs in another form than Scrapy's
    own (see :func:`~scrapy_rep.protocol.request_target.forms`)."""

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.min_age, self.max_age)

    @classmethod
    def of(cls, crawler: Crawler) -> RepSettings:
        """The settings of a crawl, which are read once and shared by its components."""
        return shared_component(crawler, _read_settings)

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> RepSettings:
        """Read the settings. Raises SettingError for an invalid value."""
        try:
            values = Values(settings, _DEFAULTS)
            return cls(
                **{each.name: each.metadata["value"](values) for each in fields(cls)}
            )
        except SettingError:
            log_without_traceback()
            raise


_DEFAULTS = {
    each.metadata["name"]: each.metadata["default"] for each in fields(RepSettings)
}

DEFAULTS = {
    name: _DEFAULTS[name] for name in sorted(_DEFAULTS) if name.startswith("REP_")
}
"""Every setting of this package, and its default."""


def _read_settings(crawler: Crawler) -> RepSettings:
    return RepSettings.from_settings(crawler.settings)


def unknown_names(settings: BaseSettings) -> Iterator[tuple[str, str | None]]:
    """Names that begin with ``REP_`` but are not settings of this package, each with the
    most similar setting, if there is one.
    """
    for name in settings:
        if isinstance(name, str) and name.startswith("REP_") and name not in DEFAULTS:
            yield name, next(iter(get_close_matches(name, DEFAULTS, 1)), None)


def recorded(settings: BaseSettings, read: RepSettings) -> dict[str, object]:
    """The values of this package's settings and Scrapy's for robots.txt, by name, without
    credentials. *read* are the same settings, checked.
    """
    names = {*DEFAULTS, *(name for name in settings if name.startswith("ROBOTSTXT_"))}
    found = {name: settings.get(name, DEFAULTS.get(name)) for name in sorted(names)}
    found["REP_STORE"] = readers.displayed_store(read.store)
    return found
