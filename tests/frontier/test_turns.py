"""Turns on hosts with a delay, in rare orders of events."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from twisted.internet.defer import CancelledError

from tests.frontier.fakes import Crawl, page

pytestmark = pytest.mark.newest

RULES = "User-agent: *\nDisallow: /private/\n"


def delayed(seconds: float) -> str:
    return f"{RULES}Crawl-delay: {seconds}\n"


def test_a_robotstxt_gives_back_the_turn_that_it_was_given() -> None:
    """A fetch of robots.txt ends its turn even if it waited for the turn of its download
    slot, and its host got a delay of its own meanwhile.
    """
    crawl = Crawl()
    crawl.push("http://b.example/1")
    crawl.answer("http://b.example/robots.txt", delayed(2.5))
    crawl.push(page("http://a.example/2", download_slot="b.example"))
    crawl.push("https://a.example/3")
    crawl.answer("https://a.example/robots.txt", delayed(1))
    crawl.pass_time(2.5)
    assert crawl.on_network == ["http://a.example/robots.txt", "https://a.example/3"]
    crawl.answer("https://a.example/3")
    crawl.answer("http://a.example/robots.txt", RULES)
    crawl.pass_time(2.5)
    assert crawl.on_network == ["http://b.example/1"]


def test_a_robotstxt_that_is_cancelled_as_its_turn_begins() -> None:
    """A fetch of robots.txt that is cancelled in the moment in which it gets its turn leaves
    the turn to the next request.
    """
    crawl = Crawl()
    crawl.outside("http://a.example/1")
    crawl.answer("http://a.example/robots.txt", delayed(1))
    crawl.pass_time(1)
    turns = crawl.frontier.access.turns
    wait = turns.wait

    async def wait_and_be_cancelled(*args: Any, **kwargs: Any) -> None:
        await wait(*args, **kwargs)
        raise CancelledError

    with mock.patch.object(turns, "wait", wait_and_be_cancelled):
        crawl.outside("http://a.example:81/2")
        crawl.answer("http://a.example/1")
        crawl.pass_time(1)
    crawl.outside("http://a.example/3")
    crawl.pass_time(60)
    assert "http://a.example/3" in crawl.on_network


def test_a_spider_that_closes_sends_nothing_more() -> None:
    """When the spider closes, a request that is cancelled does not pass
    its turn to another one.
    """
    crawl = Crawl()
    crawl.outside("http://a.example/1")
    crawl.answer("http://a.example/robots.txt", delayed(1))
    crawl.outside("http://a.example:81/2")
    crawl.outside("http://a.example:82/3")
    crawl.pass_time(1)
    crawl.answer("http://a.example/1")
    crawl.pass_time(1)
    assert crawl.on_network == ["http://a.example:81/robots.txt"]
    sent = len(crawl.sent)
    crawl.close()
    assert len(crawl.sent) == sent
    assert not crawl.downloader.active


def known(crawl: Crawl, *hosts: str, seconds: float = 4) -> None:
    """Let the crawl fetch the robots.txt of *hosts*, with a Crawl-delay, and a
    page, and let the delay pass.
    """
    for host in hosts:
        request = crawl.outside(f"http://{host}/first")
        crawl.answer(f"http://{host}/robots.txt", delayed(seconds))
        crawl.pass_time(seconds)
        crawl.answer(request)
        crawl.pass_time(seconds + 1)


def test_a_delay_after_the_end() -> None:
    """Requests from the queue go one at a time, and the delay begins at the end of each."""
    crawl = Crawl()
    known(crawl, "a.example")
    for number in (1, 2):
        crawl.push(f"http://a.example/{number}")
    crawl.pass_time(100)
    assert crawl.on_network == ["http://a.example/2"]
    assert crawl.answer("http://a.example/2") == []
    assert crawl.pass_time(3.9) == []
    assert crawl.pass_time(0.1) != []
    assert crawl.on_network == ["http://a.example/1"]


def test_the_end_of_a_request_that_had_leave_of_its_own() -> None:
    """A request with ``dont_obey_robotstxt`` also begins the delay at its end."""
    crawl = Crawl()
    known(crawl, "a.example")
    exempt = crawl.push(page("http://a.example/1", dont_obey_robotstxt=True))
    crawl.run()
    crawl.pass_time(10)
    crawl.answer(exempt)
    crawl.push("http://a.example/2")
    assert crawl.pass_time(3.9) == []
    assert len(crawl.pass_time(0.1)) == 1


def test_names_of_one_host() -> None:
    """A host name with a trailing dot, or with a port, shares the delay of the host."""
    crawl = Crawl()
    known(crawl, "a.example")
    crawl.push("http://a.example/1")
    crawl.run()
    for url in ("http://A.example./", "http://a.example:81/"):
        crawl.push(f"{url}2")
        crawl.run()
        assert f"{url.lower()}robots.txt" not in crawl.on_network
        assert crawl.on_network == ["http://a.example/1"]


def test_in_the_downloader_first() -> None:
    """Requests already in the downloader go in order of arrival, before those in the queue.
    A cancelled one blocks no other.
    """
    crawl = Crawl()
    known(crawl, "a.example")
    crawl.push("http://a.example/0")
    crawl.push("http://a.example/queued")
    crawl.run()
    requests = [crawl.outside(f"http://a.example/{number}") for number in (1, 2, 3)]
    crawl.started[requests[1]].cancel()
    crawl.answer("http://a.example/queued")
    went = []
    for _ in range(3):
        crawl.pass_time(4)
        went += crawl.on_network
        crawl.answer(crawl.on_network[0])
    assert went == ["http://a.example/1", "http://a.example/3", "http://a.example/0"]


def test_strangers_wait_their_turn() -> None:
    """Redirects from other hosts and the pages of a host with a delay take turns,
    so that neither starves.
    """
    crawl = Crawl()
    known(crawl, "a.example", seconds=1)
    for number in range(6):
        crawl.push(f"http://a.example/{number}")
    crawl.run()
    for number in range(3):
        crawl.push(f"http://{number}.example/")
        crawl.run()
        url = f"http://{number}.example/robots.txt"
        crawl.answer(url, status=301, Location="http://a.example/shared.txt")
    went = ""
    while crawl.on_network:
        for url in crawl.on_network:
            if "a.example" in url:
                went += "S" if url.endswith("shared.txt") else "P"
            crawl.answer(url, RULES)
        crawl.pass_time(1)
    assert went == "PPPPSPPSS"


def test_a_request_that_steps_aside() -> None:
    """A request that is not sent to its host lets the next one go at once."""
    crawl = Crawl()
    known(crawl, "a.example")
    crawl.push("http://a.example/1")
    crawl.push(page("http://a.example/2", fate="dropped after"))
    crawl.push("http://a.example/private/3")
    assert len(crawl.run()) == 3
    assert crawl.on_network == ["http://a.example/1"]


def test_a_request_that_is_lost() -> None:
    """If the request that has the turn disappears, others go after a while. A request that
    is under way keeps the turn, however long it takes.
    """
    crawl = Crawl()
    known(crawl, "a.example")
    crawl.push("http://a.example/1")
    lost = crawl.push("http://a.example/2")
    crawl.run()
    assert crawl.pass_time(60) == []
    crawl.downloader.active.remove(lost)
    assert len(crawl.pass_time(2)) == 1
    crawl.downloader.active.add(lost)


def test_a_queue_that_is_not_popped_from() -> None:
    """If the engine does not pop a queue that has the turn, a request in the downloader
    gets the turn, as the engine may be waiting for it.
    """
    crawl = Crawl(CONCURRENT_REQUESTS=1)
    known(crawl, "a.example")
    crawl.push("http://a.example/1")
    crawl.push("http://a.example/2")
    crawl.run()
    crawl.answer("http://a.example/2")
    crawl.clock.advance(4)
    other = crawl.outside("http://a.example/3")
    assert other not in crawl.downloader.network
    crawl.clock.advance(0.5)
    assert other in crawl.downloader.network


def test_a_clock_that_is_set_back() -> None:
    """If the clock is set back after robots.txt was fetched, no request
    waits longer than the delay.
    """
    crawl = Crawl()
    crawl.push("http://a.example/1")
    crawl.engine.wake()
    crawl.queues[0].pop()
    crawl.clock.set_back(-200)
    crawl.answer("http://a.example/robots.txt", delayed(4), runs=False)
    crawl.clock.set_back(200)
    crawl.run()
    assert crawl.pass_time(3.9) == []
    assert len(crawl.pass_time(0.1)) == 1


# Workers that share a store.


def leases(crawl: Crawl) -> list[tuple[str, str, float]]:
    calls = list(crawl.store_client.calls)
    crawl.store_client.calls.clear()
    return calls


def test_a_lease_for_each_request() -> None:
    """A request is sent only with the lease of its host, which covers the request and the
    delay after it, and is renewed while the request is under way.
    """
    crawl = Crawl(is_shared=True)
    known(crawl, "a.example")
    leases(crawl)
    crawl.push("http://a.example/1")
    crawl.run()
    assert leases(crawl) == [("reserve", "a.example", 9.0)]
    crawl.pass_time(4)
    assert leases(crawl) == [("reserve", "a.example", 9.0)] * 2
    crawl.answer("http://a.example/1")
    assert leases(crawl) == [("vacate", "a.example", 4.005)]
    crawl.pass_time(20)
    assert not leases(crawl)


def test_a_lease_that_another_worker_has() -> None:
    """While another worker has the lease, this worker asks for it now and then, not for
    each request. A refused lease begins no delay.
    """
    crawl = Crawl(is_shared=True)
    known(crawl, "a.example", seconds=8)
    leases(crawl)
    crawl.clock.advance(8)
    assert crawl.store_client.lease("a.example", 3)
    for number in range(100):
        crawl.push(f"http://a.example/{number}")
        crawl.run()
    assert len(leases(crawl)) == 1
    assert crawl.pass_time(2.9) == []
    assert len(leases(crawl)) == 2
    assert len(crawl.pass_time(1)) == 1
    assert len(leases(crawl)) == 1


def test_a_lease_is_for_the_host_that_is_asked() -> None:
    """The lease is that of the requested host, whichever host of the
    download slot came first.
    """
    crawl = Crawl(is_shared=True)
    for host in ("b.example", "a.example"):
        crawl.push(page(f"http://{host}/", download_slot="shared"))
    crawl.run()
    for _ in range(2):
        for url in crawl.on_network:
            crawl.answer(url, delayed(4))
    crawl.pass_time(4)
    crawl.answer(crawl.on_network[0])
    crawl.pass_time(8)
    hosts = [host for call, host, _ in leases(crawl) if call == "reserve"]
    assert list(dict.fromkeys(hosts)) == [
        crawl.sent[-2].url[7:16],
        crawl.sent[-1].url[7:16],
    ]
    assert set(hosts) == {"a.example", "b.example"}


def test_done_while_its_lease_is_renewed() -> None:
    """If a request ends while its lease is renewed, other workers wait for the delay,
    not for the renewed lease.
    """
    crawl = Crawl(is_shared=True)
    known(crawl, "a.example")
    crawl.push("http://a.example/1")
    crawl.run()
    leases(crawl)
    crawl.store_client.is_slow = True
    crawl.pass_time(2)
    crawl.answer("http://a.example/1")
    while crawl.store_client.waiting:
        crawl.store_client.answer()
    assert leases(crawl) == [
        ("reserve", "a.example", 9.0),
        ("vacate", "a.example", 4.005),
    ]
    crawl.clock.advance(4)
    assert not crawl.store_client.lease("a.example", 1)
    crawl.clock.advance(0.01)
    assert crawl.store_client.lease("a.example", 1)


def test_a_store_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """If the store fails, this worker keeps the delay by itself, and logs that."""
    crawl = Crawl(is_shared=True)
    known(crawl, "a.example")
    with mock.patch.object(
        crawl.store_client, "reserve", side_effect=OSError("broken")
    ):
        crawl.push("http://a.example/1")
        assert len(crawl.run()) == 1
    assert "without coordinating" in caplog.text


def test_a_turn_in_a_group_that_gets_a_longer_delay() -> None:
    """If the group of a queue that has the turn joins another group, the queue
    waits for the longer delay.
    """
    crawl = Crawl()
    crawl.outside("http://b.example/1")
    crawl.answer("http://b.example/robots.txt", delayed(1))
    crawl.outside("http://a.example/private/")
    crawl.answer("http://a.example/robots.txt", RULES)
    crawl.pass_time(1)
    crawl.push(page("http://a.example/2", download_slot="b.example"))
    crawl.outside("http://a.example:81/3")
    crawl.run()
    crawl.answer("http://a.example:81/robots.txt", delayed(2.5))
    crawl.pass_time(4)
    assert crawl.on_network == ["http://b.example/1", "http://a.example:81/3"]
    for url in crawl.on_network:
        crawl.answer(url)
    crawl.pass_time(2.4)
    assert crawl.on_network == []
    crawl.pass_time(0.1)
    assert crawl.on_network == ["http://a.example/2"]
