"""Any sequence of what workers do, with deaths, suspensions, lost answers and two clocks, against a plain model."""

from __future__ import annotations

import pytest

pytest.importorskip("scrapy_redis")

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.redis.workers import LEASE, Worker, fake

pytestmark = pytest.mark.newest
HOSTS = st.sampled_from("abc")
WORKERS = st.integers(0, 2)
DELAY = 5.0


class Machine(RuleBasedStateMachine):
    """The model: each request is in the queue, with one worker, or done; each host has one owner; and of a host with a
    delay, no two requests are nearer to each other than that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shared = fake()
        self.shared.__enter__()
        self.workers = [self.shared.worker() for _ in range(3)]
        self.number = 0
        self.accepted: set[str] = set()
        self.done: set[str] = set()
        self.sent: dict[str, tuple[Worker, float | None]] = {}
        """Of each host, who has sent the last request with a permit, and when it ended."""

    def teardown(self) -> None:
        self.drain()
        self.shared.__exit__()

    @initialize()
    def begin(self) -> None:
        for worker in self.workers:
            worker.call()

    @rule(index=WORKERS, host=HOSTS, score=st.integers(-2, 2), count=st.integers(1, 4))
    def push(self, index: int, host: str, score: int, count: int) -> None:
        for _ in range(count):
            self.number += 1
            name = f"{host}{self.number}"
            self.workers[index].push(name, host=host, score=score)
            self.accepted.add(name)

    @rule(index=WORKERS, room=st.integers(0, 5))
    def call(self, index: int, room: int) -> None:
        worker = self.workers[index]
        more = [(host, 2) for host, count in worker.on_server.items() if count]
        worker.call(room=room, more=more)

    @rule(index=WORKERS, data=st.data())
    def finish(self, index: int, data: st.DataObject) -> None:
        worker = self.workers[index]
        names = sorted(taken.data.decode() for taken in worker.taken.values())
        if names and worker.is_alive:
            name = data.draw(st.sampled_from(names))
            worker.done(name)
            self.done.add(name)

    @rule(index=WORKERS, data=st.data())
    def leave(self, index: int, data: st.DataObject) -> None:
        worker = self.workers[index]
        if worker.owned:
            worker.leave(data.draw(st.sampled_from(sorted(worker.owned))), next_in=2.0)

    @rule(index=WORKERS, host=HOSTS)
    def ask(self, index: int, host: str) -> None:
        worker = self.workers[index]
        if worker.client.fails or worker.held:
            return
        self.number += 1
        answer = worker.call(permits=[(f"{index} {self.number}", host, 1, DELAY)])
        if answer is None or answer.has_lost or answer.permits[0].wait:
            return
        worker.held.add(answer.permits[0].token)
        if host in self.sent:
            _, ended = self.sent[host]
            assert ended is not None
            assert self.shared.now >= ended + DELAY
        self.sent[host] = worker, None

    @rule(index=WORKERS)
    def end(self, index: int) -> None:
        worker = self.workers[index]
        for token in list(worker.held):
            worker.end(token)
            self.ended(worker)

    def ended(self, worker: Worker) -> None:
        for host, (sender, ended) in list(self.sent.items()):
            if sender is worker and ended is None:
                self.sent[host] = worker, self.shared.now

    @rule(seconds=st.sampled_from([1.0, 6.0, 20.0]))
    def wait(self, seconds: float) -> None:
        # No longer than a worker lives that has just called.
        self.shared.advance(seconds)
        for worker in self.workers:
            if not worker.is_alive:
                self.ended(worker)

    @rule(index=WORKERS)
    def suspend(self, index: int) -> None:
        """All but one are silent for longer than the lease."""
        self.shared.advance(LEASE + 1)
        for worker in self.workers:
            self.ended(worker)
        self.workers[index].call()

    @rule(index=WORKERS)
    def kill(self, index: int) -> None:
        worker = self.workers[index]
        # What the server did not have dies with it; the request that has made it does not count as done.
        self.accepted -= {push.data.decode() for push in worker.exchange.unsent}
        self.ended(worker)
        self.workers[index] = self.shared.worker()

    @rule(index=WORKERS, how=st.sampled_from(["", "before", "after"]))
    def connection(self, index: int, how: str) -> None:
        self.workers[index].client.fails = how

    @precondition(lambda self: all(not worker.client.fails for worker in self.workers))
    @rule(index=WORKERS)
    def retire(self, index: int) -> None:
        worker = self.workers[index]
        if worker.call() is not None:
            worker.retire()
            self.ended(worker)
            self.workers[index] = self.shared.worker()

    @invariant()
    def each_has_one_owner(self) -> None:
        alive = [worker for worker in self.workers if worker.is_alive]
        hosts = [host for worker in alive for host in worker.owned]
        assert len(hosts) == len({*hosts})
        numbers = [number for worker in alive for number in worker.taken]
        assert len(numbers) == len({*numbers})

    def drain(self) -> None:
        """Let a new worker get all that is left: nothing is lost, and nothing that is done comes again."""
        for worker in self.workers:
            worker.client.fails = ""
            for _ in range(2):  # After a failure, the first one repeats what was told.
                worker.call()
        self.certain = set(self.shared.certain)
        self.shared.advance(LEASE + 1)
        last, names = self.shared.worker(), set()
        for _ in range(400):
            more = [(host, 9) for host, count in last.on_server.items() if count]
            names |= {*last.take(100, more=more)}
            last.done(*names)
            self.shared.advance(1)
            if not last.last.remaining and not last.reports["done"]:
                break
        assert last.last.remaining == 0
        assert self.accepted <= names | self.done
        assert not names & self.certain
        keys = [
            key for key in self.shared.names() if key.startswith(("queue", "taken"))
        ]
        assert keys == []


TestMachine = Machine.TestCase
