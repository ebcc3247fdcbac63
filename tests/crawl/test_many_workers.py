"""Several workers on one queue in Redis keep delays together, and lose no request. The scheduler of
scrapy-redis has its features with this package's queue.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from redis import Redis

from tests import effort
from tests.crawl.answers import Answer, Busy, redirect, robots
from tests.crawl.crawl import RETRIED_SOON, run_crawl, start_crawl, wait_until
from tests.crawl.pauses import EARLY, limit
from tests.fetching.distant import distant
from tests.fetching.redis_server import BINARY, RedisServer

pytest.importorskip("scrapy_redis")

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult, RunningCrawl
    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.skipif(
    BINARY is None, reason="There is no redis-server on the PATH"
)
RULES = "User-agent: *\nDisallow: /private/\n"
DELAY = 0.2

# Seconds, enough for a busy machine.
LONGEST = 60

# The seconds that a distant server may cost on a busy machine. On a quiet one, it costs about one.
MAX_LONGER = 2.5

PAUSE = 3.0
"""The seconds for which a busy host asks for a pause."""

ON_ITS_WAY = 1.0
"""The seconds that a busy machine needs at most until all workers know of a pause."""

SILENCE = 1.0
"""The seconds for which a worker waits for an answer of a server that gives none."""

SPIDER = "tests.crawl.redis_spiders.{}"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer(appendonly=True) as server:
        yield server


def settings_for(server: RedisServer, **settings: Any) -> dict[str, Any]:
    return {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "SCHEDULER_PERSIST": True,
        "REDIS_URL": server.url,
        "CONCURRENT_REQUESTS": 16,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 4,
        "REP_WAIT_TIMEOUT": 120,
        **settings,
    }


def start(
    urls: Sequence[str],
    settings: dict[str, Any],
    mode: str = "asyncio",
    spider: str = "WorkerSpider",
    *,
    is_first: bool = False,
    constants: dict[str, float] = RETRIED_SOON,
    **attributes: Any,
) -> RunningCrawl:
    """Start a worker. The first one requests the first of *urls*, whose
    page links to the others.
    """
    return start_crawl(
        urls[: int(is_first)],
        mode=mode,
        spider=SPIDER.format(spider),
        settings=settings,
        constants=constants,
        links=list(urls[1:]),
        **attributes,
    )


def start_workers(
    crowd: Crowd, settings: dict[str, Any], count: int, **how: Any
) -> list[RunningCrawl]:
    """Start several workers. The first page, which links to all others, is answered when all of them are there."""
    client = Redis.from_url(settings["REDIS_URL"])

    most = 0

    def are_there() -> bool:
        # Also if they have ended since: a later worker may fetch the page again.
        nonlocal most
        keys = [*client.scan_iter("{worker:requests}:*:workers")]
        most = max(most, sum(map(client.zcard, keys)))
        return most >= count

    crowd.hosts[0].limit = None
    path = urlsplit(crowd.urls[0]).path
    crowd.hosts[0].answers[path] = Answer(after=are_there)
    first = start(crowd.urls, settings, is_first=True, **how)
    wait_until(lambda: crowd.site.log or first.process.poll() is not None)
    return [first, *(start(crowd.urls, settings, **how) for _ in range(count - 1))]


def finish(crawls: list[RunningCrawl]) -> list[CrawlResult]:
    results = [crawl.result(LONGEST) for crawl in crawls]
    for result in results:
        assert result.stats.get("finish_reason") == "finished", result.log
        assert "log_count/ERROR" not in result.stats, result.log
    return results


class Crowd:
    """Many ordinary hosts, and some that are slow, forbid paths, or are down at first."""

    def __init__(self, site: Site) -> None:
        count, slow, part = (500, 20, 5) if effort.is_long else (16, 2, 2)
        self.pages = 40 if effort.is_long else 8
        self.site = site
        self.slow = [self._add(f"{RULES}Crawl-delay: {DELAY}\n") for _ in range(slow)]
        self.strict = [self._add(RULES) for _ in range(part)]
        was_down = [Answer(status=503), Answer(status=503), robots(RULES)]
        self.down = [self._add(was_down) for _ in range(part)]
        others = count - slow - 2 * part
        self.hosts = [*self.slow, *self.strict, *self.down]
        self.hosts += [self._add(RULES) for _ in range(others)]

    def _add(self, answer: str | Sequence[Answer]) -> Host:
        number = self._number = getattr(self, "_number", 0) + 1
        host = self.site.add(
            answer, name=f"127.0.{1 + number // 250}.{number % 250 + 1}"
        )
        # Slow enough for each worker to have some requests at any time.
        return limit(host, 0, seconds=0.05)

    @property
    def urls(self) -> list[str]:
        urls = [
            host.url(f"/public/{number}")
            for number in range(self.pages)
            for host in self.hosts
        ]
        return urls + [
            host.url(f"/private/{number}")
            for number in range(self.pages // 2)
            for host in self.strict
        ]

    @property
    def fetched(self) -> int:
        # In one pass over the log, as there are many hosts.
        return sum(hit.path != "/robots.txt" for hit in list(self.site.log))

    def check(self, *, most_repeated: int = 0) -> None:
        """Check that all allowed pages were fetched, none was forbidden or too early, and
        at most *most_repeated* were fetched again.
        """
        expected = {f"/public/{number}" for number in range(self.pages)}
        for host in self.hosts:
            assert set(host.pages) == expected, host.origin
        repeated = sum(len(host.pages) - len(expected) for host in self.hosts)
        assert repeated <= most_repeated
        for host in self.slow:
            assert min(host.gaps) >= DELAY, host.origin


def test_four_workers_keep_delays_together_and_fetch_each_page_once(
    site: Site, mode: str, server: RedisServer, tmp_path: Path
) -> None:
    """Four workers keep each Crawl-delay together, fetch nothing forbidden, and each
    allowed URL and each robots.txt once, even if their store takes long to write.
    """
    crowd = Crowd(site)
    settings = settings_for(
        server,
        REP_STORE="tests.crawl.own_store.SlowStore",
        ROBOTSTXT_FOLDER=str(tmp_path),
    )
    results = finish(start_workers(crowd, settings, 4, mode=mode))
    crowd.check()
    others = [host for host in crowd.hosts if host not in crowd.down]
    assert {len(host.robots_hits) for host in others} == {1}
    # More than one worker had work.
    assert sum("scheduler/dequeued/redis" in result.stats for result in results) > 1
    denied = [error for result in results for error in result.errors]
    assert Counter(error["reason"] for error in denied) == {
        "rule": len(crowd.strict) * (crowd.pages // 2)
    }
    check_nothing_left(server)


def check_nothing_left(server: RedisServer) -> None:
    """Check that a finished crawl left no requests and no workers on the server."""
    client = server.client()
    state = client.hgetall("{worker:requests}:state")
    assert state[b"count"] == b"0"
    prefix = f"{{worker:requests}}:{state[b'mark'].decode()}:"
    keys = {key.decode() for key in client.scan_iter(f"{prefix}*")}
    assert {key.removeprefix(prefix).split(":")[0] for key in keys} <= {"host"}
    assert all(client.ttl(key) > 0 for key in keys)


@pytest.mark.newest
def test_all_workers_together_keep_the_limit_of_pages_per_host(
    site: Site, server: RedisServer
) -> None:
    """All workers together fetch as many pages of a host as it may have. One of them is killed: what it had in flight
    is fetched in addition, since only pages that are done count.
    """
    hosts = [
        limit(site.add(RULES, name=f"127.0.8.{number}"), 0, seconds=0.05)
        for number in range(2, 14)
    ]
    urls = [host.url(f"/{page}") for page in range(9) for host in hosts]
    crowd = SimpleNamespace(urls=urls, hosts=hosts, site=site)
    settings = settings_for(server, REP_PAGES_PER_HOST=5, REP_QUEUE_LEASE=2)
    crawls = start_workers(crowd, settings, 3)
    wait_until(lambda: sum(len(host.pages) for host in hosts) >= 20, LONGEST)
    crawls[1].end()
    results = finish([crawls[0], crawls[2]])
    assert min(len({*host.pages}) for host in hosts) == 5
    in_addition = sum(len(host.pages) for host in hosts) - 5 * len(hosts)
    assert in_addition <= settings["CONCURRENT_REQUESTS"]
    reasons = [error["reason"] for result in results for error in result.errors]
    assert {*reasons} == {"budget"}


@pytest.mark.newest
def test_a_server_that_restarts_costs_no_page_and_one_warning(
    site: Site, server: RedisServer
) -> None:
    """If Redis restarts during a crawl, the workers connect again, warn once and go on later. No
    request is lost. ``tests/redis/test_server_faults.py`` has the other faults.
    """
    crowd = Crowd(site)
    settings = settings_for(server, REP_QUEUE_LEASE=30)
    crawls: list[RunningCrawl] = []

    def seen() -> bool:
        return any("The queue in Redis fails" in crawl.log for crawl in crawls)

    # So the crawl cannot end before.
    last = crowd.hosts[-1]
    last.limit = None
    last.answers[f"/public/{crowd.pages - 1}"] = Answer(after=seen)
    crawls += start_workers(crowd, settings, 2, spider="BranchingSpider")
    some = len(crowd.hosts) * crowd.pages / 5
    wait_until(lambda: crowd.fetched >= some, LONGEST)
    server.stop()
    wait_until(seen)
    server.start()
    results = finish(crawls)
    for result in results:
        assert len(result.lines("WARNING", "The queue in Redis fails")) <= 1, result.log
    lines = [line for result in results for line in result.lines("INFO", "works again")]
    assert lines
    # Calls without an answer may have been executed or not.
    crowd.check(most_repeated=2 * settings["CONCURRENT_REQUESTS"])
    check_nothing_left(server)


@pytest.mark.newest
@pytest.mark.unmeasured
def test_a_server_200_ms_away_costs_a_crawl_few_round_trips(
    site: Site, server: RedisServer
) -> None:
    """From the first page's answer to the last one, four workers take about a second longer than beside the server.
    The bound allows for other load: with a round trip for each page of a host, they would take much longer.
    """
    hosts, pages = (60, 10) if effort.is_long else (15, 8)
    took = []
    for number, seconds in enumerate((0.0, 0.2)):
        server.client().flushall()
        crowd_hosts = [
            site.add(RULES, name=f"127.0.{4 + number}.{index + 1}")
            for index in range(hosts)
        ]
        site.log.clear()
        crowd = SimpleNamespace(
            urls=[
                host.url(f"/{page}") for page in range(pages) for host in crowd_hosts
            ],
            hosts=crowd_hosts,
            site=site,
        )
        with distant(urlsplit(server.url).path, seconds) as port:
            settings = settings_for(server, REDIS_URL=f"redis://127.0.0.1:{port}/0")
            finish(start_workers(crowd, settings, 4))
        for host in crowd_hosts:
            assert len(host.pages) == len(set(host.pages)) == pages
        answered = [
            hit.answered
            for hit in site.log
            if hit.path != "/robots.txt" and hit.answered is not None
        ]
        took.append(max(answered) - min(answered))
    near, far = took
    print(f"{hosts * pages} pages: {near:.2f} s near, {far:.2f} s far")
    assert far <= 1.5 * near + MAX_LONGER


OLD = [f"/old-{number}" for number in range(10)]
NEW = [f"/new-{number}" for number in range(5)]
LINKS = {
    "/start": [*OLD, "/private/"],
    # This page was fetched by the first crawl.
    "/again": [*NEW, OLD[0]],
    # These are duplicates.
    **dict.fromkeys(NEW, NEW),
}


def plan(server: RedisServer, spider: str, **settings: Any) -> dict[str, Any]:
    """Return the arguments of a crawl with one request at a time and requests in JSON."""
    return {
        "spider": SPIDER.format(spider),
        "links": LINKS,
        "settings": settings_for(
            server,
            SCHEDULER_SERIALIZER="tests.crawl.redis_spiders",
            SCHEDULER_DUPEFILTER_KEY="links:seen",
            CONCURRENT_REQUESTS=1,
            **settings,
        ),
    }


def push(server: RedisServer, url: str) -> None:
    server.client().rpush("links:start_urls", json.dumps({"url": url}))


def test_a_queue_is_kept_flushed_and_deleted_as_the_settings_of_scrapy_redis_request(
    site: Site, server: RedisServer
) -> None:
    """Three crawls run one after the other, with start URLs from Redis and requests in
    JSON. The second starts with SCHEDULER_FLUSH_ON_START, so the requests of the first are
    deleted. The third resumes the queue of the second, waits for
    SCHEDULER_IDLE_BEFORE_CLOSE, and leaves no keys.
    """
    host, redis = site.add(RULES), server.client()
    push(server, host.url("/start"))
    result = run_crawl(**plan(server, "StartUrlSpider", CLOSESPIDER_PAGECOUNT=4))
    assert result.stats["finish_reason"] == "closespider_pagecount", result.log
    assert host.pages[-1] == "/start"
    requests_left = [
        json.loads(request[14:])
        for key in redis.scan_iter("*:queue:*")
        for request in redis.zrange(key, 0, -1)
    ]
    urls_left = {host.url(path) for path in OLD if path not in host.pages}
    assert {request["url"] for request in requests_left} - {
        host.url("/private/")
    } == urls_left
    assert all(request["callback"] is None for request in requests_left)
    assert requests_left[0]["headers"]["Referer"] == [host.url("/start")]
    assert redis.scard("links:seen") == len(OLD) + 1

    before = len(site.log)
    flush = {"SCHEDULER_FLUSH_ON_START": True, "CLOSESPIDER_PAGECOUNT": 3}
    crawl = start_crawl(**plan(server, "StartUrlSpider", **flush))
    # Start URLs may be pushed at any time.
    crawl.until(lambda: [*redis.scan_iter("{links:requests}:*:workers")])
    assert not redis.exists("links:seen")
    push(server, host.url("/again"))
    result = crawl.result()
    assert result.stats["finish_reason"] == "closespider_pagecount", result.log
    assert list(redis.scan_iter("*:queue:*"))

    last = {"SCHEDULER_PERSIST": False, "SCHEDULER_IDLE_BEFORE_CLOSE": 2}
    result = run_crawl(**plan(server, "LinkSpider", **last))
    assert result.stats["finish_reason"] == "finished", result.log
    assert "Resuming crawl" in result.log
    # The spider was idle and then went on at least once.
    assert result.stats["idle"] > 1
    assert result.stats["elapsed_time_seconds"] >= 2
    # The key of each host expires some time after its last request.
    assert not [key for key in redis.scan_iter("*links:*") if not redis.ttl(key) > 0]
    pages = [hit.path for hit in site.log[before:] if hit.path != "/robots.txt"]
    assert sorted(pages) == sorted(["/again", *NEW, OLD[0]])


def test_a_jobdir_beside_the_queue_keeps_no_requests(
    site: Site, server: RedisServer, tmp_path: Path
) -> None:
    """With a JOBDIR as well, requests and fingerprints are on the server only."""
    host = site.add(RULES)
    push(server, host.url("/start"))
    # The robots.txt is a response too.
    job_settings = {"JOBDIR": str(tmp_path / "job"), "CLOSESPIDER_PAGECOUNT": 12}
    result = run_crawl(**plan(server, "StartUrlSpider", **job_settings))
    assert result.stats["finish_reason"] == "closespider_pagecount"
    assert "log_count/ERROR" not in result.stats, result.log
    assert host.pages == sorted(["/start", *OLD])
    assert not [*tmp_path.rglob("requests.*")]


@pytest.mark.newest
@pytest.mark.unmeasured
def test_a_lost_queue_closes_each_worker_with_one_error(
    site: Site, mode: str, server: RedisServer
) -> None:
    """After a FLUSHALL, each worker says what is lost, and closes for that reason. What the workers
    had is in the queue again: the next worker fetches it, and ends as usual.
    """
    crowd = Crowd(site)
    settings = settings_for(server)
    crawls = start_workers(crowd, settings, 3, mode=mode)
    wait_until(lambda: crowd.fetched >= 30, LONGEST)
    server.client().flushall()
    for crawl in crawls:
        result = crawl.result(LONGEST)
        assert result.stats["finish_reason"] == "queue_lost", result.log
        [line] = result.lines("ERROR")
        assert "The queue worker:requests in Redis is lost" in line
    assert int(server.client().hget("{worker:requests}:state", "count")) > 0
    for host in crowd.hosts:
        host.limit = None  # Delays are lost with the queue, so that hosts may be asked too early.
    [last] = finish([start(crowd.urls, settings, mode)])
    assert last.stats["scheduler/dequeued/redis"] > 0
    check_nothing_left(server)


@pytest.mark.newest
@pytest.mark.unmeasured
def test_requests_that_no_worker_can_read_wait_for_a_later_worker(
    site: Site, server: RedisServer
) -> None:
    """A crawl ends although no worker has the callback of some requests. Each worker says how many
    that are, and a later one that has it fetches them.
    """
    host = site.add(RULES)
    urls = [host.url(f"/{number}") for number in range(10)]
    settings = settings_for(server)
    few = {**settings, "CLOSESPIDER_PAGECOUNT": 2, "CONCURRENT_REQUESTS": 1}
    start(urls, few, spider="NewWorkerSpider", is_first=True).result(LONGEST)
    for crawl in [start(urls, settings, spider="OldWorkerSpider") for _ in range(2)]:
        result = crawl.result(LONGEST)
        assert result.stats.get("finish_reason") == "finished", result.log
    assert "because no worker could read them" in result.log
    before = len(host.pages)
    assert before < 10
    result = start(urls, settings, spider="NewWorkerSpider").result(LONGEST)
    assert sorted(host.pages) == [f"/{number}" for number in range(10)], result.log
    check_nothing_left(server)


@pytest.mark.newest
@pytest.mark.unmeasured
def test_requests_of_another_queue_class_cause_one_warning_and_are_kept(
    site: Site, server: RedisServer
) -> None:
    """If scrapy-redis' own queue has left requests, one warning says how many, where, and what to
    do. They stay there.
    """
    host, redis = site.add(RULES), server.client()
    urls = [host.url(f"/{number}") for number in range(50)]
    queue_settings = {
        "SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.PriorityQueue",
        "CLOSESPIDER_PAGECOUNT": 1,
        "CONCURRENT_REQUESTS": 1,
    }
    start(urls, settings_for(server, **queue_settings), is_first=True).result(LONGEST)
    count = redis.zcard("worker:requests")
    assert count
    result = start(urls, settings_for(server)).result(LONGEST)
    [line] = result.lines("WARNING")
    assert f"{count} requests in the queue worker:requests were written by" in line
    assert redis.zcard("worker:requests") == count


@pytest.mark.newest
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_dead_or_suspended_worker_costs_no_page(
    site: Site, server: RedisServer, how: str
) -> None:
    """One of three workers is killed, or stopped for longer than its lease: the others fetch what it had, and nothing is
    lost. Only what was in flight, or not done, is fetched twice. No delay is cut short.
    """
    crowd = Crowd(site)
    settings = settings_for(server, REP_QUEUE_LEASE=2)
    crawls = start_workers(crowd, settings, 3)
    some = len(crowd.hosts) * crowd.pages / 4
    wait_until(lambda: crowd.fetched >= some, LONGEST)
    worker = crawls[1].process
    if how == "killed":
        crawls[1].end()
    else:
        worker.send_signal(signal.SIGSTOP)
    finish([crawls[0], crawls[2]])
    if how == "stopped":
        worker.send_signal(signal.SIGCONT)
        crawls[1].result(LONGEST)
    # Its robots.txt had a delay, and what it had sent may come late.
    crowd.check(most_repeated=2 * settings["CONCURRENT_REQUESTS"])
    check_nothing_left(server)


@pytest.mark.newest
@pytest.mark.unmeasured
@pytest.mark.parametrize("status", [0, 429])
def test_files_keep_the_delay_and_pauses_of_a_host_that_another_worker_owns(
    site: Site, server: RedisServer, status: int
) -> None:
    """What callbacks of several workers download from a host that at most one of them owns keeps its delay and its pauses
    together with the pages of the owner.
    """
    shared_host = site.add(
        f"{RULES}Crawl-delay: {DELAY}\n" if not status else RULES, name="127.0.7.1"
    )
    if status:
        limit(shared_host, 2, Busy(status=status, pause=PAUSE), seconds=0.05)
    hosts = [site.add(RULES, name=f"127.0.7.{number}") for number in range(2, 8)]
    urls = [host.url(f"/{page}") for page in range(3) for host in (*hosts, shared_host)]
    crowd = SimpleNamespace(urls=urls, hosts=hosts, site=site)
    finish(
        start_workers(
            crowd,
            settings_for(server),
            3,
            spider="DownloadingSpider",
            files=shared_host.url("/file"),
        )
    )
    assert len(
        [path for path in shared_host.pages if path.startswith("/file")]
    ) >= 3 * len(hosts)
    if not status:
        # Two workers may fetch robots.txt at the same time: neither knows the delay before.
        gaps = zip(shared_host.hits[1:], shared_host.gaps, strict=True)
        assert min(gap for hit, gap in gaps if hit.path != "/robots.txt") >= DELAY
        return
    asked = [hit for hit in shared_host.hits if isinstance(hit.answer, Busy)]
    assert asked
    begins = max(hit.answered for hit in asked if hit.answered is not None)
    # What was on its way when the pause began is as early as it was.
    early = [
        hit
        for hit in shared_host.hits
        if begins + ON_ITS_WAY < hit.time < begins + PAUSE - EARLY
    ]
    assert not early


@pytest.mark.newest
@pytest.mark.unmeasured
def test_a_redirected_robotstxt_keeps_the_delay_of_a_host_that_another_worker_owns(
    site: Site, server: RedisServer
) -> None:
    """Only the owner may know the delay. Redirected requests and pages keep it together."""
    slow = site.add(f"{RULES}Crawl-delay: {DELAY}\n", name="127.0.8.1")
    hosts = [site.add(RULES, name=f"127.0.8.{number}") for number in range(2, 9)]
    for number, host in enumerate(hosts):
        slow.answers[f"/rules-{number}"] = robots(RULES)
        host.answers["/robots.txt"] = redirect(slow.url(f"/rules-{number}"))
        limit(host, 0, seconds=0.05)
    urls = [host.url(f"/{page}") for page in range(4) for host in (slow, *hosts)]
    crowd = SimpleNamespace(urls=urls, hosts=[slow, *hosts], site=site)
    finish(start_workers(crowd, settings_for(server), 3))
    rules = {f"/rules-{number}" for number in range(len(hosts))}
    assert {*slow.pages} == {f"/{page}" for page in range(4)} | rules
    assert all({*host.pages} == {f"/{page}" for page in range(4)} for host in hosts)
    assert min(slow.gaps) >= DELAY


@pytest.mark.newest
@pytest.mark.unmeasured
def test_a_server_that_does_not_answer_never_blocks_the_event_loop(
    site: Site, server: RedisServer
) -> None:
    """The server accepts connections and does not answer: in the middle of a crawl, at its end, or from its start.
    Compared with a server that answers, the event loop is not blocked for longer. In the middle, the worker sends the
    requests that it has, and then goes on as usual. At the end, its requests stay in Redis for the next worker.
    """
    blocked = {}
    for is_silent in (False, True):
        server.client().flushall()
        host = limit(site.add(RULES), 0, seconds=0.1)
        urls = [host.url(f"/{number}") for number in range(100)]
        crawl = start_watched(urls, server)
        wait_until(lambda host=host: len(host.pages) >= 8, LONGEST)
        before = len(host.pages)
        with server.suspended() if is_silent else nullcontext():
            if is_silent:
                crawl.until(lambda crawl=crawl: "The queue in Redis fails" in crawl.log)
                assert len(host.pages) > before
        if is_silent:
            crawl.until(lambda crawl=crawl: "works again" in crawl.log)
        wait_until(lambda host=host: len(host.pages) >= 40, LONGEST)
        with server.suspended() if is_silent else nullcontext():
            crawl.process.send_signal(signal.SIGINT)
            result = crawl.result(LONGEST)
        assert result.stats["finish_reason"] == "shutdown", result.log
        blocked["silent" if is_silent else "healthy"] = result.stats["blocked"]
    assert result.lines("WARNING", "The queue in Redis fails")
    assert result.lines("INFO", "works again")
    finish([start(urls, settings_for(server, REP_QUEUE_LEASE=2))])
    assert {*host.pages} == {f"/{number}" for number in range(100)}

    with server.suspended():
        result = start_watched(urls, server).result(LONGEST)
    assert "TimeoutError" in result.log
    blocked["silent from the start"] = result.stats["blocked"]
    figures = ", ".join(f"{name} {value:.3f} s" for name, value in blocked.items())
    print(f"The event loop was blocked for at most: {figures}")
    # One call of the server on the event loop would block it for SILENCE seconds. The rest allows for other load.
    assert max(blocked.values()) <= blocked["healthy"] + SILENCE / 4


def start_watched(urls: Sequence[str], server: RedisServer) -> RunningCrawl:
    """Start a worker that measures for how long its event loop is blocked, and waits SILENCE seconds for an answer."""
    settings = settings_for(
        server,
        SCHEDULER=SPIDER.format("WatchedScheduler"),
        REP_QUEUE_LEASE=2,
        REP_STORE=server.url,
    )
    constants = {**RETRIED_SOON, "scrapy_rep.redis.exchange._TIMEOUT": SILENCE}
    return start(urls, settings, is_first=True, constants=constants)


@pytest.mark.newest
def test_a_crawl_without_a_server_fails_at_its_start(
    site: Site, server: RedisServer
) -> None:
    """A crawl whose server cannot be reached fails at its start, as with scrapy-redis."""
    server.stop()
    host = site.add(RULES)
    result = start([host.url("/1")], settings_for(server), is_first=True).result(
        LONGEST
    )
    assert "ConnectionError" in result.log
    assert not host.hits


@pytest.mark.newest
def test_a_queue_class_of_the_project_is_kept(site: Site, server: RedisServer) -> None:
    """A project that names its own queue class keeps it, with scrapy-redis' scheduler: gate and wire work with it."""
    slow = site.add(f"{RULES}Crawl-delay: {DELAY}\n")
    urls = [slow.url(f"/{number}") for number in range(4)] + [slow.url("/private/1")]
    queue_settings = {"SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.PriorityQueue"}
    [result] = finish(
        [start(urls, settings_for(server, **queue_settings), is_first=True)]
    )
    assert sorted(slow.pages) == [f"/{number}" for number in range(4)]
    assert min(slow.gaps) >= DELAY
    assert [error["reason"] for error in result.errors] == ["rule"]
    [line] = result.lines("WARNING", "wait in the downloader")
    assert "SCHEDULER_QUEUE_CLASS is scrapy_redis.queue.PriorityQueue" in line
    assert "scrapy_rep.redis.SharedScheduler" in line


@pytest.mark.newest
def test_requests_that_cannot_be_written_wait_in_memory_and_are_sent(
    site: Site, server: RedisServer
) -> None:
    """One warning is logged, and the stat ``scheduler/unserializable`` counts the requests."""
    host = site.add(RULES)
    urls = [host.url(f"/{number}") for number in range(4)]
    settings = settings_for(server, SCHEDULER_DEBUG=True)
    [result] = finish([start(urls, settings, spider="LambdaSpider", is_first=True)])
    assert sorted(host.pages) == [f"/{number}" for number in range(4)]
    [line] = result.lines("WARNING", "Unable to serialize request")
    assert "The request waits in memory" in line
    assert result.stats["scheduler/unserializable"] == 3
