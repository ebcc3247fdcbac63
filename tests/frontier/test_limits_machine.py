"""Tests of :class:`Limits` with random steps of a crawl. The limits are compared with a slow and simple model, which
records what was sent and when it ended.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scrapy_rep.crawl.frontier.limits import READY, Stage
from scrapy_rep.crawl.frontier.sites import FetchStage, Phase
from tests import effort
from tests.frontier.steps import Crawl

if TYPE_CHECKING:
    from scrapy_rep.crawl.frontier.limits import InFlight, Limiter, Queue
    from scrapy_rep.crawl.frontier.sites import Site

pytestmark = pytest.mark.newest

HOSTS = st.sampled_from("abc")
SECONDS = st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 30.0])
WAIT_TIMEOUT = 20.0


class LimitsMachine(RuleBasedStateMachine):
    """Random steps of a crawl of three hosts. Each request is in the download slot of its host, or in a slot that all
    hosts share.
    """

    def __init__(self) -> None:
        super().__init__()
        self.crawl = Crawl(WAIT_TIMEOUT, concurrency=2)
        self.number = 0
        self.ended_at: dict[Limiter, float] = {}
        """For each limiter, the time when the last of its sent requests ended."""

        self.under_fetch: set[str] = set()
        """The hosts whose robots.txt is being fetched."""

    # Steps.

    def new_name(self, prefix: str) -> str:
        """Return a new name for a request. It begins with *prefix*."""
        self.number += 1
        return f"{prefix}{self.number}"

    def queue(self, host: str, kind: str) -> Queue:
        """Return a queue of *host*. Its *kind* is ``page``, ``shared`` (in the download slot that all hosts share), or
        ``exempt`` (of requests that ignore robots.txt and the crawl delay).
        """
        crawl = self.crawl
        if kind == "shared":
            return crawl.queue(host, slot="s", obeys=True)
        return crawl.queue(host, obeys=kind != "exempt", keeps_delay=kind != "exempt")

    @rule(
        host=HOSTS,
        kind=st.sampled_from(["page", "shared", "exempt"]),
        number=st.integers(1, 3),
    )
    def push(self, host: str, kind: str, number: int) -> None:
        names = [self.new_name(host) for _ in range(number)]
        self.crawl.push(self.queue(host, kind), *names)

    @rule()
    def plan(self) -> None:
        self.crawl.plan()

    def planned_requests(self) -> list[str]:
        return [
            name
            for name, entry in self.crawl.entries.items()
            if entry.stage is Stage.PLANNED
        ]

    def sent_or_refused_requests(self) -> list[str]:
        """Return the names of the requests that are being downloaded, and of those that the scheduler has handed out
        only so that the gate refuses them.
        """
        return [
            name
            for name, entry in self.crawl.entries.items()
            if entry.stage is not Stage.PLANNED
        ]

    @precondition(lambda self: self.planned_requests())
    @rule(
        data=st.data(),
        outcome=st.sampled_from(["send"] * 4 + ["return", "wait", "end"]),
    )
    def reach_the_wire(self, data: st.DataObject, outcome: str) -> None:
        crawl = self.crawl
        name = data.draw(st.sampled_from(self.planned_requests()))
        entry = crawl.entries[name]
        if outcome == "send" and self.try_send(entry):
            return
        if outcome == "end":
            crawl.end(name)
        elif outcome == "return" and entry.may_return:
            crawl.return_to_scheduler(name)
        else:
            crawl.wait_at_wire(name)
            self.check_decided()

    def try_send(self, entry: InFlight) -> bool:
        """Try to send a request, and return whether it was sent. Check that this is what the model expects."""
        has_room = all(self.has_room(limiter) for limiter in entry.needs)
        assert self.crawl.limits.try_send(entry, self.crawl.now) is has_room
        return has_room

    def has_room(self, limiter: Limiter) -> bool:
        """Return whether *limiter* allows another request to be sent, according to the model."""
        self.check_decided()
        sent = sum(
            entry.stage is Stage.SENT and limiter in entry.limiters
            for entry in self.crawl.entries.values()
        )
        ended_at = self.ended_at.get(limiter, -inf)
        is_early = limiter.delay and self.crawl.now < ended_at + limiter.delay
        if is_early:
            assert self.crawl.now < limiter.next_at
        return self.crawl.now >= limiter.next_at and sent < limiter.concurrency_now

    @precondition(lambda self: self.sent_or_refused_requests())
    @rule(data=st.data(), is_withdrawn=st.sampled_from([False] * 5 + [True]))
    def end(self, data: st.DataObject, is_withdrawn: bool) -> None:
        name = data.draw(st.sampled_from(self.sent_or_refused_requests()))
        entry = self.crawl.entries[name]
        if entry.stage is Stage.SENT and not is_withdrawn:
            for limiter in entry.limiters:
                self.ended_at[limiter] = self.crawl.now
        self.crawl.end(name, is_withdrawn=is_withdrawn)
        self.check_decided()

    @rule(host=HOSTS, kind=st.sampled_from(["page", "shared", "exempt"]))
    def download_file(self, host: str, kind: str) -> None:
        """Send a request from outside the scheduler, such as one for a file."""
        self.crawl.send_or_wait(self.new_name(f"{host}-file"), self.queue(host, kind))
        self.check_decided()

    @rule(host=HOSTS)
    def file_waits_for_rules(self, host: str) -> None:
        name = self.new_name(f"{host}-asks")
        self.crawl.wait_for_rules(name, self.queue(host, "page"))

    @precondition(lambda self: self.crawl.waiting)
    @rule(data=st.data())
    def cancel_waiter(self, data: st.DataObject) -> None:
        self.crawl.cancel_waiter(data.draw(st.sampled_from(list(self.crawl.waiting))))
        self.check_decided()

    def check_decided(self) -> None:
        """Check the requests whose wait has ended since the last call: none was sent before the end of a delay or
        pause.
        """
        for name in self.crawl.decided():
            entry = self.crawl.entries.get(name)
            if entry is not None and entry.stage is Stage.SENT:
                for limiter in entry.limiters:
                    ended_at = self.ended_at.get(limiter, -inf)
                    assert self.crawl.now >= ended_at + limiter.delay
                    assert self.crawl.now >= limiter.next_at

    @rule(is_needed=st.booleans())
    def fetch(self, is_needed: bool) -> None:
        site = self.crawl.limits.next_wanted(is_needed=is_needed)
        if site is not None:
            host = site.origin.host
            assert host not in self.under_fetch
            self.under_fetch.add(host)
            self.crawl.send_or_wait(
                f"{host}-robots", self.queue(host, "page"), is_for_robotstxt=True
            )
            self.check_decided()

    def fetches_without_request(self) -> list[str]:
        """Return the hosts for which the fetch of robots.txt can end now: its request was answered, refused or
        cancelled.
        """
        return sorted(
            self.under_fetch - {name[0] for name in self.robotstxt_requests()}
        )

    def robotstxt_requests(self) -> list[str]:
        """Return the requests for robots.txt that wait, or are planned or sent."""
        crawl = self.crawl
        return [
            name for name in (*crawl.waiting, *crawl.entries) if name.endswith("robots")
        ]

    @precondition(lambda self: self.fetches_without_request())
    @rule(
        data=st.data(),
        result=st.sampled_from(
            ["known"] * 4 + ["short", "unreachable", "retry-after", "none"]
        ),
        delay=st.sampled_from([0.0, 0.0, 1.0, 4.0]),
    )
    def end_fetch(self, data: st.DataObject, result: str, delay: float) -> None:
        crawl, now = self.crawl, self.crawl.now
        host = data.draw(st.sampled_from(self.fetches_without_request()))
        self.under_fetch.discard(host)
        site = crawl.site(host)
        crawl.limits.end_fetch(site)
        if result in {"known", "short"}:
            crawl.set_delay(host, delay)
            crawl.learn_rules(host, now + (1 if result == "short" else 1000))
        elif result == "none":
            crawl.limits.no_result(site, now)
        else:
            crawl.limits.unreachable(
                site, now, now + 3, wait=WAIT_TIMEOUT, is_asked=result == "retry-after"
            )
        self.check_decided()

    @rule(
        host=HOSTS,
        seconds=st.sampled_from([None, 1.0, 3.0, 25.0]),
        has_failed=st.booleans(),
    )
    def pause(self, host: str, seconds: float | None, has_failed: bool) -> None:
        self.crawl.pause(host, None if has_failed else seconds, has_failed=has_failed)
        self.check_decided()

    @rule(host=HOSTS, address=st.sampled_from(["192.0.2.1", "192.0.2.2"]))
    def answer_from(self, host: str, address: str) -> None:
        """Let *host* answer from *address*. The last digit of *address* is the number of requests that may be in flight
        to it: ``192.0.2.2`` allows two.
        """
        limiter = self.crawl.limiter(host)
        concurrency = int(address[-1])
        self.crawl.limits.set_address(limiter, address, concurrency, self.crawl.now)
        self.check_decided()

    @rule(host=HOSTS)
    def succeed(self, host: str) -> None:
        self.crawl.succeed(host)
        self.check_decided()

    @rule(seconds=SECONDS)
    def pause_network(self, seconds: float) -> None:
        self.crawl.limits.pause_network(self.crawl.now + seconds, self.crawl.now)

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        end = self.crawl.now + seconds
        while self.crawl.limits.alarms.first_at <= end:
            self.crawl.advance_to(
                max(self.crawl.limits.alarms.first_at, self.crawl.now)
            )
            self.check_decided()
        self.crawl.advance_to(end)
        self.check_decided()

    @rule()
    def sweep(self) -> None:
        self.crawl.limits.sweep(self.crawl.now)

    # Invariants.

    def limiters(self) -> list[Limiter]:
        """Return all limiters of the crawl."""
        network = self.crawl.limits.network
        hosts_and_slots = list(self.crawl.limits.limiters.values())
        delays = [
            limiter.crawl_delay for limiter in hosts_and_slots if limiter.crawl_delay
        ]
        addresses = self.crawl.limits.addresses.values()
        return [*hosts_and_slots, *delays, *addresses, network.pages, network.robotstxt]

    @invariant()
    def limiters_count_each_planned_and_sent_request(self) -> None:
        self.check_decided()
        for limiter in self.limiters():
            entries = [
                entry
                for entry in self.crawl.entries.values()
                if limiter in entry.limiters
            ]
            assert limiter.planned == sum(
                entry.stage is Stage.PLANNED for entry in entries
            )
            assert limiter.sent == sum(entry.stage is Stage.SENT for entry in entries)

    @invariant()
    def each_waiter_and_each_queue_with_requests_is_in_one_place(self) -> None:
        self.check_decided()
        limits = self.crawl.limits
        owners: list[Site | Limiter] = [*self.limiters(), *limits.sites.values()]
        parked = Counter(queue for owner in owners for queue in owner.parked or ())
        ready = Counter(
            queue
            for limiter in limits.limiters.values()
            for queue in limiter.ready or ()
        )
        assert ready.total() == limits.ready.count
        for queue in limits.queues.values():
            assert parked[queue] + ready[queue] == bool(queue.count)
            assert (queue.place is READY) == bool(ready[queue])
            if queue.place not in {None, READY}:
                assert queue in queue.place.parked  # type: ignore[attr-defined]
        waiters = Counter(
            waiter for limiter in self.limiters() for waiter in limiter.waiters or ()
        )
        for site in limits.sites.values():
            waiters.update(site.waiters or ())
        assert waiters == Counter(self.crawl.waiting.values())

    @invariant()
    def requests_that_may_be_sent_later_have_an_alarm(self) -> None:
        """Otherwise, they would wait forever."""
        limits, now = self.crawl.limits, self.crawl.now
        for limiter in self.limiters():
            if limiter.overtaker is not None:
                # When this request ends, the limiter is looked at again.
                assert limiter in limiter.overtaker.limiters
            is_overtaken = limiter.is_full and limiter.overtaker is not None
            if limiter.waiters and not is_overtaken:
                opens_at = limiter.opens_for_planned()
                # If the limiter allows a request now, a waiter lets a queue or planned requests go first, for 0.2
                # seconds at most.
                assert limiter.alarm_at <= (opens_at if opens_at > now else now + 0.2)
            if limiter.parked:
                opens_at = limiter.opens_for_queue(now)
                assert limiter.alarm_at <= opens_at or (
                    opens_at <= now and limits.ready.first() is not None
                )
        for site in limits.sites.values():
            if site.has_waiting:
                is_fetch_due = site.fetch_stage is not FetchStage.NONE
                assert (
                    site.phase is not Phase.OPEN
                    or now >= site.expires
                    or not site.parked
                )
                assert is_fetch_due or site.alarm_at < inf

    def teardown(self) -> None:
        """Check that each request is sent or refused in the end."""
        crawl = self.crawl
        for _ in range(2_000):
            self.check_decided()
            for host in self.fetches_without_request():
                self.under_fetch.discard(host)
                crawl.limits.end_fetch(crawl.site(host))
                crawl.learn_rules(host)
            self.fetch(is_needed=True)
            name = crawl.plan()
            if name is not None:
                continue
            for name in list(crawl.entries):
                entry = crawl.entries[name]
                if entry.stage is Stage.PLANNED and not self.try_send(entry):
                    crawl.wait_at_wire(name)
                    self.check_decided()
                elif entry.stage is not Stage.PLANNED or name.endswith("robots"):
                    crawl.end(name)
                    self.check_decided()
            if not (crawl.entries or crawl.waiting or self.queued()):
                break
            self.wait(0.5)
        assert not crawl.waiting, crawl.limits
        assert not self.queued()

    def queued(self) -> int:
        """Return the number of requests in all queues."""
        return sum(queue.count for queue in self.crawl.limits.queues.values())


TestLimits = LimitsMachine.TestCase
TestLimits.settings = settings(
    max_examples=1000 if effort.is_long else 60,
    stateful_step_count=60,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
