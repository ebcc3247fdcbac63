"""A stateful property test of the shared queue. Hypothesis draws sequences of calls, deaths and suspensions of workers,
failures of connections, and waits. A simple model checks the queue.
"""

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

from tests.redis.workers import LEASE, Worker, fake_queue

pytestmark = pytest.mark.newest
HOSTS = st.sampled_from("abc")
WORKERS = st.integers(0, 2)
"""The index of a worker."""

DELAY = 5.0


class Machine(RuleBasedStateMachine):
    """Random steps of three workers, and a model of the queue. Each request is in the queue, is taken by one worker, or
    is done. Each host has at most one owner. Between the end of a request with a permit and the next request to the
    same host, at least ``DELAY`` seconds pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self.queue = fake_queue()
        self.queue.__enter__()
        self.workers = [self.queue.worker() for _ in range(3)]
        self.number = 0
        """The number of the newest request or permit."""

        self.pushed: set[str] = set()
        """The names of the requests that must not get lost."""

        self.done: set[str] = set()
        """The names of the requests that workers have finished, whether or not the server knows."""

        self.permits: dict[str, tuple[Worker, float | None]] = {}
        """For each host, the worker that got the last permit, and the time when the request with this permit ended. The
        time is None if the request has not ended.
        """

    def teardown(self) -> None:
        self.drain()
        self.queue.__exit__()

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
            self.pushed.add(name)

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
            worker.finish(name)
            self.done.add(name)

    @rule(index=WORKERS, data=st.data())
    def give_back_host(self, index: int, data: st.DataObject) -> None:
        worker = self.workers[index]
        if worker.owned:
            host = data.draw(st.sampled_from(sorted(worker.owned)))
            worker.give_back_host(host, next_in=2.0)

    @rule(index=WORKERS, host=HOSTS)
    def request_permit(self, index: int, host: str) -> None:
        """Check that a permit is granted only after the delay of its host."""
        worker = self.workers[index]
        if worker.client.failure or worker.permits:
            return
        self.number += 1
        answer = worker.call(permits=[(f"{index} {self.number}", host, 1, DELAY)])
        if answer is None or answer.has_lost or answer.permits[0].wait:
            return
        worker.permits.add(answer.permits[0].token)
        if host in self.permits:
            _, ended_at = self.permits[host]
            assert ended_at is not None, "The last permit is still in use"
            assert self.queue.now >= ended_at + DELAY
        self.permits[host] = worker, None

    @rule(index=WORKERS)
    def release_permits(self, index: int) -> None:
        worker = self.workers[index]
        for token in list(worker.permits):
            worker.release_permit(token)
            self.end_permits(worker)

    def end_permits(self, worker: Worker) -> None:
        """Record in the model that all requests with permits of *worker* end now."""
        for host, (holder, ended_at) in list(self.permits.items()):
            if holder is worker and ended_at is None:
                self.permits[host] = worker, self.queue.now

    @rule(seconds=st.sampled_from([1.0, 6.0, 20.0]))
    def wait(self, seconds: float) -> None:
        # These times are shorter than the lease, so a worker that has just called stays alive.
        self.queue.advance_clock(seconds)
        for worker in self.workers:
            if not worker.is_alive:
                self.end_permits(worker)

    @rule(index=WORKERS)
    def suspend(self, index: int) -> None:
        """Suspend all workers for longer than the lease. Afterwards, the worker *index* is the first that calls the
        server.
        """
        self.queue.advance_clock(LEASE + 1)
        for worker in self.workers:
            self.end_permits(worker)
        self.workers[index].call()

    @rule(index=WORKERS)
    def kill(self, index: int) -> None:
        worker = self.workers[index]
        # New requests that were not yet sent to the server are lost with the worker. A real crawl does not lose them:
        # on the server, the page whose callback yielded them is not done, so the page is requested again.
        self.pushed -= {push.data.decode() for push in worker.exchange.unsent}
        self.end_permits(worker)
        self.workers[index] = self.queue.worker()

    @rule(index=WORKERS, failure=st.sampled_from(["", "before", "after"]))
    def set_connection_failure(self, index: int, failure: str) -> None:
        self.workers[index].client.failure = failure

    @precondition(
        lambda self: all(not worker.client.failure for worker in self.workers)
    )
    @rule(index=WORKERS)
    def retire(self, index: int) -> None:
        worker = self.workers[index]
        if worker.call() is not None:
            worker.retire()
            self.end_permits(worker)
            self.workers[index] = self.queue.worker()

    @invariant()
    def each_host_and_each_request_has_at_most_one_worker(self) -> None:
        alive = [worker for worker in self.workers if worker.is_alive]
        hosts = [host for worker in alive for host in worker.owned]
        assert len(hosts) == len({*hosts})
        numbers = [number for worker in alive for number in worker.taken]
        assert len(numbers) == len({*numbers})

    def drain(self) -> None:
        """Let a new worker take all remaining requests. Check that no request is lost, and that no request that is done
        on the server is delivered again.
        """
        for worker in self.workers:
            worker.client.failure = ""
            # After a failure, the first call repeats the old reports, and the second one sends the new reports.
            for _ in range(2):
                worker.call()
        done_on_server = set(self.queue.done_on_server)
        self.queue.advance_clock(LEASE + 1)
        last, names = self.queue.worker(), set()
        for _ in range(400):
            more = [(host, 9) for host, count in last.on_server.items() if count]
            names |= {*last.take(100, more=more)}
            last.finish(*names)
            self.queue.advance_clock(1)
            if not last.last_answer.remaining and not last.reports["done"]:
                break
        assert last.last_answer.remaining == 0
        assert self.pushed <= names | self.done
        assert not names & done_on_server
        keys = [
            key
            for key in self.queue.stored_keys()
            if key.startswith(("queue", "taken"))
        ]
        assert keys == []


TestMachine = Machine.TestCase
