"""Decides by a robots.txt, or by the user's override, about the requests of spiders and browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from scrapy_rep.base import meta
from scrapy_rep.base.identity import Identity
from scrapy_rep.crawl.decisions import BAD_URL, BY_USER, ROBOTS_TXT, Case
from scrapy_rep.crawl.pages.usage import SiteUsage
from scrapy_rep.protocol.request_target import decide, is_allowed, is_robotstxt

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_rep.base.settings import RepSettings
    from scrapy_rep.crawl.decisions import DecisionReporter
    from scrapy_rep.crawl.frontier.frontier import Frontier
    from scrapy_rep.crawl.frontier.rules import HostRules
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robotstxt.pace import Pace
    from scrapy_rep.protocol.robotstxt.rules import Decision


class Judge:
    """Decides whether a request is allowed, and whether the delay of its host is acceptable."""

    def __init__(
        self,
        crawler: Crawler,
        settings: RepSettings,
        frontier: Frontier,
        rules: HostRules,
        reporter: DecisionReporter,
    ) -> None:
        self._identity = Identity.of(crawler)
        self._usage = SiteUsage.of(crawler)
        self._frontier = frontier
        self._rules = rules
        self._reporter = reporter
        self._settings = settings
        self._clients = settings.clients
        self._has_overrides = bool(settings.overrides)
        self._reports_all = reporter.reports_all

    def look_up(self, case: Case) -> bool:
        """Add to *case* what decides about its request, as far as that is known now. Return False
        if that is a robots.txt that must be fetched first. Raises ValueError if the purposes in the
        meta of the request are invalid.
        """
        origin = case.origin
        if case.is_exempt or origin is None:
            return True
        if meta.PURPOSES in case.request.meta:
            self._usage.purposes_of(case.request)
        if self._has_overrides:
            case.override = self._rules.cache.override(origin)
            if case.override is not None:
                return True
        case.known = self._rules.cached(origin)
        return case.known is not None

    def judge(self, case: Case) -> tuple[Decision | None, Pace | None]:
        """Return the decision that allows the request of *case*, or None if it need not be
        reported; and the pace of its host, or None if no robots.txt decides.

        Raises RobotsDenied if the request is forbidden, or if the delay is longer than the settings
        allow.
        """
        if case.is_exempt:
            return BY_USER, None
        if case.origin is None:
            self.refuse(case, BAD_URL)
        request, url, known = case.request, case.request.url, case.known
        robots = None if known is None else known.robots
        if case.override is not None:
            robots = case.override.robots
            if robots is None:
                return BY_USER, None
        elif is_robotstxt(url) and request.method == "GET":
            return ROBOTS_TXT, None
        assert robots is not None
        tokens, clients = self._identity.tokens(request), self._clients
        decision = None
        is_reported = self._reports_all or case.override or case.is_refused_by_scrapy
        if is_reported or not is_allowed(robots, url, tokens, clients):
            decision = decide(robots, url, tokens, clients)
            if not decision.allowed:
                self.refuse(case, decision)
        if robots.may_state_usage or (known is not None and known.tdmrep is not None):
            self._usage.note(request, robots, known)
        pace = robots.pace(tokens)
        if pace.delay and not self._settings.accepts(pace):
            self._frontier.politeness.warn_of_delay(case.origin, pace.delay)
            self.refuse(case, pace.refusal(robots.decide(url, tokens).agent))
        return decision, pace

    def refuse(self, case: Case, decision: Decision) -> NoReturn:
        """Report that the request of *case* is refused. Raises RobotsDenied."""
        self._frontier.free(case.request)
        self.count_override(case.origin)
        raise self._reporter.refused(case, decision)

    def allow(self, case: Case, decision: Decision | None) -> None:
        """Report that the request of *case* is sent. *decision* is what :meth:`judge` returned."""
        if self._has_overrides and not case.is_exempt:
            self.count_override(case.origin)
        if decision is not None:
            self._reporter.allowed(case, decision)

    def count_override(self, origin: Origin | None) -> None:
        """Count the override for *origin*, if there is one, as used for a decision."""
        if not self._has_overrides or origin is None:
            return
        override = self._rules.cache.override_for(origin)
        if override is not None:
            self._reporter.override_used(override, origin)
