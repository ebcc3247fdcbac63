"""The world of a crawl, drawn at random from a seed: hosts with their robots.txt and pages, faults, and settings."""

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
"""How a host answers requests for its robots.txt, with the weight of each kind.

``rules``, ``changing`` (the rules change with time), ``flaky`` (some requests fail), ``redirect``, ``cut`` (the response
is incomplete), ``refused`` (no connection), or a status.
"""

_ERRORS = {
    "refused": DownloadConnectionRefusedError,
    "unresolved": CannotResolveHostError,
    "timeout": DownloadTimeoutError,
    "cut": ResponseDataLossError,
}

FIRST_LEAF = 10_000
"""Pages with this number or a higher number have no links."""


FIRST_CHANGED = 100 * FIRST_LEAF
"""Pages with this number or a higher number are requested only because a component has changed the URL of a request."""

OTHER_AGENT = "otherbot"
"""The product token that a component sets in place of the product token of the crawl."""


def is_robotstxt(path: str) -> bool:
    """Whether *path* is the path of a robots.txt, or of the target of its redirect."""
    return path in {"/robots.txt", "/moved.txt"}


def bypasses_scheduler(path: str) -> bool:
    """Whether a callback, a pipeline or a component downloads the page itself, without the scheduler."""
    return not is_robotstxt(path) and FIRST_LEAF <= number_in(path) < 2 * FIRST_LEAF


def number_in(url: str) -> int:
    """Return the number of the page in *url*."""
    return int(url.rsplit("/", 1)[1])


@dataclass
class Answer:
    """The answer to a request: a status with body and headers, or an error. *seconds* is the time that the answer takes."""

    seconds: float
    status: int = 0
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    error: str = ""

    def raise_error(self) -> None:
        """Raise the exception if the answer is an error."""
        if self.error:
            raise _ERRORS[self.error](f"simulated: {self.error}")


@dataclass
class SentRequest:
    """An entry of the log of the world: a request that was sent, with its answer. Times are seconds of virtual time."""

    number: int
    process: int
    at: float
    host: str
    path: str
    answer: Answer
    agent: str = ""
    """The product token of its User-Agent."""

    received_at: float | None = None
    """When the process received the answer. None if it did not, for example because the process was killed."""

    is_by_driver: bool = False
    """Whether a :class:`Driver` has sent the request."""

    raised_driver_error: bool = False
    """Whether the driver has raised its own exception instead of the network error."""

    held_since: float | None = None
    """When a component began to hold the request back. None if no component did."""

    @property
    def answered_at(self) -> float | None:
        """When the host answered. A suspended process receives the answer later."""
        return self.received_at and min(self.received_at, self.at + self.answer.seconds)

    @property
    def says_no_connection(self) -> bool:
        """Whether the request failed without a connection, and the crawl could see that."""
        is_of_network = self.answer.error in {"refused", "unresolved"}
        return is_of_network and not self.raised_driver_error

    @property
    def is_robots(self) -> bool:
        """Whether the request is for a robots.txt, or for the target of its redirect."""
        return is_robotstxt(self.path)

    @property
    def is_leaf(self) -> bool:
        """Whether the request is for a page without links, or for a file."""
        return not self.is_robots and number_in(self.path) >= FIRST_LEAF

    @property
    def is_redirected(self) -> bool:
        """Whether the request was made because a host or a component has redirected another request."""
        return (
            not self.is_robots
            and 2 * FIRST_LEAF <= number_in(self.path) < FIRST_CHANGED
        )

    @property
    def bypasses_scheduler(self) -> bool:
        """Whether the request did not pass the scheduler, because a callback, a pipeline or a component has sent it."""
        return bypasses_scheduler(self.path)

    @property
    def is_page_of_host(self) -> bool:
        """Whether the request counts against the page limit of its host: it passed the scheduler, and is not the result of a
        redirect within the host.
        """
        is_redirected_within_host = self.is_redirected and self.slot == self.host
        return not (
            self.is_robots or self.bypasses_scheduler or is_redirected_within_host
        )

    @property
    def slot(self) -> str:
        """The host whose download slot the request uses. After a redirect, Scrapy keeps the slot of the first host."""
        if not self.is_redirected:
            return self.host
        return f"h{number_in(self.path) // FIRST_LEAF - 2}.example"

    def __str__(self) -> str:
        answer = self.answer
        duration = (
            "cancelled"
            if self.received_at is None
            else f"{self.received_at - self.at:.2f} s"
        )
        text = f"{self.at:12.2f}  {self.process} {self.host}{self.path}  {answer.error or answer.status}  {duration}"
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
    """A page, with its links and its robots meta tag. The pages of a host form a tree."""

    links: tuple[str, ...] = ()
    nofollow: tuple[str, ...] = ()
    """The links with ``rel="nofollow"``."""

    file_url: str = ""
    """The URL of a file that the item of the page needs. Empty if it needs none."""

    callback_page: str = ""
    """The URL of a page that the callback downloads itself. Empty if it downloads none."""

    robots: str = ""
    """The content of the robots meta tag."""

    def html(self) -> str:
        meta = f'<meta name="robots" content="{self.robots}">' if self.robots else ""
        links = [f'<a href="{link}">x</a>' for link in self.links]
        links += [f'<a rel="nofollow" href="{link}">x</a>' for link in self.nofollow]
        return f"<html><head>{meta}</head>{''.join(links)}</html>"


@dataclass(eq=False)
class Host:
    """A host: its latency, its robots.txt, and its pages.

    *page_faults* is the share of requests for pages that fail. *max_age* is sent in Cache-Control with the robots.txt.
    """

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
    """The seconds after which a ``changing`` robots.txt switches between two versions."""

    leaf_weight: float = 1.0
    """The weight of pages that need a file, and of pages whose callback downloads a page. The weight of other pages is 8."""

    has_leaves_on_other_hosts: bool = False
    """Whether these files and downloaded pages are on other hosts."""

    asks_for_pauses: bool = False
    """Whether 40 percent of the requests for these files and downloaded pages get a 429 that asks for a pause."""

    retry_after: int = 0
    """A tenth of the requests for pages get a 429 with this Retry-After, in seconds. If 0, there are no such answers."""

    other_hosts: list[str] = field(default_factory=list)
    """The hosts to which the host redirects."""

    disallowed_for_other_agent: str = ""
    """The path that robots.txt disallows for OTHER_AGENT. Empty if robots.txt has no group for OTHER_AGENT."""

    def answer(self, path: str, now: float) -> Answer:
        """Return the answer of the host to a request for *path* at the time *now*."""
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
        has_switched = robotstxt_kind == "changing" and int(now / self.rules_period) % 2
        disallowed = {"*": f"/{'odd' if has_switched else 'no'}/"}
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

    @lru_cache(maxsize=200)  # noqa: B019  hosts live no longer than their world
    def page(self, number: int) -> Page:
        """Return the page with this *number* in the binary tree. It is the same at each call."""
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
            other_host = self.other_hosts[number % len(self.other_hosts)]
            leaf = (
                f"http://{other_host}{path_of(FIRST_LEAF + 100 * self.index + number)}"
            )
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
        """Return the URL to which ``/go/number`` redirects."""
        other_host = self.other_hosts[number % len(self.other_hosts)]
        return f"http://{other_host}{path_of((self.index + 2) * FIRST_LEAF + number)}"

    @property
    def index(self) -> int:
        """The number in the name of the host."""
        return int(self.name.partition(".")[0][1:])


def path_of(number: int) -> str:
    """Return the path of a page. The first part of the path is one of three words, and rules disallow one of these words."""
    return f"/{('yes', 'no', 'odd')[number % 3]}/{number}"


@dataclass
class Fault:
    """A fault of a process, of the disk, or of the server that has the queue."""

    kind: str
    """``kill``, ``stop``, ``suspend`` (process), ``clock`` (the clock of a worker is fast), ``disk_full``, ``disconnect``,
    ``restart``, ``flush`` or ``rollback`` (server; after ``rollback``, it has the data of an earlier time).
    """

    after_requests: int = 0
    """The fault is due after this number of requests, then *iterations* of the loop, then *after_seconds*."""

    iterations: int = 0
    after_seconds: float = 0.0
    seconds: float = 0.0
    """The duration of the fault, or the seconds by which the clock is fast."""


@dataclass(frozen=True)
class Driver:
    """The settings of a middleware that fetches pages itself, as a browser driver does."""

    order: int
    scope: str
    """Which requests the driver fetches: ``marked`` (every second page), ``pages`` (all pages from the scheduler), or ``all``
    (also robots.txt).
    """

    is_blocking: bool
    """Whether the driver blocks the event loop, as Selenium does."""

    has_own_errors: bool
    """Whether the driver raises its own exception for each failure."""

    def applies_to(self, path: str) -> bool:
        if self.scope == "all":
            return True
        if is_robotstxt(path) or bypasses_scheduler(path):
            return False
        is_marked = number_in(path) < FIRST_LEAF and number_in(path) % 2 == 0
        return self.scope == "pages" or is_marked


@dataclass(frozen=True)
class Hold:
    """The settings of a middleware that holds requests back for some seconds."""

    order: int
    seconds: float
    every: int
    """The middleware holds back pages whose number is a multiple of *every*."""

    holds_robotstxt: bool
    downloads: bool
    """Whether the middleware also downloads another page, and waits for it."""

    def applies_to(self, path: str) -> bool:
        if is_robotstxt(path):
            return self.holds_robotstxt
        return number_in(path) % self.every == 0


WIRE_ORDER = 950
"""The order of the wire, which is the add-on's middleware nearest to the network. If a component with a higher order holds
a request back, the add-on can no longer stop the request.
"""


@dataclass(frozen=True)
class Replacement:
    """The settings of a middleware that replaces requests or responses."""

    order: int
    kind: str
    """What the middleware does: ``rewrite`` (replaces a request by a request for another page), ``repeat`` (discards a
    response, and requests the same page again), ``replace`` (discards a response, and requests another page) or ``drop``
    (discards a response).
    """

    every: int
    """The middleware applies to pages whose number is a multiple of *every*."""

    def applies_to(self, path: str) -> bool:
        if is_robotstxt(path) or bypasses_scheduler(path):
            return False
        return number_in(path) < FIRST_LEAF and number_in(path) % self.every == 0


@dataclass(frozen=True)
class Change:
    """The settings of a middleware that changes requests after the add-on has allowed them."""

    order: int
    kind: str
    """What the middleware changes: ``url`` or ``agent``."""

    every: int
    """The middleware applies to pages whose number is a multiple of *every*."""

    def applies_to(self, path: str) -> bool:
        if is_robotstxt(path) or bypasses_scheduler(path):
            return False
        return number_in(path) < FIRST_LEAF and number_in(path) % self.every == 0


class World:
    """Everything that is drawn from a seed, and the log of all requests.

    The same seed must give the same world in each version of this module. So the order of the draws must not change, nor
    the names from which further sequences of random numbers start, as in ``Random(f"{seed} lag")``.
    """

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.seed = seed
        # The order of _KINDS must not change: the seeds of FAILED_ONCE would get another kind of world.
        drawn_kind = random.choices([*_KINDS], [*_KINDS.values()])[0]
        # In a busy world, many requests of workers are in flight when a worker is killed.
        self.is_busy = drawn_kind == "busy"
        self.kind = "workers" if self.is_busy else drawn_kind
        self.outages: list[tuple[float, float]] = []
        """When the network of the crawler is gone: start and end."""
        if self.kind == "plain" and random.random() < 0.3:
            begins = 1_000 + random.uniform(0, 60)
            self.outages.append((begins, begins + random.choice([20, 100, 300])))
        max_hosts = 4 if self.kind == "workers" else 12
        count = random.randint(8, 30) if self.outages else random.randint(1, max_hosts)
        names = [f"h{number}.example" for number in range(count)]
        self.hosts = {name: _host(name, seed, random) for name in names}
        for host in self.hosts.values():
            host.other_hosts = random.sample(names, min(3, len(names)))
        self.settings = _settings(random, self.kind)
        self.clock_changes: list[tuple[float, float]] = []
        """When the time of day is set, and by how many seconds. Negative: it is set back."""
        if self.kind == "plain" and random.random() < 0.15:
            offset = random.choice([-86_400, -3_600, -40, 40, 3_600, 90_000])
            self.clock_changes.append((1_000 + random.uniform(0, 300), offset))
        if self.kind != "plain":
            # More faults, so that some processes end within pauses.
            for host in self.hosts.values():
                host.page_faults *= 3
        if self.kind == "workers":
            # Fewer pages and shorter delays, because each call of the server takes some time.
            for host in self.hosts.values():
                host.pages = min(host.pages, 20)
                host.crawl_delay = min(host.crawl_delay or 0, 5) or None
        is_busy = self.kind == "plain" and Random(f"{seed} busy").random() < 0.05
        if is_busy or self.is_busy:
            self._make_busy()
        self.is_crowded = self.kind == "workers" and _draw_crowd(self.hosts, seed)
        """Whether there are several hosts for each worker. Then, each worker owns some hosts, and fetches files from hosts of
        other workers.
        """
        self.faults = _faults(random, drawn_kind)
        if self.is_crowded:
            self._make_crowded()
        random_times = Random(f"{seed} moments")
        for fault in self.faults:
            fault.after_seconds = random_times.choice([0, 0, 0, 0.3, 3, 30])
        if self.kind == "job" and random_times.random() < 0.4:
            begins = 1_000 + random_times.uniform(0, 60)
            self.outages.append((begins, begins + random_times.choice([20, 300])))
        self._draw_by_chance()
        self.addresses: dict[str, str] = {}
        """The IP address of each host. Empty if the crawl has no limit for addresses."""
        if seed >= _LIMITS_SINCE and self.kind != "workers":
            self._draw_limits(Random(f"{seed} limits"))
        # The settings from the options are added here, too, so that the judge knows about them.
        self.settings |= options.chosen_settings()
        random_lag = Random(f"{seed} lag")
        self.lag = (
            random_lag.choice([0, 0.002, 0.05, 0.2]) if self.kind == "workers" else 0.0
        )
        """The seconds that each call of the Redis server takes."""

        self.log: list[SentRequest] = []
        self._waiting: list[tuple[int, int | None, asyncio.Future[None]]] = []

    def _make_busy(self) -> None:
        """Change hosts and settings so that many requests are in flight when a host asks for a pause or a worker is killed."""
        self.settings |= {"CONCURRENT_REQUESTS": 4, "DOWNLOAD_DELAY": 0}
        self.settings["CONCURRENT_REQUESTS_PER_DOMAIN"] = 8
        for host in self.hosts.values():
            host.crawl_delay, host.latency, host.leaf_weight = None, 1.0, 6.0
            host.robotstxt_kind, host.pages, host.page_faults = "rules", 30, 0.2

    def _make_crowded(self) -> None:
        """Change the settings for several hosts for each worker. In newer seeds, half of these worlds also have hosts that
        ask many workers for pauses.
        """
        self.settings |= {"REP_QUEUE_LEASE": 10, "DOWNLOAD_DELAY": 0}
        _draw_older_data(self.faults, self.seed)
        is_early = self.seed < _CHANGES_SINCE
        if is_early or Random(f"{self.seed} pauses").random() >= 0.5:
            return
        # The hosts ask workers that do not own them for pauses. Meanwhile, the owner of a host has no other reason to call
        # the server.
        self.settings["CONCURRENT_REQUESTS_PER_DOMAIN"] = 2
        for host in self.hosts.values():
            host.asks_for_pauses, host.crawl_delay, host.robotstxt_kind = (
                True,
                None,
                "rules",
            )
            host.pages, host.page_faults = 20, 0

    def _draw_by_chance(self) -> None:
        """Draw the middlewares of the project, bans and long pauses. Each is drawn from its own sequence of random numbers. So
        a change of one of them does not change the rest of the worlds.
        """
        self.driver: Driver | None = None
        self.hold: Hold | None = None
        self.replacement: Replacement | None = None
        self.change: Change | None = None
        self.bans: dict[str, float] = {}
        """The time from which a host refuses all connections, for ever. By host."""
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
            # With a priority queue of the project, pages wait at the wire. A page that a driver fetches never gets there.
            self.driver = None
        if self.replacement is not None and self.replacement.order > WIRE_ORDER:
            # The replacement would hide the responses of the driver from all other middlewares.
            self.driver = None

    @property
    def has_components(self) -> bool:
        """Whether the project has middlewares that may hide or delay answers."""
        components = self.driver, self.hold, self.replacement
        return any(component is not None for component in components)

    @property
    def is_all_banned(self) -> bool:
        """Whether all hosts refuse connections from some time on."""
        return len(self.bans) == len(self.hosts)

    def _draw_bans(self, random: Random) -> None:
        """Let all hosts, or some of them, refuse connections from some time on, after they have answered."""
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
            # A driver would fetch robots.txt without regard to the pace at which the add-on tries the network.
            scope = "pages"
        self.driver = Driver(order, scope, is_blocking, has_own_errors)

    def _draw_hold(self, random: Random) -> None:
        order = random.choice([50, 300, 800, 990])
        seconds = random.choice([0.0, 0.5, 4.0, 20.0])
        every, holds_robotstxt = random.choice([1, 3, 7]), random.random() < 0.3
        # Nearest to the network, a request that is held back counts as in flight, and the other download might wait for
        # its end: a deadlock.
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
            self.driver = None  # It would fetch the changed request before the add-on can check it.

    def _draw_limits(self, random: Random) -> None:
        """Draw the limits from the settings: concurrent requests to each address, and pages of each host."""
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
        """Let hosts ask for pauses that are so long that robots.txt becomes stale, processes end, or requests wait too long."""
        if self.seed >= _LONG_PAUSES_SINCE:
            for host in self.hosts.values():
                host.retry_after = random.choice([0, 45, 120, 900])

    def page_limit(self, host: str) -> float:
        """Return the maximum number of pages of *host* that the crawl may fetch, or infinity."""
        override = self.settings.get("REP_OVERRIDES", {}).get(host)
        limit = self.settings.get("REP_PAGES_PER_HOST", 0)
        if isinstance(override, dict):
            limit = override["pages"]
        return limit or inf

    async def wait_for_requests(self, count: int, process: int | None = None) -> None:
        """Wait for the next request that is sent when the log has *count* requests or more, that request included. If
        *process* is given, wait for a request of this process.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((count, process, future))
        await future

    def send(
        self, host: str, path: str, now: float, process: int, agent: str
    ) -> SentRequest:
        """Add a request to the log, with its answer, and return the entry."""
        if now >= self.bans.get(host, inf):
            answer = Answer(0.02, error="refused")
        elif any(begins <= now < ends for begins, ends in self.outages):
            answer = Answer(0.02, error="unresolved")
        else:
            answer = self.hosts[host].answer(path, now)
        sent = SentRequest(len(self.log), process, now, host, path, answer, agent)
        self.log.append(sent)
        for count, sender, future in self._waiting:
            is_due = count <= len(self.log) and sender in {None, process}
            if is_due and not future.done():
                future.set_result(None)
        return sent

    def lines(self) -> list[str]:
        """Return a description of the world, as lines of text."""
        return [
            f"seed {self.seed}: a crawl of kind {self.kind}, {self.settings}",
            *(f"outage of the crawler's network: {a:.2f} to {b:.2f}" for a, b in self.outages),
            *(f"the clock is set by {offset} s at {at:.2f}" for at, offset in self.clock_changes),
            *(f"{host} refuses all connections from {at:.2f} on" for host, at in self.bans.items()),
            *map(str, filter(None, (self.driver, self.hold, self.replacement, self.change))),
            *map(str, self.faults),
            *([f"the Redis server answers after {self.lag} s"] if self.lag else []),
            *(
                f"{host.name}: robots.txt {host.robotstxt_kind}, {host.pages} pages, latency {host.latency},"
                f" Crawl-delay {host.crawl_delay}, max-age {host.max_age},"
                f" 429 with Retry-After {host.retry_after}"
                for host in self.hosts.values()
            ),
        ]  # fmt: skip


_LIMITS_SINCE = 202611280400
"""Seeds from this number on may have limits for addresses and pages. Earlier seeds keep their stories."""

_CHANGES_SINCE = 202611280000
"""Seeds from this number on may have a component that changes requests, and hosts that ask many workers for pauses.
Earlier seeds keep their stories.
"""

_LONG_PAUSES_SINCE = 202612010000
"""Seeds from this number on may have hosts that often ask for long pauses. Earlier seeds keep their stories."""

_KINDS = {"busy": 1.5, "plain": 10.5, "job": 6, "workers": 1}
"""The weight of each kind of world. ``busy`` worlds are of the kind ``workers``."""

_CHANCES = {"ban": 0.15, "driver": 0.25, "hold": 0.25, "replace": 0.25, "alter": 0.12,
            "pause": 0.2}  # fmt: skip
"""The probability that a world has bans, each of the middlewares, and long pauses."""


def _host(name: str, seed: int, random: Random) -> Host:
    """Draw a host."""
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
    """In half of the worlds, add hosts until there are several for each worker. Return whether that was done."""
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
    """Replace some of the *faults* by a restart of the server with older data."""
    random = Random(f"{seed} older")
    for fault in faults:
        if random.random() < 0.15:
            fault.kind, fault.seconds = "rollback", random.choice([0.3, 3, 20])


def _settings(random: Random, kind: str) -> dict[str, Any]:
    """Draw the Scrapy settings of a world of this *kind*."""
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
    """Draw the faults of a world. *kind* is a key of ``_KINDS``."""
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
