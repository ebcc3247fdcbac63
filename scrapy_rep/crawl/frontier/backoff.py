"""For spiders: pause a host."""

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

# The longest delay in seconds that a spider can ask for; longer ones are cut to it. Retry-After has the same limit.
_LONGEST = 2**31


def back_off(
    crawler: Crawler,
    scopes: str | Iterable[str],
    delay: float | None = None,
    cap: float | None = None,
) -> None:
    """Send no request in *scopes* for *delay* seconds, as after a 429 with ``Retry-After``.

    *scopes* is a URL, the name or address of a host (with or without port and brackets), the key of
    a download slot, or several of these. Without *delay*, the pause is 1 second, and twice as long
    each time until a request to the host succeeds; *cap* is the longest such pause in seconds
    (``REP_BACKOFF_MAX`` by default). A response whose status is not 429 or 503 counts as success,
    whatever its body says: for a page with status 200, state the *delay*.

    A longer pause of the host, and its crawl delay, are kept. After the pause, one request is in
    flight, and one more after each success. A *delay* longer than ``REP_WAIT_TIMEOUT`` has the
    requests of the host refused with the reason ``back-off``. Requests in flight are not stopped.

    Where nothing can be paused, the first call logs a warning that says why, and all do nothing: in a
    crawl without the add-on, in a dry run, and if ``REP_BACKOFF_MAX`` is 0. Raises ValueError if
    *scopes* names no host, or if *delay* or *cap* is not a finite number that is 0 or greater: text
    and booleans are no numbers. More than 2**31 seconds count as 2**31.

    Provisional: the parameters are those of ``back_off`` in Scrapy's pull request 6931, which is not
    merged, and follow it.
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
    """Return why no pause has an effect in this crawl; empty if pauses have one."""
    settings = RepSettings.of(crawler)
    if settings.dry_run:
        return "a dry run (REP_DRY_RUN) pauses no host"
    if not settings.backoff_max:
        return "REP_BACKOFF_MAX is 0"
    # Before the engine exists, nothing has been made that could pause a host.
    if crawler.engine is not None and not frontier.has_wire:
        return (
            "the downloader middlewares of scrapy-rep are not in use "
            '(ADDONS = {"scrapy_rep.Addon": 500} sets them)'
        )
    return ""


def _seconds(name: str, value: Any) -> float | None:
    """Return *value*, the argument called *name*, as a number of seconds; None if it is None."""
    if value is None:
        return None
    is_number = isinstance(value, (Real, Decimal)) and not isinstance(value, bool)
    with suppress(ArithmeticError):  # A Decimal that is not a number.
        if is_number and 0 <= value < inf:
            return float(min(value, _LONGEST))
    raise ValueError(f"{name} must be a number of seconds, 0 or greater, not {value!r}")


def _key_of(text: Any, keys: Container[str]) -> str:
    """Return the key of the limiter that *text* names: one of the known *keys*, or a host."""
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
        raise ValueError(f"scopes must be a host or a URL, not {text!r}")
    return bare_host(site)
