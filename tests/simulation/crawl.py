"""One process of a simulated crawl: its download handler and its spider. They record all events in a :class:`Story`."""

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
    "CONCURRENT_ITEMS": 4,  # A low number, because the engine creates this number of tasks for each response.
    "DOWNLOAD_HANDLERS": {"http": "tests.simulation.crawl.Handler", "https": None},
    "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 300},
    "LOG_ENABLED": False,
    "RANDOMIZE_DOWNLOAD_DELAY": False,
    "TELNETCONSOLE_ENABLED": False,
    "TWISTED_REACTOR_ENABLED": False,
    "USER_AGENT": "mybot/1.0",
}

_STATUSES_FOR_SPIDER = [404, 403, 429, 500, 503]
"""The error statuses of responses that are passed to the callback, not to the errback."""


@dataclass
class SpiderRequest:
    """A request that the spider has made.

    *parent* is the URL of the page whose callback has made the request. It is empty for start requests.
    """

    at: float
    url: str
    parent: str
    bypasses_scheduler: bool = False
    """Whether a callback or a middleware has called ``engine.download_async``, so that the scheduler never gets the
    request.
    """


@dataclass
class Outcome:
    """What the spider got for a request: a response with a status, or an errback with an exception."""

    at: float
    url: str
    """The URL of the spider's request."""

    final_url: str
    """The URL of the request that was sent last, after redirects and changes by middlewares of the project."""

    status: int = 0
    """0 if there was no response."""

    exception: str = ""
    """The name of the exception. Empty if there was a response."""

    reason: str = ""
    """Why the add-on refused the request, for example ``rule``. Empty if the request was not refused."""

    process: int = 0
    """The number of the process that got the outcome."""

    agent: str = ""
    """The product token in the User-Agent of the request, for example ``mybot``."""

    slot: str = ""
    """The download slot of the request, if a middleware of the project has replaced the request. Otherwise empty.

    For example, a middleware discards a response from ``h0.example``, and requests a page of ``h1.example`` instead.
    The new request keeps the slot ``h0.example``.
    """


@dataclass
class Story:
    """The record of a crawl: what was sent, what the spider asked for and got, and how the processes ended.

    All times are seconds of virtual time.
    """

    world: World
    spider_requests: list[SpiderRequest] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    """The URLs of the pages whose items were scraped."""

    processes: list[Process] = field(default_factory=list)
    stats: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The stats of each process that was not killed, by process number."""

    end_times: dict[int, float] = field(default_factory=dict)
    """The end time of each process that was not killed, by process number."""

    disturbances: list[tuple[float, float, int | None]] = field(default_factory=list)
    """The periods in which a fault affected the crawl: start, end and the number of the affected process. The number is
    None if all processes were affected.

    These faults are in the list: a full disk, a fault of the Redis server, and a suspended process.
    """

    data_losses: list[float] = field(default_factory=list)
    """The times at which the Redis server lost data: all its data, or the newest data in a rollback."""

    rollbacks: list[tuple[float, float]] = field(default_factory=list)
    """For each restart of the Redis server with older data: the time at which the data was saved, and the time of the
    restart.
    """

    ledger_refusals: Counter[str] = field(default_factory=Counter)
    """The number of refusals of each URL, according to the ledger."""

    ledger_pages: dict[str, int] = field(default_factory=dict)
    """The number of responses from each origin, according to the ledger."""

    ledger_gaps: list[tuple[str, str, float, float | None]] = field(
        default_factory=list
    )
    """The gaps between requests, according to the ledger.

    For example, ``("http://h0.example", "delay", 5.0, 5.2)``: the host asks for a delay of 5 seconds, and the crawl has
    waited 5.2 seconds from an answer to the next request. For a pause, the second item is ``pause``. The last item is
    None if the crawl has not measured the time.
    """

    held_since: WeakKeyDictionary[scrapy.Request, float] = field(
        default_factory=WeakKeyDictionary
    )
    """For each request that a middleware of the project holds back now: the time at which this began."""

    ended_at: float = 0.0
    """The time at which the crawl ended, or at which the simulation gave up."""

    has_ended: bool = False
    """Whether the crawl has ended. False if the simulation gave up because the crawl took too long."""

    @property
    def kill_times(self) -> list[float]:
        """The times at which processes were killed."""
        return [p.killed_at for p in self.processes if p.killed_at is not None]

    def events(self) -> list[tuple[float, str, str]]:
        """Return all requests, outcomes and kills as (time, host, text), by time. The host is empty for a kill."""
        events = [(sent.at, sent.host, str(sent)) for sent in self.world.log]
        for outcome in self.outcomes:
            result = outcome.exception or str(outcome.status)
            text = f"{outcome.at:12.2f}  {outcome.url.removeprefix('http://')} -> {result} {outcome.reason}"
            events.append((outcome.at, urlsplit(outcome.final_url).netloc, text))
        events += [(at, "", f"{at:12.2f}  killed") for at in self.kill_times]
        return sorted(events, key=lambda event: event[0])

    def lines(self) -> list[str]:
        """Return the whole story as text: the world, then a line for each event."""
        end = "the crawl ended" if self.has_ended else "THE CRAWL DID NOT END"
        events = [text for _, _, text in self.events()]
        return [*self.world.lines(), *events, f"{self.ended_at:12.2f}  {end}"]


STORY: ContextVar[Story] = ContextVar("STORY")
"""The record of the running crawl."""


class Handler:
    """A download handler that gets each answer from the simulated hosts, and waits for as long as the answer takes."""

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
    """Return the product token in the User-Agent of a request. If it has no User-Agent yet, return ``mybot``."""
    user_agent = request.headers.get("User-Agent") or b"mybot/1.0"
    return user_agent.decode().partition("/")[0]


def send(
    story: Story, request: scrapy.Request, *, is_by_driver: bool = False
) -> SentRequest:
    """Send a request to its simulated host. Return the entry in the log of the world, which already has the answer.

    The caller must wait for ``answer.seconds``, and then set ``received_at`` of the entry.
    """
    parts, process = urlsplit(request.url), PROCESS.get().number
    agent = agent_of(request)
    sent = story.world.send(parts.netloc, parts.path, _now(), process, agent)
    sent.is_by_driver = is_by_driver
    sent.held_since = story.held_since.pop(request, None)
    return sent


def response_to(
    request: scrapy.Request, sent: SentRequest, address: str | None = None
) -> Response:
    """Return the answer to *sent* as a Scrapy response from the IP *address*. If the answer is an error, raise its
    exception.
    """
    answer = sent.answer
    answer.raise_error()
    response_class: type[TextResponse] = (
        TextResponse if sent.is_robots else HtmlResponse
    )
    content_type = "text/plain" if sent.is_robots else "text/html"
    return response_class(
        request.url,
        status=answer.status,
        headers={"Content-Type": content_type, **answer.headers},
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
    """Return a request for *url*, and record it in the story.

    Do not rename the keys in ``meta`` or the callbacks: the crawls of existing seeds would change. These names are part
    of the serialized request, and a queue on a Redis server sorts requests of the same priority by their serialized
    form.
    """
    story.spider_requests.append(SpiderRequest(_now(), url, parent, bypasses_scheduler))
    meta = {
        "handle_httpstatus_list": _STATUSES_FOR_SPIDER,
        "asked": url,
        **arguments.pop("meta", {}),
    }
    arguments.setdefault("dont_filter", bypasses_scheduler)
    return scrapy.Request(url, meta=meta, priority=number_in(url) % 2, **arguments)


def record_outcome(story: Story, request: scrapy.Request, **outcome: Any) -> None:
    """Record the outcome of a request. *outcome* has the other fields of :class:`Outcome`, such as ``status``."""
    meta, process = request.meta, PROCESS.get().number
    # After an HTTP redirect, the meta contains the download slot of the host that redirected the request. The add-on
    # does not use that slot, so it is not recorded.
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
    """Record the exception with which a request has failed."""
    reason = getattr(getattr(error, "record", None), "reason", "")
    record_outcome(story, request, exception=type(error).__name__, reason=str(reason))


class Spider(scrapy.Spider):
    """A spider that follows all links of each page, and records its requests and their outcomes."""

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
                # The add-on must drop this request.
                yield scrapy.Request(link, meta={"asked": link})
            else:
                yield self.make_request(link, url)
        if number_in(url) % 20 == 4:
            yield self.make_request(url, url, again=True)

    async def download(self, url: str, parent: str) -> None:
        """Download a page with ``engine.download_async``, past the scheduler, and record the outcome."""
        request = make_request(self.story, url, parent, bypasses_scheduler=True)
        try:
            response = await self.crawler.engine.download_async(request)
        except Exception as error:  # noqa: BLE001  recorded
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
    """A crawl that runs in a simulated process."""

    process: Process
    crawler: Crawler
    crawl: asyncio.Future[None]
    """A future that is done when the crawl has ended. If the process is killed, the future is never done."""

    def kill(self) -> None:
        """Kill the process: none of its code runs any more."""
        process = self.process
        process.has_ended, process.killed_at = True, _now()
        # Keep the tasks in memory. If a coroutine were garbage-collected, Python would run its `finally` blocks, now or
        # while another simulated process runs.
        process.kept_objects = [self.crawler, *asyncio.all_tasks()]


def start_crawl(
    story: Story, process: Process, folder: str, **settings: Any
) -> RunningCrawl:
    """Start a crawl in *process*, with its files in *folder*.

    *settings* override the settings of the world. The settings from the command line override all other settings.
    """
    defaults = {**_SETTINGS, **story.world.settings, "FILES_STORE": f"{folder}/files"}
    defaults["DOWNLOADER_MIDDLEWARES"] = _components(story.world)

    def in_process() -> RunningCrawl:
        PROCESS.set(process)
        STORY.set(story)
        runner = AsyncCrawlerRunner(
            _merged({**defaults, **settings}, options.chosen_settings())
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
    """Return the value of ``DOWNLOADER_MIDDLEWARES``, which has the middlewares of the project in *world*."""
    components = {
        "Driver": world.driver, "Hold": world.hold, "Replacement": world.replacement,
        "Change": world.change,
    }  # fmt: skip
    return {
        f"tests.simulation.components.{name}": component.order
        for name, component in components.items()
        if component is not None
    }


def _merged(settings: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return *settings*, updated with *more*. If a setting is a dictionary in both arguments, the dictionaries are
    merged.
    """
    merged = {**settings, **more}
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(settings.get(name), dict):
            merged[name] = {**settings[name], **value}
    return merged
