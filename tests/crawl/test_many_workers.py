"""Tests of several workers that share one queue in Redis. Together they keep the delay of each host, and they
lose no request. The features of scrapy-redis' scheduler work with this package's queue.
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
from tests.crawl.answers import Answer, busy, redirect, robots
from tests.crawl.crawl import RETRIED_SOON, run_crawl, start_crawl, wait_until
from tests.crawl.pauses import limit
from tests.fetching.distant import distant, lossy
from tests.fetching.redis_server import BINARY, RedisServer

pytest.importorskip("scrapy_redis")

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult, RunningCrawl
    from tests.crawl.server import Hit, Host, Site

pytestmark = pytest.mark.skipif(
    BINARY is None, reason="There is no redis-server on the PATH"
)
RULES = "User-agent: *\nDisallow: /private/\n"
DELAY = 0.2

TIMEOUT = 60
"""The seconds after which a test gives up. They are enough for a busy machine."""

MAX_EXTRA_SECONDS = 2.5
"""How many seconds longer a crawl can take with a distant Redis server than with a near one, on a busy machine. On an
idle machine, it takes about one second longer.
"""

PAUSE = 3.0
"""The seconds for which a busy host asks for a pause."""

MAX_PROPAGATION = 1.0
"""The maximum number of seconds until all workers know of a pause, on a busy machine."""

ANSWER_TIMEOUT = 1.0
"""The seconds for which a worker waits for an answer from a Redis server that does not answer."""

SPIDER = "tests.crawl.redis_spiders.{}"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer(appendonly=True) as server:
        yield server


def settings_for(server: RedisServer, **settings: Any) -> dict[str, Any]:
    """Return the settings of a worker whose queue is on *server*."""
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
    """Start a worker. All workers get their requests from one queue in Redis.

    If *is_first* is set, the worker begins the crawl: it requests the first of *urls*, and then puts requests
    for the other *urls* into the queue.
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
    host_mix: HostMix, settings: dict[str, Any], count: int, **arguments: Any
) -> list[RunningCrawl]:
    """Start *count* workers with the *arguments* of :func:`start`. The first page, which links to all other pages,
    is answered when all workers have registered in Redis.
    """
    client = Redis.from_url(settings["REDIS_URL"])

    max_count = 0

    def are_registered() -> bool:
        # The highest count is kept. If the first page is requested again after some workers have ended, it is answered
        # at once, although fewer workers are registered.
        nonlocal max_count
        keys = [*client.scan_iter("{worker:requests}:*:workers")]
        max_count = max(max_count, sum(map(client.zcard, keys)))
        return max_count >= count

    host_mix.hosts[0].limit = None
    path = urlsplit(host_mix.urls[0]).path
    host_mix.hosts[0].answers[path] = Answer(after=are_registered)
    first = start(host_mix.urls, settings, is_first=True, **arguments)
    wait_until(lambda: host_mix.site.log or first.process.poll() is not None)
    return [
        first,
        *(start(host_mix.urls, settings, **arguments) for _ in range(count - 1)),
    ]


def finish(crawls: list[RunningCrawl]) -> list[CrawlResult]:
    """Wait for *crawls*, check that each has finished without an error, and return their results."""
    results = [crawl.result(TIMEOUT) for crawl in crawls]
    for result in results:
        assert result.stats.get("finish_reason") == "finished", result.log
        assert "log_count/ERROR" not in result.stats, result.log
    return results


class HostMix:
    """Many ordinary hosts, and some hosts with a delay, with forbidden paths, or with a robots.txt that is
    unreachable at first. Each host has the same number of pages.
    """

    def __init__(self, site: Site) -> None:
        count, slow, part = (500, 20, 5) if effort.is_long else (16, 2, 2)
        self.pages_per_host = 40 if effort.is_long else 8
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
        # The pages are slow, so that each worker has requests in flight at any time.
        return limit(host, 0, seconds=0.05)

    @property
    def urls(self) -> list[str]:
        urls = [
            host.url(f"/public/{number}")
            for number in range(self.pages_per_host)
            for host in self.hosts
        ]
        return urls + [
            host.url(f"/private/{number}")
            for number in range(self.pages_per_host // 2)
            for host in self.strict
        ]

    @property
    def fetched_count(self) -> int:
        # One pass over the log is fast, also for many hosts.
        return sum(hit.path != "/robots.txt" for hit in list(self.site.log))

    def check(self, *, most_repeated: int = 0) -> None:
        """Check that all allowed pages were fetched and no forbidden page, that delays were kept, and that at
        most *most_repeated* pages were fetched again.
        """
        expected = {f"/public/{number}" for number in range(self.pages_per_host)}
        for host in self.hosts:
            assert set(host.pages) == expected, host.origin
        repeated = sum(len(host.pages) - len(expected) for host in self.hosts)
        assert repeated <= most_repeated
        for host in self.slow:
            assert min(host.gaps) >= DELAY, host.origin


def test_four_workers_keep_delays_together_and_fetch_each_page_once(
    site: Site, mode: str, server: RedisServer, tmp_path: Path
) -> None:
    """Four workers together keep each Crawl-delay. They fetch nothing forbidden, and each allowed URL and each
    robots.txt once, although their store takes long to write.
    """
    host_mix = HostMix(site)
    settings = settings_for(
        server,
        REP_STORE="tests.crawl.own_store.SlowStore",
        ROBOTSTXT_FOLDER=str(tmp_path),
    )
    results = finish(start_workers(host_mix, settings, 4, mode=mode))
    host_mix.check()
    others = [host for host in host_mix.hosts if host not in host_mix.down]
    assert {len(host.robots_hits) for host in others} == {1}
    # More than one worker had work.
    assert sum("scheduler/dequeued/redis" in result.stats for result in results) > 1
    denied = [error for result in results for error in result.errors]
    assert Counter(error["reason"] for error in denied) == {
        "rule": len(host_mix.strict) * (host_mix.pages_per_host // 2)
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
    """One of three workers is killed. The pages that it had in flight are fetched in addition, since only finished
    pages count towards REP_PAGES_PER_HOST.
    """
    hosts = [
        limit(site.add(RULES, name=f"127.0.8.{number}"), 0, seconds=0.05)
        for number in range(2, 14)
    ]
    urls = [host.url(f"/{page}") for page in range(9) for host in hosts]
    host_mix = SimpleNamespace(urls=urls, hosts=hosts, site=site)
    settings = settings_for(server, REP_PAGES_PER_HOST=5, REP_QUEUE_LEASE=2)
    crawls = start_workers(host_mix, settings, 3)
    wait_until(lambda: sum(len(host.pages) for host in hosts) >= 20, TIMEOUT)
    crawls[1].end()
    results = finish([crawls[0], crawls[2]])
    assert min(len({*host.pages}) for host in hosts) == 5
    in_addition = sum(len(host.pages) for host in hosts) - 5 * len(hosts)
    assert in_addition <= settings["CONCURRENT_REQUESTS"]
    reasons = [error["reason"] for result in results for error in result.errors]
    assert {*reasons} == {"budget"}


@pytest.mark.newest
def test_a_restart_of_the_server_loses_no_page_and_causes_one_warning(
    site: Site, server: RedisServer
) -> None:
    """If Redis restarts during a crawl, each worker warns at most once, connects again, and goes on.
    ``tests/redis/test_server_faults.py`` tests other faults.
    """
    host_mix = HostMix(site)
    settings = settings_for(server, REP_QUEUE_LEASE=30)
    crawls: list[RunningCrawl] = []

    def has_failed() -> bool:
        return any("The queue in Redis fails" in crawl.log for crawl in crawls)

    # The last page is answered after the failure, so that the crawl cannot end earlier.
    last = host_mix.hosts[-1]
    last.limit = None
    last.answers[f"/public/{host_mix.pages_per_host - 1}"] = Answer(after=has_failed)
    crawls += start_workers(host_mix, settings, 2, spider="BranchingSpider")
    pages_before = len(host_mix.hosts) * host_mix.pages_per_host / 5
    wait_until(lambda: host_mix.fetched_count >= pages_before, TIMEOUT)
    server.stop()
    wait_until(has_failed)
    server.start()
    results = finish(crawls)
    for result in results:
        assert len(result.lines("WARNING", "The queue in Redis fails")) <= 1, result.log
    lines = [line for result in results for line in result.lines("INFO", "works again")]
    assert lines
    # Redis may or may not have executed the calls that it did not answer.
    host_mix.check(most_repeated=2 * settings["CONCURRENT_REQUESTS"])
    check_nothing_left(server)


@pytest.mark.newest
@pytest.mark.unmeasured
def test_a_crawl_with_a_server_200_ms_away_needs_few_round_trips(
    site: Site, server: RedisServer
) -> None:
    """From the first answer to the last, four workers take about one second longer than with a server that is near.
    The bound allows for other load on the machine. With a round trip for each page of a host, they would take much
    longer.
    """
    hosts, pages = (60, 10) if effort.is_long else (15, 8)
    durations = []
    for number, seconds in enumerate((0.0, 0.2)):
        server.client().flushall()
        crowd_hosts = [
            site.add(RULES, name=f"127.0.{4 + number}.{index + 1}")
            for index in range(hosts)
        ]
        site.log.clear()
        host_mix = SimpleNamespace(
            urls=[
                host.url(f"/{page}") for page in range(pages) for host in crowd_hosts
            ],
            hosts=crowd_hosts,
            site=site,
        )
        with distant(urlsplit(server.url).path, seconds) as port:
            settings = settings_for(server, REDIS_URL=f"redis://127.0.0.1:{port}/0")
            finish(start_workers(host_mix, settings, 4))
        for host in crowd_hosts:
            assert len(host.pages) == len(set(host.pages)) == pages
        answered = [
            hit.answered
            for hit in site.log
            if hit.path != "/robots.txt" and hit.answered is not None
        ]
        durations.append(max(answered) - min(answered))
    near, far = durations
    print(f"{hosts * pages} pages: {near:.2f} s near, {far:.2f} s far")
    assert far <= 1.5 * near + MAX_EXTRA_SECONDS


OLD = [f"/old-{number}" for number in range(10)]
NEW = [f"/new-{number}" for number in range(5)]
LINKS = {
    "/start": [*OLD, "/private/"],
    # OLD[0] is in the queue of the first crawl. The second crawl deletes this queue at its start, and fetches OLD[0].
    "/again": [*NEW, OLD[0]],
    # These links are duplicates.
    **dict.fromkeys(NEW, NEW),
}


def crawl_arguments(
    server: RedisServer, spider: str, **settings: Any
) -> dict[str, Any]:
    """Return the arguments of a crawl that sends one request at a time, and writes requests in JSON."""
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
    """Add *url* to the start URLs on *server*."""
    server.client().rpush("links:start_urls", json.dumps({"url": url}))


def test_the_settings_of_scrapy_redis_keep_flush_or_delete_the_queue(
    site: Site, server: RedisServer
) -> None:
    """Three crawls run one after the other, with start URLs from Redis and requests in JSON. The second crawl
    starts with SCHEDULER_FLUSH_ON_START, which deletes the requests of the first. The third crawl resumes the
    queue of the second, waits for SCHEDULER_IDLE_BEFORE_CLOSE, and leaves no keys.
    """
    host, redis = site.add(RULES), server.client()
    push(server, host.url("/start"))
    result = run_crawl(
        **crawl_arguments(server, "StartUrlSpider", CLOSESPIDER_PAGECOUNT=4)
    )
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
    crawl = start_crawl(**crawl_arguments(server, "StartUrlSpider", **flush))
    # Start URLs may be pushed at any time: this one is pushed after the start of the crawl.
    crawl.until(lambda: [*redis.scan_iter("{links:requests}:*:workers")])
    assert not redis.exists("links:seen")
    push(server, host.url("/again"))
    result = crawl.result()
    assert result.stats["finish_reason"] == "closespider_pagecount", result.log
    assert list(redis.scan_iter("*:queue:*"))

    last = {"SCHEDULER_PERSIST": False, "SCHEDULER_IDLE_BEFORE_CLOSE": 2}
    result = run_crawl(**crawl_arguments(server, "LinkSpider", **last))
    assert result.stats["finish_reason"] == "finished", result.log
    assert "Resuming crawl" in result.log
    # The spider became idle, continued, and became idle again.
    assert result.stats["idle"] > 1
    assert result.stats["elapsed_time_seconds"] >= 2
    # The key of each host expires some time after its last request.
    assert not [key for key in redis.scan_iter("*links:*") if not redis.ttl(key) > 0]
    pages = [hit.path for hit in site.log[before:] if hit.path != "/robots.txt"]
    assert sorted(pages) == sorted(["/again", *NEW, OLD[0]])


def test_a_jobdir_beside_a_queue_in_redis_has_no_requests(
    site: Site, server: RedisServer, tmp_path: Path
) -> None:
    """Requests and fingerprints are only on the Redis server."""
    host = site.add(RULES)
    push(server, host.url("/start"))
    # Scrapy counts the response for robots.txt as a page.
    job_settings = {"JOBDIR": str(tmp_path / "job"), "CLOSESPIDER_PAGECOUNT": 12}
    result = run_crawl(**crawl_arguments(server, "StartUrlSpider", **job_settings))
    assert result.stats["finish_reason"] == "closespider_pagecount"
    assert "log_count/ERROR" not in result.stats, result.log
    assert host.pages == sorted(["/start", *OLD])
    assert not [*tmp_path.rglob("requests.*")]


@pytest.mark.newest
@pytest.mark.unmeasured
def test_each_worker_closes_with_one_error_if_the_queue_is_lost(
    site: Site, mode: str, server: RedisServer
) -> None:
    """After a FLUSHALL, each worker logs what is lost, and closes with the reason ``queue_lost``. The requests that
    the workers had taken are put back into the queue. The next worker sends these requests, and ends as usual.
    """
    host_mix = HostMix(site)
    settings = settings_for(server)
    crawls = start_workers(host_mix, settings, 3, mode=mode)
    wait_until(lambda: host_mix.fetched_count >= 30, TIMEOUT)
    server.client().flushall()
    for crawl in crawls:
        result = crawl.result(TIMEOUT)
        assert result.stats["finish_reason"] == "queue_lost", result.log
        [line] = result.lines("ERROR")
        assert "The queue worker:requests in Redis is lost" in line
    assert int(server.client().hget("{worker:requests}:state", "count")) > 0
    for host in host_mix.hosts:
        host.limit = (
            None  # Delays are lost with the queue, so that requests can be too early.
        )
    [last] = finish([start(host_mix.urls, settings, mode)])
    assert last.stats["scheduler/dequeued/redis"] > 0
    check_nothing_left(server)


@pytest.mark.newest
@pytest.mark.unmeasured
def test_requests_that_no_worker_can_read_wait_for_a_later_worker(
    site: Site, server: RedisServer
) -> None:
    """No worker has the callback of some requests. The crawl ends, and the log has their number. A later worker
    that has the callback fetches them.
    """
    host = site.add(RULES)
    urls = [host.url(f"/{number}") for number in range(10)]
    settings = settings_for(server)
    stop_early = {**settings, "CLOSESPIDER_PAGECOUNT": 2, "CONCURRENT_REQUESTS": 1}
    start(urls, stop_early, spider="NewWorkerSpider", is_first=True).result(TIMEOUT)
    for crawl in [start(urls, settings, spider="OldWorkerSpider") for _ in range(2)]:
        result = crawl.result(TIMEOUT)
        assert result.stats.get("finish_reason") == "finished", result.log
    assert "because no worker could read them" in result.log
    before = len(host.pages)
    assert before < 10
    result = start(urls, settings, spider="NewWorkerSpider").result(TIMEOUT)
    assert sorted(host.pages) == [f"/{number}" for number in range(10)], result.log
    check_nothing_left(server)


@pytest.mark.newest
@pytest.mark.unmeasured
def test_requests_of_another_queue_class_cause_one_warning_and_are_kept(
    site: Site, server: RedisServer
) -> None:
    """A crawl with the queue class of scrapy-redis leaves requests in Redis. The next crawl, with the queue class of
    this package, keeps these requests. One warning gives their number and their Redis key.
    """
    host, redis = site.add(RULES), server.client()
    urls = [host.url(f"/{number}") for number in range(50)]
    queue_settings = {
        "SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.PriorityQueue",
        "CLOSESPIDER_PAGECOUNT": 1,
        "CONCURRENT_REQUESTS": 1,
    }
    start(urls, settings_for(server, **queue_settings), is_first=True).result(TIMEOUT)
    count = redis.zcard("worker:requests")
    assert count
    result = start(urls, settings_for(server)).result(TIMEOUT)
    [line] = result.lines("WARNING")
    assert f"{count} requests in the queue worker:requests were written by" in line
    assert redis.zcard("worker:requests") == count


@pytest.mark.newest
@pytest.mark.parametrize("fault", ["killed", "stopped"])
def test_no_page_is_lost_if_a_worker_is_killed_or_suspended(
    site: Site, server: RedisServer, fault: str
) -> None:
    """One of three workers is killed, or suspended for longer than its lease. The other workers fetch its
    requests. Only requests that were in flight or not finished are sent twice. Delays are kept.
    """
    host_mix = HostMix(site)
    settings = settings_for(server, REP_QUEUE_LEASE=2)
    crawls = start_workers(host_mix, settings, 3)
    pages_before = len(host_mix.hosts) * host_mix.pages_per_host / 4
    wait_until(lambda: host_mix.fetched_count >= pages_before, TIMEOUT)
    worker = crawls[1].process
    if fault == "killed":
        crawls[1].end()
    else:
        worker.send_signal(signal.SIGSTOP)
    finish([crawls[0], crawls[2]])
    if fault == "stopped":
        worker.send_signal(signal.SIGCONT)
        crawls[1].result(TIMEOUT)
    # The requests that the killed worker had in flight are sent again. A suspended worker finishes its requests late,
    # when another worker has already sent them again.
    host_mix.check(most_repeated=2 * settings["CONCURRENT_REQUESTS"])
    check_nothing_left(server)


@pytest.mark.newest
@pytest.mark.unmeasured
def test_downloads_keep_the_delay_of_a_host_that_another_worker_owns(
    site: Site, server: RedisServer
) -> None:
    """At most one worker owns a host. The callbacks of several workers download files from this host. Together
    with the pages that the owner requests, the downloads keep the delay of the host.
    """
    shared_host = site.add(f"{RULES}Crawl-delay: {DELAY}\n", name="127.0.7.1")
    hosts = [site.add(RULES, name=f"127.0.7.{number}") for number in range(2, 8)]
    urls = [host.url(f"/{page}") for page in range(3) for host in (*hosts, shared_host)]
    host_mix = SimpleNamespace(urls=urls, hosts=hosts, site=site)
    finish(
        start_workers(
            host_mix,
            settings_for(server),
            3,
            spider="DownloadingSpider",
            file_prefix=shared_host.url("/file"),
        )
    )
    assert len(
        [path for path in shared_host.pages if path.startswith("/file")]
    ) >= 3 * len(hosts)
    # Two workers may fetch robots.txt at the same time, as neither knows the delay yet.
    gaps = zip(shared_host.hits[1:], shared_host.gaps, strict=True)
    assert min(gap for hit, gap in gaps if hit.path != "/robots.txt") >= DELAY


@pytest.mark.newest
@pytest.mark.unmeasured
def test_a_redirected_robotstxt_keeps_the_delay_of_a_host_that_another_worker_owns(
    site: Site, server: RedisServer
) -> None:
    """Robots.txt files of other hosts redirect to a host with a delay. The other workers do not
    know its delay. Redirected requests and pages together keep the delay.
    """
    slow = site.add(f"{RULES}Crawl-delay: {DELAY}\n", name="127.0.8.1")
    hosts = [site.add(RULES, name=f"127.0.8.{number}") for number in range(2, 9)]
    for number, host in enumerate(hosts):
        slow.answers[f"/rules-{number}"] = robots(RULES)
        host.answers["/robots.txt"] = redirect(slow.url(f"/rules-{number}"))
        limit(host, 0, seconds=0.05)
    urls = [host.url(f"/{page}") for page in range(4) for host in (slow, *hosts)]
    host_mix = SimpleNamespace(urls=urls, hosts=[slow, *hosts], site=site)
    finish(start_workers(host_mix, settings_for(server), 3))
    rules = {f"/rules-{number}" for number in range(len(hosts))}
    assert {*slow.pages} == {f"/{page}" for page in range(4)} | rules
    assert all({*host.pages} == {f"/{page}" for page in range(4)} for host in hosts)
    assert min(slow.gaps) >= DELAY


@pytest.mark.newest
@pytest.mark.unmeasured
def test_a_server_that_does_not_answer_never_blocks_the_event_loop(
    site: Site, server: RedisServer
) -> None:
    """The Redis server accepts connections and does not answer: in the middle of a crawl, at its end, or from its
    start. The event loop is not blocked for longer than with a server that answers. In the middle of the crawl,
    the worker sends the requests that it has taken, and goes on when the server answers again. At the end, the
    requests stay in Redis for the next worker.
    """
    blocked = {}
    for is_silent in (False, True):
        server.client().flushall()
        host = limit(site.add(RULES), 0, seconds=0.1)
        urls = [host.url(f"/{number}") for number in range(100)]
        crawl = start_watched(urls, server)
        wait_until(lambda host=host: len(host.pages) >= 8, TIMEOUT)
        before = len(host.pages)
        with server.suspended() if is_silent else nullcontext():
            if is_silent:
                crawl.until(lambda crawl=crawl: "The queue in Redis fails" in crawl.log)
                assert len(host.pages) > before
        if is_silent:
            crawl.until(lambda crawl=crawl: "works again" in crawl.log)
        wait_until(lambda host=host: len(host.pages) >= 40, TIMEOUT)
        with server.suspended() if is_silent else nullcontext():
            crawl.process.send_signal(signal.SIGINT)
            result = crawl.result(TIMEOUT)
        assert result.stats["finish_reason"] == "shutdown", result.log
        blocked["silent" if is_silent else "healthy"] = result.stats["blocked"]
    assert result.lines("WARNING", "The queue in Redis fails")
    assert result.lines("INFO", "works again")
    finish([start(urls, settings_for(server, REP_QUEUE_LEASE=2))])
    assert {*host.pages} == {f"/{number}" for number in range(100)}

    with server.suspended():
        result = start_watched(urls, server).result(TIMEOUT)
    assert "TimeoutError" in result.log
    blocked["silent from the start"] = result.stats["blocked"]
    figures = ", ".join(f"{name} {value:.3f} s" for name, value in blocked.items())
    print(f"The event loop was blocked for at most: {figures}")
    # A single call to the server on the event loop would block the loop for ANSWER_TIMEOUT seconds. The tolerance
    # is for other load on the machine.
    assert max(blocked.values()) <= blocked["healthy"] + ANSWER_TIMEOUT / 4


def start_watched(urls: Sequence[str], server: RedisServer) -> RunningCrawl:
    """Start a worker that measures for how long its event loop is blocked. It waits ANSWER_TIMEOUT seconds for an
    answer from Redis.
    """
    settings = settings_for(
        server,
        SCHEDULER=SPIDER.format("WatchedScheduler"),
        REP_QUEUE_LEASE=2,
        REP_STORE=server.url,
    )
    constants = {**RETRIED_SOON, "scrapy_rep.redis.exchange._TIMEOUT": ANSWER_TIMEOUT}
    return start(urls, settings, is_first=True, constants=constants)


@pytest.mark.newest
def test_a_crawl_whose_server_is_down_fails_at_its_start(
    site: Site, server: RedisServer
) -> None:
    """A crawl with scrapy-redis alone fails in the same way."""
    server.stop()
    host = site.add(RULES)
    result = start([host.url("/1")], settings_for(server), is_first=True).result(
        TIMEOUT
    )
    assert "ConnectionError" in result.log
    assert not host.hits


@pytest.mark.newest
def test_a_queue_class_of_the_project_is_kept(site: Site, server: RedisServer) -> None:
    """A project may set SCHEDULER_QUEUE_CLASS together with the scheduler of scrapy-redis. Rules and delays are
    obeyed, and one warning says that requests wait in the downloader.
    """
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
def test_requests_that_cannot_be_serialized_wait_in_memory_and_are_sent(
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


@pytest.mark.newest
def test_stats_and_page_counts_include_requests_that_wait_in_memory(
    site: Site, server: RedisServer
) -> None:
    """The requests of the first worker, except the first one, cannot be serialized. Their pages count for the second
    worker, which fetches as many pages as REP_PAGES_PER_HOST leaves.
    """
    host = site.add(RULES)
    urls = [host.url(f"/{number}") for number in range(4)]
    settings = settings_for(server, REP_PAGES_PER_HOST=6)
    [result] = finish([start(urls, settings, spider="LambdaSpider", is_first=True)])
    for name in ("enqueued", "dequeued"):
        assert result.stats[f"scheduler/{name}"] == 4
        assert result.stats[f"scheduler/{name}/memory"] == 3
        assert result.stats[f"scheduler/{name}/redis"] == 1
    more_urls = [host.url(f"/more-{number}") for number in range(4)]
    [result] = finish([start(more_urls, settings, is_first=True)])
    assert len(host.pages) == len(set(host.pages)) == 6
    assert [error["reason"] for error in result.errors] == ["budget"] * 2


@pytest.mark.newest
def test_fingerprints_may_be_bytes_of_any_length(
    site: Site, server: RedisServer
) -> None:
    """The worker sends each request once, and drops the duplicates."""
    host = site.add(RULES)
    urls = [host.url(f"/{number}{'x' * number}") for number in range(4)]
    settings = settings_for(server, DUPEFILTER_CLASS=SPIDER.format("BinaryFilter"))
    [result] = finish([start([*urls, *urls], settings, is_first=True)])
    assert host.pages == sorted(urlsplit(url).path for url in urls), result.log


@pytest.mark.newest
def test_the_owner_of_a_host_learns_of_a_pause_although_the_first_answer_with_it_is_lost(
    site: Site, server: RedisServer
) -> None:
    """The host asks another worker for the pause. The connection of the owner breaks when the server has executed the
    call whose answer contains the pause. The owner sends nothing from the next answer on.
    """
    host = limit(site.add(RULES), 0, seconds=0.03)
    pages = [host.url(f"/{number}") for number in range(500)]
    answers: list[bytes] = []

    def is_lost(answer: bytes) -> bool:
        has_pause = b'"pauses":[[' in answer
        if has_pause or answers:
            answers.append(answer)
        return has_pause and len(answers) == 1

    with lossy(urlsplit(server.url).path, is_lost) as port:
        url = f"redis://127.0.0.1:{port}/0"
        owner_settings = settings_for(
            server,
            REDIS_URL=url,
            REP_BACKOFF_MAX=300,
            CONCURRENT_REQUESTS_PER_DOMAIN=1,
        )
        owner = start(pages, owner_settings, is_first=True)
        owner.until(lambda: len(host.pages) >= 3)
        busy_host = host.limit
        host.limit = lambda hit: (
            busy(429, "20") if hit.path == "/file" else busy_host(hit)
        )
        other = start(
            [],
            settings_for(server, REP_BACKOFF_MAX=300),
            spider="FileSpider",
            files=[host.url("/file")],
        )
        owner.until(lambda: len(answers) >= 4)
        site.settle()
        page_count = len(host.pages)
        owner.until(lambda: len(answers) >= 8)
        site.settle()
        assert len(host.pages) == page_count
        owner.end()
        other.end()


@pytest.mark.newest
def test_all_workers_refuse_requests_to_a_host_whose_pause_is_too_long(
    site: Site, server: RedisServer
) -> None:
    """The pause is longer than REP_WAIT_TIMEOUT. The first worker owns the host when it learns of the pause. The second
    worker begins later and becomes the next owner. The third worker only downloads a file. No request waits for the end
    of the pause, and none is sent.
    """
    host, other = site.add(RULES, name="127.0.9.1"), site.add(RULES, name="127.0.9.2")
    limit(host, 1, busy(429, "3600"))
    settings = settings_for(server, REP_BACKOFF_MAX=300, REP_WAIT_TIMEOUT=60)
    urls = [other.url("/first"), *(host.url(f"/{number}") for number in range(30))]
    [result] = finish(
        [start(urls, {**settings, "CONCURRENT_REQUESTS": 1}, is_first=True)]
    )
    assert len(host.pages) == 1
    assert [error["reason"] for error in result.errors] == ["back-off"] * 29
    urls = [
        other.url("/second"),
        *(host.url(f"/later-{number}") for number in range(3)),
    ]
    [result] = finish([start(urls, settings, is_first=True)])
    assert {error["url"] for error in result.errors} == set(urls[1:])
    file = host.url("/file")
    [result] = finish([start([], settings, spider="FileSpider", files=[file])])
    assert result.error(file)
    assert len(host.pages) == 1


@pytest.mark.newest
def test_ctrl_c_ends_a_worker_with_a_download_that_waits_for_a_permit(
    site: Site, server: RedisServer
) -> None:
    """The host has asked another worker for a pause of 100 seconds. The download waits until it may ask for its permit
    again.
    """
    host, redis = site.add(RULES), server.client()
    settings = settings_for(server, REP_BACKOFF_MAX=300)

    def has(field: str) -> bool:
        keys = redis.scan_iter("{worker:requests}:*:host:*")
        return any(redis.hexists(key, field) for key in keys)

    host.answers["/busy"] = busy(429, "100", after=lambda: host.hits_on("/1"))
    host.answers["/1"] = Answer(after=lambda: has("paused"))
    crawl, other = (
        start(
            [],
            settings,
            spider="FileSpider",
            files=[host.url(path) for path in paths],
        )
        for paths in (["/1", "/2"], ["/busy"])
    )
    # The server reserves the next permit for a worker that did not get one.
    crawl.until(lambda: has("reserved_for"))
    crawl.process.send_signal(signal.SIGINT)
    result = crawl.result(TIMEOUT / 2)
    assert result.stats["finish_reason"] == "shutdown"
    assert [error["error"] for error in result.errors] == ["SpiderClosing"]
    assert host.hits_on("/2") == []
    other.end()


@pytest.mark.newest
def test_a_worker_that_ends_after_failed_calls_reports_which_requests_are_done(
    site: Site, server: RedisServer
) -> None:
    """The answers to the last regular calls are lost, and so is the first answer after the last request has ended. The
    next worker fetches no page again.
    """
    host = site.add(RULES)
    urls = [host.url(f"/{number}") for number in range(60)]
    lost: list[bytes] = []
    held: list[Hit] = []
    max_losses = 0

    def is_lost(answer: bytes) -> bool:
        if len(lost) < max_losses:
            lost.append(answer)
            return True
        return False

    def answer(hit: Hit) -> Answer | None:
        if hit.path == "/robots.txt":
            return None
        if max_losses and not held:
            held.append(hit)
            return Answer(b"page", after=lambda: len(lost) >= max_losses - 1)
        return Answer(b"page", delay=0.05)

    host.limit = answer
    # The worker takes all requests at once, so that it has requests to send while its calls fail.
    constants = {"scrapy_rep.redis.scheduler._BATCH": len(urls)}
    with lossy(urlsplit(server.url).path, is_lost) as port:
        url = f"redis://127.0.0.1:{port}/0"
        settings = settings_for(server, REDIS_URL=url)
        crawl = start(urls, settings, is_first=True, constants=constants)
        crawl.until(lambda: len(host.pages) >= 8)
        max_losses = 1_000
        crawl.until(lambda: "The queue in Redis fails" in crawl.log)
        page_count = len(host.pages)
        crawl.until(lambda: len(host.pages) >= page_count + 8)
        crawl.process.send_signal(signal.SIGINT)
        crawl.until(lambda: "Closing spider" in crawl.log)
        # The page that is held keeps the worker open until one more regular call has failed.
        max_losses = len(lost) + 2
        result = crawl.result(TIMEOUT)
    assert result.stats["finish_reason"] == "shutdown"
    assert len(lost) == max_losses
    finish([start(urls, settings_for(server))])
    assert len(host.pages) == len(set(host.pages)) == 60
