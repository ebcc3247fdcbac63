"""Whose turn it is, where requests, hosts and workers come together in unlucky moments."""

from __future__ import annotations

from unittest import mock

import pytest

from tests.frontier.fakes import Crawl, page

pytestmark = pytest.mark.newest

RULES = "User-agent: *\nDisallow: /private/\n"


def delayed(seconds: float) -> str:
    return f"{RULES}Crawl-delay: {seconds}\n"


def test_a_robotstxt_gives_back_the_turn_that_it_was_given() -> None:
    """It waits for the turn of its download slot, if only that has a delay, and ends it
    also where its host has got a delay of its own meanwhile.
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


def test_a_spider_that_closes_sends_nothing_more() -> None:
    """What is cancelled then does not give its turn to what waits for it."""
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
    """Have the crawl know that these hosts ask for a delay, which has passed."""
    for host in hosts:
        request = crawl.outside(f"http://{host}/first")
        crawl.answer(f"http://{host}/robots.txt", delayed(seconds))
        crawl.pass_time(seconds)
        crawl.answer(request)
        crawl.pass_time(seconds + 1)


def test_a_delay_after_the_end() -> None:
    """Requests from the queue go one after the other, the delay counted from the end."""
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
    """The delay is counted from that too."""
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
    """The dot of the root makes no other host of it, nor does a port."""
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
    """Requests that are there already go in the order in which they came, before those in
    the queue; one that is cancelled stops nobody.
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
    """What other hosts redirect to one that asks for a delay does not go before its pages
    for ever, nor its pages before that.
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
    """One that does not reach its host lets the next one go at once."""
    crawl = Crawl()
    known(crawl, "a.example")
    crawl.push("http://a.example/1")
    crawl.push(page("http://a.example/2", fate="dropped after"))
    crawl.push("http://a.example/private/3")
    assert len(crawl.run()) == 3
    assert crawl.on_network == ["http://a.example/1"]


def test_a_request_that_is_lost() -> None:
    """One that has the turn and is nowhere to be seen keeps nobody waiting for ever; one
    that is on its way does, however long it takes.
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
    """A request that is in the downloader already takes its turn: the engine may be
    waiting for that.
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
    """A robots.txt from the future makes no request wait longer than the delay."""
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
    """A request goes only with the lease of its host: for its time on the way, and for the
    delay after that. It is renewed while the request takes its time.
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
    """It is asked for now and then, not once for each request; and one that is denied
    leaves no delay.
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
    """Whichever host of a download slot a worker meets first."""
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
    """The delay holds for other workers, not what the renewal asks for, which is answered
    later.
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
    """The delay is kept by this worker alone."""
    crawl = Crawl(is_shared=True)
    known(crawl, "a.example")
    with mock.patch.object(
        crawl.store_client, "reserve", side_effect=OSError("broken")
    ):
        crawl.push("http://a.example/1")
        assert len(crawl.run()) == 1
    assert "without coordinating" in caplog.text


def test_a_turn_in_a_group_that_gets_a_longer_delay() -> None:
    """A queue that has the turn when its group is merged with another waits for the delay of
    that too.
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
