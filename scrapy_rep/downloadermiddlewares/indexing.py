"""What may I do with this response?"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import NotConfigured, StopDownload
from scrapy.http import HtmlResponse
from scrapy.http.request import NO_CALLBACK
from w3lib.encoding import http_content_type_encoding

from scrapy_rep import meta, stats
from scrapy_rep.exceptions import IndexingDenied
from scrapy_rep.fetching.request import RobotsTxtRequest
from scrapy_rep.identity import Identity
from scrapy_rep.protocol.indexing import IndexingRules
from scrapy_rep.refusedimages import RefusedImages
from scrapy_rep.settings import RepSettings
from scrapy_rep.signals import indexing_read, media_refused

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Headers, Response


class IndexingMiddleware:
    """Reads the indexing rules of each response, once, for all who want to know them.

    They are in ``response.meta["rep_indexing"]``, and in short in ``response.flags``.
    """

    ORDER = 545
    """Responses pass in descending order: after HttpCompressionMiddleware (590), when
    bodies can be read, and after MetaRefreshMiddleware (580), RedirectMiddleware (600)
    and RetryMiddleware (550), when it is certain that the response is the last."""

    def __init__(self, crawler: Crawler) -> None:
        settings = RepSettings.from_settings(crawler.settings)
        if not (settings.header_enabled or settings.meta_enabled):
            raise NotConfigured
        self._crawler = crawler
        self._settings = settings
        self._identity = Identity.of(crawler)
        self._refused_images = RefusedImages.of(crawler)
        if settings.stop_download:
            crawler.signals.connect(self._headers_received, signals.headers_received)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> IndexingMiddleware:
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Response:
        if isinstance(request, RobotsTxtRequest):
            return response
        rules = self._rules(request, response)
        request.meta[meta.INDEXING] = rules
        if not rules.index:
            response.flags.append(meta.NOINDEX_FLAG)
        if not rules.follow:
            response.flags.append(meta.NOFOLLOW_FLAG)
        if rules.statements and self._is_for_ledger(rules):
            self._crawler.signals.send_catch_log(
                indexing_read,
                request=request,
                response=response,
                rules=rules,
                spider=self._crawler.spider,
            )
        if request.callback is NO_CALLBACK and self._settings.noindex == "drop":
            self._refuse_media(request, response, rules)
        return response

    def _rules(self, request: Request, response: Response) -> IndexingRules:
        html, encoding = b"", None
        if self._settings.meta_enabled and isinstance(response, HtmlResponse):
            html = response.body
            encoding = _declared_encoding(response.headers.get(b"Content-Type"))
        return IndexingRules.parse(
            self._header(response.headers),
            html,
            self._identity.tokens(request),
            self._settings.dialect,
            encoding,
        )

    def _is_for_ledger(self, rules: IndexingRules) -> bool:
        """Whether a ledger needs to know: of most pages that say something, it is that
        all is allowed.
        """
        if self._settings.ledger is None:
            return False
        has_all = self._settings.ledger_level == "all"
        denies = not rules.index or not rules.follow or bool(rules.unavailable_after)
        return has_all or denies

    def _header(self, headers: Headers) -> list[bytes]:
        return headers.getlist(b"X-Robots-Tag") if self._settings.header_enabled else []

    def _refuse_media(
        self, request: Request, response: Response, rules: IndexingRules
    ) -> None:
        """Keep files that must not be in an index from the pipeline that asked for them."""
        if request.meta.get(meta.DONT_OBEY_NOINDEX):
            return
        content_type = response.headers.get(b"Content-Type") or b""
        if not rules.index:
            why, because = "noindex", (response.url, rules.because("noindex"))
        elif content_type.startswith(b"image/") and request.url in self._refused_images:
            why, because = "noimageindex", self._refused_images.because(request.url)
        else:
            return
        self._crawler.stats.inc_value(stats.MEDIA_REFUSED.format(rule=why))
        self._crawler.signals.send_catch_log(
            media_refused,
            request=request,
            response=response,
            reason=why,
            page_url=because[0],
            statement=because[1],
            spider=self._crawler.spider,
        )
        raise IndexingDenied(f"{response.url} is not for an index: {why}", rules)

    def _headers_received(self, headers: Headers, request: Request) -> None:
        """Stop a download of which nothing would be used."""
        field_values = headers.getlist(b"X-Robots-Tag")
        exemptions = {meta.DONT_OBEY_NOINDEX, meta.DONT_OBEY_NOFOLLOW}
        if not field_values or not exemptions.isdisjoint(request.meta):
            return
        if isinstance(request, RobotsTxtRequest):
            return
        rules = IndexingRules.parse(
            self._header(headers),
            agents=self._identity.tokens(request),
            dialect=self._settings.dialect,
        )
        if rules.index or rules.follow:
            return
        self._crawler.stats.inc_value(stats.STOPPED)
        length = headers.get("Content-Length")
        if length is not None and length.isdigit():
            self._crawler.stats.inc_value(stats.STOPPED_BYTES, int(length[:18]))
        raise StopDownload(fail=False)


# A site has few of them.
@lru_cache(maxsize=256)
def _declared_encoding(content_type: bytes | None) -> str | None:
    return http_content_type_encoding((content_type or b"").decode("latin-1"))
