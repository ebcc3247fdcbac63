"""The downloader middleware that reads the indexing rules and usage preferences of each response. It adds flags to
responses that must not be indexed or whose links must not be followed. It also keeps media pipelines from getting files
that must not be indexed or used.
"""

from __future__ import annotations

from datetime import datetime, timezone
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from scrapy.http import HtmlResponse
from scrapy.http.request import NO_CALLBACK
from w3lib.encoding import http_content_type_encoding

from scrapy_rep.base import meta, stats
from scrapy_rep.base.compat import is_parse_command
from scrapy_rep.base.effects import has_document, is_success
from scrapy_rep.base.identity import Identity
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.records import forbidden
from scrapy_rep.base.settings import NOFOLLOW, NOINDEX, RepSettings
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.crawl.pages.stated import note
from scrapy_rep.crawl.pages.usage import SiteUsage
from scrapy_rep.crawl.reporting import DecisionReporter
from scrapy_rep.exceptions import FileDenied
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.indexing.statements import MAX_PAGE
from scrapy_rep.record import Subject, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.base.effects import Effects
    from scrapy_rep.protocol.indexing.statements import Statement
    from scrapy_rep.protocol.usage.preferences import UsagePreferences


# The maximum number of statements of one response to write to the ledger. A hostile page can contain a thousand.
_MAX_STATEMENTS = 100


class IndexingMiddleware:
    """Reads the indexing rules and usage preferences of each response.

    Spiders get the rules from :func:`scrapy_rep.indexing_rules`, and the preferences from
    :func:`scrapy_rep.usage_preferences`. For a response with a 2xx status, the middleware also adds flags to
    ``response.flags``: ``"noindex"`` if the response must not be indexed, and ``"nofollow"`` if its links must
    not be followed.
    """

    ORDER = 545
    """The order in ``DOWNLOADER_MIDDLEWARES``. Scrapy calls ``process_response`` in descending order. So this
    middleware gets bodies that HttpCompressionMiddleware (590) has decompressed. Responses that RedirectMiddleware
    (600), MetaRefreshMiddleware (580) or RetryMiddleware (550) has replaced by a new request do not reach this
    middleware."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._settings = settings = RepSettings.of(crawler)
        self._identity = Identity.of(crawler)
        self._reporter = DecisionReporter.of(crawler)
        self._usage = SiteUsage.of(crawler)
        self._has_ledger = settings.ledger is not None
        self._is_parse_command = is_parse_command(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> IndexingMiddleware:
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Response:
        if isinstance(request, RobotsTxtRequest):
            return response
        rules = self._rules_of(request, response)
        preferences = self._usage.preferences_of(request, response, rules)
        note(request, response, (rules, preferences))
        if rules.statements or preferences.statements:
            self._set_flags(response, rules)
            if self._has_ledger:
                self._report(request, response, rules, preferences)
        if self._is_parse_command:
            self._warn_of_drops(request, response)
        if request.callback is NO_CALLBACK:
            self._judge_file(request, response)
        return response

    def _rules_of(self, request: Request, response: Response) -> IndexingRules:
        """Return the indexing rules of *response*. They come from its ``X-Robots-Tag`` headers and, if *response* is
        HTML, also from its meta tags.
        """
        headers, html, encoding = response.headers, b"", None
        lines = headers.getlist(b"X-Robots-Tag")
        if isinstance(response, HtmlResponse):
            html = response.body
            if len(html) > MAX_PAGE:
                self._crawler.stats.inc_value(stats.PAGE_TOO_LONG)
            content_type = headers.get(b"Content-Type") or b""
            encoding = http_content_type_encoding(content_type.decode("latin-1"))
        tokens, dialect = self._identity.tokens(request), self._settings.dialect
        return IndexingRules.of_page(lines, html, tokens, dialect, encoding)

    def _set_flags(self, response: Response, rules: IndexingRules) -> None:
        """Add the flag ``"noindex"`` to *response* if *rules* forbid indexing, and the flag ``"nofollow"`` if *rules*
        forbid following links. Add no flags in a dry run, or if the status of *response* is not 2xx.
        """
        if self._settings.dry_run or not is_success(response):
            return
        if not rules.index:
            response.flags.append(meta.NOINDEX_FLAG)
        if not rules.follow:
            response.flags.append(meta.NOFOLLOW_FLAG)

    # Reports to the ledger.

    def _report(
        self,
        request: Request,
        response: Response,
        rules: IndexingRules,
        preferences: UsagePreferences,
    ) -> None:
        """Report the indexing rules and usage preferences of *response* to the ledger: at most :data:`_MAX_STATEMENTS`
        rules, and the same number of preferences.

        At the ledger level ``"denied"``, preferences are not reported. Rules are reported only if they forbid
        something, but have no effect. There are two reasons for this:

        - *response* is not a document (but JSON, for example), or has a status other than 2xx.
        - A setting, or a meta key such as ``dont_obey_noindex``, overrides the rules.
        """
        report = partial(
            self._reporter.stated,
            Subject.PAGE,
            request=request,
            response=response,
            entry=self._usage.entry(request),
        )
        # Rules with an effect are not reported here at the level "denied": other methods report the items, links and
        # files that are dropped because of them.
        has_all = self._settings.ledger_level == "all"
        no_effect = ""
        if not is_success(response):
            no_effect = "no-page"
        elif not has_document(response):
            no_effect = "data"
        denies = not rules.index or not rules.follow or bool(rules.unavailable_after)
        if has_all or (denies and no_effect):
            in_vocabulary = (rule for rule in rules.statements if rule.known)
            for rule in islice(in_vocabulary, _MAX_STATEMENTS):
                report(Verdict.NOTED, no_effect or rule.name, rule)
        if denies and not no_effect:
            for reason, because in self._overridden(request, rules):
                report(Verdict.ALLOWED, reason, because)
        if has_all:
            for usage in preferences.statements[:_MAX_STATEMENTS]:
                report(Verdict.NOTED, usage.category or str(usage.signal), usage)

    def _overridden(
        self, request: Request, rules: IndexingRules
    ) -> Iterator[tuple[str, Statement | None]]:
        """Yield a pair for each setting or meta key that overrides *rules* for *request*: its name, and the overridden
        statement. For example, the pair for ``REP_NOINDEX = "ignore"`` is ``"REP_NOINDEX"`` and the statement
        ``noindex``.
        """
        # The statement is never None here: because() returns None only if no statement of the page has caused the rule.
        rule = rules.why_not_indexable(datetime.now(timezone.utc))
        if rule and request.meta.get(meta.DONT_OBEY_NOINDEX):
            yield meta.DONT_OBEY_NOINDEX, rules.because(rule)
        elif rule and self._settings.noindex == "ignore":
            yield NOINDEX, rules.because(rule)
        if not rules.follow and self._settings.nofollow == "ignore":
            yield NOFOLLOW, rules.because("nofollow")

    # Warnings for ``scrapy parse``.

    def _warn_of_drops(self, request: Request, response: Response) -> None:
        """Warn the user of ``scrapy parse`` about the items and links of *response* that a crawl would drop.
        ``scrapy parse`` shows these items and links, because it does not pass the output of callbacks to the spider
        middlewares.
        """
        effects = self._usage.effects_of(request, response)
        rels = self._settings.rel if is_success(response) else frozenset()
        dropped = "; ".join(_drops(effects, rels))
        if dropped:
            CrawlLog(__name__, self._crawler).warning(
                "scrapy parse shows all items and links of %(url)s, but a crawl would drop "
                "%(dropped)s",
                url=response.url,
                dropped=dropped,
            )

    # Files of media pipelines.

    def _judge_file(self, request: Request, response: Response) -> None:
        """Raise FileDenied if *response* is a file that must not be indexed, or must not be used for a purpose of the
        crawl. The decision is also reported. In a dry run, it is only reported.

        *request* has the callback NO_CALLBACK, like all requests of media pipelines for files. Nothing is done for HTML
        responses, since these are pages that other components request with NO_CALLBACK.
        """
        if isinstance(response, HtmlResponse):
            return
        effects = self._usage.effects_of(request, response)
        denied = effects.items or (effects.images if _is_image(response) else None)
        if denied is None:
            return
        record = self._reporter.stated(
            Subject.FILE,
            Verdict.DROPPED,
            *denied,
            request=request,
            response=response,
            url=request.url,
            entry=self._usage.entry(request),
        )
        if not self._settings.dry_run:
            raise FileDenied(f"{response.url} {forbidden(*denied)}", record)


def _drops(effects: Effects, rels: frozenset[str]) -> Iterator[str]:
    """Yield phrases for a message. Each phrase says what a crawl would drop from a page (items, images or links), and
    why. *effects* are the effects of the page's indexing rules and usage preferences. *rels* are the values of the
    ``rel`` attribute with which links are dropped.
    """
    if effects.items is not None:
        yield f"its items, which {forbidden(*effects.items)}"
    elif effects.images is not None:
        yield f"the images of its items, which {forbidden(*effects.images)}"
    if effects.links is not None:
        yield f"its links, which must not be followed: {effects.links}"
    elif rels:
        yield f"links with rel={', '.join(sorted(rels))}"


def _is_image(response: Response) -> bool:
    content_type: bytes = response.headers.get(b"Content-Type") or b""
    return content_type.startswith(b"image/")
