"""Turns the signals of a crawl into records of a ledger."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING, Any

from scrapy import signals

from scrapy_rep import meta
from scrapy_rep import signals as ours
from scrapy_rep.exceptions import ItemDenied, UsageDenied
from scrapy_rep.extensions.pagedecisions import PageDecision
from scrapy_rep.frontier.hostkeys import request_origin
from scrapy_rep.ledger.records import Decided, Snapshot, storable, url_text
from scrapy_rep.ledger.terms import Layer, Verdict
from scrapy_rep.protocol.indexing.statements import Statement
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.robotstxt.decisions import Reason
from scrapy_rep.protocol.usage.vocabulary import CATEGORIES
from scrapy_rep.responses.documents import has_document
from scrapy_rep.settings import NOFOLLOW, NOINDEX, OBEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_rep.frontier.reporter import Via
    from scrapy_rep.protocol.access.overrides import Override
    from scrapy_rep.protocol.access.results import Entry
    from scrapy_rep.protocol.indexing.rules import IndexingRules
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robotstxt.decisions import Decision
    from scrapy_rep.protocol.usage.preferences import Denial, UsagePreferences
    from scrapy_rep.protocol.usage.statements import UsageStatement
    from scrapy_rep.settings import RepSettings

# The most statements of one response to record. A response can have a thousand.
_MAX_STATEMENTS = 100

# The most decisions to remember at the level "denied", so that they are not recorded twice.
_MAX_REMEMBERED = 10_000

_OF_PACE = frozenset({Reason.BACK_OFF, Reason.CRAWL_DELAY, Reason.VISIT_TIME})

_OF_DATA = "data"
"""The reason of a row for an indexing rule that data states: it withholds nothing."""


class Evidence:
    """Turns signals into records, and passes them to *write*.

    At the level ``"denied"``, what the user's overrides allow is recorded once for each
    origin, since the user has to justify it. So are indexing rules that have no effect because
    the response is no document.
    """

    def __init__(
        self, settings: RepSettings, write: Callable[[Snapshot | Decided], None]
    ) -> None:
        self._settings = settings
        self._write = write
        self._has_all = settings.ledger_level == "all"
        self._recorded: set[tuple[str, str]] = set()
        self.receivers: dict[Any, Callable[..., None]] = {
            ours.host_paused: self._host_paused,
            ours.indexing_read: self._indexing_read,
            ours.item_annotated: self._item_annotated,
            ours.link_dropped: self._link_dropped,
            ours.media_refused: self._media_refused,
            ours.request_allowed: self._request_decided,
            ours.request_denied: self._request_decided,
            ours.robotstxt_known: self._robotstxt_known,
            ours.usage_annotated: self._usage_annotated,
            ours.usage_read: self._usage_read,
            signals.item_dropped: self._item_dropped,
        }
        if not settings.obey:
            self.receivers[signals.request_reached_downloader] = self._not_obeyed

    # robots.txt.

    def _robotstxt_known(self, origin: Origin, entry: Entry) -> None:
        self._write(Snapshot(str(origin), entry, self._settings.dialect))

    def _request_decided(  # noqa: PLR0917  what the signals carry
        self,
        request: Request,
        decision: Decision,
        origin: Origin | None,
        entry: Entry | None,
        override: Override | None,
        via: Via | None,
    ) -> None:
        what = "" if override is None else override.pattern
        if decision.allowed and not (self._has_all or self._is_due(origin, what)):
            return
        layer, why, statement = _grounds(decision, override)
        self._write(
            Decided(
                time.time(),
                str(origin or ""),
                url_text(request.url),
                None,
                decision.agent,
                layer,
                Verdict.ALLOWED if decision.allowed else Verdict.REFUSED,
                why,
                None if entry is None else entry.fetched,
                decision.rule and decision.rule.line,
                statement,
                url_text(decision.form) or None,
                via=via and f"{via.how} {url_text(via.page)}",
            )
        )

    def _not_obeyed(self, request: Request) -> None:
        """Record a request that was sent while ``ROBOTSTXT_OBEY`` is off."""
        origin = origin_of(request.url)
        if origin is not None and (self._has_all or self._is_due(origin, OBEY)):
            self._write_decision(
                request.url,
                PageDecision(Layer.OVERRIDE, Verdict.ALLOWED, OBEY),
                request,
            )

    def _is_due(self, origin: Origin | None, what: str) -> bool:
        """Remember a decision about *origin*; return False if it is recorded already."""
        key = str(origin or ""), what
        if key in self._recorded:
            return False
        if len(self._recorded) >= _MAX_REMEMBERED:
            self._recorded.clear()
        self._recorded.add(key)
        return True

    def _host_paused(self, request: Request, response: Response) -> None:
        asked = (response.headers.get(b"Retry-After") or b"").decode("latin-1")
        statement = (
            f"{response.status}, Retry-After: {asked}"
            if asked
            else str(response.status)
        )
        decision = PageDecision(
            Layer.DELAY, Verdict.NOTED, Reason.BACK_OFF.value, storable(statement)
        )
        self._write_decision(response.url, decision, request)

    # Pages.

    def _indexing_read(
        self, request: Request, response: Response, rules: IndexingRules
    ) -> None:
        url = response.url
        is_data = not has_document(response)
        if self._has_all or (is_data and self._is_due(origin_of(url), _OF_DATA)):
            known = (each for each in rules.statements if each.known)
            for each in islice(known, _MAX_STATEMENTS):
                reason = _OF_DATA if is_data else each.name
                decision = PageDecision(Layer(each.source), Verdict.NOTED, reason, each)
                self._write_decision(url, decision, request, page=url)
        if is_data:
            return
        settings = self._settings
        noindex = not rules.indexable(datetime.now(timezone.utc))
        if noindex and request.meta.get(meta.DONT_OBEY_NOINDEX):
            because = rules.because(_why(rules))
            self._overridden(request, url, meta.DONT_OBEY_NOINDEX, because)
        elif noindex and settings.noindex == "ignore":
            self._overridden(request, url, NOINDEX, rules.because(_why(rules)))
        if not rules.follow and settings.nofollow == "ignore":
            self._overridden(request, url, NOFOLLOW, rules.because("nofollow"))

    def _overridden(
        self, request: Request, url: str, reason: str, because: Statement | None
    ) -> None:
        """Record that the user of the crawler overrides a statement of a page."""
        origin = origin_of(url)
        if self._has_all or (origin is not None and self._is_due(origin, reason)):
            decision = PageDecision(Layer.OVERRIDE, Verdict.ALLOWED, reason, because)
            self._write_decision(url, decision, request, page=url)

    def _item_dropped(self, response: Response, exception: BaseException) -> None:
        if isinstance(exception, ItemDenied):
            self._item(response, Verdict.DROPPED, exception.rule, exception.statement)
        elif isinstance(exception, UsageDenied):
            self._use(response, Verdict.DROPPED, exception.denial, exception.entry)

    def _item_annotated(self, response: Response, rules: IndexingRules) -> None:
        why = _why(rules)
        self._item(response, Verdict.ANNOTATED, why, rules.because(why))

    def _item(
        self, response: Response, verdict: Verdict, why: str, because: Statement | None
    ) -> None:
        layer = Layer(because.source) if because else Layer.META
        decision = PageDecision(layer, verdict, why, because)
        url = response.url
        self._write_decision(url, decision, response.request, page=url)

    def _link_dropped(
        self,
        request: Request,
        response: Response,
        reason: str,
        statement: Statement | str | None,
    ) -> None:
        source = statement.source if isinstance(statement, Statement) else reason
        decision = PageDecision(Layer(source), Verdict.DROPPED, "nofollow", statement)
        self._write_decision(request.url, decision, request, page=response.url)

    def _media_refused(  # noqa: PLR0917  what the signal carries
        self,
        url: str,
        request: Request,
        response: Response,
        reason: str,
        statement: Statement | UsageStatement | None,
        entry: Entry | None,
    ) -> None:
        if reason in CATEGORIES:
            layer = Layer.USAGE
        else:
            layer = Layer(statement.source) if statement else Layer.META
        decision = PageDecision(layer, Verdict.DROPPED, reason, statement, entry)
        self._write_decision(url, decision, request, page=response.url)

    # Use.

    def _usage_read(
        self, response: Response, preferences: UsagePreferences, entry: Entry | None
    ) -> None:
        for each in preferences.statements[:_MAX_STATEMENTS]:
            reason = each.category or str(each.signal)
            decision = PageDecision(Layer.USAGE, Verdict.NOTED, reason, each, entry)
            self._write_decision(
                response.url, decision, response.request, page=response.url
            )

    def _usage_annotated(
        self, response: Response, denial: Denial, entry: Entry | None
    ) -> None:
        self._use(response, Verdict.ANNOTATED, denial, entry)

    def _use(
        self, response: Response, verdict: Verdict, denial: Denial, entry: Entry | None
    ) -> None:
        decision = PageDecision(
            Layer.USAGE, verdict, denial.purpose, denial.statement, entry
        )
        self._write_decision(
            response.url, decision, response.request, page=response.url
        )

    def _write_decision(
        self,
        url: str,
        decision: PageDecision,
        request: Request | None,
        *,
        page: str | None = None,
    ) -> None:
        """Record a decision about *url*, which *request* fetches, or has fetched."""
        decided = decision.decided(url, page, time.time())
        origin = request_origin(request) if request is not None else None
        # A browser may have been led to another origin, without the virtual host.
        if origin is not None and origin.server == decided.origin:
            decided = decided._replace(origin=str(origin))
        self._write(decided)


def _why(rules: IndexingRules) -> str:
    return "unavailable_after" if rules.index else "noindex"


def _grounds(
    decision: Decision, override: Override | None
) -> tuple[Layer, str, str | None]:
    """Return the layer of a decision, its reason, and the rule or override."""
    rule, reason = decision.rule, decision.reason
    statement = rule and storable(f"{rule.kind.title()}: {rule.pattern}")
    if override is not None:
        statement = statement or f"{override.pattern}: {override.kind}"
        return Layer.OVERRIDE, reason.value, statement
    if reason is Reason.OVERRIDE:
        return Layer.OVERRIDE, meta.DONT_OBEY_ROBOTSTXT, statement
    layer = Layer.DELAY if reason in _OF_PACE else Layer.ROBOTS_TXT
    return layer, reason.value, statement
