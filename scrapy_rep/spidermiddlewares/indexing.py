"""What a response allows to become of its items and links."""

from __future__ import annotations

import logging
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.log import logformatter_adapter

from scrapy_rep import links, meta, stats
from scrapy_rep.exceptions import ItemDenied
from scrapy_rep.refusedimages import RefusedImages
from scrapy_rep.settings import RepSettings
from scrapy_rep.signals import item_annotated, link_dropped

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.protocol.indexing import IndexingRules
    from scrapy_rep.protocol.statements import Statement

logger = logging.getLogger(__name__)


class IndexingGateMiddleware:
    """Lets pass what a callback makes of a response, as far as the response allows it."""

    ORDER = 100
    """Output of callbacks passes in descending order: near the engine, after all that
    makes or changes items and requests."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._settings = RepSettings.from_settings(crawler.settings)
        settings = self._settings
        if (settings.noindex, settings.nofollow, settings.rel) == (
            "ignore",
            "ignore",
            frozenset(),
        ):
            raise NotConfigured
        self._refused_images = RefusedImages.of(crawler)
        self._only_marked: WeakKeyDictionary[Response, dict[str, str]]
        self._only_marked = WeakKeyDictionary()
        self._listens = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> IndexingGateMiddleware:
        return cls(crawler)

    def process_spider_output(
        self, response: Response, result: Iterable[Any]
    ) -> Iterator[Any]:
        # The rules are the page's, not those of what it links to: a spider that hands its
        # meta on must not hand them on. For most pages this loop is all that there is.
        rules = _rules(response)
        passes = self._lets_all_pass(rules)
        for one in result:
            if isinstance(one, Request):
                one.meta.pop(meta.INDEXING, None)
            if passes or self._may_pass(one, response, rules):
                yield one

    async def process_spider_output_async(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        rules = _rules(response)
        passes = self._lets_all_pass(rules)
        async for one in result:
            if isinstance(one, Request):
                one.meta.pop(meta.INDEXING, None)
            if passes or self._may_pass(one, response, rules):
                yield one

    def _lets_all_pass(self, rules: IndexingRules | None) -> bool:
        """Whether there is nothing to ask about any link or item, as for most pages."""
        if self._settings.rel or self._settings.noindex == "annotate":
            return False
        return rules is None or (
            rules.follow
            and rules.index
            and rules.image_index
            and rules.unavailable_after is None
        )

    def _may_pass(
        self, one: Any, response: Response, rules: IndexingRules | None
    ) -> bool:
        if isinstance(one, Request):
            return self._may_follow(one, response, rules)
        if (
            rules is None
            or self._settings.noindex == "ignore"
            or response.meta.get(meta.DONT_OBEY_NOINDEX)
        ):
            return True
        return self._may_keep(one, response, rules)

    # Links.

    def _may_follow(
        self, request: Request, response: Response, rules: IndexingRules | None
    ) -> bool:
        found = self._why_not_follow(request, response, rules)
        if found is None:
            return True
        why, statement = found
        logger.debug(
            "Not followed from %(response)s (%(why)s): %(request)s",
            {"response": response, "why": why, "request": request},
            extra={"spider": self._crawler.spider},
        )
        self._crawler.stats.inc_value(stats.NOFOLLOW.format(source=why))
        self._crawler.signals.send_catch_log(
            link_dropped,
            request=request,
            response=response,
            reason=why,
            statement=statement,
            spider=self._crawler.spider,
        )
        return False

    def _why_not_follow(
        self, request: Request, response: Response, rules: IndexingRules | None
    ) -> tuple[str, Statement | str | None] | None:
        """``"page"`` and the statement that says so, or ``"rel"`` and its value; None
        where nothing is against it.
        """
        if request.meta.get(meta.DONT_OBEY_NOFOLLOW):
            return None
        if request.url == response.url:
            return None  # the page again, for a retry: that follows no link
        if self._settings.nofollow == "drop" and rules and not rules.follow:
            return "page", rules.because("nofollow")
        if self._settings.rel:
            marked = self._only_marked.get(response)
            if marked is None:
                marked = links.only_marked(response, self._settings.rel)
                self._only_marked[response] = marked
            rel = marked.get(links.canonical(request.url)) if marked else None
            if rel is not None:
                return "rel", rel
        return None

    # Items.

    def _may_keep(self, item: Any, response: Response, rules: IndexingRules) -> bool:
        """Whether *item* passes, once it has been annotated where that is wanted."""
        now = datetime.now(timezone.utc)
        if self._settings.noindex == "annotate":
            self._annotate(item, rules)
            if not rules.indexable(now):
                self._crawler.signals.send_catch_log(
                    item_annotated,
                    item=item,
                    response=response,
                    rules=rules,
                    spider=self._crawler.spider,
                )
        elif not rules.indexable(now):
            self._drop(item, response, rules)
            return False
        elif rules.unavailable_after is not None:
            self._annotate(item, rules)
        if rules.unavailable_after is not None and now <= rules.unavailable_after:
            self._crawler.stats.inc_value(stats.EXPIRING)
        if not rules.image_index and self._settings.noindex == "drop":
            self._listen()
            statement = rules.because("noimageindex")
            self._refused_images.add(item, (response.url, statement))
        return True

    def _listen(self) -> None:
        """Be told of the end of each item, as of the first for which it matters."""
        if not self._listens:
            self._listens = True
            for signal in (
                signals.item_scraped, signals.item_dropped, signals.item_error
            ):  # fmt: skip
                self._crawler.signals.connect(self._item_done, signal)

    def _annotate(self, item: Any, rules: IndexingRules) -> None:
        # It imports what items may be made of, some megabytes: not before there is one.
        from itemadapter import ItemAdapter  # noqa: PLC0415

        try:
            ItemAdapter(item)[self._settings.item_field] = rules.to_dict()
        except (KeyError, TypeError, ValueError):
            # A field that the type of the item does not have, or won't have so.
            self._crawler.stats.inc_value(stats.NOT_ANNOTATED)
        else:
            self._crawler.stats.inc_value(stats.ANNOTATED)

    def _drop(self, item: Any, response: Response, rules: IndexingRules) -> None:
        """Say of an item that it is dropped, as the item pipelines say it."""
        rule = "noindex" if not rules.index else "unavailable_after"
        exception = ItemDenied(rule, rules)
        spider = self._crawler.spider
        assert spider is not None
        self._crawler.stats.inc_value(stats.NOINDEX.format(rule=rule))
        entry = self._crawler.logformatter.dropped(item, exception, response, spider)
        if entry is not None:
            logger.log(*logformatter_adapter(entry), extra={"spider": spider})
        # Receivers may be coroutines, and a callback's output can't wait for them.
        deferred_from_coro(
            self._crawler.signals.send_catch_log_async(
                signal=signals.item_dropped,
                item=item,
                response=response,
                spider=spider,
                exception=exception,
            )
        )

    def _item_done(self, item: Any) -> None:
        self._refused_images.discard(item)


def _rules(response: Response) -> IndexingRules | None:
    # A response that was not downloaded for a request has no meta.
    if response.request is None:
        return None
    rules: IndexingRules | None = response.meta.get(meta.INDEXING)
    return rules
