"""The images that pages refuse to have in an index, while items name them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from w3lib.url import safe_url_string

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler

    from scrapy_rep.protocol.statements import Statement

    # The URL of a page, and what it says.
    Because = tuple[str, Statement | None]

# A pipeline may put another item in the place of one, so that its end is not seen.
_ITEMS_AT_MOST = 1000


class RefusedImages:
    """URLs that occur in items of pages with ``noimageindex``.

    A media pipeline asks for what an item names, and its request does not say for which
    page. So what an item names is kept from when it leaves its callback until it has
    left the pipelines: no longer, since another page may allow the same image.
    """

    _of: ClassVar[WeakKeyDictionary[Crawler, RefusedImages]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._urls: Counter[str] = Counter()
        self._of_item: dict[int, list[str]] = {}
        self._because: dict[str, Because] = {}

    @classmethod
    def of(cls, crawler: Crawler) -> RefusedImages:
        """The one that the components of a crawl share."""
        return cls._of.setdefault(crawler, cls())

    def __contains__(self, url: str) -> bool:
        return url in self._urls

    def because(self, url: str) -> Because:
        """Which page refuses *url*, the last one of several, and by what."""
        return self._because[url]

    def add(self, item: Any, because: Because) -> None:
        """Refuse what *item* names, until it is discarded."""
        self.discard(item)
        urls = [safe_url_string(text) for text in _texts(item)]
        if urls:
            self._of_item[id(item)] = urls
            self._urls.update(urls)
            self._because.update(dict.fromkeys(urls, because))
        if len(self._of_item) > _ITEMS_AT_MOST:
            self._forget(next(iter(self._of_item)))

    def discard(self, item: Any) -> None:
        self._forget(id(item))

    def _forget(self, item_id: int) -> None:
        for url in self._of_item.pop(item_id, ()):
            self._urls[url] -= 1
            if not self._urls[url]:
                del self._urls[url], self._because[url]


def _texts(item: Any) -> Iterator[str]:
    """What looks like a URL among the values of an item, and in lists of such."""
    # It imports what items may be made of, some megabytes: not before there is one.
    from itemadapter import ItemAdapter  # noqa: PLC0415

    for value in ItemAdapter(item).values():
        values = value if isinstance(value, (list, tuple)) else [value]
        for text in values:
            if isinstance(text, str) and text.startswith(("http://", "https://")):
                yield text
