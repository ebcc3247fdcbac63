"""The extension that writes a ledger of the decisions of a crawl."""

from __future__ import annotations

import os
import platform
import re
import time
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scrapy
import twisted
from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import create_looping_call

from scrapy_rep import stats
from scrapy_rep.compat.startlog import say_in_one_sentence
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

# The seconds between two checks of the writer.
_LOOK_EVERY = 1.0


class Ledger:
    """Writes the file of ``REP_LEDGER``. Where that fails, the crawl continues."""

    ORDER = 500
    """After Scrapy's own extensions, so that their stats of the end are in the record."""

    def __init__(self, crawler: Crawler) -> None:
        settings = RepSettings.of(crawler)
        if settings.ledger is None:
            raise NotConfigured
        self._crawler = crawler
        self._settings = settings
        self._identity = Identity.of(crawler)
        spider = crawler.spider or crawler.spidercls
        try:
            self._path = _path(settings.ledger, str(spider.name))
            prepare(self._path)
        except LedgerError:
            say_in_one_sentence()
            raise
        self._writer: LedgerWriter | None = None
        self._has_warned: set[str] = set()
        self._look = create_looping_call(self._look_after)
        crawler.signals.connect(self._spider_opened, signals.spider_opened)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Ledger:
        return cls(crawler)

    def _spider_opened(self, spider: Spider) -> None:
        header, agents = self._identity.introduced(spider)
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
        self._look.start(_LOOK_EVERY, now=False)

    async def _spider_closed(self, reason: str) -> None:
        if self._writer is None:
            return
        self._look.stop()
        self._look_after()
        end = EndedCrawl(time.time(), reason, dict(self._crawler.stats.get_stats()))
        await run_in_thread(self._writer.close, end)
        self._look_after()

    def _look_after(self) -> None:
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
                "The ledger cannot be written; the crawl continues and tries again: %s",
                writer.error,
            )
        if writer.dropped:
            self._warn(
                "The ledger %s lacks records that could not be written in time; the stat "
                "rep/ledger/dropped counts them",
                self._path,
            )

    def _warn(self, message: str, detail: Any) -> None:
        if message not in self._has_warned:
            self._has_warned.add(message)
            logger.warning(message, detail, extra={"spider": self._crawler.spider})


def _path(setting: str, spider: str) -> Path:
    """The path that the setting gives. Raises LedgerError for an unknown placeholder."""
    now = datetime.now(timezone.utc).replace(microsecond=0)
    values = {
        # Not the path of another folder, whatever the spider is called.
        "name": re.sub(r"^\.+|[/\\\0]", "_", spider),
        "pid": str(os.getpid()),
        "time": now.isoformat().replace(":", "-"),
    }

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            known = ", ".join(f"%({name})s" for name in values)
            raise LedgerError(setting, f"{match[0]} is none of {known}")
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
