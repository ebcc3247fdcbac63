"""Measures the memory that a Redis server uses for a crawl's queue.

    python -m benchmarks.queue_memory [--requests 1000000] [--hosts 10000 1000000]
        [--serializers pickle json] [--listpack BYTES]

The output is a table. For each row, a new server is started, and all requests and their fingerprints are stored on it.
``--listpack`` sets the server's option ``zset-max-listpack-value``. If no request of a host is larger than this number
of bytes, Redis stores the host's requests in a single block of memory.
"""

from __future__ import annotations

import argparse
import json
from hashlib import sha1
from typing import TYPE_CHECKING, Any, NamedTuple

from redis import Redis

from benchmarks.queue_worker import KINDS, OfScrapyRedis, requests
from tests.fetching.redis_server import RedisServer, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request

SEEN = "{crawl:requests}:dupefilter"


class JsonSerializer:
    """A serializer for the setting ``SCHEDULER_SERIALIZER``. It writes JSON, and supports only requests whose headers
    and body are text.
    """

    @staticmethod
    def dumps(request: dict[str, Any]) -> str:
        headers = {
            name.decode(): [value.decode() for value in values]
            for name, values in request["headers"].items()
        }
        body = request["body"].decode()
        return json.dumps({**request, "headers": headers, "body": body})

    @staticmethod
    def loads(text: bytes) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads(text)
        return {**fields, "body": fields["body"].encode()}


SERIALIZERS = {"pickle": None, "json": JsonSerializer}


class Memory(NamedTuple):
    """The memory of a queue, in bytes."""

    serialized: float
    """The size of the first request after serialization. The other requests have nearly the same size."""

    queue: float
    """The memory per request without the fingerprints."""

    seen: float
    """The memory that the fingerprints use, per request."""

    total: float


def main() -> None:
    options = parsed()
    print("Memory of a Redis server for the requests of a crawl. PriorityQueue is the queue of scrapy-redis, "
          "SharedScheduler the queue of scrapy-rep.\n")  # fmt: skip
    print("| queue | serializer | requests | hosts | serialized request, bytes "
          "| memory without fingerprints, bytes per request "
          "| memory of fingerprints, bytes per request | memory in total, MB |")  # fmt: skip
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for kind, serializer, hosts in cases(options):
        sizes = measure(kind, serializer, options.requests, hosts, options.listpack)
        print(
            f"| {kind} | {serializer} | {options.requests:,} | {hosts:,} "
            f"| {sizes.serialized:,.0f} | {sizes.queue:,.0f} | {sizes.seen:,.0f} "
            f"| {sizes.total / 1e6:,.0f} |",
            flush=True,
        )


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue_memory")
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument(
        "--serializers", nargs="+", choices=SERIALIZERS, default=["pickle", "json"]
    )
    parser.add_argument("--listpack", type=int, help="zset-max-listpack-value")
    return parser.parse_args()


def cases(options: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    for serializer in options.serializers:
        yield "PriorityQueue", serializer, options.hosts[0]
        for hosts in options.hosts:
            yield "SharedScheduler", serializer, hosts


def measure(
    kind: str, serializer: str, count: int, hosts: int, listpack: int | None = None
) -> Memory:
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    with RedisServer(port), Redis.from_url(url) as client:
        if listpack is not None:
            client.config_set("zset-max-listpack-value", listpack)
        empty = _used(client)
        queue = KINDS[kind](url, SERIALIZERS[serializer])
        spider = queue.crawler.spider
        size = _size_of_one(queue, hosts)
        queue.fill(_seen(queue, requests(spider, hosts, count)))
        full = _used(client) - empty
        seen = client.memory_usage(SEEN, samples=0) or 0
        return Memory(size, (full - seen) / count, seen / count, full)


def _seen(queue: Any, new_requests: Iterator[Request]) -> Iterator[Request]:
    """Yield *new_requests*. If *queue* is the queue of scrapy-redis, also store the fingerprint of each request on the
    server. In a crawl, the scheduler of scrapy-redis would store it.
    """
    for request in new_requests:
        if isinstance(queue, OfScrapyRedis):
            fingerprint = sha1(request.url.encode()).hexdigest()
            queue.queue.server.execute_command("SADD", SEEN, fingerprint)
        yield request


def _size_of_one(queue: Any, hosts: int) -> int:
    (request,) = requests(queue.crawler.spider, hosts, 1)
    return len(queue.encode(request))


def _used(client: Redis) -> int:
    return int(client.info("memory")["used_memory"])


if __name__ == "__main__":
    main()
