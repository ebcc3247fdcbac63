"""Back-off: the pauses that hosts ask for with status 429 or 503."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from scrapy_rep.base import stats
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import origin_at
from scrapy_rep.crawl.fetching.fetcher import headers_of
from scrapy_rep.protocol.access.results import pause_asked

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Headers

    from scrapy_rep.base.settings import RepSettings
    from scrapy_rep.crawl.decisions import DecisionReporter
    from scrapy_rep.crawl.frontier.core import Scope, Ticket
    from scrapy_rep.crawl.frontier.frontier import Frontier

# The shortest pause, in seconds, that a host can ask for.
_MIN_ASKED = 1.0

ASKS_FOR_PAUSE = frozenset({429, 503})


class Pauses:
    """Tells the core and the queues of each pause, and the user when a host begins to ask for pauses
    and when it is back.
    """

    def __init__(
        self,
        crawler: Crawler,
        frontier: Frontier,
        settings: RepSettings,
        reporter: DecisionReporter,
    ) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._frontier = frontier
        self._core = frontier.core
        self._clock = frontier.clock
        self._settings = settings
        self._reporter = reporter
        self._paused: set[str] = set()
        """The scopes that the stats have counted."""

    def answered(
        self,
        status: int,
        headers: Headers,
        request: Request,
        scope: Scope,
        sent_at: float,
    ) -> None:
        """Note that an answer with *status* and *headers* has come to *request*, which was sent at
        *sent_at*.
        """
        if self._settings.dry_run or not self._settings.backoff_max:
            return
        if status in ASKS_FOR_PAUSE:
            asked, said = pause_in(status, headers, self._clock.time())
            if self.back_off(scope, asked, None, sent_at, f"answered {said}"):
                where = origin_at(request.url, request)
                self._reporter.slowed("back-off", said, where, request.url)
        elif scope.back_off is not None:
            if sent_at >= scope.back_off.until:
                self._frontier.tell_of_recovery(request)
            self._note_success(scope, sent_at)

    def back_off(
        self,
        scope: Scope,
        delay: float | None,
        cap: float | None,
        sent_at: float,
        why: str,
    ) -> bool:
        """Pause *scope*, for *delay* seconds or up to *cap* seconds (``REP_BACKOFF_MAX``), by the
        answer to a request that was sent at *sent_at*. *why* is for the log. Return whether that is not
        part of the last pause.
        """
        now = self._clock.monotonic()
        is_first = scope.back_off is None
        until = max(scope.back_off.until, now) if scope.back_off else now
        most = self._settings.backoff_max if cap is None else cap
        is_new = self._core.back_off(scope, now, delay=delay, cap=most, sent_at=sent_at)
        self._frontier.hold_back(scope)
        assert scope.back_off is not None
        pause = max(scope.back_off.until - until, 0.0)
        left = scope.back_off.until - now
        self._frontier.tell_of_pause(scope.key, left, scope.back_off.own)
        collected = self._crawler.stats
        paused = collected.get_value(stats.PAUSED, 0.0) + pause
        collected.set_value(stats.PAUSED, round(paused, 3))
        if is_new:
            collected.inc_value(stats.PAUSES)
        if is_first and scope.key not in self._paused:
            self._paused.add(scope.key)
            collected.inc_value(stats.BACK_OFF_HOSTS)
        self._log_pause(scope, pause, why, is_first=is_first)
        return is_new

    def paused_elsewhere(
        self, key: str, pause: float, own: float, lasted: float
    ) -> None:
        """Note that another worker, or an earlier run, has seen a host ask for a pause, of which
        *pause* seconds are left (less than 0 after it). Its back-off has *lasted* so long, and *own*
        is the last pause that was doubled.
        """
        if not self._settings.backoff_max:
            return
        now, scope = self._clock.monotonic(), self._core.scope(key)
        until, since = now + pause, now - lasted
        self._core.paused_elsewhere(scope, now, until=until, own=own, since=since)
        self._frontier.hold_back(scope)

    def hold(self, ticket: Ticket, since: float) -> bool:
        """Whether a pause holds the request back that has had the places of *ticket* *since* then:
        it is not over, or began later. After a pause there are fewer places.
        """
        for scope in ticket.scopes:
            found = scope.back_off
            if found is not None and (
                found.until > self._clock.monotonic() or found.asked_at > since
            ):
                return True
        return False

    def why_refused(self, ticket: Ticket) -> str:
        """Return why the requests of *ticket* are refused, for a message."""
        now = self._clock.monotonic()
        scope = self._core.backs_off_too_long(ticket, now) or ticket.scopes[0]
        if scope.back_off is None:
            return f"{scope.key} asked for a pause"
        left = duration(scope.back_off.until - now)
        wanted = duration(scope.back_off.until - scope.back_off.since)
        return (
            f"{scope.key} wants {wanted} of pauses in all, over REP_WAIT_MAX "
            f"({self._settings.wait_max:g} s), and is asked again in {left} at the earliest"
        )

    def _note_success(self, scope: Scope, sent_at: float) -> None:
        found, now = scope.back_off, self._clock.monotonic()
        self._core.succeeded(scope, now, sent_at=sent_at)
        if found is not None and found.is_over and not found.was_over:
            found.was_over = True
            self._logger.info(
                "%(host)s answers again: requests to it continue, one more at a time after each "
                "success (pauses so far: %(pauses)d)",
                host=scope.key,
                pauses=found.pauses,
            )

    def _log_pause(
        self, scope: Scope, pause: float, why: str, *, is_first: bool
    ) -> None:
        found, now = scope.back_off, self._clock.monotonic()
        assert found is not None
        if self._core.is_backing_off_too_long(scope, now) and not found.is_long:
            found.is_long = True
            self._logger.warning(
                "%(host)s %(why)s, and wants %(time)s of pauses in all, over REP_WAIT_MAX "
                "(%(most)g s): requests to it are refused. When the pause is over, one request "
                "asks whether it is back",
                host=scope.key,
                why=why,
                time=duration(found.until - found.since),
                most=self._settings.wait_max,
            )
        elif is_first:
            self._logger.info(
                "%(host)s %(why)s: it gets no request for %(pause)s, then "
                "one at a time, and one more after each success",
                host=scope.key,
                why=why,
                pause=duration(pause),
            )


def pause_in(status: int, headers: Headers, now: float) -> tuple[float | None, str]:
    """Return the pause in seconds that an answer with *status*, 429 or 503, and *headers* asks
    for, or None if it does not say; and what it says, for a record.
    """
    fields = list(headers_of(headers))
    asked = pause_asked(fields, now)
    if asked is not None:
        asked = max(asked, _MIN_ASKED)
    said = str(status)
    for name, value in fields:
        if name == "retry-after":
            said += f", Retry-After: {value}"
    return asked, said


def duration(seconds: float) -> str:
    """Format a duration, as ``0:00:30`` or ``12 days, 0:00:00``."""
    return str(timedelta(seconds=round(max(seconds, 0.0))))
