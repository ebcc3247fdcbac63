"""The crawler's own network: detects that the crawler has no network, and limits all requests until the network is
back. This module uses no Scrapy, no clock and no I/O. All times are seconds of a monotonic clock.

A failed connection (a host name that cannot be resolved, a refused connection, a time-out, a dead proxy) looks the
same whether the host has no server or the crawler has no network. Only the answers of other hosts distinguish these
cases. If five different hosts in a row fail, the network is *gone*. Then no page is requested, and one robots.txt at
a time is fetched, after 1, 2, 4, ... 30 seconds, to try the network. The first answer of any host to a request that
was sent after that shows that the network is back. Failures in between are not blamed on hosts.

An answer proves that the network works only if its request was sent after the failure of a host. Otherwise the
answer may have been on the wire before the network failed. As long as no host has ever answered, in this run or an
earlier run, a failure that means "this host has no server" is blamed on its host, and the network is not suspected.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_rep.crawl.frontier.limiter import Limiter
    from scrapy_rep.protocol.origins import Origin

# The network counts as gone after _HOSTS different hosts in a row failed. Each false alarm doubles the number of hosts,
# because in some crawls most hosts have no server. The maximum, _MAX_HOSTS, is low enough that the network counts as
# gone before Scrapy gives up failed requests. Scrapy retries a failed request only twice.
_HOSTS = 5
_MAX_HOSTS = 20

# When the network is gone, _FIRST_PAUSE is the time, in seconds, before the first attempt to reach a host again. Each
# failed attempt doubles the time before the next attempt, up to _MAX_PAUSE.
_FIRST_PAUSE = 1.0
_MAX_PAUSE = 30.0

# The number of sites that are remembered because they answered most recently. When the network is gone, their
# robots.txt files are fetched first, to find out whether the network is back.
_MAX_ANSWERED = 4

# While no host fails, not every answer is recorded. This is the minimum time, in seconds, between two recorded answers.
_RECORD_INTERVAL = 1.0


class Network:
    """Decides from the answers and failures of all hosts whether the crawler's own network works."""

    def __init__(self, pages: Limiter, robotstxt: Limiter, wait_timeout: float) -> None:
        """Create the state of a network that works. After the network was gone for *wait_timeout* seconds, the crawl
        is over. If *wait_timeout* is 0, the network never counts as gone.
        """
        self.pages = pages
        """The limiter of all requests except requests for robots.txt."""

        self.robotstxt = robotstxt
        """The limiter of the requests for robots.txt."""

        self.gone_since: float | None = None
        """The time of the first in the series of failures that showed that the network is gone; None while the network
        works."""

        self.is_certain = False
        """Whether it is certain that the network, and not the hosts, caused the failures for which the network counts
        as gone. False when the network begins to count as gone. It becomes True in three cases: a fetch of robots.txt
        fails although its site answered recently; a fetch of robots.txt fails and no site has answered in this run; a
        site that failed before answers again, which shows that this site was not down."""

        self._wait_timeout = wait_timeout
        self._pause = _FIRST_PAUSE
        self._hosts_needed = _HOSTS
        self.failed_hosts: dict[str, tuple[Origin, float]] = {}
        """The hosts that failed in a row, the oldest failure first. Each value contains the site and the time of the
        host's last failure. The host is removed when any host answers a request that was sent after this time."""

        self._gone_at = -inf
        """The time when the network began to count as gone."""

        self._answered: dict[Origin, None] = {}
        """The sites that answered most recently, the newest one last."""

        self.has_worked = False
        """Whether any site has ever answered, in this run or an earlier run."""

        self.noted_at = -inf
        """While no host fails, answers that arrive before this time need not be passed to :meth:`answered`."""

        self._attempts = 0
        """The number of calls of :meth:`sites_to_ask` since the network began to count as gone."""

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
        """Whether the network counts as gone, so that no page may be requested."""
        return self.gone_since is not None

    def answered(self, site: Origin, now: float, sent_at: float) -> float | None:
        """Record that *site* answered, with any status, a request that was sent at *sent_at*. If the answer shows
        that the network is back, return the time when the network failed; otherwise return None.
        """
        is_noted, self.has_worked = site in self._answered, True
        self._answered.pop(site, None)
        self._answered[site] = None
        if len(self._answered) > _MAX_ANSWERED:
            del self._answered[next(iter(self._answered))]
            is_noted = True
        if is_noted:
            self.noted_at = now + _RECORD_INTERVAL
        failed, self.failed_hosts = self.failed_hosts, {}
        for host, (failed_site, at) in failed.items():
            if at > sent_at:
                self.failed_hosts[host] = failed_site, at
            elif self.is_gone and failed_site == site:
                self.is_certain = True
        is_attempt, count = sent_at >= self._gone_at, len(self.failed_hosts)
        if not self.is_gone or (count >= self._hosts_needed and not is_attempt):
            return None
        many = min(2 * self._hosts_needed, _MAX_HOSTS)
        self._hosts_needed = _HOSTS if self.is_certain else many
        self.pages.set_concurrency(inf)
        self.robotstxt.set_concurrency(inf)
        self.robotstxt.next_at = -inf
        since, self.gone_since = self.gone_since, None
        return since

    def worked_before(self) -> None:
        """Record that a host answered in an earlier run. A ``JOBDIR`` or a stored robots.txt proves this."""
        self.has_worked = True

    def failed(self, host: str, site: Origin, now: float, *, has_server: bool) -> bool:
        """Record that the connection to *site* failed. *host* is the host of the site. Return whether the network
        begins to count as gone because of this failure.

        *has_server* is False if the failure means that the host has no server. Failures of this kind are not counted
        as long as no host has ever answered.
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
        self.is_certain = False
        self._attempts, self._pause, self._gone_at = 0, _FIRST_PAUSE, now
        self.pages.set_concurrency(0)
        self.robotstxt.set_concurrency(1)
        self.robotstxt.next_at = now + self._pause
        return True

    def attempt_failed(self, site: Origin, now: float, sent_at: float) -> bool:
        """Record that a request for the robots.txt of *site*, sent at *sent_at*, failed, and double the pause before
        the next such request. Do nothing if the network did not count as gone at *sent_at*.

        A network that counts as gone may still work, if the hosts are the cause of the failures. Return True if this
        failure makes it certain that the network is gone, because *site* is one of the sites that answered most
        recently, or because no site has answered in this run.
        """
        if self.gone_since is None or sent_at < self._gone_at:
            return False
        was_certain = self.is_certain
        self.is_certain |= site in self._answered or not self._answered
        self._pause = min(2 * self._pause, _MAX_PAUSE)
        self.robotstxt.next_at = now + self._pause
        return self.is_certain and not was_certain

    def is_over(self, now: float) -> bool:
        """Whether the network has been gone for at least ``REP_WAIT_TIMEOUT``, so that the crawl is over."""
        # The network counts as gone after a series of failures. The time is measured from the last of these failures
        # (_gone_at), and not from the first (gone_since). In an idle crawl, hours may lie between the two.
        return self.is_gone and now - self._gone_at >= self._wait_timeout

    def sites_to_ask(self) -> list[Origin]:
        """Return the sites whose robots.txt can be fetched to find out whether the network is back, in the order in
        which they should be tried.

        The sites are those that answered most recently and the one that failed last. Each call rotates the list
        by one more position, so that repeated attempts try different sites.
        """
        failed = [site for site, _ in self.failed_hosts.values()]
        sites = [*reversed(self._answered), *failed[-1:]]
        first = self._attempts % max(len(sites), 1)
        self._attempts += 1
        return sites[first:] + sites[:first]
