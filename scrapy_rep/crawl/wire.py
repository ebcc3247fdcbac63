"""The wire: the downloader middleware nearest to the network, which sends each request at its time.

It comes after all of Scrapy's middlewares, the HTTP cache included. So it sees each request as it is sent, and
each response before another component can change or hide it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import IgnoreRequest, NotConfigured

from scrapy_rep.base.meta import COPIED_FLAG
from scrapy_rep.base.requests import request_origin
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.fetching.request import FetchMiddleware, RobotsTxtRequest
from scrapy_rep.crawl.frontier.frontier import Frontier, Withdrawn
from scrapy_rep.crawl.frontier.limits import Stage
from scrapy_rep.crawl.gate import gate_of
from scrapy_rep.crawl.reporting import BACK_OFF, BUDGET, Check, DecisionReporter
from scrapy_rep.exceptions import BackingOff

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from scrapy_rep.crawl.frontier.limits import InFlight
    from scrapy_rep.crawl.gate import RobotsTxtMiddleware
    from scrapy_rep.protocol.robotstxt.rules import Decision

# The flags of responses for which no request was sent: from Scrapy's HTTP cache, and the copies of robots.txt
# files that the gate gives to spiders.
_NOT_FETCHED = frozenset({"cached", COPIED_FLAG})


class WireMiddleware:
    """Sends each request when the limits of its host allow it, and tells the frontier of each answer."""

    ORDER = 950
    """After HttpCacheMiddleware (900), the last of Scrapy's own."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._frontier = Frontier.of(crawler)
        self._frontier.has_wire = True
        self._reporter = DecisionReporter.of(crawler)
        self._robotstxt = FetchMiddleware(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by Scrapy. A dry run has no wire: it delays no request."""
        if RepSettings.of(crawler).dry_run:
            raise NotConfigured
        return cls(crawler)

    @cached_property
    def _gate(self) -> RobotsTxtMiddleware | None:
        """The gate; None if the crawl ignores robots.txt or the project has disabled the gate."""
        return gate_of(self._crawler)

    # Requests.

    def process_request(
        self, request: Request
    ) -> Request | Coroutine[Any, Any, Request | Response | None] | None:
        """Return None if *request* may be sent now, else a coroutine that waits until it may. If this very object
        is at the wire already, return a copy of it, since each download counts by itself. Raises RobotsDenied if a
        crawl without a gate has fetched as many pages of the host as it may.
        """
        frontier, gate = self._frontier, self._gate
        entry = frontier.in_flight.get(request) or frontier.enter(request)
        if entry.is_at_wire:
            return frontier.copy_for_second_download(request)
        entry.is_at_wire = True
        if isinstance(request, RobotsTxtRequest):
            self._robotstxt.process_request(request)
            gate = None
        elif gate is None and not frontier.admits_page(request, entry):
            why = frontier.why_no_page(request, entry)
            raise self._refused(request, why, BUDGET)
        is_judged = gate is None or gate.is_judged(request, entry)
        needs_permit = frontier.permits and frontier.permits.is_needed(request, entry)
        if is_judged and not needs_permit and frontier.may_send(request, entry):
            if gate is not None and entry.report is not None:
                gate.report(entry)
            return None
        entry.may_return &= is_judged
        return self._until_sent(request, entry, gate, is_judged=is_judged)

    async def _until_sent(
        self,
        request: Request,
        entry: InFlight,
        gate: RobotsTxtMiddleware | None,
        *,
        is_judged: bool,
    ) -> Request | Response | None:
        """Wait until *request* is judged as it is now, has its permit among all workers, and has room in its limiters.
        Return None when it may be sent, the request if it is to wait in the scheduler instead, or the cached
        response if it has become one for a robots.txt that the crawl has. Raises SpiderClosing, or RobotsDenied,
        also if its host asks for too long a pause (BackingOff if the request is for robots.txt).
        """
        frontier, permits = self._frontier, self._frontier.permits
        while True:
            if gate is not None and not is_judged:
                judged = await gate.judge_again(request, entry)
                if judged is not None:
                    return judged
            if (
                permits is not None
                and permits.is_needed(request, entry)
                and not await permits.acquire(
                    request, entry, may_return=entry.may_return
                )
            ):
                return frontier.return_to_scheduler(request, entry)
            is_sent = frontier.may_send(request, entry)
            if not is_sent:
                if frontier.waits_in_scheduler(entry):
                    return frontier.return_to_scheduler(request, entry)
                try:
                    is_sent = await frontier.until_sent(request, entry)
                except BackingOff as error:
                    raise self._refused(request, str(error), BACK_OFF) from None
            is_judged = gate is None or frontier.may_use_rules(entry)
            has_permit = permits is None or not permits.is_needed(request, entry)
            if is_sent and is_judged and has_permit:
                if gate is not None:
                    gate.report(entry)
                return None
            # The rules are stale by now, the host has a pause, or the permit is lost. Others need the room and the
            # permit meanwhile.
            frontier.unsend(entry)
            if permits is not None:
                permits.release(entry)

    def _refused(self, request: Request, why: str, decision: Decision) -> Exception:
        """Return the error with which *request* is refused by *decision*. *why* is for its message."""
        if isinstance(request, RobotsTxtRequest):
            return BackingOff(why)
        check = Check(request, request_origin(request))
        check.why = why
        return self._reporter.refused(check, decision)

    # Responses.

    def process_response(self, request: Request, response: Response) -> Response:
        frontier, gate = self._frontier, self._gate
        entry = frontier.in_flight.get(request) or frontier.enter(request)
        if entry.stage is not Stage.SENT and _NOT_FETCHED.isdisjoint(response.flags):
            frontier.note_fetched(request, entry)
        if gate is not None and entry.report is not None:
            gate.report(entry)
        frontier.has_page |= not isinstance(request, RobotsTxtRequest)
        if entry.stage is Stage.SENT:
            frontier.answered(request, response, entry)
        frontier.end(request, entry)
        return response

    def process_exception(
        self, request: Request, exception: Exception
    ) -> Request | None:
        frontier = self._frontier
        entry = frontier.enter(request)
        if isinstance(exception, Withdrawn):
            return frontier.withdrawn(request, entry)
        # With IgnoreRequest, a component drops a request before it is sent. Any other error counts as that of a
        # request that was sent, here or by another middleware.
        if not isinstance(exception, IgnoreRequest):
            if entry.stage is not Stage.SENT:
                frontier.note_fetched(request, entry)
            frontier.failed(request, exception, entry)
        frontier.end(request, entry)
        return None
