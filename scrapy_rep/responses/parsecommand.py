"""A warning for ``scrapy parse``, which shows items and links that a crawl would drop."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from scrapy_rep import meta
from scrapy_rep.log import CrawlLog
from scrapy_rep.responses.documents import has_document
from scrapy_rep.settings import RepSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.protocol.indexing.rules import IndexingRules
    from scrapy_rep.protocol.usage.preferences import Denial


def warn_of_drops(
    crawler: Crawler, response: Response, rules: IndexingRules, denial: Denial | None
) -> None:
    """Log which items and links of *response* a crawl would drop, if any."""
    why = "; ".join(_drops(RepSettings.of(crawler), response, rules, denial))
    if why:
        CrawlLog(__name__, crawler).warning(
            "scrapy parse shows all items and links of %(url)s, but a crawl would drop "
            "%(why)s",
            url=response.url,
            why=why,
        )


def _drops(
    settings: RepSettings,
    response: Response,
    rules: IndexingRules,
    denial: Denial | None,
) -> Iterator[str]:
    is_document = has_document(response)
    drops_items = (
        settings.noindex == "drop"
        and is_document
        and not response.meta.get(meta.DONT_OBEY_NOINDEX)
    )
    rule = rules.why_not_indexable(datetime.now(timezone.utc))
    if drops_items and rule:
        yield f"its items: {rules.because(rule) or rule}"
    elif settings.usage == "drop" and denial is not None:
        yield f"its items: they must not be used for {denial.purpose}"
    elif drops_items and not rules.image_index:
        yield f"the images of its items: {rules.because('noimageindex')}"
    if settings.nofollow == "drop" and is_document and not rules.follow:
        yield f"its links: {rules.because('nofollow')}"
    elif settings.rel:
        yield f"links with rel={', '.join(sorted(settings.rel))}"
