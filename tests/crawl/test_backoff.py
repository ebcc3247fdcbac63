"""A host that answers 429 or 503 is left alone for as long as it asks, by its access log.

``tests/frontier/test_core.py`` proves how long each pause is, and how many requests follow it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.crawl.answers import Answer, Busy, Then, busy
from tests.crawl.conftest import CHOSEN, check
from tests.crawl.crawl import run_crawl
from tests.crawl.pauses import (
    EARLY,
    MEDIA_PLACES,
    PLACES,
    check_fetched,
    check_kept,
    limit,
    pages,
    was_busy,
)
from tests.crawl.server import Site
from tests.crawl.test_ledger import rows
from tests.crawl.test_politeness import traffic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host

DAY = "86400"
RULES = "User-agent: *\nDisallow: /private/\n"
SPIDER = "tests.crawl.waiting_spiders.EveryWaySpider"
COMPONENTS = "tests.crawl.component_spiders"
SETTINGS = {
    "CONCURRENT_REQUESTS_PER_DOMAIN": PLACES,
    "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
    "REP_BACKOFF_MAX": 60,
    "REP_WAIT_TIMEOUT": 3,
    "RETRY_ENABLED": True,
    "RETRY_TIMES": 50,
}
META = {"any": {"dont_obey_robotstxt": True}, "slot": {"download_slot": "two"}}
MIDNIGHT = {"Date": "Fri, 01 Jan 2027 00:00:00 GMT"}
A_SECOND_LATER = "Fri, 01 Jan 2027 00:00:01 GMT"


class Case(NamedTuple):
    """A host that gives *answer* to its first *number* requests, or to *each* one with that
    number, and the pages of each kind that are requested at first and in the first pause: the
    name of the kind says how. *places* and *delay* are those of its download slot. If it is
    refused, it gets at most *most* requests.
    """

    pages: dict[str, int]
    later: dict[str, int] = {}
    answer: Busy = busy(429, "1")
    number: int = 1
    each: bool = False
    robots: Sequence[Answer] = (Answer(RULES.encode()),)
    pauses: int = 1
    places: int = PLACES
    delay: float = 0
    most: int = 0


CASES = {
    # Whatever answers 429 or 503 pauses all.
    "requests in every way": Case(
        {"page": 18, "any": 6, "files": 6, "more": 6},
        answer=busy(503, "1", delay=0.05),
        number=10,
        each=True,
        pauses=2,
        places=MEDIA_PLACES,
    ),
    "nobody goes round": Case(
        {"page": 1},
        {"queue": 1, "slot": 1, "any": 1, "files": 1, "more": 1},
        busy(429, "2"),
    ),
    # By the clock of the server.
    "Retry-After with a date": Case(
        {"page": 3}, answer=busy(429, A_SECOND_LATER, 1, headers=MIDNIGHT)
    ),
    # Doubled for each, the pause would be longer than REP_WAIT_TIMEOUT.
    "eight answers at once": Case(
        {"page": PLACES}, answer=busy(503, delay=0.3), number=PLACES
    ),
    # The robots.txt asks for the pause, and dont_obey_robotstxt is no way round.
    "robots.txt with 429": Case(
        {"page": 3},
        {"any": 1},
        number=0,
        robots=[busy(429, "1"), Answer(RULES.encode())],
    ),
    "robots.txt needed in a pause": Case({"any": 1}, {"page": 2, "slot": 1}),
    # The spider calls back_off for a page with status 200.
    "a page that asks for a pause": Case(
        {"page": 14},
        answer=Busy(b"slow down", delay=0.05, pause=1.0),
        number=10,
        each=True,
    ),
    # Those that a component holds back have their places before the pause.
    "held back until the end": Case(
        {"page": 1, "held": 3}, answer=busy(503, "1", delay=0.3)
    ),
    # The next request waits in Scrapy's download slot before the pause.
    "in a download slot": Case(
        {"page": 4}, answer=busy(429, "1", delay=0.3), delay=0.5, places=1
    ),
    "a day": Case(
        {"page": 30}, {"files": 1, "more": 1}, busy(429, DAY), most=1 + PLACES
    ),
    "a day, in a download slot": Case(
        {"page": 4}, answer=busy(503, DAY, delay=0.3), delay=0.5, most=2
    ),
    # After a second, and after two more: the pauses become longer.
    "for ever": Case({"page": 3}, answer=busy(429), number=10**6, most=1 + 3 + 2),
}


class Crawled(NamedTuple):
    result: CrawlResult
    hosts: dict[str, Host]

    def errors(self, host: Host) -> list[dict[str, Any]]:
        return [error for error in self.result.errors if host.origin in error["url"]]


@pytest.fixture(scope="module", params=CHOSEN)
def crawled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Crawled]:
    """Crawl all hosts in every way that Scrapy has, in each mode."""
    mode = check(request.param)
    with Site() as site:
        other = site.add(name="127.0.0.20")
        start, late = other.url("/start"), other.url("/late")
        waits_for: list[Host] = []
        other.answers["/late"] = Answer(after=lambda: all(map(was_busy, waits_for)))
        other.answers["/go"] = Answer(delay=1.8)
        hosts, slots = {}, {}
        kinds = ("follow", "files", "more")
        asked: dict[str, Any] = {kind: {start: [], late: []} for kind in kinds}
        for number, (name, case) in enumerate(CASES.items(), 21):
            host = hosts[name] = site.add(case.robots, name=f"127.0.0.{number}")
            limit(host, case.number, case.answer, each=case.each)
            if case.later:
                waits_for.append(host)
            if case.delay:
                slot = {"concurrency": PLACES, "delay": case.delay}
                slots[host.name] = {**slot, "randomize_delay": False}
            for when, wanted in ((start, case.pages), (late, case.later)):
                for kind, count in wanted.items():
                    if kind in asked:
                        asked[kind][when] += pages(host, count, kind)
                        continue
                    for url in pages(host, count, kind):
                        page = {"url": url, "meta": META.get(kind, {})}
                        asked["follow"][when].append(page)
        result = run_crawl(
            [start, late, other.url("/go")],
            mode=mode,
            spider=SPIDER,
            settings={
                **SETTINGS,
                "DOWNLOAD_SLOTS": slots,
                "DOWNLOADER_MIDDLEWARES": {f"{COMPONENTS}.HoldBack": 50},
                "FILES_STORE": str(tmp_path_factory.mktemp("files")),
            },
            **asked,
        )
        yield Crawled(result, hosts)


class TestManyHosts:
    """One crawl of many hosts that ask for pauses in all forms, in each mode."""

    def test_the_crawl_ends(self, crawled: Crawled) -> None:
        """The crawl ends by itself, without errors in the log, and counts the hosts and seconds."""
        result = crawled.result
        assert (result.exit_code, result.stats["finish_reason"]) == (0, "finished")
        # Scrapy 2.14 itself logs the traceback of each file that its pipeline does not get.
        assert result.lines("ERROR") == []
        assert "Unhandled" not in result.log
        assert "never retrieved" not in result.log
        assert result.stats["rep/backoff/hosts"] == len(CASES)
        assert result.stats["rep/backoff/seconds"] > 2 * int(DAY) + 10

    @pytest.mark.parametrize("name", [name for name in CASES if not CASES[name].most])
    def test_kept(self, crawled: Crawled, name: str) -> None:
        """Nothing is sent to a host within the pauses that it asks for. After them, its pages are
        all fetched, one at first.
        """
        host, case = crawled.hosts[name], CASES[name]
        result, places = crawled.result, case.places
        pauses = check_kept(host, case.pauses, result=result, places=places)
        wanted = (case.pages | case.later).items()
        check_fetched(
            host, *(url for kind, n in wanted for url in pages(host, n, kind))
        )
        assert crawled.errors(host) == []
        files = {one["url"] for item in result.items for one in item.get("files", ())}
        assert {url for url in files if url.startswith(f"{host.origin}/")} == {
            url for kind, n in wanted if kind == "files" for url in pages(host, n, kind)
        }
        if name == "robots.txt needed in a pause":
            assert host.robots_hits[0].time > pauses[0].end - 0.01

    @pytest.mark.parametrize("name", [name for name in CASES if CASES[name].most])
    def test_refused(self, crawled: Crawled, name: str) -> None:
        """If a host asks for a longer pause than REP_WAIT_TIMEOUT, or for one after the other for
        that long, its requests are refused, files and downloads too, and a warning names the host
        and the answer.
        """
        host, case, result = crawled.hosts[name], CASES[name], crawled.result
        check_kept(host, result=result, places=case.places)
        urls, errors = pages(host, case.pages["page"]), crawled.errors(host)
        found = {(error["error"], error.get("reason")) for error in errors}
        assert found == {("RobotsDenied", "back-off")}
        fetched = [url for url in result.fetched() if url in urls]
        assert sorted([*fetched, *(error["url"] for error in errors)]) == sorted(urls)
        assert len(host.hits) <= case.most
        assert result.lines("WARNING", host.name, str((host.hits[1].answer).status))
        if case.later:
            (file,), (more,) = pages(host, 1, "files"), pages(host, 1, "more")
            (download,) = [item for item in result.items if item["url"] == more]
            assert download["error"] == "RobotsDenied"
            (item,) = [one for one in result.items if file in one.get("file_urls", ())]
            assert file not in [one["url"] for one in item["files"]]


def _parts(kind: str, status: int) -> Iterator[bytes | Then]:
    """Answer with *status* and Retry-After, and with a body that does not arrive whole."""
    head = b"HTTP/1.1 %d Busy\r\nRetry-After: 2\r\n%s\r\n\r\n"
    size = b"Content-Length: %d" % (5000 if "too long" in kind else 1000)
    is_sized = "length" in kind
    yield head % (status, size if is_sized else CHUNKED)
    yield b"x" * 500 if is_sized else CHUNK
    if "reset" in kind:
        yield Then.RESET
    for _ in range(10 if "too long" in kind else 0):
        yield b"x" * 450 if is_sized else CHUNK
    for _ in range(100 if "endless" in kind else 0):
        yield Then.PAUSE
        yield b"1\r\nx\r\n"


CHUNKED = b"Transfer-Encoding: chunked"
CHUNK = b"1f4\r\n%s\r\n" % (b"x" * 500)
BROKEN = [
    "cut, with a length",
    "cut, in chunks",
    "reset, with a length",
    "reset, in chunks",
    "too long, with a length",
    "too long, in chunks",
    "endless, in chunks",
]


def test_an_answer_that_is_not_whole(site: Site, mode: str) -> None:
    """A 429 or 503 causes its pause whatever becomes of its body, as soon as its header fields are
    there: for a page, and for robots.txt.
    """
    hosts, other = [], site.add(name="127.0.0.20")
    first, late = other.url("/start"), other.url("/late")
    for number, kind in enumerate(2 * BROKEN):
        parts = partial(_parts, kind, 503 if number % 2 else 429)
        host, answer = site.add(RULES, name=f"127.0.0.{21 + number}"), Busy(raw=parts)
        if number < len(BROKEN):
            limit(host, 1, answer)
        else:
            host.answers["/robots.txt"] = [answer, Answer(RULES.encode())]
        hosts.append(host)
    other.answers["/late"] = Answer(after=lambda: all(map(was_busy, hosts)))
    result = run_crawl(
        [first, late],
        mode=mode,
        spider=SPIDER,
        settings={
            **SETTINGS,
            "DOWNLOAD_MAXSIZE": 2000,
            "DOWNLOAD_TIMEOUT": 4,
            "REP_WAIT_TIMEOUT": 60,
        },
        follow={
            first: [{"url": url} for host in hosts for url in pages(host, 1)],
            late: [{"url": host.url("/page/1")} for host in hosts],
        },
    )
    after = {
        (host.name, kind): [hit.time - host_asked(host) for hit in host.hits]
        for host, kind in zip(hosts, 2 * BROKEN, strict=True)
    }
    early = {
        which: seconds
        for which, times in after.items()
        if (seconds := [round(each, 3) for each in times if 0 < each < 2 - EARLY])
    }
    assert early == {}
    # Scrapy does not ask again for a page that is too long.
    assert all("/page/1" in host.pages for host in hosts)
    assert result.stats["finish_reason"] == "finished"
    assert result.stats["rep/backoff/hosts"] == len(hosts)


def host_asked(host: Host) -> float:
    """When *host* began to answer that it is busy."""
    return next(hit.answered for hit in host.hits if isinstance(hit.answer, Busy))


@pytest.mark.newest
def test_a_host_that_is_back(site: Site, tmp_path: Path) -> None:
    """After a pause that was too long to wait for, one request asks the host again. When the
    host answers it, the others follow. The log has one line at the beginning, and one at the end,
    the ledger each pause with its status and Retry-After.
    """
    ledger = tmp_path / "ledger.sqlite"
    host = limit(site.add(RULES, name="127.0.0.2"), 1, busy(429, "1"))
    other = site.add(RULES, name="127.0.0.3")
    late = other.url("/late")
    other.answers["/late"] = Answer(
        after=lambda: was_busy(host, seconds=1.2),
    )
    first, probe, *more = pages(host, 6)
    result = run_crawl(
        [first, late],
        spider=SPIDER,
        settings={**SETTINGS, "REP_WAIT_TIMEOUT": 0.5, "REP_LEDGER": str(ledger)},
        follow={late: [{"url": probe}], probe: [{"url": url} for url in more]},
    )
    check_kept(host, result=result)
    assert [error["url"] for error in result.errors] == [first]
    check_fetched(host, probe, *more)
    assert result.stats["rep/backoff/seconds"] == pytest.approx(1, abs=0.01)
    assert result.stats["rep/denied/back-off"] == 1
    assert (
        len(result.lines("WARNING", host.name, "answered 429", "over REP_WAIT_TIMEOUT"))
        == 1
    )
    assert len(result.lines("INFO", host.name, "answers again")) == 1
    query = "SELECT * FROM decision WHERE reason = 'back-off' AND verdict = 'noted'"
    (row,) = rows(ledger, query)
    found = row["layer"], row["statement"], row["origin"], row["url"]
    assert found == ("delay", "429, Retry-After: 1", host.origin, first)
    found = traffic(ledger, host)
    asked, resumed = found["pause"]
    assert (asked, found["pages"]) == (1.0, 6)
    asking, after = host.hits[1:3]
    assert 1.0 <= resumed <= after.time - asking.time + 0.001


@pytest.mark.newest
def test_a_shorter_longest_pause(site: Site) -> None:
    """REP_BACKOFF_MAX bounds the pauses that the crawl chooses itself. With 0, it
    chooses and keeps none.
    """
    host = limit(site.add(RULES), 4, busy(503))
    settings = {**SETTINGS, "REP_BACKOFF_MAX": 0.2, "REP_WAIT_TIMEOUT": 10}
    result = run_crawl(pages(host, 1), settings=settings)
    check_kept(host, 4, result=result, longest=0.2)
    # Otherwise the pauses would be 1, 2, 4 and 8 seconds.
    assert host.hits[-1].time - host.hits[0].time < 12
    off = limit(site.add(RULES), 3, busy(429, DAY))
    result = run_crawl(pages(off, 12), settings={**SETTINGS, "REP_BACKOFF_MAX": 0})
    check_fetched(off, *pages(off, 12))
    assert [key for key in result.stats if "backoff" in key] == []


@pytest.mark.newest
def test_a_robotstxt_that_may_be_fetched_again_at_once(site: Site) -> None:
    """While robots.txt says that it may be fetched again at once, or after a moment, the crawl
    waits twice as long each time.
    """
    hosts = [
        site.add(busy(status, after), name=f"127.0.0.{number}")
        for number, (status, after) in enumerate(
            [(503, "0"), (500, "0"), (429, "1")], 2
        )
    ]
    settings = {**SETTINGS, "REP_WAIT_TIMEOUT": 6}
    run_crawl([host.url("/page") for host in hosts], settings=settings)
    for host in hosts:
        seconds = [round(gap + EARLY) for gap in host.gaps]
        # At last, once more before the page is refused.
        assert seconds[:2] == [1, 2]
        assert len(host.hits) <= 4
        assert host.pages == []
