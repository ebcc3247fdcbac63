"""A crawl with a JOBDIR that ends again and again before it is done."""

from __future__ import annotations

import math
import pickle
import signal
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.crawl.crawl import run_crawl, start_crawl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.crawl.answers import Answer
    from tests.crawl.crawl import CrawlResult, RunningCrawl
    from tests.crawl.server import Hit, Site

RULES = "User-agent: *\nDisallow: /private/\n"

EXTRA = 6
"""How many pages a run may still fetch when it should end."""

HTML = {"Content-Type": "text/html"}


def kill(crawl: RunningCrawl) -> None:
    crawl.process.send_signal(signal.SIGKILL)


def interrupt_twice(crawl: RunningCrawl) -> None:
    """Press Ctrl-C, and once more."""
    crawl.process.send_signal(signal.SIGINT)
    # Scrapy counts the second signal only after it has handled the first.
    crawl.until(lambda: "Received SIGINT" in crawl.log)
    crawl.process.send_signal(signal.SIGINT)


class Gate:
    """Lets the hosts of *site* answer a number of pages, and holds the others back until it is opened. So a test
    can act in the middle of a crawl, however slow the machine is.
    """

    def __init__(self, site: Site, most: float) -> None:
        self.most = most
        self._site = site
        self._asked = 0
        site.limit = self._hold

    def open(self) -> None:
        self.most = math.inf
        self._site.limit = None

    def _hold(self, hit: Hit) -> Answer | None:
        if hit.path == "/robots.txt":
            return None
        self._asked = number = self._asked + 1
        if number <= self.most:
            return None
        answer = hit.host.answer(hit.path)
        return replace(answer, after=lambda: number <= self.most)


class Note(NamedTuple):
    """A line of the journal of ``SurvivorSpider``."""

    what: str
    url: str


class Trial:
    """Crawls *hosts* with all files in *folder*, in several runs."""

    def __init__(
        self,
        site: Site,
        folder: Path,
        requests: Iterable[Any],
        *,
        mode: str = "asyncio",
        spider: str = "SurvivorSpider",
        settings: dict[str, Any] | None = None,
        **attributes: Any,
    ) -> None:
        self.site = site
        self.folder = folder
        self.job = folder / "job"
        self.journal = folder / "journal"
        self.requests = list(requests)
        self.settings = {
            "CONCURRENT_REQUESTS": 4,
            # Scrapy may be killed while it writes its state, and logs an error then.
            "EXTENSIONS": {"scrapy.extensions.spiderstate.SpiderState": None},
            "JOBDIR": str(self.job),
            **(settings or {}),
        }
        self.how = {
            "mode": mode,
            "spider": f"tests.crawl.surviving_spiders.{spider}",
            "journal": str(self.journal),
            **attributes,
        }

    def start(self, **settings: Any) -> RunningCrawl:
        return start_crawl(
            self.requests, settings={**self.settings, **settings}, **self.how
        )

    def run_until(
        self, hits: int, end: Callable[[RunningCrawl], None] = kill, **settings: Any
    ) -> None:
        """End a run once it has fetched *hits* pages. The crawl is not done by then, even on a busy machine,
        since few more pages are answered.
        """
        before = self.fetched_count
        gate = Gate(self.site, hits + EXTRA)
        crawl = self.start(**settings)
        crawl.until(lambda: self.fetched_count >= before + hits)
        end(crawl)
        crawl.wait()
        self.site.settle()
        gate.open()

    def wait_for_file(self, crawl: RunningCrawl, *urls: str) -> None:
        """Wait until the callbacks of all answered pages but *urls* have ended, and the file of
        the queue has requests for *urls*, no other one in flight, and none whose callback or
        errback has ended.
        """
        crawl.until(lambda: self._has_settled(set(urls)))

    def _has_settled(self, urls: set[str]) -> bool:
        ended = {note.url for note in self.notes("end", "error", "rule")}
        answered = {
            hit.host.url(hit.path)
            for hit in list(self.site.log)
            if hit.path != "/robots.txt" and hit.answer and hit.answer.status == 200
        }
        if answered - ended - urls:
            return False
        path = self.job / "rep.queue" / "requests.sqlite"
        # If the writer is at work, the next look finds what it has written.
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(path)) as file:
            pushed, in_flight = set(), set()
            for data, is_in_flight in file.execute(
                "SELECT data, in_flight FROM requests"
            ):
                # A checksum is in front of each pickle.
                pushed.add(url := pickle.loads(data[4:])["url"])
                if is_in_flight:
                    in_flight.add(url)
            return in_flight <= urls <= pushed and not ended & pushed
        return False

    def finish(self, **settings: Any) -> CrawlResult:
        """Run until the crawl is finished."""
        result = run_crawl(
            self.requests, settings={**self.settings, **settings}, **self.how
        )
        assert result.stats["finish_reason"] == "finished", result.log
        assert "log_count/ERROR" not in result.stats, result.log
        return result

    @property
    def fetched_count(self) -> int:
        return sum(hit.path != "/robots.txt" for hit in list(self.site.log))

    def notes(self, *kinds: str) -> list[Note]:
        if not self.journal.exists():
            return []
        lines = self.journal.read_text().splitlines()
        notes = [Note(*line.split()) for line in lines]
        return [note for note in notes if not kinds or note.what in kinds]
