"""What a site states about the use of its content, for each request of a crawl, and what follows."""

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
    from scrapy.http import Headers, Response

    from scrapy_rep.base.effects import Effects
    from scrapy_rep.protocol.access.entries import CacheEntry
    from scrapy_rep.protocol.access.site_rules import SiteRules
    from scrapy_rep.protocol.indexing.rules import IndexingRules
    from scrapy_rep.protocol.robots import RobotsTxt

_FIELDS = frozenset(name.title().encode() for name in FIELDS)
"""The header fields about use, as Scrapy stores their names."""


class _Stated(NamedTuple):
    """The usage preferences for a URL in robots.txt and tdmrep.json when it was requested."""

    robotstxt: UsagePreferences = NOTHING_STATED
    tdmrep: UsagePreferences = NOTHING_STATED
    entry: CacheEntry | None = None
    """The cache entry of robots.txt."""


_NOTHING = _Stated()


class SiteUsage:
    """The purposes of each request, and what its site stated about them when it was sent. The files
    as they were then apply to the response.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._settings = RepSettings.of(crawler)
        self._stated: WeakKeyDictionary[Request, _Stated] = WeakKeyDictionary()
        self._has_stated = False
        """Whether any site has stated something: most crawls need not look each request up."""

    @classmethod
    def of(cls, crawler: Crawler) -> SiteUsage:
        """The instance that the components of a crawl share."""
        return shared_component(crawler, cls)

    def purposes_of(self, request: Request) -> tuple[str, ...]:
        """The purposes of the response to *request*. Raises ValueError if the value of its
        meta key is neither a purpose nor a list of purposes.
        """
        own = request.meta.get(meta.PURPOSES)
        if own is None:
            return self._settings.purposes
        names = [own] if isinstance(own, str) else own
        if not isinstance(names, (list, tuple)) or not CATEGORIES.keys() >= set(names):
            allowed = ", ".join(CATEGORIES)
            raise ValueError(
                f"meta[{meta.PURPOSES!r}] is {own!r}, but it must be one or a list of {allowed}"
            )
        return tuple(names)

    def note(
        self,
        request: Request,
        robots: RobotsTxt,
        known: SiteRules | None,
        tokens: tuple[str, ...],
    ) -> None:
        """Record the preferences of the site for the URL of *request*, which is about to be
        sent, by what is *known* of it, for a crawler with the product *tokens*; *robots* may be of an
        override. Records nothing if the site cannot state preferences.
        """
        entry, tdmrep = (known.entry, known.tdmrep) if known else (None, None)
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
        self._stated[request] = _Stated(preferences, mining, entry)
        self._has_stated = True

    def take_over(self, request: Request, other: Request) -> None:
        """Replace what was recorded for *request* by what was recorded for *other*."""
        if not self._has_stated:
            return
        self._stated.pop(request, None)
        found = self._stated.pop(other, None)
        if found is not None:
            self._stated[request] = found

    def read(
        self, request: Request, headers: Headers, rules: IndexingRules
    ) -> UsagePreferences:
        """The preferences for a response, from its site and its own headers and tags."""
        of_site = self._stated.get(request, _NOTHING) if self._has_stated else _NOTHING
        is_silent = not (rules.statements or rules.tags) and _FIELDS.isdisjoint(headers)
        if is_silent and of_site is _NOTHING:
            return NOTHING_STATED
        fields = [
            (name.decode().lower(), value)
            for name in headers
            if name in _FIELDS
            for value in headers.getlist(name)
        ]
        return of_site.robotstxt | UsagePreferences.of_page(
            fields, rules.statements, rules.tags, of_site.tdmrep
        )

    def effects_of(self, request: Request, response: Response) -> Effects:
        """The effects of what IndexingMiddleware has read in *response*, the answer to *request*."""
        purposes, own_meta = self._settings.purposes, request.meta
        if meta.PURPOSES in own_meta:
            purposes = self.purposes_of(request)
        stated = stated_by(response)
        rules, preferences = (None, NOTHING_STATED) if stated is None else stated
        return effects(
            self._settings,
            response,
            rules,
            preferences,
            purposes,
            is_exempt=bool(own_meta.get(meta.DONT_OBEY_NOINDEX)),
        )

    def entry(self, request: Request | None) -> CacheEntry | None:
        """The cache entry of robots.txt for *request*; None if :meth:`note` recorded none."""
        if request is None or not self._has_stated:
            return None
        return self._stated.get(request, _NOTHING).entry
