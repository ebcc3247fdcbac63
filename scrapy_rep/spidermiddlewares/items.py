"""Drops or annotates items by the indexing rules and usage preferences of their pages."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy import Request, signals
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.log import logformatter_adapter
from scrapy.utils.misc import arg_to_iter

from scrapy_rep import meta, stats
from scrapy_rep.compat.internals import image_fields
from scrapy_rep.exceptions import ItemDenied, UsageDenied
from scrapy_rep.fetching.identity import Identity
from scrapy_rep.frontier.reporter import DecisionReporter
from scrapy_rep.log import CrawlLog, get_logger
from scrapy_rep.record import Layer, Subject, Verdict, forbidden
from scrapy_rep.responses.effects import effects
from scrapy_rep.responses.purposes import Purposes, stated
from scrapy_rep.settings import ITEM_FIELD, RepSettings

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.frontier.reach import Reach
    from scrapy_rep.protocol.indexing.rules import IndexingRules
    from scrapy_rep.record import Because, Record
    from scrapy_rep.responses.effects import Effects

logger = get_logger(__name__)


class ItemGate:
    """Decides what happens to the items of a page, by its rules and preferences."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._settings = settings = RepSettings.of(crawler)
        if settings.dry_run:
            # Nothing is withheld where the settings only annotate.
            noindex, usage = (
                "ignore" if policy == "annotate" else policy
                for policy in (settings.noindex, settings.usage)
            )
            self._settings = replace(settings, noindex=noindex, usage=usage)
        self._logger = CrawlLog(__name__, crawler)
        self._annotates = "annotate" in {settings.noindex, settings.usage}
        self._warned_of: WeakSet[type] = WeakSet()
        self._identity = Identity.of(crawler)
        self._purposes = Purposes.of(crawler)
        self._reporter = DecisionReporter.of(crawler)

    def effects(
        self, response: Response, rules: IndexingRules | None, *, of_use: bool = True
    ) -> Effects:
        """Return what happens to the items and the links of *response*: with *of_use*, also what
        follows from usage preferences.
        """
        request, is_exempt = response.request, False
        purposes: tuple[str, ...] = ()
        if request is not None:
            is_exempt = bool(request.meta.get(meta.DONT_OBEY_NOINDEX))
            purposes = self._identity.purposes(request) if of_use else ()
        return effects(
            self._settings,
            response,
            rules,
            stated(request),
            purposes,
            is_exempt=is_exempt,
        )

    def may_keep(self, item: Any, response: Response, found: Effects) -> bool:
        """Whether *item* may pass. Changes it as the effects *found* say."""
        if found.items is not None:
            self._drop(item, *found.items, response)
            return False
        self._annotate(item, found)
        for denied in found.noted:
            self._decided(Verdict.ANNOTATED, *denied, response)
        if found.is_expiring:
            self._crawler.stats.inc_value(stats.EXPIRING)
        if found.images is None:
            return True
        try:
            urls = _take_image_urls(item, self._crawler)
        except (AttributeError, TypeError, ValueError):
            self._drop(item, *found.images, response)
            return False
        for url in urls:
            self._decided(Verdict.DROPPED, *found.images, response, url)
        return True

    # Dry runs.

    def judge(
        self, item: Any, response: Response, rules: IndexingRules | None, reach: Reach
    ) -> None:
        """Report whether *item* would be dropped, and note whether a real run would request the
        files that it names. The item does not change.
        """
        page, ours = response.request, copy(item)
        urls = _urls_in(ours, image_fields(self._crawler, with_files=True))
        files = {url: _request(url) for url in urls}
        for file in filter(None, files.values()):
            reach.led(page, file, follows=False)
        if self._is_judged_by_use(page) and reach.is_pending(page):
            # robots.txt may say more. The body could take much memory until then.
            response = response.replace(body=b"")
            judge = partial(self._judge, ours, response, rules, reach, files)
            reach.when_open(page, judge)
        else:
            self._judge(ours, response, rules, reach, files)

    def _judge(
        self,
        item: Any,
        response: Response,
        rules: IndexingRules | None,
        reach: Reach,
        files: dict[str, Request | None],
    ) -> None:
        page = response.request
        if page is not None and rules is not None and self._is_judged_by_use(page):
            # When it was read for the response, robots.txt was perhaps not known.
            usage = self._purposes.read(page, response.headers, rules)
            page.meta[meta.USAGE] = usage
        if not self.may_keep(item, response, self.effects(response, rules)):
            return
        for url in _urls_in(item, image_fields(self._crawler, with_files=True)):
            if file := files.get(url):
                reach.led(page, file, follows=True)

    def _is_judged_by_use(self, page: Request | None) -> bool:
        return self._settings.usage == "drop" and bool(self._identity.purposes(page))

    # What is done.

    def _annotate(self, item: Any, found: Effects) -> None:
        """Write what *found* says into the field ``REP_ITEM_FIELD`` of *item*."""
        if self._settings.dry_run or not (found.rules or found.usage):
            return
        # Imported here: it loads the libraries of all item types, which take megabytes.
        from itemadapter import ItemAdapter  # noqa: PLC0415

        name, count = self._settings.item_field, self._crawler.stats.inc_value
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
    ) -> None:
        """Report and log that *item* is dropped, and send the signal, as Scrapy does for item
        pipelines. The level is ``DEFAULT_DROPITEM_LOG_LEVEL``, unless the log formatter changes
        it.
        """
        record = self._decided(Verdict.DROPPED, reason, because, response)
        if self._settings.dry_run:
            return
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


def _request(url: str) -> Request | None:
    """Return the request that a media pipeline makes for *url*; None if it cannot."""
    try:
        return Request(url)
    except ValueError:
        return None


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
