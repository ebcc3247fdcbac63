"""Determines how a response's indexing rules and usage preferences affect its items, images and links."""

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

    # A reason why something is denied: the name of an indexing rule (such as "noindex") or of a disallowed purpose, and
    # the site's statement on which the denial is based.
    Denied: TypeAlias = tuple[str, Because]

_TYPES_OF_CLASSES = (
    (HtmlResponse, "text/html"),
    (XmlResponse, "application/xml"),
    (JsonResponse, "application/json"),
    (TextResponse, "text/plain"),
)


class Effects(NamedTuple):
    """The effects of a response's indexing rules and usage preferences, as the crawl's settings define them."""

    items: Denied | None = None
    """The reason to drop items; None if items are kept."""

    images: Denied | None = None
    """The reason to remove image URLs from items; None if image URLs are kept."""

    links: Statement | None = None
    """The statement that forbids following links; None if links are followed."""

    noted: tuple[Denied, ...] = ()
    """The prohibitions, such as ``noindex``, to report for each item if ``REP_NOINDEX`` or ``REP_USAGE`` is
    ``"annotate"``. The items are kept. Empty with other settings."""

    restrictions: dict[str, bool | int | str] | None = None
    """The restrictions to write into items, by name, such as ``{"index": False}``. None if ``REP_NOINDEX`` is not
    ``"annotate"``, or if no restrictions apply to the response."""

    usage: dict[str, dict[str, bool]] | None = None
    """The disallowed purposes to write into items, such as ``{"usage": {"train-ai": False}}``. None if ``REP_USAGE`` is
    not ``"annotate"``, or if no purpose is disallowed.

    The key ``"usage"`` contains the purposes that are disallowed for the page. The key ``"usage_of_images"`` contains
    the purposes that are disallowed only for images of the page. A key without purposes is left out."""

    is_expiring: bool = False
    """Whether the page has an ``unavailable_after`` date in the future."""


NO_EFFECT = Effects()
"""The effects of a response without restrictions. Nothing is dropped or annotated. Most responses are of this kind."""


def effects(
    settings: RepSettings,
    response: Response,
    rules: IndexingRules | None,
    preferences: UsagePreferences,
    purposes: Sequence[str],
    *,
    is_exempt: bool = False,
) -> Effects:
    """Return the effects that the indexing *rules* and usage *preferences* of *response* have.

    *rules* is None if the indexing rules of *response* were not parsed; then only usage preferences can have an effect.
    *purposes* are the purposes of the request, or of the crawl if the request has no purposes of its own. *is_exempt*
    is whether the request is exempt from noindex by the meta key ``dont_obey_noindex``.
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
    """Return the effects of *rules* on *response* if ``REP_NOINDEX`` is ``"annotate"``: the restrictions of the page
    are written into its items. If *is_exempt* is True (the request has the meta key ``dont_obey_noindex``), nothing is
    written into items, and only nofollow can have an effect.
    """
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
    """Return the effects of *rules* on *response* if ``REP_NOINDEX`` is ``"drop"`` or ``"ignore"``. (If it is
    ``"annotate"``, :func:`_annotation` returns the effects.) If *is_exempt* is True, or ``REP_NOINDEX`` is
    ``"ignore"``, only nofollow can have an effect.
    """
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
    """Whether *response* has a 2xx status. Indexing rules have an effect only on these responses, because an
    error page, a redirect or a 304 cannot be in an index.
    """
    return 200 <= response.status < 300


def has_document(response: Response) -> bool:
    """Whether *response* is a document, such as HTML, PDF or an image, and not data, such as JSON. Only the
    indexing rules of documents drop items and links. The indexing rules of data are only recorded, and spiders can
    read them.

    The Content-Type decides. Without a Content-Type, the response class that Scrapy chose decides. A
    robots.txt that a SitemapSpider reads counts as data, although it is plain text.
    """
    if is_robotstxt(response.url):
        return False
    declared = _media_type(response.headers)
    types = (name for kind, name in _TYPES_OF_CLASSES if isinstance(response, kind))
    return is_document(declared or next(types, ""), response.body)


def _media_type(headers: Headers) -> str:
    """Return the media type in the Content-Type header, in lower case. Return an empty string if the header is missing
    or invalid.
    """
    content_type = headers.get(b"Content-Type") or b""
    name = content_type.partition(b";")[0].partition(b",")[0]
    return name.decode("latin-1").strip().lower() if b"/" in name else ""
