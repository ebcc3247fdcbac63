"""The ways to the hosts that ask for a delay: which requests share one, and when it is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_rep.protocol.origins import Origin


class Lane:
    """A way for one request at a time, and for none until some time after the last.

    The time is counted from the end of the last request, not from its beginning: so it
    passes between the two at the server too, however long each takes to get there.
    All times are those of one monotonic clock, in seconds.
    """

    __slots__ = (
        "busy", "delays", "first", "keys", "last", "name", "requests", "since",
        "told", "turn", "waited", "waiting_since",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        """Of the host, or of the download slot, that came first."""

        self.keys = {name}
        """Of all the hosts and download slots whose requests go here."""

        self.delays: dict[Origin, float] = {}
        """What each origin asks for, in seconds."""

        self.busy: Request | object | None = None
        """The request that is on its way, or who is about to choose it."""

        self.since = 0.0
        """The moment from which on it is."""

        self.turn: str | None = None
        """The name of the turn of the one that was called and has not come yet."""

        self.last = float("-inf")
        """The end of the last request."""

        self.requests = 0

        self.waiting_since: float | None = None
        """The moment from which on there is one that waits."""

        self.waited = 0.0
        """Seconds in which requests waited, and none was on its way."""

        self.first: Request | None = None
        """One that waits where it is, and so can't be called, and goes before others."""

        self.told = False
        """Whether the log says how long this takes."""

    @property
    def delay(self) -> float:
        """Seconds: the longest that is asked for."""
        return max(self.delays.values(), default=0.0)

    @property
    def free_at(self) -> float:
        return self.last + self.delay

    def is_free(self, now: float, request: Request | None = None) -> bool:
        """Whether there is a place now: for *request*, or for one that can be called."""
        is_first = self.first is None or self.first is request
        return self.busy is None and self.free_at <= now and is_first

    def waits(self, now: float) -> None:
        """Somebody waits."""
        if self.waiting_since is None:
            self.waiting_since = now

    def take(self, request: Request | object, now: float, *, more: bool) -> float:
        """Let *request* go. Returns for how many seconds the lane was held up by the
        delay alone. With *more*, others still wait.
        """
        held_up = 0.0
        if self.waiting_since is not None:
            held_up = max(now - max(self.waiting_since, self.last), 0.0)
        self.waited += held_up
        self.waiting_since = now if more else None
        self.requests += 1
        self.busy, self.since = request, now
        return held_up

    def leave(self, now: float, *, fetched: bool = True) -> None:
        """The request is done; if it was answered from a cache, it does not count."""
        self.busy = self.turn = None
        if fetched:
            self.last = now


class Lanes:
    """The lanes by the hosts and download slots whose requests they take."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    def find(self, host: str, slot: str) -> Lane | None:
        """The lane of a request, if it has one."""
        lane = self._lanes.get(host)
        return lane if lane is not None or slot == host else self._lanes.get(slot)

    def join(self, host: str, slot: str) -> tuple[Lane, Lane | None]:
        """The lane of a host and a download slot, made if there is none; and the one that
        it has taken in, if either had one of its own until now.
        """
        lane = self._lanes.get(host) or self._lanes.get(slot) or Lane(host)
        other = self._lanes.get(slot)
        for key in (host, slot):
            lane.keys.add(key)
            self._lanes[key] = lane
        if other is None or other is lane:
            return lane, None
        for key in other.keys:
            self._lanes[key] = lane
        lane.keys |= other.keys
        lane.delays.update(other.delays)
        lane.last = max(lane.last, other.last)
        lane.waited += other.waited
        lane.requests += other.requests
        if lane.busy is None:
            lane.busy, lane.since, lane.turn = other.busy, other.since, other.turn
        return lane, other

    def all(self) -> list[Lane]:
        """Each once."""
        return list(dict.fromkeys(self._lanes.values()))

    def drop(self, lane: Lane) -> None:
        for key in lane.keys:
            del self._lanes[key]
