"""Media pipelines: which item it is that they fetch a file for, of which they tell nobody."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy.pipelines.media import MediaPipeline
from scrapy.utils.misc import arg_to_iter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler

    # What is against an image at that URL, for an item.
    Refusals = Callable[[Any, str], dict[str, Any]]


def mark_media_requests(crawler: Crawler, key: str, refusals: Refusals) -> None:
    """Have the requests of media pipelines say in their meta, at *key*, what *refusals* has
    against their item.

    A pipeline fetches once what several items name, and remembers what became of it. A
    request with something against it is none that others can share.
    """
    try:
        manager = crawler.engine.scraper.itemproc
    except (AttributeError, RuntimeError):
        return  # There is no crawl, so there are no pipelines.
    for pipeline in getattr(manager, "middlewares", ()):
        if isinstance(pipeline, MediaPipeline) and hasattr(pipeline, "_fingerprinter"):
            asked: Any = pipeline
            asked.get_media_requests = partial(
                _marked, pipeline.get_media_requests, key, refusals
            )
            asked._fingerprinter = _Apart(pipeline._fingerprinter, key)


def _marked(
    get: Callable[[Any, Any], Any], key: str, refusals: Refusals, item: Any, info: Any
) -> Iterator[Request]:
    for request in arg_to_iter(get(item, info)):
        request.meta[key] = refusals(item, request.url)
        yield request


class _Apart:
    """Tells requests with something against them from others of the same URL."""

    def __init__(self, fingerprinter: Any, key: str) -> None:
        self._fingerprinter = fingerprinter
        self._key = key

    def fingerprint(self, request: Request) -> bytes:
        found: bytes = self._fingerprinter.fingerprint(request)
        return found + b"refused" if request.meta.get(self._key) else found
