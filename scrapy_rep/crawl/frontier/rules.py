"""Obtains the rules of sites from the setting ``REP_OVERRIDES``, from the cache of robots.txt files, or by fetching
robots.txt.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from scrapy_rep.base.compat import concurrent_requests, is_closing, is_interactive
from scrapy_rep.base.identity import Identity
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import bare_host
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.fetching.cache import RobotsTxtCache
from scrapy_rep.crawl.fetching.fetcher import RobotsTxtFetcher
from scrapy_rep.crawl.fetching.request import add_template
from scrapy_rep.crawl.frontier.politeness import duration
from scrapy_rep.crawl.frontier.sites import FetchStage, Phase
from scrapy_rep.crawl.reporting import DecisionReporter
from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.protocol.access.entries import State
from scrapy_rep.protocol.access.freshness import pause_asked
from scrapy_rep.protocol.access.results import Failure as FailureKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from scrapy_rep.base.clock import Clock
    from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
    from scrapy_rep.crawl.frontier.limits import Limits
    from scrapy_rep.crawl.frontier.politeness import Politeness
    from scrapy_rep.crawl.frontier.sites import Site
    from scrapy_rep.protocol.access.entries import CacheEntry
    from scrapy_rep.protocol.access.site_rules import SiteRules
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robots import RobotsTxt

# A queue of the scheduler is ready if it has a request that may be sent now. While fewer than _MIN_READY queues are
# ready, the crawl fetches the robots.txt files that the other queues wait for. If 2 * CONCURRENT_REQUESTS is larger
# than _MIN_READY, 2 * CONCURRENT_REQUESTS is used instead.
_MIN_READY = 64

# The minimum time, in seconds, before a robots.txt is fetched again. It prevents a busy loop if the clock is wrong.
_MIN_RETRY = 0.1

# The maximum time, in seconds, for which requests wait if the host has no server (connection refused, unknown host
# name). At the end of this time, robots.txt is fetched again. If that fails too, the requests are refused.
_NO_SERVER_WAIT = 10.0


class Rules:
    """Obtains the rules of sites and passes them to :class:`Limits`. The rules come from ``REP_OVERRIDES``, from the
    cache, or from a fetch of robots.txt. All requests that wait for the rules of a site share one fetch.
    """

    def __init__(
        self,
        crawler: Crawler,
        limits: Limits,
        politeness: Politeness,
        clock: Clock,
        *,
        take_room: Callable[[RobotsTxtRequest], Awaitable[None]],
        free_room: Callable[[RobotsTxtRequest], None],
        flush: Callable[[], None],
    ) -> None:
        """Create the object that obtains the rules of a crawl. Three parameters are methods of the frontier:

        :param take_room: waits until the limits of the host (concurrency, delays, pauses) allow a request for
            robots.txt. Then counts the request towards these limits
        :param free_room: stops counting the request towards these limits, because the request was not sent
        :param flush: wakes the waiting requests for which *limits* has decided. Each of them continues or is refused
        """
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._limits = limits
        self._politeness = politeness
        self._clock = clock
        self._take_room = take_room
        self._flush = flush
        self._settings = settings = RepSettings.of(crawler)
        self._identity = Identity.of(crawler)
        self.fetcher = RobotsTxtFetcher(
            crawler, settings, self._wait, free_room, self._is_own_fault
        )
        self.cache = RobotsTxtCache(
            crawler, self.fetcher, settings, DecisionReporter.of(crawler), clock
        )
        self.fetches: dict[Site, Deferred[None]] = {}
        """The fetches of robots.txt that are under way, by site."""

        self._max_fetches = concurrent_requests(crawler)
        """The maximum number of robots.txt files that are fetched at the same time. While any queue of the scheduler
        has a request that may be sent now, at most half as many are fetched."""

        self._min_ready = max(_MIN_READY, 2 * self._max_fetches)
        self._waiting = 0
        """The number of requests for robots.txt that wait until the delays and limits of their hosts allow them."""

    # Rules that are known without a fetch.

    def tell_known(self, site: Site) -> None:
        """Pass the rules of *site* to the limits, if they are known without a fetch: an override applies, or the cache
        contains the site's robots.txt. Do nothing if requests already wait for a fetch (the site's phase is AWAITED or
        DOWN).
        """
        if site.phase in {Phase.AWAITED, Phase.DOWN}:
            return
        site_rules, outage = self.cache.cached(site.origin), site.outage
        if (
            site_rules
            and outage is not None
            and site_rules.entry == outage.last_result.entry
        ):
            return  # The limits already know this result: robots.txt is unreachable.
        if not self._tell_limits(site, site_rules, is_new=False) and outage is not None:
            # The cached result expired before retry_at. This happens after the machine slept, because the wall clock
            # continues during sleep and the monotonic clock may not. Let robots.txt be fetched again now.
            outage.retry_at = -inf

    def _tell_limits(
        self, site: Site, site_rules: SiteRules | None, *, is_new: bool
    ) -> bool:
        """Tell the limits what is known about *site*. *site_rules* is the result of the last fetch of its robots.txt;
        None if there is no result. *is_new* is True if this fetch has just ended. There are three cases:

        - An override applies, or *site_rules* contains rules: the limits get the rules. Return True.
        - No override applies, and robots.txt is unreachable: the limits record this. Return True.
        - There is neither an override nor a result: nothing changes. Return False.
        """
        if site_rules and site_rules.state is not State.UNREACHABLE:
            self._limits.network.worked_before()
        decision, outage = self._deciding(site.origin, site_rules), site.outage
        if decision is None:
            if site_rules is not None:
                self._note_unreachable(site, site_rules)
            return site_rules is not None
        (robots, seconds), now = decision, self._clock.monotonic()
        if robots is not None:
            # The first delay is measured from the last fetch of robots.txt (site_rules). If an override applies,
            # robots.txt is usually not fetched, and site_rules is None. But robots.txt can have been fetched to find
            # out whether the crawler's own network works again.
            pace = self._identity.pace(robots)
            host = self._limits.limiter(bare_host(site.origin))
            self._politeness.keep_pace(host, site.origin, pace, site_rules)
        self._limits.learned(site, now, now + seconds, is_new=is_new)
        if outage is not None and site_rules is not None:
            self._logger.info(
                "%(url)s is reachable again after %(time)s (%(result)s). Requests to this host continue",
                url=site.origin.robotstxt_url,
                result=site_rules.entry.result,
                time=duration(now - outage.since),
            )
        return True

    def _deciding(
        self, origin: Origin, site_rules: SiteRules | None
    ) -> tuple[RobotsTxt | None, float] | None:
        """Return the rules that apply to requests to *origin*, and the time, in seconds, for which they stay fresh.
        The rules of an override replace the rules in *site_rules*. The rules are None if an override allows everything.

        Return None instead of the tuple if there is no override, and robots.txt is unreachable or was not fetched yet.
        """
        override = self.cache.override(origin)
        if override is not None:
            return override.robots, override.ends - self._clock.time()
        if site_rules is None or site_rules.state is State.UNREACHABLE:
            return None
        return site_rules.robots, site_rules.entry.expires - self._clock.time()

    # Fetching robots.txt.

    def begin_fetches(self) -> None:
        """Begin to fetch the robots.txt files that requests in the downloader wait for. If fewer than ``_min_ready`` of
        the scheduler's queues have a request that may be sent now, also begin to fetch the robots.txt files that
        requests in the scheduler wait for.

        At most ``CONCURRENT_REQUESTS`` robots.txt files are fetched at the same time. If any queue has a request that
        may be sent now, the maximum is half of this number. A fetch does not count while its request for robots.txt
        waits for the limits of the host.
        """
        limits = self._limits
        ready = limits.ready.count
        most = max(self._max_fetches // 2, 1) if ready else self._max_fetches
        while len(self.fetches) - self._waiting < most and not limits.network.is_gone:
            # While the spider closes, no request could use the rules.
            if not (limits.urgent or limits.wanted) or is_closing(self._crawler):
                return
            site = limits.next_wanted(is_needed=ready < self._min_ready)
            if site is None:
                return
            self._begin(site)

    def _begin(self, site: Site, newer_than: CacheEntry | None = None) -> None:
        # Run the fetch in a separate task, so that cancelling one request does not fail the other waiting requests.
        task = deferred_from_coro(self._fetch(site, newer_than))
        if site.fetch_stage is FetchStage.UNDER_WAY:
            self.fetches[site] = task
        # Ignore cancellations. Twisted logs all other errors.
        task.addErrback(Failure.trap, CancelledError, asyncio.CancelledError)

    def fetch_fewer(self) -> None:
        """Halve the maximum number of robots.txt files that are fetched at the same time."""
        self._max_fetches = max(self._max_fetches // 2, 1)

    def try_network(self, origin: Origin) -> bool:
        """Begin to fetch the robots.txt of *origin*, even if the cached copy is fresh, to find out whether the
        crawler's own network is back. Return False, and do nothing, if this robots.txt is already being fetched.
        """
        site = self._limits.site(origin)
        if site.fetch_stage is FetchStage.UNDER_WAY:
            return False
        self._limits.begin_fetch(site)
        site_rules = self.cache.cached(origin)
        self._begin(site, None if site_rules is None else site_rules.entry)
        return True

    def add_template(self, site: Site, request: Request) -> None:
        """Let the request for the robots.txt of *site* use the proxy and the User-Agent of *request*. *request* (the
        template) is a page request that waits for the rules of *site*. Do nothing if a request with the same proxy was
        added before.
        """
        if site.templates is None:
            site.templates = [request]
        else:
            add_template(site.templates, request)

    async def _fetch(self, site: Site, newer_than: CacheEntry | None) -> None:
        """Get the rules of *site*, pass them to the limits, and let the waiting requests continue. If the cache
        contains a fresh robots.txt, the cached robots.txt is used. Otherwise, robots.txt is fetched.

        If *newer_than*, a cache entry, is not None, a cached robots.txt is used only if it was fetched later than this
        entry.
        """
        if site.templates is None:
            # To save memory, the request whose proxy and headers are copied (the template) is added only now, when the
            # fetch begins: very many sites may be waiting for their fetch at the same time.
            queue = next(iter(site.parked or ()), None)
            request = None if queue is None else queue.requests.peek()
            self.add_template(site, request or Request(str(site.origin)))
        assert site.templates is not None
        site_rules = None
        try:
            # During an outage, the result of the last failed fetch can still be fresh, but must not be used again.
            newer_than = (
                newer_than if site.outage is None else site.outage.last_result.entry
            )
            site_rules = await self.cache.learn(
                site.origin, site.templates, stale=newer_than
            )
        except (SpiderClosing, CancelledError, asyncio.CancelledError):
            pass
        finally:
            # All waiting requests must continue even after an error.
            self.fetches.pop(site, None)
            self._limits.end_fetch(site)
            if not self._tell_limits(site, site_rules, is_new=True):
                self._limits.no_result(site, self._clock.monotonic())
            self._flush()

    async def _wait(self, request: RobotsTxtRequest) -> None:
        """Wait until the limits of the host (concurrency, delays, pauses) allow *request* to be sent. While *request*
        waits, it does not count towards the maximum number of fetches.
        """
        # If waiting requests counted, a few robots.txt files that redirect to hosts with long delays could use up the
        # maximum and block all other fetches.
        self._waiting += 1
        try:
            self._flush()  # Begin another fetch while this request waits.
            await self._take_room(request)
        finally:
            self._waiting -= 1

    def _is_own_fault(self, failure: FailureKind) -> bool:
        """Whether *failure* has a cause on the crawler's side: the machine ran out of file descriptors or ports, or
        the crawler's own network is gone.
        """
        if failure in {FailureKind.NETWORK, FailureKind.NO_SERVER}:
            return self._limits.network.is_gone
        return failure is FailureKind.OWN

    # Unreachable sites.

    def _note_unreachable(self, site: Site, site_rules: SiteRules) -> None:
        """Record in the limits that the robots.txt of *site* is unreachable, so that requests to the site wait, and are
        refused if the outage is too long. Log a warning when requests begin to wait, and a second warning when they
        begin to be refused. If the site has no requests, log nothing.

        The requests wait for up to ``REP_WAIT_TIMEOUT`` seconds after robots.txt became unreachable. If the host has no
        server (connection refused, unknown host name), this time is at most 10 seconds. The requests are refused
        immediately in two cases: a component of the project dropped the request for robots.txt, or the command is
        ``scrapy shell``, ``fetch`` or ``view``, in which a person waits for the page.
        """
        before = site.phase
        count = sum(queue.count for queue in site.parked or ()) + len(
            site.waiters or ()
        )
        result, now = site_rules.entry.result, self._clock.monotonic()
        retry = max(site_rules.entry.expires - self._clock.time(), _MIN_RETRY)
        wait = self._settings.wait_timeout
        if result.failure is FailureKind.DROPPED or is_interactive(self._crawler):
            wait = 0.0
        elif result.failure is FailureKind.NO_SERVER:
            wait = min(wait, _NO_SERVER_WAIT)
        self._limits.unreachable(
            site,
            now,
            now + retry,
            wait=wait,
            is_asked=pause_asked(result.headers, site_rules.entry.fetched) is not None,
            result=site_rules,
        )
        outage = site.outage
        # Log one warning for each change of the phase.
        if outage is not None and site.phase is not before and count:
            if site.phase is Phase.REFUSED:
                is_still = before is Phase.DOWN
                after = f" after {duration(now - outage.since)}"
                self._logger.warning(
                    "%(url)s is%(still)s unreachable (%(result)s)%(after)s: requests to this host are refused for "
                    "%(retry)s (%(count)d requests so far). After this time, robots.txt is fetched again for the next "
                    "request. The maximum wait before a refusal is set by REP_WAIT_TIMEOUT",
                    url=site.origin.robotstxt_url,
                    still=" still" if is_still else "",
                    result=result,
                    after=after if is_still else "",
                    count=count,
                    retry=duration(outage.retry_at - now),
                )
            else:
                self._logger.warning(
                    "%(url)s is unreachable (%(result)s): requests to this host wait for up to %(wait)s "
                    "(%(count)d requests so far). The maximum wait is set by REP_WAIT_TIMEOUT. robots.txt is fetched "
                    "again in %(retry)s at the earliest",
                    url=site.origin.robotstxt_url,
                    result=result,
                    wait=duration(wait),
                    count=count,
                    retry=duration(outage.retry_at - now),
                )

    def cancel_if_alone(self, site: Site) -> None:
        """Cancel the fetch of the robots.txt of *site* if no request waits for the rules any more. Do nothing if any
        request still waits, or if no fetch is under way. A cancelled fetch leaves no result.
        """
        task = self.fetches.get(site)
        if task is not None and not site.has_waiting and site.phase is Phase.AWAITED:
            if site.templates is not None:
                # The fetcher shares this list of requests that wait for the rules. The list is cleared so that the
                # cancelled fetch ends without a result. If the list contained a request, the fetcher would assume that
                # another component cancelled the download, and would return an error as the result.
                site.templates.clear()
                site.templates = None
            task.cancel()

    def close(self) -> None:
        """Cancel all fetches of robots.txt."""
        for task in list(self.fetches.values()):
            task.cancel()
