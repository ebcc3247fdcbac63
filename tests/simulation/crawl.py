"""One process of a crawl through a world: its download handler, its spider, and the story that they note."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import scrapy
from scrapy import signals
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.http import HtmlResponse, TextResponse

from tests.simulation import options
from tests.simulation.loop import PROCESS, Process
from tests.simulation.world import number_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from tests.simulation.world import SentRequest, World

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

_STATUSES_FOR_SPIDER = [404, 403, 429, 500, 503]
"""The statuses that the spider gets like any other."""


@dataclass
class SpiderRequest:
    """A request that the spider has made, on a page that it had asked for (empty: at the start)."""

    at: float
    url: str
    parent: str
    bypasses_scheduler: bool = False
    """Whether the callback downloads it itself."""


@dataclass
class Outcome:
    """The outcome of a request for the spider: a status, or the exception and reason in its errback."""

    at: float
    url: str
    """As it was asked for; the page may have been redirected."""

    final_url: str
    status: int = 0
    exception: str = ""
    reason: str = ""
    process: int = 0
    agent: str = ""
    """The product token of the request."""

    slot: str = ""
    """The host whose download slot a component of the project has kept for it, in place of that of its own host."""


@dataclass
class Story:
    """The story of a crawl: what was sent, what the spider asked for and got, and how its processes ended."""

    world: World
    spider_requests: list[SpiderRequest] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    """The pages of which items were scraped."""

    processes: list[Process] = field(default_factory=list)
    stats: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The stats of each process that has ended by itself."""

    end_times: dict[int, float] = field(default_factory=dict)
    """When each process ended that has ended by itself."""

    disturbances: list[tuple[float, float, int | None]] = field(default_factory=list)
    """When a disk was full, a server gone or a process still, and which process; None for all."""

    data_losses: list[float] = field(default_factory=list)
    """When a server lost all that it had, or what was new."""

    rollbacks: list[tuple[float, float]] = field(default_factory=list)
    """What a server lost that was restarted with older data: since when, and when."""

    ledger_refusals: Counter[str] = field(default_factory=Counter)
    """How often each URL was refused, according to the ledger."""

    ledger_pages: dict[str, int] = field(default_factory=dict)
    """How many responses each origin has sent, according to the ledger."""

    ledger_gaps: list[tuple[str, str, float, float | None]] = field(
        default_factory=list
    )
    """The gaps in the ledger: origin, kind (delay or pause), seconds asked for, seconds kept."""

    held_since: WeakKeyDictionary[scrapy.Request, float] = field(
        default_factory=WeakKeyDictionary
    )
    """When a component began to hold a request back, if it still does."""

    ended_at: float = 0.0
    has_ended: bool = False

    @property
    def kill_times(self) -> list[float]:
        """When processes were killed."""
        return [p.killed_at for p in self.processes if p.killed_at is not None]

    def events(self) -> list[tuple[float, str, str]]:
        """Return each event with its time and host, in order."""
        events = [(sent.at, sent.host, str(sent)) for sent in self.world.log]
        for outcome in self.outcomes:
            got = outcome.exception or str(outcome.status)
            text = f"{outcome.at:12.2f}  {outcome.url.removeprefix('http://')} -> {got} {outcome.reason}"
            events.append((outcome.at, urlsplit(outcome.final_url).netloc, text))
        events += [(at, "", f"{at:12.2f}  killed") for at in self.kill_times]
        return sorted(events, key=lambda event: event[0])

    def lines(self) -> list[str]:
        """Tell the story, a line for each event."""
        end = "the crawl ended" if self.has_ended else "THE CRAWL DID NOT END"
        events = [text for _, _, text in self.events()]
        return [*self.world.lines(), *events, f"{self.ended_at:12.2f}  {end}"]


STORY: ContextVar[Story] = ContextVar("STORY")


class Handler:
    """The network: asks the world for each answer, and takes its time."""

    lazy = False

    def __init__(self, story: Story) -> None:
        self.story = story

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Handler:
        return cls(STORY.get())

    async def download_request(self, request: scrapy.Request) -> Response:
        sent = send(self.story, request)
        await asyncio.sleep(sent.answer.seconds)
        sent.received_at = _now()
        address = self.story.world.addresses.get(sent.host)
        return response_to(request, sent, address)

    async def close(self) -> None:
        pass


def agent_of(request: scrapy.Request) -> str:
    """Return the product token of a request, which may not have a User-Agent yet."""
    field = request.headers.get("User-Agent") or b"mybot/1.0"
    return field.decode().partition("/")[0]


def send(
    story: Story, request: scrapy.Request, *, is_by_driver: bool = False
) -> SentRequest:
    """Send a request to the world. The caller waits until the answer is there, and notes when that is."""
    parts, process = urlsplit(request.url), PROCESS.get().number
    agent = agent_of(request)
    sent = story.world.send(parts.netloc, parts.path, _now(), process, agent)
    sent.is_by_driver, sent.held_since = (
        is_by_driver,
        story.held_since.pop(request, None),
    )
    return sent


def response_to(
    request: scrapy.Request, sent: SentRequest, address: str | None = None
) -> Response:
    """Return the answer as Scrapy has it, which comes from an IP *address*. Raises the error, if it is one."""
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
        ip_address=None if address is None else IPv4Address(address),
    )


def make_request(
    story: Story,
    url: str,
    parent: str,
    *,
    bypasses_scheduler: bool = False,
    **arguments: Any,
) -> scrapy.Request:
    """Return a request, and note that it was made."""
    story.spider_requests.append(SpiderRequest(_now(), url, parent, bypasses_scheduler))
    meta = {
        "handle_httpstatus_list": _STATUSES_FOR_SPIDER,
        "asked": url,
        **arguments.pop("meta", {}),
    }
    arguments.setdefault("dont_filter", bypasses_scheduler)
    return scrapy.Request(url, meta=meta, priority=number_in(url) % 2, **arguments)


def record_outcome(story: Story, request: scrapy.Request, **outcome: Any) -> None:
    """Note what became of a request."""
    meta, process = request.meta, PROCESS.get().number
    # The slot of a redirected request is Scrapy's choice.
    is_replaced = "replaced" in meta and "redirect_urls" not in meta
    slot = meta.get("download_slot", "") if is_replaced else ""
    story.outcomes.append(
        Outcome(
            _now(),
            meta["asked"],
            request.url,
            process=process,
            slot=slot,
            agent=agent_of(request),
            **outcome,
        )
    )


def record_error(story: Story, request: scrapy.Request, error: BaseException) -> None:
    """Note the exception that a request has failed with."""
    reason = getattr(getattr(error, "record", None), "reason", "")
    record_outcome(story, request, exception=type(error).__name__, reason=str(reason))


class Spider(scrapy.Spider):
    """Follows all links, and notes what it asks for and what it gets."""

    name = "simulated"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Spider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.story = STORY.get()
        crawler.signals.connect(spider.record_item, signals.item_scraped)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        for host in self.story.world.hosts:
            yield self.make_request(f"http://{host}/yes/0", "")

    def make_request(
        self, url: str, parent: str, *, again: bool = False
    ) -> scrapy.Request:
        return make_request(
            self.story, url, parent, callback=self.parse, errback=self.failed,
            meta={"again": again}, dont_filter=again,
        )  # fmt: skip

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        url, settings = response.meta["asked"], self.story.world.settings
        assert response.request is not None
        record_outcome(self.story, response.request, status=response.status)
        if response.status != 200:
            return
        host = self.story.world.hosts[urlsplit(response.url).netloc]
        page = host.page(number_in(response.url))
        if page.callback_page:
            await self.download(page.callback_page, url)
        yield {
            "url": response.url,
            "file_urls": [page.file_url] if page.file_url else [],
        }
        if response.meta["again"]:
            return
        is_dropped = settings["REP_NOFOLLOW"] == "drop" and "nofollow" in page.robots
        for link in (*page.links, *page.nofollow):
            is_forbidden = link in page.nofollow and settings["REP_REL"]
            if is_dropped or is_forbidden:
                yield scrapy.Request(link, meta={"asked": link})  # Never sent.
            else:
                yield self.make_request(link, url)
        if number_in(url) % 20 == 4:
            yield self.make_request(url, url, again=True)

    async def download(self, url: str, parent: str) -> None:
        """Download a page without the scheduler."""
        request = make_request(self.story, url, parent, bypasses_scheduler=True)
        try:
            response = await self.crawler.engine.download_async(request)
        except Exception as error:  # noqa: BLE001  it is noted
            record_error(self.story, request, error)
        else:
            record_outcome(self.story, request, status=response.status)

    def failed(self, failure: Any) -> None:
        record_error(self.story, failure.request, failure.value)

    def record_item(self, item: dict[str, Any]) -> None:
        self.story.items.append(item["url"])


def _now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class RunningCrawl:
    """A crawl in a process of its own."""

    process: Process
    crawler: Crawler
    crawl: asyncio.Future[None]
    """A future that is done when the crawl has ended by itself."""

    def kill(self) -> None:
        """Kill the process: none of its callbacks runs any more."""
        process = self.process
        process.has_ended, process.killed_at = True, _now()
        # Coroutines that are garbage-collected would run to their end, in the process that is running then.
        process.kept_objects = [self.crawler, *asyncio.all_tasks()]


def start_crawl(
    story: Story, process: Process, folder: str, **settings: Any
) -> RunningCrawl:
    """Begin a crawl in a *process* of its own."""
    used = {**_SETTINGS, **story.world.settings, "FILES_STORE": f"{folder}/files"}
    used["DOWNLOADER_MIDDLEWARES"] = _components(story.world)

    def in_process() -> RunningCrawl:
        PROCESS.set(process)
        STORY.set(story)
        runner = AsyncCrawlerRunner(
            _merged({**used, **settings}, options.chosen_settings())
        )
        crawler = runner.create_crawler(Spider)
        return RunningCrawl(
            process, crawler, asyncio.ensure_future(_run(runner, crawler))
        )

    async def _run(runner: AsyncCrawlerRunner, crawler: Crawler) -> None:
        await runner.crawl(crawler)
        if crawler.stats is not None:
            story.stats[process.number] = crawler.stats.get_stats()
            story.end_times[process.number] = _now()
        process.has_ended = True

    story.processes.append(process)
    return copy_context().run(in_process)


def _components(world: World) -> dict[str, int]:
    """The middlewares of the project, with their orders."""
    drawn = {
        "Driver": world.driver, "Hold": world.hold, "Replacement": world.replacement,
        "Change": world.change,
    }  # fmt: skip
    return {
        f"tests.simulation.components.{name}": component.order
        for name, component in drawn.items()
        if component is not None
    }


def _merged(settings: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return *settings* with *more*; dictionaries, as those of components, are merged."""
    merged = {**settings, **more}
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(settings.get(name), dict):
            merged[name] = {**settings[name], **value}
    return merged
