"""The contract of every store, whatever keeps its entries."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.exceptions import StoreError
from scrapy_rep.stores.base import KEEP
from tests.stores.places import DAY, ORIGIN, START, TOO_LONG, entry

if TYPE_CHECKING:
    from tests.stores.places import Place

THREADS = 8


class TestEntries:
    def test_nothing_is_there_at_first(self, place: Place) -> None:
        """A get for an unknown origin returns None."""
        assert place.store().get(ORIGIN, place.now) is None

    def test_what_is_put_is_there(self, place: Place) -> None:
        """Every store on the same entries returns what one of them has put, byte for byte."""
        put = entry(
            b"\xff\x00\r\n" * 1000,
            redirects=("https://example.com/robots.txt",),
            headers=(("content-type", "text/plain; charset=utf-8"), ("age", "7")),
        )
        one, other = place.store(), place.store()
        one.put(ORIGIN, put, place.now)
        assert one.get(ORIGIN, place.now) == other.get(ORIGIN, place.now) == put

    def test_an_unreachable_one_brings_its_copy(self, place: Place) -> None:
        """The cached copy of an unreachable robots.txt is stored with its entry."""
        put = entry(
            b"",
            status=None,
            error="Connection refused",
            unreachable_since=START - 5,
            attempts=3,
            copy=entry(b"Disallow: /\n" * 100).result,
        )
        store = place.store()
        store.put(ORIGIN, put, place.now)
        assert store.get(ORIGIN, place.now) == put

    def test_the_last_one_counts(self, place: Place) -> None:
        """A put replaces the earlier entry."""
        store = place.store()
        store.put(ORIGIN, entry(b"before"), place.now)
        store.put(ORIGIN, entry(b"after"), place.now)
        assert store.get(ORIGIN, place.now) == entry(b"after")

    def test_origins_are_apart(self, place: Place) -> None:
        """Each origin (scheme, host and port) has its own entry."""
        origins = [ORIGIN, "http://example.com", f"{ORIGIN}:8443", "https://[::1]"]
        store = place.store()
        for origin in origins:
            store.put(origin, entry(origin.encode()), place.now)
        for origin in origins:
            assert store.get(origin, place.now) == entry(origin.encode())

    def test_what_ran_out_is_kept_for_when_it_is_needed(self, place: Place) -> None:
        """An entry is kept for 30 days after it has expired, and no longer."""
        store = place.store()
        store.put(ORIGIN, entry(), place.now)
        place.pass_time(DAY + KEEP - 60)
        assert store.get(ORIGIN, place.now) == entry()
        place.pass_time(120)
        assert store.get(ORIGIN, place.now) is None

    def test_what_ran_out_too_long_ago_is_not_kept(self, place: Place) -> None:
        """Putting an entry that is out of use removes the earlier one."""
        store = place.store()
        store.put(ORIGIN, entry(), place.now)
        store.put(ORIGIN, entry(expires=START - KEEP - 1), place.now)
        assert store.get(ORIGIN, place.now) is None

    @pytest.mark.parametrize(
        "fields", [{"body": TOO_LONG}, {"fetched": float("nan")}], ids=["body", "time"]
    )
    def test_what_can_not_be_written_down_is_not_kept(
        self, place: Place, fields: dict[str, object]
    ) -> None:
        """An entry with too long a body or an invalid time is not kept, and the earlier
        entry is not returned as the last one.
        """
        store = place.store()
        store.put(ORIGIN, entry(), place.now)
        store.put(ORIGIN, entry(**fields), place.now)
        assert store.get(ORIGIN, place.now) is None

    def test_it_may_hold_as_long_as_it_likes(self, place: Place) -> None:
        """An entry that expires in the far future can be stored."""
        store = place.store()
        store.put(ORIGIN, entry(expires=1e300), place.now)
        assert store.get(ORIGIN, place.now) == entry(expires=1e300)


class TestLocks:
    @pytest.fixture
    def place(self, shared_place: Place) -> Place:
        """A memory store is for one process, which needs no locks."""
        return shared_place

    def test_one_has_it(self, place: Place) -> None:
        """While one owner holds a lock, no other gets it, from any store."""
        one, other = place.store(), place.store()
        assert one.lock(ORIGIN, "one", 30, place.now)
        assert not one.lock(ORIGIN, "other", 30, place.now)
        assert not other.lock(ORIGIN, "other", 30, place.now)

    def test_one_of_many_at_once_has_it(self, place: Place) -> None:
        """Of owners that ask at the same moment, exactly one gets the lock."""
        stores = [place.store() for _ in range(THREADS)]
        barrier = Barrier(THREADS)

        def ask(number: int) -> list[bool]:
            got = []
            for attempt in range(10):
                barrier.wait(30)
                origin = f"{ORIGIN}:{attempt + 1}"
                got.append(stores[number].lock(origin, str(number), 30, place.now))
            return got

        with ThreadPoolExecutor(THREADS) as threads:
            asked = list(threads.map(ask, range(THREADS)))
        assert [sum(answers) for answers in zip(*asked, strict=True)] == [1] * 10

    def test_origins_are_apart(self, place: Place) -> None:
        """A lock is for one origin, and is no entry."""
        store = place.store()
        assert store.lock(ORIGIN, "one", 30, place.now)
        assert store.lock("http://example.com", "other", 30, place.now)
        assert store.get(ORIGIN, place.now) is None

    def test_unlocking_lets_the_next_have_it(self, place: Place) -> None:
        """After an unlock, another owner can get the lock."""
        one, other = place.store(), place.store()
        assert one.lock(ORIGIN, "one", 30, place.now)
        one.unlock(ORIGIN, "one")
        assert other.lock(ORIGIN, "other", 30, place.now)
        assert not one.lock(ORIGIN, "one", 30, place.now)

    def test_only_the_owner_unlocks(self, place: Place) -> None:
        """An owner cannot unlock the lock of another owner, even if it held the lock before."""
        one, other = place.store(), place.store()
        assert one.lock(ORIGIN, "one", 30, place.now)
        other.unlock(ORIGIN, "other")
        assert not other.lock(ORIGIN, "other", 30, place.now)
        place.pass_time(31)
        assert other.lock(ORIGIN, "other", 30, place.now)
        one.unlock(ORIGIN, "one")
        assert not one.lock(ORIGIN, "one", 30, place.now)

    def test_unlocking_what_is_not_locked_is_nothing(self, place: Place) -> None:
        """Unlocking an expired lock is no error."""
        place.store().unlock(ORIGIN, "one")

    def test_a_dead_owner_loses_it(self, place: Place) -> None:
        """A lock expires after its seconds, and not before."""
        one, other = place.store(), place.store()
        assert one.lock(ORIGIN, "one", 30, place.now)
        place.pass_time(29)
        assert not other.lock(ORIGIN, "other", 30, place.now)
        place.pass_time(2)
        assert other.lock(ORIGIN, "other", 30, place.now)

    def test_the_owner_can_have_it_for_longer(self, place: Place) -> None:
        """An owner that locks again renews its seconds."""
        one, other = place.store(), place.store()
        assert one.lock(ORIGIN, "one", 30, place.now)
        place.pass_time(20)
        assert one.lock(ORIGIN, "one", 30, place.now)
        place.pass_time(20)
        assert not other.lock(ORIGIN, "other", 30, place.now)


def test_threads_get_whole_entries(place: Place) -> None:
    """Threads that put and get concurrently get whole entries."""
    store = place.store()
    bodies = [bytes([number]) * 5000 for number in range(THREADS)]

    def work(number: int) -> set[bytes]:
        found = set()
        for _ in range(25):
            store.put(ORIGIN, entry(bodies[number]), place.now)
            got = store.get(ORIGIN, place.now)
            assert got is not None
            found.add(got.result.body)
        return found

    with ThreadPoolExecutor(THREADS) as threads:
        for found in threads.map(work, range(THREADS)):
            assert found <= set(bodies)


def test_closed_is_closed(place: Place) -> None:
    """A closed store raises StoreError, and can be closed again."""
    store = place.store()
    store.put(ORIGIN, entry(), place.now)
    store.close()
    store.close()
    for call in (
        lambda: store.get(ORIGIN, place.now),
        lambda: store.put(ORIGIN, entry(), place.now),
        lambda: store.put(ORIGIN, entry(TOO_LONG), place.now),
        lambda: store.lock(ORIGIN, "one", 30, place.now),
        lambda: store.unlock(ORIGIN, "one"),
    ):
        with pytest.raises(StoreError, match="it is closed"):
            call()


def test_a_store_can_be_closed_before_it_is_used(place: Place) -> None:
    """A store that was never used can be closed."""
    place.store().close()
