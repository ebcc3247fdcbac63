"""The extension that writes the ledger. The ledger is a SQLite file with the decisions of a crawl, the robots.txt files
that it used, and its traffic.
"""

from __future__ import annotations

import json
import os
import platform
import re
import time
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import scrapy
import twisted
from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import create_looping_call

from scrapy_rep import signals as ours
from scrapy_rep.base import __version__, meta, stats
from scrapy_rep.base.compat import run_in_thread
from scrapy_rep.base.identity import Identity, default_header
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.records import make_record, storable
from scrapy_rep.base.requests import origin_at
from scrapy_rep.base.settings import LEDGER, LEDGER_LEVEL, OBEY, RepSettings, recorded
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.crawl.ledger.traffic import Traffic
from scrapy_rep.crawl.reporting import DecisionReporter
from scrapy_rep.exceptions import LedgerError, SettingError
from scrapy_rep.protocol.robotstxt.rules import Reason
from scrapy_rep.record import Layer, Subject, Verdict

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.protocol.access.entries import CacheEntry
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.record import Record

# The time in seconds between two transactions of the ledger.
_WRITE_INTERVAL = 1.0

# At the ledger level "denied", some decisions, such as those by an override, are recorded only once for each origin. To
# limit the memory, at most this number of recorded decisions is remembered. When the maximum is reached, all are
# forgotten, and can be recorded a second time.
_MAX_REMEMBERED = 10_000

# Reasons that count as the same reason when an override or the meta key dont_obey_robotstxt allows requests to an
# origin. At the ledger level "denied", only the first of these requests is recorded. For example, the robots.txt in an
# override can allow the first request with the reason "rule", and the second with the reason "no-rule". Then the second
# request is not recorded.
_SAME_REASONS = frozenset({*map(str, Reason), meta.DONT_OBEY_ROBOTSTXT})

# The reasons in records about indexing rules that have no effect. "data": the response is data, such as JSON, and not a
# document. "no-page": the status of the response is not 2xx.
_WITHOUT_EFFECT = frozenset({"data", "no-page"})


class LedgerExtension:
    """Writes the ledger, a SQLite file with the decisions of the crawl, to the path in ``REP_LEDGER``. If a write fails
    during the crawl, the extension logs a warning, and the crawl continues.
    """

    ORDER = 500
    """The order in ``EXTENSIONS``. At the end of the crawl, Scrapy's own extensions (order 0) set their final stats
    before this extension writes the stats to the ledger."""

    def __init__(self, crawler: Crawler) -> None:
        settings = RepSettings.of(crawler)
        self._logger = CrawlLog(__name__, crawler)
        if settings.ledger is None:
            if crawler.settings.get(LEDGER_LEVEL) is not None:
                self._logger.warning(
                    "REP_LEDGER_LEVEL has no effect, because REP_LEDGER, the path of the ledger, is not set"
                )
            raise NotConfigured
        self._crawler = crawler
        self._settings = settings
        self._identity = Identity.of(crawler)
        spider = crawler.spider or crawler.spidercls
        self._path = _path(settings.ledger, str(spider.name))
        # If the setting contains the placeholder %(time)s, the file contains only this crawl, and its digest is logged
        # at the end of the crawl. Otherwise, later crawls may write to the same file, which changes the digest.
        self._has_only_this_crawl = "%(time)s" in settings.ledger
        # Imported here, so that a crawl without a ledger does not load SQLite.
        from scrapy_rep.base.sqlitefile import make_folder  # noqa: PLC0415
        from scrapy_rep.crawl.ledger.writer import LedgerWriter, prepare  # noqa: PLC0415

        if make_folder(self._path, LEDGER, settings.ledger):
            self._logger.info(
                "%(setting)s: created the folder %(folder)s, which did not exist",
                setting=LEDGER,
                folder=self._path.absolute().parent,
            )
        try:
            prepare(self._path)
        except LedgerError as error:
            allowed = f"the path of a ledger, or of a new file: {error}"
            raise SettingError(LEDGER, settings.ledger, allowed) from None
        self._writer = LedgerWriter(self._path)
        self._is_open = False
        self._has_warned: set[str] = set()
        self._reporter = DecisionReporter.of(crawler)
        traffic = Traffic.of(crawler)
        assert traffic is not None
        self._traffic = traffic
        self._has_all = settings.ledger_level == "all"
        self._recorded_once: set[tuple[str, str, str | None]] = set()
        self._checking = create_looping_call(self._check)
        crawler.signals.connect(self._spider_opened, signals.spider_opened)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> LedgerExtension:
        return cls(crawler)

    def _spider_opened(self, spider: Spider) -> None:
        header = default_header(self._crawler.settings, spider)
        agents = self._identity.tokens(None)
        settings = recorded(self._crawler.settings, self._settings)
        crawl = (
            str(uuid4()),
            spider.name,
            storable(header),
            json.dumps(agents),
            self._settings.dialect.name,
            json.dumps(settings, default=str, sort_keys=True),
            json.dumps(_versions()),
            time.time(),
        )
        self._is_open = True
        self._traffic.open()
        connect = self._crawler.signals.connect
        connect(self._decided, ours.decision_made)
        connect(self._robotstxt_known, ours.robotstxt_known)
        if self._settings.dry_run:
            # A dry run has no WireMiddleware to count pages, so this handler counts them.
            connect(self._response_downloaded, signals.response_downloaded)
        if not (self._settings.obey or self._settings.dry_run):
            connect(self._not_obeyed, signals.request_reached_downloader)
        self._writer.start(crawl)
        self._checking.start(_WRITE_INTERVAL, now=False)

    def _robotstxt_known(self, origin: Origin, entry: CacheEntry) -> None:
        self._writer.write_snapshot(str(origin), entry, self._settings.dialect)

    def _response_downloaded(self, response: Response, request: Request) -> None:
        if not isinstance(request, RobotsTxtRequest):
            self._traffic.note_response(request, response)

    def _decided(self, record: Record) -> None:
        if self._has_all or self._is_due(record):
            self._writer.write_decision(record)

    def _is_due(self, record: Record) -> bool:
        """Return whether to write *record* at the ledger level ``"denied"``. Most records are written, such as those of
        refusals and drops. In two cases, only the first record is written:

        - A request or page is allowed by a setting or meta key of the crawler's user, such as ``dont_obey_robotstxt``.
          The first record is written for each origin and each setting or meta key.
        - An indexing rule has no effect, since its response is not a document (but JSON, for example), or has a status
          other than 2xx. The first record is written for each origin, reason and statement.
        """
        is_override = record.verdict is Verdict.ALLOWED
        if not is_override and record.reason not in _WITHOUT_EFFECT:
            return True
        reason = "" if record.reason in _SAME_REASONS else record.reason
        key = record.origin, reason, None if is_override else record.statement
        if key in self._recorded_once:
            return False
        if len(self._recorded_once) >= _MAX_REMEMBERED:
            self._recorded_once.clear()
        self._recorded_once.add(key)
        return True

    def _not_obeyed(self, request: Request) -> None:
        """Report to the ledger that *request* is sent without a check of robots.txt, because ``ROBOTSTXT_OBEY`` is
        False.
        """
        origin = origin_at(request.url, request)
        if origin is not None:
            subject, verdict, layer = Subject.REQUEST, Verdict.ALLOWED, Layer.OVERRIDE
            url = request.url
            record = make_record(subject, verdict, layer, OBEY, url=url, origin=origin)
            self._reporter.decided(record, request)

    async def _spider_closed(self, reason: str) -> None:
        if not self._is_open:
            return
        self._checking.stop()
        self._add_traffic()
        counts = {
            key: value
            for key, value in self._crawler.stats.get_stats().items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        }
        end = time.time(), storable(str(reason)), json.dumps(counts, sort_keys=True)
        await run_in_thread(partial(self._writer.close, end))
        self._check_writer()
        if not self._has_only_this_crawl:
            return
        digest = await run_in_thread(self._writer.digest)
        if digest is not None:
            self._logger.info(
                "The ledger %(path)s is complete. The SHA-256 of the file is %(digest)s",
                path=self._path,
                digest=digest,
            )

    def _check(self) -> None:
        self._add_traffic()
        self._writer.flush()
        self._check_writer()

    def _add_traffic(self) -> None:
        """Write the numbers that :class:`Traffic` has collected since this method was last called, such as the numbers
        of pages and bytes from each origin, to the ledger.
        """
        for row in self._traffic.take(time.time()):
            self._writer.write(*row)

    def _check_writer(self) -> None:
        """Set the stats about the ledger to the counts of the writer. If a write failed, log a warning. If records are
        lost, log another warning. Each of the two warnings is logged only once in a crawl.
        """
        writer = self._writer
        for key, count in (
            (stats.LEDGER_RECORDED, writer.recorded),
            (stats.LEDGER_ERRORS, writer.errors),
            (stats.LEDGER_DROPPED, writer.dropped),
        ):
            if count:
                self._crawler.stats.set_value(key, count)
        if writer.error is not None:
            self._warn(
                "Cannot write to the ledger %(path)s: %(error)s. The crawl continues, keeps up to 32 MiB of "
                "records in memory, and tries to write these records again every second and at its end",
                error=writer.error,
            )
        if writer.dropped:
            self._warn(
                "Records are missing in the ledger %(path)s, because they could not be written. The stat "
                "rep/ledger/dropped is the number of missing records",
            )

    def _warn(self, message: str, **details: Any) -> None:
        if message not in self._has_warned:
            self._has_warned.add(message)
            self._logger.warning(message, path=self._path, **details)


def _path(setting: str, spider: str) -> Path:
    """Return the path of the ledger. It is *setting*, the value of ``REP_LEDGER``, with its placeholders replaced.
    Raises SettingError for an unknown placeholder.
    """
    now = datetime.now(timezone.utc).replace(microsecond=0)
    values = {
        # Leading dots, path separators and NUL are replaced with "_", so that the name of a spider cannot lead to
        # another folder.
        "name": re.sub(r"^\.+|[/\\\0]", "_", spider),
        "pid": str(os.getpid()),
        "time": now.isoformat().replace(":", "-"),
    }

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            names = ", ".join(f"%({name})s" for name in values)
            allowed = f"a path, optionally with the placeholders {names}"
            raise SettingError(LEDGER, setting, allowed)
        return values[match[1]]

    return Path(re.sub(r"%\(([^)]*)\)s", value, setting))


def _versions() -> dict[str, str]:
    return {
        "scrapy-rep": __version__,
        "Scrapy": scrapy.__version__,
        "Twisted": twisted.__version__,
        "Python": platform.python_version(),
    }
