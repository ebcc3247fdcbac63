"""A crawl without Scrapy, for tests of :class:`Limits` alone. A test runs the crawl step by step. Each step is a method
of :class:`Crawl`, such as :meth:`Crawl.push`, which calls :class:`Limits` as a component of a real crawl would. The
time changes only in :meth:`Crawl.advance_to`.

A request is *planned* from the time when the scheduler hands it out until it is sent. A planned request already counts
towards the concurrency of its host. The *wire* is the downloader middleware that sends requests. A request from outside
the scheduler, such as the download of a file, waits at the wire until the limits allow it.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING

from scrapy_rep.crawl.frontier.limits import InFlight, Limits, Queue, Stage, Waiter
from scrapy_rep.protocol.origins import Origin

if TYPE_CHECKING:
    from scrapy_rep.crawl.frontier.limits import Limiter
    from scrapy_rep.crawl.frontier.sites import Site


class NamedRequests:
    """The storage of a queue in which each request is just a name. Requests that were put back are popped first, then
    the oldest request.
    """

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
    """A crawl that a test runs step by step. Requests and hosts are just names.

    The tests name a request after its host: ``a1`` is a request to the host ``a``. Some requests are named after their
    purpose instead: ``f1`` is the download of a file or another request from outside the scheduler, and ``r1`` is a
    request for robots.txt.
    """

    def __init__(self, wait_timeout: float = 60.0, concurrency: float = inf) -> None:
        """Begin a crawl with ``REP_WAIT_TIMEOUT`` = *wait_timeout*, and at most *concurrency* requests in flight in
        each download slot.
        """
        self.now = 0.0
        self.concurrency = concurrency
        self.limits = Limits(wait_timeout)
        self.entries: dict[str, InFlight] = {}
        """The states of the requests in flight, by the names of the requests. A request is in flight from the
        time when the scheduler hands it out or the wire sends it, until it ends or waits at the wire.
        """

        self.waiting: dict[str, Waiter] = {}
        """The requests that wait, but not in a queue of the scheduler, by name. Each of them waits until the limits
        allow it, or until the rules of robots.txt are known.
        """

        self.sent_at_once: list[str] = []
        """The names of the requests from outside the scheduler that were sent without waiting, since the last call of
        :meth:`decided`.
        """

    # Limiters, sites and queues.

    def limiter(self, key: str) -> Limiter:
        """Return the limiter of the host or download slot *key*. A new one gets the concurrency of the crawl."""
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
        """Return the queue of *host* in the download slot *slot*, which is by default the slot of the host. If *obeys*
        is True, requests of the queue need the rules of robots.txt. If *keeps_delay* is False, the crawl delay of the
        host does not apply to them.
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
            queue.requests = NamedRequests()
            self.limits.add(queue)
        return self.limits.queues[key]

    # Steps of the scheduler.

    def push(self, queue: Queue, *names: str) -> None:
        """Add requests to *queue*."""
        for name in names:
            queue.requests.push(name)
            self.limits.filled(queue, self.now)

    def plan(self) -> str | None:
        """Let the scheduler hand out the next request, and return its name. Return None if no request may be sent now.
        If the gate will refuse the request, the name is in capitals: ``"A1"``.
        """
        while (queue := self.limits.ready.first()) is not None:
            if self.limits.may_plan(queue, self.now):
                name: str = queue.requests.pop()
                entry = self.limits.plan(queue, self.now)
                self.entries[name] = self.limits.in_flight[name] = entry
                return name if entry.stage is Stage.PLANNED else name.upper()
        return None

    def plan_all(self) -> list[str]:
        """Call :meth:`plan` until it returns None. Return the names of all requests that it handed out."""
        return list(iter(self.plan, None))

    def return_to_scheduler(self, name: str) -> None:
        """Put the request *name*, which the scheduler has handed out, back into its queue. In a real crawl, a
        downloader middleware returns a request to the scheduler if the request may not be sent yet.
        """
        entry = self.entries.pop(name)
        del self.limits.in_flight[name]
        self.limits.end(entry, self.now)
        entry.queue.requests.back(name)
        self.limits.filled(entry.queue, self.now)

    # Steps of the wire.

    def send(self, name: str) -> bool:
        """Send a planned request if the limits allow it now. Return whether it was sent."""
        entry = self.entries[name]
        return self.limits.try_send(entry, self.now)

    def plan_and_send(self) -> str | None:
        """Call :meth:`plan`, and send the request. If the limits do not allow it any more, let it wait at the wire.
        Return what :meth:`plan` has returned.
        """
        name = self.plan()
        if (
            name in self.entries
            and self.entries[name].stage is Stage.PLANNED
            and not self.send(name)
        ):
            self.wait_at_wire(name)
        return name

    def wait_at_wire(self, name: str) -> None:
        """Let a planned request wait at the wire until the limits allow it. Meanwhile, it does not count towards the
        concurrency of its host.
        """
        entry = self.entries.pop(name)
        self.limits.in_flight.pop(name, None)
        self.limits.unplan(entry, self.now)
        self.waiting[name] = Waiter(entry)
        self.limits.wait(self.waiting[name], self.now)

    def plan_and_send_all(self) -> list[str]:
        """Call :meth:`plan_and_send` until it returns None. Return the names of all requests that were handed out."""
        return list(iter(self.plan_and_send, None))

    def end(self, name: str, *, is_withdrawn: bool = False) -> None:
        """End a request that is planned or sent. If *is_withdrawn* is True, it never reached the network."""
        entry = self.entries.pop(name)
        self.limits.in_flight.pop(name, None)
        self.limits.end(entry, self.now, is_withdrawn=is_withdrawn)

    # Requests outside the scheduler.

    def send_or_wait(
        self,
        name: str,
        queue: Queue,
        *,
        is_for_robotstxt: bool = False,
        is_first: bool = False,
    ) -> None:
        """Send a request from outside the scheduler, such as the download of a file. If the limits do not allow the
        request now, it waits at the wire until they do.

        If *is_for_robotstxt* is True, the request is for robots.txt, and is not sent by this method. When
        :meth:`decided` has returned its name, a test can send the request with :meth:`send`.

        If *is_first* is True, the request waits in front of all other waiting requests.
        """
        entry = InFlight(queue, is_for_robotstxt=is_for_robotstxt)
        if not is_for_robotstxt and self.limits.try_send(entry, self.now):
            self.entries[name] = self.limits.in_flight[name] = entry
            self.sent_at_once.append(name)
            return
        self.waiting[name] = waiter = Waiter(
            entry,
            counts_as_planned=is_for_robotstxt,
            is_first=is_first,
        )
        self.limits.wait(waiter, self.now)

    def wait_for_rules(self, name: str, queue: Queue) -> None:
        """Let a request from outside the scheduler wait until the rules of its host's robots.txt are known."""
        waiter = self.waiting[name] = Waiter(InFlight(queue))
        assert queue.site is not None
        self.limits.wait_for_rules(waiter, queue.site, self.now)

    def cancel_waiter(self, name: str) -> None:
        """Cancel the waiting request *name*."""
        self.limits.leave(self.waiting.pop(name), self.now)

    def decided(self) -> list[str]:
        """Return the names of the requests whose wait has ended since the last call, and of the requests that were sent
        without waiting. If a request is refused, its name is in capitals: ``"F1"``.
        """
        names = {waiter: name for name, waiter in self.waiting.items()}
        decided, self.sent_at_once = self.sent_at_once, []
        while self.limits.decided:
            waiter = self.limits.decided.popleft()
            name = names[waiter]
            del self.waiting[name]
            if waiter.may_continue and waiter.site is None:
                self.entries[name] = self.limits.in_flight[name] = waiter.entry
            decided.append(name if waiter.may_continue else name.upper())
        return decided

    # Time, and answers of hosts.

    def advance_to(self, now: float) -> None:
        """Advance the clock to *now*. At each time for which the limits have set an alarm, such as the end of a pause,
        call :meth:`Limits.tick`, as a real crawl does.
        """
        while self.limits.alarms.first_at <= now:
            self.now = max(self.now, self.limits.alarms.first_at)
            self.limits.tick(self.now)
        self.now = now

    def set_delay(self, host: str, seconds: float, scheme: str = "http") -> None:
        """Set the crawl delay of *host* to *seconds* (0 for none), as if its robots.txt for *scheme* had just been
        fetched. If the robots.txt files for ``http`` and ``https`` ask for different delays, the longer one applies.
        """
        origin = Origin(scheme, host, 80)
        self.limits.set_delay(
            self.limiter(host), origin, seconds, self.now, since=self.now
        )

    def pause(
        self,
        host: str,
        seconds: float | None = None,
        *,
        cap: float = 60.0,
        sent_at: float | None = None,
        has_failed: bool = False,
    ) -> bool:
        """Pause *host* for *seconds*, as after a 429 with this ``Retry-After``. Return whether this begins a new pause.
        If *seconds* is None, each pause is twice as long as the last one, up to *cap*. If *has_failed* is True, a
        failed connection is the cause.

        *sent_at* is the time when the answered request was sent. None means now.
        """
        return self.limits.back_off(
            self.limiter(host),
            self.now,
            asked=seconds,
            cap=cap,
            sent_at=self.now if sent_at is None else sent_at,
            has_failed=has_failed,
        )

    def succeed(self, host: str) -> bool:
        """Let *host* answer a request that is sent now, without asking for a pause. Return whether this is the first
        success after a pause.
        """
        limiter = self.limiter(host)
        return self.limits.succeeded(
            limiter,
            self.now,
            sent_at=self.now,
            normal_concurrency=limiter.concurrency,
        )

    def learn_rules(
        self, host: str, expires: float = inf, *, is_new: bool = True
    ) -> None:
        """Record that the rules of *host* are known, and fresh until *expires*. *is_new* is False if they come from the
        cache instead of a fetch of robots.txt.
        """
        self.limits.learned(self.site(host), self.now, expires, is_new=is_new)

    def start_fetches(self) -> list[str]:
        """Start to fetch each robots.txt that should be fetched, and return the hosts."""
        sites = iter(lambda: self.limits.next_wanted(is_needed=True), None)
        return [site.origin.host for site in sites]
