"""The spider middleware that drops links and items that the rules of their page forbid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.exceptions import NotConfigured
from w3lib.url import canonicalize_url

from scrapy_rep import meta
from scrapy_rep.frontier.reach import Reach
from scrapy_rep.frontier.reporter import DecisionReporter
from scrapy_rep.log import get_logger
from scrapy_rep.protocol.indexing.statements import Statement
from scrapy_rep.record import Subject, Verdict
from scrapy_rep.responses.documents import has_document
from scrapy_rep.responses.links import only_marked
from scrapy_rep.settings import RepSettings
from scrapy_rep.spidermiddlewares.items import ItemGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.protocol.indexing.rules import IndexingRules

logger = get_logger(__name__)


class IndexingGateMiddleware:
    """Drops the requests and items of a callback that its response forbids."""

    ORDER = 100
    """Scrapy passes the output of callbacks in descending order. This is near the engine,
    after all middlewares that make or change items and requests."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._settings = settings = RepSettings.of(crawler)
        policies = {settings.noindex, settings.nofollow, settings.usage}
        if policies == {"ignore"} and not settings.rel and not settings.dry_run:
            raise NotConfigured
        self._items = ItemGate(crawler)
        self._reporter = DecisionReporter.of(crawler)
        self._reach = Reach.of(crawler) if settings.dry_run else None
        self._only_marked: WeakKeyDictionary[Response, dict[str, str]]
        self._only_marked = WeakKeyDictionary()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> IndexingGateMiddleware:
        return cls(crawler)

    def process_spider_output(
        self, response: Response, result: Iterable[Any]
    ) -> Iterator[Any]:
        # A spider that copies response.meta to a new request copies the rules of this page
        # with it, so they are removed. For most pages only this loop runs.
        rules = _rules(response)
        passes = self._lets_all_pass(response, rules)
        for output in result:
            if isinstance(output, Request) and meta.INDEXING in output.meta:
                _strip(output)
            if passes or self._may_pass(output, response, rules):
                yield output

    async def process_spider_output_async(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        rules = _rules(response)
        passes = self._lets_all_pass(response, rules)
        async for output in result:
            if isinstance(output, Request) and meta.INDEXING in output.meta:
                _strip(output)
            if passes or self._may_pass(output, response, rules):
                yield output

    def _lets_all_pass(self, response: Response, rules: IndexingRules | None) -> bool:
        """Whether all links and items of the page may pass, which is true of most pages."""
        if self._settings.dry_run or self._settings.rel:
            return False
        if not (rules is None or rules.follow):
            return False
        return self._items.lets_all_pass(response, rules)

    def _may_pass(
        self, output: Any, response: Response, rules: IndexingRules | None
    ) -> bool:
        if self._reach is not None:
            try:
                self._judge(output, response, rules, self._reach)
            except Exception:
                logger.exception(
                    "Error while judging an output of %(response)s: the dry run does not count it",
                    {"response": response},
                    extra={"spider": self._crawler.spider},
                )
            return True
        if isinstance(output, Request):
            return self._may_follow(output, response, rules)
        return self._items.may_keep(output, response, rules)

    def _judge(
        self, output: Any, response: Response, rules: IndexingRules | None, reach: Reach
    ) -> None:
        """Judge *output* in a dry run, where it passes whatever the verdict is."""
        if isinstance(output, Request):
            follows = self._may_follow(output, response, rules)
            reach.led(response.request, output, follows=follows)
        else:
            self._items.judge(output, response, rules, reach)

    # Links.

    def _may_follow(
        self, request: Request, response: Response, rules: IndexingRules | None
    ) -> bool:
        because = self._why_not_follow(request, response, rules)
        if because is None:
            return True
        if self._reach is None:
            why = because if isinstance(because, Statement) else f"rel={because}"
            logger.debug(
                "Dropped %(request)s: its link on %(response)s must not be followed: %(why)s",
                {"response": response, "why": why, "request": request},
                extra={"spider": self._crawler.spider},
            )
        self._reporter.stated(
            Subject.LINK,
            Verdict.DROPPED,
            "nofollow",
            because,
            request=request,
            response=response,
            url=request.url,
        )
        return False

    def _why_not_follow(
        self, request: Request, response: Response, rules: IndexingRules | None
    ) -> Statement | str | None:
        """Return why *request* must not be followed: the statement of its page, or the ``rel`` of
        its link; None if it may be followed.
        """
        if request.meta.get(meta.DONT_OBEY_NOFOLLOW):
            return None
        if request.url == response.url:
            return None  # A retry of the page itself, which follows no link.
        if (
            self._settings.nofollow == "drop"
            and rules is not None
            and not rules.follow
            and has_document(response)
        ):
            return rules.because("nofollow")
        if self._settings.rel:
            marked = self._only_marked.get(response)
            if marked is None:
                marked = only_marked(response, self._settings.rel)
                self._only_marked[response] = marked
            return marked.get(canonicalize_url(request.url)) if marked else None
        return None


def _strip(request: Request) -> None:
    """Remove the indexing rules and usage preferences of a page from a request."""
    del request.meta[meta.INDEXING]
    request.meta.pop(meta.USAGE, None)


def _rules(response: Response) -> IndexingRules | None:
    # Without a request, response.meta raises AttributeError.
    if response.request is None:
        return None
    rules: IndexingRules | None = response.meta.get(meta.INDEXING)
    return rules
