"""A host that answers 429 or 503 is left alone for as long as it asks, by its access log.

``tests/frontier/test_core.py`` proves how long each pause is, and how many requests follow it.
"""

from __future__ import annotations

import signal
import sqlite3
import time
from contextlib import closing, suppress
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.crawl.answers import Answer, Busy, busy
from tests.crawl.conftest import CHOSEN, check
from tests.crawl.crawl import run_crawl, start_crawl
from tests.crawl.pauses import (
    MEDIA_PLACES,
    PLACES,
    check_fetched,
    check_kept,
    limit,
    pages,
    pauses_of,
    was_busy,
)
from tests.crawl.server import Site
from tests.crawl.test_ledger import rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host

HOUR, DAY = 3600, 24 * 3600
RULES = "User-agent: *\nDisallow: /private/\n"
SPIDERS = "tests.crawl.backoff_spiders."
SPIDER = f"{SPIDERS}EveryWaySpider"
SETTINGS = {
    "CONCURRENT_REQUESTS_PER_DOMAIN": PLACES,
    "REP_BACKOFF_MAX": 60,
    "REP_WAIT_MAX": 3,
    "RETRY_ENABLED": True,
    "RETRY_TIMES": 50,
}
ANYWAY = {"dont_obey_robotstxt": True}
FILES_PIPELINE = {"scrapy.pipelines.files.FilesPipeline": 1}


def until_a_date() -> Busy:
    """Return an answer that asks for a second, with dates by a clock that is an hour ahead."""
    there = int(time.time()) + HOUR
    date, until = (formatdate(at, usegmt=True) for at in (there, there + 1))
    return busy(429, until, 1, headers={"Date": date})


class Kept(NamedTuple):
    """What became of the requests to a host that asked for pauses."""

    fetched: dict[str, int]
    """How many pages of each kind were fetched, each once."""
    pauses: int = 1
    places: int = PLACES


KEPT = {
    # Whatever answers 429 or 503 pauses all.
    "requests in every way": Kept(
        {"page": 18, "any": 6, "file": 6, "more": 6}, 2, MEDIA_PLACES
    ),
    # What comes within a pause: in a download slot, with dont_obey_robotstxt, a file, a download.
    "nobody goes round": Kept(
        {"page": 1, "queue": 1, "slot": 1, "any": 1, "file": 1, "more": 1}
    ),
    # By the clock of the server.
    "Retry-After with a date": Kept({"page": 3}),
    # Doubled for each, the pause would be longer than REP_WAIT_MAX.
    "eight answers at once": Kept({"page": PLACES}),
    # The robots.txt asks for the pause, and dont_obey_robotstxt is no way round.
    "robots.txt with 429": Kept({"page": 3, "any": 1}),
    "robots.txt needed in a pause": Kept({"page": 3}),
}


class Crawled(NamedTuple):
    """A crawl of many hosts, in every way that Scrapy has."""

    result: CrawlResult
    hosts: dict[str, Host]

    def errors(self, host: Host) -> list[dict[str, Any]]:
        return [error for error in self.result.errors if host.origin in error["url"]]


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
        every_way = limit(add(), 10, busy(503, "1", delay=0.05), each=True)
        paused = limit(add(), 1, busy(429, "2"))
        dated = limit(add(), 1, until_a_date())
        limit(burst, PLACES, busy(503, after=lambda: burst.at_once == PLACES))
        by_robots = add([busy(429, "1"), Answer(RULES.encode())])
        later = limit(add(), 1, busy(429, "1"))
        day = limit(add(), 1, busy(429, str(DAY)))
        forever = limit(add(), 10**6, busy(429))
        asking = (every_way, paused, dated, burst, by_robots, later)
        hosts = dict(zip(KEPT, asking, strict=True)) | {"day": day, "forever": forever}

        start, late, first = (
            other.url("/start"),
            other.url("/late"),
            later.url("/first"),
        )
        other.answers["/late"] = Answer(
            after=lambda: all(map(was_busy, [by_robots, day, paused]))
        )
        in_late = [
            {"url": by_robots.url("/any/0"), "meta": ANYWAY},
            {"url": paused.url("/any/0"), "meta": ANYWAY},
            {"url": paused.url("/slot/0"), "meta": {"download_slot": "two"}},
            {"url": paused.url("/queue/0")},
        ]
        in_first = [{"url": url} for url in pages(later, 3)]
        in_first[0]["meta"] = {"download_slot": "own"}
        files = str(tmp_path_factory.mktemp("files"))
        result = run_crawl(
            [
                *(start, late),
                {"url": first, "meta": {**ANYWAY, "dont_retry": True}},
                *pages(every_way, 18),
                *({"url": url, "meta": ANYWAY} for url in pages(every_way, 6, "any")),
                {"url": paused.url("/page/0"), "meta": {"download_slot": "one"}},
                *(*pages(dated, 3), *pages(burst, PLACES), *pages(by_robots, 3)),
                *(*pages(day, 30), *pages(forever, 3)),
            ],
            mode=mode,
            spider=SPIDER,
            settings={
                **SETTINGS,
                "ITEM_PIPELINES": FILES_PIPELINE,
                "FILES_STORE": files,
            },
            follow={late: in_late, first: in_first},
            **{
                name: {
                    start: pages(every_way, 6, kind),
                    late: pages(day, 1, kind) + pages(paused, 1, kind),
                }
                for name, kind in (("files", "file"), ("more", "more"))
            },
        )
        yield Crawled(result, hosts)


class TestManyHosts:
    """One crawl of many hosts that ask for pauses in all forms, in each mode."""

    def test_the_crawl_ends(self, crawled: Crawled) -> None:
        """A crawl of hosts that ask for pauses ends by itself, without errors in the log."""
        result = crawled.result
        assert (result.exit_code, result.stats["finish_reason"]) == (0, "finished")
        # Scrapy 2.14 itself logs the traceback of each file that its pipeline does not get.
        assert result.lines("ERROR") == []
        assert "Unhandled" not in result.log
        assert "never retrieved" not in result.log
        assert result.stats["rep/backoff/hosts"] == len(crawled.hosts)
        assert result.stats["rep/backoff/seconds"] > DAY + 10

    @pytest.mark.parametrize("name", KEPT)
    def test_kept(self, crawled: Crawled, name: str) -> None:
        """Nothing is sent to a host within the pauses that it asks for. After them, its pages are
        all fetched, one at first.
        """
        host, case = crawled.hosts[name], KEPT[name]
        pauses = check_kept(
            host, case.pauses, result=crawled.result, places=case.places
        )
        fetched = {
            kind: pages(host, count, kind) for kind, count in case.fetched.items()
        }
        check_fetched(host, *(url for urls in fetched.values() for url in urls))
        assert [error["url"] for error in crawled.errors(host)] == []
        items = crawled.result.items
        files = {one["url"] for item in items for one in item.get("files", ())}
        assert set(fetched.get("file", ())) <= files
        if name == "robots.txt needed in a pause":
            assert host.robots_hits[0].time > pauses[0].end - 0.01

    @pytest.mark.parametrize(("name", "count"), [("day", 30), ("forever", 3)])
    def test_refused(self, crawled: Crawled, name: str, count: int) -> None:
        """If a host asks for a longer pause than REP_WAIT_MAX, or for one after the other for
        that long, its requests are refused, and a warning names the host and the answer.
        """
        host = crawled.hosts[name]
        check_kept(host, result=crawled.result)
        urls, errors = pages(host, count), crawled.errors(host)
        found = {(error["error"], error.get("reason")) for error in errors}
        assert found == {("RobotsDenied", "back-off")}
        fetched = [url for url in crawled.result.fetched() if url in urls]
        assert sorted([*fetched, *(error["url"] for error in errors)]) == sorted(urls)
        # After a second, and after two more: the pauses become longer.
        assert len(host.hits) <= (1 + PLACES if name == "day" else 1 + 3 + 2)
        assert crawled.result.lines("WARNING", host.name, "429")

    def test_files_and_downloads_are_refused(self, crawled: Crawled) -> None:
        """Files, and what a callback downloads, are refused in a pause longer than REP_WAIT_MAX."""
        host = crawled.hosts["day"]
        (file,), (more,) = pages(host, 1, "file"), pages(host, 1, "more")
        items = crawled.result.items
        assert [one["error"] for one in items if one["url"] == more] == ["RobotsDenied"]
        (item,) = [one for one in items if file in one.get("file_urls", ())]
        assert file not in [one["url"] for one in item["files"]]


def test_in_a_download_slot(site: Site, mode: str) -> None:
    """With a DOWNLOAD_DELAY, one request waits in Scrapy's download slot. If its host asks for a
    pause meanwhile, it is sent after the pause, or refused if that is too long.
    """
    host = limit(site.add(RULES), 1, busy(429, "1", delay=0.3), seconds=0)
    day = site.add(RULES, name="127.0.0.2")
    limit(day, 1, busy(503, str(DAY), delay=0.3))
    delay = {"DOWNLOAD_DELAY": 0.5, "RANDOMIZE_DOWNLOAD_DELAY": False}
    urls = [*pages(host, 4), *pages(day, 4)]
    result = run_crawl(urls, mode=mode, settings={**SETTINGS, **delay})
    _, asking, after, *_ = host.hits
    assert after.time > asking.answered + 0.99
    check_fetched(host, *pages(host, 4))
    assert len(day.hits) == 2
    assert sorted(error["url"] for error in result.errors) == pages(day, 4)
    assert {error["reason"] for error in result.errors} == {"back-off"}


def test_held_back_by_a_component(site: Site, mode: str) -> None:
    """Requests that another middleware holds back until a pause of their host is over go one by
    one after it, although they had their places before it.
    """
    host = limit(site.add(RULES), 1, busy(503, "1", delay=0.3))
    other = site.add(RULES, name="127.0.0.2")
    other.answers["/go"] = Answer(delay=1.8)
    urls = [host.url("/asks"), other.url("/go"), *pages(host, 3, "held")]
    middlewares = {f"{SPIDERS}HoldBack": 50}
    settings = {**SETTINGS, "DOWNLOADER_MIDDLEWARES": middlewares, "REP_WAIT_MAX": 30}
    run_crawl(urls, mode=mode, settings=settings)
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
        spider=f"{SPIDERS}SlowDownSpider",
        settings=SETTINGS,
    )
    (pause,) = check_kept(host, result=result)
    check_fetched(host, *pages(host, 14))
    check_fetched(healthy, *pages(healthy, 14))
    assert healthy.hits[-1].time < pause.end


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
    assert [error["url"] for error in result.errors] == [first]
    check_fetched(host, probe, *more)
    assert result.stats["rep/backoff/seconds"] == pytest.approx(1, abs=0.01)
    assert result.stats["rep/denied/back-off"] == 1
    assert len(result.lines("WARNING", host.name, "429", "REP_WAIT_MAX")) == 1
    assert len(result.lines("INFO", host.name, "answers again")) == 1
    query = "SELECT * FROM decision WHERE reason = 'back-off' AND verdict = 'noted'"
    (row,) = rows(ledger, query)
    found = row["layer"], row["statement"], row["origin"], row["url"]
    assert found == ("delay", "429, Retry-After: 1", host.origin, first)


@pytest.mark.newest
def test_a_shorter_longest_pause(site: Site) -> None:
    """REP_BACKOFF_MAX bounds the pauses that the crawl chooses itself, and no others. With 0, it
    chooses and keeps none.
    """
    host = limit(site.add(RULES), 4, busy(503))
    asking = limit(site.add(RULES, name="127.0.0.2"), 1, busy(429, "1"))
    settings = {**SETTINGS, "REP_BACKOFF_MAX": 0.2, "REP_WAIT_MAX": 10}
    result = run_crawl([*pages(host, 1), *pages(asking, 1)], settings=settings)
    check_kept(host, 4, result=result, longest=0.2)
    check_kept(asking, result=result)
    # Otherwise the pauses would be 1, 2, 4 and 8 seconds.
    assert host.hits[-1].time - host.hits[0].time < 12
    off = limit(site.add(RULES), 3, busy(429, str(DAY)))
    result = run_crawl(pages(off, 12), settings={**SETTINGS, "REP_BACKOFF_MAX": 0})
    check_fetched(off, *pages(off, 12))
    assert [key for key in result.stats if "backoff" in key] == []


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
        settings={**cache, "REP_BACKOFF_MAX": 60},
        follow={host.url("/busy"): [{"url": url} for url in pages(host, 5)]},
    )
    assert len(host.hits_on("/busy")) == result.stats["httpcache/hit"] == 1
    check_fetched(host, *pages(host, 5))


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
    check_kept(host, result=result)
    check_fetched(host, *pages(host, 3))
    assert result.lines("INFO", host.name, "answers again")
