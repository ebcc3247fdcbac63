"""Drops or annotates items by the indexing rules and usage preferences of their pages."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.log import logformatter_adapter
from scrapy.utils.misc import arg_to_iter

from scrapy_rep import meta, stats
from scrapy_rep.compat.internals import image_fields
from scrapy_rep.exceptions import ItemDenied, UsageDenied
from scrapy_rep.fetching.identity import Identity
from scrapy_rep.frontier.reporter import DecisionReporter
from scrapy_rep.log import get_logger
from scrapy_rep.record import Layer, Subject, Verdict, forbidden
from scrapy_rep.responses.documents import has_document
from scrapy_rep.responses.purposes import Purposes, stated
from scrapy_rep.settings import RepSettings

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.frontier.reach import Reach
    from scrapy_rep.protocol.indexing.rules import IndexingRules
    from scrapy_rep.protocol.usage.preferences import Denial
    from scrapy_rep.record import Because, Record

logger = get_logger(__name__)


class ItemGate:
    """Decides whether an item may pass, by the rules and preferences of its page."""

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
        self._identity = Identity.of(crawler)
        self._purposes = Purposes.of(crawler)
        self._reporter = DecisionReporter.of(crawler)

    def lets_all_pass(self, response: Response, rules: IndexingRules | None) -> bool:
        """Whether all items of a page may pass without annotation. Most pages allow this."""
        if self._settings.usage != "ignore":
            request = response.request
            if self._identity.purposes(request) and (
                self._settings.usage == "annotate"
                or self._purposes.denial(request, stated(request), image=True)
            ):
                return False
        if self._settings.noindex == "annotate":
            return rules is None
        return rules is None or (
            rules.index and rules.image_index and rules.unavailable_after is None
        )

    def may_keep(
        self, item: Any, response: Response, rules: IndexingRules | None
    ) -> bool:
        """Whether *item* may pass. Annotates it if the settings say so."""
        drops = self._settings.noindex == "drop"
        if rules is not None and (
            response.meta.get(meta.DONT_OBEY_NOINDEX)
            or (drops and not has_document(response))
        ):
            rules = None
        if (
            rules is not None
            and self._settings.noindex != "ignore"
            and not self._may_be_in_index(item, response, rules)
        ):
            return False
        if self._settings.usage != "ignore" and not self._may_serve(item, response):
            return False
        return self._has_no_denied_images(item, response, rules)

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
        if not self.may_keep(item, response, rules) or not files:
            return
        for url in _urls_in(item, image_fields(self._crawler, with_files=True)):
            if file := files.get(url):
                reach.led(page, file, follows=True)

    def _is_judged_by_use(self, page: Request | None) -> bool:
        return self._settings.usage == "drop" and bool(self._identity.purposes(page))

    # Indexing rules.

    def _may_be_in_index(
        self, item: Any, response: Response, rules: IndexingRules
    ) -> bool:
        now = datetime.now(timezone.utc)
        if self._settings.noindex == "annotate":
            self._annotate(item, rules.to_dict(), stats.ANNOTATED)
            if why := rules.why_not_indexable(now):
                self._decided(Verdict.ANNOTATED, why, rules.because(why), response)
        elif why := rules.why_not_indexable(now):
            self._drop(item, why, rules.because(why), response)
            return False
        elif rules.unavailable_after is not None:
            self._annotate(item, rules.to_dict(), stats.ANNOTATED)
        if rules.unavailable_after is not None and now <= rules.unavailable_after:
            self._crawler.stats.inc_value(stats.EXPIRING)
        return True

    # Purposes.

    def _may_serve(self, item: Any, response: Response) -> bool:
        request = response.request
        if request is None or not self._identity.purposes(request):
            return True
        denial = self._denial(response)
        if self._settings.usage == "annotate":
            found = {"usage": self._purposes.summary(request)}
            of_images = self._purposes.summary(request, image=True)
            if of_images != found["usage"]:
                found["usage_of_images"] = of_images
            self._annotate(item, found, stats.USAGE_ANNOTATED)
            if denial is not None:
                because = denial.statement
                self._decided(Verdict.ANNOTATED, denial.purpose, because, response)
        elif denial is not None:
            self._drop(item, denial.purpose, denial.statement, response)
            return False
        return True

    def _denial(self, response: Response, *, image: bool = False) -> Denial | None:
        request = response.request
        return self._purposes.denial(request, stated(request), image=image)

    # Images.

    def _has_no_denied_images(
        self, item: Any, response: Response, rules: IndexingRules | None
    ) -> bool:
        """Empty the fields from which an ImagesPipeline takes URLs, if the page forbids that its
        images are indexed or used. Drops an item that cannot be changed, and returns False.
        """
        because: Because
        request = response.request
        if self._settings.noindex == "drop" and rules and not rules.image_index:
            reason, because = "noimageindex", rules.because("noimageindex")
        elif (
            self._settings.usage == "drop"
            and request is not None
            and (denial := self._denial(response, image=True))
        ):
            reason, because = denial.purpose, denial.statement
        else:
            return True
        try:
            urls = _take_image_urls(item, self._crawler)
        except (AttributeError, TypeError, ValueError):
            self._drop(item, reason, because, response)
            return False
        for url in urls:
            self._decided(Verdict.DROPPED, reason, because, response, url)
        return True

    # All of these.

    def _annotate(self, item: Any, found: dict[str, Any], stat: str) -> None:
        """Write *found* into the field ``REP_ITEM_FIELD`` of *item*."""
        # Imported here: it loads the libraries of all item types, which take megabytes.
        from itemadapter import ItemAdapter  # noqa: PLC0415

        if self._settings.dry_run:
            return
        name = self._settings.item_field
        try:
            adapter = ItemAdapter(item)
            before = adapter.get(name)
            adapter[name] = {**before, **found} if isinstance(before, dict) else found
        except (KeyError, TypeError, ValueError):
            # The item type does not have the field, or does not accept the value.
            self._crawler.stats.inc_value(stats.NOT_ANNOTATED)
        else:
            self._crawler.stats.inc_value(stat)

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
