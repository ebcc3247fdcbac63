"""Decides by a robots.txt about the requests of spiders and browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from scrapy_rep.fetching.identity import Identity
from scrapy_rep.frontier.hostkeys import request_origin
from scrapy_rep.frontier.reporter import Case
from scrapy_rep.protocol.request_target import decide, is_allowed
from scrapy_rep.responses.purposes import Purposes

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_rep.fetching.request import RobotsTxtRequest
    from scrapy_rep.frontier.frontier import Frontier
    from scrapy_rep.frontier.hosts import Hosts
    from scrapy_rep.frontier.reporter import DecisionReporter
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robots import RobotsTxt
    from scrapy_rep.protocol.robotstxt.decisions import Decision
    from scrapy_rep.protocol.robotstxt.pace import Pace
    from scrapy_rep.protocol.usage.tdmrep import TdmRep
    from scrapy_rep.settings import RepSettings


class Judge:
    """Decides whether robots.txt allows a request, and whether its delay is acceptable."""

    def __init__(
        self,
        crawler: Crawler,
        settings: RepSettings,
        frontier: Frontier,
        hosts: Hosts,
        reporter: DecisionReporter,
    ) -> None:
        self._identity = Identity.of(crawler)
        self._purposes = Purposes.of(crawler)
        self._frontier = frontier
        self._hosts = hosts
        self._reporter = reporter
        self._clients = settings.clients

    def judge(
        self, robots: RobotsTxt, case: Case, tdmrep: TdmRep | None = None
    ) -> tuple[Decision | None, Pace]:
        """Return the decision that allows the request of *case*, or None if it need not be
        reported; and the pace of its host.

        Raises RobotsDenied if *robots* forbids the request, or if the request would wait for
        the delay or the visiting hours longer than the settings allow.
        """
        request = case.request
        purposes = (
            self._identity.purposes_by_tokens(request)
            if self._identity.has_agents_by_purpose
            else {}
        )
        refusals: list[tuple[str, Decision]] = []
        if len(purposes) < 2:
            agents = self._identity.tokens(request)
            pace = robots.pace(agents)
            decision = None
            if self._reporter.reports_allowed(case) or not is_allowed(
                robots, request.url, agents, self._clients
            ):
                decision = decide(robots, request.url, agents, self._clients)
                if not decision.allowed:
                    self.refuse(case, decision)
        else:
            pace = self._identity.pace(robots, request)
            decision, refusals = self._decide_for_each(robots, case, purposes)
        self._purposes.note(request, robots, case.entry, tdmrep, refusals)
        if pace.records:
            self._judge_pace(robots, pace, case)
        return decision, pace

    def _judge_pace(self, robots: RobotsTxt, pace: Pace, case: Case) -> None:
        request, origin = case.request, case.origin
        assert origin is not None
        demand = self._hosts.demand(pace)
        if demand.refusal is None:
            return
        self._hosts.warn_of_demand(origin, demand)
        agent = robots.decide(request.url, self._identity.tokens(request)).agent
        self.refuse(case, pace.refusal(demand.refusal, self._hosts.now(), agent))

    def judge_own(self, request: RobotsTxtRequest) -> None:
        """Raise RobotsDenied if *request*, of this package for another file than robots.txt, is
        forbidden, as if it were of a spider.
        """
        origin = request_origin(request)
        assert origin is not None
        known, override = request.fetch.known, self._hosts.override(origin)
        robots = known.robots if known else override and override.robots
        if robots is not None:
            entry = known.entry if known else None
            self.judge(robots, Case(request, origin, entry, override))
        self.count_override(origin)

    def refuse(self, case: Case, decision: Decision) -> NoReturn:
        """Report that the request of *case* is refused. Raises RobotsDenied."""
        self._frontier.left(case.request)
        self.count_override(case.origin)
        raise self._reporter.refused(case, decision)

    def count_override(self, origin: Origin | None) -> None:
        """Count the override for *origin*, if there is one, as used for a decision."""
        override = self._hosts.override_for(origin) if origin else None
        if origin and override is not None:
            self._reporter.override_used(override, origin)

    def _decide_for_each(
        self,
        robots: RobotsTxt,
        case: Case,
        purposes: dict[tuple[str, ...], tuple[str, ...]],
    ) -> tuple[Decision, list[tuple[str, Decision]]]:
        """Decide about a request that is made for purposes with different product tokens.

        *purposes* maps tokens to their purposes. Return a decision that allows the request,
        and each purpose for which robots.txt forbids it, with the decision. Raises
        RobotsDenied if robots.txt forbids it for all purposes.
        """
        url = case.request.url
        decisions = {
            tokens: decide(robots, url, tokens, self._clients) for tokens in purposes
        }
        allowed = [each for each in decisions.values() if each.allowed]
        if not allowed:
            self.refuse(case, next(iter(decisions.values())))
        refusals = [
            (purpose, decision)
            for tokens, decision in decisions.items()
            if not decision.allowed
            for purpose in purposes[tokens]
        ]
        return allowed[0], refusals
