"""The ways to the hosts that ask for a delay: which requests share one, and when it is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.utils.httpobj import urlparse_cached

from scrapy_rep.internals import download_slot

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_rep.protocol.origins import Origin


class Lane:
    """A way for one request at a time, and for none until some time after the last.

    The time is counted from the end of the last request, not from its beginning: so it
    passes between the two at the server too, however long each takes to get there.
    All times are those of one monotonic clock, in seconds.
    """

    __slots__ = (
        "busy", "delays", "host", "keys", "last", "name", "not_before", "requests",
        "since", "told", "waited", "waiting_since",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        """Of the host, or of the download slot, that came first."""

        self.keys = {name}
        """Of all the hosts and download slots whose requests go here."""

        self.delays: dict[Origin, float] = {}
        """What each origin asks for, in seconds."""

        self.busy: Request | object | None = None
        """The request that is on its way, or what stands for the one that is to be."""

        self.host = ""
        """Where it goes."""

        self.since = 0.0
        """The moment from which on it is."""

        self.last = float("-inf")
        """The end of the last request."""

        self.not_before = float("-inf")
        """Until this moment other workers are not asked again for the place."""

        self.requests = 0

        self.waiting_since: float | None = None
        """The moment from which on there is one that waits."""

        self.waited = 0.0
        """Seconds in which requests waited, and none was on its way."""

        self.told = False
        """Whether the log says how long this takes."""

    @property
    def delay(self) -> float:
        """Seconds: the longest that is asked for."""
        return max(self.delays.values(), default=0.0)

    @property
    def free_at(self) -> float:
        return max(self.last + self.delay, self.not_before)

    def is_free(self, now: float) -> bool:
        """Whether there is a place now."""
        return self.busy is None and self.free_at <= now

    def waits(self, now: float) -> None:
        """Somebody waits."""
        if self.waiting_since is None:
            self.waiting_since = now

    def take(self, request: Request | object, now: float, *, more: bool) -> float:
        """Let *request*, or the one that it stands for, go. Returns for how many seconds
        the lane was held up by the delay alone. With *more*, others still wait.
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
        self.busy = None
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
        lane.not_before = max(lane.not_before, other.not_before)
        lane.waited += other.waited
        lane.requests += other.requests
        if lane.busy is None:
            lane.busy, lane.since, lane.host = other.busy, other.since, other.host
        return lane, other

    def current(self, lane: Lane) -> Lane:
        """The lane that has taken *lane* in, if one has."""
        return self._lanes.get(lane.name, lane)

    def all(self) -> list[Lane]:
        """Each once."""
        return list(dict.fromkeys(self._lanes.values()))

    def drop(self, lane: Lane) -> None:
        for key in lane.keys:
            del self._lanes[key]


def host_of(request: Request) -> str:
    """The host of *request*, whose name may end with the dot of the root or not."""
    return (urlparse_cached(request).hostname or "").rstrip(".")


def keys_of(crawler: Crawler, request: Request) -> tuple[str, str]:
    """The host of *request*, and its download slot."""
    host = host_of(request)
    redirected_from = request.meta.get("redirect_urls")
    if redirected_from and host_of(Request(redirected_from[0])) != host:
        # Scrapy leaves it the slot of the first host, which is no choice of anybody's.
        return host, host
    return host, download_slot(crawler, request)
