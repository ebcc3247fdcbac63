"""The files in memory, and their bounds."""

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


LONGEST = (500 if effort.is_long else 25) * 1024
HOSTS = 1_000 if effort.is_long else 250
URL = "http://www.host-0.example/a"


def read(key: Origin, entry: CacheEntry, learned: float) -> SiteRules:
    state, robots = entry.state(RFC9309), robots_of(entry, RFC9309)
    return SiteRules(key, entry, state, robots, learned=learned)


def origin(number: int) -> Origin:
    return Origin("http", f"www.host-{number}.example", 80)


def put(memory: Memory, number: int, body: bytes = b"", **fields: object) -> None:
    key = origin(number)
    fields = {"body": body, "headers": HEADERS, **fields, "url": key.robotstxt_url}
    memory.put(read(key, entry(**fields), float(number)))


def test_the_least_recently_used_files_go_first() -> None:
    """The least recently used values are displaced first, as many as it takes; get and put count as
    use. A value over the limit stays until the next one. Replaced and removed ones do not count.
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
COPY = AccessResult(url=origin(0).robotstxt_url, status=200, body=BODY)


@pytest.mark.parametrize(
    ("body", "fields", "is_kept"),
    [
        (BODY, {}, True),
        (b"", {"status": 503, "unreachable_since": START - 5, "copy": COPY}, True),
        (bytes(MAX_SIZE), {}, False),
        (b"", {"status": 503, "unreachable_since": -5.0}, False),
    ],
    ids=["rules", "copy", "too long", "wrong clock"],
)
def test_a_file_that_was_not_used_for_long_is_parsed_again(
    body: bytes, fields: dict[str, Any], is_kept: bool
) -> None:
    """A file that was not used for long is parsed again, and the same when it is used again, with
    the time since which it is known. It is forgotten if it is too long, or has a time that no entry
    of a store may have.
    """
    memory = Memory(100_000, read)
    put(memory, 0, body, **fields)
    first = memory.get(origin(0))
    assert first is not None
    assert memory.get(origin(0)) is first
    for number in range(1, 20):
        put(memory, number, bytes(1000))
    again = memory.get(origin(0))
    assert again is not first
    if not is_kept:
        assert again is None
        return
    assert (again.entry, again.learned) == (first.entry, first.learned)
    assert not again.robots.is_allowed(URL, "mybot")
    assert memory.get(origin(0)) is again


def rules(size: int) -> bytes:
    """A robots.txt of this many bytes with rules as large sites have them."""
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


# The bytes that Python and the threads of the test runner may take while a test measures.
PYTHONS_OWN = 16_384


@pytest.mark.unmeasured
@pytest.mark.slow
@pytest.mark.parametrize(
    ("bodies", "limit", "count", "kept"),
    [
        ([b""], 300 * HOSTS, HOSTS, None),
        ([rules(3_000)], 300_000, 300, None),
        # 128 MB are enough for 100,000 hosts, and so is a part of that for a part of them. The median of the files of 2,143 large sites
        # has 552 bytes.
        ([rules(552)], 1_280 * HOSTS, HOSTS, HOSTS),
        ([rules(LONGEST), *HOSTILE], 13 * LONGEST, 80, None),
    ],
    ids=["empty", "long", "ordinary", "longest"],
)
def test_the_counted_bytes_are_those_that_python_takes(
    bodies: list[bytes], limit: int, count: int, kept: int | None
) -> None:
    """The memory that Python takes is less than the counted bytes, and what it keeps for itself
    meanwhile. The counted bytes stay within the limit and what one file takes, whatever the files
    are: also once they have decided about pages.
    """
    most = max(map(parsed_size, bodies)) if len(bodies) > 1 else 0
    memory = Memory(10**6, read)
    put(memory, 0)
    memory.get(origin(0)).robots.usage(URL, "mybot")  # It imports what it needs.
    gc.collect()
    tracemalloc.start()
    try:
        memory = Memory(limit, read)
        for number in range(count):
            put(memory, number, bodies[number % len(bodies)])
            robots = memory.get(origin(number)).robots
            # An index takes long to make.
            for path in ("first", "second") if number < 5 or len(bodies) == 1 else ():
                url = f"http://www.host-{number}.example/{path}"
                robots.is_allowed(url, "mybot")
                robots.usage(url, "mybot")
            assert memory.size <= limit + most
        del robots
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken <= memory.size + PYTHONS_OWN
    known_hosts = sum(memory.get(origin(number)) is not None for number in range(count))
    assert known_hosts == kept or (kept is None and 0 < known_hosts < count)
