"""What decides for an origin: an override, or its robots.txt and its tdmrep.json: in memory, then in a
store, then from its server."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import CancelledError, Deferred

from scrapy_rep.base import stats
from scrapy_rep.base.compat import HAS_ROBOTS_PARSED_SIGNAL, is_closing, is_heard
from scrapy_rep.base.identity import Identity
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.crawl.decisions import Case, DecisionReporter
from scrapy_rep.crawl.fetching.fetcher import in_words
from scrapy_rep.crawl.fetching.memory import Memory
from scrapy_rep.crawl.fetching.store import open_client
from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.protocol.access.overrides import override_for
from scrapy_rep.protocol.access.results import (
    Access,
    AccessResult,
    CacheEntry,
    SiteRules,
    State,
    renew,
    robots_of,
    with_tdmrep,
)
from scrapy_rep.protocol.request_target import decide
from scrapy_rep.protocol.usage.sites import PATH, TdmRep
from scrapy_rep.protocol.usage.statements import MINING
from scrapy_rep.signals import robotstxt_known

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.base.clock import Clock
    from scrapy_rep.base.settings import RepSettings
    from scrapy_rep.crawl.fetching.fetcher import Check, RobotsTxtFetcher
    from scrapy_rep.crawl.fetching.request import FetchTemplates
    from scrapy_rep.protocol.access.overrides import Override
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robots import RobotsTxt

# In seconds.
_JUST_NOW = 1.0

_NO_ENTRY = frozenset({401, 403})


class RobotsTxtCache:
    """What decides for each origin: an override, or what is known of it while that is fresh: its
    robots.txt, and its tdmrep.json if TDMRep has a label for a purpose of the crawl. Both are fetched
    together, and one entry.
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
        self._under_way: dict[str, list[Deferred[None]]] = {}
        """The URLs of the files that are looked up or fetched, with those who wait for it."""

        self._overrides = settings.overrides
        """Those that have not ended."""

        self._next_end = min((each.ends for each in self._overrides), default=inf)
        self._locked = 0
        """The number of robots.txt that answered 401 or 403, and so allow everything."""

        crawler.signals.connect(self._end_overrides, signals.spider_opened)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    # Overrides.

    def override_for(self, origin: Origin) -> Override | None:
        """The override that decides for *origin* now, if there is one."""
        if not self._overrides:
            return None
        now = self._clock.time()
        if now >= self._next_end:
            self._end_overrides()
        return override_for(self._overrides, origin, now)

    def override(self, origin: Origin) -> Override | None:
        """The override that replaces the robots.txt of *origin*, if there is one."""
        override = self.override_for(origin)
        return None if override is None or override.kind == "obey" else override

    def _end_overrides(self) -> None:
        """Forget the overrides that have ended, and name each in the log."""
        now = self._clock.time()
        ended = [each for each in self._overrides if each.ends <= now]
        self._overrides = tuple(each for each in self._overrides if now < each.ends)
        self._next_end = min((each.ends for each in self._overrides), default=inf)
        for each in ended:
            self._logger.warning("%(notice)s", notice=each.end_notice)

    # What is known.

    def cached(self, origin: Origin) -> SiteRules | None:
        """What is known of *origin*, if it is in memory and fresh."""
        rules = self._fresh(origin)
        if rules is None or (self._needs_tdmrep and self._lacks_tdmrep(rules)):
            return None
        return rules

    async def learn(
        self,
        origin: Origin,
        templates: FetchTemplates,
        *,
        stale: CacheEntry | None = None,
    ) -> SiteRules:
        """What is known of *origin*, from the store or its server. Calls for the same origin share one
        fetch, which is reported once.

        *templates* are of the requests that wait for it. *stale* is an entry that must be fetched
        again even if it has not expired. Raises SpiderClosing or a cancellation, and stores
        nothing, if the spider closes meanwhile, or no request waits any more. After any other error
        robots.txt counts as unreachable.
        """
        rules = await self._obtain(origin, templates, stale)
        if self._needs_tdmrep and self._lacks_tdmrep(rules):
            rules = await self._complete(rules, templates)
        return rules

    def _fresh(self, origin: Origin) -> SiteRules | None:
        """What is known of *origin*, if it is in memory and fresh, or has just arrived. Its tdmrep.json
        may be missing.
        """
        rules = self._memory.get(origin)
        if rules is None:
            return None
        now = self._clock.time()
        has_just_arrived = 0.0 <= now - rules.arrived < _JUST_NOW
        return rules if has_just_arrived or rules.entry.is_fresh(now) else None

    def _read(self, origin: Origin, entry: CacheEntry, learned: float) -> SiteRules:
        dialect = self._settings.dialect
        state = entry.state(dialect)
        robots = robots_of(entry, dialect, state)
        tdmrep = None
        if self._needs_tdmrep and entry.tdmrep is not None:
            # A server without the file does not implement the protocol (TDMRep, "TDM File on
            # the Origin Server").
            is_read = entry.tdmrep.access is Access.SUCCESSFUL
            tdmrep = TdmRep.parse(entry.tdmrep.body if is_read else b"[]")
        return SiteRules(origin, entry, state, robots, tdmrep, learned, entry.fetched)

    async def _wait(self, url: str) -> None:
        """Wait until nobody looks up or fetches the file at *url* any more, or the next one does."""
        over: Deferred[None] = Deferred()
        self._under_way[url].append(over)
        await maybe_deferred_to_future(over)

    def _end(self, url: str) -> None:
        """Let those who wait for the file at *url* look again."""
        for over in self._under_way.pop(url):
            if not over.called:  # It was cancelled.
                over.callback(None)

    # robots.txt.

    async def _obtain(
        self, origin: Origin, templates: FetchTemplates, stale: CacheEntry | None = None
    ) -> SiteRules:
        """The robots.txt of *origin*, from memory, the store or its server; see :meth:`learn`."""
        url = origin.robotstxt_url
        before = rules = self._memory.get(origin)
        while url in self._under_way:
            await self._wait(url)
            rules = self._memory.get(origin)
            if rules is not None and (before is None or rules.entry != before.entry):
                return rules
        self._under_way[url] = []
        is_new = is_from_store = False
        try:
            entry = None if rules is None else rules.entry
            stored = None if self._store is None else await self._store.get(origin)
            # In memory may be a later failure, which no store keeps.
            if stored and (entry is None or stored.fetched > entry.fetched):
                entry, is_from_store = stored, True
            if entry is None or not self._serves(entry, stale):
                result = await self._fetch(url, templates)
                rules, is_new = self._renewed(origin, result, rules, entry), True
                self._put(rules, result)
            elif rules is None or entry is not rules.entry:
                rules = self._read(origin, entry, self._clock.monotonic())
                self._memory.put(rules)
        finally:
            self._end(url)
        if is_new or is_from_store:
            await self._report(rules, templates, is_new=is_new)
        return rules

    def _serves(self, entry: CacheEntry, stale: CacheEntry | None) -> bool:
        is_wrong = stale is not None and entry.fetched <= stale.fetched
        return entry.is_fresh(self._clock.time()) and not is_wrong

    async def _fetch(
        self, url: str, templates: FetchTemplates, check: Check | None = None
    ) -> AccessResult:
        """The result of fetching a file. Raises SpiderClosing or a cancellation if the spider closes
        meanwhile, and a cancellation if no request waits any more.
        """
        try:
            return await self._fetcher.fetch(url, templates, check=check)
        except SpiderClosing:
            raise
        except (CancelledError, asyncio.CancelledError):
            if is_closing(self._crawler) or not templates:
                raise
            # Another component cancelled the fetch. The waiting requests must continue.
            error = "cancelled"
        except Exception as exception:
            self._logger.exception(
                "%(url)s counts as unreachable and will be fetched again later: an error "
                "in this crawler, not of the site, interrupted its fetch",
                url=url,
            )
            error = in_words(exception)
        return AccessResult(url=url, status=None, error=error)

    def _renewed(
        self,
        origin: Origin,
        result: AccessResult,
        known: SiteRules | None,
        before: CacheEntry | None,
    ) -> SiteRules:
        """What is known after a fetch of robots.txt; *known* is what was in memory until then, *before*
        the entry, which may be of the store.
        """
        settings, learned, elapsed = self._settings, self._clock.monotonic(), 0.0
        # Otherwise, another worker has just stored it.
        if known and before and known.entry.fetched == before.fetched:
            elapsed = learned - known.learned
        entry = renew(
            result,
            before,
            dialect=settings.dialect,
            bounds=settings.bounds,
            now=self._clock.time(),
            elapsed=elapsed,
            jitter=random.random(),  # noqa: S311
        )
        rules = self._read(origin, entry, learned)
        if rules.state is State.UNREACHABLE:
            return rules  # Requests wait until it is back.
        # A file that ends before a request has its turn, after a delay, would be fetched again and
        # again, and the request would never be sent.
        ends = entry.expires
        if result.access is Access.UNREACHABLE:
            ends = entry.fetched + settings.bounds.min_age
        elif ends < entry.fetched + settings.skip_delay_over:
            ends = entry.fetched + self._delay_of(rules.robots) + _JUST_NOW
        if ends > entry.expires:
            rules.entry = replace(entry, expires=ends)
        return rules

    def _put(self, rules: SiteRules, result: AccessResult) -> None:
        """Keep *rules* after a fetch with *result*, and store them if servers have answered. A failure
        may be one of this crawler alone, and must not keep others from asking for themselves.
        """
        self._memory.put(rules)
        if self._store is None:
            return
        if result.is_of_server and rules.entry.result.is_of_server:
            self._store.put(rules.origin, rules.entry)

    def _delay_of(self, robots: RobotsTxt) -> float:
        return self._settings.delay(self._identity.pace(robots))

    # tdmrep.json.

    def _lacks_tdmrep(self, rules: SiteRules) -> bool:
        """Whether the tdmrep.json of an origin has to be asked for: robots.txt allows that, at a pace
        that the crawl accepts.
        """
        if rules.entry.has_tdmrep or rules.state is State.UNREACHABLE:
            return False
        robots, identity = rules.robots, self._identity
        return self._settings.accepts(identity.pace(robots)) and identity.may_fetch(
            robots, tdmrep_url(rules.origin)
        )

    async def _complete(self, rules: SiteRules, templates: FetchTemplates) -> SiteRules:
        """Ask for the tdmrep.json of an origin, and keep it with its robots.txt. Calls for the same
        origin share one fetch.
        """
        origin, robots = rules.origin, rules.robots
        url = tdmrep_url(origin)
        while url in self._under_way:
            await self._wait(url)
            known = self._memory.get(origin)
            if known is not None and known.entry.has_tdmrep:
                return known
        self._under_way[url] = []
        try:
            result = await self._fetch(url, templates, self._check)
            # robots.txt may have been fetched again meanwhile.
            rules = self._memory.get(origin) or rules
            now = self._clock.time()
            entry = with_tdmrep(rules.entry, result, now)
            # The requests that wait may have their turn only after another delay.
            holds = self._delay_of(robots) + _JUST_NOW
            entry = replace(entry, expires=max(entry.expires, now + holds))
            rules = self._read(origin, entry, rules.learned)
            # robots.txt may have expired meanwhile, but the waiting requests still use it.
            rules.arrived = now
            self._put(rules, result)
            self._report_tdmrep(result, rules)
        finally:
            self._end(url)
        return rules

    async def _check(
        self, request: Request, origin: Origin, templates: FetchTemplates
    ) -> None:
        """Raise RobotsDenied if robots.txt, or an override, forbids a request for a tdmrep.json to
        *origin*, as if it were of a spider. It may be redirected anywhere.
        """
        if (used := self.override_for(origin)) is not None:
            self._reporter.override_used(used, origin)
        case = Case(request, origin, override=self.override(origin))
        if case.override is not None:
            robots = case.override.robots
        else:
            # That alone: sites could redirect their tdmrep.json in a circle.
            case.known = self._fresh(origin) or await self._obtain(origin, templates)
            robots = case.known.robots
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
            raise self._reporter.refused(case, decision)

    # Reports.

    async def _report(
        self, rules: SiteRules, templates: FetchTemplates, *, is_new: bool
    ) -> None:
        """Report a robots.txt that was fetched (*is_new*) or read from the store."""
        entry, crawler = rules.entry, self._crawler
        access = entry.result.access
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
        self._log_access(rules, access)
        if access is not Access.SUCCESSFUL:
            return
        if entry.result.is_html:
            self._logger.info(
                "%(url)s is an HTML page; lines in it that have the form of rules are obeyed",
                url=entry.result.url,
            )
        if HAS_ROBOTS_PARSED_SIGNAL and is_heard(crawler, signals.robots_parsed):
            # It loads Scrapy's parsers.
            from scrapy_rep.crawl.fetching.robotparser import RobotParser  # noqa: PLC0415

            await crawler.signals.send_catch_log_async(
                signals.robots_parsed,
                robotparser=RobotParser(rules.robots),
                request=templates[0],
            )

    def _log_access(self, rules: SiteRules, access: Access) -> None:
        result = rules.entry.result
        url = result.url
        if result.has_too_many_redirects:
            self._logger.warning(
                "%(url)s: no robots.txt (%(result)s): everything is allowed. "
                "Redirects: %(chain)s",
                url=url,
                result=result,
                chain=" -> ".join(result.redirects),
            )
        elif access is Access.UNAVAILABLE:
            is_denying = result.status in rules.robots.dialect.denying_statuses
            level = logging.DEBUG
            if result.status in _NO_ENTRY and not is_denying:
                # A site that means to keep crawlers out may answer so.
                level = logging.DEBUG if self._locked else logging.INFO
                self._locked += 1
            self._logger.log(
                level,
                "%(url)s: no robots.txt (%(result)s): everything is %(verdict)s",
                url=url,
                result=result,
                verdict="refused" if is_denying else "allowed (RFC 9309)",
            )
        else:  # More is logged about an unreachable robots.txt where its requests wait.
            said = "fetched" if access is Access.SUCCESSFUL else str(access)
            message = "%(url)s is %(access)s (%(result)s)"
            self._logger.debug(message, url=url, access=said, result=result)

    def _report_tdmrep(self, result: AccessResult, rules: SiteRules) -> None:
        self._crawler.stats.inc_value(stats.TDMREP.format(access=result.access))
        is_broken = (
            result.access is Access.SUCCESSFUL
            and rules.tdmrep is not None
            and not rules.tdmrep.is_valid
        )
        self._logger.debug(
            "%(url)s is %(access)s (%(result)s)%(finding)s",
            url=result.url,
            access=result.access,
            result=result,
            finding=", not an array of rules" if is_broken else "",
        )

    def _spider_closed(self) -> None:
        if self._locked:
            self._logger.info(
                "robots.txt that answered 401 or 403: %(count)s. Everything is allowed there "
                "(RFC 9309); ask the owner if you are in doubt, and refuse such a host with "
                "REP_OVERRIDES",
                count=f"{self._locked:,}",
            )


def tdmrep_url(origin: Origin) -> str:
    """The URL of the tdmrep.json of *origin*."""
    return origin.url(PATH)
