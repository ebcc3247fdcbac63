"""Reads the delays and pauses that hosts ask for in robots.txt and in responses. Passes them to the limits, logs them,
and measures for the ledger whether the crawl keeps them.
"""

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

# The minimum pause, in seconds, after a 429 or 503. A shorter Retry-After is raised to this value.
_MIN_PAUSE = 1.0

_UNAVAILABLE = 503
ASKS_FOR_PAUSE = frozenset({429, _UNAVAILABLE})

# If a host has a crawl delay of more than _LONG_DELAY seconds, and at least _MANY requests wait for the host, the log
# estimates how long these requests will take. It does so _LOG_AFTER seconds after the delay became known.
_LONG_DELAY = 10
_MANY = 20
_LOG_AFTER = 3.0

# At the end of the crawl, the log names up to _SLOWEST_NAMED hosts: those whose requests waited longest for the crawl
# delay, and at least _LEAST_NAMED seconds.
_SLOWEST_NAMED = 5
_LEAST_NAMED = 1.0


class Politeness:
    """Tells :class:`Limits` about each crawl delay and each pause that a host asks for. Logs crawl delays, pauses after
    a 429 or 503, and the first answer with another status after a pause. Records in the ledger the actual time between
    requests.
    """

    def __init__(self, crawler: Crawler, limits: Limits, alarms: Alarms) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._limits = limits
        self._alarms = alarms
        self._clock = clock = alarms.clock
        self._settings = settings = RepSettings.of(crawler)
        self.backs_off = bool(settings.backoff_max) and not settings.dry_run
        """Whether the crawl pauses a host after a 429 or 503."""

        self._new_pauses: dict[str, float] | None = None
        """The pauses that hosts have asked for since the last :meth:`take_new_pauses`: the time when each pause ends,
        by the key of the host's limiter. None if the scheduler stores no pauses."""

        self._identity = Identity.of(crawler)
        self._reporter = DecisionReporter.of(crawler)
        self._traffic = Traffic.of(crawler)
        self.measures = self._traffic is not None
        """Whether delays and pauses are measured. They are measured only if the crawl writes a ledger."""

        # An earlier run with the same JOBDIR may have sent a request to any host just before the run ended. So the
        # first crawl delay of a host is measured from the start of this run. If this run fetches the host's robots.txt,
        # the delay is measured from this fetch instead.
        self._resumed_at = clock.monotonic() if job_dir(crawler.settings) else -inf
        self._names_over = crawler.settings.getfloat("DOWNLOAD_DELAY")
        """The log names the first host whose crawl delay is longer than this number of seconds. Then the number becomes
        ``inf``, so that no other host is named."""

        self._has_warned_of_no_pause = False
        self._counted_pairs: set[int] = set()
        """The hash of each pair of a stat and a host (or origin) that :meth:`_is_first` has counted. So each host is
        counted in a stat, and mentioned in the log, only once. Hashes take less memory than the pairs."""

    # Crawl delays.

    def keep_pace(
        self, host: Limiter, origin: Origin, pace: Pace, site_rules: SiteRules | None
    ) -> None:
        """From now on, let requests to *host* wait for the crawl delay in *pace*, and report the delay. The delay comes
        from the robots.txt of *origin*, or from an override for *origin*.

        *site_rules* is the result of the last fetch of this robots.txt; None if it was not fetched. The first delay is
        measured from the fetch or from the host's last answer, whichever is later.
        """
        delay = self._settings.delay(pace)
        if not delay and host.crawl_delay is None:
            return
        now, fetched = (
            self._clock.monotonic(),
            site_rules.entry.fetched if site_rules else -inf,
        )
        # Without max(), the result would be negative if the system clock was set back after the fetch.
        ago = max(self._clock.time() - fetched, 0.0)
        since = max(now - ago, self._resumed_at)
        self._limits.set_delay(host, origin, delay, now, since=since)
        if not delay or not self.report_delay(origin, pace):
            return
        if delay > self._names_over:
            self._names_over = inf
            self._logger.info(
                "%(origin)s asks for %(delay)g s between requests, and the crawl keeps to it (REP_CRAWL_DELAY_OBEY). "
                "Other hosts with a delay are not logged now. At the end, the log names the hosts whose requests waited "
                "longest for the delay",
                origin=origin,
                delay=delay,
            )
        if delay > _LONG_DELAY:
            self._alarms.at(now + _LOG_AFTER, self._log_long_delay, host)

    def report_delay(self, origin: Origin, pace: Pace) -> bool:
        """Report and count that *origin* asks for the delay in *pace*, and return True. If this was reported for
        *origin* before, report nothing and return False.
        """
        is_new = self._is_first(stats.DELAYED_HOSTS, origin)
        if is_new:
            record = pace.record
            assert record is not None
            statement = f"{record.field.capitalize()}: {record.value}"
            self._reporter.slowed("delay", statement, origin, origin.robotstxt_url)
        return is_new

    def warn_of_delay(self, origin: Origin, delay: float) -> None:
        """Warn that requests to *origin* are refused because its *delay*, in seconds, is too long, and count *origin*
        in the stats. Do nothing if this method has warned of *origin* before, or in a dry run.
        """
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
        """Count *owner*, a host or origin, in *stat*, and return True. If *owner* was counted in *stat* before, do
        nothing and return False.
        """
        number = hash((stat, owner))
        is_new = number not in self._counted_pairs
        if is_new:
            self._counted_pairs.add(number)
            self._crawler.stats.inc_value(stat)
        return is_new

    def _log_long_delay(self, host: Limiter) -> None:
        limiter = host.crawl_delay
        assert limiter is not None
        count = sum(queue.count for queue in limiter.parked or ())
        count += len(limiter.waiters or ())
        if count >= _MANY and limiter.delay:
            self._logger.info(
                "%(host)s asks for %(delay)g s between requests: the %(count)d requests that wait for this host "
                "will take %(time)s",
                host=host.key,
                delay=limiter.delay,
                count=count,
                time=duration(count * limiter.delay),
            )

    # Pauses after a 429, a 503 or a failed connection.

    def answered(
        self, status: int, headers: Headers, request: Request, entry: InFlight
    ) -> None:
        """Pause the host of *request* if it answered with the *status* 429 or 503. The *headers* may contain the
        duration of the pause (``Retry-After``). Any other status counts as a success. After a pause, each success
        raises the concurrency of the paused host or download slot by one.

        A single 503 without ``Retry-After`` may be the error of one page. So a 503 without this header pauses the host
        only if the previous answer of the host was a 503, too.
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
                    "pause",
                    _origin_text(request),
                    back_off.unmeasured_pause,
                    None,
                    now,
                )
            return
        now, slot = self._clock.monotonic(), entry.queue.slot
        for limiter in dict.fromkeys((host, slot)):
            if self._limits.succeeded(
                limiter, now, sent_at=sent_at, normal_concurrency=slot.concurrency
            ):
                self._logger.info(
                    "%(host)s answers again: requests to this host continue. Each answer with a status other than 429 "
                    "and 503 raises the maximum number of concurrent requests to this host by one",
                    host=limiter.key,
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
        """Begin a pause of *host*, and return True. If the request that causes the pause was sent before the end of the
        host's last pause, extend the last pause instead, and return False.

        :param delay: the length of the pause, in seconds from now. If it is None, the first pause lasts one second, and
            each new pause is twice as long as the pause before it
        :param cap: the maximum length, in seconds, if *delay* is None. None means ``REP_BACKOFF_MAX``
        :param sent_at: the time when the request that causes the pause was sent
        :param why: the cause of the pause, for the log, such as "answered 429"
        :param has_failed: True if the connection of the request failed, False if the host answered or a spider asks for
            the pause
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
            if self._new_pauses is not None:
                self._new_pauses[host.key] = back_off.until
            collected = self._crawler.stats
            paused = collected.get_value(stats.PAUSED, 0.0) + pause
            collected.set_value(stats.PAUSED, round(paused, 3))
            if is_new:
                collected.inc_value(stats.PAUSES)
            self._is_first(stats.BACK_OFF_HOSTS, host.key)
        # Log at most two lines for each back-off: the first pause, unless its cause is a failed connection, and a
        # warning when the pauses have become so long that requests are refused.
        if now < host.refuses_until and not back_off.is_refusal_logged:
            back_off.is_refusal_logged = True
            self._logger.warning(
                "%(host)s %(why)s, and its pauses add up to %(time)s, which is more than REP_WAIT_TIMEOUT "
                "(%(most)g s). Requests to this host are refused until the current pause is over. Then one request tests "
                "whether the host answers again",
                host=host.key,
                why=why,
                time=duration(back_off.until - back_off.since),
                most=self._settings.wait_timeout,
            )
        elif is_first and not has_failed:
            self._logger.info(
                "%(host)s %(why)s: it gets no request for %(pause)s, and then one request at a time. Each answer with "
                "a status other than 429 and 503 raises the maximum number of concurrent requests to this host by one",
                host=host.key,
                why=why,
                pause=duration(pause),
            )
        return is_new

    def collect_pauses(self) -> None:
        """From now on, collect the pauses that hosts ask for. The scheduler stores them (:meth:`take_new_pauses`)."""
        self._new_pauses = {}

    def take_new_pauses(self) -> dict[str, float]:
        """Return the pauses that hosts have asked for since the last call, and forget them. The result maps the key of
        each host's limiter to the time when the host's pause ends, in seconds of the monotonic clock.
        """
        pauses, self._new_pauses = self._new_pauses or {}, {}
        return pauses

    def warn_of_no_pause(self, why: str, hosts: Iterable[str]) -> None:
        """Warn that ``back_off()``, which a spider called for *hosts*, has no effect, with the reason *why*. Only the
        first call logs the warning.
        """
        if not self._has_warned_of_no_pause:
            self._has_warned_of_no_pause = True
            self._logger.warning(
                "back_off() pauses nothing in this crawl, because %(why)s. Requests to %(hosts)s "
                "are sent without a pause",
                why=why,
                hosts=", ".join(hosts),
            )

    def why_refused(self, host: Limiter) -> str:
        """Return the message for a request that is refused because the pauses of *host* are too long."""
        now, back_off = self._clock.monotonic(), host.back_off
        if back_off is None:
            return f"{host.key} asked for a pause"
        remaining = duration(back_off.until - now)
        wanted = duration(back_off.until - back_off.since)
        return (
            f"the pauses of {host.key} add up to {wanted}, which is more than REP_WAIT_TIMEOUT "
            f"({self._settings.wait_timeout:g} s). The next request to this host is sent in {remaining} at the earliest"
        )

    # Measurements for the ledger. The time between two requests is measured when the second request is sent, not when
    # the scheduler hands it out.

    def measure_sent(self, request: Request, entry: InFlight) -> None:
        """Record in the ledger how long the crawl waited before *request*, which is sent now. If the host has a crawl
        delay, record the time since the host's last answer. If *request* is the first request after a pause, record the
        time since the pause began. The actual wait can be longer, because *request* can still have to wait in Scrapy's
        download slot.
        """
        traffic = self._traffic
        if traffic is None:
            return
        now, time = self._clock.monotonic(), self._clock.time()
        host = entry.queue.host
        delay, back_off = host.crawl_delay, host.back_off
        if delay is not None and delay.delay and delay in entry.limiters:
            # ``host.sent`` already counts this request, so 2 or more mean that another request is in flight.
            gap = 0.0 if host.sent > 1 else now - host.ended_at
            waited = gap if gap < inf else None
            traffic.note_gap("delay", _origin_text(request), delay.delay, waited, time)
        if back_off is not None and back_off.unmeasured_pause:
            resumed = now - back_off.paused_at
            asked, back_off.unmeasured_pause = back_off.unmeasured_pause, 0.0
            traffic.note_gap("pause", _origin_text(request), asked, resumed, time)

    def measure_page(self, request: Request, response: Response) -> None:
        """Record in the ledger that a host answered *request* with *response*."""
        if self._traffic is not None:
            self._traffic.note_response(request, response)

    def measure_waiting(self, count: int) -> None:
        """Record in the ledger that *count* requests wait in the scheduler and in the downloader."""
        if self._traffic is not None:
            self._traffic.note_waiting(count)

    @property
    def wants_waiting(self) -> bool:
        """Whether it is time to count the waiting requests for the ledger. If so, the scheduler counts them, and calls
        :meth:`measure_waiting`.
        """
        return self._traffic is not None and self._traffic.wants_waiting

    def report_slowdowns(self) -> None:
        """Log the hosts whose requests waited longest for the crawl delay. Set the stat ``rep/crawl_delay/waited`` to
        the sum of these times over all hosts, in seconds. The frontier calls this method at the end of the crawl.
        """
        slowdowns = sorted(self._limits.slowdowns.values(), reverse=True)
        if slowdowns:
            waited = round(self._limits.slowed_seconds, 3)
            self._crawler.stats.set_value(stats.WAITED, waited)
        for slowdown in slowdowns[:_SLOWEST_NAMED]:
            if slowdown.seconds >= _LEAST_NAMED:
                self._logger.at_end(
                    logging.INFO,
                    "For %(time)s, requests to %(host)s waited only for its crawl delay of %(delay)g s "
                    "(%(requests)d requests). To skip such hosts, lower REP_SKIP_DELAY_OVER",
                    host=slowdown.key,
                    time=duration(slowdown.seconds),
                    requests=slowdown.requests,
                    delay=slowdown.delay,
                )


def pause_in(status: int, headers: Headers, now: float) -> tuple[float | None, str]:
    """Return two values for an answer with *status* (429 or 503) and *headers*. The first is the pause, in seconds,
    that the answer asks for; None if there is no valid ``Retry-After``. The second is a summary of the answer for the
    ledger, such as ``429, Retry-After: 30``.

    *now* is the current wall-clock time. It is needed only if ``Retry-After`` is a date and *headers* contain no
    ``Date``. In this case, the pause lasts from *now* until the date in ``Retry-After``.
    """
    fields = list(headers_of(headers))
    asked = pause_asked(fields, now)
    if asked is not None:
        asked = max(asked, _MIN_PAUSE)
    statement = str(status)
    for name, value in fields:
        if name == "retry-after":
            statement += f", Retry-After: {value}"
    return asked, statement


def duration(seconds: float) -> str:
    """Return *seconds* as text, such as ``0:00:30`` or ``12 days, 0:00:00``. Negative values count as 0."""
    return str(timedelta(seconds=round(max(seconds, 0.0))))


def _origin_text(request: Request) -> str:
    """Return the origin of *request* as text for the ledger; an empty string if the URL has no origin."""
    origin = origin_at(request.url, request)
    return "" if origin is None else str(origin)
