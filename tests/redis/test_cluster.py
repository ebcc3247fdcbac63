"""A queue is on one node of a Redis Cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("scrapy_redis")

from redis.exceptions import ResponseError

from scrapy_rep.redis.exchange import Exchange
from tests.crawl.crawl import wait_until
from tests.fetching.redis_server import BINARY, RedisServer, free_port
from tests.redis.workers import KEY, LEASE, SEEN, Shared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

pytestmark = [
    pytest.mark.newest,
    pytest.mark.skipif(BINARY is None, reason="There is no redis-server on the PATH"),
]


@pytest.fixture(scope="module")
def node() -> Iterator[Redis]:
    """The client of a node that has all slots."""
    with RedisServer(_port(), is_cluster=True) as server, server.client() as client:
        client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: client.cluster("INFO")["cluster_state"] == "ok")
        yield client


def _port() -> int:
    """Return a port that leaves room for that of the cluster."""
    while (port := free_port()) > 55_000:
        pass
    return port


def test_all_keys_of_a_crawl_are_in_one_slot_of_a_cluster(node: Redis) -> None:
    """All that workers do is allowed there, and all keys are in one slot."""
    shared = Shared(node)
    first, second = shared.worker(), shared.worker()
    for worker in (first, second):
        worker.exchange = Exchange(worker.client, KEY, f"{{{KEY}}}:dupefilter", LEASE)
    first.push(*"12345")
    assert first.take() == ["1", "2", "3"]
    assert first.ask("1", delay=1.0).wait == 0
    second.push("6", "1")
    second.reports["paused"].append(("a", 30.0))
    assert second.call().seen == [1]
    first.done("1")
    first.reports["unreadable"] = list(first.numbers("2"))
    assert first.call().pauses
    keys = {*node.keys()} - {b"now"}
    assert len({node.execute_command("CLUSTER KEYSLOT", key) for key in keys}) == 1
    first.leave("a")
    first.retire()
    second.retire(clears=True)
    second.exchange.clear()
    assert node.keys() == [b"now"]


def test_fingerprints_on_another_node_raise_an_error_at_once(node: Redis) -> None:
    """A set of fingerprints without that tag is an error of the first call."""
    worker = Shared(node).worker()
    assert worker.exchange._keys[1] == SEEN
    with pytest.raises(ResponseError, match=r"(?i)slot"):
        worker.call()
