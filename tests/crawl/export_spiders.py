"""A spider and a pipeline that serialize each item and each response to JSON, as projects that export data do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.http import HtmlResponse
from scrapy.pipelines.files import FilesPipeline

from scrapy_rep import indexing_rules
from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure

VOLATILE = ("download_latency",)
"""The meta keys of Scrapy whose values differ from crawl to crawl."""

FIELDS = (
    "url", "method", "meta", "cookies", "priority", "dont_filter", "flags", "cb_kwargs",
)  # fmt: skip
"""The attributes of requests that are exported."""


def exported(response: Response) -> dict[str, Any]:
    """Return *response* and its request, as they are after a round trip through JSON.

    Raises TypeError if they cannot be serialized.
    """
    request = response.request
    assert request is not None
    row = {
        "url": response.url,
        "status": response.status,
        "meta": response.meta,
        "flags": response.flags,
        "headers": dict(response.headers.to_unicode_dict().items()),
        "request": {
            **{name: getattr(request, name) for name in FIELDS},
            "headers": dict(request.headers.to_unicode_dict().items()),
        },
    }
    copied: dict[str, Any] = json.loads(json.dumps(row))
    copied["headers"].pop("Date", None)
    for meta in (copied["meta"], copied["request"]["meta"]):
        for key in VOLATILE:
            assert meta.pop(key, None) is not None, key
    return copied


class ExportSpider(PlanSpider):
    """Makes an item of each response that a callback or errback gets, and follows the links of each page. The item of
    ``/open`` has the URL of a file for FilesPipeline.

    Records each response that Scrapy receives, including responses to requests of other components.
    """

    name = "export"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> ExportSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.note_received, signals.response_received)
        return spider

    def note_received(self, response: Response) -> None:
        self.seen["read"].append(exported(response))

    def note_read(self, response: Response) -> None:
        """Do nothing, since :meth:`note_received` records all responses."""

    def note_rules(self, response: Response, caller: str) -> None:
        """Record the result of ``indexing_rules`` for *response*. *caller* is a name, such as "callback"."""
        try:
            rules = indexing_rules(response).to_header()
        except ValueError as error:
            rules = type(error).__name__
        self.seen["denied"].append({"url": response.url, "in": caller, "says": rules})

    def note_response(self, response: Response) -> Iterator[Any]:
        self.note_rules(response, "callback")
        self.note_rules(response.replace(body=b""), "copy")
        urls = [response.urljoin("/file.pdf")] if response.url.endswith("/open") else []
        yield {**exported(response), "file_urls": urls}
        if isinstance(response, HtmlResponse):
            for link in response.css("a::attr(href)"):
                yield response.follow(
                    link.get(), self.note_response, errback=self.note_error
                )

    def note_error(self, failure: Failure) -> Iterator[Any]:
        super().note_error(failure)
        response = getattr(failure.value, "response", None)
        if response is not None:
            self.note_rules(response, "errback")
            yield exported(response)


class ExportPipeline(FilesPipeline):
    """A FilesPipeline that records each response for a file, and its indexing rules, in ``seen`` of the spider."""

    def media_downloaded(
        self, response: Response, request: Request, info: Any, *, item: Any = None
    ) -> Any:
        spider = self.crawler.spider
        assert isinstance(spider, ExportSpider)
        spider.seen["responses"].append(exported(response))
        spider.note_rules(response, "pipeline")
        return super().media_downloaded(response, request, info, item=item)
