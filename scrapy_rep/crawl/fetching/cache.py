"""The cache of the rules of sites, which are the parsed robots.txt and tdmrep.json of each origin. The cache looks for
the rules of an origin in memory, and then in the store. If they are in neither, it fetches the files from the origin's
server. An override in the setting ``REP_OVERRIDES`` replaces the robots.txt of an origin.
"""

from __future__ import annotations

import random
from logging import DEBUG, INFO
from math import inf
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred, succeed

from scrapy_rep.base import stats
from scrapy_rep.base.compat import HAS_ROBOTS_PARSED_SIGNAL, is_heard
from scrapy_rep.base.identity import Identity
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.crawl.fetching.memory import Memory
from scrapy_rep.crawl.fetching.store import open_client
from scrapy_rep.crawl.reporting import Check, DecisionReporter
from scrapy_rep.protocol.access.entries import (
    TDMREP,
    CacheEntry,
    State,
    renew,
    with_tdmrep,
)
from scrapy_rep.protocol.access.freshness import MIN_AGE
from scrapy_rep.protocol.access.overrides import override_for
from scrapy_rep.protocol.access.results import Access, AccessResult
from scrapy_rep.protocol.access.site_rules import SiteRules, robots_of
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.request_target import decide
from scrapy_rep.protocol.usage.statements import MINING
from scrapy_rep.signals import robotstxt_known

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.base.clock import Clock
    from scrapy_rep.base.settings import RepSettings
    from scrapy_rep.crawl.fetching.fetcher import RobotsTxtFetcher
    from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
    from scrapy_rep.protocol.access.overrides import Override
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robots import RobotsTxt

# The maximum number of REP_OVERRIDES patterns to name in a log line.
_MAX_NAMED = 20

_LOCKED_STATUSES = frozenset({401, 403})


class RobotsTxtCache:
    """Returns the rules of an origin: from memory, from the store (``REP_STORE``), or by a fetch from the origin's
    server. The rules come from the origin's robots.txt. If the crawl has a purpose (``REP_PURPOSES``) that a
    tdmrep.json can disallow, the rules also come from the origin's tdmrep.json. This class also returns the override
    that replaces the robots.txt of an origin (``REP_OVERRIDES``).
    """

    def __init__(
        self,
        crawler: Crawler,
        fetcher: RobotsTxtFetcher,
        settings: RepSettings,
        reporter: DecisionReporter,
        clock: Clock,
    ) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._fetcher = fetcher
        self._settings = settings
        self._reporter = reporter
        self._clock = clock
        self._identity = Identity.of(crawler)
        self._needs_tdmrep = not MINING.isdisjoint(settings.purposes)
        self._store, max_bytes = open_client(crawler, settings.store)
        self._memory = Memory(max_bytes, self._read)
        self.stored: Deferred[None] = succeed(None)
        """Fires when the most recent write to the store has ended, whether it succeeded or failed. If nothing was
        written yet, this Deferred has already fired."""

        self._waiting_calls: dict[str, list[Deferred[None]]] = {}
        """The calls that wait for a file that another call is looking up or fetching. So a file is never fetched twice
        at the same time (single flight). Each key is the URL of a file. Its value contains one Deferred for each
        waiting call, and is empty if no other call waits."""

        self._overrides = settings.overrides
        """The overrides in ``REP_OVERRIDES``, without those whose end date has passed."""

        self._matched_patterns: set[str] = set()
        """The patterns of ``REP_OVERRIDES`` that matched the origin of a request. When the spider closes, the other
        patterns are logged, since they may be misspelt."""

        self._next_end = _first_end(self._overrides)
        self._locked_count = 0
        """How often a robots.txt had the status 401 or 403, so that everything was allowed. If the dialect denies
        everything for these statuses, they are not counted."""

        self._html_count = 0
        """How often a robots.txt was an HTML page without rules, so that everything was allowed."""

        crawler.signals.connect(self._spider_opened, signals.spider_opened)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    # Overrides.

    def override_for(self, origin: Origin) -> Override | None:
        """Return the override in ``REP_OVERRIDES`` that applies to *origin*. Return None if no override applies. Unlike
        :meth:`override`, this method also returns overrides of the kind ``"obey"``, which do not replace the
        robots.txt. Overrides whose end date has passed are ignored.
        """
        now = self._clock.time()
        if now >= self._next_end:
            self._end_overrides()
        override = override_for(self._overrides, origin, now)
        if override is not None:
            self._matched_patterns.add(override.pattern)
        return override

    def override(self, origin: Origin) -> Override | None:
        """Return the override that replaces the robots.txt of *origin*. Return None if the robots.txt itself applies:
        no override applies to *origin*, or the override that applies has the kind ``"obey"``.
        """
        override = self.override_for(origin) if self._overrides else None
        return None if override is None or override.kind == "obey" else override

    def _spider_opened(self) -> None:
        self._end_overrides()
        for override in self._overrides:
            for warning in override.warnings:
                # The warning begins with a line number, so the message reads "... REP_OVERRIDES['a.example'], line 3:
                # ...".
                self._logger.warning(
                    "Possible mistake in REP_OVERRIDES[%(pattern)r], %(warning)s",
                    pattern=override.pattern,
                    warning=warning,
                )

    def _end_overrides(self) -> None:
        """Remove the overrides whose end date has passed, and log each removed override."""
        now, overrides = self._clock.time(), self._overrides
        self._overrides = tuple(item for item in overrides if now < item.ends)
        self._next_end = _first_end(self._overrides)
        for override in overrides:
            if override.ends <= now:
                self._logger.warning("%(notice)s", notice=override.end_notice)

    # Looking up and fetching the rules of sites.

    def cached(self, origin: Origin) -> SiteRules | None:
        """Return the rules of *origin* from memory, if they can be used without a fetch. Otherwise, return None: the
        rules are not in memory, they are stale, or the crawl still needs the tdmrep.json of the origin. The caller
        then calls :meth:`learn` to get the rules.
        """
        rules = self._memory.get(origin)
        if rules is None or not rules.entry.is_fresh(self._clock.time()):
            return None
        return None if self._needs_tdmrep and self._lacks_tdmrep(rules) else rules

    def latest(self, origin: Origin) -> SiteRules | None:
        """Return the rules of *origin* from memory, even if they are stale. Return None if no rules are in memory, or
        if the rules in memory forbid everything because robots.txt is unreachable.
        """
        rules = self._memory.get(origin)
        is_decided = rules is not None and rules.state is not State.UNREACHABLE
        return rules if is_decided else None

    async def learn(
        self,
        origin: Origin,
        templates: list[Request],
        *,
        stale: CacheEntry | None = None,
        needs_tdmrep: bool | None = None,
    ) -> SiteRules:
        """Return the rules of *origin* from memory, from the store, or from the origin's server. Concurrent calls for
        one origin share a single fetch.

        If the fetch fails, the call returns the rules of the last good copy of robots.txt, rules that forbid
        everything, or rules that allow everything. The dialect and the length of the outage determine which (see
        :meth:`CacheEntry.state`).

        :param templates: page requests that wait for the rules. Each attempt to fetch a file copies the User-Agent, the
            proxy and some meta keys of the next request in this list; see :func:`add_template`
        :param stale: a cache entry of *origin* that must not be used, even if it has not expired. The returned rules
            come from a newer entry
        :param needs_tdmrep: whether to fetch the tdmrep.json too. If None, it is fetched if the purposes of the crawl
            need it
        :raises SpiderClosing: if the spider closes while the store is read, or while a request for a file waits to be
            sent
        :raises CancelledError: if the fetch is cancelled (Twisted's or asyncio's exception). A fetch is cancelled when
            the spider closes, and when no request waits for the rules any more
        """
        url, rules = origin.robotstxt_url, self._memory.get(origin)
        while rules is None or not self._serves(rules.entry, stale):
            if url in self._waiting_calls:
                await self._wait(url)
                rules = self._memory.get(origin)
                continue
            self._waiting_calls[url] = []
            is_new, entry = False, None if rules is None else rules.entry
            try:
                stored = None if self._store is None else await self._store.get(origin)
                # After a failed fetch, the entry in memory is the newer one, since failures are not stored.
                if stored and (entry is None or stored.fetched > entry.fetched):
                    entry = stored
                if entry is None or not self._serves(entry, stale):
                    result = await self._fetcher.fetch(url, templates)
                    rules, is_new = self._renewed(origin, result, rules, entry), True
                    self._put(rules, result)
                else:
                    rules = self._read(origin, entry, self._clock.monotonic())
                    self._memory.put(rules)
            finally:
                self._end(url)
            await self._report(rules, templates, is_new=is_new)
            break
        if needs_tdmrep is None:
            needs_tdmrep = self._needs_tdmrep
        if needs_tdmrep and self._lacks_tdmrep(rules):
            rules = await self._complete(rules, templates)
        return rules

    def _serves(self, entry: CacheEntry, stale: CacheEntry | None) -> bool:
        """Return whether *entry* can be used without a fetch. To be usable, *entry* must be fresh. If *stale* is not
        None, *entry* must also have been fetched later than *stale*.
        """
        is_newer = stale is None or entry.fetched > stale.fetched
        return is_newer and entry.is_fresh(self._clock.time())

    def _read(self, origin: Origin, entry: CacheEntry, learned: float) -> SiteRules:
        """Parse the robots.txt and tdmrep.json in *entry*, and return the rules. *learned* is the time, on the
        monotonic clock, at which this process received the entry.
        """
        dialect = self._settings.dialect
        state = entry.state(dialect)
        robots = robots_of(entry, dialect, state)
        tdmrep = None
        if self._needs_tdmrep and entry.tdmrep is not None:
            from scrapy_rep.protocol.usage.sites import TdmRep  # noqa: PLC0415

            # If the server has no tdmrep.json, it states no preferences (TDMRep, "TDM File on the Origin Server"), as
            # with an empty list.
            is_read = entry.tdmrep.access is Access.SUCCESSFUL
            tdmrep = TdmRep.parse(entry.tdmrep.body if is_read else b"[]")
        return SiteRules(origin, entry, state, robots, tdmrep=tdmrep, learned=learned)

    def _renewed(
        self,
        origin: Origin,
        result: AccessResult,
        in_memory: SiteRules | None,
        before: CacheEntry | None,
    ) -> SiteRules:
        """Return the new rules of *origin* after its robots.txt was fetched.

        :param result: the result of the fetch
        :param in_memory: the rules that were in memory before the fetch; None if no rules were in memory
        :param before: the newest cache entry before the fetch, from memory or from the store; None if neither
            contained an entry
        """
        settings, now = self._settings, self._clock.time()
        learned, elapsed = self._clock.monotonic(), 0.0
        # *elapsed* is the number of seconds, on the monotonic clock, since this process received the previous entry
        # (*before*). The number is known only if the previous entry was in memory. Otherwise, *elapsed* is 0.
        if in_memory and before and in_memory.entry.fetched == before.fetched:
            elapsed = learned - in_memory.learned
        entry = renew(
            result,
            before,
            dialect=settings.dialect,
            max_age=settings.max_age,
            now=now,
            elapsed=elapsed,
            jitter=random.random(),  # noqa: S311
        )
        has_failed = entry.unreachable_since is not None
        if has_failed and entry.state(settings.dialect) is not State.UNREACHABLE:
            # The fetch failed, but requests can be sent: the crawl follows the last good copy of robots.txt or, after
            # a long outage, everything is allowed. When the entry expires, requests must wait for the next fetch. So
            # that they do not wait all the time, the entry stays fresh for at least MIN_AGE seconds.
            until = max(entry.expires, now + MIN_AGE)
            entry = entry._replace(expires=until)
        return self._read(origin, entry, learned)

    def _put(self, rules: SiteRules, result: AccessResult) -> None:
        """Keep *rules* in memory after a fetch. If the server answered, also write *rules* to the store, where other
        crawlers find them. *result* is the result of the fetch, which was for robots.txt or for tdmrep.json.
        """
        self._memory.put(rules)
        if self._store is None:
            return
        # If the server did not answer, the cause can be this crawler or its network. Then nothing is stored, so that
        # the other crawlers with this store try to fetch the file themselves. A tdmrep.json is stored together with
        # robots.txt, so after a fetch of tdmrep.json, the result of the last fetch of robots.txt is checked as well.
        if result.is_of_server and rules.entry.result.is_of_server:
            stored = self._store.put(rules.origin, rules.entry)
            # If the store skips the write, the returned Deferred has already fired. It must not replace the Deferred
            # of an earlier write.
            if not stored.called:
                self.stored = stored

    async def _wait(self, url: str) -> None:
        """Wait until the current lookup or fetch of the file at *url* has ended."""
        ended: Deferred[None] = Deferred()
        self._waiting_calls[url].append(ended)
        await maybe_deferred_to_future(ended)

    def _end(self, url: str) -> None:
        """Let the calls that wait for the file at *url* continue, since the lookup or fetch of the file has ended."""
        for ended in self._waiting_calls.pop(url):
            if not ended.called:  # The Deferred of a cancelled call has already fired.
                ended.callback(None)

    # The tdmrep.json of a site.

    def _lacks_tdmrep(self, rules: SiteRules) -> bool:
        """Return True if the tdmrep.json in *rules* is missing or out of date, and the crawl is allowed to fetch it.

        The crawl is not allowed to fetch the tdmrep.json if robots.txt is unreachable, disallows the URL of the
        tdmrep.json, or asks for a longer delay than the crawl accepts.
        """
        if rules.entry.has_tdmrep or rules.state is State.UNREACHABLE:
            return False
        robots, identity = rules.robots, self._identity
        return self._settings.accepts(identity.pace(robots)) and identity.may_fetch(
            robots, tdmrep_url(rules.origin)
        )

    async def _complete(self, rules: SiteRules, templates: list[Request]) -> SiteRules:
        """Fetch the tdmrep.json that is missing from *rules*, and return new rules that include the file. Concurrent
        calls for one origin share a single fetch. *templates* are page requests that wait for the rules, as in
        :meth:`learn`.
        """
        origin = rules.origin
        url = tdmrep_url(origin)
        while url in self._waiting_calls:
            await self._wait(url)
            latest = self._memory.get(origin)
            if latest is not None and latest.entry.has_tdmrep:
                return latest
        self._waiting_calls[url] = []
        try:
            result = await self._fetcher.fetch(url, templates, self._check)
            # Use the rules in memory instead of *rules*, since robots.txt may have been fetched again during the fetch
            # of tdmrep.json.
            rules, now = self._memory.get(origin) or rules, self._clock.time()
            entry = with_tdmrep(rules.entry, result, now)
            rules = self._read(origin, entry, rules.learned)
            self._put(rules, result)
        finally:
            self._end(url)
        self._report_tdmrep(result, rules)
        return rules

    async def _check(self, request: RobotsTxtRequest, templates: list[Request]) -> None:
        """Raise RobotsDenied if *request*, a request for a tdmrep.json, must not be sent: the robots.txt of its origin
        disallows its URL, or states a longer delay than the crawl accepts. If there is an override for the origin, it
        is used in place of robots.txt.

        If the robots.txt is not known, it is fetched, with the User-Agent and the proxy of the page requests in
        *templates* (see :meth:`learn`).
        """
        # If *request* follows a redirect to another site, this is the origin of the other site.
        origin = origin_of(request.url)
        if origin is not None and request.fetch.virtual_host:
            origin = origin.at_virtual_host(request.fetch.virtual_host)
        assert origin is not None
        check = Check(request, origin)
        check.override = self.override(origin)
        override = self.override_for(origin)
        if override is not None:
            self._reporter.override_used(override, origin)
        if check.override is not None:
            robots = check.override.robots
        else:
            # Only robots.txt is needed here. If the tdmrep.json of this origin were fetched too, two sites that
            # redirect their tdmrep.json to each other would wait for each other forever.
            check.rules = await self.learn(origin, templates, needs_tdmrep=False)
            robots = check.rules.robots
        if robots is None:
            return
        tokens = self._identity.tokens(
            request if "User-Agent" in request.headers else None
        )
        decision = decide(robots, request.url, tokens, self._settings.clients)
        pace = robots.pace(tokens)
        if decision.allowed and not self._settings.accepts(pace):
            decision = pace.refusal(decision.agent)
        if not decision.allowed:
            raise self._reporter.refused(check, decision)

    # Log lines, stats and signals.

    async def _report(
        self, rules: SiteRules, templates: list[Request], *, is_new: bool
    ) -> None:
        """Count *rules* in the stats, write a log line, and send the signals ``robotstxt_known`` and
        ``robots_parsed``. *is_new* is True if robots.txt was fetched, and False if it was read from the store.
        *templates* are page requests that wait for the rules. The first of them is the signals' argument *request*.
        """
        entry, crawler = rules.entry, self._crawler
        result, access = entry.result, entry.result.access
        if is_heard(crawler, robotstxt_known):
            crawler.signals.send_catch_log(
                robotstxt_known,
                origin=rules.origin,
                entry=entry,
                is_new=is_new,
                request=templates[0],
                spider=crawler.spider,
            )
        stat = stats.ACCESS.format(access=access) if is_new else stats.FROM_STORE
        crawler.stats.inc_value(stat)
        if access is Access.UNAVAILABLE:
            self._log_unavailable(result, rules.robots)
            return
        # If robots.txt is unreachable, this line is at DEBUG too. The frontier logs a warning if requests wait for the
        # file or are refused.
        words = str(access)
        if access is Access.SUCCESSFUL:
            words = "fetched" if is_new else "taken from the store"
        message = "%(url)s is %(access)s (%(result)s)"
        self._logger.debug(message, url=result.url, access=words, result=result)
        if access is not Access.SUCCESSFUL:
            return
        if result.is_html:
            self._log_page(result, rules.robots)
        if HAS_ROBOTS_PARSED_SIGNAL and is_heard(crawler, signals.robots_parsed):
            # Imported here, since the module imports Scrapy's robots.txt parsers, which most crawls do not need.
            from scrapy_rep.crawl.fetching.robotparser import RobotParser  # noqa: PLC0415

            await crawler.signals.send_catch_log_async(
                signals.robots_parsed,
                robotparser=RobotParser(rules.robots),
                request=templates[0],
            )

    def _log_page(self, result: AccessResult, robots: RobotsTxt) -> None:
        if robots.groups:
            self._logger.info(
                "%(url)s is an HTML page (%(result)s), but some of its lines are robots.txt rules. "
                "These rules are obeyed",
                url=result.url,
                result=result,
            )
            return
        self._logger.log(
            DEBUG if self._html_count else INFO,
            "%(url)s is an HTML page (%(result)s), such as the challenge page of a bot wall, instead of a "
            "robots.txt. The page contains no rules, so everything is allowed",
            url=result.url,
            result=result,
        )
        self._html_count += 1

    def _log_unavailable(self, result: AccessResult, robots: RobotsTxt) -> None:
        if result.has_too_many_redirects:
            self._logger.warning(
                "%(url)s: no robots.txt (%(result)s), so everything is allowed. "
                "Redirects: %(chain)s",
                url=result.url,
                result=result,
                chain=" -> ".join(result.redirects),
            )
            return
        is_denying, level = result.status in robots.dialect.denying_statuses, DEBUG
        if result.status in _LOCKED_STATUSES and not is_denying:
            # The status 401 or 403 can mean that the site wants no crawlers, so the first such response of a crawl is
            # logged at INFO. Later ones are logged at DEBUG.
            level = DEBUG if self._locked_count else INFO
            self._locked_count += 1
        self._logger.log(
            level,
            "%(url)s: no robots.txt (%(result)s), so everything is %(verdict)s",
            url=result.url,
            result=result,
            verdict="refused (see REP_DIALECT)" if is_denying else "allowed (RFC 9309)",
        )

    def _report_tdmrep(self, result: AccessResult, rules: SiteRules) -> None:
        self._crawler.stats.inc_value(stats.TDMREP.format(access=result.access))
        problem, is_read = "", result.access is Access.SUCCESSFUL
        if is_read and rules.tdmrep and not rules.tdmrep.is_valid:
            problem = (
                ", but the file is too long or not a JSON array, so it has no effect"
            )
        self._logger.debug(
            "Result of fetching %(url)s: %(access)s (%(result)s)%(problem)s",
            url=result.url,
            access=result.access,
            result=result,
            problem=problem,
        )

    def _spider_closed(self) -> None:
        if self._html_count:
            self._logger.at_end(
                INFO,
                "robots.txt files that were HTML pages without rules, such as the challenge page of a bot wall: "
                "%(count)s. Everything is allowed on these hosts. To exclude a host that does not want to be "
                "crawled, use REP_OVERRIDES",
                count=f"{self._html_count:,}",
            )
        if self._locked_count:
            self._logger.at_end(
                INFO,
                "Requests for robots.txt that were answered with 401 or 403: %(count)s. Everything is allowed "
                "on these hosts (RFC 9309). If in doubt, ask the owner of a host, or exclude the host with "
                "REP_OVERRIDES",
                count=f"{self._locked_count:,}",
            )
        patterns = [override.pattern for override in self._overrides]
        unmet = [
            pattern for pattern in patterns if pattern not in self._matched_patterns
        ]
        if unmet:
            named = ", ".join(map(repr, unmet[:_MAX_NAMED]))
            more = len(unmet) - _MAX_NAMED
            self._logger.info(
                "These patterns of REP_OVERRIDES matched no request of this crawl: %(patterns)s. If a pattern "
                "should have matched, check the spelling of its host",
                patterns=f"{named} and {more:,} more" if more > 0 else named,
            )


def _first_end(overrides: Iterable[Override]) -> float:
    """Return the time, in seconds since the epoch, at which the first of *overrides* ends. Return infinity if no
    override has an end date, or if *overrides* is empty.
    """
    return min((override.ends for override in overrides), default=inf)


def tdmrep_url(origin: Origin) -> str:
    """Return the URL of the tdmrep.json of *origin*."""
    return origin.url(TDMREP)
