"""A plain model of scopes and hosts, without heaps, queues and alarms: what may go when."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

DELAYS_PER_STRANGER = 4
REMEMBERED = 600.0
ANSWER_REMEMBERED = 30.0


class Slot(NamedTuple):
    """A download slot: its places, and the time between two requests."""

    places: float
    pause: float


@dataclass
class Pause:
    """What a host that has asked for pauses is owed."""

    since: float
    until: float = -inf
    own: float = 0.0
    places: int = 1
    is_over: bool = False


@dataclass
class ScopeModel:
    slot: Slot
    in_flight: int = 0
    unsent: int = 0
    """The requests of queues among them that have not reached the downloader."""

    delays: dict[Any, float] = field(default_factory=dict)
    not_before: float = -inf
    """The end of a delay, or of closed hours."""

    pause: Pause | None = None
    taken_at: float = -inf
    stranger_at: float = -inf
    pages: int = 0
    """The tickets that belong to it, those of strangers aside."""

    strangers: int = 0

    @property
    def delay(self) -> float:
        return max(self.delays.values(), default=0.0)

    def free_at(
        self, *, obeys: bool, is_slot: bool, is_direct: bool, is_stranger: bool
    ) -> float:
        """The time from which a request may go if nothing else happens; never: ``inf``."""
        limits = [self.slot.places + is_direct * self.unsent if is_slot else inf]
        times = [self.taken_at + self.slot.pause if is_slot else -inf]
        if obeys:
            limits.append(1 if self.delay else inf)
            times.append(self.not_before)
        if self.pause:
            limits.append(self.pause.places)
            times.append(self.pause.until)
        if is_stranger and self.pages:
            times.append(self.stranger_at)
        return inf if self.in_flight >= min(limits) else max(times)

    def is_too_long(self, now: float, wait_max: float) -> bool:
        if self.pause is None or (self.pause.until <= now and not self.in_flight):
            return False
        nothing_else = not self.pause.is_over and now - self.pause.since >= wait_max
        return nothing_else or self.pause.until - now > wait_max

    def take(self, now: float, *, is_direct: bool) -> None:
        self.in_flight += 1
        self.unsent += not is_direct
        self.taken_at = now

    def leave(self, now: float, *, fetched: bool, is_stranger: bool) -> None:
        self.in_flight -= 1
        assert self.in_flight >= 0
        if is_stranger:
            self.stranger_at = now + DELAYS_PER_STRANGER * self.delay
        if fetched and self.delay:
            self.not_before = max(self.not_before, now + self.delay)

    def back_off(
        self, now: float, asked: float | None, cap: float, sent_at: float
    ) -> None:
        if self.pause is None:
            self.pause = Pause(since=now)
        elif self.pause.is_over:
            self.pause.since, self.pause.own, self.pause.is_over = now, 0.0, False
        pause = self.pause
        if sent_at >= pause.until:
            pause.own = min(max(1.0, 2 * pause.own), cap)
        seconds = max(pause.own if asked is None else asked, self.delay)
        pause.until, pause.places = max(pause.until, now + seconds), 1

    def succeeded(self, sent_at: float) -> None:
        if self.pause is not None and sent_at >= self.pause.until:
            self.pause.is_over, self.pause.own = True, 0.0
            self.pause.places += 1
            if self.pause.places >= self.slot.places:
                self.pause = None

    def is_forgotten(self, now: float) -> bool:
        if self.in_flight or self.pages or self.strangers:
            return False
        remembered = self.pause.until + REMEMBERED if self.pause else -inf
        until = max(self.not_before, self.pause.until if self.pause else -inf)
        if self.delay:
            until += ANSWER_REMEMBERED
        return now >= max(remembered, until)


@dataclass
class HostModel:
    """What is known of a host's robots.txt."""

    expires: float = -inf
    is_down: bool = False
    is_refused: bool = False
    until: float = -inf
    retry_at: float = -inf

    def known(self, expires: float) -> None:
        self.expires, self.is_down, self.is_refused = expires, False, False

    def unreachable(
        self, now: float, retry_at: float, wait: float, *, is_asked: bool
    ) -> None:
        if not self.is_down:
            self.is_down, self.until = True, now + wait
        # Once more before it is given up, unless the host has named its time.
        if not is_asked and now < self.until:
            retry_at = min(retry_at, self.until)
        self.retry_at, self.expires = retry_at, -inf
        self.is_refused |= now >= self.until or retry_at > self.until

    def is_open(self, now: float) -> bool:
        return not self.is_down and now < self.expires
