"""Keeps the usage preferences of sites for each request in flight, combines them with the preferences of the
response, and returns the effects of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from scrapy_rep.base import meta
from scrapy_rep.base.compat import shared_component
from scrapy_rep.base.effects import effects
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.pages.stated import stated_by
from scrapy_rep.protocol.request_target import forms
from scrapy_rep.protocol.usage.preferences import (
    FIELDS,
    NOTHING_STATED,
    UsagePreferences,
)
from scrapy_rep.protocol.usage.statements import CATEGORIES

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.base.effects import Effects
    from scrapy_rep.protocol.access.entries import CacheEntry
    from scrapy_rep.protocol.access.site_rules import SiteRules
    from scrapy_rep.protocol.indexing.rules import IndexingRules
    from scrapy_rep.protocol.robots import RobotsTxt

_HEADER_FIELDS = frozenset(name.title().encode() for name in FIELDS)
"""The names of the header fields with usage preferences, spelt as in Scrapy's Headers."""


class _SitePreferences(NamedTuple):
    """The usage preferences that robots.txt and tdmrep.json stated for a URL when it was requested."""

    robotstxt: UsagePreferences = NOTHING_STATED
    tdmrep: UsagePreferences = NOTHING_STATED
    entry: CacheEntry | None = None
    """The cache entry of the robots.txt, as evidence for the ledger."""


_NO_SITE_PREFERENCES = _SitePreferences()


class SiteUsage:
    """Keeps the usage preferences of a site for each request in flight, as they were when the request was
    sent, and combines them with the preferences that the response states.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._settings = RepSettings.of(crawler)
        self._by_request: WeakKeyDictionary[Request, _SitePreferences] = (
            WeakKeyDictionary()
        )

    @classmethod
    def of(cls, crawler: Crawler) -> SiteUsage:
        """Return the SiteUsage that all components of a crawl share."""
        return shared_component(crawler, cls)

    def purposes_of(self, request: Request) -> tuple[str, ...]:
        """Return the purposes for which the response to *request* is used: those in its ``rep_purposes`` meta
        key, or those of the setting. Raises ValueError if the meta key has neither a purpose nor a list of
        purposes.
        """
        value = request.meta.get(meta.PURPOSES)
        if value is None:
            return self._settings.purposes
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, (list, tuple)) or not CATEGORIES.keys() >= set(names):
            allowed = ", ".join(CATEGORIES)
            raise ValueError(
                f"meta[{meta.PURPOSES!r}] is {value!r}, but it must be one of {allowed}, or a list of these"
            )
        return tuple(names)

    def note(
        self,
        request: Request,
        robots: RobotsTxt,
        rules: SiteRules | None,
        tokens: tuple[str, ...],
    ) -> None:
        """Keep the usage preferences of a site for the URL of *request*, which is about to be sent. Nothing is
        kept for a site that states none.

        :param robots: the robots.txt of the site, or the one that an override puts in its place
        :param rules: the rules of the site; None if an override decides
        :param tokens: the product tokens of the crawler
        """
        entry, tdmrep = (rules.entry, rules.tdmrep) if rules else (None, None)
        if tdmrep is None and not robots.may_state_usage:
            return
        urls = forms(request.url, self._settings.clients)
        preferences = NOTHING_STATED
        for url in urls:
            preferences |= robots.usage(url, tokens)
        mining = NOTHING_STATED
        if tdmrep is not None:
            for url in urls:
                mining |= tdmrep.usage(url)
        self._by_request[request] = _SitePreferences(preferences, mining, entry)

    def take_over(self, request: Request, other: Request) -> None:
        """Move the preferences that were kept for *other* to *request*, which takes its place."""
        self._by_request.pop(request, None)
        preferences = self._by_request.pop(other, None)
        if preferences is not None:
            self._by_request[request] = preferences

    def preferences_of(
        self, request: Request, response: Response, rules: IndexingRules
    ) -> UsagePreferences:
        """Return the usage preferences for *response*: those of its site, and those in its headers and meta
        tags. The meta tags come from *rules*, the indexing rules, for which the page was parsed already.
        """
        headers, site = response.headers, self._site_preferences(request)
        fields = [
            (name.decode().lower(), value)
            for name in headers
            if name in _HEADER_FIELDS
            for value in headers.getlist(name)
        ]
        if site is _NO_SITE_PREFERENCES and not (
            fields or rules.statements or rules.tags
        ):
            return NOTHING_STATED  # As for most pages: without this, each page takes six more calls.
        return site.robotstxt | UsagePreferences.of_page(
            fields, rules.statements, rules.tags, site.tdmrep
        )

    def effects_of(self, request: Request, response: Response) -> Effects:
        """Return the effects of the indexing rules and usage preferences of *response*, the answer to
        *request*. A response that IndexingMiddleware has not read has no effects.
        """
        purposes, request_meta = self._settings.purposes, request.meta
        if meta.PURPOSES in request_meta:
            purposes = self.purposes_of(request)
        stated = stated_by(response)
        rules, preferences = (None, NOTHING_STATED) if stated is None else stated
        return effects(
            self._settings,
            response,
            rules,
            preferences,
            purposes,
            is_exempt=bool(request_meta.get(meta.DONT_OBEY_NOINDEX)),
        )

    def entry(self, request: Request | None) -> CacheEntry | None:
        """Return the cache entry of the robots.txt that stated preferences for *request*; None if no
        robots.txt did.
        """
        return None if request is None else self._site_preferences(request).entry

    def _site_preferences(self, request: Request) -> _SitePreferences:
        return self._by_request.get(request, _NO_SITE_PREFERENCES)
