"""The downloader middleware that reads what a response allows: to index it, to follow its
links, to use it for a purpose."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING

from scrapy.http import HtmlResponse
from scrapy.http.request import NO_CALLBACK
from w3lib.encoding import http_content_type_encoding

from scrapy_rep.base import meta, stats
from scrapy_rep.base.compat import is_for_pipeline, is_parse_command
from scrapy_rep.base.identity import Identity
from scrapy_rep.base.record import Subject, Verdict, forbidden
from scrapy_rep.base.settings import NOFOLLOW, NOINDEX, RepSettings
from scrapy_rep.crawl.decisions import DecisionReporter
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.crawl.pages.documents import has_document
from scrapy_rep.crawl.pages.effects import effects
from scrapy_rep.crawl.pages.parsecommand import warn_of_drops
from scrapy_rep.crawl.pages.usage import Purposes
from scrapy_rep.exceptions import FileDenied
from scrapy_rep.protocol.indexing.metatags import MAX_PAGE
from scrapy_rep.protocol.indexing.rules import IndexingRules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.base.record import Because
    from scrapy_rep.protocol.indexing.statements import Statement
    from scrapy_rep.protocol.usage.preferences import UsagePreferences

# The most statements of one response to report. A response can have a thousand.
_MAX_STATEMENTS = 100


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
        self._reporter = DecisionReporter.of(crawler)
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
        if not self._settings.dry_run:
            if not rules.index:
                response.flags.append(meta.NOINDEX_FLAG)
            if not rules.follow:
                response.flags.append(meta.NOFOLLOW_FLAG)
        if self._settings.ledger is not None:
            self.report(request, response, rules, preferences)
        if is_parse_command(self._crawler):
            # The engine sets this, but only after all middlewares.
            response.request = request
            found = effects(
                self._settings,
                response,
                rules,
                preferences,
                self._purposes.purposes_of(request),
                is_exempt=bool(request.meta.get(meta.DONT_OBEY_NOINDEX)),
            )
            warn_of_drops(self._crawler, response, found, self._settings.rel)
        if request.callback is NO_CALLBACK:
            self._judge_file(request, response, rules, preferences)
        return response

    def _read(
        self, request: Request, response: Response
    ) -> tuple[IndexingRules, UsagePreferences]:
        html, encoding = b"", None
        if isinstance(response, HtmlResponse):
            html = response.body
            if len(html) > MAX_PAGE:
                self._crawler.stats.inc_value(stats.PAGE_TOO_LONG)
            encoding = _declared_encoding(response.headers.get(b"Content-Type"))
        rules = IndexingRules.parse(
            response.headers.getlist(b"X-Robots-Tag"),
            html,
            self._identity.tokens(request),
            self._settings.dialect,
            encoding,
        )
        return rules, self._purposes.read(request, response.headers, rules)

    # For the ledger.

    def report(
        self,
        request: Request,
        response: Response,
        rules: IndexingRules,
        preferences: UsagePreferences,
    ) -> None:
        """Report what a response states, and what of it the user of the crawler overrides.

        Most statements allow everything, so they are reported only at the ledger's level
        ``"all"``. Those of data that deny something always are: they have no effect.
        """
        stated = partial(
            self._reporter.stated, Subject.PAGE, request=request, response=response
        )
        has_all = self._settings.ledger_level == "all"
        is_data = not has_document(response)
        denies = not rules.index or not rules.follow or bool(rules.unavailable_after)
        if has_all or (denies and is_data):
            known = (each for each in rules.statements if each.known)
            for each in islice(known, _MAX_STATEMENTS):
                stated(Verdict.NOTED, "data" if is_data else each.name, each)
        if denies and not is_data:
            for reason, because in self._overridden(request, rules):
                stated(Verdict.ALLOWED, reason, because)
        if has_all:
            for one in preferences.statements[:_MAX_STATEMENTS]:
                stated(Verdict.NOTED, one.category or str(one.signal), one)

    def _overridden(
        self, request: Request, rules: IndexingRules
    ) -> Iterator[tuple[str, Statement | None]]:
        """Yield each setting or meta key by which the user overrides a statement of a page, and
        the statement.
        """
        settings, rule = self._settings, _why_not_indexable(rules)
        if rule and request.meta.get(meta.DONT_OBEY_NOINDEX):
            yield meta.DONT_OBEY_NOINDEX, rules.because(rule)
        elif rule and settings.noindex == "ignore":
            yield NOINDEX, rules.because(rule)
        if not rules.follow and settings.nofollow == "ignore":
            yield NOFOLLOW, rules.because("nofollow")

    # Media.

    def _judge_file(
        self,
        request: Request,
        response: Response,
        rules: IndexingRules,
        preferences: UsagePreferences,
    ) -> None:
        """Raise FileDenied, for the media pipeline, if the file must not be indexed or used. In a
        dry run, only report it.

        A page is a file only for a media pipeline: a callback or a component may await one itself.
        """
        denial = self._denial_of_file(request, response, rules, preferences)
        if denial is None:
            return
        is_page = isinstance(response, HtmlResponse)
        if is_page and not is_for_pipeline(self._crawler, request):
            return
        reason, because = denial
        record = self._reporter.stated(
            Subject.FILE,
            Verdict.DROPPED,
            reason,
            because,
            request=request,
            response=response,
            url=request.url,
        )
        if not self._settings.dry_run:
            raise FileDenied(f"{response.url} {forbidden(reason, because)}", record)

    def _denial_of_file(
        self,
        request: Request,
        response: Response,
        rules: IndexingRules,
        preferences: UsagePreferences,
    ) -> tuple[str, Because] | None:
        """Return the rule or the purpose that denies a file, and the statement."""
        is_image = _is_image(response)
        if (
            self._settings.noindex == "drop"
            and not request.meta.get(meta.DONT_OBEY_NOINDEX)
            and has_document(response)
        ):
            if not rules.index:
                return "noindex", rules.because("noindex")
            if not rules.image_index and is_image:
                return "noimageindex", rules.because("noimageindex")
        if self._settings.usage == "drop":
            denial = self._purposes.denial(request, preferences, image=is_image)
            if denial is not None:
                return denial.purpose, denial.statement
        return None


def _why_not_indexable(rules: IndexingRules) -> str:
    return rules.why_not_indexable(datetime.now(timezone.utc))


def _is_image(response: Response) -> bool:
    content_type: bytes = response.headers.get(b"Content-Type") or b""
    return content_type.startswith(b"image/")


# A site uses few different Content-Type values.
@lru_cache(maxsize=256)
def _declared_encoding(content_type: bytes | None) -> str | None:
    return http_content_type_encoding((content_type or b"").decode("latin-1"))
