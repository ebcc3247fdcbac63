"""Says in the log what a crawl withheld or slowed down, and which setting changes that."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy import signals

from scrapy_rep.log import get_logger
from scrapy_rep.protocol.reasons import REASONS
from scrapy_rep.record import Layer, Record, Subject, Verdict

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

logger = get_logger(__name__)

# A warning is for what was withheld of pages that were fetched.
_KINDS = {
    (Subject.REQUEST, Verdict.REFUSED): (logging.INFO, "Requests refused"),
    (Subject.REQUEST, Verdict.NOTED): (logging.INFO, "Delays and pauses kept"),
    (Subject.LINK, Verdict.DROPPED): (logging.WARNING, "Links not followed"),
    (Subject.ITEM, Verdict.DROPPED): (logging.WARNING, "Items dropped"),
    (Subject.FILE, Verdict.DROPPED): (logging.WARNING, "Files withheld"),
}


class Withheld:
    """Counts the records of a crawl by kind and reason, and logs a line for each at its end.

    It logs at once that a start request is refused, and that the first item is dropped: a crawl
    may have no other result.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._counts: dict[tuple[Subject, Verdict, str, str], int] = {}
        self._examples: dict[tuple[Subject, Verdict, str, str], Record] = {}
        self._has_said: set[Subject] = set()
        crawler.signals.connect(self._sum_up, signals.spider_closed)

    def note(self, record: Record, request: Request | None) -> None:
        """Count *record*, a decision about *request* or about what its page has."""
        key = record.subject, record.verdict, record.reason, _setting(record)
        self._counts[key] = self._counts.get(key, 0) + 1
        self._examples.setdefault(key, record)
        is_first = record.subject not in self._has_said
        if record.subject is Subject.ITEM and is_first:
            self._say("The first item is dropped", record)
        elif is_first and record.verdict is Verdict.REFUSED and _is_start(request):
            self._say("A start request is refused", record)

    def _say(self, what: str, record: Record) -> None:
        self._has_said.add(record.subject)
        self._log(what, record)

    def _sum_up(self) -> None:
        for key, count in sorted(self._counts.items(), key=lambda each: -each[1]):
            _, what = _KINDS[key[:2]]
            self._log(f"{what}: {count:,}", self._examples[key])

    def _log(self, what: str, record: Record) -> None:
        level, _ = _KINDS[record.subject, record.verdict]
        words, setting = REASONS.get(record.reason), _setting(record)
        changes = f"; {setting} changes this" if setting else ""
        message = f"{what}, because %(why)s (%(reason)s){changes}. Example: %(url)s"
        if record.statement:
            message += " (%(statement)s)"
        values = record._asdict() | {"why": words.text if words else record.reason}
        logger.log(level, message, values, extra={"spider": self._crawler.spider})


def _is_start(request: Request | None) -> bool:
    return request is not None and bool(request.meta.get("is_start_request"))


def _setting(record: Record) -> str:
    """Return the setting that changes decisions like *record*; empty if there is none."""
    if record.layer is Layer.REL:
        return "REP_REL"
    if record.verdict is Verdict.NOTED and record.reason == "back-off":
        return "REP_BACKOFF_MAX"
    words = REASONS.get(record.reason)
    return words.setting if words else ""
