"""``back_off()``, a function with which a spider pauses requests to a host."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from math import inf
from numbers import Real
from typing import TYPE_CHECKING, Any

from scrapy_rep.base.requests import bare_host
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.protocol.origins import origin, origin_of

if TYPE_CHECKING:
    from collections.abc import Container

    from scrapy.crawler import Crawler

# The maximum pause, in seconds, that a spider can request with back_off(). Longer pauses are cut to this value. Pauses
# in Retry-After have the same maximum.
_MAX_DELAY = 2**31


def back_off(
    crawler: Crawler,
    scopes: str | Iterable[str],
    delay: float | None = None,
    cap: float | None = None,
) -> None:
    """Pause the hosts in *scopes* for *delay* seconds, as after a 429 with ``Retry-After``.

    *scopes* is a URL, a host name or IP address (with or without port and brackets), the key of a
    download slot, or an iterable of these.

    *delay* is the duration of the pause in seconds. Without *delay*, the first pause lasts 1 second,
    and each further pause twice as long as the last one, up to *cap* seconds. The default of *cap*
    is ``REP_BACKOFF_MAX``. A success resets the duration to 1 second. Each response whose status is
    not 429 or 503 counts as a success, whatever its body contains. So if the site reports its
    overload in pages with status 200, pass a *delay*. A *delay* or *cap* above 2**31 counts as 2**31.

    If the host already has a longer pause or a longer crawl delay, the longer one applies. Requests
    in flight are not stopped. After the pause, one request at a time is sent to the host. Each success
    raises the number of requests at a time by one. If *delay* is longer than ``REP_WAIT_TIMEOUT``,
    requests to the host are refused with the reason ``back-off`` until the pause is over.

    The function has no effect in a crawl without the add-on, in a dry run, and if
    ``REP_BACKOFF_MAX`` is 0. In these cases, the first call logs a warning with the reason.

    Raises ValueError if *scopes* does not name a host, or if *delay* or *cap* is not a finite number
    that is 0 or greater. Strings and booleans are not accepted as numbers.

    Provisional: the parameters are those of ``back_off`` in Scrapy's pull request 6931, which is not
    merged yet. They will change with this pull request.
    """
    delay, cap = _seconds("delay", delay), _seconds("cap", cap)
    frontier = Frontier.of(crawler)
    is_several = isinstance(scopes, Iterable) and not isinstance(scopes, (str, bytes))
    several = scopes if is_several else [scopes]
    keys = [_key_of(scope, frontier.limits.limiters) for scope in several]
    why_not = _why_not(crawler, frontier)
    if why_not:
        frontier.politeness.warn_of_no_pause(why_not, keys)
        return
    for key in keys:
        frontier.pause(key, delay, cap, "is paused by the spider")


def _why_not(crawler: Crawler, frontier: Frontier) -> str:
    """Return the reason why ``back_off()`` has no effect in this crawl; an empty string if it has an effect."""
    settings = RepSettings.of(crawler)
    if settings.dry_run:
        return "a dry run (REP_DRY_RUN) pauses no host"
    if not settings.backoff_max:
        return "REP_BACKOFF_MAX is 0"
    # During a pause, WireMiddleware, a downloader middleware, holds the requests back. Scrapy creates this middleware
    # together with the engine. If the engine exists and the middleware does not, pauses have no effect.
    if crawler.engine is not None and not frontier.has_wire:
        return (
            "the downloader middlewares of scrapy-rep are not in use "
            '(ADDONS = {"scrapy_rep.Addon": 500} sets them)'
        )
    return ""


def _seconds(name: str, value: Any) -> float | None:
    """Return *value*, the argument for the parameter *name*, as a number of seconds. If *value* is greater than 2**31,
    return 2**31. If *value* is None, return None.

    Raises ValueError if *value* is neither None nor a finite number that is 0 or greater.
    """
    if value is None:
        return None
    is_number = isinstance(value, (Real, Decimal)) and not isinstance(value, bool)
    with suppress(ArithmeticError):  # Comparing Decimal("NaN") raises.
        if is_number and 0 <= value < inf:
            return float(min(value, _MAX_DELAY))
    raise ValueError(f"{name} must be a number of seconds, 0 or greater, not {value!r}")


def _key_of(text: Any, keys: Container[str]) -> str:
    """Return the key of the limiter that *text* names. *keys* contains the keys of all existing limiters. If *text* is
    one of these keys, it is returned unchanged. Otherwise, *text* must be a URL or a host.

    Raises ValueError for any other *text*.
    """
    site = None
    if isinstance(text, str):
        if text in keys:
            return text
        is_address = text.count(":") > 1 and not text.startswith("[")
        if "://" in text:
            site = origin_of(text)
        else:
            site = origin("http", f"[{text}]" if is_address else text)
    if site is None:
        raise ValueError(
            f"scopes must be a host or a URL, or an iterable of hosts and URLs; {text!r} is neither"
        )
    return bare_host(site)
