"""A pause for a site that asks for one in its own way."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from scrapy_rep.frontier.frontier import Frontier
from scrapy_rep.settings import RepSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.crawler import Crawler


def back_off(
    crawler: Crawler,
    scopes: str | Iterable[str],
    delay: float | None = None,
    cap: float | None = None,
) -> None:
    """Send no request in *scopes* for *delay* seconds, as after a 429 with ``Retry-After``.

    *scopes* is the name of a host, as in ``urlsplit(response.url).hostname``, or the key of a
    download slot, or several of them. Without *delay*, the pause is 1 second, and twice as long
    each time until a request to the host succeeds; *cap* is the longest such pause in seconds
    (``REP_BACKOFF_MAX`` by default). A response whose status is not 429 or 503 counts as success,
    whatever its body says: for a page with status 200, state the *delay*.

    A longer pause of the host, and its crawl delay, are kept. After the pause, one request is in
    flight, and one more after each success. A *delay* longer than ``REP_WAIT_MAX`` has the
    requests of the host refused with the reason ``back-off``. Requests in flight are not stopped.

    Does nothing if ``REP_BACKOFF_MAX`` is 0, and in a dry run. Raises ValueError if *delay* or
    *cap* is not a finite number that is 0 or greater. The parameters are those of ``back_off`` in
    Scrapy's pull request 6931.
    """
    for name, value in (("delay", delay), ("cap", cap)):
        if value is not None and not 0 <= value < inf:
            raise ValueError(
                f"{name} must be a number of seconds, 0 or greater, not {value!r}"
            )
    settings = RepSettings.of(crawler)
    if settings.backoff_max and not settings.dry_run:
        Frontier.of(crawler).back_off(scopes, delay, cap)
