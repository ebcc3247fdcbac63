"""Spiders for workers that share a queue in Redis. The module itself is a ``SCHEDULER_SERIALIZER`` that writes JSON."""

from __future__ import annotations

import json
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy_redis.dupefilter import RFPDupeFilter
from scrapy_redis.spiders import RedisSpider
from twisted.python.failure import Failure

from scrapy_rep.redis import SharedScheduler
from tests.crawl.spiders import NotingSpider, PlanSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy import Spider
    from scrapy.http import Response
    from twisted.internet.defer import Deferred

_TIMER_INTERVAL = 0.005
"""The seconds between two runs of the timer with which :class:`WatchedScheduler` notices a blocked event loop."""


class LinkSpider(NotingSpider):
    """Follows links from page to page: ``links["/1"]`` has the paths that the page ``/1`` leads to."""

    name = "links"
    links: dict[str, list[str]] = {}

    def parse(self, response: Response) -> Iterator[Request]:
        self.note_response(response)
        path = "/" + response.url.rpartition("/")[2]
        yield from response.follow_all(self.links.get(path, []))


class StartUrlSpider(RedisSpider, LinkSpider):
    """A LinkSpider that gets its start URLs from a list on the Redis server, like the spiders of scrapy-redis."""

    redis_key = "links:start_urls"


def dumps(request: dict[str, Any]) -> str:
    """Serialize *request* to JSON, for SCHEDULER_SERIALIZER."""
    headers = {
        name.decode("latin-1"): [value.decode("latin-1") for value in values]
        for name, values in request["headers"].items()
    }
    body = request["body"].decode("latin-1")
    return json.dumps({**request, "headers": headers, "body": body})


def loads(text: bytes) -> dict[str, Any]:
    """Return the request that :func:`dumps` has serialized."""
    fields: dict[str, Any] = json.loads(text)
    return {**fields, "body": fields["body"].encode("latin-1")}


class WorkerSpider(PlanSpider):
    """Requests the URLs ``links`` when it has got the first page."""

    name = "worker"
    links: list[str] = []

    def request(self, arguments: dict[str, str]) -> Request:
        request = super().request(arguments)
        return request.replace(callback=self.first_page)

    def first_page(self, response: Response) -> Iterator[Request]:
        self.note_response(response)
        for url in self.links:
            yield super().request({"url": url})


class DownloadingSpider(WorkerSpider):
    """A WorkerSpider that downloads a file in the callback of each page except the first.

    The URL of the file is ``file_prefix``, a hyphen, and the URL of the page with hyphens in place of slashes.
    """

    file_prefix = ""

    async def first_page(self, response: Response) -> AsyncIterator[Request]:
        self.note_response(response)
        for url in self.links:
            request = PlanSpider.request(self, {"url": url})
            yield request.replace(callback=self.page)

    async def page(self, response: Response) -> None:
        self.note_response(response)
        name = response.url.replace("/", "-")
        request = Request(f"{self.file_prefix}-{name}", callback=NO_CALLBACK)
        await maybe_deferred_to_future(self.crawler.engine.download(request))


class FileSpider(WorkerSpider):
    """Downloads ``files`` in a callback, one after the other, before it sends its first request. The downloads do not
    wait in the scheduler, so the worker needs not own their host.
    """

    files: list[str] = []

    async def start(self) -> AsyncIterator[Request]:
        # A request whose callback cannot be serialized stays in this worker.
        yield Request("data:,", callback=partial(self.download_files))

    async def download_files(self, _: Response) -> AsyncIterator[Request]:
        for url in self.files:
            request = Request(url, callback=NO_CALLBACK)
            download = self.crawler.engine.download(request)
            try:
                self.note_response(await maybe_deferred_to_future(download))
            except IgnoreRequest as error:
                failure = Failure(error)
                failure.request = request
                self.note_error(failure)
        async for request in super().start():
            yield request


class LambdaSpider(WorkerSpider):
    """A WorkerSpider whose requests cannot be serialized, since their callbacks are not methods of the spider."""

    def first_page(self, response: Response) -> Iterator[Request]:
        for request in super().first_page(response):
            yield request.replace(callback=partial(self.note_response))


class BinaryFilter(RFPDupeFilter):
    """A duplicate filter whose fingerprints are bytes, which are no text, and have different lengths."""

    def request_fingerprint(self, request: Request) -> bytes:
        return b"\xff" + request.url.encode()


class WatchedScheduler(SharedScheduler):
    """Measures the longest time for which the event loop is blocked between the opening of the scheduler and the end of
    the crawl.

    The stat ``blocked`` is the longest delay of a timer: the time between two of its runs, minus its interval.
    """

    def open(self, spider: Spider) -> Deferred[None]:
        self._next_run = monotonic()
        self._run_timer()
        return super().open(spider)

    def _run_timer(self) -> None:
        now = monotonic()
        self._stats.max_value("blocked", now - self._next_run)
        self._next_run = now + _TIMER_INTERVAL
        call_later(_TIMER_INTERVAL, self._run_timer)


class BranchingSpider(WorkerSpider):
    """Requests the URLs ``links`` as if their pages were a binary tree: the callback of each page yields requests for
    up to two further pages. So the spider adds requests to the queue during the whole crawl.
    """

    def first_page(self, response: Response) -> Iterator[Request]:
        self.note_response(response)
        yield from self.branch(self.links)

    def branch(self, urls: list[str]) -> Iterator[Request]:
        """Return a request for the first URL of each half of *urls*. Its callback follows the rest of this half."""
        middle = len(urls) // 2
        for half in (urls[:middle], urls[middle:]):
            if half:
                request = PlanSpider.request(self, {"url": half[0]})
                # The meta has only this half of the URLs: whole lists would take most of the memory of the queue.
                meta = {"links": half[1:]}
                yield request.replace(callback=self.next_page, meta=meta)

    def next_page(self, response: Response) -> Iterator[Request]:
        self.note_response(response)
        yield from self.branch(response.meta["links"])


class OldWorkerSpider(WorkerSpider):
    """An old version of a spider. :class:`NewWorkerSpider` is its new version, which has one more callback."""

    def first_page(self, response: Response) -> Iterator[Request]:
        yield from super().first_page(response)


class NewWorkerSpider(WorkerSpider):
    """The new version of :class:`OldWorkerSpider`: two of five pages have a new callback."""

    def first_page(self, response: Response) -> Iterator[Request]:
        for number, request in enumerate(super().first_page(response)):
            new = {"callback": self.new_page} if number % 5 < 2 else {}
            yield request.replace(**new)

    def new_page(self, response: Response) -> None:
        self.note_response(response)
