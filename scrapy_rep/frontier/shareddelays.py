"""Delays that the crawls of one process share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy_rep.frontier.clock import Clock
from scrapy_rep.frontier.hostkeys import bare_host
from scrapy_rep.frontier.leases import pause_of

if TYPE_CHECKING:
    from scrapy_rep.frontier.clock import Alarms
    from scrapy_rep.frontier.delays import DelayGroup

# Beyond this number, hosts whose delay has passed are forgotten.
_MAX_HOSTS = 10_000


@dataclass(slots=True, eq=False)
class _Host:
    """The shared state of a host with a delay."""

    delay: float = 0.0

    holder: object = None
    """The crawl that has the turn."""

    last: float = -inf
    """The end of the last request, on the monotonic clock."""


# The hosts, by the event loop (or clock, in tests) of the crawls that share them.
_TABLES: WeakKeyDictionary[object, dict[str, _Host]] = WeakKeyDictionary()


class SharedDelays:
    """Makes all crawls of an event loop share the delay of each host, and nothing else.

    Unlike leases, this state is in memory, so reading it does not wait.
    """

    def __init__(self, alarms: Alarms, *, enabled: bool) -> None:
        self._alarms = alarms
        self._clock = alarms.clock
        self._is_enabled = enabled

    def postpone(self, group: DelayGroup) -> None:
        """Make *group* wait until the delay after the requests of other crawls has passed."""
        for host in self._hosts_of(group):
            free_at = self._free_at(host, group.delay)
            group.not_before = max(group.not_before, free_at)

    def take(self, group: DelayGroup) -> None:
        """Record that *group* of this crawl has the turn."""
        for host in self._hosts_of(group):
            host.holder, host.delay = self, group.delay

    def leave(self, group: DelayGroup) -> None:
        """Record that the turn of *group* is over."""
        for host in self._hosts_of(group):
            host.last = max(host.last, group.last)
            if host.holder is self:
                host.holder = None

    async def wait_for(self, name: str) -> None:
        """Wait until robots.txt may be fetched from the host *name*, if another crawl has
        found a delay for that host.
        """
        host = self._table().get(name) if self._is_enabled else None
        while host is not None:
            now = self._clock.monotonic()
            free_at = self._free_at(host, host.delay)
            if free_at <= now:
                host.last = now
                return
            await self._alarms.wait_until(free_at)

    def close(self) -> None:
        """End all turns of this crawl."""
        for host in self._table().values() if self._is_enabled else ():
            if host.holder is self:
                host.holder = None

    def _free_at(self, host: _Host, delay: float) -> float:
        if host.holder is not None and host.holder is not self:
            return self._clock.monotonic() + pause_of(delay)
        return host.last + delay

    def _hosts_of(self, group: DelayGroup) -> list[_Host]:
        if not self._is_enabled:
            return []
        table = self._table()
        if len(table) > _MAX_HOSTS:
            self._forget_some(table)
        return [table.setdefault(bare_host(each), _Host()) for each in group.delays]

    def _forget_some(self, table: dict[str, _Host]) -> None:
        now = self._clock.monotonic()
        for name, host in list(table.items()):
            if host.holder is None and host.last + host.delay <= now:
                del table[name]

    def _table(self) -> dict[str, _Host]:
        key: object = self._clock
        # Crawls with the clock of a test share delays only with crawls of that clock.
        if type(self._clock) is Clock:
            try:
                key = asyncio.get_running_loop()
            except RuntimeError:  # A Twisted reactor without asyncio.
                key = Clock
        return _TABLES.setdefault(key, {})
