"""Says in the log what a crawl withheld or slowed down, and which setting changes that."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import CloseSpider
from scrapy.utils.python import global_object_name

from scrapy_rep.base import stats
from scrapy_rep.base.compat import connect_first, package_version
from scrapy_rep.base.identity import Identity
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.record import IN_DRY_RUN, Record, Subject, Verdict
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.protocol.reasons import words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request
    from scrapy.crawler import Crawler

_KINDS = {
    (Subject.REQUEST, Verdict.REFUSED): "Requests refused",
    (Subject.LINK, Verdict.DROPPED): "Links not followed",
    (Subject.ITEM, Verdict.DROPPED): "Items dropped",
    (Subject.FILE, Verdict.DROPPED): "Files withheld",
    (Subject.REQUEST, Verdict.WOULD_REFUSE): "Requests that would be refused",
    (Subject.LINK, Verdict.WOULD_DROP): "Links that would not be followed",
    (Subject.ITEM, Verdict.WOULD_DROP): "Items that would be dropped",
    (Subject.FILE, Verdict.WOULD_DROP): "Files that would be withheld",
    (
        Subject.REQUEST,
        Verdict.WOULD_ALLOW,
    ): "Requests that Scrapy refuses and that would be sent",
}

_SLOWED = {
    "delay": "Hosts that ask for a delay",
    "back-off": "Pauses that hosts asked for",
}

_IN_WORDS = {
    Verdict.REFUSED: "is refused",
    Verdict.DROPPED: "is dropped",
    Verdict.WOULD_REFUSE: "would be refused",
    Verdict.WOULD_DROP: "would be dropped",
}

# The reasons for which a start request is refused by its robots.txt.
_BY_ROBOTS_TXT = frozenset(
    {"rule", "too-long", "unavailable", "unreachable", "crawl-delay"}
)

_OF_DRY_RUN = frozenset({*IN_DRY_RUN.values(), Verdict.WOULD_ALLOW})

# The most hosts that a line of a dry run names, and those that are counted for it.
_HOSTS_NAMED = 3
_HOSTS_COUNTED = 10_000


class Withheld:
    """Counts the records of a crawl by kind and reason, and logs a line for each at its end.

    It logs at once that a start request is refused, and that the first item is dropped: a crawl
    may have no other result. If robots.txt has refused a start request and no page was fetched, it
    closes the crawl with the reason ``robots_denied``.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._logger = CrawlLog(__name__, crawler)
        self._crawler, self._stats = crawler, crawler.stats
        self._found: dict[tuple[Subject, Verdict, str, str], tuple[int, Record]] = {}
        """How often there was each kind and reason, and the first record of it."""
        self._origins: dict[tuple[Subject, Verdict, str, str], Counter[str]] = {}
        """For each of them in a dry run, how often there was each origin."""
        self._has_said: set[Subject] = set()
        self._is_start_refused = self._has_page = False
        crawler.signals.connect(self._introduce, signals.spider_opened)
        crawler.signals.connect(self._sum_up, signals.spider_closed)
        crawler.signals.connect(self._received, signals.response_received)
        connect_first(crawler, self._spider_idle, signals.spider_idle)

    def _introduce(self) -> None:
        """Say who crawls, by which settings."""
        settings, rep = self._crawler.settings, RepSettings.of(self._crawler)
        if rep.dry_run:
            does = "a dry run (REP_DRY_RUN), which refuses and drops nothing"
        elif rep.obey:
            does = "robots.txt is obeyed"
        else:
            does = (
                "robots.txt is ignored (ROBOTSTXT_OBEY), but noindex and nofollow have the effect "
                f"that REP_NOINDEX = {rep.noindex!r} and REP_NOFOLLOW = {rep.nofollow!r} give them"
            )
        queue = settings.get(
            "SCHEDULER_QUEUE_CLASS", settings["SCHEDULER_PRIORITY_QUEUE"]
        )
        self._logger.info(
            "scrapy-rep %(version)s crawls as %(agents)s (dialect %(dialect)s): %(does)s. Queue: "
            "%(queue)s, store: %(store)s, ledger: %(ledger)s",
            version=package_version(),
            agents=", ".join(Identity.of(self._crawler).tokens(None)) or "*",
            dialect=rep.dialect.name,
            does=does,
            queue=queue if isinstance(queue, str) else global_object_name(queue),
            store=rep.store,
            ledger=rep.ledger or "none",
        )

    def note(self, record: Record, request: Request | None) -> None:
        """Count *record*, a decision about *request* or about what its page has."""
        key = (
            record.subject,
            record.verdict,
            record.reason,
            words_of(record.reason, record.layer, record.verdict).setting,
        )
        count, first = self._found.get(key, (0, record))
        self._found[key] = count + 1, first
        if record.verdict in _OF_DRY_RUN:
            origins = self._origins.setdefault(key, Counter())
            if record.origin in origins or len(origins) < _HOSTS_COUNTED:
                origins[record.origin] += 1
        if record.subject in self._has_said:
            return
        if record.subject is Subject.ITEM:
            what = "The first item"
        elif (
            record.verdict in {Verdict.REFUSED, Verdict.WOULD_REFUSE}
            and request is not None
            and request.meta.get("is_start_request")
        ):
            what = "A start request"
        else:
            return
        self._has_said.add(record.subject)
        self._is_start_refused |= record.verdict is Verdict.REFUSED and (
            record.reason in _BY_ROBOTS_TXT
        )
        self._say(logging.WARNING, f"{what} {_IN_WORDS[record.verdict]}", record)

    def _received(self, request: Request) -> None:
        self._has_page |= not isinstance(request, RobotsTxtRequest)

    def _spider_idle(self) -> None:
        if self._is_start_refused and not self._has_page:
            raise CloseSpider("robots_denied")

    def _sum_up(self) -> None:
        found = sorted(self._found.items(), key=lambda each: -each[1][0])
        for key, (count, first) in found:
            if first.verdict is Verdict.NOTED:
                what = _SLOWED[first.reason]
            else:
                what = _KINDS[first.subject, first.verdict]
            what += f": {count:,}"
            if first.verdict in {Verdict.WOULD_REFUSE, Verdict.WOULD_ALLOW}:
                sent = self._stats.get_value(stats.DRY_RUN_REQUESTS, count)
                what += f" of the {sent:,} requests of this run"
            most = self._origins.get(key, Counter()).most_common(_HOSTS_NAMED)
            # A warning is for what was withheld of pages that were fetched.
            is_fetched = first.subject is not Subject.REQUEST
            level = logging.WARNING if is_fetched else logging.INFO
            self._say(level, what, first, most)

    def _say(
        self,
        level: int,
        what: str,
        record: Record,
        most: Sequence[tuple[str, int]] = (),
    ) -> None:
        words = words_of(record.reason, record.layer, record.verdict)
        advice = f"; {words.advice}" if words.advice else ""
        message = f"{what}, because %(why)s (%(reason)s){advice}. Example: %(url)s"
        if record.statement:
            message += " (%(statement)s)"
        if most:
            message += ". Most at %(most)s"
        named = ", ".join(f"{origin} ({count:,})" for origin, count in most)
        values = record._asdict() | {"why": words.text, "most": named}
        self._logger.log(level, message, **values)
