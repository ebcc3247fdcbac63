"""Delays and pauses that hosts ask for: told to the limits, said to the user, measured for the ledger."""

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
from scrapy_rep.protocol.access.freshness import pause_asked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Headers, Response

    from scrapy_rep.base.clock import Alarms
    from scrapy_rep.crawl.frontier.limiter import Limiter
    from scrapy_rep.crawl.frontier.limits import InFlight, Limits
    from scrapy_rep.protocol.access.site_rules import SiteRules
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

# The number of hosts that the log names at the end, if they have held up the crawl for these seconds.
_SLOWEST_NAMED = 5
_LEAST_NAMED = 1.0


class Politeness:
    """Tells the limits of each delay and pause, and the user when a host begins to ask for them, and
    when it is back.
    """

    def __init__(self, crawler: Crawler, limits: Limits, alarms: Alarms) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._limits = limits
        self._alarms = alarms
        self._clock = clock = alarms.clock
        self._settings = settings = RepSettings.of(crawler)
        self.backs_off = bool(settings.backoff_max) and not settings.dry_run
        """Whether pauses are kept."""

        self.new_pauses: dict[str, float] | None = None
        """The pauses of hosts, by key, since the scheduler has last taken them: their ends. None if it does not keep
        them.
        """

        self._identity = Identity.of(crawler)
        self._reporter = DecisionReporter.of(crawler)
        self._traffic = Traffic.of(crawler)
        self.measures = self._traffic is not None
        """Whether there is a ledger, so that anything is measured."""

        # The crawl that is resumed may have sent a request to any host just before it ended.
        self._resumed_at = clock.monotonic() if job_dir(crawler.settings) else -inf
        self._names_over = crawler.settings.getfloat("DOWNLOAD_DELAY")
        """The delay beyond which a host is named: the first that slows the crawl down."""

        self._has_warned_of_no_pause = False
        self._logged_once: set[int] = set()
        """The hashes of what is logged and counted once; they take less memory."""

    # Delays.

    def keep_pace(
        self, host: Limiter, origin: Origin, pace: Pace, site_rules: SiteRules | None
    ) -> None:
        """Have *host* keep to the *pace* of *origin*, by its robots.txt or an override, from the time on
        at which the robots.txt that is *site_rules* was fetched, be it only to find the network back; unless
        the gate refuses its requests for it.
        """
        delay = self._settings.delay(pace)
        if not delay and host.crawl_delay is None:
            return
        now, fetched = (
            self._clock.monotonic(),
            site_rules.entry.fetched if site_rules else -inf,
        )
        # *ago* is negative if a clock is wrong.
        ago = max(self._clock.time() - fetched, 0.0)
        since = max(now - ago, self._resumed_at)
        self._limits.set_delay(host, origin, delay, now, since=since)
        if not delay or not self.report_delay(origin, pace):
            return
        if delay > self._names_over:
            self._names_over = inf
            self._logger.info(
                "%(origin)s asks for %(delay)g s between requests, and gets none earlier (REP_CRAWL_DELAY_OBEY). "
                "Further hosts with a delay are named only at the end, if they hold up the crawl",
                origin=origin,
                delay=delay,
            )
        if delay > _LONG_DELAY:
            self._alarms.at(now + _LOG_AFTER, self._log_long_delay, host)

    def report_delay(self, origin: Origin, pace: Pace) -> bool:
        """Report once that *origin* asks for a delay. Return whether that is new."""
        is_new = self._is_first(stats.DELAYED_HOSTS, origin)
        if is_new:
            record = pace.record
            assert record is not None
            statement = f"{record.field.capitalize()}: {record.value}"
            self._reporter.slowed("delay", statement, origin, origin.robotstxt_url)
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
        is_new = number not in self._logged_once
        if is_new:
            self._logged_once.add(number)
            self._crawler.stats.inc_value(stat)
        return is_new

    def _log_long_delay(self, host: Limiter) -> None:
        limiter = host.crawl_delay
        assert limiter is not None
        count = sum(queue.count for queue in limiter.parked or ())
        count += len(limiter.line or ())
        if count >= _MANY and limiter.delay:
            self._logger.info(
                "%(host)s asks for %(delay)g s between requests: the %(count)d requests that "
                "wait for it will take %(time)s",
                host=host.key,
                delay=limiter.delay,
                count=count,
                time=duration(count * limiter.delay),
            )

    # Pauses.

    def answered(
        self, status: int, headers: Headers, request: Request, entry: InFlight
    ) -> None:
        """Note that an answer with *status* and *headers* has come to *request*, which is sent.

        A 503 without ``Retry-After`` may be the failure of one page: the second in a row asks for a pause.
        """
        host, sent_at = entry.queue.host, entry.sent_at
        back_off = host.back_off
        had_503, host.had_503 = host.had_503, status == _UNAVAILABLE
        if not self.backs_off:
            return
        if status in ASKS_FOR_PAUSE:
            before = -inf if back_off is None else back_off.until
            asked, statement = pause_in(status, headers, self._clock.time())
            if asked is None and status == _UNAVAILABLE and not had_503:
                return
            if self.back_off(host, asked, None, sent_at, f"answered {statement}"):
                where = origin_at(request.url, request)
                self._reporter.slowed("back-off", statement, where, request.url)
            back_off = host.back_off
            if self._traffic is not None and back_off and back_off.until > before:
                now = self._clock.time()
                self._traffic.note_gap(
                    "pause", _origin_text(request), back_off.asked, None, now
                )
        elif back_off is not None and sent_at >= back_off.until:
            now = self._clock.monotonic()
            if self._limits.succeeded(host, now, sent_at=sent_at):
                self._logger.info(
                    "%(host)s answers again: requests to it continue, one more at a time after "
                    "each success",
                    host=host.key,
                )

    def back_off(
        self,
        host: Limiter,
        delay: float | None,
        cap: float | None,
        sent_at: float,
        why: str,
        *,
        has_failed: bool = False,
    ) -> bool:
        """Pause *host*, for *delay* seconds or up to *cap* seconds (``REP_BACKOFF_MAX``), by the answer to
        a request that was sent at *sent_at*, or since that *has_failed*. *why* is for the log. Return
        whether that is not part of the last pause.
        """
        now = self._clock.monotonic()
        is_first = host.back_off is None
        until = max(host.back_off.until, now) if host.back_off else now
        most = self._settings.backoff_max if cap is None else cap
        is_new = self._limits.back_off(
            host, now, asked=delay, cap=most, sent_at=sent_at, has_failed=has_failed
        )
        back_off = host.back_off
        assert back_off is not None
        pause = max(back_off.until - until, 0.0)
        if not has_failed:
            if self.new_pauses is not None:
                self.new_pauses[host.key] = back_off.until
            collected = self._crawler.stats
            paused = collected.get_value(stats.PAUSED, 0.0) + pause
            collected.set_value(stats.PAUSED, round(paused, 3))
            if is_new:
                collected.inc_value(stats.PAUSES)
            self._is_first(stats.BACK_OFF_HOSTS, host.key)
        if now < host.refuses_until and not back_off.is_reported_as_long:
            back_off.is_reported_as_long = True
            self._logger.warning(
                "%(host)s %(why)s, and wants %(time)s of pauses in all, over REP_WAIT_TIMEOUT "
                "(%(most)g s): requests to it are refused. When the pause is over, one request "
                "asks whether it is back",
                host=host.key,
                why=why,
                time=duration(back_off.until - back_off.since),
                most=self._settings.wait_timeout,
            )
        elif is_first and not has_failed:
            self._logger.info(
                "%(host)s %(why)s: it gets no request for %(pause)s, then "
                "one at a time, and one more at a time after each success",
                host=host.key,
                why=why,
                pause=duration(pause),
            )
        return is_new

    def warn_of_no_pause(self, why: str, hosts: Iterable[str]) -> None:
        """Warn once that a spider has asked for a pause of *hosts* in vain, and *why*."""
        if not self._has_warned_of_no_pause:
            self._has_warned_of_no_pause = True
            self._logger.warning(
                "back_off() pauses nothing in this crawl, because %(why)s. Requests to %(hosts)s "
                "are sent as before",
                why=why,
                hosts=", ".join(hosts),
            )

    def why_refused(self, host: Limiter) -> str:
        """Return why the requests to *host* are refused for its back-off, for a message."""
        now, back_off = self._clock.monotonic(), host.back_off
        if back_off is None:
            return f"{host.key} asked for a pause"
        remaining = duration(back_off.until - now)
        wanted = duration(back_off.until - back_off.since)
        return (
            f"{host.key} wants {wanted} of pauses in all, over REP_WAIT_TIMEOUT "
            f"({self._settings.wait_timeout:g} s), and is asked again in {remaining} at the earliest"
        )

    # Measurements for the ledger, and for the lines at the end. They are made when a request is sent, not
    # when the scheduler plans it.

    def measure_sent(self, request: Request, entry: InFlight) -> None:
        """Note how long after the last answer *request* is sent, if its host has a delay or has asked for a
        pause. It may have to wait in its download slot as well, so it is sent now at the earliest.
        """
        traffic = self._traffic
        if traffic is None:
            return
        now, time = self._clock.monotonic(), self._clock.time()
        host = entry.queue.host
        delay, back_off = host.crawl_delay, host.back_off
        if delay is not None and delay.delay and delay in entry.limiters:
            # *entry* counts already.
            gap = 0.0 if host.sent > 1 else now - host.ended_at
            waited = gap if gap < inf else None
            traffic.note_gap("delay", _origin_text(request), delay.delay, waited, time)
        if back_off is not None and back_off.asked:
            resumed = now - back_off.asked_at
            asked, back_off.asked = back_off.asked, 0.0
            traffic.note_gap("pause", _origin_text(request), asked, resumed, time)

    def measure_page(self, request: Request, response: Response) -> None:
        """Note *response*, which a host has sent to *request*."""
        if self._traffic is not None:
            self._traffic.note_response(request, response)

    def measure_waiting(self, requests: int | None) -> None:
        """Note how many *requests* wait, in the scheduler and in the downloader; None if that is not known."""
        if self._traffic is not None and requests is not None:
            self._traffic.note_waiting(requests)

    @property
    def wants_waiting(self) -> bool:
        """Whether :meth:`measure_waiting` is to be called."""
        return self._traffic is not None and self._traffic.wants_waiting

    def report_slowdowns(self) -> None:
        """Say at the end which hosts have held up the crawl the longest, by a second or more."""
        slowdowns = sorted(self._limits.slowdowns.values(), reverse=True)
        if slowdowns:
            waited = sum(slowdown.seconds for slowdown in slowdowns)
            self._crawler.stats.set_value(stats.WAITED, round(waited, 3))
        for slowdown in slowdowns[:_SLOWEST_NAMED]:
            if slowdown.seconds >= _LEAST_NAMED:
                self._logger.at_end(
                    logging.INFO,
                    "%(host)s held up the crawl for %(time)s, with a delay of %(delay)g s and %(requests)d requests. "
                    "Hosts whose delay is longer than REP_SKIP_DELAY_OVER are skipped",
                    host=slowdown.key,
                    time=duration(slowdown.seconds),
                    requests=slowdown.requests,
                    delay=slowdown.delay,
                )


def pause_in(status: int, headers: Headers, now: float) -> tuple[float | None, str]:
    """Return the pause in seconds that an answer with *status*, 429 or 503, and *headers* asks
    for, or None if it does not say; and what it says, for a record.
    """
    fields = list(headers_of(headers))
    asked = pause_asked(fields, now)
    if asked is not None:
        asked = max(asked, _MIN_ASKED)
    statement = str(status)
    for name, value in fields:
        if name == "retry-after":
            statement += f", Retry-After: {value}"
    return asked, statement


def duration(seconds: float) -> str:
    """Format a duration, as ``0:00:30`` or ``12 days, 0:00:00``."""
    return str(timedelta(seconds=round(max(seconds, 0.0))))


def _origin_text(request: Request) -> str:
    """Return the origin of *request* as a ledger has it."""
    origin = origin_at(request.url, request)
    return "" if origin is None else str(origin)
