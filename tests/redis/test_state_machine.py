"""A state machine that drives the shared queue with random operations of workers."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

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

from scrapy_rep.crawl.frontier.backlog import Terms
from scrapy_rep.redis.worker import Answer, leases_of
from tests.redis.machine import Item, Member, Model, ms
from tests.redis.shared import (
    EXEMPT,
    HOUR,
    LEASE,
    OTHER,
    PAGES,
    SECURE,
    Shared,
    pop_buffer,
    queues_in_line,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fetching.redis_server import RedisServer

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

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
        self.model = Model(at_once=at_once, gap=gap, wait_timeout=WAIT_MAX)
        self.model.now = ms(self.shared.clock.monotonic())
        self.limits = {"limit": at_once, "gap": round(gap * 1000), "hosts": {}}
        for _ in range(WORKERS):
            self.start_a_worker()
        for queue, each in zip((PAGES, SECURE, OTHER), known, strict=True):
            if each is not None:
                self.say_known(self.members[0], queue, each)

    def call(
        self, member: Member, said: Callable[[], None] = lambda: None, **order: Any
    ) -> Answer:
        """The worker calls the server, which gets to know what has happened."""
        if "wanted" in order:
            order |= self.limits
        answer = member.worker.exchange(**order)
        pop_buffer(member.worker)
        assert answer is not None
        assert answer.returned == self.model.calls(member)
        said()
        self.model.tells(member)
        return answer

    # Workers.

    @precondition(lambda self: len(self.members) < WORKERS)
    @rule()
    def start_a_worker(self) -> None:
        member = Member(self.shared.worker(lives=False, wait_timeout=WAIT_MAX))
        self.members.append(member)
        self.call(member)

    @precondition(lambda self: len(self.members) > 1)
    @rule(number=members)
    def kill(self, number: int) -> None:
        """The worker does not call the server any more."""
        self.members.remove(self.member(number))

    @precondition(lambda self: len(self.members) > 1)
    @rule(number=members)
    def end(self, number: int) -> None:
        member = self.member(number)
        self.call(member, retires=True)
        self.model.retires(member)
        self.members.remove(member)

    @rule(number=members)
    def lose_an_answer(self, number: int) -> None:
        """The server executes the calls, but the worker does not get the answers."""
        member = self.member(number)
        answer = self.call(member, wanted=1, quota=1, enough=8)
        for popped in answer.found:
            self.model.popped(member, popped)
            del member.had[popped.number], member.worker.popped[popped.number]
            member.places.pop(popped.number, None)
        for popped in answer.wanted:
            self.model.fetches(member, popped.queue)
            member.fetching.remove(popped.queue)
            del member.worker.fetching[popped.queue]
        member.worker._link.has_lost_answer = True
        self.call(member)
        self.model.resyncs(member)

    # Requests.

    @rule(
        number=members,
        queue=st.sampled_from([PAGES, *QUEUES]),
        priority=st.sampled_from([0, 0, 1, -1]),
        times=st.integers(1, 3),
    )
    def push(self, number: int, queue: str, priority: int, times: int) -> None:
        member = self.member(number)
        for _ in range(times):
            rank = next(self.number)
            item = Item(f"{queue} {rank}", queue, (-priority, rank))
            member.worker.push(queue, -priority, item.name.encode())
            self.model.items.append(item)
        self.call(member)

    @rule(number=members, most=st.integers(0, 5), quota=st.integers(0, 3))
    def ask(self, number: int, most: int, quota: int) -> None:
        self.get(self.member(number), most, quota)

    def get(self, member: Member, most: int, quota: int) -> int:
        """Return how many requests and queues the worker gets."""
        model = self.model
        answer = self.call(member, wanted=most, quota=quota, enough=8)
        for popped in answer.found:
            model.popped(member, popped)
        for popped in answer.wanted:
            model.fetches(member, popped.queue)
            assert ms(popped.delay) == model.host(popped.queue).delay
        if len([one for one in answer.found if not one.tried]) < most:
            not_known = self.shared.content().get("wanted", {})
            for queue in QUEUES:
                if model.waiting(queue) and queue not in not_known:
                    assert not model.must_go(queue), f"{queue} is forgotten"
        return len(answer.found) + len(answer.wanted)

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
            lease = member.worker.popped[place]
            lease.is_sent = fetched
            is_success = fetched and succeeds and self.model.hosts[host].places < inf
            lease.succeeded_after = pause if is_success else 0
            member.worker.report_left(lease)
            left = (place, host, fetched, pauses if is_success else -1)
            member.left.append(left)

    @precondition(lambda self: any(member.had for member in self.members))
    @rule(number=members, which=which)
    def finish(self, number: int, which: int) -> None:
        member = self.member(number)
        numbers = [each for each in member.had if each not in member.places]
        if numbers:
            done = numbers[which % len(numbers)]
            del member.had[done]
            lease = member.worker.popped.pop(done)
            lease.pushed = member.worker.pushed
            member.worker.report_done(lease)
            member.done.append(done)

    @precondition(lambda self: any(member.had for member in self.members))
    @rule(number=members, which=which)
    def set_aside(self, number: int, which: int) -> None:
        """The worker has no callback of this name: others may have it."""
        member = self.member(number)
        if member.had:
            name = [*member.had][which % len(member.had)]
            tried = "".join(sorted(member.had[name].tried))
            lease = member.worker.popped.pop(name)
            lease.tried = tried
            member.worker.report_unreadable(lease)
            self.call(member, lambda: self.model.sets_aside(member, name))

    @rule(number=members)
    def tell(self, number: int) -> None:
        self.call(self.member(number))

    # Hosts.

    @precondition(lambda self: any(member.fetching for member in self.members))
    @rule(number=members, terms=st.sampled_from([None]) | terms | terms)
    def know(self, number: int, terms: Terms | None) -> None:
        member = self.member(number)
        if member.fetching:
            self.say_known(member, min(member.fetching), terms)

    def say_known(self, member: Member, queue: str, terms: Terms | None) -> None:
        member.worker.report_rules(queue, terms)
        self.call(member, lambda: self.model.knows(member, queue, terms))

    @precondition(lambda self: any(member.fetching for member in self.members))
    @rule(number=members)
    def refuse(self, number: int) -> None:
        """The host is given up: the worker takes its requests to refuse them."""
        member = self.member(number)
        if not member.fetching:
            return
        queue = min(member.fetching)
        for popped in self.call(member, refuses=queue).found:
            self.model.taken(member, popped)
        assert not self.model.waiting(queue)
        member.fetching.discard(queue)
        del member.worker.fetching[queue]
        self.model.accounts[member].fetching.discard(queue)

    @rule(number=members, host=st.sampled_from(HOSTS))
    def acquire(self, number: int, host: str) -> None:
        member = self.member(number)
        name = f"{next(self.number)}"
        found = self.call(member, acquire=(name, host)).acquired
        assert (found is not None) == self.model.acquires(member, name, host)
        if found is not None:
            member.worker.acquired[name] = found
        else:
            self.model.hosts[host].asked = self.model.now + ms(PATIENCE)

    @precondition(lambda self: any(member.acquired for member in self.members))
    @rule(number=members, delay=st.sampled_from([0.0, 1.0, 7.0]))
    def release(self, number: int, delay: float) -> None:
        member = self.member(number)
        for name in list(member.acquired)[:1]:
            lease = member.worker.acquired.pop(name)
            lease.is_sent = bool(delay)
            member.worker.report_left(lease, delay=delay)
            self.call(member)
            self.model.releases(member, name, delay)

    @rule(
        number=members,
        host=st.sampled_from(HOSTS),
        pause=st.sampled_from([0.5, 2.0, 7.0, WAIT_MAX + 10]),
        own=st.sampled_from([1.0, 2.0]),
    )
    def back_off(self, number: int, host: str, pause: float, own: float) -> None:
        member = self.member(number)
        member.worker.report_pause(host, pause, own)
        self.model.calls(member)
        self.model.tells(member)
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
        model, content = self.model, self.shared.content()
        in_line, wanted = queues_in_line(content), content.get("wanted", {})
        assert not in_line & wanted.keys()
        for queue in QUEUES:
            names = [each[14:] for each in content.get(f"queue:{queue}", {})]
            assert names == [item.name for item in model.waiting(queue)]
            assert not names or queue in in_line or queue in wanted
        assert self.shared.count() == len(model.items) + len(model.aside)
        aside = {each.rpartition("\n")[2][14:] for each in content.get("aside", {})}
        assert aside == {item.name for item in model.aside}
        leases = [name for name in content if name.startswith("leases:")]
        assert {
            name.removeprefix("leases:"): sorted(content[name]) for name in leases
        } == {
            member.name: fields
            for member, account in model.accounts.items()
            if (
                fields := sorted(
                    leases_of(account.items, account.places, account.fetching)
                )
            )
        }
        for host in HOSTS:
            in_flight = state_of(content, host).get("in_flight", 0)
            assert in_flight == model.under_way(host)

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
            if not self.model.items and not self.count_all():
                break
            self.pass_time(min(self.members[0].worker.again, LEASE / 4))
        took = (self.model.now - began) / 1000
        assert not self.model.items, f"{len(self.model.items)} are never handed out"
        names = {member.name for member in self.members}
        assert all(names <= item.tried for item in self.model.aside)
        assert not self.count_all()
        assert took < 5 * LEASE + WAIT_MAX + 10 + (7 + 3 + 20) * (items + 1), (
            f"It took {took} s"
        )
        self.check_that_nothing_is_left()

    def count_all(self) -> int:
        """Return how many requests at most a worker could still get, with those set aside."""
        for member in self.members:
            self.call(member)
        return max(member.worker.count_all() for member in self.members)

    def work(self, number: int) -> None:
        member = self.member(number)
        is_busy = True
        while is_busy:
            while member.fetching:
                self.know(number, Terms(300.0))
            while member.places:
                self.leave(number, 0, fetched=True)
            while member.had:
                self.finish(number, 0)
            is_busy = self.get(member, 1, 3) > 0
        self.nothing_is_lost()

    def check_that_nothing_is_left(self) -> None:
        for _ in range(WORKERS + len(self.model.accounts)):
            self.pass_time(LEASE / 4)
            self.tell(0)
        names = self.shared.content().keys()
        names -= {
            "workers",
            "state",
            *["aside"] * bool(self.model.aside),
        }
        assert all(name.startswith(("host:", "pauses")) for name in names), names
        for name in names:
            assert self.shared.ends_in(name) <= 25 * HOUR

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
            max_examples=2 * settings.default.max_examples,
            stateful_step_count=40,
            suppress_health_check=list(HealthCheck),
        ),
    )
