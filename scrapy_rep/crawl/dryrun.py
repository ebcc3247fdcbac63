"""The dry run: judges each request by robots.txt as the gate does, and reports what a real run would refuse. It refuses
and delays nothing.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING
from weakref import WeakSet

from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import CancelledError, Deferred

from scrapy_rep.base import meta, stats
from scrapy_rep.base.compat import download_slot, slot_state
from scrapy_rep.base.requests import host_of, is_exempt, is_of_http, request_origin
from scrapy_rep.base.settings import ignores_robotstxt
from scrapy_rep.crawl.fetching.cache import RobotsTxtCache
from scrapy_rep.crawl.fetching.fetcher import RobotsTxtFetcher
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.crawl.frontier.politeness import duration
from scrapy_rep.crawl.gate import Judge
from scrapy_rep.crawl.reporting import IF_OBEYED, Check
from scrapy_rep.exceptions import RobotsDenied, SpiderClosing
from scrapy_rep.protocol.request_target import is_robotstxt

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.protocol.access.site_rules import SiteRules
    from scrapy_rep.protocol.origins import Origin

# The maximum number of hosts with a delay that the log names at the end of a dry run.
_SLOWEST_NAMED = 5

_SCRAPYS_REFUSAL = "Forbidden by robots.txt"


class DryRun(Judge):
    """Takes the place of this package's :class:`RobotsTxtMiddleware` in a dry run. Judges each request by the same
    rules, reports the requests that a real run would refuse, and refuses none.

    Each request waits until its robots.txt was fetched, or the fetch failed. Unlike in a real run, requests do not wait
    for delays and pauses.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._clock = self._frontier.clock
        # This fetcher sends requests for robots.txt regardless of the frontier's limits. In a dry run, page requests do
        # not wait for these limits, and can exceed them during the whole crawl. So if requests for robots.txt waited
        # for the limits, they might never be sent.
        fetcher = RobotsTxtFetcher(crawler, self._settings)
        self._cache = RobotsTxtCache(
            crawler, fetcher, self._settings, self._reporter, self._clock
        )
        self._sent: Counter[str] = Counter()
        """For each host that asks for a delay, the number of requests to the host."""

        self._delays: dict[str, float] = {}
        """For each host that asks for a delay, the longest delay in seconds."""

        self._judged: WeakSet[Request] = WeakSet()
        self._began = self._clock.monotonic()
        crawler.signals.connect(self._spider_opened, signals.spider_opened)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    # Requests.

    async def process_request(self, request: Request) -> None:
        if isinstance(request, RobotsTxtRequest):
            request.reached_middleware()
        elif is_of_http(request) and not _is_scrapys_own(request):
            await self._judge_request(request)

    async def process_exception(self, request: Request, exception: Exception) -> None:
        is_refusal = isinstance(exception, IgnoreRequest)
        if is_refusal and str(exception) == _SCRAPYS_REFUSAL:
            # Scrapy's own RobotsTxtMiddleware has the same order in DOWNLOADER_MIDDLEWARES as this
            # middleware. Scrapy's middleware got the request first, and refused it.
            await self._judge_request(request, is_refused_by_scrapy=True)

    # Verdicts.

    async def _judge_request(
        self, request: Request, *, is_refused_by_scrapy: bool = False
    ) -> None:
        """Wait until the robots.txt of *request* is known. Then judge *request*, and report the result. An unexpected
        error is logged, and does not keep *request* from being sent. *is_refused_by_scrapy* is whether Scrapy's own
        RobotsTxtMiddleware has refused *request*.
        """
        if request in self._judged:
            return
        self._judged.add(request)
        self._crawler.stats.inc_value(stats.DRY_RUN_REQUESTS)
        try:
            check = Check(request, request_origin(request))
            check.is_exempt = is_exempt(request)
            check.is_refused_by_scrapy = is_refused_by_scrapy
            if not self.look_up(check):
                assert check.origin is not None
                check.rules = await self._known(check.origin, request)
            decision, pace = self.judge(check, self._identity.tokens(request))
            self.allow(check, decision)
        except CancelledError:
            raise
        except (RobotsDenied, SpiderClosing):
            return
        except Exception:
            self._logger.exception(
                "Error while judging %(request)s. The dry run does not report whether a real run would refuse "
                "this request",
                request=request,
            )
            return
        delay = 0.0 if pace is None else self._settings.delay(pace)
        if delay:
            assert pace is not None
            assert check.origin is not None
            self._frontier.politeness.report_delay(check.origin, pace)
            self._estimate_duration(request, delay)

    async def _known(self, origin: Origin, request: Request) -> SiteRules:
        """Wait until the robots.txt of *origin* was fetched, or the fetch failed. Return the rules of *origin*.
        *request* is the request that needs the rules.
        """
        # The fetch runs in a task of its own. So if *request* is cancelled, the fetch continues, because other requests
        # may wait for the same robots.txt.
        site_rules: Deferred[SiteRules] = Deferred()
        learn = self._cache.learn(origin, [request])
        task = deferred_from_coro(learn)
        task.addCallbacks(site_rules.callback, site_rules.errback)
        return await maybe_deferred_to_future(site_rules)

    def _estimate_duration(self, request: Request, delay: float) -> None:
        """Add *request* to the number of requests to its host. Then update the stat ``rep/dry_run/seconds``, which is
        an estimate: the number of seconds that a real run would take for its slowest host. *delay* is the number of
        seconds that a real run would wait between two requests to the host of *request*.
        """
        slot = slot_state(self._crawler, download_slot(self._crawler, request))
        host, delays = host_of(request), self._delays
        self._sent[host] += 1
        delays[host] = max(delays.get(host, 0.0), delay, slot.delay)
        seconds = round(self._sent[host] * delays[host], 3)
        self._crawler.stats.max_value(stats.DRY_RUN_SECONDS, seconds)

    # The start and the end of the crawl.

    def _spider_opened(self) -> None:
        self._began = self._clock.monotonic()
        if self._settings.obey:
            self._logger.info(
                "ROBOTSTXT_OBEY is True in this project, so Scrapy's RobotsTxtMiddleware stays active in this dry "
                "run: this middleware still refuses requests, and fetches each robots.txt a second time. The numbers "
                "at the end of this log include the requests that it refuses"
            )
        elif ignores_robotstxt(self._crawler.settings):
            self._logger.info(
                "ROBOTSTXT_OBEY is False in this project: a real run would ignore robots.txt. This "
                "dry run shows what a real run with ROBOTSTXT_OBEY = True would refuse"
            )

    def _spider_closed(self) -> None:
        self._logger.at_end(
            logging.INFO,
            "This dry run has judged %(requests)s requests in %(elapsed)s. A real run would make fewer requests, "
            "because it would not fetch some of the pages whose links this dry run followed. So the numbers of "
            "requests are upper limits",
            requests=f"{self._crawler.stats.get_value(stats.DRY_RUN_REQUESTS, 0):,}",
            elapsed=duration(self._clock.monotonic() - self._began),
        )
        times = {host: self._sent[host] * delay for host, delay in self._delays.items()}
        slowest = sorted(times.items(), key=lambda host: -host[1])
        ignores = ignores_robotstxt(self._crawler.settings)
        for host, seconds in slowest[:_SLOWEST_NAMED]:
            self._logger.at_end(
                logging.INFO,
                "A real run%(condition)s would take up to %(time)s for %(host)s: %(requests)s requests with a "
                "delay of %(delay)g s",
                condition=IF_OBEYED if ignores else "",
                host=host,
                time=duration(seconds),
                requests=f"{self._sent[host]:,}",
                delay=self._delays[host],
            )


def _is_scrapys_own(request: Request) -> bool:
    """Whether *request* is for a robots.txt, and from Scrapy's own RobotsTxtMiddleware."""
    return (
        request.callback is NO_CALLBACK
        and is_robotstxt(request.url)
        and bool(request.meta.get(meta.DONT_OBEY_ROBOTSTXT))
    )
