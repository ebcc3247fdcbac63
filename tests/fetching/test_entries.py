"""The format of entries: a whole entry is restored, and anything else is refused."""

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
    """Return an entry as :func:`renew` makes them."""
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
    """Return data in the format, with any JSON."""
    return zlib.compress(json.dumps(head).encode() + b"\n" + body)


def with_fields(body: bytes = b"", /, **changed: object) -> bytes:
    """Return an entry with *changed* fields."""
    result: dict[str, object] = {"status": 200}
    head = {"result": result, "fetched": START, "expires": START + 60}
    for name, value in changed.items():
        (head if name in OF_ENTRY else result)[name] = value
    return packed(head, body)


OF_ENTRY = {
    "attempts", "copy", "copy_fetched", "expires", "fetched", "result", "robotstxt", "tdmrep",
    "tdmrep_fetched", "unreachable_since",
}  # fmt: skip
FIELDS = sorted({*OF_ENTRY, "error", "failure", "headers", "redirects", "status"})


# A whole entry.


@few()
@given(entries())
def test_an_entry_is_the_same_after_writing_and_reading(entry: CacheEntry) -> None:
    """An entry is the same after writing and reading."""
    assert loads(dumps(entry), AT) == entry


def test_an_entry_over_1_mib_is_not_written() -> None:
    """An entry is compressed. It is not written if it is longer than 1 MiB, compressed or not."""
    body = b"#" * 600_000
    written = dumps(entry(body))
    assert loads(written, AT).result.body == body
    assert len(written) < 60_000
    random = Random(5).randbytes(MAX_SIZE - 100)
    # Two files of the most bytes that are read make one.
    both = entry(
        body, tdmrep=AccessResult(url=AT.url(TDMREP), status=200, body=body[:400_000])
    )
    assert loads(dumps(both), AT) == both
    for unstorable in (
        entry(bytes(MAX_SIZE)),
        entry(error="x" * MAX_SIZE),
        entry(random),
    ):
        with pytest.raises(ValueError, match="is too long to be stored"):
            dumps(unstorable)


# What is no entry.

NO_ENTRY = "^the data is damaged, or was not written by scrapy-rep: "


@given(st.binary() | st.binary().map(zlib.compress) | json_values.map(packed))
@example(zlib.compress(b'{"copy":' + b"[" * 100_000 + b"\n"))
def test_bytes_that_are_no_entry_are_refused(data: bytes) -> None:
    """Bytes that are no entry are refused, compressed or not; also JSON of another shape, and JSON
    that is nested too deeply.
    """
    with pytest.raises(ValueError, match=NO_ENTRY):
        loads(data, AT)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (packed([]), "has the type list, but it must have the type dict"),
        (packed({}), "KeyError: 'result'"),
        (b"text", "error: Error -3 while decompressing data"),
    ],
)
def test_the_error_says_what_is_wrong_with_an_entry(data: bytes, why: str) -> None:
    """The error says in words what may have happened, and what is wrong."""
    with pytest.raises(ValueError, match=f"{NO_ENTRY}.*{why}"):
        loads(data, AT)


@given(entries(), st.data())
def test_a_damaged_entry_is_refused_or_the_same(
    entry: CacheEntry, data: st.DataObject
) -> None:
    """An entry that is cut off or has a changed byte is refused, or is the same; it is never
    read with a gap in its rules."""
    written = bytearray(dumps(entry))
    at = data.draw(st.integers(0, len(written) - 1))
    with pytest.raises(ValueError, match=NO_ENTRY):
        loads(bytes(written[:at]), AT)
    written[at] ^= data.draw(st.integers(1, 255))
    with suppress(ValueError):
        assert loads(bytes(written), AT) == entry


@given(st.sampled_from(FIELDS), json_values)
def test_a_field_with_any_value_raises_nothing_but_value_error(
    name: str, value: object
) -> None:
    """Whatever the value of a field, reading the entry raises nothing but ValueError. An entry that
    is read can be used, and written again.
    """
    check_data(with_fields(**{name: value}))


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
    """A field of the wrong type, or out of its bounds, invalidates the entry."""
    body = b"Allow: /\n"
    assert loads(with_fields(body), AT) == entry(body, expires=START + 60)
    with pytest.raises(ValueError, match=NO_ENTRY):
        loads(with_fields(body, **changed), AT)


# What is bounded.


def test_a_compressed_bomb_is_not_decompressed() -> None:
    """A hundred megabytes, compressed to a tenth of one, are not decompressed."""
    bomb = zlib.compressobj(9)
    data = b"".join(bomb.compress(bytes(1024 * 1024)) for _ in range(100))
    written = data + bomb.flush()
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="truncated or too long"):
            loads(written, AT)
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_SIZE
    finally:
        tracemalloc.stop()


def test_only_the_first_redirects_and_headers_are_read() -> None:
    """Of more redirects and headers than a result has, only the first are read. No entry is fresh for
    more than 30 days, whatever it says.
    """
    redirects, headers = ["a"] * 9_999, [["age", "1"]] * 9_999
    kept = loads(with_fields(redirects=redirects, headers=headers, expires=LATEST), AT)
    assert len(kept.result.redirects) == len(kept.result.headers) == 16
    assert kept.expires == START + KEEP
