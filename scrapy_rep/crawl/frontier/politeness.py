"""Delays and pauses that hosts ask for: told to the core, said to the user, measured for the ledger."""

from __future__ import annotations

import logging
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING

from scrapy.utils.job import job_dir

from scrapy_rep.base import stats
from scrapy_rep.base.identity import Identity
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import origin_at
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.fetching.fetcher import headers_of
from scrapy_rep.crawl.ledger.traffic import Traffic
from scrapy_rep.crawl.reporting import DecisionReporter
from scrapy_rep.protocol.access.results import pause_asked

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Headers

    from scrapy_rep.base.clock import Alarms
    from scrapy_rep.crawl.frontier.backlog import Backlog
    from scrapy_rep.crawl.frontier.core import Core, Scope, Ticket
    from scrapy_rep.protocol.access.results import SiteRules
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robotstxt.pace import Pace

# The shortest pause, in seconds, that a host can ask for.
_MIN_ASKED = 1.0

_UNAVAILABLE = 503
ASKS_FOR_PAUSE = frozenset({429, _UNAVAILABLE})

# The log says how long a host will take if its delay in seconds is longer than _LONG_DELAY and
# at least _MANY requests wait, after some seconds in which they may come.
_LONG_DELAY = 10
_MANY = 20
_LOG_AFTER = 3.0

# The number of hosts that the log names at the end.
_SLOWEST_NAMED = 5

# A host that has held up the crawl for less than these seconds is not named.
_LEAST_NAMED = 1.0


class Politeness:
    """Tells the core and the queues of each delay and pause, and the user when a host begins to ask
    for them, and when it is back.
    """

    def __init__(
        self,
        crawler: Crawler,
        core: Core,
        alarms: Alarms,
        backlogs: list[Backlog],
    ) -> None:
        """*backlogs* are told of pauses. More may be added later."""
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._core = core
        self._alarms = alarms
        self._clock = clock = alarms.clock
        self._backlogs = backlogs
        self._settings = settings = RepSettings.of(crawler)
        self.backs_off = bool(settings.backoff_max) and not settings.dry_run
        """Whether pauses are kept."""

        self._identity = Identity.of(crawler)
        self._reporter = DecisionReporter.of(crawler)
        self._traffic = Traffic.of(crawler)
        self.measures = self._traffic is not None
        """Whether there is a ledger, so that anything is measured."""

        # The crawl that is resumed may have sent a request to any host just before it ended.
        self._resumed_at = clock.monotonic() if job_dir(crawler.settings) else -inf
        self._names_over = crawler.settings.getfloat("DOWNLOAD_DELAY")
        """The delay beyond which a host is named: the first that slows the crawl down."""

        self._said: set[int] = set()
        """What is said once: the hashes, which save memory."""

    # Delays.

    def keep_pace(
        self, scope: Scope, origin: Origin, pace: Pace, known: SiteRules | None
    ) -> None:
        """Have *scope* keep to the *pace* of *origin*, by its robots.txt or an override, from the time on
        at which the robots.txt that is *known* was fetched, be it only to find the network back; unless
        the middleware refuses its requests for it.
        """
        delay = self._settings.delay(pace)
        if not delay and not scope.delays:
            return
        now, fetched = self._clock.monotonic(), known.entry.fetched if known else -inf
        # *ago* is negative if a clock is wrong.
        ago = max(self._clock.time() - fetched, 0.0)
        since = max(now - ago, self._resumed_at)
        self._core.set_delay(scope, origin, delay, now, since=since)
        if not delay or not self.report_delay(origin, pace):
            return
        if delay > self._names_over:
            self._names_over = inf
            self._logger.info(
                "%(origin)s asks for %(delay)g s between requests: requests to it wait for that. Further "
                "hosts with a delay are named only if they hold up the crawl (REP_CRAWL_DELAY_OBEY)",
                origin=origin,
                delay=delay,
            )
        if delay > _LONG_DELAY:
            self._alarms.at(now + _LOG_AFTER, self._log_long_delay, scope)

    def report_delay(self, origin: Origin, pace: Pace) -> bool:
        """Report once that *origin* asks for a delay. Return whether that is new."""
        is_new = self._is_first(stats.DELAYED_HOSTS, origin)
        if is_new:
            record = pace.record
            assert record is not None
            said = f"{record.field.capitalize()}: {record.value}"
            self._reporter.slowed("delay", said, origin, origin.robotstxt_url)
        return is_new

    def warn_of_delay(self, origin: Origin, delay: float) -> None:
        """Warn once that requests to *origin* are refused for its *delay*, in seconds."""
        if self._settings.dry_run or not self._is_first(stats.SKIPPED_HOSTS, origin):
            return
        self._logger.warning(
            "%(origin)s is skipped: it asks for %(delay)g s between requests, more "
            "than REP_SKIP_DELAY_OVER (%(most)g). Requests to it are refused; to "
            "crawl it, raise the setting, or add the host to REP_OVERRIDES",
            origin=origin,
            delay=delay,
            most=self._settings.skip_delay_over,
        )

    def _is_first(self, stat: str, owner: Origin | str) -> bool:
        """Count *owner*, a host, in *stat* once. Return whether it is new there."""
        number = hash((stat, owner))
        is_new = number not in self._said
        if is_new:
            self._said.add(number)
            self._crawler.stats.inc_value(stat)
        return is_new

    def _log_long_delay(self, scope: Scope) -> None:
        waiting = (scope.parked or {}).values()
        count = sum(len(each) for tickets in waiting for each in tickets)
        if count >= _MANY and scope.delays:
            self._logger.info(
                "%(host)s asks for %(delay)g s between requests: the %(count)d requests that "
                "wait for it will take %(time)s",
                host=scope.key,
                delay=scope.delay,
                count=count,
                time=duration(count * scope.delay),
            )

    # Pauses.

    def answered(
        self,
        status: int,
        headers: Headers,
        request: Request,
        scope: Scope,
        sent_at: float,
    ) -> None:
        """Note that an answer of *scope* with *status* and *headers* has come to *request*, which was
        sent at *sent_at*.

        A 503 without ``Retry-After`` may be the failure of one page: the second in a row asks for a pause.
        """
        found = scope.back_off
        if not self.backs_off:
            return
        had_503, scope.had_503 = scope.had_503, status == _UNAVAILABLE
        if status in ASKS_FOR_PAUSE:
            before = found.until if found is not None else -inf
            asked, said = pause_in(status, headers, self._clock.time())
            if asked is None and status == _UNAVAILABLE and not had_503:
                return
            if self.back_off(scope, asked, None, sent_at, f"answered {said}"):
                where = origin_at(request.url, request)
                self._reporter.slowed("back-off", said, where, request.url)
            found = scope.back_off
            if self._traffic is not None and found is not None and found.until > before:
                now = self._clock.time()
                self._traffic.note_gap(
                    "pause", _origin_text(request), found.asked, None, now
                )
        elif found is not None and sent_at >= found.until:
            for backlog in self._backlogs:
                backlog.recovered(request)
            now = self._clock.monotonic()
            if self._core.succeeded(scope, now, sent_at=sent_at):
                self._logger.info(
                    "%(host)s answers again: requests to it continue, one more at a time after "
                    "each success",
                    host=scope.key,
                )

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
        found = scope.back_off
        assert found is not None
        pause = max(found.until - until, 0.0)
        for backlog in self._backlogs:
            backlog.paused(scope.key, found.until - now, found.own)
        collected = self._crawler.stats
        paused = collected.get_value(stats.PAUSED, 0.0) + pause
        collected.set_value(stats.PAUSED, round(paused, 3))
        if is_new:
            collected.inc_value(stats.PAUSES)
        self._is_first(stats.BACK_OFF_HOSTS, scope.key)
        if self._core.refuses(scope, now) and not found.is_long:
            found.is_long = True
            self._logger.warning(
                "%(host)s %(why)s, and wants %(time)s of pauses in all, over REP_WAIT_TIMEOUT "
                "(%(most)g s): requests to it are refused. When the pause is over, one request "
                "asks whether it is back",
                host=scope.key,
                why=why,
                time=duration(found.until - found.since),
                most=self._settings.wait_timeout,
            )
        elif is_first:
            self._logger.info(
                "%(host)s %(why)s: it gets no request for %(pause)s, then "
                "one at a time, and one more after each success",
                host=scope.key,
                why=why,
                pause=duration(pause),
            )
        return is_new

    def why_refused(self, ticket: Ticket) -> str:
        """Return why the requests of *ticket* are refused, for a message."""
        now = self._clock.monotonic()
        scope = self._core.refusing(ticket, now) or ticket.scopes[0]
        if scope.back_off is None:
            return f"{scope.key} asked for a pause"
        left = duration(scope.back_off.until - now)
        wanted = duration(scope.back_off.until - scope.back_off.since)
        return (
            f"{scope.key} wants {wanted} of pauses in all, over REP_WAIT_TIMEOUT "
            f"({self._settings.wait_timeout:g} s), and is asked again in {left} at the earliest"
        )

    # What is measured, for the ledger and at the end: when requests are sent, not when it is planned.

    def measure_sent(self, request: Request, ticket: Ticket) -> None:
        """Note how long after the last answer *request* is sent, if its host has a delay or has
        asked for a pause. It may have to wait in its download slot as well, so it is sent now at
        the earliest.
        """
        traffic = self._traffic
        if traffic is None:
            return
        now, time = self._clock.monotonic(), self._clock.time()
        origin = _origin_text(request)
        # That of its host: the others may be those of hosts that have redirected it.
        scope = ticket.scopes[0]
        if scope.delays and ticket.obeys:
            gap = 0.0 if scope.sent else now - scope.answered_at
            known = gap if gap < inf else None
            traffic.note_gap("delay", origin, scope.delay, known, time)
        found = scope.back_off
        if found is not None and found.asked:
            resumed = now - found.asked_at
            traffic.note_gap("pause", origin, found.asked, resumed, time)
            found.asked = 0.0

    def measure_waiting(self, in_downloader: int) -> None:
        """Note how many requests wait in the queues and in the downloader, if that is known."""
        traffic = self._traffic
        if traffic is None or not traffic.wants_waiting:
            return
        counts = [each.count_waiting() for each in self._backlogs]
        known = [count for count in counts if count is not None]
        if known and len(known) == len(counts):
            traffic.note_waiting(sum(known) + in_downloader)

    def report_slowdowns(self) -> None:
        """Say at the end which hosts have held up the crawl the longest, by a second or more."""
        slowdowns = self._core.slowdowns()
        if slowdowns:
            waited = sum(each.seconds for each in slowdowns)
            self._crawler.stats.set_value(stats.WAITED, round(waited, 3))
        for each in slowdowns[:_SLOWEST_NAMED]:
            if each.seconds >= _LEAST_NAMED:
                self._logger.at_end(
                    logging.INFO,
                    "%(host)s held up the crawl for %(time)s, with a delay of %(delay)g s "
                    "(requests: %(requests)d). REP_SKIP_DELAY_OVER skips hosts with a longer one",
                    host=each.key,
                    time=duration(each.seconds),
                    requests=each.requests,
                    delay=each.delay,
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


def _origin_text(request: Request) -> str:
    """Return the origin of *request* as a ledger has it."""
    origin = origin_at(request.url, request)
    return "" if origin is None else str(origin)
