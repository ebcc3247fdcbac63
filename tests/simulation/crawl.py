"""One crawl through a world: the download handler, the spider, and what it tells afterwards."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import scrapy
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.http import HtmlResponse, TextResponse

from tests.simulation.loop import VirtualLoop
from tests.simulation.world import Sent, World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

MOST_SECONDS = 30 * 86400.0
"""A crawl that has not ended after so many seconds of virtual time never will."""

_SETTINGS = {
    "ADDONS": {"scrapy_rep.Addon": 500},
    "DOWNLOAD_HANDLERS": {"http": "tests.simulation.crawl.Handler", "https": None},
    "LOG_ENABLED": False,
    "RANDOMIZE_DOWNLOAD_DELAY": False,
    "TELNETCONSOLE_ENABLED": False,
    "TWISTED_REACTOR_ENABLED": False,
    "USER_AGENT": "mybot/1.0",
}


@dataclass
class Outcome:
    """What the spider got for a request: a status, or the exception and reason in its errback."""

    at: float
    host: str
    path: str
    status: int = 0
    exception: str = ""
    reason: str = ""


@dataclass
class Story:
    """A crawl that has ended: what was sent, what the spider asked for and got, and the stats."""

    world: World
    asked: list[str]
    outcomes: list[Outcome]
    stats: dict[str, Any]
    ended: float
    has_ended: bool

    def lines(self) -> list[str]:
        """Tell the story, a line for each event, in the order of time."""
        events = [(sent.at, sent.number, str(sent)) for sent in self.world.log]
        for number, outcome in enumerate(self.outcomes):
            got = outcome.exception or str(outcome.status)
            text = f"{outcome.at:12.2f}  {outcome.host}{outcome.path} -> {got} {outcome.reason}"
            events.append((outcome.at, 10**9 + number, text))
        head = [
            f"seed {self.world.seed}: {self.world.settings}",
            *(
                f"outage of our own network: {a:.2f} to {b:.2f}"
                for a, b in self.world.outages
            ),
            *(
                f"{host.name}: robots.txt {host.fate}, {host.pages} pages, latency {host.latency},"
                f" Crawl-delay {host.crawl_delay}, max-age {host.max_age}"
                for host in self.world.hosts.values()
            ),
        ]
        end = "the crawl ended" if self.has_ended else "THE CRAWL DID NOT END"
        return [
            *head,
            *(text for _, _, text in sorted(events)),
            f"{self.ended:12.2f}  {end}",
        ]


class Handler:
    """The network: asks the world for each answer, and takes its time."""

    lazy = False

    def __init__(self, world: World) -> None:
        self.world = world

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Handler:
        return cls(crawler.settings["SIMULATED_WORLD"][0])

    async def download_request(self, request: scrapy.Request) -> Response:
        loop, parts = asyncio.get_running_loop(), urlsplit(request.url)
        sent: Sent = self.world.send(parts.netloc, parts.path, loop.time())
        await asyncio.sleep(sent.answer.seconds)
        sent.ended = loop.time()
        answer = sent.answer
        answer.raise_error()
        is_page = parts.path.endswith(".txt") is False
        kind: type[TextResponse] = HtmlResponse if is_page else TextResponse
        return kind(
            request.url,
            status=answer.status,
            headers={
                "Content-Type": "text/html" if is_page else "text/plain",
                **answer.headers,
            },
            body=answer.body.encode(),
            request=request,
        )

    async def close(self) -> None:
        pass


class Spider(scrapy.Spider):
    """Follows all links, and notes what it asks for and what it gets."""

    name = "simulated"
    handle_httpstatus_all = True

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.asked: list[str] = []
        self.outcomes: list[Outcome] = []

    async def start(self) -> AsyncIterator[Any]:
        for host in self.world.hosts:
            yield self.ask(f"http://{host}/yes/0")

    def ask(self, url: str) -> scrapy.Request:
        self.asked.append(url)
        meta = {"handle_httpstatus_all": True}
        number = int(url.rsplit("/", 1)[1])
        return scrapy.Request(
            url, self.parse, errback=self.failed, priority=number % 2, meta=meta
        )

    def parse(self, response: Response) -> Iterator[scrapy.Request]:
        self.note(response.url, status=response.status)
        for link in response.css("a::attr(href)").getall():
            yield self.ask(response.urljoin(link))

    def failed(self, failure: Any) -> None:
        reason = getattr(getattr(failure.value, "record", None), "reason", "")
        self.note(
            failure.request.url, exception=failure.type.__name__, reason=str(reason)
        )

    def note(self, url: str, **got: Any) -> None:
        parts = urlsplit(url)
        now = asyncio.get_running_loop().time()
        self.outcomes.append(Outcome(now, parts.netloc, parts.path, **got))


def run(seed: int) -> Story:
    """Crawl the world of *seed*."""
    world = World(seed)
    random.seed(seed)  # The package adds jitter to its pauses.
    with VirtualLoop() as loop:
        # A list, as Scrapy copies settings that are no container of its own.
        settings = {**_SETTINGS, **world.settings, "SIMULATED_WORLD": [world]}
        runner = AsyncCrawlerRunner(settings)
        crawler = runner.create_crawler(Spider)

        async def crawl() -> bool:
            task = runner.crawl(crawler, world)
            done, _ = await asyncio.wait([task], timeout=MOST_SECONDS)
            if done:
                task.result()
            return bool(done)

        has_ended = loop.run_until_complete(crawl())
        spider: Any = crawler.spider
        stats = crawler.stats.get_stats() if crawler.stats else {}
        return Story(
            world, spider.asked, spider.outcomes, stats, loop.time(), has_ended
        )
