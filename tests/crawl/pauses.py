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
    from collections.abc import Iterable, Sequence

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Hit, Host

PLACES = 8
MEDIA_PLACES = 20
"""Scrapy itself sends more than its limit if requests do not come from the scheduler: all
that a callback or an item asks for at once (Scrapy 2.19, in asyncio mode)."""

FIRST, LONGEST = 1.0, 60.0
"""The pauses that a crawl chooses itself: the shortest, and ``REP_BACKOFF_MAX``."""

TRANSIT = 0.5
"""How many seconds after an answer the host may log a request that was in flight before."""

READING = 0.1
"""How many seconds a crawl may take to read an answer. A request that the host answers later
than that was still in flight when the crawl knew of the pause."""

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


def was_busy(host: Host, seconds: float = 0.3) -> bool:
    """Return whether *host* has asked for a pause *seconds* ago: the crawl had the time to read
    that.
    """
    before = time.monotonic() - seconds
    return any(
        isinstance(hit.answer, Busy) and hit.answered < before for hit in host.hits
    )


class Pause(NamedTuple):
    begin: float
    """When the crawl read the answer that asks for it; when the host sent it, if that is all
    that is known."""
    end: float


def pauses_of(
    hits: Iterable[Hit],
    *,
    longest: float = LONGEST,
    read: Iterable[tuple[float, str]] = (),
) -> list[Pause]:
    """Return the pauses for which a host asked. *read* are the moments at which the crawl has
    read answers, each with the path: a pause begins when the crawl has read the answer.

    An answer that does not say how long asks for a second; for twice as long as the last such
    pause if it answers a request that was sent after that pause, and none since has succeeded;
    and for nothing of its own if it answers a request that was in flight when a pause began.
    """
    found: list[Pause] = []
    moments = sorted(read)
    chosen = over = 0.0
    answered = [hit for hit in hits if hit.answered is not None]
    for hit in sorted(answered, key=lambda hit: hit.answered):
        was_in_flight = hit.time < over - EARLY
        if not isinstance(hit.answer, Busy):
            chosen = chosen if was_in_flight else 0.0
            continue
        seconds = hit.answer.pause
        if seconds is None and was_in_flight:
            continue
        if seconds is None:
            chosen = seconds = min(max(2 * chosen, FIRST), longest)
        end = hit.answered + seconds
        known = (
            moment
            for moment, path in moments
            if path == hit.path and moment >= hit.answered
        )
        begin = min(next(known, hit.answered), end)
        found.append(Pause(begin, end))
        over = max(over, end)
    return found


def sent_within(pauses: Iterable[Pause], hits: Sequence[Hit], places: int) -> list[Hit]:
    """Return the requests of *hits* that were sent within *pauses*.

    A crawl with *places* has that many requests in flight at most. One of them got the answer
    that asks for the pause. Others, which the host does not know yet, may arrive soon after it,
    unless they repeat a request that got such an answer.
    """
    wrong = {}
    for pause in pauses:
        known = sum(
            hit.time < pause.begin and not _was_answered(hit, pause.begin + READING)
            for hit in hits
        )
        allowed = places - 1 - known
        for hit in hits:
            if not pause.begin < hit.time < pause.end - EARLY:
                continue
            allowed -= 1
            is_soon = allowed >= 0 and hit.time < pause.begin + TRANSIT
            if not is_soon or _is_retry(hit, pause, hits):
                wrong[hit.time] = hit
    return list(wrong.values())


def too_many_after(pauses: Sequence[Pause], hits: Sequence[Hit]) -> list[Hit]:
    """Return the requests of *hits* that were sent after a pause while the host had more of
    them than one, and one more for each success since the pause.
    """
    wrong = []
    for hit in hits:
        before = [pause.end for pause in pauses if pause.begin < hit.time]
        if not before or hit.time < (over := max(before) - EARLY):
            continue
        at_once = sum(
            other.time <= hit.time and not _was_answered(other, hit.time)
            for other in hits
        )
        succeeded = sum(
            over <= other.time
            and _was_answered(other, hit.time)
            and not isinstance(other.answer, Busy)
            for other in hits
        )
        if at_once > 1 + succeeded:
            wrong.append(hit)
    return wrong


def _is_retry(hit: Hit, pause: Pause, hits: Sequence[Hit]) -> bool:
    """Return whether *hit* repeats a request that was answered with 429 or 503 in *pause*."""
    return any(
        isinstance(other.answer, Busy)
        and other.path == hit.path
        and _was_answered(other, hit.time)
        and other.answered >= pause.begin
        for other in hits
    )


def _was_answered(hit: Hit, moment: float) -> bool:
    return hit.answered is not None and hit.answered <= moment


def check_kept(
    host: Host,
    count: int = 1,
    *,
    result: CrawlResult | None = None,
    places: int = PLACES,
    longest: float = LONGEST,
) -> list[Pause]:
    """Check that nothing was sent to *host* within its pauses but what was in flight, that
    requests after them became more one by one, and that there were *count* pauses or more.
    Return the pauses.
    """
    read = [
        (one["time"], one["url"].removeprefix(host.origin))
        for one in (result.read if result is not None else ())
        if one["url"].startswith(f"{host.origin}/")
    ]
    pauses = pauses_of(host.hits, read=read, longest=longest)
    wrong = sent_within(pauses, host.hits, places)
    assert wrong == [], (
        f"{len(wrong)} requests within pauses{told(host, pauses, wrong)}"
    )
    wrong = too_many_after(pauses, host.hits)
    assert wrong == [], f"{len(wrong)} too many after pauses{told(host, pauses, wrong)}"
    assert len(pauses) >= count
    return pauses


def told(host: Host, pauses: list[Pause], wrong: list[Hit]) -> str:
    """Return the evidence for a failure, in seconds since the first request."""
    start = host.hits[0].time
    asked = ", ".join(
        f"{one.begin - start:.3f} to {one.end - start:.3f}" for one in pauses
    )
    sent = ", ".join(f"{hit.time - start:.3f} {hit.path}" for hit in wrong)
    return f": {sent} (pauses: {asked})"


def check_fetched(host: Host, *urls: str) -> None:
    """Check that *host* served each page once, and nothing else."""
    served = Counter(
        host.url(hit.path)
        for hit in host.hits
        if hit.path != "/robots.txt" and not isinstance(hit.answer, Busy)
    )
    assert served == dict.fromkeys(urls, 1)
