"""Tests of :class:`Memory` and :class:`LRU`, which keep site rules in a bounded amount of memory."""

from __future__ import annotations

import gc
import tracemalloc
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep import RFC9309
from scrapy_rep.crawl.fetching.memory import LRU, MAX_SIZE, Memory, parsed_size
from scrapy_rep.protocol.access.results import AccessResult
from scrapy_rep.protocol.access.site_rules import SiteRules, robots_of
from scrapy_rep.protocol.origins import Origin
from tests import effort
from tests.fetching.places import START, entry

if TYPE_CHECKING:
    from scrapy_rep.protocol.access.entries import CacheEntry

pytestmark = pytest.mark.newest

HEADERS = (
    ("content-type", "text/plain; charset=utf-8"),
    ("cache-control", "max-age=3600"),
    ("etag", '"5f3-10a8d7"'),
    ("date", "Fri, 15 Jan 2027 08:00:00 GMT"),
)


# The size of the longest files in these tests, in bytes.
LONGEST = (500 if effort.is_long else 25) * 1024
HOSTS = 1_000 if effort.is_long else 250
URL = "http://www.host-0.example/a"


def parse(origin: Origin, entry: CacheEntry, learned: float) -> SiteRules:
    """Parse *entry*, and return its rules. Memory calls this function to parse rules again."""
    state, robots = entry.state(RFC9309), robots_of(entry, RFC9309)
    return SiteRules(origin, entry, state, robots, learned=learned)


def origin_of(number: int) -> Origin:
    """Return the origin of the host with this number."""
    return Origin("http", f"www.host-{number}.example", 80)


def put(memory: Memory, number: int, body: bytes = b"", **fields: object) -> None:
    """Put the rules of the host *number* into *memory*. *body* is the body of the robots.txt. *fields* are other
    arguments of :func:`entry`, for example ``status=503``.
    """
    host = origin_of(number)
    fields = {"body": body, "headers": HEADERS, **fields, "url": host.robotstxt_url}
    memory.put(parse(host, entry(**fields), float(number)))


def test_the_least_recently_used_values_are_evicted_first() -> None:
    """As many values are evicted as necessary. Both get and put count as a use. A value that exceeds the limit by
    itself stays until the next put. Replaced and removed values do not count towards the limit.
    """
    lru: LRU[str] = LRU(10)
    for name in "abcde":
        lru.put(name, name, 2)
    assert lru.get("a") == "a"
    lru.put("b", "B", 1)
    assert lru.size == 9
    lru.put("f", "f", 5)
    assert [lru.get(name) for name in "abcdef"] == ["a", "B", None, None, "e", "f"]
    lru.put("g", "g", 11)
    assert (lru.get("g"), lru.size) == ("g", 11)
    lru.put("a", "a", 2)
    assert (lru.get("g"), lru.get("a")) == (None, "a")
    lru.pop("a")
    lru.pop("a")
    assert lru.size == 0


BODY = b"User-agent: *\nDisallow: /a\n"
COPY = AccessResult(url=origin_of(0).robotstxt_url, status=200, body=BODY)


@pytest.mark.parametrize(
    ("body", "fields", "is_kept"),
    [
        (BODY, {}, True),
        (b"", {"status": 503, "unreachable_since": START - 5, "copy": COPY}, True),
        (bytes(MAX_SIZE), {}, False),
        (b"", {"status": 503, "unreachable_since": -5.0}, False),
    ],
    ids=["rules", "copy", "too long", "time before 1970"],
)
def test_rules_that_were_packed_are_parsed_again_at_their_next_use(
    body: bytes, fields: dict[str, Any], is_kept: bool
) -> None:
    """Rules that were not used for a while are packed: only their compressed cache entry is kept. At the next use, the
    rules are parsed again, and have the same ``entry`` and ``learned`` as before. Rules are dropped if their file is
    too long to be packed, or if their entry has an invalid time.
    """
    memory = Memory(100_000, parse)
    put(memory, 0, body, **fields)
    first = memory.get(origin_of(0))
    assert first is not None
    assert memory.get(origin_of(0)) is first
    for number in range(1, 20):
        put(memory, number, bytes(1000))
    reparsed = memory.get(origin_of(0))
    assert reparsed is not first
    if not is_kept:
        assert reparsed is None
        return
    assert (reparsed.entry, reparsed.learned) == (first.entry, first.learned)
    assert not reparsed.robots.is_allowed(URL, "mybot")
    assert memory.get(origin_of(0)) is reparsed


def rules(size: int) -> bytes:
    """Return a robots.txt of *size* bytes, with rules like those of large sites."""
    lines = (
        f"Disallow: /{name}/{number**5 % 999_983}{end}"
        for number in range(size // 60 + 1)
        for name in ("wp-admin", "search", "cart", "node")
        for end in ("/", "/*", "$", "?id=")
    )
    return "\n".join(["User-agent: *", *islice(lines, size // 15)]).encode()[:size]


HOSTILE = [
    b"User-agent: *\n" + b"".join(line % n for n in range(LONGEST // 16))[:LONGEST]
    for line in (
        b"Disallow:/%x\n",
        b"Allow:/%x*\n",
        b"Allow:/*%x\n",
        b"Content-Usage: a=n\n#%x\n",
    )
]


# The bytes that Python and the threads of the test runner may allocate for themselves during a measurement.
OVERHEAD = 16_384


@pytest.mark.unmeasured
@pytest.mark.slow
@pytest.mark.parametrize(
    ("bodies", "limit", "count", "hosts_in_memory"),
    [
        # The last value is the number of hosts in memory at the end. None means that some hosts are missing, but not
        # all.
        ([b""], 300 * HOSTS, HOSTS, None),
        ([rules(3_000)], 300_000, 300, None),
        # 128 MB are enough for 100,000 hosts, that is 1,280 bytes for each. 552 bytes is the median size of the files
        # of 2,143 large sites.
        ([rules(552)], 1_280 * HOSTS, HOSTS, HOSTS),
        ([rules(LONGEST), *HOSTILE], 13 * LONGEST, 80, None),
    ],
    ids=["empty", "long", "ordinary", "longest"],
)
def test_the_memory_that_python_allocates_does_not_exceed_the_counted_size(
    bodies: list[bytes], limit: int, count: int, hosts_in_memory: int | None
) -> None:
    """The memory that Python allocates is at most ``Memory.size`` plus OVERHEAD. ``Memory.size`` is at most the limit
    plus the size of one parsed file. The two bounds hold for hostile files as well, and after decisions, which build
    lookup tables for the rules.
    """
    excess = max(map(parsed_size, bodies)) if len(bodies) > 1 else 0
    memory = Memory(10**6, parse)
    put(memory, 0)
    # The first use imports modules, which also takes memory.
    memory.get(origin_of(0)).robots.usage(URL, "mybot")
    gc.collect()
    tracemalloc.start()
    try:
        memory = Memory(limit, parse)
        for number in range(count):
            put(memory, number, bodies[number % len(bodies)])
            robots = memory.get(origin_of(number)).robots
            # Building the lookup tables of many long files would take too long.
            for path in ("first", "second") if number < 5 or len(bodies) == 1 else ():
                url = f"http://www.host-{number}.example/{path}"
                robots.is_allowed(url, "mybot")
                robots.usage(url, "mybot")
            assert memory.size <= limit + excess
        del robots
        gc.collect()
        allocated = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert allocated <= memory.size + OVERHEAD
    known_hosts = sum(
        memory.get(origin_of(number)) is not None for number in range(count)
    )
    assert known_hosts == hosts_in_memory or (
        hosts_in_memory is None and 0 < known_hosts < count
    )
