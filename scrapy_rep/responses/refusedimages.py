"""The images of items whose pages refuse their indexing or use."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from w3lib.url import safe_url_string

from scrapy_rep.compat.versions import shared_component
from scrapy_rep.meta import REFUSALS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.protocol.indexing.statements import Statement
    from scrapy_rep.protocol.usage.preferences import Denial

# The number of items that are remembered. If a pipeline replaces an item, Scrapy sends no
# signal for the end of the original.
_MAX_ITEMS = 1000

INDEXING = "indexing"
USAGE = "usage"

Refusals: TypeAlias = "dict[str, tuple[str, Statement | Denial | None]]"
"""The refusals of an image, by INDEXING or USAGE: the URL of the page, and its statement or
denial."""


class RefusedImages:
    """The image URLs of items whose pages refuse the indexing or use of their images.

    The URLs of an item are kept only until it has passed the pipelines, since another page
    may allow the same image.
    """

    def __init__(self, crawler: Crawler | None = None) -> None:
        self._of_item: dict[int, tuple[frozenset[str], Refusals]] = {}
        # By kind of refusal and URL: the number of items with the URL, and the last refusal.
        self._items: Counter[tuple[str, str]] = Counter()
        self._last: dict[tuple[str, str], tuple[str, Any]] = {}
        # The ids of the items that no media pipeline has begun to process.
        self._unprocessed: set[int] = set()

    @classmethod
    def of(cls, crawler: Crawler) -> RefusedImages:
        """The instance that the components of a crawl share."""
        return shared_component(crawler, cls)

    def because(self, request: Request, kind: str) -> tuple[str, Any] | None:
        """The page that refuses the image at the URL of *request*, and its statement or
        denial; None if no page does. If the request has no record of its item, the last page
        counts whose item has the URL.
        """
        refusals: Refusals | None = request.meta.get(REFUSALS)
        if refusals is None:
            return self._last.get((kind, request.url))
        return refusals.get(kind)

    def refusals(self, item: Any, url: str) -> Refusals:
        """The refusals of the image at *url* of *item*, which a media pipeline begins to
        process. An unknown item may be the replacement of an item that no media pipeline has
        processed; then the refusals of such an item with the same URL apply.
        """
        self._unprocessed.discard(id(item))
        if id(item) in self._of_item:
            return self._of_item[id(item)][1]
        if not any(url in self._of_item[each][0] for each in self._unprocessed):
            return {}
        keys = ((kind, url) for kind in (INDEXING, USAGE))
        return {key[0]: self._last[key] for key in keys if key in self._last}

    def add(self, item: Any, refusals: Refusals) -> None:
        """Refuse the URLs in *item*, until it is discarded."""
        self.discard(item)
        urls = frozenset(safe_url_string(text) for text in _texts(item))
        if urls:
            self._of_item[id(item)] = urls, refusals
            self._unprocessed.add(id(item))
            for kind, because in refusals.items():
                for url in urls:
                    self._items[kind, url] += 1
                    self._last[kind, url] = because
        if len(self._of_item) > _MAX_ITEMS:
            self._forget(next(iter(self._of_item)))

    def discard(self, item: Any) -> None:
        self._forget(id(item))

    def _forget(self, item_id: int) -> None:
        self._unprocessed.discard(item_id)
        urls, refusals = self._of_item.pop(item_id, ((), {}))
        for key in ((kind, url) for kind in refusals for url in urls):
            self._items[key] -= 1
            if not self._items[key]:
                del self._items[key], self._last[key]


def _texts(item: Any) -> Iterator[str]:
    """The http and https URLs among the values of *item* and in its lists."""
    # Imported here: it loads the libraries of all item types, which take megabytes.
    from itemadapter import ItemAdapter  # noqa: PLC0415

    for value in ItemAdapter(item).values():
        values = value if isinstance(value, (list, tuple)) else [value]
        for text in values:
            if isinstance(text, str) and text.startswith(("http://", "https://")):
                yield text
