"""Tests of :func:`dumps` and :func:`loads`, which write and read the format of cache entries. An entry is the same
after writing and reading. Any other data are refused.
"""

from __future__ import annotations

import json
import tracemalloc
import zlib
from contextlib import suppress
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_rep.crawl.fetching.memory import KEEP, MAX_SIZE, dumps, loads
from scrapy_rep.protocol.access.entries import TDMREP, CacheEntry
from scrapy_rep.protocol.access.results import AccessResult, Failure
from tests.effort import few
from tests.fetching.places import AT, START, URL, check_data, entry

pytestmark = pytest.mark.newest

LATEST = 2.0**37
times = st.floats(0, LATEST - KEEP)
texts = st.text() | st.text(st.characters(codec=None))
results = st.builds(
    AccessResult,
    url=st.just(URL),
    status=st.none() | st.integers(0, 999),
    headers=st.lists(st.tuples(texts, texts), max_size=8).map(tuple),
    body=st.binary() | st.binary(max_size=5).map(lambda part: part * 500),
    redirects=st.lists(texts, max_size=8).map(tuple),
    error=texts,
    failure=st.none() | st.sampled_from(Failure),
)


@st.composite
def entries(draw: st.DrawFn) -> CacheEntry:
    """Return an entry such as :func:`renew` makes."""
    fetched = draw(times)
    expires = fetched + draw(st.floats(0, KEEP))
    result, copy = draw(results), draw(st.none() | results)
    fields = {
        "result": result,
        "fetched": fetched,
        "expires": min(expires, fetched + KEEP),
    }
    if copy is not None:
        fields |= {"result": result._replace(body=b""), "copy": copy}
        fields |= {"copy_fetched": draw(times), "unreachable_since": draw(times)}
        fields |= {"attempts": draw(st.integers(0, 10**9))}
    if (tdmrep := draw(st.none() | results)) is not None:
        fields |= {"tdmrep": tdmrep._replace(url=AT.url(TDMREP))}
        fields |= {"tdmrep_fetched": draw(times)}
    return CacheEntry(**fields)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda value: st.lists(value) | st.dictionaries(st.text(), value),
)


def packed(head: object, body: bytes = b"") -> bytes:
    """Return *head* as JSON, and *body*, in the format in which a store keeps an entry. *head* can be a value that is
    not valid in an entry.
    """
    return zlib.compress(json.dumps(head).encode() + b"\n" + body)


def packed_entry(body: bytes = b"", /, **changed: object) -> bytes:
    """Return a packed entry with this *body*. *changed* replaces fields of the entry or of its result."""
    result: dict[str, object] = {"status": 200}
    head = {"result": result, "fetched": START, "expires": START + 60}
    for name, value in changed.items():
        (head if name in ENTRY_FIELDS else result)[name] = value
    return packed(head, body)


ENTRY_FIELDS = {
    "attempts", "copy", "copy_fetched", "expires", "fetched", "result", "robotstxt", "tdmrep",
    "tdmrep_fetched", "unreachable_since",
}  # fmt: skip
FIELDS = sorted({*ENTRY_FIELDS, "error", "failure", "headers", "redirects", "status"})


# Valid entries.


@few()
@given(entries())
def test_an_entry_is_the_same_after_writing_and_reading(entry: CacheEntry) -> None:
    assert loads(dumps(entry), AT) == entry


def test_an_entry_of_more_than_1_mib_is_not_written() -> None:
    """The limit applies to the size before compression and to the size after it."""
    body = b"#" * 600_000
    written = dumps(entry(body))
    assert loads(written, AT).result.body == body
    assert len(written) < 60_000
    random = Random(5).randbytes(MAX_SIZE - 100)
    # A robots.txt and a tdmrep.json of the maximum length fit in one entry.
    two_files = entry(
        body, tdmrep=AccessResult(url=AT.url(TDMREP), status=200, body=body[:400_000])
    )
    assert loads(dumps(two_files), AT) == two_files
    for unstorable in (
        entry(bytes(MAX_SIZE)),
        entry(error="x" * MAX_SIZE),
        entry(random),
    ):
        with pytest.raises(ValueError, match="is too long to be stored"):
            dumps(unstorable)


# Invalid data.

DAMAGED = "^the data is damaged, or was not written by scrapy-rep: "


@given(st.binary() | st.binary().map(zlib.compress) | json_values.map(packed))
@example(zlib.compress(b'{"copy":' + b"[" * 100_000 + b"\n"))
def test_bytes_that_are_no_entry_are_refused(data: bytes) -> None:
    """The data can be compressed or not. JSON with another structure is refused, and so is JSON that is nested too
    deeply.
    """
    with pytest.raises(ValueError, match=DAMAGED):
        loads(data, AT)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (packed([]), "has the type list, but it must have the type dict"),
        (packed({}), "KeyError: 'result'"),
        (b"text", "error: Error -3 while decompressing data"),
    ],
)
def test_the_error_says_what_is_wrong_with_an_entry(data: bytes, reason: str) -> None:
    """The message says that the data is damaged or was not written by scrapy-rep, and names the specific error."""
    with pytest.raises(ValueError, match=f"{DAMAGED}.*{reason}"):
        loads(data, AT)


@given(entries(), st.data())
def test_a_damaged_entry_is_refused_or_unchanged(
    entry: CacheEntry, data: st.DataObject
) -> None:
    """A truncated entry is refused. An entry with a changed byte is refused, or read without a difference. It is never
    read with a part of its rules missing.
    """
    written = bytearray(dumps(entry))
    position = data.draw(st.integers(0, len(written) - 1))
    with pytest.raises(ValueError, match=DAMAGED):
        loads(bytes(written[:position]), AT)
    written[position] ^= data.draw(st.integers(1, 255))
    with suppress(ValueError):
        assert loads(bytes(written), AT) == entry


@given(st.sampled_from(FIELDS), json_values)
def test_a_field_with_any_value_raises_no_error_except_value_error(
    name: str, value: object
) -> None:
    """An entry with any JSON value in one of its fields is either refused with ValueError, or can be used and written
    again.
    """
    check_data(packed_entry(**{name: value}))


@pytest.mark.parametrize(
    "changed",
    [
        {"attempts": None},
        {"attempts": 10**400},
        {"copy": []},
        {"copy": {"copy": {}}},
        {"expires": float("inf")},
        {"expires": float("nan")},
        {"fetched": 10**400},
        {"fetched": -1},
        {"fetched": "now"},
        {"failure": "else"},
        {"unreachable_since": -1e300},
        {"headers": [["age"]]},
        {"headers": [["age", 7]]},
        {"headers": "ab"},
        {"redirects": 7},
        {"redirects": "ab"},
        {"status": "200"},
        {"status": 10**20},
        {"tdmrep": {"status": 200}},
        {"tdmrep": {"status": 200}, "robotstxt": -1},
        {"tdmrep": [], "robotstxt": 1},
    ],
    ids=str,
)
def test_a_field_out_of_its_bounds_invalidates_the_entry(
    changed: dict[str, object],
) -> None:
    """A field of the wrong type invalidates the entry too."""
    body = b"Allow: /\n"
    assert loads(packed_entry(body), AT) == entry(body, expires=START + 60)
    with pytest.raises(ValueError, match=DAMAGED):
        loads(packed_entry(body, **changed), AT)


# Limits.


def test_a_compressed_bomb_is_not_decompressed() -> None:
    """The data are 100 MiB of zeros, compressed to about 0.1 MiB."""
    compressor = zlib.compressobj(9)
    data = b"".join(compressor.compress(bytes(1024 * 1024)) for _ in range(100))
    written = data + compressor.flush()
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="truncated or too long"):
            loads(written, AT)
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_SIZE
    finally:
        tracemalloc.stop()


def test_the_redirects_headers_and_lifetime_of_an_entry_are_limited() -> None:
    """Only the first 16 redirects and the first 16 headers of an entry are read. An entry is fresh for at most 30 days,
    even if it contains a later expiry time.
    """
    redirects, headers = ["a"] * 9_999, [["age", "1"]] * 9_999
    entry = loads(
        packed_entry(redirects=redirects, headers=headers, expires=LATEST), AT
    )
    assert len(entry.result.redirects) == len(entry.result.headers) == 16
    assert entry.expires == START + KEEP
