"""Hosts that answer 429 or 503, and the judge of what a crawl sends them then.

All moments are by one clock: those of the host's access log, and those at which the crawl read an
answer. On a busy machine, these can be far apart.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tests.crawl.answers import Answer, Busy

if TYPE_CHECKING:
    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Hit, Host

PLACES = 8
MEDIA_PLACES = 20
"""Scrapy itself sends more than its limit if requests do not come from the scheduler: all
that a callback or an item asks for at once (Scrapy 2.19, in asyncio mode)."""

FIRST = 1.0
"""The shortest pause that a crawl chooses itself."""

TRANSIT = 0.5
"""How many seconds after an answer the host may log a request that was in flight before."""

EARLY = 0.01
"""How many seconds earlier another clock may end a pause."""


def pages(host: Host, count: int, kind: str = "page") -> list[str]:
    return [host.url(f"/{kind}/{number}") for number in range(count)]


def limit(
    host: Host,
    number: int,
    answer: Busy | None = None,
    *,
    each: bool = False,
    seconds: float = 0.2,
) -> Host:
    """Let *host* give *answer* to its first *number* requests, or to *each* one with that
    number, and take *seconds* for each other one. Requests for robots.txt do not count.
    """
    asked = 0

    def choose(hit: Hit) -> Answer | None:
        nonlocal asked
        if hit.path == "/robots.txt":
            return None
        asked += 1
        is_busy = asked % number == 0 if each else asked <= number
        return answer if is_busy else Answer(b"page", delay=seconds)

    host.limit = choose
    return host


def was_busy(host: Host) -> bool:
    """Return whether *host* has asked for a pause, and the crawl had the time to read that."""
    before = time.monotonic() - 0.3
    return any(
        isinstance(hit.answer, Busy) and hit.answered < before for hit in host.hits
    )


class Pause(NamedTuple):
    begin: float
    """When the crawl read the answer that asks for it; when the host sent it, if that is all
    that is known."""
    end: float


def pauses_of(
    host: Host, result: CrawlResult | None = None, *, first: float = FIRST
) -> list[Pause]:
    """Return the pauses for which *host* asked. An answer that does not say how long asks for
    *first* seconds at least, and for nothing if it answers what was in flight in a pause.
    """
    read = [(one["url"], one["time"]) for one in result.read] if result else []
    found: list[Pause] = []
    answered = [hit for hit in host.hits if isinstance(hit.answer, Busy)]
    for hit in sorted(answered, key=lambda hit: hit.answered):
        seconds = hit.answer.pause
        if seconds is None and any(hit.time < pause.end - EARLY for pause in found):
            continue
        end = hit.answered + (first if seconds is None else seconds)
        url = host.url(hit.path)
        known = (at for one, at in read if one == url and at >= hit.answered)
        found.append(Pause(min(next(known, hit.answered), end), end))
    return found


def check_kept(
    host: Host,
    count: int = 1,
    *,
    result: CrawlResult | None = None,
    places: int = PLACES,
    first: float = FIRST,
) -> list[Pause]:
    """Check that *host* asked for *count* pauses or more. Nothing was sent within them but what
    was in flight, with *places* at most, and that repeats no request that was answered so. After
    them, one request was sent, and others when it was answered. Return the pauses.
    """
    pauses = pauses_of(host, result, first=first)
    busy = [hit for hit in host.hits if isinstance(hit.answer, Busy)]
    for pause in pauses:
        asked = f"within or after a pause from {pause.begin:.3f} to {pause.end:.3f}"
        within = [
            hit for hit in host.hits if pause.begin < hit.time < pause.end - EARLY
        ]
        late = [
            hit
            for number, hit in enumerate(within)
            if number >= places - 1
            or hit.time > pause.begin + TRANSIT
            or any(one.path == hit.path and one.answered < hit.time for one in busy)
        ]
        assert late == [], asked
        after = [hit for hit in host.hits if hit.time >= pause.end - EARLY]
        probe, others = after[:1], after[1:]
        assert all(hit.time >= probe[0].answered for hit in others), asked
    assert len(pauses) >= count
    return pauses


def check_fetched(host: Host, *urls: str) -> None:
    """Check that *host* served each page once, and nothing else."""
    served = Counter(
        host.url(hit.path)
        for hit in host.hits
        if hit.path != "/robots.txt" and not isinstance(hit.answer, Busy)
    )
    assert served == dict.fromkeys(urls, 1)
