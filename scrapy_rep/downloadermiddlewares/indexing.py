"""The downloader middleware that reads what a response allows: to index it, to follow its
links, to use it for a purpose."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy.http import HtmlResponse
from scrapy.http.request import NO_CALLBACK
from w3lib.encoding import http_content_type_encoding

from scrapy_rep import meta, stats
from scrapy_rep.compat.versions import is_parse_command
from scrapy_rep.exceptions import IndexingDenied, MediaUsageDenied
from scrapy_rep.fetching.identity import Identity
from scrapy_rep.fetching.request import RobotsTxtRequest
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.responses.documents import has_document
from scrapy_rep.responses.parsecommand import warn_of_drops
from scrapy_rep.responses.purposes import Purposes
from scrapy_rep.settings import RepSettings
from scrapy_rep.signals import indexing_read, media_refused, usage_read

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.protocol.indexing.statements import Statement
    from scrapy_rep.protocol.usage.preferences import UsagePreferences
    from scrapy_rep.protocol.usage.statements import UsageStatement


class IndexingMiddleware:
    """Reads the indexing rules and usage preferences of each response.

    They are in ``response.meta["rep_indexing"]`` and ``response.meta["rep_usage"]``.
    ``response.flags`` has ``"noindex"`` and ``"nofollow"`` if the rules say so.
    """

    ORDER = 545
    """Scrapy calls ``process_response`` in descending order: after HttpCompressionMiddleware
    (590), which decompresses bodies, and after RedirectMiddleware (600),
    MetaRefreshMiddleware (580) and RetryMiddleware (550), which replace responses."""

    def __init__(self, crawler: Crawler) -> None:
        settings = RepSettings.of(crawler)
        self._crawler = crawler
        self._settings = settings
        self._identity = Identity.of(crawler)
        self._purposes = Purposes.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> IndexingMiddleware:
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Response:
        if isinstance(request, RobotsTxtRequest):
            return response
        rules, preferences = self._read(request, response)
        request.meta[meta.INDEXING] = rules
        request.meta[meta.USAGE] = preferences
        if not rules.index:
            response.flags.append(meta.NOINDEX_FLAG)
        if not rules.follow:
            response.flags.append(meta.NOFOLLOW_FLAG)
        if self._settings.ledger is not None:
            self._send_signals(request, response, rules, preferences)
        if is_parse_command(self._crawler):
            denial = self._purposes.denial(request, preferences)
            # The engine sets this, but only after all middlewares.
            response.request = request
            warn_of_drops(self._crawler, response, rules, denial)
        if request.callback is NO_CALLBACK:
            if self._settings.noindex == "drop" and has_document(response):
                self._refuse_media(request, response, rules)
            if self._settings.usage == "drop":
                self._refuse_use_of_media(request, response, preferences)
        return response

    def _read(
        self, request: Request, response: Response
    ) -> tuple[IndexingRules, UsagePreferences]:
        html, encoding = b"", None
        if isinstance(response, HtmlResponse):
            html = response.body
            encoding = _declared_encoding(response.headers.get(b"Content-Type"))
        rules = IndexingRules.parse(
            response.headers.getlist(b"X-Robots-Tag"),
            html,
            self._identity.tokens(request),
            self._settings.dialect,
            encoding,
        )
        return rules, self._purposes.read(request, response.headers, rules)

    def _send_signals(
        self,
        request: Request,
        response: Response,
        rules: IndexingRules,
        preferences: UsagePreferences,
    ) -> None:
        """Send the signals that the ledger records. Most pages with rules allow everything;
        the ledger records these only at the level ``"all"``.
        """
        has_all = self._settings.ledger_level == "all"
        denies = not rules.index or not rules.follow or bool(rules.unavailable_after)
        common = {
            "request": request, "response": response, "spider": self._crawler.spider
        }  # fmt: skip
        if rules.statements and (has_all or denies):
            self._crawler.signals.send_catch_log(indexing_read, rules=rules, **common)
        if preferences and has_all:
            entry = self._purposes.entry(request)
            self._crawler.signals.send_catch_log(
                usage_read, preferences=preferences, entry=entry, **common
            )

    # Media.

    def _refuse_media(
        self, request: Request, response: Response, rules: IndexingRules
    ) -> None:
        """Raise IndexingDenied, for the media pipeline, if the file must not be indexed."""
        if not rules.index:
            rule = "noindex"
        elif not rules.image_index and _is_image(response):
            rule = "noimageindex"
        else:
            return
        if request.meta.get(meta.DONT_OBEY_NOINDEX):
            return
        self._crawler.stats.inc_value(stats.MEDIA_REFUSED.format(rule=rule))
        self._send_refusal(request, response, rule, rules.because(rule))
        raise IndexingDenied(f"{response.url} must not be indexed: {rule}", rules)

    def _refuse_use_of_media(
        self, request: Request, response: Response, preferences: UsagePreferences
    ) -> None:
        """Raise MediaUsageDenied if a purpose of the crawl must not use the file."""
        is_image = _is_image(response)
        denial = self._purposes.denial(request, preferences, image=is_image)
        if denial is None:
            return
        purpose = denial.purpose
        self._crawler.stats.inc_value(stats.USAGE_MEDIA.format(purpose=purpose))
        self._send_refusal(request, response, purpose, denial.statement)
        raise MediaUsageDenied(response.url, denial)

    def _send_refusal(
        self,
        request: Request,
        response: Response,
        reason: str,
        statement: Statement | UsageStatement | None,
    ) -> None:
        self._crawler.signals.send_catch_log(
            media_refused,
            url=request.url,
            request=request,
            response=response,
            reason=reason,
            statement=statement,
            entry=self._purposes.entry(request),
            spider=self._crawler.spider,
        )


def _is_image(response: Response) -> bool:
    content_type: bytes = response.headers.get(b"Content-Type") or b""
    return content_type.startswith(b"image/")


# A site uses few different Content-Type values.
@lru_cache(maxsize=256)
def _declared_encoding(content_type: bytes | None) -> str | None:
    return http_content_type_encoding((content_type or b"").decode("latin-1"))
