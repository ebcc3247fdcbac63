"""The format of entries: a whole entry is restored, and anything else is refused."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep import CLASSIC, GOOGLE, RFC9309
from scrapy_rep.protocol.access.results import AccessResult, Entry, renew, robots_of
from scrapy_rep.stores.entries import KEEP, MAX_SIZE, dumps, loads
from tests.stores.places import START, URL, entry

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
    is_permanent=st.booleans(),
    is_dropped=st.booleans(),
)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    """Return an entry as :func:`renew` makes them."""
    fetched = draw(times)
    expires = fetched + draw(st.floats(0, KEEP))
    result, copy = draw(results), draw(st.none() | results)
    known = {
        "result": result,
        "fetched": fetched,
        "expires": min(expires, fetched + KEEP),
    }
    if copy is not None:
        known |= {"result": replace(result, body=b""), "copy": copy}
        known |= {"copy_fetched": draw(times), "unreachable_since": draw(times)}
        known |= {"attempts": draw(st.integers(0, 10**9))}
    return Entry(**known)


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
    "attempts", "copy", "copy_fetched", "expires", "fetched", "result", "unreachable_since",
}  # fmt: skip
FIELDS = sorted(
    {*OF_ENTRY, "error", "headers", "is_dropped", "is_permanent", "redirects", "status"}
)


def check_use(found: Entry) -> None:
    """Use an entry as a crawl does."""
    for dialect in (RFC9309, GOOGLE, CLASSIC):
        failed = AccessResult(url=URL, status=503)
        for each in (found, renew(failed, found, dialect=dialect, now=START)):
            assert each.is_fresh(START) in {True, False}
            assert robots_of(each, dialect).is_allowed(URL, "mybot") in {True, False}
            assert each.expires <= each.fetched + KEEP


class TestWhole:
    @given(entries())
    def test_round_trip(self, entry: Entry) -> None:
        """An entry is the same after writing and reading."""
        assert loads(dumps(entry), URL) == entry

    def test_it_is_compressed(self) -> None:
        """A robots.txt is compressed to a fraction; an incompressible body does not grow."""
        body = b"".join(b"Disallow: /directory-%d/\n" % line for line in range(1000))
        assert len(dumps(entry(body))) < len(body) / 4
        random = bytes(range(256))
        assert len(dumps(entry(random))) < len(random) + 200

    def test_fields_are_what_they_say(self) -> None:
        """The helper of the next tests writes a valid entry if nothing is changed."""
        assert loads(with_fields(b"Allow: /\n"), URL) == entry(
            b"Allow: /\n", expires=START + 60
        )


class TestGarbage:
    @given(st.binary())
    def test_octets(self, data: bytes) -> None:
        """Bytes that are no entry are refused, compressed or not."""
        for each in (data, zlib.compress(data)):
            with pytest.raises(ValueError, match=r"."):
                loads(each, URL)

    @given(json_values)
    def test_json(self, value: object) -> None:
        """JSON of another shape is refused."""
        with pytest.raises(ValueError, match=r"."):
            loads(packed(value), URL)

    @given(entries(), st.data())
    def test_damage(self, entry: Entry, data: st.DataObject) -> None:
        """An entry that is cut off or has a changed byte is refused, or is the same; it is never
        read with a gap in its rules."""
        written = bytearray(dumps(entry))
        at = data.draw(st.integers(0, len(written) - 1))
        with pytest.raises(ValueError, match=r"."):
            loads(bytes(written[:at]), URL)
        written[at] ^= data.draw(st.integers(1, 255))
        with suppress(ValueError):
            assert loads(bytes(written), URL) == entry

    @given(st.sampled_from(FIELDS), json_values)
    def test_fields(self, name: str, value: object) -> None:
        """A field with any value raises nothing but ValueError, and an entry that is read can be
        used, and written again."""
        try:
            found = loads(with_fields(**{name: value}), URL)
        except ValueError:
            return
        check_use(found)
        assert loads(dumps(found), URL) == found

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
            {"unreachable_since": -1e300},
            {"headers": [["age"]]},
            {"headers": [["age", 7]]},
            {"headers": "ab"},
            {"redirects": 7},
            {"redirects": "ab"},
            {"status": "200"},
            {"status": 10**20},
        ],
        ids=str,
    )
    def test_fields_that_can_not_be(self, changed: dict[str, object]) -> None:
        """A field of the wrong type, or out of its bounds, invalidates the entry."""
        with pytest.raises(ValueError, match=r"."):
            loads(with_fields(b"Allow: /\n", **changed), URL)

    def test_nesting(self) -> None:
        """JSON that is nested too deeply is refused."""
        with pytest.raises(ValueError, match="RecursionError"):
            loads(zlib.compress(b'{"copy":' + b"[" * 100_000 + b"\n"), URL)


class TestBounds:
    def test_no_longer_entry_is_written(self) -> None:
        """An entry beyond the limit is not written."""
        for each in (entry(bytes(MAX_SIZE)), entry(error="x" * MAX_SIZE)):
            with pytest.raises(ValueError, match="bytes are too long to be stored"):
                dumps(each)
        random = Random(5).randbytes(MAX_SIZE - 100)
        with pytest.raises(ValueError, match="bytes are too long to be stored"):
            dumps(entry(random))
        body = b"#" * 600_000
        assert loads(dumps(entry(body)), URL).result.body == body

    def test_a_bomb(self) -> None:
        """A hundred megabytes, compressed to a tenth of one, are not decompressed."""
        bomb = zlib.compressobj(9)
        data = b"".join(bomb.compress(bytes(1024 * 1024)) for _ in range(100))
        written = data + bomb.flush()
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match="cut off, or too long"):
                loads(written, URL)
            assert tracemalloc.get_traced_memory()[1] < 4 * MAX_SIZE
        finally:
            tracemalloc.stop()

    def test_many_redirects(self) -> None:
        """Of more redirects and headers than a result has, only the first are read."""
        found = loads(
            with_fields(redirects=["a"] * 9_999, headers=[["age", "1"]] * 9_999), URL
        )
        assert len(found.result.redirects) == len(found.result.headers) == 16

    def test_fresh_for_ever(self) -> None:
        """No entry is fresh for more than 30 days, whatever it says."""
        found = loads(with_fields(expires=LATEST), URL)
        assert found.expires == START + KEEP
