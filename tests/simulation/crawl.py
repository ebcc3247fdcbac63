"""One process of a crawl through a world: the download handler, the spider, and what they note."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import scrapy
from scrapy import signals
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.http import HtmlResponse, TextResponse

from tests.simulation.loop import PROCESS, Process

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from tests.simulation.world import World

_SETTINGS = {
    "ADDONS": {"scrapy_rep.Addon": 500},
    "CONCURRENT_ITEMS": 4,  # The engine makes so many tasks for each response.
    "DOWNLOAD_HANDLERS": {"http": "tests.simulation.crawl.Handler", "https": None},
    "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 300},
    "LOG_ENABLED": False,
    "RANDOMIZE_DOWNLOAD_DELAY": False,
    "TELNETCONSOLE_ENABLED": False,
    "TWISTED_REACTOR_ENABLED": False,
    "USER_AGENT": "mybot/1.0",
}

_SHOWN = [404, 403, 429, 500, 503]
"""The statuses that the spider gets like any other."""


@dataclass
class Asked:
    """A request that the spider has made, on a page that it had asked for (empty: at the start)."""

    at: float
    url: str
    parent: str
    is_own: bool = False
    """Whether the callback downloads it itself."""


@dataclass
class Outcome:
    """What the spider got for a request: a status, or the exception and reason in its errback."""

    at: float
    url: str
    """As it was asked for; the page may have been redirected."""

    sent_to: str
    status: int = 0
    exception: str = ""
    reason: str = ""


@dataclass
class Story:
    """What was sent in a world, what the spider asked for and got, and how its processes ended."""

    world: World
    asked: list[Asked] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    """The pages of which items were scraped."""

    processes: list[Process] = field(default_factory=list)
    stats: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Of each process that has ended by itself."""

    hindered: list[tuple[float, float, int | None]] = field(default_factory=list)
    """When a disk was full, a server gone or a process still, and which process; None for all."""

    ledger: Counter[str] = field(default_factory=Counter)
    """The URLs that were refused, by the ledger."""

    pages: dict[str, int] = field(default_factory=dict)
    """How many responses each origin has sent, by the ledger."""

    gaps: list[tuple[str, str, float, float | None]] = field(default_factory=list)
    """Of the ledger: origin, kind (delay or pause), seconds asked for, seconds kept."""

    ended: float = 0.0
    has_ended: bool = False

    @property
    def killed(self) -> list[float]:
        """When processes were killed."""
        return [p.killed_at for p in self.processes if p.killed_at is not None]

    def events(self) -> list[tuple[float, str, str]]:
        """Return each event with its time and host, in order."""
        events = [(sent.at, sent.host, str(sent)) for sent in self.world.log]
        for one in self.outcomes:
            got = one.exception or str(one.status)
            text = f"{one.at:12.2f}  {one.url.removeprefix('http://')} -> {got} {one.reason}"
            events.append((one.at, urlsplit(one.sent_to).netloc, text))
        events += [(at, "", f"{at:12.2f}  killed") for at in self.killed]
        return sorted(events, key=lambda each: each[0])

    def lines(self) -> list[str]:
        """Tell the story, a line for each event."""
        end = "the crawl ended" if self.has_ended else "THE CRAWL DID NOT END"
        events = [text for _, _, text in self.events()]
        return [*self.world.lines(), *events, f"{self.ended:12.2f}  {end}"]


STORY: ContextVar[Story] = ContextVar("STORY")


class Handler:
    """The network: asks the world for each answer, and takes its time."""

    lazy = False

    def __init__(self, world: World) -> None:
        self.world = world

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Handler:
        return cls(STORY.get().world)

    async def download_request(self, request: scrapy.Request) -> Response:
        loop, parts = asyncio.get_running_loop(), urlsplit(request.url)
        number = PROCESS.get().number
        sent = self.world.send(parts.netloc, parts.path, loop.time(), number)
        await asyncio.sleep(sent.answer.seconds)
        sent.ended = loop.time()
        answer = sent.answer
        answer.raise_error()
        kind: type[TextResponse] = TextResponse if sent.is_robots else HtmlResponse
        of_type = "text/plain" if sent.is_robots else "text/html"
        return kind(
            request.url,
            status=answer.status,
            headers={"Content-Type": of_type, **answer.headers},
            body=answer.body.encode(),
            request=request,
        )

    async def close(self) -> None:
        pass


class Spider(scrapy.Spider):
    """Follows all links, and notes what it asks for and what it gets."""

    name = "simulated"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Spider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.story = STORY.get()
        crawler.signals.connect(spider.scraped, signals.item_scraped)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        for host in self.story.world.hosts:
            yield self.ask(f"http://{host}/yes/0", "")

    def ask(
        self, url: str, parent: str, *, is_own: bool = False, again: bool = False
    ) -> scrapy.Request:
        self.story.asked.append(Asked(_now(), url, parent, is_own))
        return scrapy.Request(
            url,
            None if is_own else self.parse,
            errback=None if is_own else self.failed,
            priority=number_in(url) % 2,
            meta={"handle_httpstatus_list": _SHOWN, "asked": url, "again": again},
            dont_filter=again or is_own,
        )

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        url, settings = response.meta["asked"], self.story.world.settings
        self.note(response.request, status=response.status)
        if response.status != 200:
            return
        host = self.story.world.hosts[urlsplit(response.url).netloc]
        page = host.page(number_in(response.url))
        if page.own:
            await self.download(page.own, url)
        yield {"url": response.url, "file_urls": [page.media] if page.media else []}
        if response.meta["again"]:
            return
        is_dropped = settings["REP_NOFOLLOW"] == "drop" and "nofollow" in page.robots
        for link in (*page.links, *page.nofollow):
            is_forbidden = link in page.nofollow and settings["REP_REL"]
            if is_dropped or is_forbidden:
                yield scrapy.Request(link, meta={"asked": link})  # Never sent.
            else:
                yield self.ask(link, url)
        if number_in(url) % 20 == 4:
            yield self.ask(url, url, again=True)

    async def download(self, url: str, parent: str) -> None:
        """Download a page without the scheduler."""
        request = self.ask(url, parent, is_own=True)
        try:
            response = await self.crawler.engine.download_async(request)
        except Exception as error:  # noqa: BLE001  it is noted
            self._note_error(request, error)
        else:
            self.note(request, status=response.status)

    def failed(self, failure: Any) -> None:
        self._note_error(failure.request, failure.value)

    def scraped(self, item: dict[str, Any]) -> None:
        self.story.items.append(item["url"])

    def _note_error(self, request: scrapy.Request, error: BaseException) -> None:
        reason = getattr(getattr(error, "record", None), "reason", "")
        self.note(request, exception=type(error).__name__, reason=str(reason))

    def note(self, request: scrapy.Request | None, **got: Any) -> None:
        assert request is not None
        outcome = Outcome(_now(), request.meta["asked"], request.url, **got)
        self.story.outcomes.append(outcome)


def number_in(url: str) -> int:
    """Return the number of a page."""
    return int(url.rsplit("/", 1)[1])


def _now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Running:
    """A crawl in a process of its own."""

    process: Process
    crawler: Crawler
    crawl: asyncio.Future[None]
    """Done when it has ended by itself."""

    def kill(self) -> None:
        """Let nothing of it go on."""
        process = self.process
        process.is_over, process.killed_at = True, _now()
        # What is collected would run to its end, in the process that is running then.
        process.remains = [self.crawler, *asyncio.all_tasks()]


def begin(story: Story, process: Process, folder: str, **settings: Any) -> Running:
    """Begin a crawl in a *process* of its own."""
    used = {**_SETTINGS, **story.world.settings, "FILES_STORE": f"{folder}/files"}

    def in_process() -> Running:
        PROCESS.set(process)
        STORY.set(story)
        runner = AsyncCrawlerRunner({**used, **settings})
        crawler = runner.create_crawler(Spider)
        return Running(process, crawler, asyncio.ensure_future(_run(runner, crawler)))

    async def _run(runner: AsyncCrawlerRunner, crawler: Crawler) -> None:
        await runner.crawl(crawler)
        if crawler.stats is not None:
            story.stats[process.number] = crawler.stats.get_stats()
        process.is_over = True

    story.processes.append(process)
    return copy_context().run(in_process)
