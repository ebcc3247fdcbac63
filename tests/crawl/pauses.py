"""Hosts that answer 429 or 503, and checks of the requests that they got."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from tests.crawl.answers import Answer, Busy

if TYPE_CHECKING:
    from tests.crawl.server import Hit, Host

EARLY = 0.01
"""The number of seconds by which a pause may seem too short, because the crawl measures it with another clock."""


def pages(host: Host, count: int, kind: str = "page") -> list[str]:
    """Return the URLs of *count* pages of *host*: ``/page/0``, ``/page/1`` and so on."""
    return [host.url(f"/{kind}/{number}") for number in range(count)]


def limit(
    host: Host, number: int, answer: Busy | None = None, *, seconds: float = 0.2
) -> Host:
    """Make *host* give *answer*, such as a 429, to its first *number* requests for pages. Return *host*.

    The answer to each later request is a page, which is sent *seconds* after the request. If *number* is 0, all
    requests get pages, and no *answer* is needed. Requests for robots.txt are answered as usual, and do not count.
    """
    request_count = 0

    def choose(hit: Hit) -> Answer | None:
        nonlocal request_count
        if hit.path == "/robots.txt":
            return None
        request_count += 1
        return answer if request_count <= number else Answer(b"page", delay=seconds)

    host.limit = choose
    return host


def was_busy(host: Host, seconds: float = 0.3) -> bool:
    """Return whether *host* answered 429 or 503 at least *seconds* ago, which is enough time for the crawl to read the
    answer.
    """
    before = time.monotonic() - seconds
    return any(
        isinstance(hit.answer, Busy) and hit.answered < before for hit in host.hits
    )


def check_fetched(host: Host, *urls: str) -> None:
    """Check that *host* served each page of *urls* once, and no other page. Answers with 429 and 503 don't count."""
    served = Counter(
        host.url(hit.path)
        for hit in host.hits
        if hit.path != "/robots.txt" and not isinstance(hit.answer, Busy)
    )
    assert served == dict.fromkeys(urls, 1)
