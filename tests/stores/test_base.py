"""The serialized form of entries: a whole entry is restored, and other bytes are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep.exceptions import StoreNotInstalled
from scrapy_rep.protocol.access.results import AccessResult, Entry
from scrapy_rep.stores import open_store
from scrapy_rep.stores.base import MAX_BODY, dumps, loads
from scrapy_rep.stores.memory import MemoryStore
from scrapy_rep.stores.redis import RedisStore
from scrapy_rep.stores.sqlite import SqliteStore
from tests.stores.places import TOO_LONG, entry

times = st.floats(allow_nan=False, allow_infinity=False)
bodies = st.binary() | st.binary(max_size=5).map(lambda part: part * 500)
results = st.builds(
    AccessResult,
    url=st.text(),
    status=st.none() | st.integers(0, 999),
    headers=st.lists(st.tuples(st.text(), st.text())).map(tuple),
    body=bodies,
    redirects=st.lists(st.text()).map(tuple),
    error=st.text(),
)
entries = st.builds(
    Entry,
    result=results,
    fetched=times,
    expires=times,
    unreachable_since=st.none() | times,
    attempts=st.integers(0, 10**9),
    copy=st.none() | results,
    copy_fetched=st.none() | times,
)
FIELDS = (
    "attempts", "copy", "copy_fetched", "deflated", "error", "expires", "fetched", "headers",
    "redirects", "size", "status", "unreachable_since", "url",
)  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda value: st.lists(value) | st.dictionaries(st.text(), value),
)


def sealed(content: bytes, magic: bytes = b"rep\x01") -> bytes:
    """Return *content* with a valid header, so that the reader goes past the header."""
    return magic + zlib.crc32(content).to_bytes(4, "big") + content


def with_fields(body: bytes, /, **changed: object) -> bytes:
    """Return an entry with *changed* fields and *body*, and a valid header."""
    fields: dict[str, object] = {
        "url": "https://example.com/robots.txt",
        "fetched": 1.5,
        "expires": 2,
        "attempts": 0,
        "size": len(body),
        "deflated": False,
        **changed,
    }
    return sealed(json.dumps(fields).encode() + b"\n" + body)


class TestWhole:
    @given(entries)
    def test_round_trip(self, entry: Entry) -> None:
        """An entry is the same after writing and reading."""
        assert loads(dumps(entry)) == entry

    def test_a_body_of_any_size(self) -> None:
        """A body can have any size, from zero to the limit."""
        for size in (0, 1, 199, 200, 201, MAX_BODY):
            assert loads(dumps(entry(b"#" * size))) == entry(b"#" * size)

    def test_long_bodies_are_deflated(self) -> None:
        """A robots.txt is compressed to a fraction; an incompressible body does not grow."""
        body = b"".join(b"Disallow: /directory-%d/\n" % line for line in range(1000))
        assert len(dumps(entry(body))) < len(body) / 4
        random = bytes(range(256))
        assert len(dumps(entry(random))) < len(random) + 300

    def test_fields_are_what_they_say(self) -> None:
        """The helper of the next test writes a valid entry if nothing is changed."""
        found = loads(with_fields(b"Allow: /\n"))
        assert found is not None
        assert found.result.body == b"Allow: /\n"


class TestGarbage:
    @given(st.binary())
    def test_octets(self, data: bytes) -> None:
        """Bytes that are no entry give None, also after a valid header."""
        assert loads(data) is None
        assert loads(sealed(data)) is None

    @given(json_values)
    def test_json(self, value: object) -> None:
        """JSON of another shape gives None."""
        assert loads(sealed(json.dumps(value).encode() + b"\n")) is None

    @given(entries, st.data())
    def test_damage(self, entry: Entry, data: st.DataObject) -> None:
        """An entry that is cut off or has a changed byte gives None, never rules with a gap."""
        written = bytearray(dumps(entry))
        at = data.draw(st.integers(0, len(written) - 1))
        assert loads(bytes(written[:at])) is None
        written[at] ^= data.draw(st.integers(1, 255))
        assert loads(bytes(written)) is None

    @given(st.sampled_from(FIELDS), json_values)
    def test_fields(self, name: str, value: object) -> None:
        """A field of any value never raises, and an entry that is read can be written again."""
        found = loads(with_fields(b"", **{name: value}))
        assert found is None or loads(dumps(found)) == found

    @pytest.mark.parametrize(
        "changed",
        [
            {"attempts": None},
            {"copy": []},
            {"copy": {"copy": {}}},
            {"deflated": True},
            {"expires": float("inf")},
            {"fetched": 10**400},
            {"fetched": "now"},
            {"headers": [["age"]]},
            {"headers": [["age", 7]]},
            {"redirects": 7},
            {"size": -1},
            {"size": 8},
            {"status": "200"},
            {"url": None},
        ],
        ids=str,
    )
    def test_fields_that_can_not_be(self, changed: dict[str, object]) -> None:
        """A field of the wrong type invalidates the entry."""
        assert loads(with_fields(b"Allow: /\n", **changed)) is None

    def test_another_version(self) -> None:
        """An entry in the format of a later version gives None."""
        content = dumps(entry())[8:]
        assert loads(sealed(content)) == entry()
        assert loads(sealed(content, magic=b"rep\x02")) is None

    def test_nesting(self) -> None:
        """JSON that is nested too deeply gives None."""
        assert loads(sealed(b'{"copy":' + b"[" * 100_000 + b"\n")) is None


class TestBounds:
    def test_no_longer_body_is_written(self) -> None:
        """Writing a body beyond the limit raises."""
        with pytest.raises(ValueError, match="600001 bytes is too long"):
            dumps(entry(TOO_LONG))
        with pytest.raises(ValueError, match="600001 bytes is too long"):
            dumps(entry(copy=entry(TOO_LONG).result))

    @pytest.mark.parametrize("time", [float("nan"), float("inf")])
    def test_no_time_without_end_is_written(self, time: float) -> None:
        """Writing a time that is NaN or infinite raises."""
        with pytest.raises(ValueError, match="not JSON compliant"):
            dumps(entry(expires=time))

    def test_no_longer_body_is_read(self) -> None:
        """A body beyond the limit gives None, compressed or not."""
        assert loads(with_fields(TOO_LONG)) is None
        assert loads(with_fields(zlib.compress(TOO_LONG), deflated=True)) is None

    def test_a_bomb(self) -> None:
        """A hundred megabytes, compressed to a tenth of one, are not decompressed."""
        bomb = zlib.compressobj(9)
        data = b"".join(bomb.compress(bytes(1024 * 1024)) for _ in range(100))
        written = with_fields(data + bomb.flush(), deflated=True)
        tracemalloc.start()
        try:
            assert loads(written) is None
            assert tracemalloc.get_traced_memory()[1] < 4 * MAX_BODY
        finally:
            tracemalloc.stop()

    def test_what_follows_a_body(self) -> None:
        """A compressed body with trailing or missing bytes gives None."""
        body = zlib.compress(b"Allow: /\n")
        assert loads(with_fields(body, deflated=True)) is not None
        assert loads(with_fields(body + b"Disallow: /", deflated=True)) is None
        assert loads(with_fields(body[:-1], deflated=True)) is None


BOUNDS = {"max_entries": 10, "max_bytes": 10_000}


class TestOpenStore:
    @pytest.mark.parametrize(
        ("uri", "kind"),
        [
            ("memory://", MemoryStore),
            ("sqlite:///robots.db", SqliteStore),
            ("sqlite:////var/lib/robots.db", SqliteStore),
            ("redis://localhost", RedisStore),
            ("redis://:secret@localhost:6380/3", RedisStore),
            ("redis://[::1]:6380/3?socket_timeout=0.5", RedisStore),
            ("rediss://localhost:6380/3", RedisStore),
            ("unix:///run/redis.sock?db=2", RedisStore),
        ],
    )
    def test_kinds(self, uri: str, kind: type) -> None:
        """The scheme selects the kind of store; nothing is opened yet."""
        store = open_store(uri, **BOUNDS)
        assert type(store) is kind
        assert store.blocking is (kind is not MemoryStore)
        store.close()

    def test_bounds(self) -> None:
        """A store in memory has the requested bounds."""
        store = open_store("memory://", max_entries=2, max_bytes=10_000)
        for number in range(5):
            store.put(f"http://{number}", entry(), 0)
        assert [store.get(f"http://{number}", 0) is None for number in range(5)] == (
            [True] * 3 + [False] * 2
        )

    @pytest.mark.parametrize(
        "uri",
        [
            "",
            "memory",
            "memory:",
            "memory://elsewhere",
            "mysql://localhost/robots",
            "redis:",
            "redis://localhost:port/0",
            "redis://localhost:0/0",
            "redis://localhost/robots",
            "redis://user:pass/word@localhost/0",
            "redis://localhost?socket_timeout=soon",
            "redis://[::1",
            "robots.db",
            "sqlite://",
            "sqlite:///",
            "sqlite:///:memory:",
            "sqlite:///robots\0.db",
            "sqlite://robots.db",
            "unix://",
        ],
    )
    def test_bad_uris(self, uri: str) -> None:
        """Any other address is refused with a sentence that lists the valid forms, and
        does not repeat possible secrets.
        """
        with pytest.raises(
            ValueError, match=r"^The address of a store must be memory://"
        ):
            open_store(uri, **BOUNDS)

    def test_a_relative_path_stays_where_it_was(
        self, tmp_path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A relative path starts at the working directory at the time of opening."""
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.chdir(tmp_path)
        store = open_store("sqlite:///kept/robots.db", **BOUNDS)
        monkeypatch.chdir(elsewhere)
        store.put("http://example.com", entry(), 0)
        store.close()
        assert (tmp_path / "kept" / "robots.db").is_file()

    def test_no_client(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without the Redis client, the error says how to install it, and has no secrets."""
        for name in ("redis", "redis.exceptions"):
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(StoreNotInstalled) as raised:
            open_store("redis://:secret@localhost:6379/0", **BOUNDS)
        assert str(raised.value) == (
            "redis://***@localhost:6379/0: it needs a package that is not installed: "
            "pip install 'scrapy-rep[redis]'"
        )

    def test_nothing_is_loaded_that_is_not_needed(self) -> None:
        """A store in memory imports neither SQLite nor the Redis client."""
        code = (
            "import sys; from scrapy_rep.stores import open_store;"
            "open_store('memory://', max_entries=1, max_bytes=1);"
            "print([name for name in ('redis', 'sqlite3', 'twisted.internet.reactor')"
            " if name in sys.modules])"
        )
        # Coverage measurement would import SQLite.
        env = {name: value for name, value in os.environ.items() if "COV" not in name}
        found = subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env=env,
        )
        assert found.stdout.strip() == "[]"
