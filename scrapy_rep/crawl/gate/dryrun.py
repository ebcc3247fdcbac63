"""The downloader middleware of a dry run: it judges each request, and refuses none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import CancelledError, Deferred

from scrapy_rep.base import meta, stats
from scrapy_rep.base.compat import download_slot, slot_state
from scrapy_rep.base.identity import default_header
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import host_of, is_of_http
from scrapy_rep.base.settings import OBEY, RepSettings
from scrapy_rep.crawl.decisions import DecisionReporter
from scrapy_rep.crawl.fetching.request import FetchMiddleware, RobotsTxtRequest
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.crawl.frontier.politeness import duration
from scrapy_rep.crawl.frontier.rules import HostRules
from scrapy_rep.crawl.gate.judge import Judge
from scrapy_rep.exceptions import RobotsDenied, SpiderClosing
from scrapy_rep.protocol.request_target import is_robotstxt

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.protocol.access.results import SiteRules
    from scrapy_rep.protocol.origins import Origin

# The number of hosts that the log names at the end.
_SLOWEST_NAMED = 5

_SCRAPYS_REFUSAL = "Forbidden by robots.txt"


@dataclass(slots=True)
class _HostTime:
    """What a real run would send to a host that asks for a delay."""

    requests: int = 0
    delay: float = 0.0
    """The longest delay, in seconds."""

    @property
    def seconds(self) -> float:
        return self.requests * self.delay


class DryRun:
    """Takes the place of RobotsTxtMiddleware in a dry run.

    It judges requests as that does, reports what would be refused, and lets everything pass. A
    request waits until its robots.txt is known or unreachable, as in stock Scrapy, and for nothing
    else.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._settings = settings = RepSettings.of(crawler)
        self._own = FetchMiddleware(crawler)
        frontier, reporter = Frontier.of(crawler), DecisionReporter.of(crawler)
        self._frontier, self._clock = frontier, frontier.clock
        self._politeness = frontier.politeness
        self._rules = HostRules(
            crawler, frontier.core, frontier.politeness, frontier.clock
        )
        self._judge = Judge(crawler, settings, frontier, self._rules, reporter)
        self._times: dict[str, _HostTime] = {}
        self._began = self._clock.monotonic()
        crawler.signals.connect(self._spider_opened, signals.spider_opened)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    # Requests and responses.

    async def process_request(self, request: Request) -> None:
        if isinstance(request, RobotsTxtRequest):
            self._own.process_request(request)
        elif is_of_http(request) and not _is_scrapys_own(request):
            await self._judge_request(request)

    def process_response(self, request: Request, response: Response) -> Response:
        return self._own.process_response(request, response)

    async def process_exception(self, request: Request, exception: Exception) -> None:
        self._own.process_exception(request, exception)
        if isinstance(request, RobotsTxtRequest):
            return
        if isinstance(exception, IgnoreRequest) and str(exception) == _SCRAPYS_REFUSAL:
            # Scrapy's own middleware has refused it, so it has not come here. Nor has it
            # come to the middleware that sets the header by which it is judged.
            header = default_header(self._crawler.settings, self._crawler.spider)
            request.headers.setdefault("User-Agent", header)
            await self._judge_request(request, is_refused_by_scrapy=True)

    # Verdicts.

    async def _judge_request(
        self, request: Request, *, is_refused_by_scrapy: bool = False
    ) -> None:
        """Judge *request* when its robots.txt is known. Whatever goes wrong, it is sent, unless it
        *is_refused_by_scrapy*.
        """
        self._crawler.stats.inc_value(stats.DRY_RUN_REQUESTS)
        try:
            case = self._frontier.trip_of(request)
            case.is_refused_by_scrapy = is_refused_by_scrapy
            if not self._judge.look_up(case):
                assert case.origin is not None
                case.known = await self._known(case.origin, request)
            decision, pace = self._judge.judge(case)
            self._judge.allow(case, decision)
        except CancelledError:
            raise
        except (RobotsDenied, SpiderClosing):
            return
        except Exception:
            self._logger.exception(
                "Error while judging %(request)s: the dry run does not count it",
                request=request,
            )
            return
        delay = 0.0 if pace is None else self._settings.delay(pace)
        if delay:
            assert pace is not None
            assert case.origin is not None
            self._politeness.report_delay(case.origin, pace)
            self._note_delay(request, delay)

    async def _known(self, origin: Origin, request: Request) -> SiteRules:
        """Return the files of *origin*, once they are known or unreachable."""
        # In a task of its own: if *request* is cancelled, others that wait go on.
        known: Deferred[SiteRules] = Deferred()
        learn = self._rules.cache.learn(origin, [request])
        task = deferred_from_coro(learn)
        task.addCallbacks(known.callback, known.errback)
        return await maybe_deferred_to_future(known)

    def _note_delay(self, request: Request, delay: float) -> None:
        slot = slot_state(self._crawler, download_slot(self._crawler, request))
        found = self._times.setdefault(host_of(request), _HostTime())
        found.requests += 1
        found.delay = max(found.delay, delay, slot.delay if slot else 0.0)
        self._crawler.stats.max_value(stats.DRY_RUN_SECONDS, round(found.seconds, 3))

    # The crawl.

    def _spider_opened(self) -> None:
        self._began = self._clock.monotonic()
        self._logger.info(
            "This is a dry run (REP_DRY_RUN): robots.txt files are fetched, and each request, link "
            "and item is judged, but nothing is refused, dropped, delayed or held back. The "
            "last lines of the log say what a real run would withhold"
        )
        if self._settings.obey:
            self._logger.info(
                "ROBOTSTXT_OBEY is True in this project: Scrapy's RobotsTxtMiddleware stays active, "
                "refuses as before, and fetches each robots.txt a second time. What it refuses is "
                "part of the numbers below"
            )
        elif self._crawler.settings.getpriority(OBEY):
            self._logger.info(
                "ROBOTSTXT_OBEY is False in this project: a real run would ignore robots.txt. This "
                "dry run shows what it would refuse without that setting"
            )

    def _spider_closed(self) -> None:
        self._logger.info(
            "This dry run has judged %(requests)s requests in %(elapsed)s. Pages behind requests "
            "and links that a real run would withhold count as well, so its numbers are "
            "upper limits",
            requests=f"{self._crawler.stats.get_value(stats.DRY_RUN_REQUESTS, 0):,}",
            elapsed=duration(self._clock.monotonic() - self._began),
        )
        slowest = sorted(self._times.items(), key=lambda each: -each[1].seconds)
        for host, found in slowest[:_SLOWEST_NAMED]:
            self._logger.info(
                "A real run would take up to %(time)s for %(host)s: %(requests)s requests with a "
                "delay of %(delay)g s",
                host=host,
                time=duration(found.seconds),
                requests=f"{found.requests:,}",
                delay=found.delay,
            )


def _is_scrapys_own(request: Request) -> bool:
    """Whether *request* is of Scrapy's own RobotsTxtMiddleware, for a robots.txt."""
    return (
        request.callback is NO_CALLBACK
        and is_robotstxt(request.url)
        and bool(request.meta.get(meta.DONT_OBEY_ROBOTSTXT))
    )
