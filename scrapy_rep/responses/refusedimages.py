"""The images that pages refuse to have in an index, or used, while items name them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from w3lib.url import safe_url_string

from scrapy_rep.compat.versions import shared_component

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler
    from typing_extensions import Self

# A pipeline may put another item in the place of one, so that its end is not seen.
_MAX_ITEMS = 1000


class RefusedImages:
    """URLs that occur in items of pages with ``noimageindex``, each with the URL of its
    page, and what that says.

    A media pipeline asks for what an item names, and its request does not say for which
    page. So what an item names is kept from when it leaves its callback until it has
    left the pipelines: no longer, since another page may allow the same image.
    """

    def __init__(self, crawler: Crawler | None = None) -> None:
        self._urls: Counter[str] = Counter()
        self._of_item: dict[int, list[str]] = {}
        self._because: dict[str, tuple[str, Any]] = {}

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """The one that the components of a crawl share."""
        return shared_component(crawler, cls)

    def __contains__(self, url: str) -> bool:
        return url in self._urls

    def because(self, url: str) -> tuple[str, Any]:
        """Which page refuses *url*, the last one of several, and by what."""
        return self._because[url]

    def add(self, item: Any, because: tuple[str, Any]) -> None:
        """Refuse what *item* names, until it is discarded."""
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
    """Those of pages whose images must not serve a purpose of the crawl, each with the
    URL of its page, and the denial.
    """


def _texts(item: Any) -> Iterator[str]:
    """What looks like a URL among the values of an item, and in lists of such."""
    # It imports what items may be made of, some megabytes: not before there is one.
    from itemadapter import ItemAdapter  # noqa: PLC0415

    for value in ItemAdapter(item).values():
        values = value if isinstance(value, (list, tuple)) else [value]
        for text in values:
            if isinstance(text, str) and text.startswith(("http://", "https://")):
                yield text
