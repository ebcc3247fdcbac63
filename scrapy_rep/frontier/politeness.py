"""Politeness: applies the delays, rates and visiting hours of robots.txt."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple

from scrapy import signals
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep import stats
from scrapy_rep.compat.internals import wake
from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.frontier.demands import Terms, demand
from scrapy_rep.frontier.hostkeys import delay_keys
from scrapy_rep.log import get_logger
from scrapy_rep.protocol.robotstxt.decisions import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.frontier.backqueue import BackQueue
    from scrapy_rep.frontier.clock import Alarms
    from scrapy_rep.frontier.delays import DelayGroup
    from scrapy_rep.frontier.turns import Turns
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robotstxt.groups import Record
    from scrapy_rep.protocol.robotstxt.pace import Pace
    from scrapy_rep.settings import RepSettings

logger = get_logger(__name__)

# Beyond this number, idle delay groups are forgotten.
_MAX_GROUPS = 10_000

# The number of hosts that the log names at the end.
_SLOWEST_NAMED = 5

# Terms that depend on the time of day are valid for this many seconds after the opening.
_CHANGES_AFTER = 60.0


class HeldUp(NamedTuple):
    """How long a host has held up the crawl: the *seconds* in which requests to it waited
    and none was in flight.
    """

    seconds: float
    host: str
    requests: int
    delay: float


class Politeness:
    """Applies ``Crawl-delay``, ``Request-rate`` and ``Visit-time``."""

    def __init__(
        self, crawler: Crawler, alarms: Alarms, turns: Turns, settings: RepSettings
    ) -> None:
        self._crawler = crawler
        self._clock = alarms.clock
        self._alarms = alarms
        self._settings = settings
        self._is_enabled = settings.crawl_delay or settings.visit_time
        self._turns = turns
        self._until_open: dict[Origin, list[BackQueue | Deferred[None]]] = {}
        self._max_groups = _MAX_GROUPS
        self._waited = 0.0
        self._slowest: list[HeldUp] = []
        self._delayed: set[int] = set()
        self._refused: set[int] = set()
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    def may_delay(self, pace: Pace) -> bool:
        """Whether *pace*, or the delay of another host in the same group, may make a request
        wait. This is a fast path: few hosts have a delay.
        """
        return self._is_enabled and (bool(pace.records) or bool(self._turns.groups))

    def refusal(
        self, origin: Origin, pace: Pace
    ) -> tuple[Reason, Record | None] | None:
        """Return why requests to *origin* are refused now, with the record of robots.txt that
        is the reason; None if they are not refused. Warns once for each origin.
        """
        now = self._now()
        delay, opens_in, reason = demand(pace, self._settings, now)
        if reason is Reason.CRAWL_DELAY:
            if _is_new(origin, self._refused):
                self._crawler.stats.inc_value(stats.SKIPPED_HOSTS)
                self._warn(
                    "%(origin)s is skipped: it asks for %(delay)g s between requests, more "
                    "than REP_CRAWL_DELAY_MAX (%(most)g). Requests to it are refused; to "
                    "crawl it, raise the setting, or add the host to REP_OVERRIDES",
                    origin=origin,
                    delay=delay,
                    most=self._settings.crawl_delay_max,
                )
            return reason, pace.record_of_delay(now)
        if reason is Reason.VISIT_TIME:
            if _is_new(origin, self._refused):
                self._warn(
                    "%(origin)s wants no visits before %(opens)s UTC: requests to it are "
                    "refused until %(most)g s before that time (REP_VISIT_TIME_WAIT). To crawl "
                    "it at any time, add the host to REP_OVERRIDES",
                    origin=origin,
                    opens=f"{now + timedelta(seconds=opens_in):%H:%M}",
                    most=self._settings.visit_time_wait,
                )
            return reason, pace.record_of_visit_time()
        return None

    def terms(self, pace: Pace, holds: float, ago: float) -> Terms:
        """Return the terms of *pace* now, for a robots.txt that was fetched *ago* seconds ago
        and is fresh for *holds* seconds.

        They leave out the delay or visiting hours for which the middleware refuses requests.
        """
        delay, opens_in, reason = demand(pace, self._settings, self._now())
        if reason is Reason.CRAWL_DELAY:
            return Terms(holds)
        if reason is not None:
            opens_in = 0.0
        if pace.changes:
            holds = min(holds, opens_in + _CHANGES_AFTER)
        return Terms(holds, delay, ago, opens_in)

    def may_go(
        self, queue: BackQueue, origin: Origin, pace: Pace, *, fetched: float
    ) -> bool:
        """Return True if a request of *queue* may be sent now. Otherwise park the queue.

        *fetched* is the time of the fetch of robots.txt, in seconds since the epoch. Requests
        that the middleware will refuse do not wait.
        """
        delay, opens_in, reason = demand(pace, self._settings, self._now())
        if reason is not None:
            return True
        if opens_in:
            self._wait_until_open(origin, opens_in).append(queue)
            return False
        group = self._group(queue.key.delay_keys, origin, delay, fetched)
        return group is None or self._turns.admit(queue, group)

    async def wait_for_turn(
        self, request: Request, origin: Origin, pace: Pace, *, fetched: float
    ) -> bool:
        """Wait until *request*, which is already in the downloader, may be sent.

        Return False if it has waited for visiting hours, as robots.txt may have changed
        meanwhile. Raises SpiderClosing if the spider closes meanwhile.
        """
        delay, opens_in, _ = demand(pace, self._settings, self._now())
        if opens_in:
            waiter: Deferred[None] = Deferred()
            self._wait_until_open(origin, opens_in).append(waiter)
            await maybe_deferred_to_future(waiter)
            return False
        keys = delay_keys(self._crawler, request)
        group = self._group(keys, origin, delay, fetched)
        if group is not None:
            await self._turns.wait(request, group)
        return True

    def waiting(self) -> tuple[int, int]:
        """Return the number of requests in queues that wait for their turn or for visiting
        hours, and the number of their hosts.
        """
        queues = [queue for group in self._turns.groups.all() for queue in group.queues]
        for waiting in self._until_open.values():
            queues += [each for each in waiting if not isinstance(each, Deferred)]
        return sum(map(len, queues)), len({queue.key.origin for queue in queues})

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.time(), timezone.utc)

    @property
    def has_waiters(self) -> bool:
        """Whether a request in the downloader waits for visiting hours."""
        return any(self._open_waiters())

    def close(self) -> None:
        """Fail the requests in the downloader that wait for visiting hours."""
        for waiter in list(self._open_waiters()):
            waiter.errback(
                SpiderClosing("The spider closed before the host was open for visits")
            )

    def _open_waiters(self) -> Iterator[Deferred[None]]:
        for waiting in self._until_open.values():
            for each in waiting:
                if isinstance(each, Deferred) and not each.called:
                    yield each

    def _wait_until_open(
        self, origin: Origin, seconds: float
    ) -> list[BackQueue | Deferred[None]]:
        """Return the list of waiters for *origin*, which opens in *seconds*."""
        waiting = self._until_open.get(origin)
        if waiting is None:
            waiting = self._until_open[origin] = []
            moment = self._clock.monotonic() + seconds
            self._alarms.at(moment, self._opened, origin)
            logger.info(
                "%(origin)s wants no visits for another %(time)s: requests to it wait",
                {"origin": origin, "time": timedelta(seconds=round(seconds))},
                extra={"spider": self._crawler.spider},
            )
        return waiting

    def _opened(self, origin: Origin) -> None:
        for each in self._until_open.pop(origin):
            if not isinstance(each, Deferred):
                each.release()
            elif not each.called:  # It was not cancelled.
                each.callback(None)
        wake(self._crawler)

    def _group(
        self, keys: tuple[str, str], origin: Origin, delay: float, fetched: float
    ) -> DelayGroup | None:
        ago = self._clock.time() - fetched
        group = self._turns.set_delay(keys, origin, delay, ago)
        if group is not None and delay:
            self._note_delayed(group, origin)
        elif group and not group.delays and group.is_idle(self._clock.monotonic()):
            self._forget(group)
            return None
        return group

    def _note_delayed(self, group: DelayGroup, origin: Origin) -> None:
        """Count *origin* as a host with a delay. Forget idle groups if there are too many."""
        if _is_new(origin, self._delayed):
            self._crawler.stats.inc_value(stats.DELAYED_HOSTS)
        groups = self._turns.groups
        if len(groups) > self._max_groups:
            now = self._clock.monotonic()
            for other in groups.all():
                if other is not group and other.is_idle(now):
                    self._forget(other)
            # If all groups are in use, do not search again for each new group.
            self._max_groups = max(_MAX_GROUPS, 2 * len(groups))

    def _forget(self, group: DelayGroup) -> None:
        self._note_held_up(group)
        self._turns.groups.drop(group)

    def _note_held_up(self, group: DelayGroup) -> None:
        self._waited += group.waited
        if group.waited:
            self._slowest.append(
                HeldUp(group.waited, group.name, group.requests, group.delay)
            )
            self._slowest.sort(reverse=True)
            del self._slowest[_SLOWEST_NAMED:]

    def _warn(self, message: str, **values: object) -> None:
        logger.warning(message, values, extra={"spider": self._crawler.spider})

    def _spider_closed(self) -> None:
        for group in self._turns.groups.all():
            self._note_held_up(group)
        if self._waited:
            self._crawler.stats.set_value(stats.WAITED, round(self._waited, 3))
        for host in self._slowest:
            logger.info(
                "%(host)s held up the crawl for %(time)s: %(requests)d requests, with a "
                "delay of %(delay)g s",
                {**host._asdict(), "time": timedelta(seconds=round(host.seconds))},
                extra={"spider": self._crawler.spider},
            )


def _is_new(origin: Origin, seen: set[int]) -> bool:
    """Add the hash of *origin* to *seen*, which saves memory. Return whether it is new."""
    number = hash(origin)
    is_new = number not in seen
    seen.add(number)
    return is_new
