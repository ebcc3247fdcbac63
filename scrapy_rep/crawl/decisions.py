"""Reports decisions: in the log, in stats, and by signals."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Literal, NamedTuple

from scrapy_rep.base import stats
from scrapy_rep.base.compat import shared_component
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.record import (
    IN_DRY_RUN,
    Because,
    Layer,
    Record,
    Subject,
    Verdict,
    made,
    of_page,
    of_request,
    url_text,
)
from scrapy_rep.base.requests import origin_at
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.summary import Withheld
from scrapy_rep.exceptions import RobotsDenied
from scrapy_rep.protocol.reasons import REASONS
from scrapy_rep.protocol.robotstxt.rules import Decision, Reason
from scrapy_rep.signals import rep_decided

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.protocol.access.overrides import Override
    from scrapy_rep.protocol.access.results import CacheEntry, SiteRules
    from scrapy_rep.protocol.origins import Origin

BY_USER = Decision(True, None, None, Reason.OVERRIDE)
ROBOTS_TXT = Decision(True, None, None, Reason.ROBOTS_TXT)
BACK_OFF = Decision(False, None, None, Reason.BACK_OFF)
BAD_URL = Decision(False, None, None, Reason.BAD_URL)


class Via(NamedTuple):
    """How a browser came to a URL that the spider did not request."""

    how: Literal["redirect", "browser"]
    """``"redirect"``: the browser has fetched the URL, to which a redirect or a script led it.
    ``"browser"``: a page requests the URL."""

    page: str
    """The URL of the page (or empty), or of the spider's request before the redirect."""


@dataclass(slots=True, eq=False)
class Case:
    """A request, and what decides about it."""

    request: Request

    origin: Origin | None
    """None if the host or port of the URL cannot be read."""

    known: SiteRules | None = None
    """The robots.txt of the origin; None if it does not decide, or must be fetched first."""

    override: Override | None = None
    """The override that replaces the robots.txt of the origin, if there is one."""

    via: Via | None = None
    """How a browser came to the URL; None for a request of the spider."""

    is_exempt: bool = False
    """Whether the spider has exempted the request from robots.txt."""

    is_refused_by_scrapy: bool = False
    """Whether Scrapy's own middleware has refused the request, in a dry run."""

    why: str = ""
    """More about the reason, for the message of a refusal."""

    @property
    def entry(self) -> CacheEntry | None:
        """The cache entry of robots.txt; None if robots.txt does not decide."""
        return None if self.known is None else self.known.entry

    @property
    def fetched(self) -> float:
        """When the robots.txt was fetched; negative infinity if it does not decide."""
        return -inf if self.known is None else self.known.entry.fetched

    def record(self, decision: Decision) -> Record:
        """Return the record of a decision about the request."""
        return of_request(
            self.request.url,
            self.origin,
            decision,
            entry=self.entry,
            override=self.override,
            via=self.via and f"{self.via.how} {url_text(self.via.page)}",
        )

    def message(self, decision: Decision) -> str:
        """Return the message of the error that refuses the request."""
        if decision.reason is Reason.BACK_OFF:
            return f"Refused by {decision.reason}: {self.why}"
        if self.override is not None:
            why = f"REP_OVERRIDES[{self.override.pattern!r}]{self.override.note}"
        elif self.origin is not None:
            why = self.origin.robotstxt_url
        else:
            why = "scrapy-rep"
        if decision.rule is not None:
            kind, pattern, line = decision.rule
            why += f", line {line} ({kind}: {pattern})"
            if decision.reason is not Reason.RULE:
                words, setting, _ = REASONS[decision.reason]
                why += f": {words} ({setting})"
        else:
            more = REASONS[decision.reason].text
            if decision.reason is Reason.UNREACHABLE and self.entry is not None:
                more = str(self.entry.result)
            why += f" ({decision.reason}: {more})"
        if decision.form:
            why += f", as {decision.form}"
        if self.via:
            is_redirect = self.via.how == "redirect"
            how = (
                "arrived by a browser's redirect"
                if is_redirect
                else "requested by a browser"
            )
            why += f"; {self.request.url} {how} from {self.via.page}"
        return f"Refused by {why}"


class DecisionReporter:
    """Reports each decision once, and at the end of the crawl what was withheld.

    Allowed requests are reported only to a ledger: all at its level ``"all"``, otherwise
    only those that the user allows, by an override or ``dont_obey_robotstxt``; and in a dry
    run, those that Scrapy's own middleware has refused.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = RepSettings.of(crawler)
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._has_ledger = settings.ledger is not None
        self._reports_all = self._has_ledger and settings.ledger_level == "all"
        self._overrides_in_use: set[str] = set()
        self._withheld = Withheld(crawler)
        self._is_dry_run = settings.dry_run

    @classmethod
    def of(cls, crawler: Crawler) -> DecisionReporter:
        """Return the instance that the components of a crawl share."""
        return shared_component(crawler, cls)

    def reports_allowed(self, case: Case) -> bool:
        """Whether the request of *case* is reported if it is allowed."""
        is_special = case.is_exempt or case.is_refused_by_scrapy
        return self._reports_all or case.override is not None or is_special

    def allowed(self, case: Case, decision: Decision) -> None:
        record = case.record(decision)
        if case.is_refused_by_scrapy:
            record = record._replace(verdict=Verdict.WOULD_ALLOW)
            stat = stats.DRY_RUN_ALLOWED.format(reason=record.reason)
            self._crawler.stats.inc_value(stat)
            self._withheld.note(record, case.request)
        elif not self._has_ledger:
            return
        self.decided(record, case.request)

    def refused(self, case: Case, decision: Decision) -> RobotsDenied:
        """Report that a request is refused. Return the error for its errback."""
        denied = RobotsDenied(case.message(decision), case.record(decision))
        if not self._is_dry_run:
            message = "%(denied)s: %(request)s"
            self._logger.debug(message, denied=denied, request=case.request)
            self._crawler.stats.inc_value(stats.FORBIDDEN)
        self.decided(denied.record, case.request)
        return denied

    def decided(
        self,
        record: Record,
        request: Request | None = None,
        response: Response | None = None,
    ) -> None:
        """Count a decision, and send the signal about it."""
        if record.verdict in IN_DRY_RUN:
            stat = _stat(record)
            if self._is_dry_run:
                stat = stats.DRY_RUN.format(key=stat.removeprefix("rep/"))
                record = record._replace(verdict=IN_DRY_RUN[record.verdict])
            self._crawler.stats.inc_value(stat)
            self._withheld.note(record, request)
        self._send(rep_decided, record=record, request=request, response=response)

    def stated(
        self,
        subject: Subject,
        verdict: Verdict,
        reason: str,
        because: Because,
        *,
        request: Request | None,
        response: Response,
        url: str = "",
        entry: CacheEntry | None = None,
    ) -> Record:
        """Report a decision by what a page states, and return its record. It is about *url*, or
        else about the page. *entry* is the cache entry of the robots.txt that stated it.
        """
        url = url or response.url
        record = of_page(
            subject,
            verdict,
            reason,
            because,
            url=url,
            origin=origin_at(url, request),
            page=response.url,
            entry=entry,
        )
        self.decided(record, request, response)
        return record

    def slowed(
        self, reason: str, statement: str, origin: Origin | None, url: str
    ) -> None:
        """Report that *origin* has the crawl wait, by what *url* says."""
        record = made(
            Subject.REQUEST,
            Verdict.NOTED,
            Layer.DELAY,
            reason,
            url=url,
            origin=origin,
            statement=statement,
        )
        self._withheld.note(record, None)
        self.decided(record)

    def override_used(self, override: Override, origin: Origin) -> None:
        self._crawler.stats.inc_value(stats.OVERRIDE.format(kind=override.kind))
        if override.pattern not in self._overrides_in_use:
            self._overrides_in_use.add(override.pattern)
            self._logger.info(
                "REP_OVERRIDES[%(pattern)r] decides for %(origin)s: %(kind)s%(note)s",
                pattern=override.pattern,
                origin=origin,
                kind=override.kind,
                note=override.note,
            )

    def _send(self, signal: object, **arguments: object) -> None:
        self._crawler.signals.send_catch_log(
            signal, **arguments, spider=self._crawler.spider
        )


def _stat(record: Record) -> str:
    """Return the stat that counts what is withheld like *record*."""
    reason, is_use = record.reason, record.layer is Layer.USAGE
    if record.subject is Subject.REQUEST:
        return stats.DENIED.format(reason=reason)
    if record.subject is Subject.LINK:
        source = "rel" if record.layer is Layer.REL else "page"
        return stats.NOFOLLOW.format(source=source)
    if record.subject is Subject.ITEM:
        if is_use:
            return stats.USAGE_DROPPED.format(purpose=reason)
        return stats.NOINDEX.format(rule=reason)
    if is_use:
        return stats.USAGE_MEDIA.format(purpose=reason)
    return stats.MEDIA_REFUSED.format(rule=reason)
