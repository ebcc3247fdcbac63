"""Tests of the queue on a Redis Cluster, where all keys of a script must be in one hash slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("scrapy_redis")

from redis.exceptions import ResponseError

from scrapy_rep.redis.exchange import Exchange
from tests.crawl.crawl import wait_until
from tests.fetching.redis_server import BINARY, RedisServer, free_port
from tests.redis.workers import KEY, LEASE, SEEN, SharedQueue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

pytestmark = [
    pytest.mark.newest,
    pytest.mark.skipif(BINARY is None, reason="There is no redis-server on the PATH"),
]


@pytest.fixture(scope="module")
def node() -> Iterator[Redis]:
    """The client of a cluster that has one node, to which all hash slots are assigned."""
    with RedisServer(_port(), is_cluster=True) as server, server.client() as client:
        client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: client.cluster("INFO")["cluster_state"] == "ok")
        yield client


def _port() -> int:
    """Return a free port to which Redis can add 10,000, for the port of the cluster bus."""
    while (port := free_port()) > 55_000:
        pass
    return port


def test_all_keys_of_a_crawl_are_in_one_slot_of_a_cluster(node: Redis) -> None:
    """Each kind of call that a worker makes works on a cluster, and all keys are in one hash slot."""
    queue = SharedQueue(node)
    first, second = queue.worker(), queue.worker()
    for worker in (first, second):
        worker.exchange = Exchange(worker.client, KEY, f"{{{KEY}}}:dupefilter", LEASE)
    first.push(*"12345")
    assert first.take() == ["1", "2", "3"]
    assert first.request_permit("1", delay=1.0).wait == 0
    second.push("6", "1")
    second.reports["paused"].append(("a", 30.0))
    assert second.call().seen == [1]
    first.finish("1")
    first.reports["unreadable"] = list(first.numbers_of("2"))
    assert first.call().pauses
    keys = {*node.keys()} - {b"now"}
    assert len({node.execute_command("CLUSTER KEYSLOT", key) for key in keys}) == 1
    first.give_back_host("a")
    first.retire()
    second.retire(clears=True)
    second.exchange.clear()
    assert node.keys() == [b"now"]


def test_fingerprints_in_another_slot_raise_an_error_in_the_first_call(
    node: Redis,
) -> None:
    """The first call raises an error if the key of the fingerprints does not have the hash tag of the queue's keys."""
    worker = SharedQueue(node).worker()
    assert worker.exchange._keys[1] == SEEN
    with pytest.raises(ResponseError, match=r"(?i)slot"):
        worker.call()
