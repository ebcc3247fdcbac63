"""Whether the network of the crawler itself works: a state machine without Scrapy, I/O or a clock.

A failure at the level of the network (the host name is not resolved, the connection is refused or
times out, the proxy is dead) looks the same if a host has no server and if the crawler has no
network. What tells them apart is whether other hosts answer. The network is *up* until several
hosts in a row have failed and nothing has answered since the first of them. Then it is *gone*,
until anything answers. Meanwhile one probe is sent after 1, 2, 4, ... 30 seconds, to a host that
has answered before if there is one, and failures are nobody's verdict.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

# The network is gone if so many requests in a row fail, to so many different hosts. Twice as many
# requests after each time when an answer comes before the first probe has failed: most hosts of some
# crawls have no server. But not many more: an outage may begin while answers are on their way, and
# Scrapy repeats each request twice only.
_HOSTS = 5
_MOST_REQUESTS = 20
_MOST_HOSTS = 160

# The seconds before the first probe, and the most before any other.
_FIRST_PROBE = 1.0
_LAST_PROBE = 30.0

# The hosts that are asked in turn: the last ones that have answered, then those that have failed.
_ANSWERED = 4

# If so many of the former are known, another is noted after these seconds, unless one has failed.
_NOTED_EVERY = 1.0

# The pause in seconds after the machine had no more files, ports or memory for a connection.
_EXHAUSTED = 1.0


class NetworkGone(NamedTuple):
    """The network of the crawler seems to be gone. Requests in their download slots are to wait."""

    is_certain: bool
    """Whether a probe has failed, too."""


class NetworkBack(NamedTuple):
    """The network of the crawler is back."""

    since: float
    """From when on it was gone."""

    until: float
    was_certain: bool


class Network:
    """What the answers and failures of all hosts say about the crawler's own network."""

    def __init__(self, wait_timeout: float) -> None:
        """If no host has ever answered, the hosts may all be without a server. Then the network
        counts as up again after *wait_timeout* seconds.
        """
        self.gone_since: float | None = None
        """When the first host failed; None while the network is up."""

        self.is_certain = False
        """Whether a probe has failed since it is gone."""

        self._wait_timeout = wait_timeout
        self.resumes_at = inf
        self.probe_at = inf
        self._turn = 0
        self._pause = _FIRST_PROBE
        self._needed: float = _HOSTS
        self.probed_host = ""
        """The host whose robots.txt may be sent; empty while there is none."""

        self.answered_hosts: dict[str, Any] = {}
        self.failed_hosts: dict[str, Any] = {}
        """By host, a request to it."""

        self.notes_at = -inf
        """Until then, the answer of another host changes nothing while none has failed."""

        self._failures = 0
        self._failed_at = -inf

    def __repr__(self) -> str:
        state = "up" if self.gone_since is None else "gone"
        return (
            f"<Network: {state}, {len(self.failed_hosts)} hosts have failed in a row>"
        )

    @property
    def is_up(self) -> bool:
        """Whether requests other than a probe may be sent."""
        return self.gone_since is None and self.resumes_at == inf

    def answered(self, host: str, request: Any, now: float) -> NetworkBack | None:
        """Note that *host* has answered a *request*, with anything: the network is up."""
        if host not in self.answered_hosts:
            self.answered_hosts[host] = request
            if len(self.answered_hosts) > _ANSWERED:
                del self.answered_hosts[next(iter(self.answered_hosts))]
                self.notes_at = now + _NOTED_EVERY
            if self._needed == inf:
                self._needed = _HOSTS
        if self.gone_since is not None:
            is_wrong = not self.is_certain
            self._needed = min(2 * self._needed, _MOST_REQUESTS) if is_wrong else _HOSTS
        return self._recover(now) if self.failed_hosts else None

    def failed(self, host: str, request: Any, now: float) -> NetworkGone | None:
        """Note that a *request* to *host* has failed at the level of the network."""
        if not self.failed_hosts:
            self._failed_at, self._failures = now, 0
        self._failures += 1
        if len(self.failed_hosts) < _MOST_HOSTS:
            self.failed_hosts[host] = request
        is_enough = len(self.failed_hosts) >= _HOSTS and self._failures >= self._needed
        if self.gone_since is None and is_enough:
            self.gone_since, self.is_certain = self._failed_at, False
            self._turn, self._pause = 0, _FIRST_PROBE
            self.probe_at = now + self._pause
            return NetworkGone(is_certain=False)
        return None

    def exhausted(self, now: float) -> bool:
        """Note that the machine had no more files, ports or memory for a connection: nothing is
        sent for a second. Return whether such a pause begins.
        """
        is_new = self.resumes_at == inf
        if is_new:
            self.resumes_at = now + _EXHAUSTED
        return is_new

    def resume(self) -> None:
        """Note that what :meth:`exhausted` has paused goes on."""
        self.resumes_at = inf

    def next_probe(self, now: float, is_free: Callable[[str], bool]) -> Any:
        """Return a request to the host to ask now; None if it is not time for a probe, or if no
        host *is_free*. When the probe is in the downloader, call :meth:`probing`, and at its end
        :meth:`probed`. If it does not get there, another follows after the same pause.
        """
        if now < self.probe_at:
            return None
        hosts = [*reversed(self.answered_hosts.items()), *self.failed_hosts.items()]
        for _ in hosts:
            host, request = hosts[self._turn % len(hosts)]
            self._turn += 1
            if is_free(host):
                self.probed_host, self.probe_at = host, now + self._pause
                return request
        self.probe_at = now + _FIRST_PROBE
        return None

    def probing(self) -> None:
        """Note that the probe is on its way: no other one follows until it ends."""
        self.probe_at = inf

    def probed(self, now: float, *, sent: bool) -> NetworkGone | NetworkBack | None:
        """Note that a probe has ended; without an answer, unless it was not *sent*."""
        if self.gone_since is None:
            return None  # The probe was answered.
        was_certain = self.is_certain
        if sent:
            self.probed_host = ""
            if not self.answered_hosts and now - self.gone_since >= self._wait_timeout:
                # Until one answers, each counts as a host without a server.
                self._needed = inf
                return self._recover(now)
            self.is_certain = True
            self._pause = min(2 * self._pause, _LAST_PROBE)
        self.probe_at = now + self._pause
        return NetworkGone(is_certain=True) if self.is_certain > was_certain else None

    def _recover(self, now: float) -> NetworkBack | None:
        since, self.gone_since = self.gone_since, None
        self.probe_at, self.probed_host = inf, ""
        self.failed_hosts.clear()
        return None if since is None else NetworkBack(since, now, self.is_certain)
