"""The crawler's own network: detects that the crawler has no network, and limits all requests until the network is
back. This module uses no Scrapy, no clock and no I/O. All times are seconds of a monotonic clock.

A failed connection (a host name that cannot be resolved, a refused connection, a time-out, a dead proxy) looks the
same whether the host has no server or the crawler has no network. Only the answers of other hosts distinguish these
cases. If five different hosts fail and no host answers in between, the network counts as *gone*. This can be a false
alarm: the network works, and only the five hosts are down. After a false alarm, ten hosts must fail before the network
counts as gone again. After another false alarm, twenty hosts must fail.

While the network counts as gone, no page is requested. To try the network, one robots.txt at a time is fetched, after
pauses of 1, 2, 4, ... 30 seconds. If such a fetch fails, the failure is not blamed on its host. The network is back
when any host answers a request that was sent after the network began to count as gone.

If the answered request was sent before the network began to count as gone, the answer proves only that the network
worked when the request was sent. Then the hosts that failed before the request was sent no longer count as failed. If
too few failed hosts remain, the network is back. For example, five hosts fail at the times 1, 2, 3, 4 and 5. Then a
host answers a request that was sent at the time 3.5. The three hosts that failed earlier no longer count. Two failed
hosts remain. These are too few, so the network is back.

An unknown host name or a refused connection usually means that the host has no server. These two errors count only
against their host until the crawler receives its first answer from any host, in this run or an earlier run. So a crawl
whose hosts are all dead does not blame the network. After the first answer, the two errors count like all failures.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_rep.crawl.frontier.limiter import Limiter
    from scrapy_rep.protocol.origins import Origin

# The network counts as gone after _HOSTS different hosts have failed, and no host has answered in between. This can be
# a false alarm, because in some crawls most hosts have no server. After each outage that was not confirmed
# (Network.is_confirmed), twice as many hosts must fail before the network counts as gone again: 5, 10, 20 (_MAX_HOSTS).
# The maximum of 20 keeps the number of lost requests small: Scrapy retries a failed request only twice, so requests can
# be lost until the outage is detected.
_HOSTS = 5
_MAX_HOSTS = 20

# When the network is gone, _FIRST_PAUSE is the time, in seconds, before the first attempt to reach a host again. Each
# failed attempt doubles the time before the next attempt, up to _MAX_PAUSE.
_FIRST_PAUSE = 1.0
_MAX_PAUSE = 30.0

# The number of sites that are remembered because they answered most recently. When the network is gone, their
# robots.txt files are fetched first, to find out whether the network is back.
_MAX_ANSWERED = 4

# To save time, not every answer is recorded while Network.failed_hosts is empty. This is the minimum time, in seconds,
# between two recorded answers.
_RECORD_INTERVAL = 1.0


class Network:
    """Decides from the answers and failures of all hosts whether the crawler's own network works."""

    def __init__(self, pages: Limiter, robotstxt: Limiter, wait_timeout: float) -> None:
        """The network counts as working at first.

        *pages* is the limiter of all requests except requests for robots.txt. *robotstxt* is the limiter of the
        requests for robots.txt. *wait_timeout* is the maximum time, in seconds, for which the crawl waits for the
        network to come back (see :meth:`is_over`). If *wait_timeout* is 0, the network always counts as working.
        """
        self.pages = pages
        """The limiter of all requests except requests for robots.txt."""

        self.robotstxt = robotstxt
        """The limiter of the requests for robots.txt."""

        self.gone_since: float | None = None
        """The time of the first failure of the current outage of the network; None while the network does not count as
        gone."""

        self.is_confirmed = False
        """Whether it is confirmed that the network itself failed in the current or last outage. An outage that is not
        confirmed can be a false alarm: perhaps only the failed hosts are down. The value is False at the start of each
        outage. Each of these events during an outage sets it to True:

        - A fetch of robots.txt fails although its site answered recently: the server probably still works.
        - A fetch of robots.txt fails, and no site has answered in this run: nothing shows that the network works.
        - A site answers although a connection to it had failed: the server works, so the network caused the failure."""

        self._wait_timeout = wait_timeout
        self._pause = _FIRST_PAUSE
        self._hosts_needed = _HOSTS
        self.failed_hosts: dict[str, tuple[Origin, float]] = {}
        """The hosts to which a connection has failed since the network last worked, the oldest failure first. If there
        are enough of them, the network counts as gone. Each value contains the origin (scheme, host and port) of the
        host's last failed connection, and the time of its failure. An answer of any host proves that the network worked
        when the answered request was sent, and removes all hosts that failed before this moment."""

        self._detected_at = -inf
        """The time when the last outage was detected: enough hosts had failed, and the network began to count as gone.
        The outage itself began earlier, at :attr:`gone_since`. ``-inf`` before the first outage."""

        self._answered: dict[Origin, None] = {}
        """Up to ``_MAX_ANSWERED`` sites that answered most recently, in the order of their answers."""

        self.has_worked = False
        """Whether any site has ever answered, in this run or an earlier run."""

        self.next_record_at = -inf
        """While no host has failed (:attr:`failed_hosts` is empty), answers that arrive before this time need not be
        recorded with :meth:`answered`. ``-inf`` at first, so that the first answers are recorded."""

        self._attempts = 0
        """The number of calls of :meth:`sites_to_ask` in the current or last outage of the network."""

    @property
    def limiters(self) -> tuple[Limiter, Limiter]:
        """The limiter of pages and the limiter of requests for robots.txt."""
        return self.pages, self.robotstxt

    def __repr__(self) -> str:
        state = (
            "works" if self.gone_since is None else f"gone since {self.gone_since:g}"
        )
        return (
            f"<Network: {state}; {len(self.failed_hosts)} hosts have failed in a row>"
        )

    @property
    def is_gone(self) -> bool:
        """Whether the crawler's own network counts as gone (has failed). While it is gone, no page is requested."""
        return self.gone_since is not None

    def answered(self, site: Origin, now: float, sent_at: float) -> float | None:
        """Record that *site* has answered a request that was sent at *sent_at*. The status of the answer does not
        matter. If this answer ends an outage of the network, return the time when the outage began
        (:attr:`gone_since`). Otherwise, return None.
        """
        may_skip_next, self.has_worked = site in self._answered, True
        self._answered.pop(site, None)
        self._answered[site] = None
        if len(self._answered) > _MAX_ANSWERED:
            del self._answered[next(iter(self._answered))]
            may_skip_next = True
        if may_skip_next:
            self.next_record_at = now + _RECORD_INTERVAL
        failed, self.failed_hosts = self.failed_hosts, {}
        for host, (failed_site, at) in failed.items():
            if at > sent_at:
                self.failed_hosts[host] = failed_site, at
            elif self.is_gone and failed_site == site:
                self.is_confirmed = True
        is_attempt, count = sent_at >= self._detected_at, len(self.failed_hosts)
        if not self.is_gone or (count >= self._hosts_needed and not is_attempt):
            return None
        many = min(2 * self._hosts_needed, _MAX_HOSTS)
        self._hosts_needed = _HOSTS if self.is_confirmed else many
        self.pages.set_concurrency(inf)
        self.robotstxt.set_concurrency(inf)
        self.robotstxt.next_at = -inf
        since, self.gone_since = self.gone_since, None
        return since

    def worked_before(self) -> None:
        """Record that a host has answered at some time, in this run or an earlier run. From now on, all failed
        connections can show that the network is gone, even unknown host names and refused connections.
        """
        self.has_worked = True

    def failed(self, host: str, site: Origin, now: float, *, has_server: bool) -> bool:
        """Record that the connection to *site*, whose host is *host*, failed. Return True if the network counts as gone
        from now on because of this failure; otherwise, return False.

        *has_server* is False if the error usually means that the host has no server: an unknown host name, or a refused
        connection. If no host has ever answered, in this run or an earlier run, such a failure is ignored.
        """
        if not (has_server or self.has_worked):
            return False
        self.failed_hosts.pop(host, None)
        if len(self.failed_hosts) < _MAX_HOSTS:
            self.failed_hosts[host] = site, now
        if self.gone_since is not None:
            return False
        is_enough = len(self.failed_hosts) >= self._hosts_needed
        if not (is_enough and self._wait_timeout):
            return False
        _, self.gone_since = next(iter(self.failed_hosts.values()))
        self.is_confirmed = False
        self._attempts, self._pause, self._detected_at = 0, _FIRST_PAUSE, now
        self.pages.set_concurrency(0)
        self.robotstxt.set_concurrency(1)
        self.robotstxt.next_at = now + self._pause
        return True

    def attempt_failed(self, site: Origin, now: float, sent_at: float) -> bool:
        """Record that a fetch of the robots.txt of *site* failed while the network counts as gone, and double the pause
        before the next fetch. Return True if this failure confirms the outage (:attr:`is_confirmed`). Return False if
        the outage is not confirmed, or was confirmed earlier.

        A fetch that began before the outage was detected (*sent_at* is its start) is ignored, and the result is False.
        """
        if self.gone_since is None or sent_at < self._detected_at:
            return False
        was_confirmed = self.is_confirmed
        self.is_confirmed |= site in self._answered or not self._answered
        self._pause = min(2 * self._pause, _MAX_PAUSE)
        self.robotstxt.next_at = now + self._pause
        return self.is_confirmed and not was_confirmed

    def is_over(self, now: float) -> bool:
        """Whether the network has been gone for at least ``REP_WAIT_TIMEOUT`` seconds, so that the crawl has to end."""
        # The network counts as gone after a series of failures. The time is measured from the last of these failures
        # (_detected_at), and not from the first (gone_since). In an idle crawl, hours may lie between the two.
        return self.is_gone and now - self._detected_at >= self._wait_timeout

    def sites_to_ask(self) -> list[Origin]:
        """Return the sites whose robots.txt can be fetched to find out whether the network is back, in the order in
        which they should be tried.

        The list contains the sites that answered most recently, and the site that failed last. Each call rotates the
        list by one more position, so that repeated attempts try different sites.
        """
        failed = [site for site, _ in self.failed_hosts.values()]
        sites = [*reversed(self._answered), *failed[-1:]]
        first = self._attempts % max(len(sites), 1)
        self._attempts += 1
        return sites[first:] + sites[:first]
