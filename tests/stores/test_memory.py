"""The files in memory, and their bounds."""

from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep import RFC9309
from scrapy_rep.protocol.access.results import AccessResult, robots_of
from scrapy_rep.protocol.origins import Origin
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.stores.entries import MAX_SIZE
from scrapy_rep.stores.memory import LRU, Memory
from tests.stores.places import START, entry

if TYPE_CHECKING:
    from scrapy_rep.protocol.access.results import Entry
    from scrapy_rep.stores.memory import Key

HEADERS = (
    ("content-type", "text/plain; charset=utf-8"),
    ("cache-control", "max-age=3600"),
    ("etag", '"5f3-10a8d7"'),
    ("date", "Fri, 15 Jan 2027 08:00:00 GMT"),
)


def parse(key: Key, entry: Entry) -> RobotsTxt:
    return robots_of(entry, RFC9309)


def origin(number: int) -> Origin:
    return Origin("http", f"www.host-{number}.example", 80)


def put(memory: Memory, number: int, body: bytes = b"", **fields: object) -> None:
    key = origin(number)
    fields = {"body": body, "headers": HEADERS, **fields, "url": key.robotstxt_url}
    memory.put(key, entry(**fields), float(number))


def test_what_was_not_used_for_longest_goes() -> None:
    """The least recently used values are displaced first, as many as it takes; get and put count as
    use. A value over the limit stays until the next one. Replaced and removed ones do not count.
    """
    lru: LRU[str] = LRU(10)
    for name in "abcde":
        assert lru.put(name, name, 2) == []
    assert lru.get("a") == "a"
    lru.put("b", "B", 1)
    assert lru.size == 9
    assert lru.put("f", "f", 5) == [("c", "c"), ("d", "d")]
    assert [lru.get(name) for name in "abcdef"] == ["a", "B", None, None, "e", "f"]
    assert len(lru.put("g", "g", 11)) == 4
    assert lru.put("a", "a", 2) == [("g", "g")]
    assert (lru.pop("a"), lru.pop("a")) == ("a", None)
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
def test_a_file_that_was_not_used_for_long(
    body: bytes, fields: dict[str, Any], is_kept: bool
) -> None:
    """Such a file is packed, and the same when it is used again, with the time since which it
    is known. It is forgotten if it is too long, or has a time that no entry of a store may have.
    """
    memory = Memory(100_000, parse)
    put(memory, 0, body, **fields)
    first = memory.get(origin(0))
    assert first is not None
    for number in range(1, 40):
        put(memory, number, bytes(1000))
    again = memory.get(origin(0))
    assert again is not first
    if not is_kept:
        assert again is None
        return
    assert (again.entry, again.learned) == (first.entry, first.learned)
    url = "http://www.host-0.example/a"
    assert not again.of(RobotsTxt).is_allowed(url, "mybot")
    assert memory.get(origin(0)) is again


def test_rules_that_take_memory() -> None:
    """A file counts with its index of rules when it is weighed after a decision."""
    memory = Memory(100_000_000, parse)
    put(memory, 0, b"User-agent: *\n" + b"Disallow: /a*b\n" * 10_000)
    file, before = memory.get(origin(0)), memory.size
    for path in ("a", "b"):
        file.of(RobotsTxt).is_allowed(f"http://www.host-0.example/{path}", "mybot")
    memory.weigh(origin(0), file.of(RobotsTxt))
    assert memory.size != before
    after = memory.size
    memory.weigh(origin(0), RobotsTxt.parse(b""))
    memory.weigh(origin(1), file.of(RobotsTxt))
    assert memory.size == after


@pytest.mark.unmeasured
@pytest.mark.slow
@pytest.mark.parametrize(("size", "count"), [(0, 1_500), (3_000, 300)])
@pytest.mark.parametrize("has_room", [False, True])
def test_bytes_are_true(size: int, count: int, has_room: bool) -> None:
    """The counted bytes stay within the limit. They are between the memory that Python takes and two
    fifths more, also after many files came and went. All files are kept if there is room.
    """
    limit = 10**9 if has_room else 300_000
    text = "".join(
        f"Disallow: /{name}/{number**5 % 999_983}{end}\n"
        for number in range(20)
        for name in ("wp-admin", "search", "cart", "node")
        for end in ("/", "/*", "$", "?id=")
    )
    put(Memory(10**6, parse), 0)
    gc.collect()
    tracemalloc.start()
    try:
        memory = Memory(limit, parse)
        for number in range(count):
            put(memory, number, f"User-agent: *\n{text}"[:size].encode())
            robots = memory.get(origin(number)).of(RobotsTxt)
            for path in ("first", "second"):
                robots.is_allowed(f"http://www.host-{number}.example/{path}", "mybot")
            memory.weigh(origin(number), robots)
            assert memory.size <= limit
        del robots
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken <= memory.size <= taken * 1.4
    assert (memory.get(origin(0)) is not None) is has_room
