"""The world of a crawl, drawn from a seed: hosts, their robots.txt and pages, faults, settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)

FATES = (
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


@dataclass
class Answer:
    """What comes back: a status with body and headers, or an error."""

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
class Sent:
    """A request that was sent, and what came back: a line of the world's log."""

    number: int
    at: float
    host: str
    path: str
    answer: Answer
    ended: float | None = None

    @property
    def is_robots(self) -> bool:
        """Whether it is for a robots.txt, or for where one was redirected to."""
        return self.path in {"/robots.txt", "/moved.txt"}

    def __str__(self) -> str:
        answer = self.answer
        took = "cancelled" if self.ended is None else f"{self.ended - self.at:.2f} s"
        text = f"{self.at:12.2f}  {self.host}{self.path}  {answer.error or answer.status}  {took}"
        if self.is_robots and answer.body:
            text += "  " + "; ".join(answer.body.splitlines())
        if answer.headers:
            text += f"  {answer.headers}"
        return text


@dataclass
class Host:
    """A host: how fast it is, what its robots.txt says, and how many pages it has."""

    name: str
    random: Random
    fate: str
    latency: float
    pages: int
    crawl_delay: float | None
    max_age: int | None
    page_faults: float
    period: float
    """After so many seconds, a robots.txt that changes says the opposite."""

    def answer(self, path: str, now: float) -> Answer:
        """Return what the host answers to a request for *path*."""
        seconds = self.latency * self.random.uniform(0.5, 2)
        if path in {"/robots.txt", "/moved.txt"}:
            return self._robots(path, seconds, now)
        if self.random.random() < self.page_faults:
            return self._fault(seconds)
        return Answer(seconds, 200, self._page(path))

    def _robots(self, path: str, seconds: float, now: float) -> Answer:
        headers = (
            {} if self.max_age is None else {"Cache-Control": f"max-age={self.max_age}"}
        )
        fate = self.fate
        if fate == "redirect" and path == "/robots.txt":
            return Answer(seconds, 301, headers={"Location": "/moved.txt"})
        if fate == "flaky":
            fate = self.random.choice(
                ["rules", "rules", "503", "429", "refused", "timeout"]
            )
        if fate in _ERRORS:
            return Answer(30.0 if fate == "timeout" else seconds, error=fate)
        if fate in {"429", "503"}:
            return Answer(seconds, int(fate), headers=self._retry_after())
        if fate in {"404", "403"}:
            return Answer(seconds, int(fate), headers=headers)
        is_odd = fate == "changing" and int(now / self.period) % 2
        lines = ["User-agent: *", f"Disallow: /{'odd' if is_odd else 'no'}/"]
        if self.crawl_delay is not None:
            lines.append(f"Crawl-delay: {self.crawl_delay:g}")
        return Answer(seconds, 200, "\n".join(lines) + "\n", headers)

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

    def _page(self, path: str) -> str:
        """A page of a tree: each links to two more, with a prefix that some rules disallow."""
        number = int(path.rsplit("/", 1)[1])
        after = [n for n in (2 * number + 1, 2 * number + 2) if n < self.pages]
        links = [f"/{('yes', 'no', 'odd')[n % 3]}/{n}" for n in after]
        return (
            "<html>" + "".join(f'<a href="{link}">x</a>' for link in links) + "</html>"
        )


class World:
    """All hosts, the outages of our own network, the settings of the crawl, and the log."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.seed = seed
        self.hosts = {
            f"h{number}.example": _host(f"h{number}.example", seed, random)
            for number in range(random.randint(1, 12))
        }
        self.settings = _settings(random)
        self.outages: list[tuple[float, float]] = []
        if random.random() < 0.3:
            begins = 1_000 + random.uniform(0, 60)
            self.outages.append((begins, begins + random.choice([20, 100, 300])))
        self.log: list[Sent] = []

    def send(self, host: str, path: str, now: float) -> Sent:
        """Note a request, and return it with its answer."""
        if any(begins <= now < ends for begins, ends in self.outages):
            answer = Answer(0.02, error="unresolved")
        else:
            answer = self.hosts[host].answer(path, now)
        sent = Sent(len(self.log), now, host, path, answer)
        self.log.append(sent)
        return sent


def _host(name: str, seed: int, random: Random) -> Host:
    fates, weights = zip(*FATES, strict=True)
    return Host(
        name=name,
        random=Random(f"{seed} {name}"),
        fate=random.choices(fates, weights)[0],
        latency=random.choice([0.01, 0.1, 1.0]),
        pages=random.choice([1, 5, 20, 60]),
        crawl_delay=random.choice([None, None, 0.5, 5, 30, 400]),
        max_age=random.choice([None, None, 5, 60, 600]),
        page_faults=random.choice([0, 0, 0.05, 0.2]),
        period=random.choice([20, 200]),
    )


def _settings(random: Random) -> dict[str, Any]:
    return {
        "CONCURRENT_REQUESTS": random.choice([1, 4, 16]),
        "CONCURRENT_REQUESTS_PER_DOMAIN": random.choice([1, 2, 8]),
        "DOWNLOAD_DELAY": random.choice([0, 0, 0, 1.5]),
        "REP_BACKOFF_MAX": random.choice([5, 60]),
        "REP_CRAWL_DELAY_MAX": random.choice([60, 180, 1000]),
        "REP_MAX_AGE": random.choice([30, 86400]),
        "REP_WAIT_MAX": random.choice([30, 600, 2000]),
        "RETRY_TIMES": random.choice([0, 2]),
    }
