"""A warning for ``scrapy parse``, which shows items and links that a crawl would drop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.record import forbidden

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.crawl.pages.effects import Effects


def warn_of_drops(
    crawler: Crawler, response: Response, found: Effects, rels: frozenset[str]
) -> None:
    """Log which items and links of *response* a crawl would drop, by the effects *found* and the
    *rels* that it does not follow; nothing if it drops none.
    """
    why = "; ".join(_drops(found, rels))
    if why:
        CrawlLog(__name__, crawler).warning(
            "scrapy parse shows all items and links of %(url)s, but a crawl would drop "
            "%(why)s",
            url=response.url,
            why=why,
        )


def _drops(found: Effects, rels: frozenset[str]) -> Iterator[str]:
    if found.items is not None:
        yield f"its items, which {forbidden(*found.items)}"
    elif found.images is not None:
        yield f"the images of its items, which {forbidden(*found.images)}"
    if found.links is not None:
        yield f"its links, which must not be followed: {found.links}"
    elif rels:
        yield f"links with rel={', '.join(sorted(rels))}"
