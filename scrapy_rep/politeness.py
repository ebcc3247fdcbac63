"""How fast, and when, a host may be asked: what its robots.txt says is kept to."""

from __future__ import annotations

import logging
import time
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.asyncio import call_later

from scrapy_rep import stats
from scrapy_rep.compat import sleep
from scrapy_rep.internals import is_closing, room_in_downloader
from scrapy_rep.protocol.robotstxt import Reason
from scrapy_rep.turns import Turns

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import CallLaterResult

    from scrapy_rep.hold import Hold
    from scrapy_rep.lanes import Lane
    from scrapy_rep.protocol.groups import Record
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.pace import Pace
    from scrapy_rep.reservations import Reservations
    from scrapy_rep.settings import RepSettings

logger = logging.getLogger(__name__)

# How often, in seconds, one that waits where it is looks whether the spider is closing.
_CLOSING_LOOK = 0.2

# When there are more, those that nothing waits for are forgotten.
_LANES_AT_MOST = 10_000

_SLOWEST_NAMED = 5


class HeldUp(NamedTuple):
    """How a host has held up the crawl: for so many *seconds*, requests to it waited and
    none was on its way.
    """

    seconds: float
    host: str
    requests: int
    delay: float


class Politeness:
    """Keeps to ``Crawl-delay``, ``Request-rate`` and ``Visit-time``."""

    def __init__(
        self,
        crawler: Crawler,
        hold: Hold,
        reservations: Reservations,
        settings: RepSettings,
    ) -> None:
        self._crawler = crawler
        self._hold = hold
        self._settings = settings
        self.is_minded = settings.crawl_delay or settings.visit_time
        """Whether what a robots.txt asks for is to be kept to, so that it need be read."""
        self._turns = Turns(crawler, hold, reservations)
        self._gates: dict[Origin, CallLaterResult] = {}
        self._lanes_at_most = _LANES_AT_MOST
        self._slowest: list[HeldUp] = []
        self._delayed: set[int] = set()
        self._refused: set[int] = set()
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    def concerns(self, pace: Pace) -> bool:
        """Whether *pace*, or that of another host, may make a request wait."""
        return bool(pace.records) or bool(self._turns.lanes)

    def refusal(
        self, origin: Origin, pace: Pace
    ) -> tuple[Reason, Record | None] | None:
        """Why *origin* is not to be asked for anything now, if so, and the line of its
        robots.txt that says so.
        """
        now = _now()
        delay, closed = self._delay(pace, now), self._closed(pace, now)
        if delay > self._settings.crawl_delay_max:
            if _is_new(origin, self._refused):
                self._crawler.stats.inc_value(stats.SKIPPED_HOSTS)
                self._warn(
                    "%(origin)s is skipped: it asks for %(delay)g s between requests, and "
                    "REP_CRAWL_DELAY_MAX is %(most)g; raise that, or decide about this "
                    "host in REP_OVERRIDES",
                    origin=origin,
                    delay=delay,
                    most=self._settings.crawl_delay_max,
                )
            return Reason.CRAWL_DELAY, pace.record_of_delay(now)
        if closed > self._settings.visit_time_wait:
            if _is_new(origin, self._refused):
                self._warn(
                    "%(origin)s wants no visits before %(opens)s UTC, and "
                    "REP_VISIT_TIME_WAIT is %(most)g s: what is asked for until then is "
                    "refused",
                    origin=origin,
                    opens=f"{now + timedelta(seconds=closed):%H:%M}",
                    most=self._settings.visit_time_wait,
                )
            return Reason.VISIT_TIME, pace.record_of_visit_time()
        return None

    async def turn(
        self,
        request: Request,
        origin: Origin,
        pace: Pace,
        *,
        fetched: float,
        in_place: bool,
    ) -> bool:
        """Whether *request* can go now; if not, it is to be returned from
        ``process_request``.

        *fetched* is when the robots.txt of *origin* was, in seconds since the epoch. With
        *in_place* the request can't be returned, and waits here. Raises IgnoreRequest
        where the spider closes meanwhile.
        """
        if not await self._open(request, origin, pace, in_place=in_place):
            self.step_aside(request)
            return False
        delay = self._delay(pace, _now())
        lane = self._turns.lane(request, origin, delay, time.time() - fetched)
        if lane is None:
            return True
        if delay:
            self._meet(lane, origin)
        elif not lane.delays and self._turns.is_idle(lane):
            self._forget(lane)
            return True
        return await self._turns.wait(request, lane, in_place=in_place)

    async def turn_of_robotstxt(self, request: Request) -> None:
        """Wait until a robots.txt can be asked for, which is a request like any other."""
        lane = self._turns.find(request) if self._turns.lanes else None
        if lane is not None:
            await self._turns.wait(request, lane, in_place=True)

    def step_aside(self, request: Request) -> None:
        """*request* does not go to its host after all."""
        self._turns.step_aside(request)

    def _delay(self, pace: Pace, now: datetime) -> float:
        return pace.delay(now) if self._settings.crawl_delay else 0.0

    def _closed(self, pace: Pace, now: datetime) -> float:
        return pace.opens_in(now) if self._settings.visit_time else 0.0

    async def _open(
        self, request: Request, origin: Origin, pace: Pace, *, in_place: bool
    ) -> bool:
        """Whether *origin* is open to visits; if not, *request* has been handed back."""
        while closed := self._closed(pace, _now()):
            waits = partial(self._gates.__contains__, origin)
            if not in_place and self._hold.hand_back(request, _gate(origin), waits):
                self._crawler.stats.inc_value(stats.HELD)
                self._open_later(origin, closed)
                return False
            with room_in_downloader(self._crawler, made=in_place):
                await sleep(min(closed, _CLOSING_LOOK))
            if is_closing(self._crawler):
                raise IgnoreRequest(f"{origin} is no longer waited for")
        return True

    def _open_later(self, origin: Origin, seconds: float) -> None:
        if origin in self._gates:
            return
        self._gates[origin] = call_later(seconds, self._opened, origin)
        logger.info(
            "%(origin)s wants no visits for another %(time)s, and what it is to be asked "
            "for is held",
            {"origin": origin, "time": timedelta(seconds=round(seconds))},
            extra={"spider": self._crawler.spider},
        )

    def _opened(self, origin: Origin) -> None:
        del self._gates[origin]
        if not is_closing(self._crawler):
            self._hold.release(_gate(origin))

    def _meet(self, lane: Lane, origin: Origin) -> None:
        """*origin* asks for a delay."""
        if _is_new(origin, self._delayed):
            self._crawler.stats.inc_value(stats.DELAYED_HOSTS)
        lanes = self._turns.lanes
        if len(lanes) > self._lanes_at_most:
            for one in lanes.all():
                if one is not lane and self._turns.is_idle(one):
                    self._forget(one)
            # Where all of them are in use, not to look again for each that comes.
            self._lanes_at_most = max(_LANES_AT_MOST, 2 * len(lanes))

    def _forget(self, lane: Lane) -> None:
        self._note(lane)
        self._turns.lanes.drop(lane)

    def _note(self, lane: Lane) -> None:
        """Remember how long *lane* has held up the crawl, if it is among the slowest."""
        if lane.waited:
            self._slowest.append(
                HeldUp(lane.waited, lane.name, lane.requests, lane.delay)
            )
            self._slowest.sort(reverse=True)
            del self._slowest[_SLOWEST_NAMED:]

    def _warn(self, message: str, **values: object) -> None:
        logger.warning(message, values, extra={"spider": self._crawler.spider})

    def _spider_closed(self) -> None:
        for timer in self._gates.values():
            timer.cancel()
        self._gates.clear()
        if self._turns.waited:
            self._crawler.stats.set_value(stats.WAITED, round(self._turns.waited, 3))
        for lane in self._turns.lanes.all():
            self._note(lane)
        for one in self._slowest:
            logger.info(
                "%(host)s held up the crawl for %(time)s: %(requests)d requests, "
                "%(delay)g s between two",
                {**one._asdict(), "time": timedelta(seconds=round(one.seconds))},
                extra={"spider": self._crawler.spider},
            )


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), timezone.utc)


def _gate(origin: Origin) -> tuple[Origin, str]:
    """What those wait for that wait for *origin* to open."""
    return origin, "open"


def _is_new(origin: Origin, seen: set[int]) -> bool:
    """Whether *origin* is met for the first time. Of many hosts, numbers take least."""
    number = hash(origin)
    is_new = number not in seen
    seen.add(number)
    return is_new
