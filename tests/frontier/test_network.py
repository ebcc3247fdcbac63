"""Tests of :class:`Network`, which detects that the crawler itself has no network."""

from __future__ import annotations

from math import inf

import pytest

from scrapy_rep.crawl.frontier.limits import READY, Limiter
from scrapy_rep.crawl.frontier.network import Network
from scrapy_rep.crawl.frontier.sites import Phase
from scrapy_rep.protocol.origins import Origin
from tests.frontier.steps import Crawl

pytestmark = pytest.mark.newest


def site(host: str) -> Origin:
    return Origin("http", host, 80)


def new_network(wait_timeout: float = 600.0) -> Network:
    """Return a network that works, and from which no host has answered yet."""
    return Network(Limiter("network"), Limiter("robots.txt"), wait_timeout)


def fail(
    network: Network, hosts: str, now: float = 0.0, *, has_server: bool = True
) -> list[bool]:
    """Let the connections to *hosts* fail, one host after the other; each letter is a host. Return a boolean for each
    failure: whether the network begins to count as gone with this failure. *has_server* is False if the errors usually
    mean that the host has no server, such as a refused connection.
    """
    return [
        network.failed(host, site(host), now, has_server=has_server) for host in hosts
    ]


def test_after_five_failed_hosts_one_robotstxt_at_a_time_tries_the_network() -> None:
    """The network counts as gone after five different hosts in a row have failed. Then no page is sent, and after a
    second, one robots.txt is fetched to test whether the network works again.
    """
    network = new_network()
    assert fail(network, "abcd", now=1) == [False] * 4
    assert repr(network) == "<Network: works; 4 hosts have failed in a row>"
    assert fail(network, "e", now=2) == [True]
    assert repr(network) == "<Network: gone since 1; 5 hosts have failed in a row>"
    assert (
        repr(network.pages)
        == "<Limiter network: 0 planned, 0 sent of 0; 0 wait, 0 queues parked>"
    )
    assert repr(network.robotstxt) == (
        "<Limiter robots.txt: 0 planned, 0 sent of 1; next at 3; 0 wait, 0 queues parked>"
    )
    assert fail(network, "f", now=2) == [False]


def test_an_answer_to_a_request_from_before_the_failures_ends_no_outage() -> None:
    """An answer that was on its way when the first host failed does not show that the network works. If each such
    answer ended the outage, all pages would be sent again and fail. Scrapy tries a page three times only.
    """
    network = new_network()
    fail(network, "abcd", now=5)
    assert network.answered(site("x"), 6, sent_at=4.9) is None
    assert fail(network, "e", now=6) == [True]
    assert network.answered(site("x"), 7, sent_at=4.9) is None
    assert network.is_gone
    assert network.sites_to_ask()[0] == site("x")
    assert network.answered(site("x"), 8, sent_at=7.5) == 5


def test_failures_of_a_single_host_do_not_mean_that_the_network_is_gone() -> None:
    network = new_network()
    assert not any(fail(network, "aaaaaaaaab"))
    assert not network.is_gone


def test_an_answer_restarts_the_count_of_failed_hosts() -> None:
    network = new_network()
    assert not any(fail(network, "abcd"))
    assert network.answered(site("x"), 0, sent_at=0) is None
    assert not any(fail(network, "efgh"))
    assert any(fail(network, "i"))


def test_the_pauses_between_attempts_double_up_to_30_seconds() -> None:
    network = new_network()
    fail(network, "abcde")
    now, pauses = 0.0, []
    for _ in range(7):
        pauses.append(network.robotstxt.next_at - now)
        now = network.robotstxt.next_at
        network.attempt_failed(site("a"), now, sent_at=now)
    assert pauses == [1, 2, 4, 8, 16, 30, 30]


def test_only_a_request_that_was_sent_during_the_outage_is_an_attempt() -> None:
    network = new_network()
    fail(network, "abcde", now=5)
    assert not network.attempt_failed(site("a"), 6, sent_at=4.9)
    assert (network.is_confirmed, network.robotstxt.next_at) == (False, 6)
    assert network.attempt_failed(site("a"), 7, sent_at=6)
    assert network.is_confirmed
    assert not network.attempt_failed(site("a"), 9, sent_at=8)


def test_the_first_answer_ends_an_outage() -> None:
    network = new_network()
    fail(network, "abcde", now=5)
    network.attempt_failed(site("a"), 7, sent_at=6)
    assert network.answered(site("x"), 10, sent_at=10) == 5
    assert not network.is_gone
    assert (
        network.pages.concurrency_now,
        network.robotstxt.concurrency_now,
        network.robotstxt.next_at,
    ) == (
        inf,
        inf,
        -inf,
    )
    # The network was gone for certain, so five failed hosts are enough again.
    assert fail(network, "abcde")[-1]


def test_a_false_alarm_doubles_the_number_of_hosts_that_must_fail() -> None:
    """After five failed hosts in a row, the network counts as gone. Here most hosts have no server. Hosts that answered
    before still answer, so the network was not gone. After each false alarm, twice as many hosts must fail, up to 20.
    """
    network = new_network()
    network.answered(site("x"), 0, sent_at=0)
    hosts = "abcdefghijklmnopqrstuvwxyz"
    for number in 5, 10, 20, 20:
        assert fail(network, hosts[:number]) == [False] * (number - 1) + [True]
        assert not network.attempt_failed(site("a"), 1, sent_at=1)
        assert not network.is_confirmed
        assert network.answered(site("x"), 2, sent_at=2) == 0
        assert not network.is_confirmed


def test_an_answer_of_a_failed_host_proves_an_outage() -> None:
    """Host ``e`` fails, and answers later. So its server works, and the network caused the failure. It does not matter
    that ``x``, which answered before the outage, has not failed.
    """
    network = new_network()
    network.answered(site("x"), 0, sent_at=0)
    fail(network, "abcde", now=1)
    network.answered(site("e"), 3, sent_at=2)
    assert network.is_confirmed


def test_with_a_wait_timeout_of_0_the_network_is_never_gone() -> None:
    assert not any(fail(new_network(wait_timeout=0), "abcdefghijklmnopqrstuvwxyz"))


def test_an_outage_is_final_after_the_wait_timeout() -> None:
    network = new_network(wait_timeout=60)
    assert not network.is_over(1000)
    fail(network, "abcde", now=5)
    assert [network.is_over(64.9), network.is_over(65)] == [False, True]
    network.answered(site("x"), 66, sent_at=66)
    assert not network.is_over(1000)


def test_the_wait_timeout_begins_with_the_failure_of_the_fifth_host() -> None:
    """The first host may have failed long before the other hosts, if the crawl had nothing to send in between."""
    network = new_network(wait_timeout=60)
    fail(network, "a", now=5)
    fail(network, "bcde", now=100)
    assert network.gone_since == 5
    assert [network.is_over(159), network.is_over(160)] == [False, True]


def test_without_any_answer_hosts_without_a_server_are_no_sign_of_an_outage() -> None:
    """As long as no host has ever answered, a failure that means "this host has no server" is blamed on its host. Other
    failures may mean that the network is gone.
    """
    assert not any(fail(new_network(), "abcdefgh", has_server=False))
    assert any(fail(new_network(), "abcdefgh", has_server=True))
    network = new_network()
    network.answered(site("x"), 0, sent_at=0)
    assert any(fail(network, "abcdefgh", has_server=False))


def test_an_earlier_run_proves_that_the_network_has_worked() -> None:
    """The proof is the JOBDIR of an earlier run, or a robots.txt that the earlier run has stored."""
    network = new_network()
    network.worked_before()
    assert any(fail(network, "abcdefgh", has_server=False))


def test_the_hosts_that_answered_last_and_a_failed_host_are_tried_in_turns() -> None:
    network = new_network()
    for number in range(6):
        network.answered(site(f"x{number}"), number, sent_at=number)
    fail(network, "abcde", now=10)
    first_hosts = [network.sites_to_ask()[0].host for _ in range(6)]
    assert first_hosts == ["x5", "x4", "x3", "x2", "e", "x5"]
    assert [origin.host for origin in network.sites_to_ask()] == [
        "x4",
        "x3",
        "x2",
        "e",
        "x5",
    ]
    assert new_network().sites_to_ask() == []


# The network together with the limits.


def test_pauses_for_failures_end_when_the_network_is_back() -> None:
    """Failures during the time without a network are undone. A pause for which a host asked goes on. So does the wait
    for a robots.txt that was unreachable before, but the time without a network does not count towards
    REP_WAIT_TIMEOUT.
    """
    crawl = Crawl(wait_timeout=60)
    queues = {host: crawl.queue(host, obeys=True) for host in "abcde"}
    for host in "abc":
        crawl.learn_rules(host)
    for host in "de":
        crawl.push(queues[host], f"{host}1")
    assert crawl.start_fetches() == ["d", "e"]
    for host in "de":
        crawl.limits.end_fetch(crawl.site(host))
    limits, network = crawl.limits, crawl.limits.network
    limits.unreachable(crawl.site("d"), 0, 50, wait=60, is_asked=False)
    crawl.advance_to(10)
    for host in "abc":
        crawl.push(queues[host], f"{host}1")
    crawl.pause("a", has_failed=True)
    crawl.pause("b", 25)
    for host in "vwxyz":
        network.failed(host, site(host), 10, has_server=True)
    assert network.is_gone
    limits.unreachable(crawl.site("e"), 12, 50, wait=60, is_asked=False)
    assert crawl.plan() is None
    assert queues["c"].place in {READY, network.pages}

    crawl.advance_to(20)
    since = network.answered(site("z"), 20, sent_at=20)
    assert since == 10
    limits.network_is_back(20, since)
    assert sorted(crawl.plan_and_send_all()) == ["a1", "c1"]
    assert queues["b"].place is queues["b"].host
    crawl.advance_to(20)
    assert crawl.start_fetches() == ["e"]
    outage = crawl.site("d").outage
    assert outage is not None
    assert (outage.retry_at, outage.until) == (50, 70)
    assert crawl.site("d").phase is Phase.DOWN


def test_pause_network_pauses_pages_and_robotstxt_of_all_hosts() -> None:
    """The network is paused if the machine of the crawler has no free file descriptor."""
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.limits.pause_network(1.0, crawl.now)
    crawl.push(a, "a1")
    crawl.send_or_wait("r1", a, is_for_robotstxt=True)
    assert (crawl.plan(), crawl.decided()) == (None, [])
    assert crawl.limits.alarms.first_at == 1
    crawl.advance_to(1)
    assert (crawl.plan_and_send(), crawl.decided()) == ("a1", ["r1"])


def test_one_robotstxt_tries_the_network_while_pages_wait() -> None:
    crawl = Crawl()
    a = crawl.queue("a")
    network = crawl.limits.network
    for host in "vwxyz":
        network.failed(host, site(host), 0, has_server=True)
    crawl.push(a, "a1")
    crawl.send_or_wait("f1", a)
    crawl.send_or_wait("r1", a, is_for_robotstxt=True)
    crawl.send_or_wait("r2", crawl.queue("b"), is_for_robotstxt=True)
    assert (crawl.plan(), crawl.decided()) == (None, [])
    crawl.advance_to(1)
    assert (crawl.plan(), crawl.decided()) == (None, ["r1"])
    assert network.robotstxt.planned == 1


def test_the_time_without_a_network_does_not_count_towards_the_wait_timeout() -> None:
    """The network is gone for 210 seconds, from second 100 to second 310. The pause of host ``a`` began at 0, before
    the outage, and counts as if it had begun at 210. The pause of ``b`` and the unreachable robots.txt of ``c`` began
    at 300, during the outage, and count as if they had begun at its end.
    """
    crawl = Crawl(wait_timeout=60)
    network = crawl.limits.network
    crawl.pause("a", 400)
    crawl.advance_to(100)
    for host in "vwxyz":
        network.failed(host, site(host), 100, has_server=True)
    crawl.advance_to(300)
    crawl.pause("b", 30)
    crawl.limits.unreachable(crawl.site("c"), 300, 320, wait=60, is_asked=False)
    network.is_confirmed = True
    since = network.answered(site("v"), 310, 305)
    assert since == 100
    crawl.limits.network_is_back(310, since)
    since_of = {
        host: limiter.back_off.since
        for host, limiter in crawl.limits.limiters.items()
        if limiter.back_off is not None
    }
    assert since_of == {"a": 210, "b": 310}
    outage = crawl.site("c").outage
    assert outage is not None
    assert (outage.since, outage.until) == (310, 370)
