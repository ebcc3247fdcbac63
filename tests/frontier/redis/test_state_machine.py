"""A state machine that drives the shared queue with random operations of workers.

``SCRAPY_REP_STATE_EXAMPLES`` is the number of crawls, ``SCRAPY_REP_STATE_STEPS`` the number
of steps in each.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from itertools import count
from math import inf
from typing import TYPE_CHECKING, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from scrapy_rep.frontier.redis.learning import Terms
from scrapy_rep.frontier.redis.worker import Limits, Popped
from tests.frontier.redis.machine import Item, Member, Model, ms
from tests.frontier.redis.shared import (
    EXEMPT,
    HOUR,
    LEASE,
    OTHER,
    PAGES,
    SECURE,
    Shared,
    learned,
    refuse,
    release,
    take_one,
    unknown_to,
)

if TYPE_CHECKING:
    from tests.stores.redis_server import RedisServer

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

EXAMPLES = int(os.environ.get("SCRAPY_REP_STATE_EXAMPLES", "25"))
STEPS = int(os.environ.get("SCRAPY_REP_STATE_STEPS", "40"))

QUEUES = (PAGES, SECURE, EXEMPT, OTHER)
HOSTS = ("a.example", "b.example", "c.example")
WORKERS = 3
PATIENCE = 3.0
WAIT_MAX = 20.0

which = st.integers(0, 20)
members = st.integers(0, WORKERS - 1)
terms = st.builds(
    Terms,
    holds=st.sampled_from([5.0, 300.0, 300.0]),
    delay=st.sampled_from([0.0, 0.0, 1.0, 7.0]),
    ago=st.sampled_from([0.0, 0.5, 100.0]),
    opens=st.sampled_from([0.0, 0.0, 0.0, 20.0]),
)


class SharedQueueMachine(RuleBasedStateMachine):
    server: ClassVar[RedisServer]

    def __init__(self) -> None:
        super().__init__()
        self.patches = ExitStack()
        self.number = count()
        self.members: list[Member] = []

    @initialize(
        at_once=st.sampled_from([1, 2, 8]),
        gap=st.sampled_from([0, 0, 0.5]),
        known=st.lists(st.none() | terms, min_size=3, max_size=3),
    )
    def begin(self, at_once: int, gap: float, known: list[Terms | None]) -> None:
        self.server.client().flushall()
        self.shared = self.patches.enter_context(Shared(self.server))
        self.model = Model(at_once=at_once, gap=gap, wait_max=WAIT_MAX)
        self.model.now = ms(self.shared.clock.monotonic())
        self.limits = Limits(at_once, round(gap * 1000))
        for _ in range(WORKERS):
            self.start_a_worker()
        for queue, each in zip((PAGES, SECURE, OTHER), known, strict=True):
            if each is not None:
                each = each._replace(opens=0.0)
                learned(self.members[0].worker, queue, each)
                self.model.learned(self.members[0], queue, each)

    # Workers.

    @precondition(lambda self: len(self.members) < WORKERS)
    @rule()
    def start_a_worker(self) -> None:
        member = Member(self.shared.worker(lives=False, wait_max=WAIT_MAX))
        self.members.append(member)
        self.beat(len(self.members) - 1)

    @rule(number=members)
    def beat(self, number: int) -> None:
        member = self.member(number)
        assert member.worker.beat() == self.model.beats(member)

    @precondition(lambda self: len(self.members) > 1)
    @rule(number=members)
    def kill(self, number: int) -> None:
        """The worker does not call the server any more."""
        self.members.remove(self.member(number))

    @precondition(lambda self: len(self.members) > 1)
    @rule(number=members)
    def end(self, number: int) -> None:
        member = self.member(number)
        member.worker.retire()
        self.model.retires(member)
        self.members.remove(member)

    @rule(number=members)
    def lose_an_answer(self, number: int) -> None:
        """The server executes the calls, but the worker does not get the answers."""
        member = self.member(number)
        if member not in self.model.accounts:
            return
        found = take_one(member.worker, self.limits)
        self.model.tells(member)
        if found is not None:
            self.model.popped(member, found)
            del member.had[found.number]
            member.places.pop(found.number, None)
        for unknown in unknown_to(member.worker, 1, 8):
            self.model.learns(member, unknown.queue)
            member.learning.remove(unknown.queue)
        member.worker._link.has_lost_answer = True

    @rule(number=members)
    def resync(self, number: int) -> None:
        member = self.member(number)
        link = member.worker._link
        if not link.has_lost_answer:
            return
        member.worker.resync(
            member.had, [*member.places, *member.acquired], member.learning
        )
        if member not in self.model.accounts:
            self.model.lives(member)
            assert link.has_lost_answer
        else:
            self.model.resyncs(member, member.learning)

    # Requests.

    @rule(
        number=members,
        queue=st.sampled_from([PAGES, *QUEUES]),
        priority=st.sampled_from([0, 0, 1, -1]),
        times=st.integers(1, 3),
    )
    def push(self, number: int, queue: str, priority: int, times: int) -> None:
        for _ in range(times):
            rank = next(self.number)
            item = Item(f"{queue} {rank}", queue, (-priority, rank))
            worker = self.member(number).worker
            worker.push(queue, -priority, item.name.encode())
            self.model.items.append(item)
        self.tell(number)

    @rule(number=members, times=st.integers(1, 5))
    def pop(self, number: int, times: int) -> None:
        for _ in range(times):
            self.pop_one(number)

    def pop_one(self, number: int) -> Popped | None:
        member = self.member(number)
        model = self.model
        found = take_one(member.worker, self.limits)
        if member not in model.accounts:
            assert found is None
            model.lives(member)
            return None
        model.tells(member)
        if found is not None:
            model.popped(member, found)
        else:
            unknown = self.shared.unknown()
            for queue in QUEUES:
                if model.waiting(queue) and queue not in unknown:
                    assert not model.must_go(queue), f"{queue} is forgotten"
        return found

    @precondition(lambda self: any(member.places for member in self.members))
    @rule(number=members, which=which, fetched=st.booleans(), succeeds=st.booleans())
    def leave(
        self, number: int, which: int, fetched: bool, succeeds: bool = False
    ) -> None:
        member = self.member(number)
        if member.places:
            place = [*member.places][which % len(member.places)]
            host = member.places.pop(place)
            pauses, pause = member.pauses.pop(place)
            if fetched and succeeds and self.model.hosts[host].places < inf:
                member.worker.left(place, host, fetched=fetched, pause=pause)
                member.left.append((place, host, fetched, pauses))
            else:
                member.worker.left(place, host, fetched=fetched)
                member.left.append((place, host, fetched, -1))

    @precondition(lambda self: any(member.had for member in self.members))
    @rule(number=members, which=which)
    def finish(self, number: int, which: int) -> None:
        member = self.member(number)
        numbers = [each for each in member.had if each not in member.places]
        if numbers:
            done = numbers[which % len(numbers)]
            del member.had[done]
            member.worker.done(done)
            member.done.append(done)

    @rule(number=members)
    def tell(self, number: int) -> None:
        member = self.member(number)
        if not member.worker.has_reports:
            return
        member.worker.report()
        self.model.lives_again(member)
        self.model.tells(member)

    # Hosts.

    @rule(number=members, quota=st.integers(1, 3))
    def learn(self, number: int, quota: int) -> None:
        member = self.member(number)
        found = unknown_to(member.worker, quota, 8)
        if member not in self.model.accounts:
            assert not found
            self.model.lives(member)
            return
        self.model.tells(member)
        for unknown in found:
            self.model.learns(member, unknown.queue)
            assert ms(unknown.delay) == self.model.host(unknown.queue).delay

    @precondition(lambda self: any(member.learning for member in self.members))
    @rule(number=members, terms=st.sampled_from([None]) | terms | terms)
    def learned(self, number: int, terms: Terms | None) -> None:
        member = self.member(number)
        if member.learning:
            queue = min(member.learning)
            learned(member.worker, queue, terms)
            self.model.lives_again(member)
            self.model.tells(member)
            self.model.learned(member, queue, terms)

    @precondition(lambda self: any(member.learning for member in self.members))
    @rule(number=members)
    def refuse(self, number: int) -> None:
        """The host is given up: the worker takes its requests to refuse them."""
        member = self.member(number)
        if not member.learning:
            return
        queue = min(member.learning)
        popped, left = refuse(member.worker, queue)
        if member not in self.model.accounts:
            self.model.lives(member)
            assert (popped, left) == (None, 1)
            return
        if popped is not None:
            self.model.taken(member, popped)
        assert left == len(self.model.waiting(queue))
        if not left:
            member.learning.discard(queue)
            self.model.accounts[member].learning.discard(queue)

    @rule(number=members, host=st.sampled_from(HOSTS))
    def acquire(self, number: int, host: str) -> None:
        member = self.member(number)
        name = f"{next(self.number)}"
        found = member.worker.acquire(name, host)
        if member not in self.model.accounts:
            self.model.lives(member)
            assert not found
            return
        assert found == self.model.acquires(member, name, host)
        if not found:
            self.model.hosts[host].asked = self.model.now + ms(PATIENCE)

    @precondition(lambda self: any(member.acquired for member in self.members))
    @rule(number=members, delay=st.sampled_from([0.0, 1.0, 7.0]))
    def release(self, number: int, delay: float) -> None:
        member = self.member(number)
        for name, host in list(member.acquired.items())[:1]:
            release(member.worker, name, host, delay, fetched=bool(delay))
            self.model.lives_again(member)
            self.model.tells(member)
            self.model.releases(member, name, delay)

    @rule(
        number=members,
        host=st.sampled_from(HOSTS),
        pause=st.sampled_from([0.5, 2.0, 7.0, WAIT_MAX + 10]),
        own=st.sampled_from([1.0, 2.0]),
    )
    def back_off(self, number: int, host: str, pause: float, own: float) -> None:
        self.member(number).worker.back_off(host, pause, own)
        self.model.backs_off(host, pause, own)

    # Time.

    @rule(seconds=st.sampled_from([0.001, 0.5, 1.0, 2.0, 7.0, 20.0, LEASE + 1]))
    def pass_time(self, seconds: float) -> None:
        self.shared.advance(seconds)
        self.model.now = ms(self.shared.clock.monotonic())

    # Invariants.

    @invariant()
    def nothing_is_lost(self) -> None:
        if not self.members:
            return
        shared, model = self.shared, self.model
        ready, unknown = shared.ready(), shared.unknown()
        assert not ready.keys() & unknown.keys()
        for queue in QUEUES:
            data = shared.redis.zrange(shared.key(f"queue:{queue}"), 0, -1)
            names = [each[14:].decode() for each in data]
            assert names == [item.name for item in model.waiting(queue)]
            assert not names or queue in ready or queue in unknown
        assert shared.count() == len(model.items)
        leases = [name for name in shared.names() if name.startswith("leases:")]
        held: dict[str, list[str]] = {}
        for name in leases:
            fields = shared.redis.hkeys(shared.key(name))
            held[name.removeprefix("leases:")] = sorted(map(bytes.decode, fields))
        assert held == {
            member.name: sorted(
                [f"={number}" for number in account.items]
                + [f"@{number}" for number in account.places]
            )
            for member, account in model.accounts.items()
            if account.items or account.places
        }
        for host in HOSTS:
            assert shared.host(host).get("in_flight", 0) == model.under_way(host)

    def teardown(self) -> None:
        with self.patches:
            if self.members:
                self.finish_all()

    def finish_all(self) -> None:
        """If all requests end, all that wait are handed out within a bounded
        time, and no keys are left.
        """
        began = self.model.now
        items = len(self.model.items)
        for member in self.members:
            for _ in list(member.acquired):
                self.release(self.members.index(member), 0.0)
        for _ in range(100 + 10 * items):
            for number in range(len(self.members)):
                self.work(number)
            if not self.model.items:
                break
            self.pass_time(min(self.members[0].worker.again, LEASE / 4))
        took = (self.model.now - began) / 1000
        assert not self.model.items, f"{len(self.model.items)} are never handed out"
        assert took < 5 * LEASE + WAIT_MAX + 10 + (7 + 3 + 20) * (items + 1), (
            f"It took {took} s"
        )
        self.check_that_nothing_is_left()

    def work(self, number: int) -> None:
        member = self.member(number)
        self.beat(number)
        self.resync(number)
        self.learn(number, 3)
        while member.learning:
            self.learned(number, Terms(300.0))
        while member.places or self.pop_one(number):
            while member.places:
                self.leave(number, 0, fetched=True)
        while member.had:
            self.finish(number, 0)
        self.tell(number)
        self.pop_one(number)
        self.nothing_is_lost()

    def check_that_nothing_is_left(self) -> None:
        for _ in range(WORKERS + len(self.model.accounts)):
            self.pass_time(LEASE / 4)
            self.beat(0)
        names = self.shared.names() - {"number", "ended", "workers"}
        assert all(name.startswith(("host:", "pauses")) for name in names), names
        for name in names:
            assert self.shared.ends_in(name) <= 2 * HOUR

    def member(self, number: int) -> Member:
        return self.members[number % len(self.members)]


def test_any_workers(redis_server: RedisServer) -> None:
    """With any operations of workers, no request is lost, sent twice or too early, no host
    starves, and priorities hold.
    """
    SharedQueueMachine.server = redis_server
    run_state_machine_as_test(
        SharedQueueMachine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
