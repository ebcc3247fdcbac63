"""Adds up, in a dry run, how long a real run would take at each host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class HostTime:
    """What a real run would do at a host that has a delay or asked for a pause."""

    requests: int = 0
    """Those that keep to the delay."""

    delay: float = 0.0
    """The longest delay, in seconds."""

    paused: float = 0.0
    """The seconds of all pauses."""

    paused_until: float = 0.0

    @property
    def seconds(self) -> float:
        """The time that a real run would take at this host, at least."""
        return self.requests * self.delay + self.paused


class Timetable:
    """The times of all hosts. A real run visits hosts at the same time, so that it would take at
    least as long as the slowest host.
    """

    def __init__(self) -> None:
        self._hosts: dict[str, HostTime] = {}

        self.most = 0.0
        """The time of the slowest host, in seconds."""

    def sent(self, host: str, delay: float) -> None:
        """Note a request to a *host* with a *delay*."""
        found = self._hosts.setdefault(host, HostTime())
        found.requests += 1
        found.delay = max(found.delay, delay)
        self.most = max(self.most, found.seconds)

    def paused(self, host: str, pause: float, now: float) -> bool:
        """Note that *host* has asked for a *pause*. Return whether that begins a new one: what is
        sent during a pause, a real run would not send.
        """
        found = self._hosts.setdefault(host, HostTime())
        is_new = now >= found.paused_until
        begins = max(now, found.paused_until)
        found.paused += max(now + pause - begins, 0.0)
        found.paused_until = max(now + pause, found.paused_until)
        self.most = max(self.most, found.seconds)
        return is_new

    def pause_left(self, host: str, now: float) -> float:
        """Return the seconds until the pause of *host* is over; 0 if it has none."""
        found = self._hosts.get(host)
        return 0.0 if found is None else max(found.paused_until - now, 0.0)

    def slowest(self) -> list[tuple[str, HostTime]]:
        """Return the hosts that take time, with those that take longest first."""
        found = [each for each in self._hosts.items() if each[1].seconds]
        return sorted(found, key=lambda each: -each[1].seconds)
