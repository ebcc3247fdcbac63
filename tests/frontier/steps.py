"""A crawl in steps, without Scrapy: what scheduler, gate and wire do with the limits, and when."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING

from scrapy_rep.crawl.frontier.limits import InFlight, Limits, Queue, Stage, Waiter
from scrapy_rep.protocol.origins import Origin

if TYPE_CHECKING:
    from scrapy_rep.crawl.frontier.limits import Limiter
    from scrapy_rep.crawl.frontier.sites import Site


class Names:
    """The requests of a queue, by their names: those that were put back first, then the oldest one."""

    def __init__(self) -> None:
        self._returned: deque[str] = deque()
        self._names: deque[str] = deque()
        self.push = self._names.append
        self.back = self._returned.append

    def pop(self) -> str:
        return (self._returned or self._names).popleft()

    @property
    def count(self) -> int:
        return len(self._returned) + len(self._names)

    def peek(self) -> str | None:
        return next(iter(self._returned or self._names), None)


class Crawl:
    """The steps of a crawl. Requests have names, such as ``a1``; each host has a queue."""

    def __init__(self, wait_timeout: float = 60.0, concurrency: float = inf) -> None:
        """A download slot has *concurrency* requests in flight at most."""
        self.now = 0.0
        self.concurrency = concurrency
        self.limits = Limits(wait_timeout)
        self.entries: dict[str, InFlight] = {}
        """The requests that are planned or sent."""

        self.waiting: dict[str, Waiter] = {}
        """The requests that wait past the scheduler."""

        self.at_once: list[str] = []
        """The requests past the scheduler that did not have to wait."""

    # What there is.

    def limiter(self, key: str) -> Limiter:
        is_new = key not in self.limits.limiters
        limiter = self.limits.limiter(key)
        if is_new:
            limiter.set_concurrency(self.concurrency)
        return limiter

    def site(self, host: str) -> Site:
        return self.limits.site(Origin("http", host, 80))

    def queue(
        self,
        host: str,
        *,
        slot: str = "",
        obeys: bool = False,
        keeps_delay: bool = True,
    ) -> Queue:
        """Return the queue of *host*, in the download slot of the host or another *slot*. If it *obeys*, it
        waits for robots.txt.
        """
        key = host, slot, obeys, keeps_delay
        if key not in self.limits.queues:
            queue = Queue(
                key,
                self.site(host) if obeys else None,
                self.limits.limiter(host) if slot else self.limiter(host),
                slot=self.limiter(slot or host),
                network=self.limits.network,
                keeps_delay=keeps_delay,
            )
            queue.requests = Names()
            self.limits.add(queue)
        return self.limits.queues[key]

    # The scheduler.

    def push(self, queue: Queue, *names: str) -> None:
        for name in names:
            queue.requests.push(name)
            self.limits.filled(queue, self.now)

    def plan(self) -> str | None:
        """Return the next request, which is planned then; in capitals if it is to be refused."""
        while (queue := self.limits.ready.first()) is not None:
            if self.limits.may_plan(queue, self.now):
                name: str = queue.requests.pop()
                entry = self.limits.plan(queue, self.now)
                self.entries[name] = self.limits.in_flight[name] = entry
                return name if entry.stage is Stage.PLANNED else name.upper()
        return None

    def plan_all(self) -> list[str]:
        return list(iter(self.plan, None))

    def returns(self, name: str) -> None:
        """Gate or wire return the request to the scheduler."""
        entry = self.entries.pop(name)
        del self.limits.in_flight[name]
        self.limits.end(entry, self.now)
        entry.queue.requests.back(name)
        self.limits.filled(entry.queue, self.now)

    # The wire.

    def send(self, name: str) -> bool:
        """Return whether a planned request is sent."""
        entry = self.entries[name]
        return self.limits.try_send(entry, self.now)

    def go(self) -> str | None:
        """Plan the next request, and send it; or have it wait at the wire, if another one has its room."""
        name = self.plan()
        if (
            name in self.entries
            and self.entries[name].stage is Stage.PLANNED
            and not self.send(name)
        ):
            self.at_wire(name)
        return name

    def at_wire(self, name: str) -> None:
        """A request that is planned, but has no room, waits at the wire."""
        entry = self.entries.pop(name)
        self.limits.in_flight.pop(name, None)
        self.limits.unplan(entry, self.now)
        self.waiting[name] = Waiter(entry)
        self.limits.wait(self.waiting[name], self.now)

    def go_all(self) -> list[str]:
        return list(iter(self.go, None))

    def end(self, name: str, *, is_withdrawn: bool = False) -> None:
        entry = self.entries.pop(name)
        self.limits.in_flight.pop(name, None)
        self.limits.end(entry, self.now, is_withdrawn=is_withdrawn)

    # Requests past the scheduler.

    def wait(
        self,
        name: str,
        queue: Queue,
        *,
        is_for_robotstxt: bool = False,
        is_first: bool = False,
    ) -> None:
        """A request waits for room: that for a robots.txt before it is downloaded, others at the wire."""
        entry = InFlight(queue, is_for_robotstxt=is_for_robotstxt)
        if not is_for_robotstxt and self.limits.try_send(entry, self.now):
            self.entries[name] = self.limits.in_flight[name] = entry
            self.at_once.append(name)
            return
        self.waiting[name] = waiter = Waiter(
            entry,
            counts_as_planned=is_for_robotstxt,
            is_first=is_first,
        )
        self.limits.wait(waiter, self.now)

    def wait_for_rules(self, name: str, queue: Queue) -> None:
        waiter = self.waiting[name] = Waiter(InFlight(queue))
        assert queue.site is not None
        self.limits.wait_for_rules(waiter, queue.site, self.now)

    def leave(self, name: str) -> None:
        self.limits.leave(self.waiting.pop(name), self.now)

    def decided(self) -> list[str]:
        """Return the requests past the scheduler that go on by now; in capitals if they are refused."""
        names = {waiter: name for name, waiter in self.waiting.items()}
        gone, self.at_once = self.at_once, []
        while self.limits.decided:
            waiter = self.limits.decided.popleft()
            name = names[waiter]
            del self.waiting[name]
            if waiter.may_continue and waiter.site is None:
                self.entries[name] = self.limits.in_flight[name] = waiter.entry
            gone.append(name if waiter.may_continue else name.upper())
        return gone

    # Answers, and time.

    def at(self, now: float) -> None:
        """Let the time *now* come, with each alarm before it."""
        while self.limits.alarms.first_at <= now:
            self.now = max(self.now, self.limits.alarms.first_at)
            self.limits.tick(self.now)
        self.now = now

    def delay(self, host: str, seconds: float, scheme: str = "http") -> None:
        """The robots.txt of an origin of *host*, fetched now, asks for a delay."""
        origin = Origin(scheme, host, 80)
        self.limits.set_delay(
            self.limiter(host), origin, seconds, self.now, since=self.now
        )

    def pause(
        self,
        host: str,
        asked: float | None = None,
        *,
        cap: float = 60.0,
        sent_at: float | None = None,
        has_failed: bool = False,
    ) -> bool:
        """The host answers with 429, or a request to it has failed."""
        return self.limits.back_off(
            self.limiter(host),
            self.now,
            asked=asked,
            cap=cap,
            sent_at=self.now if sent_at is None else sent_at,
            has_failed=has_failed,
        )

    def succeed(self, host: str) -> bool:
        limiter = self.limiter(host)
        return self.limits.succeeded(
            limiter,
            self.now,
            sent_at=self.now,
            normal_concurrency=limiter.concurrency,
        )

    def know(self, host: str, expires: float = inf) -> None:
        self.limits.learned(self.site(host), self.now, expires)

    def fetches(self) -> list[str]:
        """Return the hosts whose robots.txt is fetched from now on."""
        sites = iter(lambda: self.limits.next_wanted(is_needed=True), None)
        return [site.origin.host for site in sites]
