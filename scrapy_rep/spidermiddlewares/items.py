"""Drops or annotates items by the indexing rules and usage preferences of their pages."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

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
    from typing import TypeAlias

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.frontier.reach import Reach
    from scrapy_rep.protocol.indexing.rules import IndexingRules
    from scrapy_rep.record import Because, Record

    # A rule or a purpose, and the statement that denies it.
    Denied: TypeAlias = tuple[str, Because]

logger = get_logger(__name__)


class Handling(NamedTuple):
    """What happens to the items of a page."""

    denied: Denied | None
    """Why they are dropped; None if they are not."""

    images: Denied | None
    """Why the URLs of images are removed from them."""

    notes: dict[str, Any]
    """What is written into their field ``REP_ITEM_FIELD``."""

    noted: list[Denied]
    """What these notes say that is denied."""

    stats: list[str]
    """What is counted for each item that has the notes."""

    is_expiring: bool
    """Whether they may be indexed until a date."""


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
        self._identity = Identity.of(crawler)
        self._purposes = Purposes.of(crawler)
        self._reporter = DecisionReporter.of(crawler)

    def handling(
        self, response: Response, rules: IndexingRules | None
    ) -> Handling | None:
        """Return what happens to the items of *response*; None if all pass as they are."""
        settings, request = self._settings, response.request
        denied: Denied | None = None
        images: Denied | None = None
        notes: dict[str, Any] = {}
        noted: list[Denied | None] = []
        counted: list[str] = []
        is_expiring = False
        if rules is not None and self._have_effect(rules, response):
            now, until = datetime.now(timezone.utc), rules.unavailable_after
            why = rules.why_not_indexable(now)
            not_indexable = (why, rules.because(why)) if why else None
            is_expiring = until is not None and now <= until
            if settings.noindex == "drop":
                denied = not_indexable
                if not rules.image_index:
                    images = "noimageindex", rules.because("noimageindex")
            else:
                noted.append(not_indexable)
            if settings.noindex == "annotate" or is_expiring:
                notes |= rules.to_dict()
                counted.append(stats.ANNOTATED)
        has_purpose = request is not None and bool(self._identity.purposes(request))
        if has_purpose and settings.usage != "ignore":
            denial = self._denial(response)
            if settings.usage == "drop":
                denied = denied or denial
                images = images or self._denial(response, image=True)
            else:
                noted.append(denial)
                notes |= self._summary(request)
                counted.append(stats.USAGE_ANNOTATED)
        if not (denied or images or notes):
            return None
        said = [each for each in noted if each is not None]
        return Handling(denied, images, notes, said, counted, is_expiring)

    def may_keep(self, item: Any, response: Response, handling: Handling) -> bool:
        """Whether *item* may pass. Changes it as *handling* says."""
        if handling.denied is not None:
            self._drop(item, *handling.denied, response)
            return False
        if handling.notes:
            self._annotate(item, handling)
        for denied in handling.noted:
            self._decided(Verdict.ANNOTATED, *denied, response)
        if handling.is_expiring:
            self._crawler.stats.inc_value(stats.EXPIRING)
        if handling.images is None:
            return True
        try:
            urls = _take_image_urls(item, self._crawler)
        except (AttributeError, TypeError, ValueError):
            self._drop(item, *handling.images, response)
            return False
        for url in urls:
            self._decided(Verdict.DROPPED, *handling.images, response, url)
        return True

    def _have_effect(self, rules: IndexingRules, response: Response) -> bool:
        """Whether *rules* have an effect on the items of *response*."""
        policy = self._settings.noindex
        if policy == "drop":
            says_nothing = rules.index and rules.image_index
            if says_nothing and rules.unavailable_after is None:
                return False  # As most pages.
        if policy == "ignore" or response.meta.get(meta.DONT_OBEY_NOINDEX):
            return False
        return policy == "annotate" or has_document(response)

    def _denial(self, response: Response, *, image: bool = False) -> Denied | None:
        request = response.request
        found = self._purposes.denial(request, stated(request), image=image)
        return found and (found.purpose, found.statement)

    def _summary(self, request: Request | None) -> dict[str, Any]:
        found = {"usage": self._purposes.summary(request)}
        of_images = self._purposes.summary(request, image=True)
        if of_images != found["usage"]:
            found["usage_of_images"] = of_images
        return found

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
        handling = self.handling(response, rules)
        if handling is not None and not self.may_keep(item, response, handling):
            return
        for url in _urls_in(item, image_fields(self._crawler, with_files=True)):
            if file := files.get(url):
                reach.led(page, file, follows=True)

    def _is_judged_by_use(self, page: Request | None) -> bool:
        return self._settings.usage == "drop" and bool(self._identity.purposes(page))

    # What is done.

    def _annotate(self, item: Any, handling: Handling) -> None:
        """Write the notes into the field ``REP_ITEM_FIELD`` of *item*."""
        # Imported here: it loads the libraries of all item types, which take megabytes.
        from itemadapter import ItemAdapter  # noqa: PLC0415

        if self._settings.dry_run:
            return
        name, notes = self._settings.item_field, deepcopy(handling.notes)
        try:
            adapter = ItemAdapter(item)
            before = adapter.get(name)
            adapter[name] = {**before, **notes} if isinstance(before, dict) else notes
        except (KeyError, TypeError, ValueError):
            # The item type does not have the field, or does not accept the value.
            self._crawler.stats.inc_value(stats.NOT_ANNOTATED)
        else:
            for stat in handling.stats:
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
