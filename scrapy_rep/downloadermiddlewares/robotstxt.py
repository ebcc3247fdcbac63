"""May I fetch this URL?"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from scrapy.exceptions import NotConfigured
from scrapy.http import Headers
from scrapy.responsetypes import responsetypes

from scrapy_rep import meta, stats
from scrapy_rep.destinations import is_of_http, origin_asked
from scrapy_rep.fetcher import RobotsTxtFetcher, RobotsTxtRequest, bound_decompression
from scrapy_rep.hold import Hold
from scrapy_rep.identity import Identity
from scrapy_rep.keeper import Keeper
from scrapy_rep.politeness import Politeness
from scrapy_rep.protocol.access import Access
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.request_target import decide, is_allowed, is_robotstxt
from scrapy_rep.protocol.robotstxt import Decision
from scrapy_rep.protocol.rules import Rule
from scrapy_rep.registry import RobotsTxtRegistry
from scrapy_rep.reservations import Reservations
from scrapy_rep.settings import RepSettings
from scrapy_rep.stores import open_store
from scrapy_rep.verdicts import BAD_URL, BY_USER, ROBOTS_TXT, Case, Verdicts
from scrapy_rep.waiting import Waiting

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.overrides import Override
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.pace import Pace
    from scrapy_rep.protocol.robotstxt import RobotsTxt
    from scrapy_rep.registry import Known


class RobotsTxtMiddleware:
    """Keeps a crawl to the robots.txt of each origin.

    To be used in the place of Scrapy's own, at :attr:`ORDER`.
    """

    ORDER = 595
    """After UserAgentMiddleware (500), so that the User-Agent is the one that is sent;
    and between HttpCompressionMiddleware (590) and RedirectMiddleware (600), so that the
    responses to this package's own requests are seen before they are decompressed."""

    def __init__(self, crawler: Crawler) -> None:
        settings = RepSettings.from_settings(crawler.settings)
        if not settings.obey:
            raise NotConfigured
        self._crawler = crawler
        self._identity = Identity.of(crawler, settings)
        self._verdicts = Verdicts(crawler, settings)
        store = open_store(
            settings.store,
            max_entries=settings.store_max_entries,
            max_bytes=settings.store_max_bytes,
        )
        keeper = Keeper(crawler, store)
        self._registry = RobotsTxtRegistry(
            crawler,
            RobotsTxtFetcher(crawler, settings),
            keeper,
            settings,
            landed=self._verdicts.landed,
            settled=self._settled,
        )
        self._hold = Hold(crawler)
        self._waiting = Waiting(
            crawler, self._registry, self._hold, settings.unreachable_wait
        )
        shared = settings.shared_delay and keeper.is_shared
        self._politeness = Politeness(
            crawler, self._hold, Reservations(keeper, shared=shared), settings
        )
        self._overrides = settings.overrides
        self._clients = settings.clients

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RobotsTxtMiddleware:
        return cls(crawler)

    async def process_request(self, request: Request) -> Request | Response | None:
        if isinstance(request, RobotsTxtRequest):
            await self._politeness.turn_of_robotstxt(request)
            return None
        if not is_of_http(request):
            return None
        where = origin_asked(request)
        if _is_exempt(request):
            self._verdicts.allowed(Case(request, where), BY_USER)
            return None
        if where is None:
            self._verdicts.deny(Case(request, where), BAD_URL)
        in_place = self._hold.came_straight_back(request)
        override = self._override(where)
        if override is not None and override.kind != "obey":
            case = Case(request, where, None, override)
            if override.robots is not None:
                return await self._keep_to(override.robots, case, in_place)
            self._count_override(where)
            self._verdicts.allowed(case, BY_USER)
            return None
        known = self._registry.at_hand(where)
        # Nearly always it is at hand, and there is nothing to wait for.
        if known is None or known.entry.unreachable_since or _has_waited(request):
            known = await self._waiting.known(where, request, in_place=in_place)
            if known is None:
                self._politeness.step_aside(request)
                return request
        case = Case(request, where, known.entry)
        if is_robotstxt(request.url) and request.method == "GET":
            self._count_override(where)
            copy = self._copy(known, request)
            if copy is None and self._verdicts.are_wanted(case):
                self._verdicts.allowed(case, ROBOTS_TXT)
            return copy
        return await self._keep_to(known.robots, case, in_place)

    def process_response(self, request: Request, response: Response) -> Response:
        if isinstance(request, RobotsTxtRequest):
            bound_decompression(request)
        # Where it was fetched, that has been seen.
        self._politeness.step_aside(request)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        # Another component has dropped it; where it was sent, that has been seen.
        self._politeness.step_aside(request)

    async def _keep_to(
        self, robots: RobotsTxt, case: Case, in_place: bool
    ) -> Request | None:
        """Deny a request, or let it go when its turn has come; until then, return it."""
        request = case.request
        agents = self._identity.tokens(request)
        decision = None
        if self._verdicts.are_wanted(case) or not is_allowed(
            robots, request.url, agents, self._clients
        ):
            decision = decide(robots, request.url, agents, self._clients)
            if not decision.allowed:
                self._deny(case, decision)
        if self._politeness.is_minded:
            pace = robots.pace(agents)
            # Of nearly all hosts it asks for nothing.
            if self._politeness.concerns(pace) and not await self._turn(
                robots, pace, case, in_place
            ):
                return request
        self._count_override(case.origin)
        if decision is not None:
            self._verdicts.allowed(case, decision)
        return None

    async def _turn(
        self, robots: RobotsTxt, pace: Pace, case: Case, in_place: bool
    ) -> bool:
        """Whether a request can go now; else it is to be returned. Denies it where its
        host asks for more than we are willing to wait.
        """
        request, where, entry, _ = case
        assert where is not None
        refusal = self._politeness.refusal(where, pace)
        if refusal is not None:
            reason, record = refusal
            rule = record and Rule(record.field, record.value, record.line)
            agents = self._identity.tokens(request)
            agent = robots.decide(request.url, agents).agent
            self._deny(case, Decision(False, rule, agent, reason))
        fetched = entry.fetched if entry is not None else float("-inf")
        return await self._politeness.turn(
            request, where, pace, fetched=fetched, in_place=in_place
        )

    def _deny(self, case: Case, decision: Decision) -> NoReturn:
        self._politeness.step_aside(case.request)
        self._count_override(case.origin)
        self._verdicts.deny(case, decision)

    def _count_override(self, where: Origin | None) -> None:
        """A request to *where* has been decided on; not one that is held."""
        override = self._override(where) if where else None
        if where and override is not None:
            self._verdicts.override_used(override, where)

    def _override(self, where: Origin) -> Override | None:
        """What the user has decided about an origin, if anything."""
        for override in self._overrides:
            if override.covers(where):
                return override
        return None

    def _copy(self, known: Known, request: Request) -> Response | None:
        """The answer to a spider that wants to see robots.txt itself.

        None, so that it is downloaded, where there is nothing at hand to answer with.
        """
        result = known.entry.result
        if result.status is None or result.access is Access.UNREACHABLE:
            return None
        self._crawler.stats.inc_value(stats.FROM_COPY)
        content_type = dict(result.headers).get("content-type", "text/plain")
        headers = Headers({"Content-Type": content_type})
        response_class = responsetypes.from_args(
            headers=headers, url=request.url, body=result.body
        )
        return response_class(
            request.url,
            status=result.status,
            headers=headers,
            body=result.body,
            flags=[meta.COPIED_FLAG],
            request=request,
        )

    def _settled(self, where: Origin, known: Known) -> None:
        self._waiting.settled(where, known)


def _has_waited(request: Request) -> bool:
    return meta.HELD_SINCE in request.meta


def _is_exempt(request: Request) -> bool:
    """Whether the spider wants the request sent whatever robots.txt says.

    A redirect keeps the meta of the request, and may lead anywhere; the spider meant the
    origin that it asked for.
    """
    if not request.meta.get(meta.DONT_OBEY_ROBOTSTXT):
        return False
    redirected_from = request.meta.get("redirect_urls", ())
    where = origin_of(request.url)
    if where is None:
        return not redirected_from
    return all(origin_of(url) == where for url in redirected_from)
