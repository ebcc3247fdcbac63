"""A host that answers 429 or 503 is left alone for as long as it asks, by its access log."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing, suppress
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests import forks
from tests.crawl.answers import Answer, Busy, busy
from tests.crawl.conftest import CHOSEN, check
from tests.crawl.crawl import ROOT, run_crawl, start_crawl
from tests.crawl.pauses import Pause, pauses_of, sent_within, too_many_after
from tests.crawl.server import Hit, Site
from tests.crawl.test_ledger import rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host

PLACES = 8
MEDIA_PLACES = 20
"""Scrapy itself sends more than its limit if requests do not come from the scheduler: all
that a callback or an item asks for at once (Scrapy 2.19, in asyncio mode)."""
HOUR, DAY = 3600, 24 * 3600
DELAY = "User-agent: *\nCrawl-delay: {}\n"
RULES = "User-agent: *\nDisallow: /private/\n"
SPIDER = "tests.crawl.backoff_spiders.EveryWaySpider"
SETTINGS = {
    "CONCURRENT_REQUESTS_PER_DOMAIN": PLACES,
    "REP_BACKOFF_MAX": 60,
    "REP_WAIT_MAX": 3,
    "RETRY_ENABLED": True,
    "RETRY_TIMES": 50,
}
ANYWAY = {"dont_obey_robotstxt": True}
FILES_PIPELINE = {"scrapy.pipelines.files.FilesPipeline": 1}


def pages(host: Host, count: int, kind: str = "page") -> list[str]:
    return [host.url(f"/{kind}/{number}") for number in range(count)]


def limit(
    host: Host,
    number: int,
    answer: Busy | None = None,
    *,
    each: bool = False,
    seconds: float = 0.2,
) -> Host:
    """Let *host* give *answer* to its first *number* requests, or to *each* one with that
    number, and take *seconds* for each other one. Requests for robots.txt do not count.
    """
    asked = 0

    def choose(hit: Hit) -> Answer | None:
        nonlocal asked
        if hit.path == "/robots.txt":
            return None
        asked += 1
        is_busy = asked % number == 0 if each else asked <= number
        return answer if is_busy else Answer(b"page", delay=seconds)

    host.limit = choose
    return host


def shift(hours: int, seconds: int, status: int = 429) -> Busy:
    """Return an answer with dates by a clock that is *hours* ahead."""
    there = int(time.time()) + hours * HOUR
    date, until = (formatdate(at, usegmt=True) for at in (there, there + seconds))
    return busy(status, until, seconds, headers={"Date": date})


def was_busy(host: Host) -> bool:
    """Return whether *host* has asked for a pause, and the crawl had the time to read that."""
    before = time.monotonic() - 0.3
    return any(
        isinstance(hit.answer, Busy) and hit.answered < before for hit in host.hits
    )


def check_kept(
    host: Host,
    count: int = 1,
    *,
    result: CrawlResult | None = None,
    places: int = PLACES,
    **rules: float,
) -> list[Pause]:
    """Check that nothing was sent to *host* within its pauses but what was in flight, that
    requests after them became more one by one, and that there were *count* pauses or more.
    Return the pauses.
    """
    read = [
        (one["time"], one["url"].removeprefix(host.origin))
        for one in (result.read if result is not None else ())
        if one["url"].startswith(f"{host.origin}/")
    ]
    pauses = pauses_of(host.hits, read=read, **rules)
    wrong = sent_within(pauses, host.hits, places)
    assert wrong == [], (
        f"{len(wrong)} requests within pauses{told(host, pauses, wrong)}"
    )
    wrong = too_many_after(pauses, host.hits)
    assert wrong == [], f"{len(wrong)} too many after pauses{told(host, pauses, wrong)}"
    assert len(pauses) >= count
    return pauses


def told(host: Host, pauses: list[Pause], wrong: list[Hit]) -> str:
    """Return the evidence for a failure, in seconds since the first request."""
    start = host.hits[0].time
    asked = ", ".join(
        f"{one.begin - start:.3f} to {one.end - start:.3f}" for one in pauses
    )
    sent = ", ".join(f"{hit.time - start:.3f} {hit.path}" for hit in wrong)
    return f": {sent} (pauses: {asked})"


def check_fetched(host: Host, *urls: str) -> None:
    """Check that *host* served each page once, and nothing else."""
    served = Counter(
        host.url(hit.path)
        for hit in host.hits
        if hit.path != "/robots.txt" and not isinstance(hit.answer, Busy)
    )
    assert served == dict.fromkeys(urls, 1)


class Crawled(NamedTuple):
    """A crawl of many hosts, in every way that Scrapy has."""

    result: CrawlResult
    hosts: dict[str, Host]

    def errors(self, host: Host) -> list[dict[str, Any]]:
        return [error for error in self.result.errors if host.origin in error["url"]]

    def said(self, level: str, host: Host, *patterns: str) -> bool:
        """Whether a line of the log at *level* names *host*, and matches all *patterns*."""
        lines = self.result.lines(level, host.name)
        return any(all(re.search(one, line) for one in patterns) for line in lines)


@pytest.fixture(scope="module", params=CHOSEN)
def crawled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Crawled]:
    """Crawl hosts that ask for pauses in all forms, in each mode."""
    mode = check(request.param)
    with Site() as site:
        # No name is the beginning of another.
        names = (f"127.0.0.{number}" for number in range(21, 60))

        def add(robotstxt: Any = RULES) -> Host:
            return site.add(robotstxt, name=next(names))

        other, burst = add(), add()
        hosts = {
            "other": other,
            "queue": limit(add(), 10, busy(429, "2", delay=0.05), each=True),
            "files": limit(add(), 10, busy(429, "1", delay=0.05), each=True),
            "every way": limit(add(), 10, busy(503, "1", delay=0.05), each=True),
            "paused": limit(add(), 1, busy(429, "2")),
            "ahead": limit(add(), 1, shift(+1, 1)),
            "behind": limit(add(), 1, shift(-1, 1, 503)),
            "burst": limit(
                burst, PLACES, busy(503, after=lambda: burst.at_once == PLACES)
            ),
            "0.3 s": limit(add(DELAY.format(0.3)), 1, busy(503, delay=0.3)),
            "1.2 s": limit(add(DELAY.format(1.2)), 1, busy(503, delay=0.3)),
            "day": limit(add(), 1, busy(429, str(DAY))),
            "forever": limit(add(), 10**6, busy(429)),
            "robots 429": add([busy(429, "1"), Answer(RULES.encode())]),
            "robots 503": add([busy(503, "1"), Answer(RULES.encode())]),
            "robots later": limit(add(), 1, busy(429, "1")),
        }
        by_robots = [hosts["robots 429"], hosts["robots 503"]]
        day, later, paused = hosts["day"], hosts["robots later"], hosts["paused"]
        start, late = other.url("/start"), other.url("/late")
        other.answers["/late"] = Answer(
            after=lambda: all(map(was_busy, [*by_robots, day, paused]))
        )
        requests = [
            start,
            late,
            {"url": later.url("/first"), "meta": {**ANYWAY, "dont_retry": True}},
            *pages(hosts["queue"], 18),
            *pages(hosts["every way"], 6),
            *(
                {"url": url, "meta": ANYWAY}
                for url in pages(hosts["every way"], 6, "any")
            ),
            {"url": paused.url("/page/0"), "meta": {"download_slot": "one"}},
            *(url for name in ("ahead", "behind") for url in pages(hosts[name], 3)),
            *pages(burst, PLACES),
            *(url for name in ("0.3 s", "1.2 s") for url in pages(hosts[name], 1)),
            *pages(day, 30),
            *pages(hosts["forever"], 3),
            *(url for host in by_robots for url in pages(host, 3)),
        ]
        anyway = [{"url": host.url("/any/0"), "meta": ANYWAY} for host in by_robots]
        settings = {
            **SETTINGS,
            "ITEM_PIPELINES": FILES_PIPELINE,
            "FILES_STORE": str(tmp_path_factory.mktemp("files")),
        }
        result = run_crawl(
            requests,
            mode=mode,
            spider=SPIDER,
            settings=settings,
            follow={
                late: [
                    *anyway,
                    {"url": paused.url("/any/0"), "meta": ANYWAY},
                    {"url": paused.url("/slot/0"), "meta": {"download_slot": "two"}},
                    {"url": paused.url("/queue/0")},
                ],
                later.url("/first"): [{"url": url} for url in pages(later, 3)],
            },
            files={
                start: pages(hosts["files"], 12, "file")
                + pages(hosts["every way"], 6, "file"),
                late: pages(day, 1, "file") + pages(paused, 1, "file"),
            },
            more={
                start: pages(hosts["every way"], 6, "more"),
                late: pages(day, 1, "more") + pages(paused, 1, "more"),
            },
        )
        yield Crawled(result, hosts)


class TestManyHosts:
    """One crawl of many hosts that ask for pauses in all forms, in each mode."""

    def test_the_crawl_ends(self, crawled: Crawled) -> None:
        """A crawl of hosts that ask for pauses ends by itself, without errors in the log."""
        assert crawled.result.exit_code == 0
        assert crawled.result.stats["finish_reason"] == "finished"
        # Scrapy 2.14 itself logs the traceback of each file that its pipeline does not get.
        assert crawled.result.lines("ERROR") == []
        assert "Unhandled" not in crawled.result.log
        assert "never retrieved" not in crawled.result.log

    def test_the_queue(self, crawled: Crawled) -> None:
        """A host that answers each tenth request with 429 and ``Retry-After: 2`` gets no request
        from the queue for 2 seconds. Its pages are all fetched in the end.
        """
        host = crawled.hosts["queue"]
        check_kept(host, result=crawled.result)
        check_fetched(host, *pages(host, 18))
        assert crawled.errors(host) == []

    def test_files(self, crawled: Crawled) -> None:
        """The files of a media pipeline wait for the end of a pause, and are all fetched."""
        host = crawled.hosts["files"]
        check_kept(host, result=crawled.result, places=MEDIA_PLACES)
        check_fetched(host, *pages(host, 12, "file"))
        fetched = [
            file["url"]
            for item in crawled.result.items
            for file in item.get("files", ())
        ]
        assert set(pages(host, 12, "file")) <= set(fetched)

    def test_every_way(self, crawled: Crawled) -> None:
        """Requests from the queue, files, what a callback downloads, and requests with
        ``dont_obey_robotstxt`` keep the pauses that any of them was answered with.
        """
        host = crawled.hosts["every way"]
        check_kept(host, 2, result=crawled.result, places=MEDIA_PLACES)
        kinds = ("page", "any", "file", "more")
        check_fetched(host, *(url for kind in kinds for url in pages(host, 6, kind)))

    def test_nobody_goes_round(self, crawled: Crawled) -> None:
        """What comes within a pause waits for its end: requests from the queue, in a download slot
        of their own, with ``dont_obey_robotstxt``, for a file, and what a callback downloads.
        """
        host = crawled.hosts["paused"]
        check_kept(host, result=crawled.result)
        kinds = ("page", "queue", "slot", "any", "file", "more")
        check_fetched(host, *(url for kind in kinds for url in pages(host, 1, kind)))

    @pytest.mark.parametrize("name", ["ahead", "behind"])
    def test_a_date(self, crawled: Crawled, name: str) -> None:
        """``Retry-After`` with a date counts by the clock of the server, even if that is wrong."""
        host = crawled.hosts[name]
        check_kept(host, result=crawled.result)
        check_fetched(host, *pages(host, 3))

    def test_a_burst(self, crawled: Crawled) -> None:
        """Eight requests in flight that are all answered with 503 cause one pause of a second: it
        does not double with each of them.
        """
        host = crawled.hosts["burst"]
        check_kept(host, result=crawled.result)
        # If it doubled, it would be longer than REP_WAIT_MAX, and the pages would be refused.
        check_fetched(host, *pages(host, PLACES))

    @pytest.mark.parametrize(("name", "seconds"), [("0.3 s", 1.0), ("1.2 s", 1.2)])
    def test_a_crawl_delay(self, crawled: Crawled, name: str, seconds: float) -> None:
        """A pause is not shorter than the Crawl-delay of its host, and a shorter Crawl-delay does
        not end it.
        """
        host = crawled.hosts[name]
        (pause,) = check_kept(
            host, result=crawled.result, delay=float(name.removesuffix(" s"))
        )
        (hit,) = [hit for hit in host.hits if isinstance(hit.answer, Busy)]
        assert pause.end - hit.answered == pytest.approx(seconds)
        check_fetched(host, *pages(host, 1))

    def test_a_day(self, crawled: Crawled) -> None:
        """If a host asks for a longer pause than REP_WAIT_MAX, its requests are refused at once:
        those in the queue, files, and what a callback downloads. The log and the stats say so.
        """
        host = crawled.hosts["day"]
        check_kept(host, result=crawled.result)
        urls = pages(host, 30)
        errors = crawled.errors(host)
        found = {(error["error"], error.get("reason")) for error in errors}
        assert found == {("RobotsDenied", "back-off")}
        responses = [one for one in crawled.result.fetched() if one in urls]
        assert sorted([*responses, *(error["url"] for error in errors)]) == sorted(urls)
        (file,) = pages(host, 1, "file")
        (more,) = pages(host, 1, "more")
        downloads = [item for item in crawled.result.items if item["url"] == more]
        assert [one["error"] for one in downloads] == ["RobotsDenied"]
        (item,) = [
            item for item in crawled.result.items if file in item.get("file_urls", ())
        ]
        assert file not in [one["url"] for one in item["files"]]
        assert crawled.said("WARNING", host, r"\b86[ ,]?400\b|\b1 day\b|\b24:00:00\b")

    def test_forever(self, crawled: Crawled) -> None:
        """A host that answers nothing but 429 is asked again after a second, then after two, and
        so on. After REP_WAIT_MAX its requests are refused, and the log says why.
        """
        host = crawled.hosts["forever"]
        check_kept(host, 2, result=crawled.result)
        assert len(host.hits) <= 1 + 3 + 2
        errors = crawled.errors(host)
        assert sorted(error["url"] for error in errors) == pages(host, 3)
        assert {error.get("reason") for error in errors} == {"back-off"}
        assert crawled.said("WARNING", host, "refused", "429|[Bb]ack")

    @pytest.mark.parametrize("name", ["robots 429", "robots 503"])
    def test_robotstxt_asks_for_a_pause(self, crawled: Crawled, name: str) -> None:
        """If robots.txt is answered with 429 or 503, nothing is sent to the host within the pause,
        not even requests with ``dont_obey_robotstxt``. The pages are fetched after it.
        """
        host = crawled.hosts[name]
        check_kept(host, result=crawled.result)
        assert len(host.robots_hits) == 2
        served = {hit.path for hit in host.hits if hit.path != "/robots.txt"}
        assert served == {"/any/0", "/page/0", "/page/1", "/page/2"}

    def test_robotstxt_waits(self, crawled: Crawled) -> None:
        """A robots.txt that is needed within a pause is fetched after it."""
        host = crawled.hosts["robots later"]
        (pause,) = check_kept(host, result=crawled.result)
        check_fetched(host, *pages(host, 3))
        (hit,) = host.robots_hits
        assert hit.time > pause.end - 0.01

    def test_stats(self, crawled: Crawled) -> None:
        """The stats count pauses, their seconds, the hosts that asked for them, and refusals."""
        stats = crawled.result.stats
        paused = [host for host in crawled.hosts.values() if pauses_of(host.hits)]
        assert stats["rep/backoff/hosts"] == len(paused) == len(crawled.hosts) - 1
        assert stats["rep/backoff/pauses"] >= len(paused)
        assert stats["rep/backoff/seconds"] > DAY + 10
        refused = [
            *crawled.errors(crawled.hosts["day"]),
            *crawled.errors(crawled.hosts["forever"]),
        ]
        # The file and the download have no errback.
        assert stats["rep/denied/back-off"] == len(refused) + 2
        assert stats["robotstxt/forbidden"] == len(refused) + 2


def test_two_crawls(site: Site, mode: str) -> None:
    """Two crawls in one process keep the pauses of a host together, and a healthy host beside
    it does not wait.
    """
    host = limit(site.add(RULES), 10, busy(429, "1", delay=0.05), each=True)
    healthy = limit(site.add(RULES, name="127.0.0.2"), 0)
    crawls = [
        [SETTINGS, *pages(host, 10, kind), *pages(healthy, 10, kind)]
        for kind in ("one", "other")
    ]
    command = ["tests.crawl.two_crawls", mode, json.dumps(crawls)]
    done = forks.run(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    check_fetched(host, *pages(host, 10, "one"), *pages(host, 10, "other"))
    check_fetched(healthy, *pages(healthy, 10, "one"), *pages(healthy, 10, "other"))
    pauses = check_kept(host, 2, places=2 * PLACES)
    assert healthy.hits[-1].time < pauses[-1].end
    assert not done.stderr


def test_in_a_download_slot(site: Site, mode: str) -> None:
    """With a DOWNLOAD_DELAY, one request waits in Scrapy's download slot. If its host asks for a
    pause meanwhile, it is sent after the pause, or refused if that is too long.
    """
    host = limit(site.add(RULES), 1, busy(429, "1", delay=0.3), seconds=0)
    day = site.add(RULES, name="127.0.0.2")
    limit(day, 1, busy(503, str(DAY), delay=0.3))
    result = run_crawl(
        [*pages(host, 4), *pages(day, 4)],
        mode=mode,
        settings={
            **SETTINGS,
            "DOWNLOAD_DELAY": 0.5,
            "RANDOMIZE_DOWNLOAD_DELAY": False,
        },
    )
    _, asking, after, *_ = host.hits
    assert after.time > asking.answered + 0.99
    check_fetched(host, *pages(host, 4))
    check_fetched(day)
    assert sorted(error["url"] for error in result.errors) == pages(day, 4)
    assert {error.get("reason") for error in result.errors} == {"back-off"}
    assert len(day.hits) == 2
    assert result.stats["rep/denied/back-off"] == 4


def test_held_back_by_a_component(site: Site, mode: str) -> None:
    """Requests that another middleware holds back until a pause of their host is over go one by
    one after it, although they had their places before it.
    """
    host = limit(site.add(RULES), 1, busy(503, "1", delay=0.3))
    other = site.add(RULES, name="127.0.0.2")
    other.answers["/go"] = Answer(delay=1.8)
    urls = [host.url("/asks"), other.url("/go"), *pages(host, 3, "held")]
    run_crawl(
        urls,
        mode=mode,
        settings={
            **SETTINGS,
            "DOWNLOADER_MIDDLEWARES": {"tests.crawl.backoff_spiders.HoldBack": 50},
            "REP_WAIT_MAX": 30,
        },
    )
    check_kept(host)
    check_fetched(host, host.url("/asks"), *pages(host, 3, "held"))


def test_a_page_that_asks_for_a_pause(site: Site, mode: str) -> None:
    """A spider that calls ``back_off`` for a page with status 200 pauses that host, and no other.
    Its pages are all fetched in the end.
    """
    slow_down = Busy(b"slow down", delay=0.05, pause=1.0)
    host = limit(site.add(RULES), 10, slow_down, each=True, seconds=0.1)
    healthy = limit(site.add(RULES, name="127.0.0.2"), 0, seconds=0.05)
    result = run_crawl(
        [*pages(host, 14), *pages(healthy, 14)],
        mode=mode,
        spider="tests.crawl.backoff_spiders.SlowDownSpider",
        settings=SETTINGS,
    )
    (pause,) = check_kept(host, result=result)
    check_fetched(host, *pages(host, 14))
    check_fetched(healthy, *pages(healthy, 14))
    assert healthy.hits[-1].time < pause.end
    assert result.errors == []
    assert result.stats["rep/backoff/hosts"] == result.stats["rep/backoff/pauses"] == 1
    assert len(result.lines("INFO", host.name)) == 2


@pytest.mark.newest
def test_a_host_that_is_back(site: Site, tmp_path: Path) -> None:
    """After a pause that was too long to wait for, one request asks the host again. When the
    host answers it, the others follow. The log has one line at the beginning, and one at the end,
    the ledger each pause with its status and Retry-After.
    """
    ledger = tmp_path / "ledger.sqlite"
    host = limit(site.add(RULES, name="127.0.0.2"), 1, busy(429, "1"))
    other = site.add(RULES, name="127.0.0.3")
    other.answers["/late"] = Answer(
        after=lambda: (
            (pauses := pauses_of(host.hits)) and time.monotonic() > pauses[0].end + 0.2
        )
    )
    first, probe, *more = pages(host, 6)
    result = run_crawl(
        [first, other.url("/late")],
        spider=SPIDER,
        settings={**SETTINGS, "REP_WAIT_MAX": 0.5, "REP_LEDGER": str(ledger)},
        follow={
            other.url("/late"): [{"url": probe}],
            probe: [{"url": url} for url in more],
        },
    )
    check_kept(host, result=result)
    assert result.error(first).get("reason") == "back-off"
    assert len(result.errors) == 1
    check_fetched(host, probe, *more)
    assert result.stats["rep/backoff/hosts"] == result.stats["rep/backoff/pauses"] == 1
    assert result.stats["rep/backoff/seconds"] == pytest.approx(1, abs=0.01)
    assert result.stats["rep/denied/back-off"] == 1
    lines = [
        line
        for level in ("WARNING", "INFO")
        for line in result.lines(level, host.name)
        if " changes this. Example: " not in line
    ]
    begun = [
        line
        for line in lines
        if re.search(r"\b1(\.0)? ?s|\b0:00:01\b|\b1 second", line)
    ]
    assert len(begun) == 1, lines
    assert len(lines) == 2, lines
    assert result.lines("INFO", host.name) != []
    query = "SELECT * FROM decision WHERE reason = 'back-off' AND verdict = 'noted'"
    (row,) = rows(ledger, query)
    found = row["layer"], row["statement"], row["origin"], row["url"]
    assert found == ("delay", "429, Retry-After: 1", host.origin, first)


@pytest.mark.newest
def test_switched_off(site: Site) -> None:
    """With REP_BACKOFF_MAX = 0, answers with 429 and 503 slow nothing down."""
    host = limit(site.add(RULES), 3, busy(429, str(DAY)))
    settings = {**SETTINGS, "REP_BACKOFF_MAX": 0}
    result = run_crawl(pages(host, 12), settings=settings)
    check_fetched(host, *pages(host, 12))
    assert result.errors == []
    assert [key for key in result.stats if "backoff" in key] == []


@pytest.mark.newest
def test_a_shorter_longest_pause(site: Site) -> None:
    """REP_BACKOFF_MAX bounds the pauses that the crawl chooses itself, and no others."""
    host = limit(site.add(RULES), 4, busy(503))
    asking = limit(site.add(RULES, name="127.0.0.2"), 1, busy(429, "1"))
    settings = {**SETTINGS, "REP_BACKOFF_MAX": 0.2, "REP_WAIT_MAX": 10}
    result = run_crawl([*pages(host, 1), *pages(asking, 1)], settings=settings)
    check_kept(host, 4, result=result, longest=0.2)
    check_kept(asking, result=result)
    check_fetched(host, *pages(host, 1))
    check_fetched(asking, *pages(asking, 1))
    # Otherwise the pauses would be 1, 2, 4 and 8 seconds.
    assert host.hits[-1].time - host.hits[0].time < 12
    assert result.errors == []


@pytest.mark.newest
def test_cached_answers(site: Site, tmp_path: Path) -> None:
    """A 429 from Scrapy's HTTP cache says nothing about the host now: it pauses nothing."""
    host = site.add(RULES)
    host.answers["/busy"] = busy(429, str(DAY))
    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path)}
    run_crawl([host.url("/busy")], spider=SPIDER, settings=cache)
    result = run_crawl(
        [host.url("/busy")],
        spider=SPIDER,
        settings=cache,
        follow={host.url("/busy"): [{"url": url} for url in pages(host, 5)]},
    )
    assert len(host.hits_on("/busy")) == 1
    assert result.stats["httpcache/hit"] == 1
    assert result.errors == []
    check_fetched(host, *pages(host, 5))
    assert [key for key in result.stats if "backoff" in key] == []


@pytest.mark.newest
def test_closing_does_not_wait(site: Site, tmp_path: Path) -> None:
    """While requests and files wait for the end of a pause, the pages of other hosts are fetched. A
    spider that is closed meanwhile ends soon.
    """
    host = limit(site.add(RULES), 1, busy(429, "500"))
    other, healthy = site.add(name="127.0.0.2"), site.add(name="127.0.0.3")
    other.answers["/late"] = Answer(after=lambda: was_busy(host))
    late = other.url("/late")
    crawl = start_crawl(
        [*pages(host, 1), late],
        spider=SPIDER,
        settings={
            **SETTINGS,
            "REP_WAIT_MAX": 600,
            "ITEM_PIPELINES": FILES_PIPELINE,
            "FILES_STORE": str(tmp_path),
        },
        follow={late: [{"url": url} for url in pages(host, 30) + pages(healthy, 60)]},
        files={late: pages(host, 3, "file")},
        more={late: pages(host, 3, "more")},
    )
    crawl.until(lambda: len(healthy.pages) == 60)
    crawl.process.send_signal(signal.SIGINT)
    result = crawl.result(60)
    check_kept(host, result=result)
    check_fetched(healthy, *pages(healthy, 60))
    assert result.stats["finish_reason"] == "shutdown"
    assert host.pages == ["/page/0"]
    assert "never retrieved" not in result.log


@pytest.mark.newest
def test_robotstxt_in_a_slot(site: Site) -> None:
    """The robots.txt of a host waits for the end of its pause in a download slot of its own, too."""
    host = limit(site.add(RULES, name="127.0.0.2"), 1, busy(429, "1"))
    other = site.add(RULES)
    other.answers["/late"] = Answer(after=lambda: was_busy(host))
    late, page = other.url("/late"), host.url("/page/0")
    result = run_crawl(
        [{"url": host.url("/any/0"), "meta": {"dont_obey_robotstxt": True}}, late],
        spider=SPIDER,
        settings=SETTINGS,
        follow={late: [{"url": page, "meta": {"download_slot": "own"}}]},
    )
    check_kept(host, result=result)
    check_fetched(host, host.url("/any/0"), page)
    assert len(host.robots_hits) == 1


def has_pause(job: Path) -> bool:
    """Return whether the file of a JOBDIR has a pause."""
    path = job / "requests.queue" / "requests.sqlite"
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(path)) as file:
        return file.execute("SELECT * FROM pauses").fetchone() is not None
    return False


@pytest.mark.newest
def test_a_crawl_that_is_killed(site: Site, tmp_path: Path) -> None:
    """A crawl with a JOBDIR that is killed within a pause keeps it when it is resumed."""
    host = limit(site.add(RULES, name="127.0.0.2"), 1, busy(429, "4"))
    arguments: dict[str, Any] = {
        "requests": pages(host, 3),
        "settings": {
            **SETTINGS,
            "CONCURRENT_REQUESTS": 1,
            "JOBDIR": str(tmp_path),
            "REP_WAIT_MAX": 30,
        },
    }
    crawl = start_crawl(**arguments)
    crawl.until(lambda: has_pause(tmp_path))
    crawl.process.kill()
    crawl.wait()
    result = run_crawl(**arguments)
    (pause,) = check_kept(host, result=result)
    assert host.hits[-1].time < pause.end + 30
    check_fetched(host, *pages(host, 3))
    assert result.lines("INFO", host.name, "answers again")
