"""The world of a crawl, drawn from a seed: hosts, their robots.txt and pages, faults, settings."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from random import Random
from typing import Any

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)

from tests.simulation import options

ROBOTSTXT_KINDS = (
    ("rules", 8),
    ("changing", 3),
    ("404", 1),
    ("403", 1),
    ("429", 1),
    ("503", 1),
    ("flaky", 3),
    ("redirect", 1),
    ("refused", 1),
    ("cut", 1),
)
"""What becomes of requests for the robots.txt of a host, and how often a host has that fate."""

_ERRORS = {
    "refused": DownloadConnectionRefusedError,
    "unresolved": CannotResolveHostError,
    "timeout": DownloadTimeoutError,
    "cut": ResponseDataLossError,
}

FIRST_LEAF = 10_000
"""Pages with this number or a higher one have no links."""


FIRST_CHANGED = 100 * FIRST_LEAF
"""From this number on, pages are there in place of those for which a request was made: a component has changed it."""

OTHER_AGENT = "otherbot"
"""The product token that a component puts in place of that of the crawl."""


def is_robotstxt(path: str) -> bool:
    """Whether *path* is that of a robots.txt, or where one was redirected to."""
    return path in {"/robots.txt", "/moved.txt"}


def bypasses_scheduler(path: str) -> bool:
    """Whether a component downloads this page itself, without the scheduler."""
    return not is_robotstxt(path) and FIRST_LEAF <= number_in(path) < 2 * FIRST_LEAF


def number_in(url: str) -> int:
    """Return the number of a page."""
    return int(url.rsplit("/", 1)[1])


@dataclass
class Answer:
    """The answer to a request: a status with body and headers, or an error."""

    seconds: float
    status: int = 0
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    error: str = ""

    def raise_error(self) -> None:
        """Raise the error, if it is one."""
        if self.error:
            raise _ERRORS[self.error](f"simulated: {self.error}")


@dataclass
class SentRequest:
    """A request that was sent, with its answer: a line of the world's log."""

    number: int
    process: int
    at: float
    host: str
    path: str
    answer: Answer
    agent: str = ""
    """The product token of its User-Agent."""

    received_at: float | None = None
    """When its process has received the answer."""

    is_by_driver: bool = False
    """Whether it was sent by a middleware that fetches by itself."""

    raised_driver_error: bool = False
    """Whether that middleware has raised an exception of the project in place of the error."""

    held_since: float | None = None
    """When a component began to hold it back; None if none did."""

    @property
    def answered_at(self) -> float | None:
        """When the host has answered. A process that stands still receives the answer later."""
        return self.received_at and min(self.received_at, self.at + self.answer.seconds)

    @property
    def says_no_connection(self) -> bool:
        """Whether there was no connection, and the crawl could know it."""
        is_of_network = self.answer.error in {"refused", "unresolved"}
        return is_of_network and not self.raised_driver_error

    @property
    def is_robots(self) -> bool:
        """Whether it is for a robots.txt, or for where one was redirected to."""
        return is_robotstxt(self.path)

    @property
    def is_leaf(self) -> bool:
        """Whether it is for a page without links, or a file."""
        return not self.is_robots and number_in(self.path) >= FIRST_LEAF

    @property
    def is_redirected(self) -> bool:
        """Whether a host has redirected it here."""
        return (
            not self.is_robots
            and 2 * FIRST_LEAF <= number_in(self.path) < FIRST_CHANGED
        )

    @property
    def bypasses_scheduler(self) -> bool:
        """Whether a callback or a pipeline downloads it itself."""
        return bypasses_scheduler(self.path)

    @property
    def is_page_of_host(self) -> bool:
        """Whether it counts as a page of its host: it is of the scheduler, and not redirected within the host."""
        is_within = self.is_redirected and self.slot == self.host
        return not (self.is_robots or self.bypasses_scheduler or is_within)

    @property
    def slot(self) -> str:
        """The host in whose download slot Scrapy keeps it: the one that has redirected it."""
        if not self.is_redirected:
            return self.host
        return f"h{number_in(self.path) // FIRST_LEAF - 2}.example"

    def __str__(self) -> str:
        answer = self.answer
        took = (
            "cancelled"
            if self.received_at is None
            else f"{self.received_at - self.at:.2f} s"
        )
        text = f"{self.at:12.2f}  {self.process} {self.host}{self.path}  {answer.error or answer.status}  {took}"
        if self.is_robots and answer.body:
            text += "  " + "; ".join(answer.body.splitlines())
        if answer.headers:
            text += f"  {answer.headers}"
        text += f"  as {self.agent}" if self.agent == OTHER_AGENT else ""
        text += "  by a driver" if self.is_by_driver else ""
        if self.held_since is not None:
            text += f"  held for {self.at - self.held_since:.2f} s"
        return text


@dataclass(frozen=True)
class Page:
    """A page of a tree, with its links and its robots meta tag. It never changes."""

    links: tuple[str, ...] = ()
    nofollow: tuple[str, ...] = ()
    """The links that say ``rel="nofollow"``."""

    file_url: str = ""
    """A file that its item needs."""

    callback_page: str = ""
    """A page that its callback downloads itself."""

    robots: str = ""
    """Its robots meta tag."""

    def html(self) -> str:
        meta = f'<meta name="robots" content="{self.robots}">' if self.robots else ""
        links = [f'<a href="{link}">x</a>' for link in self.links]
        links += [f'<a rel="nofollow" href="{link}">x</a>' for link in self.nofollow]
        return f"<html><head>{meta}</head>{''.join(links)}</html>"


@dataclass(eq=False)
class Host:
    """A host: how fast it is, what its robots.txt says, and how many pages it has."""

    name: str
    seed: int
    random: Random
    robotstxt_kind: str
    latency: float
    pages: int
    crawl_delay: float | None
    max_age: int | None
    page_faults: float
    rules_period: float
    """After so many seconds, a robots.txt that changes says the opposite."""

    leaf_weight: float = 1.0
    """How many pages need a file, and as many another page, for 8 that need neither."""

    has_leaves_on_other_hosts: bool = False
    """Whether these files and pages are on other hosts."""

    asks_for_pauses: bool = False
    """Whether a third of these files and pages ask for a pause."""

    retry_after: int = 0
    """For how many seconds of pause a tenth of its pages ask; 0 if none does."""

    other_hosts: list[str] = field(default_factory=list)
    """The hosts that it redirects to."""

    disallowed_for_other_agent: str = ""
    """What it disallows for OTHER_AGENT, if its robots.txt has rules for that."""

    def answer(self, path: str, now: float) -> Answer:
        """Return what the host answers to a request for *path*."""
        seconds = self.latency * self.random.uniform(0.5, 2)
        if is_robotstxt(path):
            return self._robots(path, seconds, now)
        if self.random.random() < self.page_faults:
            return self._fault(seconds)
        if self.retry_after and self.random.random() < 0.1:
            return Answer(seconds, 429, headers={"Retry-After": str(self.retry_after)})
        _, prefix, number = path.split("/")
        if (
            self.asks_for_pauses
            and bypasses_scheduler(path)
            and self.random.random() < 0.4
        ):
            return Answer(seconds, 429, headers={"Retry-After": "5"})
        if prefix == "go":
            return Answer(
                seconds, 302, headers={"Location": self.redirected(int(number))}
            )
        return Answer(seconds, 200, self.page(int(number)).html())

    def _robots(self, path: str, seconds: float, now: float) -> Answer:
        headers = (
            {} if self.max_age is None else {"Cache-Control": f"max-age={self.max_age}"}
        )
        robotstxt_kind = self.robotstxt_kind
        if robotstxt_kind == "redirect" and path == "/robots.txt":
            return Answer(seconds, 301, headers={"Location": "/moved.txt"})
        if robotstxt_kind == "flaky":
            robotstxt_kind = self.random.choice(
                ["rules", "rules", "503", "429", "refused", "timeout"]
            )
        if robotstxt_kind in _ERRORS:
            return Answer(
                30.0 if robotstxt_kind == "timeout" else seconds, error=robotstxt_kind
            )
        if robotstxt_kind in {"429", "503"}:
            return Answer(seconds, int(robotstxt_kind), headers=self._retry_after())
        if robotstxt_kind in {"404", "403"}:
            return Answer(seconds, int(robotstxt_kind), headers=headers)
        is_odd = robotstxt_kind == "changing" and int(now / self.rules_period) % 2
        disallowed = {"*": f"/{'odd' if is_odd else 'no'}/"}
        if self.disallowed_for_other_agent:
            disallowed[OTHER_AGENT] = self.disallowed_for_other_agent
        delay = ""
        if self.crawl_delay is not None:
            delay = f"Crawl-delay: {self.crawl_delay:g}\n"
        groups = [
            f"User-agent: {agent}\nDisallow: {start}\n{delay}"
            for agent, start in disallowed.items()
        ]
        return Answer(seconds, 200, "".join(groups), headers)

    def _fault(self, seconds: float) -> Answer:
        kind = self.random.choice(
            ["429", "503", "500", "404", "cut", "refused", "timeout"]
        )
        if kind in _ERRORS:
            return Answer(15.0 if kind == "timeout" else seconds, error=kind)
        headers = self._retry_after() if kind in {"429", "503"} else {}
        return Answer(seconds, int(kind), headers=headers)

    def _retry_after(self) -> dict[str, str]:
        if self.random.random() < 0.4:
            return {}
        return {"Retry-After": str(self.random.choice([0, 2, 10, 45, 120, 900]))}

    @lru_cache(maxsize=200)  # noqa: B019  no larger than the world
    def page(self, number: int) -> Page:
        """Return the page of this *number*, in a binary tree."""
        if number >= FIRST_LEAF:
            return Page()
        random = Random(f"{self.seed} {self.name} {number}")
        urls: dict[str, list[str]] = {"links": [], "nofollow": []}
        for child in (2 * number + 1, 2 * number + 2):
            if child < self.pages:
                kind = random.choices(["links", "nofollow"], [9, 1])[0]
                is_moved = random.random() < 0.1
                path = f"/go/{child}" if is_moved else path_of(child)
                urls[kind].append(f"http://{self.name}{path}")
        leaf = f"http://{self.name}{path_of(FIRST_LEAF + number)}"
        if self.has_leaves_on_other_hosts:
            other = self.other_hosts[number % len(self.other_hosts)]
            leaf = f"http://{other}{path_of(FIRST_LEAF + 100 * self.index + number)}"
        kinds, weights = (
            [(leaf, ""), ("", leaf), ("", "")],
            [self.leaf_weight] * 2 + [8],
        )
        file_url, callback_page = random.choices(kinds, weights)[0]
        robots = random.choices(["noindex", "nofollow", "noindex, nofollow", ""],
                                [1, 1, 1, 20])[0]  # fmt: skip
        return Page(
            tuple(urls["links"]),
            tuple(urls["nofollow"]),
            file_url,
            callback_page,
            robots,
        )

    def redirected(self, number: int) -> str:
        """Return the URL of the page to which ``/go/`` leads."""
        other = self.other_hosts[number % len(self.other_hosts)]
        return f"http://{other}{path_of((self.index + 2) * FIRST_LEAF + number)}"

    @property
    def index(self) -> int:
        """Its number among the hosts."""
        return int(self.name.partition(".")[0][1:])


def path_of(number: int) -> str:
    """Return the path of a page. Some rules disallow a third of them."""
    return f"/{('yes', 'no', 'odd')[number % 3]}/{number}"


@dataclass
class Fault:
    """A fault of a process, the disk or the queue's server, in a crawl with a JOBDIR or of workers."""

    kind: str
    """``kill``, ``stop``, ``full`` (disk), ``gone``, ``restarted``, ``flushed`` or ``older`` (server),
    ``still`` (process), ``ahead`` (clock).
    """

    after_requests: int = 0
    """It happens when so many requests were sent, so many turns of the loop and seconds later."""

    iterations: int = 0
    after_seconds: float = 0.0
    seconds: float = 0.0
    """How long the process, the disk or the server is gone, or by how much the clock is ahead."""


@dataclass(frozen=True)
class Driver:
    """A middleware that fetches pages by itself."""

    order: int
    scope: str
    """Which requests it takes: ``marked``, ``pages`` of the scheduler, or ``all``, robots.txt included."""

    is_blocking: bool
    """Whether nothing else runs meanwhile, as with Selenium."""

    has_own_errors: bool
    """Whether it has an exception of its own for each failure."""

    def applies_to(self, path: str) -> bool:
        if self.scope == "all":
            return True
        if is_robotstxt(path) or bypasses_scheduler(path):
            return False
        is_marked = number_in(path) < FIRST_LEAF and number_in(path) % 2 == 0
        return self.scope == "pages" or is_marked


@dataclass(frozen=True)
class Hold:
    """A middleware that holds requests back."""

    order: int
    seconds: float
    every: int
    """It holds one page of so many."""

    holds_robotstxt: bool
    downloads: bool
    """Whether it downloads another page meanwhile, and waits for it."""

    def applies_to(self, path: str) -> bool:
        if is_robotstxt(path):
            return self.holds_robotstxt
        return number_in(path) % self.every == 0


# The order of the middleware that is nearest to the network, but for those of the project.
WIRE_ORDER = 950


@dataclass(frozen=True)
class Replacement:
    """A middleware that replaces requests or responses."""

    order: int
    kind: str
    """What it does: ``rewrite`` (a request becomes another one); ``again``, ``other`` (a response is
    hidden, and the same or another page requested in its place); ``drop`` (a response is hidden).
    """

    every: int

    def applies_to(self, path: str) -> bool:
        if is_robotstxt(path) or bypasses_scheduler(path):
            return False
        return number_in(path) < FIRST_LEAF and number_in(path) % self.every == 0


@dataclass(frozen=True)
class Change:
    """A middleware that changes requests after they were judged."""

    order: int
    kind: str
    """What it changes: ``url`` or ``agent``."""

    every: int

    def applies_to(self, path: str) -> bool:
        if is_robotstxt(path) or bypasses_scheduler(path):
            return False
        return number_in(path) < FIRST_LEAF and number_in(path) % self.every == 0


class World:
    """All hosts, the outages of our own network, the settings of the crawl, and the log."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.seed = seed
        # In this order, seeds that once failed have kept their kind.
        drawn = random.choices([*_KINDS], [*_KINDS.values()])[0]
        self.is_busy = drawn == "busy"
        self.kind = "workers" if self.is_busy else drawn
        self.outages: list[tuple[float, float]] = []
        if self.kind == "plain" and random.random() < 0.3:
            begins = 1_000 + random.uniform(0, 60)
            self.outages.append((begins, begins + random.choice([20, 100, 300])))
        most = 4 if self.kind == "workers" else 12
        count = random.randint(8, 30) if self.outages else random.randint(1, most)
        names = [f"h{number}.example" for number in range(count)]
        self.hosts = {name: _host(name, seed, random) for name in names}
        for host in self.hosts.values():
            host.other_hosts = random.sample(names, min(3, len(names)))
        self.settings = _settings(random, self.kind)
        self.clock_changes: list[tuple[float, float]] = []
        """When the time of day is set, and by how many seconds."""
        if self.kind == "plain" and random.random() < 0.15:
            by = random.choice([-86_400, -3_600, -40, 40, 3_600, 90_000])
            self.clock_changes.append((1_000 + random.uniform(0, 300), by))
        if self.kind != "plain":
            for host in self.hosts.values():  # Processes end within pauses.
                host.page_faults *= 3
        if self.kind == "workers":
            for host in self.hosts.values():  # Each call of the server takes a while.
                host.pages = min(host.pages, 20)
                host.crawl_delay = min(host.crawl_delay or 0, 5) or None
        is_busy = self.kind == "plain" and Random(f"{seed} busy").random() < 0.05
        if is_busy or self.is_busy:
            self._make_busy()
        self.is_crowded = self.kind == "workers" and _draw_crowd(self.hosts, seed)
        """Whether each worker has hosts of its own, and fetches files from those of others."""
        self.faults = _faults(random, drawn)
        if self.is_crowded:
            self._make_crowded()
        moments = Random(f"{seed} moments")
        for fault in self.faults:
            fault.after_seconds = moments.choice([0, 0, 0, 0.3, 3, 30])
        if self.kind == "job" and moments.random() < 0.4:
            begins = 1_000 + moments.uniform(0, 60)
            self.outages.append((begins, begins + moments.choice([20, 300])))
        self._draw_by_chance()
        self.addresses: dict[str, str] = {}
        """The address of each host, where the crawl limits what is in flight to one."""
        if seed >= _LIMITS_SINCE and self.kind != "workers":
            self._draw_limits(Random(f"{seed} limits"))
        # The judge knows of what a run sets for all its crawls.
        self.settings |= options.chosen_settings()
        lags = Random(f"{seed} lag")
        self.lag = lags.choice([0, 0.002, 0.05, 0.2]) if self.kind == "workers" else 0.0
        """The seconds that each call of the queue's server takes."""

        self.log: list[SentRequest] = []
        self._waiting: list[tuple[int, int | None, asyncio.Future[None]]] = []

    def _make_busy(self) -> None:
        """Let many requests be in flight when a host asks for a pause, or a worker is killed."""
        self.settings |= {"CONCURRENT_REQUESTS": 4, "DOWNLOAD_DELAY": 0}
        self.settings["CONCURRENT_REQUESTS_PER_DOMAIN"] = 8
        for host in self.hosts.values():
            host.crawl_delay, host.latency, host.leaf_weight = None, 1.0, 6.0
            host.robotstxt_kind, host.pages, host.page_faults = "rules", 30, 0.2

    def _make_crowded(self) -> None:
        self.settings |= {"REP_QUEUE_LEASE": 10, "DOWNLOAD_DELAY": 0}
        _draw_older_data(self.faults, self.seed)
        is_early = self.seed < _CHANGES_SINCE
        if is_early or Random(f"{self.seed} pauses").random() >= 0.5:
            return
        # Workers that do not own a host are asked for pauses, while its owner need not ask the server.
        self.settings["CONCURRENT_REQUESTS_PER_DOMAIN"] = 2
        for host in self.hosts.values():
            host.asks_for_pauses, host.crawl_delay, host.robotstxt_kind = (
                True,
                None,
                "rules",
            )
            host.pages, host.page_faults = 20, 0

    def _draw_by_chance(self) -> None:
        """Draw middlewares of the project, bans and long pauses: each from its own sequence of random numbers, so that
        seeds keep the world that they have if one is changed.
        """
        self.driver: Driver | None = None
        self.hold: Hold | None = None
        self.replacement: Replacement | None = None
        self.change: Change | None = None
        self.bans: dict[str, float] = {}
        """From when on hosts refuse all connections, for ever."""
        draw = {
            "ban": self._draw_bans, "driver": self._draw_driver,
            "hold": self._draw_hold, "replace": self._draw_replacement,
            "alter": self._draw_change, "pause": self._draw_long_pauses,
        }  # fmt: skip
        for name, chance in _CHANCES.items():
            stream = Random(f"{self.seed} {name}")
            if stream.random() < chance and self.kind != "workers":
                draw[name](stream)
        if "SCHEDULER_PRIORITY_QUEUE" in self.settings:
            # With a scheduler of the project, pages wait where such a middleware is never met.
            self.driver = None
        if self.replacement is not None and self.replacement.order > WIRE_ORDER:
            self.driver = (
                None  # It would hide from everything else what the driver has fetched.
            )

    @property
    def has_components(self) -> bool:
        """Whether the project has middlewares that may keep answers from the crawl."""
        components = self.driver, self.hold, self.replacement
        return any(component is not None for component in components)

    @property
    def is_all_banned(self) -> bool:
        return len(self.bans) == len(self.hosts)

    def _draw_bans(self, random: Random) -> None:
        """All hosts, or some of them, refuse connections from a moment on, after they have answered."""
        begins = 1_000 + random.choice([2, 20, 200]) * random.uniform(0.5, 2)
        is_of_all = random.random() < 0.6
        self.bans = {
            name: begins for name in self.hosts if is_of_all or random.random() < 0.4
        }

    def _draw_driver(self, random: Random) -> None:
        scope = random.choice(["marked", "marked", "pages", "all"])
        is_blocking, has_own_errors = random.random() < 0.3, random.random() < 0.4
        order = random.choice([543, 800])
        if scope == "all" and (self.outages or self.bans):
            scope = (
                "pages"  # No other component could ask for robots.txt at its own pace.
            )
        self.driver = Driver(order, scope, is_blocking, has_own_errors)

    def _draw_hold(self, random: Random) -> None:
        order = random.choice([50, 300, 800, 990])
        seconds = random.choice([0.0, 0.5, 4.0, 20.0])
        every, holds_robotstxt = random.choice([1, 3, 7]), random.random() < 0.3
        # Nearest to the network, a request counts as in flight, and the other one might wait for its end.
        downloads = random.random() < 0.4 and order < 990
        self.hold = Hold(order, seconds, every, holds_robotstxt, downloads)

    def _draw_replacement(self, random: Random) -> None:
        order = random.choice([200, 700, 990])
        kind = random.choice(["rewrite", "repeat", "replace", "drop"])
        self.replacement = Replacement(order, kind, random.choice([2, 5]))

    def _draw_change(self, random: Random) -> None:
        if self.seed < _CHANGES_SINCE:
            return
        kind, order = random.choice(["url", "agent"]), random.choice([200, 700])
        self.change = Change(order, kind, random.choice([1, 2, 5]))
        if kind == "agent":
            for host in self.hosts.values():
                host.disallowed_for_other_agent = random.choice(["/yes/", "/odd/"])
        if self.driver is not None and self.driver.order > order:
            self.driver = None  # It would fetch what nobody has judged.

    def _draw_limits(self, random: Random) -> None:
        """Draw the limits that a crawl sets itself: places for each address, pages for each host."""
        if random.random() < 0.3:
            count = random.choice([1, 2, 3])
            self.addresses = {
                name: f"192.0.2.{random.randrange(count)}" for name in self.hosts
            }
            self.settings["REP_CONCURRENCY_PER_ADDRESS"] = random.choice([1, 2, 4])
        if random.random() < 0.3:
            self.settings["REP_PAGES_PER_HOST"] = random.choice([1, 4, 12, 30])
            overrides = {"h0.example": {"pages": random.choice([0, 2, 20])}}
            if random.random() < 0.3 and "REP_OVERRIDES" not in self.settings:
                self.settings["REP_OVERRIDES"] = overrides

    def _draw_long_pauses(self, random: Random) -> None:
        """Have hosts ask for pauses in which rules become stale, runs end, or requests wait for too long."""
        if self.seed >= _LONG_PAUSES_SINCE:
            for host in self.hosts.values():
                host.retry_after = random.choice([0, 45, 120, 900])

    def page_limit(self, host: str) -> float:
        """Return how many pages of *host* the crawl may fetch."""
        override = self.settings.get("REP_OVERRIDES", {}).get(host)
        limit = self.settings.get("REP_PAGES_PER_HOST", 0)
        if isinstance(override, dict):
            limit = override["pages"]
        return limit or inf

    async def wait_for_requests(self, count: int, process: int | None = None) -> None:
        """Wait until so many requests were sent, and one of them just now; by this *process*, if it is
        given.
        """
        waits = asyncio.get_running_loop().create_future()
        self._waiting.append((count, process, waits))
        await waits

    def send(
        self, host: str, path: str, now: float, process: int, agent: str
    ) -> SentRequest:
        """Note a request, and return it with its answer."""
        if now >= self.bans.get(host, inf):
            answer = Answer(0.02, error="refused")
        elif any(begins <= now < ends for begins, ends in self.outages):
            answer = Answer(0.02, error="unresolved")
        else:
            answer = self.hosts[host].answer(path, now)
        sent = SentRequest(len(self.log), process, now, host, path, answer, agent)
        self.log.append(sent)
        for count, by, waits in self._waiting:
            if count <= len(self.log) and by in {None, process} and not waits.done():
                waits.set_result(None)
        return sent

    def lines(self) -> list[str]:
        """Describe the world."""
        return [
            f"seed {self.seed}: a crawl of kind {self.kind}, {self.settings}",
            *(f"outage of our own network: {a:.2f} to {b:.2f}" for a, b in self.outages),
            *(f"the clock is set at {at:.2f} by {by} s" for at, by in self.clock_changes),
            *(f"{host} refuses all connections from {at:.2f} on" for host, at in self.bans.items()),
            *map(str, filter(None, (self.driver, self.hold, self.replacement, self.change))),
            *map(str, self.faults),
            *([f"the queue's server answers after {self.lag} s"] if self.lag else []),
            *(
                f"{host.name}: robots.txt {host.robotstxt_kind}, {host.pages} pages, latency {host.latency},"
                f" Crawl-delay {host.crawl_delay}, max-age {host.max_age},"
                f" often pauses for {host.retry_after} s"
                for host in self.hosts.values()
            ),
        ]  # fmt: skip


_LIMITS_SINCE = 202611280400
"""Seeds from here on may have limits for addresses and pages: earlier ones keep their stories."""

_CHANGES_SINCE = 202611280000
"""Seeds from here on may have a component that changes requests, and hosts that ask other workers for pauses."""

_LONG_PAUSES_SINCE = 202612010000
"""Seeds from here on may have hosts that often ask for long pauses."""

_KINDS = {"busy": 1.5, "plain": 10.5, "job": 6, "workers": 1}
"""How often a world is of a kind; ``busy`` ones have workers."""

_CHANCES = {"ban": 0.15, "driver": 0.25, "hold": 0.25, "replace": 0.25, "alter": 0.12,
            "pause": 0.2}  # fmt: skip
"""How often a world has bans, each of the middlewares, and long pauses."""


def _host(name: str, seed: int, random: Random) -> Host:
    fates, weights = zip(*ROBOTSTXT_KINDS, strict=True)
    return Host(
        name=name,
        seed=seed,
        random=Random(f"{seed} {name}"),
        robotstxt_kind=random.choices(fates, weights)[0],
        latency=random.choice([0.01, 0.1, 1.0]),
        pages=random.choice([1, 5, 20, 60]),
        crawl_delay=random.choice([None, None, 0.5, 5, 30, 400]),
        max_age=random.choice([None, None, 5, 60, 600]),
        page_faults=random.choice([0, 0, 0.05, 0.2]),
        rules_period=random.choice([20, 200]),
    )


def _draw_crowd(hosts: dict[str, Host], seed: int) -> bool:
    """Have several hosts for each worker, in half of the worlds. Return whether it is so."""
    random = Random(f"{seed} crowd")
    if random.random() < 0.5:
        return False
    for number in range(len(hosts), random.randint(6, 9)):
        name = f"h{number}.example"
        hosts[name] = _host(name, seed, random)
    for host in hosts.values():
        host.other_hosts = [name for name in hosts if name != host.name]
        random.shuffle(host.other_hosts)
        host.has_leaves_on_other_hosts, host.leaf_weight = True, 6.0
        host.pages, host.latency = random.choice([3, 8, 12]), random.choice([0.1, 1.0])
        host.crawl_delay = random.choice([None, None, 1, 4])
        host.page_faults = random.choice([0, 0.1, 0.3])
    return True


def _draw_older_data(faults: list[Fault], seed: int) -> None:
    """Have the server restart with older data in place of some *faults*."""
    random = Random(f"{seed} older")
    for fault in faults:
        if random.random() < 0.15:
            fault.kind, fault.seconds = "rollback", random.choice([0.3, 3, 20])


def _settings(random: Random, kind: str) -> dict[str, Any]:
    settings = {
        "CONCURRENT_REQUESTS": random.choice([1, 4, 16]),
        "CONCURRENT_REQUESTS_PER_DOMAIN": random.choice([1, 2, 8]),
        "DOWNLOAD_DELAY": random.choice([0, 0, 0, 1.5]),
        "REP_BACKOFF_MAX": random.choice([5, 60]),
        "REP_SKIP_DELAY_OVER": random.choice([60, 180, 1000]),
        "REP_MAX_AGE": random.choice([30, 86400]),
        "REP_WAIT_TIMEOUT": random.choice([30, 600, 2000]),
        "REP_NOFOLLOW": random.choice(["drop", "ignore"]),
        "REP_NOINDEX": random.choice(["drop", "drop", "annotate", "ignore"]),
        "REP_REL": random.choice([[], ["nofollow"]]),
        "RETRY_TIMES": random.choice([0, 2]),
    }
    if random.random() < 0.3:
        settings["REP_OVERRIDES"] = random.choice(
            [
                {"h0.example": "ignore"},
                {"*": "User-agent: *\nDisallow: /odd/\nCrawl-delay: 3\n"},
                {"h1.example": "User-agent: *\nDisallow: /\n", "h2.example": "obey"},
            ]
        )
    if kind == "plain":
        settings["REP_LEDGER"] = random.choice(["", "", "", "yes"])
        if random.random() < 0.15:
            settings["SCHEDULER_PRIORITY_QUEUE"] = "scrapy.pqueues.ScrapyPriorityQueue"
    if kind == "workers":
        settings["REP_QUEUE_LEASE"] = random.choice([10, 60])
        settings["REP_WAIT_TIMEOUT"] = 30
    return settings


def _faults(random: Random, kind: str) -> list[Fault]:
    kinds = {
        "plain": [],
        "job": ["kill", "kill", "kill", "stop", "disk_full"],
        "workers": [
            "kill",
            "stop",
            "disconnect",
            "restart",
            "flush",
            "suspend",
            "clock",
        ],
        "busy": ["kill", "kill", "kill", "stop", "disconnect", "suspend"],
    }[kind]
    count = {"plain": 0, "job": random.randint(0, 4), "workers": random.randint(0, 2)}
    count["busy"] = count["workers"]
    return [
        Fault(
            kind=random.choice(kinds),
            after_requests=random.randint(1, 20),
            iterations=random.choice([0, 0, 1, 2, 5, 20]),
            seconds=random.choice([0, 0.01, 0.06, 1, 20, 300]),
        )
        for _ in range(count[kind])
    ]
