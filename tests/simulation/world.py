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
"""The ways in which a host answers requests for its robots.txt, each with its weight in the random choice.

Each is ``rules``, ``changing`` (the rules change with time), ``flaky`` (some requests fail), ``redirect``, ``cut`` (the
response is incomplete), ``refused`` (no connection is made), or a status, such as ``404``.
"""

_ERRORS = {
    "refused": DownloadConnectionRefusedError,
    "unresolved": CannotResolveHostError,
    "timeout": DownloadTimeoutError,
    "cut": ResponseDataLossError,
}

FIRST_LEAF = 10_000
"""Pages with this number or a higher number are leaves: they have no links.

Callbacks and middlewares download leaves past the scheduler, pipelines download leaves as files, and redirects lead to
leaves.
"""

FIRST_CHANGED = 100 * FIRST_LEAF
"""Pages with this number or a higher number are requested only if the middleware :class:`Change` has changed the URL of
a request.
"""

OTHER_AGENT = "otherbot"
"""The product token that the middleware :class:`Change` sets in place of ``mybot``."""


def is_robotstxt(path: str) -> bool:
    """Whether *path* is ``/robots.txt``, or ``/moved.txt``, to which some hosts redirect it."""
    return path in {"/robots.txt", "/moved.txt"}


def bypasses_scheduler(path: str) -> bool:
    """Whether the page at *path* is downloaded past the scheduler, by a callback, a pipeline or a middleware."""
    return not is_robotstxt(path) and FIRST_LEAF <= number_in(path) < 2 * FIRST_LEAF


def number_in(url: str) -> int:
    """Return the number of the page at *url*, which is the last part of the path."""
    return int(url.rsplit("/", 1)[1])


@dataclass
class Answer:
    """The answer to a request: a status with body and headers, or an error with which the request fails."""

    seconds: float
    """The seconds from the request to the answer."""

    status: int = 0
    """The HTTP status. 0 if the request fails with an exception, see *error*."""

    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    error: str = ""
    """Why the request fails with an exception: ``refused``, ``unresolved``, ``timeout`` or ``cut``. Empty if the
    request does not fail.
    """

    def raise_error(self) -> None:
        """Raise the exception if the request fails with an exception."""
        if self.error:
            raise _ERRORS[self.error](f"simulated: {self.error}")


@dataclass
class SentRequest:
    """An entry in the log of the world: a request that was sent, with its answer. Times are seconds of virtual time."""

    number: int
    """The index in the log."""

    process: int
    at: float
    host: str
    path: str
    answer: Answer
    agent: str = ""
    """The product token in the User-Agent of the request."""

    received_at: float | None = None
    """The time at which the process received the answer. None if it did not, for example because the process was
    killed.
    """

    is_by_driver: bool = False
    """Whether the middleware :class:`Driver` has sent the request."""

    raised_driver_error: bool = False
    """Whether the request failed, and a driver raised its own exception instead of Scrapy's."""

    held_since: float | None = None
    """The time at which the middleware :class:`Hold` began to hold the request back. None if it did not."""

    @property
    def answered_at(self) -> float | None:
        """The time at which the host answered. A suspended process receives the answer later. None if no answer was
        received.
        """
        return self.received_at and min(self.received_at, self.at + self.answer.seconds)

    @property
    def says_no_connection(self) -> bool:
        """Whether the request failed because no connection was made, and the crawl got an exception that says so."""
        is_of_network = self.answer.error in {"refused", "unresolved"}
        return is_of_network and not self.raised_driver_error

    @property
    def is_robots(self) -> bool:
        """Whether the request is for a robots.txt, or for the URL to which the robots.txt was redirected."""
        return is_robotstxt(self.path)

    @property
    def is_leaf(self) -> bool:
        """Whether the request is for a page without links, or for a file."""
        return not self.is_robots and number_in(self.path) >= FIRST_LEAF

    @property
    def is_redirected(self) -> bool:
        """Whether a redirect of the host, or the middleware :class:`Replacement`, has led to the request."""
        return (
            not self.is_robots
            and 2 * FIRST_LEAF <= number_in(self.path) < FIRST_CHANGED
        )

    @property
    def bypasses_scheduler(self) -> bool:
        """Whether the request never was in the scheduler, because a callback, a pipeline or a middleware downloads the
        page.
        """
        return bypasses_scheduler(self.path)

    @property
    def is_page_of_host(self) -> bool:
        """Whether the request counts against the page limit of its host. Requests for robots.txt, requests that bypass
        the scheduler, and redirects from one page of the host to another page do not count.
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
    """The links without ``rel="nofollow"``."""

    nofollow: tuple[str, ...] = ()
    """The links with ``rel="nofollow"``."""

    file_url: str = ""
    """The URL of the file that the item of the page lists in ``file_urls``. Empty if the item has no file."""

    callback_page: str = ""
    """The URL of a page that the callback downloads past the scheduler. Empty if the callback downloads no page."""

    robots: str = ""
    """The content of the robots meta tag."""

    def html(self) -> str:
        meta = f'<meta name="robots" content="{self.robots}">' if self.robots else ""
        links = [f'<a href="{link}">x</a>' for link in self.links]
        links += [f'<a rel="nofollow" href="{link}">x</a>' for link in self.nofollow]
        return f"<html><head>{meta}</head>{''.join(links)}</html>"


@dataclass(eq=False)
class Host:
    """A host: its latency, its robots.txt, and its pages."""

    name: str
    seed: int
    random: Random
    robotstxt_kind: str
    """How the host answers requests for its robots.txt. See :data:`ROBOTSTXT_KINDS`."""

    latency: float
    """The typical time of an answer, in seconds."""

    pages: int
    """The number of pages, without leaves."""

    crawl_delay: float | None
    max_age: int | None
    """The max-age in the Cache-Control of the robots.txt, in seconds. None if there is no Cache-Control."""

    page_faults: float
    """The share of requests for pages that fail, from 0 to 1."""

    rules_period: float
    """The seconds after which a ``changing`` robots.txt switches between two versions."""

    leaf_weight: float = 1.0
    """How often a page has a leaf (a file, or a page that the callback downloads). For each page, one of three cases is
    drawn at random:

    - The page has a file, with the weight *leaf_weight*.
    - The callback of the page downloads another page, with the weight *leaf_weight*.
    - The page has no leaf, with the weight 8.
    """

    has_leaves_on_other_hosts: bool = False
    """Where the leaves of this host's pages are (files, and pages that callbacks download): on other hosts if True, on
    this host if False.
    """

    asks_for_pauses: bool = False
    """Whether the host answers 40 percent of the requests that bypass the scheduler, for example for files, with a 429
    and ``Retry-After: 5``.
    """

    retry_after: int = 0
    """The Retry-After, in seconds, of the 429 that a tenth of the requests for pages get. If 0, no request gets this
    429.
    """

    other_hosts: list[str] = field(default_factory=list)
    """The names of the hosts to which this host redirects. If *has_leaves_on_other_hosts* is True, the leaves of this
    host's pages are on *other_hosts*.
    """

    disallowed_for_other_agent: str = ""
    """The start of the paths that robots.txt disallows for OTHER_AGENT, for example ``/yes/``. Empty if robots.txt has
    no group for OTHER_AGENT.
    """

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
        """Return the page with this *number*. The same number always gives the same page.

        The pages form a binary tree: page ``n`` links to the pages ``2n + 1`` and ``2n + 2``.
        """
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
    """Return the path of a page, for example ``/no/7``. The first part is ``yes``, ``no`` or ``odd``, so that a rule
    can disallow a third of the pages.
    """
    return f"/{('yes', 'no', 'odd')[number % 3]}/{number}"


@dataclass
class Fault:
    """A fault of a process, of the disk, or of the Redis server.

    The fault is due after *after_requests* requests, then *iterations* of the event loop, then *after_seconds*.
    """

    kind: str
    """What happens, one of these words:

    - ``kill``, ``stop``, ``suspend``: a process ends at once, ends cleanly, or does nothing for some time.
    - ``clock``: the clock of a worker is fast.
    - ``disk_full``: no file can be written for some time.
    - ``disconnect``, ``restart``: the Redis server cannot be reached for some time. After a restart, it has lost its
      scripts.
    - ``flush``, ``rollback``: the Redis server loses all its data, or goes back to the data of an earlier time.
    - ``none``: nothing.
    """

    after_requests: int = 0

    iterations: int = 0
    after_seconds: float = 0.0
    seconds: float = 0.0
    """The duration of the fault. For ``clock``, the seconds by which the clock is fast."""


@dataclass(frozen=True)
class Driver:
    """The settings of a middleware that fetches pages itself, as a browser does."""

    order: int
    """The order in ``DOWNLOADER_MIDDLEWARES``."""

    scope: str
    """What the driver fetches: ``marked`` (every second page), ``pages`` (all pages from the scheduler), or ``all``
    (also robots.txt, and pages that bypass the scheduler).
    """

    is_blocking: bool
    """Whether the driver blocks the event loop, as Selenium does."""

    has_own_errors: bool
    """Whether the driver raises its own exception for each failure, which Scrapy does not know as a network error."""

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
    """The order in ``DOWNLOADER_MIDDLEWARES``."""

    seconds: float
    """The seconds for which a request is held back."""

    every: int
    """The middleware holds back pages whose number is a multiple of *every*."""

    holds_robotstxt: bool
    """Whether the middleware also holds back requests for robots.txt."""

    downloads: bool
    """Whether the middleware downloads another page for each request for a page that it holds back. The request
    continues when the download is over.
    """

    def applies_to(self, path: str) -> bool:
        if is_robotstxt(path):
            return self.holds_robotstxt
        return number_in(path) % self.every == 0


WIRE_ORDER = 950
"""The order of WireMiddleware, the add-on's middleware nearest to the network. If a middleware with a higher order
holds a request back, the add-on can no longer stop the request.
"""


@dataclass(frozen=True)
class Replacement:
    """The settings of a middleware that replaces requests or responses."""

    order: int
    """The order in ``DOWNLOADER_MIDDLEWARES``."""

    kind: str
    """What the middleware does: ``rewrite`` (replaces a request by a request for another page), ``repeat`` (discards a
    response, and requests the same page again), ``replace`` (discards a response, and requests another page) or
    ``drop`` (discards a response).
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
    """The order in ``DOWNLOADER_MIDDLEWARES``."""

    kind: str
    """What the middleware changes: ``url``, or ``agent`` (the User-Agent)."""

    every: int
    """The middleware applies to pages whose number is a multiple of *every*."""

    def applies_to(self, path: str) -> bool:
        if is_robotstxt(path) or bypasses_scheduler(path):
            return False
        return number_in(path) < FIRST_LEAF and number_in(path) % self.every == 0


class World:
    """The hosts, the settings and the faults of a crawl, drawn at random from a seed, and the log of all its requests.

    The same seed must give the same world in each version of this module. So two things must not change: the order of
    the random draws, and the texts that seed further random generators, as in ``Random(f"{seed} lag")``.
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
        """The periods, as (start, end), in which the network of the crawler is gone."""
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
        """The times at which the clock is set, each with the seconds by which it is fast from then on. Negative if it
        is slow.
        """
        if self.kind == "plain" and random.random() < 0.15:
            offset = random.choice([-86_400, -3_600, -40, 40, 3_600, 90_000])
            self.clock_changes.append((1_000 + random.uniform(0, 300), offset))
        if self.kind != "plain":
            # More requests fail, so that some processes end during a pause of a host.
            for host in self.hosts.values():
                host.page_faults *= 3
        if self.kind == "workers":
            # Fewer pages and shorter delays, because the simulation is slow with a Redis server.
            for host in self.hosts.values():
                host.pages = min(host.pages, 20)
                host.crawl_delay = min(host.crawl_delay or 0, 5) or None
        is_busy = self.kind == "plain" and Random(f"{seed} busy").random() < 0.05
        if is_busy or self.is_busy:
            self._make_busy()
        self.is_crowded = self.kind == "workers" and _draw_crowd(self.hosts, seed)
        """Whether there are more hosts than workers, so that each worker owns some hosts, and fetches files from hosts
        that other workers own.
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
        """The IP address of each host, by name. Empty if the crawl has no limit for requests to an address."""
        if seed >= _LIMITS_SINCE and self.kind != "workers":
            self._draw_limits(Random(f"{seed} limits"))
        # The settings from the command line are added, so that the judge knows them.
        self.settings |= options.chosen_settings()
        random_lag = Random(f"{seed} lag")
        self.lag = (
            random_lag.choice([0, 0.002, 0.05, 0.2]) if self.kind == "workers" else 0.0
        )
        """The seconds that each call of the Redis server takes."""

        self.log: list[SentRequest] = []
        # The arguments of each call of wait_for_requests, and the future for which the call waits.
        self._waiting: list[tuple[int, int | None, asyncio.Future[None]]] = []

    def _make_busy(self) -> None:
        """Change hosts and settings so that many requests are in flight when a host asks for a pause or a worker is
        killed.
        """
        self.settings |= {"CONCURRENT_REQUESTS": 4, "DOWNLOAD_DELAY": 0}
        self.settings["CONCURRENT_REQUESTS_PER_DOMAIN"] = 8
        for host in self.hosts.values():
            host.crawl_delay, host.latency, host.leaf_weight = None, 1.0, 6.0
            host.robotstxt_kind, host.pages, host.page_faults = "rules", 30, 0.2

    def _make_crowded(self) -> None:
        """Change settings and faults to suit a world with several hosts for each worker.

        In half of these worlds, hosts also answer many requests for leaves with 429. Worlds of seeds before
        _CHANGES_SINCE never do this.
        """
        self.settings |= {"REP_QUEUE_LEASE": 10, "DOWNLOAD_DELAY": 0}
        _draw_older_data(self.faults, self.seed)
        is_early = self.seed < _CHANGES_SINCE
        if is_early or Random(f"{self.seed} pauses").random() >= 0.5:
            return
        # These changes test whether the worker that owns a host learns about a pause from an answer to another worker.
        # The host answers many requests for leaves (files, and pages that callbacks download) with 429. These requests
        # come from workers that own other hosts. Meanwhile, the owner has no other reason to call the Redis server.
        self.settings["CONCURRENT_REQUESTS_PER_DOMAIN"] = 2
        for host in self.hosts.values():
            host.asks_for_pauses, host.crawl_delay, host.robotstxt_kind = (
                True,
                None,
                "rules",
            )
            host.pages, host.page_faults = 20, 0

    def _draw_by_chance(self) -> None:
        """Draw the middlewares of the project, the bans and the long pauses.

        Each of these has its own random generator, so that a change to one of them leaves the others as they are.
        """
        self.driver: Driver | None = None
        self.hold: Hold | None = None
        self.replacement: Replacement | None = None
        self.change: Change | None = None
        self.bans: dict[str, float] = {}
        """By host: the time after which the host refuses all connections, for ever."""
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
            # With a priority queue of the project, only WireMiddleware makes pages wait. It does not see the requests
            # of a driver, so that nothing would keep the Crawl-delay.
            self.driver = None
        if self.replacement is not None and self.replacement.order > WIRE_ORDER:
            # The replacement would hide the responses of the driver from all other middlewares.
            self.driver = None

    @property
    def has_components(self) -> bool:
        """Whether the project has middlewares that can hide answers from the add-on, or delay requests."""
        components = self.driver, self.hold, self.replacement
        return any(component is not None for component in components)

    @property
    def is_all_banned(self) -> bool:
        """Whether, sooner or later, all hosts refuse connections."""
        return len(self.bans) == len(self.hosts)

    def _draw_bans(self, random: Random) -> None:
        """Draw a time after which all hosts, or some of them, refuse connections. Before this time, they answer."""
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
            # While the network is gone, the add-on sends requests for robots.txt at a slow pace. It cannot slow down
            # the requests of a driver, so the driver does not fetch robots.txt.
            scope = "pages"
        self.driver = Driver(order, scope, is_blocking, has_own_errors)

    def _draw_hold(self, random: Random) -> None:
        order = random.choice([50, 300, 800, 990])
        seconds = random.choice([0.0, 0.5, 4.0, 20.0])
        every, holds_robotstxt = random.choice([1, 3, 7]), random.random() < 0.3
        # Order 990 is nearer to the network than WireMiddleware, so that a request that is held back counts as in
        # flight. A download that the middleware waits for could then wait for the end of the request, which is a
        # deadlock.
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
            self.driver = None  # The driver would fetch the changed request before the add-on can check it.

    def _draw_limits(self, random: Random) -> None:
        """Draw the settings that limit the concurrent requests to each IP address and the pages of each host."""
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
        """Let hosts ask for long pauses, in which a robots.txt becomes stale, a process ends, or requests time out."""
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
        """Wait until a new request is sent, and the log then has at least *count* requests.

        If *process* is given, the new request must be a request of the process with this number.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((count, process, future))
        await future

    def send(
        self, host: str, path: str, now: float, process: int, agent: str
    ) -> SentRequest:
        """Add a request and its answer to the log. Return the entry in the log."""
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
"""The first seed whose world can have limits for IP addresses and pages. Lower seeds keep their worlds."""

_CHANGES_SINCE = 202611280000
"""The first seed whose world can have the middleware :class:`Change`, or hosts that answer many requests for leaves
with 429. Lower seeds keep their worlds.
"""

_LONG_PAUSES_SINCE = 202612010000
"""The first seed whose world can have hosts that often ask for long pauses. Lower seeds keep their worlds."""

_KINDS = {"busy": 1.5, "plain": 10.5, "job": 6, "workers": 1}
"""The weight of each kind of world in the random choice. A ``busy`` world is of the kind ``workers``, with many
requests in flight.
"""

_CHANCES = {"ban": 0.15, "driver": 0.25, "hold": 0.25, "replace": 0.25, "alter": 0.12,
            "pause": 0.2}  # fmt: skip
"""The probability of each feature of a world: bans, the middlewares Driver, Hold, Replacement and Change, and long
pauses.
"""


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
    """In half of the worlds, add hosts to *hosts*, so that there are several hosts for each worker. Return whether
    hosts were added.
    """
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
    """Replace some *faults* by a ``rollback``: the Redis server restarts with older data."""
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
    """Draw the faults of a world of this *kind*, which is a key of ``_KINDS``."""
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
