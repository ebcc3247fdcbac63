"""May I fetch this URL?"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.http import Headers
from scrapy.responsetypes import responsetypes
from scrapy.utils.httpobj import urlparse_cached

from scrapy_rep import meta, stats
from scrapy_rep.compat import HAS_ROBOTS_PARSED_SIGNAL
from scrapy_rep.exceptions import RobotsDenied
from scrapy_rep.fetcher import RobotsTxtFetcher, bound_decompression
from scrapy_rep.identity import Identity
from scrapy_rep.keeper import Keeper
from scrapy_rep.protocol.access import Access
from scrapy_rep.protocol.origins import origin, origin_of
from scrapy_rep.protocol.robotstxt import Decision, Reason
from scrapy_rep.registry import RobotsTxtRegistry
from scrapy_rep.robotparser import RobotParser
from scrapy_rep.settings import RepSettings
from scrapy_rep.signals import request_allowed, request_denied, robotstxt_known
from scrapy_rep.stores import open_store
from scrapy_rep.waiting import Waiting

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.overrides import Override
    from scrapy_rep.protocol.access import Entry
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robotstxt import RobotsTxt
    from scrapy_rep.registry import Known

logger = logging.getLogger(__name__)

_BY_USER = Decision(True, None, None, Reason.OVERRIDE)
_ROBOTS_TXT = Decision(True, None, None, Reason.ROBOTS_TXT)


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
        self._has_ledger = settings.ledger is not None
        self._tells_all = self._has_ledger and settings.ledger_level == "all"
        self._identity = Identity.of(crawler, settings)
        store = open_store(
            settings.store,
            max_entries=settings.store_max_entries,
            max_bytes=settings.store_max_bytes,
        )
        self._registry = RobotsTxtRegistry(
            crawler,
            RobotsTxtFetcher(crawler, settings),
            Keeper(crawler, store),
            settings,
            landed=self._landed,
            settled=self._settled,
        )
        self._waiting = Waiting(crawler, self._registry, settings.unreachable_wait)
        self._overrides = settings.overrides
        self._overrides_in_use: set[str] = set()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RobotsTxtMiddleware:
        return cls(crawler)

    async def process_request(self, request: Request) -> Request | Response | None:
        if meta.FETCH in request.meta:
            return None
        url = urlparse_cached(request)
        where = origin(url.scheme, url.netloc)
        if where is None:
            return None
        if _is_exempt(request):
            self._tell_allowed(request, where, _BY_USER)
            return None
        override = self._override(where)
        if override is not None and override.kind != "obey":
            self._note(override, where)
            if override.robots is None:
                self._tell_allowed(request, where, _BY_USER, override=override)
            else:
                self._keep_to(override.robots, where, request, override=override)
            return None
        known = self._registry.at_hand(where)
        # Nearly always it is at hand, and there is nothing to wait for.
        if known is None or known.entry.unreachable_since or _was_held(request):
            known = await self._waiting.known(where, request)
            if known is None:
                return request
        if override is not None:
            self._note(override, where)
        if url.path == "/robots.txt" and not url.query and request.method == "GET":
            copy = self._copy(known, request)
            if copy is None and self._tells_all:
                self._tell_allowed(request, where, _ROBOTS_TXT, known.entry)
            return copy
        self._keep_to(known.robots, where, request, known.entry)
        return None

    def process_response(self, request: Request, response: Response) -> Response:
        if meta.FETCH in request.meta:
            bound_decompression(request)
        return response

    def _keep_to(
        self,
        robots: RobotsTxt,
        where: Origin,
        request: Request,
        entry: Entry | None = None,
        override: Override | None = None,
    ) -> None:
        agents = self._identity.tokens(request)
        is_told = self._tells_all or override is not None
        if not is_told and robots.is_allowed(request.url, agents):
            return
        decision = robots.decide(request.url, agents)
        if decision.allowed:
            self._tell_allowed(request, where, decision, entry, override)
            return
        denied = RobotsDenied(decision, where.robotstxt_url)
        logger.debug(
            "%(denied)s: %(request)s",
            {"denied": denied, "request": request},
            extra={"spider": self._crawler.spider},
        )
        self._crawler.stats.inc_value(stats.FORBIDDEN)
        self._crawler.stats.inc_value(stats.DENIED.format(reason=decision.reason))
        self._crawler.signals.send_catch_log(
            request_denied,
            request=request,
            decision=decision,
            robotstxt_url=where.robotstxt_url,
            origin=where,
            entry=entry,
            override=override,
            spider=self._crawler.spider,
        )
        raise denied

    def _tell_allowed(
        self,
        request: Request,
        where: Origin,
        decision: Decision,
        entry: Entry | None = None,
        override: Override | None = None,
    ) -> None:
        if self._has_ledger:
            self._crawler.signals.send_catch_log(
                request_allowed,
                request=request,
                decision=decision,
                origin=where,
                entry=entry,
                override=override,
                spider=self._crawler.spider,
            )

    def _override(self, where: Origin) -> Override | None:
        """What the user has decided about an origin, if anything."""
        for override in self._overrides:
            if override.covers(where):
                return override
        return None

    def _note(self, override: Override, where: Origin) -> None:
        """Count the use of an override, and say it once."""
        self._crawler.stats.inc_value(stats.OVERRIDE.format(kind=override.kind))
        if override.pattern not in self._overrides_in_use:
            self._overrides_in_use.add(override.pattern)
            logger.info(
                "REP_OVERRIDES[%(pattern)r] decides for %(origin)s: %(kind)s",
                {"pattern": override.pattern, "origin": where, "kind": override.kind},
                extra={"spider": self._crawler.spider},
            )

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

    async def _landed(
        self, where: Origin, known: Known, request: Request, is_new: bool
    ) -> None:
        """Say what a fetch of robots.txt came to, or that none was needed."""
        result = known.entry.result
        access = result.access
        self._crawler.signals.send_catch_log(
            robotstxt_known,
            origin=where,
            entry=known.entry,
            is_new=is_new,
            request=request,
            spider=self._crawler.spider,
        )
        if is_new:
            self._crawler.stats.inc_value(stats.ACCESS.format(access=access))
        else:
            self._crawler.stats.inc_value(stats.FROM_STORE)
        logger.log(
            logging.WARNING if access is Access.UNREACHABLE else logging.DEBUG,
            "%(url)s is %(access)s (%(result)s)",
            {"url": where.robotstxt_url, "access": access, "result": result},
            extra={"spider": self._crawler.spider},
        )
        if access is not Access.SUCCESSFUL:
            return
        if result.is_html:
            logger.info(
                "%(url)s is an HTML page; what reads as rules in it is kept to",
                {"url": where.robotstxt_url},
                extra={"spider": self._crawler.spider},
            )
        if HAS_ROBOTS_PARSED_SIGNAL:
            await self._crawler.signals.send_catch_log_async(
                signals.robots_parsed,
                robotparser=RobotParser(known.robots),
                request=request,
            )

    def _settled(self, where: Origin, known: Known) -> None:
        self._waiting.settled(where, known)


def _was_held(request: Request) -> bool:
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
    return all(origin_of(url) == where for url in redirected_from)
