"""Defines this package's settings, and reads and checks their values.

:class:`RepSettings` is the table of settings. A row contains a setting's name, default and :class:`Kind`.
The kind contains a getter (one of Scrapy's where possible), a check, and a description of the allowed
values for error messages.
"""

from __future__ import annotations

from itertools import chain
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from scrapy_rep.base.compat import shared_component
from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.access.overrides import (
    ALLOWED_OVERRIDE,
    Override,
    OverrideError,
    parse_overrides,
)
from scrapy_rep.protocol.agents import is_product_token, product_tokens
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309, Dialect
from scrapy_rep.protocol.request_target import AIOHTTP, HTTP2, HTTPX, TWISTED
from scrapy_rep.protocol.text import address_without_credentials
from scrapy_rep.protocol.usage.statements import CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.crawler import Crawler

    from scrapy_rep.protocol.robotstxt.pace import Pace

OBEY = "ROBOTSTXT_OBEY"
USER_AGENT = "ROBOTSTXT_USER_AGENT"
PARSER = "ROBOTSTXT_PARSER"
DIALECT = "REP_DIALECT"
LEDGER = "REP_LEDGER"
LEDGER_LEVEL = "REP_LEDGER_LEVEL"
STORE = "REP_STORE"
DRY_RUN = "REP_DRY_RUN"
NOINDEX = "REP_NOINDEX"
NOFOLLOW = "REP_NOFOLLOW"
ITEM_FIELD = "REP_ITEM_FIELD"

ADDON = {"scrapy_rep.Addon": 500}
"""The value of the setting ``ADDONS`` that enables this package."""

GATE = "scrapy_rep.crawl.gate.RobotsTxtMiddleware"
"""The import path of the downloader middleware that refuses forbidden requests. The add-on enables this
middleware, and a project can disable it."""

# --- The kinds of setting values -------------------------------------------------------

_UNREADABLE = (
    ImportError, KeyError, NameError, OverflowError, RecursionError, TypeError, ValueError
)  # fmt: skip


class Setting(NamedTuple):
    """A setting of this package: its name, default and kind."""

    name: str
    default: object
    kind: Kind


class Kind(NamedTuple):
    """A kind of setting value, such as a number of seconds. Calling a kind with a name and a default creates a
    :class:`Setting`.
    """

    allowed: str
    """A description of the allowed values, for error messages and for ``docs/reference/settings.md``."""

    get: Callable[[BaseSettings, str, Any], Any]
    """The function that reads a value. Its arguments are the settings, and the name and default of the setting.
    It is one of Scrapy's getters, or calls one. For an invalid value, it raises an exception in _UNREADABLE."""

    is_within: Callable[[Any], bool] = lambda _: True
    """The function that returns whether a value is allowed."""

    def __call__(self, name: str, default: object) -> Any:
        return Setting(name, default, self)

    def read(self, settings: BaseSettings, name: str, default: object) -> Any:
        """Return the value of the setting *name*, or *default* if it is not set. Raises SettingError if the value
        is not allowed.
        """
        try:
            value = self.get(settings, name, default)
            if self.is_within(value):
                return value
            cause = None
        except SettingError:
            raise
        except _UNREADABLE as error:
            cause = error
        raw = settings.get(name, default)
        shown = displayed(name, raw)
        # If the value contains a password, the error is raised without its cause, because the message of the cause
        # may contain the password too.
        raise SettingError(name, shown, self.allowed) from (
            cause if shown == raw else None
        )


def _get_flag(settings: BaseSettings, name: str, default: bool) -> bool:
    # getbool() would read 2.5 as True, although it is probably a number of seconds.
    if str(settings.get(name, default)).lower() not in {"0", "1", "false", "true"}:
        raise ValueError
    return settings.getbool(name, default)


_FLAG = Kind("True or False", _get_flag)


def _get_pace(settings: BaseSettings, name: str, default: bool) -> bool:
    """Return the boolean setting *name*, or False if the dialect in ``REP_DIALECT`` ignores delays."""
    return _get_flag(settings, name, default) and _dialect_of(settings).crawl_delay


_PACE = Kind("True or False", _get_pace)


def _get_number(settings: BaseSettings, name: str, default: float) -> float:
    # getfloat() would read True as 1.
    if isinstance(settings.get(name), bool):
        raise TypeError
    return settings.getfloat(name, default)


def _get_count(settings: BaseSettings, name: str, default: int) -> int:
    number = _get_number(settings, name, default)
    if number != int(number):
        raise ValueError
    return int(number)


_COUNT = Kind("a whole number, 0 or greater", _get_count, lambda number: number >= 0)

_SECONDS = Kind(
    "a number of seconds, greater than 0", _get_number, lambda value: 0 < value < inf
)
_SECONDS_OR_ZERO = Kind(
    "a number of seconds, 0 or greater", _get_number, lambda value: 0 <= value < inf
)


def _one_of(*allowed: str) -> Kind:
    words = " or ".join(map(repr, allowed))
    return Kind(words, BaseSettings.get, allowed.__contains__)


_POLICY = _one_of("drop", "annotate", "ignore")


def _get_permission(settings: BaseSettings, name: str, default: str) -> bool:
    return {"allow": True, "deny": False}[settings.get(name, default)]


_ALLOW_OR_DENY = Kind("'allow' or 'deny'", _get_permission)


def _get_text(settings: BaseSettings, name: str, default: Any) -> Any:
    """Return the string setting *name*. An empty string, as set by ``-s REP_LEDGER=``, means *default*."""
    text = settings.get(name, default)
    if not isinstance(text, str) and text is not default:
        raise TypeError
    return text or default


_TEXT = Kind("a string that is not empty", _get_text)


def _get_field(settings: BaseSettings, name: str, default: Any) -> str:
    field = settings.get(name, default)
    if not isinstance(field, str) or not field.strip():
        raise ValueError
    return field


_FIELD = Kind("the name of an item field", _get_field)


def _get_strings(settings: BaseSettings, name: str, default: Any) -> tuple[str, ...]:
    """Return the strings in the setting *name*, without duplicates. The value may be a list, a JSON list, or a
    string that separates the strings by commas.
    """
    strings = settings.getdictorlist(name, default) if settings.get(name) != "" else []
    # getdictorlist() splits an invalid JSON list at its commas, and does not reject it. The "[" at the start of the
    # first string shows that this has happened.
    if not isinstance(strings, list) or "".join(strings).lstrip().startswith("["):
        raise ValueError
    return tuple(dict.fromkeys(map(str.strip, strings)))


_STRINGS = Kind("a list of strings, or strings separated by commas", _get_strings, all)

_PURPOSES = Kind(
    f"a list of purposes, each one of {', '.join(CATEGORIES)}",
    _get_strings,
    lambda value: CATEGORIES.keys() >= set(value),
)


def _get_dict(settings: BaseSettings, name: str, default: object) -> dict[str, object]:
    """Return the dictionary in the setting *name*, whose keys are strings. The value may be a dictionary or a
    JSON object. An empty string means an empty dictionary.
    """
    value = settings.getdict(name) if settings.get(name) != "" else {}
    if not all(isinstance(key, str) for key in value):
        raise ValueError
    return value


def _get_dialect(settings: BaseSettings, name: str, default: str) -> Any:
    dialect = settings.get(name, default)
    if isinstance(dialect, str):
        dialect = DIALECTS[dialect] if dialect in DIALECTS else load_object(dialect)
    return dialect


_DIALECT = Kind(
    f"{', '.join(map(repr, DIALECTS))}, or the import path of a Dialect",
    _get_dialect,
    lambda value: isinstance(value, Dialect),
)


def _dialect_of(settings: BaseSettings) -> Dialect:
    dialect: Dialect = _DIALECT.read(settings, DIALECT, RFC9309.name)
    return dialect


def _get_overrides(
    settings: BaseSettings, name: str, default: object
) -> tuple[Override, ...]:
    value = _get_dict(settings, name, default)
    try:
        return parse_overrides(value, _dialect_of(settings))
    except OverrideError as error:
        keys = "".join(f"[{key!r}]" for key in error.keys)
        where = f"{name}{keys}" if keys else f"A key of {name}"
        where = f"Line {error.line} of {where}" if error.line else where
        raise SettingError(where, error.value, error.allowed) from None


_OVERRIDES = Kind(
    f"a dict of host patterns to {ALLOWED_OVERRIDE}; on the command line, such a dict in JSON, "
    """as in -s 'REP_OVERRIDES={"example.com": "ignore"}'""",
    _get_overrides,
)


def _get_tokens(settings: BaseSettings, name: str, default: object) -> tuple[str, ...]:
    """Return the product tokens in the setting *name*. The value may be a User-Agent header or a list of names.
    Return an empty tuple if the setting is not set.
    """
    value = settings.get(name, default)
    if not value:
        return ()
    names = _get_strings(settings, name, ())
    # A string with commas is a list if all its parts are product tokens. If not, the string is a single
    # User-Agent that contains a comma, such as a browser's.
    if isinstance(value, str) and not all(map(is_product_token, names)):
        names = (value,)
    # A name of several words is accepted only if it looks like a User-Agent, which contains "/", "(" or ";".
    tokens = [
        product_tokens(name) if is_product_token(name) or set("/(;") & set(name) else ()
        for name in names
    ]
    if not tokens or not all(tokens):
        raise ValueError
    return tuple(dict.fromkeys(chain.from_iterable(tokens)))


_TOKENS = Kind(
    "the name of the crawler, not of a browser: a product token of only letters, digits, '_', "
    "'-' and '.' (RFC 9309, 2.2.1), or a list of such names",
    _get_tokens,
)


_LINK_TYPES = frozenset({
    "alternate", "author", "bookmark", "external", "help", "license", "me", "next",
    "nofollow", "noopener", "noreferrer", "opener", "prev", "privacy-policy", "search",
    "sponsored", "tag", "terms-of-service", "ugc",
})  # fmt: skip
"""The ``rel`` values that ``REP_REL`` accepts: those that the HTML standard (4.6.7) allows for ``a`` and ``area``;
``sponsored`` and ``ugc``, which search engines define; and ``me``."""


def _get_rel(settings: BaseSettings, name: str, default: Any) -> frozenset[str]:
    if settings.get(name) is None:
        return _dialect_of(settings).untrusted_rel
    values = frozenset(map(str.lower, _get_strings(settings, name, default)))
    if not values <= _LINK_TYPES:
        raise ValueError
    return values


_REL = Kind(
    f"a list of values of rel, each one of {', '.join(sorted(_LINK_TYPES))}", _get_rel
)


def _get_store(settings: BaseSettings, name: str, default: str) -> str | Path | type:
    """Return the address or the class of the store of robots.txt files. If the setting *name* is not set, return
    the path of a file in the JOBDIR, or *default* if there is no JOBDIR.
    """
    value: Any = settings.get(name)
    if value is None:
        # The file is in the JOBDIR, so that a resumed crawl reuses the robots.txt files of the previous run.
        folder = settings["JOBDIR"]
        return Path(folder) / "robotstxt.sqlite" if folder else default
    if not isinstance(value, str) or "://" not in value:
        kind: type = load_object(value)
        if not isinstance(kind, type):
            raise TypeError
        return kind
    return value


_STORE = Kind(
    "the address of a store, such as 'sqlite:///robots.sqlite', or the import path of a Store",
    _get_store,
)


def displayed(name: str, value: object) -> object:
    """Return the *value* of the setting *name* in a form to show to users: credentials are masked, and a store's
    class or path becomes text.
    """
    if name != "REP_STORE":
        return value
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, Path):
        return str(value)
    shown = address_without_credentials(str(value))
    return value if shown == str(value) else shown


def _clients(settings: BaseSettings) -> frozenset[str]:
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS")
    # Without a reactor, Scrapy downloads with aiohttp by default.
    has_reactor = settings.getbool("TWISTED_REACTOR_ENABLED", True)
    clients = set()
    for scheme in ("http", "https"):
        if handlers.get(scheme) is not None:
            name = str(handlers[scheme]).lower()
            named = {client for client in (AIOHTTP, HTTP2, HTTPX) if client in name}
            clients |= named or {TWISTED if has_reactor else AIOHTTP}
    return frozenset(clients)


# --- The settings of this package ------------------------------------------------------


class RepSettings:
    """The values of this package's settings in a crawl.

    Each attribute of the class is a :class:`Setting`, which defines the name, type and default of one setting. The
    same attribute of an instance is the value of that setting. ``docs/_ext/settingspage.py`` copies the docstring below
    each attribute into ``docs/reference/settings.md``. The docstring describes the setting in one paragraph, then gives
    details, the default with its reason, and an example.
    """

    obey: bool = _FLAG(OBEY, False)
    """Whether robots.txt is obeyed. The add-on sets this setting to `True`.

    The add-on does so at `addon` priority, so a project can override it: with `False`, scrapy-rep
    ignores robots.txt, including its delays. Indexing rules and usage preferences have settings of their own.

    Default: off, as in Scrapy.

    Example: `ROBOTSTXT_OBEY = False`
    """

    dry_run: bool = _FLAG(DRY_RUN, False)
    """Whether scrapy-rep only reports what it would refuse or drop, and refuses, drops and delays nothing.

    See [a dry run](../howto/migrate.md#try-it-first-a-dry-run).

    Default: off, since whoever enables the add-on wants an effect.

    Example: `REP_DRY_RUN = True`
    """

    agents: tuple[str, ...] = _TOKENS(USER_AGENT, None)
    """The product token whose groups the crawl follows, or several in order of preference.

    The crawl follows the groups of the first token that robots.txt names, or else of `*`. Without this
    setting, the token is taken from the `User-Agent` header of each request: `mybot` from
    `Mozilla/5.0 (compatible; mybot/1.0; +https://example.com/bot)`. If the header names only a browser,
    the token in the setting `USER_AGENT` is used. A token consists of letters, digits, `_`, `-` and `.`;
    RFC 9309 allows only letters, `_` and `-`, so other characters cause a warning.

    Default: not set; the header names the crawler.

    Example: `ROBOTSTXT_USER_AGENT = ["mybot-images", "mybot"]`
    """

    dialect: Dialect = _DIALECT(DIALECT, RFC9309.name)
    """Which standard to follow on points where the standards differ.

    [Dialects](../dialects.md) lists these points, and describes how to create your own dialect.

    Default: RFC 9309, the standard; sites cannot know that a crawler follows Google's rules.

    Example: `REP_DIALECT = "google"`
    """

    overrides: tuple[Override, ...] = _OVERRIDES("REP_OVERRIDES", {})
    r"""Your own decisions for hosts, in place of their robots.txt.

    Each key is a pattern: a host, `*.example.com` for all subdomains, or `*` for all hosts; `:port` restricts
    it to one port. The most specific pattern decides. The value `"ignore"` allows everything, and robots.txt
    is not fetched. `"obey"` follows robots.txt despite a wider pattern. Any other text replaces the robots.txt
    of the host. If a request has a `Host` header of its own, patterns are compared with this header, and not with the
    host in the URL. The log names each pattern when it is first used.

    A dict as the value can state the reason and the last day:
    `{"example.com": {"obey": False, "reason": "written permission of 2026-10-01", "until": "2027-01-01"}}`.
    The dict decides by `"obey"` (`False` means `"ignore"`) or `"robotstxt"` (a text), limits pages by `"pages"`
    (see `REP_PAGES_PER_HOST`), or does both. `"until"` is an ISO 8601 date, the last day on which the override
    applies, in UTC; or a time with its UTC offset. After that, the override has no effect, and a warning
    names it.

    The text of a robots.txt is [checked](../lint.md) at the start, in the dialect of the crawl. An error, such
    as a rule without a user-agent line above it or a misspelt field, stops the crawl; warnings are only logged.
    At the end, the log names the overrides that no request needed, such as one for a misspelt host.

    Default: none; only you can make these decisions.

    Example: `REP_OVERRIDES = {"staging.example.com": "ignore", "*.example.org": "User-agent: *\nDisallow: /private/\n"}`
    """

    request_meta_keys: tuple[str, ...] = _STRINGS(
        "REP_REQUEST_META_KEYS", ["download_slot"]
    )
    """Keys of `Request.meta` that are copied to the request for robots.txt, in addition to `proxy`.

    Name the keys that your download handler and downloader middlewares need. The values are copied
    from the request that needs the robots.txt. See [your own proxies](../howto/proxies.md).

    Default: `download_slot`, so that a request for robots.txt keeps the limits of the slot.

    Example: `REP_REQUEST_META_KEYS = ["download_slot", "playwright"]`
    """

    max_age: float = _SECONDS("REP_MAX_AGE", 86400)
    """The maximum time in seconds for which a robots.txt is used before it is fetched again.

    This is an upper limit for `Cache-Control`. The lower limit is five minutes, or this setting if it is
    less: without a lower limit, `max-age=0`, which many servers send by default, would cause a fetch
    before each page.

    Default: 24 hours, as RFC 9309, 2.4, recommends.

    Example: `REP_MAX_AGE = 3600`
    """

    store: str | Path | type = _STORE(STORE, "memory://")
    """Where robots.txt files are kept.

    `memory://` keeps them during the crawl. `sqlite:///robotstxt.sqlite` (absolute: `sqlite:////var/...`) keeps
    them in a file. A missing folder is created for the file, but only inside an existing folder.
    `redis://localhost:6379/0` keeps them on a Redis server, with the extra `redis`. An import path names a
    store of your own. See [where robots.txt files are kept](../stores.md).

    Default: memory, so a crawl leaves no file behind; with a `JOBDIR`, a file in it.

    Example: `REP_STORE = "sqlite:///robotstxt.sqlite"`
    """

    wait_timeout: float = _SECONDS_OR_ZERO("REP_WAIT_TIMEOUT", 600)
    """The maximum time in seconds that requests wait for a host, or for the network.

    Requests wait while the robots.txt of their host is unreachable, and while the host asks for a
    pause. If that takes longer than this time, they are refused with the reason `unreachable` or `back-off`. If the
    host asks for a longer pause from the start, they are refused without waiting. If the network of the crawler is gone
    for this time, the crawl closes with the reason `network_gone`. With `0`, requests are refused at once, and the
    network never counts as gone. Requests can wait longer for a `Crawl-delay`. See
    [how a request waits](../waiting.md).

    Default: ten minutes; many outages end sooner, and a crawl that would wait for hours is better started later.

    Example: `REP_WAIT_TIMEOUT = 60`
    """

    backoff_max: float = _SECONDS_OR_ZERO("REP_BACKOFF_MAX", 60)
    """The maximum pause in seconds after a failed connection, or after a 429 or 503 without `Retry-After`.

    The first pause takes 1 second, the next 2, 4, ... up to this maximum. `0` turns off all pauses, even those
    with `Retry-After`. See [a host that asks for a pause](../waiting.md#a-host-that-asks-for-a-pause).

    Default: a host that keeps failing gets one request a minute.

    Example: `REP_BACKOFF_MAX = 300`
    """

    crawl_delay_obey: bool = _PACE("REP_CRAWL_DELAY_OBEY", True)
    """Whether `Crawl-delay` and `Request-rate` are obeyed. The Google dialect ignores both.

    With `False`, Scrapy's own delays and pauses after 429 still apply. See [delays](../waiting.md#delays).

    Default: obeyed; a site that states a delay means it, and obeying costs only time.

    Example: `REP_CRAWL_DELAY_OBEY = False`
    """

    skip_delay_over: float = _SECONDS("REP_SKIP_DELAY_OVER", 180)
    """The maximum crawl delay in seconds. A host that states a longer delay is skipped.

    Requests to the host are refused with the reason `crawl-delay`. A warning names the host. The
    stat `rep/crawl_delay/skipped` is the number of skipped hosts.

    Default: three minutes; a host with a longer delay allows fewer than 480 pages a day.

    Example: `REP_SKIP_DELAY_OVER = 60`
    """

    pages_per_host: int = _COUNT("REP_PAGES_PER_HOST", 0)
    """The maximum number of pages to fetch from each host. `0` sets no limit.

    Further requests are refused with the reason `budget`, and the stat `rep/budget/hosts` counts their hosts. Pages are
    counted by host name, whatever the scheme, port or download slot. Retries, redirects within the host, robots.txt,
    the files of pipelines, and pages from Scrapy's HTTP cache do not count. A crawl with a `JOBDIR` goes on
    counting when it is resumed. With many workers, a worker that takes over a host goes on counting where the previous
    worker stopped. A dry run does not count pages. `REP_OVERRIDES = {"example.com": {"pages": 500}}` sets another limit
    for a host, and `"pages": 0` removes the limit for the host.

    Default: no limit; most crawls need all pages of a site.

    Example: `REP_PAGES_PER_HOST = 1000`
    """

    concurrency_per_address: int = _COUNT("REP_CONCURRENCY_PER_ADDRESS", 0)
    """The maximum number of requests in flight to all hosts on one IP address. `0` sets no limit.

    Hundreds of small sites may be on one machine, which gets too many requests although the crawl is polite
    to each site. The first response of a host shows its address, so the requests before it, usually only the one for
    robots.txt, are not counted. After a host was idle for minutes, its address is unknown until its next response. The
    address of a host behind a proxy is never known. With many workers, each worker counts its own requests.

    Default: no limit; Scrapy limits requests by host, and a limit by address would slow down large sites.

    Example: `REP_CONCURRENCY_PER_ADDRESS = 8`
    """

    queue_lease: float = _SECONDS("REP_QUEUE_LEASE", 60)
    """The time in seconds after which a worker that no longer calls Redis loses its hosts to other workers.

    The other workers also take over the requests that the worker has not finished. See
    [many workers](../many-workers.md#when-something-fails).

    Default: a minute; a running worker is seldom blocked for longer.

    Example: `REP_QUEUE_LEASE = 30`
    """

    ledger: str | None = _TEXT(LEDGER, None)
    """The SQLite file in which decisions and robots.txt files are recorded.

    `%(name)s` stands for the spider's name, `%(time)s` for its start time, `%(pid)s` for
    the process ID. With `%(time)s`, the log contains the file's SHA-256 at the end of the crawl. The crawl
    creates the file's folder if the parent folder exists. See [the ledger](../ledger.md).

    Default: no ledger; a crawl should write a growing file only if asked to.

    Example: `REP_LEDGER = "ledgers/%(name)s-%(time)s.sqlite"`
    """

    ledger_level: str = _one_of("denied", "all")(LEDGER_LEVEL, "denied")
    """What the ledger records: refusals and drops (`"denied"`), or every decision (`"all"`).

    `"all"` also records allowed requests, and the indexing rules and usage preferences of pages. `scrapy rep diff`
    and `scrapy rep report` need this level to check the URLs that were fetched.

    Default: refusals and drops; most questions are about them.

    Example: `REP_LEDGER_LEVEL = "all"`
    """

    noindex: str = _POLICY(NOINDEX, "drop")
    """What happens to items of pages with `noindex`, or past their `unavailable_after`.

    `"drop"` drops them, `"annotate"` writes the restrictions of the page, such as `{"index": False}`, into
    the item field `REP_ITEM_FIELD`, and `"ignore"` does not change them. Only indexing rules of responses with a 2xx
    status have an effect. `"drop"` drops only items of [documents](../explanation/indexing.md#documents-and-data), not
    of data such as JSON. `meta={"dont_obey_noindex": True}` on a request exempts its response. See
    [how to keep such items](../howto/archive.md#keep-noindex-items).

    Default: dropped ([why](../explanation/indexing.md#why-noindex-drops-items)).

    Example: `REP_NOINDEX = "annotate"`
    """

    nofollow: str = _one_of("drop", "ignore")(NOFOLLOW, "drop")
    """What happens to requests for the links of pages with `nofollow`.

    With `"drop"`, a GET request for a URL to which such a page links is not sent. With `"ignore"`, it is sent. The
    setting has no effect on requests that submit a form, or on requests for other URLs.
    `meta={"dont_obey_nofollow": True}` exempts one request.

    Default: dropped; the page asks for this, and a later crawl can still send the requests.

    Example: `REP_NOFOLLOW = "ignore"`
    """

    rel: frozenset[str] = _REL("REP_REL", [])
    """Values of `rel` with which links are not followed. The Google dialect uses `nofollow`, `ugc` and `sponsored`.

    A request from a callback is not sent if each link to its URL on the page has one of these values
    in `rel`. A list that you set, even an empty one, replaces the Google dialect's list.

    Default: none; a `rel` states whether the site endorses a link, not that crawlers must not follow it.

    Example: `REP_REL = ["nofollow", "ugc", "sponsored"]`
    """

    item_field: str = _FIELD(ITEM_FIELD, "robots")
    """The item field into which indexing rules and usage preferences are written.

    The field is written only with `REP_NOINDEX = "annotate"` or `REP_USAGE = "annotate"`, and only for
    pages with restrictions. If the class of an item does not have the field, the item is not changed, but
    counted in `rep/noindex/not_annotated`.

    Default: the name of the HTML meta tag with indexing rules.

    Example: `REP_ITEM_FIELD = "indexing"`
    """

    purposes: tuple[str, ...] = _PURPOSES("REP_PURPOSES", [])
    """The purposes of the crawl. Without purposes, usage preferences are read, but not enforced.

    Items and media files of pages that disallow one of the purposes are dropped or annotated
    (`REP_USAGE`). `meta={"rep_purposes": ["search"]}` sets other purposes for a single request. A
    tdmrep.json is fetched only if the setting itself contains `tdm` or `train-ai`. See [usage](../usage.md).

    Default: none; only you know the purpose of the crawl.

    Example: `REP_PURPOSES = ["train-ai"]`
    """

    usage: str = _POLICY("REP_USAGE", "drop")
    """What happens to items of pages that disallow a purpose of the crawl.

    `"drop"` drops them, `"annotate"` writes the disallowed purposes, such as `{"usage": {"train-ai": False}}`, into the
    item field `REP_ITEM_FIELD`, and `"ignore"` does not change them. This setting has no effect on requests without
    purposes (`REP_PURPOSES`).

    Default: dropped; a later crawl can collect the items, but published items cannot be recalled.

    Example: `REP_USAGE = "annotate"`
    """

    usage_unknown: bool = _ALLOW_OR_DENY("REP_USAGE_UNKNOWN", "allow")
    """Whether a page that states nothing about a purpose may be used for it.

    Most pages state nothing, so `"deny"` drops the items of most pages.

    Default: allowed; the AIPREF drafts leave this case open.

    Example: `REP_USAGE_UNKNOWN = "deny"`
    """

    clients: frozenset[str]
    """The names of the crawl's HTTP clients, which send some URLs in different forms (see
    :func:`~scrapy_rep.protocol.request_target.forms`). This attribute is not a setting of this package. It is
    derived from Scrapy's ``DOWNLOAD_HANDLERS``."""

    def __init__(self, settings: BaseSettings) -> None:
        """Read and check all values. Raises SettingError for an invalid value."""
        for attribute, (name, default, kind) in SETTINGS.items():
            setattr(self, attribute, kind.read(settings, name, default))
        self.clients = _clients(settings)

    @property
    def limits_pages(self) -> bool:
        """Whether the settings limit the number of pages for any host."""
        overrides = self.overrides
        return self.pages_per_host > 0 or any(override.pages for override in overrides)

    def accepts(self, pace: Pace) -> bool:
        """Whether the crawl sends requests to a host whose robots.txt asks for *pace*. The crawl refuses these
        requests if it obeys delays and the delay in *pace* is longer than ``REP_SKIP_DELAY_OVER``.
        """
        return not self.crawl_delay_obey or pace.delay <= self.skip_delay_over

    def delay(self, pace: Pace) -> float:
        """Return the delay in seconds between two requests to a host whose robots.txt asks for *pace*. Return 0 if
        delays are not obeyed, or if the delay is so long that the crawl refuses requests to the host.
        """
        return pace.delay if self.crawl_delay_obey and self.accepts(pace) else 0.0

    @classmethod
    def of(cls, crawler: Crawler) -> RepSettings:
        """Return the instance for *crawler*. All components of the crawl share this instance, so settings are
        read only once.
        """
        return shared_component(crawler, _read_settings)


SETTINGS: dict[str, Setting] = {
    name: setting
    for name, setting in vars(RepSettings).items()
    if isinstance(setting, Setting)
}
"""All settings of this package, by the name of their :class:`RepSettings` attribute."""

DEFAULTS = {
    setting.name: setting.default
    for setting in sorted(SETTINGS.values())
    if setting.name[:4] == "REP_"
}
"""The default of each ``REP_`` setting."""


def _read_settings(crawler: Crawler) -> RepSettings:
    return RepSettings(crawler.settings)


def is_dry_run(settings: BaseSettings) -> bool:
    """Whether ``REP_DRY_RUN`` is true. Raises SettingError for an invalid value."""
    dry_run: bool = SETTINGS["dry_run"].kind.read(settings, DRY_RUN, False)
    return dry_run


def ignores_robotstxt(settings: BaseSettings) -> bool:
    """Return True if the project itself sets ``ROBOTSTXT_OBEY`` to False. Its crawls, except dry runs, then ignore
    robots.txt. Return False if the project sets it to True, or does not set it.
    """
    # Scrapy's default is False, with the priority 0. The add-on replaces this default with True, but not in a dry run.
    # So the value alone does not show whether the project has set it.
    return bool(settings.getpriority(OBEY)) and not settings.getbool(OBEY)


def unknown_names(settings: BaseSettings) -> Iterator[tuple[str, str | None]]:
    """Yield each name in *settings* that begins with ``REP_`` but is not a setting of this package. With each
    name, yield the setting with the most similar name, or None if no setting has a similar name.
    """
    for name in settings:
        if isinstance(name, str) and name.startswith("REP_") and name not in DEFAULTS:
            from difflib import get_close_matches  # noqa: PLC0415  seldom needed

            yield name, next(iter(get_close_matches(name, DEFAULTS, 1)), None)


def recorded(settings: BaseSettings, rep_settings: RepSettings) -> dict[str, object]:
    """Return the values of all ``REP_`` and ``ROBOTSTXT_`` settings by name, for a ledger. Credentials are masked.
    *rep_settings* contains the parsed values of *settings*.
    """
    names = {*DEFAULTS, *(name for name in settings if name.startswith("ROBOTSTXT_"))}
    values = {name: settings.get(name, DEFAULTS.get(name)) for name in sorted(names)}
    return {**values, "REP_STORE": displayed("REP_STORE", rep_settings.store)}
