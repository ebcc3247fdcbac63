"""A pause for a site that asks for one in its own way."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from scrapy_rep.base.requests import bare_host
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.protocol.origins import origin, origin_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from scrapy.crawler import Crawler


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

    Does nothing if ``REP_BACKOFF_MAX`` is 0, and in a dry run. Raises ValueError if *scopes*
    names no host, or if *delay* or *cap* is not a finite number that is 0 or greater.

    Provisional: the parameters are those of ``back_off`` in Scrapy's pull request 6931, which is not
    merged, and follow it.
    """
    for name, value in (("delay", delay), ("cap", cap)):
        if value is not None and not 0 <= value < inf:
            raise ValueError(
                f"{name} must be a number of seconds, 0 or greater, not {value!r}"
            )
    frontier, settings = Frontier.of(crawler), RepSettings.of(crawler)
    several = [scopes] if isinstance(scopes, str) or scopes is None else scopes
    keys = [_key_of(each, frontier.core.scopes) for each in several]
    if settings.backoff_max and not settings.dry_run:
        frontier.back_off(keys, delay, cap)


def _key_of(text: str | None, known: Container[str]) -> str:
    """Return the key of the scope that *text* names: one of the *known* keys, or a host."""
    if text in known:
        return str(text)
    if text and "://" in text:
        found = origin_of(text)
    else:
        text = text or ""
        is_address = text.count(":") > 1 and not text.startswith("[")
        found = origin("http", f"[{text}]" if is_address else text)
    if found is None:
        raise ValueError(f"scopes must be a host or a URL, not {text!r}")
    return bare_host(found)
