"""Decides which effects the statements of a response have on its items, images and links."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from scrapy.http import HtmlResponse, JsonResponse, TextResponse, XmlResponse

from scrapy_rep.protocol.indexing.rules import is_document
from scrapy_rep.protocol.request_target import is_robotstxt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from scrapy.http import Headers, Response

    from scrapy_rep.base.records import Because
    from scrapy_rep.base.settings import RepSettings
    from scrapy_rep.protocol.indexing.rules import IndexingRules
    from scrapy_rep.protocol.indexing.statements import Statement
    from scrapy_rep.protocol.usage.preferences import UsagePreferences

    # The rule or the purpose because of which something is denied, and the statement that denies it.
    Denied: TypeAlias = tuple[str, Because]

_TYPES_OF_CLASSES = (
    (HtmlResponse, "text/html"),
    (XmlResponse, "application/xml"),
    (JsonResponse, "application/json"),
    (TextResponse, "text/plain"),
)


class Effects(NamedTuple):
    """The effects of the statements of a response, under the settings of a crawl."""

    items: Denied | None = None
    """Why items are dropped; None if they are kept."""

    images: Denied | None = None
    """Why the URLs of images are removed from items; None if they are kept."""

    links: Statement | None = None
    """The statement because of which links are not followed; None if they are followed."""

    noted: tuple[Denied, ...] = ()
    """The denials that are only written into items, so that nothing is dropped."""

    restrictions: dict[str, bool | int | str] | None = None
    """The indexing rules to write into items; None if no rule restricts them, or if nothing is written."""

    usage: dict[str, dict[str, bool]] | None = None
    """The purposes that are disallowed, as written into items; None if none is, or if nothing is written."""

    is_expiring: bool = False
    """Whether the page has an ``unavailable_after`` in the future."""


NO_EFFECT = Effects()
"""The effects of most responses: nothing is withheld or annotated."""


def effects(
    settings: RepSettings,
    response: Response,
    rules: IndexingRules | None,
    preferences: UsagePreferences,
    purposes: Sequence[str],
    *,
    is_exempt: bool = False,
) -> Effects:
    """Return the effects of the indexing *rules* and usage *preferences* of *response*.

    *rules* are None for a response that no middleware has read. *purposes* are those of the crawl,
    or of the request. *is_exempt* says whether the request is exempt from noindex.
    """
    result = NO_EFFECT
    if rules is None:
        pass
    elif settings.noindex == "annotate":
        result = _annotation(settings, response, rules, is_exempt=is_exempt)
    elif (
        not (rules.index and rules.follow and rules.image_index)
        or rules.unavailable_after is not None
    ):
        result = _of_rules(settings, response, rules, is_exempt=is_exempt)
    if not purposes or settings.usage == "ignore":
        return result

    def denied(names: Sequence[str], *, image: bool = False) -> Denied | None:
        unknown = settings.usage_unknown
        return preferences.denial(names, unknown=unknown, image=image)

    if settings.usage == "drop":
        items, images = denied(purposes), denied(purposes, image=True)
        if items is None and images is None:
            return result
        return result._replace(
            items=result.items or items, images=result.images or images
        )
    of_page = {name: False for name in purposes if denied([name])}
    of_images = {
        name: False
        for name in purposes
        if name not in of_page and denied([name], image=True)
    }
    usage = {"usage": of_page, "usage_of_images": of_images}
    usage = {name: values for name, values in usage.items() if values}
    if not usage:
        return result
    noted = tuple(filter(None, (*result.noted, denied(purposes))))
    return result._replace(noted=noted, usage=usage)


def _annotation(
    settings: RepSettings, response: Response, rules: IndexingRules, *, is_exempt: bool
) -> Effects:
    """Return the effects of *rules* if ``REP_NOINDEX`` is ``"annotate"``: items are marked, not dropped."""
    restrictions = rules.restrictions()
    if not restrictions or not is_success(response):
        return NO_EFFECT
    links = _denied_links(settings, response, rules)
    if is_exempt:
        return Effects(links=links)
    now = datetime.now(timezone.utc)
    reason = rules.why_not_indexable(now)
    return Effects(
        links=links,
        noted=((reason, rules.because(reason)),) if reason else (),
        restrictions=restrictions,
        is_expiring=_is_expiring(rules, now),
    )


def _of_rules(
    settings: RepSettings, response: Response, rules: IndexingRules, *, is_exempt: bool
) -> Effects:
    """Return the effects of *rules* if ``REP_NOINDEX`` is ``"drop"`` or ``"ignore"``."""
    if not is_success(response):
        return NO_EFFECT
    links = _denied_links(settings, response, rules)
    if is_exempt or settings.noindex != "drop" or not has_document(response):
        return Effects(links=links)
    now = datetime.now(timezone.utc)
    reason = rules.why_not_indexable(now)
    items = (reason, rules.because(reason)) if reason else None
    images = None
    if not rules.image_index:
        images = "noimageindex", rules.because("noimageindex")
    return Effects(items, images, links, is_expiring=_is_expiring(rules, now))


def _denied_links(
    settings: RepSettings, response: Response, rules: IndexingRules
) -> Statement | None:
    if rules.follow or settings.nofollow != "drop" or not has_document(response):
        return None
    return rules.because("nofollow")


def _is_expiring(rules: IndexingRules, now: datetime) -> bool:
    return rules.unavailable_after is not None and now <= rules.unavailable_after


def is_success(response: Response) -> bool:
    """Whether *response* has a 2xx status. The indexing rules of other responses (error pages, redirects,
    a 304) have no effect, because such a response is not a page that could be in an index.
    """
    return 200 <= response.status < 300


def has_document(response: Response) -> bool:
    """Whether *response* is a document, so that its indexing rules have an effect. The indexing rules of
    data are only exposed and recorded.

    Without a Content-Type, the class of the response, which Scrapy has chosen, decides. A robots.txt
    that a SitemapSpider reads counts as data, although it is plain text.
    """
    if is_robotstxt(response.url):
        return False
    declared = _media_type(response.headers)
    types = (name for kind, name in _TYPES_OF_CLASSES if isinstance(response, kind))
    return is_document(declared or next(types, ""), response.body)


def _media_type(headers: Headers) -> str:
    """Return the media type of the Content-Type in lower case; empty if there is none."""
    content_type = headers.get(b"Content-Type") or b""
    name = content_type.partition(b";")[0].partition(b",")[0]
    return name.decode("latin-1").strip().lower() if b"/" in name else ""
