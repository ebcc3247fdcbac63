"""Features of scrapy-redis' scheduler with this package's queue."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.crawl import run_crawl, start_crawl
from tests.stores.redis_server import BINARY, RedisServer

pytest.importorskip("scrapy_redis")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from redis import Redis

    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.skipif(
    BINARY is None, reason="There is no redis-server on the PATH"
)
RULES = "User-agent: *\nDisallow: /private\n"
OLD = [f"/old-{number}" for number in range(10)]
NEW = [f"/new-{number}" for number in range(5)]
LINKS = {
    "/start": [*OLD, "/private"],
    # This page was fetched by the first crawl.
    "/again": [*NEW, OLD[0]],
    # These are duplicates.
    **dict.fromkeys(NEW, NEW),
}
IDLE_SECONDS = 2
SPIDER = "tests.crawl.redis_spiders.{}"


@pytest.fixture
def redis() -> Iterator[Redis]:
    with RedisServer() as server:
        yield server.client()


def plan(redis: Redis, **settings: Any) -> dict[str, Any]:
    """Return the arguments of a crawl with one request at a time."""
    path = redis.connection_pool.connection_kwargs["path"]
    return {
        "links": LINKS,
        "settings": {
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "SCHEDULER_SERIALIZER": "tests.crawl.redis_spiders",
            "SCHEDULER_PERSIST": True,
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
            "SCHEDULER_DUPEFILTER_KEY": "links:seen",
            "REDIS_URL": f"unix://{path}",
            "CONCURRENT_REQUESTS": 1,
            **settings,
        },
    }


def keys(redis: Redis) -> set[str]:
    """Return the keys of the queue and the duplicate filter."""
    found = {key.decode() for key in redis.scan_iter("*links:*")}
    # The key of each host expires some time after its last request.
    return {key for key in found if not redis.ttl(key) > 0}


def test_what_the_scheduler_can_do(site: Site, redis: Redis) -> None:
    """Three crawls run one after the other, with start URLs from Redis and requests in
    JSON. The second starts with SCHEDULER_FLUSH_ON_START, so the requests of the first are
    deleted. The third resumes the queue of the second, waits for
    SCHEDULER_IDLE_BEFORE_CLOSE, and leaves no keys.
    """
    host = site.add(RULES)
    check_start_urls(host, redis)
    seen = site.log[:]
    check_flush_on_start(host, redis)
    check_persistence(host, redis)
    pages = Counter(hit.path for hit in site.log[len(seen) :])
    pages.pop("/robots.txt", None)
    assert pages == Counter(["/again", *NEW, OLD[0]])


def check_start_urls(host: Host, redis: Redis) -> None:
    redis.rpush("links:start_urls", json.dumps({"url": host.url("/start")}))
    result = run_crawl(
        spider=SPIDER.format("StartUrlSpider"), **plan(redis, CLOSESPIDER_PAGECOUNT=4)
    )
    assert result.stats["finish_reason"] == "closespider_pagecount", result.log
    assert host.pages[-1] == "/start"
    left = [
        json.loads(request[14:])
        for key in redis.scan_iter("*:queue:*")
        for request in redis.zrange(key, 0, -1)
    ]
    waiting = {host.url(path) for path in [*OLD, "/private"] if path not in host.pages}
    assert {request["url"] for request in left} == waiting
    assert all(request["callback"] is None for request in left)
    assert left[0]["headers"]["Referer"] == [host.url("/start")]
    assert redis.scard("links:seen") == len(OLD) + 1


def check_flush_on_start(host: Host, redis: Redis) -> None:
    crawl = start_crawl(
        spider=SPIDER.format("StartUrlSpider"),
        **plan(redis, SCHEDULER_FLUSH_ON_START=True, CLOSESPIDER_PAGECOUNT=3),
    )
    # Start URLs may be pushed at any time.
    crawl.until(lambda: redis.exists("{links:requests}:workers"))
    assert not redis.exists("links:seen")
    redis.rpush("links:start_urls", json.dumps({"url": host.url("/again")}))
    result = crawl.result()
    assert result.stats["finish_reason"] == "closespider_pagecount", result.log
    assert list(redis.scan_iter("*:queue:*"))


def check_persistence(host: Host, redis: Redis) -> None:
    result = run_crawl(
        spider=SPIDER.format("LinkSpider"),
        **plan(
            redis,
            SCHEDULER_PERSIST=False,
            SCHEDULER_IDLE_BEFORE_CLOSE=IDLE_SECONDS,
        ),
    )
    assert result.stats["finish_reason"] == "finished", result.log
    assert "Resuming crawl" in result.log
    # The spider was idle and then went on at least once.
    assert result.stats["idle"] > 1
    assert result.stats["elapsed_time_seconds"] >= IDLE_SECONDS
    assert keys(redis) == set()


def test_a_jobdir_beside_the_queue(site: Site, redis: Redis, tmp_path: Path) -> None:
    """With a JOBDIR as well, requests and fingerprints are on the server only."""
    host = site.add(RULES)
    redis.rpush("links:start_urls", json.dumps({"url": host.url("/start")}))
    # The robots.txt is a response too.
    how = plan(redis, JOBDIR=str(tmp_path / "job"), CLOSESPIDER_PAGECOUNT=12)
    result = run_crawl(spider=SPIDER.format("StartUrlSpider"), **how)
    assert result.stats["finish_reason"] == "closespider_pagecount"
    assert "log_count/ERROR" not in result.stats, result.log
    assert host.pages == sorted(["/start", *OLD])
    assert not [*tmp_path.rglob("requests.*")]
