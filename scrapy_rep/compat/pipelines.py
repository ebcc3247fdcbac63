"""Marks the requests of media pipelines with the refusals of their item."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy.pipelines.media import MediaPipeline
from scrapy.utils.misc import arg_to_iter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler

    # Returns the refusals of the image at a URL, for an item.
    Refusals = Callable[[Any, str], dict[str, Any]]


def mark_media_requests(crawler: Crawler, key: str, refusals: Refusals) -> None:
    """Make media pipelines put the *refusals* of an item and URL into the meta of each of
    their requests, at *key*.

    A pipeline fetches a URL once for all items, and caches the result. A request with
    refusals gets a fingerprint of its own, so that other items do not share its result.
    """
    try:
        manager = crawler.engine.scraper.itemproc
    except (AttributeError, RuntimeError):
        return  # Without a crawl there are no pipelines.
    for pipeline in getattr(manager, "middlewares", ()):
        if isinstance(pipeline, MediaPipeline) and hasattr(pipeline, "_fingerprinter"):
            patched: Any = pipeline
            patched.get_media_requests = partial(
                _marked, pipeline.get_media_requests, key, refusals
            )
            patched._fingerprinter = _Fingerprinter(pipeline._fingerprinter, key)


def _marked(
    get: Callable[[Any, Any], Any], key: str, refusals: Refusals, item: Any, info: Any
) -> Iterator[Request]:
    for request in arg_to_iter(get(item, info)):
        request.meta[key] = refusals(item, request.url)
        yield request


class _Fingerprinter:
    """Gives requests with refusals other fingerprints than requests without."""

    def __init__(self, fingerprinter: Any, key: str) -> None:
        self._fingerprinter = fingerprinter
        self._key = key

    def fingerprint(self, request: Request) -> bytes:
        found: bytes = self._fingerprinter.fingerprint(request)
        return found + b"refused" if request.meta.get(self._key) else found
