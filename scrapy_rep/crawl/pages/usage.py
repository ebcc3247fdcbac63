"""Keeps the usage preferences that sites state in robots.txt and tdmrep.json, for each request in flight, and combines
them with the preferences that the response states. Also determines which effects the indexing rules and usage
preferences of a response have on items, images and links.
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
"""The names of the header fields that state usage preferences, spelt as in Scrapy's Headers."""


class _SitePreferences(NamedTuple):
    """The usage preferences that the robots.txt and the tdmrep.json of a site stated for a URL at the time of the
    request.
    """

    robotstxt: UsagePreferences = NOTHING_STATED
    tdmrep: UsagePreferences = NOTHING_STATED
    entry: CacheEntry | None = None
    """The cache entry of the robots.txt, which the ledger records as evidence. None if an override replaced the
    robots.txt, or if the site stated no usage preferences."""


_NO_SITE_PREFERENCES = _SitePreferences()


class SiteUsage:
    """Keeps, for each request in flight, the usage preferences that its site stated when the request was sent. Combines
    these preferences with those that the response states.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._settings = RepSettings.of(crawler)
        self._by_request: WeakKeyDictionary[Request, _SitePreferences] = (
            WeakKeyDictionary()
        )

    @classmethod
    def of(cls, crawler: Crawler) -> SiteUsage:
        """Return the instance that all components of a crawl share."""
        return shared_component(crawler, cls)

    def purposes_of(self, request: Request) -> tuple[str, ...]:
        """Return the purposes for which the crawl uses the response to *request*. They come from the meta key
        ``rep_purposes`` of *request* or, if *request* does not have this key, from the setting ``REP_PURPOSES``. Raises
        ValueError if the value of the meta key is neither a purpose nor a list of purposes.
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
        """Keep the usage preferences that a site states for the URL of *request*. They are combined with those of the
        response when the response arrives. Nothing is kept for a site without usage preferences.

        :param robots: the robots.txt of the site, or the rules of the override that replaces this robots.txt
        :param rules: the robots.txt and tdmrep.json of the site; None if an override replaces the robots.txt
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
        """Move the site's usage preferences that are kept for *other* to *request*. They replace those that were kept
        for *request*. The gate calls this if the download handler has followed a redirect of *request*: *other* is then
        a request for the URL to which the redirect led.
        """
        self._by_request.pop(request, None)
        preferences = self._by_request.pop(other, None)
        if preferences is not None:
            self._by_request[request] = preferences

    def preferences_of(
        self, request: Request, response: Response, rules: IndexingRules
    ) -> UsagePreferences:
        """Return the usage preferences for *response*, the response to *request*. They come from its site, its headers
        and its meta tags. *rules* are the indexing rules of *response*. The object *rules* also contains the parsed
        meta tags.
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
            return NOTHING_STATED  # Saves six function calls for most pages.
        return site.robotstxt | UsagePreferences.of_page(
            fields, rules.statements, rules.tags, site.tdmrep
        )

    def effects_of(self, request: Request, response: Response) -> Effects:
        """Return how the indexing rules and usage preferences of *response* affect its items, images and links.
        *request* is the request for *response*. If IndexingMiddleware did not read *response*, the result is the same
        as for a response without indexing rules and usage preferences. Raises ValueError if the meta key
        ``rep_purposes`` of *request* is invalid.
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
        """Return the cache entry of the robots.txt that applied to *request*. The ledger records this robots.txt as the
        evidence for usage preferences. Return None if *request* is None, an override replaced the robots.txt, or the
        site stated no usage preferences.
        """
        return None if request is None else self._site_preferences(request).entry

    def _site_preferences(self, request: Request) -> _SitePreferences:
        return self._by_request.get(request, _NO_SITE_PREFERENCES)
