"""The images that pages do not want to be indexed or used, while items name them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from w3lib.url import safe_url_string

from scrapy_rep.compat.versions import shared_component
from scrapy_rep.meta import REFUSALS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from typing_extensions import Self

# The number of items that are remembered: a pipeline may replace an item, so that its end
# is not signalled.
_MAX_ITEMS = 1000


class RefusedImages:
    """The URLs in items of pages with ``noimageindex``, each with the URL of its page and
    the statement.

    The URLs of an item are kept while it goes from its callback through the pipelines, and
    no longer, since another page may allow the same image.
    """

    def __init__(self, crawler: Crawler | None = None) -> None:
        self._urls: Counter[str] = Counter()
        self._of_item: dict[int, tuple[frozenset[str], Any]] = {}
        self._because: dict[str, tuple[str, Any]] = {}
        self._unmet: set[int] = set()

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """The instance that the components of a crawl share."""
        return shared_component(crawler, cls)

    def because(self, request: Request) -> tuple[str, Any] | None:
        """Which page refuses the image that *request* is for, and by what. Where a pipeline
        does not say for which item it is, the last page of those whose items name it.
        """
        refusals = request.meta.get(REFUSALS)
        if refusals is None:
            return self._because.get(request.url)
        found: tuple[str, Any] | None = refusals.get(type(self).__name__)
        return found

    def against(self, item: Any, url: str) -> tuple[str, Any] | None:
        """Which page refuses the images of *item*, which a pipeline begins with, and by
        what. An item that is not known may be in the place of one that no pipeline has met.
        """
        self._unmet.discard(id(item))
        kept = self._of_item.get(id(item))
        if kept is not None:
            found: tuple[str, Any] = kept[1]
            return found
        is_open = any(url in self._of_item[each][0] for each in self._unmet)
        return self._because.get(url) if is_open else None

    def add(self, item: Any, because: tuple[str, Any]) -> None:
        """Refuse the URLs in *item*, until it is discarded."""
        self.discard(item)
        urls = frozenset(safe_url_string(text) for text in _texts(item))
        if urls:
            self._of_item[id(item)] = urls, because
            self._unmet.add(id(item))
            self._urls.update(urls)
            self._because.update(dict.fromkeys(urls, because))
        if len(self._of_item) > _MAX_ITEMS:
            self._forget(next(iter(self._of_item)))

    def discard(self, item: Any) -> None:
        self._forget(id(item))

    def _forget(self, item_id: int) -> None:
        self._unmet.discard(item_id)
        urls, _ = self._of_item.pop(item_id, ((), None))
        for url in urls:
            self._urls[url] -= 1
            if not self._urls[url]:
                del self._urls[url], self._because[url]


class UnusedImages(RefusedImages):
    """The URLs in items of pages whose images must not serve a purpose of the crawl, each
    with the URL of its page and the denial.
    """


def _texts(item: Any) -> Iterator[str]:
    """The URLs among the values of an item, and in lists among them."""
    # Imported here: it loads the libraries for all types of items, some megabytes.
    from itemadapter import ItemAdapter  # noqa: PLC0415

    for value in ItemAdapter(item).values():
        values = value if isinstance(value, (list, tuple)) else [value]
        for text in values:
            if isinstance(text, str) and text.startswith(("http://", "https://")):
                yield text
