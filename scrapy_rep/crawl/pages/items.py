"""Drops or annotates items by the indexing rules and usage preferences of their pages."""

from __future__ import annotations

from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy import signals
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.log import logformatter_adapter
from scrapy.utils.misc import arg_to_iter

from scrapy_rep.base import meta, stats
from scrapy_rep.base.compat import image_fields
from scrapy_rep.base.log import CrawlLog, get_logger
from scrapy_rep.base.record import Layer, Subject, Verdict, forbidden
from scrapy_rep.base.settings import ITEM_FIELD, RepSettings
from scrapy_rep.crawl.decisions import DecisionReporter
from scrapy_rep.crawl.pages.effects import effects
from scrapy_rep.crawl.pages.usage import Purposes, stated
from scrapy_rep.exceptions import ItemDenied, UsageDenied

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.base.record import Because, Record
    from scrapy_rep.crawl.pages.effects import Effects
    from scrapy_rep.protocol.indexing.rules import IndexingRules

logger = get_logger(__name__)


class ItemGate:
    """Decides what happens to the items of a page, by its rules and preferences."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._settings = settings = RepSettings.of(crawler)
        self._annotates = "annotate" in {settings.noindex, settings.usage}
        self._warned_of: WeakSet[type] = WeakSet()
        self._purposes = Purposes.of(crawler)
        self._reporter = DecisionReporter.of(crawler)

    def effects(self, response: Response, rules: IndexingRules | None) -> Effects:
        """Return what happens to the items and the links of *response*."""
        request, is_exempt = response.request, False
        purposes: tuple[str, ...] = ()
        if request is not None:
            is_exempt = bool(request.meta.get(meta.DONT_OBEY_NOINDEX))
            purposes = self._purposes.purposes_of(request)
        return effects(
            self._settings,
            response,
            rules,
            stated(request),
            purposes,
            is_exempt=is_exempt,
        )

    def may_keep(self, item: Any, response: Response, found: Effects) -> bool:
        """Whether *item* may pass. Changes it as the effects *found* say. In a dry run, each item
        passes unchanged, and only what would be withheld is reported.
        """
        if found.items is not None:
            return self._drop(item, *found.items, response)
        if not self._settings.dry_run:
            self._annotate(item, response, found)
        if found.images is None:
            return True
        try:
            item = copy(item) if self._settings.dry_run else item
            urls = _take_image_urls(item, self._crawler)
        except (AttributeError, TypeError, ValueError):
            return self._drop(item, *found.images, response)
        for url in urls:
            self._decided(Verdict.DROPPED, *found.images, response, url)
        return True

    def _annotate(self, item: Any, response: Response, found: Effects) -> None:
        """Write what *found* says into the field ``REP_ITEM_FIELD`` of *item*, and report it."""
        for denied in found.noted:
            self._decided(Verdict.ANNOTATED, *denied, response)
        name, count = self._settings.item_field, self._crawler.stats.inc_value
        if found.is_expiring:
            count(stats.EXPIRING)
        if not (found.rules or found.usage):
            return
        # Imported here: it loads the libraries of all item types, which take megabytes.
        from itemadapter import ItemAdapter  # noqa: PLC0415

        rules = found.rules.to_dict() if found.rules else {}
        notes = {**rules, **deepcopy(found.usage or {})}
        try:
            adapter = ItemAdapter(item)
            before = adapter.get(name)
            adapter[name] = {**before, **notes} if isinstance(before, dict) else notes
        except (AttributeError, KeyError, TypeError, ValueError):
            # The item type does not have the field, or does not accept the value, or its items
            # cannot be changed.
            count(stats.NOT_ANNOTATED)
            self._warn_of_class(type(item))
            return
        if found.rules:
            count(stats.ANNOTATED)
        if found.usage:
            count(stats.USAGE_ANNOTATED)

    def _warn_of_class(self, kind: type) -> None:
        """Warn once of a class of items that cannot say what the settings want them to say."""
        if kind in self._warned_of or not self._annotates:
            return
        self._warned_of.add(kind)
        self._logger.warning(
            "Items of the class %(kind)s pass without what their pages allow: %(kind)s has no field "
            "%(field)r that can be written. Add the field to the class, or name another one in "
            "%(setting)s. Such items are counted in %(stat)s",
            kind=f"{kind.__module__}.{kind.__qualname__}",
            field=self._settings.item_field,
            setting=ITEM_FIELD,
            stat=stats.NOT_ANNOTATED,
        )

    def _decided(
        self,
        verdict: Verdict,
        reason: str,
        because: Because,
        response: Response,
        image: str = "",
    ) -> Record:
        """Report a decision about an item of a page, or about the URL of an image that it names."""
        return self._reporter.stated(
            Subject.FILE if image else Subject.ITEM,
            verdict,
            reason,
            because,
            request=response.request,
            response=response,
            url=image,
        )

    def _drop(
        self, item: Any, reason: str, because: Because, response: Response
    ) -> bool:
        """Report and log that *item* is dropped, and send the signal, as Scrapy does for item
        pipelines. The level is ``DEFAULT_DROPITEM_LOG_LEVEL``, unless the log formatter changes
        it. Return whether the item passes nevertheless, in a dry run.
        """
        record = self._decided(Verdict.DROPPED, reason, because, response)
        if self._settings.dry_run:
            return True
        what = "The images of " if reason == "noimageindex" else ""
        message = f"{what}{response.url} {forbidden(reason, because)}"
        is_use = record.layer is Layer.USAGE
        exception = (UsageDenied if is_use else ItemDenied)(message, record)
        spider = self._crawler.spider
        assert spider is not None
        entry = self._crawler.logformatter.dropped(item, exception, response, spider)
        if entry is not None:
            logger.log(*logformatter_adapter(entry), extra={"spider": spider})
        # Receivers may be coroutines, which this synchronous function can't await.
        deferred_from_coro(
            self._crawler.signals.send_catch_log_async(
                signal=signals.item_dropped,
                item=item,
                response=response,
                spider=spider,
                exception=exception,
            )
        )
        return False


def _take_image_urls(item: Any, crawler: Crawler) -> list[str]:
    """Empty the fields of *item* from which an ImagesPipeline of the crawl takes URLs, and return
    these. Raises AttributeError, TypeError or ValueError if *item* cannot be changed.
    """
    from itemadapter import ItemAdapter  # noqa: PLC0415

    fields = image_fields(crawler)
    urls = _urls_in(item, fields)
    for field in fields if ItemAdapter.is_item(item) else ():
        adapter = ItemAdapter(item)
        value = adapter.get(field)
        if value:
            adapter[field] = type(value)()
    return urls


def _urls_in(item: Any, fields: list[str]) -> list[str]:
    """Return the URLs in the *fields* of *item*."""
    if not fields:
        return []
    # Imported here: it loads the libraries of all item types, which take megabytes.
    from itemadapter import ItemAdapter  # noqa: PLC0415

    is_item = ItemAdapter.is_item(item)
    values = [ItemAdapter(item).get(field) for field in fields] if is_item else []
    return [
        url for value in values for url in arg_to_iter(value) if isinstance(url, str)
    ]
