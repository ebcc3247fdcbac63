"""Whether the network of the crawler itself works: two limiters, which all requests need. No Scrapy, no
clock, no I/O.

A failure at the level of the network (the host name is not resolved, the connection is refused or times
out, the proxy is dead) looks the same if a host has no server and if the crawler has no network. What
tells them apart is whether other hosts answer. When five different hosts in a row have failed, the network
is *gone*: no page is sent, and one robots.txt at a time, after 1, 2, 4, ... 30 seconds. The first answer of
any host to a request that was sent since ends that. An answer that was on its way when a host failed says
nothing against that failure. What fails meanwhile is no verdict about a host. If no host has ever answered, in this run or before, hosts that
have no server, as it seems, are judged each by itself.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_rep.crawl.frontier.limiter import Limiter
    from scrapy_rep.protocol.origins import Origin

# The network counts as gone after so many different hosts in a row have failed. Each false alarm doubles
# the number, since most hosts of some crawls have no server. It has a maximum: Scrapy repeats a request
# only twice, so that a late alarm would lose requests.
_HOSTS = 5
_MOST_HOSTS = 20

# The seconds before the first attempt, and the most before any other.
_FIRST_ATTEMPT = 1.0
_LAST_ATTEMPT = 30.0

# How many of the sites that have answered are remembered, to be asked first.
_ANSWERED = 4

# If so many are known, or a site has answered twice, the next one is noted after these seconds.
_NOTED_EVERY = 1.0


class Network:
    """What the answers and failures of all hosts say about the network of the crawler."""

    def __init__(self, pages: Limiter, robotstxt: Limiter, wait_timeout: float) -> None:
        """If it is gone for *wait_timeout* seconds, the crawl is over; with 0, it is never taken for gone."""
        self.pages = pages
        """The limiter of all requests but those for robots.txt."""

        self.robotstxt = robotstxt
        """The limiter of the requests for robots.txt."""

        self.gone_since: float | None = None
        """When the first host has failed; None while the network works."""

        self.is_certain = False
        """Whether that is so: a site that had answered has failed since, or one that had failed has answered."""

        self._wait_timeout = wait_timeout
        self._pause = _FIRST_ATTEMPT
        self._hosts_needed = _HOSTS
        self.failed_hosts: dict[str, tuple[Origin, float]] = {}
        """The hosts that have failed since any has answered, each with a site and the last time, the first one
        first. Only an answer to a request that was sent later counts."""

        self._gone_at = -inf
        """When the network was taken for gone."""

        self._answered: dict[Origin, None] = {}
        """The sites that have answered last."""

        self.has_worked = False
        """Whether any site has ever answered, in this run or before."""

        self.noted_at = -inf
        """Until then, an answer changes nothing if no host has failed: it need not be noted."""

        self._attempts = 0

    def __repr__(self) -> str:
        state = (
            "works" if self.gone_since is None else f"gone since {self.gone_since:g}"
        )
        return (
            f"<Network: {state}; {len(self.failed_hosts)} hosts have failed in a row>"
        )

    @property
    def is_gone(self) -> bool:
        """Whether no page may be sent, since hosts fail that have nothing else in common."""
        return self.gone_since is not None

    def answered(self, site: Origin, now: float, sent_at: float) -> float | None:
        """Note that *site* has answered, with anything, a request that was sent at *sent_at*. Return since when
        the network was gone, if it is back now.
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
        """Note that hosts have answered an earlier run, of which something is left."""
        self.has_worked = True

    def failed(self, host: str, site: Origin, now: float, *, has_server: bool) -> bool:
        """Note that a request to *site*, of *host*, has failed at the level of the network. Return whether
        the network is gone now, and was not before. *has_server* is False if the failure says that there is
        no server: if no host has answered yet, that is taken for what it says.
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
        """Note that a request for the robots.txt of *site*, sent at *sent_at*, has failed. Return whether it
        is certain since then that the network is gone: the host has answered before, or none has.
        """
        if self.gone_since is None or sent_at < self._gone_at:
            return False
        was_certain = self.is_certain
        self.is_certain |= site in self._answered or not self._answered
        self._pause = min(2 * self._pause, _LAST_ATTEMPT)
        self.robotstxt.next_at = now + self._pause
        return self.is_certain and not was_certain

    def is_over(self, now: float) -> bool:
        """Whether the network is gone for too long."""
        # From when that was clear: the first host may have failed long before the others, in an idle crawl.
        return self.is_gone and now - self._gone_at >= self._wait_timeout

    def sites_to_ask(self) -> list[Origin]:
        """Return the sites whose robots.txt may tell that the network is back, the best one first: in turns
        those that have answered before, and one that has failed.
        """
        failed = [site for site, _ in self.failed_hosts.values()]
        sites = [*reversed(self._answered), *failed[-1:]]
        first = self._attempts % max(len(sites), 1)
        self._attempts += 1
        return sites[first:] + sites[:first]
