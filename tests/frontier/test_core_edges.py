"""Waiting requests in moments that are easy to miss, on the core alone."""

from __future__ import annotations

from math import inf

from scrapy_rep.frontier.core import Core, Phase, Ready, Scopes, Ticket
from scrapy_rep.protocol.origins import Origin

HOST = Origin("http", "example.com", 80)
HOUR = 3600.0


def new_core(scopes: Scopes | None = None, *, places: float = 8) -> Core:
    return Core(scopes or Scopes(), slot=lambda _: (places, -inf), wait_max=600)


def test_a_fetch_without_a_result_is_repeated() -> None:
    """Requests that come while the fetch of their robots.txt is being cancelled, or fails with an
    error in a component, do not wait for ever.
    """
    core = new_core()
    host = core.host(HOST)
    core.add(Ticket(core.direct, host, ()), 0)
    assert core.next_wanted(is_needed=False) is host
    core.unknown(host, 1)
    assert core.wake_at() < 1 + 60
    core.tick(core.wake_at())
    assert core.next_wanted(is_needed=False) is host
    core.known(host, 70, expires=HOUR)
    assert len(core.granted) == 1


def test_a_failed_retry_is_repeated() -> None:
    """The same for the second fetch of a robots.txt that is unreachable."""
    core = new_core()
    host = core.host(HOST)
    core.add(Ticket(core.direct, host, ()), 0)
    core.next_wanted(is_needed=False)
    core.unreachable(host, 1, 31, wait=600, is_asked=False)
    core.tick(31)
    assert core.next_wanted(is_needed=True) is host
    core.unknown(host, 32)
    core.tick(100)
    assert core.next_wanted(is_needed=True) is host


def test_a_request_in_the_downloader_waits_for_no_other_host() -> None:
    """An unreachable robots.txt for which a request in the downloader waits is fetched again in
    time, even if the queue has enough other hosts.
    """
    core = new_core()
    host = core.host(HOST)
    core.add(Ticket(core.direct, host, ()), 0)
    core.next_wanted(is_needed=False)
    core.unreachable(host, 1, 31, wait=600, is_asked=False)
    core.tick(31)
    assert host.phase is Phase.DOWN
    assert core.next_wanted(is_needed=False) is host


class _Queue(Ticket):
    """A queue of the scheduler with many requests."""


def test_a_host_in_many_slots_is_looked_at_once() -> None:
    """A delay of a host whose requests are spread over many download slots costs the same for
    each request, however many slots there are.
    """
    looks = 0

    def slot(_: object) -> tuple[float, float]:
        nonlocal looks
        looks += 1
        return 8, -inf

    core = Core(Scopes(), slot=slot, wait_max=600)
    ready: Ready = core.ready()
    shared = core.scopes.get("example.com")
    core.set_delay(shared, HOST, 1, 0, since=0)
    count = 500
    for number in range(count):
        own = core.scopes.get(f"slot {number}")
        core.add(_Queue(ready, None, (shared, own)), 0)
    now, sent = 0.0, 0
    while sent < count:
        now = max(now + 0.001, core.wake_at())
        core.tick(now)
        while (ticket := core.next(ready, now)) is not None:
            sent += 1
            core.leave(ticket, now, fetched=True)
            core.end(ticket, now)
    assert looks < 10 * count
