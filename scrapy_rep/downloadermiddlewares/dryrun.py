"""The downloader middleware of a dry run: it judges each request, and lets all of them pass."""

from __future__ import annotations

import asyncio
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import CancelledError

from scrapy_rep import meta, stats
from scrapy_rep.compat.internals import download_slot, is_closing, slot_state, wake
from scrapy_rep.downloadermiddlewares.browsers import register
from scrapy_rep.downloadermiddlewares.judge import Judge
from scrapy_rep.downloadermiddlewares.timetable import Timetable
from scrapy_rep.exceptions import RobotsDenied, SpiderClosing
from scrapy_rep.fetching.identity import default_header
from scrapy_rep.fetching.middleware import FetchMiddleware
from scrapy_rep.fetching.request import RobotsTxtRequest
from scrapy_rep.frontier.frontier import Frontier
from scrapy_rep.frontier.hostkeys import host_of, is_of_http, origin_at
from scrapy_rep.frontier.hosts import Hosts
from scrapy_rep.frontier.pauses import ASKS_FOR_PAUSE, duration, pause_in
from scrapy_rep.frontier.reach import Reach
from scrapy_rep.frontier.reporter import BACK_OFF, Case, DecisionReporter
from scrapy_rep.log import CrawlLog
from scrapy_rep.protocol.request_target import is_robotstxt
from scrapy_rep.settings import OBEY, RepSettings

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.internet.defer import Deferred

    from scrapy_rep.fetching.request import Causes
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robotstxt.pace import Pace

# The most requests that wait for a verdict after they were sent. Further ones are not judged.
_MAX_WAITING = 10_000

# The seconds that robots.txt files may still take when the spider closes early, and after the last
# page was sent; and those between two checks for this.
_CLOSING_WAITS = 5.0
_END_WAITS = 90.0
_CHECK_EVERY = 0.2

# The first pause, in seconds, after a 429 or 503 that does not say how long to wait.
_FIRST_PAUSE = 1.0

# The number of hosts that the log names at the end.
_SLOWEST_NAMED = 5

_SCRAPYS_REFUSAL = "Forbidden by robots.txt"


class DryRun:
    """Takes the place of RobotsTxtMiddleware in a dry run.

    A request is judged as soon as its robots.txt is known, which may be long after it was answered.
    robots.txt files are fetched in the background, one request at a time for a host, each in a
    download slot of its own, so that no page waits for it.
    """

    def __init__(self, crawler: Crawler) -> None:
        register(crawler, None)
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._settings = settings = RepSettings.of(crawler)
        self._own = FetchMiddleware(crawler)
        self._reach = Reach.of(crawler)
        self._reach.has_judge = True
        self._reporter = DecisionReporter.of(crawler)
        frontier = Frontier.of(crawler)
        self._clock, self._alarms = frontier.clock, frontier.alarms
        self._hosts = Hosts(crawler, frontier, settings, self._reporter)
        self._judge = Judge(crawler, settings, frontier, self._hosts, self._reporter)
        self._waiting: dict[Origin, tuple[Causes, list[Case]]] = {}
        """The requests that were sent before their robots.txt was known."""

        self._waiting_count = 0
        self._fetches: set[Deferred[None]] = set()
        self._timetable = Timetable()
        self._closed: set[Origin] = set()
        """Those that wanted no visits when a request was judged."""

        self._began = self._last_sent = self._clock.monotonic()
        self._closing_since = inf
        crawler.signals.connect(self._spider_opened, signals.spider_opened)
        crawler.signals.connect(self._spider_idle, signals.spider_idle)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    # Requests and responses.

    def process_request(self, request: Request) -> None:
        if isinstance(request, RobotsTxtRequest):
            self._own.process_request(request)
            # In the slot of the host, the pages would wait for it.
            request.meta["download_slot"] = f"robots.txt of {host_of(request)}"
            if request.fetch.is_judged:
                self._judge.judge_own(request)
        elif is_of_http(request) and not _is_scrapys_own(request):
            self._last_sent = self._clock.monotonic()
            self._judge_request(request)

    def process_response(self, request: Request, response: Response) -> Response:
        if isinstance(request, RobotsTxtRequest):
            request.fetch.give_room_back()
            return self._own.process_response(request, response)
        if response.status in ASKS_FOR_PAUSE and self._settings.backoff_max:
            asked, said = pause_in(
                response.status, response.headers, self._clock.time()
            )
            if asked is None:
                asked = min(_FIRST_PAUSE, self._settings.backoff_max)
            call = partial(self._pause, request, response.url, asked, said)
            self._reach.when_open(request, call)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        self._own.process_exception(request, exception)
        if isinstance(request, RobotsTxtRequest):
            request.fetch.give_room_back()
        elif (
            isinstance(exception, IgnoreRequest) and str(exception) == _SCRAPYS_REFUSAL
        ):
            # Scrapy's own middleware has refused it, so it has not come here. Nor has it
            # come to the middleware that sets the header by which it is judged.
            header = default_header(self._crawler.settings, self._crawler.spider)
            request.headers.setdefault("User-Agent", header)
            self._judge_request(request)

    # Verdicts.

    def _judge_request(self, request: Request) -> None:
        """Judge *request* now, or when its robots.txt is known. Whatever goes wrong, it is sent."""
        try:
            self._begin(request)
        except Exception:
            self._logger.exception(
                "Error while judging %(request)s: the dry run does not count it",
                request=request,
            )

    def _begin(self, request: Request) -> None:
        if "retry_times" in request.meta:
            # A real run does not retry what it has refused.
            if self._reach.is_refused(request):
                return
            if self._reach.is_pending(request):
                again = partial(self._begin, request)
                self._reach.when_open(request, again)
                return
        self._reach.sent(request)
        case = self._judge.case(request)
        if self._is_paused_too_long(request):
            why = f"{host_of(request)} asked for a longer pause than REP_WAIT_MAX"
            self._reporter.refused(Case(request, case.origin, why=why), BACK_OFF)
            self._reach.judged(request, is_allowed=False)
        elif self._judge.lacks_file(case):
            self._wait(case)
        else:
            self._judge_case(case)

    def _judge_case(self, case: Case) -> None:
        request = case.request
        try:
            decision, pace = self._judge.judge(case)
        except RobotsDenied:
            self._reach.judged(request, is_allowed=False)
            return
        if pace is not None and pace.records:
            assert case.origin is not None
            self._note_pace(request, case.origin, pace)
        self._judge.allow(case, decision)
        self._reach.judged(request, is_allowed=True)

    # Time.

    def _note_pace(self, request: Request, origin: Origin, pace: Pace) -> None:
        demand = self._hosts.demand(pace)
        hosts, reach = self._hosts, self._reach
        if demand.delay:
            report = partial(hosts.report_delay, origin, pace, demand.delay)
            reach.when_reached(request, report)
            slot = slot_state(self._crawler, download_slot(self._crawler, request))
            delay = max(demand.delay, slot.delay if slot else 0.0)
            reach.when_open(request, partial(self._note_time, host_of(request), delay))
        if demand.opens_in and origin not in self._closed:
            self._closed.add(origin)
            reach.when_reached(request, partial(hosts.report_hours, origin, pace))

    def _note_time(self, host: str, delay: float) -> None:
        self._timetable.sent(host, delay)
        self._count_seconds()

    def _count_seconds(self) -> None:
        seconds = round(self._timetable.most, 3)
        self._crawler.stats.set_value(stats.DRY_RUN_SECONDS, seconds)

    def _pause(self, request: Request, url: str, pause: float, said: str) -> None:
        host = host_of(request)
        if self._timetable.paused(host, pause, self._clock.monotonic()):
            self._reporter.slowed("back-off", said, origin_at(url, request), url)
        self._count_seconds()

    def _is_paused_too_long(self, request: Request) -> bool:
        left = self._timetable.pause_left(host_of(request), self._clock.monotonic())
        return left > self._settings.wait_max

    # robots.txt files, in the background.

    def _wait(self, case: Case) -> None:
        request, origin = case.request, case.origin
        assert origin is not None
        self._crawler.stats.inc_value(stats.DRY_RUN_NOT_JUDGED)
        if self._waiting_count >= _MAX_WAITING:
            self._reach.judged(request, is_allowed=True)
            return
        self._waiting_count += 1
        found = self._waiting.get(origin)
        if found is not None:
            causes, cases = found
            causes.add(request)
            cases.append(case)
            return
        if not self._waiting:
            self._alarms.at(self._clock.monotonic() + _CHECK_EVERY, self._check)
        self._waiting[origin] = self._hosts.causes(request), [case]
        fetch = deferred_from_coro(self._learn(origin))
        self._fetches.add(fetch)
        fetch.addBoth(self._ended, fetch)

    async def _learn(self, origin: Origin) -> None:
        """Learn the robots.txt of *origin*, and judge the requests that wait for it."""
        causes, cases = self._waiting[origin]
        cache, known = self._hosts.cache, None
        try:
            found = cache.cached(origin) or await cache.learn(origin, causes)
            if any(
                self._judge.lacks_file(each._replace(known=found)) for each in cases
            ):
                tdmrep = await cache.tdmrep(found, causes)
                found = found._replace(tdmrep=tdmrep)
            known = found
        except (SpiderClosing, CancelledError, asyncio.CancelledError):
            pass
        finally:
            del self._waiting[origin]
            self._waiting_count -= len(cases)
            for case in cases:
                if known is None:
                    self._reach.judged(case.request, is_allowed=True)
                else:
                    self._crawler.stats.inc_value(stats.DRY_RUN_NOT_JUDGED, -1)
                    self._judge_case(case._replace(known=known))

    def _ended(self, result: object, fetch: Deferred[None]) -> object:
        self._fetches.discard(fetch)
        wake(self._crawler)
        return result

    def _check(self) -> None:
        """Cancel the fetches if the end of the crawl has waited for them for long enough."""
        if not self._waiting:
            return
        now = self._clock.monotonic()
        if is_closing(self._crawler):
            self._closing_since = min(self._closing_since, now)
        if (
            now - self._closing_since > _CLOSING_WAITS
            or now - self._last_sent > _END_WAITS
        ):
            self._cancel()
        self._alarms.at(now + _CHECK_EVERY, self._check)

    def _cancel(self) -> None:
        for causes, _ in self._waiting.values():
            # Otherwise the cache would count these files as unreachable.
            causes.clear()
        for fetch in list(self._fetches):
            fetch.cancel()

    # The crawl.

    def _spider_opened(self) -> None:
        self._began = self._clock.monotonic()
        settings = self._crawler.settings
        self._logger.info(
            "This is a dry run (REP_DRY_RUN): robots.txt files are fetched, and each request, link "
            "and item is judged, but nothing is refused, dropped, delayed or held back. The "
            "last lines of the log say what a real run would have withheld"
        )
        if self._settings.obey:
            self._logger.info(
                "ROBOTSTXT_OBEY is True in this project: Scrapy's own RobotsTxtMiddleware "
                "refuses what it refuses without scrapy-rep, and fetches each robots.txt too"
            )
        elif settings.getpriority(OBEY):
            self._logger.info(
                "ROBOTSTXT_OBEY is False in this project: a real run would ignore robots.txt. This "
                "dry run shows what it would refuse without that setting"
            )

    def _spider_idle(self) -> None:
        if self._waiting:
            raise DontCloseSpider

    def _spider_closed(self) -> None:
        self._cancel()
        counts = self._crawler.stats.get_value
        if not_met := counts(stats.DRY_RUN_NOT_MET, 0):
            self._logger.info(
                "Other requests that a real run would not have made: %(count)s. Their URLs are "
                "only on pages that it would not have fetched, or in links that it would not have "
                "followed",
                count=f"{not_met:,}",
            )
        if not_judged := counts(stats.DRY_RUN_NOT_JUDGED, 0):
            self._logger.info(
                "Requests that were not judged: %(count)s. Too many waited for robots.txt files "
                "at once, or the crawl has ended before these came",
                count=f"{not_judged:,}",
            )
        if self._timetable.most >= 1:
            message = (
                "A real run would have taken at least %(time)s, by the delays and pauses of its "
                "slowest host; this dry run has taken %(elapsed)s"
            )
        else:
            message = (
                "No host has asked for a delay or a pause: a real run would have taken no longer "
                "than this dry run (%(elapsed)s)"
            )
        self._logger.info(
            message,
            time=duration(self._timetable.most),
            elapsed=duration(self._clock.monotonic() - self._began),
        )
        for host, found in self._timetable.slowest()[:_SLOWEST_NAMED]:
            self._logger.info(
                "%(host)s would have taken at least %(time)s: %(requests)s requests with a delay of "
                "%(delay)g s, and pauses of %(paused)s",
                host=host,
                time=duration(found.seconds),
                requests=f"{found.requests:,}",
                delay=found.delay,
                paused=duration(found.paused),
            )


def _is_scrapys_own(request: Request) -> bool:
    """Whether *request* is of Scrapy's own RobotsTxtMiddleware, for a robots.txt."""
    return (
        request.callback is NO_CALLBACK
        and is_robotstxt(request.url)
        and bool(request.meta.get(meta.DONT_OBEY_ROBOTSTXT))
    )
