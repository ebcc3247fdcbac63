"""The images that pages do not want to be indexed or used, while items name them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from w3lib.url import safe_url_string

from scrapy_rep.compat.versions import shared_component

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler
    from typing_extensions import Self

# The number of items that are remembered: a pipeline may replace an item, so that its end
# is not signalled.
_MAX_ITEMS = 1000


class RefusedImages:
    """The URLs in items of pages with ``noimageindex``, each with the URL of its page and
    the statement.

    A media pipeline requests the URLs in an item, and its requests do not say which page
    the item is from. So the URLs of an item are kept while it goes from its callback
    through the pipelines, and no longer, since another page may allow the same image.
    """

    def __init__(self, crawler: Crawler | None = None) -> None:
        self._urls: Counter[str] = Counter()
        self._of_item: dict[int, list[str]] = {}
        self._because: dict[str, tuple[str, Any]] = {}

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """The instance that the components of a crawl share."""
        return shared_component(crawler, cls)

    def __contains__(self, url: str) -> bool:
        return url in self._urls

    def because(self, url: str) -> tuple[str, Any]:
        """The page that refuses *url*, the last one of several, and its statement."""
        return self._because[url]

    def add(self, item: Any, because: tuple[str, Any]) -> None:
        """Refuse the URLs in *item*, until it is discarded."""
        self.discard(item)
        urls = [safe_url_string(text) for text in _texts(item)]
        if urls:
            self._of_item[id(item)] = urls
            self._urls.update(urls)
            self._because.update(dict.fromkeys(urls, because))
        if len(self._of_item) > _MAX_ITEMS:
            self._forget(next(iter(self._of_item)))

    def discard(self, item: Any) -> None:
        self._forget(id(item))

    def _forget(self, item_id: int) -> None:
        for url in self._of_item.pop(item_id, ()):
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
