"""Hosts that answer 429 or 503."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from tests.crawl.answers import Answer, Busy

if TYPE_CHECKING:
    from tests.crawl.server import Hit, Host

EARLY = 0.01
"""By how many seconds a pause may end too early, because it is measured by another clock."""


def pages(host: Host, count: int, kind: str = "page") -> list[str]:
    return [host.url(f"/{kind}/{number}") for number in range(count)]


def limit(
    host: Host, number: int, answer: Busy | None = None, *, seconds: float = 0.2
) -> Host:
    """Let *host* give *answer* to its first *number* requests, and take *seconds* for each other one.
    Requests for robots.txt do not count.
    """
    asked = 0

    def choose(hit: Hit) -> Answer | None:
        nonlocal asked
        if hit.path == "/robots.txt":
            return None
        asked += 1
        return answer if asked <= number else Answer(b"page", delay=seconds)

    host.limit = choose
    return host


def was_busy(host: Host, seconds: float = 0.3) -> bool:
    """Return whether *host* has asked for a pause at least *seconds* ago, so that the crawl had the time to
    read the answer.
    """
    before = time.monotonic() - seconds
    return any(
        isinstance(hit.answer, Busy) and hit.answered < before for hit in host.hits
    )


def check_fetched(host: Host, *urls: str) -> None:
    """Check that *host* served each page once, and nothing else."""
    served = Counter(
        host.url(hit.path)
        for hit in host.hits
        if hit.path != "/robots.txt" and not isinstance(hit.answer, Busy)
    )
    assert served == dict.fromkeys(urls, 1)
