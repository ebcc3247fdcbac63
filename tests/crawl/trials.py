"""A crawl with a JOBDIR that is ended and resumed several times before it has finished."""

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

EXTRA_PAGES = 6
"""The number of pages that the hosts still answer after a run has been told to end."""

HTML = {"Content-Type": "text/html"}


def kill(crawl: RunningCrawl) -> None:
    """Kill the process with SIGKILL."""
    crawl.process.send_signal(signal.SIGKILL)


def interrupt_twice(crawl: RunningCrawl) -> None:
    """Send SIGINT twice, as if a user pressed Ctrl-C twice."""
    crawl.process.send_signal(signal.SIGINT)
    # Scrapy counts the second signal only after it has handled the first.
    crawl.until(lambda: "Received SIGINT" in crawl.log)
    crawl.process.send_signal(signal.SIGINT)


class Gate:
    """Lets the hosts of *site* answer *max_pages* requests for pages, and no further ones until :meth:`open` is called.

    So a test can act in the middle of a crawl, however slow the machine is.
    """

    def __init__(self, site: Site, max_pages: float) -> None:
        self.max_pages = max_pages
        self._site = site
        self._request_count = 0
        site.limit = self._delay

    def open(self) -> None:
        """Let the hosts answer all requests, those that wait and all later ones."""
        self.max_pages = math.inf
        self._site.limit = None

    def _delay(self, hit: Hit) -> Answer | None:
        if hit.path == "/robots.txt":
            return None
        self._request_count = number = self._request_count + 1
        if number <= self.max_pages:
            return None
        answer = hit.host.answer(hit.path)
        return replace(answer, after=lambda: number <= self.max_pages)


class Note(NamedTuple):
    """A line of the journal of ``SurvivorSpider``.

    ``event`` is "begin", "end", "item", "error", or the reason of a refusal.
    """

    event: str
    url: str


class Trial:
    """One crawl in several runs. All of its files are in *folder*.

    *settings* and the spider *attributes* apply to each run. ``crawl_arguments`` has the keyword arguments with which
    each run calls ``start_crawl``, except for the settings.
    """

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
            # If Scrapy is killed while this extension writes its file, an error is logged, and tests allow no errors.
            "EXTENSIONS": {"scrapy.extensions.spiderstate.SpiderState": None},
            "JOBDIR": str(self.job),
            **(settings or {}),
        }
        self.crawl_arguments = {
            "mode": mode,
            "spider": f"tests.crawl.surviving_spiders.{spider}",
            "journal": str(self.journal),
            **attributes,
        }

    def start(self, **settings: Any) -> RunningCrawl:
        """Start a run, with *settings* in addition to those of all runs."""
        return start_crawl(
            self.requests,
            settings={**self.settings, **settings},
            **self.crawl_arguments,
        )

    def run_until(
        self,
        page_count: int,
        end: Callable[[RunningCrawl], None] = kill,
        **settings: Any,
    ) -> None:
        """Start a run, and call *end* when the run has requested *page_count* pages. Return when its process has ended.

        The hosts answer at most *page_count* + EXTRA_PAGES requests for pages. So a crawl that has more pages left
        cannot finish before *end* is called, even on a busy machine.
        """
        before = self.fetched_count
        gate = Gate(self.site, page_count + EXTRA_PAGES)
        crawl = self.start(**settings)
        crawl.until(lambda: self.fetched_count >= before + page_count)
        end(crawl)
        crawl.wait()
        self.site.settle()
        gate.open()

    def wait_for_file(self, crawl: RunningCrawl, *urls: str) -> None:
        """Wait until the file of the queue contains a request for each of *urls*, and no request that is finished.

        A request is finished when its callback or errback has ended. All requests that got a page must be finished,
        except the requests for *urls*. The file must mark only requests for *urls* as in flight.
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
        # The file may be locked by the crawl. The next call of this method reads it again.
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(path)) as file:
            in_file, in_flight = set(), set()
            for data, is_in_flight in file.execute(
                "SELECT data, in_flight FROM requests"
            ):
                # A checksum is in front of each pickle.
                in_file.add(url := pickle.loads(data[4:])["url"])
                if is_in_flight:
                    in_flight.add(url)
            return in_flight <= urls <= in_file and not ended & in_file
        return False

    def finish(self, **settings: Any) -> CrawlResult:
        """Run the crawl until it has finished, and return the result of this run."""
        result = run_crawl(
            self.requests,
            settings={**self.settings, **settings},
            **self.crawl_arguments,
        )
        assert result.stats["finish_reason"] == "finished", result.log
        assert "log_count/ERROR" not in result.stats, result.log
        return result

    @property
    def fetched_count(self) -> int:
        """The number of requests for pages that the hosts got in all runs."""
        return sum(hit.path != "/robots.txt" for hit in list(self.site.log))

    def notes(self, *events: str) -> list[Note]:
        """Return the lines of the journal. If *events* are given, return only the lines about these events."""
        if not self.journal.exists():
            return []
        lines = self.journal.read_text().splitlines()
        notes = [Note(*line.split()) for line in lines]
        return [note for note in notes if not events or note.event in events]
