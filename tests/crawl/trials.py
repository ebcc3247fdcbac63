"""A crawl with a JOBDIR that ends again and again before it is done, and its judge."""

from __future__ import annotations

import math
import pickle
import random
import shutil
import signal
import sqlite3
import time
from collections import Counter, defaultdict
from contextlib import closing, suppress
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.crawl.answers import Answer
from tests.crawl.crawl import run_crawl, start_crawl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult, RunningCrawl
    from tests.crawl.server import Hit, Host, Site

RULES = "User-agent: *\nDisallow: /private/\n"
AT_ONCE = 4
DELAY = 0.7

EXTRA = 6
"""How many more pages a run may fetch than those after which it is to end."""

RECENT = 0.25
"""Seconds within which a page that is done may not be written yet when its process dies."""

HTML = {"Content-Type": "text/html"}


def kill(crawl: RunningCrawl, _: float) -> None:
    crawl.process.send_signal(signal.SIGKILL)


def interrupt_twice(crawl: RunningCrawl, pause: float) -> None:
    """Press Ctrl-C, and once more after *pause* seconds."""
    crawl.process.send_signal(signal.SIGINT)
    # Scrapy counts the second signal only after it has handled the first.
    crawl.until(lambda: "Received SIGINT" in crawl.log)
    time.sleep(pause)
    crawl.process.send_signal(signal.SIGINT)


def interrupt_and_kill(crawl: RunningCrawl, pause: float) -> None:
    crawl.process.send_signal(signal.SIGINT)
    time.sleep(pause)
    crawl.process.send_signal(signal.SIGKILL)


ENDS: dict[str, Callable[[RunningCrawl, float], None]] = {
    "kill -9": kill,
    "Ctrl-C twice": interrupt_twice,
    "Ctrl-C, kill -9": interrupt_and_kill,
}


class Gate:
    """Lets the hosts of *site* answer so many pages, and hold back the others, until it is opened.
    So a crawl cannot go on before a test has done what it does in the middle of it.
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


class Web:
    """Hosts whose pages link to each other.

    Page *n* of a host links to its pages 2n+1 and 2n+2, to page *n* of the next host, and to
    a forbidden page. So each page is found in several ways.
    """

    def __init__(
        self, site: Site, hosts: int, pages: int, *, slow_pages: int = 0
    ) -> None:
        self.site = site
        self.numbers = {
            site.add(RULES, name=f"127.0.2.{n + 1}"): pages for n in range(hosts)
        }
        if slow_pages:
            slow = site.add(f"{RULES}Crawl-delay: {DELAY}\n", name="127.0.3.1")
            self.numbers[slow] = slow_pages
        self.hosts = list(self.numbers)
        for number, host in enumerate(self.hosts):
            following = self.hosts[(number + 1) % len(self.hosts)]
            pages = self.numbers[host]
            for page in range(pages):
                urls = [
                    host.url(f"/{link}")
                    for link in (2 * page + 1, 2 * page + 2)
                    if link < pages
                ]
                if page < self.numbers[following]:
                    urls.append(following.url(f"/{page}"))
                urls.append(host.url(f"/private/{page}"))
                body = "".join(f'<a href="{url}">a page</a>' for url in urls)
                host.answers[f"/{page}"] = Answer(
                    body.encode(), headers=HTML, delay=0.02 * (page % 5)
                )

    @property
    def start_urls(self) -> list[str]:
        return [host.url("/0") for host in self.hosts]

    @property
    def allowed(self) -> set[str]:
        return self._urls("/")

    @property
    def forbidden(self) -> set[str]:
        return self._urls("/private/")

    def _urls(self, folder: str) -> set[str]:
        numbers = self.numbers.items()
        return {
            host.url(f"{folder}{n}") for host, pages in numbers for n in range(pages)
        }


class Note(NamedTuple):
    """A line of the journal of ``SurvivorSpider``."""

    time: float
    what: str
    url: str


class Run(NamedTuple):
    began: float
    ended: float

    is_finished: bool = False


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
            "CONCURRENT_REQUESTS": AT_ONCE,
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
        self.runs: list[Run] = []

    def start(self, **settings: Any) -> RunningCrawl:
        return start_crawl(
            self.requests, settings={**self.settings, **settings}, **self.how
        )

    def run_until(
        self,
        hits: int,
        pause: float = 0,
        end: Callable[[RunningCrawl, float], None] = kill,
        **settings: Any,
    ) -> RunningCrawl:
        """End a run once it has fetched *hits* pages, after *pause* seconds. However late that
        is on a busy machine, the crawl is not done before: few more pages are answered.
        """
        before, began = self.fetched_count, time.monotonic()
        gate = Gate(self.site, hits + EXTRA)
        crawl = self.start(**settings)
        crawl.until(lambda: self.fetched_count >= before + hits)
        if end is kill:
            time.sleep(pause)
        end(crawl, pause)
        self.runs.append(Run(began, time.monotonic()))
        crawl.wait()
        self.site.settle()
        gate.open()
        return crawl

    def wait_for_file(self, crawl: RunningCrawl, *urls: str) -> None:
        """Wait until the callbacks of all answered pages but *urls* have ended, and the file of
        the queue has requests for *urls*, and none whose callback or errback has ended.
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
            rows = file.execute("SELECT data FROM requests").fetchall()
            # A checksum is in front of each pickle.
            found = {pickle.loads(data[4:])["url"] for (data,) in rows}
            return urls <= found and not ended & found
        return False

    def finish(self, **settings: Any) -> CrawlResult:
        """Run until the crawl is finished."""
        began = time.monotonic()
        result = run_crawl(
            self.requests, settings={**self.settings, **settings}, **self.how
        )
        self.runs.append(Run(began, time.monotonic(), is_finished=True))
        assert result.stats["finish_reason"] == "finished", result.log
        assert "log_count/ERROR" not in result.stats, result.log
        return result

    # What happened.

    @property
    def fetched_count(self) -> int:
        return sum(hit.path != "/robots.txt" for hit in list(self.site.log))

    def hits(self) -> dict[str, list[float]]:
        """Return the times at which each page was requested."""
        found = defaultdict(list)
        for hit in list(self.site.log):
            if hit.path != "/robots.txt":
                found[hit.host.url(hit.path)].append(hit.time)
        return found

    def notes(self, *kinds: str) -> list[Note]:
        if not self.journal.exists():
            return []
        lines = [line.split() for line in self.journal.read_text().splitlines()]
        notes = [Note(float(moment), what, url) for moment, what, url in lines]
        return [note for note in notes if not kinds or note.what in kinds]

    # The judge.

    def check(self, allowed: Iterable[str], forbidden: Iterable[str] = ()) -> None:
        """Check that all *allowed* pages were fetched and made items, that all *forbidden*
        ones were refused, and that no request was repeated but those in flight.
        """
        allowed, forbidden, hits = set(allowed), set(forbidden), self.hits()
        assert not forbidden & set(hits)
        assert not [url for url in hits if "/private/" in url]
        assert not allowed - set(hits), "These were lost"
        items = Counter(note.url for note in self.notes("item"))
        assert not allowed - set(items)
        assert all(items[url] <= len(times) for url, times in hits.items())
        refused = Counter(note.url for note in self.notes("rule"))
        assert set(refused) == forbidden
        self._check_repeated(hits)
        check_whole(self.job)

    def _check_repeated(self, hits: dict[str, list[float]]) -> None:
        """Check that what was fetched again is what may have been in flight at the end of a run:
        as many requests as there were in the downloader, as many that had just left it, and those
        whose callbacks had begun and not ended.
        """
        notes = self.notes("begin", "end")
        begun = {(self._run_of(each.time), each.url) for each in notes}
        ended = {
            (self._run_of(each.time), each.url): each.time
            for each in notes
            if each.what == "end"
        }
        repeated: Counter[Run] = Counter()
        for url, times in hits.items():
            runs = [self._run_of(moment) for moment in times]
            assert len(set(runs)) == len(runs), f"{url} was fetched twice in a run"
            for run in runs[:-1]:
                assert not run.is_finished, f"{url} was fetched again after the end"
                since = run.ended - ended.get((run, url), run.ended)
                assert since < RECENT, f"{url} was done {since:.3f} s before the end"
                repeated[run] += 1
        for run in self.runs:
            left = [
                key
                for key in begun
                if key[0] == run and ended.get(key, run.ended) >= run.ended - RECENT
            ]
            most = 2 * self.settings["CONCURRENT_REQUESTS"] + len(left)
            assert repeated[run] <= most

    def _run_of(self, moment: float) -> Run:
        """Return the run that sent a request: it may arrive after its process has died."""
        return max(run for run in self.runs if run.began <= moment)


def moments(count: int, most: int, pause: float = 0.05) -> list[tuple[int, float]]:
    """Return when to end each of *count* runs: after how many pages, from 1 to *most*, and
    how many seconds later. Prints the seed.

    Before a run has fetched a page, it may not handle Ctrl-C yet.
    """
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    return [(chance.randint(1, most), chance.uniform(0, pause)) for _ in range(count)]


def check_delays(host: Host, delay: float = DELAY) -> None:
    """Check the gaps between requests, from the first page on. The requests before it are
    for robots.txt: a process that died before it had read the answer knew of no delay.
    """
    hits = list(host.hits)
    first = next(n for n, hit in enumerate(hits) if hit.path != "/robots.txt")
    times = [hit.time for hit in hits[first - 1 :]]
    gaps = [after - before for before, after in pairwise(times)]
    assert min(gaps) >= delay, gaps


def check_whole(job: Path) -> None:
    """Check that all SQLite files in *job* are intact. A copy is checked, since opening a file
    changes it.
    """
    copy = job.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(job, copy)
    for path in copy.rglob("*"):
        if path.is_file() and path.read_bytes()[:15] == b"SQLite format 3":
            with closing(sqlite3.connect(path)) as database:
                (found,) = database.execute("PRAGMA integrity_check").fetchone()
            assert found == "ok", path
    shutil.rmtree(copy)
