"""A model of the shared queue in plain Python: the content it must have after each operation."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from tests.redis.shared import LEASE

if TYPE_CHECKING:
    from scrapy_rep.crawl.frontier.backlog import Terms
    from scrapy_rep.redis.worker import Lease, Worker


REMEMBERED = 600_000
"""Milliseconds after a pause in which the server surely remembers it."""


@dataclass(eq=False)
class Item:
    """A request that is in the queue, or handed out to a worker."""

    name: str
    queue: str
    rank: tuple[int, int]
    holder: Member | None = None
    tried: set[str] = field(default_factory=set)
    """The workers that could not read it, while it is set aside."""


@dataclass(eq=False)
class Member:
    """A worker."""

    worker: Worker
    had: dict[str, Item] = field(default_factory=dict)
    """The requests that the worker believes to have, by number."""

    places: dict[str, str] = field(default_factory=dict)
    """The places at hosts that the worker believes to have, by number."""

    fetching: set[str] = field(default_factory=set)
    acquired: dict[str, str] = field(default_factory=dict)
    left: list[tuple[str, str, bool, int]] = field(default_factory=list)
    """With the number of pauses that the host had asked for, if it has answered well since."""

    pauses: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By request, the number of pauses that its host had asked for when it was handed out, and
    that of the last pause of all hosts."""

    done: list[str] = field(default_factory=list)
    """The numbers of finished requests that it has not reported yet."""

    @property
    def name(self) -> str:
        return self.worker._name


@dataclass(eq=False)
class Account:
    """What the server records about a worker that it takes for alive."""

    expires: float
    items: dict[str, Item] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    fetching: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Host:
    """When the next request may go to a host. All moments are in milliseconds."""

    free: float = -inf
    last_start: float = -inf
    asked: float = -inf
    known: dict[str, int] = field(default_factory=dict)
    delays: dict[str, int] = field(default_factory=dict)

    # Back-off.
    paused: float = -inf
    pauses: int = 0
    places: float = inf
    own: int = 0
    since: float = inf

    @property
    def delay(self) -> int:
        return max(self.delays.values(), default=0)


class Model:
    """Does what the scripts on the server do, and fails where they do otherwise."""

    def __init__(self, *, at_once: int, gap: float, wait_timeout: float) -> None:
        self.now = 0
        self.wait_timeout = ms(wait_timeout)
        self.at_once = at_once
        self.gap = ms(gap)
        self.items: list[Item] = []
        self.aside: list[Item] = []
        self.hosts: dict[str, Host] = {}
        self.accounts: dict[Member, Account] = {}

    def host(self, queue: str) -> Host:
        return self.hosts.setdefault(host_of(queue), Host())

    def under_way(self, host: str) -> int:
        return sum(
            place == host
            for account in self.accounts.values()
            for place in account.places.values()
        )

    def waiting(self, queue: str) -> list[Item]:
        """The requests of a queue, best first."""
        found = [one for one in self.items if one.queue == queue and not one.holder]
        return sorted(found, key=lambda item: item.rank)

    # Workers.

    def calls(self, member: Member) -> int:
        """The worker calls the server, which renews its lease. Return how many requests of a dead
        worker come back.
        """
        expires = self.now + ms(LEASE)
        self.accounts.setdefault(member, Account(expires)).expires = expires
        dead = [
            (account.expires, each.name, each)
            for each, account in self.accounts.items()
            if account.expires <= self.now
        ]
        return self.retires(min(dead)[2], fetched=True) if dead else 0

    def retires(self, member: Member, *, fetched: bool = False) -> int:
        account = self.accounts.pop(member, None)
        if account is None:
            return 0
        for host in account.places.values():
            if fetched:
                self._note_end(host)
        for item in account.items.values():
            item.holder = None
        return len(account.items)

    def resyncs(self, member: Member) -> None:
        """The worker has missed an answer, and has told the server what it has."""
        account = self.accounts[member]
        for number in account.items.keys() - member.had.keys():
            account.items.pop(number).holder = None
        for number in (
            account.places.keys() - member.places.keys() - member.acquired.keys()
        ):
            self._note_end(account.places.pop(number))
        account.fetching &= member.fetching

    # Requests.

    def sets_aside(self, member: Member, number: str) -> None:
        """The worker cannot read a request that it has."""
        account = self.accounts[member]
        member.places.pop(number, None)
        account.places.pop(number, None)
        item = member.had.pop(number)
        if account.items.pop(number, None) is not None:
            item.holder = None
            item.tried.add(member.name)
            self.items.remove(item)
            self.aside.append(item)

    def tells(self, member: Member) -> None:
        """The worker reports which requests have ended."""
        account = self.accounts[member]
        for number, host, fetched, pauses in member.left:
            account.places.pop(number, None)
            if fetched:
                self._note_end(host)
            if pauses == self.hosts[host].pauses:
                self.hosts[host].places += 1
                self.hosts[host].own = 0
        for number in member.done:
            item = account.items.pop(number, None)
            if item is not None:
                self.items.remove(item)
        member.left.clear()
        member.done.clear()

    def must_go(self, queue: str) -> bool:
        """Return whether a request of *queue* must be handed out now, if it has one."""
        host = self.host(queue)
        if self.under_way(host_of(queue)) >= host.places or self.is_refused(queue):
            return False
        return self.may_go(queue) and self.now >= host.asked

    def is_refused(self, queue: str) -> bool:
        """Return whether requests of *queue* are refused for the back-off of its host."""
        host = self.host(queue)
        if host.paused <= self.now and not self.under_way(host_of(queue)):
            return False
        is_long = host.own > 0 and self.now - host.since >= self.wait_timeout
        return host.paused - self.now > self.wait_timeout or is_long

    def may_go(self, queue: str) -> bool:
        host = self.host(queue)
        most = 1 if host.delay else self.at_once
        if self.now < host.paused + REMEMBERED:
            most = min(most, host.places)
        return (
            (queue.endswith("\t") or host.known.get(queue, -inf) > self.now)
            and self.under_way(host_of(queue)) < most
            and self.now >= max(host.free, host.last_start + self.gap)
        )

    def popped(self, member: Member, popped: Lease) -> None:
        host = self.host(popped.queue)
        if popped.tried:
            [item] = (one for one in self.aside if one.name == popped.data.decode())
            assert member.name not in item.tried
            assert set(names_of(popped.tried)) == item.tried
            item.holder = member
            self.aside.remove(item)
            self.items.append(item)
            self.accounts[member].items[popped.number] = member.had[popped.number] = (
                item
            )
            return
        if not popped.has_place:
            assert self.is_refused(popped.queue)
            self.taken(member, popped)
            return
        assert self.may_go(popped.queue), f"{popped} is early"
        self.taken(member, popped)
        member.pauses[popped.number] = host.pauses, member.worker.last_pause
        self.accounts[member].places[popped.number] = host_of(popped.queue)
        member.places[popped.number] = host_of(popped.queue)
        host.last_start = self.now

    def taken(self, member: Member, popped: Lease) -> None:
        best = self.waiting(popped.queue)[0]
        assert popped.data.decode() == best.name
        best.tried.clear()
        best.holder = member
        self.accounts[member].items[popped.number] = member.had[popped.number] = best

    # Hosts.

    def backs_off(self, name: str, pause: float, own: float) -> None:
        host = self.hosts.setdefault(name, Host())
        host.paused = max(host.paused, self.now + ms(pause))
        host.free = max(host.free, host.paused)
        host.since = host.since if host.own else self.now
        host.own, host.places = max(host.own, ms(own)), 1
        host.pauses += 1

    def fetches(self, member: Member, queue: str) -> None:
        assert not queue.endswith("\t")
        assert self.waiting(queue)
        assert self.host(queue).known.get(queue, -inf) <= self.now
        for account in self.accounts.values():
            assert queue not in account.fetching
        self.accounts[member].fetching.add(queue)
        member.fetching.add(queue)

    def knows(self, member: Member, queue: str, terms: Terms | None) -> None:
        member.fetching.discard(queue)
        self.accounts[member].fetching.discard(queue)
        if terms is None:
            return
        host = self.host(queue)
        host.known[queue] = self.now + ms(terms.holds)
        host.free = max(host.free, self.now + ms(terms.delay))
        host.delays[queue] = ms(terms.delay)

    def acquires(self, member: Member, number: str, name: str) -> bool:
        """Return whether the worker gets the place."""
        host = self.hosts.setdefault(name, Host())
        is_early = self.now < max(host.free, host.last_start + self.gap)
        if self.under_way(name) or is_early:
            return False
        # The queues that waited for this request are checked at the latest when it was asked for
        # long enough ago, so the moment of that stays.
        self.accounts[member].places[number] = member.acquired[number] = name
        return True

    def releases(self, member: Member, number: str, delay: float) -> None:
        name = member.acquired.pop(number)
        self.accounts[member].places.pop(number, None)
        if delay:
            host = self.hosts[name]
            host.free = max(host.free, self.now + max(ms(delay), host.delay))

    def _note_end(self, name: str) -> None:
        host = self.hosts[name]
        host.free = max(host.free, self.now + host.delay)


def names_of(tried: str) -> list[str]:
    """The names of workers, which are written one after the other."""
    return re.findall(".{32}", tried)


def host_of(queue: str) -> str:
    return queue.partition("\t")[0]


def ms(seconds: float) -> int:
    return round(1000 * seconds)
