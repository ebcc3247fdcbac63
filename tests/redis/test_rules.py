"""The rules of the shared queue by example, as its workers see them. The state machine tries the
same rules in any order; what stands here too is what a reader should know of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from tests.redis.shared import (
    EXEMPT,
    HOUR,
    LATE,
    LEASE,
    OTHER,
    PAGES,
    SECURE,
    SEEN,
    acquire,
    end,
    know,
    lose_all,
    pop,
    pop_all,
    push,
    release,
    renew,
    retire,
    state_of,
    take,
    take_some,
    wanted,
)

if TYPE_CHECKING:
    from scrapy_rep.redis.worker import Worker
    from tests.redis.shared import Shared

pytestmark = pytest.mark.newest

HOST = "a.example"

# The order of requests and hosts.


def test_best_first_then_oldest(shared: Shared) -> None:
    """Of one host, the request of the highest priority goes first, then the oldest, by its number
    and not by the digits of it. Any text comes back as it was.
    """
    worker = shared.worker()
    know(worker, PAGES)
    shared.redis.hset(shared.key("state"), "number", 0xFFD)
    push(worker, PAGES, "", "\r\n\0", "2", "3")
    push(worker, PAGES, "best", "next", priority=1)
    push(worker, PAGES, "last", priority=-1)
    push(worker, PAGES, "4")
    assert pop_all(worker, 8) == ["best", "next", "", "\r\n\0", "2", "3", "4", "last"]


def test_host_that_is_ready_for_longest_goes_first(shared: Shared) -> None:
    """The host that is ready for longest goes first, so that no host starves."""
    worker = shared.worker()
    names = [f"h{number}" for number in range(9)]
    for name in names:
        know(worker, f"{name}\thttp://{name}")
        push(worker, f"{name}\thttp://{name}", *[name] * 3)
        shared.advance(0.001)
    found = []
    while popped := take(worker):
        found.append(popped.data.decode())
        shared.advance(0.001)
        end(worker, popped)
    assert found == names * 3


def test_hosts_take_turns_in_one_call(shared: Shared) -> None:
    """Of the requests that one call gets, each host has its part."""
    worker = shared.worker()
    for queue, names in ((PAGES, ("a1", "a2", "a3")), (OTHER, ("b1", "b2", "b3"))):
        know(worker, queue)
        push(worker, queue, *names)
    found = take_some(worker, 4, at_once=4)
    assert {each.data for each in found} == {b"a1", b"a2", b"b1", b"b2"}


def test_queues_of_a_host_take_turns(shared: Shared) -> None:
    """If a host gets one request at a time, its http pages, its https pages and those without a
    robots.txt take turns.
    """
    worker = shared.worker()
    for queue, name in ((PAGES, "p"), (SECURE, "s"), (EXEMPT, "e")):
        if queue != EXEMPT:
            know(worker, queue)
        push(worker, queue, *[name] * 3)
    order = []
    while found := take(worker):
        assert pop(worker) is None
        order.append(found.data.decode())
        end(worker, found)
    assert len(order) == 9
    # Before the first turn, one queue was alone.
    for start in range(1, 5):
        assert len({*order[start : start + 3]}) == 3


def test_ready_host_behind_many_that_wait(shared: Shared) -> None:
    """A ready host behind a hundred that wait for their delays is found within a few calls."""
    worker = shared.worker()
    for number in range(100):
        queue = f"h{number}\thttp://h{number}"
        know(worker, queue, delay=100.0)
        push(worker, queue, "waits")
    know(worker, PAGES)
    shared.advance(0.001)
    push(worker, PAGES, "goes")
    assert "goes" in [pop(worker) for _ in range(5)]


def test_ready_host_behind_many_whose_requests_end(shared: Shared) -> None:
    """A ready host is found in the next call after two hundred others, which must wait now, have ended
    their requests.
    """
    worker = shared.worker()
    others = [f"h{number}\t" for number in range(200)]
    for queue in others:
        push(worker, queue, "1", "2")
    found = []
    while len(found) < len(others):
        found += take_some(worker, 100, at_once=1, gap=60_000)
    for each in found:
        end(worker, each)
    worker.exchange()
    shared.advance(1)
    push(worker, EXEMPT, "goes")
    assert pop(worker, gap=60_000) == "goes"


# What a host waits for. ``test_delays.py`` has what settings and pauses say.


def let_wait(shared: Shared, one: Worker, two: Worker, reason: str) -> None:
    """Let the host of ``PAGES`` wait for five seconds."""
    if reason == "its Crawl-delay after a request":
        know(one, PAGES, delay=5.0)
        shared.advance(5)
        found = take(one, at_once=8)
        shared.advance(3)
        end(one, found)
        one.exchange()
    elif reason == "its Crawl-delay after the request for the robots.txt that says it":
        know(one, PAGES, delay=5.0)
    elif reason == "the longest Crawl-delay of its origins":
        know(one, SECURE, delay=5.0)
        know(two, PAGES, delay=1.0)
        shared.advance(5)
        end(one, take(one))
        one.exchange()
    elif reason == "its Crawl-delay after a worker that may have sent before it died":
        know(one, PAGES, delay=5.0)
        shared.advance(5)
        take(shared.worker(lease=1.0))
        shared.advance(1)
        renew(one)
    elif reason == "the delay after an image":
        know(one, PAGES)
        assert acquire(one, "image", HOST)
        assert not acquire(two, "another", HOST)
        assert pop(two) is None
        release(one, "image", HOST, 5.0, fetched=True)
    else:
        raise ValueError(reason)


@pytest.mark.parametrize(
    "reason",
    [
        "its Crawl-delay after a request",
        "its Crawl-delay after the request for the robots.txt that says it",
        "the longest Crawl-delay of its origins",
        "its Crawl-delay after a worker that may have sent before it died",
        "the delay after an image",
    ],
)
def test_no_worker_sends_before(shared: Shared, reason: str) -> None:
    """Five seconds long, no worker gets a request of a host that must wait, and other hosts go on.
    The server says when to ask again. Then any worker gets one.
    """
    one, two = shared.worker(lease=1000.0), shared.worker(lease=1000.0)
    know(one, OTHER)
    push(one, PAGES, "1", "2", "3")
    let_wait(shared, one, two, reason)
    push(one, OTHER, "other")
    assert pop(two, at_once=8) == "other"
    shared.advance(4.999)
    assert pop(one, at_once=8) is pop(two, at_once=8) is None
    assert two.again == 0.001
    shared.advance(0.001)
    assert pop(two, at_once=8) in {"1", "2", "3"}


def test_delay_that_is_dropped(shared: Shared) -> None:
    """A delay that no robots.txt of the host asks for any more holds no longer, also while a request
    is in flight.
    """
    worker = shared.worker()
    know(worker, PAGES, delay=1.0)
    shared.advance(1)
    push(worker, PAGES, "1", "2", "3")
    assert pop_all(worker, at_once=8) == ["1"]
    know(worker, PAGES)
    assert pop_all(worker, at_once=8) == ["2", "3"]


# The places at a host.


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        ("that of all hosts", 4),
        ("that of its download slot", 2),
        ("one, with a Crawl-delay", 1),
        ("one after a pause, to ask whether the host is back", 1),
        ("one more after a success that was not from a cache", 2),
        ("none more after a success of before the pause", 1),
        ("that of all hosts again, after enough successes", 4),
    ],
)
def test_most_at_once(shared: Shared, limit: str, most: int) -> None:
    """So many requests to a host are in flight from all workers together. When one of them has
    left the downloader, another may go.
    """
    one, two = shared.worker(), shared.worker()
    know(one, PAGES)
    push(one, PAGES, *map(str, range(12)))

    how: dict[str, Any] = {"at_once": 4}
    if limit == "that of its download slot":
        how |= {"gap": 5000, "hosts": {HOST: (2, 0)}}
    elif limit == "one, with a Crawl-delay":
        know(two, PAGES, delay=1.0)
        shared.advance(1)
    elif "pause" in limit or "success" in limit:
        pause(shared, two)
    if limit == "one more after a success that was not from a cache":
        end(one, take(one, **how), pause=one.last_pause)
        one.exchange()
        end(one, take(one, **how))
        one.exchange()
    elif limit == "none more after a success of before the pause":
        found, before = take(two, **how), two.last_pause
        pause(shared, two)
        end(two, found, pause=before)
        two.exchange()
    elif limit == "that of all hosts again, after enough successes":
        for _ in range(3):
            end(one, take(one, **how), pause=one.last_pause)
            one.exchange()
    sent = [(worker, take(worker, **how)) for worker in (one, two) * 4]
    sent = [(worker, popped) for worker, popped in sent if popped is not None]
    assert len(sent) == most
    end(*sent[0])
    sent[0][0].exchange()
    shared.advance(1)
    assert take(two, **how) is not None
    assert take(two, **how) is None


def test_all_places_after_a_delay(shared: Shared) -> None:
    """A host with a Crawl-delay that has recovered from the first pause of a crawl gets as many
    requests as others, when no robots.txt asks for the delay any more.
    """
    worker = shared.worker()
    pause(shared, worker)
    know(worker, PAGES, delay=1.0)
    push(worker, PAGES, *"123456")
    for _ in range(2):
        shared.advance(1)
        end(worker, take(worker, at_once=4), pause=worker.last_pause)
        worker.exchange()
    know(worker, PAGES)
    shared.advance(1)
    assert pop_all(worker, at_once=4) == [*"3456"]


def pause(shared: Shared, worker: Worker) -> None:
    """Let the host ask this worker for a pause, which passes."""
    worker.report_pause(HOST, 7.0, 1.0)
    shared.advance(7)


def test_pauses_are_told(shared: Shared) -> None:
    """Each worker learns of each pause once, also one that starts later: even after the pause, as
    long as the host has not succeeded since.
    """
    told: list[list[tuple[object, ...]]] = [[], [], [], []]

    def worker(number: int) -> Worker:
        return shared.worker(on_paused=lambda *each: told[number].append(each))

    one, two = worker(0), worker(1)
    one.report_pause(HOST, 7.0, 2.0)
    shared.advance(1)
    for each in (one, two, two):
        each.exchange()
    assert told[:2] == [[(HOST, 7.0, 2.0, 0.0)], [(HOST, 6.0, 2.0, 1.0)]]
    one.report_pause("b.example", 3.0, 1.0)
    one.report_pause(HOST, 9.0, 2.0)
    one.report_pause(HOST, 2.0, 2.0)  # The longest one holds.
    two.exchange()
    assert told[1][1:] == [("b.example", 3.0, 1.0, 0.0), (HOST, 9.0, 2.0, 1.0)]
    shared.advance(10)
    know(one, PAGES)
    push(one, PAGES, "1")
    probe = take(one)
    worker(2)
    assert told[2] == [("b.example", -7.0, 1.0, 10.0), (HOST, -1.0, 2.0, 11.0)]
    end(one, probe, pause=one.last_pause)
    one.exchange()
    for each in (one, two):
        each.exchange()
        assert told[each is two][-1] == (HOST, -1.0, 0.0, 0.0)
    worker(3)
    assert [host for host, _, own, _ in told[3] if own] == ["b.example"]


def test_refused_after_the_end_of_another(shared: Shared) -> None:
    """The end of a request that was in flight when its host asked for too long a pause does not keep
    the others from being refused.
    """
    worker = shared.worker(wait_timeout=5.0)
    know(worker, PAGES)
    push(worker, PAGES, "1", "2", "3")
    found = take_some(worker, 2, at_once=2)
    worker.report_pause(HOST, 60.0, 1.0)
    end(worker, found[0])
    refused = take(worker, at_once=2)
    assert refused is not None
    assert not refused.has_place


def test_pauses_that_last_too_long(shared: Shared) -> None:
    """If a host asks for more than the crawl waits, at once or by pauses that follow each other,
    its requests are handed out to be refused, without a place. After the pause one request asks
    whether the host is back, and after its success all are sent again.
    """
    worker = shared.worker(wait_timeout=5.0)
    for queue in (PAGES, OTHER):
        know(worker, queue)
        push(worker, queue, *map(str, range(6)))
    worker.report_pause("b.example", 6.0, 1.0)
    assert [take(worker).has_place for _ in range(7)] == [True] + [False] * 6
    push(worker, OTHER, "probe")
    for own in (1.0, 2.0, 4.0):
        worker.report_pause(HOST, own, own)
        shared.advance(own)
    retire(worker)  # The places of its requests are free.
    probes = [take(worker) for _ in range(2)]
    assert all(probe.has_place for probe in probes)
    assert not take(worker).has_place
    for probe in probes:
        end(worker, probe, pause=worker.last_pause)
    worker.exchange()
    push(worker, PAGES, "a")
    assert take(worker).has_place


# Hosts whose robots.txt is not known.


def test_one_worker_fetches_robotstxt_for_all(shared: Shared) -> None:
    """No request of a host is handed out before its robots.txt is known. One worker is asked to
    fetch it, on behalf of the best request, and another one if that gives it up; then all workers
    may ask the host, until it is stale.
    """
    one, two = shared.worker(), shared.worker()
    push(one, PAGES, "1", "2")
    push(one, PAGES, "first", priority=1)
    assert pop(one) is None
    (popped,) = one.exchange(quota=8, enough=8).wanted
    assert (popped.queue, popped.data, popped.delay) == (PAGES, b"first", 0.0)
    assert wanted(two) == wanted(one) == []
    assert pop(two) is None
    one.report_rules(PAGES, None)
    one.exchange()
    assert wanted(two) == [PAGES]
    know(two, PAGES, holds=10.0)
    shared.advance(9.999)
    assert pop(two, at_once=8) == "first"
    shared.advance(0.001)
    assert pop(two, at_once=8) is None
    assert wanted(two) == [PAGES]


def test_no_robotstxt_is_needed(shared: Shared) -> None:
    """Requests that robots.txt does not apply to go at once."""
    worker = shared.worker()
    push(worker, EXEMPT, "1")
    assert wanted(worker) == []
    assert pop(worker) == "1"


def test_some_are_fetched_at_once(shared: Shared) -> None:
    """A worker gets as many hosts to fetch robots.txt from as it asks for, oldest first, and none
    while enough are ready.
    """
    worker = shared.worker()
    queues = [f"h{number}\thttp://h{number}" for number in range(5)]
    for queue in queues:
        push(worker, queue, "1")
        shared.advance(0.001)
    assert wanted(worker, quota=2) == queues[:2]
    for queue in queues[:2]:
        know(worker, queue)
    assert wanted(worker, enough=2) == []
    assert wanted(worker, enough=3) == queues[2:]


def test_robotstxt_of_a_host_with_a_delay(shared: Shared) -> None:
    """If another origin of the host has a delay, the fetch of robots.txt takes a turn like any
    request, with the delay before and after it, however many requests wait. If it does not take
    it within seconds, a request goes.
    """
    worker = shared.worker()
    know(worker, PAGES, delay=2.0)
    shared.advance(2)
    push(worker, PAGES, "1", "2", "3")
    push(worker, SECURE, "s")
    found = take(worker, at_once=8)
    (popped,) = worker.exchange(quota=8, enough=8).wanted
    assert (popped.queue, popped.data, popped.delay) == (SECURE, b"s", 2.0)
    assert not acquire(worker, "x", HOST)
    end(worker, found)
    worker.exchange()
    shared.advance(2)
    assert pop(worker) is None
    assert acquire(worker, "x", HOST)
    assert pop(worker) is None
    release(worker, "x", HOST, 2.0, fetched=True)
    shared.advance(1)
    assert not acquire(worker, "y", HOST)
    shared.advance(1)
    assert pop(worker) is None
    assert 0 < worker.again <= 2
    shared.advance(2)
    assert pop(worker) == "2"


def test_a_place_that_is_reserved(shared: Shared) -> None:
    """A place that a request in the downloader has asked for stays reserved for it when the requests
    from the queue have ended, also if no robots.txt of the host is known. Nothing is left of it.
    """
    worker = shared.worker()
    push(worker, EXEMPT, "1", "2", "3")
    for found in take_some(worker, 5, at_once=2):
        assert not acquire(worker, "x", HOST)
        end(worker, found)
    assert pop(worker, at_once=2) is None
    assert acquire(worker, "x", HOST)
    release(worker, "x", HOST, 0.0, fetched=True)
    assert pop(worker, at_once=2) == "3"
    retire(worker)


# Workers that end, die or miss an answer.


@pytest.mark.parametrize("fate", ["ends", "dies", "misses the answers"])
def test_what_a_worker_had_returns(
    shared: Shared, caplog: pytest.LogCaptureFixture, fate: str
) -> None:
    """If a worker ends, or misses the answers that handed it out, others get its requests, its
    places at hosts and the robots.txt files that it was to fetch: at once, or when its lease expires
    if it dies. Requests return to their old positions. Whichever call finds a dead worker logs how
    many.
    """
    one, two = shared.worker(), shared.worker(lease=1000.0)
    know(two, PAGES)
    push(two, PAGES, "1", "2", "3")
    push(two, PAGES, "0", priority=1)
    push(two, OTHER, "other")
    shared.advance(LEASE / 2)
    assert pop_all(one, at_once=2) == ["0", "1"]
    assert wanted(one) == [OTHER]
    assert acquire(one, "x", "c.example")
    if fate == "ends":
        retire(one)
    elif fate == "misses the answers":
        lose_all(one)
    else:
        shared.advance(LEASE - 0.001)
        assert one.is_alive
        assert renew(two) == 0
        assert pop(two, at_once=2) is None
        assert wanted(two) == []
        shared.advance(0.001)
        assert not one.is_alive
        assert renew(two) == 2
        assert two.count_all() == 5
        assert "the 2 requests that it had taken are in the queue" in caplog.text
    assert pop_all(two, at_once=9) == ["0", "1", "2", "3"]
    assert wanted(two) == [OTHER]
    assert acquire(two, "y", "c.example")


def test_worker_that_was_taken_for_dead_comes_back(shared: Shared) -> None:
    """Late reports of a worker that was taken for dead change nothing: its request stays with the
    worker that has it now, is not done, and its place not free. The robots.txt that it gives up is
    not fetched by a third one.
    """
    stopped, worker = shared.worker(), shared.worker(lease=1000.0)
    know(worker, PAGES)
    push(worker, PAGES, "1", "2")
    push(stopped, OTHER, "other")
    had = take(stopped)
    assert wanted(stopped) == [OTHER]
    shared.advance(LEASE)
    assert wanted(worker) == [OTHER]
    found = take(worker)
    assert found.data == had.data
    end(stopped, had)
    stopped.buffer.append(had)
    stopped.give_back()
    stopped.report_rules(OTHER, None)
    assert stopped.exchange() is not None
    assert (shared.count(), state_of(shared.content(), HOST)["in_flight"]) == (3, 1)
    assert wanted(shared.worker()) == []
    assert pop(worker) is None
    end(worker, found)
    assert pop(worker) == "2"
    assert shared.count() == 2


def test_worker_that_was_taken_for_dead_refuses_requests(shared: Shared) -> None:
    """If it refuses all requests of a host whose robots.txt another worker fetches by now, no third
    one fetches that for the next request.
    """
    stopped, worker = shared.worker(), shared.worker(lease=1000.0)
    push(stopped, OTHER, "1")
    assert wanted(stopped) == [OTHER]
    shared.advance(LEASE)
    assert wanted(worker) == [OTHER]
    [refused] = stopped.exchange(refuses=OTHER).found
    assert refused.data == b"1"
    push(worker, OTHER, "2")
    assert wanted(shared.worker()) == []
    know(worker, OTHER)
    assert pop(worker) == "2"


def test_late_call(shared: Shared) -> None:
    """If a server that hung executes a call after the worker's time-out, the call does nothing: it
    gives nothing, adds no request, and marks none as seen. If only the clock of the server was
    set, the worker repeats the call at once.
    """
    worker = shared.worker(lease=2 * HOUR)
    push(worker, EXEMPT, "1")
    real = worker._link._run
    answers = []

    def run(*args: Any) -> Any:
        answers.append(real(*args))
        return answers[-1] if len(answers) > 1 else None

    shared.advance_server(LATE)
    worker.push(EXEMPT, 0, b"2", (SEEN, "2"))
    with mock.patch.object(worker._link, "_run", run):
        assert take(worker) is None
        assert answers == [[round(1000 * (shared.clock.monotonic() + LATE))]]
        assert (worker.unsent, shared.count()) == (1, 1)
        assert pop(worker) == "1"
    assert len(answers) == 3
    assert (worker.unsent, shared.count()) == (0, 2)


# What stays on the server.


def test_what_is_known_of_hosts_expires(shared: Shared) -> None:
    """What is known of hosts expires: a setting that holds for ever after a day, the delay of an
    image when it has passed, a pause after a day, the robots.txt of origins that are gone.
    """
    worker = shared.worker(lease=1.0)
    know(worker, OTHER, holds=float("inf"))
    assert shared.ends_in("host:b.example") <= 25 * HOUR
    worker.report_pause("c.example", 7.0, 1.0)
    assert 7 < shared.ends_in("host:c.example") <= 25 * HOUR
    assert acquire(worker, "image", "d.example")
    release(worker, "image", "d.example", 2.0, fetched=True)
    assert shared.ends_in("host:d.example") == 2
    for port in range(30):
        know(worker, f"a.example\thttp://a.example:{port}", holds=10.0, delay=1.0)
        shared.advance(HOUR / 2)
    assert sum("\t" in name for name in shared.content()["host:a.example"]) <= 4
    shared.advance(25 * HOUR)
    retire(worker)
    assert not shared.content().keys() - {"state"}
