"""The extension that writes a ledger of the decisions of a crawl."""

from __future__ import annotations

import os
import platform
import re
import time
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import scrapy
import twisted
from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import create_looping_call

from scrapy_rep import stats
from scrapy_rep.compat.versions import run_in_thread
from scrapy_rep.exceptions import LedgerError
from scrapy_rep.extensions.evidence import Evidence
from scrapy_rep.fetching.identity import Identity
from scrapy_rep.ledger.files import prepare
from scrapy_rep.ledger.records import EndedCrawl, StartedCrawl
from scrapy_rep.ledger.writer import LedgerWriter
from scrapy_rep.log import get_logger
from scrapy_rep.settings import RepSettings, recorded

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

logger = get_logger(__name__)

# Seconds between two checks of the writer.
_CHECK_INTERVAL = 1.0


class Ledger:
    """Writes the file of ``REP_LEDGER``. The crawl continues if that fails."""

    ORDER = 500
    """After Scrapy's own extensions, so that the ledger has their stats at the end."""

    def __init__(self, crawler: Crawler) -> None:
        settings = RepSettings.of(crawler)
        if settings.ledger is None:
            raise NotConfigured
        self._crawler = crawler
        self._settings = settings
        self._identity = Identity.of(crawler)
        spider = crawler.spider or crawler.spidercls
        self._path = _path(settings.ledger, str(spider.name))
        prepare(self._path)
        self._writer: LedgerWriter | None = None
        self._has_warned: set[str] = set()
        self._checking = create_looping_call(self._check_writer)
        crawler.signals.connect(self._spider_opened, signals.spider_opened)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Ledger:
        return cls(crawler)

    def _spider_opened(self, spider: Spider) -> None:
        header, agents = self._identity.header_and_tokens(spider)
        crawl = StartedCrawl(
            spider=spider.name,
            user_agent=header,
            agents=agents,
            dialect=self._settings.dialect.name,
            settings=recorded(self._crawler.settings, self._settings),
            versions=_versions(),
            started=time.time(),
        )
        self._writer = LedgerWriter(self._path, crawl)
        self._evidence = Evidence(self._settings, self._writer.write)
        for signal, receiver in self._evidence.receivers.items():
            self._crawler.signals.connect(receiver, signal)
        self._writer.start()
        self._checking.start(_CHECK_INTERVAL, now=False)

    async def _spider_closed(self, reason: str) -> None:
        if self._writer is None:
            return
        self._checking.stop()
        self._check_writer()
        end = EndedCrawl(time.time(), reason, dict(self._crawler.stats.get_stats()))
        await run_in_thread(self._writer.close, end)
        self._check_writer()

    def _check_writer(self) -> None:
        """Update the stats of the writer, and log each kind of failure once."""
        writer = self._writer
        assert writer is not None
        for key, count in (
            (stats.LEDGER_RECORDED, writer.recorded),
            (stats.LEDGER_ERRORS, writer.errors),
            (stats.LEDGER_DROPPED, writer.dropped),
        ):
            if count:
                self._crawler.stats.set_value(key, count)
        if writer.error is not None:
            self._warn(
                "Cannot write to the ledger %s: %s. The crawl continues, keeps up to 32 MiB "
                "of records in memory, and tries again every two seconds and at its end",
                self._path,
                writer.error,
            )
        if writer.dropped:
            self._warn(
                "Records for the ledger %s are lost, because it could not be written; the "
                "stat rep/ledger/dropped counts them",
                self._path,
            )

    def _warn(self, message: str, *details: object) -> None:
        if message not in self._has_warned:
            self._has_warned.add(message)
            logger.warning(message, *details, extra={"spider": self._crawler.spider})


def _path(setting: str, spider: str) -> Path:
    """Return the path in the setting. Raises LedgerError for an unknown placeholder."""
    now = datetime.now(timezone.utc).replace(microsecond=0)
    values = {
        # The name of a spider must not lead to another folder.
        "name": re.sub(r"^\.+|[/\\\0]", "_", spider),
        "pid": str(os.getpid()),
        "time": now.isoformat().replace(":", "-"),
    }

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            known = ", ".join(f"%({name})s" for name in values)
            raise LedgerError(setting, f"{match[0]} is not one of {known}")
        return values[match[1]]

    return Path(re.sub(r"%\(([^)]*)\)s", value, setting))


def _versions() -> dict[str, str]:
    try:
        package = version("scrapy-rep")
    except PackageNotFoundError:
        package = "not installed"
    return {
        "scrapy-rep": package,
        "Scrapy": scrapy.__version__,
        "Twisted": twisted.__version__,
        "Python": platform.python_version(),
    }
