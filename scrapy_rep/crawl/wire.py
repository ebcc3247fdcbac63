"""The wire: the downloader middleware nearest to the network. It holds back each request until the request may be sent.

The wire is nearer to the network than all of Scrapy's middlewares, the HTTP cache included. So the wire gets each
request in the form in which it is sent, and each response before another component can change or hide the response.
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

# Each response that was not downloaded has one of these flags. Such responses come from Scrapy's HTTP cache, or are
# copies of cached robots.txt files, which the gate returns to spiders.
_NOT_FETCHED = frozenset({"cached", COPIED_FLAG})


class WireMiddleware:
    """Holds back each request until the limits of its host allow sending the request. Reports each response and each
    failed download to the :class:`Frontier`, which adapts the limits to pauses and outages.
    """

    ORDER = 950
    """The order in ``DOWNLOADER_MIDDLEWARES``: nearer to the network than HttpCacheMiddleware (900), the last of
    Scrapy's own middlewares."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._frontier = Frontier.of(crawler)
        self._frontier.has_wire = True
        self._reporter = DecisionReporter.of(crawler)
        self._robotstxt = FetchMiddleware(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by Scrapy. Raises NotConfigured in a dry run, which does not need this middleware, because a dry run
        delays no request.
        """
        if RepSettings.of(crawler).dry_run:
            raise NotConfigured
        return cls(crawler)

    @cached_property
    def _gate(self) -> RobotsTxtMiddleware | None:
        """The gate of the crawl; None if the crawl ignores robots.txt, or if the project has disabled the gate."""
        return gate_of(self._crawler)

    # Requests.

    def process_request(
        self, request: Request
    ) -> Request | Coroutine[Any, Any, Request | Response | None] | None:
        """Called by Scrapy. Hold back *request* until it may be sent. Return a value for Scrapy:

        - None if *request* may be sent now.
        - A coroutine that waits until *request* may be sent.
        - A copy of *request* if a component downloads the same request object again while the first download is still
          running. With the copy, each of the two downloads is counted.

        In a crawl without RobotsTxtMiddleware, raises RobotsDenied if the host of *request* has reached the maximum
        number of pages. (In other crawls, RobotsTxtMiddleware refuses such a request.)
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
        is_unchanged = gate is None or gate.is_unchanged(request, entry)
        is_judged = is_unchanged and (gate is None or frontier.may_use_rules(entry))
        needs_permit = frontier.permits and frontier.permits.is_needed(request, entry)
        if is_judged and not needs_permit and frontier.may_send(request, entry):
            if gate is not None and entry.report is not None:
                gate.report(entry)
            return None
        entry.may_return &= is_unchanged
        return self._until_sent(request, entry, gate, is_judged=is_judged)

    async def _until_sent(
        self,
        request: Request,
        entry: InFlight,
        gate: RobotsTxtMiddleware | None,
        *,
        is_judged: bool,
    ) -> Request | Response | None:
        """Wait until *request* may be sent. Three conditions must be met:

        - The gate has allowed the present URL, ``Host`` and ``User-Agent`` of *request*. *is_judged* is whether this
          condition is already met.
        - The limits of the host, such as its delay and its concurrency, allow another request.
        - If several workers send requests to the host, this worker has a permit for *request*.

        Return None when *request* may be sent. Return *request* if it has to wait in the scheduler instead. If another
        middleware has changed the URL of *request* to the URL of a robots.txt that the crawl has cached, return the
        cached response.

        Raises RobotsDenied if robots.txt forbids *request*, and SpiderClosing if the spider closes. If the host asks
        for too long a pause, raises BackingOff for a robots.txt request, and RobotsDenied for any other request.
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
            # The request has to wait again: its rules have become stale, its host has asked for a pause, or it needs
            # another permit from the Redis server. While the request waits, it has no permit, and the limiters of its
            # host do not count it, so that other requests can be sent.
            frontier.unsend(entry)
            if permits is not None:
                permits.release(entry)

    def _refused(self, request: Request, why: str, decision: Decision) -> Exception:
        """Return the exception to raise for *request*, which is refused. Its message contains the reason *why*. For a
        robots.txt request, the exception is a BackingOff. For any other request, it is a RobotsDenied, and the
        *decision* to refuse the request is reported.
        """
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
        # A component raises IgnoreRequest to drop a request before it is sent. After any other error, the request is
        # treated as sent, even if it has not passed this middleware, because another middleware can have sent it.
        if not isinstance(exception, IgnoreRequest):
            if entry.stage is not Stage.SENT:
                frontier.note_fetched(request, entry)
            frontier.failed(request, exception, entry)
        frontier.end(request, entry)
        return None
