"""Decides whether the crawler itself has a network, and limits all requests while it has none. This module has
no Scrapy, no clock and no I/O.

A failed connection (the host name is not resolved, the connection is refused or times out, the proxy is dead)
looks the same whether the host has no server or the crawler has no network. Whether other hosts answer tells
them apart. When five different hosts in a row have failed, the network is *gone*: no page is sent, and one
robots.txt at a time is fetched, after 1, 2, 4, ... 30 seconds. The first answer of any host to a request that was
sent since ends this; failures in the meantime are not blamed on hosts.

Only the answer to a request that was sent after a host failed says that the network worked after that failure.
As long as no host has ever answered, in this run or an earlier one, a failure that says "no server" is blamed on
its host alone.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_rep.crawl.frontier.limiter import Limiter
    from scrapy_rep.protocol.origins import Origin

# The network counts as gone after so many different hosts in a row have failed. Each false alarm doubles the
# number, since there are crawls in which most hosts have no server. The maximum keeps the alarm early enough:
# Scrapy repeats a failed request only twice.
_HOSTS = 5
_MOST_HOSTS = 20

# The seconds before the first attempt to reach a host again, and the most before each further one.
_FIRST_ATTEMPT = 1.0
_LAST_ATTEMPT = 30.0

# The number of sites that have answered last and are remembered, because they are tried first.
_ANSWERED = 4

# Answers need not be noted more often than once in this many seconds while no host fails.
_NOTED_EVERY = 1.0


class Network:
    """Decides from the answers and failures of all hosts whether the network of the crawler works."""

    def __init__(self, pages: Limiter, robotstxt: Limiter, wait_timeout: float) -> None:
        """After *wait_timeout* seconds without a network, the crawl is over. With 0, the network never counts as
        gone.
        """
        self.pages = pages
        """The limiter of all requests except those for robots.txt."""

        self.robotstxt = robotstxt
        """The limiter of the requests for robots.txt."""

        self.gone_since: float | None = None
        """When the first of the hosts failed because of which the network is gone; None while it works."""

        self.is_certain = False
        """Whether the network is certainly gone: an attempt failed at a site that had answered before, or while
        no site has answered in this run; or a site that had failed has answered."""

        self._wait_timeout = wait_timeout
        self._pause = _FIRST_ATTEMPT
        self._hosts_needed = _HOSTS
        self.failed_hosts: dict[str, tuple[Origin, float]] = {}
        """The hosts that have failed in a row, oldest failure first, each with one of its sites and the time of
        its last failure. An answer to a request that was sent after that time removes the host."""

        self._gone_at = -inf
        """When the network began to count as gone."""

        self._answered: dict[Origin, None] = {}
        """The sites that have answered last, the most recent one last."""

        self.has_worked = False
        """Whether any site has ever answered, in this run or an earlier one."""

        self.noted_at = -inf
        """As long as no host fails, :meth:`answered` need not be called before this time."""

        self._attempts = 0

    @property
    def limiters(self) -> tuple[Limiter, Limiter]:
        """The limiter of pages, and that of requests for robots.txt."""
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
        """Whether no page may be sent, because too many different hosts in a row have failed."""
        return self.gone_since is not None

    def answered(self, site: Origin, now: float, sent_at: float) -> float | None:
        """Note that *site* has answered a request that was sent at *sent_at*, with any status. If this
        shows that the network is back, return the time since which it was gone; else None.
        """
        is_noted, self.has_worked = site in self._answered, True
        self._answered.pop(site, None)
        self._answered[site] = None
        if len(self._answered) > _ANSWERED:
            del self._answered[next(iter(self._answered))]
            is_noted = True
        if is_noted:
            self.noted_at = now + _NOTED_EVERY
        failed, self.failed_hosts = self.failed_hosts, {}
        for host, (failed_site, at) in failed.items():
            if at > sent_at:
                self.failed_hosts[host] = failed_site, at
            elif self.is_gone and failed_site == site:
                self.is_certain = True
        is_attempt, count = sent_at >= self._gone_at, len(self.failed_hosts)
        if not self.is_gone or (count >= self._hosts_needed and not is_attempt):
            return None
        many = min(2 * self._hosts_needed, _MOST_HOSTS)
        self._hosts_needed = _HOSTS if self.is_certain else many
        self.pages.set_concurrency(inf)
        self.robotstxt.set_concurrency(inf)
        self.robotstxt.next_at = -inf
        since, self.gone_since = self.gone_since, None
        return since

    def worked_before(self) -> None:
        """Note that hosts have answered an earlier run, as a ``JOBDIR`` or a stored robots.txt shows."""
        self.has_worked = True

    def failed(self, host: str, site: Origin, now: float, *, has_server: bool) -> bool:
        """Note that the connection to *site*, of *host*, has failed. Return whether the network counts as gone
        from now on.

        *has_server* is False if the failure says that the host has no server. This is believed as long as no
        host has ever answered.
        """
        if not (has_server or self.has_worked):
            return False
        self.failed_hosts.pop(host, None)
        if len(self.failed_hosts) < _MOST_HOSTS:
            self.failed_hosts[host] = site, now
        if self.gone_since is not None:
            return False
        is_enough = len(self.failed_hosts) >= self._hosts_needed
        if not (is_enough and self._wait_timeout):
            return False
        _, self.gone_since = next(iter(self.failed_hosts.values()))
        self.is_certain = False
        self._attempts, self._pause, self._gone_at = 0, _FIRST_ATTEMPT, now
        self.pages.set_concurrency(0)
        self.robotstxt.set_concurrency(1)
        self.robotstxt.next_at = now + self._pause
        return True

    def attempt_failed(self, site: Origin, now: float, sent_at: float) -> bool:
        """Note that a request for the robots.txt of *site*, sent at *sent_at*, has failed. Return whether this
        makes it certain that the network is gone: the site has answered before, or no site has.
        """
        if self.gone_since is None or sent_at < self._gone_at:
            return False
        was_certain = self.is_certain
        self.is_certain |= site in self._answered or not self._answered
        self._pause = min(2 * self._pause, _LAST_ATTEMPT)
        self.robotstxt.next_at = now + self._pause
        return self.is_certain and not was_certain

    def is_over(self, now: float) -> bool:
        """Whether the network is gone for so long that the crawl is over."""
        # Not since the first failure: in an idle crawl, that may have been long before the others.
        return self.is_gone and now - self._gone_at >= self._wait_timeout

    def sites_to_ask(self) -> list[Origin]:
        """Return the sites whose robots.txt is fetched to find out whether the network is back, the best one
        first. Each call begins with another one: the sites that answered last, and then the last that failed.
        """
        failed = [site for site, _ in self.failed_hosts.values()]
        sites = [*reversed(self._answered), *failed[-1:]]
        first = self._attempts % max(len(sites), 1)
        self._attempts += 1
        return sites[first:] + sites[:first]
